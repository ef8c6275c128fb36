package job

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/admission"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// Of several Workloads of a job its own name counts first, then quota, then age.
func TestChoose(t *testing.T) {
	w := func(name string, age time.Duration, holds bool) kueue.Workload {
		out := kueue.Workload{
			ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(now.Add(-age))},
		}
		if holds {
			out.Status.Admission = &kueue.Admission{}
		}
		return out
	}
	for want, tc := range map[string]struct {
		why string
		all []kueue.Workload
	}{
		"own":  {"it would be made again", []kueue.Workload{w("old", time.Hour, true), w("own", 0, false)}},
		"runs": {"its pods exist", []kueue.Workload{w("old", time.Hour, false), w("runs", 0, true)}},
		"old":  {"it was there first", []kueue.Workload{w("new", 0, false), w("old", time.Hour, false), w("newer", 0, false)}},
		"a":    {"always the same one", []kueue.Workload{w("b", 0, false), w("a", 0, false)}},
	} {
		for range 2 {
			if got := choose(tc.all, "own").Name; got != want {
				t.Errorf("%s is chosen, should be %s: %s", got, want, tc.why)
			}
			slices.Reverse(tc.all)
		}
	}
}

// All pods of a part have to be counted with the whole, of every pod set.
func TestCounted(t *testing.T) {
	set := func(of string) kueue.PodSet {
		return kueue.PodSet{
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{kueue.WorkloadAnnotation: of}},
			},
		}
	}
	whole := aWorkload(named("w"))
	for want, sets := range map[bool][][]kueue.PodSet{
		true: {nil, {set("w")}, {set("w"), set("w")}}, false: {{{}}, {set("v")}, {set("w"), set("v")}},
	} {
		for i, s := range sets {
			if got := counted(jobs.Facts{PodSets: s}, whole); got != want {
				t.Errorf("case %d: counted: %t, want %t", i, got, want)
			}
		}
	}
}

// What an admission adds to pods, pod set by pod set.
func TestInfos(t *testing.T) {
	flavor := func(name, label, key string) *kueue.ResourceFlavor {
		return &kueue.ResourceFlavor{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: kueue.ResourceFlavorSpec{
			NodeLabels: map[string]string{label: name}, Tolerations: []corev1.Toleration{{Key: key}},
		}}
	}
	flavors := []client.Object{
		flavor("f", "kind", "spot"),
		flavor("g", "zone", "spot"),
		flavor("h", "zone", "gpu"),
	}
	w := aWorkload()
	w.Spec.QueueName = kueue.LocalQueueName(strings.Repeat("q", 64)) // too long for a label
	w.Status.Admission = &kueue.Admission{ClusterQueue: "c", PodSetAssignments: []kueue.PodSetAssignment{
		{
			Name:    "a",
			Count:   new(int32(2)),
			Flavors: map[corev1.ResourceName]kueue.ResourceFlavorReference{"cpu": "f", "memory": "f", "gpu": "g"},
		},
		{Name: "b", Flavors: map[corev1.ResourceName]kueue.ResourceFlavorReference{"cpu": "h"}},
	}}
	info := func(name string, count int32, selector map[string]string, keys ...string) jobs.PodSetInfo {
		out := jobs.PodSetInfo{
			Name:         name,
			Count:        count,
			NodeSelector: selector,
			Annotations:  map[string]string{kueue.WorkloadAnnotation: w.Name},
			Labels:       map[string]string{kueue.PodSetLabel: name, kueue.ClusterQueueNameLabel: "c"},
		}
		for _, k := range keys {
			out.Tolerations = append(out.Tolerations, corev1.Toleration{Key: k})
		}
		return out
	}
	want := []jobs.PodSetInfo{
		info(
			"a",
			2,
			map[string]string{"kind": "f", "zone": "g"},
			"spot",
		),
		info("b", 0, map[string]string{"zone": "h"}, "gpu"),
	}
	got, err := newBench(t, nil, flavors...).infos(t, w)
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, d)
	}
	if _, err := newBench(t, nil, flavors[1:]...).infos(t, w); err == nil {
		t.Error("pods would run on any nodes if a flavor cannot be read")
	}
	bare, err := newBench(t, func(o *Options) { o.Labels.NoQueues = true }, flavors...).infos(t, w)
	if err != nil || bare[0].Labels[kueue.ClusterQueueNameLabel] != "" {
		t.Errorf("queues are told though that is off: %v %v", bare[0].Labels, err)
	}
	w.Spec.QueueName = "q"
	if got, err = newBench(
		t,
		nil,
		flavors...).infos(
		t,
		w,
	); err != nil ||
		got[0].Labels[kueue.LocalQueueNameLabel] != "q" {
		t.Errorf("%v %v", got[0].Labels, err)
	}
	for says, name := range map[string]kueue.PodSetReference{"": "b", "admission check k: the job has no pod set x": "x"} {
		check := kueue.AdmissionCheckState{
			Name:          "k",
			PodSetUpdates: []kueue.PodSetUpdate{{Name: name, Labels: map[string]string{"new": "1"}}},
		}
		next, err := admission.Updated(slices.Clone(want), []kueue.AdmissionCheckState{check})
		if err != nil != (says != "") || err != nil && err.Error() != says ||
			says == "" && (next[1].Labels["new"] != "1" || next[0].Labels["new"] != "") {
			t.Errorf("%v: %+v", err, next)
		}
	}
	against := kueue.AdmissionCheckState{
		Name:          "k",
		PodSetUpdates: []kueue.PodSetUpdate{{Name: "b", NodeSelector: map[string]string{"zone": "x"}}},
	}
	if _, err := admission.Updated(
		slices.Clone(want),
		[]kueue.AdmissionCheckState{against},
	); err == nil ||
		!strings.HasPrefix(err.Error(), "admission check k, pod set b: nodeSelector zone") {
		t.Errorf("%v", err)
	}
}

// A Workload without a controller leads to the jobs that name it.
func TestJobsOfPrebuilt(t *testing.T) {
	names := func(key string) func(*batchv1.Job) {
		return func(j *batchv1.Job) {
			j.Name, j.Annotations = key, map[string]string{kueue.PrebuiltWorkloadLabel: "w-1"}
		}
	}
	if got := IndexPrebuilt(aJob(names("a"))); len(got) != 1 || got[0] != "w-1" {
		t.Errorf("a names %v", got)
	}
	if got := IndexPrebuilt(aJob()); got != nil {
		t.Errorf("it names none, not %v", got)
	}
	b := newBench(t, nil, aJob(names("a")), aJob(names("b")), aJob(), aJob(names("c"), inLab))
	for owned, want := range map[bool]int{false: 2, true: 0} {
		w := aWorkload(named("w-1"))
		if w.OwnerReferences = nil; owned {
			w.OwnerReferences = []metav1.OwnerReference{{Name: "a", Controller: new(true)}}
		}
		q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
		b.jobOfPrebuilt().Create(t.Context(), event.CreateEvent{Object: w}, q)
		if q.Len() != want {
			t.Errorf("w-1, controlled by a job %t, leads to %d jobs, should lead to %d", owned, q.Len(), want)
		}
		q.ShutDown()
	}
	got := b.jobsWith(t.Context(), client.InNamespace("blue"), client.MatchingFields{PrebuiltIndex: "w-1"})
	if len(got) != 2 || got[0].Name != "a" || got[1].Name != "b" {
		t.Errorf("w-1 leads to %v", got)
	}
}
