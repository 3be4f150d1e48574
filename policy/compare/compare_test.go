package compare

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/cedar-policy/cedar-go"
	"github.com/open-policy-agent/opa/v1/rego"

	"github.com/getpioneer/pioneer-super/policy"
)

// engine answers whether a command is allowed.
type engine struct {
	name string
	ask  func(command string) bool
}

// pattern is rule i of n: a glob over the command's text. Every second one
// allows, and what no rule names is denied.
func pattern(i int) string { return fmt.Sprintf("tool%d run --level=%d *", i, i%7) }

func ours(t testing.TB, n, depth int) engine {
	var b strings.Builder
	b.WriteString(`{"permission": {"bash": {"*": "deny",`)
	for i := range n {
		fmt.Fprintf(&b, "%q: %q,\n", pattern(i), []string{"allow", "deny"}[i%2])
	}
	b.WriteString("}}}")
	f, err := policy.ParsePolicy("policy.jsonc", []byte(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	snap := policy.Resolve(policy.ResolveInput{Mode: policy.Supervised, Workspace: "/w", Cwd: "/w"})
	var chain []*policy.Authority
	for range depth {
		chain = append(chain, policy.NewAuthority("s", snap, f))
	}
	name := "pioneer-super"
	if depth > 1 {
		name += fmt.Sprintf("-depth=%d", depth)
	}
	return engine{name, func(command string) bool {
		return policy.Decide(chain, policy.NewQuery("bash", command)).Action == policy.Allow
	}}
}

func cedarEngine(t testing.TB, n int) engine {
	set := cedar.NewPolicySet()
	for i := range n {
		effect := []string{"permit", "forbid"}[i%2]
		text := fmt.Sprintf("%s (principal, action, resource) when { context.command like %q };", effect, pattern(i))
		var p cedar.Policy
		if err := p.UnmarshalCedar([]byte(text)); err != nil {
			t.Fatal(err)
		}
		set.Add(cedar.PolicyID(fmt.Sprint(i)), &p)
	}
	entities := cedar.EntityMap{}
	return engine{"cedar-go", func(command string) bool {
		ok, _ := cedar.Authorize(set, entities, cedar.Request{
			Principal: cedar.NewEntityUID("Session", "s"), Action: cedar.NewEntityUID("Action", "bash"), Resource: cedar.NewEntityUID("Shell", "bash"),
			Context: cedar.NewRecord(cedar.RecordMap{"command": cedar.String(command)}),
		})
		return ok == cedar.Allow
	}}
}

func opaEngine(t testing.TB, n int) engine {
	var b strings.Builder
	b.WriteString("package p\n\ndefault allow := false\n\nallow if {\n\tpermit\n\tnot forbid\n}\n")
	for i := range n {
		fmt.Fprintf(&b, "\n%s if glob.match(%q, null, input.command)\n", []string{"permit", "forbid"}[i%2], pattern(i))
	}
	ctx := context.Background()
	q, err := rego.New(rego.Query("data.p.allow"), rego.Module("p.rego", b.String())).PrepareForEval(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return engine{"opa", func(command string) bool {
		rs, err := q.Eval(ctx, rego.EvalInput(map[string]any{"command": command}))
		if err != nil {
			t.Fatal(err)
		}
		return rs.Allowed()
	}}
}

// commands are asked of every engine: the last rule, one in the middle, none.
func commands(n int) map[string]bool {
	return map[string]bool{
		strings.ReplaceAll(pattern(n-2), "*", "--fast x"): true,
		strings.ReplaceAll(pattern(n-1), "*", "--fast x"): false,
		strings.ReplaceAll(pattern(n/4*2), "*", "y"):      true,
		"python3 -m http.server 8000 --bind 127.0.0.1":    false,
	}
}

func engines(t testing.TB, n int) []engine {
	return []engine{ours(t, n, 1), ours(t, n, 5), cedarEngine(t, n), opaEngine(t, n)}
}

func TestTheEnginesAgree(t *testing.T) {
	for _, n := range []int{10, 200} {
		for _, e := range engines(t, n) {
			for command, want := range commands(n) {
				if got := e.ask(command); got != want {
					t.Errorf("%s with %d rules: %q is %v, want %v", e.name, n, command, got, want)
				}
			}
		}
	}
}

func BenchmarkDecision(b *testing.B) {
	for _, n := range []int{10, 1000, 10_000} {
		last := strings.ReplaceAll(pattern(n-2), "*", "--fast x")
		for _, e := range engines(b, n) {
			b.Run(fmt.Sprintf("rules=%d/%s", n, e.name), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if !e.ask(last) {
						b.Fatal("not allowed")
					}
				}
			})
		}
	}
}
