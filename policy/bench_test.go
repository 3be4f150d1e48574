package policy

import (
	"fmt"
	"strings"
	"testing"
)

// benchPolicy makes n rules of the shapes that people write: commands, paths,
// tools of servers. The commands that are asked about match one of the last.
func benchPolicy(tb testing.TB, n int) *PolicyFile {
	var bash, path, mcp strings.Builder
	actions := []string{"allow", "ask", "deny"}
	for i := range n {
		a := actions[i%3]
		switch i % 10 {
		case 7:
			fmt.Fprintf(&path, "\"/srv/app%d/*.key\": %q,\n", i, a)
		case 8:
			fmt.Fprintf(&path, "\"*/cache-%d/*\": %q,\n", i, a)
		case 9:
			fmt.Fprintf(&mcp, "\"server%d:*\": %q,\n", i, a)
		default:
			fmt.Fprintf(&bash, "\"tool%d run --level=%d *\": %q,\n", i, i%7, a)
		}
	}
	text := fmt.Sprintf(`{"permission": {"bash": {"*": "ask", %s "git *": "allow", "git push *": "deny"}, "path": {%s "*.env": "deny"}, "mcp": {%s "x:*": "ask"}}}`,
		bash.String(), path.String(), mcp.String())
	f, err := ParsePolicy("policy.jsonc", []byte(text))
	if err != nil {
		tb.Fatal(err)
	}
	return f
}

func BenchmarkDecide(b *testing.B) {
	snap := Resolve(ResolveInput{Mode: Supervised, Workspace: "/w", Cwd: "/w"})
	queries := map[string]Query{
		"rule":  bashQuery("git status --short"),
		"last":  bashQuery("tool6 run --level=6 --fast"),
		"miss":  bashQuery("python3 -m http.server 8000 --bind 127.0.0.1"),
		"path":  NewQuery("path_write", "/w/src/deep/folder/file.go", "src/deep/folder/file.go"),
		"guard": NewQuery("path_read", "/w/config/.env"),
	}
	for _, n := range []int{10, 1000, 10_000} {
		file := benchPolicy(b, n)
		for _, depth := range []int{1, 5} {
			var chain []*Authority
			for range depth {
				chain = append(chain, NewAuthority("s", snap, file))
			}
			for _, name := range []string{"rule", "last", "miss", "path", "guard"} {
				q := queries[name]
				b.Run(fmt.Sprintf("rules=%d/depth=%d/%s", n, depth, name), func(b *testing.B) {
					b.ReportAllocs()
					for b.Loop() {
						if Decide(chain, q).Reason == "" {
							b.Fatal("no reason")
						}
					}
				})
			}
		}
	}
}

func BenchmarkParsePolicy(b *testing.B) {
	file := benchPolicy(b, 10_000)
	b.Run("compile=10000", func(b *testing.B) {
		for b.Loop() {
			newRuleset(file.Rules)
		}
	})
}
