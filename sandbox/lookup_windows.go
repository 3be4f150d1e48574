package sandbox

import (
	"io/fs"
	"os"
)

func ownerOf(fs.FileInfo) int { return -1 }

func mayRead(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	_ = f.Close()
	return true
}

const openFlags = 0
