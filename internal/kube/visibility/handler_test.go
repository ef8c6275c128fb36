package visibility

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/endpoints/request"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/api/visibility/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/cycle"
	"github.com/mlbatch/mlbatch/internal/engine/forecast"
	"github.com/mlbatch/mlbatch/internal/engine/inquiry"
)

// queues are lines without an engine.
type queues struct {
	lines       map[string][]cycle.Waiting
	localQueues map[core.Key]string
	err         error
	// reasons is why they wait.
	reasons map[core.Key]core.Explanation
	// contests is how one that waits stands to another one.
	contests map[[2]core.Key]core.Comparison
	// forecasts is when they start.
	forecasts map[core.Key]forecast.Forecast
	// supposes is what would become of a workload.
	supposes func(core.Workload) inquiry.Supposed
	// supposedStart is when it would start; zero is not known.
	supposedStart forecast.Forecast
}

// done is a channel that is closed: the caches are filled.
func done() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

func (q queues) Forecast(k core.Key) (forecast.Forecast, bool) {
	f, is := q.forecasts[k]
	return f, is
}

func (q queues) SupposeStart(core.Workload) (forecast.Forecast, bool) {
	return q.supposedStart, !q.supposedStart.At.IsZero()
}

func (q queues) Suppose(w core.Workload, _ time.Time, _ []int64) (inquiry.Supposed, error) {
	if q.supposes == nil {
		return inquiry.Supposed{}, q.err
	}
	return q.supposes(w), q.err
}

func (q queues) Compare(k, other core.Key, _ time.Time) (core.Comparison, bool, error) {
	x, ok := q.contests[[2]core.Key{k, other}]
	return x, ok, q.err
}

func (q queues) Line(name string) ([]cycle.Waiting, bool, error) {
	l, ok := q.lines[name]
	return l, ok, q.err
}

func (q queues) QueueOf(namespace, name string) (string, bool, error) {
	n, ok := q.localQueues[core.Key{Namespace: namespace, Name: name}]
	return n, ok, q.err
}

func (q queues) Explain(k core.Key, _ time.Time, _ []int64) (core.Explanation, bool, error) {
	x, ok := q.reasons[k]
	return x, ok, q.err
}

// shared is a queue with local queues of two teams: blue/a, red/b, blue/c, blue/off,
// blue/d in another LocalQueue, and one that is gone.
func shared() queues {
	w := func(namespace, name, localQueue string, priority int64) cycle.Waiting {
		return cycle.Waiting{
			Key:        core.Key{Namespace: namespace, Name: name},
			LocalQueue: localQueue,
			Priority:   priority,
		}
	}
	return queues{
		lines: map[string][]cycle.Waiting{"shared": {
			w("blue", "a", "q", 5), w("red", "b", "q", 5), w("blue", "gone", "q", 4), w("blue", "off", "q", 4),
			w("blue", "c", "q", 3), w("blue", "d", "other", 1),
		}, "empty": {}},
		localQueues: map[core.Key]string{
			{Namespace: "blue", Name: "q"}: "shared", {Namespace: "red", Name: "q"}: "shared",
			{Namespace: "blue", Name: "lost"}: "missing",
		},
	}
}

func serve(t *testing.T, q queues, also ...client.Object) http.Handler {
	t.Helper()
	s := runtime.NewScheme()
	if err := errors.Join(kueue.AddToScheme(s), clientgoscheme.AddToScheme(s)); err != nil {
		t.Fatal(err)
	}
	objects := also
	for i, k := range []core.Key{{Namespace: "blue", Name: "a"}, {Namespace: "red", Name: "b"}, {Namespace: "blue", Name: "c"}, {Namespace: "blue", Name: "d"}, {Namespace: "blue", Name: "off"}} {
		objects = append(objects, &kueue.Workload{
			ObjectMeta: metav1.ObjectMeta{
				Namespace:         k.Namespace,
				Name:              k.Name,
				CreationTimestamp: metav1.Unix(int64(1000+i), 0),
				OwnerReferences: []metav1.OwnerReference{
					{APIVersion: "batch/v1", Kind: "Job", Name: "job-" + k.Name, UID: "u"},
				},
			},
			Spec: kueue.WorkloadSpec{Active: new(k.Name != "off")},
		})
	}
	h := &handler{
		lines:     q,
		workloads: fake.NewClientBuilder().WithScheme(s).WithObjects(objects...).Build(),
		clock:     clock.RealClock{},
		filled:    done(),
	}
	return filters.WithRequestInfo(
		h,
		&request.RequestInfoFactory{
			APIPrefixes:          sets.NewString("api", "apis"),
			GrouplessAPIPrefixes: sets.NewString("api"),
		},
	)
}

const root = "/apis/visibility.kueue.x-k8s.io"

func TestPending(t *testing.T) {
	tests := map[string]struct {
		why, path string
		want      []string // namespace/name priority localQueue positionInClusterQueue positionInLocalQueue
	}{
		"queue": {
			"all of them, but those switched off or gone", "/v1beta2/clusterqueues/shared/pendingworkloads",
			[]string{"blue/a 5 q 0 0", "red/b 5 q 1 0", "blue/c 3 q 2 1", "blue/d 1 other 3 0"},
		},
		"local queue": {
			"one's own, with their places among all", "/v1beta2/namespaces/blue/localqueues/q/pendingworkloads",
			[]string{"blue/a 5 q 0 0", "blue/c 3 q 2 1"},
		},
		"old version": {
			"says the same",
			"/v1beta1/namespaces/red/localqueues/q/pendingworkloads",
			[]string{"red/b 5 q 1 0"},
		},
		"page": {
			"a part of it",
			"/v1beta2/clusterqueues/shared/pendingworkloads?offset=1&limit=2",
			[]string{"red/b 5 q 1 0", "blue/c 3 q 2 1"},
		},
		"local page": {
			"offset counts what is listed",
			"/v1beta2/namespaces/blue/localqueues/q/pendingworkloads?offset=1",
			[]string{"blue/c 3 q 2 1"},
		},
		"past the end": {"is empty", "/v1beta2/clusterqueues/shared/pendingworkloads?offset=99", nil},
		"nobody waits": {"is empty, and no error", "/v1beta2/clusterqueues/empty/pendingworkloads", nil},
		"queue is lost": {
			"a LocalQueue of a queue that is missing",
			"/v1beta2/namespaces/blue/localqueues/lost/pendingworkloads",
			nil,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			w := httptest.NewRecorder()
			serve(t, shared()).ServeHTTP(w, httptest.NewRequest(http.MethodGet, root+tc.path, nil))
			var got v1beta2.PendingWorkloadsSummary
			if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != http.StatusOK || got.Items == nil {
				t.Fatalf("%d, %v: %s", w.Code, err, w.Body)
			}
			var items []string
			for _, i := range got.Items {
				items = append(
					items,
					fmt.Sprintf(
						"%s/%s %d %s %d %d",
						i.Namespace,
						i.Name,
						i.Priority,
						i.LocalQueueName,
						i.PositionInClusterQueue,
						i.PositionInLocalQueue,
					),
				)
				if len(i.OwnerReferences) != 1 || i.OwnerReferences[0].Name != "job-"+i.Name ||
					i.CreationTimestamp.Before(&metav1.Time{Time: time.Unix(1000, 0)}) {
					t.Errorf("%s: metadata %+v", i.Name, i.ObjectMeta)
				}
			}
			if diff := cmp.Diff(tc.want, items); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.why, diff)
			}
			if got.Kind != "PendingWorkloadsSummary" ||
				got.APIVersion != "visibility.kueue.x-k8s.io"+tc.path[:len("/v1beta2")] {
				t.Errorf("kind %s of %s", got.Kind, got.APIVersion)
			}
		})
	}
}

// TestMembersLearnTheirQuota: whoever may ask about a LocalQueue is told the quotas of its
// ClusterQueue, which members of a team may not read, and what all of its jobs have of them.
func TestMembersLearnTheirQuota(t *testing.T) {
	const gpu = "nvidia.com/gpu"
	q := &kueue.ClusterQueue{ObjectMeta: metav1.ObjectMeta{Name: "shared"}}
	q.Spec.CohortName = "all"
	q.Spec.ResourceGroups = []kueue.ResourceGroup{
		{CoveredResources: []corev1.ResourceName{gpu}, Flavors: []kueue.FlavorQuotas{
			{
				Name: "h100",
				Resources: []kueue.ResourceQuota{
					{Name: gpu, NominalQuota: resource.MustParse("8"), BorrowingLimit: new(resource.MustParse("16"))},
				},
			},
		}},
	}
	q.Status.FlavorsReservation = []kueue.FlavorUsage{
		{
			Name: "h100",
			Resources: []kueue.ResourceUsage{
				{Name: gpu, Total: resource.MustParse("12"), Borrowed: resource.MustParse("4")},
			},
		},
	}
	for path, told := range map[string]bool{
		"/v1beta2/namespaces/blue/localqueues/q/pendingworkloads?limit=1": true,
		"/v1beta2/namespaces/blue/localqueues/lost/pendingworkloads":      false, // its ClusterQueue is missing
		"/v1beta2/clusterqueues/shared/pendingworkloads":                  false, // it can be read where it is
	} {
		w := httptest.NewRecorder()
		serve(t, shared(), q).ServeHTTP(w, httptest.NewRequest(http.MethodGet, root+path, nil))
		var got v1beta2.PendingWorkloadsSummary
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != http.StatusOK {
			t.Fatalf("%s: %d, %v: %s", path, w.Code, err, w.Body)
		}
		if !told {
			if len(got.Quotas) > 0 {
				t.Errorf("%s: %+v", path, got.Quotas)
			}
			continue
		}
		if len(got.Quotas) != 1 || got.Quotas[0].BorrowingLimit == nil || got.Quotas[0].LendingLimit != nil {
			t.Fatalf("%s: %+v", path, got.Quotas)
		}
		x := got.Quotas[0]
		if diff := cmp.Diff(
			[]string{"h100", gpu, "8", "16", "12", "4"},
			[]string{
				x.Flavor,
				x.Resource,
				x.Nominal.String(),
				x.BorrowingLimit.String(),
				x.Used.String(),
				x.Borrowed.String(),
			},
		); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
}

func TestErrors(t *testing.T) {
	tests := map[string]struct {
		why, method, path string
		busy              error
		code              int
	}{
		"no such queue":       {"", "GET", "/v1beta2/clusterqueues/none/pendingworkloads", nil, 404},
		"no such local queue": {"", "GET", "/v1beta2/namespaces/blue/localqueues/none/pendingworkloads", nil, 404},
		"no such version":     {"", "GET", "/v1/clusterqueues/shared/pendingworkloads", nil, 404},
		"no such resource":    {"", "GET", "/v1beta2/pods/x", nil, 404},
		"no subresource": {
			"the queue itself is in another group",
			"GET",
			"/v1beta2/clusterqueues/shared",
			nil,
			404,
		},
		"namespace missing": {"", "GET", "/v1beta2/localqueues/q/pendingworkloads", nil, 404},
		"bad limit":         {"", "GET", "/v1beta2/clusterqueues/shared/pendingworkloads?limit=-1", nil, 400},
		"bad offset":        {"", "GET", "/v1beta2/clusterqueues/shared/pendingworkloads?offset=x", nil, 400},
		"write": {
			"it can be read only",
			"PUT",
			"/v1beta2/clusterqueues/shared/pendingworkloads",
			nil,
			405,
		},
		"post": {"it can be read only", "POST", "", nil, 405},
		"not yet": {
			"it has just started",
			"GET",
			"/v1beta2/clusterqueues/shared/pendingworkloads",
			errors.New("not yet"),
			503,
		},
		"nor locally": {
			"it has just started",
			"GET",
			"/v1beta2/namespaces/blue/localqueues/q/pendingworkloads",
			errors.New("not yet"),
			503,
		},
		"nothing there": {"", "GET", "/v1beta9", nil, 404},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			q := shared()
			q.err = tc.busy
			w := httptest.NewRecorder()
			serve(t, q).ServeHTTP(w, httptest.NewRequest(tc.method, root+tc.path, nil))
			var s metav1.Status
			if err := json.Unmarshal(
				w.Body.Bytes(),
				&s,
			); err != nil || s.Kind != "Status" || w.Code != tc.code || s.Code != int32(tc.code) ||
				s.Message == "" ||
				(tc.code == http.StatusServiceUnavailable) != (w.Header().Get("Retry-After") == "1") {
				t.Errorf("%s: %d instead of %d, %v: %s", tc.why, w.Code, tc.code, err, w.Body)
			}
		})
	}
}

func TestDiscovery(t *testing.T) {
	for path, want := range map[string]string{
		"/apis": `"kind":"APIGroupList"`, root: `"preferredVersion":{"groupVersion":"visibility.kueue.x-k8s.io/v1beta2"`,
		root + "/v1beta2": `"name":"clusterqueues/pendingworkloads"`, root + "/v1beta1/": `"name":"localqueues/pendingworkloads"`,
		"/healthz": "ok",
	} {
		w := httptest.NewRecorder()
		serve(t, shared()).ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %d, want %s: %s", path, w.Code, want, w.Body)
		}
	}
	r := httptest.NewRequest(http.MethodGet, "/apis", nil)
	r.Header.Set("Accept", "application/json;v=v2;g=apidiscovery.k8s.io;as=APIGroupDiscoveryList")
	w := httptest.NewRecorder()
	if serve(t, shared()).ServeHTTP(w, r); w.Code != http.StatusNotAcceptable {
		t.Errorf("aggregated discovery: %d", w.Code)
	}
}

// TestDiscoveryIsAnsweredBeforeQuestions: as long as the caches are not filled it is said what there
// is, and who asks more is told to come again.
func TestDiscoveryIsAnsweredBeforeQuestions(t *testing.T) {
	h := &handler{lines: shared(), clock: clock.RealClock{}, filled: make(chan struct{})}
	served := filters.WithRequestInfo(
		h,
		&request.RequestInfoFactory{
			APIPrefixes:          sets.NewString("api", "apis"),
			GrouplessAPIPrefixes: sets.NewString("api"),
		},
	)
	for path, code := range map[string]int{
		"/apis": 200, root: 200, root + "/v1beta2": 200, root + "/v1beta1": 200,
		root + "/v1beta2/clusterqueues/shared/pendingworkloads": 503, root + "/v1beta2/namespaces/blue/workloads/a/explanation": 503,
	} {
		w := httptest.NewRecorder()
		if served.ServeHTTP(
			w,
			httptest.NewRequest(http.MethodGet, path, nil),
		); w.Code != code ||
			(code == 503) != (w.Header().Get("Retry-After") != "") {
			t.Errorf(
				"%s: %d instead of %d, to be asked again after %q",
				path,
				w.Code,
				code,
				w.Header().Get("Retry-After"),
			)
		}
	}
}

func TestPages(t *testing.T) {
	for query, want := range map[string]page{
		"": {0, 1000}, "limit=0": {0, 1000}, "limit=5&offset=7": {7, 5}, "limit=999999": {0, 100000}, "offset=99999999999": {1<<31 - 1, 1000},
	} {
		q, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := pageOf(q); err != nil || got != want {
			t.Errorf("%q: %v, %v, want %v", query, got, err, want)
		}
	}
}
