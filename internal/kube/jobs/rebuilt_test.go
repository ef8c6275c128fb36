package jobs_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	recovery "github.com/mlbatch/mlbatch/api/recovery/v1alpha1"
	"github.com/mlbatch/mlbatch/internal/engine/podplan"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// TestRebuilt: what can be told of a job whose memory is lost.
func TestRebuilt(t *testing.T) {
	at := func(s int64) time.Time { return time.Unix(s, 0) }
	type member struct {
		made              int64
		attempt, failures int
		theirs            bool
		seen              podplan.Seen
	}
	for name, tc := range map[string]struct {
		why     string
		told    podplan.RetryState
		members []member
		want    podplan.RetryState
	}{
		"new":       {"it has not begun", podplan.RetryState{}, nil, podplan.RetryState{}},
		"begun":     {"its status says when", podplan.RetryState{Started: at(5)}, []member{{made: 6}}, podplan.RetryState{Started: at(5)}},
		"unsaid":    {"its status says no time, and its first pod was made then", podplan.RetryState{Started: at(1)}, []member{{made: 8}, {made: 6}}, podplan.RetryState{Started: at(6)}},
		"silent":    {"its status says nothing, and a pod runs", podplan.RetryState{}, []member{{made: 6}}, podplan.RetryState{Started: at(6)}},
		"left":      {"none that is there can run", podplan.RetryState{}, []member{{made: 6, seen: podplan.Seen{Over: true}}}, podplan.RetryState{}},
		"anew":      {"pods say which attempt they are of", podplan.RetryState{Started: at(5)}, []member{{made: 6}, {made: 9, attempt: 2}}, podplan.RetryState{Started: at(5), Attempt: 2, LastFailure: at(9)}},
		"told":      {"or the status does", podplan.RetryState{Started: at(5), Attempt: 3, Failures: 3}, nil, podplan.RetryState{Started: at(5), Attempt: 3, Failures: 3, LastFailure: at(5)}},
		"failures":  {"pods say how many failures they follow", podplan.RetryState{Started: at(5)}, []member{{made: 6, failures: 1}, {made: 7, failures: 2}}, podplan.RetryState{Started: at(5), Failures: 2}},
		"ended":     {"nothing of it goes on", podplan.RetryState{Outcome: podplan.JobFailed, Ended: at(7)}, []member{{made: 6, attempt: 2}}, podplan.RetryState{Outcome: podplan.JobFailed, Ended: at(7)}},
		"of others": {"what another controller made goes on", podplan.RetryState{Started: at(5), Attempt: 2, Failures: 2}, []member{{made: 6, theirs: true}}, podplan.RetryState{Started: at(5), Failures: 2}},
	} {
		o := jobs.Operator{StateOfStatus: func(jobs.Object) podplan.RetryState { return tc.told }}
		job := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.Time{Time: at(1)}}}
		var members []metav1.Object
		var seen []podplan.Seen
		for _, m := range tc.members {
			x := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.Time{Time: at(m.made)}}}
			if !m.theirs {
				x.Labels = map[string]string{recovery.JobLabel: "u"}
				x.Annotations = map[string]string{recovery.FailuresAnnotation: strconv.Itoa(m.failures)}
			}
			m.seen.Role, m.seen.Attempt = "worker", int32(m.attempt)
			members, seen = append(members, x), append(seen, m.seen)
		}
		if diff := cmp.Diff(tc.want, o.Rebuilt(job, members, seen)); diff != "" {
			t.Errorf("%s: %s (-want +got):\n%s", name, tc.why, diff)
		}
	}
}

// TestCaughtUp: what was stored by whoever had not seen the last.
func TestCaughtUp(t *testing.T) {
	at := func(s int64) time.Time { return time.Unix(s, 0) }
	done := map[string]podplan.Indexes{"w": {{First: 0, Last: 1}}}
	for name, tc := range map[string]struct {
		why                string
		stored, told, want podplan.RetryState
	}{
		"same":     {"nothing happened", podplan.RetryState{Started: at(1), Attempt: 1, Failures: 2, Done: done}, podplan.RetryState{Started: at(1), Attempt: 1, Failures: 1}, podplan.RetryState{Started: at(1), Attempt: 1, Failures: 2, Done: done}},
		"anew":     {"what was done before is done no more", podplan.RetryState{Started: at(1), Done: done, Counted: []string{"a"}}, podplan.RetryState{Started: at(1), Attempt: 1, Failures: 1, LastFailure: at(4)}, podplan.RetryState{Started: at(1), Attempt: 1, Failures: 1, LastFailure: at(4)}},
		"rounds":   {"what counted is in no status", podplan.RetryState{Rounds: podplan.Rounds{Begun: true, Failures: 2}}, podplan.RetryState{Rounds: podplan.Rounds{Begun: true, Current: 1, Next: 1}}, podplan.RetryState{Rounds: podplan.Rounds{Begun: true, Current: 1, Next: 1, Failures: 2}}},
		"began":    {"it has pods by now", podplan.RetryState{}, podplan.RetryState{Started: at(3)}, podplan.RetryState{Started: at(3)}},
		"ended":    {"it ended meanwhile", podplan.RetryState{Started: at(1)}, podplan.RetryState{Outcome: podplan.JobSucceeded, Ended: at(9)}, podplan.RetryState{Started: at(1), Outcome: podplan.JobSucceeded, Ended: at(9)}},
		"knows it": {"the reason is in what was stored", podplan.RetryState{Outcome: podplan.JobFailed, Reason: podplan.DeadlineExceeded, Ended: at(9)}, podplan.RetryState{Outcome: podplan.JobFailed, Ended: at(9)}, podplan.RetryState{Outcome: podplan.JobFailed, Reason: podplan.DeadlineExceeded, Ended: at(9)}},
	} {
		if diff := cmp.Diff(tc.want, jobs.CaughtUp(tc.stored, tc.told)); diff != "" {
			t.Errorf("%s: %s (-want +got):\n%s", name, tc.why, diff)
		}
	}
}
