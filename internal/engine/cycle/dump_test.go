package cycle_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/cycle"
	"github.com/mlbatch/mlbatch/internal/record"
)

// twins are an engine and others that were loaded from what it dumped.
type twins struct {
	t       *rapid.T
	opt     cycle.Options
	engine  *cycle.Engine
	loaded  []*cycle.Engine
	decides int
}

func (w *twins) apply(ev core.Event) {
	w.engine.Apply(ev)
	for _, l := range w.loaded {
		l.Apply(ev)
	}
}

// decide lets all of them decide and compares every byte.
func (w *twins) decide(now time.Time) {
	w.t.Helper()
	w.check(now, w.engine.Decide(now))
}

// check compares a plan of the engine with those of the others, and at times adds
// another one. A second state, dumped right after the first was loaded, must be
// the same.
func (w *twins) check(now time.Time, plan core.Plan) {
	w.t.Helper()
	want := printPlan(w.t, now, plan)
	for i, l := range w.loaded {
		if diff := cmp.Diff(want, printPlan(w.t, now, l.Decide(now))); diff != "" {
			w.t.Fatalf(
				"%+v: the engine and the one loaded from its state %d decide differently (-dumped +loaded):\n%s",
				w.opt,
				i,
				diff,
			)
		}
		if err := l.Check(); err != nil {
			w.t.Fatalf("%+v: loaded: %v", w.opt, err)
		}
		if diff := cmp.Diff(
			strings.Split(dumped(w.t, w.engine), ","),
			strings.Split(dumped(w.t, l), ","),
		); diff != "" {
			w.t.Fatalf(
				"%+v: the states of the engine and of the one loaded from its state %d differ (-dumped +loaded):\n%s",
				w.opt,
				i,
				diff,
			)
		}
	}
	if w.decides++; len(w.loaded) < 3 && rapid.IntRange(0, 3).Draw(w.t, "dump") == 0 {
		w.loaded = append(w.loaded, reload(w.t, w.opt, w.engine))
	}
}

// reload sends an engine's state through the format of recordings.
func reload(t *rapid.T, o cycle.Options, e *cycle.Engine) *cycle.Engine {
	t.Helper()
	text := dumped(t, e)
	var s cycle.Snapshot
	if err := record.NewCodec().Decode([]byte(text), &s); err != nil {
		t.Fatal(err)
	}
	l, err := cycle.Load(o, &s)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Check(); err != nil {
		t.Fatalf("loaded: %v", err)
	}
	if diff := cmp.Diff(strings.Split(text, ","), strings.Split(dumped(t, l), ",")); diff != "" {
		t.Fatalf("dumping what was just loaded (-want +got):\n%s", diff)
	}
	return l
}

func dumped(t *rapid.T, e *cycle.Engine) string {
	t.Helper()
	s, err := e.Dump()
	if err != nil {
		t.Fatal(err)
	}
	b, err := record.NewCodec().Append(nil, s)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func printPlan(t *rapid.T, now time.Time, plan core.Plan) string {
	t.Helper()
	b, err := record.NewCodec().AppendDecide(nil, now, plan)
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(b), `},{`, "},\n{")
}

// TestLoadedEnginesDecideTheSame dumps engines in the middle of random worlds and
// loads the states: from there on, through everything that follows, both decide
// the same to the byte. One engine decides alone; the others live in the same
// world, where another engine decides too, which they observe.
func TestLoadedEnginesDecideTheSame(t *testing.T) {
	usage := core.AdmissionFairSharing{HalfLife: refHalfLife, Sampling: refSampling}
	for name, fair := range map[string]*core.FairSharing{"classical": nil, "fair": core.DefaultFairSharing()} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				x := newDuel(t, fair)
				own := &twins{t: t, opt: x.options, engine: x.engine}
				all := []*twins{
					{t: t, opt: cycle.Options{Budget: 1, FairSharing: fair, AdmissionFairSharing: usage}},
					{
						t: t,
						opt: cycle.Options{
							Budget:               2,
							FairSharing:          fair,
							AdmissionFairSharing: usage,
							BlockAdmission:       true,
							Observe:              3 * time.Second,
						},
					},
					{
						t: t,
						opt: cycle.Options{
							FairSharing:          fair,
							AdmissionFairSharing: usage,
							StabilizationWindow:  3 * time.Second,
						},
					},
				}
				for _, w := range all {
					w.engine = cycle.New(w.opt)
					for _, ev := range x.log {
						w.apply(ev)
					}
				}
				x.told = func(ev core.Event) {
					for _, l := range own.loaded {
						l.Apply(ev)
					}
					for _, w := range all {
						w.apply(ev)
					}
				}
				x.others = func(ev core.Event) {
					for _, w := range all {
						w.apply(ev)
					}
				}
				x.decided = func() {
					own.check(x.now, x.plan)
					for _, w := range all {
						w.decide(x.now)
					}
				}
				x.play()
			})
		})
	}
}

// extra makes things happen that the reference knows nothing of, to the engines
// beside it.
func (x *duel) extra() {
	if x.others == nil || len(x.ref.workloads) == 0 || pick(x.t, "extra", true, false, false) {
		return
	}
	w := pick(x.t, "who", x.ref.sorted()...)
	switch pick(x.t, "what", "refused", "applied", "held", "backoff", "gate", "priority") {
	case "refused":
		x.others(core.Refused{Key: w.Key})
	case "applied":
		x.others(core.Applied{Key: w.Key, Seq: x.seq + 1})
	case "held":
		o := w.Workload
		o.Held = "Deactivated"
		x.others(core.WorkloadSet{Workload: o})
	case "priority":
		o := w.Workload
		o.Priority = pick[int64](x.t, "new priority", 0, 1, 2)
		x.others(core.WorkloadSet{Workload: o})
	case "gate":
		o := w.Workload
		o.PreemptionGate = "closed"
		x.others(core.WorkloadSet{Workload: o})
	case "backoff":
		o := w.Workload
		o.NotBefore = x.now.Add(time.Second)
		x.others(core.WorkloadSet{Workload: o})
	}
}

func TestDumpIsForDecidedWorlds(t *testing.T) {
	e := small()
	if _, err := e.Dump(); err == nil {
		t.Error("edits that no Decide has taken in cannot be dumped")
	}
	e.Decide(time.Unix(1, 0))
	if _, err := e.Dump(); err != nil {
		t.Errorf("after a Decide: %v", err)
	}
}

// TestTreesGrowWhileAdmissionsAreUnseen: a workload waits until the admission of its
// victim is seen, and in between its cohort gets a parent. What was noted of the tree
// is noted of the greater one alone.
func TestTreesGrowWhileAdmissionsAreUnseen(t *testing.T) {
	e := small()
	world := smallWorld()
	queue := world[len(world)-1].(core.QueueSet).Queue
	queue.Cohort = "right"
	e.Apply(core.QueueSet{Queue: queue})
	e.Apply(core.WorkloadSet{Workload: cpuJob("low", 0, 4)})
	var admission *core.Admission
	for _, d := range e.Decide(time.Unix(101, 0)) {
		if admit, ok := d.(core.Admit); ok {
			admission = &admit.Admission
		}
	}
	if admission == nil {
		t.Fatal("there was room for it")
	}
	e.Apply(core.WorkloadSet{Workload: cpuJob("high", 1, 4)})
	expect(t, "the admission of its victim is on its way", steps(t, e, 102), "refuse high")
	e.Apply(core.CohortSet{Cohort: core.Cohort{Name: "right", Parent: "top"}})
	expect(t, "it still is", steps(t, e, 103))
	state, err := e.Dump()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]cycle.TreeName{{Name: "top"}}, state.Recheck); diff != "" {
		t.Errorf("trees to be looked at again (-want +got):\n%s", diff)
	}
	seen := cpuJob("low", 0, 4)
	seen.Admission = admission
	e.Apply(core.WorkloadSet{Workload: seen})
	expect(t, "now it is seen", steps(t, e, 104), "evict low for high", "refuse high")
}

func TestLoadRefusesNonsense(t *testing.T) {
	key := core.Key{Namespace: "a", Name: "x"}
	waits := cycle.WorkloadState{Key: key, UID: "u", LocalQueue: "q"}
	tests := map[string]struct {
		why, says string
		state     cycle.Snapshot
	}{
		"version": {
			"says which it takes",
			fmt.Sprintf("version 99, this program loads version %d", cycle.StateVersion),
			cycle.Snapshot{Version: 99},
		},
		"twice": {
			"names it",
			"a/x is listed twice",
			cycle.Snapshot{Workloads: []cycle.WorkloadState{waits, waits}},
		},
		"unknown": {"names it", "no workload a/x", cycle.Snapshot{Leaving: []core.Key{key}}},
		"no phase": {
			"would index out of range",
			"phase 9",
			cycle.Snapshot{Workloads: []cycle.WorkloadState{{Key: key, Phase: 9}}},
		},
		"holds nil": {
			"running needs an admission",
			"phase 2",
			cycle.Snapshot{Workloads: []cycle.WorkloadState{{Key: key, Phase: 2}}},
		},
		"empty group": {"has no shape", "group without members", cycle.Snapshot{Queues: []cycle.QueueState{{
			Name: "q", Groups: []cycle.GroupState{{}},
		}}}},
		"no such reservation": {"it waits", "cannot have this reservation", cycle.Snapshot{
			Workloads: []cycle.WorkloadState{waits}, Reservations: []cycle.ReservationState{{Key: key}},
		}},
		"headless": {
			"no workload to judge",
			"nobody to be judged",
			cycle.Snapshot{Queues: []cycle.QueueState{{Name: "q", Head: &cycle.HeadState{}}}},
		},
		"no spec": {
			"nothing to compile",
			"not defined and has a plan",
			cycle.Snapshot{
				Workloads: []cycle.WorkloadState{waits},
				Queues: []cycle.QueueState{
					{
						Name: "q",
						Groups: []cycle.GroupState{
							{Members: []core.Key{key}, Plan: cycle.PlanState{Compiled: true, Current: true}},
						},
					},
				},
			},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if tc.state.Version == 0 {
				tc.state.Version = cycle.StateVersion
			}
			_, err := cycle.Load(cycle.Options{}, &tc.state)
			if err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%s: got %v, want %q", tc.why, err, tc.says)
			}
		})
	}
}
