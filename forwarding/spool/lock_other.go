//go:build !linux

package spool

import "errors"

// lock needs locks that belong to an open descriptor.
type lock struct{}

func (d dir) lock(string) (*lock, error) { return nil, errors.ErrUnsupported }
func (d dir) held(string) *bool          { return nil }
func (l *lock) release()                 {}
func (l *lock) stands(dir, string) bool  { return false }
