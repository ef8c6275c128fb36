package job

import (
	"math"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// How many pods can be taken away from a Job that goes on all the same.
func TestReplaces(t *testing.T) {
	on := func(action batchv1.PodFailurePolicyAction, kind corev1.PodConditionType) batchv1.PodFailurePolicyRule {
		return batchv1.PodFailurePolicyRule{
			Action:          action,
			OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{{Type: kind}},
		}
	}
	const ignore, count = batchv1.PodFailurePolicyActionIgnore, batchv1.PodFailurePolicyActionCount
	exit := batchv1.PodFailurePolicyRule{
		Action:      batchv1.PodFailurePolicyActionFailJob,
		OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{},
	}
	policy := func(rules ...batchv1.PodFailurePolicyRule) func(*batchv1.Job) {
		return func(j *batchv1.Job) { j.Spec.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: rules} }
	}
	for name, tc := range map[string]struct {
		why  string
		job  func(*batchv1.Job)
		want int32
	}{
		"default":     {"Kubernetes' own", func(*batchv1.Job) {}, 6},
		"some failed": {"they are gone", func(j *batchv1.Job) { j.Status.Failed = 2 }, 4},
		"being counted": {"they are about to be", func(j *batchv1.Job) {
			j.Status.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{Failed: []types.UID{"a"}}
		}, 5},
		"more than there": {"there is no debt", func(j *batchv1.Job) { j.Status.Failed = 9 }, 0},
		"none":            {"the author wants none", func(j *batchv1.Job) { j.Spec.BackoffLimit = new(int32(0)) }, 0},
		"by index": {"what is left of each is not known", func(j *batchv1.Job) {
			j.Spec.BackoffLimitPerIndex, j.Spec.BackoffLimit = new(int32(3)), new(int32(math.MaxInt32))
		}, 0},
		"waits": {"it has no pods", func(j *batchv1.Job) { j.Spec.Suspend = new(true) }, 0},
		"has ended": {"nothing is made anew", func(j *batchv1.Job) {
			j.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: corev1.ConditionTrue}}
		}, 0},
		"ignored":         {"disruptions do not count", policy(on(ignore, corev1.DisruptionTarget)), math.MaxInt32},
		"counted":         {"they do, whatever comes later", policy(on(count, corev1.DisruptionTarget), on(ignore, corev1.DisruptionTarget)), 6},
		"exit code first": {"it may be a reason to fail", policy(exit, on(ignore, corev1.DisruptionTarget)), 6},
		"something else":  {"the rule is not about that", policy(on(ignore, "Other")), 6},
	} {
		j := &batchv1.Job{}
		tc.job(j)
		if got, _ := replaces(j, nil); got != tc.want {
			t.Errorf("%s: %s: %d, want %d", name, tc.why, got, tc.want)
		}
	}
}
