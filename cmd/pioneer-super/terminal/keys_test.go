package terminal

import "testing"

func TestLexer(t *testing.T) {
	for _, c := range []struct {
		in   string
		want []tokenKind
	}{
		{"a", []tokenKind{tokenKey}},
		{"äé", []tokenKind{tokenKey, tokenKey}},
		{"\x1b[Ab", []tokenKind{tokenCSI, tokenKey}},
		{"\x1b]0;x\x07b", []tokenKind{tokenString, tokenKey}},
		{"\x1b]0;x\x1b\\b", []tokenKind{tokenString, tokenKey}},
		{"\x1bPx\x07y\x1b\\b", []tokenKind{tokenString, tokenKey}},
		{"\x1b[200~y\x1b[201~b", []tokenKind{tokenPaste, tokenKey}},
		{"\x1b[200~\x1b[20\x1b[201~b", []tokenKind{tokenPaste, tokenKey}},
		{"\x1bxb", []tokenKind{tokenAlt, tokenKey}},
		{"\x1bOPb", []tokenKind{tokenAlt, tokenKey}},
		{"\x1b[Mabcb", []tokenKind{tokenAlt, tokenKey}},
		{"\x1b[[Ab", []tokenKind{tokenAlt, tokenKey}},
		{"\x9b0nb", []tokenKind{tokenCSI, tokenKey}},
		{"\xffb", []tokenKind{tokenJunk, tokenKey}},
		{"\x1b[1\x1b[Ab", []tokenKind{tokenCSI, tokenKey}},
	} {
		var l lexer
		var got []tokenKind
		for _, b := range []byte(c.in) {
			if tok, ok := l.feed(b); ok {
				got = append(got, tok.kind)
			}
		}
		if len(got) != len(c.want) || l.inside() {
			t.Errorf("%q: %v, want %v (inside %v)", c.in, got, c.want, l.inside())
			continue
		}
		for i := range got {
			if got[i] != c.want[i] {
				t.Errorf("%q: %v, want %v", c.in, got, c.want)
			}
		}
	}
}

func TestReportedKeys(t *testing.T) {
	one := func(in string) token {
		var l lexer
		for _, b := range []byte(in) {
			if tok, ok := l.feed(b); ok {
				return tok
			}
		}
		t.Fatalf("%q is no token", in)
		return token{}
	}
	for _, in := range []string{"\x1d", "\x1b[93;5u", "\x1b[93:125;5u", "\x1b[93;5:1u", "\x1b[93;133u", "\x1b[27;5;93~"} {
		if r, ok := ctrlKey(one(in)); !ok || r != ']' {
			t.Errorf("%q: %q %v, want Ctrl-]", in, r, ok)
		}
	}
	for _, in := range []string{"\x1a", "\x1b[122;5u", "\x1b[27;5;122~"} {
		if r, ok := ctrlKey(one(in)); !ok || r != 'Z' {
			t.Errorf("%q: %q %v, want Ctrl-Z", in, r, ok)
		}
	}
	for _, in := range []string{"]", "\x1b[93u", "\x1b[93;1u", "\x1b[93;5:3u", "\x1b[93;6u", "\x1b[5;93~", "\x1b[27;5;93u"} {
		if r, ok := ctrlKey(one(in)); ok && r == ']' {
			t.Errorf("%q passed for Ctrl-]", in)
		}
	}
	for _, in := range []string{"q", "\x1b[113u", "\x1b[113;1u"} {
		if r, ok := plainKey(one(in)); !ok || r != 'q' {
			t.Errorf("%q: %q %v, want q", in, r, ok)
		}
	}
}

func FuzzLexer(f *testing.F) {
	for _, in := range hostileInputs {
		f.Add([]byte(in))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		var l lexer
		for _, b := range in {
			tok, ok := l.feed(b)
			if ok && (tok.kind < tokenKey || tok.kind > tokenJunk) {
				t.Fatalf("token of no kind in %q", in)
			}
			if ok && l.inside() {
				t.Fatalf("inside a token right after one ended, in %q", in)
			}
		}
	})
}
