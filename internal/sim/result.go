package sim

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
)

// Result is what came of a run. Times are in seconds, amounts in units (GPUs),
// usage in unit-hours.
type Result struct {
	World string    `json:"world"`
	Seed  uint64    `json:"seed"`
	Unit  string    `json:"unit"`
	Start time.Time `json:"start"`
	// Seconds is how long the run took in its own time.
	Seconds float64   `json:"seconds"`
	Total   Account   `json:"total"`
	Teams   []Account `json:"teams"`
	// Jain is Jain's index of fairness over what teams with demand used per unit of
	// their share: 1 if all got the same, 1/n if one got all.
	Jain     float64  `json:"jain"`
	Waiting  []Reason `json:"neverStarted,omitempty"`
	Timeline Timeline `json:"timeline"`
	Engine   Effort   `json:"engine"`
	jobs     []JobResult
}

// Account sums up one team, or all.
type Account struct {
	Team string `json:"team"`
	// Jobs were submitted; Finished ran to their end, Deleted were taken back by
	// their users, Unfinished ran when the run ended, NeverStarted waited all along.
	Jobs         int `json:"jobs"`
	Finished     int `json:"finished"`
	Deleted      int `json:"deleted,omitempty"`
	Unfinished   int `json:"unfinished"`
	NeverStarted int `json:"neverStarted"`
	// Wait is from submission until all pods first ran; jobs that never started are
	// left out. Slowdown is the time from submission to end over the work, jobs
	// under ten seconds counted as ten (bounded slowdown).
	Wait     Distribution `json:"waitSeconds"`
	Slowdown Distribution `json:"slowdown"`
	// Used unit-hours were held by admissions; Worked are those in which all pods
	// ran; Lost were worked in vain because a job was stopped before a checkpoint.
	Used   float64 `json:"usedHours"`
	Worked float64 `json:"workedHours"`
	Lost   float64 `json:"lostHours"`
	// Offered unit-hours were there: of nodes in service, or of quota.
	Offered float64 `json:"offeredHours"`
	// Utilisation is Used of Offered, in the total; of the nominal quota for teams.
	Utilisation float64 `json:"utilisation"`
	Borrowed    float64 `json:"borrowedHours"`
	Lent        float64 `json:"lentHours"`
	// Preempted counts evictions for others, Evicted all of them, Restarts every
	// time that running pods were stopped and work began again.
	Preempted int `json:"preemptions"`
	Evicted   int `json:"evictions"`
	Restarts  int `json:"restarts"`
	// MostEvicted is how often the job was evicted that was evicted most.
	MostEvicted int `json:"mostEvictions"`
	// MeanWaiting is how many jobs waited on average.
	MeanWaiting float64 `json:"meanWaiting"`
	// Share is what the team used of all that was used, Entitled its part of all
	// weights, or of all nominal quota.
	Share    float64 `json:"share"`
	Entitled float64 `json:"entitled"`
}

// Distribution describes a set of values.
type Distribution struct {
	Mean float64 `json:"mean"`
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
	Max  float64 `json:"max"`
}

// Reason is why jobs never started, and how many.
type Reason struct {
	Code core.Code `json:"code"`
	Jobs int       `json:"jobs"`
}

// Effort is what the engine did. It does not depend on the machine.
type Effort struct {
	Decisions int `json:"decisions"`
	Events    int `json:"events"`
	Failures  int `json:"nodeFailures"`
}

// Timeline are averages over intervals of equal length.
type Timeline struct {
	StepSeconds float64      `json:"stepSeconds"`
	Offered     []float64    `json:"offered"`
	Used        []float64    `json:"used"`
	Worked      []float64    `json:"worked"`
	Teams       []TeamSeries `json:"teams"`
}

// TeamSeries is one team over time.
type TeamSeries struct {
	Team     string    `json:"team"`
	Used     []float64 `json:"used"`
	Waiting  []float64 `json:"waiting"`
	Borrowed []float64 `json:"borrowed"`
	Lent     []float64 `json:"lent"`
}

// JobResult is what became of one job. Times are seconds after the start, -1 for
// never.
type JobResult struct {
	Key                                         core.Key
	Team                                        string
	Units                                       int64
	Priority                                    int32
	Submitted, Started, Ended, Work, Wait, Lost float64
	Preempted, Evicted, Restarts                int
	State                                       string
	// Reason is why it waits, for jobs that never started.
	Reason core.Code
}

// Jobs is what became of each job, in the order of the world.
func (r *Result) Jobs() []JobResult { return r.jobs }

// steps is how many intervals a timeline has.
const steps = 120

// Result sums up the run so far.
func (r *Run) Result() *Result {
	w, m := &r.world, &r.meter
	out := &Result{
		World: w.Name, Seed: w.Seed, Unit: w.unit(), Start: w.Start.UTC(), Seconds: seconds(r.now),
		Engine: Effort{Decisions: r.decides, Events: r.events, Failures: m.failures},
	}
	per := make([][]*job, len(w.Teams))
	var all []*job
	for _, j := range r.cluster.jobs {
		if j.state == absent {
			continue
		}
		all = append(all, j)
		if j.team >= 0 {
			per[j.team] = append(per[j.team], j)
		}
		out.jobs = append(out.jobs, r.results().jobResult(j))
	}
	out.Total = sumUp("all", all)
	out.Total.Offered = r.results().hours(m.offered)
	weights := m.weights()
	for i, t := range w.Teams {
		a := sumUp(t.Name, per[i])
		r.results().account(&a, &m.teams[i])
		a.Entitled = round(weights[i])
		out.Teams = append(out.Teams, a)
		r.results().addUp(&out.Total, &m.teams[i])
	}
	r.results().finishTotal(out)
	out.Jain = round(jain(out.Teams))
	out.Waiting = whyNever(all)
	out.Timeline = r.results().timeline()
	return out
}

// hours turns unit-nanoseconds into unit-hours.
func (r results) hours(x float64) float64 {
	if r.world.unit() == core.CPU {
		x /= 1000
	}
	return round(x / float64(time.Hour))
}

func (r results) account(a *Account, m *teamTotals) {
	a.Used, a.Worked, a.Lost = r.hours(m.usedTime), r.hours(m.workTime), r.hours(m.lostTime)
	a.Borrowed, a.Lent, a.Offered = r.hours(m.borrowTime), r.hours(m.lendTime), r.hours(m.nominalTime)
	if m.nominalTime > 0 {
		a.Utilisation = round(m.usedTime / m.nominalTime)
	}
	if r.now > 0 {
		a.MeanWaiting = round(m.waitTime / float64(r.now))
	}
}

func (r results) addUp(total *Account, m *teamTotals) {
	total.Used += m.usedTime
	total.Worked += m.workTime
	total.Lost += m.lostTime
	total.Borrowed += m.borrowTime
	total.Lent += m.lendTime
	total.MeanWaiting += m.waitTime
}

func (r results) finishTotal(out *Result) {
	t := &out.Total
	if r.meter.offered > 0 {
		t.Utilisation = round(t.Used / r.meter.offered)
	}
	if r.now > 0 {
		t.MeanWaiting = round(t.MeanWaiting / float64(r.now))
	}
	for i := range out.Teams {
		if t.Used > 0 {
			out.Teams[i].Share = round(r.meter.teams[i].usedTime / t.Used)
		}
	}
	t.Used, t.Worked, t.Lost = r.hours(t.Used), r.hours(t.Worked), r.hours(t.Lost)
	t.Borrowed, t.Lent = r.hours(t.Borrowed), r.hours(t.Lent)
	t.Share, t.Entitled = 1, 1
}

// weights is each team's part of all: by weight, or by nominal quota over time.
func (m *meter) weights() []float64 {
	out := make([]float64, len(m.teams))
	var sum float64
	for i := range m.teams {
		if out[i] = m.teams[i].weight; out[i] == 0 {
			out[i] = m.teams[i].nominalTime
		}
	}
	weighted := slices.ContainsFunc(m.teams, func(a teamTotals) bool { return a.weight != 0 })
	for i := range out {
		if weighted && m.teams[i].weight == 0 {
			out[i] = 1 // the default weight
		}
		sum += out[i]
	}
	for i := range out {
		if sum > 0 {
			out[i] /= sum
		}
	}
	return out
}

func sumUp(name string, jobs []*job) Account {
	a := Account{Team: name, Jobs: len(jobs)}
	var waits, slow []float64
	for _, j := range jobs {
		submitted := int64(j.spec.Submit)
		a.Preempted += j.preempted
		a.Evicted += j.evicted
		a.MostEvicted = max(a.MostEvicted, j.evicted)
		a.Restarts += j.restarted
		switch {
		case j.state == done && j.deleting:
			a.Deleted++
		case j.state == done:
			a.Finished++
			work := max(float64(j.spec.Work), float64(10*time.Second))
			slow = append(slow, max(1, float64(j.finished-submitted)/work))
		case j.started >= 0 || j.state != queued:
			a.Unfinished++
		default:
			a.NeverStarted++
		}
		if j.started >= 0 {
			waits = append(waits, seconds(j.started-submitted))
		}
	}
	a.Wait, a.Slowdown = Describe(waits), Describe(slow)
	return a
}

func (r results) jobResult(j *job) JobResult {
	out := JobResult{
		Key:      j.spec.Key,
		Units:    int64(j.units),
		Priority: j.priority,
		Submitted: seconds(
			int64(j.spec.Submit),
		),
		Started:   -1,
		Ended:     -1,
		Work:      seconds(int64(j.spec.Work)),
		Wait:      -1,
		Lost:      seconds(int64(j.lost)),
		Preempted: j.preempted,
		Evicted:   j.evicted,
		Restarts:  j.restarted,
	}
	if j.team >= 0 {
		out.Team = r.world.Teams[j.team].Name
	}
	if j.started >= 0 {
		out.Started = seconds(j.started)
		out.Wait = seconds(j.started - int64(j.spec.Submit))
	}
	switch {
	case j.state == done && j.deleting:
		out.State = "Deleted"
	case j.state == done:
		out.State = "Finished"
	case j.state == queued:
		out.State, out.Reason = "Waiting", j.code
	default:
		out.State = "Active"
	}
	if j.state == done {
		out.Ended = seconds(j.finished)
	}
	return out
}

// Describe sorts values and describes them; percentiles are those of the nearest rank.
func Describe(v []float64) Distribution {
	if len(v) == 0 {
		return Distribution{}
	}
	slices.Sort(v)
	var sum float64
	for _, x := range v {
		sum += x
	}
	at := func(p float64) float64 { return round(v[max(0, int(math.Ceil(p*float64(len(v))))-1)]) }
	return Distribution{Mean: round(sum / float64(len(v))), P50: at(.5), P90: at(.9), P99: at(.99), Max: at(1)}
}

// jain is (sum x)^2 / (n sum x^2) over what each team with jobs used per share.
func jain(teams []Account) float64 {
	var sum, squares, n float64
	for _, t := range teams {
		if t.Jobs == 0 || t.Entitled == 0 {
			continue
		}
		x := t.Share / t.Entitled
		sum += x
		squares += x * x
		n++
	}
	if squares == 0 {
		return 1
	}
	return sum * sum / (n * squares)
}

func whyNever(jobs []*job) []Reason {
	count := map[core.Code]int{}
	for _, j := range jobs {
		if j.state == queued && j.started < 0 {
			count[j.code]++
		}
	}
	var out []Reason
	for code, n := range count {
		if code == "" {
			code = core.PendingEvaluation
		}
		out = append(out, Reason{code, n})
	}
	slices.SortFunc(
		out,
		func(a, b Reason) int { return cmp.Or(cmp.Compare(b.Jobs, a.Jobs), cmp.Compare(a.Code, b.Code)) },
	)
	return out
}

func (r results) timeline() Timeline {
	s := &r.meter.series
	scale := func(v []float64) []float64 {
		for i := range v {
			if r.world.unit() == core.CPU {
				v[i] /= 1000
			}
			v[i] = round(v[i])
		}
		return v
	}
	plain := func(v []float64) []float64 {
		for i := range v {
			v[i] = round(v[i])
		}
		return v
	}
	t := Timeline{
		StepSeconds: round(seconds(s.end) / steps),
		Offered:     scale(s.mean(s.all[totalOffered])),
		Used:        scale(s.mean(s.all[totalUsed])),
		Worked:      scale(s.mean(s.all[totalWorking])),
	}
	for i, team := range r.world.Teams {
		k := &s.teams[i]
		t.Teams = append(t.Teams, TeamSeries{
			Team: team.Name, Used: scale(s.mean(k[perTeamUsed])), Waiting: plain(s.mean(k[perTeamWaiting])),
			Borrowed: scale(s.mean(k[perTeamBorrowed])), Lent: scale(s.mean(k[perTeamLent])),
		})
	}
	return t
}

func seconds(ns int64) float64 { return round(float64(ns) / float64(time.Second)) }

// round keeps three decimals, so that results read well.
func round(x float64) float64 { return math.Round(x*1000) / 1000 }
