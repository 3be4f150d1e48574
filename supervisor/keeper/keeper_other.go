//go:build !linux

package keeper

import "errors"

// Main is built for Linux alone: without subreapers the end of a command cannot
// be proved the same way.
func Main() int { return 125 }

// StageMain is built for Linux alone.
func StageMain() int { return 125 }

// TryRooms is built for Linux alone.
func TryRooms() error { return errors.ErrUnsupported }

// RoomMain is built for Linux alone.
func RoomMain() int { return 125 }

// HolderMain is built for Linux alone.
func HolderMain() int { return 125 }
