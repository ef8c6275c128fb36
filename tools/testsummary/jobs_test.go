package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestJobsAreLines(t *testing.T) {
	got, err := parseJobs("# a remark\n\nbeside unit  go test ./a  ./b\ncluster e2e cd x && go test\n")
	if err != nil {
		t.Fatal(err)
	}
	want := []job{{beside, "unit", " go test ./a  ./b"}, {cluster, "e2e", "cd x && go test"}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(job{})); diff != "" {
		t.Error(diff)
	}
	for _, wrong := range []string{"besides unit go test", "cluster e2e"} {
		if _, err := parseJobs(wrong); err == nil {
			t.Errorf("%q is no job, and nothing is said", wrong)
		}
	}
}

// script is a runner whose jobs say what their commands are, and take a minute each.
type script struct {
	mu    sync.Mutex
	again map[string]string // what a job says when it runs again
	log   []string
	runs  map[string]int // of jobs with a cluster, at the moment
	most  int
}

func (s *script) run(_ context.Context, j job, only []test, read func(io.Reader) error) (cost, error) {
	again := ""
	if len(only) > 0 {
		again, _ = pattern(only)
	}
	s.mu.Lock()
	s.log = append(s.log, strings.TrimSpace(j.name+" "+again))
	if j.when == cluster {
		s.runs[j.name]++
		s.most = max(s.most, len(s.runs))
	}
	s.mu.Unlock()
	time.Sleep(time.Minute)
	text := j.command
	if again != "" {
		text = s.again[j.name]
	}
	if text == "crash" {
		return cost{}, failure{"it does not compile"}
	}
	err := read(strings.NewReader(events(text)))
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.runs, j.name)
	if err == nil && strings.Contains(text, "fail:") {
		err = failure{}
	}
	return cost{took: time.Minute}, err
}

// events are those of tests: pass:A fail:B skip:C.
func events(tests string) string {
	var b strings.Builder
	action := passed
	for f := range strings.FieldsSeq(tests) {
		came, name, _ := strings.Cut(f, ":")
		if came == failed {
			action = failed
		}
		fmt.Fprintf(&b, `{"Action":%q,"Package":"p","Test":%q,"Elapsed":0.5}`+"\n", came, name)
	}
	fmt.Fprintf(&b, `{"Action":%q,"Package":"p"}`+"\n", action)
	return b.String()
}

func TestWhatFailsRunsOnceMore(t *testing.T) {
	cases := map[string]struct {
		why   string
		jobs  string
		again map[string]string
		want  string // the closing line
		log   []string
	}{
		"passes then": {
			"it is green, and named", "cluster a ${AGAIN} pass:TestA fail:TestB fail:TestB/x pass:TestB/y",
			map[string]string{"a": "pass:TestB pass:TestB/x"},
			"3 passed, 0 failed, 0 skipped, flaky: TestB",
			[]string{"a", "a ^(TestB)$"},
		},
		"fails again": {
			"it is broken", "cluster a ${AGAIN} pass:TestA fail:TestB",
			map[string]string{"a": "fail:TestB"},
			"1 passed, 1 failed, 0 skipped",
			[]string{"a", "a ^(TestB)$"},
		},
		"one of two": {
			"one flaky test does not hide a broken one", "cluster a ${AGAIN} fail:TestA fail:TestB",
			map[string]string{"a": "pass:TestA fail:TestB"},
			"1 passed, 1 failed, 0 skipped, flaky: TestA",
			[]string{"a", "a ^(TestA|TestB)$"},
		},
		"skipped then": {
			"nothing was shown", "cluster a ${AGAIN} pass:TestB fail:TestA",
			map[string]string{"a": "skip:TestA"},
			"1 passed, 1 failed, 0 skipped",
			[]string{"a", "a ^(TestA)$"},
		},
		"not there": {
			"what is looked at after all tests is looked at for all tests",
			"cluster a ${AGAIN} pass:TestB fail:TestAfterAll",
			map[string]string{"a": ""},
			"1 passed, 1 failed, 0 skipped",
			[]string{"a", "a ^(TestAfterAll)$"},
		},
		"all or nothing": {
			"it is told of at once where the command cannot choose tests", "beside a pass:TestB fail:TestA", nil,
			"1 passed, 1 failed, 0 skipped",
			[]string{"a"},
		},
		"in two jobs": {
			"the same test of two variants is two tests",
			"cluster a ${AGAIN} pass:TestA\ncluster b ${AGAIN} fail:TestA",
			map[string]string{"b": "pass:TestA"},
			"2 passed, 0 failed, 0 skipped, flaky: TestA",
			[]string{"a", "b", "b ^(TestA)$"},
		},
		"crash": {
			"no test says what is wrong", "cluster a ${AGAIN} pass:TestA\ncluster b crash", nil,
			"1 passed, 1 failed, 0 skipped",
			[]string{"a", "b"},
		},
		"last": {
			"it sees what ran again, and runs once though it could choose tests",
			"last z ${AGAIN} fail:TestZ pass:TestY\ncluster a ${AGAIN} fail:TestA",
			map[string]string{"a": "pass:TestA"},
			"2 passed, 1 failed, 0 skipped, flaky: TestA",
			[]string{"a", "a ^(TestA)$", "z"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				jobs, err := parseJobs(c.jobs)
				if err != nil {
					t.Fatal(err)
				}
				var out strings.Builder
				s := &script{again: c.again, runs: map[string]int{}}
				all := suite{out: &printer{to: &out}, runner: s, reports: map[job]*report{}}
				sum, err := all.runAll(t.Context(), jobs, 1)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(c.want, sum.String()); diff != "" {
					t.Errorf("%s\n%s\n%s", c.why, diff, out.String())
				}
				if diff := cmp.Diff(c.log, s.log); diff != "" {
					t.Errorf("%s: what ran:\n%s", c.why, diff)
				}
				if good := !strings.Contains(c.want, " 1 failed"); sum.good() != good {
					t.Errorf("%s: good is %t", c.want, sum.good())
				}
			})
		})
	}
}

func TestSoManyClustersRunAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		jobs, err := parseJobs(
			"cluster a ${AGAIN} pass:A\ncluster b pass:B\ncluster c pass:C\nbeside u pass:U\ncluster d pass:D",
		)
		if err != nil {
			t.Fatal(err)
		}
		s := &script{runs: map[string]int{}}
		begin := time.Now()
		all := suite{out: &printer{to: io.Discard}, runner: s, reports: map[job]*report{}}
		sum, err := all.runAll(t.Context(), jobs, 2)
		if err != nil || sum.passed != 5 {
			t.Fatalf("%v, %v; want all five", sum, err)
		}
		if took := time.Since(begin); s.most != 2 || took != 2*time.Minute {
			t.Errorf("%d clusters at a time, %s; want 2 and 2 minutes", s.most, took)
		}
		if diff := cmp.Diff("0.5 A\n0.5 B\n0.5 C\n0.5 D\n", all.durations()); diff != "" {
			t.Errorf("how long tests with a cluster ran:\n%s", diff)
		}
		if !slices.Contains(s.log[:3], "u") {
			t.Errorf("%v: what needs no cluster waits for one", s.log)
		}
	})
}

// The shell hands over which tests run again, and tells what a command complained of.
func TestShellRunsJobs(t *testing.T) {
	var got string
	read := func(r io.Reader) error {
		all, err := io.ReadAll(r)
		got = string(all)
		return err
	}
	sh := shell{clock: time.Now}
	if _, err := sh.run(
		t.Context(),
		job{name: "a", command: `echo "${AGAIN-all} ${AGAIN_PACKAGES-}"`},
		[]test{{"p", "TestA"}, {"q", "TestB"}, {"p", "TestC"}},
		read,
	); err != nil ||
		got != "^(TestA|TestB|TestC)$ p q\n" {
		t.Errorf("%v, %q: want what runs again", err, got)
	}
	if _, err := sh.run(
		t.Context(),
		job{name: "a", command: `echo "${AGAIN-all}"; echo so >&2; exit 2`},
		nil,
		read,
	); err == nil || !strings.Contains(err.Error(), "so\n") ||
		got != "all\n" {
		t.Errorf("%v, %q: want all, and what was complained of", err, got)
	}
}

// Who ends a run ends what its jobs began.
func TestEndedJobsLeaveNoProcess(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var child string
	read := func(r io.Reader) error {
		lines := bufio.NewScanner(r)
		if lines.Scan() {
			child = lines.Text()
			cancel()
		}
		return lines.Err()
	}
	if _, err := (shell{clock: time.Now}).run(
		ctx,
		job{name: "a", command: `sleep 1000 & echo "$!"; wait`},
		nil,
		read,
	); err == nil {
		t.Error("it was cut off, and nothing is said")
	}
	pid, err := strconv.Atoi(child)
	if err != nil {
		t.Fatal(err)
	}
	for syscall.Kill(pid, 0) == nil {
		if stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid)); strings.HasPrefix(string(stat), "0 ") {
			break // dead, and nobody has looked yet
		}
		if t.Context().Err() != nil {
			t.Fatal("the child goes on")
		}
		runtime.Gosched()
	}
}

// crash is a runner whose program dies in a test, where nobody says more of its package.
type crash struct{}

func (crash) run(_ context.Context, _ job, _ []test, read func(io.Reader) error) (cost, error) {
	const said = `{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"fail","Package":"p","Test":"TestB"}
{"Action":"output","Package":"p","Test":"TestC","Output":"panic: nil\n"}
`
	if err := read(strings.NewReader(said)); err != nil {
		return cost{}, err
	}
	return cost{}, failure{}
}

func TestWhatCrashesIsToldAndFails(t *testing.T) {
	var out strings.Builder
	s := suite{out: &printer{to: &out}, runner: crash{}, reports: map[job]*report{}}
	got, err := s.runAll(t.Context(), []job{{cluster, "e2e", "go test"}}, 1)
	if err != nil {
		t.Fatal(err)
	}
	if want := "1 passed, 2 failed, 0 skipped"; got.String() != want {
		t.Errorf("%s, want %s", got, want)
	}
	for _, want := range []string{"TestC did not end", "panic: nil", "FAIL e2e"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it does not say %q:\n%s", want, out.String())
		}
	}
}
