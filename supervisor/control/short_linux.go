package control

import (
	"os"
	"strconv"
)

// short names a file by an open directory: unix socket addresses hold 107 bytes.
func short(dir *os.File, name string) string {
	return "/proc/self/fd/" + strconv.Itoa(int(dir.Fd())) + "/" + name
}
