// Command citool holds the steps of CI that are more than a command line.
//
//	citool fuzz                      lists the fuzz targets, one "./dir Name" a line
//	citool report JOB SKIPS <JSON    prints what `go test -json` tells as go test
//	                                 would, and compares what was skipped with the
//	                                 lines of the file SKIPS that begin with JOB
//
// It refuses to know how anything is tested.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/getpioneer/pioneer-super/integration/sources"
)

const usage = "usage: citool fuzz | citool report JOB SKIPS <JSON"

func main() {
	if err := run(os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "citool:", err)
		os.Exit(1)
	}
}

func run(args []string, in io.Reader, out io.Writer) error {
	switch {
	case len(args) == 1 && args[0] == "fuzz":
		root, err := sources.Root()
		if err != nil {
			return err
		}
		tree, err := sources.Load(root)
		if err != nil {
			return err
		}
		return listFuzz(tree, out)
	case len(args) == 3 && args[0] == "report":
		text, err := os.ReadFile(args[2])
		if err != nil {
			return err
		}
		want, err := expectedSkips(args[1], args[2], string(text))
		if err != nil {
			return err
		}
		return report(args[1], want, in, out)
	}
	return errors.New(usage)
}

func listFuzz(tree *sources.Tree, out io.Writer) error {
	targets := tree.FuzzTargets()
	if len(targets) == 0 {
		return errors.New("there is no fuzz target")
	}
	for _, t := range targets {
		if _, err := fmt.Fprintf(out, "./%s %s\n", t.Dir, t.Name); err != nil {
			return err
		}
	}
	return nil
}

// A skip is one test that needs what a job does not have.
type skip struct {
	// dir is the package directory, test the test's name, feature what it needs.
	dir, test, feature string
}

func (s skip) String() string { return s.dir + " " + s.test + " " + s.feature }

// expectedSkips reads the lines "JOB DIR TEST FEATURE" of a file for one job.
// Empty lines and what follows # are comments.
func expectedSkips(job, name, text string) (map[skip]bool, error) {
	want := map[skip]bool{}
	for i, line := range strings.Split(text, "\n") {
		line, _, _ = strings.Cut(line, "#")
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		if len(fields) != 4 {
			return nil, fmt.Errorf("%s:%d: expected JOB DIR TEST FEATURE", name, i+1)
		}
		s := skip{fields[1], fields[2], fields[3]}
		if fields[0] != job {
			continue
		}
		if want[s] {
			return nil, fmt.Errorf("%s:%d: %s is there twice", name, i+1, s)
		}
		want[s] = true
	}
	return want, nil
}

// An event is a line of `go test -json`.
type event struct {
	Action  string
	Package string
	Test    string
	Output  string
}

var needs = regexp.MustCompile(`testenv: needs ([a-z-]+):`)

// report prints the events as go test does without -v, but for skips, which it
// prints with their reasons, and counts. It is an error if a test failed, if none
// ran, or if other tests were skipped than wanted.
func report(job string, want map[skip]bool, in io.Reader, out io.Writer) error {
	w := bufio.NewWriter(out)
	defer w.Flush()
	type test struct{ pkg, name string }
	output := map[test]string{} // of tests that have not ended
	skipped := map[skip]bool{}
	passedN, failedN, skippedN := 0, 0, 0
	var packages []string

	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			// The go command's own messages are not JSON.
			fmt.Fprintf(w, "%s\n", lines.Bytes())
			continue
		}
		key := test{e.Package, e.Test}
		switch {
		case e.Action == "output" && e.Test != "":
			output[key] += e.Output
		case e.Action == "output" || e.Action == "build-output":
			if e.Output != "PASS\n" {
				fmt.Fprint(w, e.Output)
				w.Flush()
			}
		case e.Test == "" && (e.Action == "fail" || e.Action == "build-fail"):
			packages = append(packages, e.Package)
			// A test that has no end, since its process died or was stopped, is what failed.
			for _, k := range slices.SortedFunc(maps.Keys(output), func(a, b test) int { return strings.Compare(a.name, b.name) }) {
				if k.pkg == e.Package {
					fmt.Fprintf(w, "--- no end: %s %s\n%s", k.pkg, k.name, output[k])
					delete(output, k)
					failedN++
				}
			}
		case e.Test != "" && e.Action == "pass":
			passedN++
			delete(output, key)
		case e.Test != "" && e.Action == "fail":
			failedN++
			fmt.Fprint(w, output[key])
			delete(output, key)
		case e.Test != "" && e.Action == "skip":
			skippedN++
			feature := "unknown"
			if found := needs.FindStringSubmatch(output[key]); found != nil {
				feature = found[1]
			}
			s := skip{strings.TrimPrefix(strings.TrimPrefix(e.Package, sources.Module), "/"), e.Test, feature}
			skipped[s] = true
			fmt.Fprintf(w, "--- SKIP: %s\n", s)
			delete(output, key)
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}

	var wrong []string
	for s := range skipped {
		if !want[s] {
			wrong = append(wrong, "skipped, and no line allows it: "+job+" "+s.String())
		}
	}
	for s := range want {
		if !skipped[s] {
			wrong = append(wrong, "not skipped, so its line must go: "+job+" "+s.String())
		}
	}
	slices.Sort(wrong)
	for _, s := range wrong {
		fmt.Fprintln(w, s)
	}
	fmt.Fprintf(w, "%s: %d passed, %d failed, %d skipped\n", job, passedN, failedN, skippedN)
	switch {
	case failedN > 0 || len(packages) > 0:
		return fmt.Errorf("%s: %d tests failed, in %s", job, failedN, strings.Join(packages, " "))
	case passedN == 0:
		return fmt.Errorf("%s: no test ran", job)
	case len(wrong) > 0:
		return fmt.Errorf("%s: what was skipped is not what is expected", job)
	}
	return nil
}
