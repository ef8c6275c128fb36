package gang

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	podgroup "github.com/mlbatch/mlbatch/api/podgroup/v1alpha1"
	"github.com/mlbatch/mlbatch/internal/core"
)

func TestFromWorkload(t *testing.T) {
	at := metav1.NewTime(time.Unix(2000, 0))
	wl := func(change func(*kueue.Workload)) *kueue.Workload {
		w := &kueue.Workload{ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "job"}}
		w.Spec.PodSets = []kueue.PodSet{{Name: "head", Count: 1}, {Name: "work", Count: 3}}
		w.Status.Conditions = []metav1.Condition{
			{Type: kueue.WorkloadAdmitted, Status: metav1.ConditionTrue, LastTransitionTime: at},
		}
		count, one := int32(3), int32(1)
		node := "n1"
		w.Status.Admission = &kueue.Admission{PodSetAssignments: []kueue.PodSetAssignment{
			{Name: "head", Count: &one, TopologyAssignment: &kueue.TopologyAssignment{
				Levels: []string{core.HostnameLabel},
				Slices: []kueue.TopologyAssignmentSlice{{
					DomainCount:    1,
					ValuesPerLevel: []kueue.TopologyAssignmentSliceLevelValues{{Universal: &node}},
					PodCounts:      kueue.TopologyAssignmentSlicePodCounts{Universal: &one},
				}},
			}},
			{Name: "work", Count: &count},
		}}
		w.Status.ReclaimablePods = []kueue.ReclaimablePod{{Name: "work", Count: 2}}
		change(w)
		return w
	}
	key := Key{KindWorkload, "blue", "job"}
	sets := []Set{
		{Name: "head", Count: 1, Places: []core.Place{placed("n1", 1)}},
		{Name: "work", Count: 3, Reclaimed: 2},
	}
	after := []Set{sets[0], {Name: "work", Count: 3, Reclaimed: 2, Later: true}}
	smaller := []Set{sets[0], {Name: "work", Count: 3, Unasked: 2}}
	cases := map[string]struct {
		why  string
		in   *kueue.Workload
		want Gang
	}{
		"later": {
			why: "the head does not wait for those that wait for it",
			in: wl(
				func(w *kueue.Workload) { w.Annotations = map[string]string{kueue.LaterPodSetsAnnotation: "x,work"} },
			),
			want: Gang{Key: key, Admitted: true, AdmittedAt: at.Time, Wait: plannedWait, Sets: after},
		},
		"smaller": {
			why: "pods that nobody asks for are not waited for", in: wl(func(w *kueue.Workload) {
				w.Status.ReclaimablePods, w.Annotations = nil, map[string]string{
					kueue.FewerPodsAnnotation: "x=0,work=1,head=7",
				}
			}),
			want: Gang{Key: key, Admitted: true, AdmittedAt: at.Time, Wait: plannedWait, Sets: smaller},
		},
		"smaller, its quota given back": {
			why: "what is not asked for is left out once", in: wl(func(w *kueue.Workload) {
				w.Annotations = map[string]string{kueue.FewerPodsAnnotation: "work=1"}
			}),
			want: Gang{Key: key, Admitted: true, AdmittedAt: at.Time, Wait: plannedWait, Sets: sets},
		},
		"admitted": {
			why:  "one set has its nodes, the other is free to choose",
			in:   wl(func(*kueue.Workload) {}),
			want: Gang{Key: key, Admitted: true, AdmittedAt: at.Time, Wait: plannedWait, Sets: sets},
		},
		"quota only": {
			why: "quota is reserved but a check has not passed: nothing starts",
			in: wl(func(w *kueue.Workload) {
				w.Status.Conditions[0].Status = metav1.ConditionFalse
			}),
			want: Gang{Key: key, AdmittedAt: at.Time, Wait: plannedWait, Sets: sets},
		},
		"evicted": {
			why: "its quota is free once its pods are gone: none may come after that",
			in: wl(func(w *kueue.Workload) {
				w.Status.Conditions = append(
					w.Status.Conditions,
					metav1.Condition{Type: kueue.WorkloadEvicted, Status: metav1.ConditionTrue},
				)
			}),
			want: Gang{
				Key:        key,
				Admitted:   true,
				Ends:       "is evicted: its pods do not start",
				AdmittedAt: at.Time,
				Wait:       plannedWait,
				Sets:       sets,
			},
		},
		"deleted": {
			why: "so it is with one that goes",
			in:  wl(func(w *kueue.Workload) { w.DeletionTimestamp = &at }),
			want: Gang{
				Key:        key,
				Admitted:   true,
				Ends:       "is being deleted: its pods do not start",
				AdmittedAt: at.Time,
				Wait:       plannedWait,
				Sets:       sets,
			},
		},
		"ended": {
			why: "and with one that has no quota any more, whatever it was admitted with",
			in: wl(func(w *kueue.Workload) {
				w.Status.Conditions = append(
					w.Status.Conditions,
					metav1.Condition{Type: kueue.WorkloadFinished, Status: metav1.ConditionTrue},
				)
			}),
			want: Gang{
				Key:        key,
				Admitted:   true,
				Ends:       "has ended: its pods do not start",
				AdmittedAt: at.Time,
				Wait:       plannedWait,
				Sets:       sets,
			},
		},
		"admitted again": {
			why: "the pod that was done before is not one of the two that start together",
			in: wl(func(w *kueue.Workload) {
				two := int32(2)
				w.Status.Admission.PodSetAssignments[1].Count = &two
				w.Status.ReclaimablePods[0].Count = 1
			}),
			want: Gang{
				Key:        key,
				Admitted:   true,
				AdmittedAt: at.Time,
				Wait:       plannedWait,
				Sets:       []Set{sets[0], {Name: "work", Count: 2}},
			},
		},
		"waiting": {
			why:  "no quota, no plan",
			in:   wl(func(w *kueue.Workload) { w.Status = kueue.WorkloadStatus{} }),
			want: Gang{Key: key, Wait: plannedWait},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, FromWorkload(c.in)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.why, diff)
			}
		})
	}
}

func TestFromPodGroup(t *testing.T) {
	short := int32(7)
	in := &podgroup.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: "red", Name: "g"},
		Spec:       podgroup.PodGroupSpec{MinMember: 4, ScheduleTimeoutSeconds: &short},
	}
	want := Gang{
		Key:      Key{KindPodGroup, "red", "g"},
		Admitted: true,
		Wait:     7 * time.Second,
		Sets:     []Set{{Count: 4}},
	}
	if diff := cmp.Diff(want, FromPodGroup(in)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestKeyOf(t *testing.T) {
	pod := func(workload, set, group string) *corev1.Pod {
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace:   "ns",
				Name:        "p",
				Labels:      map[string]string{},
				Annotations: map[string]string{},
			},
		}
		for key, value := range map[string]string{kueue.PodSetLabel: set, podgroup.PodGroupLabel: group} {
			if value != "" {
				p.Labels[key] = value
			}
		}
		if workload != "" {
			p.Annotations[kueue.WorkloadAnnotation] = workload
		}
		return p
	}
	cases := map[string]struct {
		why  string
		pod  *corev1.Pod
		want Key
	}{
		"plain":    {"other pods are not our business", pod("", "", ""), Key{}},
		"planned":  {"a workload is a gang", pod("w", "main", ""), Key{KindWorkload, "ns", "w"}},
		"grouped":  {"a pod group is a gang", pod("", "", "g"), Key{KindPodGroup, "ns", "g"}},
		"both":     {"the plan rules", pod("w", "main", "g"), Key{KindWorkload, "ns", "w"}},
		"only set": {"a pod set alone names no workload", pod("", "main", ""), Key{}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, _ := KeyOf(c.pod)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.why, diff)
			}
		})
	}
}
