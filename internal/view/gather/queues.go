package gather

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/view"
)

// Behind returns the ClusterQueue of a LocalQueue, of which whoever may use the LocalQueue may know the
// quotas; nil if there is none, or they may not know.
type Behind func(ctx context.Context, local *kueue.LocalQueue) *kueue.ClusterQueue

// Get is a Behind for those who may read ClusterQueues.
func Get(r client.Reader) Behind {
	return func(ctx context.Context, local *kueue.LocalQueue) *kueue.ClusterQueue {
		var q kueue.ClusterQueue
		if r.Get(ctx, client.ObjectKey{Name: string(local.Spec.ClusterQueue)}, &q) != nil {
			return nil
		}
		return &q
	}
}

// quotas are all ClusterQueues and Cohorts.
type quotas struct {
	queues  []view.ClusterQueue
	shares  map[string]*int64 // weighted shares of ClusterQueues
	cohorts []kueue.Cohort
	owners  []core.Cohort
	lent    map[core.FlavorResource]view.Lending // what was asked for
}

// readQuotas reads ClusterQueues and Cohorts. Cohorts that may not be read have no quotas of their own, and
// none above.
func readQuotas(ctx context.Context, r client.Reader) (*quotas, []string, error) {
	var queues kueue.ClusterQueueList
	if err := r.List(ctx, &queues); err != nil {
		return nil, nil, fmt.Errorf("list ClusterQueues: %w", err)
	}
	var cohorts kueue.CohortList
	var unread []string
	err := r.List(ctx, &cohorts)
	if apierrors.IsForbidden(err) {
		unread = []string{"Cohorts"}
	}
	if err := Readable(err); err != nil {
		return nil, nil, fmt.Errorf("list Cohorts: %w", err)
	}
	out := &quotas{
		shares:  map[string]*int64{},
		cohorts: cohorts.Items,
		lent:    map[core.FlavorResource]view.Lending{},
	}
	for i := range queues.Items {
		out.queues = append(out.queues, clusterQueue(&queues.Items[i]))
		out.shares[queues.Items[i].Name] = weightedShare(queues.Items[i].Status.FairSharing)
	}
	slices.SortFunc(out.queues, func(a, b view.ClusterQueue) int { return cmp.Compare(a.Name, b.Name) })
	for i := range cohorts.Items {
		out.owners = append(out.owners, convert.Cohort(&cohorts.Items[i]))
	}
	return out, unread, nil
}

func clusterQueue(q *kueue.ClusterQueue) view.ClusterQueue {
	out := view.ClusterQueueOf(
		q,
		apimeta.FindStatusCondition(q.Status.Conditions, kueue.ClusterQueueActive),
		view.LoadOf(q.Status),
	)
	if c := apimeta.FindStatusCondition(q.Status.Conditions, convert.CapacityShort); c != nil {
		out.Short = c.Reason
	}
	return out
}

// weightedShare is the share that a status tells, nil if it tells none.
func weightedShare(s *kueue.FairSharingStatus) *int64 {
	if s == nil {
		return nil
	}
	return new(s.WeightedShare)
}

// lending is what is lent of a resource of a flavor among all queues.
func (q *quotas) lending(of core.FlavorResource) view.Lending {
	if _, known := q.lent[of]; !known {
		q.lent[of] = view.LendingOf(q.queues, q.owners, of)
	}
	return q.lent[of]
}

// ClusterQueues are how ClusterQueues stand, by name, and then how Cohorts do, by name. unread names what may
// not be listed and is left out; without the right to list ClusterQueues the error says so.
func ClusterQueues(ctx context.Context, r client.Reader) (out []view.Queue, unread []string, err error) {
	q, unread, err := readQuotas(ctx, r)
	if err != nil {
		return nil, nil, err
	}
	for i := range q.queues {
		out = append(out, q.row(&q.queues[i]))
	}
	return append(out, q.sums(out)...), unread, nil
}

// row is how a ClusterQueue stands.
func (q *quotas) row(is *view.ClusterQueue) view.Queue {
	row := view.Queue{
		Kind: view.KindClusterQueue, Name: is.Name, Parent: is.Cohort(), WeightedShare: q.shares[is.Name],
		Running: is.Admitted, Waiting: is.Waiting(), State: string(is.State), Shares: view.SharesOf(is, q.lending),
	}
	if is.State == view.QueuePending || is.State == view.QueueTerminating {
		row.State = cmp.Or(is.Reason, row.State)
	} else if is.Short == convert.ReasonQuotaCut {
		row.State += ", quota cut"
	}
	return row
}

// sum is what adds up to a cohort.
type sum struct {
	running, waiting int
	order            []core.FlavorResource // in which resources were met
	amounts          map[core.FlavorResource]amount
}

type amount struct{ nominal, used core.Amount }

func (s *sum) add(at core.FlavorResource, more amount) {
	if _, met := s.amounts[at]; !met {
		s.order = append(s.order, at)
	}
	s.amounts[at] = amount{s.amounts[at].nominal.Add(more.nominal), s.amounts[at].used.Add(more.used)}
}

// cohortTree are cohorts, and the queues in them; the name "" is no cohort.
type cohortTree struct {
	*quotas
	above  map[string]string
	below  map[string][]string
	queues map[string][]*view.ClusterQueue
	rows   map[string]view.Queue // those that are summed up
}

// sums are how cohorts stand: the sum of the queues, which are rows, and cohorts in them.
func (q *quotas) sums(rows []view.Queue) []view.Queue {
	t := &cohortTree{
		q,
		map[string]string{},
		map[string][]string{},
		map[string][]*view.ClusterQueue{},
		map[string]view.Queue{},
	}
	for i := range q.cohorts {
		t.above[q.cohorts[i].Name] = string(q.cohorts[i].Spec.ParentName)
	}
	known := func(name string) { // one that is named and has no object has nobody above it
		if _, is := t.above[name]; !is && name != "" {
			t.above[name] = ""
		}
	}
	for i := range q.cohorts {
		known(string(q.cohorts[i].Spec.ParentName))
	}
	for i := range rows {
		known(rows[i].Parent)
		t.queues[rows[i].Parent] = append(t.queues[rows[i].Parent], &q.queues[i])
	}
	for _, name := range slices.Sorted(maps.Keys(t.above)) {
		t.below[t.above[name]] = append(t.below[t.above[name]], name)
	}
	// Cohorts that are above themselves have no top: each that is left stands for one.
	for _, name := range append(slices.Clone(t.below[""]), slices.Sorted(maps.Keys(t.above))...) {
		t.sum(name)
	}
	var out []view.Queue
	for _, name := range slices.Sorted(maps.Keys(t.rows)) {
		out = append(out, t.rows[name])
	}
	return out
}

// sum adds up a cohort that was not added up yet.
func (t *cohortTree) sum(name string) *sum {
	s := &sum{amounts: map[core.FlavorResource]amount{}}
	if _, done := t.rows[name]; done {
		return s
	}
	t.rows[name] = view.Queue{} // it is not below itself
	row := view.Queue{Kind: view.KindCohort, Name: name, Parent: t.above[name]}
	limits := map[core.FlavorResource]core.Quota{}
	if i := slices.IndexFunc(t.owners, func(c core.Cohort) bool { return c.Name == name }); i >= 0 {
		row.WeightedShare = weightedShare(t.cohorts[i].Status.FairSharing)
		for _, g := range t.owners[i].Groups {
			for _, f := range g.Flavors {
				for _, own := range f.Quotas {
					at := core.FlavorResource{Flavor: f.Flavor, Resource: own.Resource}
					s.add(at, amount{nominal: own.Nominal})
					limits[at] = own
				}
			}
		}
	}
	for _, child := range t.below[name] {
		part := t.sum(child)
		s.running, s.waiting = s.running+part.running, s.waiting+part.waiting
		for _, at := range part.order {
			s.add(at, part.amounts[at])
		}
	}
	for _, q := range t.queues[name] {
		s.running, s.waiting = s.running+q.Admitted, s.waiting+q.Waiting()
		for _, f := range q.Flavors {
			for _, own := range f.Quotas {
				at := core.FlavorResource{Flavor: f.Flavor, Resource: own.Resource}
				s.add(at, amount{own.Nominal, q.Reserved[at]})
			}
		}
	}
	row.Running, row.Waiting, row.Shares = s.running, s.waiting, t.shares(&row, s, limits)
	t.rows[name] = row
	return s
}

// shares are what a cohort has. What its queues lend each other is in their rows, and a cohort that is above
// all others has nobody outside to borrow from or lend to.
func (t *cohortTree) shares(
	of *view.Queue,
	s *sum,
	limits map[core.FlavorResource]core.Quota,
) (out []view.Share) {
	for _, at := range s.order {
		text := func(a core.Amount) string { return view.AmountText(at.Resource, a) }
		share := view.Share{
			Flavor:   at.Flavor,
			Resource: at.Resource,
			Nominal:  text(s.amounts[at].nominal),
			Used:     text(s.amounts[at].used),
		}
		if of.Parent != "" {
			l := t.lending(at)
			share.Borrowed, share.Lent, share.LentAtMost = text(
				l.Borrowed[of.Name],
			), text(
				l.Cohorts[of.Name].Most,
			), l.Cohorts[of.Name].AtMost()
		}
		if own := limits[at]; own.Borrowing != nil {
			share.BorrowingLimit = text(*own.Borrowing)
		}
		if own := limits[at]; own.Lending != nil {
			share.LendingLimit = text(*own.Lending)
		}
		out = append(out, share)
	}
	return out
}

// LocalQueues are how the LocalQueues of a namespace stand, of all if it is "", by namespace and name: what
// their own jobs use and, as far as behind tells it, what quota their ClusterQueues have and what all jobs of
// these use.
func LocalQueues(
	ctx context.Context,
	r client.Reader,
	namespace string,
	behind Behind,
) ([]view.Queue, error) {
	var list kueue.LocalQueueList
	if err := r.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("list LocalQueues: %w", err)
	}
	known := map[kueue.ClusterQueueReference]*kueue.ClusterQueue{}
	out := make([]view.Queue, len(list.Items))
	for i := range list.Items {
		q := &list.Items[i]
		if _, asked := known[q.Spec.ClusterQueue]; !asked || known[q.Spec.ClusterQueue] == nil {
			known[q.Spec.ClusterQueue] = behind(ctx, q)
		}
		out[i] = localQueue(q, known[q.Spec.ClusterQueue])
	}
	slices.SortFunc(out, func(a, b view.Queue) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return out, nil
}

// localQueue is how a LocalQueue stands. behind is its ClusterQueue, nil if that may not be known.
func localQueue(q *kueue.LocalQueue, behind *kueue.ClusterQueue) view.Queue {
	row := view.Queue{
		Kind:      view.KindLocalQueue,
		Namespace: q.Namespace,
		Name:      q.Name,
		Parent:    string(q.Spec.ClusterQueue),
		Running: int(
			q.Status.AdmittedWorkloads,
		),
		Waiting: int(q.Status.PendingWorkloads),
		State:   string(view.QueueActive),
	}
	if a := apimeta.FindStatusCondition(
		q.Status.Conditions,
		kueue.LocalQueueActive,
	); a != nil &&
		a.Status != "True" {
		row.State = a.Reason
	}
	var quotas []view.Share
	if behind != nil {
		is := clusterQueue(behind)
		quotas = view.SharesOf(&is, nil)
	}
	own := usedBy([]kueue.LocalQueue{*q})
	for _, s := range own {
		if !slices.ContainsFunc(
			quotas,
			func(q view.Share) bool { return q.Flavor == s.Flavor && q.Resource == s.Resource },
		) {
			row.Shares = append(row.Shares, s)
		}
	}
	for _, s := range quotas {
		s.QueueUsed, s.Used = s.Used, "0"
		if i := slices.IndexFunc(
			own,
			func(u view.Share) bool { return u.Flavor == s.Flavor && u.Resource == s.Resource },
		); i >= 0 {
			s.Used = own[i].Used
		}
		row.Shares = append(row.Shares, s)
	}
	return row
}

// usedBy is what the jobs of LocalQueues use together, as their statuses tell it, in the order of these.
func usedBy(queues []kueue.LocalQueue) (out []view.Share) {
	s := sum{amounts: map[core.FlavorResource]amount{}}
	for i := range queues {
		for _, f := range queues[i].Status.FlavorsReservation {
			for _, u := range f.Resources {
				s.add(
					core.FlavorResource{Flavor: string(f.Name), Resource: string(u.Name)},
					amount{used: convert.Amount(u.Name, u.Total)},
				)
			}
		}
	}
	for _, at := range s.order {
		out = append(
			out,
			view.Share{
				Flavor:   at.Flavor,
				Resource: at.Resource,
				Used:     view.AmountText(at.Resource, s.amounts[at].used),
			},
		)
	}
	return out
}
