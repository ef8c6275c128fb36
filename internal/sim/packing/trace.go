package packing

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// Trace is nodes and the pods that came to them.
type Trace struct {
	Nodes []Node
	Pods  []Shape
}

// Read reads nodes (columns cpu_milli, memory_mib, gpu, model) and pods (cpu_milli, memory_mib, num_gpu, gpu_milli,
// and perhaps gpu_spec: models with | between them), each a CSV with a header. Errors name line and column.
func Read(nodes, pods io.Reader) (*Trace, error) {
	t := &Trace{}
	var models []string
	err := rows(nodes, func(r *row) {
		n := Node{
			CPU: r.number("cpu_milli", 1<<40), Memory: r.number("memory_mib", 1<<40),
			GPUs: uint8(r.number("gpu", maxGPUs)), //nolint:gosec // bounded
		}
		name := r.text("model")
		model := slices.Index(models, name)
		if model < 0 {
			if model = len(models); model == 64 {
				r.fail("model", "is the 65th model, and only 64 can be told apart")
				return
			}
			models = append(models, name)
		}
		n.Model = uint8(model) //nolint:gosec // below 64
		for i := range n.GPUs {
			n.Free[i] = Whole
		}
		t.Nodes = append(t.Nodes, n)
	})
	if err != nil {
		return nil, fmt.Errorf("nodes: %w", err)
	}
	err = rows(pods, func(r *row) {
		p := Shape{
			CPU: r.number("cpu_milli", 1<<40), Memory: r.number("memory_mib", 1<<40),
			GPUs: r.number("num_gpu", maxGPUs), Share: r.number("gpu_milli", Whole),
		}
		switch {
		case p.GPUs == 0:
			p.Share = 0
		case p.Share == 0 || p.GPUs > 1 && p.Share < Whole:
			r.fail("gpu_milli", fmt.Sprintf("has to be 1 to %d for one GPU, and %d for several", Whole, Whole))
		}
		if spec := r.optional("gpu_spec"); spec != "" {
			for name := range strings.SplitSeq(spec, "|") {
				model := slices.Index(models, name)
				if model < 0 {
					r.fail("gpu_spec", fmt.Sprintf("names the model %q, which no node has", name))
					return
				}
				p.Models |= 1 << model
			}
		}
		t.Pods = append(t.Pods, p)
	})
	if err != nil {
		return nil, fmt.Errorf("pods: %w", err)
	}
	return t, nil
}

// row is a line of a CSV with a header. The first thing wrong with it is kept.
type row struct {
	line    int
	columns []string
	fields  []string
	err     error
}

func rows(r io.Reader, each func(*row)) error {
	in := csv.NewReader(r)
	head, err := in.Read()
	if err != nil {
		return fmt.Errorf("read the header: %w", err)
	}
	for {
		fields, err := in.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		line, _ := in.FieldPos(0)
		x := &row{line: line, columns: head, fields: fields}
		if each(x); x.err != nil {
			return x.err
		}
	}
}

func (r *row) fail(column, is string) {
	if r.err == nil {
		r.err = fmt.Errorf("line %d: %s %s", r.line, column, is)
	}
}

func (r *row) optional(column string) string {
	if i := slices.Index(r.columns, column); i >= 0 {
		return r.fields[i]
	}
	return ""
}

func (r *row) text(column string) string {
	if !slices.Contains(r.columns, column) {
		r.fail(column, "is missing from the header")
	}
	return r.optional(column)
}

func (r *row) number(column string, most int64) int64 {
	text := r.text(column)
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > most {
		r.fail(column, fmt.Sprintf("is %q and has to be a whole number from 0 to %d", text, most))
		return 0
	}
	return n
}

// Sample is the trace in some order, with so many of its pods taken out, or drawn once more at the end, that
// they ask for so many percent of all GPUs. Nodes get some order as well, which decides between equal ones.
func (t *Trace) Sample(percent int64, r *rand.Rand) *Trace {
	s := &Trace{Nodes: slices.Clone(t.Nodes), Pods: slices.Clone(t.Pods)}
	r.Shuffle(len(s.Pods), func(i, j int) { s.Pods[i], s.Pods[j] = s.Pods[j], s.Pods[i] })
	r.Shuffle(len(s.Nodes), func(i, j int) { s.Nodes[i], s.Nodes[j] = s.Nodes[j], s.Nodes[i] })
	var capacity, demand int64
	for i := range s.Nodes {
		capacity += s.Nodes[i].Idle()
	}
	for _, p := range s.Pods {
		demand += p.Demand()
	}
	wanted := capacity * percent / 100
	if demand == 0 {
		return s // no pod asks for GPUs, however many are drawn
	}
	if demand > wanted {
		for demand > wanted {
			i := r.IntN(len(s.Pods))
			demand -= s.Pods[i].Demand()
			s.Pods = slices.Delete(s.Pods, i, i+1)
		}
		return s
	}
	for {
		p := t.Pods[r.IntN(len(t.Pods))]
		if demand += p.Demand(); demand > wanted {
			return s
		}
		s.Pods = append(s.Pods, p)
	}
}
