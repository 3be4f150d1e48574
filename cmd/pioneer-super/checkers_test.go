package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFSCheck(t *testing.T) {
	configuration(t, nil)
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	workspace, outside := filepath.Join(base, "w"), filepath.Join(base, "outside")
	write(t, filepath.Join(workspace, ".git", "HEAD"), "")
	write(t, filepath.Join(workspace, "main.go"), "")
	write(t, filepath.Join(outside, "secret"), "")
	for name, to := range map[string]string{"file": "../outside/secret", "dir": outside, "dangling": outside + "/new", "inside": "main.go", "loop": "loop"} {
		if err := os.Symlink(to, filepath.Join(workspace, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		access, path string
		code         int
	}{
		{"--read", "main.go", 0}, {"--write", "main.go", 0},
		{"--write", "new/deep/file", 0},                  // by the nearest folder that is there
		{"--write", "new/../../outside/x", 13},           // out by its name
		{"--read", filepath.Join(outside, "secret"), 13}, //
		{"--read", "file", 13}, {"--write", "file", 13},  // out by a link
		{"--write", "dir/new/file", 13}, {"--read", "dir/", 13}, // out by a link above what is new
		{"--write", "dangling", 13},                         // what is made where a link leads
		{"--read", "inside", 0}, {"--write", "./inside", 0}, // a link that stays
		{"--read", "loop", 10}, {"--write", "loop/x", 10}, // nowhere
		{"--read", "", 2}, {"--read", "a\x00b", 2},
	} {
		got := runHere("", "fs", "check", c.access, "--mode", "auto_accept_edits", "--cwd", workspace, c.path)
		if got.code != c.code {
			t.Errorf("%s %q: %d, want %d: %s%s", c.access, c.path, got.code, c.code, got.out, got.err)
		}
	}
	// A root that is read-only: written, it is asked; under a rule, denied, by any name.
	policyFile := write(t, filepath.Join(base, "policy.jsonc"), `{"permission": {"*": "allow", "path_write": {"`+outside+`/*": "deny"}, "path": {"*/main.go": "deny"}}}`)
	for _, c := range []struct {
		args []string
		code int
	}{
		{[]string{"--mode", "supervised", "--read", "main.go"}, 0},
		{[]string{"--mode", "supervised", "--write", "main.go"}, 13},
		{[]string{"--policy", policyFile, "--write", "dir/x"}, 10},
		{[]string{"--policy", policyFile, "--write", "dangling"}, 10},
		{[]string{"--policy", policyFile, "--read", "dir/x"}, 0},
		{[]string{"--policy", policyFile, "--read", "inside"}, 10},
		{[]string{"--policy", policyFile, "--read", "a", "inside", "b"}, 10},
		{[]string{"--read", "--write", "a"}, 2},
		{[]string{}, 2},
		{[]string{"--policy", policyFile + "x", "a"}, 2},
		{[]string{"--mode", "none", "a"}, 2},
	} {
		got := runHere("", append([]string{"fs", "check", "--cwd", workspace}, c.args...)...)
		if got.code != c.code {
			t.Errorf("%q: %d, want %d: %s%s", c.args, got.code, c.code, got.out, got.err)
		}
	}
	got := runHere("", "fs", "check", "--json", "--write", "--mode", "auto_accept_edits", "--cwd", workspace, "file", "main.go")
	var said struct {
		Verdict string
		Results []checked
	}
	if err := json.Unmarshal([]byte(got.out), &said); err != nil || got.code != 13 || said.Verdict != "ask" || len(said.Results) != 2 {
		t.Fatalf("%d %s%s %v", got.code, got.out, got.err, err)
	}
	if r := said.Results[0]; r.Real != filepath.Join(outside, "secret") || r.Access != "write" || !strings.Contains(r.Reason, r.Real) {
		t.Errorf("%+v", r)
	}
}

func TestNetCheck(t *testing.T) {
	configuration(t, nil)
	base := t.TempDir()
	policyFile := write(t, filepath.Join(base, "policy.jsonc"), `{"permission": {"*": "deny", "path_write": {"*/downloads/*": "allow"}, "network": {
		"*.a.example": "allow", "bad.a.example": "deny", "b.example:8443": "allow", "10.0.0.1": "allow", "xn--bcher-kva.example": "allow", "2001:db8::1": "allow"}}}`)
	wide := write(t, filepath.Join(base, "wide.jsonc"), `{"permission": {"*": "allow"}}`)
	local := write(t, filepath.Join(base, "local.jsonc"), `{"permission": {"*": "allow", "network": {"localhost": "allow"}}}`)
	for _, c := range []struct {
		policy, url string
		code        int
	}{
		{policyFile, "https://x.a.example/path?q", 0}, {policyFile, "http://X.A.example.:80", 0}, {policyFile, "https://bad.a.example", 10}, {policyFile, "https://BAD.a.example.", 10},
		{policyFile, "https://a.example.evil.example", 10}, {policyFile, "https://xa.example", 10},
		{policyFile, "https://b.example:8443", 0}, {policyFile, "https://b.example", 10},
		{policyFile, "https://bücher.example", 0}, {policyFile, "https://xn--bcher-kva.example", 0},
		{policyFile, "http://10.0.0.1", 0}, {policyFile, "http://0xa.1", 0}, {policyFile, "http://[::ffff:10.0.0.1]:8080", 0}, {policyFile, "http://10.0.0.2", 10},
		{policyFile, "http://[2001:DB8:0::1]:1", 0},
		{wide, "https://anything.example", 0},
		{wide, "http://127.0.0.1:3000", 13}, {wide, "http://127.1", 13}, {wide, "http://2130706433", 13}, {wide, "http://localhost", 13}, {wide, "http://x.localhost.", 13},
		{wide, "http://169.254.169.254/latest", 13}, {wide, "http://[fe80::1]", 13}, {wide, "http://192.168.0.1", 13}, {wide, "http://[::]", 13},
		{local, "http://localhost:3000", 0}, {local, "http://127.0.0.1", 13},
		{wide, "ftp://x.example", 10}, {wide, "file:///etc/passwd", 10}, {wide, "x.example", 10}, {wide, "//x.example", 10}, {wide, "https://user@x.example", 10},
		{wide, "https://x.example\\@evil.example", 10}, {wide, "http://fe80::1%25eth0", 10}, {wide, "https://x.example:0", 10}, {wide, "http:x.example", 10}, {wide, "", 10},
		{wide, "unix:/run/docker.sock", 10},
	} {
		got := runHere("", "net", "check", "--policy", c.policy, "--", c.url)
		if got.code != c.code {
			t.Errorf("%s %q: %d, want %d: %s%s", filepath.Base(c.policy), c.url, got.code, c.code, got.out, got.err)
		}
	}
	// Disabled, restricted and unrestricted, by mode.
	for mode, code := range map[string]int{"supervised": 13, "auto_accept_edits": 13, "full_access": 0} {
		for _, url := range []string{"https://a.example", "http://127.0.0.1", "unix:/run/docker.sock"} {
			want := code
			if url == "unix:/run/docker.sock" && code == 13 {
				want = 10
			}
			if got := runHere("", "net", "check", "--mode", mode, url); got.code != want {
				t.Errorf("%s %s: %d, want %d: %s%s", mode, url, got.code, want, got.out, got.err)
			}
		}
	}
	// A download asks about its file first, and about nothing else where that is refused.
	got := runHere("", "net", "check", "--policy", policyFile, "--cwd", base, "--output", "downloads/x", "--json", "https://x.a.example")
	if got.code != 0 || !strings.Contains(got.out, `"connect"`) {
		t.Errorf("%d %s%s", got.code, got.out, got.err)
	}
	got = runHere("", "net", "check", "--policy", policyFile, "--cwd", base, "--output", "x", "--json", "https://x.a.example")
	if got.code != 10 || strings.Contains(got.out, `"connect"`) {
		t.Errorf("%d %s%s", got.code, got.out, got.err)
	}
	for _, args := range [][]string{{}, {"--output", "x", "https://a.example", "https://b.example"}, {"--output", "", "https://a.example"}} {
		if got := runHere("", append([]string{"net", "check", "--policy", wide}, args...)...); got.code != 2 {
			t.Errorf("%q: %d %s%s", args, got.code, got.out, got.err)
		}
	}
}
