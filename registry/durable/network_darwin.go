package durable

import (
	"fmt"

	"golang.org/x/sys/unix"
)

func network(path string) (string, bool, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return "", false, fmt.Errorf("statfs %s: %w", path, err)
	}
	return unix.ByteSliceToString(st.Fstypename[:]), st.Flags&unix.MNT_LOCAL == 0, nil
}
