package e2e_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	aw "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
)

// The tutorial's cluster.
const (
	gpu         = "nvidia.com/gpu"
	gpusPerNode = 8
	gpusInQuota = 24
)

// halfBoundAtMost is how long a gang may be bound in part: as long as a
// scheduler or an API server that died in the middle takes to come back.
const halfBoundAtMost = 30 * time.Second

// A witness sees every change of AppWrappers, Workloads and pods, in the order
// in which they were made, and judges each: what holds for a moment only would
// escape a look now and then. It goes on where it was when the API server died.
type witness struct {
	mu sync.Mutex
	// size is how many pods a job has; jobs that are not listed are not judged.
	size map[string]int
	jobs map[string]*history
	// live and reserved are the pods and the Workloads that exist.
	live     map[types.UID]*corev1.Pod
	reserved map[types.UID]*kueue.Workload
	// halfBound is since when a job has some pods bound and not others.
	halfBound map[string]time.Time
	longest   time.Duration

	changes int
	// awaited is what a test waits for, until it is reached.
	awaited moment
	reached chan struct{}
	broken  []string
}

// A moment says whether the point that a test waits for was reached with a
// change.
type moment func(*witness, change) bool

// history is what a witness saw of one job. What happened while the API server
// was away and was over when it came back is missing, except for evictions,
// which the Workload counts.
type history struct {
	pods      map[types.UID]types.UID // that got a node, and the Job of each
	admitted  int
	evicted   int
	phase     aw.AppWrapperPhase
	ran       bool // it runs, or did at any time
	succeeded bool
}

// newWitness watches until the test ends.
func newWitness(t *testing.T, size map[string]int, awaited moment) *witness {
	t.Helper()
	w := &witness{
		size:      size,
		jobs:      map[string]*history{},
		live:      map[types.UID]*corev1.Pod{},
		reserved:  map[types.UID]*kueue.Workload{},
		halfBound: map[string]time.Time{},
		awaited:   awaited,
		reached:   make(chan struct{}),
	}
	for name := range size {
		w.jobs[name] = &history{pods: map[types.UID]types.UID{}}
	}
	c, err := client.NewWithWatch(cluster.RESTConfig(), client.Options{Scheme: scheme.New()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	t.Cleanup(func() { cancel(); all.Wait() })
	for _, k := range []struct {
		object client.Object
		list   client.ObjectList
		note   func(old, now client.Object)
		judge  func()
	}{
		{&corev1.Pod{}, &corev1.PodList{}, w.pod, w.judgeNodes},
		{&kueue.Workload{}, &kueue.WorkloadList{}, w.workload, w.judgeQuota},
		{&aw.AppWrapper{}, &aw.AppWrapperList{}, w.appWrapper, func() {}},
	} {
		source := &toolscache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (out runtime.Object, err error) {
				list := k.list.DeepCopyObject().(client.ObjectList)
				return list, c.List(ctx, list, &client.ListOptions{Raw: &o})
			},
			WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
				return c.Watch(ctx, k.list, &client.ListOptions{Raw: &o})
			},
		}
		store := &tap{known: map[client.ObjectKey]client.Object{}, changed: func(all []change) {
			w.mu.Lock()
			defer w.mu.Unlock()
			for _, c := range all {
				k.note(c.old, c.now)
			}
			k.judge()
			for _, c := range all {
				w.changes++
				if w.awaited != nil && w.awaited(w, c) {
					w.hurry()
				}
			}
		}}
		all.Go(func() { toolscache.NewReflector(source, k.object, store, 0).RunWithContext(ctx) })
	}
	return w
}

// end returns the number of changes so far and lets no test wait any longer.
func (w *witness) end() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hurry()
	return w.changes
}

// hurry ends the wait for the awaited moment.
func (w *witness) hurry() {
	if w.awaited != nil {
		w.awaited = nil
		close(w.reached)
	}
}

func (w *witness) breaks(format string, args ...any) {
	w.broken = append(w.broken, fmt.Sprintf("after %d changes: ", w.changes)+fmt.Sprintf(format, args...))
}

// pod notes a change of a pod.
func (w *witness) pod(old, now client.Object) {
	if old != nil {
		delete(w.live, old.GetUID())
	}
	if p, ok := now.(*corev1.Pod); ok {
		w.live[p.UID] = p
		if h := w.jobs[p.Labels[aw.AppWrapperLabel]]; h != nil && p.Spec.NodeName != "" {
			if o := metav1.GetControllerOf(p); o != nil {
				h.pods[p.UID] = o.UID
			}
		}
	}
}

// judgeNodes checks that no node is used twice and that gangs are whole.
func (w *witness) judgeNodes() {
	used := map[string]int64{}
	bound := map[string]int{} // pods that run or ran, of each job
	holds := map[string]int{} // those of them that did not end
	for _, p := range w.live {
		job := p.Labels[aw.AppWrapperLabel]
		switch {
		case p.Spec.NodeName == "" || p.Status.Phase == corev1.PodFailed:
			continue
		case p.Status.Phase != corev1.PodSucceeded:
			holds[job]++
			for i := range p.Spec.Containers {
				q := p.Spec.Containers[i].Resources.Limits[gpu]
				used[p.Spec.NodeName] += q.Value()
			}
		}
		bound[job]++
	}
	for node, n := range used {
		if n > gpusPerNode {
			w.breaks("pods on %s use %d GPUs of %d", node, n, gpusPerNode)
		}
	}
	for job, size := range w.size {
		if bound[job] > size {
			w.breaks("%d pods of %s are bound, it has %d:%s", bound[job], job, size, w.roll(job))
		}
		w.gang(job, holds[job] > 0 && bound[job] < size)
	}
}

// roll tells what is known of the pods of a job and of its admission.
func (w *witness) roll(job string) string {
	var b strings.Builder
	for _, p := range w.live {
		if p.Labels[aw.AppWrapperLabel] == job {
			fmt.Fprintf(
				&b,
				"\n  pod %s made %s, %s on %q, deleted %v",
				p.Name,
				p.CreationTimestamp.Format(time.TimeOnly),
				p.Status.Phase,
				p.Spec.NodeName,
				p.DeletionTimestamp,
			)
		}
	}
	for _, l := range w.reserved {
		o := metav1.GetControllerOf(l)
		if o == nil || o.Name != job {
			continue
		}
		fmt.Fprintf(
			&b,
			"\n  workload %s reclaims %v, ends once %q",
			l.Name,
			l.Status.ReclaimablePods,
			l.Annotations[kueue.EndsOnceAnnotation],
		)
		for _, c := range l.Status.Conditions {
			fmt.Fprintf(&b, ", %s=%s %s", c.Type, c.Status, c.LastTransitionTime.Format(time.TimeOnly))
		}
		for _, a := range l.Status.Admission.PodSetAssignments {
			fmt.Fprintf(&b, ", %d pods at %v", ptr.Deref(a.Count, 0), a.TopologyAssignment)
		}
	}
	return b.String()
}

// holds is how many pods of a job have a node and did not end.
func (w *witness) holds(job string) (n int) {
	for _, p := range w.live {
		if p.Labels[aw.AppWrapperLabel] == job && p.Spec.NodeName != "" && p.Status.Phase != corev1.PodSucceeded &&
			p.Status.Phase != corev1.PodFailed {
			n++
		}
	}
	return n
}

// gang notes whether a job holds nodes for some of its pods and not for others.
func (w *witness) gang(job string, half bool) {
	since, was := w.halfBound[job]
	switch {
	case half && !was:
		w.halfBound[job] = time.Now()
	case !half && was:
		w.longest = max(w.longest, time.Since(since))
		delete(w.halfBound, job)
	}
}

// workload notes a change of a Workload.
func (w *witness) workload(old, now client.Object) {
	before, _ := old.(*kueue.Workload)
	after, _ := now.(*kueue.Workload)
	if before != nil {
		delete(w.reserved, before.UID)
	}
	if after == nil {
		return
	}
	if after.Status.Admission != nil && !isFinished(after) {
		w.reserved[after.UID] = after
	}
	if o := metav1.GetControllerOf(after); o != nil && w.jobs[o.Name] != nil {
		h := w.jobs[o.Name]
		if after.Status.Admission != nil && (before == nil || before.Status.Admission == nil) {
			h.admitted++
		}
		if stats := after.Status.SchedulingStats; stats != nil {
			h.evicted = 0
			for _, e := range stats.Evictions {
				h.evicted += int(e.Count)
			}
		}
	}
}

// judgeQuota checks that no more is admitted than there is.
func (w *witness) judgeQuota() {
	var sum int64
	for _, r := range w.reserved {
		for _, a := range r.Status.Admission.PodSetAssignments {
			q := a.ResourceUsage[gpu]
			sum += q.Value()
		}
	}
	if sum > gpusInQuota {
		w.breaks("%d GPUs are admitted of %d", sum, gpusInQuota)
	}
}

// appWrapper checks that no controller takes a killed process for a fault of the job.
func (w *witness) appWrapper(_, now client.Object) {
	a, ok := now.(*aw.AppWrapper)
	if !ok || w.jobs[a.Name] == nil {
		return
	}
	h := w.jobs[a.Name]
	switch {
	case a.Status.Phase == aw.AppWrapperResetting || a.Status.Phase == aw.AppWrapperFailed || a.Status.Retries > 0:
		w.breaks("%s is %s after %d retries", a.Name, a.Status.Phase, a.Status.Retries)
	case h.succeeded && a.Status.Phase != aw.AppWrapperSucceeded && a.DeletionTimestamp == nil:
		w.breaks("%s is %s after it succeeded", a.Name, a.Status.Phase)
	}
	h.phase = a.Status.Phase
	h.succeeded = h.succeeded || h.phase == aw.AppWrapperSucceeded
	h.ran = h.succeeded || h.ran || h.phase == aw.AppWrapperRunning
}

// wrong is what was broken so far, "" if nothing.
func (w *witness) wrong() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	for job, since := range w.halfBound {
		if d := time.Since(since); d > halfBoundAtMost {
			return fmt.Sprintf("a part of %s holds nodes for %s", job, d)
		}
	}
	if len(w.broken) > 0 {
		return w.broken[0]
	}
	return ""
}

// all is a check of the jobs' histories.
func (w *witness) all(what string, is func(*history) bool, names ...string) func() string {
	return func() string {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, n := range names {
			if h := w.jobs[n]; !is(h) {
				return fmt.Sprintf("%s is %s and not %s yet", n, h.phase, what)
			}
		}
		return ""
	}
}

// accounts checks that a job was admitted once, and once more after each
// eviction, and that no more pods got nodes than belong to its admissions. More
// may be made: the Job controller makes a pod again when an API server dies
// before it says that the pod was made, and deletes the surplus one later.
//
// again is how often a component may have been created once more: an object whose
// creator died before it recorded the UID, or never learnt it, is deleted and created
// again, and may have begun to run.
func (w *witness) accounts(again int) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []string
	for name, h := range w.jobs {
		attempts := h.evicted + 1
		if h.admitted > attempts {
			out = append(
				out,
				fmt.Sprintf("%s was admitted %d times and evicted %d times", name, h.admitted, h.evicted),
			)
		}
		of := map[types.UID]int{}
		for _, job := range h.pods {
			if of[job]++; of[job] > w.size[name] {
				out = append(
					out,
					fmt.Sprintf("%d pods of one Job of %s got nodes, it has %d", of[job], name, w.size[name]),
				)
			}
		}
		if len(of)-attempts > again {
			out = append(
				out,
				fmt.Sprintf(
					"%d Jobs of %s ran in %d attempts; %d may have been made again",
					len(of),
					name,
					attempts,
					again,
				),
			)
		}
	}
	slices.Sort(out)
	return out
}

// summary lists the jobs that did not run in one go.
func (w *witness) summary() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []string
	for name, h := range w.jobs {
		if h.evicted > 0 {
			out = append(out, fmt.Sprintf("%s was evicted %d times and had %d pods", name, h.evicted, len(h.pods)))
		}
	}
	slices.Sort(out)
	return strings.Join(out, "; ")
}

// tap is the store of a reflector that hands on each change, or all those at
// once that were made while they could not be watched.
type tap struct {
	known   map[client.ObjectKey]client.Object
	changed func([]change)
}

// change is one change of an object; nil means that it does not exist.
type change struct{ old, now client.Object }

func (t *tap) Add(o any) error    { return t.Update(o) }
func (t *tap) Update(o any) error { return t.take(nil, []any{o}) }

func (t *tap) Delete(o any) error {
	gone, ok := o.(client.Object)
	if !ok {
		return fmt.Errorf("watch: %T is no object", o)
	}
	delete(t.known, client.ObjectKeyFromObject(gone))
	t.changed([]change{{gone, nil}})
	return nil
}

func (t *tap) Replace(list []any, _ string) error {
	var all []change
	listed := map[client.ObjectKey]bool{}
	for _, o := range list {
		if now, ok := o.(client.Object); ok {
			listed[client.ObjectKeyFromObject(now)] = true
		}
	}
	for key, old := range t.known {
		if !listed[key] {
			all = append(all, change{old, nil})
			delete(t.known, key)
		}
	}
	return t.take(all, list)
}

// take hands on what was found out already, and what is new of some objects.
func (t *tap) take(all []change, objects []any) error {
	for _, o := range objects {
		now, ok := o.(client.Object)
		if !ok {
			return fmt.Errorf("watch: %T is no object", o)
		}
		key := client.ObjectKeyFromObject(now)
		old, seen := t.known[key]
		if seen && old.GetResourceVersion() == now.GetResourceVersion() {
			continue
		}
		t.known[key] = now
		all = append(all, change{old, now})
	}
	if len(all) > 0 {
		t.changed(all)
	}
	return nil
}

func (t *tap) Resync() error { return nil }
