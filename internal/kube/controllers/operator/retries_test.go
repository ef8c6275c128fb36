package operator

import (
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/engine/podplan"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/test/toy"
)

// TestPolicyOfAJobThatRunsByAPlan: what the job or its queue says decides what follows a failed pod, where its kind takes
// that; what the author said in the words of the kind, and what makes no sense, leaves it as it was. A pod that fails is
// made anew where nobody says otherwise.
func TestPolicyOfAJobThatRunsByAPlan(t *testing.T) {
	for name, c := range map[string]struct {
		why        string
		says       string
		queue      string
		takes, own bool
		within     bool   // an AppWrapper
		want       string // of the outcome
		told       string
	}{
		"rule":             {why: "it says Fail", says: "UserError exit 7: Fail", takes: true, want: "Failed", told: `x-1 failed: container  exited with code 7, Error; no retry mends that (rule "UserError exit 7: Fail" of the job)`},
		"another code":     {why: "nothing is said of it", says: "exit 8: Fail", takes: true},
		"queue":            {why: "it is for all of it", queue: "exit 7: Fail", takes: true, want: "Failed", told: "of ClusterQueue team"},
		"queue and author": {why: "the author's word goes first", queue: "exit 7: Fail", takes: true, own: true},
		"queue of another": {why: "the job that it is in follows that", queue: "exit 7: Fail", takes: true, within: true},
		"job and author":   {why: "both are the author's", says: "exit 7: Fail", takes: true, own: true, want: "Failed"},
		"no sense":         {why: "it changes nothing", says: "exit 7", takes: true},
		"kind":             {why: "it has words of its own", says: "exit 7: Fail"},
		"defaults":         {why: "once may be chance", takes: true},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(
				t,
				aFlavor(),
				admitted("x-uid"),
				aToy("blue", func(x *toy.Toy) {
					x.Labels = map[string]string{kueue.QueueNameLabel: "default-queue"}
					if c.within {
						x.OwnerReferences = []metav1.OwnerReference{
							{
								APIVersion: "workload.codeflare.dev/v1beta2",
								Kind:       "AppWrapper",
								Name:       "aw",
								UID:        "aw",
								Controller: new(true),
							},
						}
					}
					if c.says != "" {
						x.Annotations = map[string]string{kueue.RetryPolicyAnnotation: c.says}
					}
				}),
				&kueue.LocalQueue{
					ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "default-queue"},
					Spec:       kueue.LocalQueueSpec{ClusterQueue: "team"},
				},
				&kueue.ClusterQueue{
					ObjectMeta: metav1.ObjectMeta{
						Name:        "team",
						Annotations: map[string]string{kueue.RetryPolicyAnnotation: c.queue},
					},
				},
			)
			b.r.kind.Running.Retries = c.takes
			compile := b.r.kind.Running.Operator.Compile
			b.r.kind.Running.Operator.Compile = func(o jobs.Object) (*jobs.Plan, error) {
				p, err := compile(o)
				if p != nil {
					p.Own = c.own
				}
				return p, err
			}
			b.run()
			b.becomes("x-0", corev1.PodRunning)
			b.becomes("x-1", corev1.PodFailed, exited(7))
			b.run()
			is := b.recovery("blue")
			if is.Outcome != c.want || !strings.Contains(is.Message, c.told) {
				t.Errorf("%s: outcome %q, %q; want %q, %s", c.why, is.Outcome, is.Message, c.want, c.told)
			}
			if c.want == "" && (is.Failures != 1 || len(b.pods()) != 3) {
				t.Errorf("%s: %d failures, pods %v", c.why, is.Failures, b.podNames())
			}
		})
	}
}

// TestPolicyOfJobsMadeOfJobs: the first pod of a Job that failed says how, and all begin anew.
func TestPolicyOfJobsMadeOfJobs(t *testing.T) {
	const limit = batchv1.JobReasonBackoffLimitExceeded
	for name, c := range map[string]struct {
		code     int32
		reason   string
		outcome  string
		failures int32
	}{
		"retry":             {139, limit, "", 1},
		"fail":              {3, limit, "Failed", 0},
		"nothing said":      {4, limit, "", 1},
		"policy of the Job": {3, batchv1.JobReasonPodFailurePolicy, "", 1}, // its author's word, and what the kind makes of it
	} {
		b := newBench(t, aToy("lab", ofJobs, func(x *toy.Toy) {
			x.Annotations = map[string]string{kueue.RetryPolicyAnnotation: "Crash: Retry; UserError exit 3: Fail"}
		}))
		b.r.kind.Running.Retries = true
		b.run()
		j := b.jobs()[1]
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "lab",
			Name:      "x-1-abcde",
			UID:       "pod-uid",
			OwnerReferences: []metav1.OwnerReference{
				*metav1.NewControllerRef(&j, batchv1.SchemeGroupVersion.WithKind("Job")),
			},
		}}
		if err := b.r.Client.Create(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		b.becomes("x-1-abcde", corev1.PodFailed, exited(c.code))
		b.says("x-1", condition(batchv1.JobFailed, c.reason))
		b.run()
		if is := b.recovery(
			"lab",
		); is.Outcome != c.outcome || is.Failures != c.failures ||
			is.Attempt != c.failures {
			t.Errorf(
				"%s: outcome %q, %d failures, attempt %d: %s",
				name,
				is.Outcome,
				is.Failures,
				is.Attempt,
				is.Message,
			)
		}
	}
}

// TestJobsThatFailForTheirNodesCostNothing: a Job whose pod lost its node is made anew with all others, at once and
// whatever its author said of failures; one that fails by itself is when it has failed.
func TestJobsThatFailForTheirNodesCostNothing(t *testing.T) {
	for name, c := range map[string]struct {
		why      string
		disturbs func(*corev1.Pod)
		of       batchv1.JobConditionType
		failed   bool // the pod
		attempt  int32
		free     int32
		outcome  string
	}{
		"its pod has to go, and cannot say that it has ended": {
			why: "once that pod is gone, nobody knows why the Job failed", of: batchv1.JobFailureTarget,
			disturbs: disrupts("DeletionByTaintManager"), attempt: 1, free: 1,
		},
		"its pod was evicted, and has ended": {
			why: "who emptied the node is to blame", of: batchv1.JobFailed, failed: true,
			disturbs: disrupts("EvictionByEvictionAPI"), attempt: 1, free: 1,
		},
		"its pod failed, and others have not ended": {
			why: "the Job says when it has failed", of: batchv1.JobFailureTarget, failed: true,
		},
		"its pod failed by itself": {
			why: "its author allows no retry", of: batchv1.JobFailed, failed: true, outcome: "Failed",
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, aToy("lab", ofJobs))
			b.r.kind.Running.Retries = true
			compile := b.r.kind.Running.Operator.Compile
			b.r.kind.Running.Operator.Compile = func(o jobs.Object) (*jobs.Plan, error) {
				p, err := compile(o)
				if p != nil {
					p.Own, p.Retries = true, new(int32(0))
					for i := range p.Roles {
						p.Roles[i].OnFailure = podplan.RestartJob
					}
				}
				return p, err
			}
			b.run()
			j := b.jobs()[1]
			pod := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{
					Namespace: "lab", Name: "x-1-abcde", UID: "pod-uid", Finalizers: []string{"test/kept"},
					OwnerReferences: []metav1.OwnerReference{
						*metav1.NewControllerRef(&j, batchv1.SchemeGroupVersion.WithKind("Job")),
					},
				},
				Status: corev1.PodStatus{Phase: corev1.PodRunning},
			}
			if c.disturbs != nil {
				c.disturbs(pod)
			}
			if err := b.r.Client.Create(t.Context(), pod); err != nil {
				t.Fatal(err)
			}
			if c.failed {
				b.becomes("x-1-abcde", corev1.PodFailed, exited(1))
			} else if err := b.r.Client.Delete(t.Context(), pod); err != nil {
				t.Fatal(err)
			}
			b.says("x-1", condition(c.of, batchv1.JobReasonBackoffLimitExceeded))
			b.run()
			is := b.recovery("lab")
			if is.Attempt != c.attempt || is.FreeFailures != c.free || is.Failures != 0 || is.Outcome != c.outcome {
				t.Errorf("%s: attempt %d, %d free, %d failures, outcome %q; want %d, %d, 0, %q",
					c.why, is.Attempt, is.FreeFailures, is.Failures, is.Outcome, c.attempt, c.free, c.outcome)
			}
			if c.attempt > 0 && (len(is.Attempts.Attempts) != 1 || is.Attempts.Attempts[0].Pod != "x-1-abcde") {
				t.Errorf("its attempts are %+v, want one that its pod ended", is.Attempts.Attempts)
			}
		})
	}
}

// disrupts marks a pod as one that has to go for such a reason.
func disrupts(reason string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: reason,
		})
	}
}
