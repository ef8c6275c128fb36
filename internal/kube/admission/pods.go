package admission

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
)

// Pods are what the pods of a Workload say about it.
type Pods struct {
	// Live is how many hold quota: see core.PodState.
	Live int
	// Of is how many of them are of each pod set that has any.
	Of map[kueue.PodSetReference]int
	// Leaving is how many of them are being deleted.
	Leaving int
	// Bound is how many of them have a node.
	Bound int
	// Refused is since when the scheduler has found no place for one of them, and
	// Why what it says; or where it finds places for all, on which nodes refuse them for good, since when they do. Zero
	// if all is well.
	Refused time.Time
	Why     string
	// Nodes are the nodes that refuse the pods for good.
	Nodes []convert.Refusal
	// Behind is true while one waits for the place of a deleted one.
	Behind bool
}

// ListPods are the pods of a Workload, by a reader with PodIndex. They are the cache's own and must not be changed.
func ListPods(ctx context.Context, c client.Reader, namespace, workload string) ([]corev1.Pod, error) {
	var pods corev1.PodList
	if err := c.List(
		ctx,
		&pods,
		client.InNamespace(namespace),
		client.MatchingFields{PodIndex: workload},
		client.UnsafeDisableDeepCopy,
	); err != nil {
		return nil, fmt.Errorf("list pods of workload %s/%s: %w", namespace, workload, err)
	}
	return pods.Items, nil
}

// PodsOf looks at the pods of a Workload.
func PodsOf(ctx context.Context, c client.Reader, namespace, workload string) (Pods, error) {
	pods, err := ListPods(ctx, c, namespace, workload)
	if err != nil {
		return Pods{}, err
	}
	return CountPods(pods), nil
}

// Trouble is what keeps one of the pods of a Workload from being ready, as the runtime tells it or, if
// it ended, how: what the first of them by name tells that tells something; "" if none does.
func Trouble(pods []corev1.Pod) string {
	name, said := "", ""
	for i := range pods {
		p := &pods[i]
		if said != "" && p.Name > name {
			continue
		}
		if text := hindrance(p); text != "" {
			name, said = p.Name, fmt.Sprintf("pod %s: %s", p.Name, text)
		}
	}
	return said
}

// longestTrouble bounds what is told of one pod: a runtime may have much to say.
const longestTrouble = 512

// hindrance is what keeps the containers of a pod from running; "" if nothing is known.
func hindrance(p *corev1.Pod) string {
	text := ""
	for _, s := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		ended := s.State.Terminated
		if ended == nil {
			ended = s.LastTerminationState.Terminated
		}
		waits := convert.Stuck(&s)
		switch {
		case waits != nil:
			text = strings.TrimSuffix(waits.Reason+": "+waits.Message, ": ")
			if ended != nil {
				text += ", after it ended with " + endOf(ended)
			}
		case ended != nil && ended.ExitCode != 0:
			text = "it ended with " + endOf(ended)
		default:
			continue
		}
		break
	}
	if text == "" && p.Status.Phase == corev1.PodFailed {
		text = strings.TrimSuffix(p.Status.Reason+": "+p.Status.Message, ": ")
	}
	if _, why := refused(p); text == "" {
		text = why
	}
	if len(text) > longestTrouble {
		text = strings.ToValidUTF8(text[:longestTrouble], "") + "..."
	}
	return text
}

// endOf is how a container ended.
func endOf(t *corev1.ContainerStateTerminated) string {
	text := fmt.Sprintf("exit code %d", t.ExitCode)
	if t.Reason != "" && t.Reason != "Error" {
		text += " (" + t.Reason + ")"
	}
	if t.Message != "" {
		text += ": " + t.Message
	}
	return text
}

// PodsNow is PodsOf by a reader without an index, the API server: pods that carry the label of
// their pod set, as those do that were made with an admission.
func PodsNow(ctx context.Context, live client.Reader, namespace, workload string) (Pods, error) {
	var pods corev1.PodList
	if err := live.List(
		ctx,
		&pods,
		client.InNamespace(namespace),
		client.HasLabels{kueue.PodSetLabel},
	); err != nil {
		return Pods{}, fmt.Errorf("list pods of workload %s/%s: %w", namespace, workload, err)
	}
	return CountPods(slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool {
		return p.Annotations[kueue.WorkloadAnnotation] != workload
	})), nil
}

// CountPods is what the pods of one Workload say about it.
func CountPods(pods []corev1.Pod) Pods {
	out, told := Pods{Of: map[kueue.PodSetReference]int{}}, time.Time{}
	for i := range pods {
		p := &pods[i]
		if !convert.PodState(p).HoldsQuota() {
			continue
		}
		out.Live++
		if p.DeletionTimestamp != nil {
			out.Leaving++
		}
		out.Of[kueue.PodSetReference(convert.PodSetOf(p))]++
		if p.Spec.NodeName != "" {
			out.Bound++
		}
		out.Nodes = append(out.Nodes, convert.PodRefusals(p)...)
		if since := convert.RefusedSince(p); !since.IsZero() && (told.IsZero() || since.Before(told)) {
			told = since
		}
		since, why := refused(p)
		if strings.Contains(why, convert.PlaceKept) {
			out.Behind = true
			continue // it is no node that refuses it
		}
		if !since.IsZero() && (out.Refused.IsZero() || since.Before(out.Refused)) {
			out.Refused, out.Why = since, why
		}
	}
	if out.Refused.IsZero() { // a pod that could not be bound to its node is not unschedulable
		out.Refused = told
	}
	return out
}

// refused is since when a pod has been refused by every node, and why.
func refused(p *corev1.Pod) (time.Time, string) {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse &&
			c.Reason == corev1.PodReasonUnschedulable &&
			p.DeletionTimestamp == nil {
			return c.LastTransitionTime.Time, c.Message
		}
	}
	return time.Time{}, ""
}

// unplaced reports whether the scheduler found no place for a pod.
func unplaced(o client.Object) bool {
	p, ok := o.(*corev1.Pod)
	if !ok {
		return false
	}
	since, _ := refused(p)
	return !since.IsZero()
}

// told reports whether the scheduler said of a pod that nodes refuse it for good.
func told(o client.Object) bool {
	p, ok := o.(*corev1.Pod)
	return ok && len(convert.PodRefusals(p)) > 0
}

// PodsEnding lets through the events after which a Workload may have fewer
// unfinished pods, or pods that no node takes.
func PodsEnding() builder.Predicates { return builder.WithPredicates(endings()) }

func endings() predicate.Funcs {
	live := func(o client.Object) bool {
		p, ok := o.(*corev1.Pod)
		return ok && convert.PodState(p).HoldsQuota()
	}
	return predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return false },
		DeleteFunc:  func(event.DeleteEvent) bool { return true },
		GenericFunc: func(event.GenericEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return live(e.ObjectOld) && !live(e.ObjectNew) || !unplaced(e.ObjectOld) && unplaced(e.ObjectNew) ||
				!told(e.ObjectOld) && told(e.ObjectNew)
		},
	}
}
