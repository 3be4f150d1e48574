package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/getpioneer/pioneer-super/forwarding/wire"
	"github.com/getpioneer/pioneer-super/registry"
	"github.com/getpioneer/pioneer-super/registry/lineage"
	"github.com/getpioneer/pioneer-super/supervisor/control"
	"github.com/getpioneer/pioneer-super/supervisor/reaper"
)

// detect finds out which foreign session is the parent of this process.
func detect() lineage.Context {
	return lineage.Detect(lineage.Input{
		LookupEnv:  os.LookupEnv,
		AgentDir:   agentDir(),
		SessionDir: os.Getenv("PI_CODING_AGENT_SESSION_DIR"),
		Proven:     heartbeatIsAncestor,
		PiAncestor: piIsAncestor,
	})
}

// heartbeatIsAncestor reads the heartbeat of a session: a parent that only the
// environment names is believed if its process stands above this one.
func heartbeatIsAncestor(session string) (bool, string) {
	name, err := registry.EncodeID(session)
	if err != nil {
		return false, err.Error()
	}
	// Not read as it comes: others may write there, a pipe or without an end.
	file, err := readFile("heartbeat", filepath.Join(foreignRoot(), "serving", name+".json"))
	if errors.Is(err, os.ErrNotExist) {
		return false, "it publishes no heartbeat"
	}
	if err != nil {
		return false, err.Error()
	}
	beat, err := wire.ReadHeartbeat(file.Data)
	if err != nil {
		return false, "its heartbeat cannot be read: " + err.Error()
	}
	for _, p := range ancestors() {
		if p.PID == beat.PID {
			return true, fmt.Sprintf("the process of its heartbeat, %d, is an ancestor", beat.PID)
		}
	}
	return false, fmt.Sprintf("the process of its heartbeat, %d, is no ancestor of this one", beat.PID)
}

func ancestors() []reaper.Process {
	chain, _ := reaper.Ancestors(os.Getppid(), func(int) bool { return false })
	return chain
}

// piIsAncestor says whether a Pi stands above this process. Its session id is in
// its environment's child alone, so that the process is all there is to see.
func piIsAncestor(string) (bool, string) {
	for _, p := range ancestors() {
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.PID))
		if err != nil {
			continue
		}
		for _, word := range splitNUL(line) {
			if base := filepath.Base(word); base == "pi" || strings.Contains(word, "pi-coding-agent") {
				return true, fmt.Sprintf("process %d is a Pi", p.PID)
			}
		}
		if p.Name == "pi" {
			return true, fmt.Sprintf("process %d is a Pi", p.PID)
		}
	}
	return false, "no ancestor of this process is a Pi"
}

// foreignParent is the session that this tree's asks can be forwarded to: the one
// that the operator names, else the one that detection finds and something proves.
func foreignParent(named string) (*control.Parent, error) {
	out := &control.Parent{Root: foreignRoot(), Session: named, Own: registry.NewID("tree"), Source: "flag"}
	if named != "" {
		id, ok := registry.NormalizeID(named)
		if _, err := registry.EncodeID(id); !ok || err != nil {
			return nil, fmt.Errorf("%q is no session id", named)
		}
		out.Session = id
		return out, nil
	}
	found := detect()
	if found.Parent == "" {
		return nil, nil
	}
	out.Session, out.Source = found.Parent, found.Source
	if !found.Proven {
		// A Pi of before heartbeats proves itself by standing above; any other
		// variable may be left over, or planted by a file of the project.
		if above, why := piIsAncestor(found.Parent); !above {
			warn("%s names the session %s as parent, which nothing proves (%s): it is not asked; --parent %s asks it", found.Source, visible(found.Parent), why, visible(found.Parent))
			return nil, nil
		}
	}
	return out, nil
}
