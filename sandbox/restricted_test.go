package sandbox

import (
	"errors"
	"strings"
	"testing"
)

func TestWindowsRefusesRestrictedModes(t *testing.T) {
	able := Host{System: "windows", RestrictedTokens: true}
	unable := Host{System: "windows", RestrictedTokensLack: "it was switched off"}
	for _, tt := range []struct {
		host       Host
		area, lack string
	}{{able, "network", "an administrator's"}, {unable, "files", "it was switched off"}} {
		for _, mode := range []string{ModeReadOnly, ModeWorkspaceWrite} {
			p, report, err := Plan(Request{Workspace: `C:\work`, Temp: `C:\temp`, Mode: mode, Host: tt.host})
			var lack *UnavailableError
			if !errors.As(err, &lack) || lack.Area != tt.area || !strings.Contains(lack.Lacks, tt.lack) || report.Status != StatusUnavailable || p.Validate() == nil {
				t.Errorf("%s: %v, %+v, %v", mode, p, report, err)
			}
		}
		for _, p := range tt.host.Prospects() {
			if refused := strings.Contains(p.Refused, tt.lack); refused != (p.Mode != ModeUnrestricted) {
				t.Errorf("%+v", p)
			}
		}
	}
	if f := unable.Facts()[0]; f.Have || f.Detail != "it was switched off" {
		t.Errorf("%+v", f)
	}
	if f := able.Facts()[0]; !f.Have || !strings.Contains(f.Detail, "no command is started with them") {
		t.Errorf("%+v", f)
	}
}
