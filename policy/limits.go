package policy

import "fmt"

// Limits end a session that reaches one. 0 means no limit.
type Limits struct {
	// MaxWall is how long the session may last.
	MaxWall Duration `json:"max_wall,omitzero"`
	// MaxIdle is how long it may go on without asking for anything, running a tool
	// or having a child session.
	MaxIdle Duration `json:"max_idle,omitzero"`
	// MaxProcesses is how many processes it and its child sessions may have at once.
	MaxProcesses int `json:"max_processes,omitzero"`
}

// MostProcesses is the largest MaxProcesses that is taken for a number and not for a slip.
const MostProcesses = 1_000_000

// Meet returns the stricter of each.
func (l Limits) Meet(o Limits) Limits {
	return Limits{MaxWall: stricter(l.MaxWall, o.MaxWall), MaxIdle: stricter(l.MaxIdle, o.MaxIdle), MaxProcesses: stricter(l.MaxProcesses, o.MaxProcesses)}
}

// Within reports whether every limit of o holds in l as well.
func (l Limits) Within(o Limits) bool { return l.Meet(o) == l }

// Check reports what cannot be meant.
func (l Limits) Check() error {
	if l.MaxWall < 0 || l.MaxIdle < 0 {
		return fmt.Errorf("a limit of %s, expected a duration above zero", min(l.MaxWall, l.MaxIdle))
	}
	if l.MaxProcesses < 0 || l.MaxProcesses > MostProcesses {
		return fmt.Errorf("a limit of %d processes, expected 1 to %d", l.MaxProcesses, MostProcesses)
	}
	return nil
}

// stricter is the smaller of two limits of which 0 is none.
func stricter[T ~int | ~int64](a, b T) T {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// beyond names what these limits allow more than those of a session.
func (l Limits) beyond(s Limits, say func(string, ...any)) {
	if s.MaxWall != 0 && l.MaxWall > s.MaxWall {
		say("process.max_wall: the session's limit is shorter")
	}
	if s.MaxIdle != 0 && l.MaxIdle > s.MaxIdle {
		say("process.max_idle: the session's limit is shorter")
	}
	if s.MaxProcesses != 0 && l.MaxProcesses > s.MaxProcesses {
		say("process.max_processes: the session's limit is lower")
	}
}

func readDuration(v value) (d Duration) {
	if s, ok := v.text(`a duration such as "90s" or "10m"`); ok {
		if err := d.UnmarshalText([]byte(s)); err != nil {
			v.problem(fmt.Sprintf("%q is no duration", s), `one above zero such as "90s" or "10m"`, "")
		}
	}
	return d
}

func readCount(v value) int {
	n, _ := v.number(1, MostProcesses)
	return n
}

// readLimits reads them as an object of their own.
func readLimits(v value) (l Limits) {
	for _, m := range v.members("an object of limits") {
		switch m.name {
		case "max_wall":
			l.MaxWall = readDuration(m.value)
		case "max_idle":
			l.MaxIdle = readDuration(m.value)
		case "max_processes":
			l.MaxProcesses = readCount(m.value)
		default:
			m.unknown("max_wall", "max_idle", "max_processes")
		}
	}
	return l
}
