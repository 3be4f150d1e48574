package shell

import (
	"fmt"
	"strings"

	"github.com/getpioneer/pioneer-super/policy"
)

// Explain prints what was found in a text, the rule for each part and the
// verdict, for a human. Every text that comes from outside is quoted so that it
// stays on its line.
func (a *Analysis) Explain(v Verdict) string {
	var b strings.Builder
	fmt.Fprintf(&b, "verdict    %s\n", v.Action)
	if v.Unit != "" {
		fmt.Fprintf(&b, "because of %s\n", visible(v.Unit))
	}
	if v.Reason != "" {
		fmt.Fprintf(&b, "reason     %s\n", visible(v.Reason))
	}
	if r := rule(v.Decision); r != "" {
		fmt.Fprintf(&b, "rule       %s\n", r)
	}
	for _, p := range a.Problems {
		at := ""
		if p.Line > 0 {
			at = fmt.Sprintf(" at %d:%d", p.Line, p.Column)
		}
		fmt.Fprintf(&b, "problem    %s %s%s: at most %s\n", p.Kind, visible(p.Message), at, p.Action)
	}
	if len(a.Units) > 0 {
		b.WriteString("commands\n")
	}
	for i := range a.Units {
		u := &a.Units[i]
		action := ""
		var res *Result
		for j := range v.Results {
			if v.Results[j].Surface == "bash" && v.Results[j].Index == i {
				res = &v.Results[j]
				action = res.Action.String()
				if res.Ignored {
					action = "-"
				}
				break
			}
		}
		fmt.Fprintf(&b, "  %-6s %s\n", action, visible(u.Text))
		if u.Context != "" || len(u.Wrappers) > 0 {
			fmt.Fprintf(&b, "         in %s", or(u.Context, "command"))
			if len(u.Wrappers) > 0 {
				fmt.Fprintf(&b, ", by %s", visible(strings.Join(u.Wrappers, " ")))
			}
			b.WriteByte('\n')
		}
		if u.Executed != "" {
			fmt.Fprintf(&b, "         runs %s\n", visible(u.Executed))
		}
		switch {
		case u.File != "" && u.Changeable:
			fmt.Fprintf(&b, "         is %s (this session can change it)\n", visible(u.File))
		case u.File != "":
			fmt.Fprintf(&b, "         is %s\n", visible(u.File))
		default:
			fmt.Fprintf(&b, "         %s, %s\n", u.Resolution, u.Class)
		}
		if res != nil {
			if r := rule(res.Decision); r != "" {
				fmt.Fprintf(&b, "         rule %s", r)
				if res.Form != "" {
					fmt.Fprintf(&b, " as %s", visible(res.Form))
				}
				b.WriteByte('\n')
			}
			if res.Sentinel != "" {
				fmt.Fprintf(&b, "         %s %s\n", res.Sentinel, visible(res.Why))
			}
		}
	}
	if len(a.Paths) > 0 {
		b.WriteString("paths\n")
	}
	for i := range a.Paths {
		p := &a.Paths[i]
		dir := "read"
		if p.Write {
			dir = "write"
		}
		note := ""
		switch {
		case p.Unknown:
			note = "  (the file is not known)"
		case p.UnknownBase:
			note = "  (the directory is not known)"
		case p.Unproven:
			note = "  (direction not proven)"
		}
		action := "-"
		for j := range v.Results {
			if r := &v.Results[j]; r.Surface != "bash" && r.Index == i && !r.Ignored {
				action = r.Action.String()
				if s := rule(r.Decision); s != "" {
					note += "  rule " + s
				}
				break
			}
		}
		fmt.Fprintf(&b, "  %-6s %-5s %s%s\n", action, dir, visible(or(p.Path, p.Typed)), note)
	}
	n := a.Needs
	var needs []string
	if n.WorkspaceWrite {
		needs = append(needs, "workspace writable")
	}
	if n.Network {
		needs = append(needs, "network "+visible(strings.Join(n.Hosts, " ")))
	}
	for _, r := range n.Remotes {
		needs = append(needs, "git remote "+visible(r))
	}
	for _, c := range n.Capabilities {
		needs = append(needs, visible(c))
	}
	if len(needs) > 0 {
		fmt.Fprintf(&b, "needs\n  %s\n", strings.Join(needs, ", "))
	}
	for _, s := range n.Sentences {
		fmt.Fprintf(&b, "  %s\n", visible(s))
	}
	if a.Canonical != "" {
		b.WriteString("runs as\n")
		for line := range strings.SplitSeq(strings.TrimSuffix(a.Canonical, "\n"), "\n") {
			fmt.Fprintf(&b, "  %s\n", visible(line))
		}
	} else {
		b.WriteString("runs as\n  nothing: there is no canonical text\n")
	}
	return b.String()
}

func or(s, other string) string {
	if s != "" {
		return s
	}
	return other
}

func rule(d policy.Decision) string {
	if d.Rule.Pattern == "" && d.Rule.Origin.Authority == "" {
		return ""
	}
	s := fmt.Sprintf("%s %s: %s", or(d.Rule.Surface, "bash"), visible(d.Rule.Pattern), d.Rule.Action)
	o := d.Rule.Origin
	if o.File != "" {
		s += fmt.Sprintf(" (%s:%d:%d)", visible(o.File), o.Line, o.Column)
	} else if o.Authority != "" {
		s += " (" + o.Authority + ")"
	}
	return s
}

// visible makes one line of a text, with what cannot be seen written out.
func visible(s string) string {
	q := quoteANSI(s)
	body := q[2 : len(q)-1]
	body = strings.ReplaceAll(body, `\'`, `'`)
	return strings.ReplaceAll(body, `\\`, `\`)
}
