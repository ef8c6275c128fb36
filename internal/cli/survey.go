package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

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
	visibility "github.com/mlbatch/mlbatch/api/visibility/v1beta2"
	"github.com/mlbatch/mlbatch/internal/engine/nodehealth"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/kinds"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
	"github.com/mlbatch/mlbatch/internal/view"
)

// TitleLabel of a job is what people call it, of which there may be several.
const TitleLabel = "mlbatch.dev/job-name"

// Row is a job in one line. Its fields are what scripts read.
type Row struct {
	Namespace string    `json:"namespace"`
	Kind      view.Kind `json:"kind"`
	Name      string    `json:"name"`
	// Title is what people call it, of which there may be several; "" if it has only a name.
	Title string `json:"title,omitempty"`
	// Queue is the LocalQueue that it names, ClusterQueue the one whose quota it has.
	Queue        string `json:"queue,omitempty"`
	ClusterQueue string `json:"clusterQueue,omitempty"`
	// Target is the ClusterQueue that its LocalQueue leads to, "" if that is not known.
	Target string `json:"targetClusterQueue,omitempty"`
	// Position is its place in the line of its ClusterQueue, from 1; nil unless it waits there and
	// that was asked for.
	Position *int `json:"position,omitempty"`
	// Start is when it is expected to start, nil if that is not known, or was not asked for.
	Start *visibility.Start `json:"start,omitempty"`
	// State in one word, Reason its code, Message a sentence.
	State   view.State `json:"state"`
	Reason  string     `json:"reason,omitempty"`
	Message string     `json:"message,omitempty"`
	// Priority is nil of a job that has no Workload.
	Priority *int32 `json:"priority,omitempty"`
	// PriorityClass is the WorkloadPriorityClass or PriorityClass that it is of, "" for none.
	PriorityClass string `json:"priorityClass,omitempty"`
	// TimeLimit is for how many seconds it may run, nil for ever.
	TimeLimit *int32 `json:"timeLimitSeconds,omitempty"`
	// Pods is how many it consists of, Running how many of them run, GPUs how many GPUs
	// all of them have or ask for.
	Pods    int   `json:"pods"`
	Running int   `json:"running"`
	GPUs    int64 `json:"gpus"`
	// Slices is how many parts of GPUs it asks for, by their sort, such as mig-1g.5gb.
	Slices map[string]int64 `json:"slices,omitempty"`
	// Held is how many GPUs it keeps from others: those of its quota or, of a job without one,
	// the GPUs that its pods on nodes have. Started is since when, nil if it has none.
	Held int64 `json:"gpusHeld"`
	// heldSlices is the same for parts of GPUs.
	heldSlices map[string]int64
	Started    *time.Time `json:"started,omitempty"`
	// Evictions is how often it was stopped to be queued again, EvictedBy why.
	Evictions int32  `json:"evictions,omitempty"`
	EvictedBy string `json:"evictedBy,omitempty"`
	// Nodes are the nodes that its pods are on.
	Nodes []string `json:"nodes,omitempty"`
	// Restarts is how often containers of its pods were started again. Trouble is what is wrong
	// with a job that has quota, in a few words; "" if nothing is.
	Restarts int32  `json:"restarts,omitempty"`
	Trouble  string `json:"trouble,omitempty"`
	// User is who submitted it, "" where nobody knows.
	User     string `json:"user,omitempty"`
	Workload string `json:"workload,omitempty"`
	// ExitCode is that of the container that failed first, or 0 of a job that succeeded; nil if
	// it has not ended, or its pods are gone.
	ExitCode *int32 `json:"exitCode,omitempty"`
	// Created is when it was, Since when it came to its state, nil if that is not known.
	Created time.Time  `json:"created"`
	Since   *time.Time `json:"since,omitempty"`
}

// Survey is what a user sees of all jobs.
type Survey struct {
	Rows []Row `json:"items"`
	// Unread are the kinds that the user may not read.
	Unread []string `json:"unread,omitempty"`
}

// TakeSurvey reads all jobs of a namespace, or of all if it is "", with few requests, however
// many jobs there are. What the user may not read is left out and named.
func TakeSurvey(ctx context.Context, c client.Reader, namespace string, in client.ListOptions) (*Survey, error) {
	s := &surveyor{c: c, namespace: namespace, options: in, objects: map[types.UID]*seen{}}
	if err := s.read(ctx); err != nil {
		return nil, err
	}
	if err := s.readUnqueued(ctx); err != nil {
		return nil, err
	}
	out := &Survey{Unread: s.unread}
	for _, o := range s.objects { // sorted below
		if row, is := s.row(o); is {
			out.Rows = append(out.Rows, row)
		}
	}
	out.Rows = append(out.Rows, s.podRows()...)
	podless, err := s.podless(ctx, out.Rows)
	if err != nil {
		return nil, err
	}
	out.Rows = append(out.Rows, podless...)
	if err := s.driven(ctx, out.Rows); err != nil {
		return nil, err
	}
	for i := range out.Rows {
		r := &out.Rows[i]
		r.Target = s.targets[r.Namespace+"/"+r.Queue]
	}
	slices.SortFunc(out.Rows, func(a, b Row) int {
		return cmp.Or(b.Created.Compare(a.Created), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	slices.Sort(out.Unread)
	return out, nil
}

// driven notes which jobs with GPUs are on nodes that drive them off, as far as the user may read
// nodes: few have that label, and only these are asked for.
func (s *surveyor) driven(ctx context.Context, rows []Row) error {
	var nodes metav1.PartialObjectMetadataList
	nodes.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NodeList"))
	if err := readable(s.c.List(ctx, &nodes, client.HasLabels{nodehealth.HealthLabel})); err != nil {
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
		if at := slices.IndexFunc(r.Nodes, func(n string) bool { return driving[n] }); at >= 0 && r.Held > 0 && r.State == view.Running {
			r.Trouble = strings.TrimPrefix(r.Trouble+", has to leave "+r.Nodes[at], ", ")
		}
	}
	return nil
}

// mostLines is how many lines are asked for at most.
const mostLines = 100

// Place finds out where waiting jobs stand in the lines of their queues, and when they are
// expected to start, as far as line, which lists what waits in a ClusterQueue or, in a
// namespace, in a LocalQueue, tells.
func (s *Survey) Place(ctx context.Context, line func(ctx context.Context, namespace, queue string) ([]visibility.PendingWorkload, error)) {
	at := map[string]*visibility.PendingWorkload{} // by NAMESPACE/NAME
	asked := map[[2]string]bool{}
	ask := func(namespace, queue string) bool {
		key := [2]string{namespace, queue}
		ok, before := asked[key]
		if queue == "" || before || len(asked) >= mostLines {
			return ok
		}
		items, err := line(ctx, namespace, queue)
		asked[key] = err == nil
		for i := range items {
			at[items[i].Namespace+"/"+items[i].Name] = &items[i]
		}
		return err == nil
	}
	for i := range s.Rows {
		r := &s.Rows[i]
		if r.State != view.Waiting || r.Workload == "" || r.ClusterQueue != "" {
			continue
		}
		if !ask("", r.Target) {
			ask(r.Namespace, r.Queue)
		}
	}
	for i := range s.Rows {
		r := &s.Rows[i]
		if w := at[r.Namespace+"/"+r.Workload]; w != nil && r.State == view.Waiting {
			r.Position, r.Start = new(int(w.PositionInClusterQueue)+1), w.Start
		}
	}
}

// seen is an object of a kind of job.
type seen struct {
	kind *jobs.Kind
	meta metav1.Object
	// full is the object itself, where more than its metadata was read.
	full jobs.Object
}

// surveyor reads what there is and puts together what belongs together.
type surveyor struct {
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

// list reads a list, and notes if the user may not.
func (s *surveyor) list(ctx context.Context, what string, into client.ObjectList, options ...client.ListOption) error {
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

// read reads all lists at the same time.
func (s *surveyor) read(ctx context.Context) error {
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

// readKind reads the jobs of a kind: of AppWrappers, which say themselves how they are, all, and
// of others what their metadata says.
func (s *surveyor) readKind(ctx context.Context, k *jobs.Kind) error {
	found := map[types.UID]*seen{}
	if _, is := k.New().(*appwrapper.AppWrapper); is {
		var list appwrapper.AppWrapperList
		if err := s.list(ctx, k.Resource, &list, &s.options); err != nil {
			return err
		}
		for i := range list.Items {
			o := &list.Items[i]
			found[o.UID] = &seen{k, o, o}
		}
	} else {
		var list metav1.PartialObjectMetadataList
		list.SetGroupVersionKind(k.ListGVK())
		if err := s.list(ctx, k.Resource, &list, &s.options); err != nil {
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
func (s *surveyor) readTeams(ctx context.Context) error {
	s.teams = map[string]bool{}
	if s.namespace != "" {
		var ns corev1.Namespace
		err := s.c.Get(ctx, types.NamespacedName{Name: s.namespace}, &ns)
		s.teams[s.namespace] = err == nil && ns.Labels[kueue.TeamNamespaceLabel] == "true"
		return readable(err)
	}
	var list corev1.NamespaceList
	err := s.c.List(ctx, &list, client.MatchingLabels{kueue.TeamNamespaceLabel: "true"})
	for i := range list.Items {
		s.teams[list.Items[i].Name] = true
	}
	return readable(err)
}

// readTargets finds out where LocalQueues lead to.
func (s *surveyor) readTargets(ctx context.Context) error {
	s.targets = map[string]string{}
	var list kueue.LocalQueueList
	if err := readable(s.c.List(ctx, &list, client.InNamespace(s.namespace))); err != nil && !apimeta.IsNoMatchError(err) {
		return fmt.Errorf("list LocalQueues: %w", err)
	}
	for i := range list.Items {
		q := &list.Items[i]
		s.targets[q.Namespace+"/"+q.Name] = string(q.Spec.ClusterQueue)
	}
	return nil
}

// index finds Workloads by the jobs that they stand for, and pods by what they belong to.
func (s *surveyor) index() {
	s.byJob, s.podsOf, s.podsAlone = map[types.UID]*kueue.Workload{}, map[string][]corev1.Pod{}, map[types.UID][]corev1.Pod{}
	for i := range s.workloads {
		w := &s.workloads[i]
		uid := types.UID(w.Labels[kueue.JobUIDLabel])
		if has := s.byJob[uid]; has == nil || newer(w, has) {
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
func (s *surveyor) workloadOfPod(p *corev1.Pod) string {
	name := cmp.Or(p.Annotations[kueue.WorkloadAnnotation], groupOf(p))
	if own := s.byJob[p.UID]; name == "" && own != nil && held(p) {
		return own.Name
	}
	return name
}

// newer reports whether a Workload speaks for its job rather than another one.
func newer(a, b *kueue.Workload) bool {
	return cmp.Or(cmp.Compare(rank(a), rank(b)), b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name)) < 0
}

// readUnqueued reads whole jobs of which no Workload tells: how they are, they say themselves.
func (s *surveyor) readUnqueued(ctx context.Context) error {
	missing := map[string]*jobs.Kind{}
	for uid, o := range s.objects { // each is a request of its own
		if o.full == nil && s.byJob[uid] == nil && s.root(o) {
			missing[o.kind.GVK().Kind] = o.kind
		}
	}
	for _, name := range slices.Sorted(maps.Keys(missing)) {
		k := missing[name]
		list, err := listOf(k)
		if err != nil {
			return err
		}
		if err := s.list(ctx, k.Resource, list, &s.options); err != nil {
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

// root reports whether an object is no part of another job. One that has a Workload is none,
// whatever it says of itself.
func (s *surveyor) root(o *seen) bool {
	owner := metav1.GetControllerOf(o.meta)
	return owner == nil || s.byJob[o.meta.GetUID()] != nil || kindOf(view.Kind(owner.Kind)) == nil
}

// row is the line of an object, false if it is a part of another one.
func (s *surveyor) row(o *seen) (Row, bool) {
	if !s.root(o) {
		return Row{}, false
	}
	w := s.byJob[o.meta.GetUID()]
	parts := view.Objects{Workload: w, Team: s.teams[o.meta.GetNamespace()], Deleted: o.meta.GetDeletionTimestamp() != nil}
	switch full := o.full.(type) {
	case *appwrapper.AppWrapper:
		parts.AppWrapper = full
	case *batchv1.Job:
		parts.Job = full
	default:
		parts.Other = &view.Other{Queue: o.meta.GetLabels()[kueue.QueueNameLabel]}
		if full != nil {
			p := Picture{Asked: view.Ref{Kind: view.Kind(o.kind.GVK().Kind)}, Other: full}
			parts.Other = p.other()
		}
	}
	if w != nil {
		parts.Pods = s.podsOf[w.Namespace+"/"+w.Name]
	} else {
		parts.Pods = s.podsAlone[o.meta.GetUID()]
	}
	row := rowOf(view.Kind(o.kind.GVK().Kind), o.meta, parts)
	row.User = jobs.User(o.kind, o.meta)
	return row, true
}

// podRows are the lines of pods that are queued by themselves, alone or in groups.
func (s *surveyor) podRows() (out []Row) {
	for i := range s.workloads {
		w := &s.workloads[i]
		pods := s.podsOf[w.Namespace+"/"+w.Name]
		at := slices.IndexFunc(pods, func(p corev1.Pod) bool { return held(&p) })
		if at < 0 || !s.wants(&pods[at]) {
			continue
		}
		what := metav1.Object(&pods[at])
		if groupOf(&pods[at]) != "" {
			what = w // which has the name of the group
		}
		row := rowOf(view.KindPod, what, view.Objects{Workload: w, Pods: pods, Deleted: what.GetDeletionTimestamp() != nil})
		row.Kind, row.Name = submittedAs(w, &pods[at])
		row.User = jobs.User(nil, &pods[at])
		out = append(out, row)
	}
	return append(joined(out), s.incomplete()...)
}

// wants reports whether a pod has the labels that are asked for.
func (s *surveyor) wants(p *corev1.Pod) bool {
	sel := s.options.LabelSelector
	return sel == nil || sel.Matches(labels.Set(p.Labels))
}

// rowOf is the line of a job with these objects.
func rowOf(kind view.Kind, o metav1.Object, parts view.Objects) Row {
	j := view.StandingOf(parts)
	row := Row{
		Namespace: o.GetNamespace(), Kind: kind, Name: o.GetName(), Title: o.GetLabels()[TitleLabel], Queue: j.LocalQueue, ClusterQueue: j.ClusterQueue,
		State: j.State, Reason: j.Reason, Message: j.Message, Pods: j.Pods.Wanted, Running: len(j.Pods.Running),
		Nodes: nodesOf(parts.Pods), Created: o.GetCreationTimestamp().UTC(),
	}
	if !j.Since.IsZero() {
		row.Since = new(j.Since.UTC())
	}
	row.ExitCode = ExitCode(j.State, parts.Pods)
	for i := range parts.Pods {
		row.Restarts += restarts(&parts.Pods[i])
	}
	if j.State == view.Running || j.State == view.Starting || j.State == view.Unmanaged {
		row.Trouble = trouble(j, parts.Pods)
	}
	if w := parts.Workload; w != nil {
		row.Workload, row.Priority = w.Name, w.Spec.Priority
		if c := w.Spec.PriorityClassRef; c != nil {
			row.PriorityClass = c.Name
		}
		row.TimeLimit = w.Spec.MaximumExecutionTimeSeconds
		row.Evictions, row.EvictedBy = evictions(w)
		row.Pods, row.GPUs = 0, 0
		for i := range w.Spec.PodSets {
			set := &w.Spec.PodSets[i]
			row.Pods += int(set.Count)
			row.GPUs += int64(set.Count) * gpusOf(&set.Template.Spec)
			row.Slices = view.AddSlices(row.Slices, view.Slices(&set.Template.Spec, set.Count))
		}
		row.holds(w)
		return row
	}
	for i := range parts.Pods {
		p := &parts.Pods[i]
		n := gpusOf(&p.Spec)
		row.GPUs += n
		row.Slices = view.AddSlices(row.Slices, view.Slices(&p.Spec, 1))
		if s := p.Status.StartTime; s != nil && p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed {
			row.Held += n
			row.heldSlices = view.AddSlices(row.heldSlices, view.Slices(&p.Spec, 1))
			if row.Started == nil || s.Time.Before(*row.Started) {
				row.Started = new(s.UTC())
			}
		}
	}
	return row
}

// trouble is what is wrong with pods of a job that should run, in a few words.
func trouble(j view.Standing, pods []corev1.Pod) string {
	var parts []string
	for i := range pods {
		for _, s := range slices.Concat(pods[i].Status.InitContainerStatuses, pods[i].Status.ContainerStatuses) {
			if w := convert.Stuck(&s); w != nil && len(parts) == 0 {
				parts = append(parts, w.Reason)
			}
		}
	}
	if n := j.Pods.Failed; n > 0 {
		parts = append(parts, count(n, "pod")+" failed")
	}
	return strings.Join(parts, ", ")
}

// holds notes what quota a Workload has, without what it gave back.
func (r *Row) holds(w *kueue.Workload) {
	if w.Status.Admission == nil || isTrue(w.Status.Conditions, kueue.WorkloadFinished) {
		return
	}
	if c := find(w.Status.Conditions, kueue.WorkloadQuotaReserved); c != nil && c.Status == metav1.ConditionTrue {
		r.Started = new(c.LastTransitionTime.UTC())
	}
	r.Held, r.heldSlices = gpusHeld(w), slicesHeld(w)
}

// gpusHeld is how many GPUs the quota of a Workload is, without what it gave back.
func gpusHeld(w *kueue.Workload) (n int64) {
	for i := range w.Spec.PodSets {
		n += int64(podsHeld(w, &w.Spec.PodSets[i])) * gpusOf(&w.Spec.PodSets[i].Template.Spec)
	}
	return n
}

// slicesHeld is gpusHeld for parts of GPUs.
func slicesHeld(w *kueue.Workload) (out map[string]int64) {
	for i := range w.Spec.PodSets {
		out = view.AddSlices(out, view.Slices(&w.Spec.PodSets[i].Template.Spec, podsHeld(w, &w.Spec.PodSets[i])))
	}
	return out
}

// podsHeld is how many pods of a pod set the quota of a Workload is for, without what it gave back.
func podsHeld(w *kueue.Workload, set *kueue.PodSet) int32 {
	n := view.Count(w, set)
	for _, back := range w.Status.ReclaimablePods {
		if back.Name == set.Name {
			n -= back.Count
		}
	}
	return max(0, n)
}

// gpusOf is how many whole GPUs a pod asks for, of whatever make.
func gpusOf(spec *corev1.PodSpec) int64 { return view.GPUs(spec) }

// isGPU reports whether a resource is GPUs, or parts of them.
func isGPU(resource string) bool { return view.IsGPU(resource) }

// nodesOf are the nodes of pods that have not ended.
func nodesOf(pods []corev1.Pod) []string {
	on := map[string]bool{}
	for i := range pods {
		if p := &pods[i]; p.Spec.NodeName != "" && p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed {
			on[p.Spec.NodeName] = true
		}
	}
	return slices.Sorted(maps.Keys(on))
}

// listOf is an empty list of jobs of a kind.
func listOf(k *jobs.Kind) (client.ObjectList, error) {
	made, err := scheme.New().New(k.ListGVK())
	list, is := made.(client.ObjectList)
	if err != nil || !is {
		return nil, fmt.Errorf("list %s: %w", strings.ToLower(k.GVK().Kind), err)
	}
	return list, nil
}
