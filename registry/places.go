package registry

import (
	"errors"
	"fmt"
	"io/fs"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/getpioneer/pioneer-super/registry/durable"
)

const product = "pioneer-super"

// Places are the three directories of one user.
type Places struct {
	State  string `json:"state"`  // what must outlive a run: journals, audits
	Run    string `json:"run"`    // sockets and channels of what runs now
	Config string `json:"config"` // written by the operator, only read by us
}

// FindPlaces says where the directories of user uid are; it makes none. State is
// $PIONEER_SUPER_HOME, else pioneer-super in $XDG_STATE_HOME, else in
// ~/.local/state. Run is pioneer-super in $XDG_RUNTIME_DIR, else run in State.
// Config is pioneer-super in $XDG_CONFIG_HOME, else in ~/.config. A variable that
// is set to anything but an absolute path is an error that names it.
func FindPlaces(getenv func(string) string, uid int) (Places, error) {
	var p Places
	state, err := absolute(getenv, "PIONEER_SUPER_HOME")
	if err != nil {
		return Places{}, err
	}
	if state != "" {
		p.State = state
	} else if p.State, err = below(getenv, uid, "XDG_STATE_HOME", ".local/state"); err != nil {
		return Places{}, err
	}
	run, err := absolute(getenv, "XDG_RUNTIME_DIR")
	if err != nil {
		return Places{}, err
	}
	if run != "" {
		p.Run = filepath.Join(run, product)
	} else {
		p.Run = filepath.Join(p.State, "run")
	}
	if p.Config, err = below(getenv, uid, "XDG_CONFIG_HOME", ".config"); err != nil {
		return Places{}, err
	}
	return p, nil
}

func below(getenv func(string) string, uid int, variable, inHome string) (string, error) {
	dir, err := absolute(getenv, variable)
	if err != nil {
		return "", err
	}
	if dir == "" {
		home, err := absolute(getenv, "HOME")
		if err != nil {
			return "", err
		}
		if home == "" {
			if home, err = homeOf(uid); err != nil {
				return "", fmt.Errorf("neither %s nor HOME is set: %w", variable, err)
			}
		}
		dir = filepath.Join(home, inHome)
	}
	return filepath.Join(dir, product), nil
}

func absolute(getenv func(string) string, variable string) (string, error) {
	value := getenv(variable)
	if value == "" {
		return "", nil
	}
	if !filepath.IsAbs(value) || strings.ContainsRune(value, 0) {
		return "", fmt.Errorf("%s is %q, expected an absolute path", variable, clip(value))
	}
	return filepath.Clean(value), nil
}

func homeOf(uid int) (string, error) {
	u, err := user.LookupId(strconv.Itoa(uid))
	if err != nil {
		return "", err
	}
	if !filepath.IsAbs(u.HomeDir) {
		return "", fmt.Errorf("the home of user %d is %q, expected an absolute path", uid, u.HomeDir)
	}
	return u.HomeDir, nil
}

// Prepare makes State and Run with mode 0700 where they are missing, and refuses
// (with an error that names the path, what it is and what was expected, and is
// durable.ErrNotOurs) a directory that is a link, belongs to somebody else, or
// that others may write; also a Config of that kind, if there is one, which it
// never makes. State and Run must be on this machine: a lock and a socket mean
// nothing to the other machines of a network file system.
func (p Places) Prepare() error { return p.prepare(durable.Network) }

func (p Places) prepare(network func(string) (string, bool, error)) error {
	for _, dir := range []string{p.State, p.trees(), p.Run} {
		if !filepath.IsAbs(dir) {
			return fmt.Errorf("directory %q, expected an absolute path", dir)
		}
	}
	for _, place := range []struct{ name, dir string }{
		{"state directory", p.State}, {"state directory", p.trees()}, {"run directory", p.Run},
	} {
		if err := durable.MakeDir(place.dir); err != nil {
			return fmt.Errorf("%s: %w", place.name, err)
		}
	}
	for _, place := range []struct{ name, dir string }{{"state directory", p.State}, {"run directory", p.Run}} {
		kind, remote, err := network(place.dir)
		if err != nil && !errors.Is(err, errors.ErrUnsupported) {
			return fmt.Errorf("%s: %w", place.name, err)
		}
		if remote {
			return fmt.Errorf("%s %s is on a network file system (%s): set PIONEER_SUPER_HOME (now the state directory is %s) "+
				"and XDG_RUNTIME_DIR (now the run directory is %s) to directories on a disk of this machine",
				place.name, place.dir, kind, p.State, p.Run)
		}
	}
	if err := durable.CheckDir(p.Config); err != nil && p.Config != "" && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("configuration directory: %w", err)
	}
	return nil
}

func (p Places) trees() string { return filepath.Join(p.State, "trees") }
