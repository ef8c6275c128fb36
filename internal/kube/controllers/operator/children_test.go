package operator

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	recovery "github.com/mlbatch/mlbatch/api/recovery/v1alpha1"
	"github.com/mlbatch/mlbatch/test/toy"
)

func ofJobs(x *toy.Toy) { x.Spec.Jobs = true }

// jobs are the Jobs that there are, with who they are, in the order of their names.
func (b *bench) jobs() []batchv1.Job {
	b.t.Helper()
	var all batchv1.JobList
	if err := b.r.Client.List(b.t.Context(), &all); err != nil {
		b.t.Fatal(err)
	}
	slices.SortFunc(all.Items, func(a, b batchv1.Job) int { return strings.Compare(a.Name, b.Name) })
	return all.Items
}

// told is a line for each Job: its attempt and whether it is suspended.
func (b *bench) jobLines() []string {
	var out []string
	for _, j := range b.jobs() {
		line := j.Name + " " + j.Labels[recovery.AttemptLabel]
		if j.Spec.Suspend != nil && *j.Spec.Suspend {
			line += " suspended"
		}
		out = append(out, line)
	}
	return out
}

// says lets the controller of Jobs say how one is.
func (b *bench) says(name string, change func(*batchv1.JobStatus)) {
	b.t.Helper()
	j := &batchv1.Job{}
	if !b.get("lab", j, name) && !b.get("blue", j, name) {
		b.t.Fatalf("there is no Job %s", name)
	}
	change(&j.Status)
	if err := b.r.Client.Status().Update(b.t.Context(), j); err != nil {
		b.t.Fatal(err)
	}
}

func condition(c batchv1.JobConditionType, reason string) func(*batchv1.JobStatus) {
	return func(s *batchv1.JobStatus) {
		s.Active = 0
		s.Conditions = append(
			s.Conditions,
			batchv1.JobCondition{Type: c, Status: corev1.ConditionTrue, Reason: reason},
		)
	}
}

func active(s *batchv1.JobStatus) { s.Active = 1 }

// TestMembersAreJobs: a role of child objects is made, waited for and made anew like one of
// pods, and its job ends with them.
func TestMembersAreJobs(t *testing.T) {
	b := newBench(t, aToy("lab", ofJobs))
	b.run()
	expect(t, "made", b.jobLines(), []string{"x-0 0", "x-1 0", "x-2 0"})
	if o := metav1.GetControllerOf(&b.jobs()[0]); o == nil || o.UID != "x-uid" {
		t.Errorf("it is controlled by %v", o)
	}
	expect(t, "pods", b.podNames(), []string(nil))
	b.says("x-0", condition(batchv1.JobComplete, ""))
	b.says("x-1", condition(batchv1.JobFailed, "BackoffLimitExceeded"))
	b.run()
	expect(t, "all begin anew", b.jobLines(), []string{"x-0 1", "x-1 1", "x-2 1"})
	expect(t, "failures", b.recovery("lab").Failures, int32(1))
	for _, name := range three {
		b.says(name, condition(batchv1.JobComplete, ""))
	}
	b.run()
	expect(t, "outcome", b.recovery("lab").Outcome, "Succeeded")
}

// TestChildrenAreHeld: Jobs stay while their job is suspended, and it says that nothing runs
// once their controller does. What they did stays done. They run again with what the new
// admission gives.
func TestChildrenAreHeld(t *testing.T) {
	b := newBench(t, aToy("blue", ofJobs), aFlavor(), admitted("x-uid"))
	b.run()
	expect(t, "made", b.jobLines(), []string{"x-0 0", "x-1 0", "x-2 0"})
	expect(t, "where", b.jobs()[1].Spec.Template.Spec.NodeSelector, map[string]string{"gpu": "a100"})
	b.says("x-0", condition(batchv1.JobComplete, ""))
	b.says("x-1", active)
	b.says("x-2", active)
	b.run()
	b.hold(true)
	b.run()
	expect(t, "held", b.jobLines(), []string{"x-0 0", "x-1 0 suspended", "x-2 0 suspended"})
	b.says("x-1", condition(batchv1.JobSuspended, ""))
	b.run()
	if !b.toy("blue").Status.Runs || b.recovery("blue").StartTime == nil {
		t.Error("x-2 still runs, and the job says that nothing does")
	}
	b.says("x-2", condition(batchv1.JobSuspended, ""))
	b.run()
	got := b.recovery("blue")
	if got.StartTime != nil {
		t.Error("nothing runs, and the job does not say so")
	}
	expect(t, "done", got.Done, []recovery.Done{{Role: "main", Indexes: "0"}})

	flavor := &kueue.ResourceFlavor{}
	b.get("", flavor, "f")
	flavor.Spec.NodeLabels = map[string]string{"gpu": "h100"}
	b.update(flavor)
	b.hold(false)
	b.run()
	expect(t, "released", b.jobLines(), []string{"x-0 0", "x-1 0", "x-2 0"})
	expect(t, "where", b.jobs()[1].Spec.Template.Spec.NodeSelector, map[string]string{"gpu": "h100"})
}

// TestChildrenAreNotMoreThanAdmitted: a job that asks for more than it was admitted with gets
// none of it before it is stopped and queued again, and nobody is told of a failure.
func TestChildrenAreNotMoreThanAdmitted(t *testing.T) {
	b := newBench(t, aToy("blue", ofJobs), aFlavor(), admitted("x-uid"))
	b.run()
	x := b.toy("blue")
	x.Spec.Pods = 4
	b.update(x)
	b.said()
	b.run()
	expect(t, "made", b.jobLines(), []string{"x-0 0", "x-1 0", "x-2 0"})
	expect(t, "said", b.said(), "")
	if result, err := b.step(); err != nil || result.RequeueAfter != conflictPause {
		t.Errorf("it is looked at again after %v, %v", result.RequeueAfter, err)
	}
	w := &kueue.Workload{}
	b.get("blue", w, "w")
	w.Spec.PodSets[0].Count, w.Status.Admission.PodSetAssignments[0].Count = 4, new(int32(4))
	b.update(w)
	b.run()
	expect(t, "admitted with it", b.jobLines(), []string{"x-0 0", "x-1 0", "x-2 0", "x-3 0"})
}

func (b *bench) hold(on bool) {
	x := b.toy("blue")
	x.Spec.Hold = on
	b.update(x)
}

// TestJobOfAnother: a Job that has the name of a member and is not the job's own is neither
// taken over nor removed.
func TestJobOfAnother(t *testing.T) {
	b := newBench(
		t,
		aToy("lab", ofJobs),
		&batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "lab", Name: "x-1", UID: "theirs"}},
	)
	b.run()
	if said := b.said(); !strings.Contains(said, "There is another job x-1, which is not this job's") {
		t.Errorf("it said %s", said)
	}
	expect(t, "theirs", string(b.jobs()[1].UID), "theirs")
}

// TestArtifacts: files and keys are there before the first member; the file follows what is
// seen, and the key stays what it is. While the job is suspended only what stays is there.
func TestArtifacts(t *testing.T) {
	b := newBench(t, aToy("lab", func(x *toy.Toy) { x.Spec.Key = true }))
	list, key := &corev1.ConfigMap{}, &corev1.Secret{}
	b.before = func(verb string, o client.Object) error {
		if _, pod := o.(*corev1.Pod); pod && verb == "create" &&
			(!b.get("lab", list, "x-list") || !b.get("lab", key, "x-key")) {
			t.Error("a pod is made before what it needs")
		}
		return nil
	}
	b.run()
	b.get("lab", list, "x-list")
	b.get("lab", key, "x-key")
	expect(t, "the list", list.Data["active"], "3")
	first := fmt.Sprint(key.Data)
	if len(key.Data["key"]) != 8 {
		t.Errorf("the key is %q", key.Data)
	}
	b.becomes("x-0", corev1.PodSucceeded)
	b.run()
	b.r.ensured = ensured{} // another controller goes on
	b.run()
	b.get("lab", list, "x-list")
	b.get("lab", key, "x-key")
	expect(t, "the list", list.Data["active"], "2")
	expect(t, "the key", fmt.Sprint(key.Data), first)

	if err := b.r.Client.Delete(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	b.becomes("x-1", corev1.PodFailed)
	b.run()
	expect(t, "it was deleted, and a pod begins: it is there", b.get("lab", list, "x-list"), true)

	x := b.toy("lab")
	x.Spec.Hold = true
	b.update(x)
	b.run()
	expect(t, "the list is there", b.get("lab", list, "x-list"), false)
	expect(t, "the key is there", b.get("lab", key, "x-key"), true)
}

// TestFileOfAnother: what has the name of a file and is somebody else's stays as it is, and no
// member begins with it.
func TestFileOfAnother(t *testing.T) {
	b := newBench(
		t,
		aToy("lab", func(x *toy.Toy) { x.Spec.Key = true }),
		&corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "lab", Name: "x-list"},
			Data:       map[string]string{"mine": "1"},
		},
	)
	b.run()
	if said := b.said(); !strings.Contains(said, "There is another configmap x-list") {
		t.Errorf("it said %s", said)
	}
	expect(t, "pods", b.podNames(), []string(nil))
	x := b.toy("lab")
	x.Spec.Hold = true
	b.update(x)
	b.run()
	list := &corev1.ConfigMap{}
	b.get("lab", list, "x-list")
	expect(t, "theirs", list.Data, map[string]string{"mine": "1"})
}

// TestYields: a job whose file may yield goes on beside another's of its name, and
// makes it once that is gone.
func TestYields(t *testing.T) {
	b := newBench(
		t,
		aToy("lab", func(x *toy.Toy) { x.Spec.Yields = true }),
		&corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "lab", Name: "x-list"},
			Data:       map[string]string{"mine": "1"},
		},
	)
	b.run()
	if said := b.said(); !strings.Contains(said, "There is another configmap x-list") {
		t.Errorf("it said %s", said)
	}
	expect(t, "pods", b.podNames(), three)
	list := &corev1.ConfigMap{}
	b.get("lab", list, "x-list")
	expect(t, "theirs", list.Data, map[string]string{"mine": "1"})
	if err := b.r.Client.Delete(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	result, err := b.step()
	if err != nil || result.RequeueAfter > ensuredFor {
		t.Fatalf("%v, %v", result, err)
	}
	b.get("lab", list, "x-list")
	expect(t, "its own", list.Data, map[string]string{"active": "3"})
}

// TestOutlives: a file that outlives its job belongs to nobody, and one that is there already
// is taken as it is.
func TestOutlives(t *testing.T) {
	b := newBench(t, aToy("lab", func(x *toy.Toy) { x.Spec.Outlives = true }))
	b.run()
	list := &corev1.ConfigMap{}
	b.get("lab", list, "x-list")
	expect(t, "owners", len(list.OwnerReferences), 0)
	expect(t, "pods", b.podNames(), three)

	b = newBench(
		t,
		aToy("lab", func(x *toy.Toy) { x.Spec.Outlives = true }),
		&corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "lab", Name: "x-list"},
			Data:       map[string]string{"old": "1"},
		},
	)
	b.run()
	b.get("lab", list, "x-list")
	expect(t, "as it was", list.Data, map[string]string{"old": "1"})
	expect(t, "pods", b.podNames(), three)
}
