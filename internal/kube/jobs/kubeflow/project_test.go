package kubeflow_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/equality"

	api "github.com/mlbatch/mlbatch/api/kubeflow/v1"
	"github.com/mlbatch/mlbatch/internal/engine/podplan"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// at is a time of a story.
func at(seconds int64) time.Time { return time.Unix(1_000_000+seconds, 0).UTC() }

// shown are conditions as people read them.
func shown(j api.Job) string {
	var out []string
	for _, c := range j.State().Conditions {
		s := fmt.Sprintf(
			"%s=%s:%s",
			c.Type,
			c.Status,
			strings.TrimPrefix(c.Reason, j.GetObjectKind().GroupVersionKind().Kind),
		)
		out = append(out, s)
	}
	return strings.Join(out, " ")
}

// tally is a count of workers.
func tally(ready, succeeded, failed int32) map[string]podplan.Tally {
	return map[string]podplan.Tally{
		"worker": {Active: ready, Ready: ready, Succeeded: succeeded, Failed: failed},
		"master": {Active: min(ready, 1), Ready: min(ready, 1)},
	}
}

// TestStory tells conditions, counters and times of a job from its creation to its end,
// in the words that scripts wait for.
func TestStory(t *testing.T) {
	type chapter struct {
		name    string
		suspend bool
		s       jobs.Progress
		want    string // conditions
		check   func(*api.JobStatus) string
	}
	begun := podplan.RetryState{Started: at(20)}
	again := podplan.RetryState{Started: at(60)}
	chapters := []chapter{
		{
			"held by its queue",
			true,
			jobs.Progress{Suspended: true, Now: at(0)},
			"Created=True:Created Suspended=True:Suspended",
			func(s *api.JobStatus) string {
				if s.StartTime != nil {
					return "it has not started"
				}
				return ""
			},
		},
		{
			"admitted",
			false,
			jobs.Progress{RetryState: begun, Now: at(20)},
			"Created=True:Created Suspended=False:Resumed",
			func(s *api.JobStatus) string {
				if s.StartTime == nil || !s.StartTime.Time.Equal(at(20)) || !s.LastReconcileTime.Time.Equal(at(20)) {
					return fmt.Sprintf("start %v", s.StartTime)
				}
				return ""
			},
		},
		{
			"runs",
			false,
			jobs.Progress{RetryState: begun, Counts: tally(2, 0, 0), Now: at(30)},
			"Created=True:Created Suspended=False:Resumed Running=True:Running",
			func(s *api.JobStatus) string {
				if s.ReplicaStatuses["Worker"].Active != 2 {
					return "two are active"
				}
				return ""
			},
		},
		{
			"restarts",
			false,
			jobs.Progress{RetryState: begun, Restarting: true, Counts: tally(2, 0, 1), Now: at(40)},
			"Created=True:Created Suspended=False:Resumed Restarting=True:Restarting",
			func(s *api.JobStatus) string {
				if s.ReplicaStatuses["Worker"].Failed != 1 {
					return "one failed"
				}
				return ""
			},
		},
		{
			"runs again",
			false,
			jobs.Progress{RetryState: begun, Counts: tally(3, 0, 0), Ready: true, Now: at(50)},
			"Created=True:Created Suspended=False:Resumed Running=True:Running",
			func(s *api.JobStatus) string {
				if s.ReplicaStatuses["Worker"].Active != 3 {
					return "all are ready"
				}
				return ""
			},
		},
		{
			"is being evicted",
			true,
			jobs.Progress{RetryState: begun, Counts: tally(3, 0, 0), Now: at(52)},
			"Created=True:Created Suspended=False:Resumed Running=True:Running",
			nil,
		},
		{
			"evicted",
			true,
			jobs.Progress{Suspended: true, Now: at(55)},
			"Created=True:Created Running=False:Suspended Suspended=True:Suspended",
			func(s *api.JobStatus) string {
				if s.StartTime == nil || !s.StartTime.Time.Equal(at(20)) {
					return "when it started last is still of interest"
				}
				return ""
			},
		},
		{
			"comes back",
			false,
			jobs.Progress{RetryState: again, Counts: tally(3, 0, 0), Now: at(60)},
			"Created=True:Created Suspended=False:Resumed Running=True:Running",
			func(s *api.JobStatus) string {
				if !s.StartTime.Time.Equal(at(60)) {
					return "it started anew"
				}
				return ""
			},
		},
		{
			"succeeds",
			false,
			jobs.Progress{
				RetryState: podplan.RetryState{Started: at(60), Ended: at(70), Outcome: podplan.JobSucceeded},
				Counts:     tally(0, 3, 0),
				Now:        at(70),
			},
			"Created=True:Created Suspended=False:Resumed Running=False:Running Succeeded=True:Succeeded",
			func(s *api.JobStatus) string {
				if s.CompletionTime == nil || !s.CompletionTime.Time.Equal(at(70)) ||
					s.ReplicaStatuses["Worker"].Succeeded != 3 {
					return "it ended"
				}
				return ""
			},
		},
		{
			"stays as it is",
			false,
			jobs.Progress{
				RetryState: podplan.RetryState{Started: at(60), Ended: at(70), Outcome: podplan.JobSucceeded},
				Restarting: true,
				Counts:     tally(1, 2, 0),
				Now:        at(80),
			},
			"Created=True:Created Suspended=False:Resumed Running=False:Running Succeeded=True:Succeeded",
			nil,
		},
	}
	for name, v := range variants() {
		t.Run(name, func(t *testing.T) {
			j := v.decode(t, v.roles())
			j.GetObjectKind().SetGroupVersionKind(v.kind.GVK())
			for _, c := range chapters {
				j.Policy().Suspend = &c.suspend
				p := v.compile(t, j)
				before := j.DeepCopyObject()
				next, ok := v.kind.Running.Operator.Project(j, p, &c.s).(api.Job)
				if !ok {
					t.Fatal("another kind")
				}
				if diff := cmp.Diff(before, j); diff != "" {
					t.Fatalf("%s: the object was changed:\n%s", c.name, diff)
				}
				if got := shown(next); got != c.want {
					t.Errorf("%s: got\n%s, want\n%s", c.name, got, c.want)
				}
				if c.check != nil {
					if wrong := c.check(next.State()); wrong != "" {
						t.Errorf("%s: %s: %+v", c.name, wrong, next.State())
					}
				}
				later := c.s
				later.Now = at(1000)
				if again := v.kind.Running.Operator.Project(next, p, &later); !equality.Semantic.DeepEqual(next, again) {
					t.Errorf("%s: the same is written twice:\n%s", c.name, cmp.Diff(next, again))
				}
				j = next
			}
			selector := j.State().ReplicaStatuses["Worker"].Selector
			if want := "training.kubeflow.org/job-name=a,training.kubeflow.org/operator-name=" + strings.ToLower(
				v.kind.GVK().Kind,
			) + "-controller,training.kubeflow.org/replica-type=worker"; selector != want {
				t.Errorf("autoscalers find pods by %s, want %s", selector, want)
			}
		})
	}
}

// TestFailure: the reason is the kind's word, the message says what happened.
func TestFailure(t *testing.T) {
	for name, v := range variants() {
		t.Run(name, func(t *testing.T) {
			j := v.decode(t, v.roles())
			j.GetObjectKind().SetGroupVersionKind(v.kind.GVK())
			p := v.compile(t, j)
			running, _ := v.kind.Running.Operator.Project(j, p, &jobs.Progress{RetryState: podplan.RetryState{Started: at(1)}, Counts: tally(3, 0, 0), Now: at(2)}).(api.Job)
			s := &jobs.Progress{
				RetryState: podplan.RetryState{
					Started: at(1),
					Ended:   at(3),
					Outcome: podplan.JobFailed,
					Reason:  podplan.DeadlineExceeded,
					Message: "it ran longer than 2s",
				},
				Now: at(3),
			}
			failed, _ := v.kind.Running.Operator.Project(running, p, s).(api.Job)
			if got, want := shown(
				failed,
			), "Created=True:Created Running=False:Running Failed=True:Failed"; got != want {
				t.Errorf("got %s, want %s", got, want)
			}
			last := failed.State().Conditions[2]
			if last.Reason != v.kind.GVK().Kind+"Failed" || !strings.Contains(last.Message, "it ran longer than 2s") {
				t.Errorf("%+v", last)
			}
			if unplanned := v.kind.Running.Operator.Project(j, nil, s); unplanned == nil {
				t.Error("a job that cannot be planned has a status, too")
			}
		})
	}
}

func BenchmarkCompile(b *testing.B) {
	for name, v := range variants() {
		b.Run(name, func(b *testing.B) {
			j := v.decode(b, strings.Replace(v.roles(), "replicas: 3", "replicas: 1000", 1))
			b.ReportAllocs()
			for b.Loop() {
				v.compile(b, j)
			}
		})
	}
}

func BenchmarkProject(b *testing.B) {
	for name, v := range variants() {
		b.Run(name, func(b *testing.B) {
			j := v.decode(b, strings.Replace(v.roles(), "replicas: 3", "replicas: 1000", 1))
			p := v.compile(b, j)
			s := &jobs.Progress{
				RetryState: podplan.RetryState{
					Started: at(1),
					Done:    map[string]podplan.Indexes{"worker": podplan.ParseIndexes("1,3,5-9")},
				},
				Counts: tally(900, 100, 0),
				Now:    at(2),
			}
			b.ReportAllocs()
			for b.Loop() {
				v.kind.Running.Operator.Project(j, p, s)
			}
		})
	}
}
