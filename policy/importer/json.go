package importer

import (
	"bytes"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tailscale/hujson"
)

// tree is a JSON settings file with positions. Other agents' files may have
// fields that we do not know; those are skipped.
type tree struct {
	name string
	data []byte
	v    *hujson.Value
}

func parseJSON(f File) (tree, error) {
	if depth(f.Data) > 64 {
		return tree{}, fmt.Errorf("%s: nested too deep", f.Name)
	}
	v, err := hujson.Parse(f.Data)
	if err != nil {
		return tree{}, fmt.Errorf("%s: %w", f.Name, err)
	}
	if v.Value.Kind() != '{' {
		return tree{}, fmt.Errorf("%s:1: not a JSON object", f.Name)
	}
	return tree{f.Name, f.Data, &v}, nil
}

// depth counts brackets, those in strings as well: it can only be too high.
func depth(data []byte) int {
	d, most := 0, 0
	inText := false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case inText && c == '\\':
			i++
		case c == '"':
			inText = !inText
		case inText && c == '\n':
			inText = false
		case inText:
		case c == '{' || c == '[':
			d++
			most = max(most, d)
		case c == '}' || c == ']':
			d--
		}
	}
	return most
}

func (t tree) line() int { return 1 + bytes.Count(t.data[:t.v.StartOffset], []byte("\n")) }

func (t tree) at(v *hujson.Value) tree { return tree{t.name, t.data, v} }

// get returns a member, case-sensitive; of repeated ones the last, as those
// agents read them.
func (t tree) get(path ...string) (tree, bool) {
	for _, name := range path {
		found := false
		for _, m := range t.members() {
			if m.name == name {
				t, found = m.value, true
			}
		}
		if !found {
			return tree{}, false
		}
	}
	return t, true
}

type field struct {
	name  string
	key   tree
	value tree
}

func (t tree) members() []field {
	obj, ok := t.v.Value.(*hujson.Object)
	if !ok {
		return nil
	}
	var out []field
	for i := range obj.Members {
		m := &obj.Members[i]
		key := t.at(&m.Name)
		name, ok := key.text()
		if ok {
			out = append(out, field{name, key, t.at(&m.Value)})
		}
	}
	return out
}

func (t tree) elements() []tree {
	arr, ok := t.v.Value.(*hujson.Array)
	if !ok {
		return nil
	}
	out := make([]tree, len(arr.Elements))
	for i := range arr.Elements {
		out[i] = t.at(&arr.Elements[i])
	}
	return out
}

func (t tree) text() (string, bool) {
	lit, ok := t.v.Value.(hujson.Literal)
	if !ok || lit.Kind() != '"' {
		return "", false
	}
	s, err := jsontext.AppendUnquote(nil, []byte(lit))
	return string(s), err == nil
}
