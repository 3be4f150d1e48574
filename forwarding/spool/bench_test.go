//go:build linux || darwin

package spool

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/getpioneer/pioneer-super/forwarding/carriertest"
	"github.com/getpioneer/pioneer-super/forwarding/wire"
)

// poller is the public protocol as its first implementation has it: both ends
// look every 250 ms. It is what an ask is measured against.
type poller struct {
	requests, responses string
}

// serve answers every request with yes until stop is closed.
func (p poller) serve(stop <-chan struct{}) {
	tick := time.NewTicker(wire.PollInterval)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		names, _ := filepath.Glob(filepath.Join(p.requests, "*.json"))
		for _, name := range names {
			data, err := os.ReadFile(name)
			if err != nil {
				continue
			}
			if _, err := wire.ReadRequest(data); err != nil {
				continue
			}
			p.write(filepath.Join(p.responses, filepath.Base(name)), []byte(`{"approved":true,"state":"approved","responderSessionId":"r","respondedAt":1}`))
			_ = os.Remove(name)
		}
	}
}

func (p poller) write(path string, data []byte) {
	tmp := path + ".1.1.tmp"
	_ = os.WriteFile(tmp, data, 0o600)
	_ = os.Rename(tmp, path)
}

// ask sends one request and looks for its answer.
func (p poller) ask(id string, data []byte) error {
	p.write(filepath.Join(p.requests, id+".json"), data)
	answer := filepath.Join(p.responses, id+".json")
	for {
		if data, err := os.ReadFile(answer); err == nil {
			_ = os.Remove(answer)
			_, err = wire.ReadResponse(data)
			return err
		}
		time.Sleep(wire.PollInterval)
	}
}

// BenchmarkAsk is a round trip: a request written, read, answered by policy, and
// the answer taken, with and without notification, beside the public poller.
func BenchmarkAsk(b *testing.B) {
	report := func(b *testing.B, took []time.Duration) {
		slices.Sort(took)
		at := func(q float64) float64 { return float64(took[int(q*float64(len(took)-1))]) / 1e3 }
		b.ReportMetric(at(0.5), "p50-µs")
		b.ReportMetric(at(0.99), "p99-µs")
		b.ReportMetric(float64(wire.PollInterval)/1e3/at(0.5), "times-faster-than-one-poll")
	}
	for name, polled := range map[string]bool{"notified": false, "polled": true} {
		b.Run(name, func(b *testing.B) {
			root := filepath.Join(b.TempDir(), "r")
			server := mustOpen(b, root, Options{NoNotify: polled, Poll: 10 * time.Millisecond})
			client := mustOpen(b, root, Options{NoNotify: polled, Poll: 10 * time.Millisecond})
			carriertest.Serve(b, server, "ch", carriertest.Allow())
			var took []time.Duration
			for b.Loop() {
				begun := time.Now()
				if r, err := client.Ask(context.Background(), "ch", carriertest.Request("git status")); err != nil || !r.Approved {
					b.Fatal(r, err)
				}
				took = append(took, time.Since(begun))
			}
			report(b, took)
		})
	}
	b.Run("public-poller", func(b *testing.B) {
		p := poller{filepath.Join(b.TempDir(), "requests"), filepath.Join(b.TempDir(), "responses")}
		for _, d := range []string{p.requests, p.responses} {
			must(b, os.Mkdir(d, 0o700))
		}
		stop, done := make(chan struct{}), make(chan struct{})
		go func() { defer close(done); p.serve(stop) }()
		defer func() { close(stop); <-done }()
		data, err := carriertest.Request("git status").Encode()
		must(b, err)
		var took []time.Duration
		n := 0
		for b.Loop() {
			n++
			begun := time.Now()
			must(b, p.ask(fmt.Sprint("id-", n), data))
			took = append(took, time.Since(begun))
		}
		report(b, took)
	})
}

// An ask that policy answers is, on a machine however busy, at least five times faster than the public
// poller's, whose figure cannot fall below one period.
func TestAskIsFasterThanThePoller(t *testing.T) {
	root := filepath.Join(t.TempDir(), "r")
	server, client := mustOpen(t, root, Options{}), mustOpen(t, root, Options{})
	carriertest.Serve(t, server, "ch", carriertest.Allow())
	var took []time.Duration
	for range 50 {
		begun := time.Now()
		if r, err := client.Ask(context.Background(), "ch", carriertest.Request("x")); err != nil || !r.Approved {
			t.Fatal(r, err)
		}
		took = append(took, time.Since(begun))
	}
	slices.Sort(took)
	if p50 := took[len(took)/2]; p50 > wire.PollInterval/5 {
		t.Errorf("half of the asks take more than %s", p50)
	}
}
