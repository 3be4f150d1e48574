package control

import (
	"reflect"
	"testing"
)

// TestMembersArriveAsTheyWereSent: a member that is there with nothing in it is
// not a member that is missing: `spawn` without a flag is a spawn.
func TestMembersArriveAsTheyWereSent(t *testing.T) {
	a, b, err := Pair()
	if err != nil {
		t.Fatal(err)
	}
	from, err := FromFile(a)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	to, err := FromFile(b)
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	trip := func(v reflect.Value) {
		t.Helper()
		got := reflect.New(v.Type().Elem())
		if err := from.Send(v.Interface()); err != nil {
			t.Fatal(err)
		}
		if err := to.Recv(got.Interface()); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(v.Interface(), got.Interface()) {
			t.Errorf("sent %+v, received %+v", v.Interface(), got.Interface())
		}
	}
	n := 0
	for _, kind := range []reflect.Type{reflect.TypeFor[Message](), reflect.TypeFor[Request](), reflect.TypeFor[Spawn](), reflect.TypeFor[Root]()} {
		for i := range kind.NumField() {
			if kind.Field(i).Type.Kind() != reflect.Pointer {
				continue
			}
			v := reflect.New(kind)
			v.Elem().Field(i).Set(reflect.New(kind.Field(i).Type.Elem()))
			fill(v)
			trip(v)
			n++
		}
	}
	if n < 15 {
		t.Fatalf("%d members were tried", n)
	}
}

// fill makes nil lists that are always written empty ones, which is how they
// arrive.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			fill(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Field(i)
			if f.Kind() == reflect.Slice && f.IsNil() && !optional(v.Type().Field(i)) {
				f.Set(reflect.MakeSlice(f.Type(), 0, 0))
			}
			fill(f)
		}
	}
}

func optional(f reflect.StructField) bool {
	tag := f.Tag.Get("json")
	for i := range tag {
		if tag[i] == ',' {
			return true
		}
	}
	return false
}
