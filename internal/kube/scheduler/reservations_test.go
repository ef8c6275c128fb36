package scheduler

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/gang"
)

// desk is Reservations with gangs and pods of the test's own, and a clock.
type desk struct {
	*Reservations
	pods  map[gang.Key][]*corev1.Pod
	gangs map[gang.Key]gang.Gang
	now   time.Time
}

func newDesk() *desk {
	d := &desk{pods: map[gang.Key][]*corev1.Pod{}, gangs: map[gang.Key]gang.Gang{}, now: time.Unix(1000, 0)}
	d.Reservations = NewReservations(d, d, []string{testScheduler}, func() time.Time { return d.now })
	return d
}

func (d *desk) OfGang(k gang.Key) []*corev1.Pod { return d.pods[k] }

func (d *desk) Gang(k gang.Key) (gang.Gang, bool) {
	g, ok := d.gangs[k]
	return g, ok
}

// gang adds an admitted gang with pods that wait, whose UIDs are their names.
func (d *desk) gang(name string, podNames ...string) gang.Gang {
	k := gang.Key{Kind: gang.KindWorkload, Namespace: "blue", Name: name}
	g := gang.Gang{
		Key:      k,
		Admitted: true,
		Wait:     10 * time.Second,
		Sets:     []gang.Set{{Name: "main", Count: len(podNames)}},
	}
	d.gangs[k] = g
	for _, n := range podNames {
		d.pods[k] = append(d.pods[k], &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: n, UID: types.UID(n)},
			Spec:       corev1.PodSpec{SchedulerName: testScheduler},
		})
	}
	return g
}

// begin assigns the pods of a gang, each to a node of its own.
func (d *desk) begin(g gang.Gang) {
	assignments := map[types.UID]assignment{}
	for _, p := range d.pods[g.Key] {
		assignments[p.UID] = assignment{pod: p, node: "node-of-" + p.Name}
	}
	d.Reservations.begin(g, assignments)
}

func waits(types.UID) bool { return true }

func TestLastPodLetsTheGangGo(t *testing.T) {
	d := newDesk()
	g := d.gang("job", "a", "b", "c")
	d.begin(g)
	for i, uid := range []types.UID{"b", "a"} {
		d.reserve(g.Key, uid, "n")
		got := d.arrive(g.Key, uid, waits)
		if diff := cmp.Diff(
			ticket{wait: 10 * time.Second, first: i == 0},
			got,
			cmp.AllowUnexported(ticket{}),
		); diff != "" {
			t.Errorf("pod %s arrives (-want +got):\n%s", uid, diff)
		}
	}
	d.reserve(g.Key, "c", "n")
	got := d.arrive(g.Key, "c", waits)
	if diff := cmp.Diff(ticket{release: []types.UID{"a", "b"}}, got, cmp.AllowUnexported(ticket{})); diff != "" {
		t.Errorf("the last pod arrives (-want +got):\n%s", diff)
	}
	if v := d.look(g.Key).decision; v.Act != gang.Alone {
		t.Errorf("after the gang was let go a pod is placed %v, want alone: it has started", v)
	}
}

func TestNoGangIsLetGoNearItsDeadline(t *testing.T) {
	d := newDesk()
	g := d.gang("job", "a", "b")
	d.begin(g)
	d.reserve(g.Key, "a", "n")
	d.arrive(g.Key, "a", waits)
	d.now = d.now.Add(g.Wait - lateMargin/2)
	d.reserve(g.Key, "b", "n")
	if got := d.arrive(g.Key, "b", waits); !got.late {
		t.Errorf("arrive just before the deadline: %+v, want late: the first pod may be giving up right now", got)
	}
}

func TestNoGangIsLetGoWithoutAPodThatGaveUp(t *testing.T) {
	d := newDesk()
	g := d.gang("job", "a", "b")
	d.begin(g)
	d.reserve(g.Key, "a", "n")
	d.arrive(g.Key, "a", waits)
	d.reserve(g.Key, "b", "n")
	if got := d.arrive(g.Key, "b", func(types.UID) bool { return false }); !got.late {
		t.Errorf("arrive after a pod gave up: %+v, want late", got)
	}
}

func TestAbandonedAttemptHoldsUntilItsPodsGaveBack(t *testing.T) {
	d := newDesk()
	g := d.gang("job", "a", "b")
	d.begin(g)
	d.reserve(g.Key, "a", "n")
	d.arrive(g.Key, "a", waits)
	waiting, began := d.abandon(g.Key)
	if diff := cmp.Diff([]types.UID{"a"}, waiting); diff != "" || !began {
		t.Errorf("abandon: began %v, waiting (-want +got):\n%s", began, diff)
	}
	if pods := d.look(g.Key).quorum("b"); len(pods) != 0 {
		t.Errorf("%d pods are to start while another still holds a node, want none", len(pods))
	}
	if !d.release(g.Key, "a") {
		t.Error("the last node is given back: want word of it, so that the gang is tried again")
	}
	if pods := d.look(g.Key).quorum("b"); len(pods) != 2 {
		t.Errorf("%d pods are to start after all nodes are given back, want 2", len(pods))
	}
	if len(d.runs) != 0 {
		t.Errorf("%v is kept of a gang that has no nodes", d.runs)
	}
}

func TestOnePodSpeaksForARefusedGang(t *testing.T) {
	d := newDesk()
	g := d.gang("job", "a", "b")
	d.refuse(g.Key, "a", "too big")
	if _, why := d.assignmentOf(g.Key, "b"); why != "too big" {
		t.Errorf("another pod is told %q, want what the leader pod was told", why)
	}
	if _, why := d.assignmentOf(g.Key, "a"); why != "" {
		t.Errorf("the leader pod is told %q, want a new dry run", why)
	}
	if d.isLeaderPod(g.Key, "b") || !d.isLeaderPod(g.Key, "a") {
		t.Error("want only the leader pod to be woken")
	}
	d.forget(g.Key, "a")
	if _, why := d.assignmentOf(g.Key, "b"); why != "" || !d.isLeaderPod(g.Key, "b") {
		t.Error("the leader pod is gone: want another pod to try")
	}
}

// A pod that goes while it is tried is refused when everybody has forgotten it: if it spoke for its
// gang, the pods that follow it would repeat its words until their job is evicted for them.
func TestNoPodThatIsGoneSpeaksForItsGang(t *testing.T) {
	for name, goes := range map[string]func(*desk, gang.Key){
		"gone":  func(d *desk, k gang.Key) { d.pods[k] = d.pods[k][1:] },
		"going": func(d *desk, k gang.Key) { d.pods[k][0].DeletionTimestamp = &metav1.Time{Time: d.now} },
	} {
		d := newDesk()
		g := d.gang("job", "a", "b")
		goes(d, g.Key)
		d.forget(g.Key, "a")
		d.refuse(g.Key, "a", "its pods give back the nodes of an earlier attempt")
		if _, why := d.assignmentOf(g.Key, "b"); why != "" || !d.isLeaderPod(g.Key, "b") {
			t.Errorf("%s: another pod is told %q, and is not tried", name, why)
		}
	}
}

func TestAssignedNodesAreKeptFromOthers(t *testing.T) {
	d := newDesk()
	g, other := d.gang("job", "a", "b"), d.gang("other", "x")
	d.begin(g)
	d.reserve(g.Key, "a", "n")
	var got []string
	for _, s := range d.assignedElsewhere(other.Key) {
		got = append(got, s.pod.Name)
	}
	if diff := cmp.Diff([]string{"b"}, got); diff != "" {
		t.Errorf("assigned but not reserved (-want +got):\n%s", diff)
	}
	if own := d.assignedElsewhere(g.Key); len(own) != 0 {
		t.Errorf("a gang's own assignments stand in its way: %v", own)
	}
}

func TestMembers(t *testing.T) {
	change := func(f func(*corev1.Pod)) *corev1.Pod {
		p := pod("ns", "p", 0)
		f(p)
		return p
	}
	cases := map[string]struct {
		why   string
		pod   *corev1.Pod
		state gang.MemberState
		ok    bool
	}{
		"waiting": {"it takes part", pod("ns", "p", 0), gang.Pending, true},
		"bound":   {"it has its place", change(func(p *corev1.Pod) { p.Spec.NodeName = "n" }), gang.Bound, true},
		"failed": {
			"it leaves its place to others",
			change(func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }),
			gang.Failed,
			true,
		},
		"deleted, not ended": {"it keeps its node until its containers have stopped", change(func(p *corev1.Pod) {
			p.Spec.NodeName, p.Status.Phase, p.DeletionTimestamp = "n", corev1.PodRunning, &metav1.Time{}
		}), gang.Leaving, true},
		"deleted, without a node": {"it is not bound any more", change(func(p *corev1.Pod) {
			p.DeletionTimestamp = &metav1.Time{}
		}), 0, false},
		"going": {"a pod of an earlier attempt says nothing about this one", change(func(p *corev1.Pod) {
			p.Status.Phase, p.DeletionTimestamp = corev1.PodSucceeded, &metav1.Time{}
		}), 0, false},
		"gated": {"it may not be scheduled yet", change(func(p *corev1.Pod) {
			p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "g"}}
		}), 0, false},
		"another's": {
			"it never comes to this scheduler",
			change(func(p *corev1.Pod) { p.Spec.SchedulerName = "other" }),
			0,
			false,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			m, ok := newDesk().member(gang.Gang{}, c.pod)
			if ok != c.ok || m.State != c.state {
				t.Errorf("%s: got %v %v, want %v %v", c.why, m.State, ok, c.state, c.ok)
			}
		})
	}
}

// What makes the next pod only when the one before it runs is not waited for.
func TestMembersMadeOneByOne(t *testing.T) {
	owner := func(kind string, controls bool) metav1.OwnerReference {
		return metav1.OwnerReference{Kind: kind, Name: "o", Controller: &controls}
	}
	for name, c := range map[string]struct {
		owners []metav1.OwnerReference
		want   bool
	}{
		"StatefulSet":            {[]metav1.OwnerReference{owner("StatefulSet", true)}, true},
		"Job":                    {[]metav1.OwnerReference{owner("Job", true)}, false},
		"of no controller":       {nil, false},
		"StatefulSet only named": {[]metav1.OwnerReference{owner("StatefulSet", false), owner("Job", true)}, false},
	} {
		p := pod("ns", "p", 0)
		p.OwnerReferences = c.owners
		if m, _ := newDesk().member(gang.Gang{}, p); m.OneByOne != c.want {
			t.Errorf("%s: one by one is %v, want %v", name, m.OneByOne, c.want)
		}
	}
	early := pod("ns", "p", 0)
	metav1.SetMetaDataAnnotation(&early.ObjectMeta, kueue.PodGroupFastAdmissionAnnotation, "true")
	if m, _ := newDesk().member(gang.Gang{}, early); !m.OneByOne {
		t.Error("a pod of a group that was admitted with its first pod waits for the last")
	}
}
