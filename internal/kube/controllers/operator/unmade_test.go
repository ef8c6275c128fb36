package operator

import (
	"errors"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/test/toy"
)

// TestWhatCannotBeMadeIsTold: whatever of a job may not be made, the job says which and why, in an
// event and to its kind, until it could; where mlbatch has no rights it says who can change that.
func TestWhatCannotBeMadeIsTold(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*toy.Toy)
		is     func(client.Object) bool
		says   []string
		event  string
	}{
		"Pod":       {func(*toy.Toy) {}, func(o client.Object) bool { _, is := o.(*corev1.Pod); return is }, []string{"because"}, "FailedCreatePod"},
		"Service":   {func(*toy.Toy) {}, func(o client.Object) bool { _, is := o.(*corev1.Service); return is }, []string{"because"}, "FailedCreateService"},
		"ConfigMap": {func(x *toy.Toy) { x.Spec.Key = true }, func(o client.Object) bool { _, is := o.(*corev1.ConfigMap); return is }, []string{"because"}, "FailedCreateConfigMap"},
		"Job":       {ofJobs, func(o client.Object) bool { _, is := o.(*batchv1.Job); return is }, []string{"because"}, "FailedCreateJob"},
		"NoRights": {
			func(x *toy.Toy) { x.Spec.Key = true }, func(o client.Object) bool { _, is := o.(*corev1.Secret); return is },
			[]string{"no team's and has no LocalQueue", "mlbatch team create"},
			"FailedCreateSecret",
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, aToy("lab", tc.change))
			refused, told := true, ""
			operated := *b.r.kind.Running.Operator
			project := operated.Project
			operated.Project = func(o jobs.Object, p *jobs.Plan, s *jobs.Progress) jobs.Object {
				told = s.NotMade
				return project(o, p, s)
			}
			b.r.kind.Running.Operator = &operated
			b.before = func(verb string, o client.Object) error {
				if !refused || verb != "create" || !tc.is(o) {
					return nil
				}
				why := "because"
				if name == "NoRights" {
					why = `User "mlbatch" cannot create resource "secrets" in API group "" in the namespace "lab"`
				}
				return apierrors.NewForbidden(schema.GroupResource{Resource: "things"}, o.GetName(), errors.New(why))
			}
			for range 4 {
				_, _ = b.step() // it is refused
			}
			said := b.said()
			for _, want := range append(tc.says, tc.event) {
				if !strings.Contains(said, want) {
					t.Errorf("it does not say %s: %s", want, said)
				}
			}
			if tc.event != "FailedCreateService" && told == "" {
				t.Error("its kind does not know")
			}
			refused = false
			b.run()
			b.run()
			if told != "" {
				t.Errorf("it could be made, and still it is said: %s", told)
			}
		})
	}
}

// TestKindsHaveTheirWordForWhatCannotBeMade: users of a kind look for the event that they know.
func TestKindsHaveTheirWordForWhatCannotBeMade(t *testing.T) {
	b := newBench(t, aToy("lab", ofJobs))
	operated := *b.r.kind.Running.Operator
	operated.FailedCreateReason = "ToyCreationFailed"
	b.r.kind.Running.Operator = &operated
	b.before = func(verb string, o client.Object) error {
		if _, is := o.(*batchv1.Job); verb != "create" || !is {
			return nil
		}
		return apierrors.NewForbidden(schema.GroupResource{Resource: "things"}, o.GetName(), errors.New("because"))
	}
	for range 4 {
		_, _ = b.step() // it is refused
	}
	if said := b.said(); !strings.Contains(said, "ToyCreationFailed") || strings.Contains(said, "FailedCreate") {
		t.Errorf("it says %s", said)
	}
}

// TestDeletedArtifactsComeBack: a file that somebody deleted is made again without a change of the
// job, though it is not watched.
func TestDeletedArtifactsComeBack(t *testing.T) {
	b := newBench(t, aToy("lab", func(x *toy.Toy) { x.Spec.Key = true }))
	b.run()
	list := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "lab", Name: "x-list"}}
	if err := b.r.Client.Delete(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	result, err := b.step()
	if err != nil || result.RequeueAfter == 0 || result.RequeueAfter > ensuredFor {
		t.Fatalf("it is looked at again in %v (%v)", result.RequeueAfter, err)
	}
	if b.get("lab", &corev1.ConfigMap{}, "x-list") {
		t.Fatal("it is looked for at every step")
	}
	b.clock.SetTime(b.clock.Now().Add(ensuredFor))
	b.run()
	if !b.get("lab", &corev1.ConfigMap{}, "x-list") {
		t.Error("it does not come back")
	}
}

// TestEventsNameEachKind: of a job of several kinds of members each is counted by itself.
func TestEventsNameEachKind(t *testing.T) {
	job := toy.Kind().Running.Operator.Child(batchv1.SchemeGroupVersion.WithKind("Job"))
	var all []member
	for _, name := range []string{"w-0", "w-1"} {
		all = append(all, member{Object: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}}})
	}
	all = append(
		[]member{{Object: &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "launcher"}}, kind: job}},
		all...)
	var got []string
	byKind(all, func(kind string, some []member) { got = append(got, kind+" / "+several(some)) })
	expect(t, "events", got, []string{"Job / Job: launcher", "Pod / 2 pods: w-0 to w-1"})
}
