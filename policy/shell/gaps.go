package shell

import (
	"fmt"
	"reflect"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/getpioneer/pioneer-super/policy"
)

// gaps looks for texts that the library reads differently from bash. Each kind
// was measured; what belongs to one is not judged by its tree at all.
func (z *analyzer) gaps(file *syntax.File, text string) bool {
	if line := backslashComment(text); line > 0 {
		// Only a comment is affected; the same characters in quotes are text.
		if z.commentContinues(text) {
			z.problem(Problem{Kind: kindParserGap, Action: policy.Ask, Line: line,
				Message: "a comment ends in a backslash: bash ends it at the newline, the parser does not"})
			return false
		}
	}
	if strings.Contains(text, "<<") {
		if why := heredocGap(file, text); why != "" {
			z.problem(Problem{Kind: kindParserGap, Action: policy.Ask, Message: why})
			return false
		}
	}
	return true
}

// backslashComment returns the first line that holds # and ends in a backslash.
func backslashComment(text string) int {
	if !strings.Contains(text, "\\\n") {
		return 0
	}
	n := 0
	for line := range strings.SplitSeq(text, "\n") {
		n++
		if strings.HasSuffix(line, `\`) && strings.Contains(line, "#") {
			return n
		}
	}
	return 0
}

func (z *analyzer) commentContinues(text string) bool {
	lang := syntax.LangBash
	if z.o.Dialect == POSIX {
		lang = syntax.LangPOSIX
	}
	f, err := syntax.NewParser(syntax.Variant(lang), syntax.KeepComments(true)).Parse(strings.NewReader(text), "")
	if err != nil {
		return true
	}
	found := false
	syntax.Walk(f, func(n syntax.Node) bool {
		if c, ok := n.(*syntax.Comment); ok {
			end := int(c.Hash.Offset())
			for end < len(text) && text[end] != '\n' {
				end++
			}
			if end > 0 && text[end-1] == '\\' || strings.Contains(c.Text, "\n") {
				found = true
			}
		}
		return !found
	})
	return found
}

// heredocGap: bash ends a here-document at the first line that is its delimiter,
// even inside an open substitution, and reads other delimiters literally.
func heredocGap(file *syntax.File, text string) string {
	why := ""
	syntax.Walk(file, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.CmdSubst:
			if !oneList(n.Stmts) && holdsHeredoc(n) {
				why = "a here-document in a substitution with other commands: bash loses the separators after it"
			}
		case *syntax.ProcSubst:
			if !oneList(n.Stmts) && holdsHeredoc(n) {
				why = "a here-document in a substitution with other commands: bash loses the separators after it"
			}
		}
		r, ok := n.(*syntax.Redirect)
		if !ok || r.Op != syntax.Hdoc && r.Op != syntax.DashHdoc {
			return why == ""
		}
		delim, ok := static(r.Word.Parts, nil2)
		if !ok {
			delim = strings.ReplaceAll(r.Word.Lit(), `\`, "")
		}
		for i := 0; i < len(delim); i++ {
			c := delim[i]
			if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("_-.!+:@%,/", c) >= 0) {
				why = "a here-document with an unusual delimiter"
				return false
			}
		}
		if delim == "" {
			why = "a here-document without a delimiter"
			return false
		}
		if r.Hdoc == nil {
			return true
		}
		if from, to := int(r.Hdoc.Pos().Offset()), int(r.Hdoc.End().Offset()); from < to && to <= len(text) {
			body := strings.Split(text[from:to], "\n")
			for i, line := range body {
				if i == len(body)-1 {
					break // the delimiter itself
				}
				if r.Op == syntax.DashHdoc {
					line = strings.TrimLeft(line, "\t")
				}
				if line == delim {
					why = "a here-document whose delimiter stands inside an open expansion"
					return false
				}
			}
		}
		if quotedDelimiter(r.Word) {
			return true
		}
		for _, p := range r.Hdoc.Parts {
			if _, lit := p.(*syntax.Lit); lit {
				continue
			}
			if p.Pos().Line() != p.End().Line() {
				why = "an expansion over several lines in a here-document"
				return false
			}
			syntax.Walk(p, func(n syntax.Node) bool {
				if in, ok := n.(*syntax.Redirect); ok && (in.Op == syntax.Hdoc || in.Op == syntax.DashHdoc) {
					why = "a here-document inside another one"
				}
				return why == ""
			})
		}
		return why == ""
	})
	return why
}

// oneList reports whether a substitution is one list of simple commands without
// a semicolon: bash 5.2 prints a substitution and reads it again, and drops the
// semicolons that follow a here-document.
func oneList(list []*syntax.Stmt) bool {
	if len(list) != 1 || list[0].Background {
		return len(list) == 0
	}
	for cmd := list[0].Cmd; ; {
		switch c := cmd.(type) {
		case *syntax.CallExpr:
			return true
		case *syntax.BinaryCmd:
			if _, ok := c.Y.Cmd.(*syntax.CallExpr); !ok {
				return false
			}
			cmd = c.X.Cmd
		default:
			return cmd == nil
		}
	}
}

func holdsHeredoc(n syntax.Node) bool {
	found := false
	syntax.Walk(n, func(n syntax.Node) bool {
		if r, ok := n.(*syntax.Redirect); ok && (r.Op == syntax.Hdoc || r.Op == syntax.DashHdoc) {
			found = true
		}
		return !found
	})
	return found
}

// nil2 lets static work where no home is known.
var nil2 = &analyzer{}

// canonical prints the tree and proves that what was printed reads back as the
// same tree. Comments, layout and old spellings are gone.
func (z *analyzer) canonical(file *syntax.File, text string) string {
	if z.simple && plainText(text) {
		return strings.TrimSpace(text) + "\n"
	}
	var b strings.Builder
	b.Grow(len(text) + 16)
	printer := printers.Get().(*syntax.Printer)
	if err := printer.Print(&b, file); err != nil {
		z.problem(Problem{Kind: kindParserGap, Action: policy.Ask, Message: "the text cannot be printed again: " + err.Error()})
		return ""
	}
	printers.Put(printer)
	out := b.String()
	again, err := parseText(out, z.o.Dialect)
	why := ""
	switch {
	case err != nil:
		why = "the printed text does not parse"
	case scan(out) != nil && !strings.Contains(scan(out).Message, "bytes"):
		why = "the printed text holds what the text did not"
	default:
		if d := differs(reflect.ValueOf(file.Stmts), reflect.ValueOf(again.Stmts), 0); d != "" {
			why = "the printed text reads back differently: " + d
		} else if strings.Contains(out, "<<") {
			why = heredocGap(again, out)
		}
	}
	if why != "" {
		z.problem(Problem{Kind: kindParserGap, Action: policy.Ask, Message: why})
		return ""
	}
	return out
}

// plainText is a text of words that nobody reads in two ways.
func plainText(s string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte(" _-./:,+@%=", c) >= 0) {
			return false
		}
	}
	return true
}

var (
	posType     = reflect.TypeFor[syntax.Pos]()
	commentType = reflect.TypeFor[[]syntax.Comment]()
)

// layoutFields may differ between two texts of one meaning.
var layoutFields = map[string]bool{"Backquotes": true, "Bracket": true, "Braces": true, "Short": true}

// differs compares two trees without positions and comments.
func differs(a, b reflect.Value, depth int) string {
	if depth > 5000 {
		return "too deep to compare"
	}
	if a.Kind() != b.Kind() {
		return "another kind"
	}
	switch a.Kind() {
	case reflect.Pointer, reflect.Interface:
		if a.IsNil() || b.IsNil() {
			if a.IsNil() != b.IsNil() {
				return fmt.Sprintf("one %s is missing", a.Type())
			}
			return ""
		}
		if a.Kind() == reflect.Interface && a.Elem().Type() != b.Elem().Type() {
			return fmt.Sprintf("%s became %s", a.Elem().Type(), b.Elem().Type())
		}
		return differs(a.Elem(), b.Elem(), depth+1)
	case reflect.Slice:
		if a.Type() == commentType {
			return ""
		}
		if a.Len() != b.Len() {
			return fmt.Sprintf("%d and %d of %s", a.Len(), b.Len(), a.Type())
		}
		for i := range a.Len() {
			if d := differs(a.Index(i), b.Index(i), depth+1); d != "" {
				return d
			}
		}
	case reflect.Struct:
		t := a.Type()
		if t == posType {
			return ""
		}
		for i := range t.NumField() {
			f := t.Field(i)
			if f.Type == posType && f.Name != "InPos" || layoutFields[f.Name] {
				continue
			}
			if f.Name == "InPos" {
				// Whether `in` stood there decides what a loop runs over.
				if a.Field(i).Interface().(syntax.Pos).IsValid() != b.Field(i).Interface().(syntax.Pos).IsValid() {
					return "a loop over other words"
				}
				continue
			}
			if d := differs(a.Field(i), b.Field(i), depth+1); d != "" {
				return d
			}
		}
	case reflect.String:
		if a.String() != b.String() {
			return fmt.Sprintf("%q became %q", clip(a.String()), clip(b.String()))
		}
	case reflect.Bool:
		if a.Bool() != b.Bool() {
			return "a flag changed"
		}
	case reflect.Uint32, reflect.Uint8:
		if a.Uint() != b.Uint() {
			return "an operator changed"
		}
	default:
		return fmt.Sprintf("a field of kind %s", a.Kind())
	}
	return ""
}

func clip(s string) string {
	if len(s) > 40 {
		return s[:40]
	}
	return s
}

// salvage looks through a text that has no tree, or that no tree can be trusted
// for. It reads it as loosely as it can, so that a rule which denies a command
// still denies a text that may run it; nothing here can allow.
func (z *analyzer) salvage(text string) {
	if text == "" || len(text) > maxText || z.full || z.refused() {
		return
	}
	// Where bash joins lines, and where it does not, are both possible.
	variants := []string{text}
	if strings.Contains(text, "\\\n") {
		variants = append(variants, strings.ReplaceAll(text, "\\\n", ""))
	}
	if strings.ContainsAny(text, `'"`) {
		variants = append(variants, strings.NewReplacer(`'`, " ", `"`, " ").Replace(text))
	}
	seen := map[string]bool{}
	for _, v := range variants {
		v = strings.Map(func(r rune) rune {
			if r < 0x20 && r != '\n' || r == 0x7f {
				return ' '
			}
			return r
		}, v)
		for seg := range strings.FieldsFuncSeq(v, func(r rune) bool { return strings.ContainsRune("\n;&|()`{}", r) }) {
			if z.salvaged >= maxSalvage {
				return
			}
			z.salvageSegment(seg, seen)
		}
	}
}

var keywords = fieldSet("if then else elif fi do done while until for in case esac ! time coproc function select { } [[ ]] $ !! -- -p")

func (z *analyzer) salvageSegment(seg string, seen map[string]bool) {
	var words []string
	for f := range strings.FieldsSeq(seg) {
		f = strings.NewReplacer(`'`, "", `"`, "", `\`, "").Replace(f)
		if f == "" {
			continue
		}
		if len(words) == 0 {
			if keywords[f] || strings.ContainsAny(f[:1], "<>#") || len(f) > 1 && f[0] >= '0' && f[0] <= '9' && strings.ContainsAny(f, "<>") {
				continue
			}
			if i := strings.IndexByte(f, '='); i > 0 && !strings.Contains(f[:i], "/") {
				continue
			}
			f = strings.TrimLeft(f, "$")
			if f == "" {
				continue
			}
		}
		if len(words) < 64 {
			words = append(words, f)
		}
	}
	if len(words) == 0 {
		return
	}
	key := strings.Join(words, " ")
	if seen[key] {
		return
	}
	seen[key] = true
	z.salvaged++
	ws := literals(words)
	at := len(z.a.Units)
	z.add(Unit{Text: normText(ws), Words: words, Context: "unparsed", Floor: policy.Ask, FloorReason: floorUnparsed,
		FloorText: "the text around this command cannot be judged", head: base(words[0])})
	if at < len(z.a.Units) {
		u := &z.a.Units[at]
		if name := base(words[0]); name != words[0] {
			z.forms(at, append(literals([]string{name}), ws[1:]...), policy.Deny, "the program's name")
		}
		if p := known().programs[u.head]; p != nil && p.peel != nil {
			z.suffixes(at, ws[1:], policy.Deny, false)
		}
	}
}
