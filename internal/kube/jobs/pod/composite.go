package pod

import (
	"cmp"
	"fmt"
	"math"

	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
)

// CompositePodGroups of Kubernetes (scheduling.k8s.io/v1alpha3) consist of PodGroups, or of CompositePodGroups, as
// PodGroups of KAI Scheduler consist of groups. Pods name PodGroups, each of which says how many of them start; all that
// the outermost one with a gang consists of starts together.

// Composite is a CompositePodGroup with all that it consists of.
type Composite struct {
	Name string
	Spec schedulingv1alpha3.CompositePodGroupSpec
	// Groups are the PodGroups, and Composites the CompositePodGroups, that name it as their parent.
	Groups     []NativePodGroup
	Composites []Composite
}

// NativePodGroup is a PodGroup of Kubernetes.
type NativePodGroup struct {
	Name string
	// Workload is the one of Kubernetes' that it was made for, "" if it does not say.
	Workload string
	Spec     map[string]any
}

const (
	compositeKind = "CompositePodGroup"
	// MostGroups is of how many groups a CompositePodGroup consists at most, with those of its groups. It is that of
	// PodGroups of KAI Scheduler.
	MostGroups = mostSubGroups
)

// GangOfComposite is what a CompositePodGroup says, with all that it consists of, of the pods that name its PodGroups. An
// error names the object and the field that cannot be meant here.
func GangOfComposite(c *Composite) (Gang, error) {
	if c.size() > MostGroups {
		return Gang{}, fmt.Errorf(
			"%s %s consists of more than %d groups, and no more start together: make fewer and larger ones",
			compositeKind, c.Name, MostGroups,
		)
	}
	r := compositeReader{root: c}
	least, err := r.read(c, "")
	if err != nil {
		return Gang{}, err
	}
	if least > math.MaxInt32 {
		return Gang{}, fmt.Errorf("the PodGroups of %s %s start %d pods together, which is no number of pods",
			compositeKind, c.Name, least)
	}
	r.out.Least, r.out.Near = int32(least), nearOf(c) //nolint:gosec // it was looked at
	return r.out, nil
}

// size is of how many groups it consists, with those of its groups.
func (c *Composite) size() int {
	n := len(c.Groups) + len(c.Composites)
	for i := range c.Composites {
		n += c.Composites[i].size()
	}
	return n
}

// compositeReader reads what a CompositePodGroup consists of.
type compositeReader struct {
	root *Composite
	out  Gang
}

// read reads what one CompositePodGroup consists of; part is the name of its part, "" for the outermost. It returns how
// many pods of it start.
func (r *compositeReader) read(c *Composite, part string) (int64, error) {
	if err := r.whole(c); err != nil {
		return 0, err
	}
	least := int64(0)
	for i := range c.Composites {
		inner := &c.Composites[i]
		if err := r.ofOneJob(compositeKind, inner.Name, workloadOf(inner)); err != nil {
			return 0, err
		}
		name := innerComposite + inner.Name
		r.out.Parts = append(r.out.Parts, Part{Name: name, Parent: part, Near: nearOf(inner)})
		n, err := r.read(inner, name)
		if err != nil {
			return 0, err
		}
		least += n
	}
	for i := range c.Groups {
		g := &c.Groups[i]
		if err := r.ofOneJob("PodGroup", g.Name, g.Workload); err != nil {
			return 0, err
		}
		is, err := nativeGang(g.Spec)
		if err != nil {
			return 0, fmt.Errorf("PodGroup %s: %w", g.Name, err)
		}
		if is.Single {
			return 0, fmt.Errorf(
				"PodGroup %s: spec.schedulingPolicy.basic: all that %s %s consists of starts together: use schedulingPolicy.gang",
				g.Name,
				compositeKind,
				r.root.Name,
			)
		}
		if is.Near.Required != "" {
			is.Near.Field = fmt.Sprintf("%s of PodGroup %s", nativeField, g.Name)
		}
		r.out.Parts = append(r.out.Parts, Part{Name: g.Name, Parent: part, Least: is.Least, Near: is.Near})
		least += int64(is.Least)
	}
	return least, nil
}

// innerComposite begins the name of a part that is a CompositePodGroup: no PodGroup is called so.
const innerComposite = "composite/"

// whole refuses a CompositePodGroup that starts before all that it consists of does.
func (r *compositeReader) whole(c *Composite) error {
	gang, of := c.Spec.SchedulingPolicy.Gang, len(c.Groups)+len(c.Composites)
	switch {
	case gang == nil:
		return fmt.Errorf(
			"%s %s: spec.schedulingPolicy.basic: all that %s %s consists of starts together: create it anew with schedulingPolicy.gang",
			compositeKind,
			c.Name,
			compositeKind,
			r.root.Name,
		)
	case int(gang.MinGroupCount) > of:
		return fmt.Errorf(
			"%s %s: spec.schedulingPolicy.gang.minGroupCount is %d, and so many groups do not name it yet in spec.parentCompositePodGroupName: create the others",
			compositeKind,
			c.Name,
			gang.MinGroupCount,
		)
	case int(gang.MinGroupCount) < of:
		return fmt.Errorf(
			"%s %s: spec.schedulingPolicy.gang.minGroupCount is %d, and it consists of %d groups, all of which start together: create it anew with minGroupCount %d, or delete groups",
			compositeKind,
			c.Name,
			gang.MinGroupCount,
			of,
			of,
		)
	}
	return nil
}

// ofOneJob refuses what was made for another job than the outermost CompositePodGroup.
func (r *compositeReader) ofOneJob(kind, name, workload string) error {
	if own := workloadOf(r.root); workload != "" && own != "" && workload != own {
		return fmt.Errorf(
			"%s %s: spec.workloadRef.workloadName is %s, and that of %s %s, which it is within, is %s: name the same one, or leave out spec.parentCompositePodGroupName",
			kind,
			name,
			workload,
			compositeKind,
			r.root.Name,
			own,
		)
	}
	return nil
}

func workloadOf(c *Composite) string {
	if ref := c.Spec.WorkloadRef; ref != nil {
		return ref.WorkloadName
	}
	return ""
}

// nearOf is how near to each other the pods of a CompositePodGroup have to be.
func nearOf(c *Composite) Near {
	out := Near{}
	if s := c.Spec.SchedulingConstraints; s != nil {
		for i := range s.Topology {
			out.Required = cmp.Or(out.Required, s.Topology[i].Key)
			out.Field = fmt.Sprintf("%s of %s %s", nativeField, compositeKind, c.Name)
		}
	}
	return out
}
