package view

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	history "github.com/mlbatch/mlbatch/api/history/v1alpha1"
	"github.com/mlbatch/mlbatch/internal/core"
)

// TestAttemptsAsARetryPolicySeesThem: what is told of attempts survives being written and read, and says how long each
// of them ran, counted from the end of the one before where that is later than what is told.
func TestAttemptsAsARetryPolicySeesThem(t *testing.T) {
	at := func(minutes int) metav1.Time {
		return metav1.NewTime(time.Unix(1_000_000, 0).UTC().Add(time.Duration(minutes) * time.Minute))
	}
	attempt := func(from, to int, c core.Category, change ...func(*history.Attempt)) history.Attempt {
		a := history.Attempt{Start: at(from), Ready: new(at(from))}
		EndAttempt(&a, at(to).Time, c, "", "")
		for _, f := range change {
			f(&a)
		}
		return a
	}
	replaced := func(a *history.Attempt) { a.ReplacedPods = 1 }
	all := history.Attempts{
		Earlier: &history.AttemptSum{Attempts: 2, Categories: map[string]int32{"Crash": 2}},
		Attempts: []history.Attempt{
			attempt(
				0,
				20,
				core.CategoryUserError,
				func(a *history.Attempt) { a.ExitCode, a.Pod = new(int32(1)), "j-0" },
			),
			attempt(
				0,
				25,
				core.CategoryUserError,
			), // of one job without an admission in between: it ran for 5 minutes
			attempt(0, 25, core.CategoryNodeFailure, replaced), // while the others ran on
			attempt(26, 27, core.CategoryCrash, replaced),
			attempt(25, 30, core.CategoryStorageFailure, func(a *history.Attempt) { a.Reason = nodePressure }),
			attempt(
				30,
				31,
				core.CategoryCrash,
				func(a *history.Attempt) { c := at(30).Rfc3339Copy(); c.Time = c.Add(time.Second); a.Checkpoint = &c },
			),
		},
	}
	want := core.RetryHistory{
		Retries: 3,
		Last: []core.Failure{
			{Category: core.CategoryUserError, ExitCode: 1, Pod: "j-0", Progress: true},
			{Category: core.CategoryUserError},
			{Category: core.CategoryNodeFailure, Progress: true},
			{Category: core.CategoryCrash},
			{Category: core.CategoryStorageFailure, Pressure: true},
			{Category: core.CategoryCrash, Progress: true},
		},
		Earlier: map[core.Category]int32{core.CategoryCrash: 2},
	}
	if diff := cmp.Diff(want, RetryHistory(ReadAttempts(AttemptsText(all)), 3)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestReplacedPodsCountAlike: what a rule allows does not depend on how many attempts there were since: pods that were
// replaced one by one count while they are listed, and count no more and no less once they are summed up.
func TestReplacedPodsCountAlike(t *testing.T) {
	at := func(minute int) metav1.Time { return metav1.NewTime(time.Unix(int64(minute)*60, 0).UTC()) }
	rule := core.RetryRule{
		Categories: []core.Category{core.CategoryCrash},
		Action:     core.RetryOnFailure,
		Limit:      new(int32(2)),
	}
	policy := core.RetryPolicy{Rules: []core.RetryRule{rule}, Limit: 100}
	var all history.Attempts
	for n := range 3 * history.MaxAttempts {
		allowed := policy.Decide(RetryHistory(all, 0), core.Failure{Category: core.CategoryCrash}).Retry
		if want := n < 2; allowed != want {
			t.Fatalf("after %d pods that crashed and were replaced, another one is allowed: %v", n, allowed)
		}
		a := history.Attempt{Start: at(n), ReplacedPods: 1}
		EndAttempt(&a, at(n+1).Time, core.CategoryCrash, "", "")
		all = AddAttempt(all, a)
	}
}

// TestOneFaultIsToldOfAsOne: pods that a rack takes along one by one are one disruption, with all that they lost, and a rack
// that flaps for ever is one for each minute, however many pods it has.
func TestOneFaultIsToldOfAsOne(t *testing.T) {
	at := func(second int) metav1.Time { return metav1.NewTime(time.Unix(1_000_000+int64(second), 0).UTC()) }
	taken := func(from, to int, c core.Category, node string) history.Attempt {
		a := history.Attempt{Start: at(from), ReplacedPods: 1, GPUs: 8}
		OnNodes(&a, []string{node})
		a.FailedNodes = a.Nodes
		EndAttempt(&a, at(to).Time, c, "NodeFailures", ReplacedText(1, a.Nodes))
		return a
	}
	const rack = core.CategoryNodeFailure
	var all history.Attempts
	for _, a := range []history.Attempt{
		taken(0, 100, rack, "n1"), taken(50, 110, rack, "n2"), taken(0, 160, rack, "n1"),
		taken(150, 155, core.CategoryMaintenance, "n3"), // something else
		taken(0, 161, rack, "n4"),                       // more than a minute after the first
	} {
		all = AddAttempt(all, a)
	}
	all = ReadAttempts(AttemptsText(all))
	if len(all.Attempts) != 3 {
		t.Fatalf("%d entries: %+v", len(all.Attempts), all.Attempts)
	}
	a := &all.Attempts[0]
	if a.ReplacedPods != 3 || a.NodeCount != 2 || !slices.Equal(a.FailedNodes, []string{"n1", "n2"}) || a.GPUs != 24 ||
		!a.End.Equal(new(at(100))) || !strings.HasPrefix(a.Message, "3 of its pods") {
		t.Errorf("it is told of as %+v", a)
	}
	account(a, at(200).Time)
	if want := int64(8 * (100 + 60 + 160)); a.LostGPUSeconds > want || a.LostGPUSeconds <= want-24 {
		t.Errorf("%d GPU seconds were lost, want %d, up to a second for each GPU", a.LostGPUSeconds, want)
	}
	sum := history.AttemptSum{}
	for i := range all.Attempts {
		sumUp(&sum, &all.Attempts[i], at(200).Time)
	}
	if sum.Replacements != 3 || sum.Categories[string(rack)] != 2 {
		t.Errorf("the sum is %+v", sum)
	}

	policy := core.RetryPolicy{Limit: 100}
	all = history.Attempts{}
	for second := 0; ; second += 5 { // 18 pods, each of them every 90 seconds
		if !policy.Decide(RetryHistory(all, 0), core.Failure{Category: rack}).Retry {
			break
		}
		if second > 3600 {
			t.Fatal("a rack flaps for an hour, and the job goes on")
		}
		all = AddAttempt(all, taken(second-90, second, rack, "n"+strconv.Itoa(second/5%18)))
	}
}

// TestWaitingIsNoProgress: an attempt whose pods waited for images for half an hour has got nowhere, as the last one that
// did so has not.
func TestWaitingIsNoProgress(t *testing.T) {
	a := history.Attempt{Start: metav1.NewTime(time.Unix(0, 0).UTC())}
	EndAttempt(&a, time.Unix(1800, 0).UTC(), core.CategoryStartFailure, "", "")
	waited := RetryHistory(history.Attempts{Attempts: []history.Attempt{a}}, 0)
	a.Ready = new(metav1.NewTime(time.Unix(60, 0).UTC()))
	ran := RetryHistory(history.Attempts{Attempts: []history.Attempt{a}}, 0)
	if waited.Last[0].Progress || !ran.Last[0].Progress {
		t.Errorf("waiting is progress: %v, running: %v", waited.Last[0].Progress, ran.Last[0].Progress)
	}
}

// TestFailuresOfPods: how a pod failed, and whether its attempt got anywhere.
func TestFailuresOfPods(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	ended := func(ran time.Duration) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "j-0"}}
		p.Status.Phase = corev1.PodFailed
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{
				ExitCode: 1, Reason: "Error", StartedAt: metav1.NewTime(now.Add(-ran)), FinishedAt: metav1.NewTime(now),
			},
		}}}
		return p
	}
	evicted := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "j-0"}}
	evicted.Status.Phase, evicted.Status.Reason = corev1.PodFailed, "Evicted"
	evicted.Status.Message = "The node was low on resource: ephemeral-storage."
	// running was taken away from a node that died, which never said how its container ended.
	running := func(ran time.Duration) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "j-0"}}
		p.Status.Phase = corev1.PodRunning
		p.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "DeletionByTaintManager",
		}}
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{
			Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(now.Add(-ran))},
		}}}
		return p
	}
	crashing := running(time.Hour) // what does the work waits for another try
	crashing.Status.ContainerStatuses = append(crashing.Status.ContainerStatuses, corev1.ContainerStatus{
		State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
	})
	saves := func(at time.Time) metav1.Object {
		return &metav1.ObjectMeta{
			Annotations: map[string]string{history.CheckpointAnnotation: at.UTC().Format(time.RFC3339)},
		}
	}
	began := now.Add(-5 * time.Minute)
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		node core.NodeTrouble
		job  metav1.Object
		want core.Failure
	}{
		"minutes":        {ended(time.Minute), core.NodeFine, &metav1.ObjectMeta{}, core.Failure{Category: core.CategoryUserError, ExitCode: 1, Pod: "j-0"}},
		"hours":          {ended(time.Hour), core.NodeFine, &metav1.ObjectMeta{}, core.Failure{Category: core.CategoryUserError, ExitCode: 1, Pod: "j-0", Progress: true}},
		"bad node":       {ended(time.Minute), core.NodeBad, &metav1.ObjectMeta{}, core.Failure{Category: core.CategoryNodeFailure, ExitCode: 1, Pod: "j-0"}},
		"checkpoint":     {ended(time.Minute), core.NodeFine, saves(now.Add(-time.Minute)), core.Failure{Category: core.CategoryUserError, ExitCode: 1, Pod: "j-0", Progress: true}},
		"earlier":        {ended(time.Minute), core.NodeFine, saves(now.Add(-time.Hour)), core.Failure{Category: core.CategoryUserError, ExitCode: 1, Pod: "j-0"}},
		"of the future":  {ended(time.Minute), core.NodeFine, saves(now.Add(time.Hour)), core.Failure{Category: core.CategoryUserError, ExitCode: 1, Pod: "j-0"}},
		"dead at once":   {running(time.Minute), core.NodeBad, &metav1.ObjectMeta{}, core.Failure{Category: core.CategoryNodeFailure, Pod: "j-0"}},
		"dead in days":   {running(72 * time.Hour), core.NodeBad, &metav1.ObjectMeta{}, core.Failure{Category: core.CategoryNodeFailure, Pod: "j-0", Progress: true}},
		"beside others":  {crashing, core.NodeBad, &metav1.ObjectMeta{}, core.Failure{Category: core.CategoryNodeFailure, Pod: "j-0"}},
		"disk of a node": {evicted, core.NodeFine, &metav1.ObjectMeta{}, core.Failure{Category: core.CategoryStorageFailure, Pod: "j-0", Pressure: true}},
	} {
		if diff := cmp.Diff(c.want, FailureOf(c.pod, c.node, c.job, began, now)); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
		// What is remembered of it says the same.
		a := history.Attempt{Start: metav1.NewTime(now.Add(-96 * time.Hour))}
		FailPods(&a, now, c.pod, nil, c.node, "")
		all := RetryHistory(history.Attempts{Attempts: []history.Attempt{a}}, 0)
		if got, want := all.Last[0].Progress, c.want.Progress && name != "checkpoint"; got != want {
			t.Errorf("%s: that it got somewhere is remembered: %v, want %v", name, got, want)
		}
	}
}

// TestLastCheckpointCounts: of what a job and its pods tell of checkpoints, the last one in the attempt counts, in whatever
// order they are asked; one of another attempt or of the future does not.
func TestLastCheckpointCounts(t *testing.T) {
	at := func(minute int) time.Time { return time.Unix(int64(minute)*60, 0).UTC() }
	said := func(minute int) metav1.Object {
		return &metav1.ObjectMeta{Annotations: map[string]string{
			history.CheckpointAnnotation: at(minute).Format(time.RFC3339),
		}}
	}
	for _, c := range []struct {
		say  []int
		lost int64 // minutes
	}{
		{nil, 60},
		{[]int{40}, 30},
		{[]int{40, 50}, 20},
		{[]int{50, 40}, 20},
		{[]int{5}, 60},
		{[]int{200}, 60},
		{[]int{200, 40, 5}, 30},
	} {
		a := history.Attempt{Start: metav1.NewTime(at(10)), GPUs: 2}
		EndAttempt(&a, at(70), core.CategoryPreemption, "", "")
		for _, minute := range c.say {
			NoteCheckpoint(&a, said(minute), at(70))
		}
		if want := c.lost * 60 * a.GPUs; a.LostGPUSeconds != want {
			t.Errorf("checkpoints at %v: %d GPU seconds lost, want %d", c.say, a.LostGPUSeconds, want)
		}
	}
}
