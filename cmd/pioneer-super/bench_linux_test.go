package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getpioneer/pioneer-super/forwarding/spool"
	"github.com/getpioneer/pioneer-super/forwarding/wire"
	"github.com/getpioneer/pioneer-super/integration/product"
	"github.com/getpioneer/pioneer-super/registry"
)

// benchTree is a tree whose agent runs one line of shell for each line that it
// reads, and says when it is done.
type benchTree struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
	lab *lab
}

func startBench(b *testing.B, line string, flags ...string) *benchTree {
	b.Helper()
	l := newLab(b)
	l.rules(`{"permission": {"bash": {"sh *": "allow", "true": "allow", "/bin/true": "allow", "git status": "allow"}}}`)
	l.script("loop.sh", "while read -r x; do "+line+"; echo done; done")
	t := &benchTree{cmd: exec.Command(product.Binary(b), append(append([]string{"spawn", "--headless", "--policy", l.policy}, flags...), "--", "sh", "loop.sh")...), lab: l}
	t.cmd.Dir, t.cmd.Env, t.cmd.Stderr = l.work, l.env(), io.Discard
	var err error
	if t.in, err = t.cmd.StdinPipe(); err != nil {
		b.Fatal(err)
	}
	out, err := t.cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	t.out = bufio.NewReader(out)
	if err := t.cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		t.in.Close()
		t.cmd.Wait()
	})
	t.once(b) // the first one pays for what is cold
	return t
}

func (t *benchTree) once(b *testing.B) {
	if _, err := io.WriteString(t.in, "x\n"); err != nil {
		b.Fatal(err)
	}
	line, err := t.out.ReadString('\n')
	if err != nil || strings.TrimSpace(line) != "done" {
		b.Fatalf("the tree answered %q: %v", line, err)
	}
}

// BenchmarkExec is one tool that does nothing, as a whole process, beside what a
// shell does without us, in the same run.
func BenchmarkExec(b *testing.B) {
	for _, mode := range []string{"full_access", "auto_accept_edits"} {
		b.Run(mode, func(b *testing.B) {
			ours := startBench(b, "pioneer-super exec -- /bin/true", "--mode", mode)
			plain := startBench(b, "/bin/true", "--mode", mode)
			var with, without []time.Duration
			for b.Loop() {
				start := time.Now()
				ours.once(b)
				middle := time.Now()
				plain.once(b)
				with, without = append(with, middle.Sub(start)), append(without, time.Since(middle))
				// A human's pace, and not a loop's: keepers are started ahead.
				time.Sleep(60 * time.Millisecond)
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(ms(quantile(with, 0.5)), "exec-p50-ms")
			b.ReportMetric(ms(quantile(with, 0.99)), "exec-p99-ms")
			b.ReportMetric(ms(quantile(without, 0.5)), "plain-p50-ms")
			b.ReportMetric(float64(quantile(with, 0.5))/float64(quantile(without, 0.5)), "ratio")
			b.ReportMetric(startups(b, ours.lab), "request-to-started-p50-ms")
		})
	}
}

// startups is the median time from a request to the running tool, as the
// supervisor wrote it down.
func startups(b *testing.B, l *lab) float64 {
	files, _ := filepath.Glob(filepath.Join(l.home, "state", "trees", "*", registry.AuditName))
	var all []time.Duration
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			b.Fatal(err)
		}
		for line := range strings.Lines(string(data)) {
			var row struct {
				Event   string `json:"event"`
				Details struct {
					StartupMicros int64 `json:"startupMicros"`
				} `json:"details"`
			}
			if json.Unmarshal([]byte(line), &row) == nil && row.Event == "command_ended" && row.Details.StartupMicros > 0 {
				all = append(all, time.Duration(row.Details.StartupMicros)*time.Microsecond)
			}
		}
	}
	if len(all) == 0 {
		b.Fatal("no command of the tree has a start-up time in the audit")
	}
	return ms(quantile(all, 0.5))
}

// BenchmarkAsk is an ask over files: a child writes it, policy answers, the child
// goes on. Beside it the same child and the same files with the poll of the public
// extension, 250 ms at either end.
func BenchmarkAsk(b *testing.B) {
	t := startBench(b, ":")
	channel, root := t.channel(b)
	sp, err := spool.Open(root, spool.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer sp.Close()
	surface, value := "bash", "git status"
	var took []time.Duration
	for b.Loop() {
		start := time.Now()
		r, err := sp.Ask(context.Background(), channel, wire.Request{ID: registry.NewRequestID(), CreatedAt: start.UnixMilli(), RequesterSessionID: "bench",
			TargetSessionID: channel, RequesterAgentName: "bench", Source: wire.ToolCall, Surface: &surface, Value: &value,
			Message: fmt.Sprintf("Current agent requested bash command '%s'. Allow this command?", value)})
		if err != nil || !r.Approved {
			b.Fatalf("answer %+v: %v", r, err)
		}
		took = append(took, time.Since(start))
	}
	polled := pollingRoundTrips(b, 12)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(ms(quantile(took, 0.5)), "ask-p50-ms")
	b.ReportMetric(ms(quantile(took, 0.99)), "ask-p99-ms")
	b.ReportMetric(ms(quantile(polled, 0.5)), "poll-p50-ms")
	b.ReportMetric(float64(quantile(polled, 0.5))/float64(quantile(took, 0.5)), "times-faster")
}

// channel finds the inbox of the tree's root session.
func (t *benchTree) channel(b *testing.B) (channel, root string) {
	places := registry.Places{State: filepath.Join(t.lab.home, "state"), Run: filepath.Join(t.lab.home, "state", "run")}
	trees, problems := registry.List(places)
	if len(trees) != 1 {
		b.Fatalf("%d trees, expected 1: %v", len(trees), problems)
	}
	tree, err := registry.Open(places, trees[0].ID)
	if err != nil {
		b.Fatal(err)
	}
	defer tree.Close()
	state, _ := tree.State()
	s := state.Sessions[0]
	return s.Channel, filepath.Join(tree.RunDir(), "fwd", s.ID)
}

// pollingRoundTrips is the public protocol as the public extension runs it: both
// ends look every 250 ms.
func pollingRoundTrips(b *testing.B, n int) []time.Duration {
	const poll = 250 * time.Millisecond
	dir := b.TempDir()
	request, response := filepath.Join(dir, "request.json"), filepath.Join(dir, "response.json")
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		tick := time.NewTicker(poll)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
			}
			if _, err := os.ReadFile(request); err == nil {
				os.WriteFile(response+".tmp", []byte(`{"approved":true,"state":"approved","responderSessionId":"x"}`), 0o600)
				os.Rename(response+".tmp", response)
				os.Remove(request)
			}
		}
	}()
	var out []time.Duration
	for range n {
		start := time.Now()
		os.WriteFile(request+".tmp", []byte(`{"id":"x"}`), 0o600)
		os.Rename(request+".tmp", request)
		for {
			if _, err := os.ReadFile(response); err == nil {
				break
			}
			time.Sleep(poll)
		}
		os.Remove(response)
		out = append(out, time.Since(start))
	}
	return out
}

func quantile(d []time.Duration, q float64) time.Duration {
	s := slices.Sorted(slices.Values(d))
	return s[min(len(s)-1, int(q*float64(len(s))))]
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
