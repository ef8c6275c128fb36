package gather

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appwrapper "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/engine/nodehealth"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/kinds"
	"github.com/mlbatch/mlbatch/internal/view"
)

// Jobs reads all jobs of a namespace, or of all if it is "", with few requests, however
// many jobs there are. What the user may not read is left out and named.
func Jobs(
	ctx context.Context,
	c client.Reader,
	namespace string,
	in client.ListOptions,
) (*view.JobList, error) {
	s := &reading{c: c, namespace: namespace, options: in, objects: map[types.UID]*seen{}}
	if err := s.read(ctx); err != nil {
		return nil, err
	}
	if err := s.readUnqueued(ctx); err != nil {
		return nil, err
	}
	out := &view.JobList{Unread: s.unread, Items: slices.Grow([]view.Job(nil), len(s.objects))}
	for _, o := range s.objects { // sorted below
		if row, is := s.row(o); is {
			out.Items = append(out.Items, row)
		}
	}
	out.Items = append(out.Items, s.podRows()...)
	incomplete, err := s.incomplete(ctx)
	if err != nil {
		return nil, err
	}
	out.Items = append(out.Items, incomplete...)
	podless, err := s.podless(ctx, out.Items)
	if err != nil {
		return nil, err
	}
	out.Items = append(out.Items, podless...)
	if err := s.driven(ctx, out.Items); err != nil {
		return nil, err
	}
	for i := range out.Items {
		r := &out.Items[i]
		r.Target = s.targets[r.Namespace+"/"+r.Queue]
	}
	slices.SortFunc(out.Items, func(a, b view.Job) int {
		return cmp.Or(
			b.Created.Compare(a.Created),
			cmp.Compare(a.Namespace, b.Namespace),
			cmp.Compare(a.Kind, b.Kind),
			cmp.Compare(a.Name, b.Name),
		)
	})
	slices.Sort(out.Unread)
	return out, nil
}

// ReasonGroupIncomplete is why a group is held of which pods are missing.
const ReasonGroupIncomplete = "GroupIncomplete"

// ReasonGroupMismatch is why a group is held whose pods, or what describes it, contradict each other, or whose
// description is missing.
const ReasonGroupMismatch = "GroupMismatch"

// ReasonPodsQueued is that of what is not queued itself, but its pods are.
const ReasonPodsQueued = "PodsQueued"

// seen is an object of a kind of job.
type seen struct {
	kind *jobs.Kind
	meta metav1.Object
	// full is the object itself, where more than its metadata was read.
	full jobs.Object
}

// reading is what was read, and what of it belongs together.
type reading struct {
	c         client.Reader
	namespace string
	options   client.ListOptions

	lock      sync.Mutex // while lists are read
	unread    []string
	objects   map[types.UID]*seen
	servers   []server
	workloads []kueue.Workload
	pods      []corev1.Pod
	teams     map[string]bool
	targets   map[string]string // of LocalQueues, as NAMESPACE/NAME

	byJob     map[types.UID]*kueue.Workload
	podsOf    map[string][]corev1.Pod // by NAMESPACE/NAME of their Workload
	podsAlone map[types.UID][]corev1.Pod
}

// read reads all lists at the same time.
func (s *reading) read(ctx context.Context) error {
	all := kinds.All()
	var reads []func() error
	for i := range all {
		reads = append(reads, func() error { return s.readKind(ctx, &all[i]) })
	}
	reads = append(reads,
		func() error {
			var list kueue.WorkloadList
			err := s.list(ctx, "Workloads", &list)
			s.workloads = list.Items
			return err
		},
		func() error {
			var list corev1.PodList
			err := s.list(ctx, "pods", &list)
			s.pods = list.Items
			return err
		},
		func() error { return s.readTeams(ctx) },
		func() error { return s.readTargets(ctx) },
	)
	for k, gvk := range serverKinds() {
		reads = append(reads, func() error { return s.readServers(ctx, k, gvk) })
	}
	errs := make([]error, len(reads))
	var running sync.WaitGroup
	for i, read := range reads {
		running.Go(func() { errs[i] = read() })
	}
	running.Wait()
	s.index()
	return errors.Join(errs...)
}

// list reads a list, and notes if the user may not.
func (s *reading) list(
	ctx context.Context,
	what string,
	into client.ObjectList,
	options ...client.ListOption,
) error {
	if s.namespace != "" {
		options = append(options, client.InNamespace(s.namespace))
	}
	forbidden, err := readList(ctx, s.c, List{what, into, options})
	if forbidden {
		s.lock.Lock()
		defer s.lock.Unlock()
		s.unread = append(s.unread, what)
	}
	return err
}

// readKind reads the jobs of a kind: of AppWrappers, which say themselves how they are, all, and
// of others what their metadata says.
func (s *reading) readKind(ctx context.Context, k *jobs.Kind) error {
	found := map[types.UID]*seen{}
	if _, is := k.New().(*appwrapper.AppWrapper); is {
		var list appwrapper.AppWrapperList
		if err := s.list(ctx, k.Naming.Resource, &list, &s.options); err != nil {
			return err
		}
		for i := range list.Items {
			o := &list.Items[i]
			found[o.UID] = &seen{k, o, o}
		}
	} else {
		var list metav1.PartialObjectMetadataList
		list.SetGroupVersionKind(k.ListGVK())
		if err := s.list(ctx, k.Naming.Resource, &list, &s.options); err != nil {
			return err
		}
		for i := range list.Items {
			o := &list.Items[i]
			found[o.UID] = &seen{k, o, nil}
		}
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	maps.Copy(s.objects, found)
	return nil
}

// readTeams finds out where only queued jobs run.
func (s *reading) readTeams(ctx context.Context) error {
	s.teams = map[string]bool{}
	if s.namespace != "" {
		var ns corev1.Namespace
		err := s.c.Get(ctx, types.NamespacedName{Name: s.namespace}, &ns)
		s.teams[s.namespace] = err == nil && ns.Labels[kueue.TeamNamespaceLabel] == "true"
		return Readable(err)
	}
	var list corev1.NamespaceList
	err := s.c.List(ctx, &list, client.MatchingLabels{kueue.TeamNamespaceLabel: "true"})
	for i := range list.Items {
		s.teams[list.Items[i].Name] = true
	}
	return Readable(err)
}

// readTargets finds out where LocalQueues lead to.
func (s *reading) readTargets(ctx context.Context) error {
	s.targets = map[string]string{}
	var list kueue.LocalQueueList
	if err := Readable(
		s.c.List(ctx, &list, client.InNamespace(s.namespace)),
	); err != nil &&
		!apimeta.IsNoMatchError(err) {
		return fmt.Errorf("list LocalQueues: %w", err)
	}
	for i := range list.Items {
		q := &list.Items[i]
		s.targets[q.Namespace+"/"+q.Name] = string(q.Spec.ClusterQueue)
	}
	return nil
}

// readUnqueued reads whole jobs of which no Workload tells: how they are, they say themselves.
func (s *reading) readUnqueued(ctx context.Context) error {
	missing := map[string]*jobs.Kind{}
	for uid, o := range s.objects { // each is a request of its own
		if o.full == nil && s.byJob[uid] == nil && s.root(o) {
			missing[o.kind.GVK().Kind] = o.kind
		}
	}
	for _, name := range slices.Sorted(maps.Keys(missing)) {
		k := missing[name]
		list, err := ListOf(k)
		if err != nil {
			return err
		}
		if err := s.list(ctx, k.Naming.Resource, list, &s.options); err != nil {
			return err
		}
		_ = apimeta.EachListItem(list, func(item runtime.Object) error { // what it is given returns no error
			if full, is := item.(jobs.Object); is && s.objects[full.GetUID()] != nil {
				s.objects[full.GetUID()].full = full
			}
			return nil
		})
	}
	return nil
}

// index finds Workloads by the jobs that they stand for, and pods by what they belong to.
func (s *reading) index() {
	s.byJob, s.podsOf, s.podsAlone = map[types.UID]*kueue.Workload{}, map[string][]corev1.Pod{}, map[types.UID][]corev1.Pod{}
	for i := range s.workloads {
		w := &s.workloads[i]
		uid := types.UID(w.Labels[kueue.JobUIDLabel])
		if has := s.byJob[uid]; has == nil || Newer(w, has) {
			s.byJob[uid] = w
		}
	}
	for i := range s.pods {
		p := &s.pods[i]
		owner := metav1.GetControllerOf(p)
		if w := s.workloadOfPod(p); w != "" {
			key := p.Namespace + "/" + w
			s.podsOf[key] = append(s.podsOf[key], *p)
		} else if owner != nil {
			s.podsAlone[owner.UID] = append(s.podsAlone[owner.UID], *p)
		}
	}
}

// workloadOfPod names the Workload of a pod, "" if it has none. Pods that wait by themselves are
// told theirs only when they are admitted.
func (s *reading) workloadOfPod(p *corev1.Pod) string {
	name := cmp.Or(p.Annotations[kueue.WorkloadAnnotation], GroupOf(p))
	if own := s.byJob[p.UID]; name == "" && own != nil && Held(p) {
		return own.Name
	}
	return name
}

// row is the line of an object, false if it is a part of another one.
func (s *reading) row(o *seen) (view.Job, bool) {
	if !s.root(o) {
		return view.Job{}, false
	}
	w := s.byJob[o.meta.GetUID()]
	parts := view.Objects{
		Workload: w,
		Team:     s.teams[o.meta.GetNamespace()],
		Deleted:  o.meta.GetDeletionTimestamp() != nil,
	}
	switch full := o.full.(type) {
	case *appwrapper.AppWrapper:
		parts.AppWrapper = full
	case *batchv1.Job:
		parts.Job = full
	default:
		parts.Other = &view.Other{Queue: o.meta.GetLabels()[kueue.QueueNameLabel]}
		if full != nil {
			parts.Other = OtherJob(view.Kind(o.kind.GVK().Kind), full)
		}
	}
	if w != nil {
		parts.Pods = s.podsOf[w.Namespace+"/"+w.Name]
	} else {
		parts.Pods = s.podsAlone[o.meta.GetUID()]
	}
	row := view.JobOf(view.Kind(o.kind.GVK().Kind), o.meta, parts)
	row.User = jobs.User(o.kind, o.meta)
	return row, true
}

// root reports whether an object is no part of another job. One that has a Workload is none,
// whatever it says of itself.
func (s *reading) root(o *seen) bool {
	owner := metav1.GetControllerOf(o.meta)
	return owner == nil || s.byJob[o.meta.GetUID()] != nil || KindOf(view.Kind(owner.Kind)) == nil
}

// podRows are the lines of pods that are queued by themselves, alone or in groups.
func (s *reading) podRows() (out []view.Job) {
	for i := range s.workloads {
		w := &s.workloads[i]
		pods := s.podsOf[w.Namespace+"/"+w.Name]
		at := slices.IndexFunc(pods, func(p corev1.Pod) bool { return Held(&p) })
		if at < 0 || !s.wants(&pods[at]) {
			continue
		}
		what := metav1.Object(&pods[at])
		if GroupOf(&pods[at]) != "" {
			what = w // which has the name of the group
		}
		row := view.JobOf(
			view.KindPod,
			what,
			view.Objects{Workload: w, Pods: pods, Deleted: what.GetDeletionTimestamp() != nil},
		)
		row.Kind, row.Name = submittedAs(w, &pods[at])
		row.User = jobs.User(nil, &pods[at])
		if row.Kind != view.KindPod || GroupOf(&pods[at]) != "" {
			row.UID = "" // it is that of one of its pods, or of its Workload, and of others tomorrow
		}
		out = append(out, row)
	}
	return view.Join(out)
}

// incomplete are the lines of groups that have no Workload yet.
func (s *reading) incomplete(ctx context.Context) (out []view.Job, err error) {
	known, at := map[string]bool{}, map[string]int{}
	pods, events := map[string][]corev1.Pod{}, map[string][]corev1.Event{}
	for i := range s.workloads {
		known[s.workloads[i].Namespace+"/"+s.workloads[i].Name] = true
	}
	for i := range s.pods {
		p := &s.pods[i]
		group := GroupOf(p)
		key := p.Namespace + "/" + group
		if group == "" || known[key] || p.Status.Phase == corev1.PodSucceeded ||
			p.Status.Phase == corev1.PodFailed ||
			!s.wants(p) {
			continue
		}
		if _, there := at[key]; !there {
			at[key] = len(out)
			out = append(out, view.Job{
				Namespace: p.Namespace,
				Kind:      view.KindPod,
				Name:      group,
				Queue:     p.Labels[kueue.QueueNameLabel],
				Title:     p.Labels[view.TitleLabel],
				State:     view.Held,
				Reason:    ReasonGroupIncomplete,
				Created:   p.CreationTimestamp.UTC(),
			})
		}
		row := &out[at[key]]
		row.Pods++
		row.GPUs += view.GPUs(&p.Spec)
		row.Slices = view.AddSlices(row.Slices, view.Slices(&p.Spec, 1))
		row.Message = fmt.Sprintf("%d of %s pods are created", row.Pods, WantedOf(p))
		pods[key] = append(pods[key], *p)
	}
	for i := range out {
		row := &out[i]
		list, read := events[row.Namespace]
		if !read {
			if list, err = s.eventsIn(ctx, row.Namespace); err != nil {
				return nil, err
			}
			events[row.Namespace] = list
		}
		if e := HeldBy(list, pods[row.Namespace+"/"+row.Name]); e != nil && e.Reason != ReasonGroupIncomplete {
			row.Reason, row.Message = e.Reason, e.Message
		}
	}
	return out, nil
}

// wants reports whether a pod has the labels that are asked for.
func (s *reading) wants(p *corev1.Pod) bool {
	sel := s.options.LabelSelector
	return sel == nil || sel.Matches(labels.Set(p.Labels))
}

// driven notes which jobs with GPUs are on nodes that drive them off, as far as the user may read
// nodes: few have that label, and only these are asked for.
func (s *reading) driven(ctx context.Context, rows []view.Job) error {
	var nodes metav1.PartialObjectMetadataList
	nodes.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NodeList"))
	if err := Readable(s.c.List(ctx, &nodes, client.HasLabels{nodehealth.HealthLabel})); err != nil {
		return fmt.Errorf("list nodes: %w", err)
	}
	driving := map[string]bool{}
	for i := range nodes.Items {
		if jobs.Evicting(nodes.Items[i].Labels, jobs.AvoidBadGPUs()) != "" {
			driving[nodes.Items[i].Name] = true
		}
	}
	for i := range rows {
		r := &rows[i]
		if at := slices.IndexFunc(
			r.Nodes,
			func(n string) bool { return driving[n] },
		); at >= 0 && r.Held > 0 &&
			r.State == view.Running {
			r.Trouble = strings.TrimPrefix(r.Trouble+", has to leave "+r.Nodes[at], ", ")
		}
	}
	return nil
}

// Newer reports whether a Workload speaks for its job rather than another one.
func Newer(a, b *kueue.Workload) bool {
	return cmp.Or(
		cmp.Compare(Rank(a), Rank(b)),
		b.CreationTimestamp.Compare(a.CreationTimestamp.Time),
		cmp.Compare(a.Name, b.Name),
	) < 0
}

// Rank orders Workloads of one job: the unfinished one speaks for it.
func Rank(w *kueue.Workload) int {
	if apimeta.IsStatusConditionTrue(w.Status.Conditions, kueue.WorkloadFinished) {
		return 1
	}
	return 0
}
