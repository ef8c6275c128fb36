package sim

import (
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
)

// meter measures a run: sums over time, per team and in total. Sums are floats:
// they decide nothing.
type meter struct {
	unit     string
	teams    []teamTotals
	byQueue  map[string]int
	trees    [][]int // teams by tree
	treeOf   []int   // per team
	parents  map[string]string
	cohorts  map[string]core.Cohort
	stale    bool // trees must be found anew
	capacity core.Amount
	hasNodes bool
	failures int
	offered  float64 // unit-nanoseconds of nodes in service, or of quota
	series   series
}

// teamTotals is what is kept of one team.
type teamTotals struct {
	quota   []flavorQuota
	weight  float64
	used    core.Amount // held by admissions
	working core.Amount // by pods that run
	waiting int
	asking  core.Amount // by jobs that wait
	// dirty says that borrowed and lent must be found anew.
	dirty          bool
	borrowed, lent float64

	usedTime, workTime, lostTime, askTime, borrowTime, lendTime, nominalTime float64
	waitTime                                                                 float64 // job-nanoseconds in the queue
	finished                                                                 int
}

type flavorQuota struct {
	flavor  string
	nominal core.Amount
	lending *core.Amount
	used    core.Amount
}

// grant is what a job's admission uses of one flavor.
type grant struct {
	flavor string
	amount core.Amount
}

func (m *meter) init(w *World) {
	m.unit = w.unit()
	m.byQueue, m.parents, m.cohorts = map[string]int{}, map[string]string{}, map[string]core.Cohort{}
	m.teams = make([]teamTotals, len(w.Teams))
	m.treeOf = make([]int, len(w.Teams))
	for i, t := range w.Teams {
		m.byQueue[t.Queue] = i
		m.teams[i].weight = t.Weight
	}
	m.series.init(len(w.Teams))
	m.stale = true
}

// object takes in queues and cohorts.
func (m *meter) object(ev core.Event) {
	switch ev := ev.(type) {
	case core.QueueSet:
		i, ok := m.byQueue[ev.Queue.Name]
		if !ok {
			return
		}
		m.parents["queue/"+ev.Queue.Name] = ev.Queue.Cohort
		a := &m.teams[i]
		old := a.quota
		a.quota = nil
		for _, f := range quotasOf(ev.Queue.Groups, m.unit) {
			a.flavor(f.flavor).nominal, a.flavor(f.flavor).lending = f.nominal, f.lending
		}
		for _, f := range old {
			if f.used > 0 {
				a.flavor(f.flavor).used = f.used
			}
		}
	case core.CohortSet:
		m.parents["cohort/"+ev.Cohort.Name] = ev.Cohort.Parent
		m.cohorts[ev.Cohort.Name] = ev.Cohort
	case core.CohortGone:
		delete(m.parents, "cohort/"+ev.Name)
		delete(m.cohorts, ev.Name)
	default:
		return
	}
	m.stale = true
}

func quotasOf(groups []core.ResourceGroup, unit string) (out []flavorQuota) {
	for _, g := range groups {
		for _, f := range g.Flavors {
			for _, q := range f.Quotas {
				if q.Resource == unit {
					out = append(out, flavorQuota{flavor: f.Flavor, nominal: q.Nominal, lending: q.Lending})
				}
			}
		}
	}
	return out
}

func (a *teamTotals) flavor(name string) *flavorQuota {
	for i := range a.quota {
		if a.quota[i].flavor == name {
			return &a.quota[i]
		}
	}
	a.quota = append(a.quota, flavorQuota{flavor: name})
	return &a.quota[len(a.quota)-1]
}

func (a *teamTotals) nominal() core.Amount {
	var sum core.Amount
	for _, f := range a.quota {
		sum = sum.Add(f.nominal)
	}
	return sum
}

func (m *meter) node(n *node, sign core.Amount) {
	if n.spec.Name == "" || n.gone {
		return
	}
	m.hasNodes = true
	if n.spec.State != core.NodeLost && n.spec.State != core.NodeEvicted {
		m.capacity += sign * n.units
	}
}

// moved follows a job from state to state.
func (m *meter) moved(j *job, from, to state) {
	if j.team < 0 {
		return
	}
	home := &m.teams[j.team]
	switch {
	case from == queued:
		home.waiting--
		home.asking -= j.units
	case to == queued:
		home.waiting++
		home.asking += j.units
	}
	switch {
	case from.holds() && !to.holds():
		m.charge(j, -1)
	case to.holds() && !from.holds():
		j.grants = j.grantsOf(m.unit)
		j.payer = j.team
		if i, ok := m.byQueue[j.admission.Queue]; ok {
			j.payer = i
		}
		m.charge(j, 1)
	}
	if from == running {
		home.working -= j.runs
	}
	if to == running {
		j.runs = j.unitsLeft(m.unit)
		home.working += j.runs
	}
}

func (m *meter) charge(j *job, sign core.Amount) {
	a := &m.teams[j.payer]
	for _, g := range j.grants {
		a.flavor(g.flavor).used += sign * g.amount
		a.used += sign * g.amount
	}
	a.dirty = true
}

// shrunk notes that pods of a running job ended and gave back what they held.
func (m *meter) shrunk(j *job) {
	if j.team < 0 {
		return
	}
	m.charge(j, -1)
	j.grants = j.grantsOf(m.unit)
	m.charge(j, 1)
	m.teams[j.team].working -= j.runs
	j.runs = j.unitsLeft(m.unit)
	m.teams[j.team].working += j.runs
}

func (j *job) grantsOf(unit string) (out []grant) {
	for i := range j.admission.PodSets {
		p := &j.admission.PodSets[i]
		n := p.Usage.Of(unit)
		if gone := core.Amount(endedOf(j.ended, p.Name)); gone > 0 {
			n -= n / core.Amount(p.Count) * gone
		}
		if n > 0 {
			out = append(out, grant{p.FlavorOf(unit), n})
		}
	}
	return out
}

func (m *meter) lost(j *job, t time.Duration) {
	if j.team >= 0 {
		m.teams[j.team].lostTime += float64(j.runs) * float64(t)
	}
}

func (m *meter) finished(j *job) {
	if j.team >= 0 {
		m.teams[j.team].finished++
	}
}

// advance adds up what went on between two moments, nothing having changed.
func (m *meter) advance(from, to int64) {
	if m.stale {
		m.findTrees()
	}
	dt := float64(to - from)
	var used, working float64
	for i := range m.teams {
		a := &m.teams[i]
		if a.dirty {
			m.lend(m.treeOf[i])
		}
		used += float64(a.used)
		working += float64(a.working)
		a.usedTime += float64(a.used) * dt
		a.workTime += float64(a.working) * dt
		a.askTime += float64(a.asking) * dt
		a.borrowTime += a.borrowed * dt
		a.lendTime += a.lent * dt
		a.waitTime += float64(a.waiting) * dt
		a.nominalTime += float64(a.nominal()) * dt
		m.series.add(i, perTeamUsed, from, to, float64(a.used))
		m.series.add(i, perTeamWaiting, from, to, float64(a.waiting))
		m.series.add(i, perTeamBorrowed, from, to, a.borrowed)
		m.series.add(i, perTeamLent, from, to, a.lent)
	}
	offered := m.offers()
	m.offered += offered * dt
	m.series.total(totalUsed, from, to, used)
	m.series.total(totalWorking, from, to, working)
	m.series.total(totalOffered, from, to, offered)
	m.series.reach(to)
}

// offers is what there is to use now: nodes in service, or without any nodes all
// quota.
func (m *meter) offers() float64 {
	if m.hasNodes {
		return float64(m.capacity)
	}
	var sum core.Amount
	for i := range m.teams {
		sum = sum.Add(m.teams[i].nominal())
	}
	for _, c := range m.cohorts { // a sum, so order does not matter
		for _, f := range quotasOf(c.Groups, m.unit) {
			sum = sum.Add(f.nominal)
		}
	}
	return float64(sum)
}

// root is the top of the tree a queue or cohort stands in.
func (m *meter) root(name string) string {
	at := name
	for range 64 { // cohorts may form a circle
		p := m.parents[at]
		if p == "" {
			return at
		}
		at = "cohort/" + p
	}
	return at
}

func (m *meter) findTrees() {
	m.stale = false
	m.trees = m.trees[:0]
	index := map[string]int{}
	for _, queue := range sortedNames(m.byQueue) {
		i := m.byQueue[queue]
		root := m.root("queue/" + queue)
		t, ok := index[root]
		if !ok {
			t = len(m.trees)
			index[root] = t
			m.trees = append(m.trees, nil)
		}
		m.trees[t] = append(m.trees[t], i)
		m.treeOf[i] = t
		m.teams[i].dirty = true
	}
}

// lend finds which teams of a tree borrow and which lend. What is borrowed is put down to
// those with idle quota, in proportion to what they may lend.
func (m *meter) lend(tree int) {
	type side struct{ borrowed, idle float64 }
	sides := map[string]*side{}
	at := func(flavor string) *side {
		if sides[flavor] == nil {
			sides[flavor] = &side{}
		}
		return sides[flavor]
	}
	for _, i := range m.trees[tree] {
		for _, f := range m.teams[i].quota {
			s := at(f.flavor)
			s.borrowed += float64(max(0, f.used-f.nominal))
			s.idle += idle(f)
		}
	}
	top := m.root("queue/" + m.queueOf(m.trees[tree][0]))
	for _, name := range sortedNames(m.cohorts) {
		if m.root("cohort/"+name) == top {
			for _, f := range quotasOf(m.cohorts[name].Groups, m.unit) {
				at(f.flavor).idle += idle(f)
			}
		}
	}
	for _, i := range m.trees[tree] {
		a := &m.teams[i]
		a.dirty, a.borrowed, a.lent = false, 0, 0
		for _, f := range a.quota {
			a.borrowed += float64(max(0, f.used-f.nominal))
			if s := sides[f.flavor]; s.idle > 0 {
				a.lent += idle(f) * min(1, s.borrowed/s.idle)
			}
		}
	}
}

func (m *meter) queueOf(team int) string {
	for name, i := range m.byQueue { // exactly one has this number
		if i == team {
			return name
		}
	}
	return ""
}

// idle is what others may use of a quota now.
func idle(f flavorQuota) float64 {
	free := max(0, f.nominal-f.used)
	if f.lending != nil {
		free = min(free, *f.lending)
	}
	return float64(free)
}
