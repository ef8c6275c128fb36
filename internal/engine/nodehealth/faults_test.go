package nodehealth

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// dayByDay looks at one node of a flavor of ten again and again, as the days of a story say.
type dayByDay struct {
	policy  Policy
	healths map[string]Health
	others  []Patient
	next    time.Time
}

func newDays() *dayByDay {
	d := &dayByDay{
		policy: Policy{Hold: 5 * time.Minute, MaxHold: time.Hour, Forget: 24 * time.Hour, Percent: 10, Most: 100},
	}
	for i := range 19 {
		d.others = append(d.others, Patient{Name: fmt.Sprintf("other-%02d", i), UID: "o", Pools: []string{"f"}})
	}
	return d
}

func (d *dayByDay) look(p Patient, at time.Time) Health {
	p.Name, p.UID, p.Pools = "n", "u", []string{"f"}
	v := Judge(d.policy, d.healths, append(slices.Clone(d.others), p), time.Time{}, at)
	d.healths, d.next = v.Healths, v.Next
	return d.healths["n"]
}

func theDay(n float64) time.Time {
	return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).Add(time.Duration(n * 24 * float64(time.Hour)))
}

func badly(source Source, name, resource string, s Severity) Patient {
	return Patient{Found: []Finding{{Source: source, Name: name, Resource: resource, Severity: s}}}
}

// What counts as a fault of a node, and what does not.
func TestWhatIsAFault(t *testing.T) {
	gpu := badly(SourceDevice, "nvidia.com/gpu", "nvidia.com/gpu", Failed)
	down := Patient{Down: theDay(0).Add(-2 * time.Minute)}
	hang := badly(SourceHang, "jobs", "", Warned)
	for name, c := range map[string]struct {
		why  string
		is   Patient
		want FaultKind
	}{
		"nothing":         {"", Patient{}, ""},
		"bad devices":     {"", gpu, FaultDevices},
		"fatal":           {"", badly(SourceCheck, "xid", "nvidia.com/gpu", Fatal), FaultDevices},
		"a disk":          {"", badly(SourceCondition, "ReadonlyFilesystem", "", Failed), FaultSystem},
		"only warned":     {"worse than it should be is not failed", badly(SourceCondition, "FrequentKubeletRestart", "", Warned), ""},
		"a deep test":     {"", badly(SourceCheck, DeepTestCheck, "nvidia.com/gpu", Fatal), FaultDeepTest},
		"a taint":         {"people and programs keep work off nodes for reasons of theirs", badly(SourceTaint, "mine", "", Failed), ""},
		"hangs":           {"of two users, else there is no such finding", hang, FaultHang},
		"down":            {"", down, FaultDown},
		"down a moment":   {"a kubelet that starts anew", Patient{Down: theDay(0).Add(-30 * time.Second)}, ""},
		"lost jobs alone": {"what tenants' jobs say makes no fault", Patient{Lost: []LostJob{{"blue/x", theDay(0)}}}, ""},
	} {
		got := FaultKind("")
		if h := newDays().look(c.is, theDay(0)); len(h.Faults) > 0 {
			got = h.Faults[0].Kind
		}
		if got != c.want {
			t.Errorf("%s: fault %q, want %q: %s", name, got, c.want, c.why)
		}
	}
}

// Many nodes that are down at once have a network in common, and what is held in service is no fault of the node.
func TestManyAtOnceAreNoFaults(t *testing.T) {
	d := newDays()
	for i := range 2 {
		d.others[i].Down = theDay(0).Add(-time.Hour)
	}
	p := Patient{Down: theDay(0).Add(-time.Hour)}
	if h := d.look(p, theDay(0)); len(h.Faults) > 0 {
		t.Errorf("three of twenty are down, and it has faults %v", h.Faults)
	}
	if h := d.look(p, theDay(0.09)); len(h.Faults) > 0 {
		t.Errorf("three of twenty are down for hours, and it has faults %v", h.Faults)
	}
	for i := range 2 {
		d.others[i].Down, d.others[i].Returned = time.Time{}, theDay(0.1)
	}
	if h := d.look(p, theDay(0.1).Add(9*time.Minute)); len(h.Faults) > 0 {
		t.Errorf("the others came back just now, and it has faults %v", h.Faults)
	}
	if settled := theDay(0.1).Add(backCounts); !d.next.Equal(settled) {
		t.Errorf("it is looked again at %s, want %s: nothing else happens then", d.next, settled)
	}
	if h := d.look(p, theDay(0.1).Add(backCounts)); len(h.Faults) != 1 {
		t.Errorf("the others are back for ten minutes, and it has faults %v, want one", h.Faults)
	}
	d = newDays()
	bad := badly(SourceCondition, "GpuXid", "nvidia.com/gpu", Failed)
	for i := range 2 {
		d.others[i].Found = badly(
			SourceCheck,
			"xid",
			"nvidia.com/gpu",
			Fatal,
		).Found // the worst are taken out first
	}
	if h := d.look(bad, theDay(0)); h.Held.IsZero() || len(h.Faults) > 0 {
		t.Errorf("it is held in service since %v and has faults %v, want none", h.Held, h.Faults)
	}
}

// A trouble is one fault, however many sources find it, however often it comes back within a day and however long it lasts.
func TestATroubleIsOneFault(t *testing.T) {
	d, bad := newDays(), badly(SourceDevice, "g", "g", Failed)
	for hours := range 20 { // it flaps
		is := Patient{}
		if hours%2 == 0 {
			is = bad
		}
		d.look(is, theDay(float64(hours)/24))
	}
	if h := d.look(Patient{Down: theDay(0.85)}, theDay(0.9)); len(h.Faults) != 1 || h.Lemon != 0 {
		t.Errorf("after a day of trouble its faults are %v, lemon %d, want one and none", h.Faults, h.Lemon)
	}
	d = newDays()
	d.look(bad, theDay(0))
	tested := bad
	tested.Found = append(slices.Clone(bad.Found), badly(SourceCheck, DeepTestCheck, "g", Fatal).Found...)
	if h := d.look(tested, theDay(3)); len(h.Faults) != 1 {
		t.Errorf("a test found what was found before: faults %v, want one", h.Faults)
	}
}

// A node that stays down has one fault, however often another one fails beside it, and each time of that is one.
func TestADeadNodeIsOneFault(t *testing.T) {
	d, dead := newDays(), Patient{Down: theDay(0)}
	d.policy.Percent = 5 // one of twenty
	d.look(dead, theDay(0).Add(2*time.Minute))
	for _, day := range []float64{3, 6} {
		flaps := &d.others[0]
		flaps.Down, flaps.Returned = theDay(day), time.Time{}
		d.look(dead, theDay(day).Add(2*time.Minute))
		flaps.Down, flaps.Returned = time.Time{}, theDay(day).Add(3*time.Minute)
		d.look(dead, theDay(day).Add(4*time.Minute)) // here both count
		d.look(dead, theDay(day).Add(time.Hour))
	}
	if dead, flaps := d.healths["n"].Faults, d.healths["other-00"].Faults; len(dead) != 1 || len(flaps) != 2 {
		t.Errorf("it has faults %v, want one, and the other %v, want two", dead, flaps)
	}
}

// A node that fails again and again becomes a lemon, and is better again with the weeks.
func TestLemons(t *testing.T) {
	bad := badly(SourceDevice, "g", "g", Failed)
	lossy := bad
	lossy.Lost = []LostJob{{"blue/x", theDay(0)}, {"blue/x", theDay(0)}, {"red/y", theDay(0)}}
	for name, c := range map[string]struct {
		why  string
		bad  []float64 // days
		is   Patient
		at   float64
		want int
		left int // faults
	}{
		"once":                    {"anything may fail once", []float64{0}, bad, 1, 0, 1},
		"once, with jobs":         {"", []float64{0}, lossy, 1, 0, 1},
		"twice within two weeks":  {"", []float64{0, 10}, bad, 10, 1, 2},
		"twice in two months":     {"", []float64{0, 50}, bad, 50, 0, 2},
		"jobs were lost":          {"it counts half as much again", []float64{0, 20}, lossy, 20, 1, 2},
		"no jobs were lost":       {"", []float64{0, 20}, bad, 20, 0, 2},
		"each other day":          {"", []float64{0, 2, 4, 6, 8, 10, 12, 14}, bad, 14, 3, 8},
		"more than is remembered": {"the newest count", []float64{0, 2, 4, 6, 8, 10, 12, 14, 16, 18}, bad, 18, 3, 8},
		"two weeks later":         {"it counts half", []float64{0, 2, 4, 6, 8, 10, 12, 14}, bad, 28, 2, 8},
		"two months later":        {"all is forgotten", []float64{0, 2, 4, 6, 8, 10, 12, 14}, bad, 71, 0, 0},
	} {
		d := newDays()
		for _, at := range c.bad {
			p := c.is
			for i := range p.Lost {
				p.Lost = slices.Clone(p.Lost)
				p.Lost[i].At = theDay(at)
			}
			d.look(p, theDay(at))
			d.look(Patient{}, theDay(at).Add(time.Hour))
			d.look(Patient{}, theDay(at).Add(26*time.Hour)) // it is well, by way of Back
		}
		h := d.look(Patient{}, theDay(c.at))
		if h.Lemon != c.want || len(h.Faults) != c.left {
			t.Errorf("%s: lemon %d with %v, want %d with %d: %s", name, h.Lemon, h.Faults, c.want, c.left, c.why)
		}
		if len(c.is.Lost) > 0 && h.JobsLost() != 2*len(c.bad) {
			t.Errorf("%s: %d jobs were lost, want two each time", name, h.JobsLost())
		}
	}
}

// Whoever repairs a node has its faults forgotten; who only says that it is well has not. A deep test that passed refutes
// hangs, and nothing else.
func TestFaultsAreForgotten(t *testing.T) {
	for name, c := range map[string]struct {
		is   Patient
		said Evidence
		want int
	}{
		"cleared":                {badly(SourceDevice, "g", "g", Fatal), Evidence{Cleared: theDay(1)}, 1},
		"repaired":               {badly(SourceDevice, "g", "g", Fatal), Evidence{Cleared: theDay(1), Forgotten: theDay(1)}, 0},
		"repaired some day":      {badly(SourceDevice, "g", "g", Fatal), Evidence{Forgotten: theDay(99)}, 1},
		"repaired before":        {badly(SourceDevice, "g", "g", Fatal), Evidence{Forgotten: theDay(-1)}, 1},
		"a test passed":          {badly(SourceDevice, "g", "g", Fatal), Evidence{DeepPassed: theDay(1)}, 1},
		"a test passed, of hang": {badly(SourceHang, "jobs", "", Warned), Evidence{DeepPassed: theDay(1)}, 0},
	} {
		d := newDays()
		d.look(c.is, theDay(0))
		if h := d.look(Patient{Evidence: c.said}, theDay(1.1)); len(h.Faults) != c.want {
			t.Errorf("%s: faults %v, want %d", name, h.Faults, c.want)
		}
	}
	d := newDays()
	d.look(badly(SourceDevice, "g", "g", Fatal), theDay(0))
	d.others = append(d.others, Patient{Name: "n", UID: "another", Pools: []string{"f"}})
	if h := Judge(d.policy, d.healths, d.others, time.Time{}, theDay(1)).Healths["n"]; len(h.Faults) > 0 {
		t.Errorf("a new node has the faults %v of one that had its name", h.Faults)
	}
}

// What is remembered says the same after a restart, and the same look twice changes nothing.
func TestFaultsAreWritten(t *testing.T) {
	for _, f := range []Fault{{FaultDown, theDay(0), 0}, {FaultDevices, theDay(3), 12}} {
		text, err := f.MarshalText()
		var back Fault
		if err != nil || back.UnmarshalText(text) != nil || !back.equal(f) {
			t.Errorf("%+v is written %q and read %+v (%v)", f, text, back, err)
		}
	}
	for _, text := range []string{"", "Down", "Down yesterday", "Down 2026-03-01T12:00:00Z x", "Down 2026-03-01T12:00:00Z 1 2"} {
		if new(Fault).UnmarshalText([]byte(text)) == nil {
			t.Errorf("%q is a fault", text)
		}
	}
	d := newDays()
	bad := badly(SourceDevice, "g", "g", Failed)
	first := d.look(bad, theDay(0))
	if again := d.look(bad, theDay(0)); !again.Equal(first) {
		t.Errorf("the same look says %+v and then %+v", first, again)
	}
}

// Ten thousand nodes that all have failed as often as is remembered: as much is kept as fits, of the worst.
func TestFaultsOfAllNodesFit(t *testing.T) {
	policy := Policy{Percent: 100, Most: DefaultMost}
	was, patients := map[string]Health{}, []Patient(nil)
	for i := range 10_000 {
		name := fmt.Sprintf("gpu-node-%05d.cluster.example.com", i)
		h := Health{UID: "3f0e1f0c-6f0b-4b3c-9f52-0a4ff0c3d1aa", Pools: []string{"default-flavor"}}
		for k := range 1 + i%mostFaults {
			h.Faults = append(h.Faults, Fault{FaultDeepTest, theDay(float64(2 * k)), mostLost})
		}
		was[name] = h
		patients = append(patients, Patient{Name: name, UID: h.UID, Pools: h.Pools})
	}
	began := time.Now()
	v := Judge(policy, was, patients, time.Time{}, theDay(20))
	bytes, lemons := 0, 0
	for name, h := range v.Healths {
		text, err := h.Text()
		if err != nil {
			t.Fatal(err)
		}
		bytes += len(name) + len(text)
		if h.Lemon > 0 {
			lemons++
		}
	}
	t.Logf("%d nodes, %d bytes, judged within %v", len(v.Healths), bytes, time.Since(began))
	if bytes > 1<<20 || len(v.Healths) < 1500 || lemons != len(v.Healths) {
		t.Errorf(
			"%d nodes of which %d are lemons are remembered with %d bytes, want 1500 at least, the worst",
			len(v.Healths),
			lemons,
			bytes,
		)
	}
	if v.Unknown > 0 {
		t.Errorf("%d nodes are told of that look bad: these are well", v.Unknown)
	}
}

// Where there is no room for all, nodes that wait for their deep test are remembered before those that had faults:
// these are only avoided, and those would be used untested.
func TestLemonsPushOutNoneThatWaits(t *testing.T) {
	policy := Policy{Percent: 100, Most: 2, TestReturned: true}
	was := map[string]Health{"waits": {UID: "u", Untested: theDay(0)}}
	patients := []Patient{{Name: "waits", UID: "u", Testable: true}}
	for _, name := range []string{"a", "b", "c"} {
		was[name] = Health{UID: "u", Faults: []Fault{{FaultDown, theDay(-1), 1}, {FaultDown, theDay(-3), 1}}}
		patients = append(patients, Patient{Name: name, UID: "u"})
	}
	v := Judge(policy, was, patients, time.Time{}, theDay(1))
	if h := v.Healths["waits"]; h.Untested.IsZero() || len(v.Healths) != policy.Most {
		t.Errorf("of %d nodes that are remembered, it is %+v, want that it waits", len(v.Healths), h)
	}
}
