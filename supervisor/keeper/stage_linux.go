package keeper

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/getpioneer/pioneer-super/sandbox"
	"github.com/getpioneer/pioneer-super/supervisor/control"
)

// Spec is what a stage execs. Descriptors 0, 1, 2, without Dir the directory and, with
// Channel, the way to the supervisor come with it.
type Spec struct {
	Path       string          `json:"path"`
	Argv       []string        `json:"argv"`
	Env        []string        `json:"env"`
	Umask      int             `json:"umask"`
	Profile    sandbox.Profile `json:"profile"`
	Unconfined bool            `json:"unconfined,omitempty"`
	Channel    bool            `json:"channel,omitempty"`
	// Dir is the directory in a view: what is at its path there must be this very one.
	Dir *File `json:"dir,omitzero"`
}

// StageReport is a frame from stage to keeper.
type StageReport struct {
	// Confined: the restrictions are on and verified; execve is next.
	Confined bool    `json:"confined,omitempty"`
	Failed   *Failed `json:"failed,omitzero"`
}

// channelFD is the number of the way to the supervisor in what runs.
const channelFD = 3

// StageMain is the stage's entry: the process that becomes the command. It puts
// the restrictions on itself, in a thread of its own, and execs from that thread,
// so that neither the keeper nor any of its threads is ever restricted.
func StageMain() int {
	runtime.LockOSThread()
	conn, err := control.FromFile(os.NewFile(controlFD, "keeper"))
	if err != nil {
		return 125
	}
	warmStage()
	var spec Spec
	files, err := conn.RecvFiles(&spec, 5)
	if err != nil {
		if errors.Is(err, io.EOF) {
			return 0
		}
		return 125
	}
	failed := become(conn, spec, files)
	conn.Send(StageReport{Failed: failed})
	return 125
}

func become(conn *control.Conn, spec Spec, files []*os.File) *Failed {
	fail := func(class string, format string, args ...any) *Failed {
		return &Failed{Class: class, Reason: fmt.Sprintf(format, args...)}
	}
	want := 3
	if spec.Dir == nil {
		want++
	}
	if spec.Channel {
		want++
	}
	if len(files) != want {
		return fail(control.ClassFailed, "stage: %d descriptors came, expected %d", len(files), want)
	}
	// Descriptors that arrive are numbered from 4 up, so none of the targets is
	// overwritten before it is used.
	for i := range 3 {
		if err := unix.Dup3(int(files[i].Fd()), i, 0); err != nil {
			return fail(control.ClassFailed, "descriptor %d: %v", i, err)
		}
	}
	if spec.Dir != nil {
		if failed := enterDirectory(spec.Dir); failed != nil {
			return failed
		}
	} else if err := unix.Fchdir(int(files[3].Fd())); err != nil {
		return fail(control.ClassFailed, "directory: %v", err)
	}
	env := spec.Env
	if spec.Channel {
		if err := unix.Dup3(int(files[want-1].Fd()), channelFD, 0); err != nil {
			return fail(control.ClassFailed, "descriptor %d: %v", channelFD, err)
		}
		env = append(env, "PIONEER_SUPER_FD="+strconv.Itoa(channelFD))
	}
	first := channelFD
	if spec.Channel {
		first++
	}
	// Marked instead of closed: the socket to the keeper must outlive this, and
	// its end at execve is the sign that the command runs.
	if err := unix.CloseRange(uint(first), ^uint(0)>>1, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fail(control.ClassFailed, "close_range: %v", err)
	}
	unix.Umask(spec.Umask & 0o777)
	if spec.Channel {
		spec.Profile.Descriptors = append(spec.Profile.Descriptors, channelFD)
	}
	if !spec.Unconfined {
		if err := spec.Profile.Confine(); err != nil {
			return fail(control.ClassFailed, "sandbox: %v; nothing ran", err)
		}
	}
	if err := conn.Send(StageReport{Confined: true}); err != nil {
		return fail(control.ClassFailed, "keeper: %v", err)
	}
	err := syscall.Exec(spec.Path, spec.Argv, env)
	switch {
	case errors.Is(err, unix.ENOENT) && !spec.Unconfined:
		return fail(control.ClassNotFound, "%s: not there in this sandbox: outside of what the session may read, or missing, or the interpreter that it names is", spec.Path)
	case errors.Is(err, unix.ENOENT):
		return fail(control.ClassNotFound, "%s: no such file, or the interpreter that it names is missing", spec.Path)
	case errors.Is(err, unix.EACCES):
		return fail(control.ClassRefused, "%s: permission denied: not executable, or not readable in this sandbox", spec.Path)
	case errors.Is(err, unix.ENOEXEC):
		return fail(control.ClassRefused, "%s: not a program: it has no interpreter line", spec.Path)
	}
	return fail(control.ClassFailed, "%s: %v", spec.Path, err)
}

// enterDirectory goes to a directory of the view and refuses one that only has the right name.
func enterDirectory(dir *File) *Failed {
	err := unix.Chdir(dir.Real)
	var st unix.Stat_t
	if err == nil {
		err = unix.Stat(".", &st)
	}
	if err != nil {
		return &Failed{Class: control.ClassFailed, Reason: fmt.Sprintf("directory %s: %v in this sandbox; use the workspace", dir.Real, err)}
	}
	if uint64(st.Dev) != dir.Dev || st.Ino != dir.Ino {
		return &Failed{Class: control.ClassFailed, Reason: fmt.Sprintf("%s is another directory in this sandbox than outside; use the workspace", dir.Real)}
	}
	return nil
}
