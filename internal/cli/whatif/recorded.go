package whatif

import (
	"math"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/replay"
	"github.com/mlbatch/mlbatch/internal/sim"
)

// recorded is what really happened, measured as simulations are. What was offered, and to
// what teams are entitled, does not depend on decisions: it is that of a simulation.
func (h *history) recorded(base *sim.Result) *sim.Result {
	out := &sim.Result{
		World:    "recorded",
		Unit:     base.Unit,
		Start:    base.Start,
		Seconds:  base.Seconds,
		Total:    sim.Account{Team: "all", Share: 1, Entitled: 1},
		Timeline: sim.Timeline{StepSeconds: base.Timeline.StepSeconds, Offered: base.Timeline.Offered},
	}
	steps := len(base.Timeline.Used)
	out.Timeline.Used = make([]float64, steps)
	index := map[string]int{}
	for i, a := range base.Teams {
		index[a.Team] = i
		out.Teams = append(out.Teams, sim.Account{Team: a.Team, Offered: a.Offered, Entitled: a.Entitled})
		out.Timeline.Teams = append(
			out.Timeline.Teams,
			sim.TeamSeries{Team: a.Team, Used: make([]float64, steps), Waiting: make([]float64, steps)},
		)
	}
	m := &measuring{history: h, out: out, index: index, waits: make([][]float64, len(out.Teams))}
	for i := range h.jobs {
		m.job(&h.jobs[i])
	}
	m.finish(base)
	return out
}

// measuring adds up a past.
type measuring struct {
	history *history
	out     *sim.Result
	index   map[string]int
	waits   [][]float64 // by team
	all     []float64
}

// job counts one job for its team and for all.
func (m *measuring) job(j *job) {
	p := j.past
	var none sim.Account
	team, at := &none, -1
	if i, ok := m.index[j.team]; ok {
		team, at = &m.out.Teams[i], i
	}
	var lost float64
	for i, s := range p.Stays {
		hours := m.stay(s)
		if i < len(p.Stays)-1 || (!s.To.IsZero() && !s.To.Equal(p.Ended)) {
			lost += hours
		}
	}
	for _, a := range []*sim.Account{team, &m.out.Total} {
		a.Jobs++
		a.Preempted += p.Preempted
		a.Evicted += max(p.Evicted, p.Preempted)
		a.MostEvicted = max(a.MostEvicted, p.Evicted)
		a.Lost += lost
		switch {
		case len(p.Stays) == 0 && p.Ended.IsZero():
			a.NeverStarted++
		case p.Ended.IsZero():
			a.Unfinished++
		case p.TakenBack():
			a.Deleted++
		default:
			a.Finished++
		}
	}
	if len(p.Stays) > 0 {
		wait := p.Stays[0].From.Sub(p.Told).Seconds()
		m.all = append(m.all, wait)
		if at >= 0 {
			m.waits[at] = append(m.waits[at], wait)
		}
	}
	if at >= 0 {
		from := p.Told
		for _, s := range p.Stays {
			m.spread(m.out.Timeline.Teams[at].Waiting, from, s.From, 1)
			from = s.To
		}
		if !from.IsZero() {
			m.spread(m.out.Timeline.Teams[at].Waiting, from, p.Ended, 1)
		}
	}
}

// stay counts what one admission held, and returns its unit-hours.
func (m *measuring) stay(s replay.Stay) float64 {
	var units float64
	for i := range s.Admission.PodSets {
		units += float64(s.Admission.PodSets[i].Usage.Of(m.out.Unit))
	}
	if m.out.Unit == core.CPU {
		units /= 1000
	}
	to := s.To
	if to.IsZero() {
		to = m.history.past.Last
	}
	hours := units * to.Sub(s.From).Hours()
	m.out.Total.Used += hours
	m.spread(m.out.Timeline.Used, s.From, to, units)
	if i, ok := m.index[s.Admission.Queue]; ok {
		m.out.Teams[i].Used += hours
		m.spread(m.out.Timeline.Teams[i].Used, s.From, to, units)
	}
	return hours
}

// spread adds an amount to the averages of the intervals between two moments; a zero time is
// the end of the recording.
func (m *measuring) spread(series []float64, from, to time.Time, amount float64) {
	if to.IsZero() {
		to = m.history.past.Last
	}
	step := m.out.Seconds / float64(len(series))
	if step <= 0 || amount == 0 {
		return
	}
	start, end := from.Sub(m.history.past.First).Seconds(), to.Sub(m.history.past.First).Seconds()
	for i := max(0, int(start/step)); i < len(series) && float64(i)*step < end; i++ {
		low, high := float64(i)*step, float64(i+1)*step
		series[i] += amount * max(0, min(end, high)-max(start, low)) / step
	}
}

// finish makes averages and shares of the sums.
func (m *measuring) finish(base *sim.Result) {
	t := &m.out.Total
	t.Offered = base.Total.Offered
	t.Wait = sim.Describe(m.all)
	for i := range m.out.Teams {
		a := &m.out.Teams[i]
		a.Wait = sim.Describe(m.waits[i])
		if t.Used > 0 {
			a.Share = round(a.Used / t.Used)
		}
		finishAccount(a)
		for _, v := range [][]float64{m.out.Timeline.Teams[i].Used, m.out.Timeline.Teams[i].Waiting} {
			roundAll(v)
		}
	}
	finishAccount(t)
	roundAll(m.out.Timeline.Used)
}

func finishAccount(a *sim.Account) {
	if a.Offered > 0 {
		a.Utilisation = round(a.Used / a.Offered)
	}
	a.Used, a.Lost = round(a.Used), round(a.Lost)
	a.Worked = a.Used
}

func roundAll(v []float64) {
	for i := range v {
		v[i] = round(v[i])
	}
}

// round keeps three decimals, as the simulator does.
func round(x float64) float64 { return math.Round(x*1000) / 1000 }
