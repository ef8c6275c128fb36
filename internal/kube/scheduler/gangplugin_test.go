package scheduler

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/gang"
)

func TestQueueOrder(t *testing.T) {
	d := newDesk()
	early, late := time.Unix(100, 0), time.Unix(200, 0)
	gangs := map[string]time.Time{"old": early, "new": late, "b-twin": late}
	for name, since := range gangs {
		g := d.gang(name)
		g.Since = since
		d.gangs[g.Key] = g
	}
	in := func(gang, name string) *corev1.Pod { return planned(pod("blue", name, 0), gang, "main") }
	important := func(p *corev1.Pod) *corev1.Pod { p.Spec.Priority = new(int32(7)); return p }
	elsewhere := pod("amber", "z", 0)
	cases := map[string]struct {
		why           string
		first, second fwk.QueuedEntityInfo
	}{
		"priority": {
			"what matters more goes first, however late",
			queued(important(pod("ns", "p", 0)), late),
			queued(pod("ns", "a", 0), early),
		},
		"age": {
			"among equals the one that waits longer",
			queued(pod("ns", "b", 0), early),
			queued(pod("ns", "a", 0), late),
		},
		"age of a gang": {
			"a gang is as old as its object, whenever its pod came",
			queued(in("old", "b"), late),
			queued(in("new", "a"), early),
		},
		"gang and no gang": {
			"a gang takes its turn among other pods",
			queued(in("old", "b"), late),
			queued(pod("ns", "a", 0), late),
		},
		"gangs apart": {
			"pods of gangs of one age do not alternate",
			queued(in("b-twin", "z"), late),
			queued(in("new", "a"), early),
		},
		"unknown gang": {
			"a gang of which nothing is known is as old as its pod",
			queued(in("nobody", "b"), early),
			queued(pod("ns", "a", 0), late),
		},
		"namespace": {
			"the order never depends on chance",
			queued(elsewhere, late),
			queued(pod("blue", "a", 0), late),
		},
		"name": {
			"the order never depends on chance",
			queued(pod("ns", "a", 0), late),
			queued(pod("ns", "b", 0), late),
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			p := &gangPlugin{reservations: d.Reservations}
			if !p.Less(c.first, c.second) || p.Less(c.second, c.first) {
				t.Errorf(
					"less is %v, and %v the other way round: %s",
					p.Less(c.first, c.second),
					p.Less(c.second, c.first),
					c.why,
				)
			}
		})
	}
	same := queued(pod("ns", "a", 0), late)
	if (&gangPlugin{reservations: d.Reservations}).Less(same, same) {
		t.Error("a pod goes before itself")
	}
}

func TestHeldOutOfTheQueue(t *testing.T) {
	d := newDesk()
	d.gang("whole", "a", "b")
	half := d.gang("half", "c")
	half.Sets[0].Count = 2
	d.gangs[half.Key] = half
	p := &gangPlugin{reservations: d.Reservations}
	gated := planned(pod("blue", "y", 0), "nobody", "main")
	gated.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/later"}}
	for name, c := range map[string]struct {
		pod *corev1.Pod
		why string
	}{
		"held by a gate":  {gated, ""}, // that the gate goes wakes it, what a gang waits for would not
		"complete gang":   {planned(pod("blue", "a", 0), "whole", "main"), ""},
		"incomplete gang": {planned(pod("blue", "c", 0), "half", "main"), "Workload blue/half starts as a whole: 1 of 2 pods exist"},
		"unknown gang":    {planned(pod("blue", "x", 0), "nobody", "main"), "Workload blue/nobody does not exist yet"},
		"no gang":         {pod("blue", "plain", 0), ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := p.PreEnqueue(t.Context(), c.pod); got.Message() != c.why || got.IsSuccess() != (c.why == "") {
				t.Errorf("%v, want %q", got, c.why)
			}
		})
	}
}

// A gang that runs has its lost pods replaced one by one, each on the places of its set.
func TestAlonePodsKeepToOpenPlaces(t *testing.T) {
	run := func(p *corev1.Pod, node string) { p.Spec.NodeName, p.Status.Phase = node, corev1.PodRunning }
	cases := map[string]struct {
		why    string
		places []core.Place
		set    string // of the pod that asks
		setUp  func(r *rig, g gang.Gang)
		nodes  []string
		says   string
	}{
		"open places": {
			"every place that is left, and no other node",
			[]core.Place{placed("n1", 1), placed("n2", 1), placed("n3", 1)},
			"main",
			nil,
			[]string{"n2", "n3"},
			"",
		},
		"no places": {"the scheduler chooses", nil, "main", nil, nil, ""},
		"no such set": {
			"a set that has no place in the plan gets none",
			[]core.Place{placed("n1", 1), placed("n2", 2)},
			"other", nil, nil,
			`Workload blue/job has no pod set "other" (label kueue.x-k8s.io/podset)`,
		},
		"no room": {
			"no pod more than was admitted",
			[]core.Place{placed("n1", 1), placed("n2", 2)},
			"main",
			func(r *rig, g gang.Gang) {
				run(r.find(g, "c"), "n2")
				extra := planned(onNode("d", "n2", corev1.PodRunning), "job", "main")
				r.pods[g.Key] = append(r.pods[g.Key], extra)
			},
			nil,
			`pod set "main" of Workload blue/job was admitted with 3 pods, and all its places are taken`,
		},
		"one node is away": {
			"the others will do",
			[]core.Place{placed("n1", 1), placed("gone", 1), placed("n3", 1)},
			"main",
			nil,
			[]string{"gone", "n3"},
			"",
		},
		"all nodes away": {
			"there is nothing to wait for but those nodes",
			[]core.Place{placed("n1", 1), placed("gone", 1), placed("lost", 1)},
			"main", nil, nil,
			"planned node gone, lost is not in the cluster",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := newRig(
				t,
				aNode{name: "n1", gpus: 8, cpus: 8},
				aNode{name: "n2", gpus: 8, cpus: 8},
				aNode{name: "n3", gpus: 8, cpus: 8},
			)
			g := r.plan(r.add("job", 1, "a", "b", "c"), c.places...)
			run(r.find(g, "a"), "n1")
			if c.setUp != nil {
				c.setUp(r, g)
			}
			asks := planned(r.find(g, "b"), "job", c.set)
			nodes, says := r.prefilter(asks)
			if diff := cmp.Diff(c.nodes, nodes); diff != "" || says != c.says {
				t.Errorf("%s: says %q, want %q; nodes (-want +got):\n%s", c.why, says, c.says, diff)
			}
		})
	}
}

// A pod of a big gang is not offered all its places at once: each costs a look.
func TestAlonePodTriesAFewPlaces(t *testing.T) {
	var places []core.Place
	for i := range maxOpen + 2 {
		places = append(places, placed(fmt.Sprintf("n%03d", i), 1))
	}
	r := newRig(t, aNode{name: "n000", gpus: 8, cpus: 8})
	g := r.plan(r.add("job", 1, "a", "b"), places...)
	r.find(g, "a").Spec.NodeName = "elsewhere"
	nodes, _ := r.prefilter(r.find(g, "b"))
	if len(nodes) != 64 || nodes[63] != "n063" {
		t.Errorf("%d nodes are tried, want the first 64", len(nodes))
	}
}

// A nominated pod comes to Filter without PreFilter's choice of nodes.
func TestFilterKeepsToThePlan(t *testing.T) {
	info := framework.NewNodeInfo()
	info.SetNode(aNode{name: "n1"}.object())
	with := func(nodes ...string) *framework.CycleState {
		s := framework.NewCycleState()
		if _, status := only(s, nodes...); !status.IsSuccess() {
			t.Fatal(status)
		}
		return s
	}
	for name, c := range map[string]struct {
		state *framework.CycleState
		takes bool
	}{
		"planned":   {with("n0", "n1"), true},
		"elsewhere": {with("n0", "n2"), false},
		"no plan":   {framework.NewCycleState(), true},
	} {
		t.Run(name, func(t *testing.T) {
			status := (&gangPlugin{}).Filter(t.Context(), c.state, nil, info)
			if status.IsSuccess() != c.takes {
				t.Errorf("the node takes it: %v, want %v", status.IsSuccess(), c.takes)
			}
			if !c.takes && status.Code() != fwk.UnschedulableAndUnresolvable {
				t.Errorf("%v: evicting others would not help", status.Code())
			}
		})
	}
}

func TestGangGoesWhenItsLastPodHasANode(t *testing.T) {
	r := newRig(t, aNode{name: "n1", gpus: 8, cpus: 8})
	g := r.add("job", 1, "a", "b", "c", "late")
	g.Sets[0].Count = 3
	r.gangs[g.Key] = g
	for i, name := range []string{"a", "b"} {
		if nodes, why := r.prefilter(r.find(g, name)); !slices.Equal(nodes, []string{"n1"}) {
			t.Fatalf("pod %s may go to %v (%s), want its assigned node", name, nodes, why)
		}
		status, active := r.reserve(r.find(g, name), "n1")
		if !status.IsWait() {
			t.Fatalf("pod %s: %v, want that it waits", name, status)
		}
		if want := []string{"blue/b", "blue/c", "blue/late"}; i == 0 && !slices.Equal(active, want) {
			t.Errorf("the first pod brings %v into the queue, want %v", active, want)
		} else if i == 1 && len(active) != 0 {
			t.Errorf("the second pod brings %v once more", active)
		}
	}
	if _, why := r.prefilter(
		r.find(g, "late"),
	); !strings.Contains(
		why,
		"is starting; this pod is not among the first and follows",
	) {
		t.Errorf("a pod beyond those that the gang needs is told %q", why)
	}
	status, active := r.reserve(r.find(g, "c"), "n1")
	if !status.IsSuccess() {
		t.Errorf("the last pod: %v, want that it goes", status)
	}
	if !slices.Equal(active, []string{"blue/late"}) {
		t.Errorf("the last pod brings %v into the queue, want those that follow", active)
	}
	for _, name := range []string{"a", "b"} {
		if released, why := r.outcome(r.find(g, name)); !released {
			t.Errorf("pod %s is not let go: %s", name, why)
		}
	}
	p, _ := r.plugin.Permit(t.Context(), framework.NewCycleState(), pod("ns", "plain", 0), "n1")
	if !p.IsSuccess() {
		t.Errorf("a pod without a gang: %v, want that it goes", p)
	}
}

// An attempt can end between the moment when a pod is told to wait and the one from which the
// framework knows that it does. The pod is sent back all the same, and the gang tried again.
func TestAttemptEndsBeforeItsPodWaits(t *testing.T) {
	r := newRig(t, aNode{name: "n1", gpus: 8, cpus: 8})
	g := r.add("job", 1, "a", "b")
	a, b := r.find(g, "a"), r.find(g, "b")
	r.prefilter(a)
	state := framework.NewCycleState()
	state.Write(framework.PodsToActivateKey, framework.NewPodsToActivate())
	if status := r.RunReservePluginsReserve(t.Context(), state, a, "n1"); !status.IsSuccess() {
		t.Fatal(status)
	}
	waits, status := r.RunPermitPlugins(t.Context(), state, a, "n1")
	if !status.IsWait() {
		t.Fatalf("%v, want that it waits", status)
	}
	r.waker.restart(g.Key, "the gang has changed")
	r.AddWaitingPod(a, waits)
	if nodes, why := r.prefilter(b); nodes != nil || why == "" {
		t.Errorf("pod b may go to %v while pod a holds a node of another attempt", nodes)
	}
	if released, why := r.outcome(
		a,
	); released ||
		!strings.Contains(why, "the attempt that this pod waits for has ended") {
		t.Errorf("pod a: let go %v, %q, want that it is sent back", released, why)
	}
	r.wokenSince()
	r.RunReservePluginsUnreserve(t.Context(), framework.NewCycleState(), a, "n1")
	if woken := r.wokenSince(); !slices.Equal(woken, []string{"a", "b"}) {
		t.Errorf("%v are tried again, want the whole gang", woken)
	}
	if nodes, why := r.prefilter(b); !slices.Equal(nodes, []string{"n1"}) {
		t.Errorf("pod b may go to %v (%s), want its assigned node", nodes, why)
	}
}

// A pod that was refused while another of its gang was on its way to a node is tried when that one
// is there.
func TestRefusedPodIsTriedWhenAnotherIsBound(t *testing.T) {
	r := newRig(t, aNode{name: "n1", gpus: 8, cpus: 8})
	g := r.add("job", 1, "a", "b")
	a, b := r.find(g, "a"), r.find(g, "b")
	r.Reservations.reserve(g.Key, a.UID, "n1")
	if _, why := r.prefilter(b); why == "" {
		t.Fatal("pod b is not refused")
	}
	bound := a.DeepCopy()
	bound.Spec.NodeName = "n1"
	r.pods[g.Key] = []*corev1.Pod{bound, b}
	r.wokenSince()
	r.waker.moved(a, bound)
	if woken := r.wokenSince(); !slices.Equal(woken, []string{"b"}) {
		t.Errorf("%v are tried again, want the pod that was refused", woken)
	}
}

// A gang is not tried before the claims of all its pods were made from their templates: it would be refused,
// and nothing would wake it.
func TestGangWaitsUntilItsClaimsAreMade(t *testing.T) {
	r := newRig(t, aNode{name: "n1", gpus: 8, cpus: 8})
	g := r.add("job", 1, "a", "b")
	was := r.find(g, "b").DeepCopy()
	was.Spec.ResourceClaims = []corev1.PodResourceClaim{
		{Name: "channel", ResourceClaimTemplateName: new("train")},
	}
	r.pods[g.Key] = []*corev1.Pod{r.find(g, "a"), was}
	if _, why := r.prefilter(r.find(g, "a")); why == "" {
		t.Fatal("pod a is tried without pod b")
	}
	if status := r.plugin.PreEnqueue(t.Context(), was); !status.IsSuccess() {
		t.Errorf("who knows when claims come holds pod b, and not %v, which is not told", status)
	}
	is := was.DeepCopy()
	is.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{
		{Name: "channel", ResourceClaimName: new("c")},
	}
	r.pods[g.Key] = []*corev1.Pod{r.find(g, "a"), is}
	r.wokenSince()
	r.waker.moved(was, is)
	if woken := r.wokenSince(); !slices.Equal(woken, []string{"a", "b"}) {
		t.Errorf("%v are tried, want the gang", woken)
	}
	if r.waker.moved(is, is); len(r.wokenSince()) != 0 {
		t.Error("they are woken for nothing")
	}
}

// A gang whose last pod comes too late is not split: all go back.
func TestLatePodGoesBack(t *testing.T) {
	r := newRig(t, aNode{name: "n1", gpus: 8, cpus: 8})
	g := r.add("job", 1, "a", "b")
	r.prefilter(r.find(g, "a"))
	r.reserve(r.find(g, "a"), "n1")
	r.now = r.now.Add(g.Wait)
	status, _ := r.reserve(r.find(g, "b"), "n1")
	if want := "Workload blue/job starts as a whole: its pods did not all get nodes in time"; status.Code() != fwk.Unschedulable ||
		status.Message() != want {
		t.Errorf("%v, want %q", status, want)
	}
}

// A pod that gives its place up takes the waiting pods of its gang with it, and the last
// to give back its node has the gang tried again.
func TestGangGoesBackTogether(t *testing.T) {
	r := newRig(t, aNode{name: "n1", gpus: 8, cpus: 8})
	g := r.add("job", 1, "a", "b", "c")
	for _, name := range []string{"a", "b"} {
		r.prefilter(r.find(g, name))
		r.reserve(r.find(g, name), "n1")
	}
	r.wokenSince()
	unreserve := func(name string) []string {
		r.RunReservePluginsUnreserve(t.Context(), framework.NewCycleState(), r.find(g, name), "n1")
		return r.wokenSince()
	}
	if woken := unreserve("b"); len(woken) != 0 {
		t.Errorf("%v are tried again while a pod still holds a node", woken)
	}
	released, why := r.outcome(r.find(g, "a"))
	if want := "Workload blue/job starts as a whole: pod b gave up its place"; released ||
		!strings.Contains(why, want) {
		t.Errorf("pod a: let go %v, %q, want that it is sent back: %s", released, why, want)
	}
	if woken := unreserve("a"); !slices.Equal(woken, []string{"a", "b", "c"}) {
		t.Errorf("%v are tried again, want the whole gang", woken)
	}
	r.plugin.Unreserve(t.Context(), nil, pod("ns", "plain", 0), "n1")
	if woken := r.wokenSince(); len(woken) != 0 {
		t.Errorf("a pod without a gang wakes %v", woken)
	}
}

// A pod whose assignment was taken by others after the dry run sends its gang back, and
// is its leader pod from now on.
func TestLostAssignmentSendsTheGangBack(t *testing.T) {
	r := newRig(t, aNode{name: "n1", gpus: 8, cpus: 8})
	g := r.add("job", 1, "a", "b")
	r.prefilter(r.find(g, "a"))
	r.reserve(r.find(g, "a"), "n1")
	reasons := framework.NewNodeToStatus(
		map[string]*fwk.Status{"n1": fwk.NewStatus(fwk.Unschedulable, "Insufficient nvidia.com/gpu")},
		nil,
	)
	_, status := r.plugin.PostFilter(t.Context(), nil, r.find(g, "b"), reasons)
	if status.Code() != fwk.UnschedulableAndUnresolvable {
		t.Errorf("%v: nothing is evicted for a planned pod", status.Code())
	}
	want := "Workload blue/job starts as a whole: pod b lost its place on node n1: Insufficient nvidia.com/gpu"
	if released, why := r.outcome(r.find(g, "a")); released || !strings.Contains(why, want) {
		t.Errorf("pod a: let go %v, %q, want that it is sent back: %s", released, why, want)
	}
	if _, why := r.prefilter(r.find(g, "a")); why != want {
		t.Errorf("pod a is told %q, want %q", why, want)
	}
	if r.isLeaderPod(g.Key, "a") || !r.isLeaderPod(g.Key, "b") {
		t.Error("want that the pod that lost its place is the leader pod")
	}
}

func TestPostFilterWithoutASeat(t *testing.T) {
	r := newRig(t, aNode{name: "n1", gpus: 1, cpus: 8})
	g := r.add("job", 1, "a", "b")
	reasons := framework.NewDefaultNodeToStatus()
	if _, why := r.prefilter(r.find(g, "a")); !strings.Contains(why, "1 of 2 pods fit") {
		t.Fatalf("pod a is told %q", why)
	}
	if _, status := r.plugin.PostFilter(
		t.Context(),
		nil,
		r.find(g, "a"),
		reasons,
	); status.Code() != fwk.UnschedulableAndUnresolvable {
		t.Errorf("a pod of a gang: %v, want that nothing is evicted for it", status.Code())
	}
	if _, why := r.prefilter(r.find(g, "b")); !strings.Contains(why, "1 of 2 pods fit") {
		t.Errorf("the others are told %q, want what the first was told", why)
	}
	if _, status := r.plugin.PostFilter(
		t.Context(),
		nil,
		pod("ns", "plain", 1),
		reasons,
	); status.Code() != fwk.Unschedulable {
		t.Errorf("a pod without a gang: %v, want that other plugins may help it", status.Code())
	}
}

// While a group that was left half bound is finished, any other that is tried waits,
// and is woken when the last pod of it was tried, whatever came of it.
func TestHalfBoundGroupGoesFirst(t *testing.T) {
	for name, tried := range map[string]func(r *rig, p *corev1.Pod){
		"got a node": func(r *rig, p *corev1.Pod) { r.plugin.Reserve(r.t.Context(), nil, p, "n1") },
		"found none": func(r *rig, p *corev1.Pod) {
			r.plugin.PostFilter(r.t.Context(), nil, p, framework.NewDefaultNodeToStatus())
		},
		"is gone": func(r *rig, p *corev1.Pod) { r.waker.went(p) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, aNode{name: "n1", gpus: 8, cpus: 8})
			bound, rest := grouped(pod("ns", "g-0", 1), "g"), grouped(pod("ns", "g-1", 1), "g")
			bound.UID, bound.Spec.NodeName, rest.UID = "g-0", "n1", "g-1"
			r.resumed.begin([]*corev1.Pod{bound, rest}, []string{testScheduler})
			rival := pod("ns", "rival", 1)
			if _, why := r.prefilter(
				rival,
			); why != "PodGroup ns/g was being bound when the scheduler ended: the rest of it goes first" {
				t.Errorf("another pod is told %q", why)
			}
			tried(r, rest)
			if woken := r.wokenSince(); !slices.Equal(woken, []string{"rival"}) {
				t.Errorf("%v are woken, want the pods that waited", woken)
			}
			if _, why := r.prefilter(rival); why != "" {
				t.Errorf("another pod is told %q afterwards", why)
			}
		})
	}
}

func TestHintWakesTheSpeaker(t *testing.T) {
	r := newRig(t)
	g := r.add("job", 1, "a", "b")
	r.refuse(g.Key, "a", "too big")
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		want fwk.QueueingHint
	}{
		"leader pod": {r.find(g, "a"), fwk.Queue},
		"another":    {r.find(g, "b"), fwk.QueueSkip},
		"no gang":    {pod("ns", "plain", 1), fwk.QueueSkip},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := r.plugin.hint(klog.Background(), c.pod, nil, nil); got != c.want || err != nil {
				t.Errorf("%v %v, want %v", got, err, c.want)
			}
		})
	}
	claims := r.find(g, "a").DeepCopy()
	if got, _ := r.plugin.claimHint(klog.Background(), claims, nil, nil); got != fwk.QueueSkip {
		t.Errorf("a claim of others: %v for a pod without claims", got)
	}
	claims.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "channel"}}
	if got, _ := r.plugin.claimHint(klog.Background(), claims, nil, nil); got != fwk.Queue {
		t.Errorf("a claim: %v for a pod with claims", got)
	}
	events, err := r.plugin.EventsToRegister(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	helps := map[fwk.EventResource]fwk.ActionType{}
	for _, e := range events {
		helps[e.Event.Resource] |= e.Event.ActionType
	}
	for resource, actions := range map[fwk.EventResource][]fwk.ActionType{
		fwk.Node: {fwk.Add, fwk.UpdateNodeAllocatable, fwk.UpdateNodeLabel, fwk.UpdateNodeTaint},
		fwk.Pod:  {fwk.Delete, fwk.UpdatePodScaleDown},

		fwk.ResourceClaim: {fwk.Add, fwk.Update, fwk.Delete},
	} {
		for _, a := range actions {
			if helps[resource]&a == 0 {
				t.Errorf("%s %v wakes no pod", resource, a)
			}
		}
	}
}

// Results of earlier pods are reused for pods of one signature; each pod of a gang has
// a node of its own.
func TestPodsOfGangsAreNotAlike(t *testing.T) {
	if _, status := (&gangPlugin{}).SignPod(
		t.Context(),
		planned(pod("ns", "p", 0), "w", "main"),
	); status.IsSuccess() {
		t.Error("a pod of a gang has a signature")
	}
	if _, status := (&gangPlugin{}).SignPod(t.Context(), pod("ns", "p", 0)); !status.IsSuccess() {
		t.Errorf("a pod without a gang: %v", status)
	}
}

// What the watches tell wakes those that it concerns.
func TestWakerWakesGangs(t *testing.T) {
	gate := []corev1.PodSchedulingGate{{Name: "quota"}}
	cases := map[string]struct {
		why   string
		do    func(w *waker, old, p *corev1.Pod)
		woken []string
	}{
		"the last pod came": {
			"each before it was held back",
			func(w *waker, _, p *corev1.Pod) { w.came(p) },
			[]string{"a", "b"},
		},
		"it has a node": {
			"it needs no turn",
			func(w *waker, _, p *corev1.Pod) { p.Spec.NodeName = "n"; w.came(p) },
			nil,
		},
		"its gate was opened": {
			"now it takes part",
			func(w *waker, old, p *corev1.Pod) { old.Spec.SchedulingGates = gate; w.moved(old, p) },
			[]string{"a", "b"},
		},
		"still gated": {"a controller holds it", func(w *waker, old, p *corev1.Pod) {
			old.Spec.SchedulingGates, p.Spec.SchedulingGates = gate, gate
			w.moved(old, p)
		}, nil},
		"nothing moved": {"it was never gated", func(w *waker, old, p *corev1.Pod) { w.moved(old, p) }, nil},
		"it is deleted": {
			"its place may be offered",
			func(w *waker, old, p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{}; w.moved(old, p) },
			[]string{"a"},
		},
		"it was deleted before": {
			"that was told already",
			func(w *waker, old, p *corev1.Pod) {
				old.DeletionTimestamp, p.DeletionTimestamp = &metav1.Time{}, &metav1.Time{}
				w.moved(old, p)
			}, nil,
		},
		"it went": {"its place is offered", func(w *waker, _, p *corev1.Pod) { w.went(p) }, []string{"a", "b"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			g := r.add("job", 1, "a", "b")
			p := r.find(g, "b")
			c.do(r.waker, p.DeepCopy(), p)
			if woken := r.wokenSince(); !slices.Equal(woken, c.woken) {
				t.Errorf("%v are woken, want %v: %s", woken, c.woken, c.why)
			}
		})
	}
}

func TestWakerEndsAttempts(t *testing.T) {
	setUp := func(t *testing.T) (*rig, gang.Gang) {
		t.Helper()
		r := newRig(t, aNode{name: "n1", gpus: 8, cpus: 8})
		g := r.add("job", 1, "a", "b", "c")
		r.prefilter(r.find(g, "a"))
		r.reserve(r.find(g, "a"), "n1")
		r.wokenSince()
		return r, g
	}
	t.Run("a pod came that the attempt knows", func(t *testing.T) {
		r, g := setUp(t)
		if r.waker.came(r.find(g, "b")); len(r.woken) != 0 {
			t.Errorf("%v are woken in the middle of the attempt", r.woken)
		}
	})
	t.Run("a pod that it counts on is gone", func(t *testing.T) {
		r, g := setUp(t)
		r.waker.went(r.find(g, "b"))
		want := "Workload blue/job starts as a whole: pod b is gone"
		if released, why := r.outcome(r.find(g, "a")); released || !strings.Contains(why, want) {
			t.Errorf("pod a: let go %v, %q, want %q", released, why, want)
		}
	})
	t.Run("its pod is bound", func(t *testing.T) {
		r, g := setUp(t)
		old := r.find(g, "a").DeepCopy()
		r.find(g, "a").Spec.NodeName = "n1"
		r.waker.moved(old, r.find(g, "a"))
		if r.binds(g.Key, "a") || len(r.runs[g.Key].reserved) != 0 {
			t.Error("the reservation of a pod that is bound is kept")
		}
	})
	t.Run("its object changed", func(t *testing.T) {
		r, g := setUp(t)
		r.waker.restart(g.Key, "the plan has changed")
		if released, why := r.outcome(r.find(g, "a")); released || !strings.Contains(why, "the plan has changed") {
			t.Errorf("pod a: let go %v, %q", released, why)
		}
	})
	t.Run("its object changed after a refusal", func(t *testing.T) {
		r := newRig(t)
		g := r.add("job", 1, "a", "b")
		r.refuse(g.Key, "a", "too big")
		r.waker.restart(g.Key, "the plan has changed")
		if woken := r.wokenSince(); !slices.Equal(woken, []string{"a", "b"}) || !r.isLeaderPod(g.Key, "b") {
			t.Errorf("%v are woken, and the refusal stands for b: %v", woken, !r.isLeaderPod(g.Key, "b"))
		}
	})
	t.Run("before there is a queue", func(t *testing.T) {
		d := newDesk()
		g := d.gang("job", "a", "b")
		w := &waker{reservations: d.Reservations, registry: newRegistry()}
		w.restart(g.Key, "nothing to send back")
		w.went(planned(pod("blue", "a", 0), "job", "main"))
	})
}

// Objects of gangs that are added, changed and deleted.
func TestWakerFollowsGangs(t *testing.T) {
	r := newRig(t)
	g := r.add("job", 1, "a", "b")
	s := source{gang: func(obj any) (gang.Gang, bool) { g, ok := obj.(gang.Gang); return g, ok }}
	h := r.waker.gangHandler(s)
	known := func() bool { _, ok := r.waker.registry.Gang(g.Key); return ok }
	h.OnAdd(g, false)
	if woken := r.wokenSince(); !known() || !slices.Equal(woken, []string{"a", "b"}) {
		t.Errorf("added: known %v, woken %v", known(), woken)
	}
	h.OnUpdate(g, g)
	if woken := r.wokenSince(); len(woken) != 0 {
		t.Errorf("unchanged: %v are woken", woken)
	}
	r.refuse(g.Key, "a", "too big")
	g = r.plan(g, placed("n1", 2))
	h.OnUpdate(g, g)
	if woken := r.wokenSince(); !slices.Equal(woken, []string{"a", "b"}) || !r.isLeaderPod(g.Key, "b") {
		t.Errorf("planned: %v are woken, refused before: %v", woken, !r.isLeaderPod(g.Key, "b"))
	}
	h.OnDelete(g)
	if known() {
		t.Error("deleted, and still known")
	}
}

func TestWhoMayBeBound(t *testing.T) {
	k := gang.Key{Kind: gang.KindWorkload, Namespace: "blue", Name: "job"}
	for name, c := range map[string]struct {
		why   string
		setUp func(d *desk, g gang.Gang)
		want  bool
	}{
		"nothing reserved": {"it was never let go", func(*desk, gang.Gang) {}, false},
		"let go":           {"its binding may have been written", func(d *desk, _ gang.Gang) { d.reserve(k, "a", "n") }, true},
		"waits for others": {"it is not bound yet", func(d *desk, g gang.Gang) { d.begin(g); d.reserve(k, "a", "n") }, false},
		"another's node":   {"each has a node of its own", func(d *desk, _ gang.Gang) { d.reserve(k, "b", "n") }, false},
		"beside an attempt": {"it has no assignment in it", func(d *desk, g gang.Gang) {
			d.reserve(k, "a", "n")
			d.Reservations.begin(g, map[types.UID]assignment{"b": {pod: d.pods[k][1], node: "n"}})
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk()
			c.setUp(d, d.gang("job", "a", "b"))
			if got := d.binds(k, "a"); got != c.want {
				t.Errorf("%v, want %v: %s", got, c.want, c.why)
			}
		})
	}
}
