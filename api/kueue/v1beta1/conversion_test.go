package v1beta1_test

import (
	"fmt"
	"math/rand"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	apifuzzer "k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"sigs.k8s.io/randfill"

	"github.com/mlbatch/mlbatch/api/kueue/v1beta1"
	"github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// spoke is a kind of v1beta1 whose hub is H.
type spoke[S, H any] interface {
	*S
	ConvertTo(*H) error
	ConvertFrom(*H) error
}

// rounds is how many random objects of each kind are converted there and back.
const rounds = 100

// TestRoundTrip converts random objects to the other version and back: nothing
// may be lost in either direction.
func TestRoundTrip(t *testing.T) {
	t.Run("AdmissionCheck", roundTrip[v1beta1.AdmissionCheck, v1beta2.AdmissionCheck])
	t.Run("ClusterQueue", roundTrip[v1beta1.ClusterQueue, v1beta2.ClusterQueue])
	t.Run("Cohort", roundTrip[v1beta1.Cohort, v1beta2.Cohort])
	t.Run("LocalQueue", roundTrip[v1beta1.LocalQueue, v1beta2.LocalQueue])
	t.Run("MultiKueueCluster", roundTrip[v1beta1.MultiKueueCluster, v1beta2.MultiKueueCluster])
	t.Run("MultiKueueConfig", roundTrip[v1beta1.MultiKueueConfig, v1beta2.MultiKueueConfig])
	t.Run(
		"ProvisioningRequestConfig",
		roundTrip[v1beta1.ProvisioningRequestConfig, v1beta2.ProvisioningRequestConfig],
	)
	t.Run("ResourceFlavor", roundTrip[v1beta1.ResourceFlavor, v1beta2.ResourceFlavor])
	t.Run("Topology", roundTrip[v1beta1.Topology, v1beta2.Topology])
	t.Run("Workload", roundTrip[v1beta1.Workload, v1beta2.Workload])
	t.Run("WorkloadPriorityClass", roundTrip[v1beta1.WorkloadPriorityClass, v1beta2.WorkloadPriorityClass])
}

func roundTrip[S, H any, P spoke[S, H]](t *testing.T) {
	t.Helper()
	for seed := range int64(rounds) {
		fill := filler(seed)
		var old, back S
		var hub H
		fill.Fill(&old)
		blank(&old)
		before := fmt.Sprintf("%+v", old)
		check(t, P(&old).ConvertTo(&hub))
		check(t, P(&back).ConvertFrom(&hub))
		if diff := cmp.Diff(old, back, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("seed %d: v1beta1 -> v1beta2 -> v1beta1 (-want +got):\n%s", seed, diff)
		}
		if after := fmt.Sprintf("%+v", old); before != after {
			t.Fatalf("seed %d: ConvertTo changed its input", seed)
		}

		var now, again H
		var down S
		fill.Fill(&now)
		blank(&now)
		check(t, P(&down).ConvertFrom(&now))
		check(t, P(&down).ConvertTo(&again))
		if diff := cmp.Diff(now, again, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("seed %d: v1beta2 -> v1beta1 -> v1beta2 (-want +got):\n%s", seed, diff)
		}
	}
}

// blank removes the kind and version, which the webhook server sets.
func blank(o any) {
	o.(runtime.Object).GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// filler makes random objects that the schema allows where the conversion
// depends on it.
func filler(seed int64) *randfill.Filler {
	own := func(serializer.CodecFactory) []any {
		return []any{
			func(f *v1beta1.FlavorFungibility, c randfill.Continue) {
				f.WhenCanBorrow = pick(c, v1beta1.Borrow, v1beta1.MayStopSearch, v1beta1.TryNextFlavor, "")
				f.WhenCanPreempt = pick(c, v1beta1.Preempt, v1beta1.MayStopSearch, v1beta1.TryNextFlavor, "")
			},
			func(f *v1beta2.FlavorFungibility, c randfill.Continue) {
				f.WhenCanBorrow = pick(c, v1beta2.MayStopSearch, v1beta2.TryNextFlavor, "")
				f.WhenCanPreempt = pick(c, v1beta2.MayStopSearch, v1beta2.TryNextFlavor, "")
			},
			func(s *v1beta1.ClusterQueueSpec, c randfill.Continue) {
				c.FillNoCustom(s)
				if c.Bool() {
					s.AdmissionChecks = nil
				} else {
					s.AdmissionChecksStrategy = nil
				}
			},
			func(s *v1beta1.WorkloadSpec, c randfill.Continue) {
				c.FillNoCustom(s)
				s.PriorityClassSource = pick(c, "", v1beta1.PodPriorityClassSource, v1beta1.WorkloadPriorityClassSource)
			},
			func(r *v1beta2.PriorityClassRef, c randfill.Continue) {
				*r = v1beta2.PriorityClassRef{
					Group: v1beta2.PodPriorityClassGroup,
					Kind:  v1beta2.PodPriorityClassKind,
					Name:  "p" + c.String(5),
				}
				if c.Bool() {
					r.Group, r.Kind = v1beta2.WorkloadPriorityClassGroup, v1beta2.WorkloadPriorityClassKind
				}
			},
			func(a *v1beta1.TopologyAssignment, c randfill.Continue) {
				a.Levels = []string{"rack", "host"}[:1+c.Intn(2)]
				a.Domains = nil
				for range c.Intn(4) {
					d := v1beta1.TopologyDomainAssignment{Count: int32(1 + c.Intn(2))}
					for range a.Levels {
						d.Values = append(d.Values, pick(c, "a", "b", "abc"))
					}
					a.Domains = append(a.Domains, d)
				}
			},
			func(s *v1beta2.ClusterSource, c randfill.Continue) {
				c.FillNoCustom(s)
				if s.KubeConfig != nil {
					s.ClusterProfileRef = nil
				}
			},
			fillTopology,
		}
	}
	funcs := apifuzzer.MergeFuzzerFuncs(metafuzzer.Funcs, own)
	codecs := serializer.NewCodecFactory(runtime.NewScheme())
	return apifuzzer.FuzzerFor(funcs, rand.NewSource(seed), codecs).NilChance(0.3).NumElements(0, 3)
}

// fillTopology makes slices of every form, now and then one that contradicts
// itself.
func fillTopology(a *v1beta2.TopologyAssignment, c randfill.Continue) {
	a.Levels = []string{"rack", "host"}[:1+c.Intn(2)]
	a.Slices = nil
	for range c.Intn(3) {
		n := 1 + c.Intn(3)
		s := v1beta2.TopologyAssignmentSlice{DomainCount: int32(n)}
		if c.Intn(10) == 0 {
			s.DomainCount++
		}
		for range a.Levels {
			v := v1beta2.TopologyAssignmentSliceLevelValues{Universal: new("u")}
			if c.Bool() {
				v = v1beta2.TopologyAssignmentSliceLevelValues{
					Individual: &v1beta2.TopologyAssignmentSliceLevelIndividualValues{},
				}
				for range n {
					v.Individual.Roots = append(v.Individual.Roots, pick(c, "x", "y"))
				}
				if c.Bool() {
					v.Individual.Prefix = new("node-")
				}
				if c.Bool() {
					v.Individual.Suffix = new(".local")
				}
			}
			s.ValuesPerLevel = append(s.ValuesPerLevel, v)
		}
		if c.Bool() {
			s.PodCounts.Universal = new(int32(c.Intn(3) + 1))
		} else {
			for range n {
				s.PodCounts.Individual = append(s.PodCounts.Individual, int32(c.Intn(3)+1))
			}
		}
		a.Slices = append(a.Slices, s)
	}
}

func pick[T any](c randfill.Continue, from ...T) T {
	return from[c.Intn(len(from))]
}

func TestClusterQueueToHub(t *testing.T) {
	checks := []v1beta2.AdmissionCheckReference{"a", "b"}
	cases := map[string]struct {
		why  string
		in   v1beta1.ClusterQueueSpec
		want v1beta2.ClusterQueueSpec
	}{
		"Cohort": {
			why:  "cohort was renamed",
			in:   v1beta1.ClusterQueueSpec{Cohort: "default-cohort"},
			want: v1beta2.ClusterQueueSpec{CohortName: "default-cohort"},
		},
		"Fungibility": {
			why: "Borrow and Preempt are older names of MayStopSearch",
			in: v1beta1.ClusterQueueSpec{FlavorFungibility: &v1beta1.FlavorFungibility{
				WhenCanBorrow: v1beta1.Borrow, WhenCanPreempt: v1beta1.Preempt,
			}},
			want: v1beta2.ClusterQueueSpec{FlavorFungibility: &v1beta2.FlavorFungibility{
				WhenCanBorrow: v1beta2.MayStopSearch, WhenCanPreempt: v1beta2.MayStopSearch,
			}},
		},
		"Checks": {
			why: "a plain list of checks means the checks on all flavors",
			in:  v1beta1.ClusterQueueSpec{AdmissionChecks: checks},
			want: v1beta2.ClusterQueueSpec{AdmissionChecksStrategy: &v1beta2.AdmissionChecksStrategy{
				AdmissionChecks: []v1beta2.AdmissionCheckStrategyRule{{Name: "a"}, {Name: "b"}},
			}},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var hub v1beta2.ClusterQueue
			check(t, (&v1beta1.ClusterQueue{Spec: tc.in}).ConvertTo(&hub))
			if diff := cmp.Diff(tc.want, hub.Spec); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.why, diff)
			}
		})
	}
}

func TestEditedBetween(t *testing.T) {
	old := v1beta1.ClusterQueue{
		Spec: v1beta1.ClusterQueueSpec{AdmissionChecks: []v1beta2.AdmissionCheckReference{"a"}},
	}
	var hub v1beta2.ClusterQueue
	check(t, old.ConvertTo(&hub))
	hub.Spec.AdmissionChecksStrategy.AdmissionChecks[0].OnFlavors = []v1beta2.ResourceFlavorReference{"gpu"}
	var got v1beta1.ClusterQueue
	check(t, got.ConvertFrom(&hub))
	if diff := cmp.Diff(
		v1beta1.ClusterQueueSpec{AdmissionChecksStrategy: hub.Spec.AdmissionChecksStrategy},
		got.Spec,
	); diff != "" {
		t.Errorf("what was kept may not undo an edit made in the other version (-want +got):\n%s", diff)
	}
}

func TestUnreadableAnnotation(t *testing.T) {
	hub := v1beta2.AdmissionCheck{
		ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1beta1.OnlyV1beta1Annotation: "{"}},
	}
	var got v1beta1.AdmissionCheck
	if err := got.ConvertFrom(&hub); err != nil {
		t.Errorf("a broken annotation may not make an object unreadable: %v", err)
	}
}
