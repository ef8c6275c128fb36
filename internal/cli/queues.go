package cli

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	visibility "github.com/mlbatch/mlbatch/api/visibility/v1beta2"
	"github.com/mlbatch/mlbatch/internal/view"
	"github.com/mlbatch/mlbatch/internal/view/gather"
	"github.com/mlbatch/mlbatch/internal/view/why"
)

// QueueRow is a queue, or a cohort of queues, in one line. Amounts are of one resource, of all
// flavors together, spelled as quantities are.
type QueueRow struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Parent is the cohort of a ClusterQueue or Cohort, or the ClusterQueue of a LocalQueue.
	Parent   string `json:"parent,omitempty"`
	Resource string `json:"resource,omitempty"`
	// Nominal is its own quota, Used what its jobs have, Borrowed how much of that is not its
	// own, Unused how much of its own nobody of it has.
	Nominal  string `json:"nominal,omitempty"`
	Used     string `json:"used,omitempty"`
	Borrowed string `json:"borrowed,omitempty"`
	Unused   string `json:"unused,omitempty"`
	// QueueUsed is, of a LocalQueue, what all jobs of its ClusterQueue have, whose quotas the other
	// amounts are then; Used is what its own jobs have.
	QueueUsed string `json:"queueUsed,omitempty"`
	// Lent is how much of its own others of the tree use: at most so much, if LentAtMost says that
	// others may have lent it instead.
	Lent       string `json:"lent,omitempty"`
	LentAtMost bool   `json:"lentAtMost,omitempty"`
	// WeightedShare is that of its status, in thousandths; nil without fair sharing.
	WeightedShare *int64 `json:"weightedShare,omitempty"`
	// Running and Waiting are numbers of jobs.
	Running int `json:"running"`
	Waiting int `json:"waiting"`
	// State is active, or why not.
	State string `json:"state,omitempty"`

	depth int
}

// QueueRows are queues as lines, cohorts before what is in them and queues of none at the end. resource is
// that which amounts are of; "" is GPUs, or else the first of a quota, of each queue by itself: one without
// GPUs has something to tell as well.
func QueueRows(queues []view.Queue, resource string) []QueueRow {
	t := &queueTree{named: resource, usual: resource, below: map[string][]*view.Queue{}, seen: map[string]bool{}}
	var quotas []view.Share
	for i := range queues {
		switch q := &queues[i]; q.Kind {
		case view.KindLocalQueue:
			t.out = append(t.out, queueRow(q, cmp.Or(resource, view.MainResource(q.Shares))))
			continue
		case view.KindClusterQueue:
			quotas = append(quotas, q.Shares...)
		}
		t.below[queues[i].Parent] = append(t.below[queues[i].Parent], &queues[i])
	}
	t.usual = cmp.Or(resource, view.MainResource(quotas))
	t.branch(view.KindCohort, "", 0)
	for i := range queues { // cohorts that are above themselves stand by themselves
		if q := &queues[i]; q.Kind == view.KindCohort && !t.seen[q.Name] {
			t.add(q, 0)
		}
	}
	t.branch(view.KindClusterQueue, "", 0)
	return t.out
}

// queueTree are queues in the tree of their cohorts.
type queueTree struct {
	// named is the resource that was asked for, "" if none was, usual the one that most is told of.
	named, usual string
	below        map[string][]*view.Queue
	seen         map[string]bool // cohorts
	out          []QueueRow
}

// branch adds what is of a kind below a cohort, by name.
func (t *queueTree) branch(kind, above string, depth int) {
	for _, q := range slices.SortedFunc(slices.Values(t.below[above]), func(a, b *view.Queue) int { return cmp.Compare(a.Name, b.Name) }) {
		if q.Kind == kind && (kind != view.KindCohort || !t.seen[q.Name]) {
			t.add(q, depth)
		}
	}
}

// add adds a queue, or a cohort with all that is in it.
func (t *queueTree) add(q *view.Queue, depth int) {
	resource := t.usual
	if t.named == "" &&
		!slices.ContainsFunc(q.Shares, func(s view.Share) bool { return s.Resource == t.usual }) {
		resource = cmp.Or(view.MainResource(q.Shares), t.usual)
	}
	row := queueRow(q, resource)
	row.depth = depth
	t.out = append(t.out, row)
	if q.Kind == view.KindCohort {
		t.seen[q.Name] = true
		t.branch(view.KindCohort, q.Name, depth+1)
		t.branch(view.KindClusterQueue, q.Name, depth+1)
	}
}

// queueRow is the line of a queue. Of a resource that it has nothing of there is nothing to say.
func queueRow(q *view.Queue, resource string) QueueRow {
	sum, unused := view.SumOf(q.Shares, resource)
	if resource != "" && q.Kind == view.KindLocalQueue {
		sum.Used = cmp.Or(sum.Used, "0")
	}
	return QueueRow{
		Kind:          q.Kind,
		Namespace:     q.Namespace,
		Name:          q.Name,
		Parent:        q.Parent,
		Resource:      resource,
		Nominal:       sum.Nominal,
		Used:          sum.Used,
		QueueUsed:     sum.QueueUsed,
		Borrowed:      sum.Borrowed,
		Unused:        unused,
		Lent:          sum.Lent,
		LentAtMost:    sum.LentAtMost,
		WeightedShare: q.WeightedShare,
		Running:       q.Running,
		Waiting:       q.Waiting,
		State:         q.State,
	}
}

// Flat are the ClusterQueues among rows, without the tree that they stand in.
func Flat(rows []QueueRow) (out []QueueRow) {
	for _, r := range rows {
		if r.Kind == view.KindClusterQueue {
			r.depth = 0
			out = append(out, r)
		}
	}
	return out
}

// QuotaLines say in a line for each queue behind LocalQueues what quota of GPUs it has, where that may be
// known; of one without GPUs, what it has.
func QuotaLines(rows []QueueRow) (out []string) {
	seen := map[string]bool{}
	for i := range rows {
		r := &rows[i]
		if r.Nominal == "" || seen[r.Parent] {
			continue
		}
		seen[r.Parent] = true
		is := view.Amounts(r.Resource, r.Nominal, cmp.Or(r.QueueUsed, "0"), cmp.Or(r.Borrowed, "0"), r.Unused)
		out = append(
			out,
			fmt.Sprintf(
				"Quota of %s: %s %s, %s used by all jobs of the queue, %s borrowed, %s unused.",
				r.Parent,
				is[0],
				r.Resource,
				is[1],
				is[2],
				is[3],
			),
		)
	}
	return out
}

// QueueColumns are those of a list of queues.
func QueueColumns(rows []QueueRow) []Column[QueueRow] {
	local := len(rows) > 0 && rows[0].Kind == view.KindLocalQueue
	number := func(of func(QueueRow) int) func(QueueRow) string {
		return func(r QueueRow) string { return strconv.Itoa(of(r)) }
	}
	amount := func(title string, rank int, of func(QueueRow) string) Column[QueueRow] {
		return AmountColumn(
			Column[QueueRow]{Title: title, Rank: rank},
			func(r QueueRow) string { return r.Resource },
			of,
		)
	}
	columns := []Column[QueueRow]{
		{Title: "NAME", Text: func(r QueueRow) string { return strings.Repeat("  ", r.depth) + r.Name }},
	}
	if local {
		columns = append(
			[]Column[QueueRow]{{Title: "NAMESPACE", Rank: 1, Text: func(r QueueRow) string { return r.Namespace }}},
			columns...)
		columns = append(
			columns,
			Column[QueueRow]{Title: "CLUSTERQUEUE", Rank: 6, Text: func(r QueueRow) string { return r.Parent }},
		)
	} else {
		columns = append(
			columns,
			Column[QueueRow]{Title: "KIND", Rank: 8, Text: func(r QueueRow) string { return r.Kind }},
		)
	}
	resources := 5
	if differ(rows) {
		resources = 0 // amounts do not say what they are of
	}
	columns = append(columns,
		Column[QueueRow]{Title: "RUNNING", Rank: 4, Text: number(func(r QueueRow) int { return r.Running })},
		Column[QueueRow]{Title: "WAITING", Text: number(func(r QueueRow) int { return r.Waiting })},
		Column[QueueRow]{Title: "RESOURCE", Rank: resources, Text: func(r QueueRow) string { return r.Resource }},
		amount("USED", 0, func(r QueueRow) string { return r.Used }),
	)
	if local &&
		slices.ContainsFunc(rows, func(r QueueRow) bool { return r.Nominal != "" }) { // what the ClusterQueue has
		columns = append(columns,
			amount("OF ALL", 4, func(r QueueRow) string { return r.QueueUsed }),
			amount("NOMINAL", 0, func(r QueueRow) string { return r.Nominal }),
			amount("BORROWED", 2, func(r QueueRow) string { return r.Borrowed }),
			amount("UNUSED", 3, func(r QueueRow) string { return r.Unused }),
		)
	}
	if !local {
		shares := 3
		if !slices.ContainsFunc(rows, func(r QueueRow) bool { return r.WeightedShare != nil }) {
			shares = 9 // of nobody there is anything to tell
		}
		columns = append(columns,
			amount("NOMINAL", 0, func(r QueueRow) string { return r.Nominal }),
			amount("BORROWED", 1, func(r QueueRow) string { return r.Borrowed }),
			amount("LENT", 2, func(r QueueRow) string { return r.lent() }),
			amount("UNUSED", 7, func(r QueueRow) string { return r.Unused }),
			Column[QueueRow]{Title: "SHARE", Rank: shares, Text: func(r QueueRow) string { return r.share() }},
		)
	}
	return append(
		columns,
		Column[QueueRow]{Title: "STATE", State: true, Text: func(r QueueRow) string { return r.State }},
	)
}

// differ reports whether amounts of rows are of several resources.
func differ(rows []QueueRow) bool {
	of := ""
	for i := range rows {
		if r := &rows[i]; r.Resource != "" && r.Used != "" {
			if of != "" && of != r.Resource {
				return true
			}
			of = r.Resource
		}
	}
	return false
}

// lent is what is lent, a bound as one.
func (r *QueueRow) lent() string {
	if r.LentAtMost {
		return view.AtMost + r.Lent
	}
	return r.Lent
}

// share is the share as its status has it, but for that of weight 0, which no other reaches.
func (r *QueueRow) share() string {
	switch {
	case r.WeightedShare == nil:
		return ""
	case *r.WeightedShare == math.MaxInt64:
		return "∞"
	}
	return strconv.FormatInt(*r.WeightedShare, 10)
}

// WaitingRow is a job in its place in a queue.
type WaitingRow struct {
	// Position counts from 1; before it are those of lower numbers.
	Position  int       `json:"position"`
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	Workload  string    `json:"workload"`
	Queue     string    `json:"queue"`
	Priority  int32     `json:"priority"`
	Created   time.Time `json:"created"`
	Reason    string    `json:"reason,omitempty"`
	Message   string    `json:"message,omitempty"`
	// Start is when it is expected to start, nil if that is not known.
	Start *visibility.Start `json:"start,omitempty"`
	// QueueMissing says that there is no LocalQueue of the name that it has.
	QueueMissing bool `json:"queueMissing,omitempty"`
}

// WaitingRows are the lines of what waits, in order. Whether they wait for quota is theirs to say:
// their Workloads are read where the user may.
func WaitingRows(
	ctx context.Context,
	c client.Reader,
	namespace string,
	pending []visibility.PendingWorkload,
) ([]WaitingRow, error) {
	var list kueue.WorkloadList
	if err := gather.Readable(c.List(ctx, &list, client.InNamespace(namespace))); err != nil {
		return nil, fmt.Errorf("list Workloads: %w", err)
	}
	known := make(map[string]*kueue.Workload, len(list.Items))
	for i := range list.Items {
		known[list.Items[i].Namespace+"/"+list.Items[i].Name] = &list.Items[i]
	}
	var out []WaitingRow
	for i := range pending {
		p := &pending[i]
		row := WaitingRow{
			Position:  i + 1,
			Namespace: p.Namespace,
			Name:      p.Name,
			Workload:  p.Name,
			Queue:     p.LocalQueueName,
			Priority:  p.Priority,
			Created:   p.CreationTimestamp.UTC(),
			Start:     p.Start,
		}
		if owner := metav1.GetControllerOf(p); owner != nil {
			row.Name = owner.Name
		}
		if w := known[p.Namespace+"/"+p.Name]; w != nil {
			j := view.StandingOf(view.Objects{Workload: w})
			row.Reason, row.Message = j.Reason, j.Message
		}
		out = append(out, row)
	}
	return out, nil
}

// WaitingColumns are those of what waits in a queue.
func WaitingColumns(now time.Time) []Column[WaitingRow] {
	return []Column[WaitingRow]{
		{Title: "#", Text: func(r WaitingRow) string { return strconv.Itoa(r.Position) }},
		{Title: "NAMESPACE", Rank: 2, Text: func(r WaitingRow) string { return r.Namespace }},
		{Title: "NAME", Text: func(r WaitingRow) string { return r.Name }},
		{Title: "QUEUE", Rank: 5, Room: reasonRoom, Text: func(r WaitingRow) string { return r.Queue }},
		{
			Title: "PRIORITY",
			Rank:  3,
			Room:  narrowRoom,
			Text:  func(r WaitingRow) string { return strconv.Itoa(int(r.Priority)) },
		},
		{
			Title: "AGE",
			Rank:  4,
			Text:  func(r WaitingRow) string { return duration.HumanDuration(max(now.Sub(r.Created), 0)) },
		},
		{Title: "STARTS IN", Rank: 1, Text: func(r WaitingRow) string { return why.StartText(r.Start, now) }},
		{Title: "WORKLOAD", Wide: true, Text: func(r WaitingRow) string { return r.Workload }},
		{Title: "WHY", Text: func(r WaitingRow) string { return reasonText(r.Reason, r.Message) }},
	}
}
