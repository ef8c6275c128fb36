package admin

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/cli"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/view"
)

// TeamColumns are those of a list of teams.
func TeamColumns() []cli.Column[view.Team] {
	gpus := func(of func(view.Share) string) func(view.Team) string {
		return func(r view.Team) string {
			var out []string
			for _, s := range r.Shares {
				if view.IsGPU(s.Resource) {
					out = append(out, view.Amount(s.Resource, of(s)))
				}
			}
			return strings.Join(out, ",")
		}
	}
	return []cli.Column[view.Team]{
		{Title: "TEAM", Text: func(r view.Team) string { return r.Name }},
		{Title: "GPUS", Text: gpus(func(s view.Share) string { return s.Nominal })},
		{Title: "USED", Text: gpus(func(s view.Share) string { return s.Used })},
		{Title: "BORROWED", Rank: 3, Text: gpus(func(s view.Share) string { return s.Borrowed })},
		{Title: "LENT", Rank: 4, Text: gpus(lent)},
		{Title: "RUNNING", Rank: 1, Text: func(r view.Team) string { return strconv.Itoa(r.Running) }},
		{Title: "WAITING", Text: func(r view.Team) string { return strconv.Itoa(r.Waiting) }},
		{Title: "CLUSTERQUEUE", Rank: 5, Text: func(r view.Team) string { return r.ClusterQueue }},
		{Title: "STATE", State: true, Rank: 2, Text: teamState},
		{Title: "PEOPLE", Text: func(r view.Team) string { return strings.Join(r.People, ", ") }},
	}
}

func teamState(t view.Team) string {
	if t.Deleting {
		return "terminating"
	}
	return cmp.Or(t.State, "no queue")
}

func lent(s view.Share) string {
	if s.LentAtMost {
		return "≤" + s.Lent
	}
	return s.Lent
}

// ShareColumns are those of the quotas of a team.
func ShareColumns() []cli.Column[view.Share] {
	amount := func(title string, rank int, of func(view.Share) string) cli.Column[view.Share] {
		return cli.AmountColumn(
			cli.Column[view.Share]{Title: title, Rank: rank},
			func(s view.Share) string { return s.Resource },
			of,
		)
	}
	return []cli.Column[view.Share]{
		{Title: "FLAVOR", Rank: 3, Text: func(s view.Share) string { return s.Flavor }},
		{Title: "RESOURCE", Text: func(s view.Share) string { return s.Resource }},
		amount("NOMINAL", 0, func(s view.Share) string { return s.Nominal }),
		amount("USED", 0, func(s view.Share) string { return s.Used }),
		amount("BORROWED", 1, func(s view.Share) string { return s.Borrowed }),
		amount("LENT", 2, lent),
		amount("MAY BORROW", 4, func(s view.Share) string { return limit(s, s.BorrowingLimit) }),
		amount("MAY LEND", 5, func(s view.Share) string { return limit(s, s.LendingLimit) }),
	}
}

// limit is a limit in words.
func limit(s view.Share, of string) string {
	if s.Borrowed == "" {
		return "" // there is nobody
	}
	return cmp.Or(of, "all")
}

// TeamNames are all teams, sorted.
func TeamNames(ctx context.Context, c client.Reader) ([]string, error) {
	var list corev1.NamespaceList
	if err := c.List(ctx, &list, client.MatchingLabels{kueue.TeamNamespaceLabel: "true"}); err != nil {
		return nil, fmt.Errorf("list namespaces: %w", err)
	}
	var out []string
	for i := range list.Items {
		out = append(out, list.Items[i].Name)
	}
	slices.Sort(out)
	return out, nil
}

// TeamLines tell of a team what is no table. states are numbers of jobs.
func TeamLines(row *view.Team, states map[string]int) []string {
	queue := "has no queue: mlbatch team create " + row.Name + " makes what is missing"
	if row.ClusterQueue != "" {
		queue = "has ClusterQueue " + row.ClusterQueue
		if row.Cohort != "" {
			queue += " in cohort " + row.Cohort
		}
		if row.State != "" {
			queue += ", " + row.State
		}
		if len(row.Shared) > 0 {
			queue += ", together with " + strings.Join(row.Shared, ", ")
		}
	}
	out := []string{"Team " + row.Name + " " + queue + "."}
	if row.Deleting {
		out = append(out, "It is being deleted.")
	}
	var jobs []string
	for _, s := range view.States() {
		if n := states[string(s)]; n > 0 {
			jobs = append(jobs, fmt.Sprintf("%d %s", n, strings.ToLower(string(s))))
		}
	}
	out = append(out, "Jobs: "+cmp.Or(strings.Join(jobs, ", "), none))
	if !slices.Contains(row.Unread, "RoleBindings") {
		out = append(out, "People: "+cmp.Or(strings.Join(row.People, ", "), none))
	}
	if len(row.Unread) > 0 {
		out = append(out, "You may not read "+strings.Join(row.Unread, " and ")+": what they tell is left out.")
	}
	return out
}

// OfGPUs are quotas in which amounts of GPUs are of the resource that a team has quota of.
func OfGPUs(row *view.Team, q Quotas, gpus *resource.Quantity) Quotas {
	gpu := corev1.ResourceName(core.GPU)
	for _, s := range row.Shares {
		if view.IsGPU(s.Resource) {
			gpu = corev1.ResourceName(s.Resource)
			break
		}
	}
	settle := func(in []Setting) []Setting {
		out := slices.Clone(in)
		for i := range out {
			if out[i].Resource == GPUs {
				out[i].Resource = gpu
			}
		}
		return out
	}
	out := Quotas{settle(q.Nominal), settle(q.Borrowing), settle(q.Lending)}
	if gpus != nil {
		out.Nominal = append([]Setting{{Resource: gpu, Amount: gpus}}, out.Nominal...)
	}
	return out
}
