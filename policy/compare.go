package policy

import (
	"fmt"
	"reflect"
)

// Widening says what an agent's file that replaces another may allow; nil means
// nothing. Either may be nil, for no file.
func (a *Agent) Widening(next *Agent) []string {
	if a == nil {
		return nil
	}
	if next == nil {
		next = &Agent{Enabled: true}
	}
	var out []string
	switch {
	case a.Permission == nil: // there was no limit
	case next.Permission == nil:
		out = append(out, fmt.Sprintf("the restrictions of %s are gone", a.Permission.Name))
	default:
		out = Widening(a.Permission, next.Permission)
	}
	if !a.Enabled && next.Enabled {
		out = append(out, "the agent may be started again")
	}
	return out
}

// Widening says what settings that replace others may allow in a tree that runs;
// nil means nothing. What only a new tree reads (roots, hosts, capabilities, the
// longest duration) does not count. Either may be nil.
func (s *Settings) Widening(next *Settings) []string {
	if s == nil {
		s = &Settings{}
	}
	if next == nil {
		next = &Settings{}
	}
	var out []string
	if next.Yolo && !s.Yolo {
		out = append(out, fmt.Sprintf("yolo: every ask is allowed (%s)", next.YoloOrigin))
	}
	if next.AllowAlways && !s.AllowAlways {
		out = append(out, "allowAlways: an answer may write a rule into the policy")
	}
	if !reflect.DeepEqual(plainLinks(s.Links), plainLinks(next.Links)) {
		out = append(out, "the authorizers are others")
	}
	if !reflect.DeepEqual(plainReview(s.Review), plainReview(next.Review)) {
		out = append(out, "the model reviewer is another")
	}
	return out
}

// plainLinks leaves out where the links stand.
func plainLinks(list []LinkSettings) []LinkSettings {
	out := make([]LinkSettings, len(list))
	for i, l := range list {
		l.Origin = Origin{}
		out[i] = l
	}
	return out
}

func plainReview(r *ReviewSettings) ReviewSettings {
	if r == nil {
		return ReviewSettings{}
	}
	out := *r
	out.Origin = Origin{}
	return out
}
