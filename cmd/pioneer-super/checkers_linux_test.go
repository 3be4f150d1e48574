package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Inside a tree the session's own authority answers, its ancestors' and its caps
// included; outside, on the same files, another.
func TestChecksInATree(t *testing.T) {
	l := newLab(t)
	l.configure("policy.jsonc", `{"permission": {"bash": "allow", "task": "allow", "network": {"allowed.example": "allow", "*.wide.example": "allow", "10.0.0.1": "allow"}}}`)
	l.script("cap.jsonc", `{"ceiling": {"hosts": ["x.wide.example"]}}`)
	outside := filepath.Join(filepath.Dir(l.work), "elsewhere")
	if err := os.Mkdir(outside, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(l.work, "way-out")); err != nil {
		t.Fatal(err)
	}
	l.script("child.sh", `say() { "$@" >/dev/null 2>&1; echo "child $? $*"; }
say pioneer-super net check https://x.wide.example
say pioneer-super net check https://allowed.example`)
	l.script("agent.sh", `say() { "$@" >/dev/null 2>&1; echo "$? $*"; }
say pioneer-super fs check --write file
say pioneer-super fs check --write way-out/file
say pioneer-super fs check --read agent.sh
say pioneer-super net check https://allowed.example
say pioneer-super net check https://ALLOWED.example.:443/
say pioneer-super net check https://other.example
say pioneer-super net check http://10.0.0.1 http://10.0.0.1:1
say pioneer-super net check http://127.0.0.1
say pioneer-super net check unix:/run/x
say pioneer-super net check --output way-out/file https://allowed.example
pioneer-super spawn --cap cap.jsonc -- sh child.sh`)
	r := l.spawn([]string{"--mode", "auto_accept_edits"}, "sh", "agent.sh")
	code := r.wait(t, 2*time.Minute)
	for _, want := range []string{
		"0 pioneer-super fs check --write file", "13 pioneer-super fs check --write way-out/file", "0 pioneer-super fs check --read agent.sh",
		"0 pioneer-super net check https://allowed.example", "0 pioneer-super net check https://ALLOWED.example.:443/", "13 pioneer-super net check https://other.example",
		"0 pioneer-super net check http://10.0.0.1 http://10.0.0.1:1", "13 pioneer-super net check http://127.0.0.1", "10 pioneer-super net check unix:/run/x",
		"13 pioneer-super net check --output way-out/file https://allowed.example",
		"child 0 pioneer-super net check https://x.wide.example", "child 10 pioneer-super net check https://allowed.example",
	} {
		if !strings.Contains("\n"+r.stdout(), "\n"+want+"\n") {
			t.Errorf("%q is missing", want)
		}
	}
	if t.Failed() {
		t.Logf("exit %d\n%s\n%s", code, r.stdout(), r.stderr())
	}
}
