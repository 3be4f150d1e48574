package sandbox

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// GitFolders are the places outside workspace that git reads and writes for it, when the
// workspace is a linked working tree or a submodule: there .git is a file that leads elsewhere. Both
// lists are empty for an ordinary repository and for none. The paths are real.
//
// A session can write the file in its workspace, so where it leads is believed only when that
// place, which the session cannot write, leads back to this workspace: else a session could
// open another repository for the next one. What does not lead back is an error that says so, and
// git does not work there.
//
// Of a linked working tree's shared repository only objects, refs, logs and the tree's own
// folder are written; its hooks and configuration are read.
func GitFolders(workspace string) (read, write []string, err error) {
	real, err := filepath.EvalSymlinks(workspace)
	if err != nil {
		return nil, nil, err
	}
	link := filepath.Join(real, ".git")
	info, err := os.Lstat(link)
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.IsDir() {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	read, write, err = linkedFolders(real, link)
	if err != nil {
		return nil, nil, fmt.Errorf("git in %s: %w", printable(real), err)
	}
	return read, write, nil
}

func linkedFolders(workspace, link string) (read, write []string, err error) {
	text, err := readShort(link)
	if err != nil {
		return nil, nil, err
	}
	target, ok := strings.CutPrefix(text, "gitdir: ")
	if !ok {
		return nil, nil, errors.New(".git is a file that does not begin with \"gitdir: \"")
	}
	dir, err := realFrom(workspace, target)
	if err != nil {
		return nil, nil, err
	}
	if within(dir, workspace) {
		return nil, nil, nil
	}
	shared, err := readShort(filepath.Join(dir, "commondir"))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return submoduleFolders(workspace, dir)
	case err != nil:
		return nil, nil, err
	}
	back, err := readShort(filepath.Join(dir, "gitdir"))
	if err != nil {
		return nil, nil, err
	}
	if place, err := realFrom(dir, filepath.Dir(back)); err != nil || filepath.Base(back) != ".git" || place != workspace {
		return nil, nil, fmt.Errorf("%s does not lead back: it belongs to %s", printable(dir), printable(back))
	}
	common, err := realFrom(dir, shared)
	if err != nil {
		return nil, nil, err
	}
	// The session writes the folder in which commondir stands, so its word counts only where it agrees
	// with where the folder is.
	if filepath.Dir(dir) != filepath.Join(common, "worktrees") {
		return nil, nil, fmt.Errorf("%s is no working tree of %s", printable(dir), printable(common))
	}
	write = []string{dir}
	for _, name := range []string{"objects", "refs", "logs"} {
		path := filepath.Join(common, name)
		if info, err := os.Lstat(path); err == nil && info.IsDir() {
			write = append(write, path)
		}
	}
	return []string{common}, write, nil
}

// submoduleFolders accepts a submodule's repository, which names its working tree in its configuration.
func submoduleFolders(workspace, dir string) (read, write []string, err error) {
	config, err := readShort(filepath.Join(dir, "config"))
	if err != nil {
		return nil, nil, err
	}
	section := ""
	for line := range strings.Lines(config) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			section = strings.ToLower(line)
			continue
		}
		name, value, _ := strings.Cut(line, "=")
		if section != "[core]" || !strings.EqualFold(strings.TrimSpace(name), "worktree") {
			continue
		}
		if place, err := realFrom(dir, strings.TrimSpace(value)); err == nil && place == workspace {
			return nil, []string{dir}, nil
		}
	}
	return nil, nil, fmt.Errorf("%s does not lead back to this working tree", printable(dir))
}

// realFrom is the real path of path, which may be relative to dir. It must be a directory.
func realFrom(dir, path string) (string, error) {
	if path == "" || strings.ContainsAny(path, "\x00\n") {
		return "", fmt.Errorf("path %q", path)
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", err
	}
	if info, err := os.Lstat(real); err != nil || !info.IsDir() {
		return "", fmt.Errorf("%s is not a directory", printable(real))
	}
	return real, nil
}

const longestGitFile = 64 << 10

// readShort reads a small regular file, without its line's end. It follows no link at the end of
// the path and does not wait for what is no file.
func readShort(path string) (string, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|openFlags, 0)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s is not a regular file", printable(path))
	}
	text, err := io.ReadAll(io.LimitReader(f, longestGitFile+1))
	if err != nil {
		return "", err
	}
	if len(text) > longestGitFile {
		return "", fmt.Errorf("%s is longer than %d bytes", printable(path), longestGitFile)
	}
	return strings.TrimRight(string(text), "\r\n"), nil
}
