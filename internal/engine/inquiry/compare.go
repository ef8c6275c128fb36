package inquiry

import (
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/cycle"
)

// Compare says how a workload that waits stands to another one, and what would become of it
// were that one not there. waits is false as for Explain; look and now are as there.
func Compare(look Look, k, other core.Key, now time.Time) (out core.Comparison, waits bool, err error) {
	q := &question{key: k, at: now}
	err = look.ask(func(v cycle.View) error {
		if out, waits = v.Contrast(k, other); !waits {
			return nil
		}
		return q.take(v, manyAlike)
	})
	if err != nil || !waits {
		return core.Comparison{}, false, err
	}
	out.Gone = q.without(other)
	return out, true, nil
}

// without says what becomes of the workload that was asked about once another is gone, in the
// copy.
func (q *question) without(other core.Key) (out core.WereGone) {
	if q.copied == nil || other == q.key {
		return out
	}
	t, err := begin(q.copied, q.key, q.at)
	if err != nil || t.engine.View().Stage(other) == "" {
		return out
	}
	t.reserved = t.stands(q.key, core.StagePromised)
	if _, starts := t.starts(); starts {
		shown := !t.ranOut(q.copied, false)
		return core.WereGone{Tried: shown, Anyway: shown}
	}
	before := t.holding()
	t.engine.Apply(core.WorkloadGone{Key: other})
	out.Preempts, out.Starts = t.starts()
	out.Awaits = out.Starts && t.stands(q.key, core.StagePromised)
	if t.ranOut(q.copied, false) {
		return core.WereGone{}
	}
	out.Tried = true
	for k := range t.holding() { // they are counted, so order does not matter
		if !before[k] && k != q.key {
			out.Instead++
		}
	}
	if !out.Starts {
		out.Why, _ = t.engine.Why(q.key)
		out.Why.Ahead, out.Why.Holders = core.Key{}, nil // they are of the copy
	}
	return out
}

// holding are the workloads that have quota, or a place reserved.
func (t *trial) holding() map[core.Key]bool {
	out := map[core.Key]bool{}
	for k, at := range t.engine.View().Stages() {
		if at == core.StageRunning || at == core.StagePromised {
			out[k] = true
		}
	}
	return out
}
