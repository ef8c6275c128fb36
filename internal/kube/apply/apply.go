// Package apply carries out the engine's plans: one status write per Workload
// and decision, in parallel over workloads and in order for each of them. A
// write that the API server refuses for good is reported back, so that the
// engine takes the decision back; a write that fails for a passing reason is
// tried again. Doing a decision twice changes nothing.
package apply

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/kube/fairqueue"
	"github.com/mlbatch/mlbatch/internal/kube/workloadlifecycle"
	"github.com/mlbatch/mlbatch/internal/kube/workloadstatus"
)

// refusalPause is the least time between two status writes that only change
// the words of why a workload waits. A change of the reason itself is written
// at once, but see passing.
const refusalPause = 5 * time.Second

// passing is how long a workload that was told why it waits has to wait for others
// to leave before it is told that too: mostly it starts before.
const passing = 2 * time.Second

// forbiddenTries is how often a decision is written before the answer that it
// is forbidden counts: an API server that was just started knows no rights for
// a moment. With the growing pauses between them these are about five seconds.
const forbiddenTries = 8

// Options are what an Applier works with.
type Options struct {
	// Client reads from the cache and writes to the API server.
	Client client.Client
	Clock  clock.Clock
	// Refused is called when a decision cannot be carried out. why says what is wrong
	// with an admission that the API server would never take; "" if it may be
	// decided again.
	Refused func(k core.Key, why string)
	// Done is called after a decision was written to a Workload; for a Refuse,
	// only if the code of the reason changed, and not many others wait to be
	// told: thousands of events that repeat conditions are not read. An evicted
	// workload still shows the admission that it lost.
	Done func(context.Context, core.Decision, *kueue.Workload)
	// Pods counts the unfinished pods of a workload that are known. A workload that is
	// evicted, belongs to no job and has none gives its quota back in the same write;
	// nil leaves that to the controller that sees it evicted.
	Pods func(context.Context, core.Key) (int, error)
	// Yields says for how long the reason why an evicted workload waits yields still, which was known at some time; 0
	// if it is to be told. Nil never has it yield.
	Yields func(since time.Time) time.Duration
	// Sentence prints a reason for people.
	Sentence func(core.Reason) string
	// Lifecycle are the settings of what follows a reservation.
	Lifecycle workloadlifecycle.Config
	// Workers is how many workloads are written at the same time.
	Workers int
	// Lead announces what is about to be written, so that a process that decides after this
	// one can keep it from being written any more; nil if no other does.
	Lead Lead
}

// Lead is what a process needs that decides for as long as no other one does.
type Lead interface {
	// Announce returns once a successor would see the name. The object that is written must have
	// been read before.
	Announce(ctx context.Context, name string) (done func(WriteResult), err error)
	// Gone forgets a name whose object is gone.
	Gone(name string)
}

// Applier writes plans to the API server. Run must be running for Plan to have
// any effect.
type Applier struct {
	opts Options

	mu      sync.Mutex
	pending map[core.Key]*pending
	untold  throttle

	// urgent has decisions to carry out, in the order of their rank; lazy has
	// reasons to tell.
	urgent workqueue.TypedRateLimitingInterface[core.Key]
	lazy   workqueue.TypedRateLimitingInterface[core.Key]
}

// pending is what has still to be written to one workload: decisions in order,
// and the newest reason if it waits.
type pending struct {
	decisions []core.Decision
	// rank says how soon they are written: evictions before all else, since others
	// wait for the room, and then by priority.
	rank   int64
	refuse *core.Refuse
	// waits is the code of the newest reason, and since is when it came to be that.
	waits core.Code
	since time.Time
	// queue is its LocalQueue when it was last refused.
	queue core.Key
	// podSets are what it asks for, told together with the reason.
	podSets []core.PodSet
	// said is when a reason was last written, and which.
	said time.Time
	code core.Code
	// latest is the object as last written here, until the cache shows it: a
	// decision that follows at once must build on it.
	latest *kueue.Workload
	// relocating are the workloads that are not evicted before this one's decisions are written.
	relocating []core.Key
}

// WriteResult is what became of an announced write.
type WriteResult int

// The outcomes.
const (
	// Settled says that the object is not as it was read: neither this write nor an
	// earlier one can be stored any more.
	Settled WriteResult = iota
	// Refused says that this write was not stored.
	Refused
	// Unknown says that there was no answer.
	Unknown
)

// New returns an Applier.
func New(opts Options) *Applier {
	limiter := func() workqueue.TypedRateLimiter[core.Key] {
		return workqueue.NewTypedItemExponentialFailureRateLimiter[core.Key](20*time.Millisecond, 5*time.Second)
	}
	a := &Applier{opts: opts, pending: map[core.Key]*pending{}, untold: throttle{of: map[core.Key]int{}}}
	a.urgent = fairqueue.NewQueue("", limiter(), &ranking{rank: a.rank})
	// Decisions are written in the order of the engine, which knows what comes first;
	// for reasons to wait, namespaces take turns.
	a.lazy = fairqueue.NewQueue("", limiter(), fairqueue.New(func(k core.Key) string { return k.Namespace }))
	return a
}

// Plan queues the decisions of a plan. workload tells of each what the engine was
// told; it is called before Plan returns.
func (a *Applier) Plan(plan core.Plan, workload func(core.Key) core.Workload) {
	for _, k := range a.take(plan, workload) {
		a.urgent.Add(k)
	}
}

// take notes what a plan decides and returns the workloads to write at once.
func (a *Applier) take(plan core.Plan, workload func(core.Key) core.Workload) []core.Key {
	a.mu.Lock()
	defer a.mu.Unlock()
	var urgent []core.Key
	push := func(k core.Key, d core.Decision, rank int64) {
		a.push(k, d, rank)
		urgent = append(urgent, k)
	}
	for _, d := range plan {
		switch d := d.(type) {
		case core.Refuse:
			w, p := workload(d.Key), a.of(d.Key)
			a.tell(p, nil)
			p.queue, p.podSets = core.Key{Namespace: d.Key.Namespace, Name: w.Queue}, w.PodSets
			if len(p.relocating) > 0 { // since it evicts them in this plan
				push(d.Key, d, math.MaxInt64)
				continue
			}
			a.tell(p, &d)
			a.lazy.AddAfter(d.Key, a.patience(p, d))
		case core.Admit:
			push(d.Key, d, workload(d.Key).Priority)
		case core.Replace:
			push(d.Key, d, workload(d.Key).Priority)
		case core.Evict:
			push(d.Key, d, math.MaxInt64)
			if d.Next != nil {
				p := a.of(d.For)
				p.relocating = append(p.relocating, d.Key)
			}
		}
	}
	return urgent
}

// relocations are those that had to wait until what is held for this one was written, and wait no more.
func (p *pending) relocations() []core.Key {
	if p == nil {
		return nil
	}
	free := p.relocating
	p.relocating = nil
	return free
}

// evict has workloads looked at again whose evictions may be written now. It takes a.mu to rank them.
func (a *Applier) evict(list []core.Key) {
	for _, k := range list {
		a.urgent.Add(k)
	}
}

// Forget drops what is kept of a workload that is gone.
func (a *Applier) Forget(k core.Key) {
	a.mu.Lock()
	p := a.pending[k]
	if p != nil {
		a.tell(p, nil)
	}
	delete(a.pending, k)
	free := p.relocations()
	a.mu.Unlock()
	a.evict(free)
	if a.opts.Lead != nil {
		a.opts.Lead.Gone(k.String())
	}
}

// Run writes until the context ends.
func (a *Applier) Run(ctx context.Context) {
	var wg sync.WaitGroup
	for range a.opts.Workers {
		wg.Go(func() { a.work(ctx, a.urgent, a.decide) })
	}
	for range max(a.opts.Workers/4, 1) {
		wg.Go(func() { a.work(ctx, a.lazy, a.refuse) })
	}
	<-ctx.Done()
	a.urgent.ShutDown()
	a.lazy.ShutDown()
	wg.Wait()
}

func (a *Applier) of(k core.Key) *pending {
	p := a.pending[k]
	if p == nil {
		p = &pending{}
		a.pending[k] = p
	}
	return p
}

func (a *Applier) push(k core.Key, d core.Decision, rank int64) {
	p := a.of(k)
	p.decisions = append(p.decisions, d)
	p.rank, p.waits = rank, ""
	a.tell(p, nil)
}

func (a *Applier) rank(k core.Key) int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	if p := a.pending[k]; p != nil {
		return p.rank
	}
	return 0
}

// tell notes the reason to write next; nil if there is none any more.
func (a *Applier) tell(p *pending, d *core.Refuse) {
	if (p.refuse == nil) != (d == nil) {
		if d == nil {
			a.untold.add(p.queue, -1)
		} else {
			a.untold.add(p.queue, 1)
		}
	}
	if d != nil && p.waits != d.Why.Code {
		p.waits, p.since = d.Why.Code, a.opts.Clock.Now()
	}
	p.refuse = d
}

// patience keeps reasons that hold for a moment only, or that say the same in
// other words, from costing a write each.
func (a *Applier) patience(p *pending, d core.Refuse) time.Duration {
	return max(a.untold.wait(p.queue), a.unripe(p, d))
}

// unripe is how long a reason is not worth a write yet, after the one that was told
// before; at most 0 if it is.
func (a *Applier) unripe(p *pending, d core.Refuse) time.Duration {
	now := a.opts.Clock.Now()
	switch {
	case p.code == d.Why.Code:
		return p.said.Add(refusalPause).Sub(now)
	case p.code != "" && d.Why.Code == core.WaitingForPreempted:
		return p.since.Add(passing).Sub(now)
	}
	return 0
}

func (a *Applier) work(
	ctx context.Context,
	q workqueue.TypedRateLimitingInterface[core.Key],
	write func(context.Context, core.Key) error,
) {
	for {
		k, stop := q.Get()
		if stop {
			return
		}
		if err := write(ctx, k); err != nil {
			log.FromContext(ctx).
				V(1).
				Info("Status write will be tried again", "workload", k.String(), "error", err.Error())
			q.AddRateLimited(k)
		} else {
			q.Forget(k)
		}
		q.Done(k)
	}
}

// decide writes the decisions of one workload, oldest first.
func (a *Applier) decide(ctx context.Context, k core.Key) error {
	for {
		d := a.next(k)
		if d == nil {
			return nil
		}
		w, done, err := a.write(ctx, k, d)
		why := ""
		if r, never := errors.AsType[*rejectedError](err); never {
			why, err = r.why, nil
		}
		if err == nil && !done && a.unseen(k) {
			// The engine would take back more than was refused, and get it back with
			// the state that is still on its way.
			err = fmt.Errorf("decision about workload %s is refused, but its last one was not seen yet", k)
		}
		if err != nil {
			return err
		}
		if w != nil {
			a.opts.Done(ctx, d, w)
		}
		a.mu.Lock()
		p := a.pending[k]
		if p != nil && len(p.decisions) > 0 {
			p.decisions = p.decisions[1:]
			if why, is := d.(core.Refuse); is {
				p.said, p.code = a.opts.Clock.Now(), why.Why.Code
			}
		}
		if !done { // what follows was decided on top of it
			if p != nil {
				a.tell(p, nil)
			}
			delete(a.pending, k)
		}
		var free []core.Key
		if !done || p != nil && len(p.decisions) == 0 {
			free = p.relocations()
		}
		a.mu.Unlock()
		a.evict(free)
		if !done {
			a.opts.Refused(k, why)
		}
	}
}

func (a *Applier) next(k core.Key) core.Decision {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.pending[k]
	if p == nil || len(p.decisions) == 0 {
		return nil
	}
	if d, is := p.decisions[0].(core.Evict); is && d.Next != nil {
		if of := a.pending[d.For]; of != nil && slices.Contains(of.relocating, k) {
			return nil // what is held for the other comes first: see relocate
		}
	}
	return p.decisions[0]
}

// write carries out one decision and returns the object if that took a write.
// False means that it can never be carried out; an error means that it may work
// later.
func (a *Applier) write(ctx context.Context, k core.Key, d core.Decision) (*kueue.Workload, bool, error) {
	var w kueue.Workload
	if err := a.opts.Client.Get(
		ctx,
		types.NamespacedName{Namespace: k.Namespace, Name: k.Name},
		&w,
	); err != nil {
		if apierrors.IsNotFound(err) {
			a.wrote(k, nil)
			return nil, false, nil
		}
		return nil, false, fmt.Errorf("read workload %s: %w", k, err)
	}
	a.newest(k, &w)
	s := scene{now: a.opts.Clock.Now(), sentence: a.opts.Sentence, lifecycle: a.opts.Lifecycle}
	if admit, is := d.(core.Admit); is {
		// Its checks have to be asked in the write that reserves its quota.
		s.queue = &kueue.ClusterQueue{}
		err := a.opts.Client.Get(
			ctx,
			types.NamespacedName{Name: admit.Admission.Queue},
			s.queue,
			client.UnsafeDisableDeepCopy,
		)
		if apierrors.IsNotFound(err) {
			return nil, false, nil
		}
		if err != nil {
			return nil, false, fmt.Errorf("read the ClusterQueue of workload %s: %w", k, err)
		}
		if n := len(
			workloadlifecycle.Checks(s.queue, convert.StatusAdmission(admit.Admission)),
		); n > kueue.MostAdmissionChecks {
			return nil, false, &rejectedError{
				fmt.Sprintf(
					"with the flavors it could get it has to pass %d admission checks, and a Workload can have %d: let ClusterQueue %s ask fewer",
					n,
					kueue.MostAdmissionChecks,
					s.queue.Name,
				),
			}
		}
	}
	next, ok := status(&w, d, s)
	if !ok {
		return nil, false, nil
	}
	if next == nil {
		return nil, true, nil // it is so already
	}
	lost := w.Status.Admission
	switch d.(type) {
	case core.Refuse:
		next.ResourceRequests = a.asked(k)
	case core.Evict:
		var err error
		if next, err = a.release(ctx, k, &w, next, s.now); err != nil {
			return nil, false, err
		}
	}
	err := a.store(ctx, k, d, &w, *next)
	switch {
	case err == nil:
		a.wrote(k, &w)
		if _, evicts := d.(core.Evict); evicts {
			w.Status.Admission = lost
		}
		return &w, true, nil
	case apierrors.IsNotFound(err):
		a.wrote(k, nil)
		return nil, false, nil
	case apierrors.IsForbidden(err) && a.urgent.NumRequeues(k) < forbiddenTries:
	case apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err):
		log.FromContext(ctx).Error(err, "The API server rejected a decision", "workload", k.String())
		if _, admits := d.(core.Admit); admits && apierrors.IsInvalid(err) {
			return nil, false, &rejectedError{"its admission is not valid: " + err.Error()}
		}
		return nil, false, nil
	}
	return nil, false, fmt.Errorf("write status of workload %s: %w", k, err)
}

// store writes a status. A decision is announced before: it may be about quota, or nodes,
// that another process decides on meanwhile, with other objects. A reason is not, unless
// something is held with it: it holds as long as nothing else is written.
func (a *Applier) store(
	ctx context.Context,
	k core.Key,
	d core.Decision,
	w *kueue.Workload,
	next kueue.WorkloadStatus,
) error {
	why, reason := d.(core.Refuse)
	if a.opts.Lead == nil || reason && why.Next == nil {
		return workloadstatus.Write(ctx, a.opts.Client, w, next)
	}
	done, err := a.opts.Lead.Announce(ctx, k.String())
	if err != nil {
		return err
	}
	err = workloadstatus.Write(ctx, a.opts.Client, w, next)
	done(outcome(err))
	return err
}

// outcome is what the answer to a write says of what is stored.
func outcome(err error) WriteResult {
	switch {
	case err == nil || workloadstatus.Overtaken(err):
		return Settled
	case apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err):
		return Refused
	}
	return Unknown
}

// release adds to the status of an eviction what follows at once where nothing has to
// be stopped: the workload belongs to no job and has no pods. Otherwise it comes
// with the end of the pods.
func (a *Applier) release(
	ctx context.Context,
	k core.Key,
	w *kueue.Workload,
	evicted *kueue.WorkloadStatus,
	now time.Time,
) (*kueue.WorkloadStatus, error) {
	if a.opts.Pods == nil || metav1.GetControllerOf(w) != nil || w.Labels[kueue.JobUIDLabel] != "" ||
		convert.OfGroup(w) {
		return evicted, nil
	}
	n, err := a.opts.Pods(ctx, k)
	if n > 0 || err != nil {
		return evicted, err
	}
	is := &kueue.Workload{ObjectMeta: w.ObjectMeta, Spec: w.Spec, Status: *evicted}
	next, _ := workloadlifecycle.Stopped(is, a.opts.Lifecycle, now)
	return next, nil
}

// rejectedError says why an admission can never be written: deciding it again
// would find the same.
type rejectedError struct{ why string }

func (e *rejectedError) Error() string { return e.why }

// asked is what a waiting workload asks for in total, pod set by pod set.
func (a *Applier) asked(k core.Key) []kueue.PodSetRequest {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.pending[k]
	if p == nil {
		return nil
	}
	out := make([]kueue.PodSetRequest, 0, len(p.podSets))
	for i := range p.podSets {
		ps := &p.podSets[i]
		out = append(out, kueue.PodSetRequest{
			Name: kueue.PodSetReference(ps.Name), Resources: convert.ResourceList(ps.Counted().Times(int64(ps.Count))),
		})
	}
	return out
}

// newest replaces w, as the cache has it, by what was written here since.
func (a *Applier) newest(k core.Key, w *kueue.Workload) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.pending[k]
	if p == nil || p.latest == nil {
		return
	}
	if p.latest.UID == w.UID && convert.Seq(w) < convert.Seq(p.latest) {
		p.latest.DeepCopyInto(w)
		return
	}
	p.latest = nil
}

// wrote notes what was written last; nil if the object is gone.
func (a *Applier) wrote(k core.Key, w *kueue.Workload) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if p := a.pending[k]; p != nil {
		p.latest = w.DeepCopy()
	}
}

// unseen reports whether something was written that the cache does not show yet.
func (a *Applier) unseen(k core.Key) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.pending[k]
	return p != nil && p.latest != nil
}

// yields is for how long the reason of a workload yields, if that was evicted: others are told at once.
func (a *Applier) yields(ctx context.Context, k core.Key, since time.Time) time.Duration {
	if a.opts.Yields == nil {
		return 0
	}
	wait := a.opts.Yields(since)
	if wait <= 0 {
		return 0
	}
	var w kueue.Workload
	name := types.NamespacedName{Namespace: k.Namespace, Name: k.Name}
	if a.opts.Client.Get(ctx, name, &w, client.UnsafeDisableDeepCopy) != nil || !convert.Evicted(&w) {
		return 0
	}
	return wait
}

// refuse writes why one workload waits.
func (a *Applier) refuse(ctx context.Context, k core.Key) error {
	a.mu.Lock()
	p := a.pending[k]
	if p == nil || p.refuse == nil || len(p.decisions) > 0 {
		a.mu.Unlock()
		return nil
	}
	d := *p.refuse
	if wait := a.unripe(p, d); wait > refusalPause/10 {
		a.mu.Unlock()
		a.lazy.AddAfter(k, wait)
		return nil
	}
	since := p.since
	a.mu.Unlock()
	if wait := a.yields(ctx, k, since); wait > 0 {
		a.lazy.AddAfter(k, wait)
		return nil
	}
	a.mu.Lock()
	if p = a.pending[k]; p == nil || p.refuse == nil || len(p.decisions) > 0 {
		a.mu.Unlock()
		return nil
	}
	d = *p.refuse
	a.tell(p, nil)
	a.mu.Unlock()

	w, _, err := a.write(ctx, k, d)
	if err != nil {
		a.mu.Lock()
		if p := a.of(k); p.refuse == nil && len(p.decisions) == 0 {
			a.tell(p, &d)
		}
		a.mu.Unlock()
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if p := a.pending[k]; p != nil {
		if w != nil && p.code != d.Why.Code && !a.untold.silent(p.queue) {
			a.opts.Done(ctx, d, w)
		}
		p.said, p.code = a.opts.Clock.Now(), d.Why.Code
	}
	return nil
}
