package calibration_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/sim"
	"github.com/mlbatch/mlbatch/internal/sim/calibration"
)

// line is a world with one node of 8 GPUs and jobs of 8 that run for an hour each, one of
// which is submitted every so often.
func line(jobs int, every time.Duration) sim.World {
	gpus := core.Resources{}.With(core.GPU, 8)
	w := sim.World{
		Name: "line", Start: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
		Objects: []core.Event{
			core.FlavorSet{Flavor: core.Flavor{Name: "f"}},
			core.QueueSet{Queue: core.Queue{Name: "q", Namespaces: &core.Selector{}, Groups: []core.ResourceGroup{
				{
					Covered: []string{
						core.GPU,
					},
					Flavors: []core.FlavorQuotas{{Flavor: "f", Quotas: []core.Quota{{Resource: core.GPU, Nominal: 8}}}},
				},
			}}},
			core.NamespaceSet{Namespace: core.Namespace{Name: "ns"}},
			core.LocalQueueSet{LocalQueue: core.LocalQueue{Namespace: "ns", Name: "q", Queue: "q"}},
			core.NodeSet{Node: core.Node{Name: "n", State: core.NodeReady, Allocatable: gpus.With(core.Pods, 100)}},
		},
	}
	for i := range jobs {
		name := fmt.Sprintf("job-%03d", i)
		w.Jobs = append(w.Jobs, sim.Job{
			Key: core.Key{
				Namespace: "ns",
				Name:      name,
			},
			UID:     name,
			Queue:   "q",
			Submit:  time.Duration(i) * every,
			Work:    time.Hour,
			PodSets: []core.PodSet{{Name: "main", Count: 1, Requests: gpus}},
		})
	}
	return w
}

func measure(t *testing.T, w sim.World, limit time.Duration) calibration.Report {
	t.Helper()
	trial := calibration.New(calibration.Options{
		Every: 10 * time.Minute, Futures: 10, Decides: 2000, Engine: w.Engine,
		Limit: func(core.Key) time.Duration { return limit },
	})
	if _, err := sim.New(w, sim.Watch{Log: trial, Look: trial.Look}).Finish(); err != nil {
		t.Fatal(err)
	}
	r, err := trial.Report()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestMeasure: in a world in which every job takes an hour, limits of an hour foresee every
// start, limits of ten are in time and far off, and what learns from jobs that ended comes
// close; each job that waits is asked about when it comes, and now and then while it waits.
func TestMeasure(t *testing.T) {
	w := line(60, 50*time.Minute)
	exact, wide := measure(t, w, time.Hour), measure(t, w, 10*time.Hour)
	row := func(r calibration.Report, way string) calibration.Row {
		for _, row := range r.Rows {
			if row.Way == way {
				return row
			}
		}
		t.Fatalf("there is no row %q in %+v", way, r.Rows)
		return calibration.Row{}
	}
	limits, learned, later := row(
		exact,
		"when it came, by limits alone",
	), row(
		exact,
		"when it came",
	), row(
		exact,
		"while it waited",
	)
	if limits.Error > 6*time.Minute {
		t.Errorf("with the truth for limits it is off by %s", limits.Error)
	}
	if far := row(wide, "when it came, by limits alone"); far.P50 < 0.99 || far.Error < time.Hour {
		t.Errorf(
			"limits of ten hours are in time in %v and off by %s, want always and by hours",
			far.P50,
			far.Error,
		)
	}
	if learned.Estimates < 50 || learned.Estimates > 60 || learned.Error > time.Hour {
		t.Errorf("%d of 60 jobs waited and were asked about, off by %s", learned.Estimates, learned.Error)
	}
	if later.Estimates < learned.Estimates || exact.Looks < later.Estimates/60 {
		t.Errorf(
			"%d estimates while jobs waited, %d when they came, %d looks",
			later.Estimates,
			learned.Estimates,
			exact.Looks,
		)
	}
	if again := measure(t, w, time.Hour); fmt.Sprint(again) != fmt.Sprint(exact) {
		t.Errorf("the same world is measured as\n%+v\nand as\n%+v", exact, again)
	}
	var out strings.Builder
	if err := exact.Text(
		&out,
	); err != nil || !strings.Contains(out.String(), "P90 IN TIME") ||
		!strings.Contains(out.String(), "while it waited") {
		t.Errorf("%v: %s", err, out.String())
	}
}

// TestNobodyWaits: where nobody waits nothing is asked, and that is no error.
func TestNobodyWaits(t *testing.T) {
	r := measure(t, line(5, 2*time.Hour), time.Hour)
	for _, row := range r.Rows {
		if row.Estimates != 0 || row.P50 != 0 || row.Error != 0 {
			t.Errorf("nobody waited, and %+v", row)
		}
	}
	if r.Looks != 0 {
		t.Errorf("%d looks", r.Looks)
	}
}

// TestAskedLimit: nobody asks for less than a job takes, nor for far more than ten times as
// much; jobs differ, and one is asked for in the same way each time.
func TestAskedLimit(t *testing.T) {
	different := map[time.Duration]bool{}
	for i := range 200 {
		k := core.Key{Namespace: "ns", Name: fmt.Sprint(i)}
		limit := calibration.AskedLimit(k, time.Hour)
		if limit < time.Hour || limit > 12*time.Hour || limit != calibration.AskedLimit(k, time.Hour) {
			t.Errorf("%s for an hour's job", limit)
		}
		different[limit] = true
	}
	if len(different) < 4 {
		t.Errorf("all ask for the same: %v", different)
	}
	if limit := calibration.AskedLimit(core.Key{Name: "x"}, 100*24*time.Hour); limit != 100*24*time.Hour {
		t.Errorf("%s for a job of 100 days", limit)
	}
}
