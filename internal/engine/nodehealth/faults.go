package nodehealth

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// FaultKind says what failed.
type FaultKind string

// What may fail. Nothing of it is told by tenants alone: hangs count that are findings (Hangs).
const (
	// FaultDown: the node did not answer, by itself.
	FaultDown FaultKind = "Down"
	// FaultDevices: devices of it were bad.
	FaultDevices FaultKind = "Devices"
	// FaultSystem: something else of the node was.
	FaultSystem FaultKind = "System"
	// FaultDeepTest: a deep test failed.
	FaultDeepTest FaultKind = "DeepTest"
	// FaultHang: jobs of several users hung there.
	FaultHang FaultKind = "Hang"
)

const (
	// faultsCount is for how long a fault counts, less and less: half as much after each faultsHalve.
	faultsCount = 8 * 7 * 24 * time.Hour
	faultsHalve = 14 * 24 * time.Hour
	// oneFault is for how long what fails again is the same fault.
	oneFault = 24 * time.Hour
	// lostBefore is how long before a fault was noted a job may have been lost to it.
	lostBefore = 10 * time.Minute
	// mostFaults are remembered of a node, the newest. With them, and 2000 nodes that have so many, the rest of what is
	// remembered still fits.
	mostFaults = 8
	mostLost   = 9999
	// downCounts is for how long a node has to be down.
	downCounts = time.Minute
	// downTogether is within how long of each other nodes went down that may have the reason in common, and backCounts
	// for how long one that came back counts with those that are down still.
	downTogether = time.Hour
	backCounts   = 10 * time.Minute
	// aFault is what a fault counts, aLoss what one counts beyond to which jobs were lost.
	aFault, aLoss = 1000, 500
	// lookAtFaults is how often it is looked whether nodes have become better with time.
	lookAtFaults = 6 * time.Hour
)

// lemonFrom are the points above which a node is a lemon of the first, second and third step: a fault alone never makes
// one.
func lemonFrom() []int { return []int{aFault + aLoss, 3 * aFault, 6 * aFault} }

// Fault is that something of a node failed. Stored, it is a line of text.
type Fault struct {
	Kind FaultKind
	At   time.Time
	// Jobs is how many were lost to it, as far as they were there to say so at the same time.
	Jobs int
}

// MarshalText makes a line of it: kind, time and, if there were any, how many jobs were lost.
func (f Fault) MarshalText() ([]byte, error) {
	text := string(f.Kind) + " " + f.At.UTC().Format(time.RFC3339)
	if f.Jobs > 0 {
		text += " " + strconv.Itoa(f.Jobs)
	}
	return []byte(text), nil
}

// UnmarshalText reads such a line.
func (f *Fault) UnmarshalText(text []byte) error {
	words := strings.Fields(string(text))
	if len(words) < 2 || len(words) > 3 {
		return fmt.Errorf("fault %q: want a kind, a time and at most a number of jobs", text)
	}
	at, err := time.Parse(time.RFC3339, words[1])
	if err != nil {
		return fmt.Errorf("fault %q: %w", text, err)
	}
	*f = Fault{Kind: FaultKind(cut(words[0])), At: at.UTC()}
	if len(words) > 2 {
		if f.Jobs, err = strconv.Atoi(words[2]); err != nil {
			return fmt.Errorf("fault %q: %w", text, err)
		}
	}
	return nil
}

func (f Fault) equal(o Fault) bool { return f.Kind == o.Kind && f.Jobs == o.Jobs && f.At.Equal(o.At) }

// points are what a fault counts at a time: half of it after each faultsHalve, evenly in between.
func (f Fault) points(now time.Time) int {
	age := max(now.Sub(f.At), 0)
	if age >= faultsCount {
		return 0
	}
	full := aFault
	if f.Jobs > 0 {
		full += aLoss
	}
	full >>= int(age / faultsHalve)
	return full - int(int64(full)*int64(age%faultsHalve)/int64(2*faultsHalve))
}

// Points are what the faults of a node count, a thousand for each that is new.
func (h Health) Points(now time.Time) (sum int) {
	for _, f := range h.Faults {
		sum += f.points(now)
	}
	return sum
}

// JobsLost are those that were lost to the faults.
func (h Health) JobsLost() (n int) {
	for _, f := range h.Faults {
		n += f.Jobs
	}
	return n
}

// LostJob is that a job, which has a name of its own, lost what it did since its last checkpoint to the failure of a node.
type LostJob struct {
	Job string
	At  time.Time
}

// kind is which fault a part is; "" for none. What people, or programs for reasons of theirs, keep work off a node by is none: Taints.
func (p Part) kind() FaultKind {
	switch {
	case p.Worst == nil || p.Worst.Source == SourceTaint:
	case p.State == Suspect && p.Worst.Source == SourceHang:
		return FaultHang
	case p.State != FailedState && p.State != Draining:
	case p.Worst.Source == SourceCheck && p.Worst.Name == DeepTestCheck:
		return FaultDeepTest
	case p.Of != "":
		return FaultDevices
	default:
		return FaultSystem
	}
	return ""
}

// failing are the faults that a node has just now, sorted. One that is held in service has none but hangs: what watches
// the nodes looks as if it were at fault.
func (h Health) failing(down bool) []FaultKind { //nolint:revive // a fact
	var out []FaultKind
	if down {
		out = append(out, FaultDown)
	}
	for _, p := range h.Parts {
		if kind := p.kind(); kind == FaultHang || kind != "" && h.Held.IsZero() {
			out = append(out, kind)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// blame is it with a fault more, of a node that has some and had none at the last look, and how many jobs were lost to those it had:
// what fails while something else does, or within a day of it, is the same trouble. What somebody had forgotten, a deep
// test that passed has refuted (hangs), or is long ago, goes.
func (h Health) blame(p *Patient, down bool, now time.Time) Health {
	failing := h.failing(down)
	faults := slices.DeleteFunc(slices.Clone(h.Faults), func(f Fault) bool {
		return !f.At.After(p.Forgotten) || f.Kind == FaultHang && p.DeepPassed.After(f.At) ||
			!now.Before(f.At.Add(faultsCount))
	})
	again := slices.ContainsFunc(faults, func(f Fault) bool { return now.Before(f.At.Add(oneFault)) }) ||
		slices.ContainsFunc(h.Failing, func(kind FaultKind) bool { return kind != FaultHang })
	// One that is down with many at times, and alone at others, is so for the same reason.
	still := slices.ContainsFunc(h.Faults, func(f Fault) bool { return !f.At.Before(p.Down) })
	news := slices.DeleteFunc(slices.Clone(failing), func(kind FaultKind) bool {
		return slices.Contains(h.Failing, kind) || kind == FaultDown && still
	})
	if len(news) > 0 && !again {
		faults = append(faults, Fault{Kind: news[0], At: now})
	}
	lost := make([]map[string]bool, len(faults))
	for _, l := range p.Lost {
		for i := len(faults) - 1; i >= 0; i-- { // the last that may have been it
			at := faults[i].At
			if l.At.Before(at.Add(-lostBefore)) || !l.At.Before(at.Add(oneFault)) {
				continue
			}
			if lost[i] == nil {
				lost[i] = map[string]bool{}
			}
			lost[i][l.Job] = true
			break
		}
	}
	for i := range faults {
		faults[i].Jobs = min(max(faults[i].Jobs, len(lost[i])), mostLost)
	}
	h.Faults, h.Failing, h.Lemon = faults[max(len(faults)-mostFaults, 0):], failing, 0
	points := h.Points(now)
	for _, from := range lemonFrom() {
		if points > from {
			h.Lemon++
		}
	}
	return h
}

// down are the nodes that are down by themselves: where more of a flavor are than the breaker would take out, their
// network is, or what they have in common. With a node count those that went down at about the same time, so that one
// that is dead for days hides no other, and those that have just come back: the last ones back are no worse than they.
func (v *Verdict) down(
	policy Policy,
	patients []Patient,
	size map[string]int,
	now time.Time,
) map[string]bool {
	down, back, settled := map[string][]time.Time{}, map[string]int{}, time.Time{}
	for _, p := range patients {
		end := p.Returned.Add(backCounts)
		for _, pool := range p.pools() {
			switch {
			case !p.Down.IsZero():
				down[pool] = append(down[pool], p.Down)
			case now.Before(end):
				back[pool]++
				if end.After(settled) {
					settled = end
				}
			}
		}
	}
	for _, times := range down { // each by itself, so order does not matter
		slices.SortFunc(times, time.Time.Compare)
	}
	out := map[string]bool{}
	for _, p := range patients {
		at := p.Down.Add(downCounts)
		switch {
		case p.Down.IsZero():
		case at.After(now):
			v.due(at, now)
		case slices.ContainsFunc(p.pools(), func(pool string) bool {
			from, _ := slices.BinarySearchFunc(down[pool], p.Down.Add(-downTogether), time.Time.Compare)
			until, _ := slices.BinarySearchFunc(down[pool], p.Down.Add(downTogether), time.Time.Compare)
			return back[pool]+until-from > max(policy.budget(size[pool]), 1)
		}):
			v.due(settled, now) // by then only those count that are down still
		default:
			out[p.Name] = true
		}
	}
	return out
}
