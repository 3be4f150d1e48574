package sandbox

import (
	"fmt"
	"runtime"
	"slices"

	"golang.org/x/net/bpf"
)

// What a filter answers, in the kernel's numbers (linux/seccomp.h).
const (
	filterAllow  = 0x7fff0000
	filterKill   = 0x80000000 // the whole process
	filterRefuse = 0x00050000 // with the error number in the low bits
	errnoPERM    = 1
	errnoNOSYS   = 38
)

// Numbers that are the same on every architecture with a table here.
const (
	familyUnix    = 1
	familyINET    = 2
	familyINET6   = 10
	familyNetlink = 16

	socketStream    = 1
	socketDatagram  = 2
	socketSeqpacket = 5
	socketTypeMask  = 0xf // above it are SOCK_NONBLOCK and SOCK_CLOEXEC

	protocolAny    = 0
	protocolICMP   = 1
	protocolTCP    = 6
	protocolUDP    = 17
	protocolICMPv6 = 58
	netlinkRoute   = 0

	ioctlPushInput = 0x5412 // TIOCSTI
	ioctlConsole   = 0x541c // TIOCLINUX

	// The namespace flags of clone and unshare. CLONE_NEWTIME shares its bit with the exit
	// signal of clone and has a meaning for unshare alone.
	newNamespaces = 0x00020000 | 0x02000000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000
	newTime       = 0x00000080

	x32Bit = 0x40000000
)

// Offsets in struct seccomp_data, little endian: arguments are 64 bits wide, and of each
// one the kernel reads, for the calls examined here, the low half alone. Examining the
// high half would let a call through that the kernel then takes for the forbidden one.
const (
	dataNumber = 0
	dataArch   = 4
	dataArgs   = 16
)

func dataArg(i uint32) uint32 { return dataArgs + 8*i }

// filterRules are what differs from one filter to another.
type filterRules struct {
	Network     bool
	UnixSockets bool
	// SharedMemory lets the calls through that reach objects named for the whole system.
	SharedMemory bool
}

// haveFilter is true when this package knows the system calls of the processor.
func haveFilter() bool { _, ok := architectures[runtime.GOARCH]; return ok }

// filter is the program for the architecture in Go's words. It is a list of what is
// refused: tools are arbitrary programs, and what they may touch is bounded by the file
// rules and the domain. The filter closes what those cannot see: sockets, namespaces,
// mounts, other programs' memory, and parts of the kernel that no tool needs.
//
// Refused is EPERM, but for three. A foreign architecture kills, since its numbers mean
// other calls. x32 and clone3 are ENOSYS: the one does not exist on most kernels, and for the
// other, whose flags lie in memory that a filter cannot read, the C library then uses clone.
func filter(arch string, rules filterRules) ([]bpf.Instruction, error) {
	a, ok := architectures[arch]
	if !ok {
		return nil, fmt.Errorf("no system call table for %s", arch)
	}
	var b filterBuilder
	b.load(dataArch)
	b.jump(bpf.JumpEqual, a.audit, "native", "kill")
	b.label("native")
	b.load(dataNumber)
	if a.x32 {
		b.jump(bpf.JumpGreaterOrEqual, x32Bit, "nosys", "")
	}
	for _, call := range []string{"ioctl", "socket", "socketpair", "clone", "unshare", "prlimit64"} {
		b.jump(bpf.JumpEqual, a.number(call), call, "")
	}
	b.jump(bpf.JumpEqual, a.number("clone3"), "nosys", "")
	calls := refusedCalls
	if !rules.SharedMemory {
		calls = slices.Concat(calls, sharedMemoryCalls)
	}
	for _, call := range calls {
		if number, ok := a.calls[call]; ok {
			b.jump(bpf.JumpEqual, number, "refuse", "")
		}
	}
	b.label("allow")
	b.ret(filterAllow)
	b.label("ioctl")
	b.load(dataArg(1))
	b.jump(bpf.JumpEqual, ioctlPushInput, "refuse", "")
	b.jump(bpf.JumpEqual, ioctlConsole, "refuse", "allow2")
	b.label("clone")
	b.load(dataArg(0))
	b.jump(bpf.JumpBitsSet, newNamespaces, "refuse", "allow2")
	b.label("unshare")
	b.load(dataArg(0))
	b.jump(bpf.JumpBitsSet, newNamespaces|newTime, "refuse", "allow2")
	b.label("prlimit64")
	b.limits()
	b.sockets(rules)
	b.answers()
	return b.assemble()
}

// guardFilter is the filter of the envelope: it refuses to change the limits of another
// process, and nothing else. A domain does not see that call, and a process of the same user
// can end any other with it (no processor time left, no file may be written, no memory made), be
// it the supervisor. 32-bit programs keep working.
func guardFilter(arch string) ([]bpf.Instruction, error) {
	a, ok := architectures[arch]
	if !ok {
		return nil, fmt.Errorf("no system call table for %s", arch)
	}
	var b filterBuilder
	b.load(dataArch)
	b.jump(bpf.JumpEqual, a.audit, "native", "")
	b.jump(bpf.JumpEqual, a.compat, "", "kill")
	b.load(dataNumber)
	b.jump(bpf.JumpEqual, a.compatLimit, "limits", "allow2")
	b.label("native")
	b.load(dataNumber)
	if a.x32 {
		b.and(^uint32(x32Bit)) // the call has the same number there
	}
	b.jump(bpf.JumpEqual, a.number("prlimit64"), "limits", "allow2")
	b.label("limits")
	b.limits()
	b.answers()
	return b.assemble()
}

// limits lets prlimit64 through for the process itself (0) and for reading: when the pointer
// to the new limits is null, in both its halves. A process that names itself by its number is
// refused too: a filter does not know who is asking.
func (b *filterBuilder) limits() {
	b.load(dataArg(0))
	b.jump(bpf.JumpEqual, 0, "allow2", "")
	b.load(dataArg(2))
	b.jump(bpf.JumpEqual, 0, "", "refuse")
	b.load(dataArg(2) + 4)
	b.jump(bpf.JumpEqual, 0, "allow2", "refuse")
}

// answers writes what the jumps lead to, at the end: they lead forward only.
func (b *filterBuilder) answers() {
	b.label("allow2")
	b.ret(filterAllow)
	b.label("refuse")
	b.ret(filterRefuse | errnoPERM)
	b.label("nosys")
	b.ret(filterRefuse | errnoNOSYS)
	b.label("kill")
	b.ret(filterKill)
}

// sockets writes the parts for socket and socketpair. The families are a list of what is
// let through: a new kernel brings new ones.
//
// A pair is let through only when both ends are connected for good. An end of a datagram
// pair can send to any socket with a path (the system log, the service manager), as if
// socket(AF_UNIX) had been allowed.
func (b *filterBuilder) sockets(rules filterRules) {
	b.label("socketpair")
	b.load(dataArg(0))
	b.jump(bpf.JumpEqual, familyUnix, "", "refuse")
	if !rules.UnixSockets {
		b.load(dataArg(1))
		b.and(socketTypeMask)
		b.jump(bpf.JumpEqual, socketStream, "allow2", "")
		b.jump(bpf.JumpEqual, socketSeqpacket, "", "refuse")
	}
	b.ret(filterAllow)

	b.label("socket")
	b.load(dataArg(0))
	if rules.UnixSockets {
		b.jump(bpf.JumpEqual, familyUnix, "allow2", "")
	}
	b.jump(bpf.JumpEqual, familyNetlink, "netlink", "")
	if rules.Network {
		b.jump(bpf.JumpEqual, familyINET, "internet", "")
		b.jump(bpf.JumpEqual, familyINET6, "internet", "")
	}
	b.ret(filterRefuse | errnoPERM)

	// Only the routing table, which the C library asks for interfaces and addresses.
	b.label("netlink")
	b.load(dataArg(2))
	b.jump(bpf.JumpEqual, netlinkRoute, "allow2", "refuse")

	if !rules.Network {
		return
	}
	b.label("internet")
	b.load(dataArg(1))
	b.and(socketTypeMask)
	b.jump(bpf.JumpEqual, socketStream, "stream", "")
	b.jump(bpf.JumpEqual, socketDatagram, "datagram", "refuse")
	b.label("stream")
	b.load(dataArg(2))
	b.jump(bpf.JumpEqual, protocolAny, "allow2", "")
	b.jump(bpf.JumpEqual, protocolTCP, "allow2", "refuse")
	b.label("datagram")
	b.load(dataArg(2))
	for _, protocol := range []uint32{protocolAny, protocolUDP, protocolICMP} {
		b.jump(bpf.JumpEqual, protocol, "allow2", "")
	}
	b.jump(bpf.JumpEqual, protocolICMPv6, "allow2", "refuse")
}

// filterBuilder writes a program with names for the places that it jumps to. The empty
// name is the next instruction.
type filterBuilder struct {
	code   []bpf.Instruction
	labels map[string]int
	jumps  map[int][2]string
}

func (b *filterBuilder) label(name string) {
	if b.labels == nil {
		b.labels = map[string]int{}
	}
	b.labels[name] = len(b.code)
}

func (b *filterBuilder) load(offset uint32) {
	b.code = append(b.code, bpf.LoadAbsolute{Off: offset, Size: 4})
}

func (b *filterBuilder) and(mask uint32) {
	b.code = append(b.code, bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: mask})
}

func (b *filterBuilder) ret(value uint32) {
	b.code = append(b.code, bpf.RetConstant{Val: value})
}

func (b *filterBuilder) jump(test bpf.JumpTest, value uint32, yes, no string) {
	if b.jumps == nil {
		b.jumps = map[int][2]string{}
	}
	b.jumps[len(b.code)] = [2]string{yes, no}
	b.code = append(b.code, bpf.JumpIf{Cond: test, Val: value})
}

// assemble fills the distances in. A jump backwards or beyond what one byte can hold is our
// own mistake and is an error, never a program that jumps elsewhere.
func (b *filterBuilder) assemble() ([]bpf.Instruction, error) {
	distance := func(at int, name string) (uint8, error) {
		if name == "" {
			return 0, nil
		}
		target, ok := b.labels[name]
		skip := target - at - 1
		if !ok || skip < 0 || skip > 255 {
			return 0, fmt.Errorf("system call filter: jump at %d to %q cannot be encoded", at, name)
		}
		return uint8(skip), nil
	}
	for at, names := range b.jumps {
		jump := b.code[at].(bpf.JumpIf)
		var err error
		if jump.SkipTrue, err = distance(at, names[0]); err != nil {
			return nil, err
		}
		if jump.SkipFalse, err = distance(at, names[1]); err != nil {
			return nil, err
		}
		b.code[at] = jump
	}
	return b.code, nil
}
