package gather

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/view"
)

// What belongs to a team.
const (
	// DefaultLocalQueue is the LocalQueue of jobs that name none.
	DefaultLocalQueue = "default-queue"
	// EditRole is the role of the people of a team.
	EditRole = "mlbatch-edit"
)

// ErrNoTeam is that of a namespace that is no team's.
var ErrNoTeam = errors.New("is no team")

// register is what is read of teams.
type register struct {
	locals   []kueue.LocalQueue
	quotas   *quotas // nil if it may not be read
	behind   Behind
	bindings []rbacv1.RoleBinding
	unread   []string
}

// readRegister reads what belongs to a team, to all if it is "".
func readRegister(ctx context.Context, r client.Reader, team string, behind Behind) (*register, error) {
	out := &register{behind: behind}
	var locals kueue.LocalQueueList
	if err := r.List(ctx, &locals, client.InNamespace(team)); err != nil {
		return nil, fmt.Errorf("list LocalQueues: %w", err)
	}
	out.locals = locals.Items
	q, _, err := readQuotas(ctx, r)
	switch {
	case apierrors.IsForbidden(err):
		out.unread = append(out.unread, "ClusterQueues")
	case err != nil:
		return nil, err
	default:
		out.quotas = q
	}
	var bindings rbacv1.RoleBindingList
	err = r.List(ctx, &bindings, client.InNamespace(team))
	switch {
	case apierrors.IsForbidden(err):
		out.unread = append(out.unread, "RoleBindings")
	case err != nil:
		return nil, fmt.Errorf("list RoleBindings: %w", err)
	}
	out.bindings = bindings.Items
	return out, nil
}

// Teams are how the teams stand that the reader may list, by name. behind tells the quotas of teams whose
// ClusterQueues it may not read; unread names what it may not list.
func Teams(
	ctx context.Context,
	r client.Reader,
	behind Behind,
) (out []view.Team, unread []string, err error) {
	var namespaces corev1.NamespaceList
	if err := r.List(ctx, &namespaces, client.MatchingLabels{kueue.TeamNamespaceLabel: "true"}); err != nil {
		return nil, nil, fmt.Errorf("list namespaces: %w", err)
	}
	all, err := readRegister(ctx, r, "", behind)
	if err != nil {
		return nil, nil, err
	}
	for i := range namespaces.Items {
		team := all.team(ctx, namespaces.Items[i].Name)
		team.Deleting, team.Unread = namespaces.Items[i].DeletionTimestamp != nil, nil
		out = append(out, team)
	}
	slices.SortFunc(out, func(a, b view.Team) int { return cmp.Compare(a.Name, b.Name) })
	return out, all.unread, nil
}

// Team is how one team stands. The error wraps ErrNoTeam if there is none of that name.
func Team(ctx context.Context, r client.Reader, name string, behind Behind) (view.Team, error) {
	var ns corev1.Namespace
	err := r.Get(ctx, client.ObjectKey{Name: name}, &ns)
	switch {
	case apierrors.IsNotFound(err):
		return view.Team{}, fmt.Errorf(
			"%s %w: there is no namespace of that name; mlbatch team list names those that there are",
			name,
			ErrNoTeam,
		)
	case apierrors.IsForbidden(err):
		return view.Team{}, fmt.Errorf("you may not look at team %s: %w", name, err)
	case err != nil:
		return view.Team{}, fmt.Errorf("read namespace %s: %w", name, err)
	case ns.Labels[kueue.TeamNamespaceLabel] != "true" && Reserved(name):
		return view.Team{}, fmt.Errorf("%s %w: it is a namespace of Kubernetes itself", name, ErrNoTeam)
	case ns.Labels[kueue.TeamNamespaceLabel] != "true":
		return view.Team{}, fmt.Errorf(
			"%s %w: the namespace has no label %s=true; mlbatch team create %s --adopt makes it one",
			name,
			ErrNoTeam,
			kueue.TeamNamespaceLabel,
			name,
		)
	}
	all, err := readRegister(ctx, r, name, behind)
	if err != nil {
		return view.Team{}, err
	}
	team := all.team(ctx, name)
	team.Deleting = ns.DeletionTimestamp != nil
	if all.quotas == nil || team.ClusterQueue == "" {
		return team, nil
	}
	var locals kueue.LocalQueueList // whoever else has the same quota
	if err := Readable(r.List(ctx, &locals)); err != nil {
		return view.Team{}, fmt.Errorf("list LocalQueues: %w", err)
	}
	team.Shared = sharing(locals.Items, &team)
	return team, nil
}

// Reserved reports whether a namespace is that of Kubernetes itself, and no team's.
func Reserved(namespace string) bool {
	return strings.HasPrefix(namespace, "kube-") || namespace == metav1.NamespaceDefault
}

// sharing are other namespaces with the quota of a team.
func sharing(locals []kueue.LocalQueue, of *view.Team) []string {
	var out []string
	for i := range locals {
		if l := &locals[i]; string(l.Spec.ClusterQueue) == of.ClusterQueue && l.Namespace != of.Name &&
			!slices.Contains(out, l.Namespace) {
			out = append(out, l.Namespace)
		}
	}
	slices.Sort(out)
	return out
}

// team is how a team stands.
func (r *register) team(ctx context.Context, name string) view.Team {
	out := view.Team{Name: name, Unread: r.unread, People: people(r.bindings, name)}
	var own []kueue.LocalQueue
	for i := range r.locals {
		if l := &r.locals[i]; l.Namespace == name {
			own = append(own, *l)
			out.LocalQueues = append(out.LocalQueues, l.Name)
			out.Running, out.Waiting = out.Running+int(
				l.Status.AdmittedWorkloads,
			), out.Waiting+int(
				l.Status.PendingWorkloads,
			)
		}
	}
	slices.SortFunc(own, func(a, b kueue.LocalQueue) int { // the usual one first
		return cmp.Or(cmp.Compare(notUsual(a.Name), notUsual(b.Name)), cmp.Compare(a.Name, b.Name))
	})
	slices.Sort(out.LocalQueues)
	if len(own) > 0 {
		out.ClusterQueue = string(own[0].Spec.ClusterQueue)
		r.quota(ctx, &out, own)
	}
	view.SortShares(out.Shares)
	return out
}

func notUsual(name string) int {
	if name == DefaultLocalQueue {
		return 0
	}
	return 1
}

// quota tells the quota of a team with LocalQueues, and what it uses of it. Those who may know no quota get
// what the LocalQueues tell of use.
func (r *register) quota(ctx context.Context, team *view.Team, own []kueue.LocalQueue) {
	if r.quotas != nil {
		if i := slices.IndexFunc(
			r.quotas.queues,
			func(q view.ClusterQueue) bool { return q.Name == team.ClusterQueue },
		); i >= 0 {
			is := &r.quotas.queues[i]
			team.Cohort, team.State = is.Cohort(), string(
				cmp.Or(is.State, view.QueuePending),
			) // a new one has not been judged yet
			if is.State == view.QueuePending {
				team.State = cmp.Or(is.Reason, team.State)
			}
			team.Shares = view.SharesOf(is, r.quotas.lending)
			return
		}
	}
	if c := apimeta.FindStatusCondition(own[0].Status.Conditions, kueue.LocalQueueActive); c != nil {
		team.State = string(view.QueueActive)
		if c.Status != "True" {
			team.State = c.Reason
		}
	}
	if r.quotas == nil {
		if q := r.behind(ctx, &own[0]); q != nil {
			is := clusterQueue(q)
			team.Shares = view.SharesOf(&is, nil)
			team.Unread = slices.DeleteFunc(
				slices.Clone(team.Unread),
				func(what string) bool { return what == "ClusterQueues" },
			)
			return
		}
	}
	team.Shares = usedBy(own)
}

// people are those who may submit in a namespace.
func people(bindings []rbacv1.RoleBinding, namespace string) []string {
	var all []rbacv1.Subject
	for i := range bindings {
		if b := &bindings[i]; b.Namespace == namespace && b.RoleRef.Kind == "ClusterRole" &&
			b.RoleRef.Name == EditRole {
			all = append(all, b.Subjects...)
		}
	}
	return PeopleNames(all)
}

// PeopleNames are the names of people as others read them, sorted, each once.
func PeopleNames(in []rbacv1.Subject) []string {
	var out []string
	for _, s := range SortedSubjects(in) {
		switch s.Kind {
		case rbacv1.UserKind:
			out = append(out, s.Name)
		case rbacv1.GroupKind:
			out = append(out, "group "+s.Name)
		default:
			out = append(out, strings.ToLower(s.Kind)+" "+s.Namespace+"/"+s.Name)
		}
	}
	return out
}

// SortedSubjects are people in order, users first, each once.
func SortedSubjects(in []rbacv1.Subject) []rbacv1.Subject {
	out := slices.SortedFunc(slices.Values(in), func(a, b rbacv1.Subject) int {
		return cmp.Or(
			-cmp.Compare(a.Kind, b.Kind),
			cmp.Compare(a.Namespace, b.Namespace),
			cmp.Compare(a.Name, b.Name),
		)
	})
	return slices.Compact(out)
}
