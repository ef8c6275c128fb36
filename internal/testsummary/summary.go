package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// slow is how long a test may take before it gets a line of its own.
const slow = 5 * time.Second

// event is one line of `go test -json`, see `go doc test2json`.
type event struct {
	Action      string
	Package     string
	ImportPath  string // of build output
	Test        string
	Elapsed     float64
	Output      string
	FailedBuild string
}

// counts are tests, subtests among them, by how they ended. A package that
// failed without a failing test (it did not build, or it crashed) counts as one.
type counts struct{ passed, failed, skipped int }

// String is the closing line.
func (c counts) String() string {
	return fmt.Sprintf("%d passed, %d failed, %d skipped", c.passed, c.failed, c.skipped)
}

func (c counts) good() bool { return c.failed == 0 && c.passed > 0 }

// report gathers what the tests say until it is known whether it matters.
type report struct {
	out   io.Writer
	sum   counts
	byPkg map[string]counts
	said  map[string][]string // package, or package and test, to its output
}

// summarize prints a report on the events in r and returns the sum.
func summarize(r io.Reader, out io.Writer) (counts, error) {
	t := report{out: out, byPkg: map[string]counts{}, said: map[string][]string{}}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			// The go command writes some complaints as plain text.
			t.print(lines.Text() + "\n")
			continue
		}
		t.add(e)
	}
	if err := lines.Err(); err != nil {
		return t.sum, fmt.Errorf("read test events: %w", err)
	}
	return t.sum, nil
}

func (t *report) add(e event) {
	key := e.Package + " " + e.Test
	switch e.Action {
	case "build-output":
		t.print(e.Output)
	case "output":
		t.said[key] = append(t.said[key], e.Output)
	case "pass", "fail", "skip":
		if e.Test == "" {
			t.endPackage(e, t.said[key])
		} else {
			t.endTest(e, t.said[key])
		}
		delete(t.said, key)
	}
}

func (t *report) endTest(e event, said []string) {
	c := t.byPkg[e.Package]
	switch e.Action {
	case "pass":
		c.passed++
	case "skip":
		c.skipped++
	case "fail":
		c.failed++
		t.print(said...)
	}
	t.byPkg[e.Package] = c
	took := time.Duration(e.Elapsed * float64(time.Second))
	if took >= slow && e.Action == "pass" && !strings.Contains(e.Test, "/") {
		t.print(fmt.Sprintf("     %s %s\n", e.Test, took.Round(100*time.Millisecond)))
	}
}

func (t *report) endPackage(e event, said []string) {
	c := t.byPkg[e.Package]
	switch {
	case e.Action == "fail":
		if c.failed == 0 {
			c.failed = 1
		}
		t.unfinished(e.Package)
		t.print(said...)
		t.print(fmt.Sprintf("FAIL %s: %s\n", e.Package, c))
	case c == counts{}:
		// Nothing to test here, nothing to tell.
	default:
		t.print(fmt.Sprintf("ok   %s %.1fs: %s\n", e.Package, e.Elapsed, c))
	}
	t.sum.passed += c.passed
	t.sum.failed += c.failed
	t.sum.skipped += c.skipped
	delete(t.byPkg, e.Package)
}

// tail is how many lines of a test that never ended are shown: with a crash come the
// stacks of all goroutines.
const tail = 60

// unfinished tells which tests of a package that failed never ended, and what they said
// last: one of them is why, when the package ran out of time.
func (t *report) unfinished(pkg string) {
	for _, key := range slices.Sorted(maps.Keys(t.said)) {
		test, of := strings.CutPrefix(key, pkg+" ")
		if !of || test == "" {
			continue
		}
		said := t.said[key]
		t.print(fmt.Sprintf("     %s did not end\n", test))
		if rest := len(said) - tail; rest > 0 {
			// The panic comes first, then the stacks.
			at := max(0, slices.IndexFunc(said, func(l string) bool { return strings.HasPrefix(l, "panic:") }))
			said = said[min(at, rest):]
		}
		t.print(said[:min(len(said), tail)]...)
		delete(t.said, key)
	}
}

func (t *report) print(texts ...string) {
	for _, s := range texts {
		fmt.Fprint(t.out, s)
	}
}
