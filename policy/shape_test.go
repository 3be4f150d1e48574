package policy

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// shapeHolds is the slow reading of a shape: whether name is one of its names.
func shapeHolds(shape, name string) bool {
	if shape == "" {
		return name == ""
	}
	switch shape[:1] {
	case AnyOne:
		return name != "" && name[0] != '/' && shapeHolds(shape[1:], name[1:])
	case AnyName, AnyText:
		for i := 0; ; i++ {
			if shapeHolds(shape[1:], name[i:]) {
				return true
			}
			if i == len(name) || shape[:1] == AnyName && name[i] == '/' {
				return false
			}
		}
	}
	return name != "" && name[0] == shape[0] && shapeHolds(shape[1:], name[1:])
}

// names are all texts of at most n characters of a small alphabet.
func names(n int) []string {
	out, last := []string{""}, []string{""}
	for range n {
		var next []string
		for _, s := range last {
			for _, c := range "ab/" {
				next = append(next, s+string(c))
			}
		}
		out, last = append(out, next...), next
	}
	return out
}

func randomText(r *rand.Rand, parts []string) string {
	var b strings.Builder
	for range r.IntN(4) {
		b.WriteString(parts[r.IntN(len(parts))])
	}
	return b.String()
}

var (
	shapeParts   = []string{"a", "b", "/", "a", AnyOne, AnyName, AnyText}
	patternParts = []string{"a", "b", "/", "b", "?", "*"}
)

// A common text of three and three tokens has at most six characters, so what is
// enumerated is all that counts.
func TestShapesMeetPatternsAsTheirNamesDo(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 1))
	all := names(6)
	met, covered := 0, 0
	for range 4000 {
		shape, pattern := Shape{Text: randomText(r, shapeParts)}, randomText(r, patternParts)
		g, _ := compileGlob("", pattern, false)
		some, every := false, true
		for _, n := range all {
			if shapeHolds(shape.Text, n) {
				some = some || Match(pattern, n, "")
				every = every && Match(pattern, n, "")
			}
		}
		if got := g.meets(shape); got != some {
			t.Fatalf("shape %q meets %q: %v, its names say %v", shape.Text, pattern, got, some)
		}
		if g.coversShape(shape) {
			covered++
			if !every {
				t.Fatalf("pattern %q does not cover %q", pattern, shape.Text)
			}
		}
		if some {
			met++
		}
	}
	if met < 500 || covered < 200 {
		t.Errorf("%d met, %d covered: the shapes and patterns show too little", met, covered)
	}
}

// What is said of a shape is never less restrictive than what is said of one of
// its names, denied only if all are, and allowed where no rule meets one.
func TestShapesAreDecidedAsTheirNamesAre(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 2))
	all := names(5)
	seen := map[Action]int{}
	actions := []string{"allow", "ask", "deny"}
	for range 800 {
		var rules []string
		for range 1 + r.IntN(4) {
			p := randomText(r, patternParts) + patternParts[r.IntN(len(patternParts))]
			rules = append(rules, fmt.Sprintf("%q: %q", p, actions[r.IntN(3)]))
		}
		text := `{"permission": {"path_read": {` + strings.Join(rules, ", ") + `}}}`
		file, err := ParsePolicy("p.jsonc", []byte(text))
		if err != nil {
			continue // the same pattern twice
		}
		guards, err := ParseGuards("g.jsonc", []byte(`{"permission": {"path_read": {"b/a*": "deny"}}}`))
		if err != nil {
			t.Fatal(err)
		}
		a := Compose(Layers{Session: "s", Snapshot: Resolve(ResolveInput{Mode: FullAccess, Workspace: "/w", Cwd: "/w"}), Policy: file, Guards: guards})
		shape := randomText(r, shapeParts)
		q := NewQuery("path_read", "shown")
		q.Shapes, q.RulesOnly = []Shape{{Text: shape}}, true
		got := a.Decide(q).Action
		seen[got]++
		least, allDenied := Allow, true
		for _, n := range all {
			if !shapeHolds(shape, n) {
				continue
			}
			one := NewQuery("path_read", n)
			one.RulesOnly = true
			d := a.Decide(one).Action
			least, allDenied = min(least, d), allDenied && d == Deny
		}
		if least != Allow && got == Allow {
			t.Fatalf("%s: %q is allowed, one of its names is %s", text, shape, least)
		}
		if got == Deny && !allDenied {
			t.Fatalf("%s: %q is denied, not each of its names is", text, shape)
		}
		if got != Allow && least == Allow && len(rules) == 1 {
			t.Fatalf("%s: %q is %s, each of its names is allowed", text, shape, got)
		}
	}
	for _, a := range []Action{Allow, Ask, Deny} {
		if seen[a] < 20 {
			t.Errorf("%d answers are %s: the rules show too little", seen[a], a)
		}
	}
}

func TestShapesInEveryLayer(t *testing.T) {
	limit, err := ParseCap("cap", []byte(`{"profile": {"policy": {"deny_paths": ["/w/secret*"]}}}`))
	if err != nil {
		t.Fatal(err)
	}
	guards, err := ParseGuards("g.jsonc", []byte(`{"permission": {"path": {"/etc/*": "deny"}}, "protectedWrites": ["/w/.git/*"]}`))
	if err != nil {
		t.Fatal(err)
	}
	a := Compose(Layers{Session: "s", Snapshot: Resolve(ResolveInput{}), Guards: guards, Caps: []*Cap{limit}})
	for _, c := range []struct {
		surface, shape string
		want           Action
		human          bool
	}{
		{"path_read", "/e" + AnyOne + "c/x", Ask, false},
		{"path_read", "/etc/" + AnyName, Deny, false},
		{"path_read", "/u" + AnyName + "/x", Allow, false},
		{"path_read", "/w/" + AnyName, Ask, false},
		{"path_read", "/w/secret" + AnyName, Deny, false},
		{"path_write", "/w/" + AnyName + "/config", Ask, true},
		{"path_write", "/w/src/" + AnyName, Allow, false},
	} {
		q := NewQuery(c.surface, "shown")
		q.Shapes = []Shape{{Text: c.shape}}
		if d := Decide([]*Authority{a}, q); d.Action != c.want || d.HumanOnly != c.human {
			t.Errorf("%s %q: %+v", c.surface, c.shape, d)
		}
	}
	// A grant covers what it covers whole.
	asking := []*Authority{NewAuthority("s", Resolve(ResolveInput{}), mustPolicy(t, `{"permission": {"path_read": {"/w/*": "ask"}}}`))}
	var grants Grants
	mustAdd(t, &grants, Grant{ID: "1", Session: "s", Surface: "path_read", Pattern: "/w/a/*"})
	for shape, want := range map[string]Action{"/w/a/" + AnyName: Allow, "/w/" + AnyName + "/x": Ask} {
		q := NewQuery("path_read", "shown")
		q.Shapes = []Shape{{Text: shape}}
		if d, _ := Judge(asking, &grants, q, ""); d.Action != want {
			t.Errorf("%q with a grant: %+v", shape, d)
		}
	}
}
