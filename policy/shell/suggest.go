package shell

import (
	"strings"

	"github.com/getpioneer/pioneer-super/policy"
)

// Suggestion is a pattern that an approval of one unit may be widened to.
type Suggestion struct {
	Pattern string `json:"pattern"`
	// Exact says that Pattern is this text and no wildcard: stars in it stand
	// for themselves.
	Exact bool `json:"exact"`
}

// arity says how many words name a command. The longest entry that begins the
// text wins; what has no entry is only ever suggested exactly.
var arity = func() map[string]int {
	m := map[string]int{}
	put := func(n int, list string) {
		for _, s := range strings.Split(list, "|") {
			if s = strings.TrimSpace(s); s != "" {
				m[s] = n
			}
		}
	}
	put(3, `npm run|pnpm run|yarn run|bun run|npm exec|pnpm exec|pnpm dlx|bun x|deno run|deno task|deno compile|uv run|uv pip|go run|bundle exec|docker compose|
		docker container|docker image|docker network|docker volume|podman compose|aws|az|gcloud|gh pr|gh issue|gh repo|gh run|gh release|cargo run|git stash|git worktree|git remote|git submodule|kubectl get|kubectl rollout`)
	put(2, `git|hg|svn|npm|npx|pnpm|yarn|bun|deno|pip|pip3|uv|cargo|go|bundle|docker|podman|kubectl|helm|gh|fly|vercel|wrangler|bazel|terraform|tofu|pulumi|systemctl|
		service|brew|apt|apt-get|yum|dnf|poetry|composer|rails|mix|dotnet|flutter|swift|rustup`)
	put(1, `make|ls|cat|less|head|tail|grep|egrep|fgrep|rg|find|fd|touch|mkdir|rm|rmdir|cp|mv|ln|chmod|chown|du|df|echo|printf|diff|patch|wc|sort|uniq|awk|sed|tar|zip|unzip|gzip|gunzip|
		curl|wget|ssh|scp|rsync|ping|kill|killall|pkill|jq|yq|tree|stat|file|which|pwd|date|cut|tr|tee|xxd|basename|dirname|realpath|readlink|seq|ps|lsof|pytest|mypy|ruff|black|eslint|prettier|tsc|jest|vitest|
		gofmt|golangci-lint|rustc|cmake|ctest|ninja|mvn|gradle|shellcheck|cd|test|sleep|true|false`)
	return m
}()

// Suggest returns the patterns that may be offered, the narrowest first. What is
// floored, wrapped, resolved to a changeable file or not known at all is offered
// exactly or not: a pattern for it would cover what nobody has seen.
func (u *Unit) Suggest() []Suggestion {
	switch u.FloorReason {
	case floorComputed, floorUnparsed, floorOpaque, floorShellState, floorMissing:
		return nil
	}
	for i := range u.words {
		if !u.words[i].lit {
			// The same text may mean something else next time.
			return nil
		}
	}
	out := []Suggestion{{Pattern: u.asWritten(), Exact: true}}
	if u.Floor != policy.Allow || u.Changeable || len(u.Assigns) > 0 || len(u.Wrappers) > 0 || u.Executed != "" || u.Resolution == "missing" {
		return out
	}
	if p := programs[u.head]; shells[u.head] || p == nil || wrapperTable[u.head] != nil {
		return out
	}
	fields := strings.Fields(u.Text)
	n, best := 0, 0
	for i := 1; i <= len(fields) && i <= 3; i++ {
		if a := arity[strings.ToLower(strings.Join(fields[:i], " "))]; a > 0 && i >= best {
			n, best = a, i
		}
	}
	if n == 0 || n > len(fields) {
		return out
	}
	for i := 1; i < n; i++ {
		if f := fields[i]; strings.HasPrefix(f, "-") || strings.ContainsAny(f, `*?'"$`) {
			return out
		}
	}
	prefix := strings.Join(fields[:n], " ")
	if strings.ContainsAny(prefix, "*?") {
		return out
	}
	// "git status *" matches "git status" as well.
	return append(out, Suggestion{Pattern: prefix + " *"})
}

// EnvRisk says why an environment entry can change what a command runs, reads or
// trusts, or "". Entries that a client adds are judged like assignments in the
// text.
func EnvRisk(name, value string) string {
	return dangerousName(name, literal(value))
}
