package convert_test

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"pgregory.net/rapid"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
)

func TestAmount(t *testing.T) {
	cases := map[string]struct {
		why      string
		resource corev1.ResourceName
		quantity string
		want     core.Amount
	}{
		"cores are counted in thousandths": {"base unit of cpu", corev1.ResourceCPU, "1500m", 1500},
		"a fraction of a thousandth": {
			"rounds up: a request is never nothing",
			corev1.ResourceCPU,
			"1u",
			1,
		},
		"memory in bytes": {"base unit of memory", corev1.ResourceMemory, "2Ki", 2048},
		"decimal memory": {
			"the tutorial writes 2000G",
			corev1.ResourceMemory,
			"2000G",
			2_000_000_000_000,
		},
		"pieces": {"base unit of devices", "nvidia.com/gpu", "8", 8},
		"more than an int64 holds": {
			"saturates and does not wrap",
			corev1.ResourceMemory,
			"100E",
			core.Unlimited,
		},
		"more thousandths than an int64 holds": {
			"saturates and does not wrap",
			corev1.ResourceCPU,
			"10P",
			core.Unlimited,
		},
		"far below zero": {
			"saturates and does not wrap",
			corev1.ResourceMemory,
			"-100E",
			-core.Unlimited,
		},
		"the largest int64": {
			"is the API's own word for unlimited",
			"x/y",
			"9223372036854775807",
			core.Unlimited,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := convert.Amount(c.resource, resource.MustParse(c.quantity)); got != c.want {
				t.Errorf("%s: got %d, want %d", c.why, got, c.want)
			}
		})
	}
}

func TestPodRequests(t *testing.T) {
	container := func(requests, limits string) corev1.Container {
		c := corev1.Container{}
		if requests != "" {
			c.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(requests)}
		}
		if limits != "" {
			c.Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(limits)}
		}
		return c
	}
	always := corev1.ContainerRestartPolicyAlways
	sidecar := container("1", "")
	sidecar.RestartPolicy = &always
	cases := map[string]struct {
		why  string
		spec corev1.PodSpec
		want core.Amount
	}{
		"limit without request": {
			"the API server copies it when the pod is made",
			corev1.PodSpec{Containers: []corev1.Container{container("", "2")}},
			2000,
		},
		"request below limit": {
			"the request counts",
			corev1.PodSpec{Containers: []corev1.Container{container("1", "2")}},
			1000,
		},
		"containers add up": {
			"they run together",
			corev1.PodSpec{Containers: []corev1.Container{container("1", ""), container("", "2")}},
			3000,
		},
		"large init container": {
			"it runs before the others",
			corev1.PodSpec{
				InitContainers: []corev1.Container{container("", "5")},
				Containers:     []corev1.Container{container("1", "")},
			},
			5000,
		},
		"sidecar": {
			"it runs beside the others",
			corev1.PodSpec{
				InitContainers: []corev1.Container{sidecar},
				Containers:     []corev1.Container{container("1", "")},
			},
			2000,
		},
		"overhead": {
			"the runtime class adds it",
			corev1.PodSpec{
				Overhead:   corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("250m")},
				Containers: []corev1.Container{container("1", "")},
			},
			1250,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := convert.PodRequests(&c.spec).Of(core.CPU); got != c.want {
				t.Errorf("%s: got %d, want %d", c.why, got, c.want)
			}
		})
	}
}

// An admission must survive being written and read: after a restart it is all
// that the engine knows of its earlier decisions.
func TestAdmissionRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := core.Admission{Queue: "q"}
		for i := range rapid.IntRange(1, 3).Draw(t, "podsets") {
			ps := core.PodSetAdmission{
				Name:    string(rune('a' + i)),
				Count:   rapid.Int32Range(0, 100).Draw(t, "count"),
				Flavors: []core.FlavorChoice{{Resource: core.CPU, Flavor: "f"}, {Resource: core.GPU, Flavor: "g"}},
				Usage: core.MakeResources(map[string]core.Amount{
					core.CPU: core.Amount(rapid.Int64Range(0, math.MaxInt64/2000).Draw(t, "cpu")),
					core.GPU: core.Amount(rapid.Int64Range(0, 1000).Draw(t, "gpu")),
				}),
			}
			for n := range rapid.IntRange(0, 5).Draw(t, "nodes") {
				ps.Places = append(
					ps.Places,
					core.Place{Node: "node-" + string(rune('0'+n)), Count: rapid.Int32Range(1, 8).Draw(t, "pods")},
				)
			}
			want.PodSets = append(want.PodSets, ps)
		}
		if diff := cmp.Diff(&want, convert.Admission(convert.StatusAdmission(want))); diff != "" {
			t.Fatalf("admission changed on its way (-want +got):\n%s", diff)
		}
	})
}

func TestFilter(t *testing.T) {
	node := &core.Node{
		Name:   "n1",
		Labels: map[string]string{"gpu": "h100", "metadata.name": "n1"},
		Taints: []core.Taint{{Key: "k", Effect: core.NoSchedule}},
	}
	tolerate := []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	affinity := func(terms ...corev1.NodeSelectorTerm) *corev1.Affinity {
		return &corev1.Affinity{
			NodeAffinity: &corev1.NodeAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms},
			},
		}
	}
	match := func(key string, op corev1.NodeSelectorOperator, values ...string) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: op, Values: values}},
		}
	}
	cases := map[string]struct {
		why  string
		spec corev1.PodSpec
		want bool
	}{
		"untolerated taint": {"NoSchedule repels", corev1.PodSpec{}, false},
		"tolerates all": {
			"an empty key with Exists tolerates every taint",
			corev1.PodSpec{Tolerations: tolerate},
			true,
		},
		"node selector": {
			"all labels must match",
			corev1.PodSpec{Tolerations: tolerate, NodeSelector: map[string]string{"gpu": "a100"}},
			false,
		},
		"one of two terms": {
			"terms are alternatives",
			corev1.PodSpec{
				Tolerations: tolerate,
				Affinity: affinity(
					match("gpu", corev1.NodeSelectorOpIn, "a100"),
					match("gpu", corev1.NodeSelectorOpExists),
				),
			},
			true,
		},
		"NotIn on absent label": {
			"holds, as in Kubernetes",
			corev1.PodSpec{
				Tolerations: tolerate,
				Affinity:    affinity(match("health", corev1.NodeSelectorOpNotIn, "EVICT")),
			},
			true,
		},
		"only an empty term": {
			"an empty term matches no node",
			corev1.PodSpec{Tolerations: tolerate, Affinity: affinity(corev1.NodeSelectorTerm{})},
			false,
		},
		"field selects the node": {
			"DaemonSet-like pods name their node",
			corev1.PodSpec{
				Tolerations: tolerate,
				Affinity: affinity(
					corev1.NodeSelectorTerm{
						MatchFields: []corev1.NodeSelectorRequirement{
							{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"n2"}},
						},
					},
				),
			},
			false,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			f := convert.Filter(&c.spec)
			if got := f.Admits(node); got != c.want {
				t.Errorf("%s: got %v, want %v", c.why, got, c.want)
			}
		})
	}
}

// Jobs submitted within one second are to start in their order, and no user may
// jump the queue by claiming an earlier moment than the API server saw.
func TestSubmitted(t *testing.T) {
	created := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	cases := map[string]struct {
		why, annotation string
		want            time.Time
	}{
		"precise": {
			"nanoseconds order what seconds cannot",
			"2026-01-02T03:04:04.123456789Z",
			time.Date(2026, 1, 2, 3, 4, 4, 123456789, time.UTC),
		},
		"none":          {"the object's own time", "", created},
		"malformed":     {"the object's own time", "yesterday", created},
		"in the future": {"no clock of ours could have said that", "2026-01-02T03:05:00Z", created},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := &kueue.Workload{}
			w.CreationTimestamp.Time = created
			w.Annotations = map[string]string{kueue.SubmittedAtAnnotation: c.annotation}
			if got := convert.Submitted(w); !got.Equal(c.want) {
				t.Errorf("%s: got %s, want %s", c.why, got, c.want)
			}
		})
	}
}

func TestGates(t *testing.T) {
	open, closed := kueue.PreemptionGateState{
		Name:     "g",
		Position: kueue.GateOpen,
	}, kueue.PreemptionGateState{
		Name:     "g",
		Position: kueue.GateClosed,
	}
	for name, c := range map[string]struct {
		why    string
		gates  []kueue.PreemptionGate
		states []kueue.PreemptionGateState
		want   string
	}{
		"none":            {why: "it may evict"},
		"nobody said":     {why: "gates are closed until a controller opens them", gates: []kueue.PreemptionGate{{Name: "g"}}, want: "g"},
		"closed":          {why: "it may not evict", gates: []kueue.PreemptionGate{{Name: "g"}}, states: []kueue.PreemptionGateState{closed}, want: "g"},
		"open":            {why: "it may evict", gates: []kueue.PreemptionGate{{Name: "g"}}, states: []kueue.PreemptionGateState{open}},
		"one of two open": {why: "all must agree", gates: []kueue.PreemptionGate{{Name: "g"}, {Name: "h"}}, states: []kueue.PreemptionGateState{open}, want: "h"},
		"no such gate":    {why: "only what the spec names counts", states: []kueue.PreemptionGateState{closed}},
	} {
		w := &kueue.Workload{
			Spec:   kueue.WorkloadSpec{PreemptionGates: c.gates},
			Status: kueue.WorkloadStatus{PreemptionGates: c.states},
		}
		w.Annotations = map[string]string{kueue.AdmissionGatedByAnnotation: "example.com/x"}
		got := convert.Workload(w, convert.Rules{}, convert.Surroundings{})
		if got.PreemptionGate != c.want || got.GatedBy != "example.com/x" {
			t.Errorf("%s: %s: gate %q, admission gate %q", name, c.why, got.PreemptionGate, got.GatedBy)
		}
	}
}

func TestChecksHold(t *testing.T) {
	w := &kueue.Workload{
		Status: kueue.WorkloadStatus{
			AdmissionChecks: []kueue.AdmissionCheckState{
				{Name: "c", State: kueue.CheckStateRetry, Message: "no stock"},
			},
		},
	}
	if got, want := convert.Workload(
		w,
		convert.Rules{},
		convert.Surroundings{},
	).Held, "admission check c says Retry: no stock"; got != want {
		t.Errorf("held: %q, want %q", got, want)
	}
	w.Status.AdmissionChecks[0].State = kueue.CheckStatePending
	if got := convert.Workload(w, convert.Rules{}, convert.Surroundings{}).Held; got != "" {
		t.Errorf("a check that was reset holds back: %q", got)
	}
}

// TestConsumed keeps past usage over a restart of the controller.
func TestConsumed(t *testing.T) {
	at := time.Unix(1e9, 0)
	used := core.MakeResources(map[string]core.Amount{core.CPU: 1500001, core.GPU: 3, core.Memory: 5<<40 + 1})
	q := &kueue.LocalQueue{Status: kueue.LocalQueueStatus{FairSharing: &kueue.LocalQueueFairSharingStatus{
		AdmissionFairSharingStatus: convert.ConsumedStatus(used, at),
	}}}
	got := convert.LocalQueue(q)
	if d := cmp.Diff(used, got.Consumed); d != "" || !got.ConsumedAt.Equal(at) {
		t.Errorf("at %v (-want +got):\n%s", got.ConsumedAt, d)
	}
	if s := q.Status.FairSharing.AdmissionFairSharingStatus.ConsumedResources.Cpu().String(); s != "1500001u" {
		t.Errorf("a core and a half is %s", s)
	}
}

func TestPartialAdmission(t *testing.T) {
	w := &kueue.Workload{
		Spec: kueue.WorkloadSpec{PodSets: []kueue.PodSet{{Name: "main", Count: 5, MinCount: new(int32(3))}}},
	}
	for name, tc := range map[string]struct {
		why   string
		rules convert.Rules
		done  int32
		want  int32
	}{
		"on":        {"three may start", convert.Rules{}, 0, 3},
		"most done": {"it cannot want more than are left", convert.Rules{}, 4, 1},
		"off":       {"all or none", convert.Rules{WholeOnly: true}, 0, 0},
	} {
		w.Status.ReclaimablePods = []kueue.ReclaimablePod{{Name: "main", Count: tc.done}}
		if got := convert.Workload(w, tc.rules, convert.Surroundings{}).PodSets[0].MinCount; got != tc.want {
			t.Errorf("%s: %s: %d, want %d", name, tc.why, got, tc.want)
		}
	}
}

// TestBalancedPlacement: with the gate pods that only prefer a level are shared out over its domains equally; what they ask
// for besides, or require, stays as it is.
func TestBalancedPlacement(t *testing.T) {
	rack, block := new("rack"), new("block")
	for name, tc := range map[string]struct {
		asks  kueue.PodSetTopologyRequest
		notes map[string]string
		on    bool
		want  core.TopologyRequest
	}{
		"on":       {kueue.PodSetTopologyRequest{Preferred: rack}, nil, true, core.TopologyRequest{Preferred: "rack", Balanced: "rack"}},
		"off":      {kueue.PodSetTopologyRequest{Preferred: rack}, nil, false, core.TopologyRequest{Preferred: "rack"}},
		"required": {kueue.PodSetTopologyRequest{Required: rack}, nil, true, core.TopologyRequest{Required: "rack"}},
		"both":     {kueue.PodSetTopologyRequest{Required: block, Preferred: rack}, nil, true, core.TopologyRequest{Required: "block", Preferred: "rack"}},
		"spread":   {kueue.PodSetTopologyRequest{Preferred: rack}, map[string]string{kueue.SpreadTopologyAnnotation: "rack"}, true, core.TopologyRequest{Preferred: "rack", Spread: "rack"}},
		"nothing":  {kueue.PodSetTopologyRequest{}, nil, true, core.TopologyRequest{}},
	} {
		w := &kueue.Workload{
			Spec: kueue.WorkloadSpec{PodSets: []kueue.PodSet{{Name: "main", Count: 4, TopologyRequest: &tc.asks}}},
		}
		w.Spec.PodSets[0].Template.Annotations = tc.notes
		got := convert.Workload(w, convert.Rules{Balanced: tc.on}, convert.Surroundings{}).PodSets[0].Topology
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestPodSetGroups: pod sets that want to be together are told so to the engine,
// which gives them one flavor.
func TestPodSetGroups(t *testing.T) {
	w := &kueue.Workload{Spec: kueue.WorkloadSpec{PodSets: []kueue.PodSet{
		{Name: "head", Count: 1, TopologyRequest: &kueue.PodSetTopologyRequest{PodSetGroupName: new("g")}},
		{Name: "other", Count: 1},
	}}}
	sets := convert.Workload(w, convert.Rules{}, convert.Surroundings{}).PodSets
	if sets[0].Group != "g" || sets[1].Group != "" {
		t.Errorf("groups are %q and %q", sets[0].Group, sets[1].Group)
	}
}
