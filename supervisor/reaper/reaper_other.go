//go:build !linux

package reaper

import (
	"errors"
	"time"
)

// Process is one process as it was seen.
type Process struct {
	PID    int
	Parent int
	Start  uint64
	State  byte
	Name   string
	Used   uint64
	Memory uint64
}

// Table is every process that was seen in one pass, by its parent.
type Table map[int][]Process

// Below is not built for this system.
func (Table) Below(int, func(int) bool) []Process { return nil }

// LookAll is not built for this system.
func LookAll() (Table, error) { return nil, errors.ErrUnsupported }

// BecomeSubreaper is Linux's alone.
func BecomeSubreaper() error { return errors.ErrUnsupported }

// Look is not built for this system yet.
func Look(int) (Process, error) { return Process{}, errors.ErrUnsupported }

// Ancestors is not built for this system.
func Ancestors(int, func(int) bool) ([]Process, error) { return nil, errors.ErrUnsupported }

// Descendants is not built for this system.
func Descendants(int, func(int) bool) ([]Process, error) { return nil, errors.ErrUnsupported }

// Clear can prove nothing here: it says that one is left.
func Clear(func(int) bool, time.Duration) int { return 1 }
