package worldfile

import (
	"bytes"
	"cmp"
	_ "embed" // the built-in world
	"fmt"
	"math"
	"slices"
)

//go:embed builtin.yaml
var builtin []byte

// Builtin is the text of the world to start with.
func Builtin() []byte { return slices.Clone(builtin) }

// Sizes are wishes for the world that is made around a trace.
type Sizes struct {
	// Nodes, 0: enough for the trace's load to use three fifths of them.
	Nodes int
	// GPUsPerNode, 0: 8.
	GPUsPerNode int64
}

// ForTrace makes a world around a trace: one cohort of all teams in it, each with
// a quota in proportion to the GPU time that it used, on equal nodes.
func ForTrace(t Trace, text []byte, s Sizes) (*File, error) {
	jobs, err := readTrace(&t, bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("trace %s: %w", t.File, err)
	}
	perNode := cmp.Or(s.GPUsPerNode, defaultPerPod)
	t.GPUsPerPod = perNode
	use := map[string]float64{}
	var sum float64
	var largest int64
	last := jobs[0].at
	for _, j := range jobs {
		x := float64(j.gpus) * j.work.Seconds()
		use[j.team] += x
		sum += x
		largest = max(largest, j.gpus)
		if j.at.After(last) {
			last = j.at
		}
	}
	span := last.Sub(jobs[0].at).Seconds() / cmp.Or(t.Speed, 1)
	nodes := s.Nodes
	if nodes == 0 {
		const busy = 0.6
		nodes = int(math.Ceil(max(sum/max(span, 3600)/busy, float64(largest)) / float64(perNode)))
	}
	f := &File{Name: "trace", Trace: &t}
	f.Nodes = []Nodes{{Name: "node", Count: nodes, GPUs: perNode}}
	total := int64(nodes) * perNode
	for i, q := range apportion(total, use, sum) {
		f.Teams = append(f.Teams, Team{Name: sortedKeys(use)[i], Cohort: "all", GPUs: new(q)})
	}
	return f, nil
}

// apportion divides a total in proportion, by largest remainder; each gets one
// at least while there is enough.
func apportion(total int64, use map[string]float64, sum float64) []int64 {
	names := sortedKeys(use)
	out := make([]int64, len(names))
	rest := make([]float64, len(names))
	order := make([]int, len(names))
	left := total
	for i, name := range names {
		order[i] = i
		exact := float64(total) / float64(len(names))
		if sum > 0 {
			exact = float64(total) * use[name] / sum
		}
		out[i] = int64(exact)
		rest[i] = exact - float64(out[i])
		if out[i] == 0 {
			rest[i]++
		}
		left -= out[i]
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(rest[b], rest[a]) })
	for _, i := range order {
		if left > 0 {
			out[i]++
			left--
		}
	}
	return out
}
