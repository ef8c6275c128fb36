package admin

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
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/view/gather"
)

// Team is what a team is to be: a namespace with a LocalQueue for a quota of its own, and
// people who may submit there.
type Team struct {
	// Name is that of the namespace; the ClusterQueue is called after it.
	Name   string
	Flavor string
	// CreateFlavor makes the flavor if there is none of its name.
	CreateFlavor bool
	// Cohort is whom it lends to and borrows from, "" for nobody.
	Cohort string
	// GPUs is how many are its own. Of resources that Quotas does not say, the team gets the
	// share of the nodes that belongs to so many GPUs.
	GPUs   *resource.Quantity
	Quotas Quotas
	// Users and Groups are its people.
	Users, Groups []string
	// Adopt takes a namespace that is there and is no team's.
	Adopt bool
}

// QueueName is the ClusterQueue of a team that was made here.
func QueueName(team string) string { return team + "-cluster-queue" }

// TeamObject is one object of several that belong together.
type TeamObject struct { //nolint:recvcheck // it is printed as a value
	Object client.Object
	// Done is what was done with it, or would be.
	Done Action
}

// Action is what was done with an object.
type Action string

// The actions.
const (
	Created   Action = "created"
	Unchanged Action = "unchanged"
	Labelled  Action = "labelled"
	Changed   Action = "changed"
	Deleted   Action = "deleted"
)

// String names the object as kubectl does.
func (s TeamObject) String() string { return Name(s.Object) + " " + string(s.Done) }

// Name is KIND/NAME of an object, as kubectl writes it.
func Name(o client.Object) string {
	kind := strings.ToLower(o.GetObjectKind().GroupVersionKind().Kind)
	if ns := o.GetNamespace(); ns != "" {
		return kind + "/" + o.GetName() + " in " + ns
	}
	return kind + "/" + o.GetName()
}

// typed are objects with their kinds, which clients need not say and manifests have to.
func typed[T client.Object](o T, apiVersion, kind string) T {
	o.GetObjectKind().SetGroupVersionKind(schema.FromAPIVersionAndKind(apiVersion, kind))
	return o
}

func newQueue(name string) *kueue.ClusterQueue {
	return typed(
		&kueue.ClusterQueue{ObjectMeta: metav1.ObjectMeta{Name: name}},
		kueue.GroupVersion.String(),
		"ClusterQueue",
	)
}

func newFlavor(name string) *kueue.ResourceFlavor {
	return typed(
		&kueue.ResourceFlavor{ObjectMeta: metav1.ObjectMeta{Name: name}},
		kueue.GroupVersion.String(),
		"ResourceFlavor",
	)
}

func newLocalQueue(namespace, name, queue string) *kueue.LocalQueue {
	return typed(&kueue.LocalQueue{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       kueue.LocalQueueSpec{ClusterQueue: kueue.ClusterQueueReference(queue)},
	}, kueue.GroupVersion.String(), "LocalQueue")
}

// Settle is the team with the flavor that is meant if none was said.
func (t Team) Settle(h Hardware) (Team, error) {
	var err error
	switch {
	case t.Flavor != "":
	case t.CreateFlavor:
		t.Flavor = DefaultFlavor
	default:
		t.Flavor, err = pickFlavor(h.Flavors)
	}
	return t, err
}

// Design is the objects of a settled team, in the order in which they are made. The quota comes first
// and the people last: nobody may submit before everything else is there.
func (t Team) Design(h Hardware) ([]client.Object, error) {
	if len(validation.IsDNS1123Label(t.Name)) > 0 {
		return nil, fmt.Errorf(
			"team %q: it is the name of a namespace: use lower case letters, digits and -, 63 at most",
			t.Name,
		)
	}
	if gather.Reserved(t.Name) {
		return nil, fmt.Errorf("team %s: that namespace is for Kubernetes itself: choose another name", t.Name)
	}
	if err := t.people(); err != nil {
		return nil, err
	}
	var out []client.Object
	flavors := h.Flavors
	if t.CreateFlavor {
		f := newFlavor(t.Flavor)
		out = append(out, f)
		if !slices.ContainsFunc(flavors, func(o kueue.ResourceFlavor) bool { return o.Name == f.Name }) {
			flavors = append(slices.Clone(flavors), *f)
		}
	}
	if !slices.ContainsFunc(flavors, func(f kueue.ResourceFlavor) bool { return f.Name == t.Flavor }) {
		return nil, fmt.Errorf(
			"there is no flavor %s: mlbatch flavor create %s makes it, or --create-flavor does it here",
			t.Flavor,
			t.Flavor,
		)
	}
	queue, err := t.queue(Capacity(flavors, h.Nodes))
	if err != nil {
		return nil, err
	}
	out = append(out, queue,
		typed(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: t.Name, Labels: map[string]string{
			kueue.TeamNamespaceLabel:             "true",
			"pod-security.kubernetes.io/enforce": "baseline",
		}}}, "v1", "Namespace"),
		newLocalQueue(t.Name, DefaultLocalQueue, queue.Name))
	if subjects := t.subjects(); len(subjects) > 0 {
		out = append(out, typed(&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: t.Name, Name: EditRole},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: EditRole},
			Subjects:   subjects,
		}, rbacv1.SchemeGroupVersion.String(), "RoleBinding"))
	}
	return out, nil
}

// people refuses names that would give rights to nobody, or to everybody.
func (t Team) people() error {
	for _, who := range slices.Concat(t.Users, t.Groups) {
		switch {
		case strings.TrimSpace(who) != who || who == "":
			return fmt.Errorf("--users, --groups: %q is no name", who)
		case who == "system:authenticated" || who == "system:unauthenticated" || who == "system:anonymous":
			return fmt.Errorf("%s is everybody: name users, or a group of yours", who)
		}
	}
	return nil
}

func (t Team) subjects() []rbacv1.Subject {
	var out []rbacv1.Subject
	for _, u := range t.Users {
		out = append(out, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: u})
	}
	for _, g := range t.Groups {
		out = append(out, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: g})
	}
	return gather.SortedSubjects(out)
}

// queue is the ClusterQueue of a team.
func (t Team) queue(has Amounts) (*kueue.ClusterQueue, error) {
	q := t.wanted(has)
	if len(q.Nominal) == 0 {
		return nil, errors.New("say how much the team has: --gpus 8, or --cpu, --memory, --quota RESOURCE=AMOUNT")
	}
	if missing := q.without("cpu", "memory"); len(missing) > 0 {
		return nil, fmt.Errorf(
			"the nodes of flavor %s have no GPUs that tell how much belongs to the team: say %s as well",
			t.Flavor,
			strings.Join(missing, " and "),
		)
	}
	groups, err := q.Groups()
	if err != nil {
		return nil, err
	}
	queue := newQueue(QueueName(t.Name))
	queue.Spec = kueue.ClusterQueueSpec{
		NamespaceSelector: &metav1.LabelSelector{},
		CohortName:        kueue.CohortReference(t.Cohort),
		Preemption:        usualPreemption(),
		ResourceGroups:    groups,
	}
	if errs := kueue.ValidateClusterQueue(queue); len(errs) > 0 {
		return nil, errs.ToAggregate() //nolint:wrapcheck // it names the field
	}
	return queue, nil
}

// usualPreemption is that of queues of teams: what they lend they take back.
func usualPreemption() *kueue.ClusterQueuePreemption {
	return &kueue.ClusterQueuePreemption{
		WithinClusterQueue:  kueue.PreemptionPolicyLowerOrNewerEqualPriority,
		ReclaimWithinCohort: kueue.PreemptionPolicyAny,
		BorrowWithinCohort:  &kueue.BorrowWithinCohort{Policy: kueue.BorrowWithinCohortPolicyNever},
	}
}

// wanted are all quotas of a team: the quotas that were typed, and for the others the share that
// belongs to its GPUs.
func (t Team) wanted(has Amounts) Quotas {
	out := t.typed(has)
	if t.GPUs == nil {
		return out
	}
	for _, s := range share(t.Flavor, gpuOf(t.Flavor, has), *t.GPUs, has) {
		if !slices.ContainsFunc(out.Nominal, func(o Setting) bool { return o.Resource == s.Resource }) {
			out.Nominal = append(out.Nominal, s)
		}
	}
	slices.SortStableFunc(out.Nominal, func(a, b Setting) int { return cmp.Compare(a.Resource, b.Resource) })
	return out
}

// GPUs stands for the resource by which the nodes of a flavor offer GPUs.
const GPUs corev1.ResourceName = "gpus"

// typed are the quotas that were typed.
func (t Team) typed(has Amounts) Quotas {
	gpu := gpuOf(t.Flavor, has)
	settle := func(in []Setting) []Setting {
		out := slices.Clone(in)
		for i := range out {
			out[i].Flavor = cmp.Or(out[i].Flavor, t.Flavor)
			if out[i].Resource == GPUs {
				out[i].Resource = gpu
			}
		}
		return out
	}
	out := Quotas{settle(t.Quotas.Nominal), settle(t.Quotas.Borrowing), settle(t.Quotas.Lending)}
	if t.GPUs != nil {
		out.Nominal = append(out.Nominal, Setting{Flavor: t.Flavor, Resource: gpu, Amount: t.GPUs})
	}
	return out
}

// without are those of these resources that there is no quota of, as flags.
func (q Quotas) without(resources ...corev1.ResourceName) (flags []string) {
	for _, r := range resources {
		if !slices.ContainsFunc(q.Nominal, func(s Setting) bool { return s.Resource == r }) {
			flags = append(flags, "--"+string(r))
		}
	}
	return flags
}

// DiffersError says that a team is there already, and is another than was asked for.
type DiffersError struct {
	Team  string
	Lines []string
}

// Error says what differs, and how to change it.
func (e *DiffersError) Error() string {
	return fmt.Sprintf(
		"team %s is there, and differs:\n  %s\nNothing was changed; mlbatch team edit %s with the same values changes it",
		e.Team,
		strings.Join(e.Lines, "\n  "),
		e.Team,
	)
}

// Create makes what there is not of the objects of a team. If one that there is differs from
// what was asked for, nothing is written. A dry run writes nothing either, and says what it would.
func (t Team) Create( //nolint:revive // a fact
	ctx context.Context,
	c client.Client,
	h Hardware,
	objects []client.Object,
	dryRun bool,
) ([]TeamObject, error) {
	steps := make([]TeamObject, 0, len(objects))
	var differs []string
	for _, o := range objects {
		step, diff, err := t.compare(ctx, c, h, o)
		if err != nil {
			return nil, err
		}
		steps, differs = append(steps, step), append(differs, diff...)
	}
	if len(differs) > 0 {
		return nil, &DiffersError{t.Name, differs}
	}
	if dryRun {
		return steps, nil
	}
	for i := range steps {
		if err := steps[i].write(ctx, c); err != nil {
			return steps[:i], err
		}
	}
	return steps, nil
}

// write does what a step says.
func (s *TeamObject) write(ctx context.Context, c client.Client) error {
	var err error
	switch s.Done {
	case Created:
		gvk := s.Object.GetObjectKind().GroupVersionKind()
		err = c.Create(ctx, s.Object)
		s.Object.GetObjectKind().SetGroupVersionKind(gvk) // clients forget it
	case Labelled:
		patch := fmt.Sprintf(`{"metadata":{"labels":{%q:"true"}}}`, kueue.TeamNamespaceLabel)
		err = c.Patch(ctx, s.Object, client.RawPatch(types.MergePatchType, []byte(patch)))
	default: // nothing
	}
	if err != nil {
		return fmt.Errorf("%s: %w", Name(s.Object), err)
	}
	return nil
}

// compare says what is to be done with an object, and how it differs from that which is there.
func (t Team) compare(
	ctx context.Context,
	c client.Client,
	h Hardware,
	want client.Object,
) (TeamObject, []string, error) {
	if _, rights := want.(*rbacv1.RoleBinding); rights {
		return t.comparePeople(ctx, c, want)
	}
	is, _ := want.DeepCopyObject().(client.Object)
	err := c.Get(ctx, client.ObjectKeyFromObject(want), is)
	if apierrors.IsNotFound(err) {
		return TeamObject{Object: want, Done: Created}, nil, nil
	}
	if err != nil {
		return TeamObject{}, nil, fmt.Errorf("read %s: %w", Name(want), err)
	}
	step := TeamObject{Object: want, Done: Unchanged}
	if is.GetDeletionTimestamp() != nil {
		return step, nil, fmt.Errorf("%s is being deleted: wait until it is gone", Name(want))
	}
	var lines []string
	switch is := is.(type) {
	case *corev1.Namespace:
		if is.Labels[kueue.TeamNamespaceLabel] != "true" {
			if !t.Adopt {
				return step, nil, fmt.Errorf(
					"namespace %s is there and is no team's: --adopt makes it one; what runs in it then has to name a queue",
					t.Name,
				)
			}
			step.Done = Labelled
		}
	case *kueue.ClusterQueue:
		lines = t.differs(is, Capacity(h.Flavors, h.Nodes))
	case *kueue.LocalQueue:
		if got := string(is.Spec.ClusterQueue); got != QueueName(t.Name) {
			lines = append(
				lines,
				fmt.Sprintf("localqueue/%s leads to %s, asked for %s", is.Name, got, QueueName(t.Name)),
			)
		}
	default: // a flavor stays as it is
	}
	return step, lines, nil
}

// comparePeople compares those whom any binding gives the role with those who are to have it.
func (t Team) comparePeople(
	ctx context.Context,
	c client.Client,
	want client.Object,
) (TeamObject, []string, error) {
	_, has, err := bindingsOf(ctx, c, t.Name)
	if err != nil {
		return TeamObject{}, nil, err
	}
	got, asked := gather.PeopleNames(has), gather.PeopleNames(t.subjects())
	switch {
	case len(got) == 0:
		return TeamObject{Object: want, Done: Created}, nil, nil
	case !slices.Equal(got, asked):
		other := fmt.Sprintf("people are %s, asked for %s", strings.Join(got, ", "), strings.Join(asked, ", "))
		return TeamObject{Object: want, Done: Unchanged}, []string{other}, nil
	}
	return TeamObject{Object: want, Done: Unchanged}, nil, nil
}

// bindingsOf are the bindings that make people those of a team, and these.
func bindingsOf(
	ctx context.Context,
	c client.Client,
	team string,
) (bindings []rbacv1.RoleBinding, people []rbacv1.Subject, err error) {
	var all rbacv1.RoleBindingList
	if err := c.List(ctx, &all, client.InNamespace(team)); err != nil {
		return nil, nil, fmt.Errorf("list RoleBindings of %s: %w", team, err)
	}
	for i := range all.Items {
		if b := &all.Items[i]; b.RoleRef.Kind == "ClusterRole" && b.RoleRef.Name == EditRole {
			bindings, people = append(bindings, *b), append(people, b.Subjects...)
		}
	}
	return bindings, people, nil
}

// differs says how the quota of a team is another than was typed. What was not typed may be
// as it is: it may have been changed since.
func (t Team) differs(is *kueue.ClusterQueue, has Amounts) []string {
	var lines []string
	say := func(what, got, asked string) {
		lines = append(lines, fmt.Sprintf("%s is %s, asked for %s", what, got, asked))
	}
	if got := string(is.Spec.CohortName); got != t.Cohort {
		say("cohort", cmp.Or(got, none), cmp.Or(t.Cohort, none))
	}
	typed := t.typed(has)
	for _, x := range []struct {
		what     string
		settings []Setting
		of       func(*kueue.ResourceQuota) *resource.Quantity
	}{
		{"quota", typed.Nominal, func(r *kueue.ResourceQuota) *resource.Quantity { return &r.NominalQuota }},
		{"borrowing limit", typed.Borrowing, func(r *kueue.ResourceQuota) *resource.Quantity { return r.BorrowingLimit }},
		{"lending limit", typed.Lending, func(r *kueue.ResourceQuota) *resource.Quantity { return r.LendingLimit }},
	} {
		for _, s := range x.settings {
			what := fmt.Sprintf("%s of %s in flavor %s", x.what, s.Resource, s.Flavor)
			r := find(is, s.Flavor, s.Resource)
			switch {
			case r == nil:
				say(what, "not there", text(s.Amount))
			case !same(s.Resource, x.of(r), s.Amount):
				say(what, text(x.of(r)), text(s.Amount))
			}
		}
	}
	return lines
}

// find is the quota of a resource in a flavor, nil if there is none.
func find(q *kueue.ClusterQueue, flavor string, of corev1.ResourceName) *kueue.ResourceQuota {
	for i := range q.Spec.ResourceGroups {
		if r := quotaOf(q.Spec.ResourceGroups[i].Flavors, flavor, of); r != nil {
			return r
		}
	}
	return nil
}

// same reports whether two limits mean the same amount; nil is none.
func same(of corev1.ResourceName, a, b *resource.Quantity) bool {
	if a == nil || b == nil {
		return a == b
	}
	return convert.Amount(of, *a) == convert.Amount(of, *b)
}

func text(q *resource.Quantity) string {
	if q == nil {
		return none
	}
	return q.String()
}

// Trial lets the API server judge what would be made, as far as it can: what is in a namespace
// that is not there yet it cannot.
func Trial(ctx context.Context, dry client.Client, steps []TeamObject) error {
	missing := map[string]bool{}
	for i := range steps {
		s := TeamObject{Object: steps[i].Object, Done: steps[i].Done}
		if _, is := s.Object.(*corev1.Namespace); is && s.Done == Created {
			missing[s.Object.GetName()] = true
		}
		if missing[s.Object.GetNamespace()] {
			continue
		}
		s.Object, _ = s.Object.DeepCopyObject().(client.Object)
		if err := s.write(ctx, dry); err != nil {
			return err
		}
	}
	return nil
}

// Notes are what whoever made a team should know.
func (t Team) Notes(h Hardware, objects []client.Object) []string {
	var out []string
	for _, o := range objects {
		if q, is := o.(*kueue.ClusterQueue); is {
			out = append(out, h.Overbooked(*q)...)
		}
	}
	if len(t.Users)+len(t.Groups) == 0 {
		out = append(out, fmt.Sprintf("it has no people yet: mlbatch team edit %s --add USER adds some", t.Name))
	}
	return out
}
