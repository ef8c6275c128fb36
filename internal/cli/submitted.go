package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/view"
)

// reasonGroupIncomplete is why a group is held of which pods are missing.
const reasonGroupIncomplete = "GroupIncomplete"

// reasonPodsQueued is that of what is not queued itself, but its pods are.
const reasonPodsQueued = "PodsQueued"

// submittedAs is the object that a user made and a pod that is queued by itself, or in a group, is
// part of: a Deployment, a StatefulSet, a LeaderWorkerSet, or the pod itself.
func submittedAs(w *kueue.Workload, pod *corev1.Pod) (view.Kind, string) {
	if kind, name := convert.Owner(w); kind.Kind != string(view.KindPod) && name != "" {
		return view.Kind(kind.Kind), name
	}
	if groupOf(pod) != "" {
		return view.KindPod, w.Name // which has the name of the group
	}
	return madeBy(pod)
}

// madeBy is what a pod belongs to that is queued by itself: a ReplicaSet of a Deployment has the
// name of that and of its version, which the pod's label repeats.
func madeBy(pod *corev1.Pod) (view.Kind, string) {
	owner := metav1.GetControllerOf(pod)
	if owner == nil {
		return view.KindPod, pod.Name
	}
	if hash := pod.Labels[appsv1.DefaultDeploymentUniqueLabelKey]; hash != "" && owner.Kind == string(view.KindReplicaSet) {
		if name, is := strings.CutSuffix(owner.Name, "-"+hash); is {
			return view.KindDeployment, name
		}
	}
	if isSet(view.Kind(owner.Kind)) {
		return view.Kind(owner.Kind), owner.Name
	}
	return view.KindPod, pod.Name
}

// jobName is what people know a Workload by.
func jobName(w *kueue.Workload) string {
	_, name := convert.Owner(w)
	return cmp.Or(name, w.Name)
}

// findGroup finds the pods of a group that has no Workload yet; false if there are none.
func findGroup(ctx context.Context, c client.Reader, ref view.Ref) (Picture, bool, error) {
	if ref.Kind != "" && ref.Kind != view.KindGroup {
		return Picture{}, false, nil
	}
	var list corev1.PodList
	if err := c.List(ctx, &list, client.InNamespace(ref.Namespace), client.MatchingLabels{kueue.PodGroupNameLabel: ref.Name}); err != nil {
		return Picture{}, false, readable(err)
	}
	p := Picture{Asked: view.Ref{Kind: view.KindGroup, Namespace: ref.Namespace, Name: ref.Name}}
	p.Pods = slices.DeleteFunc(list.Items, func(o corev1.Pod) bool { return !held(&o) })
	slices.SortFunc(p.Pods, func(a, b corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	return p, len(p.Pods) > 0, nil
}

// incompleteGroup tells of a group of which pods are missing.
func incompleteGroup(p Picture, e *Explanation) {
	var names []string
	for i := range p.Pods {
		names = append(names, p.Pods[i].Name)
	}
	e.State, e.Reason = view.Held, reasonGroupIncomplete
	n := len(names)
	e.say("%s is held until all %s pods of it are created; there %s %s: %s", e.Object, wantedOf(&p.Pods[0]), is(n), count(n, "pod"), strings.Join(names[:min(n, 5)], ", "))
	e.Helps = "create the missing pods, with the same label " + kueue.PodGroupNameLabel + "; kubectl describe says if the pods contradict each other"
}

// wantedOf is how many pods the group of a pod is to have, as it says.
func wantedOf(pod *corev1.Pod) string {
	return orElse(pod.Annotations[kueue.PodGroupTotalCountAnnotation], "its")
}

// incomplete are the lines of groups that have no Workload yet.
func (s *surveyor) incomplete() (out []Row) {
	known, at := map[string]bool{}, map[string]int{}
	for i := range s.workloads {
		known[s.workloads[i].Namespace+"/"+s.workloads[i].Name] = true
	}
	for i := range s.pods {
		p := &s.pods[i]
		group := groupOf(p)
		key := p.Namespace + "/" + group
		if group == "" || known[key] || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed || !s.wants(p) {
			continue
		}
		if _, there := at[key]; !there {
			at[key] = len(out)
			out = append(out, Row{
				Namespace: p.Namespace, Kind: view.KindPod, Name: group, Queue: p.Labels[kueue.QueueNameLabel], Title: p.Labels[TitleLabel],
				State: view.Held, Reason: reasonGroupIncomplete, Created: p.CreationTimestamp.UTC(),
			})
		}
		row := &out[at[key]]
		row.Pods++
		row.GPUs += gpusOf(&p.Spec)
		row.Slices = view.AddSlices(row.Slices, view.Slices(&p.Spec, 1))
		row.Message = fmt.Sprintf("%d of %s pods are created", row.Pods, wantedOf(p))
	}
	return out
}

// joined makes one line of those of one object, which may be queued in several parts: it is where
// that part is that is furthest from running.
func joined(rows []Row) (out []Row) {
	order := []view.State{view.Held, view.Waiting, view.Starting, view.Resetting, view.Stopping, view.Running}
	far := func(r *Row) int { return slices.Index(order, r.State) }
	at := map[view.Ref]int{}
	for i := range rows {
		r := rows[i]
		key := view.Ref{Kind: r.Kind, Namespace: r.Namespace, Name: r.Name}
		k, there := at[key]
		switch {
		case !there:
			at[key] = len(out)
			out = append(out, r)
			continue
		case far(&r) < 0: // it has ended, and others of it are there
			continue
		case far(&out[k]) < 0:
			out[k] = r
			continue
		}
		has := &out[k]
		pods, running, gpus, held, restarts := has.Pods+r.Pods, has.Running+r.Running, has.GPUs+r.GPUs, has.Held+r.Held, has.Restarts+r.Restarts
		parts, heldParts := view.AddSlices(has.Slices, r.Slices), view.AddSlices(has.heldSlices, r.heldSlices)
		nodes := slices.Compact(slices.Sorted(slices.Values(append(slices.Clone(has.Nodes), r.Nodes...))))
		started, created, trouble := has.Started, has.Created, cmp.Or(has.Trouble, r.Trouble)
		if r.Started != nil && (started == nil || r.Started.Before(*started)) {
			started = r.Started
		}
		if r.Created.Before(created) {
			created = r.Created
		}
		if far(&r) < far(has) {
			*has = r
		}
		has.Slices, has.heldSlices = parts, heldParts
		has.Pods, has.Running, has.GPUs, has.Held, has.Restarts, has.Nodes, has.Started, has.Created, has.Trouble = pods, running, gpus, held, restarts, nodes, started, created, trouble
	}
	return out
}
