package job

import (
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/admission"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	batchjob "github.com/mlbatch/mlbatch/internal/kube/jobs/job"
	"github.com/mlbatch/mlbatch/internal/kube/workloadlifecycle"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func template() corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever,
		NodeSelector:  map[string]string{"disk": "ssd"},
		Containers:    []corev1.Container{{Name: "c"}},
	}}
}

func aJob(change ...func(*batchv1.Job)) *batchv1.Job {
	j := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "train", UID: "u1"},
		Spec: batchv1.JobSpec{
			Parallelism: ptr.To[int32](2),
			Completions: ptr.To[int32](2),
			Suspend:     new(true),
			Template:    template(),
		},
	}
	for _, c := range change {
		c(j)
	}
	return j
}

func running(j *batchv1.Job) {
	j.Spec.Suspend = new(false)
	j.Status.StartTime = &metav1.Time{Time: now}
	j.Status.Active = 2
}

// noPods is a Job that was scaled to nothing.
func noPods(j *batchv1.Job) {
	j.Spec.Parallelism, j.Spec.Completions, j.Status.Active = new(int32(0)), nil, 0
}

// gaveBack is a workload whose job needs so many pods no more.
func gaveBack(n int32) func(*kueue.Workload) {
	return func(w *kueue.Workload) {
		w.Status.ReclaimablePods = []kueue.ReclaimablePod{{Name: "main", Count: n}}
	}
}

func injected(j *batchv1.Job) {
	j.Spec.Template.Labels = map[string]string{kueue.PodSetLabel: "main"}
	j.Spec.Template.Spec.NodeSelector = map[string]string{"disk": "ssd", "gpu": "h100"}
}

func stopped(j *batchv1.Job) {
	j.Status.StartTime = &metav1.Time{Time: now}
	j.Status.Conditions = append(
		j.Status.Conditions,
		batchv1.JobCondition{Type: batchv1.JobSuspended, Status: corev1.ConditionTrue},
	)
}

// labelled is a Job whose author wrote what we write into templates.
func labelled(j *batchv1.Job) {
	j.Spec.Template.Labels = map[string]string{kueue.PodSetLabel: "main"}
}

// begun is a Job that was suspended before its controller noticed.
func begun(j *batchv1.Job) { j.Status.StartTime = &metav1.Time{Time: now} }

func finished(j *batchv1.Job) {
	j.Status.Conditions = append(
		j.Status.Conditions,
		batchv1.JobCondition{Type: batchv1.JobComplete, Status: corev1.ConditionTrue, Message: "done"},
	)
}

func aWorkload(change ...func(*kueue.Workload)) *kueue.Workload {
	w := &kueue.Workload{
		ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "job-train"},
		Spec: kueue.WorkloadSpec{
			QueueName: "default-queue", Priority: ptr.To[int32](5), Active: new(true),
			PodSets: []kueue.PodSet{{Name: "main", Count: 2, Template: template()}},
		},
	}
	for _, c := range change {
		c(w)
	}
	return w
}

func condition(kind, reason string) func(*kueue.Workload) {
	return func(w *kueue.Workload) {
		apimeta.SetStatusCondition(
			&w.Status.Conditions,
			metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: reason, Message: "because " + reason},
		)
	}
}

func admitted(w *kueue.Workload) {
	w.Status.Admission = &kueue.Admission{
		ClusterQueue:      "cq",
		PodSetAssignments: []kueue.PodSetAssignment{{Name: "main", Count: ptr.To[int32](2)}},
	}
	condition(kueue.WorkloadQuotaReserved, "QuotaReserved")(w)
	condition(kueue.WorkloadAdmitted, "Admitted")(w)
}

// saving asked for half a minute to save what it has done, which began some time ago.
func saving(ago time.Duration) func(*kueue.Workload) {
	return func(w *kueue.Workload) {
		w.Annotations = map[string]string{kueue.StopNoticeAnnotation: "30s"}
		apimeta.SetStatusCondition(&w.Status.Conditions, metav1.Condition{
			Type: kueue.WorkloadStopNotice, Status: metav1.ConditionTrue, Reason: kueue.ReasonSaving,
			LastTransitionTime: metav1.NewTime(now.Add(-ago)),
		})
	}
}

// unready waits for its pods.
func unready(w *kueue.Workload) {
	apimeta.SetStatusCondition(
		&w.Status.Conditions,
		metav1.Condition{
			Type:   kueue.WorkloadPodsReady,
			Status: metav1.ConditionFalse,
			Reason: kueue.ReasonWaitForStart,
		},
	)
}

// reserved has quota and waits for its admission checks.
func reserved(w *kueue.Workload) {
	admitted(w)
	apimeta.SetStatusCondition(
		&w.Status.Conditions,
		metav1.Condition{
			Type:   kueue.WorkloadAdmitted,
			Status: metav1.ConditionFalse,
			Reason: kueue.ReasonUnsatisfiedAdmissionChecks,
		},
	)
}

// notEvicted was evicted once and has quota again.
func notEvicted(w *kueue.Workload) {
	apimeta.SetStatusCondition(
		&w.Status.Conditions,
		metav1.Condition{Type: kueue.WorkloadEvicted, Status: metav1.ConditionFalse, Reason: "QuotaReserved"},
	)
}

// couldNotStart is how a workload ends whose admission contradicts its job.
func couldNotStart(w *kueue.Workload) {
	admitted(w)
	condition(kueue.WorkloadFinished, kueue.ReasonFailedToStart)(w)
}

// ofClass gives a workload a WorkloadPriorityClass.
func ofClass(name string) func(*kueue.Workload) {
	return func(w *kueue.Workload) {
		w.Spec.PriorityClassRef = &kueue.PriorityClassRef{
			Group: kueue.WorkloadPriorityClassGroup,
			Kind:  kueue.WorkloadPriorityClassKind,
			Name:  name,
		}
	}
}

// updates is what a check that said yes wants the pods to have.
func updates(u kueue.PodSetUpdate) func(*kueue.Workload) {
	return func(w *kueue.Workload) {
		w.Status.AdmissionChecks = append(w.Status.AdmissionChecks, kueue.AdmissionCheckState{
			Name: kueue.AdmissionCheckReference(
				"check-" + strconv.Itoa(len(w.Status.AdmissionChecks)),
			),
			State:         kueue.CheckStateReady,
			PodSetUpdates: []kueue.PodSetUpdate{u},
		})
	}
}

// outcome is a step in words.
type outcome struct {
	Suspended *bool             // the job is written with this
	Selector  map[string]string // and this node selector
	Create    bool
	Unpin     bool
	Removed   bool // its workload is deleted
	Spec      bool
	Finished  string // reason of the Finished condition written
	Released  bool   // admission removed
	Requeued  string
	Reclaimed int32
	Cleared   bool          // no pod is reclaimable
	Withdrawn time.Duration // until it is considered again
	Again     time.Duration // when to look again
	Ready     string        // reason of the PodsReady condition
	Priority  string        // class and value in the spec
	Limit     int32         // of execution time, in the spec
	Refused   int           // nodes that are noted, with the job left as it is
	Event     string
}

func describe(was *kueue.Workload, st step) outcome {
	o := outcome{
		Again:   st.again,
		Create:  st.create,
		Unpin:   st.unpin,
		Removed: st.remove != nil,
		Spec:    st.spec != nil,
	}
	if j, ok := st.job.(*batchv1.Job); ok {
		o.Suspended, o.Selector = j.Spec.Suspend, j.Spec.Template.Spec.NodeSelector
	}
	if st.tell != nil {
		o.Event = st.tell.reason
	}
	if st.spec != nil {
		o.Limit = ptr.Deref(st.spec.MaximumExecutionTimeSeconds, 0)
		if ref := st.spec.PriorityClassRef; ref != nil {
			o.Priority = ref.Name + " " + strconv.Itoa(int(*st.spec.Priority))
		}
	}
	if st.status == nil {
		return o
	}
	if c := apimeta.FindStatusCondition(st.status.Conditions, kueue.WorkloadPodsReady); c != nil {
		o.Ready = c.Reason
	}
	if c := apimeta.FindStatusCondition(st.status.Conditions, kueue.WorkloadFinished); c != nil {
		o.Finished = c.Reason
	}
	if c := apimeta.FindStatusCondition(st.status.Conditions, kueue.WorkloadRequeued); c != nil {
		o.Requeued = string(c.Status)
	}
	if st.tell == nil {
		o.Refused = len(convert.Refusals(&kueue.Workload{Status: *st.status})) - len(convert.Refusals(was))
	}
	o.Released = st.status.Admission == nil &&
		apimeta.IsStatusConditionFalse(st.status.Conditions, kueue.WorkloadQuotaReserved)
	if r := st.status.RequeueState; r != nil {
		o.Withdrawn = r.RequeueAt.Sub(now)
	}
	o.Cleared = len(was.Status.ReclaimablePods) > 0 && len(st.status.ReclaimablePods) == 0
	for _, r := range st.status.ReclaimablePods {
		o.Reclaimed += r.Count
	}
	return o
}

func TestDecide(t *testing.T) {
	ssd := map[string]string{"disk": "ssd"}
	preempted := condition(kueue.WorkloadEvicted, kueue.ReasonPreempted)
	cases := map[string]struct {
		why      string
		job      *batchv1.Job
		workload *kueue.Workload
		noQueue  bool
		live     int
		refused  time.Time
		nodes    []convert.Refusal
		bound    int
		behind   bool
		leaving  bool
		class    string // its label names this WorkloadPriorityClass, of value 9
		awaited  bool   // its pods have to be ready in time
		// readyFor is for how long they are ready, a day if it is 0; blocks: others are not admitted
		// before they are.
		readyFor time.Duration
		blocks   bool
		yields   time.Duration // to others that stop
		want     outcome
	}{
		"reserved": {why: "quota alone lets nothing run", job: aJob(), workload: aWorkload(reserved)},
		"running, a check took its yes back": {
			why:      "what is not admitted must not run",
			job:      aJob(running, injected),
			workload: aWorkload(reserved),
			live:     2,
			want: outcome{
				Suspended: new(true),
				Selector:  map[string]string{"disk": "ssd", "gpu": "h100"},
				Event:     "Suspended",
			},
		},
		"admitted by a check": {
			why: "its pods get what the check found out",
			job: aJob(),
			workload: aWorkload(
				admitted,
				updates(kueue.PodSetUpdate{Name: "main", NodeSelector: map[string]string{"pool": "p1"}}),
			),
			want: outcome{
				Suspended: new(false),
				Selector:  map[string]string{"disk": "ssd", "gpu": "h100", "pool": "p1"},
				Event:     "Started",
			},
		},
		"a check and the flavor disagree": {
			why: "its pods could go nowhere, now or later",
			job: aJob(),
			workload: aWorkload(
				admitted,
				updates(kueue.PodSetUpdate{Name: "main", NodeSelector: map[string]string{"gpu": "a100"}}),
			),
			want: outcome{Finished: "FailedToStart", Event: "FailedToStart"},
		},
		"two checks disagree": {
			why: "neither gives way",
			job: aJob(),
			workload: aWorkload(
				admitted,
				updates(kueue.PodSetUpdate{Name: "main", Labels: map[string]string{"a": "1"}}),
				updates(kueue.PodSetUpdate{Name: "main", Labels: map[string]string{"a": "2"}}),
			),
			want: outcome{Finished: "FailedToStart", Event: "FailedToStart"},
		},
		"a check means other pods": {
			why:      "what it wants cannot be done",
			job:      aJob(),
			workload: aWorkload(admitted, updates(kueue.PodSetUpdate{Name: "driver"})),
			want:     outcome{Finished: "FailedToStart", Event: "FailedToStart"},
		},
		"given another class while it runs": {
			why:      "the class is the one thing that may change then",
			job:      aJob(running, injected),
			workload: aWorkload(admitted, ofClass("low")),
			live:     2,
			class:    "high",
			want:     outcome{Spec: true, Priority: "high 9", Event: "UpdatedWorkload"},
		},
		"given another class while checks are asked": {
			why:      "it counts at once for what may evict what",
			job:      aJob(),
			workload: aWorkload(reserved, ofClass("low")),
			class:    "high",
			want:     outcome{Spec: true, Priority: "high 9", Event: "UpdatedWorkload"},
		},
		"given a first class while it runs": {
			why:      "the API would refuse it",
			job:      aJob(running, injected),
			workload: aWorkload(admitted),
			live:     2,
			class:    "high",
		},
		"given a limit of time while it waits": {
			why:      "the limit is the label's",
			job:      aJob(func(j *batchv1.Job) { j.Labels = map[string]string{kueue.MaxExecTimeSecondsLabel: "60"} }),
			workload: aWorkload(),
			want:     outcome{Spec: true, Limit: 60, Event: "UpdatedWorkload"},
		},
		"pods have just become ready": {
			why:      "what ends within a second says it with its end",
			job:      aJob(running, injected, func(j *batchv1.Job) { j.Status.Ready = new(int32(2)) }),
			workload: aWorkload(admitted, unready),
			live:     2,
			awaited:  true,
			readyFor: 400 * time.Millisecond,
			want:     outcome{Again: 600 * time.Millisecond},
		},
		"pods have been ready for a second": {
			why:      "it is told while the job runs",
			job:      aJob(running, injected, func(j *batchv1.Job) { j.Status.Ready = new(int32(2)) }),
			workload: aWorkload(admitted, unready),
			live:     2,
			awaited:  true,
			readyFor: time.Second,
			want:     outcome{Ready: "Started"},
		},
		"pods have just become ready, and others wait for that": {
			why:      "no other workload is admitted until it is told",
			job:      aJob(running, injected, func(j *batchv1.Job) { j.Status.Ready = new(int32(2)) }),
			workload: aWorkload(admitted, unready),
			live:     2,
			awaited:  true,
			readyFor: time.Millisecond,
			blocks:   true,
			want:     outcome{Ready: "Started"},
		},
		"ended before it was told that its pods were ready": {
			why:      "both are told in one write",
			job:      aJob(running, injected, finished, func(j *batchv1.Job) { j.Status.Succeeded = 2 }),
			workload: aWorkload(admitted, unready),
			awaited:  true,
			readyFor: 400 * time.Millisecond,
			want:     outcome{Ready: "Started", Finished: "Succeeded"},
		},
		"pods are ready": {
			why:      "a controller waits for that",
			job:      aJob(running, injected, func(j *batchv1.Job) { j.Status.Ready = new(int32(2)) }),
			workload: aWorkload(admitted),
			live:     2,
			awaited:  true,
			want:     outcome{Ready: "Started"},
		},
		"pods are ready, nobody waits": {
			why:      "no write that has no reader",
			job:      aJob(running, injected, func(j *batchv1.Job) { j.Status.Ready = new(int32(2)) }),
			workload: aWorkload(admitted),
			live:     2,
		},
		"running without queue": {
			why: "in a team namespace only queued jobs run", job: aJob(running), noQueue: true,
			want: outcome{Suspended: new(true), Selector: ssd, Event: "Suspended"},
		},
		"suspended without queue": {
			why:     "its workload says why it is held",
			job:     aJob(),
			noQueue: true,
			want:    outcome{Create: true, Event: "Held"},
		},
		"queue named later": {
			why:      "naming a queue is the cure",
			job:      aJob(),
			workload: aWorkload(func(w *kueue.Workload) { w.Spec.QueueName = "" }),
			want:     outcome{Spec: true, Event: "UpdatedWorkload"},
		},
		"new and suspended": {
			why: "a workload is what queues", job: aJob(), want: outcome{Create: true},
		},
		"new and running": {
			why: "it must not run before it is admitted", job: aJob(running),
			want: outcome{Suspended: new(true), Selector: ssd, Event: "Suspended"},
		},
		"waiting": {why: "the engine has not decided", job: aJob(), workload: aWorkload()},
		"changed while waiting": {
			why: "the workload must ask for what the job will run",
			job: aJob(
				func(j *batchv1.Job) { j.Spec.Parallelism, j.Spec.Completions = ptr.To[int32](3), ptr.To[int32](3) },
			),
			workload: aWorkload(),
			want:     outcome{Spec: true, Event: "UpdatedWorkload"},
		},
		"admitted": {
			why:      "an admitted job runs with its flavors' labels",
			job:      aJob(),
			workload: aWorkload(admitted),
			want: outcome{
				Suspended: new(false),
				Selector:  map[string]string{"disk": "ssd", "gpu": "h100"},
				Event:     "Started",
			},
		},
		"admitted again, still carrying the last admission": {
			why:      "labels of another flavor must not stay",
			job:      aJob(stopped, injected),
			workload: aWorkload(notEvicted, admitted),
			want: outcome{
				Suspended: new(false),
				Selector:  map[string]string{"disk": "ssd", "gpu": "h100"},
				Event:     "Started",
			},
		},
		"running": {why: "all is well", job: aJob(running, injected), workload: aWorkload(admitted), live: 2},
		"one pod of two done": {
			why: "the quota of a pod that will not be replaced is given back",
			job: aJob(
				running,
				func(j *batchv1.Job) { j.Status.Active, j.Status.Succeeded = 1, 1 },
			),
			workload: aWorkload(admitted),
			live:     1,
			want:     outcome{Reclaimed: 1},
		},
		"one pod of two done, of a pod set of five": {
			why: "the three that it was not given are done with too, so that the one is not counted again in a later admission",
			job: aJob(running, func(j *batchv1.Job) { j.Status.Active, j.Status.Succeeded = 1, 1 }),
			workload: aWorkload(
				admitted,
				func(w *kueue.Workload) { w.Spec.PodSets[0].Count, w.Spec.PodSets[0].MinCount = 5, new(int32(2)) },
			),
			live: 1,
			want: outcome{Reclaimed: 4},
		},
		"scaled down, one done": {
			why: "what is above its size is given back, as what is done is",
			job: aJob(running, injected, func(j *batchv1.Job) { j.Status.Active, j.Status.Succeeded = 1, 1 }),
			workload: aWorkload(admitted, func(w *kueue.Workload) {
				w.Spec.PodSets[0].Count, w.Status.Admission.PodSetAssignments[0].Count = 4, new(int32(4))
			}), live: 1,
			want: outcome{Reclaimed: 3},
		},
		"evicted, pods gone, one done": {
			why: "what is done need not run again: it asks for what is left",
			job: aJob(
				stopped,
				injected,
				func(j *batchv1.Job) { j.Status.Succeeded = 1 },
			),
			workload: aWorkload(admitted, preempted),
			want:     outcome{Released: true, Requeued: "True", Reclaimed: 1},
		},
		"waiting again, another one done": {
			why: "the last words of its pods came late",
			job: aJob(stopped, func(j *batchv1.Job) { j.Status.Succeeded = 1 }), workload: aWorkload(preempted),
			want: outcome{Reclaimed: 1},
		},
		"waiting again, has more to do": {
			why: "its author gave it more completions, so nothing of it is done",
			job: aJob(
				stopped,
				func(j *batchv1.Job) { j.Status.Succeeded = 1; j.Spec.Completions = new(int32(5)) },
			),
			workload: aWorkload(
				preempted,
				func(w *kueue.Workload) { w.Status.ReclaimablePods = []kueue.ReclaimablePod{{Name: "main", Count: 1}} },
			),
			want: outcome{Cleared: true},
		},
		"runs again, admitted with what was left": {
			why: "the pod that was done before needs no quota, so that it asks for no more than it has",
			job: aJob(running, injected, func(j *batchv1.Job) { j.Status.Active, j.Status.Succeeded = 1, 1 }), live: 1,
			workload: aWorkload(notEvicted, admitted, func(w *kueue.Workload) {
				w.Status.ReclaimablePods = []kueue.ReclaimablePod{{Name: "main", Count: 1}}
				w.Status.Admission.PodSetAssignments[0].Count = new(int32(1))
			}),
		},
		"runs with what was left, and was given more to do": {
			why: "for that there is no quota",
			job: aJob(running, injected, func(j *batchv1.Job) {
				j.Status.Active, j.Status.Succeeded, j.Spec.Parallelism, j.Spec.Completions = 1, 1, new(
					int32(3),
				), new(
					int32(3),
				)
			}),
			live: 1,
			workload: aWorkload(
				notEvicted,
				admitted,
				func(w *kueue.Workload) { w.Status.Admission.PodSetAssignments[0].Count = new(int32(1)) },
			),
			want: outcome{
				Suspended: new(true),
				Selector:  map[string]string{"disk": "ssd", "gpu": "h100"},
				Event:     "Stopped",
			},
		},
		"runs with fewer than it asked for, and was given more": {
			why:  "it was admitted with two of five, and no more may run",
			live: 2,
			job: aJob(
				running,
				injected,
				func(j *batchv1.Job) { j.Spec.Parallelism, j.Spec.Completions = new(int32(3)), new(int32(3)) },
			),
			workload: aWorkload(
				admitted,
				func(w *kueue.Workload) { w.Spec.PodSets[0].Count, w.Spec.PodSets[0].MinCount = 5, new(int32(2)) },
			),
			want: outcome{
				Suspended: new(true),
				Selector:  map[string]string{"disk": "ssd", "gpu": "h100"},
				Event:     "Stopped",
			},
		},
		"both pods done, not finished yet": {
			why: "the end, a moment later, gives back the same with one write less",
			job: aJob(
				running,
				func(j *batchv1.Job) { j.Status.Active, j.Status.Succeeded = 0, 2 },
			),
			workload: aWorkload(admitted),
		},
		"planned nodes refuse a pod": {
			why: "nodes and pods may be about to change", job: aJob(running), workload: aWorkload(admitted), live: 2,
			refused: now.Add(-20 * time.Second), want: outcome{Again: 40 * time.Second},
		},
		"planned nodes refuse a pod for a minute": {
			why:      "the plan rests on something the engine cannot see: another turn, later",
			job:      aJob(running),
			workload: aWorkload(admitted),
			live:     2,
			refused:  now.Add(-time.Minute),
			want:     outcome{Withdrawn: time.Minute, Event: "PlanWithdrawn"},
		},
		"planned nodes refuse it again": {
			why:  "each time it pauses twice as long",
			job:  aJob(running),
			live: 2,
			workload: aWorkload(
				admitted,
				func(w *kueue.Workload) { w.Status.RequeueState = &kueue.RequeueState{Count: ptr.To[int32](2)} },
			),
			refused: now.Add(-time.Hour),
			want:    outcome{Withdrawn: 4 * time.Minute, Event: "PlanWithdrawn"},
		},
		"planned nodes refuse a pod for good": {
			why:      "the engine leaves these nodes out, so there is nothing to wait for",
			job:      aJob(running),
			workload: aWorkload(admitted),
			live:     2,
			refused:  now,
			nodes:    []convert.Refusal{{PodSet: "main", NodeRefusal: core.NodeRefusal{Node: "n"}}},
			want:     outcome{Event: "PlanWithdrawn"},
		},
		"a planned node refuses a pod for good while another runs": {
			why:      "what runs is not thrown away for it at once",
			job:      aJob(running),
			workload: aWorkload(admitted),
			live:     2,
			bound:    1,
			refused:  now,
			nodes:    []convert.Refusal{{PodSet: "main", NodeRefusal: core.NodeRefusal{Node: "n"}}},
			want:     outcome{Again: time.Minute},
		},
		"running but not admitted": {
			why: "a user unsuspended it by hand", job: aJob(running), workload: aWorkload(),
			want: outcome{Suspended: new(true), Selector: ssd, Event: "Suspended"},
		},
		"evicted and running": {
			why:      "eviction stops the job first",
			job:      aJob(running, injected),
			workload: aWorkload(admitted, preempted),
			live:     2,
			want: outcome{
				Suspended: new(true),
				Selector:  map[string]string{"disk": "ssd", "gpu": "h100"},
				Event:     "Stopped",
			},
		},
		"evicted, and saves what it has done": {
			why:      "it asked for that, and is stopped when the time is over",
			job:      aJob(running, injected),
			workload: aWorkload(admitted, preempted, saving(20*time.Second)),
			live:     2,
			want:     outcome{Again: 10 * time.Second},
		},
		"evicted, and has had its time to save": {
			why:      "what it asked for is over",
			job:      aJob(running, injected),
			workload: aWorkload(admitted, preempted, saving(30*time.Second)),
			live:     2,
			want: outcome{
				Suspended: new(true),
				Selector:  map[string]string{"disk": "ssd", "gpu": "h100"},
				Event:     "Stopped",
			},
		},
		"evicted while nodes refuse its pods": {
			why:      "what its pods say is noted before they go, so that the next plan leaves these nodes out",
			job:      aJob(running),
			workload: aWorkload(admitted, preempted),
			live:     2,
			refused:  now,
			nodes:    []convert.Refusal{{PodSet: "main", NodeRefusal: core.NodeRefusal{Node: "n"}}},
			want:     outcome{Refused: 1},
		},
		"evicted, pods terminating": {
			why:      "quota is released only when the pods are gone",
			job:      aJob(stopped, injected),
			workload: aWorkload(admitted, preempted),
			live:     1,
		},
		"evicted, pods gone": {
			why:      "now the quota is free and the job waits again",
			job:      aJob(stopped, injected),
			workload: aWorkload(admitted, preempted),
			want:     outcome{Released: true, Requeued: "True"},
		},
		"deactivated, pods gone": {
			why:      "a user who deactivates a job wants it to stay away",
			job:      aJob(stopped),
			workload: aWorkload(admitted, condition(kueue.WorkloadEvicted, kueue.ReasonDeactivated)),
			want:     outcome{Released: true, Requeued: "False"},
		},
		"waiting again, still carrying the last admission": {
			why:      "users see their own manifest while it waits",
			job:      aJob(stopped, injected),
			workload: aWorkload(preempted),
			want:     outcome{Suspended: new(true), Selector: ssd},
		},
		"waiting again, while many others stop": {
			why:      "who waits for these to stop waits for fewer writes",
			job:      aJob(stopped, injected),
			workload: aWorkload(preempted),
			yields:   time.Second,
			want:     outcome{Again: time.Second},
		},
		"admitted again, while many others stop": {
			why:      "starting it writes what yielded, in one go",
			job:      aJob(stopped, injected),
			workload: aWorkload(notEvicted, admitted),
			yields:   time.Second,
			want: outcome{
				Suspended: new(false),
				Selector:  map[string]string{"disk": "ssd", "gpu": "h100"},
				Event:     "Started",
			},
		},
		"waiting again, cannot be restored yet": {
			why:      "what an admission put into it is not what its author asks for",
			job:      aJob(injected, begun),
			workload: aWorkload(preempted),
		},
		"admitted again, cannot be restored yet": {
			why: "two admissions must not mix", job: aJob(injected, begun), workload: aWorkload(notEvicted, admitted),
		},
		"admitted again, its author wrote our label": {
			why: "a manifest that was copied from a running job carries it",
			job: aJob(stopped, labelled),
			workload: aWorkload(notEvicted, admitted, func(w *kueue.Workload) {
				w.Spec.PodSets[0].Template.Labels = map[string]string{kueue.PodSetLabel: "main"}
			}),
			want: outcome{
				Suspended: new(false),
				Selector:  map[string]string{"disk": "ssd", "gpu": "h100"},
				Event:     "Started",
			},
		},
		"changed while waiting again": {
			why: "its author's word counts after an eviction as before",
			job: aJob(
				stopped,
				func(j *batchv1.Job) { j.Spec.Template.Spec.NodeSelector = nil },
			),
			workload: aWorkload(preempted),
			want:     outcome{Spec: true, Event: "UpdatedWorkload"},
		},
		"finished": {
			why: "a finished job ends its workload", job: aJob(running, finished), workload: aWorkload(admitted),
			want: outcome{Finished: "Succeeded"},
		},
		"finished, a pod still ending": {
			why:      "quota is released only when the pods are gone",
			job:      aJob(running, finished),
			workload: aWorkload(admitted),
			live:     1,
			leaving:  true,
		},
		"workload being deleted, job running": {
			why: "without a workload nothing may run",
			job: aJob(running),
			workload: aWorkload(
				admitted,
				func(w *kueue.Workload) { w.DeletionTimestamp = &metav1.Time{Time: now} },
			),
			live: 2,
			want: outcome{Suspended: new(true), Selector: ssd, Event: "Stopped"},
		},
		"T3: workload being deleted, a pod runs": {
			why: "its quota goes with the last pod",
			job: aJob(stopped),
			workload: aWorkload(
				admitted,
				func(w *kueue.Workload) { w.DeletionTimestamp = &metav1.Time{Time: now} },
			),
			live: 1,
		},
		"T3: workload being deleted, its Job counts a pod": {
			why: "the pod may not be seen yet", job: aJob(stopped, func(j *batchv1.Job) { j.Status.Active = 1 }),
			workload: aWorkload(admitted, func(w *kueue.Workload) { w.DeletionTimestamp = &metav1.Time{Time: now} }),
		},
		"asks for more while it runs": {
			why:      "there are no places for more, and pods that hang tell no user why",
			job:      aJob(running, injected, wider),
			workload: aWorkload(admitted),
			live:     2,
			want: outcome{
				Suspended: new(true),
				Selector:  map[string]string{"disk": "ssd", "gpu": "h100"},
				Event:     "Stopped",
			},
		},
		"asked for more, stopped": {
			why: "it is queued again for all of them", job: aJob(stopped, wider), workload: aWorkload(admitted),
			want: outcome{Removed: true, Event: "DeletedWorkload"},
		},
		"asks for more before it starts again": {
			why:      "what it carries of its first start is no other size, but more pods are",
			job:      aJob(stopped, wider),
			workload: aWorkload(notEvicted, admitted),
			want:     outcome{Removed: true, Event: "DeletedWorkload"},
		},
		"asks for fewer, whose pods still end": {
			why: "quota is given back when pods are gone; those that it asks for do not wait for more",
			job: aJob(
				running,
				shrunk,
				func(j *batchv1.Job) { j.Annotations = nil },
			),
			workload: aWorkload(admitted),
			live:     2,
			want:     outcome{Spec: true},
		},
		"asks for fewer": {
			why: "what is above its size is given back at once",
			job: aJob(
				running,
				shrunk,
				func(j *batchv1.Job) { j.Annotations = nil },
			),
			workload: aWorkload(admitted),
			live:     1,
			want:     outcome{Reclaimed: 1},
		},
		"asks for none": {
			why: "it holds nothing, and is no job that has ended",
			job: aJob(running, noPods), workload: aWorkload(admitted), want: outcome{Reclaimed: 2},
		},
		"asks for fewer, of which some are done": {
			why: "each is given back once",
			job: aJob(running, func(j *batchv1.Job) {
				j.Spec.Parallelism, j.Spec.Completions, j.Status.Succeeded = new(int32(3)), new(int32(3)), 1
			}),
			workload: aWorkload(admitted, func(w *kueue.Workload) {
				w.Spec.PodSets[0].Count, w.Status.Admission.PodSetAssignments[0].Count = 6, new(int32(6))
			}), live: 2, want: outcome{Reclaimed: 4},
		},
		"asks again for what it gave back": {
			why:      "what grows asks",
			job:      aJob(running, injected),
			workload: aWorkload(admitted, gaveBack(1)),
			live:     2,
			want: outcome{
				Suspended: new(true),
				Selector:  map[string]string{"disk": "ssd", "gpu": "h100"},
				Event:     "Stopped",
			},
		},
		"asked again for what it gave back, stopped": {
			why: "it is queued again for all of them", job: aJob(stopped), workload: aWorkload(admitted, gaveBack(1)),
			want: outcome{Removed: true, Event: "DeletedWorkload"},
		},
		"waits for the place of a deleted pod": {
			why:      "no node refuses it",
			job:      aJob(running),
			workload: aWorkload(admitted),
			live:     2,
			behind:   true,
			want:     outcome{Again: time.Minute},
		},
		"workload being deleted, pods gone": {
			why: "it may go now", job: aJob(stopped),
			workload: aWorkload(admitted, func(w *kueue.Workload) { w.DeletionTimestamp = &metav1.Time{Time: now} }),
			want:     outcome{Unpin: true},
		},
		"could not start": {
			why: "trying again would find the same contradiction", job: aJob(), workload: aWorkload(couldNotStart),
		},
		"could not start, its template was changed": {
			why: "its author may have mended it: its Workload makes way for one that asks anew",
			job: aJob(
				func(j *batchv1.Job) { j.Spec.Template.Spec.NodeSelector = nil },
			),
			workload: aWorkload(couldNotStart),
			want:     outcome{Removed: true, Event: "DeletedWorkload"},
		},
		"could not start, its labels were changed": {
			why: "labels of pods contradict too",
			job: aJob(
				func(j *batchv1.Job) { j.Spec.Template.Labels = map[string]string{"a": "1"} },
			),
			workload: aWorkload(couldNotStart),
			want:     outcome{Removed: true, Event: "DeletedWorkload"},
		},
		"could not start, moved to another queue": {
			why: "there the flavors may suit it", job: aJob(),
			workload: aWorkload(couldNotStart, func(w *kueue.Workload) { w.Spec.QueueName = "former-queue" }),
			want:     outcome{Removed: true, Event: "DeletedWorkload"},
		},
		"could not start, still carries an earlier admission": {
			why:      "what we put into it is no change of its author's",
			job:      aJob(stopped, injected),
			workload: aWorkload(preempted, couldNotStart),
		},
		"could not start, unsuspended by hand": {
			why: "without an admission nothing runs", job: aJob(running), workload: aWorkload(couldNotStart),
			want: outcome{Suspended: new(true), Selector: ssd, Event: "Suspended"},
		},
		"ended well, changed later": {
			why:      "what has run does not run again",
			job:      aJob(finished, func(j *batchv1.Job) { j.Spec.Template.Spec.NodeSelector = nil }),
			workload: aWorkload(condition(kueue.WorkloadFinished, kueue.ReasonSucceeded)),
		},
		"admission contradicts the manifest": {
			why: "a label that the user set otherwise cannot be overridden",
			job: aJob(func(j *batchv1.Job) { j.Spec.Template.Spec.NodeSelector = map[string]string{"gpu": "a100"} }),
			workload: aWorkload(admitted, func(w *kueue.Workload) {
				w.Spec.PodSets[0].Template.Spec.NodeSelector = map[string]string{"gpu": "a100"}
			}),
			want: outcome{Finished: "FailedToStart", Event: "FailedToStart"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := facts{
				job:      c.job,
				adapter:  batchjob.Adapter{},
				queue:    "default-queue",
				priority: admission.Priority{Value: ptr.To[int32](5)},
				workload: c.workload,
				pods: admission.Pods{
					Live:    c.live,
					Of:      map[kueue.PodSetReference]int{"main": c.live},
					Behind:  c.behind,
					Refused: c.refused,
					Nodes:   c.nodes,
					Bound:   c.bound,
					Why:     "volume node affinity conflict",
				},
				now:       now,
				yields:    c.yields,
				lifecycle: workloadlifecycle.Config{MaxStopNotice: time.Minute},
				infos:     []jobs.PodSetInfo{{Name: "main", Count: 2, NodeSelector: map[string]string{"gpu": "h100"}}},
			}
			if c.leaving {
				s.pods.Leaving = c.live
			}
			s.infos, s.conflict = admission.Updated(s.infos, checksOf(c.workload))
			if c.class != "" {
				s.priority = admission.Priority{
					Value: new(int32(9)),
					Class: aWorkload(ofClass(c.class)).Spec.PriorityClassRef,
				}
			}
			if c.awaited {
				s.lifecycle.PodsReady = &workloadlifecycle.PodsReady{Timeout: time.Minute, Awaited: c.blocks}
			}
			if s.readySince = now.Add(-c.readyFor); c.readyFor == 0 {
				s.readySince = now.Add(-24 * time.Hour)
			}
			if c.noQueue {
				s.queue = ""
			}
			var err error
			if s.facts, err = s.adapter.Read(c.job); err != nil {
				t.Fatal(err)
			}
			got, err := decide(s)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, describe(c.workload, got)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.why, diff)
			}
		})
	}
}

func checksOf(w *kueue.Workload) []kueue.AdmissionCheckState {
	if w == nil {
		return nil
	}
	return w.Status.AdmissionChecks
}
