package check

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"k8s.io/utils/ptr"

	"github.com/mlbatch/mlbatch/internal/cli"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/view"
	"github.com/mlbatch/mlbatch/internal/words"
)

// Text prints the report as tables. resource limits them to one; "" is GPUs, or all where there
// are none.
func (r *Report) Text(w io.Writer, resource string, l cli.Layout) error {
	capacity := chosen(r.Capacity, resource, func(c Capacity) string { return c.Resource })
	queues := chosen(r.Queues, resource, func(q Queue) string { return q.Resource })
	if err := section(w, capacityColumns(), capacity, l); err != nil {
		return err
	}
	if err := section(w, queueColumns(), queues, l); err != nil {
		return err
	}
	if len(r.Findings) == 0 {
		_, err := fmt.Fprintln(w, "No findings.")
		return err //nolint:wrapcheck // the writer's own
	}
	for _, f := range r.Findings { // whole: a finding that is cut says nothing
		if _, err := fmt.Fprintf(
			w,
			"%-7s  %s: %s (%s)\n",
			f.Severity,
			words.Harmless(f.Object),
			words.Harmless(f.Message),
			f.Rule,
		); err != nil {
			return err //nolint:wrapcheck // the writer's own
		}
	}
	return nil
}

// chosen are the rows of a resource.
func chosen[T any](rows []T, resource string, of func(T) string) []T {
	wanted := func(row T) bool { return of(row) == resource }
	if resource == "" {
		wanted = func(row T) bool { return view.IsGPU(of(row)) }
		if !slices.ContainsFunc(rows, wanted) {
			return rows
		}
	}
	return slices.DeleteFunc(slices.Clone(rows), func(row T) bool { return !wanted(row) })
}

func section[T any](w io.Writer, columns []cli.Column[T], rows []T, l cli.Layout) error {
	if len(rows) == 0 {
		return nil
	}
	if err := cli.PrintTable(w, columns, rows, l); err != nil {
		return err //nolint:wrapcheck // the writer's own
	}
	_, err := fmt.Fprintln(w)
	return err //nolint:wrapcheck // the writer's own
}

func capacityColumns() []cli.Column[Capacity] {
	amount := func(title string, rank int, of func(Capacity) string) cli.Column[Capacity] {
		return cli.AmountColumn(
			cli.Column[Capacity]{Title: title, Rank: rank},
			func(c Capacity) string { return c.Resource },
			of,
		)
	}
	return []cli.Column[Capacity]{
		{Title: "FLAVOR", Rank: 1, Text: func(c Capacity) string { return c.Flavor }},
		{Title: "RESOURCE", Rank: 2, Text: func(c Capacity) string { return c.Resource }},
		amount("NODES HAVE", 0, func(c Capacity) string { return c.Total }),
		amount("OUT", 0, func(c Capacity) string { return c.Out }),
		amount("OUTSIDE", 3, func(c Capacity) string { return ptr.Deref(c.Outside, "") }),
		amount("TEAMS", 0, func(c Capacity) string { return c.Teams }),
		amount("SLACK", 4, func(c Capacity) string { return c.Slack }),
		amount("ADJUSTED", 5, func(c Capacity) string { return c.Adjusted }),
		amount("USED", 0, func(c Capacity) string { return c.Used }),
		amount("BORROWED", 6, func(c Capacity) string { return c.Borrowed }),
	}
}

func queueColumns() []cli.Column[Queue] {
	amount := func(title string, rank int, of func(Queue) string) cli.Column[Queue] {
		return cli.AmountColumn(
			cli.Column[Queue]{Title: title, Rank: rank},
			func(q Queue) string { return q.Resource },
			of,
		)
	}
	return []cli.Column[Queue]{
		{Title: "QUEUE", Text: func(q Queue) string { return q.Name }},
		{Title: "FLAVOR", Rank: 2, Text: func(q Queue) string { return q.Flavor }},
		{Title: "RESOURCE", Rank: 3, Text: func(q Queue) string { return q.Resource }},
		amount("QUOTA", 0, func(q Queue) string { return q.Quota }),
		amount("USED", 0, func(q Queue) string { return q.Used }),
		{Title: "ADMITTED", Rank: 1, Text: func(q Queue) string { return strconv.Itoa(q.Admitted) }},
		{Title: "WAITING", Text: func(q Queue) string { return strconv.Itoa(q.Waiting) }},
	}
}

// Metrics prints the report as Prometheus reads it.
func (r *Report) Metrics(w io.Writer) error {
	var b strings.Builder
	family := func(name, help string) { fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s gauge\n", name, help, name) }
	family("mlbatch_check_findings", "How much each rule of mlbatch check found.")
	for _, rule := range Rules() {
		n := 0
		for _, f := range r.Findings {
			if f.Rule == rule.Name {
				n++
			}
		}
		fmt.Fprintf(
			&b,
			"mlbatch_check_findings{rule=%s,severity=%s} %d\n",
			label(rule.Name),
			label(string(rule.Severity)),
			n,
		)
	}
	family("mlbatch_check_capacity", "What nodes have and queues promise of a resource, in its base unit.")
	for i := range r.Capacity {
		c := &r.Capacity[i]
		for _, part := range []struct {
			is     string
			amount core.Amount
		}{{"total", c.sums.total}, {"out", c.sums.out}, {"outside", c.sums.outside}, {"teams", c.sums.teams}, {"slack", c.sums.slack}, {"slack_lent", c.sums.lent}, {"used", c.sums.used}, {"borrowed", c.sums.borrowed}} {
			if part.is == "outside" && c.Outside == nil {
				continue
			}
			fmt.Fprintf(
				&b,
				"mlbatch_check_capacity{flavor=%s,resource=%s,part=%s} %s\n",
				label(c.Flavor),
				label(c.Resource),
				label(part.is),
				number(c.Resource, part.amount),
			)
		}
	}
	family("mlbatch_check_timestamp_seconds", "When the cluster was looked at.")
	fmt.Fprintf(&b, "mlbatch_check_timestamp_seconds %d\n", r.Time.Unix())
	_, err := io.WriteString(w, b.String())
	return err //nolint:wrapcheck // the writer's own
}

// label is the value of a label.
func label(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(text) + `"`
}

// number is an amount without a suffix.
func number(resource string, a core.Amount) string {
	q := convert.Quantity(resource, a)
	return strconv.FormatFloat(q.AsApproximateFloat64(), 'f', -1, 64)
}
