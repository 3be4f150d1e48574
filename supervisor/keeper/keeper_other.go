//go:build !linux

package keeper

// Main is built for Linux alone: without subreapers the end of a command cannot
// be proved the same way.
func Main() int { return 125 }

// StageMain is built for Linux alone.
func StageMain() int { return 125 }

// RoomMain is built for Linux alone.
func RoomMain() int { return 125 }

// HolderMain is built for Linux alone.
func HolderMain() int { return 125 }
