package sandbox

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// Numbers against the system's own header, so that a shifted table is seen.
func TestNumbersOfThisArchitecture(t *testing.T) {
	for call, want := range map[string]uint32{
		"socket": unix.SYS_SOCKET, "socketpair": unix.SYS_SOCKETPAIR, "clone": unix.SYS_CLONE, "clone3": unix.SYS_CLONE3,
		"unshare": unix.SYS_UNSHARE, "setns": unix.SYS_SETNS, "ioctl": unix.SYS_IOCTL, "mount": unix.SYS_MOUNT,
		"umount2": unix.SYS_UMOUNT2, "ptrace": unix.SYS_PTRACE, "process_vm_readv": unix.SYS_PROCESS_VM_READV,
		"process_vm_writev": unix.SYS_PROCESS_VM_WRITEV, "pidfd_getfd": unix.SYS_PIDFD_GETFD, "bpf": unix.SYS_BPF,
		"keyctl": unix.SYS_KEYCTL, "io_uring_setup": unix.SYS_IO_URING_SETUP, "perf_event_open": unix.SYS_PERF_EVENT_OPEN,
		"userfaultfd": unix.SYS_USERFAULTFD, "open_by_handle_at": unix.SYS_OPEN_BY_HANDLE_AT, "move_mount": unix.SYS_MOVE_MOUNT,
	} {
		if got := architectures[runtime.GOARCH].number(call); got != want {
			t.Errorf("%s: %d, want %d", call, got, want)
		}
	}
}
