package cache

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	apimeta "k8s.io/apimachinery/pkg/api/meta"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
)

// admissionCheck is what the queues that name a check have to know of it.
type admissionCheck struct {
	answered   bool   // some controller is ready to answer it
	controller string // which answers it
}

// check notes an AdmissionCheck, and which queues have to be told anew.
func (b *batch) check(c ObjectUpdate) {
	o, exists := c.Object.(*kueue.AdmissionCheck)
	var is admissionCheck
	if exists {
		is.answered = apimeta.IsStatusConditionTrue(o.Status.Conditions, kueue.AdmissionCheckActive)
		is.controller = o.Spec.ControllerName
	}
	if was, known := b.world.checks[c.Name]; known == exists && was == is {
		return
	}
	if exists {
		b.world.checks[c.Name] = is
	} else {
		delete(b.world.checks, c.Name)
	}
	for name, q := range b.world.queues {
		if slices.Contains(checksOf(q), c.Name) {
			b.queues[name] = true
		}
	}
}

func (b *batch) queue(c ObjectUpdate) {
	q, ok := c.Object.(*kueue.ClusterQueue)
	b.reconsider(b.world.queues[c.Name], q)
	b.promises(groupsOf(b.world.queues[c.Name]), groupsOf(q))
	if !ok {
		delete(b.world.queues, c.Name)
		b.events = append(b.events, gone(c.Ref))
		return
	}
	b.world.queues[c.Name] = q
	b.queues[c.Name] = true
}

// groupsOf are the quotas of a queue, which may be nil.
func groupsOf(q *kueue.ClusterQueue) []core.ResourceGroup {
	if q == nil {
		return nil
	}
	return convert.Queue(q).Groups
}

// changedQueues returns the events of the queues that are to be told.
func (b *batch) changedQueues() []core.Event {
	var out []core.Event
	for _, name := range slices.Sorted(maps.Keys(b.queues)) {
		object, ok := b.world.queues[name]
		if !ok {
			continue
		}
		q := convert.Queue(object)
		if q.Inactive == "" {
			q.Inactive = b.world.faults(object)
		}
		q.Provisioned = convert.Provisioned(
			object,
			b.world.controller,
			func(f string) bool { return b.world.flavors[f].onDemand },
		)
		q.Groups = b.world.cut(owner{name: name}, q.Groups)
		out = append(out, core.QueueSet{Queue: q})
	}
	return out
}

// topology notes whether a Topology exists, and which queues have to be told anew.
func (b *batch) topology(c ObjectUpdate) {
	old, existed := b.world.topologies[c.Name]
	if o, exists := c.Object.(*kueue.Topology); exists {
		is := convert.Topology(o)
		if existed && slices.Equal(is.Levels, old.Levels) {
			return
		}
		b.world.topologies[c.Name] = is
	} else {
		delete(b.world.topologies, c.Name)
	}
	for _, flavor := range slices.Sorted(maps.Keys(b.world.flavors)) {
		if is := b.world.flavors[flavor]; is.spec.Topology.Name == c.Name {
			b.events = append(b.events, b.world.flavorSet(flavor))
			b.using(flavor)
		}
	}
}

// flavorSet tells the engine what a flavor is, with the levels of its topology.
func (w *World) flavorSet(name string) core.Event {
	is := w.flavors[name].spec
	is.KeepsSpares = w.keepsSpares(name)
	is.Topology.Levels = w.topologies[is.Topology.Name].Levels
	return core.FlavorSet{Flavor: is}
}

// resourceFlavor is what a ResourceFlavor says.
type resourceFlavor struct {
	spec     core.Flavor // without the levels of its topology
	onDemand bool        // its nodes are made when pods ask for them
}

// flavor notes what a ResourceFlavor says, and which queues have to be told anew.
func (b *batch) flavor(c ObjectUpdate) {
	old := b.world.flavors[c.Name]
	var is resourceFlavor
	if o, exists := c.Object.(*kueue.ResourceFlavor); exists {
		is = resourceFlavor{convert.Flavor(o), convert.NodesOnDemand(o)}
		known := old.spec.Name != ""
		b.world.flavors[c.Name] = is
		if !known || !reflect.DeepEqual(old, is) { // what it says of its capacity is no matter of the engine
			b.events = append(b.events, b.world.flavorSet(c.Name))
		}
		if all, says := convert.CapacitiesOf(o); says { // who takes the annotation away opens no quota
			b.capacity(c.Name, all)
		}
	} else {
		b.capacity(c.Name, nil)
		delete(b.world.flavors, c.Name)
		b.events = append(b.events, gone(c.Ref))
	}
	_, ruled := b.world.rules.Spares[c.Name]
	b.world.spares.all = b.world.spares.all || ruled && !reflect.DeepEqual(old, is)
	if old.onDemand != is.onDemand || old.spec.Topology.Name != is.spec.Topology.Name {
		b.using(c.Name)
	}
}

// using tells the queues of a flavor anew.
func (b *batch) using(flavor string) {
	for name, q := range b.world.queues {
		if slices.Contains(flavorsOf(q), flavor) {
			b.queues[name] = true
		}
	}
}

// faults says why a queue cannot admit because of what it refers to, "" if it
// can. Flavors that do not exist are the engine's own matter.
func (w *World) faults(q *kueue.ClusterQueue) string {
	if why := w.unanswered(checksOf(q)); why != "" {
		return why
	}
	if f := convert.CheckFault(q); f != nil {
		return "it " + f.Message
	}
	if faults := convert.RemoteFaults(q, w.controller); len(faults) > 0 {
		return "it " + faults[0].Message
	}
	var missing []string
	for _, f := range flavorsOf(q) {
		t := w.flavors[f].spec.Topology.Name
		if _, exists := w.topologies[t]; t != "" && !exists && !slices.Contains(missing, t) {
			missing = append(missing, t)
		}
	}
	if len(missing) > 0 {
		return fmt.Sprintf("the topologies %s of its flavors do not exist", strings.Join(missing, ", "))
	}
	return ""
}

// controller names the one that answers a check.
func (w *World) controller(check string) string { return w.checks[check].controller }

func flavorsOf(q *kueue.ClusterQueue) []string {
	var out []string
	for _, g := range q.Spec.ResourceGroups {
		for _, f := range g.Flavors {
			out = append(out, string(f.Name))
		}
	}
	return out
}

// unanswered says why one of the checks is not answered, "" if each is.
func (w *World) unanswered(checks []string) string {
	var missing, inactive []string
	for _, name := range checks {
		if check, exists := w.checks[name]; !exists {
			missing = append(missing, name)
		} else if !check.answered {
			inactive = append(inactive, name)
		}
	}
	switch {
	case len(missing) > 0:
		return fmt.Sprintf("its admission checks %s do not exist", strings.Join(missing, ", "))
	case len(inactive) > 0:
		return fmt.Sprintf(
			"no controller answers its admission checks %s: they are not Active",
			strings.Join(inactive, ", "),
		)
	}
	return ""
}

func checksOf(q *kueue.ClusterQueue) []string {
	if q.Spec.AdmissionChecksStrategy == nil {
		return nil
	}
	var out []string
	for _, c := range q.Spec.AdmissionChecksStrategy.AdmissionChecks {
		out = append(out, string(c.Name))
	}
	return out
}
