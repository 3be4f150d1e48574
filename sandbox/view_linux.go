package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// roomCapabilities are what the processes between a namespace's making and the command's
// execve hold in it, and nowhere else: to mount, to reach through the view that they make, and
// to give the rest up.
var roomCapabilities = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_SETPCAP}

// networkCapabilities are what the owner of a network namespace holds in it: to raise its interface
// and to listen on the ports that programs expect a proxy or a resolver at.
var networkCapabilities = []uintptr{unix.CAP_NET_ADMIN, unix.CAP_NET_BIND_SERVICE}

// Namespaces sets attr to start a process as the first of its own mount, process, IPC
// and host name namespaces, in which [Profile.Enter] works. For the superuser these
// are made directly; for everybody else in a user namespace of their own, in which the
// process keeps its user and group and holds the capabilities that Enter needs.
//
// The network namespace is the caller's: a caller that is in one of its own shares it with
// everything that it starts so.
func Namespaces(attr *syscall.SysProcAttr) {
	attr.Cloneflags |= unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS
	ownUser(attr, roomCapabilities)
}

// NetworkNamespace sets attr to start a process in a network namespace of its own, and
// for everybody but the superuser in a user namespace that owns it. The process brings its
// loopback interface up with [RaiseLoopback]. It must run no command: who runs in that
// user namespace rules over all that are made in it.
func NetworkNamespace(attr *syscall.SysProcAttr) {
	attr.Cloneflags |= unix.CLONE_NEWNET
	ownUser(attr, networkCapabilities)
}

func ownUser(attr *syscall.SysProcAttr, capabilities []uintptr) {
	if os.Geteuid() == 0 && !inUserNamespace() {
		return
	}
	attr.Cloneflags |= unix.CLONE_NEWUSER
	attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: os.Geteuid(), Size: 1}}
	attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}}
	attr.AmbientCaps = capabilities
}

// inUserNamespace is true for a superuser of a part of the users only, whose number gives nothing
// outside: it needs a user namespace of its own like everybody else.
func inUserNamespace() bool {
	text, err := os.ReadFile("/proc/self/uid_map")
	return err == nil && strings.Join(strings.Fields(string(text)), " ") != "0 0 4294967295"
}

// RaiseLoopback switches the loopback interface on in the caller's network namespace. The
// kernel then gives it 127.0.0.1 and ::1.
func RaiseLoopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("loopback interface: %w", err)
	}
	defer func() { _ = unix.Close(fd) }()
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, request); err != nil {
		return fmt.Errorf("loopback interface: %w", err)
	}
	return nil
}

// Trial is a profile with a view of every kind of mount, for finding out whether this host lets
// views be made.
func Trial(h Host) Profile {
	p, _ := EnvelopeOnly(h)
	p.Backend, p.Files, p.Strict, p.Guard, p.DropCapabilities, p.Network, p.Loopback = BackendNamespaces, true, true, true, true, false, true
	p.View = []Mount{
		{Kind: MountBind, Path: "/usr", Source: "/usr"},
		{Kind: MountBind, Path: "/sys", Source: "/sys"},
		{Kind: MountFolder, Path: "/tmp"},
		{Kind: MountLink, Path: "/dev/fd", Source: "/proc/self/fd"},
		{Kind: MountDevice, Path: "/dev/null", Source: "/dev/null"},
		{Kind: MountTerminals, Path: "/dev/pts"},
		{Kind: MountMemory, Path: "/dev/shm"},
		{Kind: MountProcesses, Path: "/proc"},
	}
	return p
}

// Enter makes the view of p and moves the whole mount namespace of the caller into it:
// every process in it whose root was the host's has the view's root afterwards. The caller is
// the first process of the namespaces that [Namespaces] makes. Nothing of the host stays
// mounted but what the view shows.
//
// After an error the caller must end: it may be in neither the one nor the other.
func (p Profile) Enter() error {
	if err := p.Validate(); err != nil {
		return err
	}
	if len(p.View) == 0 {
		return errors.New("sandbox view: the profile has none")
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("sandbox view: making the host's mounts private: %w", err)
	}
	v := &view{}
	defer v.close()
	// What is shown is taken while the host is what paths lead to, and attached afterwards.
	for _, m := range p.View {
		fd, err := v.take(m)
		if err != nil {
			return fmt.Errorf("sandbox view: %s: %w", m, err)
		}
		v.taken = append(v.taken, fd)
	}
	var err error
	if v.root, err = newMount("tmpfs", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV, "mode", "0755", "size", "4m"); err != nil {
		return fmt.Errorf("sandbox view: root: %w", err)
	}
	if err := unix.MoveMount(v.root, "", unix.AT_FDCWD, "/", unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("sandbox view: root: %w", err)
	}
	for i, m := range p.View {
		if err := v.attach(m, v.taken[i]); err != nil {
			return fmt.Errorf("sandbox view: %s: %w", m, err)
		}
	}
	if err := unix.MountSetattr(v.root, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
		return fmt.Errorf("sandbox view: root: %w", err)
	}
	return v.pivot()
}

type view struct {
	root  int
	taken []int
}

func (v *view) close() {
	for _, fd := range v.taken {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
	if v.root > 0 {
		_ = unix.Close(v.root)
	}
}

// take returns what m shows as a mount that is nowhere yet, -1 for what is made in place.
func (v *view) take(m Mount) (int, error) {
	const plain = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV
	switch m.Kind {
	case MountBind:
		attr := uint64(plain)
		if !m.Write {
			attr |= unix.MOUNT_ATTR_RDONLY
		}
		return cloneMount(m.Source, attr)
	case MountDevice:
		return cloneMount(m.Source, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC)
	case MountMemory:
		return newMount("tmpfs", plain, "mode", "1777", "size", strconv.Itoa(memoryBytes))
	case MountProcesses:
		return newMount("proc", plain|unix.MOUNT_ATTR_NOEXEC)
	case MountTerminals:
		return newMount("devpts", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC, "newinstance", "", "ptmxmode", "0666", "mode", "0620")
	}
	return -1, nil
}

// cloneMount copies what is mounted at and below source, which holds no symbolic link.
func cloneMount(source string, attr uint64) (int, error) {
	place, err := openReal(source)
	if err != nil {
		return -1, err
	}
	defer func() { _ = unix.Close(place) }()
	fd, err := unix.OpenTree(place, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH|unix.AT_RECURSIVE)
	if err != nil {
		return -1, os.NewSyscallError("open_tree", err)
	}
	err = unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: attr, Propagation: unix.MS_PRIVATE})
	if err != nil {
		_ = unix.Close(fd)
		return -1, os.NewSyscallError("mount_setattr", err)
	}
	return fd, nil
}

// newMount makes a file system of kind that is mounted nowhere yet. Options are pairs; one
// without a value is a flag.
func newMount(kind string, attr int, options ...string) (int, error) {
	fs, err := unix.Fsopen(kind, unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, os.NewSyscallError("fsopen", err)
	}
	defer func() { _ = unix.Close(fs) }()
	for i := 0; i < len(options); i += 2 {
		if options[i+1] == "" {
			err = unix.FsconfigSetFlag(fs, options[i])
		} else {
			err = unix.FsconfigSetString(fs, options[i], options[i+1])
		}
		if err != nil {
			return -1, fmt.Errorf("%s %s: %w", kind, options[i], err)
		}
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return -1, fmt.Errorf("%s: %w", kind, err)
	}
	fd, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, attr)
	if err != nil {
		return -1, fmt.Errorf("%s: %w", kind, os.NewSyscallError("fsmount", err))
	}
	return fd, nil
}

func (v *view) attach(m Mount, fd int) error {
	relative := strings.TrimPrefix(m.Path, "/")
	parent, err := v.directory(path.Dir(relative))
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(parent) }()
	name := path.Base(relative)
	if m.Kind == MountLink {
		if err := unix.Symlinkat(m.Source, parent, name); err != nil && !errors.Is(err, unix.EEXIST) {
			return os.NewSyscallError("symlink", err)
		}
		return nil
	}
	isDir := true
	if fd >= 0 {
		var stat unix.Stat_t
		if err := unix.Fstat(fd, &stat); err != nil {
			return err
		}
		isDir = stat.Mode&unix.S_IFMT == unix.S_IFDIR
	}
	if err := makeAt(parent, name, isDir); err != nil {
		return err
	}
	if fd < 0 {
		return nil
	}
	target, err := openBelow(parent, name, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(target) }()
	err = unix.MoveMount(fd, "", target, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
	return os.NewSyscallError("move_mount", err)
}

// makeAt makes an empty directory or file for something to be mounted on, unless there is
// something already: below a folder that is shown there always is.
func makeAt(parent int, name string, isDir bool) error {
	if isDir {
		if err := unix.Mkdirat(parent, name, 0o755); err != nil && !errors.Is(err, unix.EEXIST) && !errors.Is(err, unix.EROFS) {
			return os.NewSyscallError("mkdir", err)
		}
		return nil
	}
	fd, err := unix.Openat(parent, name, unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_WRONLY, 0o644)
	if err != nil {
		if errors.Is(err, unix.EEXIST) || errors.Is(err, unix.EROFS) {
			return nil
		}
		return os.NewSyscallError("open", err)
	}
	return unix.Close(fd)
}

// directory opens a directory of the view by a relative path, and makes what is missing. It follows
// no symbolic link: an earlier command may have left one in the private temporary directory.
func (v *view) directory(relative string) (int, error) {
	fd, err := openBelow(v.root, relative, unix.O_DIRECTORY)
	if !errors.Is(err, unix.ENOENT) {
		return fd, err
	}
	parent, err := v.directory(path.Dir(relative))
	if err != nil {
		return -1, err
	}
	defer func() { _ = unix.Close(parent) }()
	if err := makeAt(parent, path.Base(relative), true); err != nil {
		return -1, err
	}
	return openBelow(parent, path.Base(relative), unix.O_DIRECTORY)
}

func openBelow(parent int, relative string, flags uint64) (int, error) {
	for {
		fd, err := unix.Openat2(parent, relative, &unix.OpenHow{
			Flags: unix.O_PATH | unix.O_CLOEXEC | flags, Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_BENEATH,
		})
		switch {
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.EAGAIN):
			continue
		case err != nil:
			return -1, fmt.Errorf("%s: %w", relative, err)
		}
		return fd, nil
	}
}

// pivot makes the view the root of the mount namespace and lets the host's tree go.
func (v *view) pivot() error {
	if err := unix.Fchdir(v.root); err != nil {
		return fmt.Errorf("sandbox view: root: %w", err)
	}
	// The host's root is stacked over the view's, and taken off.
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("sandbox view: pivot_root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("sandbox view: letting the host's mounts go: %w", err)
	}
	return os.NewSyscallError("chdir", unix.Chdir("/"))
}
