package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// slow is how long a test may take before it gets a line of its own.
	slow = 5 * time.Second
	// listed is how many tests and packages are listed as the slowest.
	listed = 10
)

// What becomes of a test.
const (
	passed  = "pass"
	failed  = "fail"
	skipped = "skip"
)

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
type counts struct {
	passed, failed, skipped int
	flaky                   []string // failed, and passed when they were run again
}

// String is the closing line.
func (c counts) String() string {
	s := fmt.Sprintf("%d passed, %d failed, %d skipped", c.passed, c.failed, c.skipped)
	if len(c.flaky) > 0 {
		s += ", flaky: " + strings.Join(c.flaky, ", ")
	}
	return s
}

func (c counts) good() bool { return c.failed == 0 && c.passed > 0 }

// plus is the sum of both.
func (c counts) plus(d counts) counts {
	return counts{
		c.passed + d.passed,
		c.failed + d.failed,
		c.skipped + d.skipped,
		slices.Concat(c.flaky, d.flaky),
	}
}

// with is the sum with one test more.
func (c counts) with(outcome string) counts {
	switch outcome {
	case passed:
		c.passed++
	case failed:
		c.failed++
	case skipped:
		c.skipped++
	}
	return c
}

// printer is written to by jobs that run at the same time, a text at a time.
type printer struct {
	mu sync.Mutex
	to io.Writer
}

func (p *printer) print(texts ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range texts {
		fmt.Fprint(p.to, s)
	}
}

// test is one test of a package.
type test struct{ pkg, name string }

// top is the test that it is a part of, or itself.
func (t test) top() test {
	t.name, _, _ = strings.Cut(t.name, "/")
	return t
}

// report gathers what the tests of one command say until it is known whether it matters.
type report struct {
	out  *printer
	job  string              // its name, if there are several
	said map[test][]string   // what packages (without a name) and tests said
	came map[test]string     // what became of tests
	bad  map[string]struct{} // packages that failed for another reason than a test
	took map[test]time.Duration
	// flaky are tests that failed in an earlier report and passed in this one.
	flaky []string
}

func newReport(out *printer, job string) *report {
	return &report{
		out:  out,
		job:  job,
		said: map[test][]string{},
		came: map[test]string{},
		bad:  map[string]struct{}{},
		took: map[test]time.Duration{},
	}
}

// read prints a report on the events in r.
func (t *report) read(r io.Reader) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			// The go command writes some complaints as plain text.
			t.out.print(lines.Text() + "\n")
			continue
		}
		t.add(e)
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read test events: %w", err)
	}
	return nil
}

// counts is the sum of all tests so far.
func (t *report) counts() counts {
	c := counts{failed: len(t.bad), flaky: t.flaky}
	for _, outcome := range t.came {
		c = c.with(outcome)
	}
	return c
}

func (t *report) add(e event) {
	key := test{e.Package, e.Test}
	switch e.Action {
	case "build-output":
		t.out.print(e.Output)
	case "output":
		t.said[key] = append(t.said[key], e.Output)
	case passed, failed, skipped:
		took := time.Duration(e.Elapsed * float64(time.Second))
		if !strings.Contains(e.Test, "/") {
			t.took[key] = took
		}
		if e.Test == "" {
			t.endPackage(e)
		} else {
			t.endTest(key, e.Action, took)
		}
		delete(t.said, key)
	}
}

func (t *report) endTest(key test, outcome string, took time.Duration) {
	t.came[key] = outcome
	switch {
	case outcome == failed:
		t.out.print(t.said[key]...)
	case took >= slow && outcome == passed && key == key.top():
		t.out.print(fmt.Sprintf("     %s %s\n", key.name, took.Round(100*time.Millisecond)))
	}
}

// ofPackage is the sum of a package's tests.
func (t *report) ofPackage(pkg string) counts {
	var c counts
	for k, outcome := range t.came {
		if k.pkg == pkg {
			c = c.with(outcome)
		}
	}
	return c
}

func (t *report) endPackage(e event) {
	c := t.ofPackage(e.Package)
	name := e.Package
	if t.job != "" {
		name += " (" + t.job + ")"
	}
	switch {
	case e.Action == failed:
		if unended := t.unfinished(e.Package); unended || c.failed == 0 {
			t.bad[e.Package] = struct{}{}
			c.failed++
		}
		t.out.print(t.said[test{pkg: e.Package}]...)
		t.out.print(fmt.Sprintf("FAIL %s: %s\n", name, c))
	case c.passed+c.skipped == 0:
		// Nothing to test here, nothing to tell.
	default:
		t.out.print(fmt.Sprintf("ok   %s %.1fs: %s\n", name, e.Elapsed, c))
	}
}

// tail is how many lines of a test that never ended are shown: with a crash come the
// stacks of all goroutines.
const tail = 60

// unfinished tells which tests of a package that failed never ended, and what they said
// last: one of them is why, when the package ran out of time. It reports whether there are any.
func (t *report) unfinished(pkg string) bool {
	var tests []test
	for key := range t.said {
		if _, ended := t.came[key]; key.pkg == pkg && key.name != "" && !ended {
			tests = append(tests, key)
		}
	}
	slices.SortFunc(tests, func(a, b test) int { return strings.Compare(a.name, b.name) })
	for _, key := range tests {
		said := t.said[key]
		t.out.print(fmt.Sprintf("     %s did not end\n", key.name))
		if rest := len(said) - tail; rest > 0 {
			// The panic comes first, then the stacks.
			at := max(0, slices.IndexFunc(said, func(l string) bool { return strings.HasPrefix(l, "panic:") }))
			said = said[min(at, rest):]
		}
		t.out.print(said[:min(len(said), tail)]...)
		delete(t.said, key)
	}
	return len(tests) > 0
}

// crashed tells which tests of a command that failed never ended: of a program that crashes where its
// output alone is read, nobody says that its package failed. It reports whether there are any.
func (t *report) crashed() bool {
	packages := map[string]struct{}{}
	for key := range t.said {
		packages[key.pkg] = struct{}{}
	}
	found := false
	for _, pkg := range slices.Sorted(maps.Keys(packages)) {
		found = t.unfinished(pkg) || found
	}
	return found
}

// broken are the tests that failed, without parts of other tests, in order.
func (t *report) broken() []test {
	found := map[test]struct{}{}
	for k, outcome := range t.came {
		if outcome == failed {
			found[k.top()] = struct{}{}
		}
	}
	return slices.SortedFunc(maps.Keys(found), compare)
}

// again replaces what became of tests that failed by that of a second run, if they passed in it.
func (t *report) again(second *report) {
	for _, k := range t.broken() {
		if second.came[k] != passed {
			continue
		}
		t.flaky = append(t.flaky, k.name)
		part := func(of test, _ string) bool { return of.top() == k }
		maps.DeleteFunc(t.came, part)
		for of, outcome := range second.came {
			if part(of, outcome) {
				t.came[of] = outcome
			}
		}
	}
	maps.Copy(t.bad, second.bad)
}

// slowest lists the tests and packages that took longest.
func (t *report) slowest(out *printer) {
	var tests, packages []timed
	for k, took := range t.took {
		if k.name == "" {
			packages = append(packages, timed{k.pkg, took})
		} else {
			tests = append(tests, timed{k.name, took})
		}
	}
	out.print(longest("slowest tests", tests, listed), longest("slowest packages", packages, listed))
}

// timed is how long something took.
type timed struct {
	name string
	took time.Duration
}

// longest lists the ones that took longest, at most so many.
func longest(title string, all []timed, most int) string {
	slices.SortFunc(all, func(a, b timed) int {
		return cmp.Or(cmp.Compare(b.took, a.took), strings.Compare(a.name, b.name))
	})
	var b strings.Builder
	for _, one := range all[:min(most, len(all))] {
		if one.took > 0 {
			fmt.Fprintf(&b, "%8.1fs %s\n", one.took.Seconds(), one.name)
		}
	}
	if b.Len() == 0 {
		return ""
	}
	return title + ":\n" + b.String()
}

func compare(a, b test) int {
	return cmp.Or(strings.Compare(a.pkg, b.pkg), strings.Compare(a.name, b.name))
}
