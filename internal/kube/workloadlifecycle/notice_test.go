package workloadlifecycle

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
)

// stopping is a workload that wants to be told some time before it is stopped, and was evicted for a reason some
// time ago.
func stopping(asks, reason string, ago time.Duration) *kueue.Workload {
	w := onNodes(core.Place{Node: "n1", Count: 2})
	w.Annotations = map[string]string{kueue.StopNoticeAnnotation: asks}
	next := w.Status.DeepCopy()
	Evict(w, next, now.Add(-ago), Eviction{Reason: reason, Message: "for another"})
	w.Status = *next
	return w
}

// TestAskedNotice: nobody gets more than the installation allows, and what makes no sense asks for nothing.
func TestAskedNotice(t *testing.T) {
	for _, tc := range []struct {
		said string
		most time.Duration
		want string
	}{
		{"60s", time.Hour, "1m0s"},
		{"8h", time.Minute, "1m0s"},
		{"60s", 0, ""},
		{"-5s", time.Minute, ""},
		{"300ms", time.Minute, ""},
		{"soon", time.Minute, ""},
		{"", time.Minute, ""},
	} {
		if got := AskedNotice(tc.said, tc.most); got != tc.want {
			t.Errorf("%q of at most %s: got %q, want %q", tc.said, tc.most, got, tc.want)
		}
	}
}

// TestWhoRunsOn: who asked for it runs on after an eviction for as long as was asked, and no longer than the
// installation allows now.
func TestWhoRunsOn(t *testing.T) {
	const most = time.Minute
	for _, tc := range []struct {
		why  string
		w    *kueue.Workload
		want time.Duration
	}{
		{"it asked", stopping("40s", kueue.ReasonPreempted, 0), 40 * time.Second},
		{"some of it is over", stopping("40s", kueue.ReasonPreempted, 10*time.Second), 30 * time.Second},
		{"all of it is over", stopping("40s", kueue.ReasonPreempted, 40*time.Second), 0},
		{"nodes failed: those on others can save", stopping("40s", kueue.ReasonNodeFailures, 0), 40 * time.Second},
		{"its queue was stopped", stopping("40s", kueue.ReasonClusterQueueStopped, 0), 40 * time.Second},
		{"what hangs saves nothing", stopping("40s", kueue.ReasonHang, 0), 0},
		{"it did not ask", stopping("", kueue.ReasonPreempted, 0), 0},
		{"somebody wrote more into its Workload than is allowed", stopping("8h", kueue.ReasonPreempted, 0), most},
		{"a clock that went back gives no more", stopping("8h", kueue.ReasonPreempted, -time.Hour), 0},
		{"one that was a little ahead takes none away", stopping("40s", kueue.ReasonPreempted, -2*time.Second), 42 * time.Second},
	} {
		var want time.Time
		if tc.want > 0 {
			want = now.Add(tc.want)
		}
		if got := RunsOnUntil(tc.w, most, now); !got.Equal(want) {
			t.Errorf("%s: runs on until %s, want %s", tc.why, got, want)
		}
	}
	w := stopping("40s", kueue.ReasonPreempted, 0)
	w.DeletionTimestamp = &metav1.Time{Time: now}
	if got := RunsOnUntil(w, most, now); !got.IsZero() {
		t.Errorf("its Workload is deleted, and it runs on until %s", got)
	}
}

// TestWhatIsToldOfTheNotice: the condition tells people the time that the installation allows, nothing once that is past, and
// its time does not begin anew with what it says.
func TestWhatIsToldOfTheNotice(t *testing.T) {
	f := facts()
	f.Workload, f.Config.MaxStopNotice = stopping("8h", kueue.ReasonPreempted, 0), time.Minute
	f.Owned, f.LivePods, f.Running, f.Now = true, 2, 2, now.Add(10*time.Second)
	f.Workload.Status = *Next(f).Status
	end := now.Add(time.Minute)
	if got := RunsOnUntil(f.Workload, time.Minute, f.Now); !got.Equal(end) {
		t.Errorf("it runs on until %s, want %s", got, end)
	}
	if got := convert.ToldUntil(f.Workload, f.Now); !got.Equal(end) {
		t.Errorf("it tells people %s, want %s", got, end)
	}
	if got := convert.ToldUntil(f.Workload, end); !got.IsZero() {
		t.Errorf("it is over, and people are told %s", got)
	}
	if step := Next(f); step.Status != nil {
		t.Error("it is written again and again")
	}
}

// TestNoticeIsGivenOnce: another eviction within the time adds nothing to it, so that no job keeps its nodes by being
// evicted again and again.
func TestNoticeIsGivenOnce(t *testing.T) {
	w := stopping("40s", kueue.ReasonPreempted, 0)
	for i := range 5 {
		at := now.Add(time.Duration(i*10) * time.Second)
		next := w.Status.DeepCopy()
		Evict(w, next, at, Eviction{Reason: kueue.ReasonClusterQueueStopped, Message: "its queue was stopped"})
		w.Status = *next
		if got, want := RunsOnUntil(w, time.Minute, now), now.Add(40*time.Second); !got.Equal(want) {
			t.Fatalf("eviction %d: it runs on until %s, want %s", i+2, got, want)
		}
	}
}

// TestNotice: pods are told once, and the time ends early when a pod agrees, or none runs; those of a workload that is
// taken out of its queue are told alike.
func TestNotice(t *testing.T) {
	t.Run("preempted", func(t *testing.T) { testNotice(t, kueue.ReasonPreempted, nil) })
	t.Run("deactivated", func(t *testing.T) { testNotice(t, kueue.ReasonDeactivated, new(false)) })
}

func testNotice(t *testing.T, reason string, active *bool) {
	t.Helper()
	end := now.Add(40 * time.Second)
	for _, tc := range []struct {
		why    string
		f      Facts
		tells  bool
		over   string
		again  time.Time
		passed time.Duration
	}{
		{why: "pods were not told", f: Facts{Running: 2, Untold: 1, Owned: true}, tells: true, again: end},
		{why: "all were told", f: Facts{Running: 2, Owned: true}, again: end},
		{why: "one agreed", f: Facts{Running: 2, Acknowledged: true, Owned: true}, over: kueue.ReasonAcknowledged},
		{why: "none runs", f: Facts{Untold: 2, Owned: true}, over: kueue.ReasonNothingRuns},
		{why: "the time is over", f: Facts{Running: 2, Owned: true}, passed: 41 * time.Second, over: kueue.ReasonNoticeOver},
		{why: "its job is gone", f: Facts{Running: 2}, over: kueue.ReasonNoticeOver},
	} {
		f := facts()
		f.Workload, f.Config.MaxStopNotice = stopping("40s", reason, 0), time.Minute
		f.Workload.Spec.Active = active
		f.Running, f.Untold, f.Acknowledged, f.Owned = tc.f.Running, tc.f.Untold, tc.f.Acknowledged, tc.f.Owned
		f.Now = now.Add(tc.passed)
		f.LivePods = 2
		step := Next(f)
		if told := step.Tell != nil; told != tc.tells ||
			told && (!step.Tell.At.Equal(end) || step.Tell.Reason != "for another") {
			t.Errorf("%s: it tells %+v", tc.why, step.Tell)
		}
		if tc.over == "" {
			if step.Status != nil || !step.Again.Equal(tc.again) {
				t.Errorf("%s: the next step is %+v", tc.why, step)
			}
			continue
		}
		if step.Status == nil {
			t.Errorf("%s: the time goes on", tc.why)
			continue
		}
		f.Workload.Status = *step.Status
		if c := condition(
			f.Workload,
			kueue.WorkloadStopNotice,
		); c.Status != metav1.ConditionFalse ||
			c.Reason != tc.over {
			t.Errorf("%s: it says %s because of %s", tc.why, c.Status, c.Reason)
		}
		if got := RunsOnUntil(f.Workload, time.Minute, now); !got.IsZero() {
			t.Errorf("%s: it runs on until %s", tc.why, got)
		}
	}
}
