package sandbox

import (
	bytes "encoding/binary"
	"fmt"
	"testing"

	"golang.org/x/net/bpf"
)

// answer runs the filter on a call as the kernel would. The machine of x/net/bpf reads words
// in network order, so the structure is written that way.
func answer(t testing.TB, arch string, rules filterRules, audit, number uint32, args ...uint64) uint32 {
	t.Helper()
	code, err := filter(arch, rules)
	if err != nil {
		t.Fatal(err)
	}
	return execute(t, code, audit, number, args...)
}

func execute(t testing.TB, code []bpf.Instruction, audit, number uint32, args ...uint64) uint32 {
	t.Helper()
	vm, err := bpf.NewVM(code)
	if err != nil {
		t.Fatal(err)
	}
	data := make([]byte, 64)
	bytes.BigEndian.PutUint32(data[dataNumber:], number)
	bytes.BigEndian.PutUint32(data[dataArch:], audit)
	for i, arg := range args {
		bytes.BigEndian.PutUint32(data[dataArg(uint32(i)):], uint32(arg))
		bytes.BigEndian.PutUint32(data[dataArg(uint32(i))+4:], uint32(arg>>32))
	}
	n, err := vm.Run(data)
	if err != nil {
		t.Fatal(err)
	}
	return uint32(n)
}

const (
	refused = filterRefuse | errnoPERM
	nosys   = filterRefuse | errnoNOSYS
	high    = 1 << 32 // an upper half that the kernel ignores
)

func TestFilterOnEachArchitecture(t *testing.T) {
	off, on, sockets := filterRules{}, filterRules{Network: true}, filterRules{Network: true, UnixSockets: true, SharedMemory: true}
	cases := []struct {
		call          string
		args          []uint64
		off, on, unix uint32
	}{
		{"socket", []uint64{familyINET, socketStream, 0}, refused, filterAllow, filterAllow},
		{"socket", []uint64{familyINET | high, socketStream, 0}, refused, filterAllow, filterAllow},
		{"socket", []uint64{familyINET6, socketStream | 0x80000 | 0x800, protocolTCP}, refused, filterAllow, filterAllow},
		{"socket", []uint64{familyINET, socketDatagram, protocolUDP}, refused, filterAllow, filterAllow},
		{"socket", []uint64{familyINET, socketDatagram, protocolICMP}, refused, filterAllow, filterAllow},
		{"socket", []uint64{familyINET6, socketDatagram, protocolICMPv6}, refused, filterAllow, filterAllow},
		{"socket", []uint64{familyINET, socketStream, 262}, refused, refused, refused},
		{"socket", []uint64{familyINET, socketStream, 132}, refused, refused, refused},
		{"socket", []uint64{familyINET, socketDatagram, 136}, refused, refused, refused},
		{"socket", []uint64{familyINET, 3, 0}, refused, refused, refused},
		{"socket", []uint64{familyINET, 5, 132}, refused, refused, refused},
		{"socket", []uint64{familyINET, 10, 0}, refused, refused, refused},
		{"socket", []uint64{17, 3, 0}, refused, refused, refused},
		{"socket", []uint64{38, 5, 0}, refused, refused, refused},
		{"socket", []uint64{40, 1, 0}, refused, refused, refused},
		{"socket", []uint64{43, 1, 0}, refused, refused, refused},
		{"socket", []uint64{4000, 1, 0}, refused, refused, refused},
		{"socket", []uint64{familyUnix, socketStream, 0}, refused, refused, filterAllow},
		{"socket", []uint64{familyUnix | high, socketStream, 0}, refused, refused, filterAllow},
		{"socket", []uint64{familyNetlink, 3, 0}, filterAllow, filterAllow, filterAllow},
		{"socket", []uint64{familyNetlink, 3, 9}, refused, refused, refused},
		{"socketpair", []uint64{familyUnix, socketStream}, filterAllow, filterAllow, filterAllow},
		{"socketpair", []uint64{familyUnix, socketStream | 0x80000}, filterAllow, filterAllow, filterAllow},
		{"socketpair", []uint64{familyUnix, socketSeqpacket}, filterAllow, filterAllow, filterAllow},
		{"socketpair", []uint64{familyUnix, socketDatagram}, refused, refused, filterAllow},
		{"socketpair", []uint64{familyUnix, 3}, refused, refused, filterAllow},
		{"socketpair", []uint64{30, socketStream}, refused, refused, refused},
		{"ioctl", []uint64{0, 0x5401}, filterAllow, filterAllow, filterAllow},
		{"ioctl", []uint64{0, ioctlPushInput}, refused, refused, refused},
		{"ioctl", []uint64{0, ioctlPushInput | high}, refused, refused, refused},
		{"ioctl", []uint64{0, ioctlConsole}, refused, refused, refused},
		{"clone", []uint64{17}, filterAllow, filterAllow, filterAllow},
		{"clone", []uint64{0x3d0f00}, filterAllow, filterAllow, filterAllow}, // a thread of the C library
		{"clone", []uint64{0x10000000 | 17}, refused, refused, refused},
		{"clone", []uint64{0x10000000 | 17 | high}, refused, refused, refused},
		{"unshare", []uint64{0x400}, filterAllow, filterAllow, filterAllow},
		{"unshare", []uint64{0x80}, refused, refused, refused},
		{"unshare", []uint64{0x00020000}, refused, refused, refused},
		{"clone3", []uint64{0}, nosys, nosys, nosys},
		{"io_uring_setup", []uint64{1}, refused, refused, refused},
		{"ptrace", []uint64{0}, refused, refused, refused},
		{"prlimit64", []uint64{0, 7, 0x7f0000000000}, filterAllow, filterAllow, filterAllow},
		{"prlimit64", []uint64{55, 7, 0, 0x7f0000000000}, filterAllow, filterAllow, filterAllow},
		{"prlimit64", []uint64{55, 7, 0x7f0000000000}, refused, refused, refused},
		{"prlimit64", []uint64{55, 7, 0x1000}, refused, refused, refused},
		{"prlimit64", []uint64{55 | high, 7, 0x1000}, refused, refused, refused},
		{"prlimit64", []uint64{high, 7, 0x1000}, filterAllow, filterAllow, filterAllow},
		{"shmget", []uint64{1}, refused, refused, filterAllow},
		{"shmat", []uint64{1}, refused, refused, filterAllow},
		{"mq_open", []uint64{1}, refused, refused, filterAllow},
	}
	for name, a := range architectures {
		for _, c := range cases {
			for _, v := range []struct {
				rules filterRules
				want  uint32
			}{{off, c.off}, {on, c.on}, {sockets, c.unix}} {
				if got := answer(t, name, v.rules, a.audit, a.number(c.call), c.args...); got != v.want {
					t.Errorf("%s: %s%x with %+v: %#x, want %#x", name, c.call, c.args, v.rules, got, v.want)
				}
			}
		}
		for _, call := range refusedCalls {
			if number, ok := a.calls[call]; ok {
				if got := answer(t, name, sockets, a.audit, number); got != refused {
					t.Errorf("%s: %s: %#x", name, call, got)
				}
			}
		}
		for flag := uint64(1); flag <= 1<<31; flag <<= 1 {
			want := uint32(filterAllow)
			if flag&newNamespaces != 0 {
				want = refused
			}
			if got := answer(t, name, off, a.audit, a.number("clone"), flag); got != want {
				t.Errorf("%s: clone(%#x): %#x, want %#x", name, flag, got, want)
			}
		}
	}
}

func TestFilterOnForeignNumbers(t *testing.T) {
	const i386, arm = 0x40000003, 0x40000028
	for name, a := range architectures {
		for _, audit := range []uint32{i386, arm, 0, 0xffffffff, a.audit ^ 1} {
			for _, number := range []uint32{0, 1, 39, a.number("socket"), 0xffffffff} {
				if got := answer(t, name, filterRules{Network: true, UnixSockets: true}, audit, number); got != filterKill {
					t.Errorf("%s: number %d of architecture %#x: %#x", name, number, audit, got)
				}
			}
		}
	}
	for _, number := range []uint32{x32Bit, x32Bit | 39, x32Bit | 512, 0x7fffffff, 0xffffffff} {
		if got := answer(t, "amd64", filterRules{}, architectures["amd64"].audit, number); got != nosys {
			t.Errorf("x32 number %#x: %#x", number, got)
		}
	}
}

// Everything that is not named passes: programs are arbitrary, and a call that is new to us
// must not break them.
func TestFilterLetsTheRestThrough(t *testing.T) {
	for name, a := range architectures {
		named := map[uint32]bool{}
		for _, number := range a.calls {
			named[number] = true
		}
		for number := range uint32(600) {
			if got := answer(t, name, filterRules{}, a.audit, number); !named[number] && got != filterAllow {
				t.Errorf("%s: call %d: %#x", name, number, got)
			}
		}
	}
}

// The guard of the envelope refuses one thing, by each set of numbers that the processor knows.
func TestGuardFilter(t *testing.T) {
	for name, a := range architectures {
		code, err := guardFilter(name)
		if err != nil {
			t.Fatal(err)
		}
		numbers := map[uint32][]uint32{a.audit: {a.number("prlimit64")}, a.compat: {a.compatLimit}}
		if a.x32 {
			numbers[a.audit] = append(numbers[a.audit], a.number("prlimit64")|x32Bit)
		}
		for audit, own := range numbers {
			for number := range uint32(600) {
				want := uint32(filterAllow)
				if number == own[0] {
					want = refused
				}
				if got := execute(t, code, audit, number, 55, 0, 0x1000); got != want {
					t.Errorf("%s: number %d of %#x: %#x, want %#x", name, number, audit, got, want)
				}
			}
			for _, number := range own {
				for _, c := range []struct {
					args []uint64
					want uint32
				}{{[]uint64{55, 0, 1}, refused}, {[]uint64{55, 0, high}, refused}, {[]uint64{0, 0, 1}, filterAllow}, {[]uint64{55, 0, 0, 1}, filterAllow}} {
					if got := execute(t, code, audit, number, c.args...); got != c.want {
						t.Errorf("%s: number %d of %#x with %x: %#x, want %#x", name, number, audit, c.args, got, c.want)
					}
				}
			}
		}
		if got := execute(t, code, 0x1234, 1); got != filterKill {
			t.Errorf("%s: an architecture that this processor does not have: %#x", name, got)
		}
	}
	if _, err := guardFilter("pdp11"); err == nil {
		t.Error("a guard for an architecture without a table")
	}
}

func TestFilterTables(t *testing.T) {
	for name, a := range architectures {
		seen := map[uint32]string{}
		for call, number := range a.calls {
			if other := seen[number]; other != "" {
				t.Errorf("%s: %s and %s are both %d", name, call, other, number)
			}
			seen[number] = call
		}
	}
	if _, err := filter("pdp11", filterRules{}); err == nil {
		t.Error("a filter for an architecture without a table")
	}
}

func TestFilterBuilderRefusesWhatCannotBeEncoded(t *testing.T) {
	for name, build := range map[string]func(*filterBuilder){
		"no such place": func(b *filterBuilder) { b.jump(bpf.JumpEqual, 1, "nowhere", "") },
		"backwards":     func(b *filterBuilder) { b.label("here"); b.ret(0); b.jump(bpf.JumpEqual, 1, "here", "") },
		"too far": func(b *filterBuilder) {
			b.jump(bpf.JumpEqual, 1, "there", "")
			for range 300 {
				b.ret(0)
			}
			b.label("there")
			b.ret(0)
		},
	} {
		var b filterBuilder
		build(&b)
		if _, err := b.assemble(); err == nil {
			t.Errorf("%s: assembled", name)
		}
	}
}

func FuzzFilter(f *testing.F) {
	f.Add(uint32(41), uint64(2), uint64(1), uint64(0))
	f.Fuzz(func(t *testing.T, number uint32, a0, a1, a2 uint64) {
		for name, a := range architectures {
			strict := answer(t, name, filterRules{}, a.audit, number, a0, a1, a2)
			wide := answer(t, name, filterRules{Network: true, UnixSockets: true, SharedMemory: true}, a.audit, number, a0, a1, a2)
			switch strict {
			case filterAllow, refused, nosys:
			default:
				t.Fatalf("answer %#x", strict)
			}
			if strict == filterAllow && wide != filterAllow {
				t.Fatalf("%s: %d(%x %x %x): a grant takes something away", name, number, a0, a1, a2)
			}
			// Of pointers (prlimit64's third argument) the upper half counts.
			low := answer(t, name, filterRules{}, a.audit, number, a0&0xffffffff, a1&0xffffffff, a2&0xffffffff)
			if low != strict && number != a.number("prlimit64") {
				t.Fatalf("%s: %d(%x %x %x): %#x, without the upper halves %#x", name, number, a0, a1, a2, strict, low)
			}
		}
	})
}

func ExampleProfile_String() {
	p, _ := EnvelopeOnly(Host{LandlockABI: 7, Seccomp: true})
	fmt.Print(p)
	// Output:
	// backend       envelope
	// landlock      7
	// envelope      on
	// no-new-privs  on
	// capabilities  as they are
	// calls         guarded
	// network       host
	// unix sockets  any
	// shared memory host
	// files         not restricted
}
