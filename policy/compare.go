package policy

import (
	"fmt"
	"reflect"
	"slices"
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
	if !reflect.DeepEqual(plainObservers(s.Observers), plainObservers(next.Observers)) {
		out = append(out, "the observers are others")
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

func plainObservers(list []ObserverSettings) []ObserverSettings {
	out := make([]ObserverSettings, len(list))
	for i, o := range list {
		o.Origin = Origin{}
		out[i] = o
	}
	return out
}

// FixedChanges names the settings that count when a tree starts and differ in next:
// a tree that runs keeps its own. Either may be nil.
func (s *Settings) FixedChanges(next *Settings) []string {
	if s == nil {
		s = &Settings{}
	}
	if next == nil {
		next = &Settings{}
	}
	var out []string
	if !slices.Equal(s.Roots, next.Roots) {
		out = append(out, "roots")
	}
	if !slices.Equal(s.Hosts, next.Hosts) {
		out = append(out, "hosts")
	}
	if !slices.Equal(s.Capabilities, next.Capabilities) {
		out = append(out, "capabilities")
	}
	if s.MaxDuration != next.MaxDuration {
		out = append(out, "maxDuration")
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
