package views

import (
	"context"
	"encoding/base64"
	"errors"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	viewapi "github.com/mlbatch/mlbatch/api/view/v1alpha1"
	visibility "github.com/mlbatch/mlbatch/api/visibility/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/serving"
	"github.com/mlbatch/mlbatch/internal/view"
)

// Line lists what waits in a ClusterQueue or, in a namespace, in a LocalQueue, in order.
type Line func(ctx context.Context, namespace, queue string) ([]visibility.PendingWorkload, error)

// Options say what views are made of.
type Options struct {
	// Objects reads what controllers watch from their cache.
	Objects client.Client
	// Live reads what no controller watches, from the API server.
	Live client.Reader
	// Health has what is remembered of nodes, in a ConfigMap of a namespace; nil is nothing.
	Health          client.Reader
	HealthNamespace string
	// Kinds are those of jobs that controllers watch.
	Kinds jobs.Kinds
	// Replica names the controller that answers.
	Replica string
	Clock   clock.Clock
}

// Handler answers requests whose sender is known and may ask.
type Handler struct {
	objects client.Reader
	live    client.Reader
	health  func(context.Context) *corev1.ConfigMap
	scheme  *runtime.Scheme
	mapper  apimeta.RESTMapper
	// watched are the kinds of which the cache has all objects, metadata those of which it has their metadata
	// once that was asked for.
	watched, metadata map[schema.GroupKind]bool
	replica           string
	clock             clock.Clock
	rights            authorizer.Authorizer
	lines             func(context.Context) Line
	explain           Explain
	turns             *turns
}

// New returns a handler. rights says what whoever asks may read, lines how what waits stands in its queues at
// the moment of an answer, explain why a workload waits.
func New(
	o Options,
	rights authorizer.Authorizer,
	lines func(context.Context) Line,
	explain Explain,
) *Handler {
	h := &Handler{
		objects:  o.Objects,
		live:     o.Live,
		health:   o.NodeHealth,
		scheme:   o.Objects.Scheme(),
		mapper:   o.Objects.RESTMapper(),
		replica:  o.Replica,
		clock:    o.Clock,
		rights:   rights,
		lines:    lines,
		explain:  explain,
		turns:    newTurns(),
		metadata: map[schema.GroupKind]bool{},
		watched: map[schema.GroupKind]bool{
			{Kind: "Pod"}: true, {Kind: "Node"}: true, {Kind: "Namespace"}: true,
			kueue.GroupVersion.WithKind("Workload").GroupKind():     true,
			kueue.GroupVersion.WithKind("LocalQueue").GroupKind():   true,
			kueue.GroupVersion.WithKind("ClusterQueue").GroupKind(): true,
			kueue.GroupVersion.WithKind("Cohort").GroupKind():       true,
		},
	}
	for o := range Cached() {
		if gvk, err := apiutil.GVKForObject(o, h.scheme); err == nil {
			h.metadata[gvk.GroupKind()] = true
		}
	}
	for i := range o.Kinds {
		h.watched[o.Kinds[i].GroupKind()] = true
	}
	for _, k := range serving.Grouped() {
		h.watched[k.GVK.GroupKind()] = true
	}
	return h
}

// NodeHealth is the ConfigMap with what is remembered of nodes; nil if there is none.
func (o Options) NodeHealth(ctx context.Context) *corev1.ConfigMap {
	var m corev1.ConfigMap
	if o.Health == nil ||
		o.Health.Get(ctx, client.ObjectKey{Namespace: o.HealthNamespace, Name: convert.HealthMemory}, &m) != nil {
		return nil
	}
	return &m
}

// Group is the group that is served.
func Group() metav1.APIGroup {
	v := metav1.GroupVersionForDiscovery{
		GroupVersion: viewapi.GroupVersion.String(),
		Version:      viewapi.GroupVersion.Version,
	}
	return metav1.APIGroup{
		TypeMeta: metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}, Name: viewapi.GroupVersion.Group,
		Versions: []metav1.GroupVersionForDiscovery{v}, PreferredVersion: v,
	}
}

// Resources are those of the version that is served.
func Resources() metav1.APIResourceList {
	out := metav1.APIResourceList{
		TypeMeta:     metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"},
		GroupVersion: viewapi.GroupVersion.String(),
	}
	for _, r := range resources() {
		out.APIResources = append(out.APIResources, metav1.APIResource{
			Name:         r.name,
			SingularName: strings.TrimSuffix(r.name, "s"),
			Kind:         r.kind,
			Namespaced:   r.namespaced,
			ShortNames:   []string{r.short},
			Verbs:        []string{"get", "list", "watch"},
		})
	}
	for _, p := range parts() {
		out.APIResources = append(
			out.APIResources,
			metav1.APIResource{
				Name:       viewapi.JobViews + "/" + p.name,
				Kind:       p.kind,
				Namespaced: true,
				Verbs:      []string{"get"},
			},
		)
	}
	return out
}

// Answer answers a request for a resource of the group. It returns nil where it has written the answer
// itself.
func (h *Handler) Answer(w http.ResponseWriter, r *http.Request, info *request.RequestInfo) (any, error) {
	of := schema.GroupResource{Group: info.APIGroup, Resource: info.Resource}
	at := slices.IndexFunc(
		resources(),
		func(r resource) bool { return r.name == info.Resource && (r.namespaced || info.Namespace == "") },
	)
	of.Resource = strings.TrimSuffix(info.Resource+"/"+info.Subresource, "/")
	sub := slices.IndexFunc(
		parts(),
		func(p part) bool { return of.Resource == viewapi.JobViews+"/"+p.name && info.Namespace != "" },
	)
	if info.APIVersion != viewapi.GroupVersion.Version || at < 0 || info.Subresource != "" && sub < 0 {
		return nil, apierrors.NewGenericServerResponse(http.StatusNotFound, info.Verb, of, info.Name, "", 0, true)
	}
	q, err := h.questionOf(r, info)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	q.of = resources()[at]
	if !q.of.labelled && !q.selector.Empty() {
		return nil, apierrors.NewBadRequest(
			"labelSelector: " + q.of.name + " have no labels; only " + viewapi.JobViews + " are selected by them",
		)
	}
	switch {
	case sub >= 0 && info.Verb == "get":
		return q.one(r.Context(), parts()[sub])
	case sub >= 0:
		return nil, apierrors.NewMethodNotSupported(of, info.Verb)
	}
	switch info.Verb {
	case "watch":
		return nil, q.watch(w, r)
	case "list":
		l, err := q.list(r.Context())
		if err != nil || !wantsTable(r) {
			return l, err
		}
		return q.of.table(l), nil
	case "get":
		l, err := q.list(r.Context())
		switch {
		case err != nil:
			return nil, err
		case len(l.Items) == 0:
			return nil, apierrors.NewNotFound(of, info.Name)
		case wantsTable(r):
			return q.of.table(l), nil
		}
		return l.Items[0].view, nil
	}
	return nil, apierrors.NewMethodNotSupported(of, info.Verb)
}

// question is what is asked of the views of a namespace, or of all.
type question struct {
	*Handler
	of        resource
	asker     string
	reader    func() *reader
	namespace string
	// name is the name of the one view that is asked for, "" for all.
	name     string
	selector labels.Selector
	// limit is how many are wanted, 0 for all, after the one that after names.
	limit int
	after string
}

// questionOf reads a request.
func (h *Handler) questionOf(r *http.Request, info *request.RequestInfo) (*question, error) {
	values := r.URL.Query()
	who, _ := request.UserFrom(r.Context())
	q := &question{
		Handler:   h,
		asker:     nameOf(who),
		namespace: info.Namespace,
		name:      info.Name,
		reader: func() *reader {
			return &reader{Handler: h, user: who, may: map[right]bool{}}
		},
	}
	var err error
	if q.selector, err = labels.Parse(values.Get("labelSelector")); err != nil {
		return nil, err
	}
	of, err := fields.ParseSelector(values.Get("fieldSelector"))
	if err != nil {
		return nil, err
	}
	for _, f := range of.Requirements() {
		if f.Field != "metadata.name" || f.Operator == "!=" {
			return nil, errors.New("fieldSelector: only metadata.name=NAME is known")
		}
		q.name = f.Value
	}
	return q, q.page(values)
}

// nameOf names an asker; "" is unknown.
func nameOf(who user.Info) string {
	if who == nil {
		return ""
	}
	return who.GetName()
}

// page reads which part of a list is wanted.
func (q *question) page(values url.Values) error {
	if text := values.Get("limit"); text != "" {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 0 {
			return errors.New("limit=" + text + ": must be a whole number, 0 or more")
		}
		q.limit = int(min(n, math.MaxInt32))
	}
	if text := values.Get("continue"); text != "" {
		after, err := base64.RawURLEncoding.DecodeString(text)
		if err != nil {
			return errors.New("continue: is not what an answer gave")
		}
		q.after = string(after)
	}
	return nil
}

// list is an answer with several views. Clients read it as a view.JobViewList, for example.
type list struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	view.Answer     `json:",inline"`
	Items           []item `json:"items"`
}

// list is the answer as of now.
func (q *question) list(ctx context.Context) (*list, error) {
	end, err := q.turns.take(ctx, q.asker)
	if err != nil {
		return nil, apierrors.NewTimeoutError("others are answered first", 1)
	}
	defer end()
	items, unread, err := q.of.read(ctx, q.reader(), q)
	if err != nil {
		return nil, err
	}
	out := &list{
		TypeMeta: metav1.TypeMeta{APIVersion: viewapi.GroupVersion.String(), Kind: q.of.kind + "List"},
		Answer:   q.answer(), Items: make([]item, 0, len(items)),
	}
	out.Unread = unread
	for _, v := range items {
		if q.name == "" || v.meta.Name == q.name {
			out.Items = append(out.Items, v)
		}
	}
	q.cut(out)
	return out, nil
}

// visible is the order of what waits as far as the asker may read it.
func (r *reader) visible(line Line) Line {
	return func(ctx context.Context, namespace, queue string) ([]visibility.PendingWorkload, error) {
		resource := schema.GroupResource{
			Group:    visibility.GroupVersion.Group,
			Resource: "clusterqueues/pendingworkloads",
		}
		if namespace != "" {
			resource.Resource = "localqueues/pendingworkloads"
		}
		if !r.can(ctx, right{"get", resource, namespace, queue}) {
			return nil, apierrors.NewForbidden(resource, queue, errors.New("it may not be read"))
		}
		return line(ctx, namespace, queue)
	}
}

// mark names a view in a list: where the next part goes on. Views that come meanwhile are younger and come
// before it.
func mark(m *metav1.ObjectMeta) string {
	return strconv.FormatInt(math.MaxInt64-m.CreationTimestamp.UnixNano(), 10) + "/" + m.Namespace + "/" + m.Name
}

// cut leaves the part of a list that is wanted.
func (q *question) cut(l *list) {
	if q.limit == 0 && q.after == "" {
		return
	}
	slices.SortFunc(l.Items, func(a, b item) int { return strings.Compare(mark(a.meta), mark(b.meta)) })
	from := 0
	for from < len(l.Items) && q.after != "" && mark(l.Items[from].meta) <= q.after {
		from++
	}
	l.Items = l.Items[from:]
	if left := len(l.Items) - q.limit; q.limit > 0 && left > 0 {
		l.Items = l.Items[:q.limit]
		l.Continue, l.RemainingItemCount = base64.RawURLEncoding.EncodeToString(
			[]byte(mark(l.Items[q.limit-1].meta)),
		), new(
			int64(left),
		)
	}
}
