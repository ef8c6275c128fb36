package goodput

import (
	_ "embed"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mlbatch/mlbatch/internal/sim"
)

// Failure is one line of a trace.
type Failure struct {
	At time.Duration
	sim.Fault
}

//go:embed failures.csv
var stated string

// Stated is the trace that the documentation is about.
func Stated() ([]Failure, error) { return Read(strings.NewReader(stated)) }

// kinds are the shares of what fails, in percent. The shares of what is no hang are those of a large training run
// that was published (GPU and its memory about 59 of 100, network 10, software 13, the rest hosts), scaled to 85.
func kinds() []struct {
	kind   sim.FaultKind
	share  int
	repair time.Duration // its mean
} {
	return []struct {
		kind   sim.FaultKind
		share  int
		repair time.Duration
	}{
		{sim.FaultGPU, 48, 4 * time.Hour},
		{sim.FaultNetwork, 10, 4 * time.Hour},
		{sim.FaultHost, 14, 8 * time.Hour},
		{sim.FaultSoftware, 13, 0},
		{sim.FaultHang, 15, 4 * time.Hour},
	}
}

const (
	// between is the mean time between failures of so many nodes.
	between, betweenOf = 3 * time.Hour, 256
	// badNodes of three hangs are those of a node that is bad, where jobs hang again after relapse, in the mean,
	// until it is mended.
	badNodes = 2
	relapse  = 2 * time.Hour
)

// Draw makes up a trace: failures of nodes 0 to n-1 by chance, until an end. A node that is bad and has hung a
// job once hangs another after a while, if it still serves; those hangs are among the share of hangs.
func Draw(seed uint64, n int, end time.Duration) []Failure {
	r := rand.New(rand.NewPCG(seed, 27)) //nolint:gosec // not for secrets
	mean := float64(between) * betweenOf / float64(n)
	var out []Failure
	var hangs []Failure // still to come
	for at := time.Duration(0); ; {
		at += time.Duration(r.ExpFloat64() * mean).Round(time.Second)
		if at >= end {
			break
		}
		f := Failure{At: at, Fault: sim.Fault{Node: NodeName(r.IntN(n))}}
		x := r.IntN(100)
		for _, k := range kinds() {
			if x -= k.share; x < 0 {
				f.Kind = k.kind
				f.Repair = time.Duration(r.ExpFloat64() * float64(k.repair)).Round(time.Minute)
				break
			}
		}
		if f.Kind == sim.FaultHang {
			f, hangs = hang(r, f, hangs)
		}
		out = append(out, f)
	}
	return out
}

// hang is the next hang: of a node on which jobs hung before, if one is due, and else of the node drawn.
func hang(r *rand.Rand, f Failure, bad []Failure) (Failure, []Failure) {
	for i, b := range bad {
		if b.At <= f.At {
			f.Node, f.Repair = b.Node, b.Repair
			bad = slices.Delete(slices.Clone(bad), i, i+1)
			return relapses(r, f, bad)
		}
	}
	if r.IntN(3) >= badNodes {
		f.Repair = 0
		return f, bad
	}
	f.Repair = max(f.Repair, 10*time.Minute)
	return relapses(r, f, bad)
}

func relapses(r *rand.Rand, f Failure, bad []Failure) (Failure, []Failure) {
	if r.IntN(3) >= badNodes {
		return f, bad // it is mended before it shows again
	}
	again := f
	again.At += time.Duration(math.Max(60, r.ExpFloat64()*relapse.Seconds())) * time.Second
	return f, append(bad, again)
}

// NodeName is what the node of a number is called.
func NodeName(i int) string { return fmt.Sprintf("node-%03d", i) }

func columns() []string { return []string{"seconds", "node", "kind", "repair_minutes"} }

// Write writes a trace as CSV.
func Write(out io.Writer, t []Failure) error {
	w := csv.NewWriter(out)
	if err := w.Write(columns()); err != nil {
		return fmt.Errorf("write failures: %w", err)
	}
	for _, f := range t {
		if err := w.Write([]string{
			strconv.FormatInt(int64(f.At/time.Second), 10), f.Node, string(f.Kind),
			strconv.FormatInt(int64(f.Repair/time.Minute), 10),
		}); err != nil {
			return fmt.Errorf("write failures: %w", err)
		}
	}
	w.Flush()
	if err := w.Error(); err != nil {
		return fmt.Errorf("write failures: %w", err)
	}
	return nil
}

// Read reads a trace. The error has all that is wrong with it, with lines.
func Read(in io.Reader) ([]Failure, error) {
	r := csv.NewReader(in)
	head, err := r.Read()
	if err != nil || !slices.Equal(head, columns()) {
		return nil, fmt.Errorf("line 1: the columns must be %s", strings.Join(columns(), ","))
	}
	var out []Failure
	var errs []error
	known := map[string]bool{}
	for i := range nodeCount {
		known[NodeName(i)] = true
	}
	for {
		rec, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("read failures: %w", err)
		}
		line, _ := r.FieldPos(0)
		f, err := failure(rec, known)
		if err == nil && len(out) > 0 && f.At < out[len(out)-1].At {
			err = errors.New("seconds is less than in the line before: sort the lines by it")
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("line %d: %w", line, err))
			continue
		}
		out = append(out, f)
	}
	if len(errs) == 0 && len(out) == 0 {
		errs = append(errs, errors.New("there is no failure in it"))
	}
	return out, errors.Join(errs...)
}

func failure(rec []string, known map[string]bool) (Failure, error) {
	at, err1 := strconv.ParseUint(rec[0], 10, 31)
	minutes, err2 := strconv.ParseUint(rec[3], 10, 31)
	f := Failure{
		At: time.Duration(at) * time.Second,
		Fault: sim.Fault{
			Node: rec[1], Kind: sim.FaultKind(rec[2]),
			Repair: time.Duration(minutes) * time.Minute,
		},
	}
	var names []string
	for _, k := range kinds() {
		names = append(names, string(k.kind))
	}
	switch {
	case err1 != nil:
		return f, fmt.Errorf("seconds %q is no number: write seconds since the start", rec[0])
	case f.At >= horizon:
		return f, fmt.Errorf(
			"seconds %d is past the end: the job is played for %d seconds, which are %d days; take the line out",
			at, int(horizon.Seconds()), int(horizon.Hours()/24),
		)
	case !known[rec[1]]:
		return f, fmt.Errorf("node %q is none: use %s to %s", rec[1], NodeName(0), NodeName(nodeCount-1))
	case !slices.Contains(names, rec[2]):
		return f, fmt.Errorf("kind %q is none: use %s", rec[2], strings.Join(names, ", "))
	case err2 != nil:
		return f, fmt.Errorf(
			"repair_minutes %q is no number: write minutes, 0 if nothing is wrong with the node",
			rec[3],
		)
	}
	return f, nil
}
