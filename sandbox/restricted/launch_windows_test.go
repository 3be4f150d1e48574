package restricted

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/windows"
)

// The test binary is its own victim: as *holder* it starts another of itself, says so and waits.
func TestMain(m *testing.M) {
	switch os.Getenv("RESTRICTED_TEST_PART") {
	case "holder":
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), "RESTRICTED_TEST_PART=waiter")
		child.Stdin, child.Stdout = os.Stdin, os.Stdout
		if err := child.Start(); err != nil {
			_, _ = os.Stdout.WriteString("no child: " + err.Error() + "\n")
		} else {
			_, _ = os.Stdout.WriteString("child\n")
		}
		_, _ = io.Copy(io.Discard, os.Stdin)
	case "waiter":
		_, _ = io.Copy(io.Discard, os.Stdin)
	default:
		os.Exit(m.Run())
	}
}

// start starts a holder in the job of a plan with limits, and returns what it says first.
func start(t *testing.T, limits Limits) (*Job, *exec.Cmd, string) {
	t.Helper()
	p, err := New(Request{Name: "the name of a test session", Limits: limits})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "RESTRICTED_TEST_PART=holder")
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	job, err := p.StartInJob(cmd)
	if err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return job, cmd, strings.TrimSpace(line)
}

func TestJobHoldsAllProcesses(t *testing.T) {
	job, cmd, said := start(t, Limits{})
	if n, err := job.Processes(); said != "child" || n != 2 || err != nil {
		t.Errorf("%d processes (%v), the first says %q", n, err, said)
	}
	if err := job.Terminate(7); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 7 {
		t.Errorf("ended with %v", err)
	}
	for n := 1; n != 0; {
		var err error
		if n, err = job.Processes(); err != nil {
			t.Fatal(err)
		}
	}
	if err := job.Close(); err != nil {
		t.Error(err)
	}
}

func TestEndOfTheJobIsTheEndOfItsProcesses(t *testing.T) {
	job, cmd, said := start(t, Limits{})
	if said != "child" {
		t.Fatalf("the first says %q", said)
	}
	if err := job.Close(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it would wait for ever for a process that lived on
}

func TestJobLimitsProcesses(t *testing.T) {
	job, cmd, said := start(t, Limits{Processes: 1})
	if !strings.HasPrefix(said, "no child: ") {
		t.Errorf("beyond the limit the first says %q", said)
	}
	if err := job.Close(); err != nil {
		t.Error(err)
	}
	_ = cmd.Wait()
}

func TestProbe(t *testing.T) {
	if err := Probe(); err != nil {
		t.Error(err)
	}
}

// TestEntriesAreMadeAndUndone compares the access list of a directory before, with, and after
// the entries of a plan.
func TestEntriesAreMadeAndUndone(t *testing.T) {
	for name, request := range map[string]func(dir string) Request{
		"read":  func(dir string) Request { return Request{Name: "the name of a test session", Read: []string{dir}} },
		"write": func(dir string) Request { return Request{Name: "the name of a test session", Write: []string{dir}} },
	} {
		t.Run(name, func(t *testing.T) {
			dir, file := t.TempDir(), t.TempDir()+`\record`
			p, err := New(request(dir))
			if err != nil {
				t.Fatal(err)
			}
			before := accessList(t, dir)
			if err := p.Apply(file); err != nil {
				t.Fatal(err)
			}
			if with := accessList(t, dir); strings.Contains(before, p.SID) || !strings.Contains(with, p.SID) {
				t.Errorf("before %s, with the entries %s", before, with)
			}
			if err := Undo(file); err != nil {
				t.Fatal(err)
			}
			if after := accessList(t, dir); after != before {
				t.Errorf("before %s, after %s", before, after)
			}
			if _, err := os.Stat(file); !os.IsNotExist(err) {
				t.Errorf("the record is still there: %v", err)
			}
		})
	}
}

func accessList(t *testing.T, dir string) string {
	t.Helper()
	sd, err := windows.GetNamedSecurityInfo(dir, windows.SE_FILE_OBJECT, windows.DACL_SECURITY_INFORMATION)
	if err != nil {
		t.Fatal(err)
	}
	return sd.String()
}
