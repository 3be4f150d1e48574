package policy

import (
	"fmt"
	"reflect"
	"testing"

	"pgregory.net/rapid"
)

// leaves are the paths of all fields below v, with a setter that gives each
// another value than it has.
func leaves(v reflect.Value, path string, out map[string]func()) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			leaves(v.Field(i), path+"."+v.Type().Field(i).Name, out)
		}
	case reflect.Array:
		for i := range v.Len() {
			leaves(v.Index(i), fmt.Sprintf("%s[%d]", path, i), out)
		}
	case reflect.Slice:
		out[path+" longer"] = func() { v.Set(reflect.Append(v, reflect.Zero(v.Type().Elem()))) }
		if n := v.Len(); n > 0 {
			out[path+" shorter"] = func() { v.Set(v.Slice(0, n-1)) }
		}
		for i := range v.Len() {
			leaves(v.Index(i), fmt.Sprintf("%s[%d]", path, i), out)
		}
	case reflect.String:
		out[path] = func() { v.SetString(v.String() + "x") }
		if v.Len() > 0 {
			out[path+" empty"] = func() { v.SetString("") }
		}
	case reflect.Bool:
		out[path] = func() { v.SetBool(!v.Bool()) }
	case reflect.Int:
		out[path] = func() { v.SetInt(v.Int() + 1) }
	case reflect.Uint64:
		out[path] = func() { v.SetUint(v.Uint() + 1) }
	default:
		panic("policy: a record has a " + v.Kind().String() + " at " + path)
	}
}

func someRecord(t *rapid.T) Record {
	text := rapid.StringMatching(`[a-z \x00",\[\]{}:]{0,6}`)
	texts := rapid.SliceOfN(text, 0, 3)
	number := rapid.Uint64Range(0, 1<<40)
	aFile := rapid.Custom(func(t *rapid.T) File {
		return File{Path: text.Draw(t, "path"), Dev: number.Draw(t, "dev"), Ino: number.Draw(t, "ino"), SHA256: text.Draw(t, "sha")}
	})
	word := rapid.Custom(func(t *rapid.T) Word {
		return Word{Word: text.Draw(t, "word"), File: aFile.Draw(t, "file"), Changeable: rapid.Bool().Draw(t, "changeable")}
	})
	return Record{
		ID: text.Draw(t, "id"), Sessions: texts.Draw(t, "sessions"), Role: text.Draw(t, "role"), Op: text.Draw(t, "op"),
		Argv: texts.Draw(t, "argv"), Text: text.Draw(t, "text"), Words: rapid.SliceOfN(word, 0, 3).Draw(t, "words"), Dir: aFile.Draw(t, "dir"),
		Environment: texts.Draw(t, "environment"), Base: text.Draw(t, "base"), Streams: [3]string{text.Draw(t, "0"), text.Draw(t, "1"), text.Draw(t, "2")},
		Umask: rapid.IntRange(0, 0o777).Draw(t, "umask"), Surface: text.Draw(t, "surface"), Value: text.Draw(t, "value"), Tool: text.Draw(t, "tool"),
		Plan: text.Draw(t, "plan"), Policy: number.Draw(t, "policy"), Snapshot: number.Draw(t, "snapshot"),
		Offered: GrantVector{WorkspaceWrite: rapid.Bool().Draw(t, "w"), Network: rapid.Bool().Draw(t, "x"), SandboxOff: rapid.Bool().Draw(t, "off")},
	}
}

// TestEveryFieldOfARecordChangesItsDigest: an answer carries the digest, so that
// a field which is not in it could be changed after the answer.
func TestEveryFieldOfARecordChangesItsDigest(t *testing.T) {
	fields := map[string]func(){}
	var zero Record
	leaves(reflect.ValueOf(&zero).Elem(), "Record", fields)
	if len(fields) < 25 {
		t.Fatalf("%d fields were found", len(fields))
	}
	rapid.Check(t, func(t *rapid.T) {
		r := someRecord(t)
		digest := r.Digest()
		if again := r.Digest(); again != digest {
			t.Fatalf("the digest of one record is %s and %s", digest, again)
		}
		names := map[string]func(){}
		leaves(reflect.ValueOf(&r).Elem(), "Record", names)
		for name := range names {
			changed := copyRecord(r)
			setters := map[string]func(){}
			leaves(reflect.ValueOf(&changed).Elem(), "Record", setters)
			setters[name]()
			if changed.Digest() == digest {
				t.Fatalf("%s is another and the digest is the same: %+v", name, r)
			}
		}
	})
}

// copyRecord shares no slice with r.
func copyRecord(r Record) Record {
	v := reflect.New(reflect.TypeFor[Record]()).Elem()
	v.Set(reflect.ValueOf(r))
	for i := range v.NumField() {
		if f := v.Field(i); f.Kind() == reflect.Slice {
			c := reflect.MakeSlice(f.Type(), f.Len(), f.Len())
			reflect.Copy(c, f)
			f.Set(c)
		}
	}
	return v.Interface().(Record)
}

// TestArgumentsAreNotRunTogether: what is separate stays separate in the digest.
func TestArgumentsAreNotRunTogether(t *testing.T) {
	seen := map[string][]string{}
	for _, argv := range [][]string{{"git", "push", "origin"}, {"git", "push origin"}, {"git push origin"}, {"git", "push", "origin", ""}, {"git", `push","origin`}} {
		d := Record{Argv: argv}.Digest()
		if other, ok := seen[d]; ok {
			t.Errorf("%q and %q have one digest", argv, other)
		}
		seen[d] = argv
	}
}
