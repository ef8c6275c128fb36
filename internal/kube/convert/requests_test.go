package convert_test

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
)

// list reads NAME=QUANTITY words.
func list(words string) corev1.ResourceList {
	if words == "" {
		return nil
	}
	out := corev1.ResourceList{}
	for w := range strings.FieldsSeq(words) {
		name, q, _ := strings.Cut(w, "=")
		out[corev1.ResourceName(name)] = resource.MustParse(q)
	}
	return out
}

func podOf(requests, limits string) corev1.PodSpec {
	return corev1.PodSpec{
		Containers: []corev1.Container{
			{Name: "c", Resources: corev1.ResourceRequirements{Requests: list(requests), Limits: list(limits)}},
		},
	}
}

func ofClass(class string, spec corev1.PodSpec) corev1.PodSpec {
	spec.RuntimeClassName = &class
	return spec
}

func amounts(words string) core.Resources {
	switch words {
	case "":
		return nil
	case "none":
		return core.Resources{}
	}
	return convert.Resources(list(words))
}

// podLevel gives a pod resources as a whole.
func podLevel(spec corev1.PodSpec, requests, limits string) corev1.PodSpec {
	spec.Resources = &corev1.ResourceRequirements{Requests: list(requests), Limits: list(limits)}
	return spec
}

func limitRange(name string, items ...corev1.LimitRangeItem) *corev1.LimitRange {
	return &corev1.LimitRange{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.LimitRangeSpec{Limits: items},
	}
}

func TestRequestsOf(t *testing.T) {
	container := corev1.LimitTypeContainer
	defaults := limitRange(
		"defaults",
		corev1.LimitRangeItem{Type: container, Default: list("cpu=4"), DefaultRequest: list("cpu=1")},
	)
	mig := convert.Transformation{Input: "mig", Replace: true, Outputs: list("gpu-memory=5Gi credits=10")}
	type c = struct {
		why      string
		spec     corev1.PodSpec
		limits   []*corev1.LimitRange
		classes  map[string]corev1.ResourceList
		counting convert.Counting
		node     string
		quota    string // "" if it is the same; "none" if nothing counts
		invalid  string
	}
	cases := map[string]c{
		"as they are": {
			why:  "nothing changes them",
			spec: podOf("cpu=1", "memory=1Gi"),
			node: "cpu=1 memory=1Gi",
		},
		"LimitRange default": {
			why:    "the API server fills it in",
			spec:   podOf("memory=1Gi", ""),
			limits: []*corev1.LimitRange{defaults},
			node:   "cpu=1 memory=1Gi",
		},
		"LimitRange beside limits": {
			why:    "the API server takes the limit before the LimitRange, and what a pod gets counts",
			spec:   podOf("", "cpu=3"),
			limits: []*corev1.LimitRange{defaults},
			node:   "cpu=3",
		},
		"pod beside LimitRange": {
			why:    "its limit is its request before containers get defaults",
			spec:   podLevel(podOf("", ""), "", "cpu=4"),
			limits: []*corev1.LimitRange{defaults},
			node:   "cpu=4",
		},
		"pod beside containers": {
			why:    "what containers request is the pod's request",
			spec:   podLevel(podOf("cpu=2", ""), "", "cpu=4"),
			limits: []*corev1.LimitRange{defaults},
			node:   "cpu=2",
		},
		"pod's own request": {
			why:    "it is for all containers",
			spec:   podLevel(podOf("cpu=2", ""), "cpu=3", "cpu=4"),
			limits: []*corev1.LimitRange{defaults},
			node:   "cpu=3",
		},
		"pod too small": {
			why:     "the pod would be rejected",
			spec:    podLevel(podOf("", ""), "cpu=500m", "cpu=4"),
			limits:  []*corev1.LimitRange{defaults},
			node:    "cpu=500m",
			invalid: "the containers request 1 of cpu together, LimitRanges included, more than the 500m of the pod: raise the pod's request or set lower ones of containers",
		},
		"first LimitRange wins": {
			why:  "by name, so that it is the same every time",
			spec: podOf("", ""),
			limits: []*corev1.LimitRange{
				defaults,
				limitRange("more", corev1.LimitRangeItem{Type: container, DefaultRequest: list("cpu=2 memory=1Gi")}),
			},
			node: "cpu=1 memory=1Gi",
		},
		"overhead": {
			why:     "the RuntimeClass adds it",
			spec:    ofClass("kata", podOf("cpu=1", "")),
			classes: map[string]corev1.ResourceList{"kata": list("cpu=250m memory=1Gi")},
			node:    "cpu=1250m memory=1Gi",
		},
		"no overhead": {
			why:     "a class may add nothing",
			spec:    ofClass("runc", podOf("cpu=1", "")),
			classes: map[string]corev1.ResourceList{"runc": nil},
			node:    "cpu=1",
		},
		"class is gone": {
			why:     "the pod would be rejected",
			spec:    ofClass("gone", podOf("cpu=1", "")),
			node:    "cpu=1",
			invalid: "RuntimeClass gone doesn't exist: name another one in runtimeClassName, or none",
		},
		"request > limit": {
			why:     "the pod would be rejected",
			spec:    podOf("cpu=3", "cpu=2"),
			node:    "cpu=3",
			invalid: "container c requests 3 of cpu, more than its limit of 2: lower the request or raise the limit",
		},
		"default limit too low": {
			why:     "its author wrote no limit that could be raised",
			spec:    podOf("cpu=5", ""),
			limits:  []*corev1.LimitRange{defaults},
			node:    "cpu=5",
			invalid: "container c asks for 5 of cpu and has no limit, so that it gets one of 4: ask for at most 4, or set a limit of at least 5 (LimitRange defaults)",
		},
		"above max, no limit": {
			why:  "the API server makes the maximum the default, too, and a higher limit would be refused",
			spec: podOf("cpu=3", ""),
			limits: []*corev1.LimitRange{
				limitRange(
					"small",
					corev1.LimitRangeItem{
						Type:           container,
						Max:            list("cpu=2"),
						Default:        list("cpu=2"),
						DefaultRequest: list("cpu=2"),
					},
				),
			},
			node:    "cpu=3",
			invalid: "container c asks for 3 of cpu and has no limit, so that it gets one of 2: ask for at most 2 (LimitRange small)",
		},
		"above max": {
			why:  "the pod would be rejected",
			spec: podOf("", "cpu=3"),
			limits: []*corev1.LimitRange{
				limitRange("small", corev1.LimitRangeItem{Type: container, Max: list("cpu=2")}),
			},
			node:    "cpu=3",
			invalid: "container c asks for 3 of cpu: ask for at most 2 (LimitRange small)",
		},
		"below min": {
			why:  "the pod would be rejected",
			spec: podOf("cpu=100m", ""),
			limits: []*corev1.LimitRange{
				limitRange("large", corev1.LimitRangeItem{Type: container, Min: list("cpu=1")}),
			},
			node:    "cpu=100m",
			invalid: "container c asks for 100m of cpu: ask for at least 1 (LimitRange large)",
		},
		"pod above max": {
			why:  "containers add up",
			spec: corev1.PodSpec{Containers: append(podOf("", "cpu=2").Containers, podOf("", "cpu=2").Containers...)},
			limits: []*corev1.LimitRange{
				limitRange("small", corev1.LimitRangeItem{Type: corev1.LimitTypePod, Max: list("cpu=3")}),
			},
			node:    "cpu=4",
			invalid: "the pod asks for 4 of cpu: ask for at most 3 (LimitRange small)",
		},
		"no limit": {
			why:  "a maximum asks for a limit",
			spec: podOf("cpu=1", ""),
			limits: []*corev1.LimitRange{
				limitRange("small", corev1.LimitRangeItem{Type: corev1.LimitTypePod, Max: list("cpu=3")}),
			},
			node:    "cpu=1",
			invalid: "the pod has no limit for cpu: set one of at most 3 (LimitRange small)",
		},
		"ratio": {
			why:  "overcommitment is bounded",
			spec: podOf("cpu=1", "cpu=2500m"),
			limits: []*corev1.LimitRange{
				limitRange("tight", corev1.LimitRangeItem{Type: container, MaxLimitRequestRatio: list("cpu=2")}),
			},
			node:    "cpu=1",
			invalid: "container c has a limit of 2500m for cpu, more than 2 times its request of 1: set them closer together (LimitRange tight)",
		},
		"exactly as much": {
			why:  "minimum, maximum and ratio may be met",
			spec: podOf("cpu=1", "cpu=2"),
			limits: []*corev1.LimitRange{
				limitRange(
					"exact",
					corev1.LimitRangeItem{
						Type:                 container,
						Min:                  list("cpu=1"),
						Max:                  list("cpu=2"),
						MaxLimitRequestRatio: list("cpu=2"),
					},
				),
			},
			node: "cpu=1",
		},
		"minimum without a request": {
			why:  "the pod would be rejected",
			spec: podOf("memory=1Gi", ""),
			limits: []*corev1.LimitRange{
				limitRange("large", corev1.LimitRangeItem{Type: container, Min: list("cpu=1")}),
			},
			node:    "memory=1Gi",
			invalid: "container c requests no cpu: request at least 1 (LimitRange large)",
		},
		"exactly the pod's own": {
			why:  "containers may use all of it",
			spec: podLevel(podOf("cpu=3", "cpu=3"), "cpu=3", "cpu=3"),
			node: "cpu=3",
		},
		"excluded": {
			why:      "counts against nothing, and is taken of the node",
			spec:     podOf("cpu=1 acme.com/nic=2", ""),
			counting: convert.Counting{ExcludePrefixes: []string{"acme.com/"}},
			node:     "cpu=1 acme.com/nic=2",
			quota:    "cpu=1",
		},
		"all excluded": {
			why:      "nothing is not the same as unset",
			spec:     podOf("acme.com/nic=2", ""),
			counting: convert.Counting{ExcludePrefixes: []string{"acme.com/"}},
			node:     "acme.com/nic=2",
			quota:    "none",
		},
		"replaced": {
			why:      "the outputs stand for the input",
			spec:     podOf("cpu=1 mig=2", ""),
			counting: convert.Counting{Transformations: []convert.Transformation{mig}},
			node:     "cpu=1 mig=2",
			quota:    "cpu=1 credits=20 gpu-memory=10Gi",
		},
		"retained": {
			why:   "the input counts as well",
			spec:  podOf("gpu=2", ""),
			node:  "gpu=2",
			quota: "gpu=2 credits=6",
			counting: convert.Counting{
				Transformations: []convert.Transformation{{Input: "gpu", Outputs: list("credits=3")}},
			},
		},
		"summed": {
			why:   "outputs of several inputs and what was asked for directly add up",
			spec:  podOf("a=1 b=2 credits=5", ""),
			node:  "a=1 b=2 credits=5",
			quota: "credits=55",
			counting: convert.Counting{
				Transformations: []convert.Transformation{
					{Input: "a", Replace: true, Outputs: list("credits=10")},
					{Input: "b", Replace: true, Outputs: list("credits=20")},
				},
			},
		},
		"multiplied": {
			why:   "memory of each of several devices",
			spec:  podOf("gpu=4 mem=10", ""),
			node:  "gpu=4 mem=10",
			quota: "gpu=4 total-mem=40",
			counting: convert.Counting{
				Transformations: []convert.Transformation{
					{Input: "mem", Replace: true, MultiplyBy: "gpu", Outputs: list("total-mem=1")},
				},
			},
		},
		"nothing to multiply by": {
			why:   "then it counts once",
			spec:  podOf("mem=10", ""),
			node:  "mem=10",
			quota: "total-mem=10",
			counting: convert.Counting{
				Transformations: []convert.Transformation{
					{Input: "mem", Replace: true, MultiplyBy: "gpu", Outputs: list("total-mem=1")},
				},
			},
		},
		"negative total": {
			why:   "a discount never eats what was asked for directly",
			spec:  podOf("spot=2 credits=5", ""),
			node:  "spot=2 credits=5",
			quota: "credits=5",
			counting: convert.Counting{
				Transformations: []convert.Transformation{{Input: "spot", Replace: true, Outputs: list("credits=-1")}},
			},
		},
		"discount": {
			why:   "negative factors lower what other rules give",
			spec:  podOf("gpu=4 spot=1", ""),
			node:  "gpu=4 spot=1",
			quota: "credits=30",
			counting: convert.Counting{
				Transformations: []convert.Transformation{
					{Input: "gpu", Replace: true, Outputs: list("credits=10")},
					{Input: "spot", Replace: true, Outputs: list("credits=-10")},
				},
			},
		},
		"excluded input": {
			why:   "what is excluded transforms into nothing",
			spec:  podOf("mig=2", ""),
			node:  "mig=2",
			quota: "none",
			counting: convert.Counting{
				ExcludePrefixes: []string{"mi"},
				Transformations: []convert.Transformation{mig},
			},
		},
		"outputs are not inputs": {
			why:   "each rule sees what was requested, whatever their order",
			spec:  podOf("a=1", ""),
			node:  "a=1",
			quota: "b=2",
			counting: convert.Counting{
				Transformations: []convert.Transformation{
					{Input: "a", Replace: true, Outputs: list("b=2")},
					{Input: "b", Replace: true, Outputs: list("c=2")},
				},
			},
		},
		"half a core": {
			why:   "half a unit counts half, as in Kueue",
			spec:  podOf("cpu=500m", ""),
			node:  "cpu=500m",
			quota: "cpu=500m credits=1",
			counting: convert.Counting{
				Transformations: []convert.Transformation{{Input: "cpu", Outputs: list("credits=2")}},
			},
		},
		"half of half a core": {
			why:   "products are exact, and rounded up once",
			spec:  podOf("cpu=500m mem=1500m", ""),
			node:  "cpu=500m mem=2",
			quota: "cpu=500m credits=1 mem=2",
			counting: convert.Counting{
				Transformations: []convert.Transformation{{Input: "mem", MultiplyBy: "cpu", Outputs: list("credits=1")}},
			},
		},
		"a third of a core": {
			why:   "what is over a whole output counts as one",
			spec:  podOf("cpu=300m", ""),
			node:  "cpu=300m",
			quota: "cpu=300m credits=1",
			counting: convert.Counting{
				Transformations: []convert.Transformation{{Input: "cpu", Outputs: list("credits=2")}},
			},
		},
		"half a credit": {
			why:   "fractions of the output add up before they are rounded",
			spec:  podOf("cpu=3", ""),
			node:  "cpu=3",
			quota: "cpu=3 credits=2",
			counting: convert.Counting{
				Transformations: []convert.Transformation{{Input: "cpu", Outputs: list("credits=500m")}},
			},
		},
		"more than an int64 holds": {
			why:   "saturates and does not wrap",
			spec:  podOf("a=9223372036854775807", ""),
			node:  "a=9223372036854775807",
			quota: "b=9223372036854775807",
			counting: convert.Counting{
				Transformations: []convert.Transformation{{Input: "a", Replace: true, Outputs: list("b=1000")}},
			},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			before, classes := c.spec.DeepCopy(), map[string]convert.RuntimeClass{}
			for name, overhead := range c.classes {
				classes[name] = convert.RuntimeClass{Overhead: overhead}
			}
			got := convert.RequestsOf(
				&c.spec,
				convert.Surroundings{LimitRanges: c.limits, RuntimeClasses: classes},
				c.counting,
			)
			want := convert.Requests{Node: amounts(c.node), Quota: amounts(c.quota), Invalid: c.invalid}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.why, diff)
			}
			if diff := cmp.Diff(before, &c.spec); diff != "" {
				t.Errorf("the spec changed:\n%s", diff)
			}
		})
	}
}

// Whatever quantities a manifest holds, requests are never negative, and what
// is asked for is never counted as less because it is too much.
func TestRequestsSaturate(t *testing.T) {
	quantity := rapid.Custom(func(t *rapid.T) resource.Quantity {
		digits := rapid.StringMatching(`-?[0-9]{1,25}(\.[0-9]{1,9})?`).Draw(t, "digits")
		suffix := rapid.SampledFrom([]string{"", "m", "u", "n", "k", "M", "E", "Ki", "Ei", "e3", "e18"}).
			Draw(t, "suffix")
		q, err := resource.ParseQuantity(digits + suffix)
		if err != nil {
			t.Skip(err)
		}
		return q
	})
	resources := rapid.MapOf(rapid.SampledFrom([]corev1.ResourceName{"cpu", "memory", "a", "b"}), quantity)
	rapid.Check(t, func(t *rapid.T) {
		spec := podOf("", "")
		spec.Containers[0].Resources = corev1.ResourceRequirements{
			Requests: resources.Draw(t, "requests"),
			Limits:   resources.Draw(t, "limits"),
		}
		rule := convert.Transformation{
			Input:      "a",
			Replace:    rapid.Bool().Draw(t, "replace"),
			MultiplyBy: rapid.SampledFrom([]corev1.ResourceName{"", "b"}).Draw(t, "by"),
			Outputs:    resources.Draw(t, "outputs"),
		}
		plain := convert.RequestsOf(&spec, convert.Surroundings{}, convert.Counting{})
		got := convert.RequestsOf(
			&spec,
			convert.Surroundings{},
			convert.Counting{Transformations: []convert.Transformation{rule}},
		)
		if diff := cmp.Diff(plain.Node, got.Node); diff != "" {
			t.Fatalf("transformations change what a node gives:\n%s", diff)
		}
		for _, r := range []core.Resources{got.Node, got.Quota} {
			for _, q := range r {
				if q.Amount < 0 {
					t.Fatalf("%s is negative: %d", q.Resource, q.Amount)
				}
			}
		}
		for _, q := range plain.Node { // outputs only add
			if n := (&core.PodSet{Requests: got.Node, Quota: got.Quota}).Counted().Of(
				q.Resource,
			); n < q.Amount &&
				(q.Resource != "a" || !rule.Replace) {
				t.Fatalf("%s counts %d, less than the %d asked for", q.Resource, n, q.Amount)
			}
		}
	})
}

// TestOutputsOnlyAdd keeps what TestRequestsSaturate found once in some thousand
// tries: a negative request with more digits than 64 bits hold was read as a positive
// one, beside an output.
func TestOutputsOnlyAdd(t *testing.T) {
	for _, memory := range []string{"8877619818.123456789", "-1040037000000000.000000000", "-9999999999999999999999999", "9223372036854775807", "0.000000001"} {
		for _, factor := range []string{"1m", "1n", "-1", "1E", "9223372036854775807"} {
			spec := podOf("", "")
			spec.Containers[0].Resources.Limits = corev1.ResourceList{
				"a": resource.MustParse("1E"), corev1.ResourceMemory: resource.MustParse(memory),
			}
			plain := convert.RequestsOf(&spec, convert.Surroundings{}, convert.Counting{})
			rule := convert.Transformation{
				Input:   "a",
				Outputs: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(factor)},
			}
			got := convert.RequestsOf(
				&spec,
				convert.Surroundings{},
				convert.Counting{Transformations: []convert.Transformation{rule}},
			)
			counted := (&core.PodSet{Requests: got.Node, Quota: got.Quota}).Counted().Of(core.Memory)
			if asked := plain.Node.Of(core.Memory); counted < asked {
				t.Errorf(
					"memory of %s and %s for each a: counts %d, less than the %d asked for",
					memory,
					factor,
					counted,
					asked,
				)
			}
		}
	}
}

// TestPriorityIsThatOfTheClassAndABoost: the order of a Workload is its priority and, where the installation
// allows it, a boost.
func TestPriorityIsThatOfTheClassAndABoost(t *testing.T) {
	boosts := convert.Rules{PriorityBoost: true}
	for name, c := range map[string]struct {
		why      string
		rules    convert.Rules
		priority int32
		boost    string
		want     int64
	}{
		"plain":        {"nothing is added", boosts, 5, "", 5},
		"boosted":      {"the annotation adds", boosts, 5, "10", 15},
		"lowered":      {"or takes off", boosts, 5, "-10", -5},
		"gate off":     {"the annotation means nothing", convert.Rules{}, 5, "10", 5},
		"no number":    {"counts as none", boosts, 5, "high", 5},
		"too far up":   {"the sum has room for both", boosts, math.MaxInt32, "1", math.MaxInt32 + 1},
		"too far down": {"the sum has room for both", boosts, math.MinInt32, "-1", math.MinInt32 - 1},
	} {
		w := &kueue.Workload{Spec: kueue.WorkloadSpec{Priority: &c.priority}}
		if c.boost != "" {
			w.Annotations = map[string]string{kueue.PriorityBoostAnnotation: c.boost}
		}
		if got := convert.Workload(w, c.rules, convert.Surroundings{}).Priority; got != c.want {
			t.Errorf("%s: %s: got %d, want %d", name, c.why, got, c.want)
		}
	}
}

// Where pods that are done keep their quota, it does not matter who says that
// they are.
func TestDonePodsKept(t *testing.T) {
	w := &kueue.Workload{
		Spec: kueue.WorkloadSpec{PodSets: []kueue.PodSet{{Name: "main", Count: 8}}},
		Status: kueue.WorkloadStatus{
			ReclaimablePods: []kueue.ReclaimablePod{{Name: "main", Count: 3}},
			Admission: &kueue.Admission{
				PodSetAssignments: []kueue.PodSetAssignment{{Name: "main", Count: new(int32(8))}},
			},
		},
	}
	for keep, left := range map[bool]int32{true: 8, false: 5} {
		rules := convert.Rules{KeepDone: keep}
		if got := convert.Workload(w, rules, convert.Surroundings{}).PodSets[0].Count; got != left {
			t.Errorf("kept: %v: %d pods count, want %d", keep, got, left)
		}
		if got := rules.Done(w)["main"]; got != 8-left {
			t.Errorf("kept: %v: %d pods are done, want %d", keep, got, 8-left)
		}
	}
}

// A Workload admitted with fewer pods has those. Pods that are done are counted
// off what it asks for in all, so that those of an earlier admission, which the
// present one does not contain, are not taken off it again.
func TestPodsLeft(t *testing.T) {
	type counts struct{ Left, Fewest, Done int32 }
	for name, c := range map[string]struct {
		why                         string
		fewest, admitted, reclaimed int32
		want                        counts
	}{
		"waiting":                        {"it asks for all", 2, 0, 0, counts{8, 2, 0}},
		"waiting again, three done":      {"they do not run twice", 0, 0, 3, counts{5, 0, 0}},
		"waiting again, seven done":      {"fewer than one cannot be asked for", 2, 0, 7, counts{1, 1, 0}},
		"all":                            {"nothing was reduced", 2, 8, 0, counts{8, 2, 0}},
		"fewer":                          {"the others are not its", 2, 3, 0, counts{3, 2, 0}},
		"fewer, one done":                {"the five that it was not given are done with too", 2, 3, 6, counts{2, 2, 1}},
		"needs all, three done":          {"its admission counts them once", 0, 8, 3, counts{5, 0, 3}},
		"again, three done before":       {"it was given the five that are left", 0, 5, 3, counts{5, 0, 0}},
		"again, one more done":           {"that one was in its admission", 0, 5, 4, counts{4, 0, 1}},
		"again with fewer, three before": {"they were never part of the four", 2, 4, 3, counts{4, 2, 0}},
		"again with fewer, then done":    {"two of the four go on", 2, 4, 6, counts{2, 2, 2}},
		"all done":                       {"nothing is left", 0, 8, 8, counts{0, 0, 8}},
	} {
		w := &kueue.Workload{Spec: kueue.WorkloadSpec{PodSets: []kueue.PodSet{{Name: "main", Count: 8}}}}
		if c.fewest > 0 {
			w.Spec.PodSets[0].MinCount = &c.fewest
		}
		if c.admitted > 0 {
			w.Status.Admission = &kueue.Admission{
				PodSetAssignments: []kueue.PodSetAssignment{{Name: "main", Count: &c.admitted}},
			}
		}
		if c.reclaimed > 0 {
			w.Status.ReclaimablePods = []kueue.ReclaimablePod{{Name: "main", Count: c.reclaimed}}
		}
		ps := convert.Workload(w, convert.Rules{}, convert.Surroundings{}).PodSets[0]
		if diff := cmp.Diff(c.want, counts{ps.Count, ps.MinCount, convert.Done(w)["main"]}); diff != "" {
			t.Errorf("%s: %s (-want +got):\n%s", name, c.why, diff)
		}
	}
}
