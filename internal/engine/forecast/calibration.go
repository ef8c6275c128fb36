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
	// came and waited are what the estimates of jobs that just came have in common, and those of
	// jobs that have waited already. The latter are no fair choice of those who came: what they
	// wait for takes long, and futures of what takes long differ most.
	came, waited correction
}

// cell is estimates that are corrected alike: by how far off they are, and how large the
// jobs are.
type cell struct{ wait, size int }

// correction is what was learned of some estimates, for P50 and P90. What is told is corrected by that
// of the cell and by what is common to the jobs that came, or have waited.
type correction struct{ by [2]factor }

// factor is the natural logarithm of what waits are multiplied by, and what became of
// estimates since it was changed last.
type factor struct {
	log          float64
	right, wrong int
}

// levels are how often estimates are to be right.
func levels() [2]float64 { return [2]float64{0.5, 0.9} }

// begins are the corrections as long as nothing became of any estimate, for jobs that have waited
// already and for others: those at which worlds settle in which jobs keep coming. Futures differ
// more than what comes of them does.
func begins(waited bool) [2]float64 { //nolint:revive // a fact
	if waited {
		return [2]float64{-0.12, -0.4}
	}
	return [2]float64{0, -0.21}
}

// pace is how far a step goes at most for estimates alike, commonPace for what those have in common
// that came, or waited; crowd is how many outcomes make two thirds of a step.
const (
	pace, commonPace = 0.12, 0.04
	crowd            = 5
)

// offset is added to waits before they are made longer: an estimate of none can be wrong, too. What
// is made shorter is shorter by the same part, whether jobs take seconds or days.
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

// Correct is an estimate for a job of that many GPUs, which has waited already or has just come, as
// it is given to people.
func (c *Calibration) Correct(raw Estimate, gpus int64, waited bool) Estimate {
	logs, common := begins(waited), c.common(waited)
	alike := c.cells[cellOf(raw, gpus)]
	for i := range logs {
		logs[i] += common.by[i].log
		if alike != nil {
			logs[i] += alike.by[i].log
		}
	}
	out := Estimate{P50: stretch(raw.P50, logs[0]), P90: stretch(raw.P90, logs[1])}
	out.P90 = max(out.P90, out.P50)
	out.Passed = raw.Passed
	return out
}

func (c *Calibration) common(waited bool) *correction { //nolint:revive // a fact
	if waited {
		return &c.waited
	}
	return &c.came
}

func stretch(wait time.Duration, log float64) time.Duration {
	if wait == Never {
		return Never
	}
	if log <= 0 {
		return time.Duration(float64(wait) * math.Exp(log))
	}
	x := float64(wait+offset)*math.Exp(log) - float64(offset)
	return time.Duration(min(x, float64(2*horizon)))
}

// Observation is what became of an estimate.
type Observation struct {
	// Raw is the estimate before it was corrected, GPUs those of its job.
	Raw  Estimate
	GPUs int64
	// Waited says that the job had waited already when it was given.
	Waited bool
	// P90 says that it is about P90, otherwise about P50; InTime that the job started up to
	// then.
	P90, InTime bool
}

// Learn takes in what became of estimates since it was called last.
func (c *Calibration) Learn(outcomes []Observation) {
	if c.cells == nil {
		c.cells = map[cell]*correction{}
	}
	for _, o := range outcomes {
		at := cellOf(o.Raw, o.GPUs)
		alike := c.cells[at]
		if alike == nil {
			alike = &correction{}
			c.cells[at] = alike
		}
		alike.count(o)
		c.common(o.Waited).count(o)
	}
	for _, e := range c.cells { // each alone
		e.step(pace)
	}
	c.came.step(commonPace)
	c.waited.step(commonPace)
}

func (c *correction) count(o Observation) {
	f := &c.by[0]
	if o.P90 {
		f = &c.by[1]
	}
	if o.InTime {
		f.right++
	} else {
		f.wrong++
	}
}

func (c *correction) step(pace float64) {
	for i := range c.by {
		c.by[i].step(levels()[i], pace)
	}
}

// step moves a factor that is to be right so often, by so much at most.
func (f *factor) step(level, pace float64) {
	n := float64(f.right + f.wrong)
	if n == 0 {
		return
	}
	f.log += pace * (1 - math.Exp(-n/crowd)) * (float64(f.wrong)/n - (1 - level))
	f.log = max(-farthest, min(f.log, farthest))
	f.right, f.wrong = 0, 0
}
