package scheduler

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mlbatch/mlbatch/internal/kube/gang"
)

// Pods lists the pods of a gang as the API server last told, finished ones too.
type Pods interface {
	OfGang(gang.Key) []*corev1.Pod
}

// Gangs describes gangs; ok is false while nothing is known of one.
type Gangs interface {
	Gang(gang.Key) (g gang.Gang, ok bool)
}

// Reservations are what this process has decided and not yet seen in the API: nodes
// reserved for pods, and the assignments of gangs that are about to start. All else
// is read from Pods and Gangs whenever it is needed.
type Reservations struct {
	pods  Pods
	gangs Gangs
	now   func() time.Time
	// names are the scheduler names that this process answers. It cannot start
	// a gang whose pods are another's to place.
	names []string

	// resumed is what an earlier process left unfinished.
	resumed resumption

	mu sync.Mutex
	// runs has an entry for a gang only while it has nodes or a refusal.
	runs map[gang.Key]*run
}

// run is what one gang has been given.
type run struct {
	// reserved are nodes given to pods that the API does not show there yet.
	reserved map[types.UID]string
	// try is the attempt to start the gang together, nil when there is none.
	try *try
	// decided is set once the gang was let go; its reservations then count as
	// bound.
	decided bool
	// refusal says why the last attempt did not start. Only the
	// leader pod tries again; the others repeat what it was told.
	refusal   string
	leaderPod types.UID
	// disputed is since when planned nodes refuse it by rules that the engine does not know.
	disputed time.Time
	// unbindable are the pods that the API server refused to bind to their nodes.
	unbindable map[types.UID]unbindable
}

// unbindable is since when a pod may not be bound to its node.
type unbindable struct {
	node  string
	since time.Time
}

// try is one attempt to start a gang. Invariant: assignments never changes after the
// attempt began, and every waiting pod has an assignment.
type try struct {
	assignments map[types.UID]assignment
	waiting     map[types.UID]bool
	// deadline is when held nodes are given back.
	deadline time.Time
}

// assignment is the node that the dry run found for a pod.
type assignment struct {
	pod  *corev1.Pod
	node string
}

// NewReservations returns none yet.
func NewReservations(pods Pods, gangs Gangs, names []string, now func() time.Time) *Reservations {
	return &Reservations{pods: pods, gangs: gangs, names: names, now: now, runs: map[gang.Key]*run{}}
}

// view is one look at a gang: what it is, its members, and what is to be done
// with the pods that wait. Member i is pod i.
type view struct {
	gang     gang.Gang
	members  []gang.Member
	pods     []*corev1.Pod
	decision gang.Decision
}

// look reads the current state of a gang.
func (b *Reservations) look(k gang.Key) view {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lookLocked(k)
}

// ends says why no pod of a gang may get a node any more, "" while they may. Binding takes its time,
// and what the gang was admitted with may be given back meanwhile.
func (b *Reservations) ends(k gang.Key) string {
	g, ok := b.gangs.Gang(k)
	switch {
	case !ok:
		return k.String() + " does not exist any more"
	case g.Ends != "":
		return k.String() + " " + g.Ends
	}
	return ""
}

func (b *Reservations) lookLocked(k gang.Key) view {
	g, ok := b.gangs.Gang(k)
	if !ok {
		return view{decision: gang.Decision{Act: gang.Hold, Why: k.String() + " does not exist yet"}}
	}
	pods := b.pods.OfGang(k)
	v := view{gang: g, pods: make([]*corev1.Pod, 0, len(pods)), members: make([]gang.Member, 0, len(pods))}
	r := b.runs[k]
	for _, p := range pods {
		if m, ok := b.member(g, p); ok {
			if r != nil {
				r.overlay(&m)
			}
			v.members = append(v.members, m)
			v.pods = append(v.pods, p)
		}
	}
	v.decision = gang.Decide(g, v.members)
	return v
}

// overlay puts the node reserved for a member over what the API shows.
func (r *run) overlay(m *gang.Member) {
	node, ok := r.reserved[m.UID]
	switch {
	case !ok:
	case m.State != gang.Pending:
		delete(r.reserved, m.UID)
	case r.decided:
		m.Node, m.State = node, gang.Bound
	default:
		m.Node, m.State = node, gang.Reserved
	}
}

// member reads a pod; ok is false for pods that hold nothing and will not, and for
// pods that are not ours to schedule.
func (b *Reservations) member(g gang.Gang, p *corev1.Pod) (m gang.Member, ok bool) {
	m, ok = gang.Read(g, p)
	if m.State == gang.Pending &&
		(len(p.Spec.SchedulingGates) > 0 || awaitsClaims(p) || !slices.Contains(b.names, p.Spec.SchedulerName)) {
		return gang.Member{}, false
	}
	return m, ok
}

// awaitsClaims reports whether claims of a pod are to be made from templates and were not yet: no node would
// do for it, and nothing wakes a gang that was refused for that.
func awaitsClaims(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Spec.ResourceClaims, func(c corev1.PodResourceClaim) bool {
		return c.ResourceClaimTemplateName != nil && !slices.ContainsFunc(
			p.Status.ResourceClaimStatuses,
			func(s corev1.PodResourceClaimStatus) bool { return s.Name == c.Name },
		)
	})
}

// pending lists the pods of a gang that wait for a node.
func (v view) pending() map[string]*corev1.Pod {
	out := map[string]*corev1.Pod{}
	for i, m := range v.members {
		if m.State == gang.Pending {
			out[m.Name] = v.pods[i]
		}
	}
	return out
}

// quorum picks the pods that start together, see the function quorum.
func (v view) quorum(first types.UID) []*corev1.Pod {
	byUID := make(map[types.UID]*corev1.Pod, len(v.pods))
	for _, p := range v.pods {
		byUID[p.UID] = p
	}
	ordered := slices.SortedFunc(slices.Values(v.members), gang.ByRank)
	var out []*corev1.Pod
	for _, m := range gang.Quorum(v.gang, ordered, first) {
		out = append(out, byUID[m.UID])
	}
	return out
}

func (b *Reservations) run(k gang.Key) *run {
	r := b.runs[k]
	if r == nil {
		r = &run{reserved: map[types.UID]string{}}
		b.runs[k] = r
	}
	return r
}

// dropIdle drops a run that has neither nodes nor a refusal.
func (b *Reservations) dropIdle(k gang.Key) {
	if r := b.runs[k]; r != nil && len(r.reserved) == 0 && r.try == nil && r.refusal == "" &&
		len(r.unbindable) == 0 {
		delete(b.runs, k)
	}
}

// assignmentOf answers a pod that starts together with its gang: the node it was
// assigned, or why not; neither if the gang is to be tried now, with this
// pod as its leader pod.
func (b *Reservations) assignmentOf(k gang.Key, uid types.UID) (node, refusal string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.runs[k]
	if r == nil {
		return "", ""
	}
	if r.try != nil {
		if s, ok := r.try.assignments[uid]; ok {
			return s.node, ""
		}
		return "", k.String() + " is starting; this pod is not among the first and follows"
	}
	if r.refusal != "" && r.leaderPod != uid {
		return "", r.refusal
	}
	return "", ""
}

// isLeaderPod tells whether it is for this pod to try again: always, unless another
// pod of its gang was refused for all of them.
func (b *Reservations) isLeaderPod(k gang.Key, uid types.UID) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.runs[k]
	return r == nil || r.refusal == "" || r.leaderPod == uid
}

// begin starts an attempt with the assignments of a dry run.
func (b *Reservations) begin(g gang.Gang, assignments map[types.UID]assignment) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.run(g.Key)
	r.refusal, r.leaderPod, r.decided = "", "", false
	r.try = &try{assignments: assignments, waiting: map[types.UID]bool{}, deadline: b.now().Add(g.Wait)}
}

// refuse remembers why a gang did not start and which pod will try again. One that went while it
// was tried, and of which forget was told before, would never do so, and nobody else either.
func (b *Reservations) refuse(k gang.Key, leaderPod types.UID, why string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !slices.ContainsFunc(
		b.pods.OfGang(k),
		func(p *corev1.Pod) bool { return p.UID == leaderPod && p.DeletionTimestamp == nil },
	) {
		return
	}
	r := b.run(k)
	r.refusal, r.leaderPod = why, leaderPod
}

// companions lists the assignments of a gang but one that are not reserved yet.
func (b *Reservations) companions(k gang.Key, but types.UID) []assignment {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.runs[k]
	if r == nil || r.try == nil {
		return nil
	}
	var out []assignment
	for uid, s := range r.try.assignments {
		if _, done := r.reserved[uid]; !done && uid != but {
			out = append(out, s)
		}
	}
	return byUID(out)
}

// byUID sorts assignments, so that what is done with them does not depend on chance.
func byUID(s []assignment) []assignment {
	slices.SortFunc(
		s,
		func(x, y assignment) int { return strings.Compare(string(x.pod.UID), string(y.pod.UID)) },
	)
	return s
}

// assignedElsewhere lists the assignments of other gangs that are not reserved yet:
// room that a dry run must leave alone.
func (b *Reservations) assignedElsewhere(but gang.Key) []assignment {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []assignment
	for k, r := range b.runs {
		if k == but || r.try == nil {
			continue
		}
		for uid, s := range r.try.assignments {
			if _, done := r.reserved[uid]; !done {
				out = append(out, s)
			}
		}
	}
	return byUID(out)
}

// reserve notes that a pod got a node in this process.
func (b *Reservations) reserve(k gang.Key, uid types.UID, node string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.run(k).reserved[uid] = node
}

// ticket is the answer to a pod that has reserved its node.
type ticket struct {
	// wait is how long to wait for the rest of the gang; 0 lets the pod go.
	wait time.Duration
	// first is set for the pod that opens the attempt.
	first bool
	// release are the waiting pods that go now, too.
	release []types.UID
	// late is set when the attempt has come too close to its deadline: waiting
	// pods may be giving up right now, and letting go would split the gang.
	late bool
}

// lateMargin is the time before the deadline in which no gang is let go.
const lateMargin = 500 * time.Millisecond

// arrive says what a pod with a reserved node does next. stillWaiting tells
// whether a pod that was told to wait does so.
func (b *Reservations) arrive(k gang.Key, uid types.UID, stillWaiting func(types.UID) bool) ticket {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.run(k)
	t := r.try
	if t == nil {
		return ticket{}
	}
	if _, ok := t.assignments[uid]; !ok {
		return ticket{}
	}
	left := t.deadline.Sub(b.now())
	for other := range t.assignments {
		if _, ok := r.reserved[other]; !ok {
			first := len(t.waiting) == 0
			t.waiting[uid] = true
			return ticket{wait: max(left, lateMargin), first: first}
		}
	}
	release := slices.Sorted(maps.Keys(t.waiting))
	gone := slices.ContainsFunc(release, func(u types.UID) bool { return !stillWaiting(u) })
	if gone || (len(release) > 0 && left < lateMargin) {
		return ticket{late: true}
	}
	r.try, r.decided = nil, true
	return ticket{release: release}
}

// abandon ends the attempt of a gang, if there is one that is not decided, and
// returns the pods that wait in it, so that the caller can send them back.
// began tells whether there was an attempt.
func (b *Reservations) abandon(k gang.Key) (waiting []types.UID, began bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.runs[k]
	if r == nil || r.try == nil {
		return nil, false
	}
	waiting = slices.Sorted(maps.Keys(r.try.waiting))
	r.try = nil
	b.dropIdle(k)
	return waiting, true
}

// inTry tells whether a pod has an assignment in an attempt that is not decided.
func (b *Reservations) inTry(k gang.Key, uid types.UID) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.runs[k]
	if r == nil || r.try == nil {
		return false
	}
	_, ok := r.try.assignments[uid]
	return ok
}

// binds tells whether a pod was let go to the node reserved for it.
func (b *Reservations) binds(k gang.Key, uid types.UID) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.runs[k]
	if r == nil {
		return false
	}
	if _, reserved := r.reserved[uid]; !reserved {
		return false
	}
	if r.try == nil {
		return true
	}
	_, waits := r.try.assignments[uid]
	return !waits
}

// release forgets the node reserved for a pod that failed to bind. empty tells
// that a gang which was not let go holds no node any more, so that it may be
// tried again.
func (b *Reservations) release(k gang.Key, uid types.UID) (empty bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.releaseLocked(k, uid)
}

func (b *Reservations) releaseLocked(k gang.Key, uid types.UID) (empty bool) {
	r := b.runs[k]
	if r == nil {
		return false
	}
	_, had := r.reserved[uid]
	delete(r.reserved, uid)
	empty = had && len(r.reserved) == 0 && !r.decided
	if len(r.reserved) == 0 {
		r.decided = false
	}
	b.dropIdle(k)
	return empty
}

// forget drops the node reserved for a pod that is bound or gone. If it was the
// leader pod, another one becomes it.
func (b *Reservations) forget(k gang.Key, uid types.UID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if r := b.runs[k]; r != nil {
		delete(r.unbindable, uid)
		if r.leaderPod == uid {
			r.refusal, r.leaderPod = "", ""
		}
	}
	b.releaseLocked(k, uid)
}

// refused tells whether the pods of a gang that wait were refused.
func (b *Reservations) refused(k gang.Key) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.runs[k]
	return r != nil && r.refusal != ""
}

// clearRejection forgets a refusal: something has changed that concerns the gang.
func (b *Reservations) clearRejection(k gang.Key) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if r := b.runs[k]; r != nil {
		r.refusal, r.leaderPod = "", ""
		b.dropIdle(k)
	}
}
