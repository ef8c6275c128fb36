package why

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/view"
	"github.com/mlbatch/mlbatch/internal/view/gather"
	"github.com/mlbatch/mlbatch/internal/words"
)

// findGroup finds the pods of a group that has no Workload yet; false if there are none.
func findGroup(ctx context.Context, c client.Reader, ref view.Ref) (JobObjects, bool, error) {
	if ref.Kind != "" && ref.Kind != view.KindGroup {
		return JobObjects{}, false, nil
	}
	var list corev1.PodList
	if err := c.List(
		ctx,
		&list,
		client.InNamespace(ref.Namespace),
		client.MatchingLabels{kueue.PodGroupNameLabel: ref.Name},
	); err != nil {
		return JobObjects{}, false, gather.Readable(err)
	}
	p := JobObjects{Asked: view.Ref{Kind: view.KindGroup, Namespace: ref.Namespace, Name: ref.Name}}
	p.Pods = slices.DeleteFunc(list.Items, func(o corev1.Pod) bool { return !gather.Held(&o) })
	slices.SortFunc(p.Pods, func(a, b corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	if len(p.Pods) == 0 {
		return p, false, nil
	}
	var events corev1.EventList
	if err := c.List(ctx, &events, client.InNamespace(ref.Namespace)); err != nil {
		return JobObjects{}, false, gather.Readable(err)
	}
	p.Refused = gather.HeldBy(events.Items, p.Pods)
	return p, true, nil
}

// incompleteGroup tells of a group of which pods are missing, or of which something says that it cannot be one.
func incompleteGroup(p JobObjects, e *Explanation) {
	var names []string
	for i := range p.Pods {
		names = append(names, p.Pods[i].Name)
	}
	e.State, e.Reason = view.Held, gather.ReasonGroupIncomplete
	n := len(names)
	there := fmt.Sprintf(
		"there %s %s: %s",
		words.Is(n),
		words.Count(n, "pod"),
		strings.Join(names[:min(n, 5)], ", "),
	)
	e.Helps = "create the missing pods, with the same label " + kueue.PodGroupNameLabel + "; kubectl describe says if the pods contradict each other"
	switch says := p.Refused; {
	case says != nil && says.Reason != gather.ReasonGroupIncomplete:
		e.Reason = says.Reason
		e.say("%s is held. %s.", e.Object, says.Message)
		e.Helps = "see to what that names: it is looked at again by itself, and the group starts when its turn comes"
	case gather.Described(&p.Pods[0]):
		e.say("%s is held until all of its pods are created; %s", e.Object, there)
		if says != nil {
			e.say("%s.", says.Message)
		}
		e.Helps = "create the missing pods, so that they name the group as these do"
	default:
		e.say("%s is held until all %s pods of it are created; %s", e.Object, gather.WantedOf(&p.Pods[0]), there)
	}
}
