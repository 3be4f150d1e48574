package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/getpioneer/pioneer-super/integration/testenv"
	"github.com/getpioneer/pioneer-super/sandbox"
	"github.com/getpioneer/pioneer-super/supervisor/keeper"
)

// inRooms are the flags of a tree whose tools have namespaces of their own.
var inRooms = []string{"--mode", "auto_accept_edits", "--sandbox-backend", sandbox.BackendNamespaces}

// served listens on the loopback interface that it sees, and says where.
var _ = part("served", func([]string) int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 97
	}
	port := l.Addr().(*net.TCPAddr).Port
	os.WriteFile("port.new", []byte(strconv.Itoa(port)), 0o600)
	os.Rename("port.new", "port")
	for {
		c, err := l.Accept()
		if err != nil {
			return 97
		}
		c.Write([]byte("served\n"))
		c.Close()
	}
})

// dialed reads what is served at the port of the file.
var _ = part("dialed", func([]string) int {
	port, _ := os.ReadFile("port")
	c, err := net.Dial("tcp", "127.0.0.1:"+string(port))
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer c.Close()
	var b [16]byte
	n, _ := c.Read(b[:])
	fmt.Print(string(b[:n]))
	return 0
})

func testRoomsShareWhatIsTheSessions(t *testing.T) {
	needRooms(t)
	l := newLab(t)
	l.hostile()
	l.rules(`{"permission": {"task": {"*": "allow"}, "bash": {"*": "allow"}}}`)
	name := filepath.Base(l.home) + strconv.Itoa(os.Getpid())
	l.script("agent.sh", `pioneer-super exec -- sh -c './hostile served >/dev/null 2>&1 </dev/null &'
while [ ! -e port ]; do sleep 0.05; done
pioneer-super exec -- ./hostile dialed
pioneer-super exec -- sh write.sh
pioneer-super exec -- sh read.sh
pioneer-super spawn --agent child -- sh child.sh
touch ready
while [ ! -e finish ]; do sleep 0.05; done`)
	// Another session has neither the first one's network nor its files.
	l.script("child.sh", `pioneer-super exec -- sh other.sh`)
	l.script("write.sh", `echo kept > /tmp/`+name+`; echo gone > /dev/shm/`+name)
	l.script("read.sh", `cat /tmp/`+name+` /var/tmp/`+name+`; cat /dev/shm/`+name+` 2>/dev/null || echo absent`)
	l.script("other.sh", `./hostile dialed >/dev/null || echo refused; ls /tmp/`+name+` 2>/dev/null || echo absent`)
	r := l.spawn(inRooms, "sh", "agent.sh")
	l.up("ready")
	if port, err := os.ReadFile(filepath.Join(l.work, "port")); err != nil {
		t.Error(err)
	} else if c, err := net.Dial("tcp", "127.0.0.1:"+string(port)); err == nil {
		c.Close()
		t.Error("a server of a tool is reached from outside")
	}
	for _, dir := range []string{"/tmp/", "/var/tmp/", "/dev/shm/"} {
		if _, err := os.Lstat(dir + name); err == nil {
			t.Errorf("%s of a tool is the host's", dir)
		}
	}
	l.touch("finish")
	if code := r.wait(t, patience); code != 0 || r.stdout() != "served\nkept\nkept\nabsent\nrefused\nabsent\n" {
		t.Errorf("status %d, %q\n%s", code, r.stdout(), r.stderr())
	}
}

func TestRoomsShareWhatIsTheSessions(t *testing.T) {
	t.Parallel()
	testRoomsShareWhatIsTheSessions(t)
}

func TestRoomsShareWhatIsTheSessionsAsUser(t *testing.T) {
	if !asOrdinaryUser(t) {
		return
	}
	testRoomsShareWhatIsTheSessions(t)
}

// TestARoomHasATerminal: the terminal is the first of the room's own, and leads its job.
func TestARoomHasATerminal(t *testing.T) {
	testenv.Need(t, "pty")
	needRooms(t)
	t.Parallel()
	l := newLab(t)
	l.rules(`{"permission": {"bash": {"*": "allow"}}}`)
	l.script("tool.sh", `tty; ls /dev/pts | tr '\n' ' '; test "$(ps -o tpgid= -p $$)" -eq $$ && echo foreground; trap 'echo interrupted; exit 7' INT; echo waits; while :; do sleep 0.05; done`)
	l.script("agent.sh", `pioneer-super exec -- sh tool.sh; echo "left with $?"; while [ ! -e finish ]; do sleep 0.05; done`)
	c := l.console(append(append([]string{"spawn", "--policy", l.policy}, inRooms...), "--", "sh", "agent.sh")...)
	shown := c.Shows(t, patience, "waits")
	for _, want := range []string{"/dev/pts/0", "0 ptmx", "foreground"} {
		if !strings.Contains(shown, want) {
			t.Errorf("not shown %q: %s", want, shown)
		}
	}
	press(t, c, "\x03")
	c.Shows(t, patience, "interrupted", "left with 7")
	l.touch("finish")
	if code := c.Status(t, patience); code != 0 {
		t.Errorf("status %d", code)
	}
}

// TestFaultRoomsLeaveNobody kills each process that stands between a session and its tool: nothing of the
// tool is left, its client is told, and the next tool runs.
func TestFaultRoomsLeaveNobody(t *testing.T) {
	needRooms(t)
	for _, victim := range []string{keeper.KeeperName, keeper.RoomName, keeper.HolderName} {
		t.Run(victim, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			l.rules(`{"permission": {"bash": {"*": "allow"}}}`)
			l.script("tool.sh", `trap '' TERM INT HUP
(setsid sh -c 'trap "" TERM; touch daemon; exec sleep 2345' &)
touch tool
while [ ! -e go ]; do sleep 0.05; done`)
			l.script("agent.sh", `pioneer-super exec -- sh tool.sh; echo "first $?"
while [ ! -e next ]; do sleep 0.05; done
pioneer-super exec -- echo second`)
			r := l.spawn(inRooms, "sh", "agent.sh")
			l.up("tool", "daemon")
			sup := supervisorOf(t, r.Process.Pid)
			target, tool := 0, 0
			var inside []int
			// Rooms that are kept ready have a stage in them and nothing else.
			await(t, patience, "the room of the tool and its daemon", func() bool {
				for _, k := range keepersOf(sup) {
					for _, room := range childrenOf(k) {
						if argv0(room) != keeper.RoomName {
							continue
						}
						if in := descendantsOf(room); len(in) >= 2 {
							inside, tool = in, room
							target = map[string]int{keeper.KeeperName: k, keeper.RoomName: room}[victim]
						}
					}
				}
				return tool != 0
			})
			if victim == keeper.HolderName {
				for _, pid := range childrenOf(sup) {
					if argv0(pid) == victim {
						target = pid
					}
				}
			}
			if target == 0 {
				t.Fatalf("no %s of the tool was found", victim)
			}
			unix.Kill(target, unix.SIGKILL)
			want := "first 137\nsecond\n"
			if victim == keeper.HolderName {
				// It runs no command: what there is goes on.
				l.touch("go")
				want = "first 0\nsecond\n"
			} else {
				await(t, patience, "the end of what was in the room", func() bool {
					for _, pid := range inside {
						if !strings.HasPrefix(argv0(pid), "s") {
							continue // gone, or a zombie
						}
						return false
					}
					return true
				})
			}
			l.touch("next")
			if code := r.wait(t, patience); code != 0 || r.stdout() != want {
				t.Errorf("status %d, %q, expected %q\n%s", code, r.stdout(), want, r.stderr())
			}
			l.nobody(5 * time.Second)
		})
	}
}
