package cycle

import (
	"maps"
	"slices"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/order"
	"github.com/mlbatch/mlbatch/internal/engine/quota"
)

// rival is a queue whose workloads could take what a tried change makes free before
// the one that was asked about.
type rival struct {
	queue *queue
	lots  []*lot
	// hopeless surely get nothing as things are; an eviction for another may change that.
	hopeless []*lot
	// shut says that its first cannot be admitted and nobody may pass it.
	shut bool
	// own says that it is the queue of the workload that was asked about, over that
	// this one cannot be admitted any more.
	own, over bool
	// last is a door whose workloads come after those of all others: in queues that go
	// by past usage the end of a workload changes who is first.
	last *door
}

// sooner is the order of a queue's workloads.
func (r *rival) sooner(a, b *work) bool {
	if x, y := a.door == r.last, b.door == r.last; r.last != nil && x != y {
		return y
	}
	return a.Before(b)
}

// lot is workloads of one shape, first to last; refused says that none of them can be
// admitted.
type lot struct {
	head *work
	// rest lists those after the head, once somebody asks; nil for all of group but
	// the head and one who is asked about in another shape.
	rest  []*work
	group *group
	but   *work
	// of is the group that the lot was made of, nil if of none.
	of      *group
	refused bool
	rival   *rival
}

// drop takes the head off a lot.
func (l *lot) drop() {
	if l.group != nil {
		all := slices.SortedFunc(slices.Values(l.group.members.Items()), compareMembers)
		l.rest = slices.DeleteFunc(all, func(x *work) bool { return x == l.head || l.but != nil && x.Key == l.but.Key })
		l.group = nil
	}
	if l.head = nil; len(l.rest) > 0 {
		l.head, l.rest = l.rest[0], l.rest[1:]
	}
}

// first is the next of a queue who was not refused; nil if there is none.
func (r *rival) first() *lot {
	if r.shut {
		return nil
	}
	var best *lot
	for _, l := range r.lots {
		if l.head == nil || l.refused && !r.queue.strict() {
			continue
		}
		if best == nil || r.sooner(l.head, best.head) {
			best = l
		}
	}
	promised := best != nil && r.queue.strict() && slices.ContainsFunc(r.queue.promised, func(p *work) bool { return p.Before(best.head) })
	if best != nil && (best.refused || promised) {
		r.shut = true
		return nil
	}
	return best
}

// most bounds how many others may be given something in one trial.
const mostRivals = 64

// turns is in which order queues have their turn in a trial. The next decision goes by
// how far their first borrow, by shares, and by what it finds out on the way; who
// starts in each of these orders is taken to start in its order, too.
type turns uint8

const (
	byLevel turns = iota
	byPlace
	ownFirst
	othersFirst
	allTurns
)

// starts reports whether a workload would be admitted, or be promised a place, by the
// next decision, after all who come before it have taken what they can. It is asked
// with a change in place, and leaves it there. preempts is how many would have to go.
func (q *question) starts(w *work, in *queue) (preempts int32, ok bool) {
	if q.opt.BlockAdmission && q.company() {
		return 0, false // it may have to wait for the pods of others
	}
	for t := range allTurns {
		var contested bool
		if preempts, contested, ok = q.startsBy(t, w, in); !ok || !contested {
			break
		}
	}
	return preempts, ok
}

// company reports whether others wait too.
func (q *question) company() bool {
	n := 0
	for _, d := range q.doors { // a sum, so order does not matter
		n += d.counts[waiting] + d.counts[promised]
	}
	return n > 1 || len(q.returned) > 0
}

// startsBy is starts with turns in one order; contested says that others took
// something.
func (q *question) startsBy(t turns, w *work, in *queue) (preempts int32, contested, ok bool) {
	defer q.back(q.mark())
	rivals := q.rivals(w, in)
	for range mostRivals {
		best, v, others := q.next(t, rivals, w)
		contested = contested || others
		switch {
		case best == nil || q.spent():
			return 0, contested, false
		case best.head == w:
			return int32(len(v.victims)), contested, v.kind == pledged || q.unready == 0 //nolint:gosec // few
		}
		v = q.judge(best.head) // what a judgement leaves belongs to the last one
		q.takes(best.head, v)
		// Nobody passes one who waits for its victims in a StrictFIFO queue.
		best.rival.shut = v.kind == pledged && best.rival.queue.strict()
		best.drop()
		if v.kind == pledged {
			q.reconsider(rivals)
		}
	}
	return 0, contested, false
}

// next is whose turn it is among the rivals, with its verdict: the first of a queue who
// can be admitted. others says that somebody else than w can be.
func (q *question) next(t turns, rivals []*rival, w *work) (best *lot, found verdict, others bool) {
	var head order.Head
	for _, r := range rivals {
		l, v := q.foremostOf(r, w)
		if l == nil {
			if r.own && r.over {
				return nil, v, others
			}
			continue
		}
		others = others || l.head != w
		h := order.Head{Level: q.rank().Level, Key: l.head.turn()}
		if best == nil || sooner(t, r, best.rival, h, head) {
			best, found, head = l, v, h
			best.rival = r
			found.victims = slices.Clone(v.victims)
		}
	}
	return best, found, others
}

// sooner reports whether the queue a has its turn before b, by their heads.
func sooner(t turns, a, b *rival, x, y order.Head) bool {
	switch {
	case t == ownFirst && a.own != b.own:
		return a.own
	case t == othersFirst && a.own != b.own:
		return b.own
	case t == byPlace:
		return x.Key.Compare(y.Key) < 0
	}
	return x.Compare(y) < 0
}

// foremostOf is the first of a queue who can be admitted, nil if there is none before
// w. The queue is over once w itself cannot.
func (q *question) foremostOf(r *rival, w *work) (*lot, verdict) {
	for l := r.first(); l != nil && !q.spent(); l = r.first() {
		v := q.judge(l.head)
		switch {
		case v.kind != refuse && l.head == w:
			return l, v
		case l.head == w:
			r.over = true
			return nil, v
		case v.kind != refuse:
			return l, v
		}
		l.refused = true
	}
	r.over = true
	return nil, verdict{}
}

// rivals are the queues whose workloads may come before w, its own among them.
func (q *question) rivals(w *work, own *queue) []*rival {
	var out []*rival
	for _, o := range q.sortedQueues() {
		if o.spec == nil || o.closed != nil || (o != own && len(o.groups) == 0 && len(q.returned) == 0) {
			continue
		}
		r := &rival{queue: o, own: o == own}
		for _, x := range q.returned {
			if x.door.queue == o && x.door.closed == nil {
				q.alone(x, o)
				r.lots = append(r.lots, &lot{head: x})
			}
		}
		if o == own {
			if o.byUsage {
				r.last = w.door
			}
			q.line(r, w)
		} else {
			for _, g := range o.groups {
				q.add(r, g, nil)
			}
		}
		if len(r.lots)+len(r.hopeless) > 0 {
			out = append(out, r)
		}
	}
	return out
}

// add adds the members of a group to a queue's rivals, but for one who is asked about
// in another shape. Groups that surely get nothing are left out, except where they may
// keep others out.
func (q *question) add(r *rival, g *group, but *work) {
	l := &lot{head: g.members.First(), group: g, but: but, of: g}
	if but != nil && l.head.Key == but.Key {
		l.drop()
	}
	switch {
	case l.head == nil:
	case !r.queue.strict() && q.surelyRefused(g):
		r.hopeless = append(r.hopeless, l)
	default:
		r.lots = append(r.lots, l)
	}
}

// reconsider looks again at those who were refused before others were evicted: what
// these leave may be more than who evicted them takes.
func (q *question) reconsider(rivals []*rival) {
	for _, r := range rivals {
		for _, l := range r.lots {
			l.refused = false
		}
		r.hopeless = slices.DeleteFunc(r.hopeless, func(l *lot) bool {
			if q.surelyRefused(l.of) {
				return false
			}
			r.lots = append(r.lots, l)
			return true
		})
	}
}

// surelyRefused is a bound that costs less than a judgement.
func (q *question) surelyRefused(g *group) bool {
	q.compile(g)
	p := q.least(g)
	switch {
	case p.refusal != nil:
		return true
	case q.mayEvict(g):
		return false
	case !q.worthNodes(g):
		return true
	}
	return p.single && slices.ContainsFunc(p.fixed, func(u quota.Use) bool { return u.Amount > g.queue.node.Room(core.Then, u.Pair) })
}

func compareMembers(a, b *work) int {
	switch {
	case a == b:
		return 0
	case a.Before(b):
		return -1
	}
	return 1
}

// line adds the rivals of w in its own queue, those that were kept out of it because
// it was closed included, and w itself.
func (q *question) line(r *rival, w *work) {
	again := w.group != nil && w.group.index < 0 // submitted again
	for _, g := range r.queue.groups {
		switch {
		case again:
			q.add(r, g, w)
		case w.group == g:
			r.lots = append(r.lots, &lot{head: g.members.First(), group: g})
		default:
			q.add(r, g, nil)
		}
	}
	if again {
		r.lots = append(r.lots, &lot{head: w})
	}
	if w.group == nil {
		q.setAsideIn(r)
	}
}

// setAsideIn adds those who are in no group because their queue, or their door, was
// closed.
func (q *question) setAsideIn(r *rival) {
	byShape := map[*shape]*lot{}
	for _, d := range r.queue.doors {
		if d.closed != nil {
			continue
		}
		for x := range d.works {
			if x.phase != waiting || x.group != nil || x.obs.rest != nil && (x.obs.rest.bars() || x.obs.rest.notBefore.After(q.now)) {
				continue
			}
			q.alone(x, r.queue)
			if byShape[x.shape] == nil {
				byShape[x.shape] = &lot{}
			}
			byShape[x.shape].rest = append(byShape[x.shape].rest, x)
		}
	}
	lots := slices.Collect(maps.Values(byShape))
	for _, l := range lots {
		slices.SortFunc(l.rest, compareMembers)
		l.drop() // the first becomes the head
	}
	slices.SortFunc(lots, func(a, b *lot) int { return compareMembers(a.head, b.head) })
	r.lots = append(r.lots, lots...)
}

// reopened thinks of a queue, or a door of it, as resumed. It is false if that does
// not open it.
func (q *question) reopened(d *door, clusterQueue bool) bool { //nolint:revive // which of the two is resumed
	in := d.queue
	if in == nil || in.spec == nil || d.spec == nil {
		return false
	}
	spec, closed := in.spec, in.closed
	type shut struct {
		door *door
		why  *core.Reason
		spec *core.LocalQueue
	}
	var doors []shut
	for _, o := range in.doors {
		doors = append(doors, shut{o, o.closed, o.spec})
	}
	q.undo = append(q.undo, func() {
		in.spec, in.closed = spec, closed
		for _, s := range doors {
			s.door.closed, s.door.spec = s.why, s.spec
		}
	})
	if clusterQueue {
		open := *spec
		open.Stop = core.StopNone
		in.spec = &open
		in.closed = q.closedQueue(in)
	} else {
		open := *d.spec
		open.Stop = core.StopNone
		d.spec = &open
	}
	for _, o := range in.doors {
		o.closed = q.closedDoor(o, in)
	}
	return d.closed == nil
}
