package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/view"
)

const rackLabel = "example.com/rack"

// racked puts node-0 into a rack and the others into another, and makes a queue whose flavor has a Topology that
// says so.
func racked(t *testing.T) client.Client {
	t.Helper()
	for name, rack := range map[string]string{"node-0": "small", "node-1": "large", "node-2": "large"} {
		patched(
			t,
			&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}},
			`{"metadata":{"labels":{"`+rackLabel+`":"`+rack+`"}}}`,
			`{"metadata":{"labels":{"`+rackLabel+`":null}}}`,
		)
	}
	admin := user(t, "")
	objects := []client.Object{
		&kueue.Topology{
			ObjectMeta: metav1.ObjectMeta{Name: "racks"},
			Spec:       kueue.TopologySpec{Levels: []kueue.TopologyLevel{{NodeLabel: rackLabel}}},
		},
		&kueue.ResourceFlavor{ObjectMeta: metav1.ObjectMeta{Name: "racked"}, Spec: kueue.ResourceFlavorSpec{
			NodeLabels:   map[string]string{corev1.LabelOSStable: "linux"},
			TopologyName: new(kueue.TopologyReference("racks")),
		}},
		&kueue.ClusterQueue{ObjectMeta: metav1.ObjectMeta{Name: "racked"}, Spec: kueue.ClusterQueueSpec{
			NamespaceSelector: &metav1.LabelSelector{},
			Preemption:        &kueue.ClusterQueuePreemption{WithinClusterQueue: kueue.PreemptionPolicyLowerPriority},
			ResourceGroups: []kueue.ResourceGroup{{
				CoveredResources: []corev1.ResourceName{"nvidia.com/gpu"},
				Flavors: []kueue.FlavorQuotas{{Name: "racked", Resources: []kueue.ResourceQuota{
					{Name: "nvidia.com/gpu", NominalQuota: resource.MustParse("100")},
				}}},
			}},
		}},
		&kueue.LocalQueue{
			ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "racked"},
			Spec:       kueue.LocalQueueSpec{ClusterQueue: "racked"},
		},
	}
	for _, o := range objects {
		if err := admin.Create(t.Context(), o); err != nil {
			t.Fatalf("create %T %s: %v", o, o.GetName(), err)
		}
	}
	t.Cleanup(func() {
		for _, o := range slices.Backward(objects) {
			_ = admin.Delete(withoutCancel(t), o)
		}
	})
	return admin
}

// nearJob is a Job of pods with a whole node each that must be in one rack.
func nearJob(name string, pods int, class string) string {
	return fmt.Sprintf(
		`{apiVersion: batch/v1, kind: Job, metadata: {name: %[1]s, labels: {kueue.x-k8s.io/queue-name: racked}}, spec: {
  parallelism: %[2]d, completions: %[2]d, template: {
    metadata: {annotations: {kueue.x-k8s.io/podset-required-topology: %[4]s}}, spec: {
      priorityClassName: %[3]s, restartPolicy: Never, terminationGracePeriodSeconds: 0, containers: [
        {name: c, image: busybox, command: [sh, -c, "sleep 6000"], resources: {limits: {nvidia.com/gpu: 8}}}]}}}}`,
		name,
		pods,
		class,
		rackLabel,
	)
}

// gangOn says on which nodes a Job's pods must run.
func gangOn(tb testing.TB, name string, nodes ...string) func() string {
	tb.Helper()
	return func() string {
		var at []string
		for _, p := range pods(tb, "blue", name) {
			if p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil {
				at = append(at, p.Spec.NodeName)
			}
		}
		slices.Sort(at)
		if !slices.Equal(at, nodes) {
			return fmt.Sprintf("its pods run on %v, want %v", at, nodes)
		}
		return ""
	}
}

// TestGangsRunInOneRack: a gang waits, with the rack that comes nearest as the reason, although nodes and quota are
// free; a more important one takes the place of what is in its rack, and of nothing else.
func TestGangsRunInOneRack(t *testing.T) {
	awaitEmpty(t, "blue", "red")
	admin := racked(t)
	create(t, admin, nearJob("first", 1, "low-priority"), "blue")
	eventually(t, "one pod leaves the large rack whole", gangOn(t, "first", "node-0"))
	create(t, admin, nearJob("second", 1, "low-priority"), "blue")
	eventually(t, "another has the next rack", gangOn(t, "second", "node-1"))
	create(t, admin, nearJob("pair", 2, "low-priority"), "blue")
	eventually(t, "no rack has two nodes", waits(t, "blue", "pair",
		"TopologyPlacementFailed", "no "+rackLabel+" of flavor racked has room for its 2 pod(s)",
		"large comes nearest, with room for 1"))
	create(t, admin, nearJob("production", 2, "high-priority"), "blue")
	eventually(t, "production has the large rack", gangOn(t, "production", "node-1", "node-2"))
	eventually(t, "who was in it waits", waits(t, "blue", "second", "TopologyPlacementFailed"))
	if wrong := gangOn(t, "first", "node-0")(); wrong != "" {
		t.Errorf("who was in the other rack: %s", wrong)
	}
	create(t, admin, nearJob("triple", 3, "high-priority"), "blue")
	eventually(
		t,
		"three never fit",
		waits(t, "blue", "triple", "even if empty: large, the largest, would hold 2"),
	)
	out, err := cluster.Run(t.Context(), "topology", "--topology", "racks")
	if err != nil || !strings.Contains(out, "large") {
		t.Errorf("mlbatch topology: %v\n%s", err, out)
	}
	awaitEmpty(t, "blue")
}

// TestTwoNodesOfFiveHundred: when two nodes of a gang of 500 pods die within seconds, their pods move to nodes of the
// same rack, with the ranks that they had; all others run on, and nothing is evicted.
func TestTwoNodesOfFiveHundred(t *testing.T) {
	const gang, perNode = 500, 8
	another(t, "--nodes", "132", "--racks", "2")
	admin := user(t, "")
	create(t, admin, fmt.Sprintf(
		`{apiVersion: batch/v1, kind: Job, metadata: {name: train, labels: {kueue.x-k8s.io/queue-name: default-queue}}, spec: {
  parallelism: %[1]d, completions: %[1]d, completionMode: Indexed, backoffLimitPerIndex: 3,
  podFailurePolicy: {rules: [{action: Ignore, onPodConditions: [{type: DisruptionTarget}]}]}, template: {
    metadata: {annotations: {kueue.x-k8s.io/podset-required-topology: cloud.provider.com/topology-rack}}, spec: {
      restartPolicy: Never, terminationGracePeriodSeconds: 1,
      tolerations: [{key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 5}],
      containers: [{name: c, image: busybox, command: [sh, -c, "sleep 600000"], resources: {limits: {nvidia.com/gpu: 1}}}]}}}}`,
		gang,
	), "blue")
	first := map[string]corev1.Pod{} // by index
	running := func() (out map[string]corev1.Pod) {
		out = map[string]corev1.Pod{}
		for _, p := range pods(t, "blue", "train") {
			if p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil {
				out[p.Labels["batch.kubernetes.io/job-completion-index"]] = p
			}
		}
		return out
	}
	eventually(t, "all run", func() string {
		if first = running(); len(first) < gang {
			return fmt.Sprintf("%d pods run", len(first))
		}
		return ""
	})
	rackOf := func(node string) string {
		var n corev1.Node
		if err := admin.Get(t.Context(), client.ObjectKey{Name: node}, &n); err != nil {
			t.Fatal(err)
		}
		return n.Labels["cloud.provider.com/topology-rack"]
	}
	nodes := map[string]int{}
	for i := range gang { // ranks follow the order of nodes: eight and eight
		if i%perNode > 0 && first[fmt.Sprint(i)].Spec.NodeName != first[fmt.Sprint(i-1)].Spec.NodeName {
			t.Fatalf(
				"ranks %d and %d are on nodes %s and %s",
				i-1,
				i,
				first[fmt.Sprint(i-1)].Spec.NodeName,
				first[fmt.Sprint(i)].Spec.NodeName,
			)
		}
		nodes[first[fmt.Sprint(i)].Spec.NodeName]++
	}
	rack := rackOf(first["0"].Spec.NodeName)
	dead := []string{first["0"].Spec.NodeName, first["100"].Spec.NodeName}
	down := func(node string) {
		patched(
			t,
			&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}},
			`{"metadata":{"annotations":{"mlbatch.dev/simulate":"down"}}}`,
			`{"metadata":{"annotations":{"mlbatch.dev/simulate":null}}}`,
		)
	}
	down(dead[0])
	eventually(t, "the first is found dead", func() string {
		for _, p := range pods(t, "blue", "train") {
			if p.Spec.NodeName == dead[0] && p.DeletionTimestamp != nil {
				return ""
			}
		}
		return "none of its pods leaves"
	})
	down(dead[1])
	var after map[string]corev1.Pod
	eventually(t, "all run again", func() string {
		after = running()
		lost := 0
		for _, p := range after {
			if slices.Contains(dead, p.Spec.NodeName) {
				lost++
			}
		}
		if len(after) < gang || lost > 0 {
			return fmt.Sprintf("%d pods run, %d on dead nodes", len(after), lost)
		}
		return ""
	})
	kept := 0
	for index, p := range after {
		was := first[index]
		switch {
		case was.UID == p.UID:
			kept++
		case !slices.Contains(dead, was.Spec.NodeName):
			t.Errorf("pod %s on %s was replaced, and its node lives", was.Name, was.Spec.NodeName)
		case nodes[p.Spec.NodeName] >= perNode || rackOf(p.Spec.NodeName) != rack:
			t.Errorf(
				"pod %s moved to %s of %s, want a free node of %s",
				p.Name,
				p.Spec.NodeName,
				rackOf(p.Spec.NodeName),
				rack,
			)
		}
	}
	if kept != gang-2*perNode {
		t.Errorf("%d pods were kept, want %d", kept, gang-2*perNode)
	}
	var all kueue.WorkloadList
	if err := admin.List(t.Context(), &all, client.InNamespace("blue")); err != nil {
		t.Fatal(err)
	}
	for i := range all.Items {
		if s := all.Items[i].Status.SchedulingStats; s != nil && len(s.Evictions) > 0 {
			t.Errorf("it was evicted: %+v", s.Evictions)
		}
	}
}

// TestPodsOfAGangAreApart: what pods say about the domains in which others of their job are is observed when their
// nodes are chosen: they run, together, where the scheduler's own rules let them, and wait with that rule as the
// reason where no nodes do. Shares are equal where pods ask for that.
func TestPodsOfAGangAreApart(t *testing.T) {
	const rack = "cloud.provider.com/topology-rack"
	another(t, "--nodes", "9", "--racks", "3")
	admin := user(t, "")
	job := func(name string, pods, gpus int, annotations, rules string) {
		create(t, admin, fmt.Sprintf(
			`{apiVersion: batch/v1, kind: Job, metadata: {name: %[1]s, labels: {kueue.x-k8s.io/queue-name: default-queue}}, spec: {
  parallelism: %[2]d, completions: %[2]d, completionMode: Indexed, template: {
    metadata: {labels: {app: %[1]s}, annotations: {%[4]s}}, spec: {%[5]s
      restartPolicy: Never, terminationGracePeriodSeconds: 0, containers: [
        {name: c, image: busybox, command: [sh, -c, "sleep 6000"], resources: {limits: {nvidia.com/gpu: %[3]d}}}]}}}}`,
			name,
			pods,
			gpus,
			annotations,
			rules,
		), "blue")
	}
	racks := map[string]string{}
	var nodes corev1.NodeList
	if err := admin.List(t.Context(), &nodes); err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes.Items {
		racks[n.Name] = n.Labels[rack]
	}
	shares := func(name string, want ...int) func() string {
		return func() string {
			perRack := map[string]int{}
			var all corev1.PodList
			if err := admin.List(
				t.Context(),
				&all,
				client.InNamespace("blue"),
				client.MatchingLabels{"app": name},
			); err != nil {
				t.Fatal(err)
			}
			for _, p := range all.Items {
				if p.Status.Phase == corev1.PodRunning {
					perRack[racks[p.Spec.NodeName]]++
				}
			}
			if got := slices.Sorted(maps.Values(perRack)); !slices.Equal(got, want) {
				return fmt.Sprintf("of its pods %v run in each rack, want %v", got, want)
			}
			return ""
		}
	}
	spread := "topologySpreadConstraints: [{maxSkew: 1, topologyKey: " + rack +
		", whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: even}}}],"
	job("even", 24, 1, "", spread)
	eventually(t, "every rack has as many", shares("even", 8, 8, 8))
	apart := func(name string) string {
		return "affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: " + rack +
			", labelSelector: {matchLabels: {app: " + name + "}}}]}},"
	}
	job("replicas", 3, 1, "", apart("replicas"))
	eventually(t, "every rack has one", shares("replicas", 1, 1, 1))
	job("four", 4, 1, "", apart("four"))
	eventually(t, "there is no fourth rack", waits(
		t,
		"blue",
		"four",
		"TopologyPlacementFailed",
		"hold only 3 out of 4 pod(s)",
		"because of the required podAntiAffinity over app=four",
	))
	create(
		t,
		admin,
		`{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, labels: {kueue.x-k8s.io/queue-name: default-queue}}, spec: {
  replicas: 6, selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, spec: {`+
			strings.ReplaceAll(
				spread,
				"app: even",
				"app: web",
			)+`
    terminationGracePeriodSeconds: 0, containers: [
      {name: c, image: busybox, command: [sh, -c, "sleep 6000"], resources: {limits: {nvidia.com/gpu: 1}}}]}}}}`,
		"blue",
	)
	eventually(t, "pods that are workloads of their own spread, too", shares("web", 2, 2, 2))
	var events corev1.EventList
	if err := admin.List(t.Context(), &events, client.InNamespace("blue")); err != nil {
		t.Fatal(err)
	}
	for i := range events.Items {
		if e := &events.Items[i]; e.Reason == "PlanWithdrawn" {
			t.Errorf("%s %s was refused by its nodes: %s", e.InvolvedObject.Kind, e.InvolvedObject.Name, e.Message)
		}
	}
	for _, name := range []string{"job/even", "job/replicas", "job/four", "deployment/web"} {
		if _, err := cluster.Run(t.Context(), "kubectl", "-n", "blue", "delete", name); err != nil {
			t.Fatal(err)
		}
	}
	job("shares", 4, 8, "mlbatch.dev/podset-balanced-topology: "+rack, "")
	eventually(t, "two and two, not three and one", shares("shares", 2, 2))
}

// TestAGangKeepsItsHealthyNodes: a gang that loses a node, and has no other in its rack, is stopped and keeps its
// quota and its other nodes for a while: a smaller job that waits does not get them, and the gang goes on in the same
// rack when its node is back. It is said of it that it waits for nodes, and which failed.
func TestAGangKeepsItsHealthyNodes(t *testing.T) {
	another(t, "--nodes", "6", "--racks", "2")
	admin := user(t, "")
	job := func(name string, pods int, annotations string) {
		create(t, admin, fmt.Sprintf(
			`{apiVersion: batch/v1, kind: Job, metadata: {name: %s, labels: {kueue.x-k8s.io/queue-name: default-queue}}, spec: {
  parallelism: %[2]d, completions: %[2]d, template: {metadata: {annotations: {%[3]s}}, spec: {
    restartPolicy: Never, terminationGracePeriodSeconds: 1,
    tolerations: [{key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 5}],
    containers: [{name: c, image: busybox, command: [sh, -c, "sleep 600000"], resources: {limits: {nvidia.com/gpu: 8}}}]}}}}`,
			name,
			pods,
			annotations,
		), "blue")
	}
	running := func(name string) (nodes []string) {
		for _, p := range pods(t, "blue", name) {
			if p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil {
				nodes = append(nodes, p.Spec.NodeName)
			}
		}
		slices.Sort(nodes)
		return nodes
	}
	run := func(name string, pods int) (nodes []string) {
		eventually(t, name+" runs", func() string {
			if nodes = running(name); len(nodes) < pods {
				return fmt.Sprintf("%d pods run", len(nodes))
			}
			return ""
		})
		return nodes
	}
	job("gang", 3, "kueue.x-k8s.io/podset-required-topology: cloud.provider.com/topology-rack")
	first := run("gang", 3)
	job("others", 3, "")
	run("others", 3)
	job("small", 1, "")
	patched(
		t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: first[0]}},
		`{"metadata":{"annotations":{"mlbatch.dev/simulate":"down"}}}`,
		`{"metadata":{"annotations":{"mlbatch.dev/simulate":null}}}`,
	)
	eventually(t, "the gang has stopped and keeps its nodes", func() string {
		out, _ := cluster.Run(t.Context(), "why", "job/gang", "-n", "blue")
		out = strings.Join(strings.Fields(out), " ") // without line breaks
		if !strings.Contains(out, "waiting for nodes") || !strings.Contains(out, first[0]) ||
			!strings.Contains(out, "goes on as soon as there are nodes for all its pods") {
			return out
		}
		return ""
	})
	if got := running("small"); len(got) > 0 {
		t.Fatalf("a small job took %s, which is kept for the gang", got)
	}
	patched(
		t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: first[0]}},
		`{"metadata":{"annotations":{"mlbatch.dev/simulate":null}}}`,
		`{"metadata":{"annotations":{"mlbatch.dev/simulate":null}}}`,
	)
	if again := run("gang", 3); !slices.Equal(again, first) {
		t.Errorf("it runs on %s, and ran on %s", again, first)
	}
	if got := running("small"); len(got) > 0 {
		t.Errorf("a small job runs on %s", got)
	}
}

// A gang that no rack has room for gets one when a job goes to another rack, once the queue of that job allows it:
// the job goes on there at once. Until then "why" says that this would help.
func TestAGangGetsTheRackOfOneThatMoves(t *testing.T) {
	r := crowdedRacks(t, "")
	r.job("gang", 2, "kueue.x-k8s.io/podset-required-topology: cloud.provider.com/topology-rack")
	eventually(t, "why says what would help", func() string {
		out, _ := cluster.Run(t.Context(), "why", "job/gang", "-n", "blue")
		out = strings.Join(strings.Fields(out), " ")
		if !strings.Contains(out, "let jobs of ClusterQueue blue-cluster-queue move to other nodes") {
			return out
		}
		return ""
	})
	r.allowRelocation()
	r.movedOne()
	// Members of teams see what is free in racks, although they may not list nodes; strangers do not.
	seen := func(as string) ([]view.Domain, error) {
		var list struct {
			Items []view.Domain `json:"items"`
		}
		out, err := cluster.Run(t.Context(), "topology", "-o", "json", "--as", as)
		if err == nil {
			err = json.Unmarshal([]byte(out), &list)
		}
		return list.Items, err
	}
	if got, err := seen("mallory"); err == nil {
		t.Errorf("a stranger sees %+v", got)
	}
	eventually(t, "a member of another team sees that nothing is free", func() string {
		got, err := seen("bob")
		if err != nil || len(got) != 2 {
			return fmt.Sprintf("%v %+v", err, got)
		}
		for _, d := range got {
			if d.Nodes != 2 || d.GPUs != 16 || d.Free == nil {
				return fmt.Sprintf("%+v", d)
			}
		}
		if *got[0].Free+*got[1].Free != 0 {
			return fmt.Sprintf("%d and %d GPUs are free", *got[0].Free, *got[1].Free)
		}
		return ""
	})
}

// crowd is a cluster of two racks with two nodes each, of which one in each is used by a job.
type crowd struct {
	t     *testing.T
	admin client.Client
	// left is the job that is left in each rack.
	left map[string]string
}

// crowdedRacks starts it. The pods of its jobs have some annotations.
func crowdedRacks(t *testing.T, annotations string) *crowd {
	t.Helper()
	another(t, "--nodes", "4", "--racks", "2")
	r := &crowd{t: t, admin: user(t, ""), left: map[string]string{}}
	byRack := map[string][]string{}
	for _, name := range []string{"one", "two", "three", "four"} {
		r.job(name, 1, annotations)
		rack := r.rackOf(r.run(name, 1)[0])
		byRack[rack] = append(byRack[rack], name)
	}
	for rack, names := range byRack {
		r.left[rack] = names[1]
		if err := r.admin.Delete(
			t.Context(),
			&batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: names[0]}},
			client.PropagationPolicy(metav1.DeletePropagationBackground),
		); err != nil {
			t.Fatal(err)
		}
		r.kill(names[0])
	}
	return r
}

// job makes one of pods that take a node each, and may take their time to end.
func (r *crowd) job(name string, pods int, annotations string) {
	r.t.Helper()
	create(r.t, r.admin, fmt.Sprintf(
		`{apiVersion: batch/v1, kind: Job, metadata: {name: %s, labels: {kueue.x-k8s.io/queue-name: default-queue}}, spec: {
  parallelism: %[2]d, completions: %[2]d, template: {metadata: {annotations: {%[3]s}}, spec: {
    restartPolicy: Never, terminationGracePeriodSeconds: 600,
    containers: [{name: c, image: busybox, command: [sh, -c, "sleep 600000"], resources: {limits: {nvidia.com/gpu: 8}}}]}}}}`,
		name,
		pods,
		annotations,
	), "blue")
}

// kill has the pods of a job end at once.
func (r *crowd) kill(name string) {
	r.t.Helper()
	all := pods(r.t, "blue", name)
	for i := range all {
		err := r.admin.Delete(r.t.Context(), &all[i], client.GracePeriodSeconds(0))
		if client.IgnoreNotFound(err) != nil {
			r.t.Fatal(err)
		}
	}
}

func (r *crowd) rackOf(node string) string {
	r.t.Helper()
	n := &corev1.Node{}
	if err := r.admin.Get(r.t.Context(), client.ObjectKey{Name: node}, n); err != nil {
		r.t.Fatal(err)
	}
	return n.Labels["cloud.provider.com/topology-rack"]
}

// run waits until so many pods of a job run, and says where.
func (r *crowd) run(name string, most int) (nodes []string) {
	r.t.Helper()
	eventually(r.t, name+" runs", func() string {
		nodes = nil
		for _, p := range pods(r.t, "blue", name) {
			if p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil {
				nodes = append(nodes, p.Spec.NodeName)
			}
		}
		if len(nodes) < most {
			return fmt.Sprintf("%d pods run", len(nodes))
		}
		return ""
	})
	return nodes
}

func (r *crowd) allowRelocation() {
	r.t.Helper()
	patched(
		r.t, &kueue.ClusterQueue{ObjectMeta: metav1.ObjectMeta{Name: "blue-cluster-queue"}},
		`{"metadata":{"annotations":{"mlbatch.dev/relocations-per-hour":"1"}}}`,
		`{"metadata":{"annotations":{"mlbatch.dev/relocations-per-hour":null}}}`,
	)
}

// movedOne waits until the gang runs in one rack, and checks that one job went to the other.
func (r *crowd) movedOne() {
	r.t.Helper()
	at := r.run("gang", 2)
	if a, b := r.rackOf(at[0]), r.rackOf(at[1]); a != b {
		r.t.Fatalf("the gang runs in racks %s and %s", a, b)
	}
	moved := 0
	for rack, name := range r.left {
		if r.rackOf(r.run(name, 1)[0]) != rack {
			moved++
		}
	}
	if moved != 1 {
		r.t.Errorf("%d jobs moved to another rack, want 1", moved)
	}
}

// A controller that is killed while a job moves out of the way leaves what it held for it, and for the gang, to the next:
// nobody who came meanwhile takes either.
func TestAnotherControllerFinishesARelocation(t *testing.T) {
	r := crowdedRacks(t, "mlbatch.dev/stop-after: 1h")
	r.allowRelocation()
	r.job("gang", 2, "kueue.x-k8s.io/podset-required-topology: cloud.provider.com/topology-rack")
	moves := ""
	eventually(t, "a job is told to move, and where to", func() string {
		for _, name := range r.left {
			if w := workloadOf(t, "blue", name); w != nil && w.Status.NextAdmission != nil {
				moves = name
				return ""
			}
		}
		return "none is"
	})
	if w := workloadOf(t, "blue", "gang"); w.Status.NextAdmission == nil {
		t.Fatalf("a job stops before it is written what is held for the gang: %+v", w.Status)
	}
	r.job("rival", 1, "")
	eventually(t, "another job waits for a node", waits(t, "blue", "rival"))
	back, err := cluster.Kill(t.Context(), "controller")
	if err == nil {
		err = back(context.WithoutCancel(t.Context()))
	}
	if err != nil {
		t.Fatal(err)
	}
	r.job("late", 1, "")
	eventually(t, "the next controller has judged all that waits", waits(t, "blue", "late"))
	for _, name := range []string{"rival", "late"} {
		if w := workloadOf(t, "blue", name); w.Status.Admission != nil {
			t.Fatalf("%s was given what is held for another: %+v", name, w.Status.Admission)
		}
	}
	r.kill(moves)
	r.movedOne()
	for _, name := range []string{"gang", moves} {
		if w := workloadOf(t, "blue", name); w.Status.NextAdmission != nil {
			t.Errorf("%s runs, and has more held for it: %+v", name, w.Status.NextAdmission)
		}
	}
}
