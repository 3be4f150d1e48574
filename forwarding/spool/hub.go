package spool

import (
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/fsnotify/fsnotify"
)

// hub is the one watcher of this process, for any number of directories: a user
// has few of them, and a tree with many sessions would take them all. What it
// says is a hint: it wakes who looks at the directory, and when it lost events,
// or does not know what happened, it wakes everybody.
type hub struct {
	w    *fsnotify.Watcher
	done chan struct{}
	lost atomic.Int64 // how often events were lost

	mu   sync.Mutex
	dirs map[string]map[listener]int
}

// listener is who is woken.
type listener struct {
	kick chan struct{}
	// arrivals says that files that go are of no interest.
	arrivals bool
}

// shared is the hub that the open Spools use.
var shared struct {
	sync.Mutex
	hub   *hub
	users int
}

// joinHub takes part in the hub, making it for the first; leave ends that.
func joinHub() (*hub, error) {
	shared.Lock()
	defer shared.Unlock()
	if shared.hub == nil {
		w, err := fsnotify.NewBufferedWatcher(256)
		if err != nil {
			return nil, err
		}
		shared.hub = &hub{w: w, done: make(chan struct{}), dirs: map[string]map[listener]int{}}
		go shared.hub.run()
	}
	shared.users++
	return shared.hub, nil
}

// leave takes leave of the hub; the last one ends it.
func (h *hub) leave() {
	shared.Lock()
	defer shared.Unlock()
	if shared.users--; shared.users > 0 {
		return
	}
	shared.hub = nil
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
			h.lost.Add(1)
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
	wake(h.dirs[e.Name], false)
	wake(h.dirs[filepath.Dir(e.Name)], e.Op == fsnotify.Remove)
}

func wake(listeners map[listener]int, left bool) {
	for l := range listeners {
		if !left || !l.arrivals {
			kick(l.kick)
		}
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
	for _, listeners := range h.dirs {
		wake(listeners, false)
	}
}

// watch wakes a listener when something happens in the directory, until release.
func (h *hub) watch(path string, l listener) (release func(), err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.dirs[path] == nil {
		if err := h.w.Add(path); err != nil {
			return nil, err
		}
		h.dirs[path] = map[listener]int{}
	}
	h.dirs[path][l]++
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		listeners := h.dirs[path]
		if listeners[l]--; listeners[l] <= 0 {
			delete(listeners, l)
		}
		if len(listeners) == 0 {
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
