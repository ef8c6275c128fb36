package composite_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/mlbatch/mlbatch/internal/kube/composite"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/podmeta"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
)

// gang and apart are the policies of CompositePodGroups.
var (
	gang = schedulingv1alpha3.CompositePodGroupSchedulingPolicy{
		Gang: &schedulingv1alpha3.CompositeGangSchedulingPolicy{MinGroupCount: 1},
	}
	apart = schedulingv1alpha3.CompositePodGroupSchedulingPolicy{
		Basic: &schedulingv1alpha3.CompositeBasicSchedulingPolicy{},
	}
)

// of is a CompositePodGroup, within another one if that is named.
func of(
	namespace, name, parent string,
	policy schedulingv1alpha3.CompositePodGroupSchedulingPolicy,
	level string,
) *schedulingv1alpha3.CompositePodGroup {
	g := &schedulingv1alpha3.CompositePodGroup{}
	g.Namespace, g.Name = namespace, name
	if parent != "" {
		g.Spec.ParentCompositePodGroupName = &parent
	}
	g.Spec.SchedulingPolicy = policy
	if level != "" {
		g.Spec.SchedulingConstraints = &schedulingv1alpha3.CompositePodGroupSchedulingConstraints{
			Topology: []schedulingv1alpha3.TopologyConstraint{{Key: level}},
		}
	}
	return g
}

// podGroup is a PodGroup of namespace blue, within a CompositePodGroup if that is named.
func podGroup(name, parent string) *schedulingv1beta1.PodGroup {
	g := &schedulingv1beta1.PodGroup{}
	g.Namespace, g.Name = "blue", name
	if parent != "" {
		g.Spec.ParentCompositePodGroupName = &parent
	}
	return g
}

func cluster(objects ...client.Object) client.Client {
	return fake.NewClientBuilder().WithScheme(scheme.New()).WithObjects(objects...).
		WithIndex(&schedulingv1beta1.PodGroup{}, composite.ParentIndex, composite.IndexParent).
		WithIndex(&schedulingv1alpha3.CompositePodGroup{}, composite.ParentIndex, composite.IndexParent).
		Build()
}

// With which others the pods of a PodGroup start, and what is wrong with the CompositePodGroups around it. Nothing that
// anybody writes has it climb without end.
func TestGroupOf(t *testing.T) {
	type all = []*schedulingv1alpha3.CompositePodGroup
	for name, tc := range map[string]struct {
		why     string
		parent  string
		there   all
		want    string // "" for its own
		wrong   string
		lasting bool
	}{
		"by itself": {"it names none", "", nil, "", "", false},
		"a gang":    {"its pods start with those of others", "a", all{of("blue", "a", "", gang, "")}, "a", "", false},
		"gangs in gangs": {
			"the outermost has all of them start", "a",
			all{of("blue", "a", "b", gang, ""), of("blue", "b", "c", gang, ""), of("blue", "c", "", gang, "")},
			"c", "", false,
		},
		"apart": {"its groups start one by one", "a", all{of("blue", "a", "", apart, "")}, "", "", false},
		"gangs that start one by one": {
			"each of them is one", "a", all{of("blue", "a", "b", gang, ""), of("blue", "b", "", apart, "")}, "a", "", false,
		},
		"none":            {"it may come", "a", nil, "", "PodGroup g: spec.parentCompositePodGroupName is a", false},
		"none around one": {"it may come", "a", all{of("blue", "a", "b", gang, "")}, "", "CompositePodGroup a: spec.parentCompositePodGroupName is b", false},
		"another namespace's": {
			"that is no one's business here", "a", all{of("green", "a", "", gang, "")}, "", "there is no such", false,
		},
		"within itself": {"it has no root", "a", all{of("blue", "a", "a", gang, "")}, "", "circle", true},
		"a circle": {
			"nor has this", "a", all{of("blue", "a", "b", gang, ""), of("blue", "b", "a", gang, "")}, "", "circle", true,
		},
		"too deep": {
			"Kubernetes has four levels", "a",
			all{of("blue", "a", "b", gang, ""), of("blue", "b", "c", gang, ""), of("blue", "c", "d", gang, ""), of("blue", "d", "", gang, "")},
			"", "more than 3 levels", true,
		},
		"a domain for what starts one by one": {
			"that cannot be kept", "a", all{of("blue", "a", "", apart, "rack")}, "", "CompositePodGroup a: spec.schedulingConstraints.topology", true,
		},
	} {
		objects := make([]client.Object, len(tc.there))
		for i, g := range tc.there {
			objects[i] = g
		}
		got, err := composite.GroupOf(t.Context(), cluster(objects...), podGroup("g", tc.parent))
		f := composite.AsFault(err)
		if tc.wrong != "" {
			if f == nil || !strings.Contains(f.Why, tc.wrong) || f.Lasting != tc.lasting {
				t.Errorf("%s: %s: %+v, %v", name, tc.why, f, err)
			}
			continue
		}
		want := composite.Group{Kind: podmeta.CompositeGroup, Name: tc.want}
		if tc.want == "" {
			want = composite.Group{Kind: podmeta.NativeGroup, Name: "g"}
		}
		if err != nil || got != want {
			t.Errorf("%s: %s: %v, %v", name, tc.why, got, err)
		}
	}
}

// All that is within a CompositePodGroup is found once, also where it goes round in a circle, and none of others.
func TestBelow(t *testing.T) {
	objects := []client.Object{
		of("blue", "a", "b", gang, ""), of("blue", "b", "a", gang, ""), of("blue", "in", "a", gang, ""),
		of("green", "x", "a", gang, ""), podGroup("g", "a"), podGroup("h", "in"), podGroup("other", ""),
	}
	groups, composites, err := composite.Below(t.Context(), cluster(objects...), "blue", "a")
	slices.Sort(groups)
	slices.Sort(composites)
	if got := fmt.Sprint(groups, composites); err != nil || got != "[g h] [b in]" {
		t.Errorf("%s, %v", got, err)
	}
	outer, err := composite.Around(t.Context(), cluster(objects...), of("blue", "a", "b", gang, ""))
	if f := composite.AsFault(err); f == nil || len(outer) != 1 {
		t.Errorf("around a are %d, %v", len(outer), err)
	}
}
