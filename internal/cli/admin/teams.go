package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	visibility "github.com/mlbatch/mlbatch/api/visibility/v1beta2"
	"github.com/mlbatch/mlbatch/internal/cli"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/view"
	"github.com/mlbatch/mlbatch/internal/view/gather"
)

// TeamRow is a team as it is. Amounts are spelled as quantities are.
type TeamRow struct { //nolint:recvcheck // it is printed as a value
	Name string `json:"name"`
	// LocalQueues are where it submits, ClusterQueue the quota behind the first of them.
	LocalQueues  []string `json:"localQueues,omitempty"`
	ClusterQueue string   `json:"clusterQueue,omitempty"`
	Cohort       string   `json:"cohort,omitempty"`
	// State is that of its ClusterQueue, active or why not.
	State string `json:"state,omitempty"`
	// Shares are its quotas and what it has of them; Shared names other teams with the same
	// quota, whose use is in these numbers.
	Shares []Share  `json:"resources,omitempty"`
	Shared []string `json:"sharedWith,omitempty"`
	// Running and Waiting are numbers of jobs.
	Running int `json:"running"`
	Waiting int `json:"waiting"`
	// People may submit.
	People []string `json:"people,omitempty"`
	// Unread is what the user may not read.
	Unread []string `json:"unread,omitempty"`
	// Deleting says that its namespace is on its way out.
	Deleting bool `json:"deleting,omitempty"`
}

// Share is one resource of a quota. Those who may not read the quota get what is used.
type Share struct {
	Flavor   string `json:"flavor"`
	Resource string `json:"resource"`
	Nominal  string `json:"nominal,omitempty"`
	Used     string `json:"used"`
	// Borrowed is how much of what is used is not its own, Lent how much of its own others have:
	// at most so much, where several lend.
	Borrowed string `json:"borrowed,omitempty"`
	Lent     string `json:"lent,omitempty"`
	// LentAtMost says that Lent is a bound.
	LentAtMost bool `json:"lentAtMost,omitempty"`
	// BorrowingLimit and LendingLimit are "" where there is none.
	BorrowingLimit string `json:"borrowingLimit,omitempty"`
	LendingLimit   string `json:"lendingLimit,omitempty"`
}

// register is what is read of teams.
type register struct {
	locals   []kueue.LocalQueue
	queues   map[string]*kueue.ClusterQueue
	bindings []rbacv1.RoleBinding
	cohorts  []core.Cohort
	lent     map[core.FlavorResource]view.Lending // what was asked for
	unread   []string
}

// read reads what belongs to a team, to all if it is "".
func read(ctx context.Context, c client.Reader, team string) (*register, error) {
	r := &register{queues: map[string]*kueue.ClusterQueue{}, lent: map[core.FlavorResource]view.Lending{}}
	var locals kueue.LocalQueueList
	if err := c.List(ctx, &locals, client.InNamespace(team)); err != nil {
		return nil, fmt.Errorf("list LocalQueues: %w", err)
	}
	r.locals = locals.Items
	var queues kueue.ClusterQueueList
	var bindings rbacv1.RoleBindingList
	if err := r.readable(unreadQueues, c.List(ctx, &queues)); err != nil {
		return nil, err
	}
	if err := r.readable("RoleBindings", c.List(ctx, &bindings, client.InNamespace(team))); err != nil {
		return nil, err
	}
	var cohorts kueue.CohortList
	if err := gather.Readable(c.List(ctx, &cohorts)); err != nil {
		return nil, fmt.Errorf("list Cohorts: %w", err)
	}
	for i := range cohorts.Items {
		r.cohorts = append(r.cohorts, convert.Cohort(&cohorts.Items[i]))
	}
	for i := range queues.Items {
		r.queues[queues.Items[i].Name] = &queues.Items[i]
	}
	r.bindings = bindings.Items
	return r, nil
}

func (r *register) readable(what string, err error) error {
	if apierrors.IsForbidden(err) {
		r.unread = append(r.unread, what)
		return nil
	}
	if err != nil {
		return fmt.Errorf("list %s: %w", what, err)
	}
	return nil
}

// TakeTeams reads all teams.
func TakeTeams(ctx context.Context, c client.Reader) ([]TeamRow, error) {
	var namespaces corev1.NamespaceList
	if err := c.List(ctx, &namespaces, client.MatchingLabels{kueue.TeamNamespaceLabel: "true"}); err != nil {
		return nil, fmt.Errorf("list namespaces: %w", err)
	}
	r, err := read(ctx, c, "")
	if err != nil {
		return nil, err
	}
	var out []TeamRow
	for i := range namespaces.Items {
		row := r.row(namespaces.Items[i].Name)
		row.Deleting = namespaces.Items[i].DeletionTimestamp != nil
		out = append(out, row)
	}
	slices.SortFunc(out, func(a, b TeamRow) int { return cmp.Compare(a.Name, b.Name) })
	return out, nil
}

// unreadQueues is what is unread where ClusterQueues are.
const unreadQueues = "ClusterQueues"

// ErrNoTeam is that of a namespace that is no team's.
var ErrNoTeam = errors.New("is no team")

// TakeTeam reads one.
func TakeTeam(ctx context.Context, c client.Reader, name string) (TeamRow, error) {
	var ns corev1.Namespace
	err := c.Get(ctx, client.ObjectKey{Name: name}, &ns)
	switch {
	case apierrors.IsNotFound(err):
		return TeamRow{}, fmt.Errorf("%s %w: there is no namespace of that name; mlbatch team list names those that there are", name, ErrNoTeam)
	case apierrors.IsForbidden(err):
		return TeamRow{}, fmt.Errorf("you may not look at team %s: %w", name, err)
	case err != nil:
		return TeamRow{}, fmt.Errorf("read namespace %s: %w", name, err)
	case ns.Labels[kueue.TeamNamespaceLabel] != "true" && reserved(name):
		return TeamRow{}, fmt.Errorf("%s %w: it is a namespace of Kubernetes itself", name, ErrNoTeam)
	case ns.Labels[kueue.TeamNamespaceLabel] != "true":
		return TeamRow{}, fmt.Errorf("%s %w: the namespace has no label %s=true; mlbatch team create %s --adopt makes it one", name, ErrNoTeam, kueue.TeamNamespaceLabel, name)
	}
	r, err := read(ctx, c, name)
	if err != nil {
		return TeamRow{}, err
	}
	row := r.row(name)
	row.Unread, row.Deleting = r.unread, ns.DeletionTimestamp != nil
	if len(r.queues) == 0 || row.ClusterQueue == "" {
		return row, nil
	}
	var all kueue.LocalQueueList // whoever else has the same quota
	if err := gather.Readable(c.List(ctx, &all)); err != nil {
		return TeamRow{}, fmt.Errorf("list LocalQueues: %w", err)
	}
	row.Shared = sharing(all.Items, row)
	return row, nil
}

// sharing are other namespaces with the quota of a team.
func sharing(locals []kueue.LocalQueue, of TeamRow) []string {
	var out []string
	for i := range locals {
		if l := &locals[i]; string(l.Spec.ClusterQueue) == of.ClusterQueue && l.Namespace != of.Name && !slices.Contains(out, l.Namespace) {
			out = append(out, l.Namespace)
		}
	}
	slices.Sort(out)
	return out
}

// row is a team.
func (r *register) row(name string) TeamRow {
	row := TeamRow{Name: name}
	var own []kueue.LocalQueue
	for i := range r.locals {
		if l := &r.locals[i]; l.Namespace == name {
			own = append(own, *l)
			row.LocalQueues = append(row.LocalQueues, l.Name)
			row.Running, row.Waiting = row.Running+int(l.Status.AdmittedWorkloads), row.Waiting+int(l.Status.PendingWorkloads)
		}
	}
	slices.SortFunc(own, func(a, b kueue.LocalQueue) int { // the usual one first
		return cmp.Or(cmp.Compare(notUsual(a.Name), notUsual(b.Name)), cmp.Compare(a.Name, b.Name))
	})
	slices.Sort(row.LocalQueues)
	if len(own) > 0 {
		row.ClusterQueue = string(own[0].Spec.ClusterQueue)
	}
	if q := r.queues[row.ClusterQueue]; q != nil {
		r.quota(&row, q)
	} else {
		row.used(own)
	}
	row.People = people(r.bindings, name)
	return row
}

func notUsual(name string) int {
	if name == DefaultLocalQueue {
		return 0
	}
	return 1
}

// used is what LocalQueues tell of use, for those who may read no more.
func (row *TeamRow) used(own []kueue.LocalQueue) {
	sums := map[core.FlavorResource]core.Amount{}
	for i := range own {
		for _, f := range own[i].Status.FlavorsReservation {
			for _, u := range f.Resources {
				at := core.FlavorResource{Flavor: string(f.Name), Resource: string(u.Name)}
				sums[at] = sums[at].Add(convert.Amount(u.Name, u.Total))
			}
		}
		if c := apimeta.FindStatusCondition(own[i].Status.Conditions, kueue.LocalQueueActive); i == 0 && c != nil {
			row.State = string(view.QueueActive)
			if c.Status != "True" {
				row.State = c.Reason
			}
		}
	}
	for at, amount := range sums { // sorted below
		row.Shares = append(row.Shares, Share{Flavor: at.Flavor, Resource: at.Resource, Used: spell(at.Resource, amount)})
	}
	sortShares(row.Shares)
}

// AddQuotas fills in, for those who may not read ClusterQueues, what quota the team's has, as told
// says of a LocalQueue. Where that is not known the row stays as it is.
func (row *TeamRow) AddQuotas(told func(namespace, localQueue string) ([]visibility.QueueQuota, error)) {
	unread := slices.Index(row.Unread, unreadQueues)
	if unread < 0 || len(row.LocalQueues) == 0 {
		return
	}
	of := row.LocalQueues[0]
	if slices.Contains(row.LocalQueues, DefaultLocalQueue) {
		of = DefaultLocalQueue // whose ClusterQueue the row has
	}
	quotas, err := told(row.Name, of)
	if err != nil || len(quotas) == 0 {
		return
	}
	row.Shares, row.Unread = nil, slices.Delete(row.Unread, unread, unread+1)
	text := func(q *visibility.QueueQuota, amount *resource.Quantity) string {
		if amount == nil {
			return ""
		}
		return spell(q.Resource, convert.Amount(corev1.ResourceName(q.Resource), *amount))
	}
	for i := range quotas {
		q := &quotas[i]
		row.Shares = append(row.Shares, Share{
			Flavor: q.Flavor, Resource: q.Resource, Nominal: text(q, &q.Nominal), Used: text(q, &q.Used), Borrowed: text(q, &q.Borrowed),
			BorrowingLimit: text(q, q.BorrowingLimit), LendingLimit: text(q, q.LendingLimit),
		})
	}
	sortShares(row.Shares)
}

// sortShares puts GPUs first.
func sortShares(shares []Share) {
	slices.SortStableFunc(shares, func(a, b Share) int {
		return cmp.Or(cmp.Compare(a.Flavor, b.Flavor), cmp.Compare(notGPU(a.Resource), notGPU(b.Resource)), cmp.Compare(a.Resource, b.Resource))
	})
}

func notGPU(resource string) int {
	if view.IsGPU(resource) {
		return 0
	}
	return 1
}

// quota is what a ClusterQueue tells of a team.
func (r *register) quota(row *TeamRow, q *kueue.ClusterQueue) {
	is := view.QueueOf(q, apimeta.FindStatusCondition(q.Status.Conditions, kueue.ClusterQueueActive), view.LoadOf(q.Status))
	row.Cohort, row.State = is.Cohort(), string(cmp.Or(is.State, view.QueuePending)) // a new one has not been judged yet
	if is.State == view.QueuePending {
		row.State = cmp.Or(is.Reason, row.State)
	}
	for _, f := range is.Flavors {
		for _, own := range f.Quotas {
			at := core.FlavorResource{Flavor: f.Flavor, Resource: own.Resource}
			used := is.Reserved[at]
			s := Share{Flavor: f.Flavor, Resource: own.Resource, Nominal: spell(own.Resource, own.Nominal), Used: spell(own.Resource, used)}
			if row.Cohort != "" {
				lent := r.lending(at).Queues[q.Name]
				s.Borrowed, s.Lent, s.LentAtMost = spell(own.Resource, is.Borrowed(own, used)), spell(own.Resource, lent.Most), lent.AtMost()
			}
			if own.Borrowing != nil {
				s.BorrowingLimit = spell(own.Resource, *own.Borrowing)
			}
			if own.Lending != nil {
				s.LendingLimit = spell(own.Resource, *own.Lending)
			}
			row.Shares = append(row.Shares, s)
		}
	}
	sortShares(row.Shares)
}

// lending is what is lent of a resource of a flavor among all queues.
func (r *register) lending(of core.FlavorResource) view.Lending {
	if known, is := r.lent[of]; is {
		return known
	}
	all := make([]view.Queue, 0, len(r.queues))
	for _, q := range r.queues { // the order says nothing
		all = append(all, view.QueueOf(q, nil, view.LoadOf(q.Status)))
	}
	r.lent[of] = view.LendingOf(all, r.cohorts, of)
	return r.lent[of]
}

// people are those who may submit in a namespace.
func people(bindings []rbacv1.RoleBinding, namespace string) []string {
	var all []rbacv1.Subject
	for i := range bindings {
		if b := &bindings[i]; b.Namespace == namespace && b.RoleRef.Kind == "ClusterRole" && b.RoleRef.Name == EditRole {
			all = append(all, b.Subjects...)
		}
	}
	return peopleNames(all)
}

// TeamColumns are those of a list of teams.
func TeamColumns() []cli.Column[TeamRow] {
	gpus := func(of func(Share) string) func(TeamRow) string {
		return func(r TeamRow) string {
			var out []string
			for _, s := range r.Shares {
				if view.IsGPU(s.Resource) {
					out = append(out, cli.Amount(s.Resource, of(s)))
				}
			}
			return strings.Join(out, ",")
		}
	}
	return []cli.Column[TeamRow]{
		{Title: "TEAM", Text: func(r TeamRow) string { return r.Name }},
		{Title: "GPUS", Text: gpus(func(s Share) string { return s.Nominal })},
		{Title: "USED", Text: gpus(func(s Share) string { return s.Used })},
		{Title: "BORROWED", Rank: 3, Text: gpus(func(s Share) string { return s.Borrowed })},
		{Title: "LENT", Rank: 4, Text: gpus(Share.lent)},
		{Title: "RUNNING", Rank: 1, Text: func(r TeamRow) string { return strconv.Itoa(r.Running) }},
		{Title: "WAITING", Text: func(r TeamRow) string { return strconv.Itoa(r.Waiting) }},
		{Title: "CLUSTERQUEUE", Rank: 5, Text: func(r TeamRow) string { return r.ClusterQueue }},
		{Title: "STATE", State: true, Rank: 2, Text: TeamRow.state},
		{Title: "PEOPLE", Text: func(r TeamRow) string { return strings.Join(r.People, ", ") }},
	}
}

func (row TeamRow) state() string {
	if row.Deleting {
		return "terminating"
	}
	return cmp.Or(row.State, "no queue")
}

func (s Share) lent() string {
	if s.LentAtMost {
		return "≤" + s.Lent
	}
	return s.Lent
}

// ShareColumns are those of the quotas of a team.
func ShareColumns() []cli.Column[Share] {
	amount := func(title string, rank int, of func(Share) string) cli.Column[Share] {
		return cli.AmountColumn(cli.Column[Share]{Title: title, Rank: rank}, func(s Share) string { return s.Resource }, of)
	}
	return []cli.Column[Share]{
		{Title: "FLAVOR", Rank: 3, Text: func(s Share) string { return s.Flavor }},
		{Title: "RESOURCE", Text: func(s Share) string { return s.Resource }},
		amount("NOMINAL", 0, func(s Share) string { return s.Nominal }),
		amount("USED", 0, func(s Share) string { return s.Used }),
		amount("BORROWED", 1, func(s Share) string { return s.Borrowed }),
		amount("LENT", 2, Share.lent),
		amount("MAY BORROW", 4, func(s Share) string { return s.limit(s.BorrowingLimit) }),
		amount("MAY LEND", 5, func(s Share) string { return s.limit(s.LendingLimit) }),
	}
}

// limit is a limit in words.
func (s Share) limit(of string) string {
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

// Lines tell of a team what is no table. states are numbers of jobs.
func (row *TeamRow) Lines(states map[string]int) []string {
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

// OfGPUs are quotas in which amounts of GPUs are of the resource that the team has quota of.
func (row *TeamRow) OfGPUs(q Quotas, gpus *resource.Quantity) Quotas {
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
