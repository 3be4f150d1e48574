package supervisor

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// linkFolder is a copy of this very binary at a place that no session may write,
// under the names by which agents call it. It is kept by what the binary is, so
// that a tree goes on with its own while a newer one is installed.
type linkFolder struct {
	bin    string // holds pioneer-super alone: it goes on PATH
	dir    string // holds sh, bash and zsh: never on PATH
	shell  string // dir/bash, for SHELL
	binary string
	ids    [][2]uint64
	held   *os.File // the folder, locked as long as this tree lives
}

// keptCopies is how many copies of other binaries stay that no tree uses. Each is
// as large as this program, and every build makes one.
const keptCopies = 4

// prepareLinks makes the folder below state, or finds it made.
func prepareLinks(state string) (linkFolder, error) {
	exe, err := os.Open("/proc/self/exe")
	if err != nil {
		return linkFolder{}, err
	}
	defer exe.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(exe.Fd()), &st); err != nil {
		return linkFolder{}, err
	}
	key := fmt.Sprintf("%x-%x-%x-%x", st.Dev, st.Ino, st.Size, st.Mtim.Nano())
	root := filepath.Join(state, "bin", key)
	l := linkFolder{bin: filepath.Join(root, "bin"), dir: filepath.Join(root, "links")}
	l.shell, l.binary = filepath.Join(l.dir, "bash"), filepath.Join(l.bin, "pioneer-super")
	if l.held, err = holdCopy(root); err != nil {
		return l, err
	}
	pruneCopies(filepath.Dir(root), key)
	for _, d := range []string{l.bin, l.dir} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return l, err
		}
	}
	if err := copyOnce(exe, l.binary, st.Size); err != nil {
		return l, err
	}
	for _, name := range []string{"sh", "bash", "zsh"} {
		if err := os.Symlink(filepath.Join("..", "bin", "pioneer-super"), filepath.Join(l.dir, name)); err != nil && !os.IsExist(err) {
			return l, err
		}
	}
	l.ids = append(l.ids, [2]uint64{uint64(st.Dev), st.Ino})
	if err := unix.Stat(l.binary, &st); err != nil {
		return l, err
	}
	l.ids = append(l.ids, [2]uint64{uint64(st.Dev), st.Ino})
	return l, nil
}

// holdCopy makes the folder of a binary and holds it against pruneCopies.
func holdCopy(root string) (*os.File, error) {
	for range 100 {
		if err := os.MkdirAll(root, 0o700); err != nil {
			return nil, err
		}
		f, err := lockCopy(root, unix.LOCK_SH|unix.LOCK_NB)
		if os.IsNotExist(err) || errors.Is(err, unix.EWOULDBLOCK) {
			time.Sleep(20 * time.Millisecond) // it is being removed
			continue
		}
		if err != nil {
			return nil, err
		}
		// It may have been removed between the two steps: then this is no folder.
		is, err := f.Stat()
		if now, gone := os.Lstat(root); err == nil && gone == nil && os.SameFile(is, now) {
			os.Chtimes(root, time.Now(), time.Now()) // the least recently used goes first
			return f, nil
		}
		f.Close()
	}
	return nil, fmt.Errorf("%s is held or removed by another process", root)
}

func lockCopy(root string, how int) (*os.File, error) {
	f, err := os.OpenFile(root, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), how); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// pruneCopies removes the copies of other binaries that no tree uses, but for the
// newest. What cannot be removed stays: no tree depends on it.
func pruneCopies(dir, own string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	used := map[string]time.Time{}
	var others []string
	for _, e := range entries {
		if info, err := e.Info(); err == nil && e.IsDir() && e.Name() != own {
			others, used[e.Name()] = append(others, e.Name()), info.ModTime()
		}
	}
	slices.SortFunc(others, func(a, b string) int { return used[b].Compare(used[a]) })
	for _, name := range others[min(keptCopies, len(others)):] {
		root := filepath.Join(dir, name)
		if f, err := lockCopy(root, unix.LOCK_EX|unix.LOCK_NB); err == nil {
			os.RemoveAll(root)
			f.Close()
		}
	}
}

// copyOnce publishes the copy whole or not at all.
func copyOnce(from *os.File, to string, size int64) error {
	if st, err := os.Stat(to); err == nil && st.Size() == size {
		return nil
	}
	tmp, err := os.CreateTemp(filepath.Dir(to), ".copy-")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	if _, err := io.Copy(tmp, io.NewSectionReader(from, 0, size)); err != nil {
		tmp.Close()
		return err
	}
	if err := tmp.Chmod(0o500); err != nil {
		tmp.Close()
		return err
	}
	if err := tmp.Close(); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), to)
}

// is says whether a file is this binary.
func (l linkFolder) is(dev, ino uint64) bool {
	for _, id := range l.ids {
		if id[0] == dev && id[1] == ino {
			return true
		}
	}
	return false
}

// files are what a confined process needs in order to run this binary.
func (l linkFolder) files() []string { return []string{l.binary} }
