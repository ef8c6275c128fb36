package visibility

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/endpoints/request"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/api/visibility/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/cycle"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
	"github.com/mlbatch/mlbatch/internal/view"
)

// asks is what a user asks for.
func asks(t *testing.T, q queues, who, path string, rights ...string) (*v1beta2.Explanation, string, int) {
	t.Helper()
	h := &handler{
		lines:     q,
		workloads: fake.NewClientBuilder().WithScheme(scheme.New()).WithObjects(town()...).Build(),
		clock:     testingclock.NewFakePassiveClock(time.Unix(5000, 0)),
		slack:     "slack",
		filled:    done(),
		rights: authorizer.AuthorizerFunc(
			func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
				if a.GetUser().GetName() != who {
					return authorizer.DecisionDeny, "", errors.New("somebody else asks")
				}
				for _, r := range rights {
					if r == strings.TrimSpace(a.GetVerb()+" "+a.GetResource()+" "+a.GetNamespace()) {
						return authorizer.DecisionAllow, "", nil
					}
				}
				return authorizer.DecisionNoOpinion, "", nil
			},
		),
	}
	served := filters.WithRequestInfo(
		h,
		&request.RequestInfoFactory{
			APIPrefixes:          sets.NewString("api", "apis"),
			GrouplessAPIPrefixes: sets.NewString("api"),
		},
	)
	r := httptest.NewRequest(http.MethodGet, root+path, nil)
	r = r.WithContext(request.WithUser(r.Context(), &user.DefaultInfo{Name: who}))
	w := httptest.NewRecorder()
	served.ServeHTTP(w, r)
	out := &v1beta2.Explanation{}
	if w.Code == http.StatusOK {
		if err := json.Unmarshal(w.Body.Bytes(), out); err != nil {
			t.Fatal(err)
		}
	}
	return out, w.Body.String(), w.Code
}

// town is two teams' workloads, a bare pod on node-0 and a class of priority.
func town() []client.Object {
	var out []client.Object
	for _, name := range []string{"blue/mine", "blue/first", "red/secret-project"} {
		namespace, name, _ := strings.Cut(name, "/")
		out = append(out, &kueue.Workload{ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace,
			Name:      name,
			UID:       types.UID("uid-" + namespace + name[:1]),
			OwnerReferences: []metav1.OwnerReference{
				{
					APIVersion: "workload.codeflare.dev/v1beta2",
					Kind:       "AppWrapper",
					Name:       "job-" + name,
					Controller: new(true),
				},
			},
		}, Spec: kueue.WorkloadSpec{QueueName: "q"}})
	}
	gpu := corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("8")}
	return append(
		out,
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "red", Name: "hidden-pod"}, Spec: corev1.PodSpec{
			NodeName:   "node-0",
			Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: gpu}}},
		}},
		&corev1.Node{
			ObjectMeta: metav1.ObjectMeta{
				Name:   "node-9",
				Labels: map[string]string{"autopilot.ibm.com/gpuhealth": "EVICT"},
			},
			Status: corev1.NodeStatus{
				Capacity:    gpu,
				Allocatable: gpu,
				Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
			},
		},
		&kueue.ResourceFlavor{ObjectMeta: metav1.ObjectMeta{Name: "f"}},
		&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "high"}, Value: 10},
	)
}

// reasons is blue/mine waiting for what red/secret-project and a bare pod hold.
func reasons() queues {
	red, first := core.Key{Namespace: "red", Name: "secret-project"}, core.Key{Namespace: "blue", Name: "first"}
	mine := core.Key{Namespace: "blue", Name: "mine"}
	q := shared()
	q.lines["shared"] = []cycle.Waiting{
		{Key: red, LocalQueue: "q"},
		{Key: first, LocalQueue: "q"},
		{Key: mine, LocalQueue: "q"},
	}
	q.reasons = map[core.Key]core.Explanation{mine: {
		Reason: core.Reason{
			Code:     core.WaitingForQuota,
			Cause:    core.QuotaShort,
			Queue:    "shared",
			Tree:     "t",
			PodSet:   "main",
			Flavor:   "f",
			Resource: core.GPU,
			Need:     8,
			Have:     2,
			Limit:    16,
			Ahead:    red,
			Holders:  []core.Key{red},
		},
		Queue:      "shared",
		LocalQueue: "q",
		Priority:   5,
		Holders: []core.Holder{
			{Key: red, UID: "uid-reds", Queue: "red-queue", Resource: core.GPU, Amount: 8},
			{Node: "node-0", Resource: core.GPU, Amount: 8},
		},
		Lenders: []core.Lender{{Queue: "slack", Flavor: "f", Resource: core.GPU, Nominal: 8}},
		Advice: []core.Advice{
			{Kind: core.WaitFor, Keys: []core.Key{red}},
			{Kind: core.FewerPods, PodSet: "main", Count: 1},
			{Kind: core.RaisePriority, Priority: 10},
			{Kind: core.Uncordon, Nodes: []string{"node-1"}},
		},
	}}
	return q
}

const minePath = "/v1beta2/namespaces/blue/workloads/mine/explanation"

// TestWhyHasTheReasonOfTheEngine: the facts that commands print from an answer have the
// code and the cause that the engine gave, and the moment.
func TestWhyHasTheReasonOfTheEngine(t *testing.T) {
	q := reasons()
	x, text, code := asks(t, q, "alice", minePath)
	if code != http.StatusOK {
		t.Fatalf("%d: %s", code, text)
	}
	said := q.reasons[core.Key{Namespace: "blue", Name: "mine"}].Reason
	d := view.StandingOf(
		view.Objects{Workload: &kueue.Workload{Spec: kueue.WorkloadSpec{QueueName: "q"}}, Answer: x},
	).Decision
	want := &view.Decision{
		Code:    said.Code,
		Cause:   said.Cause,
		Message: sentence(said),
		At:      time.Unix(5000, 0),
		Live:    true,
	}
	if diff := cmp.Diff(want, d); diff != "" {
		t.Errorf("(-engine +command):\n%s", diff)
	}
}

// TestNamesOfOthersAreHidden asks as a tenant: jobs of others are known by queue
// and UID, one's own by name.
func TestNamesOfOthersAreHidden(t *testing.T) {
	x, text, code := asks(t, reasons(), "alice", minePath, "get workloads blue", "create appwrappers blue")
	if code != http.StatusOK {
		t.Fatalf("%d: %s", code, text)
	}
	for _, hidden := range []string{"secret-project\"", "job-secret", "hidden-pod", `"namespace":"red"`} {
		if strings.Contains(text, hidden) {
			t.Errorf("alice learns %s: %s", hidden, text)
		}
	}
	if h := x.Holders; len(h) != 2 || h[0].UID != "uid-reds" || h[0].ClusterQueue != "red-queue" ||
		h[0].Amount.Value() != 8 ||
		h[1].Node != "node-0" {
		t.Errorf("holders %+v", h)
	}
	if x.Blocker == nil || x.Blocker.UID != "uid-reds" || *x.PositionInClusterQueue != 2 ||
		*x.PositionInLocalQueue != 1 {
		t.Errorf("place %+v %v %v", x.Blocker, x.PositionInClusterQueue, x.PositionInLocalQueue)
	}
	if len(x.Ahead) != 2 || x.Ahead[0].Name != "" || x.Ahead[1].Name != "first" ||
		x.Ahead[1].Job != "AppWrapper/job-first" {
		t.Errorf("ahead %+v", x.Ahead)
	}
	for i, want := range []struct {
		kind    string
		allowed bool
	}{{"WaitFor", true}, {"FewerPods", true}, {"RaisePriority", true}, {"Uncordon", false}} {
		if a := x.Advice[i]; a.Kind != want.kind || a.Allowed != want.allowed ||
			(a.Needs == "") != (a.Kind == "WaitFor") {
			t.Errorf("advice %d: %+v, want %+v", i, a, want)
		}
	}
	if got := x.Advice[2].PriorityClasses; len(got) != 1 || got[0] != "high" {
		t.Errorf("classes %v", got)
	}
	if x.Shortage == nil || x.Shortage.Have.Value() != 2 || x.Message == "" || !x.Waiting {
		t.Errorf("%+v", x)
	}
	if l := x.Lenders; len(l) != 1 || len(l[0].Because) != 1 || !strings.Contains(l[0].Because[0].Why, "EVICT") {
		t.Errorf("lenders %+v", l)
	}
}

func TestExplanationForWhoMaySee(t *testing.T) {
	x, text, code := asks(
		t,
		reasons(),
		"root",
		minePath,
		"get workloads blue",
		"get workloads red",
		"get pods red",
		"patch nodes",
	)
	if code != http.StatusOK || x.Holders[0].Job != "AppWrapper/job-secret-project" ||
		x.Holders[1].Pods[0] != "red/hidden-pod" ||
		!x.Advice[3].Allowed ||
		x.Advice[1].Allowed {
		t.Errorf("%d: %s", code, text)
	}
}

func TestExplanationOfOthers(t *testing.T) {
	for path, want := range map[string]int{
		"/v1beta2/namespaces/blue/workloads/none/explanation": http.StatusNotFound,
		"/v1beta1/namespaces/blue/workloads/mine/explanation": http.StatusNotFound,
		"/v1beta2/namespaces/blue/workloads/mine/other":       http.StatusNotFound,
		"/v1beta2/namespaces/blue/workloads/mine":             http.StatusNotFound,
	} {
		if _, text, code := asks(t, reasons(), "root", path); code != want {
			t.Errorf("%s: %d, want %d: %s", path, code, want, text)
		}
	}
	if x, text, code := asks(
		t,
		reasons(),
		"root",
		"/v1beta2/namespaces/blue/workloads/first/explanation",
	); code != http.StatusOK ||
		x.Waiting {
		t.Errorf("a workload that has quota: %d: %s", code, text)
	}
	busy := reasons()
	busy.err = errors.New("not yet")
	if _, _, code := asks(t, busy, "root", minePath); code != http.StatusServiceUnavailable {
		t.Errorf("without a picture: %d", code)
	}
}
