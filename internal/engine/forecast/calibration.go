package forecast

import (
	"math"
	"time"
)

// Calibration learns from what became of estimates how far off they are, and corrects the
// next ones: while more of one kind than there should be turn out too early it makes them
// later, and earlier otherwise, in steps whose sizes make an estimate for 9 in 10 be right
// 9 times in 10 in the long run, whatever the reason that it was not. (Gibbs and Candès,
// Adaptive conformal inference under distribution shift, 2021.) Many outcomes at once
// count as one step, because they have one cause. It remembers a few numbers for each kind
// of estimate.
type Calibration struct {
	cells map[cell]*correction
}

// cell is estimates that are corrected alike: by how far off they are, and how large the
// jobs are.
type cell struct{ wait, size int }

// correction is that of the estimates in a cell, for P50 and P90.
type correction struct{ by [2]factor }

// factor is the natural logarithm of what waits are multiplied by, and what became of
// estimates since it was changed last.
type factor struct {
	log          float64
	right, wrong int
}

func newCorrection() *correction {
	return &correction{by: [2]factor{{log: first50}, {log: first90}}}
}

// levels are how often estimates are to be right.
func levels() [2]float64 { return [2]float64{0.5, 0.9} }

// first50 and first90 are the factors as long as nothing became of any estimate: those at which
// worlds settle in which jobs keep coming. Futures differ more than what comes of them does.
const first50, first90 = 0, -0.2

// pace is how far a step goes at most, and crowd how many outcomes make two thirds of one.
const (
	pace  = 0.12
	crowd = 5
)

// offset is added to waits before they are multiplied: an estimate of none can be wrong,
// too.
const offset = time.Minute

// farthest bounds factors: beyond it nothing is known.
const farthest = 4.6

func cellOf(raw Estimate, gpus int64) cell {
	var c cell
	for _, bound := range []time.Duration{time.Minute, 10 * time.Minute, time.Hour, 6 * time.Hour, 24 * time.Hour} {
		if raw.P50 > bound {
			c.wait++
		}
	}
	for _, bound := range []int64{1, 4, 8} {
		if gpus > bound {
			c.size++
		}
	}
	return c
}

// Correct is an estimate for a job of that many GPUs as it is given to people.
func (c *Calibration) Correct(raw Estimate, gpus int64) Estimate {
	e := c.cells[cellOf(raw, gpus)]
	if e == nil {
		e = newCorrection()
	}
	out := Estimate{P50: stretch(raw.P50, e.by[0].log), P90: stretch(raw.P90, e.by[1].log)}
	out.P90 = max(out.P90, out.P50)
	out.Passed = raw.Passed
	return out
}

func stretch(wait time.Duration, log float64) time.Duration {
	if wait == Never {
		return Never
	}
	x := float64(wait+offset)*math.Exp(log) - float64(offset)
	return time.Duration(max(0, min(x, float64(2*horizon))))
}

// Outcome is what became of an estimate.
type Outcome struct {
	// Raw is the estimate before it was corrected, GPUs those of its job.
	Raw  Estimate
	GPUs int64
	// P90 says that it is about P90, otherwise about P50; InTime that the job started up to
	// then.
	P90, InTime bool
}

// Learn takes in what became of estimates since it was called last.
func (c *Calibration) Learn(outcomes []Outcome) {
	if c.cells == nil {
		c.cells = map[cell]*correction{}
	}
	for _, o := range outcomes {
		at := cellOf(o.Raw, o.GPUs)
		e := c.cells[at]
		if e == nil {
			e = newCorrection()
			c.cells[at] = e
		}
		f := &e.by[0]
		if o.P90 {
			f = &e.by[1]
		}
		if o.InTime {
			f.right++
		} else {
			f.wrong++
		}
	}
	for _, e := range c.cells { // each alone
		for i := range e.by {
			e.by[i].step(levels()[i])
		}
	}
}

// step moves a factor that is to be right so often.
func (f *factor) step(level float64) {
	n := float64(f.right + f.wrong)
	if n == 0 {
		return
	}
	f.log += pace * (1 - math.Exp(-n/crowd)) * (float64(f.wrong)/n - (1 - level))
	f.log = max(-farthest, min(f.log, farthest))
	f.right, f.wrong = 0, 0
}
