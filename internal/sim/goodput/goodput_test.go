package goodput

import (
	"bytes"
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/mlbatch/mlbatch/internal/sim"
)

var update = flag.Bool("update", false, "write the golden files afresh")

// golden compares with a file, or writes it.
func golden(t *testing.T, file string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(want, got) {
		t.Errorf("%s differs (-update writes it):\n%s", file, got)
	}
}

// The trace that is published is that of a seed, and was not picked line by line.
func TestTheStatedTraceIsDrawn(t *testing.T) {
	var out bytes.Buffer
	if err := Write(&out, Draw(1, nodeCount, horizon)); err != nil {
		t.Fatal(err)
	}
	golden(t, "failures.csv", out.Bytes())
}

// The table of docs/goodput.md.
func TestTable(t *testing.T) {
	failures := Draw(1, nodeCount, horizon)
	rows, err := Table(failures)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := Print(&out, failures, rows); err != nil {
		t.Fatal(err)
	}
	golden(t, "testdata/table.txt", out.Bytes())
	for i := 0; i < len(rows); i += len(Policies()) {
		full, one, ours := rows[i], rows[i+1], rows[i+3]
		if full.ETTR >= one.ETTR || one.ETTR >= ours.ETTR {
			t.Errorf(
				"%gs: full reset %.3f, one node %.3f, ours %.3f",
				full.CheckpointSeconds,
				full.ETTR,
				one.ETTR,
				ours.ETTR,
			)
		}
	}
}

// Hours are counted once: what is not productive adds up to the rest of the time.
func TestHoursAddUp(t *testing.T) {
	for _, p := range Policies() {
		r, err := Play(p, Draw(2, nodeCount, 3*24*time.Hour), 5*time.Minute, sim.Watch{})
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
		r, err := Play(p, two, 5*time.Minute, sim.Watch{})
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
		r, err := Play(p, hang, 5*time.Minute, sim.Watch{})
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
		w := World(&p, Draw(3, nodeCount, horizon), 5*time.Minute)
		w.Horizon = 36 * time.Hour
		if _, err := sim.New(w, sim.Watch{Check: true}).Finish(); err != nil {
			t.Errorf("%s: %v", p.Name, err)
		}
	}
}
