package convert_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
)

// limitsOf are the limits of pod sets of three pods each, of a Workload of Job train.
func limitsOf(t *testing.T, sets ...string) (out [][]core.Limit) {
	t.Helper()
	for _, ps := range podSetsOf(t, sets...) {
		out = append(out, ps.Limits)
	}
	return out
}

// podSetsOf are pod sets of three pods each, of a Workload of Job train.
func podSetsOf(t *testing.T, sets ...string) []core.PodSet {
	t.Helper()
	w := &kueue.Workload{ObjectMeta: metav1.ObjectMeta{
		Namespace:       "blue",
		Name:            "job-train",
		OwnerReferences: []metav1.OwnerReference{{Kind: "Job", Name: "train", UID: "u1", Controller: new(true)}},
	}}
	for _, text := range sets {
		ps := kueue.PodSet{Count: 3}
		if err := yaml.UnmarshalStrict([]byte(text), &ps); err != nil {
			t.Fatal(err)
		}
		w.Spec.PodSets = append(w.Spec.PodSets, ps)
	}
	return convert.Workload(w, convert.Rules{}, convert.Surroundings{}).PodSets
}

// TestPodsThatWantToBeTogetherAreNear: a required podAffinity of pods towards pods like themselves is how near they
// must be, so that a gang is not admitted to nodes that refuse it.
func TestPodsThatWantToBeTogetherAreNear(t *testing.T) {
	set := func(name, labels, more, terms string) string {
		return "{name: " + name + ", " + more + " template: {metadata: {labels: {" + labels + "}}, spec: {affinity: {podAffinity: {" + terms + "}}}}}"
	}
	rack := func(selector string) string {
		return "requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: rack, labelSelector: {matchLabels: {" + selector + "}}}]"
	}
	type near struct {
		core.TopologyRequest
		Group string
	}
	inRack := core.TopologyRequest{Required: "rack", AnyLabel: true}
	tests := map[string]struct {
		why  string
		sets []string
		want []near
	}{
		"themselves": {
			"all of them are in one rack",
			[]string{set("main", "app: x", "", rack("app: x"))},
			[]near{{inRack, ""}},
		},
		"by their job": {
			"its name is a label that the template does not have yet",
			[]string{set("main", "", "", rack("job-name: train"))},
			[]near{{inRack, ""}},
		},
		"others": {
			"where those are is not asked of a gang", []string{set("main", "app: x", "", rack("app: y"))}, []near{{}},
		},
		"one pod": {
			"it is where it is", []string{set("main", "app: x", "count: 1,", rack("app: x"))}, []near{{}},
		},
		"preferred": {
			"a wish keeps nobody waiting",
			[]string{
				set(
					"main",
					"app: x",
					"",
					"preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, podAffinityTerm: {topologyKey: rack, labelSelector: {matchLabels: {app: x}}}}]",
				),
			},
			[]near{{}},
		},
		"two roles": {
			"both are in the same rack",
			[]string{
				set("head", "app: x", "count: 1,", rack("app: x")),
				set("work", "app: x", "", rack("app: x")),
			},
			[]near{{inRack, "podAffinity over app=x"}, {inRack, "podAffinity over app=x"}},
		},
		"an annotation goes before": {
			"it says more",
			[]string{
				"{name: main, template: {metadata: {labels: {app: x}, annotations: {kueue.x-k8s.io/podset-preferred-topology: block}}, spec: {affinity: {podAffinity: {" + rack(
					"app: x",
				) + "}}}}}",
			},
			[]near{{core.TopologyRequest{Preferred: "block"}, ""}},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var got []near
			for _, ps := range podSetsOf(t, tc.sets...) {
				got = append(got, near{ps.Topology, ps.Group})
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.why, diff)
			}
		})
	}
}

const apart = `requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname, `

func TestLimits(t *testing.T) {
	whole := int32(1 << 16)
	one := func(limits ...core.Limit) [][]core.Limit { return [][]core.Limit{limits} }
	port := func(name string) core.Limit { return core.Limit{Name: "host port " + name, Count: 1, Most: 1} }
	own := func(name string, count, most int32) core.Limit {
		return core.Limit{Name: name, Own: true, Count: count, Most: most}
	}
	inZone := func(level string) core.Limit {
		return core.Limit{
			Name:  "the required podAntiAffinity over app=x in namespace blue per " + level,
			Count: whole, Most: whole, Level: level,
		}
	}
	affinity := func(labels, terms string) string {
		return "{name: main, template: {metadata: {labels: {" + labels + "}}, spec: {affinity: {podAntiAffinity: {" + terms + "}}}}}"
	}
	spread := func(labels, constraint string) string {
		return "{name: main, template: {metadata: {labels: {" + labels + "}}, spec: {topologySpreadConstraints: [{" + constraint + "}]}}}"
	}
	tests := map[string]struct {
		why  string
		sets []string
		want [][]core.Limit
	}{
		"nothing": {"pods are free to share nodes", []string{"{name: main}"}, one()},
		"no host port": {
			"a port of the pod is not one of the node",
			[]string{"{name: main, template: {spec: {containers: [{ports: [{containerPort: 80}]}]}}}"},
			one(),
		},
		"host ports": {
			"sorted, each once, with its protocol",
			[]string{
				"{name: main, template: {spec: {containers: [{ports: [{hostPort: 9000, protocol: UDP}, {hostPort: 80}]}, {ports: [{hostPort: 80, hostIP: 10.0.0.1}]}]}}}",
			},
			one(port("80/TCP"), port("9000/UDP")),
		},
		"host network": {
			"every port is the node's",
			[]string{
				"{name: main, template: {spec: {hostNetwork: true, containers: [{ports: [{containerPort: 2222}]}]}}}",
			},
			one(port("2222/TCP")),
		},
		"ports of init": {
			"a sidecar runs on, another init container has ended",
			[]string{
				"{name: main, template: {spec: {initContainers: [{restartPolicy: Always, ports: [{hostPort: 1}]}, {ports: [{hostPort: 2}]}]}}}",
			},
			one(port("1/TCP")),
		},
		"apart": {
			"one of them per node, of whatever job",
			[]string{affinity("app: x", apart+"labelSelector: {matchLabels: {app: x}}}]")},
			one(
				core.Limit{Name: "the required podAntiAffinity over app=x in namespace blue", Count: whole, Most: whole},
			),
		},
		"apart from others": {
			"it keeps none of its own away",
			[]string{affinity("app: x", apart+"labelSelector: {matchLabels: {app: y}}}]")},
			one(),
		},
		"apart in zones": {
			"one of them per zone, of whatever job",
			[]string{
				affinity(
					"app: x",
					"requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: zone, labelSelector: {matchLabels: {app: x}}}]",
				),
			},
			one(inZone("zone")),
		},
		"one pod, apart in zones": {
			"no other of its job keeps it from a zone",
			[]string{
				strings.Replace(affinity(
					"",
					"requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: zone, labelSelector: {matchLabels: {job-name: train}}}]",
				), "name: main", "name: main, count: 1", 1),
			},
			one(),
		},
		"one pod of many": {
			"each pod of a Deployment is a workload, and they spread",
			[]string{strings.Replace(
				spread(
					"app: x",
					"maxSkew: 1, topologyKey: rack, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: x}}",
				), "name: main", "name: main, count: 1", 1)},
			one(core.Limit{
				Name:  "the topologySpreadConstraint over app=x in namespace blue (maxSkew 1) per rack",
				Count: 1, Level: "rack", Skew: 1,
			}),
		},
		"over three domains at least": {
			"if there are fewer, none has more than maxSkew",
			[]string{
				spread(
					"app: x",
					"maxSkew: 1, minDomains: 3, topologyKey: rack, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: x}}",
				),
			},
			one(core.Limit{
				Name:  "the topologySpreadConstraint over app=x in namespace blue (maxSkew 1, minDomains 3) per rack",
				Count: 1, Level: "rack", Skew: 1, MinDomains: 3,
			}),
		},
		"over nodes that count": {
			"those of other labels do, those of taints do not",
			[]string{
				spread(
					"app: x",
					"maxSkew: 1, nodeAffinityPolicy: Ignore, nodeTaintsPolicy: Honor, topologyKey: rack, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: x}}",
				),
			},
			one(core.Limit{
				Name:  "the topologySpreadConstraint over app=x in namespace blue (maxSkew 1) per rack",
				Count: 1, Level: "rack", Skew: 1, Unselected: true, Tolerated: true,
			}),
		},
		"apart in many ways": {
			"each label is a level of a tree of all nodes: three are counted",
			[]string{
				affinity(
					"app: x",
					"requiredDuringSchedulingIgnoredDuringExecution: ["+
						"{topologyKey: a, labelSelector: {matchLabels: {app: x}}}, {topologyKey: b, labelSelector: {matchLabels: {app: x}}}, "+
						"{topologyKey: c, labelSelector: {matchLabels: {app: x}}}, {topologyKey: d, labelSelector: {matchLabels: {app: x}}}]",
				),
			},
			one(inZone("a"), inZone("b"), inZone("c")),
		},
		"rather apart": {
			"what is preferred bounds nothing",
			[]string{
				affinity(
					"app: x",
					"preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, podAffinityTerm: {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: x}}}}]",
				),
			},
			one(),
		},
		"apart elsewhere": {
			"pods of another namespace",
			[]string{affinity("app: x", apart+"namespaces: [red], labelSelector: {matchLabels: {app: x}}}]")},
			one(),
		},
		"apart everywhere": {
			"all namespaces are its own, too",
			[]string{affinity("app: x", apart+"namespaceSelector: {}, labelSelector: {matchLabels: {app: x}}}]")},
			one(
				core.Limit{Name: "the required podAntiAffinity over app=x in namespace blue", Count: whole, Most: whole},
			),
		},
		"apart by job": {
			"pods get the label from their Job, and the words fit all Jobs",
			[]string{affinity("", apart+"labelSelector: {matchLabels: {job-name: train}}}]")},
			one(own("the required podAntiAffinity over job-name=(its own)", whole, whole)),
		},
		"apart by another job": {
			"they are not its pods",
			[]string{affinity("", apart+"labelSelector: {matchLabels: {job-name: other}}}]")},
			one(),
		},
		"apart by match keys": {
			"the value is that of the pod",
			[]string{
				affinity(
					"app: x",
					apart+"matchLabelKeys: [batch.kubernetes.io/controller-uid], labelSelector: {matchLabels: {app: x}}}]",
				),
			},
			one(
				own("the required podAntiAffinity over app=x,batch.kubernetes.io/controller-uid=(its own)", whole, whole),
			),
		},
		"unknown match key": {
			"nobody knows yet what pods will have there",
			[]string{
				affinity("app: x", apart+"matchLabelKeys: [pod-template-hash], labelSelector: {matchLabels: {app: x}}}]"),
			},
			one(),
		},
		"no selector": {"selects nothing", []string{affinity("app: x", apart+"}]")}, one()},
		"two roles": {"the head keeps workers away, which like each other", []string{
			affinity("app: x", apart+"labelSelector: {matchLabels: {app: x}}}]"),
			"{name: workers, template: {metadata: {labels: {app: x}}}}",
			"{name: others, template: {metadata: {labels: {app: z}}}}",
		}, [][]core.Limit{
			{{Name: "the required podAntiAffinity over app=x in namespace blue", Count: whole, Most: whole}},
			{{Name: "the required podAntiAffinity over app=x in namespace blue", Count: 1, Most: whole}},
			nil,
		}},
		"spread": {
			"three pods, no two on a node",
			[]string{
				spread(
					"app: x",
					"maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: x}}",
				),
			},
			one(own("the topologySpreadConstraint over app=x (maxSkew 1)", 1, 1)),
		},
		"wide spread": {
			"three pods may be anywhere but where others are that it selects",
			[]string{
				spread(
					"app: x",
					"maxSkew: 3, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: x}}",
				),
			},
			one(core.Limit{
				Name:  "the topologySpreadConstraint over app=x in namespace blue (maxSkew 3) per kubernetes.io/hostname",
				Count: 1, Level: "kubernetes.io/hostname", Skew: 3,
			}),
		},
		"rather spread": {
			"ScheduleAnyway bounds nothing",
			[]string{
				spread(
					"app: x",
					"maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: ScheduleAnyway, labelSelector: {matchLabels: {app: x}}",
				),
			},
			one(),
		},
		"spread over racks": {
			"no rack has more than one above another",
			[]string{
				spread(
					"app: x",
					"maxSkew: 1, topologyKey: rack, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: x}}",
				),
			},
			one(core.Limit{
				Name:  "the topologySpreadConstraint over app=x in namespace blue (maxSkew 1) per rack",
				Count: 1, Level: "rack", Skew: 1,
			}),
		},
		"spread by revision": {
			"of which revision a pod is its Workload does not say; others of its Deployment count",
			[]string{
				spread(
					"app: x",
					"maxSkew: 1, topologyKey: rack, whenUnsatisfiable: DoNotSchedule, matchLabelKeys: [pod-template-hash], labelSelector: {matchLabels: {app: x}}",
				),
			},
			one(core.Limit{
				Name:  "the topologySpreadConstraint over app=x in namespace blue (maxSkew 1) per rack",
				Count: 1, Level: "rack", Skew: 1,
			}),
		},
		"spread from others": {
			"its own pods do not count",
			[]string{
				spread(
					"app: x",
					"maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: y}}",
				),
			},
			one(),
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, limitsOf(t, tc.sets...)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.why, diff)
			}
		})
	}
}

// TestBalancedPodsSayOfWhichLevel: the annotation of pods is that of their template, beside whatever else they ask for.
func TestBalancedPodsSayOfWhichLevel(t *testing.T) {
	sets := podSetsOf(t, `{name: main, template: {metadata: {annotations: {
		mlbatch.dev/podset-balanced-topology: rack, kueue.x-k8s.io/podset-required-topology: block}}}}`)
	want := core.TopologyRequest{Required: "block", Balanced: "rack"}
	if got := sets[0].Topology; !got.Equal(want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestPodsSayHowManyADomainMayHave: the limit is among those that are counted, however many others there are.
func TestPodsSayHowManyADomainMayHave(t *testing.T) {
	const apartInMany = `podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [
		{topologyKey: a, labelSelector: {matchLabels: {app: x}}}, {topologyKey: b, labelSelector: {matchLabels: {app: x}}},
		{topologyKey: c, labelSelector: {matchLabels: {app: x}}}]}`
	for said, want := range map[string]core.Limit{
		"rack=16":                  {Name: "at most 16 of its pods per rack", Own: true, Count: 1, Most: 16, Level: "rack"},
		"kubernetes.io/hostname=2": {Name: "at most 2 of its pods per node", Own: true, Count: 1, Most: 2},
	} {
		of := limitsOf(t, `{name: main, template: {metadata: {labels: {app: x}, annotations: {
			mlbatch.dev/podset-max-per-domain: "`+said+`"}}, spec: {affinity: {`+apartInMany+`}}}}`)[0]
		if !slices.Contains(of, want) {
			t.Errorf("%s: the limits are %+v", said, of)
		}
	}
	several := limitsOf(t, `{name: main, template: {metadata: {annotations: {
		mlbatch.dev/podset-max-per-domain: "rack=16, block=32,kubernetes.io/hostname=2"}}}}`)[0]
	if len(several) != 3 {
		t.Errorf("of several levels the limits are %+v", several)
	}
	for said, reads := range map[string]string{
		"rack=16": "", "rack": "is not a label", "rack=0": "is not a label", "=3": "is not a label",
		"a b=3": "is not a label", "rack=some": "is not a label", "": "is not a label",
		"rack=16,block=32": "", "a=1,b=1,c=1,kubernetes.io/hostname=1": "", "a=1,b=1,c=1,d=1": "is not a label",
		"rack=16,": "is not a label",
	} {
		_, fault := kueue.TopologyRequestFault(map[string]string{kueue.MaxPerDomainAnnotation: said})
		if (fault == "") != (reads == "") || !strings.Contains(fault, reads) {
			t.Errorf("%q: the fault is %q", said, fault)
		}
	}
}

// TestNodesHaveOneChannelOfComputeDomains: pods that are in a ComputeDomain, whoever made it, share nodes with
// none of their kind, of whatever job; their jobs' other pods do.
func TestNodesHaveOneChannelOfComputeDomains(t *testing.T) {
	w := &kueue.Workload{ObjectMeta: metav1.ObjectMeta{
		Namespace: "blue", Name: "job-train",
		Annotations: map[string]string{kueue.ComputeDomainPodSetsAnnotation: "workers,more=mine"},
	}}
	for _, name := range []kueue.PodSetReference{"launcher", "workers", "more"} {
		w.Spec.PodSets = append(w.Spec.PodSets, kueue.PodSet{Name: name, Count: 2})
	}
	channel := []core.Limit{{Name: "ComputeDomain channel", Count: 1, Most: 1}}
	var got [][]core.Limit
	for _, ps := range convert.Workload(w, convert.Rules{}, convert.Surroundings{}).PodSets {
		got = append(got, ps.Limits)
	}
	if diff := cmp.Diff([][]core.Limit{nil, channel, channel}, got); diff != "" {
		t.Errorf("pods of a Workload (-want +got):\n%s", diff)
	}
	for _, tc := range []struct {
		note, claim string
		want        []core.Limit
	}{
		{"", "", nil},
		{"job-train", "job-train", channel},
		{"", "job-train", nil}, // of something else, as far as is known
		{"job-train", "", nil}, // anybody may write that
	} {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
			kueue.ComputeDomainClaimAnnotation: tc.note,
		}}}
		if tc.claim != "" {
			p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "c", ResourceClaimTemplateName: &tc.claim}}
		}
		if diff := cmp.Diff(tc.want, convert.PodLimits(p)); diff != "" {
			t.Errorf("a pod with note %q and claim %q (-want +got):\n%s", tc.note, tc.claim, diff)
		}
	}
}

// TestPodLimits: a pod takes what its template said that its like share with other jobs.
func TestPodLimits(t *testing.T) {
	const spec = `{hostNetwork: true, containers: [{ports: [{containerPort: 80}]}], affinity: {podAntiAffinity: {` + apart +
		`labelSelector: {matchLabels: {app: x}}}, {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {job-name: train}}}]}}}`
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "blue",
			Labels:    map[string]string{"app": "x", "job-name": "train"},
		},
	}
	if err := yaml.UnmarshalStrict([]byte(spec), &p.Spec); err != nil {
		t.Fatal(err)
	}
	of := limitsOf(t, "{name: main, template: {metadata: {labels: {app: x}}, spec: "+spec+"}}")[0]
	want := of[:2] // not the one of its own
	if diff := cmp.Diff(want, convert.PodLimits(p)); diff != "" || len(of) != 3 {
		t.Errorf("pod and template share limits (-want +got):\n%s", diff)
	}
}

func TestRuntimeClassSaysWhereItsPodsRun(t *testing.T) {
	classes := map[string]convert.RuntimeClass{"kata": convert.RuntimeClassOf(&nodev1.RuntimeClass{
		Overhead: &nodev1.Overhead{PodFixed: list("cpu=250m")},
		Scheduling: &nodev1.Scheduling{
			NodeSelector: map[string]string{
				"kata": "yes",
			},
			Tolerations: []corev1.Toleration{{Key: "sandbox", Operator: corev1.TolerationOpExists}},
		},
	}), "runc": {}}
	s := convert.Surroundings{RuntimeClasses: classes}
	node := func(labels map[string]string, taints ...core.Taint) *core.Node {
		return &core.Node{Labels: labels, Taints: taints}
	}
	sandbox := core.Taint{Key: "sandbox", Value: "x", Effect: core.NoSchedule}
	kata, plain := ofClass("kata", podOf("cpu=1", "")), ofClass("runc", podOf("cpu=1", ""))
	kata.NodeSelector = map[string]string{"zone": "a"}
	all := map[string]string{"kata": "yes", "zone": "a"}
	for _, tc := range []struct {
		why  string
		spec corev1.PodSpec
		node *core.Node
		want bool
	}{
		{"the labels of the class and its own", kata, node(all), true},
		{"the class tolerates it", kata, node(all, sandbox), true},
		{"not a node of the class", kata, node(map[string]string{"zone": "a"}), false},
		{"not where the pod wants to be", kata, node(map[string]string{"kata": "yes"}), false},
		{"another class says nothing", plain, node(nil), true},
		{"and tolerates nothing", plain, node(nil, sandbox), false},
		{"no class", podOf("cpu=1", ""), node(nil), true},
	} {
		if got := s.Filter(&tc.spec).Admits(tc.node); got != tc.want {
			t.Errorf("%s: admitted %t", tc.why, got)
		}
	}
	kata.NodeSelector["kata"] = "no"
	want := "nodeSelector kata=no contradicts RuntimeClass kata, whose pods run on nodes with kata=yes: change one of them"
	if got := convert.RequestsOf(&kata, s, convert.Counting{}).Invalid; got != want {
		t.Errorf("a pod that admission refuses: %q, want %q", got, want)
	}
}
