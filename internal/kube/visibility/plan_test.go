package visibility

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mlbatch/mlbatch/api/visibility/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/forecast"
	"github.com/mlbatch/mlbatch/internal/engine/inquiry"
)

const plansPath = "/apis/visibility.kueue.x-k8s.io/v1beta2/namespaces/blue/workloadplans"

const planned = `{"spec": {"queueName": "q", "podSets": [{"name": "main", "count": 2, "template": {"spec": {"containers": [
  {"name": "c", "resources": {"limits": {"nvidia.com/gpu": 4, "cpu": 2}}}]}}}]}}`

func post(t *testing.T, q queues, body string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	serve(t, q).ServeHTTP(w, httptest.NewRequest(http.MethodPost, plansPath, strings.NewReader(body)))
	return w
}

func TestPlan(t *testing.T) {
	q := shared()
	var told core.Workload
	q.supposes = func(w core.Workload) inquiry.Supposed {
		told = w
		return inquiry.Supposed{
			Queue:  "shared",
			Awaits: true,
			Evicts: []core.Key{{Namespace: "red", Name: "b"}},
			Admission: &core.Admission{Queue: "shared", PodSets: []core.PodSetAdmission{
				{
					Name:    "main",
					Count:   2,
					Flavors: []core.FlavorChoice{{Resource: core.GPU, Flavor: "h100"}},
					Usage: core.MakeResources(
						map[string]core.Amount{core.GPU: 8},
					),
					Places: []core.Place{{Node: "n1", Count: 2}},
				},
			}},
			Quotas: []inquiry.SupposedQuota{
				{
					FlavorResource: core.FlavorResource{Flavor: "h100", Resource: core.GPU},
					Nominal:        4,
					Used:           8,
					Borrowed:       4,
				},
			},
		}
	}
	w := post(t, q, planned)
	var got v1beta2.WorkloadPlan
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != http.StatusOK || got.Status == nil {
		t.Fatalf("%d, %v: %s", w.Code, err, w.Body)
	}
	if told.Key.Namespace != "blue" || told.Queue != "q" || told.PodSets[0].Count != 2 ||
		told.PodSets[0].Requests.Of(core.GPU) != 4 {
		t.Errorf("the engine is told of %+v", told)
	}
	s := got.Status
	if s.Outcome != v1beta2.PlanStartsAfterStops || s.ClusterQueue != "shared" || s.Explanation != nil {
		t.Errorf("outcome is %+v", s)
	}
	if len(s.Preempts) != 1 || s.Preempts[0].Name != "" {
		t.Errorf("somebody who may see no workloads is told of %+v", s.Preempts)
	}
	set, quota := s.PodSets[0], s.Quotas[0]
	if diff := cmp.Diff(
		[]string{"h100", "8", "n1", "4", "8", "4"},
		[]string{
			set.Flavors[0].Flavor,
			set.Flavors[0].Amount.String(),
			set.Nodes[0].Name,
			quota.Nominal.String(),
			quota.Used.String(),
			quota.Borrowed.String(),
		},
	); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestPlanThatWaits(t *testing.T) {
	q := shared()
	q.supposes = func(core.Workload) inquiry.Supposed {
		return inquiry.Supposed{
			Queue: "shared",
			Explanation: core.Explanation{
				Queue:  "shared",
				Reason: core.Reason{Code: core.Suspended, Cause: core.QueueStopped},
			},
		}
	}
	var got v1beta2.WorkloadPlan
	if err := json.Unmarshal(
		post(t, q, planned).Body.Bytes(),
		&got,
	); err != nil || got.Status == nil || got.Status.Outcome != v1beta2.PlanWaits ||
		got.Status.Explanation == nil ||
		got.Status.Explanation.Reason != string(core.Suspended) {
		t.Errorf("%v: %+v", err, got.Status)
	}
}

// TestPlanSaysWhen: only who asks for it waits for the future to be played.
func TestPlanSaysWhen(t *testing.T) {
	at := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	q := shared()
	q.supposedStart = forecast.Forecast{At: at, P50: at.Add(time.Hour), Known: 7}
	waits := inquiry.Supposed{
		Queue:       "shared",
		Explanation: core.Explanation{Reason: core.Reason{Code: core.WaitingForQuota}},
	}
	runs := inquiry.Supposed{Queue: "shared", Admission: &core.Admission{}}
	asked := strings.Replace(planned, `"queueName"`, `"estimateStart": true, "queueName"`, 1)
	for name, tc := range map[string]struct {
		body string
		is   inquiry.Supposed
		want bool
	}{"asked": {asked, waits, true}, "not asked": {planned, waits, false}, "starts": {asked, runs, false}} {
		q.supposes = func(core.Workload) inquiry.Supposed { return tc.is }
		var got v1beta2.WorkloadPlan
		if err := json.Unmarshal(
			post(t, q, tc.body).Body.Bytes(),
			&got,
		); err != nil || got.Status == nil ||
			(got.Status.Start != nil) != tc.want {
			t.Fatalf("%s: %v: %+v", name, err, got.Status)
		}
		if s := got.Status.Start; tc.want &&
			(!s.P50.Equal(new(metav1.NewTime(at.Add(time.Hour)))) || s.P90 != nil || s.Known != 7) {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

func TestWrongPlans(t *testing.T) {
	for name, tc := range map[string]struct{ body, says string }{
		"no JSON":  {"x", "read the plan"},
		"no queue": {`{"spec": {"podSets": [{"name": "a"}]}}`, "a queueName"},
		"no pods":  {`{"spec": {"queueName": "q"}}`, "podSets"},
		"no name":  {`{"spec": {"queueName": "q", "podSets": [{"count": 1}]}}`, "podSets[0] needs a name"},
		"too long": {`{"spec": {"queueName": "` + strings.Repeat("x", mostPlanBytes) + `"}}`, "too large"},
		"class":    {strings.Replace(planned, `"queueName"`, `"priorityClass": "nope", "queueName"`, 1), "no WorkloadPriorityClass nope"},
	} {
		if w := post(
			t,
			shared(),
			tc.body,
		); w.Code != http.StatusBadRequest ||
			!strings.Contains(w.Body.String(), tc.says) {
			t.Errorf("%s: %d, %s; want %q", name, w.Code, w.Body, tc.says)
		}
	}
	r := httptest.NewRecorder()
	serve(t, shared()).ServeHTTP(r, httptest.NewRequest(http.MethodGet, plansPath, nil))
	if r.Code != http.StatusMethodNotAllowed {
		t.Errorf("plans can be listed: %d", r.Code)
	}
}
