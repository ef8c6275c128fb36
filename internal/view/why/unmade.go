package why

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/view"
	"github.com/mlbatch/mlbatch/internal/view/gather"
	"github.com/mlbatch/mlbatch/internal/words"
)

// lacks tells why an object that makes pods which serve has fewer of them than it is to have, if
// an event says so.
func (e *Explanation) lacks(p JobObjects) {
	n, _ := gather.Copies(p.Root())
	live := len(
		slices.DeleteFunc(slices.Clone(p.Pods), func(o corev1.Pod) bool { return o.DeletionTimestamp != nil }),
	)
	if p.Failed == nil || live == 0 || live >= int(n) {
		return
	}
	e.say(
		"%s of it could not be made, %s ago: %s",
		words.Count(int(n)-live, "pod"),
		p.ago(gather.When(p.Failed)),
		eventText(p.Failed),
	)
}

// servesQueued reports whether the pods of an object that makes pods which serve will be queued,
// though none of them may be there.
func (p *JobObjects) servesQueued() bool {
	return gather.Serves(p.Asked.Kind) &&
		(p.Root().GetLabels()[kueue.QueueNameLabel] != "" || p.Team && len(p.Pods) == 0)
}

// makersOfServers adds what makes the pods of a Deployment, or of groups, in its stead: there
// Kubernetes tells what could not be made.
func (p *JobObjects) makersOfServers(ctx context.Context, c client.Reader, out map[string]bool) error {
	kind := view.KindStatefulSet
	if p.Deployment != nil {
		kind = view.KindReplicaSet
	}
	groups := gather.Grouped(p.Asked.Kind)
	if p.Deployment == nil && groups == nil {
		return nil
	}
	var list metav1.PartialObjectMetadataList
	list.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind(string(kind) + "List"))
	if err := gather.Readable(c.List(ctx, &list, client.InNamespace(p.Asked.Namespace))); err != nil {
		return fmt.Errorf("list %ss: %w", kind, err)
	}
	for i := range list.Items {
		o := &list.Items[i]
		if metav1.IsControlledBy(o, p.Root()) ||
			groups != nil && o.Labels[groups.NameLabel] == p.Asked.Name {
			out[string(kind)+"/"+o.Name] = true
		}
	}
	return nil
}
