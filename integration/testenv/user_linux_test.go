package testenv

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestAsUser(t *testing.T) {
	// What root may do, an ordinary user may not: the control runs before the switch.
	if os.Geteuid() == 0 {
		if err := os.WriteFile("/etc/pioneer-super-test", nil, 0o600); err != nil {
			t.Fatalf("control: root cannot write to /etc: %v", err)
		}
		if err := os.Remove("/etc/pioneer-super-test"); err != nil {
			t.Fatal(err)
		}
	}
	if !AsUser(t, "PIONEER_TEST_EXTRA=yes") {
		return
	}
	if os.Geteuid() == 0 || os.Getuid() == 0 {
		t.Error("still root")
	}
	if f, err := os.Create("/etc/pioneer-super-test"); err == nil {
		f.Close()
		t.Error("an ordinary user can write to /etc")
	}
	if groups, err := os.Getgroups(); err != nil || slices.Contains(groups, 0) {
		t.Errorf("groups %v, %v", groups, err)
	}
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(home, "probe"), nil, 0o600); err != nil {
		t.Errorf("HOME is not writable: %v", err)
	}
	if err := os.Remove(filepath.Join(home, "probe")); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat("user_linux_test.go"); err != nil {
		t.Errorf("the package directory is not here: %v", err)
	}
}

func TestAsUserPassesOnASubtestAlone(t *testing.T) {
	t.Run("with (brackets) and spaces", func(t *testing.T) {
		if !AsUser(t) {
			return
		}
		if os.Geteuid() == 0 {
			t.Error("still root")
		}
	})
}

func TestOutcome(t *testing.T) {
	failed := errors.New("exit status 1")
	tests := []struct {
		name, text string
		err        error
		want       outcome
	}{
		{"a pass", "=== RUN   TestX\n--- PASS: TestX (0.01s)\nPASS", nil, passed},
		{"a skip is not a pass", "=== RUN   TestX\n    x.go:1: needs root\n--- SKIP: TestX (0.00s)\nPASS", nil, skipped},
		{"a failure", "--- FAIL: TestX (0.00s)\nFAIL", failed, broke},
		{"a child that dies after its verdict", "--- PASS: TestX (0.00s)\npanic", failed, broke},
		{"nothing ran", "testing: warning: no tests to run\nPASS", nil, broke},
		{"another test ran", "--- PASS: TestXY (0.00s)\nPASS", nil, broke},
		{"a subtest's skip is its own", "--- PASS: TestX (0.00s)\n    --- SKIP: TestX/a (0.00s)\nPASS", nil, passed},
	}
	for _, tc := range tests {
		if got := outcomeOf("TestX", tc.text, tc.err); got != tc.want {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}

func TestUserEnv(t *testing.T) {
	got := userEnv([]string{"PATH=/bin", "HOME=/root", "XDG_STATE_HOME=/root/s", "PIONEER_SUPER_FD=3", "PIONEER_TEST_REQUIRE=all", "TMPDIR=/t"})
	if want := "PATH=/bin PIONEER_TEST_REQUIRE=all"; strings.Join(got, " ") != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestRunPattern(t *testing.T) {
	if got, want := runPattern("TestA/b.c"), `^TestA$/^b\.c$`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
