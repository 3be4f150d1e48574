package main

import (
	"strings"
	"testing"

	"github.com/getpioneer/pioneer-super/integration/sources"
)

const module = sources.Module + "/"

func events(lines ...string) string {
	return strings.ReplaceAll(strings.Join(lines, "\n"), "@", module)
}

func TestReport(t *testing.T) {
	pass := `{"Action":"output","Package":"@a","Test":"TestA","Output":"--- PASS: TestA\n"}
{"Action":"pass","Package":"@a","Test":"TestA"}
{"Action":"output","Package":"@a","Output":"PASS\n"}
{"Action":"output","Package":"@a","Output":"ok  \t@a\t0.1s\n"}
{"Action":"pass","Package":"@a"}`
	skipRoot := `{"Action":"output","Package":"@a","Test":"TestS","Output":"    a.go:1: testenv: as uid 9: testenv: needs root: the uid is 9\n"}
{"Action":"skip","Package":"@a","Test":"TestS"}`
	tests := []struct {
		name, in, skips string
		wantErr         string
		wantOut         []string
		notOut          string
	}{
		{"a pass is as quiet as go test", pass, "", "", []string{"ok  \t" + module + "a\t0.1s\n", "user: 1 passed, 0 failed, 0 skipped\n"}, "--- PASS"},
		{"a failure is shown", pass + "\n" + `{"Action":"output","Package":"@a","Test":"TestB","Output":"--- FAIL: TestB\n"}
{"Action":"fail","Package":"@a","Test":"TestB"}
{"Action":"fail","Package":"@a"}`, "", "1 tests failed", []string{"--- FAIL: TestB\n", "user: 1 passed, 1 failed, 0 skipped\n"}, ""},
		{"a package that does not build", pass + "\n" + `{"ImportPath":"@b","Action":"build-output","Output":"b.go:1: undefined: x\n"}
{"Action":"fail","Package":"@b"}`, "", "@b", []string{"undefined: x"}, ""},
		{"a test without an end", pass + "\n" + `{"Action":"output","Package":"@b","Test":"TestHang","Output":"panic: test timed out\n"}
{"Action":"fail","Package":"@b"}`, "", "1 tests failed", []string{"no end: " + module + "b TestHang", "test timed out"}, ""},
		{"nothing ran", `{"Action":"output","Package":"@a","Output":"ok  \t@a\t[no tests to run]\n"}
{"Action":"pass","Package":"@a"}`, "", "no test ran", nil, ""},
		{"a skip that is expected", pass + "\n" + skipRoot, "user a TestS root # why\nroot a TestT root", "", []string{"user: 1 passed, 0 failed, 1 skipped\n"}, ""},
		{"a skip that nobody expects", pass + "\n" + skipRoot, "", "not what is expected", []string{"no line allows it: user a TestS root"}, ""},
		{"a skip for another reason", pass + "\n" + skipRoot, "user a TestS tmux", "not what is expected", []string{"no line allows it", "its line must go"}, ""},
		{"an expected skip that ran", pass, "user a TestS root", "not what is expected", []string{"not skipped, so its line must go: user a TestS root"}, ""},
		{"what is not JSON is passed on", pass + "\ngo: warning\n", "", "", []string{"go: warning\n"}, ""},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			want, err := expectedSkips("user", "skips", tc.skips)
			if err != nil {
				t.Fatal(err)
			}
			var out strings.Builder
			err = report("user", want, strings.NewReader(events(tc.in)), &out)
			wantErr := events(tc.wantErr)
			switch {
			case wantErr == "" && err != nil:
				t.Errorf("error %v", err)
			case wantErr != "" && (err == nil || !strings.Contains(err.Error(), wantErr)):
				t.Errorf("error %v, want one with %q", err, wantErr)
			}
			for _, s := range tc.wantOut {
				if !strings.Contains(out.String(), s) {
					t.Errorf("the output lacks %q:\n%s", s, out.String())
				}
			}
			if tc.notOut != "" && strings.Contains(out.String(), tc.notOut) {
				t.Errorf("the output has %q:\n%s", tc.notOut, out.String())
			}
		})
	}
}

func TestExpectedSkipsNamesTheLine(t *testing.T) {
	for text, want := range map[string]string{
		"# fine\nroot a TestA\n":               "skips:2: expected JOB DIR TEST FEATURE",
		"user a TestA tmux\nuser a TestA tmux": "skips:2: a TestA tmux is there twice",
	} {
		if _, err := expectedSkips("user", "skips", text); err == nil || err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}

func TestListFuzz(t *testing.T) {
	tree, err := sources.Parse(map[string]string{"a/b/b_test.go": "package b\nfunc FuzzX(f *testing.F) {}\n"})
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := listFuzz(tree, &out); err != nil || out.String() != "./a/b FuzzX\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
	none, err := sources.Parse(map[string]string{"a/a_test.go": "package a\n"})
	if err != nil {
		t.Fatal(err)
	}
	if err := listFuzz(none, &out); err == nil {
		t.Error("an empty list is no error")
	}
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{nil, {"report"}, {"report", "x"}, {"fuzz", "x"}, {"other"}} {
		if err := run(args, strings.NewReader(""), &strings.Builder{}); err == nil || !strings.Contains(err.Error(), "usage") {
			t.Errorf("%q: error %v", args, err)
		}
	}
}
