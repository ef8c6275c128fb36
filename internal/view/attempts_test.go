package view

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	history "github.com/mlbatch/mlbatch/api/history/v1alpha1"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
)

// at is a moment so many seconds after noon.
func at(seconds int) *metav1.Time {
	return new(metav1.NewTime(time.Date(2026, 3, 1, 12, 0, seconds, 0, time.UTC)))
}

// ran is an attempt with 8 GPUs that a category of causes ended.
func ran(start, end int, c core.Category) history.Attempt {
	a := history.Attempt{Start: *at(start), GPUs: 8}
	EndAttempt(&a, at(end).Time, c, "Why", "in words")
	return a
}

func TestAttemptsAreReadAsWritten(t *testing.T) {
	full := history.Attempt{
		Start: *at(0), Ready: at(10), Checkpoint: at(60), GPUs: 16, ReplacedPods: 1,
		FailedNodes: []string{"node-1"}, Pod: "train-worker-3", Rank: new(int32(3)), ExitCode: new(int32(-1)),
	}
	OnNodes(&full, []string{"node-2", "node-1", "node-2"})
	EndAttempt(
		&full,
		at(90).Time,
		core.CategoryUserError,
		"Error",
		"pod train-worker-3:  it ended\nwith: exit code 1 = bad",
	)
	all := history.Attempts{Attempts: []history.Attempt{full}}
	for i := range history.MaxAttempts + 2 { // three are summed up
		all = AddAttempt(all, ran(100+10*i, 105+10*i, core.CategoryPreemption))
	}
	if len(all.Attempts) != history.MaxAttempts || all.Earlier == nil || all.Earlier.Attempts != 2 ||
		all.Earlier.Replacements != 1 || all.Earlier.Categories["Preemption"] != 2 {
		t.Fatalf("summed up %+v", all.Earlier)
	}
	all.Attempts[0] = full
	text := AttemptsText(all)
	if diff := cmp.Diff(all, ReadAttempts(text)); diff != "" {
		t.Errorf("(-want +got):\n%s\n%s", diff, text)
	}
	want := "2026-03-01T12:00:00Z to 2026-03-01T12:01:30Z UserError/Error gpus=16 nodes=2:node-1,node-2 failed=node-1 " +
		"replaced=1 pod=train-worker-3 rank=3 exit=-1 ready=2026-03-01T12:00:10Z checkpoint=2026-03-01T12:01:00Z: " +
		"pod train-worker-3: it ended with: exit code 1 = bad"
	if !strings.Contains(text, want) {
		t.Errorf("people read\n%s\nwant\n%s", text, want)
	}
}

// What others wrote into the condition says nothing, and takes nothing down.
func TestForgedAttemptsSayNothing(t *testing.T) {
	for _, line := range []string{
		"", "earlier", "yesterday to today Preemption", "2026-03-01T12:00:00Z to 2026-03-01T11:00:00Z Preemption",
		"2026-03-01T12:00:00Z to 2026-03-01T13:00:00Z Whim", "2026-03-01T12:00:00Z to 99999-03-01T13:00:00Z Crash",
		"2026-03-01T12:00:00Z until 2026-03-01T13:00:00Z Crash",
	} {
		if got := ReadAttempts(line); len(got.Attempts) > 0 || got.Earlier != nil {
			t.Errorf("%q is read as %+v", line, got)
		}
	}
	got := ReadAttempts(
		"2026-03-01T12:00:00Z to 8000-03-01T13:00:00Z Crash/\x1b[31m gpus=9223372036854775807 nodes=-1:A,../x,ok rank=-4 exit=x pod=\x1b replaced=-1: \x1b[31m",
	)
	if len(got.Attempts) != 1 {
		t.Fatal("a line with some sense is not read")
	}
	a := got.Attempts[0]
	if a.GPUSeconds < 0 || a.LostGPUSeconds < 0 || a.Reason != "" || a.Pod != "" || a.ExitCode != nil ||
		*a.Rank != 0 ||
		a.ReplacedPods != 0 ||
		len(a.Nodes) != 1 {
		t.Errorf("read %+v", a)
	}
}

func FuzzReadAttempts(f *testing.F) {
	full := ran(0, 90, core.CategoryNodeFailure)
	full.Nodes, full.NodeCount, full.Pod = []string{"a", "b"}, 2, "p-0"
	all := history.Attempts{
		Attempts: []history.Attempt{full, ran(100, 200, "")},
		Earlier:  &history.AttemptSum{Attempts: 3, Start: at(0)},
	}
	f.Add(AttemptsText(all))
	f.Add(
		"earlier attempts=1 Preemption=2 gpu-seconds=-5\n2026-03-01T12:00:00Z to 2026-03-01T12:00:00Z Succeeded: x: y",
	)
	f.Fuzz(func(t *testing.T, text string) {
		once := ReadAttempts(text)
		written := AttemptsText(once)
		const most = 32 * 1024 // of the message of a condition
		if len(written) > most {
			t.Errorf("%d bytes", len(written))
		}
		if diff := cmp.Diff(once, ReadAttempts(written)); diff != "" {
			t.Errorf("what was read is written otherwise (-read +again):\n%s\n%s", diff, written)
		}
		AddAttempt(once, ran(0, 1, core.CategoryCrash))
		w := admittedSince(at(0))
		w.Status.Conditions = append(
			w.Status.Conditions,
			metav1.Condition{Type: kueue.WorkloadAttempts, Status: "True", Message: text},
		)
		if got := AttemptsOf(
			w,
			once,
			nil,
			at(3600).Time,
		); got != nil && got.ETTR != nil &&
			(*got.ETTR < 0 || *got.ETTR > 1) {
			t.Errorf("ETTR %v", *got.ETTR)
		}
	})
}

// The longest that there can be has room in a condition.
func TestAttemptsFitIntoACondition(t *testing.T) {
	var all history.Attempts
	long := strings.Repeat("x", 253)
	for range 100 {
		a := history.Attempt{
			Start:      *at(0),
			Ready:      at(1),
			Checkpoint: at(1),
			GPUs:       1 << 62,
			Pod:        long,
			Rank:       new(int32(1 << 30)),
			ExitCode:   new(int32(-1 << 31)),
		}
		for i := range 100 {
			a.Nodes = append(a.Nodes, fmt.Sprint(i)+long[:250])
		}
		a.FailedNodes = SomeNodes(a.Nodes)
		OnNodes(&a, a.Nodes)
		EndAttempt(&a, at(1).Time, core.CategoryNetworkFailure, long, strings.Repeat(long, 10))
		all = AddAttempt(all, a)
	}
	if n := len(AttemptsText(all)); n > 32*1024 {
		t.Errorf("%d bytes do not fit", n)
	}
}

func admittedSince(t *metav1.Time) *kueue.Workload {
	return &kueue.Workload{
		Spec: kueue.WorkloadSpec{PodSets: []kueue.PodSet{{Name: "main", Count: 1, Template: corev1.PodTemplateSpec{
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{core.GPU: resource.MustParse("8")},
			}}}},
		}}}},
		Status: kueue.WorkloadStatus{
			Admission:  &kueue.Admission{},
			Conditions: []metav1.Condition{{Type: kueue.WorkloadAdmitted, Status: "True", LastTransitionTime: *t}},
		},
	}
}

func TestAttemptsOf(t *testing.T) {
	// Preempted after 100 s; waited 50 s; admitted again at 150 s. There a pod failed at 250 s, with a
	// checkpoint at 200 s, and all began anew; now it is 350 s.
	w := admittedSince(at(150))
	stopped := AddAttempt(history.Attempts{}, ran(0, 100, core.CategoryPreemption))
	w.Status.Conditions = append(
		w.Status.Conditions,
		metav1.Condition{Type: kueue.WorkloadAttempts, Status: "True", Message: AttemptsText(stopped)},
	)
	failed := ran(10, 250, core.CategoryUserError) // who restarts it does not know since when it was admitted
	failed.Checkpoint = at(200)
	one := ran(160, 240, core.CategoryNodeFailure)
	one.ReplacedPods, one.GPUs = 1, 1
	same := ran(10, 100, core.CategoryNodeFailure) // who restarts it found what it was stopped for, too
	got := AttemptsOf(w, history.Attempts{Attempts: []history.Attempt{same, failed, one}}, nil, at(350).Time)
	type row struct {
		from, to         int
		why              string
		gpuSeconds, lost int64
	}
	var rows []row
	for _, a := range got.Attempts.Attempts {
		r := row{int(a.Start.Sub(at(0).Time).Seconds()), -1, a.Category, a.GPUSeconds, a.LostGPUSeconds}
		if a.End != nil {
			r.to = int(a.End.Sub(at(0).Time).Seconds())
		}
		rows = append(rows, r)
	}
	want := []row{
		{0, 100, "Preemption", 800, 800},
		{160, 240, "NodeFailure", 80, 80}, // a pod; the job ran on
		{150, 250, "UserError", 800, 400}, // since its admission, and half of it was saved
		{250, -1, "", 800, 0},
	}
	if diff := cmp.Diff(want, rows, cmp.AllowUnexported(row{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if s := got.Total; s.Attempts != 3 || s.Replacements != 1 || s.RanSeconds != 300 ||
		s.ProductiveSeconds != 150 ||
		s.GPUSeconds != 2400 ||
		s.LostGPUSeconds != 1280 {
		t.Errorf("in all %+v", s)
	}
	if e := got.ETTR; e == nil || *e != 150.0/350 {
		t.Errorf("ETTR %v", e)
	}
}

// The same counts whether it is told one by one or summed up.
func TestSummedUpIsTheSame(t *testing.T) {
	var all history.Attempts
	var want history.AttemptSum
	for i := range 40 {
		a := ran(10*i, 10*i+8, core.Categories()[i%5])
		sumUp(&want, &a, time.Time{})
		all = AddAttempt(all, a)
	}
	got := *all.Earlier
	for i := range all.Attempts {
		sumUp(&got, &all.Attempts[i], time.Time{})
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A node for which pods were to be replaced, and then the whole job began anew, is told once.
func TestReplacedAndThenRestartedIsOnce(t *testing.T) {
	part, whole := ran(0, 99, core.CategoryNodeFailure), ran(0, 100, core.CategoryNodeFailure)
	part.ReplacedPods, part.FailedNodes, whole.FailedNodes = 1, []string{"n1"}, []string{"n1"}
	w := admittedSince(at(0))
	w.Status.Conditions = append(w.Status.Conditions, metav1.Condition{
		Type:    kueue.WorkloadAttempts,
		Status:  "True",
		Message: AttemptsText(history.Attempts{Attempts: []history.Attempt{part}}),
	})
	if got := AttemptsOf(
		w,
		history.Attempts{Attempts: []history.Attempt{whole}},
		nil,
		at(200).Time,
	); got.Total.Attempts != 2 ||
		got.Total.Replacements != 0 {
		t.Errorf("in all %+v", got.Total)
	}
}

// TestFaultOfTwoNodesInPlaceIsOnce: all pods restart in place for a pod that is made anew, and that two nodes had to be left
// for it is no second fault; what comes much later is another.
func TestFaultOfTwoNodesInPlaceIsOnce(t *testing.T) {
	for end, want := range map[int]int32{130: 0, 100 + 601: 1} {
		var all history.Attempts
		for i, node := range []string{"n1", "n2"} {
			part := ran(0, 100+i, core.CategoryNodeFailure)
			part.ReplacedPods, part.FailedNodes = 1, []string{node}
			all = AddAttempt(all, part)
		}
		whole := ran(0, end, core.CategoryNodeFailure)
		whole.RestartedPods, whole.FailedNodes = 3, []string{"n2"}
		w := admittedSince(at(0))
		w.Status.Conditions = append(w.Status.Conditions, metav1.Condition{
			Type: kueue.WorkloadAttempts, Status: "True", Message: AttemptsText(all),
		})
		got := AttemptsOf(w, history.Attempts{Attempts: []history.Attempt{whole}}, nil, at(900).Time).Total
		if got.Replacements != want {
			t.Errorf("restarted at %d: in all %+v", end, got)
		}
	}
}

// TestMergedFaultThatStopsTheWholeJob: what part of a fault the whole job is stopped for at last is told with the whole job,
// and what it lost counts once.
func TestMergedFaultThatStopsTheWholeJob(t *testing.T) {
	part := func(end int, node string) history.Attempt {
		a := ran(0, end, core.CategoryNodeFailure)
		a.ReplacedPods, a.FailedNodes = 1, []string{node}
		return a
	}
	whole := ran(0, 122, core.CategoryNodeFailure)
	whole.GPUs, whole.FailedNodes = 16, []string{"n2"}
	account(&whole, whole.End.Time)
	for why, c := range map[string]struct {
		told         []history.Attempt
		replacements int32
		lost         int64
	}{
		"stopped at last":      {[]history.Attempt{part(100, "n1"), part(120, "n2"), whole}, 1, 800 + 16*122},
		"and goes on for long": {[]history.Attempt{part(100, "n1"), part(120, "n2"), whole, ran(130, 140, "")}, 1, 800 + 16*122},
		"not stopped":          {[]history.Attempt{part(100, "n1"), part(120, "n2")}, 1, 800 + 960},
	} {
		var all history.Attempts
		for _, a := range c.told {
			all = AddAttempt(all, a)
		}
		w := &kueue.Workload{}
		w.Status.Conditions = []metav1.Condition{
			{Type: kueue.WorkloadAttempts, Status: "True", Message: AttemptsText(all)},
		}
		got := AttemptsOf(w, history.Attempts{}, nil, at(200).Time).Total
		if got.Replacements != c.replacements || got.LostGPUSeconds != c.lost {
			t.Errorf("%s: %d faults of pods, lost %d, want %d and %d", why, got.Replacements, got.LostGPUSeconds,
				c.replacements, c.lost)
		}
	}
}

// TestCheckpointOfAMergedFault: what pods that one fault took lost since their checkpoints is the sum of it.
func TestCheckpointOfAMergedFault(t *testing.T) {
	first, second := ran(0, 100, core.CategoryNodeFailure), ran(0, 130, core.CategoryNodeFailure)
	first.ReplacedPods, second.ReplacedPods = 1, 1
	first.Checkpoint, second.Checkpoint = at(80), at(120)
	account(&first, first.End.Time)
	account(&second, second.End.Time)
	got := together(first, second)
	if want := first.LostGPUSeconds + second.LostGPUSeconds; got.LostGPUSeconds > want ||
		got.LostGPUSeconds < want-16 {
		t.Errorf("%d GPU seconds are lost, want %d, up to a second for each GPU", got.LostGPUSeconds, want)
	}
	if !failed(got).Progress {
		t.Error("the checkpoint is forgotten")
	}
}

func failed(a history.Attempt) core.Failure {
	return RetryHistory(history.Attempts{Attempts: []history.Attempt{a}}, 0).Last[0]
}

// What ended in the second in which it began is an attempt all the same: times are kept in seconds.
func TestAttemptsOfNoSecondAreTold(t *testing.T) {
	brief, well := ran(100, 100, core.CategoryNodeFailure), ran(100, 110, "")
	failed := ran(100, 110, core.CategoryUserError)
	got := AttemptsOf(
		admittedSince(at(100)),
		history.Attempts{Attempts: []history.Attempt{brief, failed}},
		&well,
		at(200).Time,
	)
	if got.Total.Attempts != 3 || len(got.Total.Categories) != 2 || got.Attempts.Attempts[2].Category != "" {
		t.Errorf("in all %+v", got)
	}
}
