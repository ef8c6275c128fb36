package cycle_test

import (
	"fmt"
	"strings"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/explain"
)

// printExplanation prints an explanation with its facts, a line each.
func printExplanation(out *strings.Builder, x core.Explanation) {
	why := x.Reason
	why.Holders = nil
	fmt.Fprintf(out, "[%s/%s] %s\n", why.Code, why.Cause, explain.Paragraph(why))
	for _, h := range x.Holders {
		who := h.Key.String()
		if h.Node != "" {
			who = "pods unknown to queues on " + h.Node
		}
		fmt.Fprintf(out, "  held by %s", who)
		if h.Resource != "" {
			fmt.Fprintf(out, ": %s of %s", explain.Amount(h.Resource, h.Amount), short(h.Resource))
		}
		if h.Leaving {
			out.WriteString(", leaving")
		}
		if h.Promised {
			out.WriteString(", promised")
		}
		out.WriteString("\n")
	}
	for _, t := range x.Tried {
		if t.Why.Code != "" {
			fmt.Fprintf(out, "  tried %s: %s\n", t.Flavor, explain.Sentence(t.Why))
		}
	}
	if f := x.Nodes; f != nil {
		fmt.Fprintf(
			out,
			"  nodes: %d of %d match; cordoned %d, evicted %d, lost %d, closed %d, full %d; %s of %s free, %s at most on one\n",
			f.Matching,
			f.Total,
			f.Cordoned,
			f.Evicted,
			f.Lost,
			f.Closed,
			f.Full,
			explain.Amount(f.Resource, f.Free),
			short(f.Resource),
			explain.Amount(f.Resource, f.Largest),
		)
		for _, n := range f.Down {
			fmt.Fprintf(out, "  down: %s (%s)\n", n.Name, n.Why)
		}
		if f.EvictionInVain {
			fmt.Fprintf(out, "  no place even without the %d it may evict", f.Evictable)
			if n := f.Nearest; n.Domain != "" {
				fmt.Fprintf(out, ": of %s, %s would have room for %d, %d if empty", n.Level, n.Domain, n.Fit, n.Usable)
			}
			for _, s := range f.Spared {
				fmt.Fprintf(out, "; %d spared by %s", s.Workloads, s.Rule)
				if s.Own {
					out.WriteString(" in its queue")
				}
			}
			out.WriteString("\n")
		}
		for _, o := range f.InTheWay {
			fmt.Fprintf(out, "  in the way of %d node(s): %s\n", o.Nodes, o.Text)
		}
	}
	for _, l := range x.Lenders {
		fmt.Fprintf(
			out,
			"  %s lends %s of %s %s\n",
			l.Queue,
			explain.Amount(l.Resource, l.Lends),
			explain.Amount(l.Resource, l.Nominal),
			short(l.Resource),
		)
	}
	for _, r := range x.Next {
		fmt.Fprintf(out, "  then: [%s/%s] %s\n", r.Code, r.Cause, explain.Sentence(r))
	}
	for _, a := range x.Advice {
		out.WriteString("  helps: " + printAdvice(a) + "\n")
	}
}

func printAdvice(a core.Advice) string {
	words := []string{string(a.Kind)}
	for _, w := range []string{
		a.PodSet, a.Flavor, a.Queue, strings.Join(a.Nodes, " "), strings.Join(a.Detail, " "), a.Level,
	} {
		if w != "" {
			words = append(words, w)
		}
	}
	if a.Instead != "" {
		words = append(words, "not", a.Instead)
	}
	for _, k := range a.Keys {
		words = append(words, k.String())
	}
	switch a.Kind {
	case core.FewerPods:
		words = append(words, fmt.Sprint(a.Count))
	case core.SmallerPods:
		words = append(words, explain.Amount(a.Resource, a.Amount), short(a.Resource))
	case core.RaisePriority:
		words = append(words, fmt.Sprint(a.Priority))
	default:
	}
	if !a.At.IsZero() {
		words = append(words, "at "+a.At.UTC().Format("15:04:05"))
	}
	if a.Preempts > 0 {
		words = append(words, fmt.Sprintf("(preempts %d)", a.Preempts))
	}
	return strings.Join(words, " ")
}
