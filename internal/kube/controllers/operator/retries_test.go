package operator

import (
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
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
		want       string // of the outcome
		told       string
	}{
		"rule":             {why: "it says Fail", says: "UserError exit 7: Fail", takes: true, want: "Failed", told: `x-1 failed: container  exited with code 7, Error; no retry mends that (rule "UserError exit 7: Fail" of the job)`},
		"another code":     {why: "nothing is said of it", says: "exit 8: Fail", takes: true},
		"queue":            {why: "it is for all of it", queue: "exit 7: Fail", takes: true, want: "Failed", told: "of ClusterQueue team"},
		"queue and author": {why: "the author's word goes first", queue: "exit 7: Fail", takes: true, own: true},
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
			compile := b.r.kind.Running.Operated.Compile
			b.r.kind.Running.Operated.Compile = func(o jobs.Object) (*jobs.Plan, error) {
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
		if is := b.recovery("lab"); is.Outcome != c.outcome || is.Failures != c.failures || is.Attempt != c.failures {
			t.Errorf("%s: outcome %q, %d failures, attempt %d: %s", name, is.Outcome, is.Failures, is.Attempt, is.Message)
		}
	}
}
