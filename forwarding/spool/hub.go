package spool

import (
	"path/filepath"
	"strings"
	"sync"

	"github.com/fsnotify/fsnotify"
)

// hub is the one watcher of a Spool, for any number of directories. What it
// says is a hint: it wakes who looks at the directory, and when it lost events,
// or does not know what happened, it wakes everybody.
type hub struct {
	w    *fsnotify.Watcher
	done chan struct{}

	mu   sync.Mutex
	dirs map[string]map[chan struct{}]int
}

func newHub() (*hub, error) {
	w, err := fsnotify.NewBufferedWatcher(256)
	if err != nil {
		return nil, err
	}
	h := &hub{w: w, done: make(chan struct{}), dirs: map[string]map[chan struct{}]int{}}
	go h.run()
	return h, nil
}

func (h *hub) close() {
	_ = h.w.Close()
	<-h.done
}

func (h *hub) run() {
	defer close(h.done)
	events, errs := h.w.Events, h.w.Errors
	for events != nil || errs != nil {
		select {
		case e, ok := <-events:
			if !ok {
				events = nil
				continue
			}
			h.event(e)
		case _, ok := <-errs: // an overflow, or a watch that broke
			if !ok {
				errs = nil
				continue
			}
			h.wakeAll()
		}
	}
}

func (h *hub) event(e fsnotify.Event) {
	if e.Op == fsnotify.Chmod || strings.HasSuffix(e.Name, tmpSuffix) {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	// The directory itself, if it went away, or the one that the file is in.
	wake(h.dirs[e.Name])
	wake(h.dirs[filepath.Dir(e.Name)])
}

func wake(kicks map[chan struct{}]int) {
	for k := range kicks {
		kick(k)
	}
}

// kick wakes the reader of a channel with room for one.
func kick(k chan struct{}) {
	select {
	case k <- struct{}{}:
	default:
	}
}

func (h *hub) wakeAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, kicks := range h.dirs {
		wake(kicks)
	}
}

// watch wakes k when something happens in the directory, until release.
func (h *hub) watch(path string, k chan struct{}) (release func(), err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.dirs[path] == nil {
		if err := h.w.Add(path); err != nil {
			return nil, err
		}
		h.dirs[path] = map[chan struct{}]int{}
	}
	h.dirs[path][k]++
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		kicks := h.dirs[path]
		if kicks[k]--; kicks[k] <= 0 {
			delete(kicks, k)
		}
		if len(kicks) == 0 {
			delete(h.dirs, path)
			_ = h.w.Remove(path) // gone already, if the directory is
		}
	}, nil
}

// rearm watches the directory that now has this path: a watch stays with the
// directory that it was put on, or ends with it.
func (h *hub) rearm(path string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.dirs[path] == nil {
		return nil
	}
	_ = h.w.Remove(path)
	return h.w.Add(path)
}
