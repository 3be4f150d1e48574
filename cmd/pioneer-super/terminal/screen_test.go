package terminal

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

func filtered(s string) string {
	var f filter
	return string(f.pass(nil, []byte(s)))
}

func TestFilterPassesWhatDraws(t *testing.T) {
	for _, s := range []string{
		"plain\r\ntext\twith\bbackspace\a", "naïve 日本 \u202e",
		"\x1b[1;31mred\x1b[0m", "\x1b[38:2::1:2:3mx", "\x1b[2J\x1b[H\x1b[10;20H\x1b[K",
		"\x1b7\x1b8\x1bD\x1bM\x1bE", "\x1b[5;10r\x1b[r", "\x1b(0\x1b(B\x0e\x0f", "\x1b#8",
		"\x1b[?1049h\x1b[?25l\x1b[?2004h\x1b[?1000;1006h\x1b[?2026h", "\x1b=\x1b>", "\x1b[4h\x1b[4l",
		"\x1b[6n\x1b[c\x1b[>c\x1b[?2026$p\x1b[>q\x1b[?u", "\x1b]11;?\x1b\\", "\x1b]4;12;?\x1b\\",
		"\x1b[>1u\x1b[<1u\x1b[=5;1u", "\x1b[>4;2m", "\x1b[2 q", "\x1b[14t\x1b[18t", "\x1b]133;A\x1b\\", "\x1b]110\x1b\\",
	} {
		if got := filtered(s); got != s {
			t.Errorf("%q\n got %q", s, got)
		}
	}
	if got := filtered("\x1b]11;?\x07"); got != "\x1b]11;?\x1b\\" {
		t.Errorf("BEL: %q", got)
	}
}

// TestFilterDrops: what makes a terminal do more than draw never reaches it,
// and the text around it does.
func TestFilterDrops(t *testing.T) {
	for name, s := range map[string]string{
		"clipboard write": "\x1b]52;c;ZXZpbA==\x07", "clipboard read": "\x1b]52;c;?\x1b\\",
		"title": "\x1b]0;title\x07", "title 2": "\x1b]2;title\x1b\\", "screen title": "\x1bktitle\x1b\\",
		"link": "\x1b]8;;http://evil\x1b\\", "iTerm file": "\x1b]1337;File=name=x:AAAA\x07", "notification": "\x1b]9;hi\x07",
		"palette": "\x1b]4;1;rgb:00/00/00\x1b\\", "palette behind a question": "\x1b]4;1;?;2;#000\x1b\\",
		"foreground": "\x1b]10;#000000\x1b\\", "directory": "\x1b]7;file:///x\x07", "font": "\x1b]50;x\x07",
		"kitty remote": "\x1bP@kitty-cmd{\"cmd\":\"ls\"}\x1b\\", "DCS": "\x1bPq#0\x1b\\", "DECRQSS": "\x1bP$qm\x1b\\",
		"kitty image": "\x1b_Gf=24,t=f;L2V0Yy9wYXNzd2Q=\x1b\\", "APC": "\x1b_x\x1b\\", "PM": "\x1b^x\x1b\\", "SOS": "\x1bXx\x1b\\",
		"tmux passthrough": "\x1bPtmux;\x1b\x1b]52;c;ZXZpbA==\x07\x1b\\",
		"window move":      "\x1b[3;0;0t", "title report": "\x1b[21t", "iconify": "\x1b[2t", "push title": "\x1b[22;0t",
		"print": "\x1b[5i", "print screen": "\x1b[?5i", "keyboard lock": "\x1b[2h", "echo": "\x1b[12h",
		"VT52": "\x1b[?2l", "132 columns": "\x1b[?3h", "win32 input": "\x1b[?9001h", "national": "\x1b[?42h",
		"save modes": "\x1b[?1s", "restore modes": "\x1b[?1r", "conformance": "\x1b[61;1\"p", "checksum": "\x1b[1;1;1;1;9;9*y",
		"eight-bit answers": "\x1b G", "UTF-8 off": "\x1b%@", "UTF-8": "\x1b%G", "locator": "\x1b['z", "LEDs": "\x1b[1q",
		"ENQ": "\x05", "NUL": "\x00", "C1 CSI": "\u009b5n", "C1 OSC": "\u009d52;c;eA\u009c", "memory lock": "\x1bl",
		"other keys": "\x1b[>1;2m", "title modes": "\x1b[>0t", "long CSI": "\x1b[" + strings.Repeat("1;", 400) + "m",
		"long OSC": "\x1b]11;?" + strings.Repeat("x", 3000) + "\x1b\\",
	} {
		got := filtered("a" + s + "b")
		got = strings.NewReplacer("5n", "", "52;c;eA", "").Replace(got) // the harmless rest of C1 forms
		if got != "ab" {
			t.Errorf("%s: %q", name, got)
		}
	}
	// Raw eight-bit controls are no characters.
	if got := filtered("a\x9b5nb"); got != "a\uFFFD5nb" {
		t.Errorf("raw C1: %q", got)
	}
	// Of several modes only the allowed ones go through.
	if got := filtered("\x1b[?1000;2;3;2004h"); got != "\x1b[?1000;2004h" {
		t.Errorf("mixed modes: %q", got)
	}
	// Inside a string nothing is executed, and an interrupted one ends.
	if got := filtered("a\x1b]52;c;\x1b[31mred"); got != "a\x1b[31mred" {
		t.Errorf("interrupted string: %q", got)
	}
}

// TestFilterIsWhole: however the bytes are cut, the same comes out, and never a
// part of a sequence.
func TestFilterIsWhole(t *testing.T) {
	const s = "a\x1b[?1049hä日\x1b[31mb\x1b]11;?\x07c\x1b(0d\x1b]52;c;x\x07e\x1bPq\x1b\\f\x1b7"
	want := filtered(s)
	for cut := range len(s) {
		var f filter
		head := f.pass(nil, []byte(s[:cut]))
		var again filter
		again.pass(nil, head)
		if again.state != filterGround {
			t.Fatalf("after %q the terminal is inside a sequence: %q", s[:cut], head)
		}
		if got := string(f.pass(head, []byte(s[cut:]))); got != want {
			t.Errorf("cut at %d: %q, want %q", cut, got, want)
		}
	}
}

// TestModesRoundTrip: pristine takes every mode back, resume brings it again,
// as seen by a terminal that starts from what the agent wrote.
func TestModesRoundTrip(t *testing.T) {
	for _, s := range []string{
		"plain", "\x1b[?1049h\x1b[?25l\x1b[?1002;1006;2004h\x1b[?1h\x1b=", "\x1b[5;10r\x1b[?6h\x1b[4h\x1b[20h",
		"\x1b(0\x1b)A\x0e", "\x1b[>1u\x1b[>5u\x1b[=7u", "\x1b[>1u\x1b[?1049h\x1b[>3u\x1b[>7u", "\x1b[>4;2m\x1b[4 q",
		"\x1b[1m\x1b[38;5;3m\x1b[4m", "\x1b[1m\x1b[0m", "\x1b[?1049h\x1b[3;20r\x1b[?69h\x1b[?7l\x1b[?5h", "\x1b[?47h\x1b[?2026h",
		"\x1b[?1049h\x1b[?1000h\x1bc", "\x1b[?25l\x1b[4h\x1b[31m\x1b[!p",
	} {
		var agent filter
		agent.pass(nil, []byte(s))

		var terminal filter
		terminal.pass(nil, []byte(s))
		down := agent.modes.pristine()
		if out := string(terminal.pass(nil, []byte(down))); out != down {
			t.Errorf("%q: pristine uses what the filter drops:\n%q\n%q", s, down, out)
		}
		if m := canon(terminal.modes); m != canon(modes{}) {
			t.Errorf("%q: after pristine %q the terminal has %s", s, down, m)
		}
		up := agent.modes.resume()
		terminal.pass(nil, []byte(up))
		if got, want := canon(terminal.modes), canon(agent.modes); got != want {
			t.Errorf("%q: after resume %q\n got %s\nwant %s", s, up, got, want)
		}
	}
	var untouched filter
	untouched.pass(nil, []byte("only text\r\n"))
	if s := untouched.modes.pristine() + untouched.modes.resume(); s != "" {
		t.Errorf("an agent that set nothing: %q", s)
	}
}

// canon prints modes so that equal states print the same.
func canon(m modes) string {
	if len(m.set) == 0 {
		m.set = nil
	}
	if len(m.colours) == 0 {
		m.colours = nil
	}
	for _, k := range []*kittyKeys{&m.keys, &m.altKeys} {
		if len(k.stack) == 0 {
			k.stack = nil
		}
	}
	return fmt.Sprintf("%+v", m)
}

func FuzzFilter(f *testing.F) {
	f.Add([]byte("a\x1b[?1049h\x1b]11;?\x07\x1bPq\x1b\\"), 3)
	f.Add([]byte("\x1b[>1u\x1b[5;9r\u009b日\x1b(0\xff"), 1)
	f.Add([]byte("\x1b(\xb2\x1b\xff"), 1)
	for _, in := range hostileInputs {
		f.Add([]byte(in), 2)
	}
	f.Fuzz(func(t *testing.T, in []byte, at int) {
		if len(in) > 1<<14 {
			return
		}
		var one filter
		out := one.pass(nil, in)
		at = ((at % (len(in) + 1)) + len(in) + 1) % (len(in) + 1)
		var two filter
		if got := two.pass(two.pass(nil, in[:at]), in[at:]); !bytes.Equal(got, out) {
			t.Fatalf("cut at %d of %q: %q, want %q", at, in, got, out)
		}
		var again filter
		if twice := again.pass(nil, out); !bytes.Equal(twice, out) || again.state != filterGround {
			t.Fatalf("not stable: %q gives %q gives %q", in, out, twice)
		}
		if !reflect.DeepEqual(canon(again.modes), canon(one.modes)) {
			t.Fatalf("the terminal's modes differ from ours after %q:\n%s\n%s", in, canon(again.modes), canon(one.modes))
		}
		if i := bytes.IndexAny(out, "\x00\x05\x7f\x18\x1a"); i >= 0 {
			t.Fatalf("%q lets control %#x through", in, out[i])
		}
		for _, bad := range []string{"\x1bP", "\x1b_", "\x1b^", "\x1bX", "\x1bk", "\x1b]52", "\x1b]0", "\x1b]8", "\x1b]1337", "\x1b%", "\x1b "} {
			if bytes.Contains(out, []byte(bad)) {
				t.Fatalf("%q lets %q through: %q", in, bad, out)
			}
		}
		down, up := one.modes.pristine(), one.modes.resume()
		if string(again.pass(nil, []byte(down))) != down || canon(again.modes) != canon(modes{}) {
			t.Fatalf("after %q pristine %q leaves %s", in, down, canon(again.modes))
		}
		again.pass(nil, []byte(up))
		if canon(again.modes) != canon(one.modes) {
			t.Fatalf("after %q resume %q gives %s, want %s", in, up, canon(again.modes), canon(one.modes))
		}
	})
}
