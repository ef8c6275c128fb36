package convert_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
)

func condition(kind string, status metav1.ConditionStatus, at time.Time, reason string) metav1.Condition {
	return metav1.Condition{
		Type:               kind,
		Status:             status,
		Reason:             reason,
		Message:            "said so",
		LastTransitionTime: metav1.NewTime(at),
	}
}

// What a Workload says of itself, as the engine is told it.
func TestWorkload(t *testing.T) {
	created := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	later, latest := created.Add(time.Minute), created.Add(time.Hour)
	conditions := func(l ...metav1.Condition) func(*kueue.Workload) {
		return func(w *kueue.Workload) { w.Status.Conditions = l }
	}
	admitted := func(w *kueue.Workload) {
		w.Status.Admission = &kueue.Admission{
			ClusterQueue:      "c",
			PodSetAssignments: []kueue.PodSetAssignment{{Name: "main", Count: new(int32(2))}},
		}
	}
	holds := &core.Admission{
		Queue:   "c",
		PodSets: []core.PodSetAdmission{{Name: "main", Count: 2, Usage: core.Resources{}}},
	}
	deleted := metav1.NewTime(later)
	tests := map[string]struct {
		why   string
		make  []func(*kueue.Workload)
		rules convert.Rules
		want  func(*core.Workload)
	}{
		"waiting": {why: "all that there is to say"},
		"no priority": {
			why: "counts as 0", make: []func(*kueue.Workload){func(w *kueue.Workload) { w.Spec.Priority = nil }},
			want: func(w *core.Workload) { w.Priority = 0 },
		},
		"reserved": {
			why: "it holds quota and may not run yet",
			make: []func(*kueue.Workload){
				admitted,
				conditions(condition(kueue.WorkloadQuotaReserved, metav1.ConditionTrue, later, "x")),
			},
			want: func(w *core.Workload) { w.Admission, w.Reserved = holds, later },
		},
		"not reserved": {
			why: "since when it waits is no reservation",
			make: []func(*kueue.Workload){
				conditions(condition(kueue.WorkloadQuotaReserved, metav1.ConditionFalse, later, "x")),
			},
		},
		"running": {
			why: "all its pods are ready",
			make: []func(*kueue.Workload){
				admitted,
				conditions(
					condition(
						kueue.WorkloadAdmitted,
						metav1.ConditionTrue,
						later,
						"x",
					),
					condition(kueue.WorkloadPodsReady, metav1.ConditionTrue, later, "x"),
				),
			},
			want: func(w *core.Workload) { w.Admission, w.Admitted, w.Ready = holds, true, true },
		},
		"admitted once": {
			why: "a condition that outlived its admission says nothing",
			make: []func(*kueue.Workload){
				conditions(condition(kueue.WorkloadAdmitted, metav1.ConditionTrue, later, "x")),
			},
		},
		"of a job": {
			why: "people know it by its owner",
			make: []func(*kueue.Workload){func(w *kueue.Workload) {
				w.OwnerReferences = []metav1.OwnerReference{
					{Kind: "Other", Name: "o"},
					{Kind: "PyTorchJob", Name: "train", Controller: new(true)},
				}
			}},
			want: func(w *core.Workload) { w.Job = "PyTorchJob/train" },
		},
		"of a group of pods": {
			why: "all of them own it, and it has the name of the group",
			make: []func(*kueue.Workload){
				func(w *kueue.Workload) { w.Annotations[kueue.IsGroupWorkloadAnnotation] = "true" },
			},
			want: func(w *core.Workload) { w.Job = "Pod/n" },
		},
		"being evicted": {
			why: "it holds quota until that is released, and keeps its place in the queue",
			make: []func(*kueue.Workload){
				admitted,
				conditions(condition(kueue.WorkloadEvicted, metav1.ConditionTrue, later, "Preempted")),
			},
			want: func(w *core.Workload) { w.Admission, w.Evicting = holds, true },
		},
		"was evicted": {
			why: "it holds nothing any more",
			make: []func(*kueue.Workload){
				conditions(condition(kueue.WorkloadEvicted, metav1.ConditionTrue, later, "Preempted")),
			},
		},
		"deleted while it runs": {
			why:  "its quota is about to be free",
			make: []func(*kueue.Workload){admitted, func(w *kueue.Workload) { w.DeletionTimestamp = &deleted }},
			want: func(w *core.Workload) { w.Admission, w.Evicting, w.Held = holds, true, "it is being deleted" },
		},
		"deleted while it waits": {
			why:  "it is not considered",
			make: []func(*kueue.Workload){func(w *kueue.Workload) { w.DeletionTimestamp = &deleted }},
			want: func(w *core.Workload) { w.Held = "it is being deleted" },
		},
		"deactivated": {
			why:  "a user may say so",
			make: []func(*kueue.Workload){func(w *kueue.Workload) { w.Spec.Active = new(false) }},
			want: func(w *core.Workload) { w.Held = "it is deactivated (spec.active is false)" },
		},
		"active": {
			why:  "said explicitly",
			make: []func(*kueue.Workload){func(w *kueue.Workload) { w.Spec.Active = new(true) }},
		},
		"its group is missing": {
			why: "nothing says how near its pods are",
			make: []func(*kueue.Workload){
				func(w *kueue.Workload) { w.Annotations[kueue.GroupAwaitedAnnotation] = "size: x" },
			},
			want: func(w *core.Workload) {
				w.Held = "its pods are placed as their group says, and there is something to mend: size: x"
			},
		},
		"its group is missing once it has quota": {
			why: "it counts no more",
			make: []func(*kueue.Workload){admitted, func(w *kueue.Workload) {
				w.Annotations[kueue.GroupAwaitedAnnotation] = "size: x"
			}},
			want: func(w *core.Workload) { w.Admission = holds },
		},
		"its priority class is missing": {
			why: "a wrong priority would order it wrongly",
			make: []func(*kueue.Workload){
				func(w *kueue.Workload) { w.Annotations[kueue.AwaitedPriorityClassAnnotation] = "p" },
			},
			want: func(w *core.Workload) {
				w.Held = "there is no WorkloadPriorityClass p: create it, or name another one in the label kueue.x-k8s.io/priority-class of the job"
			},
		},
		"its priority class went": {
			why: "what runs goes on",
			make: []func(*kueue.Workload){
				admitted,
				func(w *kueue.Workload) { w.Annotations[kueue.AwaitedPriorityClassAnnotation] = "p" },
			},
			want: func(w *core.Workload) { w.Admission = holds },
		},
		"may not be queued again yet": {
			why: "a back-off is told", make: []func(*kueue.Workload){
				conditions(condition(kueue.WorkloadRequeued, metav1.ConditionFalse, later, "x")),
				func(w *kueue.Workload) {
					w.Status.RequeueState = &kueue.RequeueState{RequeueAt: new(metav1.NewTime(latest))}
				},
			},
			want: func(w *core.Workload) {
				w.Held, w.NotBefore = "it was evicted and may not be queued again yet: said so", latest
			},
		},
		"queued again": {
			why: "it is over", make: []func(*kueue.Workload){
				conditions(condition(kueue.WorkloadRequeued, metav1.ConditionTrue, later, "x")),
				func(w *kueue.Workload) { w.Status.RequeueState = &kueue.RequeueState{} },
			},
		},
		"a check refused": {
			why: "to the back of its queue",
			make: []func(*kueue.Workload){
				conditions(condition(kueue.WorkloadEvicted, metav1.ConditionTrue, later, kueue.ReasonAdmissionCheck)),
			},
			want: func(w *core.Workload) { w.QueueTime = later },
		},
		"a check refused once": {
			why: "the eviction is over and done with",
			make: []func(*kueue.Workload){
				conditions(condition(kueue.WorkloadEvicted, metav1.ConditionFalse, later, kueue.ReasonAdmissionCheck)),
			},
		},
		"pods not ready in time": {
			why: "to the back of its queue",
			make: []func(*kueue.Workload){
				conditions(condition(kueue.WorkloadEvicted, metav1.ConditionTrue, later, kueue.ReasonPodsReadyTimeout)),
			},
			want: func(w *core.Workload) { w.QueueTime = later },
		},
		"pods not ready in time, by creation": {
			why:   "where the installation says so it keeps its place",
			rules: convert.Rules{RequeueByCreation: true},
			make: []func(*kueue.Workload){
				conditions(condition(kueue.WorkloadEvicted, metav1.ConditionTrue, later, kueue.ReasonPodsReadyTimeout)),
			},
		},
		"gated": {
			why: "a controller must agree",
			make: []func(*kueue.Workload){
				func(w *kueue.Workload) { w.Annotations[kueue.AdmissionGatedByAnnotation] = "x" },
			},
			want: func(w *core.Workload) { w.GatedBy = "x" },
		},
		"after others": {
			why:   "they must have ended, whatever the installation says of gates",
			rules: convert.Rules{NoAdmissionGates: true},
			make:  []func(*kueue.Workload){func(w *kueue.Workload) { w.Annotations[kueue.AfterAnnotation] = "ok:a" }},
			want:  func(w *core.Workload) { w.GatedBy = "mlbatch.dev/after (ok:a)" },
		},
		"after others, gated": {
			why: "both must agree", make: []func(*kueue.Workload){func(w *kueue.Workload) {
				w.Annotations[kueue.AdmissionGatedByAnnotation], w.Annotations[kueue.AfterAnnotation], w.Annotations[kueue.AfterStateAnnotation] = "x", "ok:a,any:b", "any:b"
			}},
			want: func(w *core.Workload) { w.GatedBy = "x,mlbatch.dev/after (any:b)" },
		},
		"after others that ended": {
			why: "once and for all", make: []func(*kueue.Workload){func(w *kueue.Workload) {
				w.Annotations[kueue.AfterAnnotation], w.Annotations[kueue.AfterStateAnnotation] = "ok:a", kueue.AfterStateMet
			}},
		},
		"gates off": {
			why:   "the installation ignores them",
			rules: convert.Rules{NoAdmissionGates: true},
			make: []func(*kueue.Workload){
				func(w *kueue.Workload) { w.Annotations[kueue.AdmissionGatedByAnnotation] = "x" },
			},
		},
		"boosted": {
			why:   "what is added to its priority",
			rules: convert.Rules{PriorityBoost: true},
			make: []func(*kueue.Workload){
				func(w *kueue.Workload) { w.Annotations[kueue.PriorityBoostAnnotation] = "-9" },
			},
			want: func(w *core.Workload) { w.Priority = -2 },
		},
		"boosts off": {
			why: "any user could write it",
			make: []func(*kueue.Workload){
				func(w *kueue.Workload) { w.Annotations[kueue.PriorityBoostAnnotation] = "-9" },
			},
		},
		"a boost out of range": {
			why:   "counts as nothing",
			rules: convert.Rules{PriorityBoost: true},
			make: []func(*kueue.Workload){
				func(w *kueue.Workload) { w.Annotations[kueue.PriorityBoostAnnotation] = "2147483648" },
			},
		},
		"the largest boost": {
			why:   "32 bits, and the sum does not overflow",
			rules: convert.Rules{PriorityBoost: true},
			make: []func(*kueue.Workload){
				func(w *kueue.Workload) { w.Annotations[kueue.PriorityBoostAnnotation] = "2147483647" },
			},
			want: func(w *core.Workload) { w.Priority = 2147483654 },
		},
		"pods that cannot be made": {
			why: "the first pod set that is wrong is named", make: []func(*kueue.Workload){func(w *kueue.Workload) {
				w.Spec.PodSets[0].Template.Spec.RuntimeClassName = new("r")
				second := w.Spec.PodSets[0]
				second.Name = "second"
				w.Spec.PodSets = append(w.Spec.PodSets, second)
			}},
			want: func(w *core.Workload) {
				w.Invalid = "in pod set main, RuntimeClass r doesn't exist: name another one in runtimeClassName, or none"
				second := w.PodSets[0]
				second.Name = "second"
				w.PodSets = append(w.PodSets, second)
			},
		},
		"not stored yet": {
			why:  "its state has no number",
			make: []func(*kueue.Workload){func(w *kueue.Workload) { w.ResourceVersion = "" }},
			want: func(w *core.Workload) { w.Seq = 0 },
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			w := &kueue.Workload{
				ObjectMeta: metav1.ObjectMeta{
					Namespace:         "ns",
					Name:              "n",
					UID:               "u",
					ResourceVersion:   "42",
					CreationTimestamp: metav1.NewTime(created),
					Annotations:       map[string]string{},
				},
				Spec: kueue.WorkloadSpec{
					QueueName: "q",
					Priority:  new(int32(7)),
					PodSets: []kueue.PodSet{
						{Name: "main", Count: 2, Template: corev1.PodTemplateSpec{Spec: podOf("cpu=1", "")}},
					},
				},
			}
			want := core.Workload{
				Key: core.Key{
					Namespace: "ns",
					Name:      "n",
				},
				UID:       "u",
				Job:       "Workload/n",
				Queue:     "q",
				Priority:  7,
				Created:   created,
				QueueTime: created,
				Seq:       42,
				PodSets: []core.PodSet{
					{
						Name:     "main",
						Count:    2,
						Requests: amounts("cpu=1"),
						Filter:   core.Filter{Must: core.Selector{}, Tolerations: []core.Toleration{}},
					},
				},
			}
			for _, change := range tc.make {
				change(w)
			}
			if tc.want != nil {
				tc.want(&want)
			}
			if d := cmp.Diff(want, convert.Workload(w, tc.rules, convert.Surroundings{})); d != "" {
				t.Errorf("%s (-want +got):\n%s", tc.why, d)
			}
		})
	}
}

// A Workload ends once only if its job said so.
// TestEndless: a Workload ends never by itself if its containers are always started again and its
// kind has no end of its own.
func TestEndless(t *testing.T) {
	for name, c := range map[string]struct {
		kind     string
		restarts []corev1.RestartPolicy
		want     bool
	}{
		"a pod of a Deployment":           {"Pod", []corev1.RestartPolicy{corev1.RestartPolicyAlways}, true},
		"a pod that ends":                 {"Pod", []corev1.RestartPolicy{corev1.RestartPolicyNever}, false},
		"a group of servers":              {"", []corev1.RestartPolicy{corev1.RestartPolicyAlways, corev1.RestartPolicyAlways}, true},
		"a group in which one ends":       {"", []corev1.RestartPolicy{corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure}, false},
		"a StatefulSet by its template":   {"StatefulSet", []corev1.RestartPolicy{""}, true},
		"a Job":                           {"Job", []corev1.RestartPolicy{corev1.RestartPolicyOnFailure}, false},
		"a RayJob ends with its program":  {"RayJob", []corev1.RestartPolicy{corev1.RestartPolicyAlways}, false},
		"a wrapped Deployment":            {"AppWrapper", []corev1.RestartPolicy{corev1.RestartPolicyAlways}, true},
		"a wrapped job that says nothing": {"AppWrapper", []corev1.RestartPolicy{""}, false},
		"no pods":                         {"StatefulSet", nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := &kueue.Workload{}
			if c.kind != "" {
				w.OwnerReferences = []metav1.OwnerReference{{Kind: c.kind, Controller: new(true)}}
			}
			for _, r := range c.restarts {
				w.Spec.PodSets = append(
					w.Spec.PodSets,
					kueue.PodSet{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{RestartPolicy: r}}},
				)
			}
			if got := convert.Endless(w); got != c.want {
				t.Errorf("endless: %t", got)
			}
		})
	}
}

func TestEndsOnce(t *testing.T) {
	for value, want := range map[string]bool{"": false, "true": true, "false": false} {
		w := &kueue.Workload{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{kueue.EndsOnceAnnotation: value}},
		}
		if got := convert.EndsOnce(w); got != want {
			t.Errorf("%q: %t", value, got)
		}
	}
}

// Pods come later only if their job said so.
func TestLater(t *testing.T) {
	for value, want := range map[string][]string{"": nil, "a": {"a"}, "a,b": {"a", "b"}} {
		w := &kueue.Workload{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{kueue.LaterPodSetsAnnotation: value}},
		}
		if got := convert.Later(w); !slices.Equal(got, want) {
			t.Errorf("%q: %v", value, got)
		}
	}
}

func TestPodState(t *testing.T) {
	for name, tc := range map[string]struct {
		pod  corev1.Pod
		want core.PodState
	}{
		"waits":     {corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodPending}}, core.PodState{}},
		"runs":      {corev1.Pod{Spec: corev1.PodSpec{NodeName: "n"}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}, core.PodState{Bound: true}},
		"succeeded": {corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodSucceeded}}, core.PodState{Ended: true}},
		"failed":    {corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodFailed}}, core.PodState{Ended: true}},
		"leaves":    {corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: new(metav1.Now())}}, core.PodState{Deleting: true}},
	} {
		if got := convert.PodState(&tc.pod); got != tc.want {
			t.Errorf("%s: %+v, want %+v", name, got, tc.want)
		}
	}
	mine := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:   "ns",
			Annotations: map[string]string{kueue.WorkloadAnnotation: "w"},
			Labels:      map[string]string{kueue.PodSetLabel: "p"},
		},
	}
	if convert.WorkloadOf(&mine) != (core.Key{Namespace: "ns", Name: "w"}) || convert.PodSetOf(&mine) != "p" {
		t.Errorf("it belongs to %v %q", convert.WorkloadOf(&mine), convert.PodSetOf(&mine))
	}
	mine.Annotations = nil
	if convert.WorkloadOf(&mine) != (core.Key{}) {
		t.Errorf("it belongs to no workload, not to %v", convert.WorkloadOf(&mine))
	}
}

// What the names of nodes begin and end with is written once, and read as it was: it is most of a Workload with thousands of
// nodes.
func TestNamesOfNodesAreWrittenOnce(t *testing.T) {
	many := make([]core.Place, 5000)
	for i := range many {
		many[i] = core.Place{Node: fmt.Sprintf("gpu-h100-%05d.cluster.example.com", i), Count: 8}
	}
	long := strings.Repeat("a", 63)
	for name, tc := range map[string]struct {
		places         []core.Place
		prefix, suffix string
	}{
		"longer than the schema has it": {
			[]core.Place{{Node: long + "bc1de" + long, Count: 1}, {Node: long + "bc2de" + long, Count: 1}}, long, long,
		},
		"one":                 {[]core.Place{{Node: "node-1", Count: 1}}, "", ""},
		"nothing alike":       {[]core.Place{{Node: "a", Count: 1}, {Node: "b", Count: 2}}, "", ""},
		"a number":            {[]core.Place{{Node: "node-1", Count: 1}, {Node: "node-2", Count: 1}}, "node-", ""},
		"one within another":  {[]core.Place{{Node: "node-1", Count: 1}, {Node: "node-11", Count: 1}}, "node-", ""},
		"ends overlap":        {[]core.Place{{Node: "aaa", Count: 1}, {Node: "aaaaa", Count: 1}}, "aa", ""},
		"only ends are alike": {[]core.Place{{Node: "a.local", Count: 1}, {Node: "b.local", Count: 1}}, "", ".local"},
		"five thousand":       {many, "gpu-h100-0", ".cluster.example.com"},
	} {
		is := convert.StatusAdmission(
			core.Admission{PodSets: []core.PodSetAdmission{{Name: "main", Places: tc.places}}},
		)
		at := is.PodSetAssignments[0].TopologyAssignment
		names := at.Slices[0].ValuesPerLevel[0].Individual
		if got := ptr.Deref(names.Prefix, ""); got != tc.prefix || ptr.Deref(names.Suffix, "") != tc.suffix {
			t.Errorf("%s: all begin with %q and end with %q", name, got, ptr.Deref(names.Suffix, ""))
		}
		if slices.Contains(names.Roots, "") || (names.Prefix != nil && *names.Prefix == "") {
			t.Errorf("%s: nothing is left of a name: %q", name, names.Roots)
		}
		if diff := cmp.Diff(tc.places, convert.Places(at)); diff != "" {
			t.Errorf("%s: read as (-want +got):\n%s", name, diff)
		}
		text, err := json.Marshal(at)
		if err != nil || len(text) > 41_000 { // 185,000 with whole names
			t.Errorf("%s: %d bytes, %v", name, len(text), err)
		}
	}
}

// Assignments that Kueue wrote come in forms that ours do not have.
func TestPlaces(t *testing.T) {
	host := []string{"rack", core.HostnameLabel}
	values := func(roots ...string) kueue.TopologyAssignmentSliceLevelValues {
		return kueue.TopologyAssignmentSliceLevelValues{
			Individual: &kueue.TopologyAssignmentSliceLevelIndividualValues{
				Roots:  roots,
				Prefix: new("n-"),
				Suffix: new(".x"),
			},
		}
	}
	rack := kueue.TopologyAssignmentSliceLevelValues{Universal: new("r")}
	each := func(n int32) kueue.TopologyAssignmentSlicePodCounts {
		return kueue.TopologyAssignmentSlicePodCounts{Universal: &n}
	}
	for name, tc := range map[string]struct {
		why string
		t   *kueue.TopologyAssignment
		out []core.Place
	}{
		"none":        {"no plan", nil, nil},
		"no levels":   {"nothing can be read", &kueue.TopologyAssignment{}, nil},
		"above hosts": {"racks are no nodes", &kueue.TopologyAssignment{Levels: []string{"rack"}, Slices: []kueue.TopologyAssignmentSlice{{DomainCount: 1, ValuesPerLevel: []kueue.TopologyAssignmentSliceLevelValues{rack}, PodCounts: each(1)}}}, nil},
		"names in parts": {"prefix, root and suffix, in their order, which is that of ranks", &kueue.TopologyAssignment{Levels: host, Slices: []kueue.TopologyAssignmentSlice{
			{DomainCount: 2, ValuesPerLevel: []kueue.TopologyAssignmentSliceLevelValues{rack, values("b", "a")}, PodCounts: each(3)},
			{DomainCount: 1, ValuesPerLevel: []kueue.TopologyAssignmentSliceLevelValues{rack, {Universal: new("m")}}, PodCounts: kueue.TopologyAssignmentSlicePodCounts{Individual: []int32{2}}},
		}}, []core.Place{{Node: "n-b.x", Count: 3}, {Node: "n-a.x", Count: 3}, {Node: "m", Count: 2}}},
		"too short": {"what is missing is left out", &kueue.TopologyAssignment{Levels: host, Slices: []kueue.TopologyAssignmentSlice{
			{DomainCount: 2, ValuesPerLevel: []kueue.TopologyAssignmentSliceLevelValues{rack}, PodCounts: each(3)},
			{DomainCount: 2, ValuesPerLevel: []kueue.TopologyAssignmentSliceLevelValues{rack, values("a")}, PodCounts: each(1)},
			{DomainCount: 2, ValuesPerLevel: []kueue.TopologyAssignmentSliceLevelValues{rack, values("b", "c")}, PodCounts: kueue.TopologyAssignmentSlicePodCounts{Individual: []int32{1}}},
			{DomainCount: 1, ValuesPerLevel: []kueue.TopologyAssignmentSliceLevelValues{rack, values("d")}, PodCounts: each(0)},
		}}, []core.Place{{Node: "n-a.x", Count: 1}, {Node: "n-b.x", Count: 1}}},
	} {
		if d := cmp.Diff(tc.out, convert.Places(tc.t)); d != "" {
			t.Errorf("%s: %s (-want +got):\n%s", name, tc.why, d)
		}
	}
}

// Pods that are done of those that were given, by pod set.
func TestDone(t *testing.T) {
	w := &kueue.Workload{
		Spec: kueue.WorkloadSpec{PodSets: []kueue.PodSet{{Name: "a", Count: 3}, {Name: "b", Count: 3}}},
	}
	given := &kueue.Admission{
		PodSetAssignments: []kueue.PodSetAssignment{
			{Name: "a", Count: new(int32(3))},
			{Name: "b", Count: new(int32(3))},
		},
	}
	done := []kueue.ReclaimablePod{{Name: "b", Count: 2}}
	for name, tc := range map[string]struct {
		admission *kueue.Admission
		done      []kueue.ReclaimablePod
		want      map[string]int32
	}{
		"not admitted": {nil, done, map[string]int32{}},
		"none":         {given, nil, map[string]int32{}},
		"given more":   {&kueue.Admission{PodSetAssignments: []kueue.PodSetAssignment{{Name: "a", Count: new(int32(5))}}}, nil, map[string]int32{}},
		"two of b":     {given, done, map[string]int32{"b": 2}},
	} {
		w.Status.Admission, w.Status.ReclaimablePods = tc.admission, tc.done
		if d := cmp.Diff(tc.want, convert.Done(w)); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
	for left, want := range map[int32]int32{0: 3, 1: 2, 3: 0, 4: 0} {
		if got := convert.GivenBack(&w.Spec.PodSets[0], left); got.Count != want || got.Name != "a" {
			t.Errorf("%d left: %+v given back, want %d", left, got, want)
		}
	}
}

// A text is cut between characters, and never longer than was asked for.
func TestCut(t *testing.T) {
	for _, tc := range []struct {
		text string
		most int
		want string
	}{
		{"hello", 5, "hello"},
		{"hello!", 5, "he…"},
		{"aéé!", 6, "aéé!"},
		{"aéé!!", 6, "aé…"},
		{"aééé", 5, "a…"},
		{"éé", 3, "…"},
		{"", 0, ""},
		{strings.Repeat("x", 9), 4, "x…"},
	} {
		if got := convert.Cut(tc.text, tc.most); got != tc.want {
			t.Errorf("%q in %d bytes is %q, want %q", tc.text, tc.most, got, tc.want)
		}
	}
}

// What a node says of its health.
func TestNodeSignals(t *testing.T) {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name:              "n",
			Labels:            map[string]string{"a": "b"},
			DeletionTimestamp: new(metav1.Now()),
		},
		Spec: corev1.NodeSpec{
			Unschedulable: true,
			Taints:        []corev1.Taint{{Key: "k", Value: "v", Effect: "NoExecute"}},
		},
		Status: corev1.NodeStatus{
			Capacity:    list("cpu=2"),
			Allocatable: list("cpu=1"),
			Conditions: []corev1.NodeCondition{
				{Type: corev1.NodeDiskPressure, Status: corev1.ConditionTrue, Reason: "x"},
				{Type: corev1.NodeReady, Status: corev1.ConditionFalse, Reason: "KubeletNotReady"},
			},
		},
	}
	f := convert.NodeSignals(n)
	if f.Ready != "False" || f.ReadyReason != "KubeletNotReady" || !f.Unschedulable || !f.Deleting ||
		len(f.Taints) != 1 {
		t.Errorf("%+v", f)
	}
	if d := cmp.Diff(amounts("cpu=2"), f.Capacity); d != "" {
		t.Errorf("capacity (-want +got):\n%s", d)
	}
	got := convert.Node(n)
	got.State, got.Why = "", ""
	want := core.Node{
		Name:        "n",
		Labels:      map[string]string{"a": "b", "metadata.name": "n"},
		Taints:      []core.Taint{{Key: "k", Value: "v", Effect: "NoExecute"}},
		Allocatable: amounts("cpu=1"),
	}
	if d := cmp.Diff(want, got); d != "" || n.Labels["metadata.name"] != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if d := cmp.Diff(
		map[string]string{"metadata.name": "bare"},
		convert.Node(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "bare"}}).Labels,
	); d != "" {
		t.Errorf("a node without labels (-want +got):\n%s", d)
	}
}
