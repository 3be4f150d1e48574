package keeper

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/getpioneer/pioneer-super/registry"
	"github.com/getpioneer/pioneer-super/supervisor/control"
	"github.com/getpioneer/pioneer-super/supervisor/reaper"
)

// handTimeout bounds the time from the supervisor's order to the client's
// streams: a client that is stopped just then must not hold a keeper for ever.
const handTimeout = 30 * time.Second

// stoppedTimeout bounds how long a client may take to hear that its command was
// stopped.
const stoppedTimeout = time.Second

// readerIdle bounds how long a reader may take nothing of what a command wrote,
// after its end, before the rest is dropped.
const readerIdle = 10 * time.Second

// keeper is the state of the one command that this process runs. Everything in
// it belongs to the main goroutine; readers and the reaper only send to it.
type keeper struct {
	ctl  *control.Conn
	tree *os.File

	dir     *os.File // held from prepare to start
	dirID   File
	stage   stage
	room    *chamber // nil: the command lives in the host's namespaces
	command string

	order    *Run
	channel  *os.File
	plumbing *plumbing
	running  bool   // execve succeeded
	early    *death // of a leader that ended before that was seen

	leader    int // pid, 0 before the start and after its end
	leaderEnd *Leader
	terminal  bool
	client    *control.Conn
	killed    int
}

type stage struct {
	pid  int
	conn *control.Conn
}

type death struct {
	pid    int
	status unix.WaitStatus
	none   bool // no child is left
	// stage: it is the stage or what it became, as the room says, which is its parent; alone:
	// nothing else of the room was left then.
	stage, alone bool
}

// Main is the keeper's entry. It returns when its command is over, or when the
// supervisor is gone and everything that it started has been ended.
func Main() int {
	// Children carry a parent-death signal, which is tied to the thread that
	// forked them: this one lives as long as the process.
	runtime.LockOSThread()
	// Handlers instead of SIG_IGN: an ignored signal would stay ignored in what we
	// start, a handled one does not.
	signal.Notify(make(chan os.Signal, 1), unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM,
		unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU, unix.SIGPIPE, unix.SIGUSR1, unix.SIGUSR2)
	ctl, err := control.FromFile(os.NewFile(controlFD, "supervisor"))
	if err != nil {
		return 125
	}
	unix.CloseOnExec(treeFD)
	k := &keeper{ctl: ctl, tree: os.NewFile(treeFD, "tree")}
	if err := reaper.BecomeSubreaper(); err != nil {
		return 125
	}
	switch kind := strings.Join(os.Args[min(2, len(os.Args)):], " "); kind {
	case Plain:
		k.stage, err = startStage(nil)
	case WithRoom:
		k.room, k.stage, err = openRoom(os.Args[1])
	case Trial:
		if err = tryRoom(); err == nil {
			k.ctl.Send(Report{Ready: &Ready{PID: os.Getpid()}})
			return 0
		}
	default:
		err = fmt.Errorf("unknown kind of keeper %q", kind)
	}
	if err != nil {
		k.ctl.Send(Report{Failed: &Failed{Class: control.ClassFailed, Reason: err.Error()}})
		return 125
	}
	deaths := make(chan death)
	if k.room != nil {
		go k.room.reap(deaths)
	} else {
		go reap(deaths)
	}
	orders := make(chan order)
	go readOrders(ctl, orders)
	warmKeeper()
	if err := k.ctl.Send(Report{Ready: &Ready{PID: os.Getpid(), Stage: k.stage.pid}}); err != nil {
		return k.lost(deaths)
	}
	return k.loop(orders, deaths)
}

type order struct {
	Order
	files []*os.File
	err   error
}

func readOrders(ctl *control.Conn, out chan<- order) {
	for {
		var o order
		o.files, o.err = ctl.RecvFiles(&o.Order, 2)
		out <- o
		if o.err != nil {
			return
		}
	}
}

// reap is the only waiter of this process. It ends when no child is left.
func reap(out chan<- death) {
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WUNTRACED|unix.WALL, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			out <- death{none: true}
			return
		}
		out <- death{pid: pid, status: status}
	}
}

func (k *keeper) loop(orders <-chan order, deaths <-chan death) int {
	wires := make(chan Wire)
	hands := make(chan handed, 1)
	execs := make(chan *Failed, 1)
	var force <-chan time.Time
	give := func(failed *Failed) int {
		k.ctl.Send(Report{Failed: failed})
		for reaper.Clear(nil, time.Minute) > 0 {
		}
		return 0
	}
	for {
		select {
		case o := <-orders:
			switch {
			case o.err != nil:
				return k.lost(deaths)
			case o.Prepare != nil:
				k.prepare(o.Prepare)
			case o.Lookup != nil:
				k.found(k.lookup(o.Lookup))
			case o.Run != nil:
				if failed := k.take(o.Run, o.files, hands); failed != nil {
					return give(failed)
				}
			case o.End != nil && !k.running:
				return give(&Failed{Class: control.ClassFailed, Reason: "stopped before it started"})
			case o.End != nil:
				force = k.end(o.End)
			}
		case h := <-hands:
			if failed := k.start(h, execs); failed != nil {
				return give(failed)
			}
		case failed := <-execs:
			if failed != nil {
				k.leader = 0
				return give(failed)
			}
			k.started(wires)
		case w := <-wires:
			k.signalLeader(unix.Signal(w.Signal))
		case <-force:
			force = k.force()
		case d := <-deaths:
			if d.none && !k.running {
				if k.leader == 0 {
					return give(failure("the process that was to become the command was killed before it started"))
				}
				// The word about execve is still to come.
				if failed := <-execs; failed != nil {
					return give(failed)
				}
				k.started(wires)
			}
			if d.none {
				if k.room != nil && k.leader != 0 {
					// Its room was killed, and the kernel killed what was in it.
					k.ended(Leader{Code: 128 + int(unix.SIGKILL), Signal: int(unix.SIGKILL)})
				}
				k.finish("wait4")
				k.handOn(orders)
				return 0
			}
			k.died(d)
		}
	}
}

// lost ends everything because the supervisor is gone.
func (k *keeper) lost(deaths <-chan death) int {
	reaped := make(chan struct{})
	go func() {
		defer close(reaped)
		for d := range deaths {
			if d.none {
				return
			}
			if !d.status.Stopped() {
				k.killed++
			}
		}
	}()
	for {
		reaper.Clear(nil, time.Second)
		select {
		case <-reaped:
			k.writeExit("supervisor lost")
			return 0
		case <-time.After(5 * time.Millisecond):
			// One was not seen: only the end of all children is proof.
		}
	}
}

func (k *keeper) died(d death) {
	if d.pid != k.leader && !d.stage {
		return
	}
	if !k.running {
		if !d.status.Stopped() {
			k.early = &d
		}
		return
	}
	if d.status.Stopped() {
		if k.terminal && k.client != nil && d.status.StopSignal() != unix.SIGSTOP {
			// A client that reads nothing must not hold this process: it misses it.
			k.client.Unix().SetWriteDeadline(time.Now().Add(stoppedTimeout))
			if k.client.Send(Wire{Stopped: true}) != nil {
				k.client = nil
			}
		}
		return
	}
	end := Leader{Code: d.status.ExitStatus()}
	if d.status.Signaled() {
		end = Leader{Code: 128 + int(d.status.Signal()), Signal: int(d.status.Signal())}
	}
	// The kernel knows at once that no child is left; only what is there is counted.
	if alone := d.alone || k.room == nil && noChild(); !alone {
		left, _ := reaper.Descendants(k.top(), nil)
		end.Left = len(left)
	}
	k.ended(end)
}

func (k *keeper) ended(end Leader) {
	k.leader, k.leaderEnd = 0, &end
	k.ctl.Send(Report{Leader: &end})
}

// top is the process below which everything of the command is.
func (k *keeper) top() int {
	if k.room != nil {
		return k.room.pid
	}
	return os.Getpid()
}

func (k *keeper) finish(proof string) {
	if k.leaderEnd == nil {
		k.ctl.Send(Report{Failed: &Failed{Class: control.ClassFailed, Reason: "the command ended before it was started"}})
		return
	}
	k.writeExit(proof)
	k.ctl.Send(Report{Ended: &Ended{Proof: proof, Killed: k.killed, Usage: usage()}})
}

// handOn waits, with nothing left to run, for who reads what the command wrote
// through a copier of this process. The end of the session does not wait.
func (k *keeper) handOn(orders <-chan order) {
	quit := make(chan struct{})
	go func() {
		for o := range orders {
			if o.err != nil || o.End != nil {
				close(quit)
				return
			}
		}
	}()
	k.plumbing.drain(quit, readerIdle)
}

// writeExit leaves the end of the command for a supervisor that was not there.
func (k *keeper) writeExit(proof string) {
	if k.command == "" {
		return
	}
	r := registry.ExitRecord{Command: k.command, Exit: registry.Exit{Known: k.leaderEnd != nil, Proof: proof, Forced: k.killed > 0, Usage: usage()}}
	if k.leaderEnd != nil {
		r.Exit.Code, r.Exit.Signal = k.leaderEnd.Code, k.leaderEnd.Signal
	}
	// Nobody is left to tell if it cannot be written: the journal then has no end
	// for this command, which reads as unknown.
	_ = registry.WriteExit(k.tree, r)
}

// signalLeader forwards what a client may send. Stopping and continuing is for
// the whole command: a process without a terminal of its own ignores SIGTSTP.
func (k *keeper) signalLeader(sig unix.Signal) {
	switch sig {
	case unix.SIGTSTP, unix.SIGSTOP:
		reaper.SignalAll(k.top(), unix.SIGSTOP, nil)
	case unix.SIGCONT:
		reaper.SignalAll(k.top(), unix.SIGCONT, nil)
	case unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2, unix.SIGWINCH:
		if k.leader == 0 {
			return
		}
		if k.room != nil {
			unix.PidfdSendSignal(int(k.room.process.Fd()), sig, nil, 0)
			return
		}
		// Not yet reaped, so the number still is this process.
		if p, err := reaper.Look(k.leader); err == nil {
			p.Signal(sig)
		}
	}
}

func (k *keeper) end(e *End) <-chan time.Time {
	if e.GraceMS > 0 {
		sig := unix.Signal(e.Number)
		if sig == 0 {
			sig = unix.SIGTERM
		}
		reaper.SignalAll(k.top(), sig, nil)
		reaper.SignalAll(k.top(), unix.SIGCONT, nil)
	}
	return time.After(time.Duration(e.GraceMS) * time.Millisecond)
}

// force kills what is left, again and again until wait4 says that nothing is.
func (k *keeper) force() <-chan time.Time {
	n := reaper.SignalAll(k.top(), unix.SIGSTOP, nil)
	reaper.SignalAll(os.Getpid(), unix.SIGKILL, nil)
	k.killed = max(k.killed, n)
	return time.After(5 * time.Millisecond)
}

// prepare opens the directory and holds it. Magic links are not followed: they
// would lead out of what the path says.
func (k *keeper) prepare(p *Prepare) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_MAGICLINKS}
	fd, err := unix.Openat2(unix.AT_FDCWD, p.Dir, &how)
	if err != nil {
		k.ctl.Send(Report{Found: &File{Error: fmt.Sprintf("directory %s: %v", p.Dir, err)}})
		return
	}
	k.dir = os.NewFile(uintptr(fd), p.Dir)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		k.ctl.Send(Report{Found: &File{Error: fmt.Sprintf("directory %s: %v", p.Dir, err)}})
		return
	}
	real, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
	if err != nil {
		real = p.Dir
	}
	k.dirID = File{Path: p.Dir, Real: filepath.Clean(real), Dev: uint64(st.Dev), Ino: st.Ino, Kind: "dir"}
	k.found(k.dirID)
}

// found answers a question. A name that is no text cannot be shown or judged.
func (k *keeper) found(f File) {
	if !utf8.ValidString(f.Path) || !utf8.ValidString(f.Real) {
		f = File{Error: fmt.Sprintf("%q: the name is not UTF-8", f.Real)}
	}
	k.ctl.Send(Report{Found: &f})
}

// handed is what the client gave over the stream socket.
type handed struct {
	Hand
	files []*os.File
	err   error
}

// take begins a run: the client is asked for its streams, in a goroutine of its
// own, since a client that is stopped just then must not hold this process.
func (k *keeper) take(o *Run, files []*os.File, out chan<- handed) *Failed {
	want := 1
	if o.Channel {
		want = 2
	}
	if len(files) != want {
		return failure("the order came with %d descriptors, expected %d", len(files), want)
	}
	if k.order != nil || k.dir == nil {
		return failure("a keeper runs one command, in a directory that it holds")
	}
	client, err := control.FromFile(files[0])
	if err != nil {
		return failure("client: %v", err)
	}
	k.order, k.command, k.client = o, o.Command, client
	if o.Channel {
		k.channel = files[1]
	}
	go func() {
		var h handed
		client.Unix().SetReadDeadline(time.Now().Add(handTimeout))
		h.files, h.err = client.RecvFiles(&h.Hand, 4)
		client.Unix().SetReadDeadline(time.Time{})
		out <- h
	}()
	return nil
}

func failure(format string, args ...any) *Failed {
	return &Failed{Class: control.ClassFailed, Reason: fmt.Sprintf(format, args...)}
}

// start gives the stage what it is to become. Nothing ran if it returns a failure
// or if a failure comes out of execs.
func (k *keeper) start(h handed, execs chan<- *Failed) *Failed {
	defer closeAll(h.files)
	o := k.order
	if h.err != nil {
		return failure("the client handed no streams: %v", h.err)
	}
	if len(h.files) != 4 {
		return failure("the client handed %d descriptors, expected 4: 0, 1, 2 and the directory", len(h.files))
	}
	if failed := k.sameDirectory(o, h.files[3]); failed != nil {
		return failed
	}
	for _, pin := range o.Pinned {
		now := k.lookup(&Lookup{Word: pin.Word, Path: o.Path, Digest: pin.SHA256 != ""})
		if now.Dev != pin.Dev || now.Ino != pin.Ino || now.SHA256 != pin.SHA256 {
			return &Failed{Class: control.ClassRefused, Reason: pin.Word + " became another file between the decision and the start"}
		}
	}
	if (k.room != nil) != (len(o.Profile.View) > 0) {
		return failure("a profile with a view of %d mounts, and a keeper with a room: %t", len(o.Profile.View), k.room != nil)
	}
	if k.room != nil {
		if _, err := k.room.ask(RoomOrder{Enter: &o.Profile}); err != nil {
			return failure("%v; nothing ran", err)
		}
	}
	plumbing, failed := k.plumb(o, h.Hand, h.files[:3])
	if failed != nil {
		return failed
	}
	defer closeAll(plumbing.child)
	k.plumbing = plumbing
	spec := Spec{Path: o.File.Path, Argv: o.Argv, Env: o.Env, Umask: o.Umask, Profile: o.Profile, Unconfined: o.Unconfined, Channel: o.Channel}
	taken := Wire{Taken: true}
	var err error
	switch {
	case plumbing.master != nil && k.room != nil:
		k.terminal, taken.Terminal = true, true
		k.stage.conn.Close()
		k.stage = plumbing.stage
		plumbing.slave.Close()
		err = k.client.Send(taken, plumbing.master)
		plumbing.master.Close()
	case plumbing.master != nil:
		// The warm stage is in another session than this terminal: only a process
		// forked after the keeper took it has it as controlling terminal.
		k.terminal, taken.Terminal = true, true
		warm := k.stage
		k.stage, err = startStage(plumbing.slave)
		name := plumbing.slave.Name()
		plumbing.slave.Close()
		if err != nil {
			return failure("%v", err)
		}
		warm.conn.Close()
		if spec.Profile.Files {
			spec.Profile.Devices = append(spec.Profile.Devices, name, "/dev/tty")
		}
		err = k.client.Send(taken, plumbing.master)
		plumbing.master.Close()
	default:
		err = k.client.Send(taken)
	}
	if err != nil {
		return failure("the client is gone: %v", err)
	}
	files := slices.Clone(plumbing.child)
	if k.room != nil {
		// The descriptor leads to the host's view of it: the stage opens its own.
		spec.Dir = &o.Dir
	} else {
		files = append(files, k.dir)
	}
	if o.Channel {
		files = append(files, k.channel)
	}
	k.leader = k.stage.pid
	if err := k.stage.conn.Send(spec, files...); err != nil {
		return failure("stage: %v", err)
	}
	if o.Channel {
		k.channel.Close()
	}
	k.dir.Close()
	conn := k.stage.conn
	go func() { execs <- awaitExec(conn) }()
	return nil
}

// started tells everybody that the command runs.
func (k *keeper) started(wires chan<- Wire) {
	k.running = true
	k.plumbing.start()
	started := Started{PID: k.leader}
	if p, err := reaper.Look(k.leader); err == nil {
		started.Start = p.Start
	}
	k.ctl.Send(Report{Started: &started})
	go readWires(k.client, wires)
	if k.early != nil {
		k.died(*k.early)
	}
}

// sameDirectory refuses a directory that only has the right name: the client may
// live where something else is mounted over it.
func (k *keeper) sameDirectory(o *Run, handed *os.File) *Failed {
	var st unix.Stat_t
	if err := unix.Fstat(int(handed.Fd()), &st); err != nil {
		return &Failed{Class: control.ClassFailed, Reason: fmt.Sprintf("directory: %v", err)}
	}
	if o.Dir.Dev != k.dirID.Dev || o.Dir.Ino != k.dirID.Ino || uint64(st.Dev) != o.Dir.Dev || st.Ino != o.Dir.Ino {
		return &Failed{Class: control.ClassFailed, Reason: fmt.Sprintf("%s is another directory for the client than it is here; use the workspace", o.Dir.Path)}
	}
	return nil
}

// awaitExec reads what the stage says until its end of the socket closes, which
// execve does.
func awaitExec(stage *control.Conn) *Failed {
	confined := false
	for {
		var s StageReport
		err := stage.Recv(&s)
		switch {
		case errors.Is(err, io.EOF) && confined:
			return nil
		case err != nil:
			return &Failed{Class: control.ClassFailed, Reason: "the process that puts the restrictions on ended before it was done; nothing ran"}
		case s.Failed != nil:
			return s.Failed
		case s.Confined:
			confined = true
		}
	}
}

func readWires(client *control.Conn, out chan<- Wire) {
	for {
		var w Wire
		if client.Recv(&w) != nil {
			return
		}
		if w.Signal != 0 {
			out <- w
		}
	}
}

// startStage starts the process that becomes the command. With a terminal it is a
// process group of the keeper's session, in that terminal's foreground, so that
// stopping it works; without one it is a session of its own.
func startStage(terminal *os.File) (stage, error) {
	ours, theirs, err := control.Pair()
	if err != nil {
		return stage{}, err
	}
	defer theirs.Close()
	pid, err := forkStage(theirs, terminal)
	if err != nil {
		return stage{}, err
	}
	conn, err := control.FromFile(ours)
	return stage{pid: pid, conn: conn}, err
}

// forkStage starts a stage whose end of its socket is end.
func forkStage(end, terminal *os.File) (int, error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return 0, err
	}
	defer null.Close()
	ctty := 0
	if terminal != nil {
		ctty = int(terminal.Fd())
	}
	pid, err := syscall.ForkExec("/proc/self/exe", []string{StageName}, &syscall.ProcAttr{
		Files: []uintptr{null.Fd(), null.Fd(), null.Fd(), end.Fd()},
		Sys: &syscall.SysProcAttr{
			Pdeathsig:  syscall.SIGKILL,
			Setsid:     terminal == nil,
			Foreground: terminal != nil,
			Ctty:       ctty,
		},
	})
	return pid, os.NewSyscallError("fork", err)
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}
