package lint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/view"
)

// Cluster is what manifests are compared with.
type Cluster struct {
	nodes       []core.Node
	localQueues []kueue.LocalQueue
	queues      []kueue.ClusterQueue
	classes     []string
	onDemand    bool
	// Unread are kinds that the user may not read: rules that need them find nothing.
	Unread []string
	try    func(o *unstructured.Unstructured) error
}

// Take reads a cluster as far as the user may; LocalQueues of a namespace, if not of all.
func Take(ctx context.Context, c client.Client, namespace string) (*Cluster, error) {
	var nodes corev1.NodeList
	var local kueue.LocalQueueList
	var queues kueue.ClusterQueueList
	var flavors kueue.ResourceFlavorList
	var classes schedulingv1.PriorityClassList
	out := &Cluster{}
	for _, one := range []struct {
		what string
		list client.ObjectList
	}{{"nodes", &nodes}, {"LocalQueues", &local}, {"ClusterQueues", &queues}, {"ResourceFlavors", &flavors}, {"PriorityClasses", &classes}} {
		err := c.List(ctx, one.list)
		if apierrors.IsForbidden(err) && one.what == "LocalQueues" && namespace != "" {
			err = c.List(ctx, one.list, client.InNamespace(namespace))
		}
		switch {
		case apierrors.IsForbidden(err), apimeta.IsNoMatchError(err), apierrors.IsNotFound(err):
			out.Unread = append(out.Unread, one.what)
		case err != nil:
			return nil, fmt.Errorf("list %s: %w", one.what, err)
		}
	}
	for i := range nodes.Items {
		out.nodes = append(out.nodes, convert.Node(&nodes.Items[i]))
	}
	for i := range classes.Items {
		out.classes = append(out.classes, classes.Items[i].Name)
	}
	out.onDemand = slices.ContainsFunc(
		flavors.Items,
		func(f kueue.ResourceFlavor) bool { return convert.NodesOnDemand(&f) },
	)
	out.localQueues, out.queues = local.Items, queues.Items
	out.try = func(o *unstructured.Unstructured) error {
		return c.Create(ctx, o.DeepCopy(), client.DryRunAll) //nolint:wrapcheck // it is printed
	}
	return out, nil
}

func (c *Cluster) reads(kind string) bool { return !slices.Contains(c.Unread, kind) }

// namespace is that of an object.
func (s *subject) namespace() string {
	return cmp.Or(s.doc.Object.GetNamespace(), s.options.Namespace, "default")
}

// queueOf is the LocalQueue that an object names, nil if there is none of the name.
func (s *subject) queueOf() *kueue.LocalQueue {
	name := s.doc.Object.GetLabels()[kueue.QueueNameLabel]
	if name == "" {
		name = string(kueue.DefaultLocalQueueName)
	}
	all := s.options.Cluster.localQueues
	i := slices.IndexFunc(
		all,
		func(q kueue.LocalQueue) bool { return q.Namespace == s.namespace() && q.Name == name },
	)
	if i < 0 {
		return nil
	}
	return &all[i]
}

func queueMissing(s *subject) []hit {
	c := s.options.Cluster
	asked := s.doc.Object.GetLabels()[kueue.QueueNameLabel]
	if asked == "" || s.inside || !c.reads("LocalQueues") {
		return nil
	}
	if s.queueOf() != nil {
		return nil
	}
	var there []string
	for i := range c.localQueues {
		if c.localQueues[i].Namespace == s.namespace() {
			there = append(there, c.localQueues[i].Name)
		}
	}
	text := "there is none"
	if len(there) > 0 {
		slices.Sort(there)
		text = "there are " + strings.Join(there, ", ")
	}
	return []hit{
		{
			path:    "metadata.labels[" + kueue.QueueNameLabel + "]",
			message: fmt.Sprintf("namespace %s has no queue %s; %s", s.namespace(), asked, text),
		},
	}
}

// gangImpossible asks nodes and queues, emptied of all that is on them.
func gangImpossible(s *subject) []hit {
	c := s.options.Cluster
	if len(s.pods) == 0 || c.onDemand {
		return nil
	}
	var out []hit
	total := core.Resources{}
	for i := range s.pods {
		p := &s.pods[i]
		asked := convert.PodRequests(&p.template.Spec)
		total = total.Plus(asked.Times(int64(p.count)))
		if !c.reads("nodes") || len(c.nodes) == 0 {
			continue
		}
		if room := c.room(p, asked); room < int64(p.count) {
			message := fmt.Sprintf("%d pods at most fit on all nodes together, and there are %d", room, p.count)
			if room == 0 {
				message = fmt.Sprintf(
					"no node has room for one of its %d pods, even empty: it asks for %s",
					p.count,
					amounts(asked),
				)
			}
			out = append(out, hit{path: p.at("spec"), message: message})
		}
	}
	if s.inside || !c.reads("LocalQueues") || !c.reads("ClusterQueues") {
		return out
	}
	return append(out, s.overQueue(total)...)
}

// room is how many pods fit on all nodes together.
func (c *Cluster) room(p *pods, asked core.Resources) int64 {
	filter := convert.Filter(&p.template.Spec)
	sum := int64(0)
	for i := range c.nodes {
		n := &c.nodes[i]
		if !filter.Admits(n) {
			continue
		}
		most := int64(p.count)
		for _, r := range asked {
			if r.Amount > 0 {
				most = min(most, int64(n.Allocatable.Of(r.Resource)/r.Amount))
			}
		}
		sum += most
	}
	return sum
}

// amounts prints what a pod asks for.
func amounts(asked core.Resources) string {
	var out []string
	for _, r := range asked {
		q := convert.Quantity(r.Resource, r.Amount)
		out = append(out, r.Resource+" "+view.Amount(r.Resource, q.String()))
	}
	return strings.Join(out, ", ")
}

// overQueue finds what even the whole cohort of a job's queue does not have.
func (s *subject) overQueue(total core.Resources) []hit {
	c := s.options.Cluster
	local := s.queueOf()
	if local == nil {
		return nil
	}
	i := slices.IndexFunc(
		c.queues,
		func(q kueue.ClusterQueue) bool { return q.Name == string(local.Spec.ClusterQueue) },
	)
	if i < 0 {
		return nil
	}
	own := convert.Queue(&c.queues[i])
	var out []hit
	for _, r := range total {
		limit, covered := core.Amount(0), false
		for j := range c.queues {
			q := convert.Queue(&c.queues[j])
			if q.Name != own.Name && (own.Cohort == "" || q.Cohort != own.Cohort) {
				continue
			}
			for _, g := range q.Groups {
				for _, f := range g.Flavors {
					for _, quota := range f.Quotas {
						if quota.Resource == r.Resource {
							limit, covered = limit.Add(quota.Nominal), covered || q.Name == own.Name
						}
					}
				}
			}
		}
		q, most := convert.Quantity(r.Resource, r.Amount), convert.Quantity(r.Resource, limit)
		switch {
		case r.Amount == 0 && !covered:
		case !covered:
			out = append(
				out,
				hit{path: "metadata", message: fmt.Sprintf("its queue %s has no quota of %s", own.Name, r.Resource)},
			)
		case r.Amount > limit:
			is := view.Amounts(r.Resource, q.String(), most.String())
			out = append(
				out,
				hit{
					path: "metadata",
					message: fmt.Sprintf(
						"it asks for %s of %s, and its queue %s and all that lend to it have %s",
						is[0],
						r.Resource,
						own.Name,
						is[1],
					),
				},
			)
		}
	}
	return out
}

func classMissing(s *subject) []hit {
	c := s.options.Cluster
	if !c.reads("PriorityClasses") {
		return nil
	}
	var out []hit
	for i := range s.pods {
		p := &s.pods[i]
		if name := p.template.Spec.PriorityClassName; name != "" && !slices.Contains(c.classes, name) {
			out = append(
				out,
				hit{
					path: p.at("spec.priorityClassName"),
					message: fmt.Sprintf(
						"there is no class %s; there are %s",
						name,
						strings.Join(slices.Sorted(slices.Values(c.classes)), ", "),
					),
				},
			)
		}
	}
	return out
}

// dryRun has the API server and all webhooks judge an object.
func dryRun(s *subject) []hit {
	c := s.options.Cluster
	if s.inside || c.try == nil {
		return nil
	}
	o := s.doc.Object.DeepCopy()
	if o.GetNamespace() == "" {
		o.SetNamespace(s.namespace())
	}
	err := c.try(o)
	if err == nil || apierrors.IsAlreadyExists(err) {
		return nil
	}
	var status apierrors.APIStatus
	if errors.As(err, &status) && status.Status().Details != nil && len(status.Status().Details.Causes) > 0 {
		var out []hit
		for _, cause := range status.Status().Details.Causes {
			out = append(out, hit{path: cause.Field, message: cause.Message})
		}
		return out
	}
	return []hit{{path: "", message: err.Error()}}
}
