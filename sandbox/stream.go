package sandbox

import "fmt"

// Kind is what a standard stream is. The zero value is no stream.
type Kind string

// The kinds of descriptor that may be a command's standard stream.
const (
	KindPipe       Kind = "pipe"
	KindTerminal   Kind = "terminal"
	KindFile       Kind = "file"
	KindNull       Kind = "null"
	KindSocketPair Kind = "socketpair"
)

// StreamKind says what descriptor fd is, when it is something that may be a standard stream:
// a pipe, a terminal, a regular file, /dev/null, or one end of an unnamed connected pair of
// sockets. Everything else is refused by name: a directory or an O_PATH descriptor leads out
// of every view of the file system, a block device past it, and another socket to a peer.
func StreamKind(fd int) (Kind, error) { return streamKind(fd) }

// CheckStream is [StreamKind] for a descriptor that is to be stream number stream (0, 1 or
// 2), whatever number it has now: it must also be open for reading, or writing.
func CheckStream(fd, stream int) (Kind, error) {
	if stream < 0 || stream > 2 {
		return "", fmt.Errorf("stream %d: expected 0, 1 or 2", stream)
	}
	kind, err := streamKind(fd)
	if err != nil {
		return "", fmt.Errorf("stream %d: %w", stream, err)
	}
	if err := streamDirection(fd, stream); err != nil {
		return "", fmt.Errorf("stream %d: %w", stream, err)
	}
	return kind, nil
}
