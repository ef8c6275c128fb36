package actions

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/view"
	"github.com/mlbatch/mlbatch/internal/view/why"
)

var train = view.Ref{Kind: view.KindJob, Namespace: "blue", Name: "train"}

// admitted lets the Workload have quota.
func admitted(w *kueue.Workload) *kueue.Workload {
	w.Status.Admission = &kueue.Admission{
		ClusterQueue:      "cq",
		PodSetAssignments: []kueue.PodSetAssignment{{Name: "main", Count: new(int32(1))}},
	}
	w.Status.Conditions = []metav1.Condition{
		{Type: kueue.WorkloadQuotaReserved, Status: metav1.ConditionTrue, Reason: "QuotaReserved"},
		{Type: kueue.WorkloadAdmitted, Status: metav1.ConditionTrue, Reason: "Admitted"},
	}
	return w
}

// asAdmin lets a client answer whether its user may update Workloads.
func asAdmin(c client.WithWatch, admin bool) client.WithWatch {
	return interceptor.NewClient(
		c,
		interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
				if review, is := o.(*authorizationv1.SelfSubjectAccessReview); is {
					review.Status.Allowed = admin
					return nil
				}
				return c.Create(ctx, o, opts...)
			},
		},
	)
}

// TestHoldAndRelease: what becomes of the Workload, and what is said.
func TestHoldAndRelease(t *testing.T) {
	holds := func(stop bool) func(context.Context, *Actor, *Target) (*Result, error) {
		return func(ctx context.Context, a *Actor, t *Target) (*Result, error) { return a.Hold(ctx, t, stop) }
	}
	releases := func(ctx context.Context, a *Actor, t *Target) (*Result, error) { return a.Release(ctx, t) }
	requeues := func(ctx context.Context, a *Actor, t *Target) (*Result, error) { return a.Requeue(ctx, t) }
	off := func(w *kueue.Workload) { w.Spec.Active = new(false) }
	byAdmin := func(w *kueue.Workload) {
		off(w)
		w.Annotations = map[string]string{kueue.HeldByAnnotation: "root"}
	}
	runs := func(w *kueue.Workload) { admitted(w) }
	ended := func(w *kueue.Workload) {
		w.Status.Conditions = []metav1.Condition{
			{Type: kueue.WorkloadFinished, Status: metav1.ConditionTrue, Reason: "Succeeded"},
		}
	}
	tests := map[string]struct {
		why    string
		is     func(*kueue.Workload)
		do     func(context.Context, *Actor, *Target) (*Result, error)
		admin  bool
		dry    DryRun
		action string // or what the error says
		held   bool   // afterwards
		by     bool   // it says that an administrator holds it
	}{
		"waits": {
			"it does not start",
			func(*kueue.Workload) {},
			holds(false),
			false,
			Real,
			"held",
			true,
			false,
		},
		"dry": {
			"nothing is sent",
			func(*kueue.Workload) {},
			holds(false),
			false,
			Client,
			"held",
			false,
			false,
		},
		"by an administrator": {
			"members do not release it",
			func(*kueue.Workload) {},
			holds(false),
			true,
			Real,
			"held",
			true,
			true,
		},
		"again": {
			"nothing has to be done",
			off,
			holds(false),
			false,
			Real,
			Unchanged,
			true,
			false,
		},
		"runs": {
			"its work would be lost",
			runs,
			holds(false),
			false,
			Real,
			"--stop",
			false,
			false,
		},
		"runs, stop": {"that is meant", runs, holds(true), false, Real, "held", true, false},
		"has ended": {
			"there is nothing to hold",
			ended,
			holds(false),
			false,
			Real,
			"has ended",
			false,
			false,
		},
		"release": {"it queues again", off, releases, false, Real, "released", false, false},
		"release by member": {
			"it is not his to release",
			byAdmin,
			releases,
			false,
			Real,
			"the administrator root: ask for its release",
			true,
			true,
		},
		"release by admin": {
			"and nothing of it is left",
			byAdmin,
			releases,
			true,
			Real,
			"released",
			false,
			false,
		},
		"release what waits": {
			"nothing has to be done",
			func(*kueue.Workload) {},
			releases,
			false,
			Real,
			Unchanged,
			false,
			false,
		},
		"requeue what waits": {
			"it is where it shall be",
			func(*kueue.Workload) {},
			requeues,
			false,
			Real,
			Unchanged,
			false,
			false,
		},
		"requeue what is held": {
			"that is not for requeue to end",
			off,
			requeues,
			false,
			Real,
			"mlbatch release",
			true,
			false,
		},
		"requeue what runs, dry": {"nothing is sent", runs, requeues, false, Client, "requeued", false, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			j, w := job(1)
			tc.is(w)
			c := asAdmin(cluster(j, w), tc.admin)
			target, err := Find(t.Context(), c, train)
			if err != nil {
				t.Fatal(err)
			}
			r, err := tc.do(t.Context(), &Actor{Client: c, DryRun: tc.dry}, target)
			if err != nil && !strings.Contains(err.Error(), tc.action) || err == nil && r.Action != tc.action {
				t.Errorf("%+v, %v; want %s: %s", r, err, tc.action, tc.why)
			}
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(w), w); err != nil {
				t.Fatal(err)
			}
			if _, by := w.Annotations[kueue.HeldByAnnotation]; held(w) != tc.held || by != tc.by {
				t.Errorf("it is held: %v, by an administrator: %v; want %v, %v: %s", held(w), by, tc.held, tc.by, tc.why)
			}
		})
	}
}

// TestRequeueReleasesWhatIsEvicted: not before, or the controller would never see that it was held.
func TestRequeueReleasesWhatIsEvicted(t *testing.T) {
	j, w := job(1)
	watched, watching := watches(cluster(j, admitted(w)))
	c := asAdmin(watched, false)
	target, err := Find(t.Context(), c, train)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() {
		_, err := (&Actor{Client: c}).Requeue(t.Context(), target)
		done <- err
	}()
	watching(2) // the Job and its Workload
	key := client.ObjectKeyFromObject(w)
	var is kueue.Workload
	for ptr.Deref(is.Spec.Active, true) { // the other goroutine has to write it
		if err := c.Get(t.Context(), key, &is); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case err := <-done:
		t.Fatalf("it did not wait for the eviction: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	is.Status.Conditions = append(
		is.Status.Conditions,
		metav1.Condition{
			Type:   kueue.WorkloadEvicted,
			Status: metav1.ConditionTrue,
			Reason: kueue.ReasonDeactivated,
		},
	)
	if err := c.Update(t.Context(), &is); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if err := c.Get(t.Context(), key, &is); err != nil || held(&is) {
		t.Errorf("it is held after that: %v", err)
	}
}

func TestCancel(t *testing.T) {
	j, w := job(1)
	grouped := func(name string) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "blue",
				Name:      name,
				UID:       "p" + "-1",
				Labels:    map[string]string{kueue.ManagedLabel: "true", kueue.PodGroupNameLabel: "pair"},
			},
		}
	}
	group := &kueue.Workload{ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "pair", UID: "g"}}
	lonely := &kueue.Workload{ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "lonely", UID: "l"}}
	tests := map[string]struct {
		why  string
		name string
		dry  DryRun
		gone []client.Object
		kept []client.Object
		err  string
	}{
		"job":   {"its parts are deleted after it, by their owners", "train", Real, []client.Object{j}, nil, ""},
		"dry":   {"nothing is sent", "train", Client, nil, []client.Object{j}, ""},
		"check": {"and this is sent to be checked", "train", Server, nil, []client.Object{j}, ""},
		"group": {
			"its pods are the job",
			"pair",
			Real,
			[]client.Object{grouped("pair-0"), grouped("pair-1")},
			nil,
			"",
		},
		"alone": {
			"a Workload is not the job",
			"lonely",
			Real,
			nil,
			[]client.Object{lonely},
			"is not the job itself",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			j, w := j.DeepCopy(), w.DeepCopy()
			group := group.DeepCopy()
			a, b := grouped("pair-0"), grouped("pair-1")
			for _, p := range []*corev1.Pod{a, b} {
				p.Annotations = map[string]string{kueue.WorkloadAnnotation: "pair"}
			}
			c := cluster(j, w, group, lonely.DeepCopy(), a, b)
			target, err := Find(t.Context(), c, view.Ref{Namespace: "blue", Name: tc.name})
			if err != nil {
				t.Fatal(err)
			}
			_, err = (&Actor{Client: c, DryRun: tc.dry}).Cancel(t.Context(), target, false)
			if tc.err == "" && err != nil || tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)) {
				t.Fatalf("%v, want %q", err, tc.err)
			}
			there := func(o client.Object) bool {
				o = o.DeepCopyObject().(client.Object)
				return !apierrors.IsNotFound(c.Get(t.Context(), client.ObjectKeyFromObject(o), o))
			}
			if slices.ContainsFunc(tc.gone, there) ||
				slices.ContainsFunc(tc.kept, func(o client.Object) bool { return !there(o) }) {
				t.Errorf("what is to go is there, or what is to stay is not: %s", tc.why)
			}
		})
	}
}

// TestResize: which field is the size of what.
func TestResize(t *testing.T) {
	tests := map[string]struct {
		why  string
		kind view.Kind
		role string
		n    int64
		spec string
		want string // the spec, or what the error says
		was  int64
		stop bool
	}{
		"deployment":     {"", view.KindDeployment, "", 3, "{replicas: 2}", "{replicas: 3}", 2, false},
		"by default one": {"", StatefulSet, "", 3, "{}", "{replicas: 3}", 1, false},
		"no roles": {
			"",
			view.KindDeployment,
			"web",
			3,
			"{replicas: 2}",
			"its pods have one size for all",
			0,
			false,
		},
		"job grows": {
			"its quota is for fewer",
			view.KindJob,
			"",
			3,
			"{parallelism: 2, completions: 9}",
			"{parallelism: 3, completions: 9}",
			2,
			true,
		},
		"job shrinks": {
			"it keeps what it has",
			view.KindJob,
			"",
			1,
			"{parallelism: 2, completions: 2}",
			"{parallelism: 1, completions: 2}",
			2,
			false,
		},
		"indexed": {
			"each index has its pod",
			view.KindJob,
			"",
			3,
			"{parallelism: 2, completions: 2, completionMode: Indexed}",
			"{parallelism: 3, completions: 3, completionMode: Indexed}",
			2,
			true,
		},
		"queue of work": {
			"indexes are done one after the other",
			view.KindJob,
			"",
			3,
			"{parallelism: 2, completions: 9, completionMode: Indexed}",
			"{parallelism: 3, completions: 9, completionMode: Indexed}",
			2,
			true,
		},
		"jobset": {
			"one role of several",
			"JobSet",
			"b",
			2,
			"{replicatedJobs: [{name: a}, {name: b, template: {spec: {parallelism: 1, completions: 1, completionMode: Indexed}}}]}",
			"{replicatedJobs: [{name: a}, {name: b, template: {spec: {parallelism: 2, completions: 2, completionMode: Indexed}}}]}",
			1,
			true,
		},
		"jobset, which": {
			"guessing could stop the job",
			"JobSet",
			"",
			2,
			"{replicatedJobs: [{name: a}, {name: b}]}",
			"say with --role which of its roles is meant: a, b",
			0,
			false,
		},
		"jobset, typo": {
			"",
			"JobSet",
			"c",
			2,
			"{replicatedJobs: [{name: a}, {name: b}]}",
			"--role c: its roles are a, b",
			0,
			false,
		},
		"jobset, many Jobs": {
			"their number is fixed",
			"JobSet",
			"a",
			2,
			"{replicatedJobs: [{name: a, replicas: 3}]}",
			"their number cannot change",
			0,
			false,
		},
		"ray": {
			"the only group",
			"RayCluster",
			"",
			1,
			"{workerGroupSpecs: [{groupName: g, replicas: 2}]}",
			"{workerGroupSpecs: [{groupName: g, replicas: 1}]}",
			2,
			false,
		},
		"ray, too many": {
			"it would be cut in silence",
			"RayCluster",
			"g",
			5,
			"{workerGroupSpecs: [{groupName: g, replicas: 2, maxReplicas: 4}]}",
			"5 replicas are beyond its maxReplicas, which is 4",
			0,
			false,
		},
		"ray, too few": {
			"",
			"RayCluster",
			"g",
			0,
			"{workerGroupSpecs: [{groupName: g, replicas: 2, minReplicas: 1}]}",
			"0 replicas are beyond its minReplicas, which is 1",
			0,
			false,
		},
		"ray service": {
			"",
			"RayService",
			"",
			3,
			"{rayClusterConfig: {workerGroupSpecs: [{groupName: g, replicas: 2}]}}",
			"{rayClusterConfig: {workerGroupSpecs: [{groupName: g, replicas: 3}]}}",
			2,
			true,
		},
		"pytorch": {
			"workers are meant",
			"PyTorchJob",
			"",
			3,
			"{pytorchReplicaSpecs: {Master: {}, Worker: {replicas: 2}}}",
			"{pytorchReplicaSpecs: {Master: {}, Worker: {replicas: 3}}}",
			2,
			true,
		},
		"tf": {
			"any case",
			"TFJob",
			"ps",
			3,
			"{tfReplicaSpecs: {PS: {replicas: 2}, Worker: {}}}",
			"{tfReplicaSpecs: {PS: {replicas: 3}, Worker: {}}}",
			2,
			true,
		},
		"tf, typo": {
			"",
			"TFJob",
			"p",
			3,
			"{tfReplicaSpecs: {PS: {replicas: 2}, Worker: {}}}",
			"--role p: its roles are PS, Worker",
			0,
			false,
		},
		"trainjob": {
			"",
			"TrainJob",
			"",
			3,
			"{trainer: {numNodes: 2}}",
			"{trainer: {numNodes: 3}}",
			2,
			true,
		},
		"appwrapper": {
			"it was counted as a whole",
			view.KindAppWrapper,
			"",
			3,
			"{}",
			"submit it with another size",
			0,
			false,
		},
		"cronjob": {"", CronJob, "", 3, "{}", "kubectl edit cronjob", 0, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			read := func(text string) map[string]any {
				var out map[string]any
				if err := yaml.Unmarshal([]byte("spec: "+text), &out); err != nil {
					return nil
				}
				return out
			}
			o := &unstructured.Unstructured{Object: read(tc.spec)}
			got, err := resize(o, tc.kind, tc.role, tc.n)
			if err != nil {
				if !strings.Contains(err.Error(), tc.want) {
					t.Errorf("%v, want %s: %s", err, tc.want, tc.why)
				}
				return
			}
			is, err := yaml.Marshal(o.Object)
			want, err2 := yaml.Marshal(read(tc.want))
			if err := errors.Join(err, err2); err != nil {
				t.Fatal(err)
			}
			if string(is) != string(want) || got.was != tc.was || got.restarts != tc.stop {
				t.Errorf(
					"%s was %d, stops %v; want %s, %d, %v: %s",
					is,
					got.was,
					got.restarts,
					want,
					tc.was,
					tc.stop,
					tc.why,
				)
			}
		})
	}
}

// TestPrioritizeWithoutAClass: what there is instead, and whom to ask.
func TestPrioritizeWithoutAClass(t *testing.T) {
	urgent := &kueue.WorkloadPriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "urgent"}, Value: 7}
	high := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "high"}, Value: 10}
	for name, tc := range map[string]struct {
		why  string
		has  []client.Object
		says string
	}{
		"of pods": {"it is the name that people know", []client.Object{urgent, high}, "submit it with --pod-priority high"},
		"a typo":  {"", []client.Object{urgent}, "there are urgent (7)"},
		"none":    {"", nil, "an administrator makes them"},
	} {
		t.Run(name, func(t *testing.T) {
			j, w := job(1)
			c := cluster(append(tc.has, j, w)...)
			target, err := Find(t.Context(), c, train)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := (&Actor{Client: c}).Prioritize(
				t.Context(),
				target,
				"high",
			); err == nil ||
				!strings.Contains(err.Error(), tc.says) {
				t.Errorf("%v, want %s", err, tc.says)
			}
		})
	}
}

// TestPrioritizeTellsOfThePods: the class of a job is that of its place in the queue. Its pods have one
// of their own, which stays, whether they run or are still to be made.
func TestPrioritizeTellsOfThePods(t *testing.T) {
	urgent := &kueue.WorkloadPriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "urgent"}, Value: 7}
	for name, tc := range map[string]struct {
		class    string
		admitted bool
		says     string
	}{
		"running": {"gold", true, "its pods keep the PriorityClass gold"},
		"waiting": {"gold", false, "its pods have the PriorityClass gold"},
		"none":    {"", true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			j, w := job(1)
			w.Spec.PodSets[0].Template.Spec.PriorityClassName = tc.class
			w.Status.Admission = nil
			if tc.admitted {
				w.Status.Admission = &kueue.Admission{ClusterQueue: "blue"}
			}
			c := cluster(urgent, j, w)
			target, err := Find(t.Context(), c, train)
			if err != nil {
				t.Fatal(err)
			}
			got, err := (&Actor{Client: c}).Prioritize(t.Context(), target, "urgent")
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(got.Message, tc.says) ||
				tc.says == "" && strings.Contains(got.Message, "PriorityClass") {
				t.Errorf("%q, want %q", got.Message, tc.says)
			}
		})
	}
}

// TestScaled: what is refused, and what is said of the quota.
func TestScaled(t *testing.T) {
	for name, tc := range map[string]struct {
		why  string
		has  int32
		to   int64
		says string
	}{
		"to nothing":         {"a Job of no pods stays and holds its quota", 4, 0, "cannot have 0 indexes: mlbatch hold blue/train --stop stops it"},
		"smaller":            {"", 4, 2, "has 2 indexes now, 4 before. It gives back the quota of the others"},
		"as large as it was": {"it gave that quota back", 2, 4, "--stop says that you mean it"},
		"larger":             {"it has no quota for that", 4, 5, "--stop says that you mean it"},
		"the same":           {"", 4, 4, "has 4 indexes already"},
	} {
		t.Run(name, func(t *testing.T) {
			j, w := job(tc.has)
			j.Spec.Parallelism, j.Spec.Completions, j.Spec.CompletionMode = &tc.has, new(
				tc.has,
			), new(
				batchv1.IndexedCompletion,
			)
			admitted(w).Status.Admission.PodSetAssignments[0].Count = new(int32(4))
			w.Spec.PodSets[0].Count, w.Status.ReclaimablePods = 4, []kueue.ReclaimablePod{
				{Name: w.Spec.PodSets[0].Name, Count: 4 - tc.has},
			}
			c := cluster(j, w)
			target, err := Find(t.Context(), c, train)
			if err != nil {
				t.Fatal(err)
			}
			got, err := (&Actor{Client: c}).Scale(t.Context(), target, "", tc.to, false)
			said := fmt.Sprint(err)
			if err == nil {
				said = got.Message
			}
			if !strings.Contains(said, tc.says) {
				t.Errorf("%s: %s, want %s", tc.why, said, tc.says)
			}
		})
	}
}

// TestReached: when a wait ends, and how.
func TestReached(t *testing.T) {
	succeeded := func(w *kueue.Workload) {
		w.Status.Conditions = []metav1.Condition{
			{Type: kueue.WorkloadFinished, Status: metav1.ConditionTrue, Reason: "Succeeded"},
		}
	}
	failed := func(w *kueue.Workload) {
		w.Status.Conditions = []metav1.Condition{
			{Type: kueue.WorkloadFinished, Status: metav1.ConditionTrue, Reason: "Failed", Message: "exit code 3."},
		}
	}
	waits, runs := func(*kueue.Workload) {}, func(w *kueue.Workload) { admitted(w) }
	const on, off = "reached", "" // and anything else is an error
	tests := map[string]struct {
		why  string
		is   func(*kueue.Workload)
		pods []*corev1.Pod
		gone bool
		want map[Goal]string
	}{
		"waits": {
			"",
			waits,
			nil,
			false,
			map[Goal]string{
				UntilAdmitted:  off,
				UntilRunning:   off,
				UntilSucceeded: off,
				UntilEnded:     off,
				UntilDeleted:   off,
			},
		},
		"admitted": {
			"its pods are not there yet",
			runs,
			nil,
			false,
			map[Goal]string{UntilAdmitted: on, UntilRunning: off, UntilEnded: off},
		},
		"runs": {
			"",
			runs,
			[]*corev1.Pod{podOf(0, corev1.ContainerState{}, 0)},
			false,
			map[Goal]string{UntilAdmitted: on, UntilRunning: on, UntilSucceeded: off, UntilEnded: off},
		},
		"succeeded": {
			"it was admitted and has run",
			succeeded,
			nil,
			false,
			map[Goal]string{
				UntilAdmitted:  on,
				UntilRunning:   on,
				UntilSucceeded: on,
				UntilEnded:     on,
				UntilDeleted:   off,
			},
		},
		"failed": {
			"it will never run again",
			failed,
			nil,
			false,
			map[Goal]string{
				UntilAdmitted:  "failed: exit code 3",
				UntilRunning:   "failed: exit code 3",
				UntilSucceeded: "failed: exit code 3",
				UntilEnded:     on,
				UntilDeleted:   off,
			},
		},
		"gone": {
			"",
			runs,
			nil,
			true,
			map[Goal]string{UntilDeleted: on, UntilRunning: "was deleted", UntilEnded: "was deleted"},
		},
	}
	for name, tc := range tests {
		for goal, want := range tc.want {
			t.Run(name+", "+string(goal), func(t *testing.T) {
				j, w := job(1)
				tc.is(w)
				target := &Target{JobObjects: why.JobObjects{Asked: train, Job: j, Workload: w}}
				for _, p := range tc.pods {
					target.Pods = append(target.Pods, *p)
				}
				done, err := target.reached(goal, tc.gone)
				var never *NeverError
				switch {
				case want == on && (!done || err != nil),
					want == off && (done || err != nil),
					want != on && want != off && (err == nil || !strings.Contains(err.Error(), want) || !errors.As(err, &never)):
					t.Errorf("%v, %v; want %q: %s", done, err, want, tc.why)
				}
			})
		}
	}
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "chat"},
		Spec:       appsv1.DeploymentSpec{Replicas: new(int32(2))},
	}
	serving := &Target{
		JobObjects: why.JobObjects{
			Asked:      view.Ref{Kind: view.KindDeployment, Namespace: "blue", Name: "chat"},
			Deployment: d,
		},
	}
	if _, err := serving.reached(UntilEnded, false); err == nil {
		t.Error("a Deployment never ends, and it is waited for")
	}
	if done, _ := serving.reached(UntilRunning, false); done {
		t.Error("none of its pods is ready")
	}
	d.Status.ReadyReplicas = 2
	if done, err := serving.reached(UntilRunning, false); !done || err != nil {
		t.Errorf("both of its pods are ready: %v", err)
	}
	loose := &Target{
		JobObjects: why.JobObjects{
			Asked: train,
			Job:   &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "train"}},
		},
	}
	if _, err := loose.reached(UntilAdmitted, false); err == nil {
		t.Error("a job in no queue is never admitted, and it is waited for")
	}
}

// TestAwaitSaysHowItStands when there is no more time.
func TestAwaitSaysHowItStands(t *testing.T) {
	j, w := job(1)
	c := cluster(j, w)
	target, err := Find(t.Context(), c, train)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer stop()
	_, err = Await(ctx, c, target, UntilRunning)
	if err == nil || !errors.Is(err, context.DeadlineExceeded) ||
		err.Error() != "Job blue/train is not running but waiting (PendingEvaluation), and the time is over" {
		t.Errorf("%v", err)
	}
}

// TestCancelWaits for pods, also when the job was gone before it began to watch.
func TestCancelWaits(t *testing.T) {
	j, w := job(1)
	p := podOf(0, runs(), 0)
	c := cluster(j, w, p)
	target, err := Find(t.Context(), c, train)
	if err != nil {
		t.Fatal(err)
	}
	watched, watching := watches(c)
	done := make(chan error, 1)
	go func() {
		_, err := (&Actor{Client: watched}).Cancel(t.Context(), target, true)
		done <- err
	}()
	watching(3) // the Job, its Workload and pods
	select {
	case err := <-done:
		t.Fatalf("its pod is there, and it did not wait: %v", err)
	default:
	}
	if err := c.Delete(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Error("all is gone, and it waits")
	}
}

// TestCancelSeesWhatIsGone: a pod may be gone between being seen and being watched.
func TestCancelSeesWhatIsGone(t *testing.T) {
	j, w := job(1)
	p := podOf(0, runs(), 0)
	c := cluster(j, w, p)
	target, err := Find(t.Context(), c, train)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Delete(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
	defer stop()
	if _, err := (&Actor{Client: c}).Cancel(ctx, target, true); err != nil {
		t.Error(err)
	}
}
