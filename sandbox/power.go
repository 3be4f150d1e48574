package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// CheckWritableRoots refuses roots through which a session could change what has power
// over it. power maps a path to what it is, in words that complete "the …": "running
// binary", "policy". A path is also reached through each symbolic link on the way to it: a link in a
// writable root can be pointed elsewhere, wherever the file itself lies. The other direction
// is refused too: a root that lies in a place of power (our state).
//
// A path of power that does not exist counts where it would be made. All mistakes are
// reported at once, in a fixed order.
func CheckWritableRoots(roots []string, power map[string]string) error {
	real := make([]string, 0, len(roots))
	for _, root := range roots {
		places, err := placesOf(root)
		if err != nil {
			return fmt.Errorf("writable root %s: %w", printable(root), err)
		}
		real = append(real, places[len(places)-1])
	}
	var faults []error
	for _, path := range slices.Sorted(mapKeys(power)) {
		places, err := placesOf(path)
		if err != nil {
			faults = append(faults, fmt.Errorf("refused: the %s %s: %w", power[path], printable(path), err))
			continue
		}
		if fault := checkPlaces(path, power[path], places, real); fault != nil {
			faults = append(faults, fault)
		}
	}
	return errors.Join(faults...)
}

func checkPlaces(path, what string, places, roots []string) error {
	target := places[len(places)-1]
	for _, root := range roots {
		for _, place := range places {
			if !within(place, root) {
				continue
			}
			if place != target {
				return fmt.Errorf("refused: the %s %s is reached through the link %s, which lies in %s, which this tree may write; %s",
					what, printable(path), printable(place), printable(root), elsewhere(path, what))
			}
			return fmt.Errorf("refused: the %s %s lies in %s, which this tree may write; %s",
				what, printable(target), printable(root), elsewhere(path, what))
		}
		if within(root, target) {
			return fmt.Errorf("refused: %s, which this tree may write, lies in the %s %s; work on a directory outside it",
				printable(root), what, printable(target))
		}
	}
	return nil
}

func elsewhere(path, what string) string {
	if strings.Contains(what, "binary") {
		return fmt.Sprintf("install it elsewhere, for example: install -m 0755 %s ~/.local/bin/%s", printable(path), printable(filepath.Base(path)))
	}
	return "move it elsewhere, for example below ~/.config or ~/.local/state"
}

const mostLinks = 40

// placesOf is where path leads: the place of each symbolic link on the way, and last the real
// path. What does not exist is taken as it is written.
func placesOf(path string) ([]string, error) {
	if err := checkPath(path); err != nil {
		return nil, err
	}
	var places []string
	rest := strings.Split(strings.TrimPrefix(path, "/"), "/")
	at, links := "/", 0
	for len(rest) > 0 {
		name := rest[0]
		rest = rest[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			at = filepath.Dir(at)
			continue
		}
		next := filepath.Join(at, name)
		info, err := os.Lstat(next)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		if err != nil || info.Mode()&fs.ModeSymlink == 0 {
			at = next
			continue
		}
		if links++; links > mostLinks {
			return nil, fmt.Errorf("more than %d symbolic links", mostLinks)
		}
		target, err := os.Readlink(next)
		if err != nil {
			return nil, err
		}
		places = append(places, next)
		if filepath.IsAbs(target) {
			at = "/"
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	return append(places, at), nil
}

func mapKeys(m map[string]string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for key := range m {
			if !yield(key) {
				return
			}
		}
	}
}

// Workspace is the directory that a session started in dir works on: the nearest ancestor of
// dir, dir itself included, that holds .git; else dir. It is never /, the home
// directory, or a directory that holds our state, since a tool that may write there may
// write everything: such a result is an error that says so. Paths are absolute and clean; symbolic
// links are the caller's to resolve. exists answers for one path.
func Workspace(dir string, home string, state string, exists func(string) bool) (string, error) {
	for what, path := range map[string]string{"directory": dir, "home directory": home, "state directory": state} {
		if path == "" && what != "directory" {
			continue
		}
		if err := checkPath(path); err != nil {
			return "", fmt.Errorf("workspace: %s: %w", what, err)
		}
	}
	found := dir
	for at := dir; ; at = filepath.Dir(at) {
		if exists(filepath.Join(at, ".git")) {
			found = at
			break
		}
		if at == filepath.Dir(at) {
			break
		}
	}
	because := ""
	if found != dir {
		because = fmt.Sprintf(", the nearest directory above %s with .git in it,", printable(dir))
	}
	switch {
	case found == filepath.Dir(found):
		return "", fmt.Errorf("workspace: %s%s is the whole system; start in a project directory", found, because)
	case home != "" && home != "/" && within(home, found):
		return "", fmt.Errorf("workspace: %s%s holds the home directory; start in a project directory below it", printable(found), because)
	case state != "" && within(state, found):
		return "", fmt.Errorf("workspace: %s%s holds our state %s; start in another directory or move the state", printable(found), because, printable(state))
	case state != "" && within(found, state):
		return "", fmt.Errorf("workspace: %s%s lies in our state %s; start in another directory", printable(found), because, printable(state))
	}
	return found, nil
}
