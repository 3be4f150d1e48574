//go:build !linux && !darwin

package spool

import (
	"errors"
	"time"
)

var errQuota = errors.New("quota exceeded")

// dir needs names that are resolved from a descriptor; without them a link
// planted at the right moment leads anywhere.
type dir struct{ path string }

func openRoot(path string) (dir, error) { return dir{}, fault("open", path, errors.ErrUnsupported) }

func (d dir) close()               {}
func (d dir) join(n string) string { return d.path + "/" + n }
func (d dir) open(string) (dir, error) {
	return dir{}, errors.ErrUnsupported
}
func (d dir) make(string) (dir, bool, error)              { return dir{}, false, errors.ErrUnsupported }
func (d dir) stat(string) (entry, error)                  { return entry{}, errors.ErrUnsupported }
func (d dir) read(string, int) ([]byte, fileID, error)    { return nil, fileID{}, errors.ErrUnsupported }
func (d dir) remove(string) error                         { return errors.ErrUnsupported }
func (d dir) removeDir(string) (bool, error)              { return false, errors.ErrUnsupported }
func (d dir) clear(string, time.Time) error               { return errors.ErrUnsupported }
func (d dir) names(int) ([]string, bool, error)           { return nil, false, errors.ErrUnsupported }
func (d dir) remote() string                              { return "" }
func (d dir) restrict(string)                             {}
func (d dir) walk(...string) (dir, error)                 { return dir{}, errors.ErrUnsupported }
func (d dir) stampAt(string, fileID, int64, []byte) error { return errors.ErrUnsupported }
func (d dir) write(string, []byte, bool, time.Time) (fileID, error) {
	return fileID{}, errors.ErrUnsupported
}
