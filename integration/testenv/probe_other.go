//go:build !linux

package testenv

import "errors"

func landlock(int) error    { return errors.ErrUnsupported }
func seccomp() error        { return errors.ErrUnsupported }
func seccompNotify() error  { return errors.ErrUnsupported }
func userNamespace() error  { return errors.ErrUnsupported }
func mountNamespace() error { return errors.ErrUnsupported }
func pidNamespace() error   { return errors.ErrUnsupported }
func netNamespace() error   { return errors.ErrUnsupported }
func pidfd() error          { return errors.ErrUnsupported }
func peerPidfd() error      { return errors.ErrUnsupported }
func subreaper() error      { return errors.ErrUnsupported }
func pty() error            { return errors.ErrUnsupported }
