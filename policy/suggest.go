package policy

import "strings"

// arity says how many words of a command line name what is done: "git status"
// is two, "npm run build" three. The longest prefix that is in the table counts;
// an unknown program counts one.
var arity = func() map[string]int {
	m := map[string]int{}
	for n, groups := range map[int][]string{
		3: {
			"npm run", "pnpm run", "yarn run", "bun run", "npm exec", "pnpm exec", "pnpm dlx", "bun x", "deno run", "deno task", "deno compile",
			"uv run", "uv pip", "go run", "bundle exec", "docker compose", "docker container", "docker image", "docker network", "docker volume",
			"podman compose", "aws", "az", "gcloud", "gh pr", "gh issue", "gh repo",
		},
		2: {
			"git", "hg", "svn", "npm", "npx", "pnpm", "yarn", "bun", "bun add", "deno", "pip", "pip3", "uv", "cargo", "go", "bundle", "docker",
			"podman", "kubectl", "helm", "gh", "fly", "vercel", "wrangler", "bazel", "terraform", "tofu", "pulumi", "systemctl", "service", "brew",
			"apt", "apt-get", "yum", "dnf",
		},
	} {
		for _, g := range groups {
			m[g] = n
		}
	}
	return m
}()

// SuggestPattern returns the pattern that a human is offered for "for the turn".
//
// For a command it is the words that name what is done and " *"; a command with
// shell syntax, a wildcard or an assignment in it is offered as it stands, since
// a pattern would cover more than what can be seen. It never starts with a
// program that runs another one: behind such a wrapper the words up to the inner
// command stay.
func SuggestPattern(surface, value string) string {
	switch {
	case surface == surfaceBash:
		return suggestCommand(value)
	case surface == surfaceMCP:
		if server, _, ok := strings.Cut(value, ":"); ok && server != "" {
			return server + ":*"
		}
		if server, _, ok := strings.Cut(value, "_"); ok && server != "" {
			return server + "_*"
		}
		return "*"
	case surface == surfaceSkill, surface == surfaceNetwork, surface == surfaceTask:
		return value
	case isPathSurface(surface):
		if value == "" {
			return "*"
		}
		if i := strings.LastIndexByte(value, '/'); i >= 0 {
			return value[:i+1] + "*"
		}
		return "./*"
	}
	return "*"
}

// suggestCommand works on the text of one simple command.
func suggestCommand(value string) string {
	var lines []string
	for line := range strings.Lines(value) {
		if !strings.HasPrefix(strings.TrimSpace(line), "#") {
			lines = append(lines, line)
		}
	}
	value = strings.TrimSpace(strings.Join(lines, ""))
	words := strings.Fields(value)
	if len(words) == 0 {
		return value
	}
	if strings.ContainsAny(value, "\n;&|<>()`$\\\"'*?{}[]~!") || strings.Contains(words[0], "=") {
		return value
	}
	if len(words) == 1 {
		return value
	}
	n := prefixWords(words)
	if n >= len(words) {
		return value + "*"
	}
	return strings.Join(words[:n], " ") + " *"
}

// prefixWords counts the words that name what is done.
func prefixWords(words []string) int {
	n := 1
	for k := min(2, len(words)); k >= 1; k-- {
		if a, ok := arity[strings.ToLower(strings.Join(words[:k], " "))]; ok {
			n = a
			break
		}
	}
	return min(n, len(words))
}
