package goodput

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mlbatch/mlbatch/internal/sim"
	"github.com/mlbatch/mlbatch/internal/testkit"
)

// minutes is a checkpoint that most tests have.
const minutes = 5 * time.Minute

// The trace that is published is that of a seed, and was not picked line by line.
func TestTheStatedTraceIsDrawn(t *testing.T) {
	drawn := Draw(1, nodeCount, horizon)
	var out bytes.Buffer
	if err := Write(&out, drawn); err != nil {
		t.Fatal(err)
	}
	testkit.Golden(t, "failures.csv", out.String())
	read, err := Read(&out)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(drawn, read); diff != "" {
		t.Errorf("what is written is read (-drawn +read):\n%s", diff)
	}
}

// The table of docs/goodput.md is what the program prints.
func TestTable(t *testing.T) {
	failures, err := Stated()
	if err != nil {
		t.Fatal(err)
	}
	rows, err := Table(t.Context(), failures)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := Print(&out, failures, rows); err != nil {
		t.Fatal(err)
	}
	testkit.Section(
		t, "../../../docs/goodput.md", "table",
		"```\n$ mlbatch simulate --goodput\n"+out.String()+"```\n",
	)
	of := map[string]map[float64]float64{}
	for _, r := range rows {
		if of[r.Policy] == nil {
			of[r.Policy] = map[float64]float64{}
		}
		of[r.Policy][r.CheckpointSeconds] = r.ETTR
	}
	order := []string{"one node, watchdog of 30 min", "full reset", "one node, as Kueue 0.19", "mlbatch"}
	for _, each := range Checkpoints() {
		for i := 1; i < len(order); i++ {
			worse, better := of[order[i-1]][each.Seconds()], of[order[i]][each.Seconds()]
			if worse >= better {
				t.Errorf("%s: %s %.3f, %s %.3f", each, order[i-1], worse, order[i], better)
			}
		}
	}
}

// What is no longer wanted ends, and says so.
func TestStopsEarly(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	rows, err := Table(ctx, Draw(1, nodeCount, horizon))
	if len(rows) > 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("%d rows, %v", len(rows), err)
	}
}

// The figures of nine seeds that docs/goodput.md sums up: go test -run '^$' -bench Seeds -benchtime 1x.
func BenchmarkSeeds(b *testing.B) {
	for b.Loop() {
		for _, p := range Policies() {
			best, worst := 0.0, 1.0
			for seed := range uint64(9) {
				r, err := Play(b.Context(), p, Draw(seed+2, nodeCount, horizon), minutes, sim.Watch{})
				if err != nil {
					b.Fatal(err)
				}
				best, worst = max(best, r.ETTR), min(worst, r.ETTR)
			}
			b.Logf("%-28s  %.1f to %.1f %%, seeds 2 to 10", p.Name, 100*worst, 100*best)
		}
	}
}

// Hours are counted once: what is not productive adds up to the rest of the time.
func TestHoursAddUp(t *testing.T) {
	for _, p := range Policies() {
		r, err := Play(t.Context(), p, Draw(2, nodeCount, 3*24*time.Hour), minutes, sim.Watch{})
		if err != nil {
			t.Fatal(err)
		}
		wall := (r.Unseen + r.Lost + r.Saving + r.Restart) / (1 - r.ETTR)
		if d := wall - horizon.Hours(); d < -1 || d > 1 {
			t.Errorf("%s: %.1f h of %.1f", p.Name, wall, horizon.Hours())
		}
	}
}

// Two nodes of the job fail ten seconds apart: only a job that survives the loss of one alone is stopped.
func TestASecondNode(t *testing.T) {
	two := []Failure{
		{At: time.Hour, Fault: sim.Fault{Node: NodeName(3), Kind: sim.FaultGPU, Repair: time.Hour}},
		{
			At:    time.Hour + 10*time.Second,
			Fault: sim.Fault{Node: NodeName(40), Kind: sim.FaultGPU, Repair: time.Hour},
		},
	}
	for _, p := range Policies() {
		r, err := Play(t.Context(), p, two, minutes, sim.Watch{})
		if err != nil {
			t.Fatal(err)
		}
		if kept := p.Recovery.BySteps; kept != (r.Stops == 0) {
			t.Errorf("%s: stopped %d times, %d resets", p.Name, r.Stops, r.Resets)
		}
	}
}

// A hang is found by its steps, and never where there is none.
func TestHangsAreFound(t *testing.T) {
	hang := []Failure{{At: time.Hour, Fault: sim.Fault{Node: NodeName(3), Kind: sim.FaultHang}}}
	for _, p := range Policies() {
		r, err := Play(t.Context(), p, hang, minutes, sim.Watch{})
		if err != nil {
			t.Fatal(err)
		}
		longest := (p.Recovery.Watchdog + time.Minute).Hours()
		if p.Recovery.BySteps {
			longest = (2*every + p.Recovery.Evidence.Max).Hours()
		}
		if r.Unseen == 0 || r.Unseen > longest || r.Stops+r.Resets != 1 {
			t.Errorf(
				"%s: unseen for %.3f h of %.3f, %d stops, %d resets",
				p.Name,
				r.Unseen,
				longest,
				r.Stops,
				r.Resets,
			)
		}
	}
}

func TestBadTraces(t *testing.T) {
	const head = "seconds,node,kind,repair_minutes\n"
	for name, c := range map[string]struct{ text, want string }{
		"no header":    {"1,node-000,GPU,5\n", "line 1: the columns must be seconds,node,kind,repair_minutes"},
		"empty":        {head, "there is no failure in it"},
		"time":         {head + "x,node-000,GPU,5\n", `line 2: seconds "x" is no number`},
		"node":         {head + "1,node-999,GPU,5\n", `line 2: node "node-999" is none: use node-000 to node-271`},
		"kind":         {head + "1,node-000,Fire,5\n", `line 2: kind "Fire" is none: use GPU, Network`},
		"repair":       {head + "1,node-000,GPU,-5\n", `line 2: repair_minutes "-5" is no number`},
		"not sorted":   {head + "2,node-000,GPU,5\n1,node-000,GPU,5\n", "line 3: seconds is less than in the line before"},
		"too late":     {head + "2592000,node-000,GPU,5\n", "line 2: seconds 2592000 is past the end"},
		"all is told":  {head + "x,node-000,GPU,5\n1,node-000,Fire,5\n", "line 3: kind"},
		"short a line": {head + "1,node-000\n", "wrong number of fields"},
	} {
		if _, err := Read(strings.NewReader(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// The promises hold while all of that happens, and no job is stopped for a hang that takes its steps in time.
func TestPromisesHold(t *testing.T) {
	for _, p := range Policies() {
		w := World(&p, Draw(3, nodeCount, horizon), minutes)
		w.Horizon = 36 * time.Hour
		if _, err := sim.New(w, sim.Watch{Check: true}).Finish(); err != nil {
			t.Errorf("%s: %v", p.Name, err)
		}
	}
}
