package terminal

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// player drives a dialog in invented time, as the loop does.
type player struct {
	t   *testing.T
	d   *dialog
	now time.Time
}

const query = "7;13R"

// newPlayer shows q on a screen of 80 by 24 and answers the status query.
func newPlayer(t *testing.T, q Question) *player {
	t.Helper()
	if err := q.validate(); err != nil {
		t.Fatal(err)
	}
	p := &player{t: t, now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	p.d = newDialog(q, p.now, false, false)
	p.frame()
	p.d.begin(p.now, query)
	return p
}

func (p *player) frame() string {
	var b strings.Builder
	for _, r := range p.d.frame(24, 80, p.now) {
		b.WriteString(r.text + "\n")
	}
	return b.String()
}

// pass lets time pass, ticking where the dialog asks for it.
func (p *player) pass(d time.Duration) *player {
	end := p.now.Add(d)
	for {
		at := p.d.deadline()
		if at.IsZero() || at.After(end) {
			break
		}
		if at.After(p.now) {
			p.now = at
		}
		p.d.tick(p.now)
		p.frame()
		if p.d.done {
			break
		}
		if again := p.d.deadline(); !again.After(p.now) && !again.IsZero() {
			p.t.Fatalf("deadline %v does not move on after tick", again)
		}
	}
	p.now = end
	return p
}

// ready answers the query and waits until keys count.
func (p *player) ready() *player {
	p.send("\x1b[" + query)
	p.pass(shownLeast)
	if p.d.stage != armed {
		p.t.Fatal("control: keys do not count although nothing was typed")
	}
	return p
}

// send delivers bytes that came together, now.
func (p *player) send(s string) *player {
	if !p.d.done {
		p.d.input([]byte(s), p.now, p.now)
		p.frame()
	}
	return p
}

// slowly sends each byte by itself, gap apart.
func (p *player) slowly(s string, gap time.Duration) *player {
	for _, b := range []byte(s) {
		p.send(string([]byte{b}))
		p.pass(gap)
	}
	return p
}

func (p *player) press(keys string) *player {
	for _, k := range keys {
		p.send(string(k)).pass(aloneFor + 10*time.Millisecond)
	}
	return p
}

func (p *player) typeWord() *player {
	return p.slowly(p.d.word, 60*time.Millisecond).send("\r").pass(200 * time.Millisecond)
}

func ask() Question { return questions()["push"] }

// TestPhrase: where an answer needs it, no key alone allows, and what is typed is not
// on the screen.
func TestPhrase(t *testing.T) {
	q := ask()
	q.AllowPhrase = true
	p := newPlayer(t, q).ready().press("y")
	if p.d.done {
		t.Fatal("y alone allows")
	}
	if frame := p.slowly("secret7", 60*time.Millisecond).frame(); strings.Contains(frame, "secret7") || strings.Contains(frame, "7_") || !strings.Contains(frame, "phrase") {
		t.Errorf("shown:\n%s", frame)
	}
	p.send("\r").pass(200 * time.Millisecond)
	if !p.d.done || p.d.result.Decision != AllowOnce || p.d.result.Phrase != "secret7" {
		t.Errorf("answered %+v", p.d.result)
	}
	if p := newPlayer(t, q).ready().press("y").send("\r").pass(200 * time.Millisecond); p.d.done {
		t.Error("no phrase at all allows")
	}
	q = ask()
	q.TurnAllowed, q.TurnPhrase = false, true
	if frame := newPlayer(t, q).ready().frame(); !strings.Contains(frame, "allow for this turn") {
		t.Errorf("the turn is not offered:\n%s", frame)
	}
	p = newPlayer(t, q).ready().press("t").slowly("secret7", 60*time.Millisecond).send("\r").pass(200 * time.Millisecond)
	if !p.d.done || p.d.result.Decision != AllowForTurn || p.d.result.Phrase != "secret7" {
		t.Errorf("answered %+v", p.d.result)
	}
	if p := newPlayer(t, q).ready().press("y"); !p.d.done || p.d.result.Decision != AllowOnce || p.d.result.Phrase != "" {
		t.Errorf("answered %+v", p.d.result)
	}
}

func TestKeysDecide(t *testing.T) {
	for _, c := range []struct {
		keys     string
		decision string
		reason   string
	}{
		{"y", AllowOnce, ""}, {"n", Deny, ""}, {"\x03", Deny, ""},
	} {
		p := newPlayer(t, ask()).ready().press(c.keys)
		if !p.d.done || p.d.result.Decision != c.decision || p.d.result.Reason != c.reason {
			t.Errorf("key %q: done %v, %+v; want %s", c.keys, p.d.done, p.d.result, c.decision)
		}
	}
	p := newPlayer(t, ask()).ready().press("r")
	p.slowly("not on my watch", 40*time.Millisecond).send("\r")
	if got := p.d.result; got.Decision != Deny || got.Reason != "not on my watch" || got.Toggles != nil {
		t.Errorf("reason: %+v", got)
	}
	p = newPlayer(t, ask()).ready().press("t").typeWord()
	if got := p.d.result.Decision; got != AllowForTurn {
		t.Errorf("turn: %q", got)
	}
	p = newPlayer(t, ask()).ready().press("r").slowly("abc", 50*time.Millisecond).send("\x1b").pass(time.Second)
	if p.d.done || p.d.entry != menu {
		t.Errorf("Escape in a reason did not go back: %+v", p.d.result)
	}
}

// TestKeysKeep: what outlives its question is offered, shown, and takes a word.
func TestKeysKeep(t *testing.T) {
	full := ask()
	full.GrantPattern, full.TreeAllowed, full.Always = "bash git push * (/usr/bin/git)", true, "/c/policy.jsonc:7: \"git push *\": \"allow\""
	for _, c := range []struct {
		key  string
		want Answer
	}{
		{"t", Answer{Decision: AllowForTurn}}, {"m", Answer{Decision: AllowForTurn, Pattern: true}}, {"T", Answer{Decision: AllowForTurn, Tree: true}},
		{"M", Answer{Decision: AllowForTurn, Pattern: true, Tree: true}}, {"A", Answer{Decision: AllowAlways}},
	} {
		p := newPlayer(t, full).ready().press(c.key)
		if p.d.done {
			t.Errorf("%s: decides without its word", c.key)
		}
		p.typeWord()
		got := p.d.result
		if got.Toggles == nil {
			t.Errorf("%s: no lines", c.key)
		}
		if got.Toggles = nil; fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", c.want) {
			t.Errorf("%s: %+v, want %+v", c.key, got, c.want)
		}
		if c.key == "t" {
			continue
		}
		// What is not offered does nothing, and nothing is offered without the turn.
		none := full
		none.TurnAllowed = false
		for _, q := range []Question{ask(), none} {
			if p := newPlayer(t, q).ready().press(c.key); p.d.done || p.d.entry != menu {
				t.Errorf("%s: counts without an offer", c.key)
			}
		}
	}
	p := newPlayer(t, full)
	text := ""
	for _, f := range p.d.page.fields(false) {
		text += f.text + "\n"
	}
	for _, want := range []string{"m would also allow bash git push * (/usr/bin/git)", "T and M are t and m for every session", `A would write /c/policy.jsonc:7: "git push *": "allow"`} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// hostile inputs hold every letter that means something, inside of something
// that is no key.
var hostileInputs = map[string]string{
	"cursor report":         "\x1b[12;40R",
	"status":                "\x1b[0n",
	"device attributes":     "\x1b[?62;1;2;4c",
	"colour with r and y":   "\x1b]11;rgb:yyyy/nnnn/tttt\x1b\\",
	"colour, BEL":           "\x1b]4;1;rgb:12/34/yy\x07",
	"clipboard":             "\x1b]52;c;eXl5eXl5\x07",
	"version":               "\x1bP>|XTerm(yynt)\x1b\\",
	"title report":          "\x1b]ly\x1b\\",
	"setting report":        "\x1bP1$ry\x1b\\",
	"application string":    "\x1b_Gi=1;y\x1b\\",
	"eight-bit CSI":         "\x9b0n",
	"UTF-8 CSI":             "\u009b0y",
	"eight-bit OSC":         "\x9dlyy\x1b\\",
	"SS3":                   "\x1bOy",
	"alt y":                 "\x1by",
	"mouse":                 "\x1b[My!!",
	"mouse SGR":             "\x1b[<0;10;10M\x1b[<0;10;10m",
	"Linux function key":    "\x1b[[y",
	"focus":                 "\x1b[I",
	"paste y":               "\x1b[200~y\x1b[201~",
	"paste with its end":    "\x1b[200~harmless\x1b[201~y",
	"paste Enter":           "\x1b[200~\r\r\r\x1b[201~\r",
	"nested paste":          "\x1b[200~\x1b[200~y\x1b[201~y\x1b[201~y",
	"unfinished paste":      "\x1b[200~yyyy",
	"unfinished string":     "\x1b]52;c;y",
	"unfinished DCS":        "\x1bPyy",
	"kitty report of y":     "\x1b[121;1u",
	"Enter":                 "\r",
	"line feed":             "\n",
	"Ctrl-D":                "\x04",
	"NUL":                   "\x00",
	"two keys":              "yy",
	"y and Enter":           "y\r",
	"UTF-8 that ends in y":  "\xc3y",
	"fullwidth y":           "\uff59",
	"answerback":            "yes, this is a terminal",
	"reply cut at its head": "0;0y",
}

// TestNoSequenceAnswers: nothing that a terminal or a paste types by itself
// decides, at any stage of the dialog, in one piece or in pieces.
func TestNoSequenceAnswers(t *testing.T) {
	if p := newPlayer(t, ask()).ready().press("y"); !p.d.done {
		t.Fatal("control: y does not allow")
	}
	for name, in := range hostileInputs {
		t.Run(name, func(t *testing.T) {
			for _, before := range []time.Duration{0, 100 * time.Millisecond, settleMost, 2 * time.Second} {
				p := newPlayer(t, ask()).pass(before).send(in).pass(3 * time.Second)
				if p.d.done {
					t.Fatalf("after %v: decided %+v", before, p.d.result)
				}
				if p.d.page.toggles['O'] || !p.d.page.toggles['w'] {
					t.Fatalf("after %v: changed the grants: %v", before, p.d.page.toggles)
				}
				// The dialog still works afterwards.
				if p.pass(time.Second).press("n"); p.d.result.Decision != Deny {
					t.Fatalf("after %v: the dialog is stuck, stage %d", before, p.d.stage)
				}
			}
			if len(in) < 2 {
				return
			}
			for split := 1; split < len(in); split++ {
				// A sequence arrives in two reads a moment apart; what a person
				// types by himself is not meant here, so the gap is short.
				p := newPlayer(t, ask()).ready().send(in[:split]).pass(30 * time.Millisecond).send(in[split:]).pass(3 * time.Second)
				if p.d.done && p.d.result.Decision != Deny {
					t.Fatalf("split at %d: decided %+v", split, p.d.result)
				}
			}
		})
	}
}

// TestTornString: inside a string or a paste, no pause makes its rest a key.
func TestTornString(t *testing.T) {
	for _, in := range []string{"\x1b]52;c;eXl5\x07", "\x1bP1$ry\x1b\\", "\x1b[200~y\x1b[201~"} {
		for split := 2; split < len(in)-1; split++ {
			p := newPlayer(t, ask()).ready().send(in[:split]).pass(900 * time.Millisecond).send(in[split : split+1]).
				pass(500 * time.Millisecond)
			if p.d.done {
				t.Errorf("%q torn at %d: %+v", in, split, p.d.result)
			}
		}
	}
}

func TestKeysBeforeTheDialogNeverCount(t *testing.T) {
	t.Run("while the query is open", func(t *testing.T) {
		p := newPlayer(t, ask()).send("y").pass(100 * time.Millisecond).send("\x1b[" + query).pass(3 * time.Second)
		if p.d.done {
			t.Fatalf("%+v", p.d.result)
		}
	})
	t.Run("another answer does not end it", func(t *testing.T) {
		p := newPlayer(t, ask()).send("\x1b[1;1R\x1b[0n")
		if p.d.stage != settling {
			t.Fatal("an answer to the agent's query passed for ours")
		}
	})
	t.Run("a terminal that never answers", func(t *testing.T) {
		p := newPlayer(t, ask()).pass(300 * time.Millisecond).send("y").pass(3 * time.Second)
		if p.d.done {
			t.Fatalf("%+v", p.d.result)
		}
		if p.press("y"); p.d.result.Decision != AllowOnce {
			t.Fatal("the dialog does not work without an answer")
		}
	})
	t.Run("in the first 400 ms", func(t *testing.T) {
		p := newPlayer(t, ask()).send("\x1b[" + query).pass(390 * time.Millisecond).send("y").pass(3 * time.Second)
		if p.d.done {
			t.Fatalf("%+v", p.d.result)
		}
	})
	t.Run("Ctrl-C that was meant for the agent", func(t *testing.T) {
		p := newPlayer(t, ask()).send("\x03").pass(3 * time.Second)
		if p.d.done {
			t.Fatalf("%+v", p.d.result)
		}
	})
}

// TestProse: a person who types a text while the dialog comes up answers
// nothing, at any steady speed.
func TestProse(t *testing.T) {
	const prose = "yes try to run it now, you need only type y or t, not n; yyyy ttt y y y nn"
	for _, gap := range []time.Duration{10, 50, 100, 149, 200, 300, 390} {
		p := newPlayer(t, ask()).send("\x1b["+query).slowly(prose, gap*time.Millisecond)
		if p.d.done {
			t.Errorf("every %d ms: %+v", gap, p.d.result)
		}
	}
	// And where the dialog had been quiet before: only what came fast.
	for _, gap := range []time.Duration{10, 50, 100, 149} {
		p := newPlayer(t, ask()).ready().slowly(prose, gap*time.Millisecond)
		if p.d.done {
			t.Errorf("every %d ms on an open dialog: %+v", gap, p.d.result)
		}
	}
}

// TestAlone: a key needs its quiet on both sides.
func TestAlone(t *testing.T) {
	p := newPlayer(t, ask()).ready().send("y").pass(149 * time.Millisecond)
	if p.d.done {
		t.Fatal("y counted before its quiet was over")
	}
	if p.send("x").pass(3 * time.Second); p.d.done {
		t.Fatalf("y counted although x followed: %+v", p.d.result)
	}
	p = newPlayer(t, ask()).ready().send("\x1b[A").pass(149 * time.Millisecond).send("y").pass(3 * time.Second)
	if p.d.done {
		t.Fatalf("y counted right after a sequence: %+v", p.d.result)
	}
	// A byte that may have come within the quiet, although it was read later.
	p = newPlayer(t, ask()).ready().send("y")
	early := p.now.Add(50 * time.Millisecond)
	p.d.input([]byte("x"), early, p.now.Add(5*time.Second))
	if p.now = p.now.Add(9 * time.Second); p.d.done {
		t.Fatal("y counted although the next byte may have followed at once")
	}
}

func TestWords(t *testing.T) {
	seen := map[string]bool{}
	p := newPlayer(t, ask()).ready()
	for range wordTries {
		p.press("t")
		if p.d.entry != typeWord || p.d.word == "" {
			t.Fatal("t asked for no word")
		}
		if !strings.Contains(p.frame(), strings.ToUpper(p.d.word)) {
			t.Fatal("the word is not shown")
		}
		seen[p.d.word] = true
		p.slowly("zzz", 60*time.Millisecond).send("\r").pass(time.Second)
		if p.d.done {
			t.Fatalf("a wrong word decided: %+v", p.d.result)
		}
	}
	if len(seen) < 2 {
		t.Errorf("the word stays the same: %v", seen)
	}
	if p.press("t"); p.d.entry != menu {
		t.Error("after three wrong words there is a fourth try")
	}
	if p.press("y"); p.d.result.Decision != AllowOnce {
		t.Error("after three wrong words y must still work")
	}

	t.Run("typed by a machine", func(t *testing.T) {
		p := newPlayer(t, ask()).ready().press("t")
		if p.send(p.d.word + "\r").pass(time.Second); p.d.done {
			t.Fatalf("word and Enter in one piece decided: %+v", p.d.result)
		}
		p = newPlayer(t, ask()).ready().press("t")
		if p.send("\x1b[200~" + p.d.word + "\r\x1b[201~\r").pass(time.Second); p.d.done {
			t.Fatalf("a pasted word decided: %+v", p.d.result)
		}
	})
	t.Run("all words can be told apart", func(t *testing.T) {
		for _, a := range words {
			for _, b := range words {
				if a != b && strings.HasPrefix(a, b) {
					t.Errorf("%s begins with %s", a, b)
				}
			}
		}
		if len(words) < 200 {
			t.Errorf("only %d words", len(words))
		}
	})
}

func TestGrantVector(t *testing.T) {
	p := newPlayer(t, ask()).ready().press("ws").press("p").press("y")
	want := map[rune]bool{'w': false, 'h': true, 's': true, 'p': true, 'O': false}
	if fmt.Sprint(p.d.result.Toggles) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", p.d.result.Toggles, want)
	}

	// The sandbox: another key, a word, and it is said on the first line.
	p = newPlayer(t, ask()).ready().press("o")
	if p.d.page.toggles['O'] {
		t.Fatal("o passed for O")
	}
	p.press("O")
	if p.d.page.toggles['O'] {
		t.Fatal("O alone ends the sandbox")
	}
	p.typeWord()
	if !p.d.page.toggles['O'] || p.d.done {
		t.Fatalf("O and its word: %v, done %v", p.d.page.toggles, p.d.done)
	}
	screen := p.frame()
	if first, _, _ := strings.Cut(screen, "\n"); !strings.Contains(first, "OFF") || !strings.Contains(screen, "WITHOUT SANDBOX") {
		t.Errorf("the screen does not say that the sandbox is off:\n%s", screen)
	}
	if p.press("y"); !p.d.result.Toggles['O'] {
		t.Errorf("%+v", p.d.result)
	}
	p = newPlayer(t, ask()).ready().press("O").typeWord().press("O").press("y")
	if p.d.result.Decision != AllowOnce || p.d.result.Toggles['O'] {
		t.Errorf("taken back: %+v", p.d.result)
	}
}

func TestAllowIsInertUntilTheEnd(t *testing.T) {
	q := questions()["long"]
	for _, key := range []string{"y", "t"} {
		p := newPlayer(t, q).ready().press(key)
		if p.d.done || p.d.entry != menu {
			t.Fatalf("%s worked before the command's end was shown", key)
		}
		if p.press("v" + key); p.d.done || p.d.entry != menu {
			t.Fatalf("%s worked on the first page of the complete view", key)
		}
		for range 30 {
			p.press(" ")
		}
		p.press(key)
		if p.d.entry == typeWord {
			p.typeWord()
		}
		if !p.d.done || p.d.result.Decision == Deny {
			t.Fatalf("%s does not work at the end:\n%s", key, p.frame())
		}
	}
	p := newPlayer(t, q).ready().press("n")
	if p.d.result.Decision != Deny {
		t.Error("a denial needs no reading")
	}
	// Nothing of the command is missing in the complete view.
	p = newPlayer(t, q).ready().press("v")
	var all strings.Builder
	for _, r := range func() []row { b, _, _ := p.d.page.body(80, 20, true, false); return b }() {
		all.WriteString(r.text + "\n")
	}
	for _, line := range strings.Split(q.Command, "\n") {
		if !strings.Contains(all.String(), line) {
			t.Errorf("missing: %s", line)
		}
	}
	// Where the screen is too small nothing can be allowed, but denied.
	p = newPlayer(t, ask())
	p.ready()
	p.d.frame(4, 80, p.now)
	p.d.press('y')
	if p.d.done {
		t.Error("allowed on four rows")
	}
	if p.d.press('n'); p.d.result.Decision != Deny {
		t.Error("cannot deny on four rows")
	}
}

func TestPairing(t *testing.T) {
	q := questions()["pair"]
	p := newPlayer(t, q).ready()
	if strings.Contains(p.frame(), "M4Q") {
		t.Fatal("the code is on the screen that asks for it")
	}
	p.slowly("k7 m4q", 50*time.Millisecond).send("\r")
	if got := p.d.result; got.Decision != AllowOnce || got.Code != q.Code {
		t.Errorf("%+v", got)
	}
	p = newPlayer(t, q).ready().press("y").send("\r").pass(time.Second)
	if p.d.done {
		t.Errorf("y pairs: %+v", p.d.result)
	}
	for range wordTries {
		p.slowly("k7m4r", 50*time.Millisecond).send("\r").pass(time.Second)
	}
	if got := p.d.result; got.Decision != Deny || got.Code != "" {
		t.Errorf("wrong codes: %+v", got)
	}
	if p := newPlayer(t, q).ready().press("\x03"); p.d.result.Decision != Deny {
		t.Error("Ctrl-C does not deny a pairing")
	}
}

// TestRandomBytes: whatever comes, an allow needs a y by itself or a word.
func TestRandomBytes(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	alphabet := []byte("yntrOw\r\n\x1b[]P200~201~;0R\x07\\\x04\x9b\x90 vq")
	for range 500 {
		p := newPlayer(t, ask())
		for range 12 {
			b := make([]byte, 2+rng.IntN(9))
			for i := range b {
				b[i] = alphabet[rng.IntN(len(alphabet))]
			}
			p.send(string(b)).pass(time.Duration(rng.IntN(700)) * time.Millisecond)
		}
		if p.d.done && p.d.result.Decision != Deny {
			t.Fatalf("%+v", p.d.result)
		}
	}
}

func TestQuestionsThatCannotBeShown(t *testing.T) {
	good := ask()
	if err := good.validate(); err != nil {
		t.Fatalf("control: %v", err)
	}
	for name, change := range map[string]func(*Question){
		"Command":     func(q *Question) { q.Command = "" },
		"bytes":       func(q *Question) { q.Command = strings.Repeat("x", MaxCommand+1) },
		"Argv":        func(q *Question) { q.Argv = []string{strings.Repeat("x", MaxCommand)} },
		"Environment": func(q *Question) { q.Environment = make([]string, MaxLines+1) },
		"Needs[0]":    func(q *Question) { q.Needs = []Line{{Text: strings.Repeat("x", MaxField+1)}} },
		"TurnPattern": func(q *Question) { q.TurnPattern = "" },
		"Expires":     func(q *Question) { q.Expires = -1 },
		"belongs":     func(q *Question) { q.Offer[0].Key = 'y' },
		"twice":       func(q *Question) { q.Offer[0].Key = 'h' },
		"capital":     func(q *Question) { q.Offer[4].Key = 'o' },
		"small":       func(q *Question) { q.Offer[0].Key = 'W' },
		"must not be": func(q *Question) { q.Offer[4].On = true },
		"no name":     func(q *Question) { q.Offer[0].Name = "" },
	} {
		q := ask()
		change(&q)
		if err := q.validate(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if (Answer{}).Decision == AllowOnce {
		t.Error("the zero answer allows")
	}
}
