package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/getpioneer/pioneer-super/integration/testenv"
	"github.com/getpioneer/pioneer-super/sandbox"
	"github.com/getpioneer/pioneer-super/supervisor/audit"
	"github.com/getpioneer/pioneer-super/supervisor/keeper"
)

// acts are what one process does to another that it wants to take over, read or
// end. Each undoes what it did.
var acts = []struct {
	name string
	do   func(pid int) error
}{
	{"signal", func(pid int) error { return unix.Kill(pid, unix.SIGWINCH) }},
	{"pidfd signal", func(pid int) error {
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return unix.PidfdSendSignal(fd, unix.SIGWINCH, nil, 0)
	}},
	{"ptrace", func(pid int) error {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := unix.PtraceSeize(pid); err != nil {
			return err
		}
		unix.PtraceInterrupt(pid)
		unix.Wait4(pid, nil, unix.WALL, nil)
		return unix.PtraceDetach(pid)
	}},
	{"write mem", func(pid int) error {
		f, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_RDWR, 0)
		if err == nil {
			f.Close()
		}
		return err
	}},
	{"environ", func(pid int) error {
		return content(fmt.Sprintf("/proc/%d/environ", pid))
	}},
	{"root", func(pid int) error {
		_, err := os.ReadDir(fmt.Sprintf("/proc/%d/root/", pid))
		return err
	}},
	{"cwd", func(pid int) error {
		_, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid))
		return err
	}},
	{"fd", func(pid int) error {
		f, err := os.Open(fmt.Sprintf("/proc/%d/fd/0", pid))
		if err == nil {
			f.Close()
		}
		return err
	}},
	{"maps", func(pid int) error {
		return content(fmt.Sprintf("/proc/%d/maps", pid))
	}},
	{"pidfd_getfd", func(pid int) error {
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		got, _, errno := unix.Syscall(unix.SYS_PIDFD_GETFD, uintptr(fd), 0, 0)
		if errno != 0 {
			return errno
		}
		return unix.Close(int(got))
	}},
	{"process_vm_readv", func(pid int) error {
		var b [8]byte
		local := []unix.Iovec{{Base: &b[0], Len: 8}}
		remote := []unix.RemoteIovec{{Base: uintptr(unsafe.Pointer(&parts)), Len: 8}}
		_, err := unix.ProcessVMReadv(pid, local, remote, 0)
		if err == unix.EFAULT {
			return nil // it was let in, and looked where nothing is
		}
		return err
	}},
}

// content reads a file of proc. Some kernels open it for whoever has no right to
// it, and give nothing.
func content(path string) error {
	data, err := os.ReadFile(path)
	if err == nil && len(data) == 0 {
		err = errEmpty
	}
	return err
}

var errEmpty = errors.New("nothing in it")

// attempt is what one act on one process gave.
type attempt struct {
	By, On, Act string
	Done        bool
	Why         string
}

// attackAll does every act on every target of the file, NAME PID a line, but on
// those that it lists after it.
func attackAll(by, file string, but ...string) (out []attempt) {
	data, _ := os.ReadFile(file)
	for line := range strings.Lines(string(data)) {
		f := strings.Fields(line)
		pid, _ := strconv.Atoi(f[1])
		if slices.Contains(but, f[0]) {
			continue
		}
		out = append(out, attack(by, f[0], pid)...)
	}
	return out
}

func attack(by, on string, pid int) (out []attempt) {
	for _, act := range acts {
		err := act.do(pid)
		a := attempt{By: by, On: on, Act: act.name, Done: err == nil}
		if err != nil {
			a.Why = err.Error()
		}
		out = append(out, a)
	}
	return out
}

// needRooms skips where a command cannot have namespaces of its own.
func needRooms(t *testing.T) {
	t.Helper()
	testenv.Need(t, "userns", "mountns", "pidns", "netns")
}

// seenFromHere is the number that a process below top has for the test, which in its own process
// namespace has another.
func seenFromHere(t *testing.T, top, number int, argv ...string) int {
	t.Helper()
	for _, pid := range descendantsOf(top) {
		status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		command, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if strings.Contains(string(status), fmt.Sprintf("NSpid:\t%d\t%d\n", pid, number)) && strings.HasSuffix(string(command), strings.Join(argv, "\x00")+"\x00") {
			return pid
		}
	}
	t.Fatalf("no process %d %v in a room of the tree", number, argv)
	return 0
}

func descendantsOf(pid int) (out []int) {
	for _, child := range childrenOf(pid) {
		out = append(append(out, child), descendantsOf(child)...)
	}
	return out
}

// attacker says that it is there, waits for its targets and tells what it could
// do. A tool that is none of the session's is told as well: itself is left out.
var _ = part("attacker", func(args []string) int {
	os.WriteFile("here-"+args[0]+".new", []byte(strconv.Itoa(os.Getpid())), 0o600)
	os.Rename("here-"+args[0]+".new", "here-"+args[0])
	untilThere("targets")
	for _, a := range attackAll(args[0], "targets", args[0]) {
		tell(a)
	}
	if argv0(1) == keeper.RoomName {
		for _, a := range attack(args[0], "own room", 1) {
			tell(a)
		}
	}
	os.WriteFile("done-"+args[0], nil, 0o600)
	untilThere("finish")
	return 0
})

// hunted is the agent of the root: it starts a tool, a sibling session and a tool
// that an answer gave more to, and attacks them all.
var _ = part("hunted", func([]string) int {
	for _, args := range [][]string{
		{"exec", "--", "./hostile", "attacker", "tool"},
		{"exec", "--", "./hostile", "attacker", "granted"},
		{"spawn", "--", "./hostile", "attacker", "child"},
	} {
		cmd := exec.Command("pioneer-super", args...)
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		if err := cmd.Start(); err != nil {
			return 97
		}
		defer cmd.Wait()
	}
	return parts["attacker"]([]string{"agent"})
})

// testNobodyTakesOver attacks every process of a tree from its agent, its child's
// agent and two tools.
func testNobodyTakesOver(t *testing.T) {
	testenv.Need(t, "landlock-scope", "pidfd")
	for _, row := range [][2]string{
		{"full_access", ""}, {"auto_accept_edits", sandbox.BackendLandlock}, {"auto_accept_edits", sandbox.BackendNamespaces},
	} {
		mode, backend := row[0], row[1]
		rooms := backend == sandbox.BackendNamespaces
		t.Run(strings.TrimSpace(mode+" "+backend), func(t *testing.T) {
			flags := []string{"--mode", mode}
			if backend != "" {
				flags = append(flags, "--sandbox-backend", backend)
			}
			if rooms {
				needRooms(t)
			}
			l := newLab(t)
			l.hostile()
			l.rules(`{"permission": {"task": {"*": "allow"}, "bash": {"./hostile *": "allow", "./hostile attacker granted": "ask"}}}`)
			r, _ := l.withApprover(allowAll, flags, "./hostile", "hunted")
			l.up("here-agent", "here-tool", "here-granted", "here-child")
			sup := supervisorOf(t, r.Process.Pid)
			targets := map[string]int{"supervisor": sup}
			// Warm keepers and their stages are the next that something is given to.
			await(t, 10*time.Second, "a warm keeper", func() bool {
				for _, pid := range childrenOf(sup) {
					switch argv0(pid) {
					case keeper.KeeperName:
						for _, below := range childrenOf(pid) {
							switch argv0(below) {
							case keeper.StageName:
								targets["warm-keeper"], targets["stage"] = pid, below
							case keeper.RoomName:
								targets["room"] = below
							}
						}
					case keeper.HolderName:
						targets["holder"] = pid
					}
				}
				return targets["stage"] != 0 && (targets["room"] != 0 && targets["holder"] != 0 || !rooms)
			})
			for i, pid := range keepersOf(sup) {
				targets[fmt.Sprint("keeper", i)] = pid
			}
			for _, name := range []string{"agent", "tool", "granted", "child"} {
				data, err := os.ReadFile(filepath.Join(l.work, "here-"+name))
				if err != nil {
					t.Fatal(err)
				}
				targets[name], _ = strconv.Atoi(string(data))
				if rooms && (name == "tool" || name == "granted") {
					targets[name] = seenFromHere(t, sup, targets[name], "attacker", name)
				}
			}
			var lines []string
			for name, pid := range targets {
				lines = append(lines, fmt.Sprintf("%s %d\n", name, pid))
			}
			file := filepath.Join(l.home, "targets")
			if err := os.WriteFile(file, []byte(strings.Join(lines, "")), 0o600); err != nil {
				t.Fatal(err)
			}
			// The control: the same user outside of the tree can do all of it.
			for _, a := range attackAll("control", file) {
				// Ours have an empty environment from the start.
				ours := !slices.Contains([]string{"agent", "tool", "granted", "child"}, a.On)
				if !a.Done && !(a.Act == "environ" && ours && a.Why == errEmpty.Error()) {
					t.Errorf("control: %s of %s: %s: nothing is shown by its refusal", a.Act, a.On, a.Why)
				}
			}
			front := fmt.Sprintf("front %d\n", r.Process.Pid)
			if err := os.WriteFile(filepath.Join(l.work, "targets.new"), []byte(strings.Join(lines, "")+front), 0o600); err != nil {
				t.Fatal(err)
			}
			move(t, filepath.Join(l.work, "targets.new"), filepath.Join(l.work, "targets"))
			l.up("done-agent", "done-tool", "done-granted", "done-child")
			l.touch("finish")
			if code := r.wait(t, 30*time.Second); code != 0 {
				t.Errorf("status %d: %s", code, r.stderr())
			}
			tried := map[string]int{}
			for line := range strings.Lines(r.stdout()) {
				var a attempt
				if json.Unmarshal([]byte(line), &a) != nil {
					continue
				}
				tried[a.By]++
				if a.Done && os.Geteuid() == 0 && mode == "full_access" && (a.Act == "environ" || a.Act == "maps") {
					continue // CAP_PERFMON reads them, which the tree says below
				}
				if a.Done {
					t.Errorf("%s on %s: %s succeeded", a.By, a.On, a.Act)
				} else if strings.Contains(a.Why, "no such process") && !(rooms && (a.By == "tool" || a.By == "granted")) {
					t.Errorf("%s on %s: %s found no process: nothing is shown", a.By, a.On, a.Act)
				}
			}
			if strings.Contains(fmt.Sprint(l.rowsOf(audit.ProfileSelected)[0].Missing), "superuser") != (os.Geteuid() == 0 && mode == "full_access") {
				t.Errorf("what is missing is told as %v", l.rowsOf(audit.ProfileSelected)[0].Missing)
			}
			// Each is told its own name too and leaves it out.
			want := len(targets) * len(acts)
			inRoom := want
			if rooms {
				inRoom += len(acts) // and the first process of its own room
			}
			if len(tried) != 4 || tried["agent"] != want || tried["tool"] != inRoom || tried["granted"] != inRoom || tried["child"] != want {
				t.Errorf("tried %v, expected %d for each agent and %d for each tool", tried, want, inRoom)
			}
		})
	}
}

func TestNobodyTakesOver(t *testing.T) {
	testNobodyTakesOver(t)
}

func TestNobodyTakesOverAsUser(t *testing.T) {
	if !asOrdinaryUser(t) {
		return
	}
	testNobodyTakesOver(t)
}

// TestAStageIsOutOfReachBeforeItIsConfined stops a command's stage in the middle
// of its preparation and attacks it there.
func TestAStageIsOutOfReachBeforeItIsConfined(t *testing.T) {
	testenv.Need(t, "landlock-scope", "pidfd")
	t.Parallel()
	for _, backend := range []string{sandbox.BackendLandlock, sandbox.BackendNamespaces} {
		t.Run(backend, func(t *testing.T) {
			if backend == sandbox.BackendNamespaces {
				needRooms(t)
			}
			testStageIsOutOfReach(t, backend)
		})
	}
}

func testStageIsOutOfReach(t *testing.T, backend string) {
	l := newLab(t)
	l.hostile()
	l.rules(`{"permission": {"bash": {"touch ran": "allow"}}}`)
	r := l.spawn([]string{"--mode", "auto_accept_edits", "--sandbox-backend", backend}, "./hostile", "stopped")
	l.up("here-agent")
	sup := supervisorOf(t, r.Process.Pid)
	// Those that the next tool may get: in a room where tools have one.
	above := keeper.KeeperName
	if backend == sandbox.BackendNamespaces {
		above = keeper.RoomName
	}
	stages := map[int]bool{}
	await(t, 10*time.Second, "two warm stages", func() bool {
		clear(stages)
		for _, pid := range descendantsOf(sup) {
			if argv0(pid) != above {
				continue
			}
			for _, below := range childrenOf(pid) {
				if argv0(below) == keeper.StageName {
					stages[below] = true
				}
			}
		}
		return len(stages) >= 2
	})
	var lines string
	for pid := range stages {
		// Whichever of them is taken stands still as soon as it is spoken to.
		if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		lines += fmt.Sprintf("stage %d\n", pid)
	}
	put(t, filepath.Join(l.work, "targets.new"), lines)
	move(t, filepath.Join(l.work, "targets.new"), filepath.Join(l.work, "targets"))
	l.up("done-agent")
	if l.there("ran") {
		t.Error("the tool ran although its stage was stopped: nothing is shown")
	}
	for pid := range stages {
		unix.Kill(pid, unix.SIGCONT)
	}
	l.touch("finish")
	if code := r.wait(t, 30*time.Second); code != 0 || !l.there("ran") {
		t.Errorf("status %d, ran %v after it went on: %s", code, l.there("ran"), r.stderr())
	}
	n := 0
	for line := range strings.Lines(r.stdout()) {
		var a attempt
		if json.Unmarshal([]byte(line), &a) == nil {
			n++
			if a.Done || strings.Contains(a.Why, "no such process") {
				t.Errorf("%s on %s: %v %s", a.Act, a.On, a.Done, a.Why)
			}
		}
	}
	if n < 2*len(acts) {
		t.Errorf("%d attempts", n)
	}
}

var _ = part("stopped", func([]string) int {
	os.WriteFile("here-agent", nil, 0o600)
	untilThere("targets")
	tool := exec.Command("pioneer-super", "exec", "--", "touch", "ran")
	tool.Stderr = os.Stderr
	if err := tool.Start(); err != nil {
		return 97
	}
	time.Sleep(300 * time.Millisecond)
	for _, a := range attackAll("agent", "targets") {
		tell(a)
	}
	os.WriteFile("done-agent", nil, 0o600)
	untilThere("finish")
	tool.Wait()
	return tool.ProcessState.ExitCode()
})

// TestWithoutEnvelopeTheTreeSaysSo: what is not enforced is not claimed.
func TestWithoutEnvelopeTheTreeSaysSo(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.hostile()
	r := l.spawn([]string{"--mode", "full_access", "--no-envelope"}, "./hostile", "attacker", "agent")
	l.up("here-agent")
	put(t, filepath.Join(l.work, "targets.new"), fmt.Sprintf("supervisor %d\n", supervisorOf(t, r.Process.Pid)))
	move(t, filepath.Join(l.work, "targets.new"), filepath.Join(l.work, "targets"))
	l.up("done-agent")
	_, tree := l.run("tree")
	_, asJSON := l.run("tree", "--json")
	l.touch("finish")
	r.wait(t, 20*time.Second)
	if !strings.Contains(r.stdout(), `"Act":"signal","Done":true`) {
		t.Errorf("the envelope is on all the same: %s", r.stdout())
	}
	for what, text := range map[string]string{"the first line": r.stderr(), "tree": tree} {
		if !strings.Contains(text, "no envelope: survivors unknown") {
			t.Errorf("%s does not say so: %s", what, text)
		}
	}
	if !strings.Contains(asJSON, `"noEnvelope":true`) || !strings.Contains(asJSON, "no envelope") {
		t.Errorf("tree --json does not say so: %s", asJSON)
	}
	missing := ""
	for _, row := range l.audit() {
		missing += strings.Join(row.Missing, ",")
	}
	if !strings.Contains(missing, "no envelope") {
		t.Error("the audit does not say so")
	}
}
