package cli

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	visibility "github.com/mlbatch/mlbatch/api/visibility/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/view"
	"github.com/mlbatch/mlbatch/internal/view/gather"
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

	depth   int
	amounts amounts
}

// amounts are what a row adds up, by flavor: one of them cannot be used for another.
type amounts map[string]amount

// amount is of one flavor.
type amount struct{ nominal, used core.Amount }

// add adds amounts of others.
func (a amounts) add(more amounts) {
	for flavor, x := range more { // sums
		a[flavor] = amount{a[flavor].nominal.Add(x.nominal), a[flavor].used.Add(x.used)}
	}
}

// kinds of rows.
const (
	cohortRow       = "Cohort"
	clusterQueueRow = "ClusterQueue"
	localQueueRow   = "LocalQueue"
)

// TakeQueues reads the queues: ClusterQueues in the tree of their cohorts or, for those who may
// not read them, the LocalQueues of a namespace, of all if it is "". resource is that which
// amounts are of; "" is GPUs, or else the first of a quota, of each queue by itself: one without
// GPUs has something to tell as well.
func TakeQueues(ctx context.Context, c client.Reader, namespace, resource string) ([]QueueRow, error) {
	var queues kueue.ClusterQueueList
	if namespace != "" {
		return localQueues(ctx, c, namespace, resource)
	}
	err := c.List(ctx, &queues)
	if apierrors.IsForbidden(err) {
		return localQueues(ctx, c, namespace, resource)
	}
	if err != nil {
		return nil, fmt.Errorf("list ClusterQueues: %w", err)
	}
	var cohorts kueue.CohortList
	if err := gather.Readable(c.List(ctx, &cohorts)); err != nil {
		return nil, fmt.Errorf("list Cohorts: %w", err)
	}
	t := tree{
		above: map[string]string{}, below: map[string][]string{}, queues: map[string][]QueueRow{}, own: map[string][]core.FlavorQuotas{}, shares: map[string]*int64{},
		lent: map[string][]view.Lending{}, named: resource != "",
	}
	for i := range cohorts.Items {
		o := &cohorts.Items[i]
		t.put(o.Name, string(o.Spec.ParentName))
	}
	all := make([]view.Queue, len(queues.Items))
	for i := range queues.Items {
		q := &queues.Items[i]
		all[i] = view.QueueOf(q, apimeta.FindStatusCondition(q.Status.Conditions, kueue.ClusterQueueActive), view.LoadOf(q.Status))
	}
	resource = cmp.Or(resource, counted(all))
	t.all, t.owners = all, make([]core.Cohort, len(cohorts.Items))
	for i := range cohorts.Items {
		o := &cohorts.Items[i]
		t.own[o.Name] = view.Flavors(&kueue.ClusterQueue{Spec: kueue.ClusterQueueSpec{ResourceGroups: o.Spec.ResourceGroups}})
		t.shares[o.Name] = weightedShare(o.Status.FairSharing)
		t.owners[i] = convert.Cohort(o)
	}
	for i := range all {
		q := &all[i]
		row := queueRow(q, t.of(q.Flavors, resource))
		row.WeightedShare = weightedShare(queues.Items[i].Status.FairSharing)
		if q.Cohort() != "" {
			row.lends(t.lending(row.Resource), func(l view.Lending) view.Lent { return l.Queues[q.Name] })
		}
		t.put(q.Cohort(), t.above[q.Cohort()])
		t.queues[q.Cohort()] = append(t.queues[q.Cohort()], row)
	}
	return t.rows(resource), nil
}

// weightedShare is the share that a status tells, nil if it tells none.
func weightedShare(s *kueue.FairSharingStatus) *int64 {
	if s == nil {
		return nil
	}
	return &s.WeightedShare
}

// lendings are what is lent of a resource, of each of its flavors.
func lendings(queues []view.Queue, cohorts []core.Cohort, resource string) (out []view.Lending) {
	flavors := map[string]bool{}
	for i := range queues { // only what queues may use can be lent
		for _, f := range queues[i].Flavors {
			for _, own := range f.Quotas {
				flavors[f.Flavor] = flavors[f.Flavor] || own.Resource == resource
			}
		}
	}
	for flavor, has := range flavors { // sums are made of them
		if has {
			out = append(out, view.LendingOf(queues, cohorts, core.FlavorResource{Flavor: flavor, Resource: resource}))
		}
	}
	return out
}

// lends notes what is lent of all flavors together.
func (r *QueueRow) lends(all []view.Lending, of func(view.Lending) view.Lent) {
	if r.Resource == "" || len(r.amounts) == 0 {
		return
	}
	var sum view.Lent
	for _, l := range all {
		sum = sum.Add(of(l))
	}
	r.Lent, r.LentAtMost = r.text(sum.Most), sum.AtMost()
}

// text is an amount of its resource.
func (r *QueueRow) text(a core.Amount) string {
	q := convert.Quantity(r.Resource, a)
	return q.String()
}

// counted is the resource that is counted if nobody says which.
func counted(all []view.Queue) string {
	first := ""
	for i := range all {
		for _, f := range all[i].Flavors {
			for _, own := range f.Quotas {
				if view.IsGPU(own.Resource) {
					return own.Resource
				}
				first = cmp.Or(first, own.Resource)
			}
		}
	}
	return first
}

// queueRow is the line of a ClusterQueue.
func queueRow(q *view.Queue, resource string) QueueRow {
	row := QueueRow{
		Kind: clusterQueueRow, Name: q.Name, Parent: q.Cohort(), Resource: resource,
		Running: q.Admitted, Waiting: q.Waiting(), State: string(q.State),
	}
	if q.State == view.QueuePending || q.State == view.QueueTerminating {
		row.State = cmp.Or(q.Reason, string(q.State))
	}
	row.amounts = amountsOf(q.Flavors, q.Load, resource)
	row.spell()
	if q.Cohort() == "" {
		row.Borrowed = "" // there is nobody to borrow from
	}
	return row
}

// amountsOf are those of quotas, and of what is used of them.
func amountsOf(flavors []core.FlavorQuotas, load core.Load, resource string) amounts {
	out := amounts{}
	for _, f := range flavors {
		for _, own := range f.Quotas {
			if own.Resource == resource {
				out.add(amounts{f.Flavor: {own.Nominal, load.Reserved[core.FlavorResource{Flavor: f.Flavor, Resource: resource}]}})
			}
		}
	}
	return out
}

// spell writes the amounts as people read them. Of a resource that a queue has no quota of there
// is nothing to say.
func (r *QueueRow) spell() {
	if r.Resource == "" || len(r.amounts) == 0 {
		return
	}
	var nominal, used, borrowed, unused core.Amount
	for _, x := range r.amounts { // sums
		nominal, used = nominal.Add(x.nominal), used.Add(x.used)
		borrowed, unused = borrowed.Add(max(0, x.used.Sub(x.nominal))), unused.Add(max(0, x.nominal.Sub(x.used)))
	}
	r.Nominal, r.Used, r.Borrowed, r.Unused = r.text(nominal), r.text(used), r.text(borrowed), r.text(unused)
}

// tree are cohorts, and the queues in them; the name "" is no cohort.
type tree struct {
	above  map[string]string
	below  map[string][]string
	queues map[string][]QueueRow
	// own are quotas of cohorts themselves, shares the shares that their statuses tell.
	own    map[string][]core.FlavorQuotas
	shares map[string]*int64
	// all and owners are what can lend, lent what is lent of a resource.
	all    []view.Queue
	owners []core.Cohort
	lent   map[string][]view.Lending
	// named says that the resource was asked for, and rows tell of no other.
	named bool
}

// of is the resource that is told of who has these quotas: usual, unless they have none of it.
func (t *tree) of(flavors []core.FlavorQuotas, usual string) string {
	if t.named || len(amountsOf(flavors, core.Load{}, usual)) > 0 {
		return usual
	}
	return cmp.Or(counted([]view.Queue{{Flavors: flavors}}), usual)
}

// lending is what is lent of a resource, of each flavor.
func (t *tree) lending(of string) []view.Lending {
	if _, known := t.lent[of]; !known {
		t.lent[of] = lendings(t.all, t.owners, of)
	}
	return t.lent[of]
}

// put adds a cohort that may be there already.
func (t *tree) put(name, parent string) {
	if _, there := t.above[name]; there || name == "" {
		return
	}
	t.above[name] = parent
	t.below[parent] = append(t.below[parent], name)
	t.put(parent, t.above[parent])
}

// rows are the lines of the tree: cohorts, with the sum of what is in them, before what is in
// them, and queues of none at the end. Cohorts that are above themselves stand by themselves.
func (t *tree) rows(resource string) []QueueRow {
	var out []QueueRow
	seen := map[string]bool{}
	for _, name := range append(slices.Sorted(slices.Values(t.below[""])), slices.Sorted(maps.Keys(t.above))...) {
		out = append(out, t.branch(name, 0, resource, seen)...)
	}
	return append(out, sorted(t.queues[""])...)
}

func sorted(rows []QueueRow) []QueueRow {
	return slices.SortedFunc(slices.Values(rows), func(a, b QueueRow) int { return cmp.Compare(a.Name, b.Name) })
}

// branch is a cohort and all that is in it.
func (t *tree) branch(name string, depth int, resource string, seen map[string]bool) []QueueRow {
	if seen[name] {
		return nil
	}
	seen[name] = true
	out := []QueueRow{{Kind: cohortRow, Name: name, Parent: t.above[name], depth: depth}}
	var parts []QueueRow
	add := func(rows []QueueRow) {
		if len(rows) > 0 { // the first is the sum of those below it
			parts = append(parts, rows[0])
		}
		out = append(out, rows...)
	}
	for _, child := range slices.Sorted(slices.Values(t.below[name])) {
		add(t.branch(child, depth+1, resource, seen))
	}
	for _, q := range sorted(t.queues[name]) {
		q.depth = depth + 1
		add([]QueueRow{q})
	}
	out[0].sum(parts, t.own[name], t.summed(parts, t.own[name], resource))
	out[0].WeightedShare = t.shares[name]
	t.outside(&out[0])
	return out
}

// summed is the resource that is summed up of parts of a cohort and of quotas of its own: usual,
// unless none of them has any.
func (t *tree) summed(parts []QueueRow, own []core.FlavorQuotas, usual string) string {
	if t.named || len(amountsOf(own, core.Load{}, usual)) > 0 {
		return usual
	}
	of := counted([]view.Queue{{Flavors: own}})
	for i := range parts {
		switch p := &parts[i]; {
		case len(p.amounts) == 0:
		case p.Resource == usual:
			return usual
		default:
			of = cmp.Or(of, p.Resource)
		}
	}
	return cmp.Or(of, usual)
}

// sum makes a row the sum of parts, and of quotas of its own.
func (r *QueueRow) sum(parts []QueueRow, own []core.FlavorQuotas, resource string) {
	r.Resource, r.amounts = resource, amountsOf(own, core.Load{}, resource)
	for i := range parts {
		p := &parts[i]
		r.Running, r.Waiting = r.Running+p.Running, r.Waiting+p.Waiting
		if p.Resource == resource { // amounts of others are theirs alone
			r.amounts.add(p.amounts)
		}
	}
	r.spell()
}

// outside notes what a cohort borrows from those outside of it and lends to them. What its queues
// lend each other is in their lines, and one that is above all others has no outside.
func (t *tree) outside(r *QueueRow) {
	var sum core.Amount
	for _, l := range t.lending(r.Resource) {
		sum = sum.Add(l.Borrowed[r.Name])
	}
	if r.Borrowed == "" || r.Parent == "" {
		r.Borrowed = ""
		return
	}
	r.Borrowed = r.text(sum)
	r.lends(t.lending(r.Resource), func(l view.Lending) view.Lent { return l.Cohorts[r.Name] })
}

// Flat are the ClusterQueues among rows, without the tree that they stand in.
func Flat(rows []QueueRow) (out []QueueRow) {
	for _, r := range rows {
		if r.Kind == clusterQueueRow {
			r.depth = 0
			out = append(out, r)
		}
	}
	return out
}

// TakeLocalQueues reads the LocalQueues of a namespace, of all if it is "".
func TakeLocalQueues(ctx context.Context, c client.Reader, namespace string) ([]QueueRow, error) {
	return localQueues(ctx, c, namespace, "")
}

// localQueues are the lines of LocalQueues. Their quotas are those of ClusterQueues, which not
// everybody may read.
func localQueues(ctx context.Context, c client.Reader, namespace, resource string) ([]QueueRow, error) {
	var list kueue.LocalQueueList
	if err := c.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		if apierrors.IsForbidden(err) && namespace == "" {
			return nil, fmt.Errorf("you may not list the queues of all namespaces: name a namespace to list its own: %w", err)
		}
		return nil, fmt.Errorf("list LocalQueues: %w", err)
	}
	var out []QueueRow
	for i := range list.Items {
		q := &list.Items[i]
		row := QueueRow{
			Kind: localQueueRow, Namespace: q.Namespace, Name: q.Name, Parent: string(q.Spec.ClusterQueue),
			Running: int(q.Status.AdmittedWorkloads), Waiting: int(q.Status.PendingWorkloads), State: string(view.QueueActive),
		}
		if a := apimeta.FindStatusCondition(q.Status.Conditions, kueue.LocalQueueActive); a != nil && a.Status != "True" {
			row.State = a.Reason
		}
		row.Resource, row.Used = usedOf(q.Status.FlavorsReservation, resource)
		out = append(out, row)
	}
	slices.SortFunc(out, func(a, b QueueRow) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return out, nil
}

// AddQuotas adds to rows of LocalQueues what quota their ClusterQueues have, as told says. Where
// that is not known the rows stay as they are. resource is as for TakeQueues.
func AddQuotas(rows []QueueRow, resource string, told func(namespace, localQueue string) ([]visibility.QueueQuota, error)) {
	for i := range rows {
		r := &rows[i]
		if r.Kind != localQueueRow {
			continue
		}
		quotas, err := told(r.Namespace, r.Name)
		if err != nil {
			continue // what is left is what everybody knows
		}
		r.quota(quotas, cmp.Or(resource, r.Resource))
	}
}

// QuotaLines say in a line for each queue behind the LocalQueues of a namespace what quota of GPUs it
// has, where told says that; of one without GPUs, what it has. Nothing is said where it is not known.
func QuotaLines(ctx context.Context, c client.Reader, namespace string, told func(namespace, localQueue string) ([]visibility.QueueQuota, error)) (out []string) {
	rows, err := localQueues(ctx, c, namespace, "")
	if err != nil {
		return nil // it is told besides what was asked for
	}
	AddQuotas(rows, "", told)
	seen := map[string]bool{}
	for i := range rows {
		r := &rows[i]
		if r.Nominal == "" || seen[r.Parent] {
			continue
		}
		seen[r.Parent] = true
		is := Amounts(r.Resource, r.Nominal, cmp.Or(r.QueueUsed, "0"), r.Borrowed, r.Unused)
		out = append(out, fmt.Sprintf("Quota of %s: %s %s, %s used by all jobs of the queue, %s borrowed, %s unused.", r.Parent, is[0], r.Resource, is[1], is[2], is[3]))
	}
	return out
}

// quota adds the quotas of a resource, of GPUs or else the first if none is named. What is used
// stays what the LocalQueue's own jobs have.
func (r *QueueRow) quota(quotas []visibility.QueueQuota, of string) {
	all := make([]view.Queue, 1)
	for i := range quotas {
		q := &quotas[i]
		all[0].Flavors = append(all[0].Flavors, core.FlavorQuotas{Flavor: q.Flavor, Quotas: []core.Quota{{Resource: q.Resource}}})
	}
	of = cmp.Or(of, counted(all))
	sums := amounts{}
	var borrowed core.Amount
	for i := range quotas {
		q, name := &quotas[i], corev1.ResourceName(quotas[i].Resource)
		if q.Resource == of {
			sums.add(amounts{q.Flavor: {convert.Amount(name, q.Nominal), convert.Amount(name, q.Used)}})
			borrowed = borrowed.Add(convert.Amount(name, q.Borrowed))
		}
	}
	if len(sums) == 0 {
		return
	}
	own := cmp.Or(r.Used, "0")
	r.Resource, r.amounts = of, sums
	r.spell()
	r.QueueUsed, r.Used, r.Borrowed = r.Used, own, r.text(borrowed)
}

// usedOf is how much of a resource is used, GPUs or else the first if none is named.
func usedOf(usage []kueue.LocalQueueFlavorUsage, resource string) (what, used string) {
	var total core.Amount
	what = resource
	for _, pick := range []func(string) bool{view.IsGPU, func(string) bool { return true }} {
		for _, f := range usage {
			for _, r := range f.Resources {
				if what == "" && pick(string(r.Name)) {
					what = string(r.Name)
				}
			}
		}
	}
	for _, f := range usage {
		for _, r := range f.Resources {
			if string(r.Name) == what {
				total = total.Add(convert.Amount(r.Name, r.Total))
			}
		}
	}
	if what == "" {
		return "", ""
	}
	q := convert.Quantity(what, total)
	return what, q.String()
}

// QueueColumns are those of a list of queues.
func QueueColumns(rows []QueueRow) []Column[QueueRow] {
	local := len(rows) > 0 && rows[0].Kind == localQueueRow
	number := func(of func(QueueRow) int) func(QueueRow) string {
		return func(r QueueRow) string { return strconv.Itoa(of(r)) }
	}
	amount := func(title string, rank int, of func(QueueRow) string) Column[QueueRow] {
		return AmountColumn(Column[QueueRow]{Title: title, Rank: rank}, func(r QueueRow) string { return r.Resource }, of)
	}
	columns := []Column[QueueRow]{{Title: "NAME", Text: func(r QueueRow) string { return strings.Repeat("  ", r.depth) + r.Name }}}
	if local {
		columns = append([]Column[QueueRow]{{Title: "NAMESPACE", Rank: 1, Text: func(r QueueRow) string { return r.Namespace }}}, columns...)
		columns = append(columns, Column[QueueRow]{Title: "CLUSTERQUEUE", Rank: 6, Text: func(r QueueRow) string { return r.Parent }})
	} else {
		columns = append(columns, Column[QueueRow]{Title: "KIND", Rank: 8, Text: func(r QueueRow) string { return r.Kind }})
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
	if local && slices.ContainsFunc(rows, func(r QueueRow) bool { return r.Nominal != "" }) { // what the ClusterQueue has
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
	return append(columns, Column[QueueRow]{Title: "STATE", State: true, Text: func(r QueueRow) string { return r.State }})
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
		return atMost + r.Lent
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
func WaitingRows(ctx context.Context, c client.Reader, namespace string, pending []visibility.PendingWorkload) ([]WaitingRow, error) {
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
			Position: i + 1, Namespace: p.Namespace, Name: p.Name, Workload: p.Name, Queue: p.LocalQueueName, Priority: p.Priority, Created: p.CreationTimestamp.UTC(), Start: p.Start,
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
		{Title: "PRIORITY", Rank: 3, Room: narrowRoom, Text: func(r WaitingRow) string { return strconv.Itoa(int(r.Priority)) }},
		{Title: "AGE", Rank: 4, Text: func(r WaitingRow) string { return duration.HumanDuration(max(now.Sub(r.Created), 0)) }},
		{Title: "STARTS IN", Rank: 1, Text: func(r WaitingRow) string { return StartText(r.Start, now) }},
		{Title: "WORKLOAD", Wide: true, Text: func(r WaitingRow) string { return r.Workload }},
		{Title: "WHY", Text: func(r WaitingRow) string { return reasonText(r.Reason, r.Message) }},
	}
}
