package sandbox

import (
	"errors"
	"fmt"
)

// Confine puts p on the calling thread, checks that it holds, and returns. The thread is
// locked to its goroutine for good; nothing may follow but execve from that goroutine,
// which takes the restrictions into the new program, and to all that it starts. Other
// threads of the process are not touched and end with execve.
//
// Descriptors from 3 on are closed by execve, but for p.Descriptors. 0, 1 and 2 keep the
// rights they were opened with: see [CheckStream].
//
// After an error the thread may be restricted in part: the process must end. There is no
// weaker fallback.
//
// A backend of another system than Linux restricts a process only when it is made: for it this
// fails, and on macOS there is Execute instead.
func (p Profile) Confine() error {
	if err := p.Validate(); err != nil {
		return err
	}
	if p.Seatbelt != nil {
		return fmt.Errorf("sandbox backend %s restricts a program only when it is executed (%w)", p.Backend, errors.ErrUnsupported)
	}
	return p.confine()
}
