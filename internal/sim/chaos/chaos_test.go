package chaos_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/cycle"
	"github.com/mlbatch/mlbatch/internal/sim"
	"github.com/mlbatch/mlbatch/internal/sim/chaos"
	"github.com/mlbatch/mlbatch/internal/sim/kuberules"
)

// number reads an environment variable, 0 if it is not set.
func number(t *testing.T, name string) int {
	t.Helper()
	s := os.Getenv(name)
	if s == "" {
		return 0
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatalf("%s is %q: it must be a number", name, s)
	}
	return n
}

// TestWorlds tries made-up worlds: MLBATCH_SIM_WORLDS of them from seed
// MLBATCH_SIM_SEED, or as many as there is time for in MLBATCH_SIM_MINUTES.
func TestWorlds(t *testing.T) {
	worlds, seed, minutes := number(
		t,
		"MLBATCH_SIM_WORLDS",
	), max(
		1,
		number(t, "MLBATCH_SIM_SEED"),
	), number(
		t,
		"MLBATCH_SIM_MINUTES",
	)
	if worlds == 0 && minutes == 0 {
		worlds = 1000 // some seconds
	}
	advised, tried := sim.Tally{}, 0
	began, said := time.Now(), time.Now()
	for n := 0; (worlds == 0 || n < worlds) && (minutes == 0 || time.Since(began) < time.Duration(minutes)*time.Minute); n++ {
		w := chaos.World(uint64(seed + n))
		w.Rules = kuberules.Rules{}
		if err := chaos.Audit(w, advised); err != nil {
			report(t, w, err)
		}
		if time.Since(said) > 10*time.Second {
			said = time.Now()
			fmt.Fprintf(
				os.Stderr,
				"%d worlds, seeds %d to %d, %s\n",
				n+1,
				seed,
				seed+n,
				time.Since(began).Round(time.Second),
			)
		}
		tried++
	}
	t.Log(printTally(advised))
	if tried >= enoughWorlds {
		for _, want := range adviceExpected {
			if advised[want] == 0 {
				t.Errorf(
					"in %d worlds nobody who waits because of %s %s was told to %s, or why: the worlds, or the engine, lack something",
					tried,
					want.Code,
					want.Cause,
					want.Kind,
				)
			}
		}
	}
}

// adviceExpected are advices that have to occur, by reason.
var adviceExpected = []sim.Told{
	{Code: core.AdmissionGated, Kind: core.OpenGate},
	{Code: core.AdmissionGated, Cause: core.PreemptionGated, Kind: core.OpenGate},
	{Code: core.ExceedsMaxQuota, Kind: core.FewerPods},
	{Code: core.ExceedsMaxQuota, Kind: core.SmallerPods},
	{Code: core.ExceedsMaxQuota, Kind: core.Tolerate},
	{Code: core.ExceedsMaxQuota, Kind: core.OtherQueue},
	{Code: core.Misconfigured, Cause: core.CohortCycle},
	{Code: core.Misconfigured, Cause: core.FlavorMissing, Kind: core.OtherQueue},
	{Code: core.Misconfigured, Cause: core.NamespaceMismatch, Kind: core.OtherQueue},
	{Code: core.Misconfigured, Cause: core.QueueMissing, Kind: core.OtherQueue},
	{Code: core.Misconfigured, Cause: core.ResourceUncovered, Kind: core.OtherQueue},
	{Code: core.Misconfigured, Cause: core.ResourceUncovered, Kind: core.SmallerPods},
	{Code: core.NoMatchingFlavor, Cause: core.AffinityMismatch, Kind: core.DropSelector},
	{Code: core.NoMatchingFlavor, Cause: core.AffinityMismatch, Kind: core.Tolerate},
	{Code: core.NoMatchingFlavor, Cause: core.UntoleratedTaint, Kind: core.DropSelector},
	{Code: core.NoMatchingFlavor, Cause: core.UntoleratedTaint, Kind: core.Tolerate},
	{Code: core.OnHold, Kind: core.Release},
	{Code: core.OnHold, Cause: core.BackingOff, Kind: core.AwaitBackOff},
	{Code: core.Suspended, Cause: core.QueueStopped, Kind: core.ResumeLocal},
	{Code: core.Suspended, Cause: core.QueueStopped, Kind: core.ResumeQueue},
	{Code: core.Suspended, Cause: core.QueueUnready, Kind: core.OtherQueue},
	{Code: core.TopologyPlacementFailed, Cause: core.FlavorEmpty, Kind: core.Tolerate},
	{Code: core.TopologyPlacementFailed, Cause: core.GangTooLarge, Kind: core.FewerPods},
	{Code: core.TopologyPlacementFailed, Cause: core.NodesShort, Kind: core.RaisePriority},
	{Code: core.TopologyPlacementFailed, Cause: core.NodesShort, Kind: core.RepairNode},
	{Code: core.TopologyPlacementFailed, Cause: core.NodesShort, Kind: core.WaitFor},
	{Code: core.TopologyPlacementFailed, Cause: core.NoSuchNode, Kind: core.DropSelector},
	{Code: core.TopologyPlacementFailed, Cause: core.PodSetsTooLarge, Kind: core.SmallerPods},
	{Code: core.TopologyPlacementFailed, Cause: core.PodTooLarge, Kind: core.SmallerPods},
	{Code: core.WaitingForPodsReady, Kind: core.WaitFor},
	{Code: core.WaitingForPreempted, Cause: core.NodesShort, Kind: core.AwaitLeaving},
	{Code: core.WaitingForPreempted, Cause: core.QuotaShort, Kind: core.AwaitLeaving},
	{Code: core.WaitingForQuota, Cause: core.BehindStrict, Kind: core.RaisePriority},
	{Code: core.WaitingForQuota, Cause: core.QuotaClaimed},
	{Code: core.WaitingForQuota, Cause: core.QuotaShort, Kind: core.AwaitRuntime},
	{Code: core.WaitingForQuota, Cause: core.QuotaShort, Kind: core.WaitFor},
}

// enoughWorlds are so many that every reason and advice of adviceExpected occurs in them.
const enoughWorlds = 10_000

// printTally prints how often there was which reason, and which advice was followed and
// helped.
func printTally(advised sim.Tally) string {
	var lines []string
	asked, followed := 0, 0
	for told, n := range advised {
		if told.Kind == "" {
			asked += n
		} else {
			followed += n
		}
		lines = append(lines, fmt.Sprintf("%-28s %-18s %-14s %d", told.Code, told.Cause, told.Kind, n))
	}
	slices.Sort(lines)
	return fmt.Sprintf(
		"%d questions, %d pieces of advice, each followed:\n%s",
		asked,
		followed,
		strings.Join(lines, "\n"),
	)
}

// report shortens a broken world and writes it where it can be run again.
func report(t *testing.T, w sim.World, err error) {
	t.Helper()
	short, why := chaos.Shorten(w, err)
	var b bytes.Buffer
	if err := chaos.Write(&b, short); err != nil {
		t.Fatal(err)
	}
	dir := os.Getenv("MLBATCH_SIM_OUT") // else gone with the test, unless it runs with -artifacts
	if dir == "" {
		dir = t.ArtifactDir()
	}
	path := filepath.Join(dir, fmt.Sprintf("seed-%d.jsonl", w.Seed))
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Errorf(
		"seed %d (make soak SEED=%[1]d WORLDS=1): %[2]v\n\nshortened from %d to %d entries (to keep: copy %s to internal/sim/testdata/regressions):\n%v\n\n%s",
		w.Seed,
		err,
		len(w.Script),
		len(short.Script),
		path,
		why,
		b.String(),
	)
}

// TestRegressions runs the worlds in which something broke once.
func TestRegressions(t *testing.T) {
	files, err := filepath.Glob("../testdata/regressions/*.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		t.Run(filepath.Base(path), func(t *testing.T) {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			w, err := chaos.Read(bytes.NewReader(text))
			if err != nil {
				t.Fatal(err)
			}
			w.Rules = kuberules.Rules{}
			if err := chaos.Try(w); err != nil {
				t.Error(err)
			}
		})
	}
}

// log is all that an engine was told and decided, as text.
type log struct{ bytes.Buffer }

func (l *log) Began(o cycle.Options) { fmt.Fprintf(l, "began %+v\n", o) }
func (l *log) Event(ev core.Event)   { fmt.Fprintf(l, "%T %+v\n", ev, ev) }
func (l *log) Decided(at time.Time, p core.Plan) {
	for _, d := range p {
		fmt.Fprintf(l, "%s %T %+v\n", at, d, d)
	}
}

var pointer = regexp.MustCompile(`0x[0-9a-f]+`)

// The same seed is the same world, to the byte: what fails can be run again.
func TestSameSeedSameBytes(t *testing.T) {
	play := func(seed uint64) string {
		w := chaos.World(seed)
		w.Rules = kuberules.Rules{}
		var l log
		sim.New(w, sim.Watch{Log: &l}).Advance(20_000)
		return pointer.ReplaceAllString(l.String(), "p")
	}
	for seed := uint64(1); seed <= 60; seed++ {
		if d := cmp.Diff(play(seed), play(seed)); d != "" {
			t.Fatalf("seed %d (-first +second)\n%s", seed, d)
		}
	}
}
