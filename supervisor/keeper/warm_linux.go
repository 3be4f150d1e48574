package keeper

import (
	"github.com/go-json-experiment/json"

	"github.com/getpioneer/pioneer-super/sandbox"
)

// A process that waits in the pool reads and writes each of its frames once, for
// nobody: what the library builds for a type on its first use is then not built
// while a command waits. What comes of it is thrown away.

func warm(write any, read any) {
	if frame, err := json.Marshal(write); err == nil {
		_ = json.Unmarshal(frame, read, json.RejectUnknownMembers(true))
	}
}

func warmKeeper() {
	warm(Order{
		Prepare: &Prepare{Dir: "/"}, Lookup: &Lookup{Word: "x"}, End: &End{},
		Run: &Run{Argv: []string{"x"}, Env: []string{"x=y"}, Pinned: []Pin{{}}, Profile: sandbox.Profile{Read: []string{"/"}}},
	}, &Order{})
	warm(Report{Ready: &Ready{}, Found: &File{}, Started: &Started{}, Leader: &Leader{}, Ended: &Ended{}, Failed: &Failed{}}, &Report{})
	warm(Hand{}, &Hand{})
	warm(Wire{}, &Wire{})
	warm(Spec{}, &Spec{})
	warm(StageReport{Confined: true}, &StageReport{})
	warmRoom()
}

func warmStage() {
	warm(Spec{Argv: []string{"x"}, Env: []string{"x=y"}, Profile: sandbox.Profile{Read: []string{"/"}}}, &Spec{})
	warm(StageReport{Confined: true}, &StageReport{})
}

func warmRoom() {
	warm(RoomOrder{Enter: &sandbox.Profile{Read: []string{"/"}, View: []sandbox.Mount{{}}}, Terminal: &Size{}}, &RoomOrder{})
	warm(RoomReport{Stage: &StageState{}}, &RoomReport{})
}
