package leaderelection

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
)

// AnnouncedAnnotation of the Lease lists what its holder is about to write, one name a
// line.
const AnnouncedAnnotation = "mlbatch.dev/announced"

// The times that are good where the API server answers within a second. Why these:
// docs/high-availability.md.
const (
	DefaultDuration = 4 * time.Second
	DefaultRetry    = time.Second
)

// Errors of those who write.
var (
	// ErrLost says that another process leads.
	ErrLost = errors.New("another process leads now")
	// ErrUnsure says that another process may lead: the Lease could not be renewed
	// in time. It may be tried again.
	ErrUnsure = errors.New("the lease could not be renewed in time, and another process may lead")
)

// Leases are the Leases of a namespace. Update must fail with a conflict if the object is
// not of the version that is sent.
type Leases interface {
	Get(ctx context.Context, name string, o metav1.GetOptions) (*coordinationv1.Lease, error)
	Create(ctx context.Context, l *coordinationv1.Lease, o metav1.CreateOptions) (*coordinationv1.Lease, error)
	Update(ctx context.Context, l *coordinationv1.Lease, o metav1.UpdateOptions) (*coordinationv1.Lease, error)
	Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error)
}

// Options are what a candidate works with.
type Options struct {
	Leases Leases
	// Namespace and Name are those of the Lease, Identity is of this process alone.
	Namespace, Name, Identity string
	// Duration is how long others wait for a holder that does not renew, in whole
	// seconds; Retry is the pause between renewals. Margin is how long before the end
	// of the duration the holder begins no write any more; 0 is a quarter of it.
	Duration, Retry, Margin time.Duration
	Clock                   clock.WithTicker
	// Ready is closed when the process could lead. Until then it watches the Lease and leaves
	// it alone, so that it has waited for a silent holder while it prepared itself. nil
	// is at once.
	Ready <-chan struct{}
}

// Candidate is a process that wants to lead. Run does the work.
type Candidate struct {
	opts Options
	won  chan struct{}
	// stands is closed when the process stands by.
	stands     chan struct{}
	standsOnce sync.Once

	// mu guards what follows.
	mu   sync.Mutex
	term int32
	// until is when the process has to be silent, unless it renews before.
	until time.Time
	lost  bool
	// announced are the names in the Lease, or on the way there; inherited are those of
	// processes that led before.
	announced map[string]*writes
	inherited []string
	// asked and stored count announcements: the stored ones of those asked for are in
	// the Lease.
	asked, stored uint64
	// news is closed whenever stored or lost changes.
	news chan struct{}
	// wanted is readable when there is something to announce.
	wanted chan struct{}
}

// writes are those of one name.
type writes struct {
	// under is how many are under way. unknown is true if it is not known of one what
	// became: it may still be stored, as long as the object is as it was.
	under   int
	unknown bool
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

// mostAnnounced keeps the Lease small.
const mostAnnounced = 1000

// New returns a candidate.
func New(o Options) *Candidate {
	if o.Duration == 0 {
		o.Duration = DefaultDuration
	}
	if o.Retry == 0 {
		o.Retry = DefaultRetry
	}
	if o.Margin == 0 {
		o.Margin = o.Duration / 4
	}
	if o.Ready == nil {
		at := make(chan struct{})
		close(at)
		o.Ready = at
	}
	return &Candidate{
		opts:      o,
		won:       make(chan struct{}),
		stands:    make(chan struct{}),
		announced: map[string]*writes{},
		news:      make(chan struct{}),
		wanted:    make(chan struct{}, 1),
	}
}

// Won is closed when the process leads.
func (c *Candidate) Won() <-chan struct{} { return c.won }

// StandsBy is closed when the process could lead and does not, as another one does, or as the Lease cannot
// be read or taken.
func (c *Candidate) StandsBy() <-chan struct{} { return c.stands }

// Term counts the processes that have led; 0 before this one does.
func (c *Candidate) Term() int32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.term
}

// Valid says whether a write may be sent: nil, ErrUnsure or ErrLost.
func (c *Candidate) Valid() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.lost:
		return ErrLost
	case !c.opts.Clock.Now().Before(c.until):
		return ErrUnsure
	}
	return nil
}

// Inherited are the names that those who led before had announced, and of which it is
// not known what became. They stay announced until Settled.
func (c *Candidate) Inherited() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.inherited)
}

// Settled forgets what was inherited: no write that was announced before this process
// led can succeed any more.
func (c *Candidate) Settled() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inherited = nil
}

// Announce returns once name is in the Lease, by a write that began after the call. The
// object must have been read before, and be written on condition of that version. done is
// to be called with what became of the write.
func (c *Candidate) Announce(ctx context.Context, name string) (done func(WriteResult), err error) {
	c.mu.Lock()
	if len(c.announced) >= mostAnnounced && c.announced[name] == nil {
		c.mu.Unlock()
		return nil, fmt.Errorf(
			"of %d writes it is not known what became: wait until the API server answers",
			mostAnnounced,
		)
	}
	if c.announced[name] == nil {
		c.announced[name] = &writes{}
	}
	c.announced[name].under++
	c.asked++
	mine := c.asked
	c.mu.Unlock()
	done = func(o WriteResult) { c.done(name, o) }
	select {
	case c.wanted <- struct{}{}:
	default:
	}
	for {
		c.mu.Lock()
		stored, lost, news := c.stored >= mine, c.lost, c.news
		c.mu.Unlock()
		switch {
		case lost:
			err = ErrLost
		case stored:
			err = c.Valid() // it may have been stopped since
		default:
			select {
			case <-news:
				continue
			case <-ctx.Done():
				err = ctx.Err()
			}
		}
		if err != nil {
			done(Refused) // nothing was sent
			return nil, err
		}
		return done, nil
	}
}

// done ends one write of a name.
func (c *Candidate) done(name string, o WriteResult) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.announced[name]
	if w == nil {
		return // its object is gone
	}
	w.under = max(w.under-1, 0)
	switch o {
	case Settled:
		w.unknown = false
	case Unknown:
		w.unknown = true
	case Refused:
	}
	if w.under == 0 && !w.unknown {
		delete(c.announced, name)
	}
}

// Gone forgets a name whose object is gone, or was made anew: writes to the old one
// fail.
func (c *Candidate) Gone(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if w := c.announced[name]; w != nil && w.under == 0 {
		delete(c.announced, name)
	}
}

// Run wants to lead until it does, and leads until the context ends or another process
// does, which is ErrLost. It does not give the Lease back: see Release.
func (c *Candidate) Run(ctx context.Context) error {
	lease, err := c.campaign(ctx)
	if err != nil {
		return nil //nolint:nilerr // it was told to end before it led
	}
	klog.FromContext(ctx).
		Info(
			"Leads",
			"lease",
			klog.KRef(c.opts.Namespace, c.opts.Name),
			"term",
			c.Term(),
			"inherited",
			len(c.Inherited()),
		)
	close(c.won)
	return c.hold(ctx, lease)
}

// campaign returns the Lease once it is ours, or the context's error.
func (c *Candidate) campaign(ctx context.Context) (*coordinationv1.Lease, error) {
	var since time.Time
	version := "" // of the Lease, as it has been since
	ready := c.opts.Ready
	for ctx.Err() == nil {
		select {
		case <-ready:
			ready = nil
		default:
		}
		seen, err := c.read(ctx)
		changed := false
		switch {
		case apierrors.IsNotFound(err):
			if ready == nil {
				if lease, ok := c.take(ctx, nil); ok {
					return lease, nil
				}
			}
		case err == nil:
			if seen.ResourceVersion != version {
				version, since = seen.ResourceVersion, c.opts.Clock.Now()
			}
			if ready == nil && c.left(seen, since) > 0 {
				c.standBy()
			}
			var silent bool
			if silent, changed = c.await(ctx, seen, since, ready); silent && ready == nil {
				if lease, ok := c.take(ctx, seen); ok {
					return lease, nil
				}
			}
		}
		if ready == nil {
			c.standBy() // it could not lead, whoever does
		}
		if changed {
			continue
		}
		select {
		case <-ctx.Done():
		case <-ready:
		case <-c.opts.Clock.After(c.opts.Retry / 4):
		}
	}
	return nil, ctx.Err()
}

func (c *Candidate) standBy() { c.standsOnce.Do(func() { close(c.stands) }) }

// read reads the Lease, or fails in time.
func (c *Candidate) read(ctx context.Context) (*coordinationv1.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, c.patience())
	defer cancel()
	return c.opts.Leases.Get(ctx, c.opts.Name, metav1.GetOptions{})
}

// patience bounds a request.
func (c *Candidate) patience() time.Duration { return max(c.opts.Duration/2, time.Second) }

// await watches a Lease that has been as it was read since then, and returns with silent when
// it may be taken as it is: nobody holds it, or its holder was silent for as long as it said
// that it may be. Time is taken here: clocks of other machines do not matter. changed is
// true when there is more to see: the Lease is not as it was read, or the process is ready now.
func (c *Candidate) await(
	ctx context.Context,
	seen *coordinationv1.Lease,
	since time.Time,
	ready <-chan struct{},
) (silent, changed bool) {
	left := c.left(seen, since)
	if left <= 0 {
		return true, false
	}
	ctx, cancel := context.WithTimeout(ctx, left)
	defer cancel()
	w, err := c.opts.Leases.Watch(ctx, metav1.ListOptions{
		FieldSelector: "metadata.name=" + c.opts.Name, ResourceVersion: seen.ResourceVersion,
	})
	if err == nil {
		defer w.Stop()
		select {
		case <-ctx.Done():
		case <-ready:
			changed = true
		case e := <-w.ResultChan():
			changed = e.Type == watch.Modified || e.Type == watch.Deleted
		}
	}
	return !changed && c.left(seen, since) <= 0, changed
}

// left is for how long the holder of a Lease, which has been as it is since then, may still be silent;
// none if nobody holds it.
func (c *Candidate) left(seen *coordinationv1.Lease, since time.Time) time.Duration {
	if ptr.Deref(seen.Spec.HolderIdentity, "") == "" {
		return 0
	}
	whole := time.Duration(
		ptr.Deref(
			seen.Spec.LeaseDurationSeconds,
			int32(c.opts.Duration/time.Second), //nolint:gosec // minutes at most
		),
	) * time.Second
	return since.Add(whole).Sub(c.opts.Clock.Now())
}

// take makes the Lease ours, if it is still as it was seen. What is announced in it
// stays.
func (c *Candidate) take(ctx context.Context, seen *coordinationv1.Lease) (*coordinationv1.Lease, bool) {
	now := c.opts.Clock.Now()
	next := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: c.opts.Namespace, Name: c.opts.Name}}
	term := int32(1)
	if seen != nil {
		next = seen.DeepCopy()
		term = ptr.Deref(seen.Spec.LeaseTransitions, 0) + 1
	}
	next.Spec.HolderIdentity = new(c.opts.Identity)
	next.Spec.LeaseDurationSeconds = new(
		int32(c.opts.Duration / time.Second), //nolint:gosec // seconds, not years
	)
	next.Spec.AcquireTime, next.Spec.RenewTime = new(metav1.NewMicroTime(now)), new(metav1.NewMicroTime(now))
	next.Spec.LeaseTransitions = new(term)
	ctx, cancel := context.WithTimeout(ctx, c.patience())
	defer cancel()
	var lease *coordinationv1.Lease
	var err error
	if seen == nil {
		lease, err = c.opts.Leases.Create(ctx, next, metav1.CreateOptions{})
	} else {
		lease, err = c.opts.Leases.Update(ctx, next, metav1.UpdateOptions{})
	}
	if err != nil {
		if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
			klog.FromContext(ctx).V(1).Info("The lease could not be taken", "error", err.Error())
		}
		return nil, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.term, c.until, c.inherited = term, now.Add(c.opts.Duration-c.opts.Margin), parse(lease)
	return lease, true
}

// hold renews the Lease, and stores what is to be announced, until the context ends or the
// Lease is another's.
func (c *Candidate) hold(ctx context.Context, lease *coordinationv1.Lease) error {
	pause := c.opts.Clock.NewTimer(c.opts.Retry)
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.wanted:
		case <-pause.C():
		}
		next, err := c.renew(ctx, lease)
		if errors.Is(err, ErrLost) {
			c.end()
			return ErrLost
		}
		wait := c.opts.Retry
		if err != nil {
			klog.FromContext(ctx).V(1).Info("The lease could not be renewed", "error", err.Error())
			wait = c.opts.Retry / 4
		} else {
			lease = next
		}
		pause.Stop()
		pause = c.opts.Clock.NewTimer(wait)
	}
}

// renew stores the Lease once more, with all that is announced now.
func (c *Candidate) renew(ctx context.Context, lease *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, c.patience())
	defer cancel()
	for {
		next := lease.DeepCopy()
		now := c.opts.Clock.Now()
		c.mu.Lock()
		storing := c.asked
		enter(next, c.inherited, c.announced)
		c.mu.Unlock()
		next.Spec.RenewTime = new(metav1.NewMicroTime(now))
		stored, err := c.opts.Leases.Update(ctx, next, metav1.UpdateOptions{})
		if err == nil {
			c.mu.Lock()
			c.until = now.Add(c.opts.Duration - c.opts.Margin)
			c.stored = max(c.stored, storing)
			c.tell()
			c.mu.Unlock()
			return stored, nil
		}
		if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			return nil, err
		}
		// Somebody else wrote it, or an answer to us got lost.
		lease, err = c.opts.Leases.Get(ctx, c.opts.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return nil, ErrLost // who makes it anew does not know what is announced
		case err != nil:
			return nil, err
		case ptr.Deref(lease.Spec.HolderIdentity, "") != c.opts.Identity || ptr.Deref(lease.Spec.LeaseTransitions, 0) != c.Term():
			return nil, ErrLost
		}
	}
}

func (c *Candidate) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lost = true
	c.tell()
}

// tell wakes those who wait for an announcement. The lock must be held.
func (c *Candidate) tell() {
	close(c.news)
	c.news = make(chan struct{})
}

// Release gives the Lease back, so that another process leads at once. Nothing that needs
// the lead may run any more; what is still announced is left to the successor.
func (c *Candidate) Release(ctx context.Context) error {
	c.mu.Lock()
	leads := c.term > 0 && !c.lost
	c.until = time.Time{}
	c.mu.Unlock()
	if !leads {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, c.patience())
	defer cancel()
	for {
		lease, err := c.opts.Leases.Get(ctx, c.opts.Name, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("read lease %s to give it back: %w", c.opts.Name, err)
		}
		if ptr.Deref(lease.Spec.HolderIdentity, "") != c.opts.Identity {
			return nil
		}
		c.mu.Lock()
		enter(lease, c.inherited, c.announced)
		c.lost = true
		c.tell()
		c.mu.Unlock()
		lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds = new(""), new(int32(1))
		lease.Spec.RenewTime = new(metav1.NewMicroTime(c.opts.Clock.Now()))
		_, err = c.opts.Leases.Update(ctx, lease, metav1.UpdateOptions{})
		if !apierrors.IsConflict(err) {
			return err
		}
	}
}

// enter writes names into a Lease.
func enter(l *coordinationv1.Lease, inherited []string, announced map[string]*writes) {
	names := append(slices.Clone(inherited), slices.Collect(maps.Keys(announced))...)
	slices.Sort(names)
	names = slices.Compact(names)
	if len(names) == 0 {
		delete(l.Annotations, AnnouncedAnnotation)
		return
	}
	if l.Annotations == nil {
		l.Annotations = map[string]string{}
	}
	l.Annotations[AnnouncedAnnotation] = strings.Join(names, "\n")
}

// parse reads the names in a Lease.
func parse(l *coordinationv1.Lease) []string {
	return slices.DeleteFunc(
		strings.Split(l.Annotations[AnnouncedAnnotation], "\n"),
		func(s string) bool { return s == "" },
	)
}
