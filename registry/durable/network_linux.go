package durable

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// remoteKinds are the magic numbers of statfs(2) behind which the kernel of this
// machine is not the one that decides.
var remoteKinds = map[uint32]string{
	0x6969:     "nfs",
	0x517b:     "smb",
	0xfe534d42: "smb2",
	0xff534d42: "cifs",
	0x01021997: "9p",
	0x5346414f: "afs",
	0x6b414653: "afs",
	0x73757245: "coda",
	0x00c36400: "ceph",
	0x0bd00bd0: "lustre",
	0x47504653: "gpfs",
	0xaad7aaea: "panfs",
	0x7461636f: "ocfs2",
	0x01161970: "gfs2",
	0x65735546: "fuse",
	0x786f4256: "vboxsf",
	0xbacbacbc: "vmhgfs",
	0x20030528: "orangefs",
}

func network(path string) (string, bool, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return "", false, fmt.Errorf("statfs %s: %w", path, err)
	}
	magic := uint32(st.Type)
	if kind, ok := remoteKinds[magic]; ok {
		return kind, true, nil
	}
	return fmt.Sprintf("%#x", magic), false, nil
}
