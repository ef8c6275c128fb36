package admission

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// Labels say what pods tell of their admission.
type Labels struct {
	// NoQueues leaves the names of the queues off.
	NoQueues bool
	// PodGroups: PodGroups of Kubernetes are written for Workloads, and their pods name them.
	PodGroups bool
}

// Infos says what the admission adds to the pods of each pod set: the labels
// and tolerations of the assigned flavors, and whose pods they are.
func Infos(ctx context.Context, c client.Reader, w *kueue.Workload, o Labels) ([]jobs.PodSetInfo, error) {
	out, domains := make(
		[]jobs.PodSetInfo,
		0,
		len(w.Status.Admission.PodSetAssignments),
	), kueue.ComputeDomainClaims(
		w,
	)
	group, err := PodGroupOf(ctx, c, w, o)
	if err != nil {
		return nil, err
	}
	for _, a := range w.Status.Admission.PodSetAssignments {
		info := jobs.PodSetInfo{
			Name:         string(a.Name),
			Count:        ptr.Deref(a.Count, 0),
			Asked:        asked(w, a.Name),
			Annotations:  map[string]string{kueue.WorkloadAnnotation: w.Name},
			Labels:       map[string]string{kueue.PodSetLabel: string(a.Name)},
			NodeSelector: map[string]string{},
		}
		if template := domains[a.Name]; template != "" {
			info.Annotations[kueue.ComputeDomainClaimAnnotation] = template
		}
		if w.Annotations[kueue.StopNoticeAnnotation] != "" {
			info.Annotations[kueue.StopFileAnnotation] = "true"
		}
		if group == Written {
			info.Annotations[kueue.NativePodGroupAnnotation] = w.Name
		}
		if !o.NoQueues {
			queueLabels(info.Labels, w)
		}
		flavors := map[kueue.ResourceFlavorReference]bool{}
		for _, f := range a.Flavors {
			flavors[f] = true
		}
		for _, name := range slices.Sorted(maps.Keys(flavors)) {
			var f kueue.ResourceFlavor
			if err := c.Get(ctx, types.NamespacedName{Name: string(name)}, &f); err != nil {
				return nil, fmt.Errorf("read flavor %s assigned to workload %s/%s: %w", name, w.Namespace, w.Name, err)
			}
			maps.Copy(info.NodeSelector, f.Spec.NodeLabels)
			info.Tolerations = jobs.Tolerate(info.Tolerations, f.Spec.Tolerations)
		}
		out = append(out, info)
	}
	return out, nil
}

// asked is how many pods of a pod set a Workload asks for.
func asked(w *kueue.Workload, name kueue.PodSetReference) int32 {
	at := slices.IndexFunc(w.Spec.PodSets, func(ps kueue.PodSet) bool { return ps.Name == name })
	if at < 0 {
		return 0
	}
	return w.Spec.PodSets[at].Count
}

// Updated adds what the admission checks want the pods to have.
func Updated(infos []jobs.PodSetInfo, checks []kueue.AdmissionCheckState) ([]jobs.PodSetInfo, error) {
	for _, c := range checks {
		for _, u := range c.PodSetUpdates {
			at := slices.IndexFunc(infos, func(i jobs.PodSetInfo) bool { return i.Name == string(u.Name) })
			if at < 0 {
				return infos, fmt.Errorf("admission check %s: the job has no pod set %s", c.Name, u.Name)
			}
			next, err := infos[at].With(u)
			if err != nil {
				return infos, fmt.Errorf("admission check %s, pod set %s: %w", c.Name, u.Name, err)
			}
			infos[at] = next
		}
	}
	return infos, nil
}

// queueLabels tells on the pods which queues they came through. A name that is
// too long for a label is left out.
func queueLabels(labels map[string]string, w *kueue.Workload) {
	for key, name := range map[string]string{
		kueue.ClusterQueueNameLabel: string(w.Status.Admission.ClusterQueue),
		kueue.LocalQueueNameLabel:   string(w.Spec.QueueName),
	} {
		if name != "" && len(name) <= validation.LabelValueMaxLength {
			labels[key] = name
		}
	}
}
