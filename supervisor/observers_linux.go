package supervisor

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/getpioneer/pioneer-super/forwarding"
	"github.com/getpioneer/pioneer-super/forwarding/link"
	"github.com/getpioneer/pioneer-super/forwarding/prompt"
	"github.com/getpioneer/pioneer-super/policy"
	"github.com/getpioneer/pioneer-super/supervisor/audit"
)

const (
	// maxObserved bounds what waits for one observer.
	maxObserved = 64
	// observerTimeout bounds one call where the configuration says nothing.
	observerTimeout = 5 * time.Second
)

// observers are the programs of one state of the settings that are told of asks.
// They decide nothing, and nothing waits for them: each is told one thing after the
// other, and what it cannot keep up with is left out and recorded.
type observers struct {
	mu     sync.Mutex
	of     *policy.Settings
	stop   context.CancelFunc
	queues []chan []byte
	noise  noise
}

// observe tells the observers of an ask, or of the decision on it.
func (t *tree) observe(f forwarding.Facts, d *forwarding.Decision) {
	s := t.rules.Load().newest().settings
	o := &t.observers
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.of != s {
		if o.stop != nil {
			o.stop()
		}
		o.of, o.stop, o.queues = s, nil, nil
		if s != nil && len(s.Observers) > 0 {
			var ctx context.Context
			ctx, o.stop = context.WithCancel(t.ctx)
			for _, one := range s.Observers {
				queue := make(chan []byte, maxObserved)
				o.queues = append(o.queues, queue)
				go t.serveObserver(ctx, one, queue)
			}
		}
	}
	if len(o.queues) == 0 {
		return
	}
	body, err := link.Core(f, d)
	for i, queue := range o.queues {
		if err == nil {
			select {
			case queue <- body:
				continue
			default:
				err = fmt.Errorf("%d calls wait for it", maxObserved)
			}
		}
		t.observerFailed(s.Observers[i], err)
	}
}

func (t *tree) serveObserver(ctx context.Context, o policy.ObserverSettings, queue <-chan []byte) {
	timeout := time.Duration(o.Timeout)
	if timeout <= 0 {
		timeout = observerTimeout
	}
	for {
		select {
		case <-ctx.Done():
			return
		case body := <-queue:
			call, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("no end within %s", timeout))
			_, err := t.pool.helper(call, o.Command, body, link.MaxVerdict)
			cancel()
			if err != nil && ctx.Err() == nil {
				t.observerFailed(o, err)
			}
		}
	}
}

func (t *tree) observerFailed(o policy.ObserverSettings, err error) {
	t.noteNoise(&t.observers.noise, audit.Row{Kind: audit.ObserverFailed, Reason: "observer " + o.Name + ": " + prompt.Visible(err.Error())})
}
