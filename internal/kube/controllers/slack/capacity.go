package slack

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/nodehealth"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
)

// seen is all that capacity is judged by.
type seen struct {
	// queue is the slack queue; nil if there is none, or it is being deleted.
	queue    *kueue.ClusterQueue
	objects  []kueue.ResourceFlavor // by name
	flavors  []core.Flavor          // of objects
	pools    map[string]nodehealth.Pool
	machines []nodehealth.Machine
	promised map[core.FlavorResource]nodehealth.Promises
}

// about is what is told of the inventory: the slack queue or, where there is none, the ConfigMap.
func (s *seen) about(namespace string) client.Object {
	if s.queue != nil {
		return s.queue
	}
	return &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: InventoryName},
	}
}

// look reads flavors, nodes and quotas.
func (r *reconciler) look(ctx context.Context) (*seen, error) {
	out := &seen{
		pools:    map[string]nodehealth.Pool{},
		promised: map[core.FlavorResource]nodehealth.Promises{},
	}
	var flavors kueue.ResourceFlavorList
	if err := r.client.List(ctx, &flavors); err != nil {
		return nil, fmt.Errorf("list flavors: %w", err)
	}
	out.objects = flavors.Items
	slices.SortFunc(out.objects, func(a, b kueue.ResourceFlavor) int { return strings.Compare(a.Name, b.Name) })
	for i := range out.objects {
		f := &out.objects[i]
		pool := r.options.Pools[f.Name]
		pool.OnDemand = pool.OnDemand || convert.NodesOnDemand(f)
		out.pools[f.Name] = pool
		out.flavors = append(out.flavors, convert.Flavor(f))
	}
	if err := r.quotas(ctx, out); err != nil {
		return nil, err
	}
	var err error
	out.machines, err = r.machines(ctx)
	return out, err
}

// quotas finds the slack queue, what is promised, and the flavors whose nodes an admission check makes.
func (r *reconciler) quotas(ctx context.Context, out *seen) error {
	var checks kueue.AdmissionCheckList
	if err := r.client.List(ctx, &checks); err != nil {
		return fmt.Errorf("list AdmissionChecks: %w", err)
	}
	answers := map[string]string{}
	for i := range checks.Items {
		answers[checks.Items[i].Name] = checks.Items[i].Spec.ControllerName
	}
	var queues kueue.ClusterQueueList
	if err := r.client.List(ctx, &queues); err != nil {
		return fmt.Errorf("list ClusterQueues: %w", err)
	}
	for i := range queues.Items {
		q := &queues.Items[i]
		slack := q.Name == r.options.Queue
		if slack && q.DeletionTimestamp == nil {
			out.queue = q
		}
		for _, f := range convert.Provisioned(
			q, func(check string) string { return answers[check] }, func(string) bool { return false },
		) {
			pool := out.pools[f]
			pool.OnDemand = true
			out.pools[f] = pool
		}
		out.promise(convert.Queue(q).Groups, slack)
	}
	var cohorts kueue.CohortList
	if err := r.client.List(ctx, &cohorts); err != nil {
		return fmt.Errorf("list Cohorts: %w", err)
	}
	for i := range cohorts.Items {
		out.promise(convert.Cohort(&cohorts.Items[i]).Groups, false)
	}
	return nil
}

// promise counts quotas.
func (s *seen) promise(groups []core.ResourceGroup, slack bool) { //nolint:revive // whose they are
	for _, g := range groups {
		for _, f := range g.Flavors {
			for _, q := range f.Quotas {
				fr := core.FlavorResource{Flavor: f.Flavor, Resource: q.Resource}
				p := s.promised[fr]
				if slack {
					p.Slack = p.Slack.Add(q.Nominal)
				} else {
					p.Teams = p.Teams.Add(q.Nominal)
				}
				s.promised[fr] = p
			}
		}
	}
}

// machines are all nodes, with what is remembered of their health.
func (r *reconciler) machines(ctx context.Context) ([]nodehealth.Machine, error) {
	list := &corev1.NodeList{}
	if err := r.client.List(ctx, list); err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	healths, err := r.healths(ctx)
	if err != nil {
		return nil, err
	}
	machines := make([]nodehealth.Machine, len(list.Items))
	for i := range list.Items {
		n := &list.Items[i]
		machines[i] = nodehealth.Machine{Name: n.Name, Signals: convert.NodeSignals(n)}
		machines[i].Signals.Health = convert.OfNode(n, healths[n.Name])
	}
	return machines, nil
}

// before is how the capacity of a flavor stood: as its annotation says or, if that is gone, as was said last.
func (r *reconciler) before(f *kueue.ResourceFlavor) []nodehealth.Capacity {
	if is, says := convert.CapacitiesOf(f); says {
		return is
	}
	return r.said[flavorID{f.Name, f.UID}]
}

// remember notes how the capacity of all flavors stands.
func (r *reconciler) remember(flavors []kueue.ResourceFlavor, is map[string][]nodehealth.Capacity) {
	r.said = make(map[flavorID][]nodehealth.Capacity, len(flavors))
	for i := range flavors {
		r.said[flavorID{flavors[i].Name, flavors[i].UID}] = is[flavors[i].Name]
	}
}

// say writes how the capacity of a flavor stands into its annotation, and tells when it becomes too little for what is
// promised, and enough again.
func (r *reconciler) say(ctx context.Context, f *kueue.ResourceFlavor, is []nodehealth.Capacity) error {
	was := r.before(f)
	_, says := convert.CapacitiesOf(f)
	same := slices.EqualFunc(was, is, nodehealth.Capacity.Equal) && (says || len(is) == 0)
	if f.DeletionTimestamp != nil || same {
		return nil
	}
	text, err := convert.CapacitiesText(is)
	if err != nil {
		return fmt.Errorf("compose the capacity of flavor %s: %w", f.Name, err)
	}
	patch, err := json.Marshal( // one without any resource says so, since readers keep what a lost annotation said
		map[string]any{
			"metadata": map[string]any{"annotations": map[string]string{convert.CapacityAnnotation: text}},
		},
	)
	if err != nil {
		return fmt.Errorf("compose the capacity of flavor %s: %w", f.Name, err)
	}
	to := &kueue.ResourceFlavor{ObjectMeta: metav1.ObjectMeta{Name: f.Name}}
	if err := r.client.Patch(
		ctx,
		to,
		client.RawPatch(types.MergePatchType, patch),
		owner,
	); client.IgnoreNotFound(
		err,
	) != nil {
		return fmt.Errorf("write the capacity of flavor %s: %w", f.Name, err)
	}
	for _, c := range is {
		before := slices.IndexFunc(was, func(w nodehealth.Capacity) bool { return w.Resource == c.Resource })
		short := before >= 0 && !was[before].ShortSince.IsZero()
		switch {
		case !short && !c.ShortSince.IsZero():
			r.recorder.Eventf(f, nil, corev1.EventTypeWarning, "CapacityShort", "AccountCapacity", "%s", ShortWords(c))
		case short && c.ShortSince.IsZero():
			r.recorder.Eventf(f, nil, corev1.EventTypeNormal, "CapacityRestored", "AccountCapacity",
				"What is promised of %s is there again", c.Resource)
		}
	}
	return nil
}

// ShortWords say that some of what is promised is missing, and what follows.
func ShortWords(c nodehealth.Capacity) string {
	left, promised := convert.Quantity(c.Resource, c.Left(c.Promised)), convert.Quantity(c.Resource, c.Promised)
	text := fmt.Sprintf(
		"Of %s %s promised only %s are left while nodes are out of service",
		promised.String(),
		c.Resource,
		left.String(),
	)
	if c.Cut {
		return text + ": quotas are cut in proportion, and what runs stays"
	}
	return text + ": quotas stay, and jobs may wait for nodes with quota in hand"
}
