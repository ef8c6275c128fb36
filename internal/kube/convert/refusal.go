package convert

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
)

// Refusal says that a node takes fewer pods of a pod set than were planned there.
type Refusal struct {
	PodSet string
	core.NodeRefusal
	// Times is how often the node did so, each time that it was asked after something had changed.
	Times int32
}

// refusalsText writes refusals for people and for ReadRefusals: a line for each pod set and answer,
// with the nodes and how many pods each takes, as "main: node-1=0 node-2=1: no such volume". A node
// that refused again has how often behind a slash.
func refusalsText(all []Refusal, longest int) string {
	type line struct{ podSet, why string }
	nodes, order := map[line][]string{}, []line{}
	for _, r := range all {
		l := line{r.PodSet, r.Why}
		if nodes[l] == nil {
			order = append(order, l)
		}
		text := fmt.Sprintf("%s=%d", r.Node, r.Most)
		if r.Times > 1 {
			text += fmt.Sprintf("/%d", r.Times)
		}
		nodes[l] = append(nodes[l], text)
	}
	var b strings.Builder
	for _, l := range order {
		if b.Len()+len(l.podSet)+len(l.why) > longest/2 {
			break // these nodes are asked again
		}
		if b.Len() > 0 {
			b.WriteString("\n")
		}
		b.WriteString(l.podSet + ":")
		for _, n := range nodes[l] {
			if b.Len()+len(n)+len(l.why) > longest-8 {
				break
			}
			b.WriteString(" " + n)
		}
		b.WriteString(": " + l.why)
	}
	return b.String()
}

// longestRefusals, in bytes, is what a condition takes.
const longestRefusals = 32 * 1024

// RefusalsText writes refusals as they are read by ReadRefusals.
func RefusalsText(all []Refusal) string {
	all = slices.Clone(all)
	for i := range all {
		all[i].Why = strings.Join(strings.Fields(Cut(all[i].Why, 1024)), " ")
	}
	slices.SortFunc(all, func(a, b Refusal) int {
		return cmp.Or(cmp.Compare(a.PodSet, b.PodSet), cmp.Compare(a.Why, b.Why), cmp.Compare(a.Node, b.Node))
	})
	return refusalsText(all, longestRefusals)
}

// ReadRefusals reads what RefusalsText wrote, sorted by pod set and node. Lines that it did not
// write say nothing.
func ReadRefusals(text string) []Refusal {
	var out []Refusal
	for l := range strings.SplitSeq(text, "\n") {
		podSet, rest, _ := strings.Cut(l, ": ")
		nodes, why, ok := strings.Cut(rest, ": ")
		if !ok {
			continue
		}
		for n := range strings.FieldsSeq(nodes) {
			node, number, _ := strings.Cut(n, "=")
			most, times, again := strings.Cut(number, "/")
			r := Refusal{PodSet: podSet, NodeRefusal: core.NodeRefusal{Node: node, Why: why}, Times: 1}
			m, err := strconv.ParseInt(most, 10, 32)
			if again && err == nil {
				var t int64
				t, err = strconv.ParseInt(times, 10, 32)
				r.Times = int32(t)
			}
			if r.Most = int32(m); err == nil && m >= 0 {
				out = append(out, r)
			}
		}
	}
	slices.SortFunc(out, func(a, b Refusal) int {
		return cmp.Or(cmp.Compare(a.PodSet, b.PodSet), cmp.Compare(a.Node, b.Node), cmp.Compare(a.Most, b.Most))
	})
	return slices.CompactFunc(out, func(a, b Refusal) bool { return a.PodSet == b.PodSet && a.Node == b.Node })
}

// Refusals are those of a Workload that hold, as far as it says.
func Refusals(w *kueue.Workload) []Refusal {
	c := apimeta.FindStatusCondition(w.Status.Conditions, kueue.WorkloadNodesRefused)
	if c == nil || c.Status != "True" {
		return nil
	}
	return ReadRefusals(c.Message)
}

// PodRefusals are the refusals that the scheduler told of on a pod that has no node.
func PodRefusals(p *corev1.Pod) []Refusal {
	if c := refusal(p); c != nil {
		return ReadRefusals(c.Message)
	}
	return nil
}

// RefusedSince is since when the scheduler has told the same refusals of a pod that has no node; zero if it tells none.
func RefusedSince(p *corev1.Pod) time.Time {
	if c := refusal(p); c != nil {
		return c.LastTransitionTime.Time
	}
	return time.Time{}
}

// refusal is the condition of a pod without a node that nodes refuse it; nil if it has none.
func refusal(p *corev1.Pod) *corev1.PodCondition {
	if p.Spec.NodeName != "" || p.DeletionTimestamp != nil {
		return nil
	}
	for i := range p.Status.Conditions {
		if c := &p.Status.Conditions[i]; c.Type == kueue.PodNodesRefused && c.Status == corev1.ConditionTrue {
			return c
		}
	}
	return nil
}

// refusedBy are the refusals of the pods of one pod set.
func refusedBy(all []Refusal, podSet string) []core.NodeRefusal {
	var out []core.NodeRefusal
	for _, r := range all {
		if r.PodSet == podSet {
			out = append(out, r.NodeRefusal)
		}
	}
	return out
}
