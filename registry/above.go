package registry

// Standing is where in a living tree a process stands.
type Standing struct {
	Tree    string `json:"tree"`
	RunDir  string `json:"runDir"`
	Session string `json:"session,omitzero"` // empty below the front only
	Command string `json:"command,omitzero"`
	// As is what the ancestor is there: "keeper", "leader", "supervisor" or "front".
	As      string  `json:"as"`
	Process Process `json:"process"`
}

// Above finds the living tree that a process stands in by its ancestors, nearest
// first, whatever its environment says: the nearest one that is a keeper, leader,
// supervisor or front of a living tree decides. It tells where to connect, and
// proves nothing to the supervisor there.
func Above(p Places, ancestors []Process) (Standing, bool, []error) {
	if len(ancestors) == 0 {
		return Standing{}, false, nil
	}
	trees, problems := List(p)
	known := map[int][]Standing{}
	note := func(s Standing) {
		if s.Process.PID > 0 {
			known[s.Process.PID] = append(known[s.Process.PID], s)
		}
	}
	for _, info := range trees {
		if !info.Alive {
			continue
		}
		problems = append(problems, inhabitants(p, info.ID, note)...)
	}
	for _, ancestor := range ancestors {
		for _, s := range known[ancestor.PID] {
			if agree(s.Process, ancestor) {
				return s, true, problems
			}
		}
	}
	return Standing{}, false, problems
}

// inhabitants tells note of each process that the journal of a tree names.
func inhabitants(p Places, id string, note func(Standing)) []error {
	t, err := Open(p, id)
	if err != nil {
		return []error{err}
	}
	defer t.Close()
	state, problems := t.State()
	for _, command := range state.commands {
		if command.State == Ended {
			continue
		}
		s := Standing{Tree: id, RunDir: t.RunDir(), Session: command.Session, Command: command.ID}
		s.As, s.Process = "keeper", command.Keeper
		note(s)
		s.As, s.Process = "leader", command.Leader
		note(s)
	}
	if state.Facts != nil {
		s := Standing{Tree: id, RunDir: t.RunDir()}
		s.As, s.Process = "supervisor", state.Facts.Supervisor
		note(s)
		s.As, s.Process = "front", state.Facts.Front
		note(s)
	}
	return problems
}

// agree reports whether nothing that both identities know says that they are two
// processes. A number that is used again inside a living tree is so rare, and a
// tree that is missed so costly (a second root), that what is unknown agrees.
func agree(a, b Process) bool {
	differ := func(x, y uint64) bool { return x != 0 && y != 0 && x != y }
	return a.PID == b.PID && !differ(a.Start, b.Start) && !differ(a.PIDNS, b.PIDNS) && !differ(a.Handle, b.Handle) &&
		(a.Boot == "" || b.Boot == "" || a.Boot == b.Boot)
}
