package whatif

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/validation/field"
	sigs "sigs.k8s.io/yaml"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/cli/manifest"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/cycle"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/replay"
	"github.com/mlbatch/mlbatch/internal/sim"
)

// Policy is what a policy file says: objects that hold instead of the recorded ones of
// their names, for the whole time, and the engine's options if it has a Configuration.
type Policy struct {
	Name    string
	Objects []core.Event
	Engine  *cycle.Options
	// Levels are those of Topologies, by name.
	Levels map[string][]string
}

// Configure reads a Configuration, as the controller does, and returns the options of the
// engine that it sets.
type Configure func(file string, text []byte) (*cycle.Options, error)

// ReadPolicy reads a file of ClusterQueues, Cohorts, LocalQueues, ResourceFlavors, Topologies and at
// most one Configuration. Objects are whole: what is left out has its default. The error
// has all that is wrong.
func ReadPolicy(file string, text []byte, configure Configure) (*Policy, error) {
	docs, err := manifest.Read(file, text)
	if err != nil {
		return nil, err
	}
	p := &Policy{Name: filepath.Base(file)}
	seen := map[string]bool{}
	var wrong []error
	for i := range docs {
		if err := p.add(&docs[i], configure, seen); err != nil {
			wrong = append(wrong, err)
		}
	}
	return p, errors.Join(wrong...)
}

func (p *Policy) add(d *manifest.Document, configure Configure, seen map[string]bool) error {
	at := fmt.Sprintf("%s:%d: %s", d.File, d.Node.Line, d.Title())
	text, err := yaml.Marshal(d.Node)
	if err != nil {
		return fmt.Errorf("%s: %w", at, err)
	}
	gvk := d.GVK()
	if gvk.Kind == "Configuration" {
		if p.Engine != nil {
			return fmt.Errorf("%s: there are two: leave one", at)
		}
		p.Engine, err = configure(d.File, text)
		return err
	}
	if gvk.Group != kueue.GroupVersion.Group || gvk.Version != kueue.GroupVersion.Version {
		return fmt.Errorf(
			"%s: is of %s: a policy has ClusterQueues, Cohorts, LocalQueues, ResourceFlavors and Topologies of %s, and a Configuration",
			at,
			d.Object.GetAPIVersion(),
			kueue.GroupVersion,
		)
	}
	if gvk.Kind == "Topology" {
		return p.addTopology(at, text)
	}
	ev, err := eventOf(gvk.Kind, text)
	if err != nil {
		return fmt.Errorf("%s: %w", at, err)
	}
	name, _ := replay.NameOf(ev)
	if seen[name] {
		return fmt.Errorf("%s: is listed twice: leave one", at)
	}
	seen[name] = true
	p.Objects = append(p.Objects, ev)
	return nil
}

// addTopology notes the levels of a Topology.
func (p *Policy) addTopology(at string, text []byte) error {
	t, err := read[kueue.Topology](text)
	if err != nil {
		return fmt.Errorf("%s: %w", at, err)
	}
	if _, twice := p.Levels[t.Name]; twice {
		return fmt.Errorf("%s: is listed twice: leave one", at)
	}
	if len(t.Spec.Levels) == 0 {
		return fmt.Errorf("%s: spec.levels: is missing: list labels of nodes, the widest first", at)
	}
	if p.Levels == nil {
		p.Levels = map[string][]string{}
	}
	p.Levels[t.Name] = convert.Topology(t).Levels
	return nil
}

// eventOf reads one object as the controller would be told of it.
func eventOf(kind string, text []byte) (core.Event, error) {
	switch kind {
	case "ClusterQueue":
		q, err := read[kueue.ClusterQueue](text)
		if err != nil {
			return nil, err
		}
		kueue.DefaultClusterQueue(q)
		switch {
		case len(q.Spec.ResourceGroups) == 0:
			return nil, errors.New(
				"spec.resourceGroups: is missing: a policy replaces the whole ClusterQueue; begin with that of kubectl get clusterqueue -o yaml",
			)
		case q.Spec.NamespaceSelector == nil:
			return nil, errors.New(
				"spec.namespaceSelector: is missing, so that no namespace could use the queue: write {} for all",
			)
		}
		return core.QueueSet{Queue: convert.Queue(q)}, problems(kueue.ValidateClusterQueue(q))
	case "Cohort":
		c, err := read[kueue.Cohort](text)
		if err != nil {
			return nil, err
		}
		kueue.DefaultCohort(c)
		return core.CohortSet{Cohort: convert.Cohort(c)}, problems(kueue.ValidateCohort(c, nil))
	case "LocalQueue":
		l, err := read[kueue.LocalQueue](text)
		if err != nil {
			return nil, err
		}
		kueue.DefaultLocalQueue(l)
		if l.Namespace == "" {
			return nil, errors.New("metadata.namespace: is missing")
		}
		return core.LocalQueueSet{LocalQueue: convert.LocalQueue(l)}, problems(kueue.ValidateLocalQueue(l))
	case "ResourceFlavor":
		f, err := read[kueue.ResourceFlavor](text)
		if err != nil {
			return nil, err
		}
		return core.FlavorSet{Flavor: convert.Flavor(f)}, problems(kueue.ValidateResourceFlavor(f))
	}
	return nil, errors.New(
		"is no policy: use ClusterQueue, Cohort, LocalQueue, ResourceFlavor, Topology or Configuration",
	)
}

// read decodes an object; fields that there are not are errors.
func read[T any](text []byte) (*T, error) {
	x := new(T)
	if err := sigs.UnmarshalStrict(text, x); err != nil {
		return nil, errors.New(strings.TrimPrefix(err.Error(), "error unmarshaling JSON: while decoding JSON: "))
	}
	return x, nil
}

func problems(list field.ErrorList) error { return list.ToAggregate() }

// levelsRecorded are the levels of the Topologies that recorded flavors name.
func levelsRecorded(w *sim.World) map[string][]string {
	out := map[string][]string{}
	note := func(ev core.Event) {
		if f, ok := ev.(core.FlavorSet); ok && len(f.Flavor.Topology.Levels) > 0 {
			out[f.Flavor.Topology.Name] = f.Flavor.Topology.Levels
		}
	}
	for _, ev := range w.Objects {
		note(ev)
	}
	for _, o := range w.Script {
		note(o.Object)
	}
	return out
}

// level gives flavors the levels of the Topologies that they name: those of the policy or, else, those recorded.
func (p *Policy) level(w *sim.World, recorded map[string][]string) {
	give := func(ev core.Event) core.Event {
		f, ok := ev.(core.FlavorSet)
		if !ok || f.Flavor.Topology.Name == "" {
			return ev
		}
		levels, said := p.Levels[f.Flavor.Topology.Name]
		if !said && len(f.Flavor.Topology.Levels) == 0 {
			levels, said = recorded[f.Flavor.Topology.Name], true
		}
		if said {
			f.Flavor.Topology.Levels = levels
		}
		return f
	}
	for i, ev := range w.Objects {
		w.Objects[i] = give(ev)
	}
	for i := range w.Script {
		if w.Script[i].Object != nil {
			w.Script[i].Object = give(w.Script[i].Object)
		}
	}
}

// lay puts a policy over a world, and says which of its objects were never recorded.
func (p *Policy) lay(w *sim.World) (added []string) {
	w.Name = p.Name
	defer p.level(w, levelsRecorded(w))
	if p.Engine != nil {
		w.Engine.FairSharing, w.Engine.BlockAdmission, w.Engine.AdmissionFairSharing = p.Engine.FairSharing, p.Engine.BlockAdmission, p.Engine.AdmissionFairSharing
	}
	for _, ev := range p.Objects {
		name, _ := replay.NameOf(ev)
		is := func(other core.Event) bool {
			n, _ := replay.NameOf(other)
			return n == name
		}
		i := slices.IndexFunc(w.Objects, is)
		k := slices.IndexFunc(w.Script, func(o sim.Op) bool { return o.Object != nil && is(o.Object) })
		switch {
		case i >= 0:
			w.Objects[i] = like(ev, w.Objects[i])
		case k >= 0:
			w.Objects = append(w.Objects, like(ev, w.Script[k].Object))
		default:
			w.Objects = append(w.Objects, ev)
			added = append(added, strings.Replace(name, "/", " ", 1))
			if q, ok := ev.(core.QueueSet); ok {
				w.Teams = append(w.Teams, sim.Team{Name: q.Queue.Name, Queue: q.Queue.Name})
			}
		}
		w.Script = slices.DeleteFunc(w.Script, func(o sim.Op) bool { return o.Object != nil && is(o.Object) })
	}
	return added
}

// like gives an object what manifests do not say and the controller knew when it was
// recorded: whether a queue's checks can be answered, whether nodes of a flavor are kept for recovery, and what a local
// queue had used.
func like(ev, recorded core.Event) core.Event {
	switch ev := ev.(type) {
	case core.QueueSet:
		if was, ok := recorded.(core.QueueSet); ok {
			ev.Queue.Inactive, ev.Queue.Provisioned = was.Queue.Inactive, was.Queue.Provisioned
		}
		return ev
	case core.FlavorSet:
		if was, ok := recorded.(core.FlavorSet); ok {
			ev.Flavor.KeepsSpares = was.Flavor.KeepsSpares
		}
		return ev
	case core.LocalQueueSet:
		if was, ok := recorded.(core.LocalQueueSet); ok {
			ev.LocalQueue.Consumed, ev.LocalQueue.ConsumedAt = was.LocalQueue.Consumed, was.LocalQueue.ConsumedAt
		}
		return ev
	}
	return ev
}
