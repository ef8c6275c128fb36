package packing_test

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/mlbatch/mlbatch/internal/sim/packing"
)

// The published figures are means of ten runs, of pods that ask for 130 % of all GPUs.
const (
	runs   = 10
	demand = 130
)

var demands = []int{90, 95, 100, 110, 120, 130}

type contender struct {
	name   string
	policy func(pods []packing.Shape) packing.Policy
}

const (
	bestFit = iota
	fgd
	fullest
	leastWaste
)

var contenders = []contender{
	bestFit:    {"BestFit", func([]packing.Shape) packing.Policy { return packing.BestFit{} }},
	fgd:        {"FGD", func(pods []packing.Shape) packing.Policy { return packing.NewFGD(pods) }},
	fullest:    {"Fullest", func([]packing.Shape) packing.Policy { return packing.Fullest{} }},
	leastWaste: {"LeastWaste", func([]packing.Shape) packing.Policy { return packing.NewLeastWaste() }},
}

// folder is where the lists of openb are: openb_node_list_gpu_node.csv, openb_pod_list_*.csv
// and expected_allocation.csv.
func folder(t testing.TB) string {
	t.Helper()
	path := os.Getenv("MLBATCH_SIM_TRACE")
	if path == "" {
		t.Skip("set MLBATCH_SIM_TRACE to the folder with the lists of openb")
	}
	if at, err := os.Stat(path); err == nil && !at.IsDir() {
		t.Skipf("MLBATCH_SIM_TRACE is the file %s, and not the folder with the lists of openb", path)
	}
	return path
}

func read(t testing.TB, folder, list string) *packing.Trace {
	t.Helper()
	var texts [2]bytes.Buffer
	for i, name := range []string{"openb_node_list_gpu_node.csv", "openb_pod_list_" + list + ".csv"} {
		text, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		texts[i].Write(text)
	}
	trace, err := packing.Read(&texts[0], &texts[1])
	if err != nil {
		t.Fatal(err)
	}
	return trace
}

// published reads the figures of the simulator that came with the paper, by list and policy, in the order
// of demands.
func published(t *testing.T, folder string) map[[2]string][]float64 {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder, "expected_allocation.csv"))
	if err != nil {
		t.Fatal(err)
	}
	lines, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	figures := map[[2]string][]float64{}
	for _, line := range lines[1:] {
		for _, field := range line[2 : 2+len(demands)] {
			v, err := strconv.ParseFloat(field, 64)
			if err != nil {
				t.Fatal(err)
			}
			key := [2]string{line[0], line[1]}
			figures[key] = append(figures[key], v)
		}
	}
	return figures
}

// TestOpenb holds the policies against the published figures: the two that were published have to come out as they
// did, and the best of ours above both. With -v it prints the table of docs/benchmarks.md.
func TestOpenb(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("plays two hundred lists")
	}
	dir := folder(t)
	figures := published(t, dir)
	var lists []string
	for key := range figures {
		if key[1] == "FGD" {
			lists = append(lists, key[0])
		}
	}
	for _, list := range lists {
		t.Run(list, func(t *testing.T) {
			t.Parallel()
			trace := read(t, dir, list)
			means := make([][]float64, len(contenders))
			var wg sync.WaitGroup
			for i, c := range contenders {
				means[i] = make([]float64, len(demands))
				wg.Go(func() {
					for run := range runs {
						usage := play(trace, c, run)
						for k, d := range demands {
							means[i][k] += usage.At(d) / runs
						}
					}
				})
			}
			wg.Wait()
			var table strings.Builder
			for i, c := range contenders {
				fmt.Fprintf(&table, "\n%-12s %-10s", list, c.name)
				for _, m := range means[i] {
					fmt.Fprintf(&table, " %6.2f", m)
				}
				if was := figures[[2]string{list, c.name}]; was != nil {
					fmt.Fprint(&table, "   published")
					for _, m := range was {
						fmt.Fprintf(&table, " %6.2f", m)
					}
				}
			}
			t.Log(table.String())

			const points = 0.3 // of a hundred
			at := len(demands) - 1
			for _, i := range []int{bestFit, fgd} {
				want := figures[[2]string{list, contenders[i].name}][at]
				if got := means[i][at]; got < want-points || got > want+points {
					t.Errorf("%s uses %.2f %% of the GPUs, and was published with %.2f", contenders[i].name, got, want)
				}
			}
			best := max(means[fgd][at], figures[[2]string{list, contenders[fgd].name}][at])
			if got := means[leastWaste][at]; got < best+points {
				t.Errorf("LeastWaste uses %.2f %% of the GPUs, and FGD %.2f", got, best)
			}
		})
	}
}

func play(trace *packing.Trace, c contender, run int) packing.Usage {
	s := trace.Sample(demand, rand.New(rand.NewPCG(uint64(run), 0)))
	return packing.Play(s.Nodes, s.Pods, c.policy(trace.Pods))
}

// BenchmarkOpenb plays one list once, and says how much of the GPUs was in use at the end. Lists called
// whole are those where pods that share a GPU ask for a whole one, as they have to of mlbatch.
func BenchmarkOpenb(b *testing.B) {
	dir := folder(b)
	for _, list := range []string{"default", "cpu250", "gpushare100", "gpuspec33", "multigpu50"} {
		trace := read(b, dir, list)
		for _, c := range contenders {
			b.Run(list+"/"+c.name, func(b *testing.B) { report(b, trace, c) })
		}
		for i := range trace.Pods {
			if trace.Pods[i].GPUs > 0 {
				trace.Pods[i].Share = packing.Whole
			}
		}
		for _, c := range contenders {
			b.Run(list+"-whole/"+c.name, func(b *testing.B) { report(b, trace, c) })
		}
	}
}

func report(b *testing.B, trace *packing.Trace, c contender) {
	b.Helper()
	var at100, used float64
	run := 0
	for b.Loop() {
		usage := play(trace, c, run)
		at100 += usage.At(100)
		used += usage.At(demand)
		run++
	}
	b.ReportMetric(at100/float64(run), "%-at-100")
	b.ReportMetric(used/float64(run), "%-at-130")
}
