package admin

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	history "github.com/mlbatch/mlbatch/api/history/v1alpha1"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	recovery "github.com/mlbatch/mlbatch/api/recovery/v1alpha1"
	viewapi "github.com/mlbatch/mlbatch/api/view/v1alpha1"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/kinds"
	"github.com/mlbatch/mlbatch/internal/view"
	"github.com/mlbatch/mlbatch/internal/view/gather"
	"github.com/mlbatch/mlbatch/internal/words"
)

// Removal is what goes with a team.
type Removal struct {
	Team view.Team
	// Live are its jobs that have not ended, as NAMESPACE/NAME; Ended is how many others it has.
	Live  []string
	Ended int
	// Foreign is what else is in its namespace, as KIND/NAME.
	Foreign []string
	// KeepsQueue names other teams with the same ClusterQueue, which stays for them.
	KeepsQueue []string
}

// ListedKind is a kind of object and the plural by which it is listed.
type ListedKind struct {
	schema.GroupVersionKind
	Resource string
}

// TakeRemoval looks at what goes with a team. kinds are all kinds of objects in namespaces.
func TakeRemoval(ctx context.Context, c client.Reader, team string, all []ListedKind) (*Removal, error) {
	row, err := gather.Team(ctx, c, team, gather.Get(c))
	if err != nil {
		return nil, err
	}
	r := &Removal{Team: row, KeepsQueue: row.Shared}
	survey, err := gather.Jobs(ctx, c, team, client.ListOptions{})
	if err != nil {
		return nil, err //nolint:wrapcheck // it says what it read
	}
	for i := range survey.Items {
		switch o := &survey.Items[i]; o.State {
		case view.Succeeded, view.Failed:
			r.Ended++
		default:
			r.Live = append(r.Live, o.Namespace+"/"+o.Name)
		}
	}
	slices.Sort(r.Live)
	for _, k := range all {
		if ours(k) {
			continue
		}
		var list metav1.PartialObjectMetadataList
		list.SetGroupVersionKind(k.GroupVersion().WithKind(k.Kind + "List"))
		if err := c.List(ctx, &list, client.InNamespace(team)); err != nil {
			if apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
				continue
			}
			return nil, fmt.Errorf("list %s of %s: %w", k.Resource, team, err)
		}
		for i := range list.Items {
			if o := &list.Items[i]; metav1.GetControllerOf(o) == nil && !given(k, o) {
				r.Foreign = append(r.Foreign, strings.ToLower(k.Kind)+"/"+o.Name)
			}
		}
	}
	slices.Sort(r.Foreign)
	return r, nil
}

// ours reports whether a kind is that of jobs and queues, or of what is told of them.
func ours(k ListedKind) bool {
	all := kinds.All()
	switch {
	case k.Group == kueue.GroupVersion.Group,
		k.Group == history.GroupVersion.Group && (k.Resource == history.Resource || k.Resource == recovery.Resource),
		strings.HasSuffix(k.Group, "metrics.k8s.io"),
		strings.HasSuffix(k.Group, "visibility.kueue.x-k8s.io"),
		k.Group == viewapi.GroupVersion.Group:
		return true
	case all.Find(k.GroupVersionKind) != nil:
		return true
	}
	return slices.Contains(
		[]string{"events", "pods", "bindings", "endpoints", "endpointslices", "leases", "podgroups"},
		k.Resource,
	)
}

// given reports whether every namespace, or every team's, has an object.
func given(k ListedKind, o *metav1.PartialObjectMetadata) bool {
	switch k.Resource {
	case "configmaps":
		return o.Name == "kube-root-ca.crt"
	case "serviceaccounts":
		return o.Name == "default"
	case "rolebindings":
		return o.Name == EditRole || o.Name == controllerBinding
	}
	return false
}

// controllerBinding is how the controller has its rights where jobs run.
const controllerBinding = "mlbatch-controller-team"

// DeleteOptions say how far the removal of a team goes.
type DeleteOptions struct {
	// Drain stops its jobs.
	Drain bool
	// Namespace removes the namespace whatever else is in it, Keep leaves it.
	Namespace, Keep bool
}

// Refusal says why a team is not removed like that; nil if nothing speaks against it.
func (r *Removal) Refusal(o DeleteOptions) error {
	if n := len(r.Live); n > 0 && !o.Drain {
		return fmt.Errorf(
			"team %s has %s that %s not ended (%s): --drain stops %s first",
			r.Team.Name,
			words.Count(n, "job"),
			choose(n, "has", "have"),
			some(r.Live),
			choose(n, "it", "them"),
		)
	}
	if n := len(r.Foreign); n > 0 && !o.Namespace && !o.Keep {
		return fmt.Errorf(
			"namespace %s has %s that the team's removal is not about (%s): --delete-namespace deletes them as well, --keep-namespace leaves the namespace and what is in it",
			r.Team.Name,
			words.Count(n, "object"),
			some(r.Foreign),
		)
	}
	return nil
}

// some are the first of several names.
func some(names []string) string {
	const most = 4
	if len(names) > most {
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", len(names)-most)
	}
	return strings.Join(names, ", ")
}

func choose(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// Plan says in words what goes, in the order in which it does.
func (r *Removal) Plan(o DeleteOptions) []string {
	var out []string
	if len(r.Team.People) > 0 {
		out = append(out, "the rights of "+strings.Join(r.Team.People, ", "))
	}
	if n := len(r.Live); n > 0 {
		out = append(
			out,
			fmt.Sprintf(
				"%s that %s not ended, stopped first: %s",
				words.Count(n, "job"),
				choose(n, "has", "have"),
				some(r.Live),
			),
		)
	}
	switch {
	case r.Team.ClusterQueue == "":
	case len(r.KeepsQueue) > 0:
		out = append(
			out,
			fmt.Sprintf(
				"not ClusterQueue %s, which %s %s as well",
				r.Team.ClusterQueue,
				strings.Join(r.KeepsQueue, ", "),
				choose(len(r.KeepsQueue), "uses", "use"),
			),
		)
	default:
		out = append(out, "ClusterQueue "+r.Team.ClusterQueue)
	}
	if o.Keep {
		return append(out, "the LocalQueues of namespace "+r.Team.Name+", which stays, and is no team's any more")
	}
	what := "namespace " + r.Team.Name
	if r.Ended > 0 {
		what += fmt.Sprintf(" with %s that ended", words.Count(r.Ended, "job"))
	}
	if n := len(r.Foreign); n > 0 {
		what += fmt.Sprintf(" and %s: %s", words.Count(n, "other object"), some(r.Foreign))
	}
	return append(out, what)
}

// Stop takes the rights of the people of a team and, with drain, stops its jobs: the first half
// of its removal. The second begins when Busy says that nothing holds quota any more.
func (r *Removal) Stop(ctx context.Context, c client.Client, o DeleteOptions) error {
	bindings, _, err := bindingsOf(ctx, c, r.Team.Name)
	if err != nil {
		return err
	}
	for i := range bindings {
		b := &bindings[i]
		if err := client.IgnoreNotFound(c.Delete(ctx, b)); err != nil {
			return fmt.Errorf("delete RoleBinding %s: %w", b.Name, err)
		}
	}
	if !o.Drain {
		return nil
	}
	for _, name := range r.Team.LocalQueues {
		q := &kueue.LocalQueue{ObjectMeta: metav1.ObjectMeta{Namespace: r.Team.Name, Name: name}}
		if err := patchStop(ctx, c, q, kueue.StopPolicyHoldAndDrain); err != nil {
			return err
		}
	}
	return nil
}

// Busy is how many jobs of a team have quota still.
func Busy(ctx context.Context, c client.Reader, team string) (int, error) {
	var list kueue.WorkloadList
	if err := c.List(ctx, &list, client.InNamespace(team)); err != nil {
		return 0, fmt.Errorf("list Workloads of %s: %w", team, err)
	}
	n := 0
	for i := range list.Items {
		if w := &list.Items[i]; kueue.HasQuota(w) && !finished(w) {
			n++
		}
	}
	return n, nil
}

// Delete removes what is left of a team; the namespace, by which it is found, goes last.
func (r *Removal) Delete(ctx context.Context, c client.Client, o DeleteOptions) ([]TeamObject, error) {
	var steps []TeamObject
	remove := func(obj client.Object) error {
		err := c.Delete(ctx, obj, client.PropagationPolicy(metav1.DeletePropagationBackground))
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("delete %s: %w", Name(obj), err)
		}
		steps = append(steps, TeamObject{Object: obj, Done: Deleted})
		return nil
	}
	if q := r.Team.ClusterQueue; q != "" && len(r.KeepsQueue) == 0 {
		if err := remove(newQueue(q)); err != nil {
			return steps, err
		}
	}
	ns := typed(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: r.Team.Name}}, "v1", "Namespace")
	if !o.Keep {
		return steps, remove(ns)
	}
	for _, name := range r.Team.LocalQueues {
		if err := remove(newLocalQueue(r.Team.Name, name, "")); err != nil {
			return steps, err
		}
	}
	patch := fmt.Sprintf(`{"metadata":{"labels":{%q:null}}}`, kueue.TeamNamespaceLabel)
	if err := c.Patch(ctx, ns, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		return steps, fmt.Errorf("take the label off namespace %s: %w", r.Team.Name, err)
	}
	return append(steps, TeamObject{Object: typed(ns, "v1", "Namespace"), Done: Changed}), nil
}

// PeopleEdit is who is to be of a team: exactly those, or some more and some less.
type PeopleEdit struct {
	Set         bool
	Users       []string
	Groups      []string
	Add, Remove []string
}

// Empty reports whether nobody changes.
func (e PeopleEdit) Empty() bool { return !e.Set && len(e.Add)+len(e.Remove) == 0 }

// EditPeople changes who is of a team. It keeps the bindings that others made as long as their
// people stay.
func EditPeople( //nolint:revive // a fact
	ctx context.Context,
	c client.Client,
	team string,
	e PeopleEdit,
	dryRun bool,
) ([]FieldChange, error) {
	if err := (Team{Users: slices.Concat(e.Users, e.Add), Groups: e.Groups}).people(); err != nil {
		return nil, err
	}
	bindings, has, err := bindingsOf(ctx, c, team)
	if err != nil {
		return nil, err
	}
	want, err := e.wanted(has)
	if err != nil {
		return nil, err
	}
	if slices.Equal(gather.SortedSubjects(has), want) {
		return nil, nil
	}
	done := []FieldChange{
		{
			"people",
			cmp.Or(strings.Join(gather.PeopleNames(has), ", "), none),
			cmp.Or(strings.Join(gather.PeopleNames(want), ", "), none),
		},
	}
	if dryRun {
		return done, nil
	}
	return done, writePeople(ctx, c, team, bindings, want)
}

// wanted are the people that there are to be.
func (e PeopleEdit) wanted(has []rbacv1.Subject) ([]rbacv1.Subject, error) {
	want := slices.Clone(has)
	if e.Set {
		want = Team{Users: e.Users, Groups: e.Groups}.subjects()
	}
	want = append(want, Team{Users: e.Add}.subjects()...)
	for _, name := range e.Remove {
		n := len(want)
		want = slices.DeleteFunc(want, func(s rbacv1.Subject) bool { return s.Name == name })
		if len(want) == n {
			return nil, fmt.Errorf("--remove %s: the team has nobody of that name", name)
		}
	}
	return gather.SortedSubjects(want), nil
}

// writePeople gives rights to those who have none and takes them from those who are not wanted.
func writePeople(
	ctx context.Context,
	c client.Client,
	team string,
	bindings []rbacv1.RoleBinding,
	want []rbacv1.Subject,
) error {
	left := slices.Clone(want)
	var own *rbacv1.RoleBinding
	for i := range bindings {
		b := &bindings[i]
		if b.Name == EditRole {
			own = b
			continue
		}
		keep := slices.DeleteFunc(
			slices.Clone(b.Subjects),
			func(s rbacv1.Subject) bool { return !slices.Contains(want, s) },
		)
		left = slices.DeleteFunc(left, func(s rbacv1.Subject) bool { return slices.Contains(keep, s) })
		var err error
		switch {
		case len(keep) == 0:
			err = c.Delete(ctx, b)
		case len(keep) < len(b.Subjects):
			b.Subjects = keep
			err = c.Update(ctx, b)
		}
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("rolebinding %s of %s: %w", b.Name, team, err)
		}
	}
	var err error
	switch {
	case own == nil && len(left) > 0:
		err = c.Create(ctx, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: EditRole},
			RoleRef: rbacv1.RoleRef{
				APIGroup: rbacv1.GroupName,
				Kind:     "ClusterRole",
				Name:     EditRole,
			},
			Subjects: left,
		})
	case own != nil && !slices.Equal(gather.SortedSubjects(own.Subjects), left):
		own.Subjects = left
		err = c.Update(ctx, own)
	}
	if err != nil {
		return fmt.Errorf("rolebinding %s of %s: %w", EditRole, team, err)
	}
	return nil
}

// KindOf is a kind as discovery tells it.
func KindOf(groupVersion, kind, resource string) ListedKind {
	return ListedKind{schema.FromAPIVersionAndKind(groupVersion, kind), resource}
}
