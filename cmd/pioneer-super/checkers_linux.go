package main

import (
	"errors"

	"github.com/getpioneer/pioneer-super/policy"
	"github.com/getpioneer/pioneer-super/registry"
	"github.com/getpioneer/pioneer-super/supervisor/control"
)

// ownTree returns the authority of the session that this process belongs to, nil where
// no tree is above. A tree that cannot be reached is an error: an answer composed
// without it would be another one.
func ownTree() (authorityAbove, error) {
	places, err := findPlaces()
	if err != nil {
		return nil, exit(125, "%v", err)
	}
	conn, err := findTree(places)
	if errors.Is(err, errNoTree) {
		return nil, nil
	}
	if err != nil {
		return nil, exit(125, "%v", err)
	}
	return func(surface, value, real string) (policy.Action, string, error) {
		if conn == nil {
			// One request a connection.
			if conn, err = findTree(places); err != nil {
				return policy.Deny, "", exit(125, "%v", err)
			}
		}
		defer func() { conn.Close(); conn = nil }()
		result, ok := (&client{conn: conn}).run(&control.Request{
			ID: registry.NewRequestID(), Op: control.OpCheck, Ask: &control.Ask{Surface: surface, Value: value, Real: real},
		})
		if !ok {
			return policy.Deny, "", exit(125, "the supervisor ended before it answered")
		}
		if result.Class != control.ClassDecided {
			return policy.Deny, "", exit(result.Exit, "%s", result.Reason)
		}
		verdict, err := policy.ParseAction(result.Verdict)
		if err != nil {
			return policy.Deny, "", exit(125, "the supervisor's answer: %v", err)
		}
		return verdict, result.Reason, nil
	}, nil
}
