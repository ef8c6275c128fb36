package operator

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	aw "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	recovery "github.com/mlbatch/mlbatch/api/recovery/v1alpha1"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/test/toy"
)

const broom = "toys.example.com/broom"

// sweeping is a bench whose toys leave something behind.
func sweeping(t *testing.T, objects ...client.Object) *bench {
	t.Helper()
	b := newBench(t, objects...)
	b.r.kind.Running.Operator.Finalization = &jobs.Finalization{
		Finalizer: broom,
		Job: func(o jobs.Object) *batchv1.Job {
			if o.GetAnnotations()["clean"] == "true" {
				return nil
			}
			return &batchv1.Job{
				ObjectMeta: metav1.ObjectMeta{
					Name:              o.GetName() + "-sweep",
					CreationTimestamp: metav1.NewTime(b.clock.Now()),
				},
			}
		},
	}
	return b
}

// remove deletes the toy, as its author does.
func (b *bench) remove() {
	b.t.Helper()
	if err := b.r.Client.Delete(b.t.Context(), b.toy("lab")); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) there() bool { return b.get("lab", &toy.Toy{}, "x") }

// TestSweep: what a job leaves behind is removed by a Job once no pod of it runs any more, and
// until then the job stays.
func TestSweep(t *testing.T) {
	b := sweeping(
		t,
		aToy("lab", func(x *toy.Toy) { x.Annotations = map[string]string{sweepQueueAnnotation: "q"} }),
	)
	b.before = func(verb string, o client.Object) error {
		if _, pod := o.(*corev1.Pod); pod && verb == "create" && !slices.Contains(b.toy("lab").Finalizers, broom) {
			t.Error("a pod is made of a job that would go at once")
		}
		return nil
	}
	b.run()
	expect(t, "pods", b.podNames(), three)
	p := b.pods()[0]
	p.Finalizers, p.Spec.NodeName = []string{"a/b"}, "n"
	b.update(&p)
	b.remove()
	b.run()
	var sweep batchv1.Job
	if len(b.podNames()) != 1 || b.get("lab", &sweep, "x-sweep") || !b.there() {
		t.Fatalf("pods %v, and it is swept beside them", b.podNames())
	}
	p = b.pods()[0]
	p.Finalizers = nil
	b.update(&p)
	b.run()
	if !b.get("lab", &sweep, "x-sweep") || !b.there() {
		t.Fatal("it is not swept")
	}
	expect(t, "labels", sweep.Labels, map[string]string{recovery.JobLabel: "x-uid", kueue.QueueNameLabel: "q"})
	if len(sweep.OwnerReferences) > 0 {
		t.Errorf("it goes with %v", sweep.OwnerReferences)
	}
	sweep.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
	if err := b.r.Client.Status().Update(t.Context(), &sweep); err != nil {
		t.Fatal(err)
	}
	b.run()
	if b.there() || b.get("lab", &sweep, "x-sweep") {
		t.Error("something is left")
	}
	if said := b.said(); !strings.Contains(said, swept) {
		t.Error(said)
	}
}

// TestSweepGivesUp: nothing keeps a job that was deleted for ever.
func TestSweepGivesUp(t *testing.T) {
	jobsOf := schema.GroupResource{Group: "batch", Resource: "jobs"}
	for name, tc := range map[string]struct {
		why    string
		others []client.Object
		answer error
		ends   batchv1.JobConditionType
		after  time.Duration
		gone   bool
		says   string
	}{
		"Waits":     {why: "there is time", after: 4 * time.Minute},
		"Late":      {why: "its queue has no room", after: 5 * time.Minute, gone: true, says: "within 5m0s"},
		"Failed":    {why: "nobody answers there", ends: batchv1.JobFailed, gone: true, says: "failed"},
		"Forbidden": {why: "its namespace goes", answer: apierrors.NewForbidden(jobsOf, "x-sweep", nil), gone: true, says: "forbidden"},
		"Invalid":   {why: "its template is no good", answer: apierrors.NewInvalid(schema.GroupKind{}, "x-sweep", nil), gone: true, says: "invalid"},
		"Taken": {
			why: "another's Job is left alone", gone: true, says: "another Job",
			others: []client.Object{&batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "lab", Name: "x-sweep"}}},
		},
	} {
		b := sweeping(t, append(tc.others, aToy("lab"))...)
		b.before = func(verb string, o client.Object) error {
			if _, is := o.(*batchv1.Job); is && verb == "create" {
				return tc.answer
			}
			return nil
		}
		b.run()
		b.remove()
		b.run()
		var sweep batchv1.Job
		if made := b.get("lab", &sweep, "x-sweep"); made && tc.ends != "" {
			sweep.Status.Conditions = []batchv1.JobCondition{{Type: tc.ends, Status: corev1.ConditionTrue}}
			if err := b.r.Client.Status().Update(t.Context(), &sweep); err != nil {
				t.Fatal(err)
			}
		}
		b.clock.SetTime(b.clock.Now().Add(tc.after))
		b.run()
		if b.there() == tc.gone {
			t.Errorf("%s: %s: it is there: %v", name, tc.why, b.there())
		}
		if said := b.said(); !strings.Contains(said, tc.says) {
			t.Errorf("%s: %s", name, said)
		}
		if left := b.get("lab", &sweep, "x-sweep"); left != (!tc.gone || tc.others != nil) {
			t.Errorf("%s: a Job is left: %v", name, left)
		}
	}
}

// TestSweepQueue: a sweep waits where its job did, or what that was a part of.
func TestSweepQueue(t *testing.T) {
	owned := func(by string) []metav1.OwnerReference {
		return []metav1.OwnerReference{
			{APIVersion: "workload.codeflare.dev/v1beta2", Kind: by, Name: "w", UID: "w", Controller: new(true)},
		}
	}
	whole := &aw.AppWrapper{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "lab",
			Name:      "w",
			UID:       "w",
			Labels:    map[string]string{kueue.QueueNameLabel: "wide"},
		},
	}
	for name, tc := range map[string]struct {
		change func(*toy.Toy)
		want   string
	}{
		"None":     {func(*toy.Toy) {}, ""},
		"Own":      {func(x *toy.Toy) { x.Labels = map[string]string{kueue.QueueNameLabel: "q"} }, "q"},
		"Part":     {func(x *toy.Toy) { x.OwnerReferences = owned("AppWrapper") }, "wide"},
		"Stranger": {func(x *toy.Toy) { x.OwnerReferences = owned("Other") }, ""},
		"Orphan":   {func(x *toy.Toy) { x.OwnerReferences = owned("AppWrapper"); x.OwnerReferences[0].Name = "gone" }, ""},
	} {
		x := aToy("lab", tc.change)
		b := sweeping(t, x, whole)
		if got, err := b.r.queueOf(t.Context(), b.toy("lab")); err != nil || got != tc.want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		if retained, err := b.r.retain(t.Context(), b.toy("lab")); retained || err != nil {
			t.Fatalf("%s: %v, %v", name, retained, err)
		}
		if x := b.toy(
			"lab",
		); x.Annotations[sweepQueueAnnotation] != tc.want ||
			!slices.Contains(x.Finalizers, broom) {
			t.Errorf("%s: %v", name, x.ObjectMeta)
		}
	}
}

// TestNothingToSweep: a job that left nothing behind goes at once, and so does one that never had
// a pod.
func TestNothingToSweep(t *testing.T) {
	for name, change := range map[string]func(*toy.Toy){
		"Held":  func(x *toy.Toy) { x.Spec.Hold = true },
		"Clean": func(x *toy.Toy) { x.Annotations = map[string]string{"clean": "true"} },
	} {
		b := sweeping(t, aToy("lab", change))
		b.run()
		if f := b.toy("lab").Finalizers; len(f) > 0 {
			t.Errorf("%s: %v", name, f)
		}
	}
	b := sweeping(t, aToy("lab"))
	b.run()
	x := b.toy("lab")
	x.Annotations = map[string]string{"clean": "true"}
	b.update(x)
	b.remove()
	b.run()
	if b.there() {
		t.Error("it stays for nothing")
	}
}

// TestSweepIsKilled: a controller that is killed at any write is followed by one that goes on.
func TestSweepIsKilled(t *testing.T) {
	for at := 1; at < 20; at++ {
		b, writes := sweeping(t, aToy("lab")), 0
		b.before = func(string, client.Object) error {
			if writes++; writes == at {
				b.dead = true
				return fmt.Errorf("killed")
			}
			return nil
		}
		b.run()
		b.remove()
		b.run()
		var sweep batchv1.Job
		if !b.get("lab", &sweep, "x-sweep") {
			t.Fatalf("killed at write %d: it is not swept: %s\n%s", at, b.picture(), b.said())
		}
		sweep.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
		if err := b.r.Client.Status().Update(t.Context(), &sweep); err != nil {
			t.Fatal(err)
		}
		b.run()
		if b.there() {
			t.Fatalf("killed at write %d: it stays", at)
		}
	}
}
