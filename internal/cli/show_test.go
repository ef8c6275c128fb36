package cli_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/cli"
	"github.com/mlbatch/mlbatch/internal/testkit"
	"github.com/mlbatch/mlbatch/internal/view"
	"github.com/mlbatch/mlbatch/internal/view/why"
)

// tail is a log of three lines, one of which would do something to a terminal.
func tail(_ context.Context, _, pod, _ string, lines int64) (string, error) {
	if lines != 3 {
		return "", errors.New("asked for other lines")
	}
	return "epoch 1 of " + pod + "\n\x1b[31mRuntimeError\nout of memory\n", nil
}

// fits fails if a line is wider than it may be.
func fits(t *testing.T, text string, width int) {
	t.Helper()
	for line := range strings.Lines(text) {
		if n := len([]rune(strings.TrimSuffix(line, "\n"))); width > 0 && n > width {
			t.Errorf("a line has %d characters: %s", n, line)
		}
	}
}

// TestShow: a job that failed and one that was evicted, in terminals of several widths.
func TestShow(t *testing.T) {
	for _, story := range []struct{ file, job string }{{"failed", "train"}, {"evicted", "normal"}} {
		for _, width := range []int{60, 80, 140} {
			name := story.file + "-" + strconv.Itoa(width)
			t.Run(name, func(t *testing.T) {
				c := cluster(t, filepath.Join("testdata", "show", story.file+".yaml")).Build()
				s, err := why.Show(t.Context(), c, tail, view.Ref{Namespace: "blue", Name: story.job}, 3, now())
				if err != nil {
					t.Fatal(err)
				}
				var out bytes.Buffer
				if err := cli.PrintDetails(&out, s, now(), time.UTC, cli.Layout{Width: width}); err != nil {
					t.Fatal(err)
				}
				fits(t, out.String(), width)
				testkit.Golden(t, filepath.Join("testdata", "show", name+".txt"), out.String())
			})
		}
	}
}

// TestClocksOfNodes: when pods started and failed is said by the clocks of their nodes, which may be
// an hour off. What is told stays in an order that can have been.
func TestClocksOfNodes(t *testing.T) {
	for _, off := range []time.Duration{-time.Hour, time.Hour} {
		// skew sets the clock of a pod's node wrong, and not that of the API server, which writes down
		// when the node told it.
		skew := func(p *corev1.Pod) {
			if s := p.Status.StartTime; s != nil {
				p.Status.StartTime = new(metav1.NewTime(s.Add(off)))
			}
			for i := range p.Status.ContainerStatuses {
				s := &p.Status.ContainerStatuses[i]
				for _, ended := range []*corev1.ContainerStateTerminated{s.State.Terminated, s.LastTerminationState.Terminated} {
					if ended != nil {
						p.ManagedFields = append(
							p.ManagedFields,
							metav1.ManagedFieldsEntry{Manager: "kubelet", Subresource: "status", Time: new(ended.FinishedAt)},
						)
						ended.FinishedAt = metav1.NewTime(ended.FinishedAt.Add(off))
					}
				}
			}
		}
		c := cluster(t, "testdata/show/failed.yaml").WithInterceptorFuncs(interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
				err := c.List(ctx, list, opts...)
				if pods, is := list.(*corev1.PodList); is {
					for i := range pods.Items {
						skew(&pods.Items[i])
					}
				}
				return err
			},
		}).Build()
		s, err := why.Show(t.Context(), c, tail, view.Ref{Namespace: "blue", Name: "train"}, 3, now())
		if err != nil {
			t.Fatal(err)
		}
		var steps []why.MomentKind
		for _, m := range s.Timeline {
			steps = append(steps, m.Step)
			if m.At.Before(now().Add(-10*time.Minute)) || m.At.After(now()) {
				t.Errorf("with clocks that are %s off, at %s: %s", off, m.At, m.Text)
			}
		}
		if first, last := steps[0], steps[len(steps)-1]; first != why.Submitted || last != why.Ends {
			t.Errorf("with clocks that are %s off: %v", off, steps)
		}
	}
}

// TestShowMany: of a thousand pods, those that failed and wait are listed first, and the others
// are counted.
func TestShowMany(t *testing.T) {
	b := cluster(t, "testdata/show/failed.yaml")
	for i := range 1000 {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "blue",
			Name:      fmt.Sprintf("many-%03d", i),
			Labels: map[string]string{
				kueue.PodSetLabel:   "worker",
				"mlbatch.dev/role":  "worker",
				"mlbatch.dev/index": strconv.Itoa(i + 3),
			},
			Annotations: map[string]string{kueue.WorkloadAnnotation: "pytorchjob-train"},
		}}
		p.Status.Phase = corev1.PodRunning
		if i == 777 {
			p.Status.Phase, p.Status.Reason = corev1.PodFailed, "Evicted"
		}
		b = b.WithObjects(p)
	}
	s, err := why.Show(t.Context(), b.Build(), tail, view.Ref{Namespace: "blue", Name: "train"}, 0, now())
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Pods) != 1004 || s.Pods[0].Name != "train-worker-2" || s.Pods[2].Name != "many-777" ||
		s.Pods[3].State != "Waiting" {
		t.Errorf("%d pods, the first %+v", len(s.Pods), s.Pods[:4])
	}
	var out bytes.Buffer
	if err := cli.PrintDetails(&out, s, now(), time.UTC, cli.Layout{Width: 80}); err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(
		out.String(),
		"\n",
	); lines > 60 ||
		!strings.Contains(out.String(), "984 more pods (-o wide lists all): 984 Running") {
		t.Errorf("%d lines:\n%s", lines, out.String())
	}
}

// TestShowUnreadable: what one may not read is left out and named, and a log that cannot be read
// hides nothing else.
func TestShowUnreadable(t *testing.T) {
	c := cluster(t, "testdata/show/failed.yaml").WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if _, is := list.(*corev1.EventList); is {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "events"}, "", nil)
			}
			return c.List(ctx, list, opts...)
		},
	}).Build()
	noLog := func(context.Context, string, string, string, int64) (string, error) {
		return "", errors.New("node-3 does not answer")
	}
	s, err := why.Show(t.Context(), c, noLog, view.Ref{Namespace: "blue", Name: "train"}, 3, now())
	if err != nil {
		t.Fatal(err)
	}
	if strings.Join(s.Unread, " ") != "events" || s.Failure == nil ||
		s.Failure.NoLog != "its log cannot be read: node-3 does not answer" {
		t.Errorf("unread %v, failure %+v", s.Unread, s.Failure)
	}
	if len(s.Timeline) < 4 || s.Timeline[0].Step != why.Submitted ||
		s.Timeline[len(s.Timeline)-1].Step != why.Ends {
		t.Errorf("timeline: %+v", s.Timeline)
	}
}

// TestEvents: those of a job and of all that it consists of, also of pods that are gone, and none
// of others.
func TestEvents(t *testing.T) {
	c := cluster(t, "testdata/show/evicted.yaml").Build()
	job, err := why.Find(t.Context(), c, view.Ref{Namespace: "blue", Name: "normal"})
	if err != nil {
		t.Fatal(err)
	}
	list, err := why.ReadEvents(t.Context(), c, "", &job)
	if err != nil {
		t.Fatal(err)
	}
	rows, _, err := list.List(t.Context(), time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	for _, width := range []int{60, 80, 140} {
		var out bytes.Buffer
		if err := cli.PrintTable(
			&out,
			cli.EventColumns(time.UTC, false),
			rows,
			cli.Layout{Width: width},
		); err != nil {
			t.Fatal(err)
		}
		fits(t, out.String(), width)
		testkit.Golden(t, filepath.Join("testdata", "show", "events-"+strconv.Itoa(width)+".txt"), out.String())
	}
	event := func(kind, name, message string) *corev1.Event {
		return &corev1.Event{
			InvolvedObject: corev1.ObjectReference{Kind: kind, Name: name},
			Message:        message,
			LastTimestamp:  metav1.NewTime(now()),
		}
	}
	for _, tc := range []struct {
		why   string
		event *corev1.Event
		ours  bool
	}{
		{"a pod of another job", event("Pod", "work-1", "x"), false},
		{"a pod that one of its objects tells that it made", event("Job", "work", "Created pod: work-1"), true},
		{"whose events are the job's from then on", event("Pod", "work-1", "x"), true},
	} {
		if _, ours, err := list.Next(t.Context(), tc.event, now()); err != nil || ours != tc.ours {
			t.Errorf("%s: %v, %v", tc.why, ours, err)
		}
	}
	if rows, _, err = list.List(
		t.Context(),
		time.Date(2026, 1, 1, 0, 4, 59, 0, time.UTC),
	); err != nil || len(rows) != 1 ||
		rows[0].Reason != "Preempted" {
		t.Errorf("since a moment: %+v, %v", rows, err)
	}
}

// TestTimelineTellsTheFirstStartAndTheRestart: what was made anew within its quota began when its
// first pods did, and what made it begin anew is told, also of pods that are gone.
func TestTimelineTellsTheFirstStartAndTheRestart(t *testing.T) {
	c := cluster(t, filepath.Join("testdata", "show", "restarted.yaml")).Build()
	for job, want := range map[string][]string{
		"train": {
			"00:02:01 Started started", "00:06:00 Restarted pods of it failed 2 times and were made anew, all of them once", "00:06:11 Started all run again: 1 pod runs on node-0 (1)",
		},
		"once": {"00:02:02 Started started", "00:04:00 PodFailed", "00:04:11 Started all run again: 1 pod runs on node-0 (1)"},
	} {
		s, err := why.Show(t.Context(), c, nil, view.Ref{Namespace: "blue", Name: job}, 0, now())
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, m := range s.Timeline {
			if m.Step != why.Submitted && m.Step != why.Admits {
				got = append(got, fmt.Sprintf("%s %s %s", m.At.Format(time.TimeOnly), m.Step, m.Text))
			}
		}
		for i := range want {
			if len(got) != len(want) || !strings.HasPrefix(got[i], want[i]) {
				t.Fatalf("%s:\n%s\nwant\n%s", job, strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		}
	}
}
