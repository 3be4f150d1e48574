package keeper

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/getpioneer/pioneer-super/sandbox"
	"github.com/getpioneer/pioneer-super/supervisor/control"
)

// holderTimeout bounds one question to a holder, which waits for nothing but the kernel.
const holderTimeout = 10 * time.Second

// HolderOrder is one frame from supervisor to holder; exactly one member is set.
type HolderOrder struct {
	// Keeper starts a keeper for that tree. Its socket and the tree's directory come with it.
	Keeper string `json:"keeper,omitempty"`
	Kind   string `json:"kind,omitempty"`
	// Listen opens a socket in the session's network namespace.
	Listen *Listen `json:"listen,omitzero"`
}

// Listen is a socket to open: "tcp" or "udp", and an address as net.Listen takes it.
type Listen struct {
	Network string `json:"network"`
	Address string `json:"address"`
}

// HolderReport answers an order, and is a holder's first word. The socket that was opened
// comes with it.
type HolderReport struct {
	PID    int    `json:"pid,omitempty"`
	Failed string `json:"failed,omitempty"`
}

// HolderMain is the entry of the process that owns what the tools of a session share: their network
// namespace, in which there is a loopback interface and nothing else. It runs no command.
// The keepers that it starts are children of its parent, and live in its namespaces.
func HolderMain() int {
	runtime.LockOSThread()
	signal.Notify(make(chan os.Signal, 1), unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGPIPE, unix.SIGUSR1, unix.SIGUSR2)
	conn, err := control.FromFile(os.NewFile(controlFD, "supervisor"))
	if err != nil {
		return 125
	}
	first := HolderReport{PID: os.Getpid()}
	if err := sandbox.RaiseLoopback(); err != nil {
		first = HolderReport{Failed: err.Error()}
	}
	if conn.Send(first) != nil || first.Failed != "" {
		return 125
	}
	for {
		var o HolderOrder
		files, err := conn.RecvFiles(&o, 2)
		if err != nil {
			return 0
		}
		report, socket := obeyHolder(o, files)
		closeAll(files)
		if socket != nil {
			conn.Send(report, socket)
			socket.Close()
		} else {
			conn.Send(report)
		}
	}
}

func obeyHolder(o HolderOrder, files []*os.File) (HolderReport, *os.File) {
	switch {
	case o.Keeper != "" && len(files) == 2:
		pid, err := ForkKeeper(o.Keeper, o.Kind, files[0], files[1], unix.CLONE_PARENT)
		if err != nil {
			return HolderReport{Failed: err.Error()}, nil
		}
		return HolderReport{PID: pid}, nil
	case o.Listen != nil:
		socket, err := listen(o.Listen)
		if err != nil {
			return HolderReport{Failed: err.Error()}, nil
		}
		return HolderReport{PID: os.Getpid()}, socket
	}
	return HolderReport{Failed: "unknown order"}, nil
}

func listen(l *Listen) (*os.File, error) {
	switch l.Network {
	case "tcp":
		open, err := net.Listen("tcp", l.Address)
		if err != nil {
			return nil, err
		}
		defer open.Close()
		return open.(*net.TCPListener).File()
	case "udp":
		open, err := net.ListenPacket("udp", l.Address)
		if err != nil {
			return nil, err
		}
		defer open.Close()
		return open.(*net.UDPConn).File()
	}
	return nil, fmt.Errorf("network %q: expected tcp or udp", l.Network)
}

// ForkKeeper starts a keeper of that tree and kind whose socket is end. flags are
// clone(2)'s, beyond those of a plain fork.
func ForkKeeper(tree, kind string, end, dir *os.File, flags uintptr) (int, error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return 0, err
	}
	defer null.Close()
	argv := []string{KeeperName, tree}
	if kind != Plain {
		argv = append(argv, kind)
	}
	pid, err := syscall.ForkExec("/proc/self/exe", argv, &syscall.ProcAttr{
		Files: []uintptr{null.Fd(), null.Fd(), null.Fd(), end.Fd(), dir.Fd()},
		Sys:   &syscall.SysProcAttr{Setsid: true, Cloneflags: flags},
	})
	return pid, os.NewSyscallError("fork", err)
}

// Holder is the supervisor's side of a holder. Not safe for concurrent use.
type Holder struct {
	PID  int
	conn *control.Conn
}

// ForkHolder starts a holder of that tree. The caller is its parent and waits for it; the function
// returns before it is ready: see [Holder.Ready].
func ForkHolder(tree string) (*Holder, error) {
	ours, theirs, err := control.Pair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	conn, err := control.FromFile(ours)
	if err != nil {
		return nil, err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		conn.Close()
		return nil, err
	}
	defer null.Close()
	attr := &syscall.SysProcAttr{Setsid: true}
	sandbox.NetworkNamespace(attr)
	pid, err := syscall.ForkExec("/proc/self/exe", []string{HolderName, tree}, &syscall.ProcAttr{
		Dir: "/", Files: []uintptr{null.Fd(), null.Fd(), null.Fd(), theirs.Fd()}, Sys: attr,
	})
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("network namespace of a session: %w", err)
	}
	return &Holder{PID: pid, conn: conn}, nil
}

// Ready waits for the holder's first word.
func (h *Holder) Ready() error {
	h.conn.Unix().SetReadDeadline(time.Now().Add(holderTimeout))
	var first HolderReport
	err := h.conn.Recv(&first)
	if err == nil && first.Failed != "" {
		err = errors.New(first.Failed)
	}
	if err != nil {
		return fmt.Errorf("network namespace of a session: %w", err)
	}
	return nil
}

// Keeper starts a keeper as a child of the caller, in the session's network namespace, and
// returns its number.
func (h *Holder) Keeper(tree, kind string, end, dir *os.File) (int, error) {
	report, files, err := h.ask(HolderOrder{Keeper: tree, Kind: kind}, end, dir)
	closeAll(files)
	return report.PID, err
}

// Listen opens a socket in the session's network namespace: network is "tcp" or "udp".
func (h *Holder) Listen(network, address string) (*os.File, error) {
	_, files, err := h.ask(HolderOrder{Listen: &Listen{network, address}})
	if err != nil {
		return nil, err
	}
	if len(files) != 1 {
		closeAll(files)
		return nil, errors.New("the holder of the session's network sent no socket")
	}
	return files[0], nil
}

// Conn is the connection to the holder, for who closes it when all ends.
func (h *Holder) Conn() *control.Conn { return h.conn }

// Close lets the holder go. What it started lives on.
func (h *Holder) Close() error { return h.conn.Close() }

func (h *Holder) ask(o HolderOrder, files ...*os.File) (HolderReport, []*os.File, error) {
	var report HolderReport
	h.conn.Unix().SetDeadline(time.Now().Add(holderTimeout))
	err := h.conn.Send(o, files...)
	var got []*os.File
	if err == nil {
		got, err = h.conn.RecvFiles(&report, 1)
	}
	if err == nil && report.Failed != "" {
		err = errors.New(report.Failed)
	}
	if err != nil {
		closeAll(got)
		return report, nil, fmt.Errorf("the holder of the session's network: %w", err)
	}
	return report, got, nil
}

// TryRooms finds out whether commands can have namespaces and views on this host, by making them.
// It starts three processes and waits for them.
func TryRooms() error {
	h, err := ForkHolder("trial")
	if err != nil {
		return err
	}
	defer waitFor(h.PID)
	defer h.Close()
	if err := h.Ready(); err != nil {
		return err
	}
	ours, theirs, err := control.Pair()
	if err != nil {
		return err
	}
	defer theirs.Close()
	conn, err := control.FromFile(ours)
	if err != nil {
		return err
	}
	defer conn.Close()
	dir, err := os.Open("/")
	if err != nil {
		return err
	}
	defer dir.Close()
	pid, err := h.Keeper("trial", Trial, theirs, dir)
	if err != nil {
		return err
	}
	defer waitFor(pid)
	theirs.Close()
	conn.Unix().SetReadDeadline(time.Now().Add(holderTimeout))
	var first Report
	switch err := conn.Recv(&first); {
	case err != nil:
		return fmt.Errorf("a trial of namespaces: %w", err)
	case first.Failed != nil:
		return errors.New(first.Failed.Reason)
	}
	return nil
}

func waitFor(pid int) {
	for {
		if _, err := unix.Wait4(pid, nil, unix.WALL, nil); !errors.Is(err, unix.EINTR) {
			return
		}
	}
}
