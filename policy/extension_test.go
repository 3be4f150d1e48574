package policy

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
)

// The answers were given by the published permission extension itself (see
// testdata/extension/generate.mjs). Ranking is left aside, since ours is another
// one on purpose.
func TestThePublishedExtensionAnswersTheSame(t *testing.T) {
	f, err := os.Open("testdata/extension/answers.jsonl.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	lines := bufio.NewScanner(z)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var a struct {
			Kind, Pattern, Value, Suggestion string
			Match                            bool
			Call                             MCPCall
			Targets                          []string
		}
		if err := json.Unmarshal(lines.Bytes(), &a); err != nil {
			t.Fatal(err)
		}
		counts[a.Kind]++
		switch a.Kind {
		case "match":
			if got := Match(a.Pattern, a.Value, "/home/u"); got != a.Match {
				t.Errorf("%q against %q: %v, the extension says %v", a.Pattern, a.Value, got, a.Match)
			}
			if a.Match {
				counts["matches"]++
			}
		case "targets":
			// The gate puts "mcp" behind what it derives.
			if got, want := MCPTargets(a.Call, []string{"exa", "big_exa", "x"}), append(a.Targets, "mcp"); !slices.Equal(got, want) {
				t.Errorf("%+v: %q, the extension says %q", a.Call, got, want)
			}
		case "bash":
			got := SuggestPattern("bash", a.Value)
			if got == a.Suggestion {
				counts["suggestions"]++
				continue
			}
			// Ours stays exact where an option stands in front of what names the action.
			prefix := strings.Fields(strings.TrimSuffix(a.Suggestion, "*"))
			if got != a.Value || !slices.ContainsFunc(prefix, func(w string) bool { return strings.HasPrefix(w, "-") || strings.Contains(w, "=") }) {
				t.Errorf("%q: %q, the extension says %q", a.Value, got, a.Suggestion)
			}
		case "mcp":
			if got := SuggestPattern("mcp", a.Value); got != a.Suggestion {
				t.Errorf("%q: %q, the extension says %q", a.Value, got, a.Suggestion)
			}
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	if counts["match"] < 10_000 || counts["matches"] < 3_000 || counts["targets"] < 1_000 || counts["suggestions"] < 1_000 || counts["mcp"] == 0 {
		t.Errorf("too little was compared: %v", counts)
	}
}
