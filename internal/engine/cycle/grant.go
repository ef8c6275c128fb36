package cycle

import "github.com/mlbatch/mlbatch/internal/core"

// grant is what a workload was given or promised, and how far the API has it. Where the workload
// stands is the state of its allocation. Only the methods of workload in this file change a grant:
// each is one thing that happens to it.
type grant struct {
	// admission is what the workload holds or what is reserved for it, seen the last
	// admission that was observed.
	admission, seen *core.Admission
	// applied is the Seq from which on states contain the last decision, 0 until that is known; seq
	// the highest that was seen.
	applied, seq uint64
	echo         echo
	ordered      bool // an eviction was decided here and not seen yet
	resumed      bool // it was interrupted and told to go on, which was not seen yet
}

// echo says whether the admission that a workload has was read back.
type echo uint8

const (
	readBack echo = iota // it was; or it was made elsewhere, or there is none
	assumed              // it was decided here, and not seen in the API yet
	replaced             // besides, it has other places than the ones that it was given first
)

// assumed reports whether the admission was decided here and not seen yet.
func (g *grant) assumed() bool { return g.echo != readBack }

// neverSeen reports whether it was decided here and the API was not seen to have any.
func (g *grant) neverSeen() bool { return g.assumed() && g.seen == nil }

// plan reserves an admission for a workload, or notes what it is about to be given; nil takes that
// back.
func (w *workload) plan(a *core.Admission) { w.admission = a }

// give gives a workload the admission that it was planned to have.
func (w *workload) give() {
	w.echo, w.applied = assumed, 0
	w.Unseen, w.reported = true, nil
}

// rehouse gives a workload that was admitted other places.
func (w *workload) rehouse(a *core.Admission) {
	w.admission, w.echo, w.applied = a, assumed, 0
	if w.seen == nil {
		w.echo = replaced
	}
}

// resume gives a workload that was interrupted places again.
func (w *workload) resume(a *core.Admission) {
	w.rehouse(a)
	w.Unseen, w.reported, w.resumed = true, nil, true
}

// noteResumed notes that it was seen to go on, or that it does not.
func (w *workload) noteResumed() { w.resumed = false }

// adopt gives a workload an admission that was made elsewhere.
func (w *workload) adopt(a *core.Admission) {
	w.admission, w.echo = a, readBack
	w.Unseen, w.reported = false, nil
}

// confirm notes that the admission was seen as it was decided.
func (w *workload) confirm() { w.echo = readBack }

// revert gives a workload the admission back that was seen last: the one decided since was refused.
func (w *workload) revert() { w.admission, w.echo, w.Unseen = w.seen, readBack, false }

// lose takes a workload's admission away.
func (w *workload) lose() {
	w.grant = grant{seen: w.seen, seq: w.seq}
	w.Unseen, w.reported = false, nil
}

// see notes the admission that the API has.
func (w *workload) see(a *core.Admission) { w.seen = a }

// read notes the Seq of a state that was seen.
func (w *workload) read(seq uint64) { w.seq = max(w.seq, seq) }

// accept notes that the API has the last decision from a Seq on.
func (w *workload) accept(seq uint64) { w.applied = max(w.applied, seq) }

// orderEviction notes that an eviction was decided, endOrder that it was seen, or refused.
func (w *workload) orderEviction() { w.ordered, w.resumed = true, false }

func (w *workload) endOrder() { w.ordered = false }

// dumpGrant and loadGrant put a grant into a state and take it out of one.
func (w *workload) dumpGrant(s *WorkloadState) {
	s.Admission, s.SeenSame = w.admission, identical(w.seen, w.admission)
	if !s.SeenSame {
		s.Seen = w.seen
	}
	s.Assumed, s.Moved, s.Unseen, s.Ordered = w.assumed(), w.echo == replaced, w.Unseen, w.ordered
	s.Applied, s.Seq, s.Resumed = w.applied, w.seq, w.resumed
}

func (w *workload) loadGrant(s *WorkloadState) {
	w.grant = grant{
		admission: s.Admission,
		seen:      s.Seen,
		applied:   s.Applied,
		seq:       s.Seq,
		ordered:   s.Ordered,
		resumed:   s.Resumed,
	}
	if s.SeenSame {
		w.seen = s.Admission
	}
	switch {
	case s.Assumed && s.Moved:
		w.echo = replaced
	case s.Assumed:
		w.echo = assumed
	}
	w.Unseen = s.Unseen
}
