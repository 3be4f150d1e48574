package supervisor

import (
	"fmt"
	"testing"
	"time"
)

func TestTickets(t *testing.T) {
	now := time.Unix(1000, 0)
	k := tickets{now: func() time.Time { return now }}
	for name, c := range map[string]struct {
		session, binding string
		after            time.Duration
		before           func()
		want             bool
	}{
		"what was answered":         {"s1", "b", time.Second, nil, true},
		"just in time":              {"s1", "b", 59 * time.Second, nil, true},
		"61 s later":                {"s1", "b", 61 * time.Second, nil, false},
		"another session":           {"s2", "b", 0, nil, false},
		"another command":           {"s1", "c", 0, nil, false},
		"a second time":             {"s1", "b", 0, func() { k.take("s1", "b") }, false},
		"after the turn":            {"s1", "b", 0, func() { k.drop("s1") }, false},
		"after somebody else's":     {"s1", "b", 0, func() { k.drop("s2") }, true},
		"after another's attempt":   {"s1", "b", 0, func() { k.take("s2", "b") }, true},
		"after a different one":     {"s1", "b", 0, func() { k.take("s1", "c") }, true},
		"a later one does not last": {"s1", "b", 61 * time.Second, func() { k.add("s1", "c") }, false},
	} {
		k.list, now = nil, time.Unix(1000, 0)
		k.add("s1", "b")
		if c.before != nil {
			c.before()
		}
		now = now.Add(c.after)
		if got := k.take(c.session, c.binding); got != c.want {
			t.Errorf("%s: %v, expected %v", name, got, c.want)
		}
	}
	k.list = nil
	for i := range 10 * maxTickets {
		k.add("s1", fmt.Sprint(i))
	}
	k.add("s2", "b")
	if len(k.list) != maxTickets+1 || !k.take("s2", "b") {
		t.Errorf("%d tickets after a flood, expected %d and one of the sibling", len(k.list), maxTickets)
	}
}
