package visibility

import (
	"context"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/api/visibility/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/explain"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
)

// mostAhead is how many of the workloads that are considered before another one are named.
const mostAhead = 5

// explanationKind is the kind of the answer.
const explanationKind = "Explanation"

// explanation answers why a workload waits.
func (h *handler) explanation(r *http.Request, info *request.RequestInfo) (any, error) {
	ctx := r.Context()
	of := schema.GroupResource{Group: info.APIGroup, Resource: workloads}
	if info.APIVersion != v1beta2.GroupVersion.Version {
		return nil, apierrors.NewNotFound(of, info.Name)
	}
	who, _ := request.UserFrom(ctx)
	if other := r.URL.Query().Get(against); other != "" {
		w, err := h.workload(ctx, info.Namespace, info.Name)
		if err != nil {
			return nil, err
		}
		return h.asks(who).contest(ctx, w, other)
	}
	return h.explain(ctx, who, info.Namespace, info.Name)
}

// asks is a user who asks.
func (h *handler) asks(who user.Info) *asker {
	return &asker{handler: h, user: who, may: map[string]bool{}}
}

// workload reads a Workload.
func (h *handler) workload(ctx context.Context, namespace, name string) (*kueue.Workload, error) {
	w := &kueue.Workload{}
	switch err := h.workloads.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, w); {
	case apierrors.IsNotFound(err):
		return nil, apierrors.NewNotFound(
			schema.GroupResource{Group: v1beta2.GroupVersion.Group, Resource: workloads},
			name,
		)
	case err != nil:
		return nil, apierrors.NewInternalError(fmt.Errorf("read the workload: %w", err))
	}
	return w, nil
}

// explain says to a user why a workload waits.
func (h *handler) explain(
	ctx context.Context,
	who user.Info,
	namespace, name string,
) (*v1beta2.Explanation, error) {
	w, err := h.workload(ctx, namespace, name)
	if err != nil {
		return nil, err
	}
	a := h.asks(who)
	classes, err := h.priorityClasses(ctx)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	var higher []int64
	for _, c := range classes {
		higher = append(higher, int64(c.value))
	}
	key := core.Key{Namespace: w.Namespace, Name: w.Name}
	x, waits, err := h.lines.Explain(key, h.clock.Now(), higher)
	if err != nil {
		return nil, later(err)
	}
	out := h.answer(w, waits)
	if !waits {
		return out, nil
	}
	if err := a.tell(ctx, out, key, x); err != nil {
		return nil, err
	}
	for _, next := range x.Next {
		out.Next = append(
			out.Next,
			v1beta2.NextReason{Reason: string(next.Code), Cause: string(next.Cause), Message: sentence(next)},
		)
	}
	for _, v := range x.Advice {
		if v.Kind == core.Release && w.DeletionTimestamp != nil {
			continue // nothing brings it back
		}
		out.Advice = append(out.Advice, a.advice(ctx, w, v, classes))
	}
	return out, nil
}

// answer is an explanation of a workload that says nothing yet.
func (h *handler) answer(w *kueue.Workload, waits bool) *v1beta2.Explanation {
	return &v1beta2.Explanation{
		TypeMeta:   metav1.TypeMeta{Kind: explanationKind, APIVersion: v1beta2.GroupVersion.String()},
		ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: w.Name, UID: w.UID},
		At:         metav1.NewTime(h.clock.Now()), Waiting: waits,
	}
}

// tell fills in why a workload waits.
func (a *asker) tell(ctx context.Context, out *v1beta2.Explanation, key core.Key, x core.Explanation) error {
	a.describe(ctx, out, x)
	if err := a.place(ctx, out, key, x.Queue); err != nil {
		return err
	}
	out.Start = a.start(key)
	a.facts(ctx, out, x)
	return nil
}

// describe fills in the reason itself.
func (a *asker) describe(ctx context.Context, out *v1beta2.Explanation, x core.Explanation) {
	why := x.Reason
	out.Reason, out.Cause = string(why.Code), string(why.Cause)
	out.ClusterQueue, out.LocalQueue, out.Priority, out.Incomplete = x.Queue, x.LocalQueue, shown(
		x.Priority,
	), x.Cut
	if why.Ahead != (core.Key{}) {
		out.Blocker = new(a.reference(ctx, why.Ahead))
	}
	out.Message = sentence(why)
	if why.Resource == "" || why.Need == 0 {
		return
	}
	out.Shortage = &v1beta2.Shortage{
		PodSet: why.PodSet, Flavor: why.Flavor, Resource: why.Resource,
		Need: convert.Quantity(why.Resource, why.Need), Have: convert.Quantity(why.Resource, why.Have),
	}
	if why.Limit != core.Unlimited {
		out.Shortage.Limit = quantity(why.Resource, why.Limit)
	}
}

// sentence is a reason in one sentence without names.
func sentence(why core.Reason) string {
	why.Ahead, why.Holders = core.Key{}, nil
	return explain.Sentence(why)
}

func quantity(name string, a core.Amount) *resource.Quantity {
	return new(convert.Quantity(name, a))
}

// place fills in where the workload stands in its queue.
func (a *asker) place(ctx context.Context, out *v1beta2.Explanation, key core.Key, queue string) error {
	line, known, err := a.lines.Line(queue)
	if err != nil {
		return later(err)
	}
	if !known {
		return nil
	}
	objects, err := a.objects(ctx)
	if err != nil {
		return err
	}
	items := summarize(line, objects, filter{}, page{limit: v1beta2.MaxLimit})
	for i := range items {
		if items[i].Namespace != key.Namespace || items[i].Name != key.Name {
			continue
		}
		out.PositionInClusterQueue, out.PositionInLocalQueue = &items[i].PositionInClusterQueue, &items[i].PositionInLocalQueue
		for _, o := range items[:min(i, mostAhead)] {
			out.Ahead = append(out.Ahead, a.reference(ctx, core.Key{Namespace: o.Namespace, Name: o.Name}))
		}
	}
	return nil
}

// facts fills in what bears on the reason.
func (a *asker) facts(ctx context.Context, out *v1beta2.Explanation, x core.Explanation) {
	for _, h := range x.Holders {
		to := v1beta2.Holder{
			Node:     h.Node,
			Resource: h.Resource,
			Leaving:  h.Leaving,
			Promised: h.Promised,
			Endless:  h.Endless,
		}
		if h.Resource != "" {
			to.Amount = quantity(h.Resource, h.Amount)
		}
		if h.Node != "" {
			to.Pods = a.strangers(ctx, h.Node, h.Resource)
		} else {
			to.WorkloadReference = a.reference(ctx, h.Key)
			to.ClusterQueue = h.Queue
			if h.Leaving {
				to.StopsAt = a.stopsAt(ctx, h.Key)
			}
		}
		out.Holders = append(out.Holders, to)
	}
	if x.Nodes != nil {
		out.Nodes = nodeFacts(x.Nodes)
	}
	for _, t := range x.Tried {
		to := v1beta2.FlavorAttempt{
			PodSet: t.PodSet,
			Flavor: t.Flavor,
			Reason: string(t.Why.Code),
			Cause:  string(t.Why.Cause),
		}
		if t.Why.Code != "" {
			to.Message = sentence(t.Why)
		}
		out.Tried = append(out.Tried, to)
	}
	for _, l := range x.Lenders {
		to := v1beta2.Lender{
			ClusterQueue: l.Queue, Flavor: l.Flavor, Resource: l.Resource,
			Nominal: convert.Quantity(l.Resource, l.Nominal), Lends: convert.Quantity(l.Resource, l.Lends),
		}
		if l.Queue == a.slack {
			to.Because = a.outOfService(ctx, l)
		}
		out.Lenders = append(out.Lenders, to)
	}
}

func nodeFacts(f *core.NodeFacts) *v1beta2.NodeFacts {
	to := &v1beta2.NodeFacts{
		PodSet: f.PodSet, Flavor: f.Flavor, Total: f.Total, Matching: f.Matching,
		Cordoned: f.Cordoned, Evicted: f.Evicted, Lost: f.Lost, Closed: f.Closed,
		Full: f.Full, Fit: f.Fit, Wanted: f.Wanted, Resource: f.Resource,
	}
	if f.EvictionInVain {
		to.EvictionInVain, to.Evictable = true, f.Evictable
		if n := f.Nearest; n.Domain != "" {
			to.Nearest = &v1beta2.NearestDomain{Level: n.Level, Domain: n.Domain, Fit: n.Fit, Usable: n.Usable}
		}
		for _, s := range f.Spared {
			to.Spared = append(to.Spared, v1beta2.SparedCount{
				Rule: string(s.Rule), Own: s.Own, Workloads: s.Workloads,
			})
		}
	}
	if f.Resource != "" {
		to.Free, to.Largest, to.Need = quantity(
			f.Resource,
			f.Free,
		), quantity(
			f.Resource,
			f.Largest,
		), quantity(
			f.Resource,
			f.Need,
		)
	}
	for _, d := range f.Down {
		to.Down = append(to.Down, v1beta2.DownNode{Name: d.Name, Why: d.Why})
	}
	for _, o := range f.InTheWay {
		to.InTheWay = append(to.InTheWay, v1beta2.Obstacle{Text: o.Text, Taint: o.Taint, Nodes: o.Nodes})
	}
	return to
}
