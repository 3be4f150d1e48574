//go:build !linux && !darwin

package terminal

import (
	"errors"
	"os"
	"time"
)

// On other systems nothing is opened, so nothing below is ever reached with a
// device that works.

type device struct{}

func openDevice(*os.File) (*device, error) { return nil, errors.ErrUnsupported }
func (d *device) stop()                    {}
func (d *device) free()                    {}
func (d *device) size() (rows, cols int)   { return 24, 80 }
func (d *device) makeRaw(bool) error       { return errors.ErrUnsupported }
func (d *device) restore() error           { return errors.ErrUnsupported }
func (d *device) foreground() bool         { return false }
func (d *device) input() (*reader, error)  { return nil, errors.ErrUnsupported }
func (d *device) flush()                   {}
func (d *device) write([]byte) error       { return errors.ErrUnsupported }

var errAway = errors.New("in the background")

type chunk struct {
	data  []byte
	early time.Time
	at    time.Time
	err   error
}

type reader struct{ chunks chan chunk }

func (r *reader) resume() uint64     { return 0 }
func (r *reader) park()              {}
func (r *reader) stop()              {}
func (r *reader) beyond(uint64) bool { return true }

type keySink struct{}

func (s *keySink) send([]byte) bool { return false }

type pseudo struct {
	out  *reader
	keys *keySink
}

func openPseudo(*os.File) (*pseudo, error) { return nil, errors.ErrUnsupported }
func (p *pseudo) cooked() bool             { return false }
func (p *pseudo) close()                   {}

var (
	sigResize   os.Signal
	sigStop     os.Signal
	sigContinue os.Signal
)

func watchSignals(chan os.Signal)   {}
func unwatchSignals(chan os.Signal) {}
func stoppable() bool               { return false }
func stopSelf(chan os.Signal)       {}
