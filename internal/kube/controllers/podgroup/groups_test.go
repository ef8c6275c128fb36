package podgroup

import (
	"maps"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	api "github.com/mlbatch/mlbatch/api/leaderworkerset/v1"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/leaderworkerset"
)

// llm is a set with a group of a leader and two workers, and the StatefulSet of its
// leaders.
func llm() (*api.LeaderWorkerSet, *appsv1.StatefulSet) {
	spec := corev1.PodSpec{Containers: managed("x").Spec.Containers}
	l := &api.LeaderWorkerSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "llm", UID: "l1"},
		Spec: api.LeaderWorkerSetSpec{Replicas: new(int32(1)), LeaderWorkerTemplate: api.LeaderWorkerTemplate{
			Size: new(
				int32(3),
			),
			LeaderTemplate: &corev1.PodTemplateSpec{Spec: spec},
			WorkerTemplate: corev1.PodTemplateSpec{Spec: spec},
		}},
	}
	step, err := leaderworkerset.Next(&leaderworkerset.Observed{Object: l})
	if err != nil {
		return nil, nil
	}
	for _, o := range step.Create {
		if s, is := o.(*appsv1.StatefulSet); is {
			s.UID = "s1"
			return l, s
		}
	}
	return nil, nil
}

// member is a pod of group 0; leaders is the StatefulSet of the leaders.
func member(leaders *appsv1.StatefulSet, worker int) *corev1.Pod {
	name, role, owner := "llm-0", "leader", types.UID("s1")
	if worker > 0 {
		name, role, owner = "llm-0-"+strconv.Itoa(worker), "worker", "s2"
	}
	return managed(name, func(p *corev1.Pod) {
		maps.Copy(p.Labels, leaders.Spec.Template.Labels)
		maps.Copy(p.Annotations, leaders.Spec.Template.Annotations)
		p.Labels[api.GroupIndexLabel], p.Labels[kueue.PodGroupNameLabel] = "0", leaderworkerset.GroupName("llm", 0)
		p.Annotations[kueue.RoleHashAnnotation] = role
		p.OwnerReferences = []metav1.OwnerReference{
			{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "llm", UID: owner, Controller: new(true)},
		}
	})
}

func (b *bench) add(o client.Object, unit string) {
	b.t.Helper()
	if err := b.Client.Create(b.t.Context(), o); err != nil {
		b.t.Fatal(err)
	}
	b.settle(unit)
}

// The leader of a group brings the quota of all of it, whatever its workers ask for.
// Made anew, the group keeps it, and asks again if it asks for something else.
func TestLeaderWorkerSetGroup(t *testing.T) {
	unit := leaderworkerset.GroupName("llm", 0)
	set, leaders := llm()
	b := newBench(t, set, leaders, member(leaders, 0))
	b.settle(unit)
	w := b.workload(unit)
	if w == nil {
		t.Fatal("it has no Workload")
	}
	counts := map[kueue.PodSetReference]int32{}
	for _, ps := range w.Spec.PodSets {
		counts[ps.Name] = ps.Count
	}
	if diff := cmp.Diff(
		map[kueue.PodSetReference]int32{"leader": 1, "worker": 2},
		counts,
	); diff != "" || w.Labels[kueue.JobUIDLabel] != "l1" ||
		w.Annotations[kueue.JobOwnerGVKAnnotation] != leaderworkerset.GVK().
			String() ||
		w.Annotations[kueue.JobOwnerNameAnnotation] != "llm" ||
		w.Annotations[kueue.LaterPodSetsAnnotation] != "worker" {
		t.Fatalf("labels %v, annotations %v (-want +got):\n%s", w.Labels, w.Annotations, diff)
	}
	b.add(member(leaders, 1), unit)
	b.expect("nothing starts before it is admitted", "llm-0 held+, llm-0-1 held+")
	b.admit(unit)
	b.settle(unit)
	b.add(member(leaders, 2), unit)
	b.expect("all have quota", "llm-0 started+, llm-0-1 started+, llm-0-2 started+")
	b.add(managed("more", func(p *corev1.Pod) {
		*p = *member(leaders, 2)
		p.Name, p.UID = "llm-0-3", "uid-more"
	}), unit)
	b.expect(
		"one more has none, and is not queued by itself",
		"llm-0 started+, llm-0-1 started+, llm-0-2 started+, llm-0-3 held+",
	)
	var more corev1.Pod
	if err := b.Client.Get(
		t.Context(),
		types.NamespacedName{Namespace: "blue", Name: "llm-0-3"},
		&more,
	); err != nil ||
		more.Labels[kueue.PodGroupNameLabel] != unit {
		t.Errorf("%v, group %q", err, more.Labels[kueue.PodGroupNameLabel])
	}
	for _, name := range []string{"llm-0", "llm-0-1", "llm-0-2", "llm-0-3"} {
		b.remove(name)
	}
	b.settle(unit)
	if is := b.workload(unit); is == nil || is.Status.Admission == nil || is.DeletionTimestamp != nil {
		t.Fatalf("its pods come again: %+v", is)
	}
	b.add(member(leaders, 0), unit)
	b.expect("with the quota that it had", "llm-0 started+")
	b.remove("llm-0")
	b.settle(unit)
	reshaped := member(leaders, 0)
	reshaped.Annotations[jobs.GroupShapeAnnotation] = "other"
	b.add(reshaped, unit)
	b.expect("what asks for something else waits", "llm-0 held+")
	if is := b.workload(unit); is == nil || is.Status.Admission != nil {
		t.Error("it has the quota of what it was before")
	}
	b.remove("llm-0")
	if err := b.Client.Delete(t.Context(), leaders); err != nil {
		t.Fatal(err)
	}
	b.settle(unit)
	if is := b.workload(unit); is != nil {
		t.Errorf("the Workload outlives the set: %+v", is)
	}
}

// A group that is not wanted any more gives its quota back.
func TestLeaderWorkerSetIsScaledDown(t *testing.T) {
	unit := leaderworkerset.GroupName("llm", 0)
	set, leaders := llm()
	b := newBench(t, set, leaders, member(leaders, 0))
	b.settle(unit)
	b.admit(unit)
	b.settle(unit)
	leaders.Spec.Replicas = new(int32(0))
	if err := b.Client.Update(t.Context(), leaders); err != nil {
		t.Fatal(err)
	}
	b.remove("llm-0")
	b.settle(unit)
	if w := b.workload(unit); w != nil {
		t.Errorf("its Workload is left: %+v", w)
	}
}
