package why

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	awv1beta2 "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	history "github.com/mlbatch/mlbatch/api/history/v1alpha1"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/view"
)

// TestRetriesAreTold: how much of which limit is used, who says what of it, and which nodes are avoided.
func TestRetriesAreTold(t *testing.T) {
	note := func(text string) map[string]string { return map[string]string{kueue.RetryPolicyAnnotation: text} }
	began := time.Unix(1_000_000, 0)
	var past history.Attempts
	for range 2 {
		a := history.Attempt{Start: metav1.NewTime(began)}
		view.EndAttempt(&a, began.Add(time.Minute), core.CategoryNodeFailure, "", "")
		past = view.AddAttempt(past, a)
	}
	w := &awv1beta2.AppWrapper{ObjectMeta: metav1.ObjectMeta{Annotations: note("Crash: Retry\nlimit: 5\n")}}
	w.Status.Retries = 1
	w.Status.Conditions = []metav1.Condition{
		{Type: kueue.WorkloadAttempts, Status: metav1.ConditionTrue, Message: view.AttemptsText(past)},
	}
	wl := &kueue.Workload{}
	wl.Status.Conditions = []metav1.Condition{{
		Type: kueue.WorkloadNodesAvoided, Status: metav1.ConditionTrue,
		Message: convert.AvoidedText([]convert.AvoidedNode{{Name: "node-3", Since: began}}),
	}}
	p := JobObjects{
		AppWrapper: w, Workload: wl,
		LocalQueue: &kueue.LocalQueue{ObjectMeta: metav1.ObjectMeta{Name: "lq", Annotations: note("nonsense")}},
	}
	cq := &kueue.ClusterQueue{ObjectMeta: metav1.ObjectMeta{Name: "cq", Annotations: note("limit: 9")}}
	const want = "1 of 5 used, 2 disruptions in a row without progress; the job says: Crash: Retry; limit: 5; ClusterQueue cq says: limit: 9; gets other nodes than node-3 if there are some"
	if diff := cmp.Diff(want, RetriesText(p.retries(cq))); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	w.Annotations["workload.codeflare.dev.appwrapper/retryLimit"] = "2" // then queues have no say
	const own = "1 of 2 used, 2 disruptions in a row without progress; the job says: Crash: Retry; limit: 5; gets other nodes than node-3 if there are some"
	if diff := cmp.Diff(own, RetriesText(p.retries(cq))); diff != "" {
		t.Errorf("with a limit of its author (-want +got)\n%s", diff)
	}
	if got := (&JobObjects{AppWrapper: &awv1beta2.AppWrapper{}, Workload: &kueue.Workload{}}).retries(
		nil,
	); got != nil {
		t.Errorf("of a job that nothing happened to: %+v", got)
	}
}
