package views

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	viewapi "github.com/mlbatch/mlbatch/api/view/v1alpha1"
	visibility "github.com/mlbatch/mlbatch/api/visibility/v1beta2"
	"github.com/mlbatch/mlbatch/internal/view"
	"github.com/mlbatch/mlbatch/internal/view/gather"
)

// resource is a sort of view that is served.
type resource struct {
	name, kind, short string
	namespaced        bool
	// labelled says that views are selected by the labels of what they are of.
	labelled bool
	// read makes all views that a question is about, and names what the asker may not list.
	read func(context.Context, *reader, *question) (items []item, unread []string, err error)
	// columns are those that kubectl prints, of which item.cells has the texts.
	columns []metav1.TableColumnDefinition
}

// item is a view in a list.
type item struct {
	meta *metav1.ObjectMeta
	view any
	// tells is what a change is a change of, without a copy of what need not differ from the view.
	tells any
	cells func(at metav1.Time) []any
}

// MarshalJSON is that of the view.
func (i item) MarshalJSON() ([]byte, error) { return json.Marshal(i.view) }

// resources are all that are served.
func resources() []resource {
	text := func(name, what string) metav1.TableColumnDefinition {
		return metav1.TableColumnDefinition{Name: name, Type: "string", Description: what}
	}
	return []resource{
		{
			name: viewapi.JobViews, kind: "JobView", short: "jv", namespaced: true, labelled: true, read: readJobs,
			columns: []metav1.TableColumnDefinition{
				{Name: "Name", Type: "string", Format: "name", Description: "kind and name of the job"},
				text(
					"Queue",
					"LocalQueue that it names",
				),
				text("State", "what it does"),
				text("Pods", "how many run, of how many"),
				text(
					"GPUs",
					"how many GPUs it has or asks for",
				),
				text("Age", "time since it was created"),
				text("Why", "why it waits, or what is wrong with it"),
			},
		},
		{
			name: viewapi.NodeViews, kind: "NodeView", short: "nv", read: readNodes,
			columns: []metav1.TableColumnDefinition{
				{Name: "Name", Type: "string", Format: "name", Description: "name of the node"},
				text(
					"State",
					"what it is good for",
				),
				text("GPUs", "how many it offers"),
				text("Free", "how many of them no pod has"),
				text(
					"Pods",
					"how many are on it",
				),
				text("Age", "time since it was created"),
				text("Why", "what is wrong with it"),
			},
		},
		{
			name: viewapi.DomainViews, kind: "DomainView", short: "dv", read: readDomains,
			columns: []metav1.TableColumnDefinition{
				{Name: "Name", Type: "string", Format: "name", Description: "Topology and values of the levels"},
				text("Level", "label of nodes whose value it is"),
				text("Nodes", "how many nodes it has"),
				text("Ready", "how many of them take work"),
				text("GPUs", "how many those offer"),
				text("Free", "how many of these no pod has"),
				text("Whole", "on how many nodes no GPU is in use"),
			},
		},
		{
			name: viewapi.QueueViews, kind: "QueueView", short: "qv", read: readQueues,
			columns: append([]metav1.TableColumnDefinition{
				{
					Name:        "Name",
					Type:        "string",
					Format:      "name",
					Description: "kind and name of the ClusterQueue or Cohort",
				},
				text("Parent", "cohort that it is in"),
			}, quotaColumns(text)...),
		},
		{
			name:       viewapi.LocalQueueViews,
			kind:       "LocalQueueView",
			short:      "lqv",
			namespaced: true,
			read:       readLocalQueues,
			columns: append([]metav1.TableColumnDefinition{
				{Name: "Name", Type: "string", Format: "name", Description: "name of the LocalQueue"},
				text("ClusterQueue", "queue that it leads to"),
			}, quotaColumns(text)...),
		},
		{
			name: viewapi.TeamViews, kind: "TeamView", short: "tv", read: readTeams,
			columns: append([]metav1.TableColumnDefinition{
				{
					Name:        "Name",
					Type:        "string",
					Format:      "name",
					Description: "name of the team, which is that of its namespace",
				},
				text("ClusterQueue", "queue whose quota it has"),
			}, quotaColumns(text)...),
		},
	}
}

// quotaColumns are those of whatever has a quota: what it has of GPUs or, without any, of its first resource.
func quotaColumns(text func(name, what string) metav1.TableColumnDefinition) []metav1.TableColumnDefinition {
	return []metav1.TableColumnDefinition{
		text(
			"Resource",
			"what amounts are of",
		),
		text("Nominal", "quota of its own"),
		text("Used", "what its jobs have of it"),
		text(
			"Borrowed",
			"how much of that is not its own",
		),
		text("Running", "how many jobs are admitted"),
		text("Waiting", "how many jobs wait"),
		text("State", "active, or why not"),
	}
}

func readJobs(ctx context.Context, r *reader, q *question) ([]item, []string, error) {
	all, err := gather.Jobs(ctx, r, q.namespace, client.ListOptions{LabelSelector: q.selector})
	if err != nil {
		return nil, nil, apierrors.NewInternalError(err)
	}
	gather.Place(ctx, all, math.MaxInt, r.visible(q.lines(ctx)))
	out := make([]item, len(all.Items))
	for i := range all.Items {
		v := view.ServedJob(&all.Items[i])
		tells := &v.Job
		if v.Job.Start != nil { // that a start was estimated anew is no change of what it says
			same := v.Job
			same.Start = same.Start.DeepCopy()
			same.Start.At = metav1.Time{}
			tells = &same
		}
		out[i] = item{&v.ObjectMeta, &v, tells, func(at metav1.Time) []any { return jobCells(&v, at) }}
	}
	return out, all.Unread, nil
}

func readNodes(ctx context.Context, r *reader, q *question) ([]item, []string, error) {
	r.whole = true // of what is on a node all counts, or nothing
	all, seen, err := gather.Nodes(ctx, r)
	switch {
	case apierrors.IsForbidden(err):
		return nil, nil, r.denied("list", schema.GroupResource{Resource: "nodes"}, "")
	case err != nil:
		return nil, nil, apierrors.NewInternalError(err)
	}
	// Who may list nodes reads their labels; which of these are levels is no secret.
	if err := gather.NoteDomains(ctx, &reader{Handler: r.Handler, own: true, whole: true}, all); err != nil {
		return nil, nil, apierrors.NewInternalError(err)
	}
	var unread []string
	if !seen {
		unread = []string{"pods"}
	}
	out := make([]item, len(all))
	for i := range all {
		v := view.ServedNode(&all[i])
		out[i] = item{&v.ObjectMeta, &v, &v.Node, func(at metav1.Time) []any { return nodeCells(&v, at) }}
	}
	return out, unread, nil
}

// readDomains tells whoever may list nodes, or the Workloads of a namespace, how much is free in each domain: sums, in
// which no node and nobody's job is named. They are read with the controller's rights.
func readDomains(ctx context.Context, r *reader, _ *question) ([]item, []string, error) {
	nodes := schema.GroupResource{Resource: "nodes"}
	if !r.can(ctx, right{"list", nodes, "", ""}) && len(r.seen(ctx)) == 0 {
		return nil, nil, r.denied("list", nodes, "")
	}
	all, _, err := gather.Domains(ctx, &reader{Handler: r.Handler, own: true, whole: true})
	if err != nil {
		return nil, nil, apierrors.NewInternalError(err)
	}
	out := make([]item, len(all))
	for i := range all {
		v := view.ServedDomain(&all[i])
		out[i] = item{&v.ObjectMeta, &v, &v.Domain, func(metav1.Time) []any {
			d := &v.Domain
			cells := []any{
				v.Name,
				d.Level,
				strconv.Itoa(d.Nodes),
				strconv.Itoa(d.Ready),
				strconv.FormatInt(d.GPUs, 10),
			}
			if d.Free == nil || d.Whole == nil {
				return append(cells, "", "")
			}
			return append(cells, strconv.FormatInt(*d.Free, 10), strconv.Itoa(*d.Whole))
		}}
	}
	return out, nil, nil
}

// behind tells the quota behind a LocalQueue to those who may get ClusterQueues, or ask how its jobs wait.
// The first is one right for all: administrators of a thousand queues are not asked about each.
func (r *reader) behind(ctx context.Context, local *kueue.LocalQueue) *kueue.ClusterQueue {
	queues := schema.GroupResource{Group: kueue.GroupVersion.Group, Resource: "clusterqueues"}
	waiting := schema.GroupResource{
		Group:    visibility.GroupVersion.Group,
		Resource: "localqueues/pendingworkloads",
	}
	var out kueue.ClusterQueue
	if !r.can(ctx, right{"get", queues, "", ""}) &&
		!r.can(ctx, right{"get", waiting, local.Namespace, local.Name}) ||
		r.objects.Get(ctx, client.ObjectKey{Name: string(local.Spec.ClusterQueue)}, &out) != nil {
		return nil
	}
	return &out
}

// refused is the error of what could not be read: of what the asker may not, one that says so.
func refused(err error) error {
	if apierrors.IsForbidden(err) {
		return err
	}
	return apierrors.NewInternalError(err)
}

func readQueues(ctx context.Context, r *reader, _ *question) ([]item, []string, error) {
	all, unread, err := gather.ClusterQueues(ctx, r)
	if err != nil {
		return nil, nil, refused(err)
	}
	out := make([]item, len(all))
	for i := range all {
		v := view.ServedQueue(&all[i])
		out[i] = item{&v.ObjectMeta, &v, &v.Queue, func(metav1.Time) []any { return queueCells(v.Name, &v.Queue) }}
	}
	return out, unread, nil
}

func readLocalQueues(ctx context.Context, r *reader, q *question) ([]item, []string, error) {
	all, err := gather.LocalQueues(ctx, r, q.namespace, r.behind)
	if err != nil {
		return nil, nil, refused(err)
	}
	out := make([]item, len(all))
	for i := range all {
		v := view.ServedLocalQueue(&all[i])
		out[i] = item{&v.ObjectMeta, &v, &v.Queue, func(metav1.Time) []any { return queueCells(v.Name, &v.Queue) }}
	}
	return out, nil, nil
}

func readTeams(ctx context.Context, r *reader, q *question) ([]item, []string, error) {
	var all []view.Team
	var unread []string
	var err error
	if q.name == "" {
		all, unread, err = gather.Teams(ctx, r, r.behind)
	} else { // of one, more can be told
		var one view.Team
		one, err = gather.Team(ctx, r, q.name, r.behind)
		if errors.Is(err, gather.ErrNoTeam) {
			return nil, nil, nil
		}
		all, unread = []view.Team{one}, one.Unread
	}
	if err != nil {
		return nil, nil, refused(err)
	}
	out := make([]item, len(all))
	for i := range all {
		v := view.ServedTeam(&all[i])
		out[i] = item{&v.ObjectMeta, &v, &v.Team, func(metav1.Time) []any {
			t := &v.Team
			cells := append([]any{t.Name, t.ClusterQueue}, shareCells(t.Shares)...)
			return append(cells, strconv.Itoa(t.Running), strconv.Itoa(t.Waiting), t.State)
		}}
	}
	return out, unread, nil
}

func queueCells(name string, q *view.Queue) []any {
	cells := append([]any{name, q.Parent}, shareCells(q.Shares)...)
	return append(cells, strconv.Itoa(q.Running), strconv.Itoa(q.Waiting), q.State)
}

// shareCells are the amounts of GPUs or, without any, of the first resource, of all flavors together.
func shareCells(shares []view.Share) []any {
	sum, _ := view.SumOf(shares, view.MainResource(shares))
	return []any{sum.Resource, sum.Nominal, sum.Used, sum.Borrowed}
}

func age(created, at metav1.Time) string { return duration.HumanDuration(max(at.Sub(created.Time), 0)) }

func jobCells(v *view.JobView, at metav1.Time) []any {
	j := &v.Job
	why := cmp.Or(j.Trouble, strings.TrimSuffix(j.Reason+": "+j.Message, ": "))
	if j.State == view.Running {
		why = j.Trouble
	}
	return []any{
		v.Name,
		j.Queue,
		string(j.State),
		strconv.Itoa(j.Running) + "/" + strconv.Itoa(j.Pods),
		strconv.FormatInt(j.GPUs, 10),
		age(v.CreationTimestamp, at),
		why,
	}
}

func nodeCells(v *view.NodeView, at metav1.Time) []any {
	n := &v.Node
	free, pods := "", ""
	if n.Free != nil {
		free = strconv.FormatInt(*n.Free, 10)
	}
	if n.Pods != nil {
		pods = strconv.Itoa(*n.Pods)
	}
	why := n.Why
	if n.Drained != nil {
		why = n.Drained.Words(at.Time)
	}
	return []any{
		v.Name,
		string(n.State),
		strconv.FormatInt(n.GPUs, 10),
		free,
		pods,
		age(v.CreationTimestamp, at),
		why,
	}
}
