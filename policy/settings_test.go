package policy

import (
	"strings"
	"testing"
	"time"
)

func TestSettings(t *testing.T) {
	s, err := ParseSettings("config.jsonc", []byte(`{
  "$schema": "./config.schema.json",
  "roots": ["/opt/go", {"path": "/srv/cache", "access": "write"}],
  "hosts": ["proxy.golang.org:443"], "capabilities": ["ssh"],
  "maxDuration": "30m", "allowAlways": true,
  "yolo": true,
}`))
	if err != nil {
		t.Fatal(err)
	}
	snap := Resolve(s.Input(ResolveInput{Mode: AutoAcceptEdits, Workspace: "/w", Cwd: "/w", MaxDuration: time.Hour}))
	if !snap.Open.CanRead("/opt/go/bin") || snap.Open.CanWrite("/opt/go/bin") || !snap.Open.CanWrite("/srv/cache/x") || !snap.Open.CanReach("proxy.golang.org", "443") || !snap.Open.Has("ssh") {
		t.Errorf("%+v", snap.Open)
	}
	if time.Duration(snap.Process.MaxDuration) != 30*time.Minute || !s.AllowAlways || !s.Yolo || s.YoloOrigin.Line != 6 {
		t.Errorf("%+v %+v", s, snap.Process)
	}
	if in := (*Settings)(nil).Input(ResolveInput{Cwd: "/w"}); in.Cwd != "/w" || in.ExtraRoots != nil {
		t.Errorf("nil settings: %+v", in)
	}
}

func TestSettingsMistakes(t *testing.T) {
	_, err := ParseSettings("c", []byte(`{"root": [], "roots": ["rel", "/", {"path": "/x", "acess": "read"}],
 "hosts": ["http://x"], "capabilities": ["off", "telepathy"], "maxDuration": "soon", "yolo": "yes"}`))
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{
		`c:1:2: unknown key "root"`, `did you mean "roots"?`, `path "rel"`, `path "/"`, `unknown key "acess"`, `host "http://x"`,
		`capability "off"`, `capability "telepathy"`, `"soon" is no duration`, `true or false`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in\n%v", want, err)
		}
	}
}
