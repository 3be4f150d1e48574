package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// report is a fault of permission systems that users reported in public, as a
// question to one policy file.
type report struct {
	id, url string
	policy  string // the "permission" object
	// want has the verdicts by the commands: allow, ask, deny, or "not allow".
	want map[string]string
}

func all(verdict string, commands ...string) map[string]string {
	out := map[string]string{}
	for _, c := range commands {
		out[c] = verdict
	}
	return out
}

func with(m map[string]string, verdict string, commands ...string) map[string]string {
	for _, c := range commands {
		m[c] = verdict
	}
	return m
}

const (
	reportedGit  = `"bash": {"*": "ask", "git *": "allow", "git push *": "deny"}`
	reportedRm   = `"bash": {"*": "allow", "rm *": "deny"}`
	reportedList = `"bash": {"*": "ask", "sort *": "allow", "sed *": "allow", "awk *": "allow", "find *": "allow", "rg *": "allow", "man *": "allow", "uniq *": "allow", "echo *": "allow"}`
)

var reports = []report{
	{"B060", "https://github.com/anthropics/claude-code/issues/28784", reportedRm,
		all("deny", "ls . && rm -rf build", "false || rm -rf build", "ls .; rm -rf build", "ls . | rm -rf build", "ls . |& rm -rf build", "ls . & rm -rf build", "ls .\nrm -rf build")},
	{"B061", "https://github.com/google-gemini/gemini-cli/issues/11766", `"bash": {"*": "ask", "cd *": "allow", "ls *": "allow"}`,
		with(all("ask", "cd . && python3 -c 1", "ls . && rm -rf build"), "allow", "ls .")},
	{"B062", "https://github.com/anthropics/claude-code/issues/25270", reportedGit,
		with(all("deny", "git -C . push origin main", "git -c user.name=x push origin main", "git --git-dir=.git push origin main", "git --git-dir .git --work-tree . push", "git --no-pager push origin main", "git -p push"), "allow", "git status")},
	{"B063", "https://github.com/gotgenes/pi-permission-system/issues/123", reportedGit, all("deny", "git push")},
	{"B064", "https://github.com/anomalyco/opencode/issues/6737", `"bash": {"*": "ask", "ls *": "allow"}`,
		with(all("ask", "lsof -i", "lsblk"), "allow", "ls", "ls -la")},
	{"B066", "https://github.com/anomalyco/opencode/issues/6676", `"bash": {"*": "allow", "kill -9 *": "deny", "kill *": "ask"}`,
		with(with(all("not allow", "kill -s KILL 99999999", "kill -KILL 99999999"), "deny", "kill -9 99999999"), "ask", "kill -0 99999999")},
	{"B067", "https://github.com/anthropics/claude-code/issues/5471", `"bash": {"*": "ask", "git push *": "allow", "git push -f *": "deny", "git commit *": "allow", "rm *": "deny", "echo *": "allow"}`,
		all("allow", "git push origin batch/obs-fixes", `git commit -m "drop rm -rf helper"`, "echo 'a && rm -rf build'")},
	{"B069", "https://github.com/anthropics/claude-code/issues/29582", `"bash": {"*": "ask", "git commit *": "allow", "cat *": "allow"}`,
		all("allow", "git commit -F - <<'EOF'\nfeat: x\nEOF", "git commit -m \"$(cat <<'EOF'\nfeat: x\nEOF\n)\"")},
	{"B071", "https://github.com/0xHoneyJar/loa/issues/1047", `"bash": {"*": "allow", "rm -rf *": "deny", "rm *": "ask"}`,
		with(all("not allow", "rm -fr build", "rm -r -f build", "rm --recursive --force build", "rm -Rf build", "rm -rvf build", "rm build -rf"), "deny", "rm -rf build")},
	{"B072", "https://github.com/garagon/nanostack/issues/242", `"bash": {"*": "ask", "git push *": "allow", "git push *--force*": "deny"}`,
		with(with(all("not allow", "git push origin +main", "git push -f", "git push -uf origin x", "git push --mirror"), "deny", "git push origin main --force", "git push --force-with-lease"), "allow", "git push origin main")},
	{"B073", "https://github.com/openai/codex/issues/37079", `"bash": {"*": "allow", "rm *": "deny", "ls *": "allow"}`,
		all("deny", "/bin/rm -rf build", "/usr/bin/rm -rf build", "../../../../../../../../../../../../bin/rm -rf build")},
	{"B073-own", "https://github.com/NousResearch/hermes-agent/issues/104308", `"bash": {"*": "ask", "ls *": "allow"}`,
		with(all("not allow", "./rm -rf build", "./ls"), "allow", "ls")},
	{"B074", "https://github.com/QwenLM/qwen-code/issues/10983", `"bash": {"*": "ask", "ls *": "allow", "git *": "allow", "node *": "allow", "python3 *": "allow"}`,
		with(all("not allow", "LD_PRELOAD=./x.so ls .", "GIT_EXTERNAL_DIFF=./x git diff HEAD", "NODE_OPTIONS=--require=./x.js node a.js", "PATH=./evil:$PATH ls .", "BASH_ENV=./e.sh bash -c :", "PYTHONSTARTUP=x python3", "GIT_SSH_COMMAND=./x git fetch", "PAGER=./x git log", "EDITOR=./x git commit"), "allow", "FOO=1 ls .")},
	{"B075", "https://github.com/esengine/DeepSeek-Reasonix/issues/4452", reportedList,
		with(all("not allow", "sort -o a.txt a.txt", "sort --compress-program=sh a.txt", "sort --compress-prog=sh a.txt", "echo x | sed '1e rm -rf build'", "sed 'w out' a.txt", `awk 'BEGIN{system("rm -rf build")}'`, "find build -delete", "find . -fprintf out x", "rg --pre sh x", "man --html=sh x", "uniq a.txt out.txt"), "allow", "sort a.txt", "find . -name x")},
	{"B080", "https://github.com/HKUDS/OpenHarness/issues/313", `"bash": {"*": "allow", "rm *": "deny", "git *": "allow", "git push *": "deny"}`,
		all("deny", "rm -rf build", "nohup git push", "timeout 5 git push")},
	{"B084", "https://github.com/gotgenes/pi-packages/issues/645", `"bash": {"*": "ask", "cat *": "allow", "touch *": "allow", "ls *": "allow", "grep *": "allow"}, "path": {"/etc/**": "ask", "~/**": "ask", "~": "ask"}`,
		with(all("ask", "cat /etc/[h]ostname", `touch "$HOME/pioneer-new"`, `ls "${HOME}"`, "grep --file=/etc/hostname x a.txt", "cat outside-link"), "allow", "cat a.txt")},
	{"B085", "https://github.com/anomalyco/opencode/issues/5330", `"bash": {"*": "ask", "echo *": "allow", "ls *": "allow", "cargo check": "allow"}, "path_write": {"~/**": "deny"}`,
		with(with(all("deny", `echo x > "$HOME/.zshrc"`, "echo x >| ~/.zshrc", "ls . &> ~/.zshrc", "echo x 1<> ~/.zshrc", "echo x {fd}> ~/.zshrc", "echo x >> ~/.zshrc"), "allow", "ls . 2>/dev/null", "ls . 2>&1", "cargo check > /dev/null"),
			"ask", "cargo check > out.txt")},
	{"B088", "https://github.com/Gitlawb/openclaude/issues/1057", reportedRm,
		all("not allow", strings.Repeat("true; ", 60)+"rm -rf build", strings.Repeat("true; ", 20000)+"rm -rf build", "rm -rf build; "+strings.Repeat("true; ", 20000)+"true")},
	{"B090", "https://github.com/anthropics/claude-code/issues/27948", `"bash": {"*": "ask", "make *": "allow", "go test": "allow"}`,
		with(all("allow", "make", "make all", "go test"), "ask", "makepkg", "go test ./...")},
}

// TestReports asks the product what users of others were answered wrongly.
func TestReports(t *testing.T) {
	verdicts := map[int]string{0: "allow", 10: "deny", 13: "ask"}
	for _, r := range reports {
		t.Run(r.id, func(t *testing.T) {
			base := t.TempDir()
			home, work := filepath.Join(base, "home"), filepath.Join(base, "work")
			for _, d := range []string{home, filepath.Join(work, "build")} {
				if err := os.MkdirAll(d, 0o700); err != nil {
					t.Fatal(err)
				}
			}
			for _, name := range []string{"a.txt", "rm", "ls"} {
				if err := os.WriteFile(filepath.Join(work, name), nil, 0o700); err != nil {
					t.Fatal(err)
				}
			}
			// Not every user of every machine has these.
			bin := filepath.Join(base, "bin")
			if err := os.Mkdir(bin, 0o700); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"cargo", "go", "make", "makepkg"} {
				if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
			if err := os.Symlink("/etc/hostname", filepath.Join(work, "outside-link")); err != nil {
				t.Fatal(err)
			}
			t.Setenv("HOME", home)
			t.Chdir(work)
			policy := write(t, filepath.Join(base, "policy.jsonc"), fmt.Sprintf(`{"permission": {%s}}`, r.policy))
			for command, want := range r.want {
				got := runHere("", "check", "--resolve", "--policy", policy, "--surface", "bash", "--value", command)
				verdict, known := verdicts[got.code]
				if !known || verdict != want && (want != "not allow" || verdict == "allow") {
					t.Errorf("%s\n%.200q: %s (status %d), expected %s\n%s%s", r.url, command, verdict, got.code, want, got.out, got.err)
				}
			}
		})
	}
}
