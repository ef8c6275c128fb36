package visibility

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	viewapi "github.com/mlbatch/mlbatch/api/view/v1alpha1"
	"github.com/mlbatch/mlbatch/api/visibility/v1beta1"
	"github.com/mlbatch/mlbatch/api/visibility/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/cycle"
	"github.com/mlbatch/mlbatch/internal/engine/forecast"
	"github.com/mlbatch/mlbatch/internal/engine/inquiry"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/kube/views"
)

// Lines knows which workload waits where. All methods fail while it cannot be known.
type Lines interface { //nolint:interfacebloat // what is asked of one engine is one value
	// Line lists the workloads that wait in a ClusterQueue, in order; false if there is no such
	// queue.
	Line(queue string) ([]cycle.Waiting, bool, error)
	// QueueOf names the ClusterQueue of a LocalQueue, false if there is no such
	// LocalQueue.
	QueueOf(namespace, name string) (string, bool, error)
	// Explain says why a workload waits, and what would help, at now; false if it does
	// not wait. higher are the priorities that it could be given.
	Explain(k core.Key, now time.Time, higher []int64) (core.Explanation, bool, error)
	// Compare says how a workload that waits stands to another one; see inquiry.Compare.
	Compare(k, other core.Key, now time.Time) (core.Comparison, bool, error)
	// Suppose says what would become of a workload that is not there; see inquiry.Suppose.
	Suppose(w core.Workload, now time.Time, higher []int64) (inquiry.Supposed, error)
	// Forecast is when a workload is expected to start; false if that is not known.
	Forecast(k core.Key) (forecast.Forecast, bool)
	// SupposeStart is when one that is not there would start; false if that is not known.
	SupposeStart(w core.Workload) (forecast.Forecast, bool)
}

const (
	clusterQueues = "clusterqueues"
	localQueues   = "localqueues"
	pending       = "pendingworkloads"
	workloads     = "workloads"
	explaining    = "explanation"
	against       = "against"
)

// versions of the API, the preferred one first.
func versions() []schema.GroupVersion {
	return []schema.GroupVersion{v1beta2.GroupVersion, v1beta1.GroupVersion}
}

// handler answers requests whose sender is known and may ask.
type handler struct {
	lines Lines
	// workloads reads Workloads, and what else bears on them, from a cache.
	workloads client.Reader
	// health is the ConfigMap with what is remembered of nodes, nil if there is none.
	health func(context.Context) *corev1.ConfigMap
	// rights says what an asker may see and do; nil for nothing.
	rights authorizer.Authorizer
	clock  clock.PassiveClock
	// slack is the queue that lends less while nodes are out of service.
	slack string
	// rules are those by which the engine is told of Workloads.
	rules convert.Rules
	// views answers for views; nil for nothing.
	views *views.Handler
	// filled is closed once there is something to answer from.
	filled <-chan struct{}
}

// errUnfilled is the answer until then.
var errUnfilled = errors.New("this controller has just started and still reads the objects of the cluster")

// ServeHTTP answers one request.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	info, ok := request.RequestInfoFrom(r.Context())
	switch {
	case !ok:
		reply(w, nil, apierrors.NewInternalError(errors.New("a request without request information")))
	case info.IsResourceRequest:
		answer, err := h.resource(w, r, info)
		reply(w, answer, err)
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		reply(w, nil, apierrors.NewMethodNotSupported(schema.GroupResource{Resource: r.URL.Path}, r.Method))
	case r.URL.Path == "/healthz" || r.URL.Path == "/livez" || r.URL.Path == "/readyz":
		_, _ = w.Write([]byte("ok")) // a client that went away needs no answer
	case describe(w, r):
	default:
		reply(w, nil, discover(w, r))
	}
}

// resource answers for a resource of the API.
func (h *handler) resource(w http.ResponseWriter, r *http.Request, info *request.RequestInfo) (any, error) {
	of := schema.GroupResource{Group: info.APIGroup, Resource: info.Resource + "/" + info.Subresource}
	explains := info.APIGroup == v1beta2.GroupVersion.Group && info.Resource == workloads &&
		info.Subresource == explaining &&
		info.Name != "" &&
		info.Namespace != ""
	planning := info.APIGroup == v1beta2.GroupVersion.Group && info.Resource == plans &&
		info.Subresource == "" &&
		info.Name == "" &&
		info.Namespace != ""
	known := explains || planning ||
		info.APIGroup == v1beta2.GroupVersion.Group && info.Subresource == pending && info.Name != "" &&
			(info.Resource == clusterQueues && info.Namespace == "" || info.Resource == localQueues && info.Namespace != "")
	switch {
	case info.APIGroup == viewapi.GroupVersion.Group && h.views != nil:
		if !h.answers() {
			return nil, later(errUnfilled)
		}
		return h.views.Answer(w, r, info)
	case !known:
		return nil, apierrors.NewGenericServerResponse(http.StatusNotFound, info.Verb, of, info.Name, "", 0, true)
	case !h.answers():
		return nil, later(errUnfilled)
	case planning && info.Verb == "create":
		return h.plan(r, info)
	case info.Verb != "get" || planning:
		return nil, apierrors.NewMethodNotSupported(of, info.Verb)
	case explains:
		return h.explanation(r, info)
	}
	p, err := pageOf(r.URL.Query())
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	items, err := h.items(r.Context(), info, p)
	if err != nil {
		return nil, err
	}
	quotas, err := h.quotas(r.Context(), info)
	if err != nil {
		return nil, err
	}
	return answerIn(info, items, quotas)
}

// answers reports whether there is something to answer from.
func (h *handler) answers() bool {
	select {
	case <-h.filled:
		return true
	default:
		return false
	}
}

// items are those of the answer.
func (h *handler) items(
	ctx context.Context,
	info *request.RequestInfo,
	p page,
) ([]v1beta2.PendingWorkload, error) {
	queue, of := info.Name, filter{}
	if info.Resource == localQueues {
		of = filter{namespace: info.Namespace, localQueue: info.Name}
		var known bool
		var err error
		queue, known, err = h.lines.QueueOf(info.Namespace, info.Name)
		switch {
		case err != nil:
			return nil, later(err)
		case !known:
			return nil, apierrors.NewNotFound(
				schema.GroupResource{Group: info.APIGroup, Resource: localQueues},
				info.Name,
			)
		}
	}
	line, known, err := h.lines.Line(queue)
	switch {
	case err != nil:
		return nil, later(err)
	case !known && info.Resource == clusterQueues:
		return nil, apierrors.NewNotFound(
			schema.GroupResource{Group: info.APIGroup, Resource: clusterQueues},
			info.Name,
		)
	}
	objects, err := h.objects(ctx)
	if err != nil {
		return nil, err
	}
	items := summarize(line, objects, of, p)
	for i := range items {
		items[i].Start = h.start(core.Key{Namespace: items[i].Namespace, Name: items[i].Name})
	}
	return items, nil
}

// order is how what waits stands in its queues. All that is asked of it is of one list of Workloads.
func (h *handler) order(ctx context.Context) views.Line {
	objects, err := h.objects(ctx)
	return func(_ context.Context, namespace, queue string) ([]v1beta2.PendingWorkload, error) {
		if err != nil {
			return nil, err
		}
		of := filter{}
		if namespace != "" {
			of = filter{namespace: namespace, localQueue: queue}
			target, known, err := h.lines.QueueOf(namespace, queue)
			if err != nil || !known {
				return nil, cmp.Or(err, errNoQueue)
			}
			queue = target
		}
		line, known, err := h.lines.Line(queue)
		if err != nil || !known {
			return nil, cmp.Or(err, errNoQueue)
		}
		items := summarize(line, objects, of, page{limit: math.MaxInt})
		for i := range items {
			items[i].Start = h.start(core.Key{Namespace: items[i].Namespace, Name: items[i].Name})
		}
		return items, nil
	}
}

// errNoQueue is the answer where there is no such queue.
var errNoQueue = errors.New("there is no such queue")

// start is when a workload is expected to start; nil if that is not known.
func (h *handler) start(k core.Key) *v1beta2.Start {
	f, known := h.lines.Forecast(k)
	if !known {
		return nil
	}
	return startOf(f)
}

func startOf(f forecast.Forecast) *v1beta2.Start {
	out := &v1beta2.Start{
		At:     metav1.NewTime(f.At),
		Passed: f.Passed,
		Known:  int32(min(f.Known, math.MaxInt32)), //nolint:gosec // it fits
	}
	if !f.P50.IsZero() {
		out.P50 = new(metav1.NewTime(f.P50))
	}
	if !f.P90.IsZero() {
		out.P90 = new(metav1.NewTime(f.P90))
	}
	return out
}

// later says that there is no answer yet.
func later(err error) error {
	e := apierrors.NewServiceUnavailable(err.Error())
	e.ErrStatus.Details = &metav1.StatusDetails{RetryAfterSeconds: 1}
	return e
}

// answerIn is the answer in the version that was asked for.
func answerIn(
	info *request.RequestInfo,
	items []v1beta2.PendingWorkload,
	quotas []v1beta2.QueueQuota,
) (any, error) {
	kind := metav1.TypeMeta{Kind: "PendingWorkloadsSummary", APIVersion: info.APIGroup + "/" + info.APIVersion}
	switch info.APIVersion {
	case v1beta2.GroupVersion.Version:
		return v1beta2.PendingWorkloadsSummary{TypeMeta: kind, Items: items, Quotas: quotas}, nil
	case v1beta1.GroupVersion.Version:
		old := make([]v1beta1.PendingWorkload, len(items))
		for i := range items {
			is := &items[i]
			old[i] = v1beta1.PendingWorkload{
				ObjectMeta: is.ObjectMeta, Priority: is.Priority, LocalQueueName: is.LocalQueueName,
				PositionInClusterQueue: is.PositionInClusterQueue, PositionInLocalQueue: is.PositionInLocalQueue,
			}
		}
		return v1beta1.PendingWorkloadsSummary{TypeMeta: kind, Items: old}, nil
	}
	return nil, apierrors.NewGenericServerResponse(
		http.StatusNotFound,
		info.Verb,
		schema.GroupResource{Group: info.APIGroup, Resource: info.Resource},
		info.Name,
		"there is no version "+info.APIVersion,
		0,
		true,
	)
}

// discover answers what there is. Where it returns an error, nothing was written.
func discover(w http.ResponseWriter, r *http.Request) error {
	path := strings.TrimSuffix(r.URL.Path, "/")
	group, served := groupOf(), views.Group()
	switch path {
	case "/apis":
		if strings.Contains(r.Header.Get("Accept"), "APIGroupDiscoveryList") {
			// A client that asks for all at once falls back to one version at a time.
			return apierrors.NewGenericServerResponse(
				http.StatusNotAcceptable,
				"get",
				schema.GroupResource{},
				"",
				"ask for application/json",
				0,
				true,
			)
		}
		reply(
			w,
			metav1.APIGroupList{
				TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"},
				Groups:   []metav1.APIGroup{group, served},
			},
			nil,
		)
		return nil
	case "/apis/" + group.Name:
		reply(w, group, nil)
		return nil
	case "/apis/" + served.Name:
		reply(w, served, nil)
		return nil
	case "/apis/" + viewapi.GroupVersion.String():
		reply(w, views.Resources(), nil)
		return nil
	}
	for _, v := range versions() {
		if path == "/apis/"+v.String() {
			reply(w, resourcesOf(v), nil)
			return nil
		}
	}
	return apierrors.NewGenericServerResponse(
		http.StatusNotFound,
		"get",
		schema.GroupResource{},
		"",
		"there is nothing at "+r.URL.Path,
		0,
		true,
	)
}

func groupOf() metav1.APIGroup {
	g := metav1.APIGroup{
		TypeMeta: metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"},
		Name:     v1beta2.GroupVersion.Group,
	}
	for _, v := range versions() {
		g.Versions = append(
			g.Versions,
			metav1.GroupVersionForDiscovery{GroupVersion: v.String(), Version: v.Version},
		)
	}
	g.PreferredVersion = g.Versions[0]
	return g
}

// resourcesOf lists the queues too, though they cannot be read here: clients
// find a subresource under its resource.
func resourcesOf(v schema.GroupVersion) metav1.APIResourceList {
	out := metav1.APIResourceList{
		TypeMeta:     metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"},
		GroupVersion: v.String(),
	}
	for _, r := range []struct {
		name, singular, kind string
		namespaced           bool
	}{{clusterQueues, "clusterqueue", "ClusterQueue", false}, {localQueues, "localqueue", "LocalQueue", true}} {
		out.APIResources = append(
			out.APIResources,
			metav1.APIResource{
				Name:         r.name,
				SingularName: r.singular,
				Kind:         r.kind,
				Namespaced:   r.namespaced,
				Verbs:        []string{},
			},
			metav1.APIResource{
				Name:       r.name + "/" + pending,
				Kind:       "PendingWorkloadsSummary",
				Namespaced: r.namespaced,
				Verbs:      []string{"get"},
			},
		)
	}
	if v == v1beta2.GroupVersion {
		out.APIResources = append(
			out.APIResources,
			metav1.APIResource{
				Name:         workloads,
				SingularName: "workload",
				Kind:         "Workload",
				Namespaced:   true,
				Verbs:        []string{},
			},
			metav1.APIResource{
				Name:       workloads + "/" + explaining,
				Kind:       explanationKind,
				Namespaced: true,
				Verbs:      []string{"get"},
			},
			metav1.APIResource{
				Name:         plans,
				SingularName: "workloadplan",
				Kind:         planKind,
				Namespaced:   true,
				Verbs:        []string{"create"},
			},
		)
	}
	return out
}

// reply writes an answer or, if err is not nil, the error as a Status.
func reply(w http.ResponseWriter, answer any, err error) {
	code := http.StatusOK
	if err != nil {
		status := apierrors.NewInternalError(err).ErrStatus
		var known apierrors.APIStatus
		if errors.As(err, &known) {
			status = known.Status()
		}
		status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
		answer, code = status, int(status.Code)
		if d := status.Details; d != nil && d.RetryAfterSeconds > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(int(d.RetryAfterSeconds)))
		}
	}
	if answer == nil {
		return // written already
	}
	b, err := json.Marshal(answer)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(append(b, '\n')) // a client that went away needs no answer
}
