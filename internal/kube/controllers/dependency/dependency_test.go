package dependency

import (
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	history "github.com/mlbatch/mlbatch/api/history/v1alpha1"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/job"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
)

var noon = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

// of is the Workload of a Job, which has ended for a reason if that is not "".
func of(namespace, name, reason string) *kueue.Workload {
	w := &kueue.Workload{ObjectMeta: metav1.ObjectMeta{
		Namespace:         namespace,
		Name:              "job-" + name,
		UID:               types.UID(namespace + name),
		CreationTimestamp: metav1.Time{Time: noon},
		OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "batch/v1", Kind: "Job", Name: name, UID: "u", Controller: new(true)},
		},
	}}
	if reason != "" {
		w.Status.Conditions = []metav1.Condition{
			{Type: kueue.WorkloadFinished, Status: metav1.ConditionTrue, Reason: reason},
		}
	}
	return w
}

// after is the Workload of a Job that comes after others.
func after(list string) *kueue.Workload {
	w := of("blue", "late", "")
	w.Annotations = map[string]string{kueue.AfterAnnotation: list}
	return w
}

// recorded is a page of a history with a Job of that name.
func recorded(page, name string, state history.JobState, ended time.Time) *history.JobHistory {
	return &history.JobHistory{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:   "blue",
			Name:        page,
			Annotations: map[string]string{history.NewestAnnotation: ended.Format(time.RFC3339)},
		},
		Records: []history.JobRecord{
			{UID: "old", Kind: "Job", Name: name, State: state, Ended: metav1.Time{Time: ended}},
		},
	}
}

// TestStates: what a Workload is told of the jobs that it comes after.
func TestStates(t *testing.T) {
	const failed, succeeded = kueue.ReasonFailed, kueue.ReasonSucceeded
	later := noon.Add(time.Minute)
	for name, tc := range map[string]struct {
		why   string
		after string
		there []client.Object
		want  string
		tells string
	}{
		"runs":          {"it has not ended", "ok:a", []client.Object{of("blue", "a", "")}, "ok:a", ""},
		"succeeded":     {"as it must", "ok:a", []client.Object{of("blue", "a", succeeded)}, "met", "DependenciesMet"},
		"failed":        {"not as it must", "ok:a", []client.Object{of("blue", "a", failed)}, "ok:a: it failed, so this job never starts", "DependencyNeverMet"},
		"any":           {"however it ended", "any:a", []client.Object{of("blue", "a", failed)}, "met", "DependenciesMet"},
		"fail":          {"it failed", "fail:a", []client.Object{of("blue", "a", failed)}, "met", "DependenciesMet"},
		"not failed":    {"it did not", "fail:a", []client.Object{of("blue", "a", succeeded)}, "fail:a: it succeeded, so this job never starts", "DependencyNeverMet"},
		"one of two":    {"all must have ended", "ok:a,any:b", []client.Object{of("blue", "a", succeeded), of("blue", "b", "")}, "any:b", ""},
		"nobody":        {"it may still come", "ok:a", nil, "ok:a: no queue has a job of this name yet", ""},
		"another's":     {"namespaces are apart", "ok:a", []client.Object{of("red", "a", succeeded)}, "ok:a: no queue has a job of this name yet", ""},
		"itself":        {"its own end comes after its start", "any:late", nil, "any:late: no queue has a job of this name yet", ""},
		"gone":          {"the history knows it", "ok:a", []client.Object{recorded("jobs-00000001", "a", history.Succeeded, later)}, "met", "DependenciesMet"},
		"gone before":   {"names are used again", "ok:a", []client.Object{recorded("jobs-00000001", "a", history.Succeeded, noon.Add(-time.Hour))}, "ok:a: no queue has a job of this name yet", ""},
		"older page":    {"records are in pages", "ok:a", []client.Object{recorded("jobs-00000001", "a", history.Succeeded, later), recorded("jobs-00000002", "b", history.Failed, later)}, "met", "DependenciesMet"},
		"deleted":       {"it never succeeds", "ok:a", []client.Object{recorded("jobs-00000001", "a", history.Cancelled, later)}, "ok:a: it was deleted before it ended, so this job never starts", "DependencyNeverMet"},
		"deleted, any":  {"it has ended", "any:a", []client.Object{recorded("jobs-00000001", "a", history.Cancelled, later)}, "met", "DependenciesMet"},
		"lost Workload": {"the job is there and gets another one", "any:a", []client.Object{recorded("jobs-00000001", "a", history.Cancelled, later), &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "a"}}}, "any:a", ""},
		"again":         {"the one that is there counts", "ok:a", []client.Object{recorded("jobs-00000001", "a", history.Failed, later), of("blue", "a", "")}, "ok:a", ""},
		"unreadable":    {"it was written where no webhook looked", "often:a", nil, `it cannot be read: "often:a": use ok:JOB`, "DependencyNeverMet"},
	} {
		t.Run(name, func(t *testing.T) {
			w := after(tc.after)
			kinds := jobs.Kinds{job.Kind()}
			c := fake.NewClientBuilder().WithScheme(scheme.For(kinds)).WithObjects(append(tc.there, w)...).
				WithIndex(
					&kueue.Workload{},
					JobIndex,
					IndexJob,
				).WithIndex(&kueue.Workload{}, AfterIndex, IndexAfter).Build()
			told := events.NewFakeRecorder(5)
			r := &reconciler{Options{Client: c, Live: c, Recorder: told, Kinds: kinds}}
			at := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(w)}
			for range 2 { // the second time there is nothing to write
				if _, err := r.Reconcile(t.Context(), at); err != nil {
					t.Fatal(err)
				}
			}
			if err := c.Get(t.Context(), at.NamespacedName, w); err != nil {
				t.Fatal(err)
			}
			if got := w.Annotations[kueue.AfterStateAnnotation]; !strings.HasPrefix(got, tc.want) ||
				tc.want == "met" && got != tc.want {
				t.Errorf("%s: the state is %q, want %q", tc.why, got, tc.want)
			}
			said := ""
			select {
			case said = <-told.Events:
			default:
			}
			if !strings.Contains(said, tc.tells) || (said == "") != (tc.tells == "") || len(told.Events) > 0 {
				t.Errorf("%s: said %q, want %q once", tc.why, said, tc.tells)
			}
			wakes := len(r.after(t.Context(), of("blue", "a", ""))) == 1
			if want := tc.want != "met" && strings.Contains(tc.after, ":a") && tc.after != "often:a"; wakes != want {
				t.Errorf("a change of job a wakes it: %v, want %v", wakes, want)
			}
		})
	}
}

// TestMetIsMet: a job of the same name that comes later changes nothing.
func TestMetIsMet(t *testing.T) {
	w := after("ok:a")
	w.Annotations[kueue.AfterStateAnnotation] = kueue.AfterStateMet
	if waits(w) || IndexAfter(w) != nil {
		t.Error("it waits")
	}
}
