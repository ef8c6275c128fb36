package convert

import (
	"cmp"
	"slices"
	"strings"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// AvoidedNode is one on which a workload failed, and when that was last.
type AvoidedNode struct {
	Name  string
	Since time.Time
}

// AvoidedText writes nodes for people and for ReadAvoided: "node-3 since 2026-11-30T00:10:00Z, ...".
func AvoidedText(all []AvoidedNode) string {
	words := make([]string, len(all))
	for i, n := range all {
		words[i] = n.Name + " since " + n.Since.UTC().Format(time.RFC3339)
	}
	return strings.Join(words, ", ")
}

// ReadAvoided reads what AvoidedText wrote, sorted by name. What it did not write says nothing.
func ReadAvoided(text string) (out []AvoidedNode) {
	for part := range strings.SplitSeq(text, ", ") {
		name, since, _ := strings.Cut(part, " since ")
		if t, err := time.Parse(time.RFC3339, since); err == nil && name != "" {
			out = append(out, AvoidedNode{name, t})
		}
	}
	slices.SortFunc(out, func(a, b AvoidedNode) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), b.Since.Compare(a.Since))
	})
	return slices.CompactFunc(out, func(a, b AvoidedNode) bool { return a.Name == b.Name })
}

// Avoided are the nodes that a Workload avoids.
func Avoided(w *kueue.Workload) []AvoidedNode {
	c := apimeta.FindStatusCondition(w.Status.Conditions, kueue.WorkloadNodesAvoided)
	if c == nil || c.Status != metav1.ConditionTrue {
		return nil
	}
	return ReadAvoided(c.Message)
}

func avoidedBy(w *kueue.Workload) (names []string) {
	for _, n := range Avoided(w) {
		names = append(names, n.Name)
	}
	return names
}
