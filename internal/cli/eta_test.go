package cli_test

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	visibility "github.com/mlbatch/mlbatch/api/visibility/v1beta2"
	"github.com/mlbatch/mlbatch/internal/cli"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
	"github.com/mlbatch/mlbatch/internal/testkit"
	"github.com/mlbatch/mlbatch/internal/view/why"
)

// start is one that is expected in so many minutes; negative ones are not foreseen.
func start(p50, p90, known int32) *visibility.Start {
	at := func(minutes int32) *metav1.Time {
		if minutes < 0 {
			return nil
		}
		return new(metav1.NewTime(now().Add(time.Duration(minutes) * time.Minute)))
	}
	return &visibility.Start{P50: at(p50), P90: at(p90), At: metav1.NewTime(now()), Known: known}
}

// passed is one that later ones pass for as long as they come.
func passed() *visibility.Start {
	s := start(-1, -1, 3)
	s.Passed = true
	return s
}

func TestStartText(t *testing.T) {
	for name, tc := range map[string]struct {
		why  string
		s    *visibility.Start
		want string
	}{
		"unknown":  {"nothing is said", nil, ""},
		"both":     {"the middle and the end", start(25, 120, 7), "25m..120m"},
		"guess":    {"it says so", start(25, 120, 0), "25m..120m?"},
		"now":      {"both times are over", start(0, 0, 3), "now"},
		"late":     {"the end is not foreseen", start(600, -1, 3), "10h..>30d"},
		"never":    {"neither is", start(-1, -1, 3), ">30d"},
		"passed":   {"not for want of a future", passed(), "when fewer come"},
		"same":     {"said once", start(25, 25, 3), "25m"},
		"soon now": {"it may start now", start(0, 10, 3), "now..10m"},
	} {
		if got := why.StartText(tc.s, now()); got != tc.want {
			t.Errorf("%s: %q, want %q: %s", name, got, tc.want, tc.why)
		}
	}
}

// pendingOf are answers by NAMESPACE/QUEUE.
type pendingOf map[string][]visibility.PendingWorkload

func (p pendingOf) Pending(_ context.Context, namespace, queue string) ([]visibility.PendingWorkload, error) {
	list, is := p[namespace+"/"+queue]
	if !is {
		return nil, errors.New("you may not ask")
	}
	return list, nil
}

func TestStarts(t *testing.T) {
	pending := func(name string, s *visibility.Start) visibility.PendingWorkload {
		return visibility.PendingWorkload{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "blue", Name: "job-" + name, CreationTimestamp: metav1.NewTime(now().Add(-time.Hour)),
				OwnerReferences: []metav1.OwnerReference{{Kind: "Job", Name: name, Controller: new(true)}},
			}, LocalQueueName: "q", Start: s,
		}
	}
	ask := pendingOf{
		"blue/q": {
			pending("later", start(90, 600, 12)),
			pending("never", start(-1, -1, 12)),
			pending("unknown", nil),
		},
		"blue/fast": {pending("sooner", start(5, 30, 0))},
	}
	b := fake.NewClientBuilder().WithScheme(scheme.New())
	for _, name := range []string{"q", "fast", "secret"} {
		b = b.WithObjects(&kueue.LocalQueue{ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: name}})
	}
	c := b.Build()
	rows, err := cli.TakeStarts(t.Context(), c, ask, "blue")
	if err != nil {
		t.Fatalf("a queue that one may not ask about hides the others: %v", err)
	}
	for name, width := range map[string]int{"60": 60, "80": 80, "140": 140} {
		var out bytes.Buffer
		if err := cli.PrintTable(&out, cli.StartColumns(now()), rows, cli.Layout{Width: width}); err != nil {
			t.Fatal(err)
		}
		testkit.Golden(t, filepath.Join("testdata", "eta", name+".txt"), out.String())
	}
	if _, err := cli.TakeStarts(
		t.Context(),
		c,
		pendingOf{},
		"blue",
	); err == nil ||
		!strings.Contains(err.Error(), "may not ask") {
		t.Errorf("nothing may be asked, and the error is %v", err)
	}
}

// TestWhatNamesAQueueThatIsNotThereIsListed: no line has it, and still it waits.
func TestWhatNamesAQueueThatIsNotThereIsListed(t *testing.T) {
	workload := func(name string, change func(*kueue.Workload)) *kueue.Workload {
		w := &kueue.Workload{ObjectMeta: metav1.ObjectMeta{
			Namespace: "blue", Name: "job-" + name, CreationTimestamp: metav1.NewTime(now().Add(-time.Hour)),
			OwnerReferences: []metav1.OwnerReference{{Kind: "Job", Name: name, Controller: new(true)}},
		}, Spec: kueue.WorkloadSpec{QueueName: "gone"}}
		change(w)
		return w
	}
	c := fake.NewClientBuilder().WithScheme(scheme.New()).WithObjects(
		&kueue.LocalQueue{ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "q"}},
		workload("moved", func(*kueue.Workload) {}),
		workload("here", func(w *kueue.Workload) { w.Spec.QueueName = "q" }),
		workload("held", func(w *kueue.Workload) { w.Spec.Active = new(false) }),
		workload("runs", func(w *kueue.Workload) { w.Status.Admission = &kueue.Admission{ClusterQueue: "c"} }),
	).Build()
	rows, err := cli.TakeStarts(t.Context(), c, pendingOf{"blue/q": nil}, "blue")
	if err != nil || len(rows) != 1 || rows[0].Name != "moved" || rows[0].Queue != "gone" ||
		!rows[0].QueueMissing {
		t.Fatalf("%v, %+v", err, rows)
	}
	var out bytes.Buffer
	if err := cli.PrintTable(
		&out,
		cli.StartColumns(now()),
		rows,
		cli.Layout{Width: 100},
	); err != nil ||
		!strings.Contains(out.String(), "no such queue") {
		t.Errorf("%v\n%s", err, out.String())
	}
}

// TestWhyTellsTheStart: the words of why, by how much is known.
func TestWhyTellsTheStart(t *testing.T) {
	for name, tc := range map[string]struct {
		why  string
		s    *visibility.Start
		want string
	}{
		"known":  {"both times, and why one may believe them", start(25, 120, 7), "Judged by 7 jobs like those before it, it is as likely as not to start within 25m ("},
		"late":   {"no end is invented", start(25, -1, 7), "and may well take longer than 30d"},
		"guess":  {"no time of day: nobody is to plan by it", start(25, 120, 0), "one can only guess when it starts: in 25m..120m"},
		"never":  {"that is what is foreseen", start(-1, -1, 7), "It does not start within 30d, as far as can be foreseen"},
		"passed": {"the cause, and no date", passed(), "it does not start before fewer of them come"},
		"moment": {"that time is over", start(0, 10, 7), "start any moment, and in 9 of 10 such cases starts within 10m ("},
	} {
		e := explainStart(tc.s)
		if !strings.Contains(e, tc.want) {
			t.Errorf("%s: %q lacks %q: %s", name, e, tc.want, tc.why)
		}
	}
	if e := explainStart(nil); e != "" {
		t.Errorf("nothing is known, and %q is said", e)
	}
}

// explainStart is what is said of a start.
func explainStart(s *visibility.Start) string {
	e := why.Planned(
		"blue/job",
		&visibility.WorkloadPlanStatus{Outcome: visibility.PlanWaits, Start: s, At: metav1.NewTime(now())},
	)
	return strings.Join(e.Sentences[1:], " ")
}
