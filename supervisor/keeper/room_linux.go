package keeper

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/getpioneer/pioneer-super/sandbox"
	"github.com/getpioneer/pioneer-super/supervisor/control"
)

// stageFD is the stage's socket in a room, which only hands it on.
const stageFD = 4

// RoomOrder is one frame from keeper to room.
type RoomOrder struct {
	// Enter makes the profile's view and moves everything in the room into it.
	Enter *sandbox.Profile `json:"enter,omitzero"`
	// Terminal opens a pseudo-terminal of the view and starts a new stage that has it as
	// its controlling terminal. The new stage's socket comes with the order.
	Terminal *Size `json:"terminal,omitzero"`
}

// Size is that of a terminal.
type Size struct {
	Rows uint16 `json:"rows"`
	Cols uint16 `json:"cols"`
}

// RoomReport is one frame from room to keeper; exactly one member is set.
type RoomReport struct {
	// Ready: the stage waits. A descriptor of its process comes with it.
	Ready bool `json:"ready,omitempty"`
	// Entered: the view is what there is now.
	Entered bool `json:"entered,omitempty"`
	// Terminal: master and slave of the terminal, and the process of the new stage, come
	// with it. The name is the slave's in the view.
	Terminal string      `json:"terminal,omitempty"`
	Stage    *StageState `json:"stage,omitzero"`
	Failed   string      `json:"failed,omitempty"`
}

// StageState is what wait4 said of the stage, or of what it became.
type StageState struct {
	Status uint32 `json:"status"`
	// Alone: no other process of the room was left when it ended.
	Alone bool `json:"alone,omitempty"`
}

// room is the state of the first process of a command's namespaces. It makes the view, is parent
// of the stage and of every orphan, and ends when nothing is left, or with its
// keeper: the kernel then ends all that is in the room.
type room struct {
	conn  *control.Conn
	stage int
}

// RoomMain is the room's entry.
func RoomMain() int {
	runtime.LockOSThread() // children carry a parent-death signal, tied to the thread that forked them
	signal.Notify(make(chan os.Signal, 1), unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM,
		unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU, unix.SIGPIPE, unix.SIGUSR1, unix.SIGUSR2)
	conn, err := control.FromFile(os.NewFile(controlFD, "keeper"))
	if err != nil {
		return 125
	}
	r := &room{conn: conn}
	end := os.NewFile(stageFD, "stage")
	err = r.start(end, nil)
	end.Close()
	if err != nil {
		conn.Send(RoomReport{Failed: err.Error()})
		return 125
	}
	process, err := processFile(r.stage)
	if err != nil {
		return 125
	}
	orders := make(chan roomOrder)
	go readRoomOrders(conn, orders)
	warmRoom()
	if err := conn.Send(RoomReport{Ready: true}, process); err != nil {
		return 125
	}
	process.Close()
	deaths := make(chan death)
	go reap(deaths)
	for {
		select {
		case o := <-orders:
			if o.err != nil {
				return 0 // the keeper is gone, and with this process everything here
			}
			r.obey(o)
		case d := <-deaths:
			switch {
			case d.none:
				return 0
			case d.pid == r.stage:
				r.conn.Send(RoomReport{Stage: &StageState{Status: uint32(d.status), Alone: !d.status.Stopped() && noChild()}})
			}
		}
	}
}

type roomOrder struct {
	RoomOrder
	files []*os.File
	err   error
}

func readRoomOrders(conn *control.Conn, out chan<- roomOrder) {
	for {
		var o roomOrder
		o.files, o.err = conn.RecvFiles(&o.RoomOrder, 1)
		out <- o
		if o.err != nil {
			return
		}
	}
}

func (r *room) obey(o roomOrder) {
	defer closeAll(o.files)
	switch {
	case o.Enter != nil:
		if err := o.Enter.Enter(); err != nil {
			r.conn.Send(RoomReport{Failed: err.Error()})
			return
		}
		r.conn.Send(RoomReport{Entered: true})
	case o.Terminal != nil && len(o.files) == 1:
		if err := r.terminal(o.Terminal, o.files[0]); err != nil {
			r.conn.Send(RoomReport{Failed: err.Error()})
		}
	default:
		r.conn.Send(RoomReport{Failed: "unknown order"})
	}
}

// terminal replaces the stage by one that has a terminal of the view.
func (r *room) terminal(size *Size, end *os.File) error {
	master, slave, err := openTerminal(size.Rows, size.Cols)
	if err != nil {
		return fmt.Errorf("pseudo-terminal: %w", err)
	}
	defer master.Close()
	defer slave.Close()
	// This process leads its session; what it forks from now on has the terminal.
	if err := unix.IoctlSetInt(int(slave.Fd()), unix.TIOCSCTTY, 0); err != nil {
		return fmt.Errorf("controlling terminal: %w", err)
	}
	if err := r.start(end, slave); err != nil {
		return err
	}
	process, err := processFile(r.stage)
	if err != nil {
		return err
	}
	defer process.Close()
	return r.conn.Send(RoomReport{Terminal: slave.Name()}, master, slave, process)
}

// start starts the stage. An earlier one ends with its socket, which its keeper closes.
func (r *room) start(end, terminal *os.File) (err error) {
	r.stage, err = forkStage(end, terminal)
	return err
}

// processFile names a child that was not reaped for who lives in another process namespace.
func processFile(pid int) (*os.File, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil, os.NewSyscallError("pidfd_open", err)
	}
	return os.NewFile(uintptr(fd), "process"), nil
}

func noChild() bool {
	err := unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
	return errors.Is(err, unix.ECHILD)
}

// chamber is the keeper's side of its room.
type chamber struct {
	pid     int
	conn    *control.Conn
	replies chan roomReply
	// process is the stage, or what it became, -1 for none.
	process *os.File
}

type roomReply struct {
	RoomReport
	files []*os.File
	err   error
}

// openRoom starts a room of that tree and waits for its stage.
func openRoom(tree string) (*chamber, stage, error) {
	none := stage{}
	ours, theirs, err := control.Pair()
	if err != nil {
		return nil, none, err
	}
	defer theirs.Close()
	conn, err := control.FromFile(ours)
	if err != nil {
		return nil, none, err
	}
	stageOurs, stageTheirs, err := control.Pair()
	if err != nil {
		return nil, none, err
	}
	defer stageTheirs.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, none, err
	}
	defer null.Close()
	attr := &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	sandbox.Namespaces(attr)
	pid, err := syscall.ForkExec("/proc/self/exe", []string{RoomName, tree}, &syscall.ProcAttr{
		Dir: "/", Files: []uintptr{null.Fd(), null.Fd(), null.Fd(), theirs.Fd(), stageTheirs.Fd()}, Sys: attr,
	})
	if err != nil {
		return nil, none, fmt.Errorf("namespaces of a command: %w", err)
	}
	// Held here, the end of a room that says nothing would never be seen.
	theirs.Close()
	stageTheirs.Close()
	c := &chamber{pid: pid, conn: conn, replies: make(chan roomReply, 1)}
	var ready RoomReport
	files, err := conn.RecvFiles(&ready, 1)
	if err == nil && (!ready.Ready || len(files) != 1) {
		err = errors.New(ready.Failed)
		closeAll(files)
	}
	if err != nil {
		return nil, none, fmt.Errorf("first process of a command's namespaces: %w", err)
	}
	c.process = files[0]
	s := stage{}
	if s.conn, err = control.FromFile(stageOurs); err != nil {
		return nil, none, err
	}
	s.pid, err = numberOf(c.process)
	return c, s, err
}

// tryRoom opens a room and makes a view in it. What it started ends with this process.
func tryRoom() error {
	c, _, err := openRoom("trial")
	if err != nil {
		return err
	}
	profile := sandbox.Trial(sandbox.Probe())
	if err := c.conn.Send(RoomOrder{Enter: &profile}); err != nil {
		return errRoomGone
	}
	var r RoomReport
	switch err := c.conn.Recv(&r); {
	case err != nil:
		return errRoomGone
	case !r.Entered:
		return errors.New(r.Failed)
	}
	return nil
}

// numberOf is the process number, in this process's namespace, of what a descriptor names.
func numberOf(process *os.File) (int, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", process.Fd()))
	if err != nil {
		return 0, err
	}
	pid := 0
	for line := range strings.Lines(string(text)) {
		if _, err := fmt.Sscanf(line, "Pid:\t%d", &pid); err == nil {
			break
		}
	}
	if pid <= 0 {
		return 0, errors.New("the stage of a command is gone")
	}
	return pid, nil
}

// listen hands what the room says on: states of the stage as deaths, everything else as the
// answer to the one question that is open. It returns when the room has ended.
func (c *chamber) listen(deaths chan<- death) {
	defer close(c.replies)
	for {
		var r roomReply
		r.files, r.err = c.conn.RecvFiles(&r.RoomReport, 3)
		if r.err == nil && r.Stage != nil {
			deaths <- death{stage: true, status: unix.WaitStatus(r.Stage.Status), alone: r.Stage.Alone}
			continue
		}
		if r.err != nil {
			return
		}
		c.replies <- r
	}
}

// reap waits for the room as this process's only child, and says that nothing is left once it is gone
// and all that it said has been handed on. The kernel ends the first process of a process
// namespace last.
func (c *chamber) reap(deaths chan<- death) {
	said := make(chan struct{})
	go func() {
		c.listen(deaths)
		close(said)
	}()
	own := make(chan death)
	go reap(own)
	for d := range own {
		if d.none {
			<-said
			deaths <- d
			return
		}
	}
}

// ask sends one order and returns its answer.
func (c *chamber) ask(o RoomOrder, files ...*os.File) (roomReply, error) {
	if err := c.conn.Send(o, files...); err != nil {
		return roomReply{}, errRoomGone
	}
	r, ok := <-c.replies
	switch {
	case !ok:
		return roomReply{}, errRoomGone
	case r.Failed != "":
		closeAll(r.files)
		return roomReply{}, errors.New(r.Failed)
	}
	return r, nil
}

var errRoomGone = fmt.Errorf("the first process of the command's namespaces ended; nothing ran: %w", io.ErrUnexpectedEOF)

// terminal gives the room's stage a terminal, and returns it with the stage that has it.
func (c *chamber) terminal(rows, cols uint16) (master, slave *os.File, s stage, err error) {
	ours, theirs, err := control.Pair()
	if err != nil {
		return nil, nil, s, err
	}
	defer theirs.Close()
	if s.conn, err = control.FromFile(ours); err != nil {
		return nil, nil, s, err
	}
	r, err := c.ask(RoomOrder{Terminal: &Size{rows, cols}}, theirs)
	if err == nil && (r.Terminal == "" || len(r.files) != 3) {
		closeAll(r.files)
		err = errors.New("the room sent no terminal")
	}
	if err != nil {
		return nil, nil, s, err
	}
	c.process.Close()
	c.process = r.files[2]
	if s.pid, err = numberOf(c.process); err != nil {
		closeAll(r.files[:2])
		return nil, nil, s, err
	}
	slaveFD, err := unix.FcntlInt(r.files[1].Fd(), unix.F_DUPFD_CLOEXEC, 4)
	r.files[1].Close()
	if err != nil {
		r.files[0].Close()
		return nil, nil, s, err
	}
	return r.files[0], os.NewFile(uintptr(slaveFD), r.Terminal), s, nil
}
