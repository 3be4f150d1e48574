package sandbox

import (
	"os"
	"os/exec"
	"testing"
)

// BenchmarkPlan is the cost of working a plan out, the look at /etc included.
func BenchmarkPlan(b *testing.B) {
	w := newWorld(b, os.Getuid())
	r := w.request(ModeWorkspaceWrite)
	for b.Loop() {
		mustPlan(b, r)
	}
}

// BenchmarkPlanAgain is the same with a memory, as a supervisor plans.
func BenchmarkPlanAgain(b *testing.B) {
	w := newWorld(b, os.Getuid())
	r := w.request(ModeWorkspaceWrite)
	var planner Planner
	for b.Loop() {
		if _, _, err := planner.Plan(r); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkProbe is asked once in the life of a supervisor.
func BenchmarkProbe(b *testing.B) {
	for b.Loop() {
		Probe()
	}
}

func benchmarkStage(b *testing.B, p *Profile) {
	w := newWorld(b, os.Getuid())
	if p == nil {
		strict, _ := mustPlan(b, w.request(ModeWorkspaceWrite))
		p = &strict
	}
	s := script{Part: "stage", Dir: w.Workspace, Argv: []string{"/bin/true"}, Profile: *p, Confine: p.Backend != ""}
	env := []string{scriptVariable + "=" + toJSON(b, s)}
	b.ResetTimer()
	for b.Loop() {
		cmd := exec.Command(binary)
		cmd.Env, cmd.Stderr = env, os.Stderr
		if err := cmd.Run(); err != nil {
			b.Fatal(err)
		}
	}
}

// The three stages differ only in what they put on before they execute /bin/true; the
// difference is the cost of Confine. The plain start is what there is without a stage.
func BenchmarkStagePlain(b *testing.B) { benchmarkStage(b, &Profile{}) }

func BenchmarkStageEnvelope(b *testing.B) {
	p, _ := EnvelopeOnly(Probe())
	benchmarkStage(b, &p)
}

func BenchmarkStageStrict(b *testing.B) { benchmarkStage(b, nil) }

func BenchmarkPlainStart(b *testing.B) {
	for b.Loop() {
		if err := exec.Command("/bin/true").Run(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkConfine is Confine alone, each time on a thread of its own that ends with it.
func BenchmarkConfine(b *testing.B) {
	strict, _ := mustPlan(b, newWorld(b, os.Getuid()).request(ModeWorkspaceWrite))
	envelope, _ := EnvelopeOnly(Probe())
	for name, p := range map[string]Profile{"envelope": envelope, "strict": strict} {
		b.Run(name, func(b *testing.B) {
			rules := 0
			for _, list := range p.lists() {
				rules += len(list.paths)
			}
			for b.Loop() {
				done := make(chan error)
				go func() { done <- p.Confine() }()
				if err := <-done; err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(rules), "rules")
		})
	}
}
