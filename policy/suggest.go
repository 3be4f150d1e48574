package policy

import (
	"slices"
	"strings"
)

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
// For a command it is the words that name what is done and " *" (or "*" where
// nothing follows them). Behind a program that runs another one the words up to
// the inner command stay: "sudo -u root npm run *". Text that cannot be offered
// as a pattern comes back as it is, and is to be granted by its exact scope:
// with substitutions, lists or redirections, an assignment, an option in front of
// what names the action, a wrapper whose options are not understood, an
// interpreter of shell text. For a path it is the folder.
func SuggestPattern(surface, value string) string {
	switch {
	case surface == surfaceBash:
		return suggestCommand(value)
	case surface == surfaceMCP:
		value = strings.TrimSpace(value)
		if i := strings.IndexByte(value, ':'); i > 0 {
			return value[:i] + ":*"
		}
		if i := strings.IndexByte(value, '_'); i > 0 {
			return value[:i] + "_*"
		}
		return "*"
	case surface == surfaceSkill, surface == surfaceNetwork, surface == surfaceTask:
		return value
	case isPathSurface(surface):
		if value == "" || value == "*" {
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
	var kept []string
	for line := range strings.SplitSeq(strings.TrimSpace(value), "\n") {
		if !strings.HasPrefix(strings.TrimSpace(line), "#") {
			kept = append(kept, line)
		}
	}
	text := strings.TrimSpace(strings.Join(kept, "\n"))
	words := strings.Fields(text)
	if len(words) < 2 || hasShellSyntax(text) {
		return text
	}
	inner, ok := peel(words)
	if !ok {
		return text
	}
	n := inner + prefixWords(words[inner:])
	for _, w := range words[:n] {
		if !plainWord(w) {
			return text
		}
	}
	for _, w := range words[inner:n] {
		if strings.HasPrefix(w, "-") {
			return text
		}
	}
	if strings.Contains(words[inner], "=") {
		return text
	}
	// The words are joined by single spaces, as canonical text has them.
	head := strings.Join(words[:n], " ")
	if n == len(words) {
		return head + "*"
	}
	return head + " *"
}

// plainWord says whether the shell takes a word as it stands.
func plainWord(w string) bool {
	return w != "" && !strings.ContainsFunc(w, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_-./:@%+=,", r))
	})
}

// hasShellSyntax says whether the text is more than one command with literal
// arguments, as far as that can be told without a parser: it errs to yes.
func hasShellSyntax(text string) bool {
	quote := byte(0)
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case quote == '\'':
			if c == '\'' {
				quote = 0
			}
		case c == '`', c == '$' && i+1 < len(text) && strings.IndexByte("({'\"", text[i+1]) >= 0 && text[i+1] != '{':
			return true
		case c == '\\':
			i++
		case quote == '"':
			if c == '"' {
				quote = 0
			}
		case c == '\'', c == '"':
			quote = c
		case strings.IndexByte("\n;&|<>()", c) >= 0:
			return true
		}
	}
	return quote != 0
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

// wrapper is a program that runs the command behind its own options.
type wrapper struct {
	// flags stand alone, values take the next word; everything else is refused.
	flags, values []string
	// operands are leading words of its own, such as the time of timeout.
	operands int
	// attached are short options whose value is written onto them: "-oL", "-5".
	attached []string
}

// wrappers are those behind which the inner command can be found. Options that
// change what runs or where (sudo -s, env -S, xargs -I) are not in the table.
var wrappers = map[string]wrapper{
	"sudo":    {flags: []string{"-n", "-H", "-b", "-k", "--non-interactive", "--"}, values: []string{"-u", "-g"}},
	"doas":    {flags: []string{"-n", "--"}, values: []string{"-u"}},
	"env":     {flags: []string{"-i", "--ignore-environment", "--"}, values: []string{"-u"}},
	"xargs":   {flags: []string{"-0", "-r", "-t", "-x", "--null", "--no-run-if-empty", "--"}, values: []string{"-n", "-P", "-L", "-s"}},
	"time":    {flags: []string{"-p", "--"}},
	"nohup":   {flags: []string{"--"}},
	"timeout": {flags: []string{"--foreground", "--preserve-status", "-v", "--"}, values: []string{"-s", "-k"}, operands: 1},
	"nice":    {flags: []string{"--"}, values: []string{"-n"}, attached: []string{"-1", "-2", "-3", "-4", "-5", "-6", "-7", "-8", "-9"}},
	"setsid":  {flags: []string{"-w", "-c", "-f", "--wait", "--fork", "--"}},
	"stdbuf":  {flags: []string{"--"}, values: []string{"-i", "-o", "-e"}, attached: []string{"-i", "-o", "-e"}},
}

// opaque programs take text and run it, or run a command again and again with
// what they are fed: nothing behind them can be shown as a pattern.
var opaque = map[string]bool{
	"eval": true, "bash": true, "sh": true, "dash": true, "zsh": true, "ksh": true, "watch": true, "parallel": true,
	"rust-parallel": true, "rush": true, "flock": true, "source": true, ".": true, "exec": true, "command": true, "builtin": true,
	"su": true, "ssh": true, "xonsh": true, "fish": true, "busybox": true,
}

// maxPeel bounds how many wrappers may stand in front of each other.
const maxPeel = 4

// peel returns the place of the command that really runs, 0 where there is no
// wrapper. It is false where the command cannot be told.
func peel(words []string) (int, bool) {
	at := 0
	for range maxPeel + 1 {
		name := words[at][strings.LastIndexByte(words[at], '/')+1:]
		if opaque[name] {
			return 0, false
		}
		w, ok := wrappers[name]
		if !ok {
			if (name == "find" || name == "fd") && slices.ContainsFunc(words[at:], func(s string) bool {
				return strings.HasPrefix(s, "-exec") || strings.HasPrefix(s, "-ok") || strings.HasPrefix(s, "--exec") || s == "-x" || s == "-X"
			}) {
				return 0, false
			}
			return at, true
		}
		at++
		for at < len(words) && strings.HasPrefix(words[at], "-") {
			o := words[at]
			switch {
			case slices.Contains(w.values, o):
				at += 2
			case slices.Contains(w.flags, o):
				at++
			case slices.ContainsFunc(w.attached, func(a string) bool {
				return strings.HasPrefix(o, a) && len(o) > len(a) || o == a && a != "-i" && a != "-o" && a != "-e"
			}):
				at++
			default:
				return 0, false
			}
			if o == "--" {
				break
			}
		}
		at += w.operands
		if at >= len(words) || strings.HasPrefix(words[at], "-") {
			return 0, false
		}
	}
	return 0, false
}
