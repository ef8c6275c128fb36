package views_test

import (
	"bufio"
	gocmp "cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	visibility "github.com/mlbatch/mlbatch/api/visibility/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/kinds"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
	"github.com/mlbatch/mlbatch/internal/kube/views"
	"github.com/mlbatch/mlbatch/internal/view"
)

// rights are who may do what: "alice list pods blue", "root list *" for all namespaces.
type rights []string

func (r rights) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	words := []string{a.GetUser().GetName(), a.GetVerb(), a.GetResource()}
	if a.GetNamespace() != "" {
		words = append(words, a.GetNamespace())
	}
	if slices.Contains(r, a.GetUser().GetName()+" everything") || slices.Contains(r, strings.Join(words, " ")) {
		return authorizer.DecisionAllow, "", nil
	}
	return authorizer.DecisionNoOpinion, "", nil
}

// member are the rights of a member of a team in its namespace.
func member(name, namespace string, but ...string) (out rights) {
	for _, of := range []string{"jobs", "workloads", "pods", "localqueues", "localqueues/pendingworkloads", "namespaces"} {
		for _, verb := range []string{"get", "list"} {
			if right := verb + " " + of; !slices.Contains(but, right) && (of != "namespaces" || verb == "get") {
				out = append(out, name+" "+right+" "+namespace)
			}
		}
	}
	return out
}

var started = metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))

// queued is a job with its Workload and, if it has a node, a pod that runs there.
func queued(namespace, name, node string) []client.Object {
	uid := types.UID(namespace + "-" + name)
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:         namespace,
			Name:              name,
			UID:               uid,
			CreationTimestamp: started,
			Labels:            map[string]string{kueue.QueueNameLabel: "q", "app": name},
		},
	}
	w := &kueue.Workload{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:         namespace,
			Name:              "job-" + name,
			CreationTimestamp: started,
			Labels:            map[string]string{kueue.JobUIDLabel: string(uid)},
		},
		Spec: kueue.WorkloadSpec{QueueName: "q", PodSets: []kueue.PodSet{{Name: "main", Count: 1}}},
	}
	if node == "" {
		return []client.Object{job, w}
	}
	w.Status.Admission = &kueue.Admission{
		ClusterQueue:      "cq",
		PodSetAssignments: []kueue.PodSetAssignment{{Name: "main", Count: new(int32(1))}},
	}
	for _, c := range []string{kueue.WorkloadQuotaReserved, kueue.WorkloadAdmitted} {
		w.Status.Conditions = append(
			w.Status.Conditions,
			metav1.Condition{Type: c, Status: metav1.ConditionTrue, Reason: c, LastTransitionTime: started},
		)
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:   namespace,
			Name:        name + "-0",
			Annotations: map[string]string{kueue.WorkloadAnnotation: w.Name},
		},
		Spec:   corev1.PodSpec{NodeName: node},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	return []client.Object{job, w, pod}
}

// world is a cluster of two teams: blue/train runs on node-1, blue/wait and red/wait do not.
type world struct {
	client.Client
	clock *testclock.FakeClock
}

func newWorld(t testing.TB) *world {
	t.Helper()
	s := scheme.New()
	mapper := apimeta.NewDefaultRESTMapper(nil)
	for gvk := range s.AllKnownTypes() {
		scope := apimeta.RESTScopeNamespace
		if slices.Contains([]string{"Namespace", "Node", "ClusterQueue", "Cohort", "Topology"}, gvk.Kind) {
			scope = apimeta.RESTScopeRoot
		}
		mapper.Add(gvk, scope)
	}
	var objects []client.Object
	for _, team := range []string{"blue", "red"} {
		objects = append(
			objects,
			&corev1.Namespace{
				ObjectMeta: metav1.ObjectMeta{Name: team, Labels: map[string]string{kueue.TeamNamespaceLabel: "true"}},
			},
			&kueue.LocalQueue{
				ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: "q"},
				Spec:       kueue.LocalQueueSpec{ClusterQueue: "cq"},
			},
		)
		objects = append(objects, queued(team, "wait", "")...)
	}
	objects = append(objects, queued("blue", "train", "node-1")...)
	c := fake.NewClientBuilder().WithScheme(s).WithRESTMapper(mapper).WithObjects(objects...).Build()
	return &world{c, testclock.NewFakeClock(started.Add(time.Minute))}
}

// handler serves the world to who has these rights.
func (w *world) handler(may rights) http.Handler {
	return w.authorized(authorizer.AuthorizerFunc(may.Authorize))
}

// authorized serves the world to whom may lets.
func (w *world) authorized(may authorizer.Authorizer) http.Handler {
	lines := func(context.Context) views.Line {
		return func(_ context.Context, namespace, _ string) (out []visibility.PendingWorkload, _ error) {
			for i, team := range []string{"red", "blue"} {
				if namespace == "" || namespace == team {
					out = append(
						out,
						visibility.PendingWorkload{
							ObjectMeta:             metav1.ObjectMeta{Namespace: team, Name: "job-wait"},
							PositionInClusterQueue: int32(i),
						},
					)
				}
			}
			return out, nil
		}
	}
	h := views.New(
		views.Options{Objects: w, Live: w, Kinds: kinds.All(), Replica: "replica-1", Clock: w.clock},
		may,
		lines,
		func(_ context.Context, who user.Info, namespace, workload string) (*visibility.Explanation, error) {
			return &visibility.Explanation{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: workload},
				Waiting:    true,
				Reason:     "WaitingForQuota",
				Message:    "told to " + who.GetName(),
			}, nil
		},
	)
	resolver := &request.RequestInfoFactory{
		APIPrefixes:          sets.NewString("api", "apis"),
		GrouplessAPIPrefixes: sets.NewString("api"),
	}
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		info, err := resolver.NewRequestInfo(r)
		if err != nil {
			http.Error(rw, err.Error(), http.StatusBadRequest)
			return
		}
		if name := r.Header.Get("User"); name != "" {
			r = r.WithContext(request.WithUser(r.Context(), &user.DefaultInfo{Name: name}))
		}
		answer, err := h.Answer(rw, r, info)
		if err != nil {
			code := http.StatusInternalServerError
			var status apierrors.APIStatus
			if errors.As(err, &status) {
				code = int(status.Status().Code)
			}
			http.Error(rw, err.Error(), code)
			return
		}
		if answer != nil {
			_ = json.NewEncoder(rw).Encode(answer)
		}
	})
}

const root = "/apis/view.mlbatch.dev/v1alpha1"

// ask sends a request and reads the answer, if it is one.
func ask(t *testing.T, h http.Handler, who, path string, into any) int {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, root+path, nil)
	r.Header.Set("User", who)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code == http.StatusOK {
		if err := json.Unmarshal(w.Body.Bytes(), into); err != nil {
			t.Fatalf("%s: %v in %s", path, err, w.Body)
		}
	}
	return w.Code
}

// told is what a list says of each job: NAMESPACE/NAME STATE node position.
func told(l *view.JobViewList) (out []string) {
	for i := range l.Items {
		j := &l.Items[i].Job
		text := j.Namespace + "/" + l.Items[i].Name + " " + string(j.State)
		if len(j.Nodes) > 0 {
			text += " on " + strings.Join(j.Nodes, ",")
		}
		if j.Position != nil {
			text += " #" + string(rune('0'+*j.Position))
		}
		out = append(out, text)
	}
	slices.Sort(out)
	return out
}

// TestListsTellWhatTheAskerMayRead and nothing of anybody else's: an answer is what they could have read
// alone.
func TestListsTellWhatTheAskerMayRead(t *testing.T) {
	all := []string{"blue/job.train Running on node-1", "blue/job.wait Waiting #2", "red/job.wait Waiting #1"}
	mine := []string{"blue/job.train Running on node-1", "blue/job.wait Waiting #2"}
	for name, c := range map[string]struct {
		why, who, path string
		may            rights
		want, unread   []string
	}{
		"administrator":    {"all of it", "root", "/jobviews", rights{"root everything"}, all, nil},
		"one namespace":    {"as asked", "root", "/namespaces/red/jobviews", rights{"root everything"}, all[2:], nil},
		"member":           {"what is of their team", "alice", "/namespaces/blue/jobviews", member("alice", "blue"), mine, nil},
		"member, of all":   {"is told of their namespaces, not refused", "alice", "/jobviews", member("alice", "blue"), mine, nil},
		"member of others": {"learns nothing", "alice", "/namespaces/red/jobviews", member("alice", "blue"), nil, []string{"Workloads", "jobs", "pods"}},
		"of two teams":     {"both", "alice", "/jobviews", slices.Concat(member("alice", "blue"), member("alice", "red")), all, nil},
		"without pods": {
			"does not learn where they are, nor that they run", "alice", "/jobviews", member("alice", "blue", "list pods"),
			[]string{"blue/job.train Starting", "blue/job.wait Waiting #2"},
			[]string{"pods"},
		},
		"without the order": {
			"is told no place in it", "alice", "/jobviews", member("alice", "blue", "get localqueues/pendingworkloads"),
			[]string{"blue/job.train Running on node-1", "blue/job.wait Waiting"},
			nil,
		},
		"without jobs": {"learns of none", "alice", "/namespaces/blue/jobviews", member("alice", "blue", "list jobs"), nil, []string{"jobs"}},
		"no rights":    {"learns nothing", "alice", "/jobviews", nil, nil, []string{"Workloads", "jobs", "pods"}},
		"nobody":       {"learns nothing", "", "/jobviews", rights{" everything"}, nil, []string{"Workloads", "jobs", "pods"}},
		"by label":     {"those that have it", "root", "/jobviews?labelSelector=app%3Dtrain", rights{"root everything"}, all[:1], nil},
		"by name":      {"that one", "root", "/namespaces/blue/jobviews?fieldSelector=metadata.name%3Djob.train", rights{"root everything"}, all[:1], nil},
	} {
		t.Run(name, func(t *testing.T) {
			var got view.JobViewList
			if code := ask(t, newWorld(t).handler(c.may), c.who, c.path, &got); code != http.StatusOK {
				t.Fatalf("%d", code)
			}
			if d := cmp.Diff(c.want, told(&got)); d != "" {
				t.Errorf("%s: %s", c.why, d)
			}
			unread := slices.DeleteFunc(
				got.Unread,
				func(s string) bool { return !slices.Contains([]string{"Workloads", "jobs", "pods"}, s) },
			)
			if len(c.unread)+len(unread) > 0 && !slices.Equal(unread, c.unread) {
				t.Errorf("unread are %v, want %v", unread, c.unread)
			}
			if got.Replica != "replica-1" || !got.At.Time.Equal(started.Add(time.Minute)) {
				t.Errorf("told by %q at %s", got.Replica, got.At)
			}
		})
	}
}

// TestOneViewIsFoundByKindAndName.
func TestOneViewIsFoundByKindAndName(t *testing.T) {
	h := newWorld(t).handler(append(member("alice", "blue"), "root everything"))
	var got view.JobView
	if code := ask(
		t,
		h,
		"alice",
		"/namespaces/blue/jobviews/job.train",
		&got,
	); code != http.StatusOK || got.Job.Name != "train" ||
		got.UID != "blue-train" {
		t.Errorf("%d %+v", code, got)
	}
	for path, want := range map[string]int{
		"/namespaces/blue/jobviews/job.none": http.StatusNotFound, "/namespaces/red/jobviews/job.wait": http.StatusNotFound,
		"/namespaces/blue/jobviews/job.train/log": http.StatusNotFound, "/otherviews": http.StatusNotFound,
		"/jobviews?labelSelector=%28": http.StatusBadRequest, "/jobviews?limit=-1": http.StatusBadRequest, "/jobviews?continue=%21": http.StatusBadRequest,
		"/jobviews?fieldSelector=status.phase%3DRunning": http.StatusBadRequest, "/jobviews?watch=true&resourceVersion=7": http.StatusGone,
	} {
		if code := ask(t, h, "alice", path, &got); code != want {
			t.Errorf("%s: %d, want %d", path, code, want)
		}
	}
}

// TestPagesTellOfEachJobOnce, whatever comes meanwhile.
func TestPagesTellOfEachJobOnce(t *testing.T) {
	w := newWorld(t)
	h := w.handler(rights{"root everything"})
	var names []string
	for next, pages := "", 0; pages == 0 || next != ""; pages++ {
		var got view.JobViewList
		if code := ask(
			t,
			h,
			"root",
			"/jobviews?limit=1&continue="+next,
			&got,
		); code != http.StatusOK || len(got.Items) != 1 ||
			pages > 3 {
			t.Fatalf("page %d: %d, %v", pages, code, told(&got))
		}
		if left := 2 - pages; left > 0 &&
			(got.RemainingItemCount == nil || *got.RemainingItemCount != int64(left)) {
			t.Errorf("page %d: %v are left, want %d", pages, got.RemainingItemCount, left)
		}
		names = append(names, got.Items[0].Namespace+"/"+got.Items[0].Name)
		if next = got.Continue; pages == 0 {
			young := queued("blue", "young", "")
			for _, o := range young {
				o.SetCreationTimestamp(metav1.NewTime(started.Add(time.Second)))
				if err := w.Create(t.Context(), o); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if d := cmp.Diff([]string{"blue/job.train", "blue/job.wait", "red/job.wait"}, names); d != "" {
		t.Error(d)
	}
}

// TestAdministratorsOfManyQueuesAskForFewRights: who may get all ClusterQueues is not asked about for each
// LocalQueue.
func TestAdministratorsOfManyQueuesAskForFewRights(t *testing.T) {
	w := newWorld(t)
	if err := w.Create(t.Context(), sharedQuota()); err != nil {
		t.Fatal(err)
	}
	const many = 50
	for i := range many {
		q := &kueue.LocalQueue{
			ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: fmt.Sprintf("q-%02d", i)},
			Spec:       kueue.LocalQueueSpec{ClusterQueue: kueue.ClusterQueueReference(fmt.Sprintf("none-%d", i))},
		}
		if err := w.Create(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	var asked atomic.Int32
	h := w.authorized(
		authorizer.AuthorizerFunc(
			func(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
				asked.Add(1)
				return authorizer.DecisionAllow, "", nil
			},
		),
	)
	var names []string
	for next, pages := "", 0; pages == 0 || next != ""; pages++ {
		var got view.LocalQueueViewList
		if code := ask(
			t,
			h,
			"root",
			"/localqueueviews?limit=20&continue="+next,
			&got,
		); code != http.StatusOK ||
			pages > 3 {
			t.Fatalf("page %d: %d", pages, code)
		}
		for _, q := range got.Queues() {
			names = append(names, q.Namespace+"/"+q.Name)
		}
		next = got.Continue
	}
	if len(names) != many+2 || !slices.IsSorted(names) {
		t.Errorf("pages tell of %d queues, want each of %d once: %q", len(names), many+2, names)
	}
	if n := asked.Load(); n > 3*4 {
		t.Errorf("three pages asked for %d rights", n)
	}
}

// TestKubectlGetsATable.
func TestKubectlGetsATable(t *testing.T) {
	h := newWorld(t).handler(rights{"root everything"})
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, root+"/namespaces/blue/jobviews", nil)
	r.Header.Set("User", "root")
	r.Header.Set("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io,application/json")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	var got metav1.Table
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || got.Kind != "Table" || len(got.Rows) != 2 {
		t.Fatalf("%v: %s", err, w.Body)
	}
	if d := cmp.Diff([]any{"job.train", "q", "Running", "1/1", "0", "60s", ""}, got.Rows[0].Cells); d != "" {
		t.Error(d)
	}
}

// TestNodesAreToldToWhoMayListThem, and what is on them to who may list all pods.
func TestNodesAreToldToWhoMayListThem(t *testing.T) {
	w := newWorld(t)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1", CreationTimestamp: started}}
	node.Status.Allocatable = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("8")}
	if err := w.Create(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		why    string
		may    rights
		code   int
		pods   *int
		unread []string
	}{
		"administrator": {"all of it", rights{"alice everything"}, http.StatusOK, new(1), nil},
		"of some pods":  {"what is on a node is not counted in part", append(member("alice", "blue"), "alice list nodes"), http.StatusOK, nil, []string{"pods"}},
		"member":        {"may not list nodes", member("alice", "blue"), http.StatusForbidden, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var got view.NodeViewList
			if code := ask(t, w.handler(c.may), "alice", "/nodeviews", &got); code != c.code {
				t.Fatalf("%s: %d", c.why, code)
			}
			if c.code != http.StatusOK {
				return
			}
			if len(got.Items) != 1 || got.Items[0].Node.GPUs != 8 || !cmp.Equal(got.Items[0].Node.Pods, c.pods) ||
				!slices.Equal(got.Unread, c.unread) {
				t.Errorf("%s: %+v", c.why, got)
			}
		})
	}
	var one view.NodeView
	if code := ask(
		t,
		w.handler(rights{"root everything"}),
		"root",
		"/nodeviews/node-1",
		&one,
	); code != http.StatusOK ||
		one.Node.Name != "node-1" {
		t.Errorf("%d %+v", code, one)
	}
	if code := ask(
		t,
		w.handler(rights{"root everything"}),
		"root",
		"/namespaces/blue/nodeviews",
		&one,
	); code != http.StatusNotFound {
		t.Errorf("nodes of a namespace: %d", code)
	}
}

// TestDomainsAreToldAsSums to who may list the Workloads of a namespace, with what the pods of all teams have; to
// strangers they are not.
func TestDomainsAreToldAsSums(t *testing.T) {
	w := newWorld(t)
	const rack = "cloud.provider.com/topology-rack"
	for name, in := range map[string]string{"node-1": "r1", "node-2": "r1", "node-3": "r2"} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{rack: in}}}
		node.Status.Allocatable = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("8")}
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		if err := w.Create(t.Context(), node); err != nil {
			t.Fatal(err)
		}
	}
	var pod corev1.Pod
	if err := w.Get(t.Context(), client.ObjectKey{Namespace: "blue", Name: "train-0"}, &pod); err != nil {
		t.Fatal(err)
	}
	pod.Spec.Containers = []corev1.Container{
		{
			Name: "c",
			Resources: corev1.ResourceRequirements{
				Limits: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("3")},
			},
		},
	}
	if err := w.Update(t.Context(), &pod); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		may  rights
		code int
	}{
		"administrator":            {rights{"alice everything"}, http.StatusOK},
		"member of another team":   {member("alice", "red"), http.StatusOK},
		"who may list nodes alone": {rights{"alice list nodes"}, http.StatusOK},
		"stranger":                 {rights{"alice list pods blue"}, http.StatusForbidden},
	} {
		t.Run(name, func(t *testing.T) {
			var got view.DomainViewList
			if code := ask(t, w.handler(c.may), "alice", "/domainviews", &got); code != c.code {
				t.Fatal(code)
			}
			if c.code != http.StatusOK {
				return
			}
			want := []view.Domain{
				{Level: rack, Name: "r1", Nodes: 2, Ready: 2, GPUs: 16, Free: new(int64(13)), Whole: new(1)},
				{Level: rack, Name: "r2", Nodes: 1, Ready: 1, GPUs: 8, Free: new(int64(8)), Whole: new(1)},
			}
			if d := cmp.Diff(want, got.Domains()); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
	var one view.DomainView
	if code := ask(
		t,
		w.handler(member("alice", "red")),
		"alice",
		"/domainviews/labels.r2",
		&one,
	); code != http.StatusOK ||
		one.Domain.Name != "r2" {
		t.Errorf("%d %+v", code, one)
	}
}

// sharedQuota is the ClusterQueue of the teams, with 8 GPUs in a cohort.
func sharedQuota() *kueue.ClusterQueue {
	q := &kueue.ClusterQueue{
		ObjectMeta: metav1.ObjectMeta{Name: "cq"},
		Spec:       kueue.ClusterQueueSpec{CohortName: "all"},
	}
	q.Spec.ResourceGroups = []kueue.ResourceGroup{
		{
			Flavors: []kueue.FlavorQuotas{
				{
					Name:      "h100",
					Resources: []kueue.ResourceQuota{{Name: "nvidia.com/gpu", NominalQuota: resource.MustParse("8")}},
				},
			},
		},
	}
	q.Status.FlavorsReservation = []kueue.FlavorUsage{
		{Name: "h100", Resources: []kueue.ResourceUsage{{Name: "nvidia.com/gpu", Total: resource.MustParse("9")}}},
	}
	return q
}

// TestQuotasAreToldToWhoMayKnowThem: ClusterQueues to those who may list them, what is behind a LocalQueue to
// those who may ask what waits in it, teams to those who see into them, with their people if their
// RoleBindings may be listed.
func TestQuotasAreToldToWhoMayKnowThem(t *testing.T) {
	w := newWorld(t)
	people := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "blue",
			Name:      "mlbatch-edit",
		},
		RoleRef:  rbacv1.RoleRef{Kind: "ClusterRole", Name: "mlbatch-edit"},
		Subjects: []rbacv1.Subject{{Kind: "User", Name: "alice"}},
	}
	for _, o := range []client.Object{sharedQuota(), people} {
		if err := w.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	mine := member("alice", "blue")
	for name, c := range map[string]struct {
		why, path string
		may       rights
		code      int
		want      []string
	}{
		"queues, administrator": {"all of them", "/queueviews", rights{"alice everything"}, http.StatusOK, []string{"clusterqueue.cq 9/8", "cohort.all 9/8"}},
		"one queue":             {"that one", "/queueviews/cohort.all", rights{"alice everything"}, http.StatusOK, []string{"cohort.all 9/8"}},
		"queues, member":        {"may not list ClusterQueues", "/queueviews", mine, http.StatusForbidden, nil},
		"local queues, member":  {"theirs, with the quota behind them", "/localqueueviews", mine, http.StatusOK, []string{"blue/q 9/8"}},
		"local queues, without the order": {
			"may not know the quota", "/localqueueviews", slices.DeleteFunc(slices.Clone(mine), func(r string) bool { return strings.Contains(r, "pendingworkloads") }),
			http.StatusOK,
			[]string{"blue/q /"},
		},
		"local queues of others": {"are not told", "/namespaces/red/localqueueviews", mine, http.StatusForbidden, nil},
		"teams, administrator":   {"all of them", "/teamviews", rights{"alice everything"}, http.StatusOK, []string{"blue 9/8 alice", "red 9/8"}},
		"teams, member":          {"theirs, not refused", "/teamviews", mine, http.StatusOK, []string{"blue 9/8"}},
		"teams, with people":     {"who may submit", "/teamviews/blue", append(slices.Clone(mine), "alice list rolebindings blue"), http.StatusOK, []string{"blue 9/8 alice"}},
		"another team":           {"is not told", "/teamviews/red", mine, http.StatusForbidden, nil},
		"by label":               {"they have none: to tell of all would be wrong", "/teamviews?labelSelector=a%3Db", rights{"alice everything"}, http.StatusBadRequest, nil},
		"no team":                {"is not found", "/teamviews/none", rights{"alice everything"}, http.StatusNotFound, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var got struct {
				Items []json.RawMessage
			}
			var one json.RawMessage
			into := any(&got)
			if strings.Count(c.path, "/") == 2 { // of one
				into = &one
			}
			if code := ask(t, w.handler(c.may), "alice", c.path, into); code != c.code {
				t.Fatalf("%s: %d, want %d", c.why, code, c.code)
			}
			if one != nil {
				got.Items = append(got.Items, one)
			}
			var told []string
			for _, text := range got.Items {
				var v struct {
					Metadata metav1.ObjectMeta
					Queue    *view.Queue
					Team     *view.Team
				}
				if err := json.Unmarshal(text, &v); err != nil {
					t.Fatal(err)
				}
				var shares []view.Share
				var who []string
				switch {
				case v.Queue != nil:
					shares = v.Queue.Shares
				case v.Team != nil:
					shares, who = v.Team.Shares, v.Team.People
				}
				sum, _ := view.SumOf(shares, "nvidia.com/gpu")
				line := strings.TrimPrefix(
					v.Metadata.Namespace+"/"+v.Metadata.Name,
					"/",
				) + " " + gocmp.Or(
					sum.QueueUsed,
					sum.Used,
				) + "/" + sum.Nominal
				told = append(told, strings.TrimSpace(line+" "+strings.Join(who, ",")))
			}
			if d := cmp.Diff(c.want, told); d != "" {
				t.Errorf("%s: %s", c.why, d)
			}
		})
	}
}

// TestExplanationsAreToldToWhoMayReadTheJob: with what the engine says to those who may ask it.
func TestExplanationsAreToldToWhoMayReadTheJob(t *testing.T) {
	engine := append(member("alice", "blue"), "alice get workloads/explanation blue")
	for name, c := range map[string]struct {
		why, path string
		may       rights
		code      int
		said      string
	}{
		"member":             {"what the engine says", "/namespaces/blue/jobviews/job.wait/explanation", engine, http.StatusOK, "Told to alice."},
		"without the engine": {"what the objects say", "/namespaces/blue/jobviews/job.wait/explanation", member("alice", "blue"), http.StatusOK, "Waiting"},
		"another team":       {"nothing", "/namespaces/red/jobviews/job.wait/explanation", engine, http.StatusForbidden, ""},
		"no such job":        {"is not found", "/namespaces/blue/jobviews/job.none/explanation", engine, http.StatusNotFound, ""},
		"no such kind":       {"is not found", "/namespaces/blue/jobviews/wait/explanation", engine, http.StatusNotFound, ""},
		"of a list":          {"there is none", "/jobviews/job.wait/explanation", rights{"alice everything"}, http.StatusNotFound, ""},
		"of a node":          {"there is none", "/nodeviews/node-1/explanation", rights{"alice everything"}, http.StatusNotFound, ""},
		"details":            {"what happened to it", "/namespaces/blue/jobviews/job.train/details", engine, http.StatusOK, "admitted by ClusterQueue cq"},
		"details of others":  {"nothing", "/namespaces/red/jobviews/job.wait/details", engine, http.StatusForbidden, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var got json.RawMessage
			if code := ask(t, newWorld(t).handler(c.may), "alice", c.path, &got); code != c.code {
				t.Fatalf("%s: %d, want %d", c.why, code, c.code)
			}
			if c.code == http.StatusOK &&
				(!strings.Contains(string(got), c.said) || !strings.Contains(string(got), "replica-1")) {
				t.Errorf("%s: %s", c.why, got)
			}
		})
	}
}

// TestWatchesTellWhatComesChangesAndGoes, and only of what may be seen.
func TestWatchesTellWhatComesChangesAndGoes(t *testing.T) {
	w := newWorld(t)
	server := httptest.NewServer(w.handler(member("alice", "blue")))
	defer server.Close()
	r, err := http.NewRequestWithContext(
		t.Context(),
		http.MethodGet,
		server.URL+root+"/jobviews?watch=true&sendInitialEvents=true",
		nil,
	)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("User", "alice")
	answer, err := server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	lines := bufio.NewScanner(answer.Body)
	next := func() string {
		t.Helper()
		var e struct {
			Type   string
			Object view.JobView
		}
		if !lines.Scan() {
			t.Fatalf("the watch ended: %v", lines.Err())
		}
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(e.Type + " " + e.Object.Name + " " + string(e.Object.Job.State))
	}
	expect := func(want ...string) {
		t.Helper()
		for _, line := range want {
			if got := next(); got != line {
				t.Fatalf("got %q, want %q", got, line)
			}
		}
	}
	later := func() { // once the watch waits for it
		for !w.clock.HasWaiters() {
			runtime.Gosched()
		}
		w.clock.Step(time.Second)
	}
	expect("ADDED job.train Running", "ADDED job.wait Waiting", "BOOKMARK")
	for _, o := range append(queued("blue", "new", ""), queued("red", "new", "")...) {
		if err := w.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	later()
	expect("ADDED job.new Waiting")
	var wait kueue.Workload
	if err := w.Get(t.Context(), client.ObjectKey{Namespace: "blue", Name: "job-wait"}, &wait); err != nil {
		t.Fatal(err)
	}
	wait.Spec.Active = new(false)
	gone := queued("blue", "train", "node-1")
	if err := errors.Join(
		w.Update(t.Context(), &wait),
		w.Delete(t.Context(), gone[0]),
		w.Delete(t.Context(), gone[1]),
	); err != nil {
		t.Fatal(err)
	}
	later()
	expect("DELETED job.train Running", "MODIFIED job.wait Held")
	again := queued("blue", "new", "") // another one of the name of one that goes
	again[0].SetUID("another")
	again[1].SetLabels(map[string]string{kueue.JobUIDLabel: "another"})
	old := queued("blue", "new", "")
	if err := errors.Join(
		w.Delete(t.Context(), old[0]),
		w.Delete(t.Context(), old[1]),
		w.Create(t.Context(), again[0]),
		w.Create(t.Context(), again[1]),
	); err != nil {
		t.Fatal(err)
	}
	later()
	expect("DELETED job.new Waiting", "ADDED job.new Waiting")
}

// TestOneWhoAsksMuchHoldsUpNobodyElse: of one asker one answer is computed at a time.
func TestOneWhoAsksMuchHoldsUpNobodyElse(t *testing.T) {
	hangs, asked := make(chan struct{}), make(chan struct{}, 1)
	may := authorizer.AuthorizerFunc(
		func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
			if a.GetUser().GetName() == "mallory" {
				select {
				case asked <- struct{}{}:
				default: // the first is enough
				}
				<-hangs
			}
			return authorizer.DecisionAllow, "", nil
		},
	)
	h := newWorld(t).authorized(may)
	var all sync.WaitGroup
	for range 5 {
		all.Go(func() { ask(t, h, "mallory", "/jobviews", new(view.JobViewList)) })
	}
	<-asked
	var got view.JobViewList
	if code := ask(t, h, "alice", "/jobviews", &got); code != http.StatusOK || len(got.Items) != 3 {
		t.Errorf("%d, %v", code, told(&got))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, root+"/jobviews", nil)
	r.Header.Set("User", "mallory")
	w := httptest.NewRecorder()
	if h.ServeHTTP(w, r); w.Code != http.StatusGatewayTimeout {
		t.Errorf("who went away while others were answered gets %d", w.Code)
	}
	close(hangs)
	all.Wait()
}
