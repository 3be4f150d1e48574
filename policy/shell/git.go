package shell

import (
	"strings"

	"github.com/getpioneer/pioneer-super/policy"
)

func fieldSet(list string) map[string]bool {
	m := map[string]bool{}
	for _, s := range strings.Fields(list) {
		m[s] = true
	}
	return m
}

// gitSubcommands are git's own; anything else may be an alias or a program.
var gitSubcommands = fieldSet(`
add am annotate apply archive bisect blame branch bugreport bundle cat-file check-attr check-ignore check-mailmap check-ref-format
checkout checkout-index cherry cherry-pick citool clean clone column commit commit-graph commit-tree config count-objects credential
credential-cache credential-store daemon describe diagnose diff diff-files diff-index diff-tree difftool fast-export fast-import fetch
fetch-pack filter-branch fmt-merge-msg for-each-ref for-each-repo format-patch fsck gc get-tar-commit-id grep gui hash-object help hook http-backend
http-fetch http-push imap-send index-pack init init-db instaweb interpret-trailers log ls-files ls-remote ls-tree mailinfo mailsplit
maintenance merge merge-base merge-file merge-index merge-one-file merge-tree mergetool mktag mktree multi-pack-index mv name-rev notes
pack-objects pack-redundant pack-refs patch-id prune prune-packed pull push quiltimport range-diff read-tree rebase receive-pack reflog refs
remote repack replace replay request-pull rerere reset restore rev-list rev-parse revert rm send-email send-pack shell shortlog show show-branch
show-index show-ref sparse-checkout stage stash status stripspace submodule switch symbolic-ref tag unpack-file unpack-objects update-index
update-ref update-server-info upload-archive upload-pack var verify-commit verify-pack verify-tag version whatchanged worktree write-tree lfs`)

// gitSafeKeys are configuration keys that run nothing and send nothing elsewhere.
var gitSafeKeys = fieldSet(`
user.name user.email author.name author.email committer.name committer.email core.quotepath core.autocrlf core.eol core.safecrlf core.filemode
core.longpaths core.abbrev core.ignorecase core.precomposeunicode core.symlinks core.compression core.whitespace core.commentchar core.pager= commit.gpgsign tag.gpgsign
tag.sort branch.sort init.defaultbranch push.default push.autosetupremote push.followtags pull.rebase pull.ff merge.ff merge.conflictstyle
merge.renamelimit diff.renames diff.renamelimit diff.algorithm diff.context diff.mnemonicprefix diff.noprefix diff.colormoved log.date log.decorate
log.showsignature log.follow status.short status.branch status.showuntrackedfiles fetch.prune fetch.parallel gc.auto gc.autodetach maintenance.auto rebase.autosquash rebase.autostash
rerere.enabled rerere.autoupdate pack.threads pack.windowmemory http.postbuffer http.version http.lowspeedlimit http.lowspeedtime index.threads
feature.manyfiles column.ui help.autocorrect blame.date grep.linenumber submodule.recurse format.pretty versionsort.suffix core.fsmonitor=false core.untrackedcache`)

func gitKeySafe(kv word) bool {
	s := kv.prefix
	if kv.lit {
		s = kv.val
	}
	key, val, _ := strings.Cut(s, "=")
	key = strings.ToLower(key)
	if gitSafeKeys[key] || strings.HasPrefix(key, "color.") || strings.HasPrefix(key, "advice.") {
		return true
	}
	if !kv.lit {
		return false
	}
	switch key {
	case "core.pager", "pager.log", "pager.diff", "pager.show", "pager.branch":
		return val == "cat" || val == "" || val == "false"
	case "core.editor", "sequence.editor":
		return val == "true" || val == ":" || val == "cat"
	case "core.fsmonitor":
		return val == "false"
	}
	return false
}

func lookGit(z *analyzer, u *Unit, c call) env {
	opts, rest := sub("git", c.words)
	for _, o := range opts {
		switch o.name {
		case "c":
			if !gitKeySafe(o.val) {
				u.floor(floorExecutes, "git -c "+o.val.norm+" may run a program", "git -c", " -c ")
			}
		case "config-env":
			u.floor(floorExecutes, "git --config-env may run a program")
		case "exec-path":
			if o.has {
				u.floor(floorExecutes, "git --exec-path runs programs of another directory", "--exec-path")
			}
		case "git-dir":
			if !o.val.known() || o.val.val != ".git" && !strings.HasSuffix(o.val.val, "/.git") {
				u.floor(floorExecutes, "git --git-dir reads the configuration of another directory", "--git-dir")
			}
		case "C":
			z.pathUse(o.val, false, "option", "git", c.e, true)
		}
	}
	if len(rest) == 0 || !rest[0].known() {
		return c.e
	}
	cmd, args := rest[0].val, rest[1:]
	if !gitSubcommands[cmd] {
		u.floor(floorExecutes, "git "+cmd+" is no command of git: it may be an alias or a program", "git "+cmd)
	}
	for _, w := range args {
		s := w.prefix
		if w.lit {
			s = w.val
		}
		if strings.HasPrefix(s, "ext::") || strings.HasPrefix(s, "fd::") {
			u.floor(floorExecutes, "the address "+w.norm+" runs a program")
		}
		if s == "--" && w.lit {
			break
		}
		if !w.lit && (s == "-" || strings.HasPrefix(s, "--") && !strings.Contains(s, "=")) && !z.numericTail(w) {
			u.floor(floorExecutes, "an option of git "+cmd+" is computed")
		}
		if !strings.HasPrefix(s, "--") {
			continue
		}
		name, val, hasVal := strings.Cut(s[2:], "=")
		switch {
		case abbreviates(name, []string{"output"}) != "" && (hasVal || name == "output") && cmd != "config" && cmd != "archive":
			u.floor(floorWrites, "git "+cmd+" --output writes a file", "--output")
		case name == "output-directory":
		case abbreviates(name, []string{"upload-pack", "receive-pack", "exec", "open-files-in-pager", "extcmd", "ext-diff", "tool", "template", "to-cmd", "cc-cmd", "smtp-server", "sendmail-cmd", "tree-filter", "index-filter", "msg-filter", "env-filter", "parent-filter", "commit-filter"}) != "" && name != "textconv":
			u.floor(floorExecutes, "git "+cmd+" --"+name+" runs a program", "--"+name)
		case name == "config" && cmd == "clone" && hasVal && !gitKeySafe(literal(val)):
			u.floor(floorExecutes, "git clone --config may run a program")
		}
	}
	letter := func(letters, valued string) bool {
		for _, w := range args {
			if w.is("--") {
				return false
			}
			if !w.lit && w.prefix == "" || !strings.HasPrefix(w.prefix, "-") || strings.HasPrefix(w.prefix, "--") {
				continue
			}
			for j := 1; j < len(w.prefix); j++ {
				if strings.IndexByte(letters, w.prefix[j]) >= 0 {
					return true
				}
				if strings.IndexByte(valued, w.prefix[j]) >= 0 {
					break
				}
			}
		}
		return false
	}
	first := ""
	var operands []word
	for _, w := range args {
		if !strings.HasPrefix(w.prefix, "-") {
			operands = append(operands, w)
		}
	}
	if len(operands) > 0 && operands[0].known() {
		first = operands[0].val
	}
	form := func(ws []word, limit policy.Action, why string) {
		u.Forms = append(u.Forms, Form{Text: "git " + normText(ws), Cap: limit, Why: why})
	}
	switch cmd {
	case "grep":
		if letter("O", "efABCm") {
			u.floor(floorExecutes, "git grep -O runs a program", " -O")
		}
	case "rebase":
		if letter("x", "CsX") {
			u.floor(floorExecutes, "git rebase -x runs a command", " -x")
		}
	case "bisect":
		if first == "run" {
			u.floor(floorExecutes, "git bisect run runs a command", "bisect run")
		}
	case "submodule":
		if first == "foreach" {
			u.floor(floorExecutes, "git submodule foreach runs a command", "submodule foreach")
		}
	case "filter-branch", "for-each-repo", "difftool", "mergetool", "instaweb", "send-email", "daemon", "citool", "gui", "hook", "quiltimport", "merge-index":
		u.floor(floorExecutes, "git "+cmd+" runs other programs", "git "+cmd)
	case "clone":
		if letter("u", "obcj") {
			u.floor(floorExecutes, "git clone -u runs a program", " -u")
		}
		for i, w := range args {
			if (w.is("-c") || w.is("--config")) && i+1 < len(args) && !gitKeySafe(args[i+1]) {
				u.floor(floorExecutes, "git clone -c may run a program")
			}
		}
	case "config":
		z.gitConfig(u, args, operands)
	case "remote":
		if first == "add" || first == "set-url" {
			break
		}
	case "send-pack", "http-push":
		form(append([]word{literal("push")}, args...), policy.Ask, "the plumbing of push")
	case "fetch-pack":
		form(append([]word{literal("fetch")}, args...), policy.Ask, "the plumbing of fetch")
	case "archive":
		if letter("o", "") {
			u.floor(floorWrites, "git archive -o writes a file", " -o")
		}
	case "push":
		force, del := letter("f", "o"), letter("d", "o")
		for _, w := range args {
			force = force || strings.HasPrefix(w.prefix, "+") || w.is("--mirror") || w.is("--prune")
			del = del || strings.HasPrefix(w.prefix, ":") && len(w.val) > 1
		}
		if force {
			form(append([]word{literal("push"), literal("--force")}, args...), policy.Ask, "a push that can overwrite")
			form(append(append([]word{literal("push")}, args...), literal("--force")), policy.Ask, "a push that can overwrite")
			form(append([]word{literal("push"), literal("-f")}, args...), policy.Ask, "a push that can overwrite")
		}
		if del {
			form(append([]word{literal("push"), literal("--delete")}, args...), policy.Ask, "a push that deletes")
		}
	}
	return c.e
}

// gitConfig: writing a key that runs something is leaving a program behind.
func (z *analyzer) gitConfig(u *Unit, args, operands []word) {
	for _, w := range args {
		switch {
		case w.is("--get"), w.is("--get-all"), w.is("--get-regexp"), w.is("--list"), w.is("-l"), w.is("--get-urlmatch"), w.is("--show-origin"):
			return
		case w.is("-e"), w.is("--edit"):
			u.floor(floorExecutes, "git config --edit opens an editor")
			return
		}
	}
	ops := operands
	if len(ops) > 0 && ops[0].known() {
		switch ops[0].val {
		case "get", "list":
			return
		case "set", "unset":
			ops = ops[1:]
		}
	}
	if len(ops) < 2 {
		return
	}
	if !ops[0].known() || !gitKeySafe(word{lit: ops[1].lit, val: ops[0].val + "=" + ops[1].val, prefix: ops[0].val + "="}) {
		u.floor(floorExecutes, "git config "+ops[0].norm+" may make git run a program later")
	}
}
