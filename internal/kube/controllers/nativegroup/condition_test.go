package nativegroup

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/podmeta"
)

// group is PodGroup g, a gang of so many pods; of none if they start one by one.
func group(least int32) *schedulingv1beta1.PodGroup {
	g := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "g"}}
	if least > 0 {
		g.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: least}
	} else {
		g.Spec.SchedulingPolicy.Basic = &schedulingv1beta1.BasicSchedulingPolicy{}
	}
	return g
}

// queued is a pod of g that waits for admission.
func queued(name string, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "blue",
			Name:      name,
			Labels:    map[string]string{kueue.ManagedLabel: "true", kueue.PodGroupNameLabel: "g"},
			Annotations: map[string]string{
				podmeta.PodGroupKindAnnotation: podmeta.NativeGroup,
				kueue.RoleHashAnnotation:       "r",
			},
		},
		Spec: corev1.PodSpec{SchedulingGroup: &corev1.PodSchedulingGroup{PodGroupName: new("g")}},
	}
	for _, c := range change {
		c(p)
	}
	return p
}

func onNode(p *corev1.Pod) { p.Spec.NodeName = "n" }

func ofOthers(p *corev1.Pod) { p.Labels, p.Annotations = nil, nil }

func counted(p *corev1.Pod) {
	p.Labels, p.Annotations = nil, map[string]string{kueue.WorkloadAnnotation: "job"}
}

// waiting is a Workload with a reason to wait, reserved one that has quota.
func waiting() *kueue.Workload { return workload(metav1.ConditionFalse, "no rack has room") }

func reserved() *kueue.Workload { return workload(metav1.ConditionTrue, "reserved") }

func workload(status metav1.ConditionStatus, message string) *kueue.Workload {
	w := &kueue.Workload{}
	w.Status.Conditions = []metav1.Condition{
		{Type: kueue.WorkloadQuotaReserved, Status: status, Message: message},
	}
	return w
}

// What a PodGroup says of its pods, by what there is.
func TestCondition(t *testing.T) {
	const yes, no = metav1.ConditionTrue, metav1.ConditionFalse
	pods := func(all ...*corev1.Pod) []*corev1.Pod { return all }
	for name, tc := range map[string]struct {
		why  string
		is   facts
		want metav1.ConditionStatus // "" if nothing is written
		says string
	}{
		"all have nodes": {
			"it is what is meant", facts{group(2), pods(queued("a", onNode), queued("b", onNode)), reserved(), ""}, yes, "start together: 2",
		},
		"a pod of a Job has a node": {
			"its PodGroup is made by Kubernetes", facts{group(1), pods(queued("a", counted, onNode)), reserved(), ""}, yes, "start together: 1",
		},
		"some have nodes": {
			"the others may be refused", facts{group(2), pods(queued("a", onNode), queued("b")), reserved(), ""}, no, "has quota",
		},
		"one of those that start one by one has": {
			"there is no more to wait for", facts{group(0), pods(queued("a", onNode), queued("b")), nil, ""}, yes, "",
		},
		"no room":                  {"the reason is the job's", facts{group(2), pods(queued("a"), queued("b")), waiting(), ""}, no, "no rack has room"},
		"a Job waits":              {"it has no pods yet", facts{group(2), nil, waiting(), ""}, no, "no rack has room"},
		"it was not looked at yet": {"there is no reason yet", facts{group(2), nil, &kueue.Workload{}, ""}, "", ""},
		"they are not queued":      {"so it says why", facts{group(2), pods(queued("a")), nil, "one is missing"}, no, "one is missing"},
		"they are queued soon":     {"there is nothing to be said", facts{group(2), pods(queued("a")), nil, ""}, "", ""},
		"pods of others":           {"their scheduler says it", facts{group(1), pods(queued("a", ofOthers, onNode)), nil, ""}, "", ""},
		"no pods":                  {"nobody knows whose it is", facts{group(1), nil, nil, ""}, "", ""},
	} {
		got := condition(tc.is)
		switch {
		case got == nil && tc.want == "":
		case got == nil || got.Status != tc.want || !strings.Contains(got.Message, tc.says):
			t.Errorf("%s (%s): %+v", name, tc.why, got)
		case got.Reason != map[metav1.ConditionStatus]string{yes: "Scheduled", no: "Unschedulable"}[tc.want]:
			t.Errorf("%s: reason %s", name, got.Reason)
		}
	}
}
