// Package composite reads how PodGroups of Kubernetes are nested in CompositePodGroups (scheduling.k8s.io/v1alpha3): which
// of these are around one, what one consists of, and with which others the pods of a PodGroup start. Whoever wants to know
// asks here, so that webhooks and controllers find the same. It reads from a cache, and writes nothing.
package composite

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mlbatch/mlbatch/internal/kube/jobs/podmeta"
)

// Served reports whether a cluster has CompositePodGroups.
func Served(cfg *rest.Config) (bool, error) {
	d, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return false, fmt.Errorf("look for CompositePodGroups: %w", err)
	}
	list, err := d.ServerResourcesForGroupVersion(schedulingv1alpha3.SchemeGroupVersion.String())
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for CompositePodGroups: %w", err)
	}
	return slices.ContainsFunc(
		list.APIResources,
		func(r metav1.APIResource) bool { return r.Name == "compositepodgroups" },
	), nil
}

// ParentIndex is the name of the cache index from a CompositePodGroup to the PodGroups and CompositePodGroups that it
// consists of.
const ParentIndex = "mlbatch.dev/parent-composite"

// IndexParent returns the CompositePodGroup that an object names as its parent, for ParentIndex.
func IndexParent(o client.Object) []string {
	if name := ParentOf(o); name != "" {
		return []string{name}
	}
	return nil
}

// ParentOf is the CompositePodGroup that a PodGroup or a CompositePodGroup names as its parent, "" if it names none.
func ParentOf(o client.Object) string {
	switch g := o.(type) {
	case *schedulingv1beta1.PodGroup:
		return ptr.Deref(g.Spec.ParentCompositePodGroupName, "")
	case *schedulingv1alpha3.CompositePodGroup:
		return ptr.Deref(g.Spec.ParentCompositePodGroupName, "")
	}
	return ""
}

// MostLevels is how many CompositePodGroups there are around a PodGroup at most: it is a level of a tree of Kubernetes, too.
const MostLevels = schedulingv1alpha3.WorkloadMaxTreeDepth - 1

// FaultError is what has to be mended before the pods of a PodGroup can start.
type FaultError struct {
	// Why says it, with the object, the field and the cure.
	Why string
	// Lasting: no object that is still to come mends it.
	Lasting bool
}

func (f *FaultError) Error() string { return f.Why }

// AsFault is the fault that an error is; nil if it is another error.
func AsFault(err error) *FaultError {
	f, _ := errors.AsType[*FaultError](err)
	return f
}

// NotServed is the fault of a PodGroup that is within a CompositePodGroup where the cluster has none.
func NotServed(parent string) *FaultError {
	return &FaultError{
		fmt.Sprintf(
			"%s is %s, and no CompositePodGroups (%s) were served when mlbatch's controller started: have the API server serve them, and restart the controller; or leave the field out",
			parentField,
			parent,
			schedulingv1alpha3.SchemeGroupVersion,
		),
		true,
	}
}

const parentField = "spec.parentCompositePodGroupName"

// Around are the CompositePodGroups around a PodGroup or a CompositePodGroup, the innermost first: the parent that it
// names, the parent of that, and so on. With a FaultError come those up to where it is.
func Around(
	ctx context.Context,
	c client.Reader,
	o client.Object,
) ([]*schedulingv1alpha3.CompositePodGroup, error) {
	var out []*schedulingv1alpha3.CompositePodGroup
	kind, most, seen := "PodGroup", MostLevels, []string{}
	if _, is := o.(*schedulingv1alpha3.CompositePodGroup); is {
		kind, most, seen = Kind, MostLevels-1, append(seen, o.GetName())
	}
	by, name := kind+" "+o.GetName(), ParentOf(o)
	for name != "" {
		switch {
		case slices.Contains(seen, name):
			return out, &FaultError{
				fmt.Sprintf(
					"%s: %s is %s, which is within it: it goes round in a circle: delete one of them, and create it anew without",
					by,
					parentField,
					name,
				),
				true,
			}
		case len(out) == most:
			return out, &FaultError{
				fmt.Sprintf(
					"%s %s: %s: it is within more than %d levels of CompositePodGroups, or these go round in a circle: create one of them anew without",
					kind,
					o.GetName(),
					parentField,
					most,
				),
				true,
			}
		}
		g := &schedulingv1alpha3.CompositePodGroup{}
		err := c.Get(
			ctx,
			types.NamespacedName{Namespace: o.GetNamespace(), Name: name},
			g,
			client.UnsafeDisableDeepCopy,
		)
		if apierrors.IsNotFound(err) {
			return out, &FaultError{fmt.Sprintf(
				"%s: %s is %s, and there is no such CompositePodGroup: create it", by, parentField, name,
			), false}
		}
		if err != nil {
			return out, fmt.Errorf("read CompositePodGroup %s/%s: %w", o.GetNamespace(), name, err)
		}
		out, seen = append(out, g), append(seen, name)
		by, name = Kind+" "+name, ParentOf(g)
	}
	return out, nil
}

// Kind is that of CompositePodGroups.
const Kind = "CompositePodGroup"

// Group is the group of pods that pods of a PodGroup start with: of podmeta.NativeGroup, which is that PodGroup, or of
// podmeta.CompositeGroup.
type Group struct{ Kind, Name string }

// GroupOf is the group of pods that those of a PodGroup are in: the outermost CompositePodGroup around it that is a gang
// or, if none is, itself. What is around that has its groups start apart. A FaultError says what is wrong with those around it.
func GroupOf(ctx context.Context, c client.Reader, g *schedulingv1beta1.PodGroup) (Group, error) {
	own := Group{podmeta.NativeGroup, g.Name}
	around, err := Around(ctx, c, g)
	if err != nil {
		return own, err
	}
	gang, err := Outermost(around)
	if err != nil || gang == nil {
		return own, err
	}
	return Group{podmeta.CompositeGroup, gang.Name}, nil
}

// Late says what is wrong with a PodGroup that came into a CompositePodGroup which had quota already.
func Late(group, gang string) string {
	return fmt.Sprintf(
		"PodGroup %s came when CompositePodGroup %s had quota already: make it anew under another name, within another one or within none",
		group,
		gang,
	)
}

// Outermost is the outermost gang of CompositePodGroups, which are listed from the innermost to the outermost; nil if
// none is one.
func Outermost(
	around []*schedulingv1alpha3.CompositePodGroup,
) (*schedulingv1alpha3.CompositePodGroup, error) {
	for _, g := range slices.Backward(around) {
		if g.Spec.SchedulingPolicy.Gang != nil {
			return g, nil
		}
		if s := g.Spec.SchedulingConstraints; s != nil && len(s.Topology) > 0 {
			return nil, &FaultError{
				fmt.Sprintf(
					"%s %s: spec.schedulingConstraints.topology: with schedulingPolicy.basic its groups start one by one, and cannot be kept in one domain: create it anew with schedulingPolicy.gang, or without that",
					Kind,
					g.Name,
				),
				true,
			}
		}
	}
	return nil, nil //nolint:nilnil // there is none
}

// Parts are what a CompositePodGroup consists of, in the order of their names.
type Parts struct {
	Groups     []schedulingv1beta1.PodGroup
	Composites []schedulingv1alpha3.CompositePodGroup
}

// PartsOf are the PodGroups and CompositePodGroups that name a CompositePodGroup as their parent, which are only read. The
// cache must have ParentIndex of both.
func PartsOf(ctx context.Context, c client.Reader, namespace, name string) (Parts, error) {
	var groups schedulingv1beta1.PodGroupList
	var composites schedulingv1alpha3.CompositePodGroupList
	for _, list := range []client.ObjectList{&groups, &composites} {
		if err := c.List(
			ctx,
			list,
			client.InNamespace(namespace),
			client.MatchingFields{ParentIndex: name},
			client.UnsafeDisableDeepCopy,
		); err != nil {
			return Parts{}, fmt.Errorf("list what CompositePodGroup %s/%s consists of: %w", namespace, name, err)
		}
	}
	slices.SortFunc(
		groups.Items,
		func(a, b schedulingv1beta1.PodGroup) int { return strings.Compare(a.Name, b.Name) },
	)
	slices.SortFunc(
		composites.Items,
		func(a, b schedulingv1alpha3.CompositePodGroup) int { return strings.Compare(a.Name, b.Name) },
	)
	return Parts{groups.Items, composites.Items}, nil
}

// Below are the names of all PodGroups and CompositePodGroups within a CompositePodGroup, as deep as Kubernetes nests them.
func Below(
	ctx context.Context,
	c client.Reader,
	namespace, name string,
) (groups, composites []string, err error) {
	composites = []string{name}
	level := composites
	for range MostLevels {
		var next []string
		for _, outer := range level {
			parts, err := PartsOf(ctx, c, namespace, outer)
			if err != nil {
				return nil, nil, err
			}
			for i := range parts.Groups {
				groups = append(groups, parts.Groups[i].Name)
			}
			for i := range parts.Composites {
				if inner := parts.Composites[i].Name; !slices.Contains(composites, inner) {
					next, composites = append(next, inner), append(composites, inner)
				}
			}
		}
		level = next
	}
	return groups, composites[1:], nil
}
