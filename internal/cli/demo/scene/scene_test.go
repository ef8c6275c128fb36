package scene

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/clock"

	health "github.com/mlbatch/mlbatch/api/health/v1alpha1"
	"github.com/mlbatch/mlbatch/internal/sim/calibration"
)

// TestScenes: each scene has a name of its own, and a beginning that a newcomer can read.
func TestScenes(t *testing.T) {
	names := map[string]bool{}
	for _, s := range All() {
		found, is := Find(s.Name)
		if !is || found.Title != s.Title || names[s.Name] {
			t.Errorf("%s is found as %+v", s.Name, found)
		}
		names[s.Name] = true
		if strings.Count(s.Opening, ".") < 1 || strings.Contains(strings.ToLower(s.Opening), "kueue") ||
			len(s.Opening) > 450 {
			t.Errorf("%s opens with %q", s.Name, s.Opening)
		}
	}
	if _, is := Find("nothing"); is {
		t.Error("a scene that there is not is found")
	}
}

// TestVirtualScenes: the scenes that need no cluster and little time are played, and each
// statement holds. The others are played by .ci/run.
func TestVirtualScenes(t *testing.T) {
	for _, name := range []string{"big-job", "famous"} {
		t.Run(name, func(t *testing.T) {
			s, _ := Find(name)
			var out bytes.Buffer
			s.Open(&out)
			if err := s.Play(context.Background(), Stage{Out: &out, Clock: clock.RealClock{}}); err != nil {
				t.Error(err)
			}
			if n := strings.Count(out.String(), "\nPASS"); n < 5 || strings.Contains(out.String(), "FAIL") {
				t.Errorf("%d statements hold:\n%s", n, out.String())
			}
		})
	}
}

// script is a Shell that answers from a list.
type script struct {
	answers map[string]string // by command line; "!" in front is a failure
	typed   []string
}

func (s *script) Write(string, string) error { return nil }

func (s *script) Run(_ context.Context, line Line, out, _ io.Writer) (int, error) {
	typed := strings.TrimSpace(line.User + " " + strings.Join(line.Argv, " "))
	s.typed = append(s.typed, typed)
	answer, known := s.answers[typed]
	if !known {
		return 0, fmt.Errorf("nobody foresaw %q", typed)
	}
	if rest, failed := strings.CutPrefix(answer, "!"); failed {
		_, err := io.WriteString(out, rest)
		return 1, err
	}
	_, err := io.WriteString(out, answer)
	return 0, err
}

// TestPlay: a scene fails with a statement that does not hold, with a command that fails, and
// with nothing said at all; and says so.
func TestPlay(t *testing.T) {
	cases := map[string]struct {
		why  string
		play func(context.Context, *show) error
		ok   bool
		says []string
	}{
		"holds": {"", func(ctx context.Context, s *show) error {
			_, err := s.run(ctx, "alice", "mlbatch", "ps")
			s.claim("it is so", nil)
			return err
		}, true, []string{"alice$ mlbatch ps\nNAME\n", "1 of 1 statements hold", "PASS  it is so"}},
		"does not hold": {"the exit code is 1", func(_ context.Context, s *show) error {
			s.claim("it is so", errors.New("it is otherwise"))
			return nil
		}, false, []string{"FAIL  it is so: it is otherwise"}},
		"breaks off": {"what was not looked at is not true", func(ctx context.Context, s *show) error {
			s.claim("it is so", nil)
			_, err := s.run(ctx, "", "mlbatch", "down")
			return err
		}, false, []string{"1 of 2", "FAIL  the scene is played to its end: $ mlbatch down: exit code 1"}},
		"says nothing": {
			"a scene that checks nothing shows nothing",
			func(context.Context, *show) error { return nil },
			false,
			[]string{"nothing was stated"},
		},
		"first lines": {"as head would", func(ctx context.Context, s *show) error {
			said, err := s.head(ctx, 1, "alice", "mlbatch", "nodes")
			s.claim("all is known", has(said, "one", "two"))
			return err
		}, true, []string{"$ mlbatch nodes | head -n 1\none\n\n1 of 1"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			shell := &script{
				answers: map[string]string{
					"alice mlbatch ps":    "NAME\n",
					"mlbatch down":        "!no",
					"alice mlbatch nodes": "one\ntwo\n",
				},
			}
			s := Scene{Name: name, play: c.play}
			err := s.Play(context.Background(), Stage{Out: &out, Clock: clock.RealClock{}, Shell: shell})
			if c.ok != (err == nil) || !c.ok && !errors.Is(err, ErrFailed) {
				t.Errorf("%s: %v", c.why, err)
			}
			for _, says := range c.says {
				if !strings.Contains(out.String(), says) {
					t.Errorf("%s: there is no %q in\n%s", c.why, says, out.String())
				}
			}
		})
	}
}

// TestStatementsNotice: what scenes state fails where it is not so.
func TestStatementsNotice(t *testing.T) {
	job := func(state string, made int) job { return job{State: state, Created: time.Unix(int64(made), 0)} }
	row := func(gpus, free int64) string { return fmt.Sprintf(`{"name":"n","gpus":%d,"free":%d}`, gpus, free) }
	nodes := func(rows ...string) *show {
		return &show{
			Stage: Stage{
				Clock: clock.RealClock{},
				Shell: &script{
					answers: map[string]string{"mlbatch nodes -o json": `{"items":[` + strings.Join(rows, ",") + `]}`},
				},
			},
		}
	}
	said := func(free, largest string) (a answer) {
		a.Explanation.Nodes.Free, a.Explanation.Nodes.Largest = free, largest
		return a
	}
	ctx := context.Background()
	small := &stays{
		all: []*span{
			{job: "sand/a", from: bigComes + 1, to: 3 * time.Hour, gpus: owned + 1},
			{job: "sand/b", from: 0, to: 2 * time.Hour, gpus: 1, cut: true},
		},
	}
	cases := map[string]struct {
		good, bad error
	}{
		"asked first": {
			askedFirst(job("Waiting", 1), job("Running", 2)),
			askedFirst(job("Waiting", 3), job("Running", 2)),
		},
		"started": {
			askedFirst(job("Waiting", 1), job("Running", 2)),
			askedFirst(job("Running", 1), job("Waiting", 2)),
		},
		"equal parts": {
			equalParts(map[string]string{"blue-cluster-queue": "4", "red-cluster-queue": "4"}),
			equalParts(map[string]string{"blue-cluster-queue": "8"}),
		},
		"free": {
			nodes(row(8, 3), row(8, 3), row(8, 3)).freeAs(ctx, said("9", "3")),
			nodes(row(8, 3), row(8, 3), row(8, 3)).freeAs(ctx, said("9", "4")),
		},
		"in pieces": {
			nodes(row(8, 4), row(8, 4)).freeAs(ctx, said("8", "4")),
			nodes(row(8, 8)).freeAs(ctx, said("8", "8")),
		},
		"in use": {
			nodes(row(8, 4), row(8, 8)).nodesHave(ctx, 2, 16, 4),
			nodes(row(8, 4), row(8, 4)).nodesHave(ctx, 2, 16, 4),
		},
		"runs":          {runs(job("Running", 1)), runs(job("Waiting", 1))},
		"waits":         {waits(job("Waiting", 1)), waits(job("Running", 1))},
		"near":          {near(0.52, 0.5, aimP50), near(0.56, 0.5, aimP50)},
		"closer":        {closer(time.Hour, 2*time.Hour), closer(time.Hour, time.Hour)},
		"on the line":   {onLine(time.Hour, time.Hour), onLine(2*time.Hour, time.Hour)},
		"nobody passes": {small.nobodyPasses(bigComes), small.nobodyPasses(2 * time.Hour)},
		"only spare":    {(&stays{all: small.all[:1]}).onlySpareCut(), small.onlySpareCut()},
		"in the gap":    {atLeastOne(1), atLeastOne(0)},
		"longer":        {longer(2, 1), longer(1, 1)},
		"same":          {same(3, 3), same(4, 3)},
		"has":           {has("a b", "a"), has("a b", "c")},
		"moved": {
			moved(podsOn("a", "b"), podsOn("c", "b"), "a"),
			moved(podsOn("a", "b"), podsOn("c", "d"), "a"),
		},
		"left":   {moved(podsOn("a", "b"), podsOn("c", "b"), "a"), moved(podsOn("b"), podsOn("b"), "a")},
		"within": {within(time.Second, time.Minute), within(time.Hour, time.Minute)},
		"is":     {is("Draining", "Draining"), is("Healthy", "Draining")},
		"kept its quota": {
			keptQuota(jobStarted("Running", 1), time.Unix(2, 0)),
			keptQuota(jobStarted("Running", 3), time.Unix(2, 0)),
		},
		"runs on": {
			keptQuota(jobStarted("Running", 1), time.Unix(2, 0)),
			keptQuota(jobStarted("Waiting", 1), time.Unix(2, 0)),
		},
	}
	for name, c := range cases {
		if c.good != nil || c.bad == nil {
			t.Errorf("%s: what is so: %v; what is not: %v", name, c.good, c.bad)
		}
	}
	var out bytes.Buffer
	s := &show{Stage: Stage{Out: &out}}
	told := make([]calibration.Told, etaShown)
	for i := range told {
		told[i].At, told[i].Started = time.Unix(0, 0).Add(showAfter), true
	}
	if err := s.listTold(told, time.Unix(0, 0)); err != nil {
		t.Error(err)
	}
	told[3].Started = false
	if s.listTold(told, time.Unix(0, 0)) == nil || s.listTold(told[:3], time.Unix(0, 0)) == nil {
		t.Error("a job that never started, and a line that is too short, must be noticed")
	}
}

// podsOn are pods on nodes, each with a UID of its own.
func podsOn(nodes ...string) (out []pod) {
	for _, n := range nodes {
		var p pod
		p.Metadata.UID, p.Spec.NodeName = "pod on "+n, n
		out = append(out, p)
	}
	return out
}

func jobStarted(state string, at int64) job { return job{State: state, Started: time.Unix(at, 0)} }

// TestChecks: what is typed in the agent's place can be read, and the deep test is later than what was found.
func TestChecks(t *testing.T) {
	found := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, passed := range []time.Time{{}, found.Add(time.Minute)} {
		key, text, _ := strings.Cut(checks(found, passed), "=")
		r, err := health.Read(map[string]string{key: text})
		if err != nil || len(r.Checks) == 0 || r.Checks[len(r.Checks)-1].Result != health.Fatal {
			t.Errorf("%s: %+v, %v", text, r, err)
		}
		if deep := len(r.Checks) == 2 && r.Checks[0].Deep; deep == passed.IsZero() {
			t.Errorf("%s: a deep test passed: %t", text, deep)
		}
	}
}

// TestGantt: each GPU is a row, with who has it when, and the marks stand where they belong.
func TestGantt(t *testing.T) {
	got := gantt([]*span{
		{
			job:  "sand/a",
			to:   2 * column,
			gpus: 1,
		},
		{job: "rock/b", from: column, to: 4 * column, gpus: 1},
		{job: "spare/c", from: 2 * column, to: 3 * column, gpus: 1},
	}, 2, map[time.Duration]rune{column: '|'})
	want := "         |\nGPU  0  ss-.\nGPU  1  .BBB\n        0:00\n"
	if got != want {
		t.Errorf("it is\n%s\nwant\n%s", got, want)
	}
}

// TestQuoted: a command line can be pasted into a shell.
func TestQuoted(t *testing.T) {
	if got := quoted(
		[]string{"mlbatch", "run", "--", "sh", "-c", "echo 'a b'", ""},
	); got != `mlbatch run -- sh -c 'echo '\''a b'\''' ''` {
		t.Errorf("it is %s", got)
	}
}
