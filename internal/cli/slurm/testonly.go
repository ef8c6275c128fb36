package slurm

import (
	"fmt"
	"slices"
	"strings"

	visibility "github.com/mlbatch/mlbatch/api/visibility/v1beta2"
)

// ToStart is what sbatch --test-only says of a job that was not submitted: when it would start,
// and where. A job that would wait starts as likely as not by the time that is named.
func ToStart(job string, p *visibility.WorkloadPlan) string {
	x, text := p.Status, "sbatch: Job "+job
	in := " in partition " + p.Spec.QueueName
	switch {
	case x.Outcome == visibility.PlanWaits && (x.Start == nil || x.Start.P50 == nil):
		return text + " would wait" + in + "; when it would start cannot be foreseen"
	case x.Outcome == visibility.PlanWaits:
		text += " to start at " + stamp(&x.Start.P50.Time)
	default:
		text += " to start at " + stamp(&x.At.Time)
	}
	pods, nodes := 0, []string{}
	for _, set := range x.PodSets {
		pods += int(set.Count)
		for _, n := range set.Nodes {
			nodes = append(nodes, n.Name)
		}
	}
	if len(nodes) > 0 {
		slices.Sort(nodes)
		text += fmt.Sprintf(" using %d pods on nodes %s", pods, strings.Join(slices.Compact(nodes), ","))
	}
	return text + in
}
