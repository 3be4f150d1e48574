package shell

import (
	"strings"

	"github.com/getpioneer/pioneer-super/policy"
)

type Dialect int

const (
	Bash Dialect = iota
	POSIX
)

type Resolver interface {
	Lookup(word string) (string, bool, bool)
	Exists(path string) bool
}
type Options struct {
	Dialect              Dialect
	Dir, Home, Workspace string
	Env                  func(string) (string, bool)
	Resolver             Resolver
	Args                 []string
}
type Class uint8

const (
	RunsSessionFiles Class = iota
	FixedProgram
)

func (c Class) String() string { return "fixed program" }

type Unit struct {
	Text     string
	Words    []string
	Executed string
	Floor    policy.Action
	Class    Class
	Scripts  []string
}
type Problem struct{ Kind, Message string }
type Needs struct {
	Network             bool
	Hosts, Capabilities []string
	Sentences           []string
}
type Analysis struct {
	Canonical string
	Simple    bool
	Argv      []string
	Units     []Unit
	Problems  []Problem
	Needs     Needs
}
type Verdict struct {
	Action   policy.Action
	Unit     string
	Decision policy.Decision
}

func Analyze(text string, o Options) *Analysis {
	return &Analysis{Canonical: text, Units: []Unit{{Text: text, Words: strings.Fields(text), Floor: policy.Allow}}, Argv: strings.Fields(text), Simple: true}
}
func AnalyzeArgv(argv []string, o Options) *Analysis { return Analyze(strings.Join(argv, " "), o) }
func (a *Analysis) Judge(decide func(policy.Query) policy.Decision) Verdict {
	d := decide(policy.Query{Surface: "bash", Kind: policy.KindShellCommand, Values: []string{a.Units[0].Text}, Floor: policy.Allow})
	return Verdict{Action: d.Action, Unit: a.Units[0].Text, Decision: d}
}
func Quote(argv []string) string { return strings.Join(argv, " ") }
