package sandbox

import "fmt"

// architecture is what a filter must know of a processor. The numbers are the kernel's
// and never change; both tables are built everywhere, so that both filters are tested
// everywhere.
type architecture struct {
	audit uint32 // AUDIT_ARCH_… of linux/audit.h
	x32   bool   // a second set of numbers with bit 30 set
	// compat is the 32-bit architecture that the same processor runs, and compatLimit its
	// number of prlimit64. The strict filter kills it; the guard lets it work.
	compat, compatLimit uint32
	calls               map[string]uint32
}

// number is the call's number. Every table has the calls that the filter examines; a
// table without one is our mistake and must not become number 0.
func (a architecture) number(call string) uint32 {
	n, ok := a.calls[call]
	if !ok {
		panic(fmt.Sprintf("sandbox: no number for system call %s", call))
	}
	return n
}

// refusedCalls are refused whatever their arguments, where the architecture has them.
var refusedCalls = []string{
	// Other programs' memory, registers and descriptors.
	"ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "kcmp", "pidfd_getfd", "perf_event_open",
	"userfaultfd", "move_pages", "migrate_pages",
	// Another view of the file system, or a way around the names in it.
	"mount", "umount2", "move_mount", "open_tree", "open_tree_attr", "fsopen", "fsconfig", "fsmount", "fspick",
	"mount_setattr", "pivot_root", "chroot", "setns", "open_by_handle_at", "fanotify_init",
	// Calls inside calls, which no filter sees.
	"io_uring_setup", "io_uring_enter", "io_uring_register",
	// The kernel's own store of keys, which outlives the command.
	"keyctl", "add_key", "request_key",
	// Code and settings of the kernel.
	"bpf", "kexec_load", "kexec_file_load", "init_module", "finit_module", "delete_module", "create_module",
	"get_kernel_syms", "query_module", "quotactl", "quotactl_fd", "swapon", "swapoff", "reboot", "settimeofday",
	"clock_settime", "clock_adjtime", "acct", "lookup_dcookie", "vhangup", "syslog", "nfsservctl", "iopl", "ioperm",
	"modify_ldt", "sethostname", "setdomainname", "_sysctl", "uselib",
}

// sharedMemoryCalls reach objects that are named for the whole system and belong to no file:
// what the user's other programs share can be read and changed through them. They are refused
// unless shared memory is granted.
var sharedMemoryCalls = []string{
	"shmget", "shmat", "shmctl", "semget", "semop", "semtimedop", "semctl", "msgget", "msgsnd", "msgrcv", "msgctl",
	"mq_open", "mq_unlink",
}

var architectures = map[string]architecture{
	"amd64": {audit: 0xc000003e, x32: true, compat: 0x40000003, compatLimit: 340, calls: map[string]uint32{
		"ioctl": 16, "shmget": 29, "shmat": 30, "shmctl": 31, "socket": 41, "socketpair": 53, "clone": 56, "semget": 64,
		"semop": 65, "semctl": 66, "msgget": 68, "msgsnd": 69, "msgrcv": 70, "msgctl": 71, "ptrace": 101, "syslog": 103,
		"uselib": 134, "vhangup": 153, "modify_ldt": 154, "pivot_root": 155, "_sysctl": 156, "chroot": 161, "acct": 163,
		"settimeofday": 164, "mount": 165, "umount2": 166, "swapon": 167, "swapoff": 168, "reboot": 169, "sethostname": 170,
		"setdomainname": 171, "iopl": 172, "ioperm": 173, "create_module": 174, "init_module": 175, "delete_module": 176,
		"get_kernel_syms": 177, "query_module": 178, "quotactl": 179, "nfsservctl": 180, "lookup_dcookie": 212,
		"semtimedop": 220, "clock_settime": 227, "mq_open": 240, "mq_unlink": 241, "kexec_load": 246, "add_key": 248,
		"request_key": 249, "keyctl": 250, "migrate_pages": 256, "unshare": 272, "move_pages": 279, "perf_event_open": 298,
		"fanotify_init": 300, "prlimit64": 302, "open_by_handle_at": 304, "clock_adjtime": 305, "setns": 308,
		"process_vm_readv": 310, "process_vm_writev": 311, "kcmp": 312, "finit_module": 313, "kexec_file_load": 320,
		"bpf": 321, "userfaultfd": 323, "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427,
		"open_tree": 428, "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433, "clone3": 435,
		"pidfd_getfd": 438, "process_madvise": 440, "mount_setattr": 442, "quotactl_fd": 443, "open_tree_attr": 467,
	}},
	"arm64": {audit: 0xc00000b7, compat: 0x40000028, compatLimit: 369, calls: map[string]uint32{
		"lookup_dcookie": 18, "ioctl": 29, "umount2": 39, "mount": 40, "pivot_root": 41, "nfsservctl": 42, "chroot": 51,
		"vhangup": 58, "quotactl": 60, "acct": 89, "unshare": 97, "kexec_load": 104, "init_module": 105,
		"delete_module": 106, "clock_settime": 112, "syslog": 116, "ptrace": 117, "reboot": 142, "sethostname": 161,
		"setdomainname": 162, "settimeofday": 170, "mq_open": 180, "mq_unlink": 181, "msgget": 186, "msgctl": 187,
		"msgrcv": 188, "msgsnd": 189, "semget": 190, "semctl": 191, "semtimedop": 192, "semop": 193, "shmget": 194,
		"shmctl": 195, "shmat": 196, "socket": 198, "socketpair": 199, "add_key": 217, "request_key": 218, "keyctl": 219,
		"clone": 220, "swapon": 224, "swapoff": 225, "migrate_pages": 238, "move_pages": 239, "perf_event_open": 241,
		"prlimit64": 261, "fanotify_init": 262, "open_by_handle_at": 265, "clock_adjtime": 266, "setns": 268,
		"process_vm_readv": 270, "process_vm_writev": 271, "kcmp": 272, "finit_module": 273, "bpf": 280, "userfaultfd": 282,
		"kexec_file_load": 294, "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "open_tree": 428,
		"move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433, "clone3": 435, "pidfd_getfd": 438,
		"process_madvise": 440, "mount_setattr": 442, "quotactl_fd": 443, "open_tree_attr": 467,
	}},
}
