package why

import (
	"context"
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/kinds"
	"github.com/mlbatch/mlbatch/internal/view"
	"github.com/mlbatch/mlbatch/internal/view/gather"
)

// unqueuedHelps are the reasons of events that tell why a job has no Workload, with what helps.
func unqueuedHelps() map[string]string {
	return map[string]string{
		// The API server did not let it be created.
		"WorkloadRefused":          "delete jobs of the namespace that have ended, or ask an administrator to let it have more",
		"PrebuiltWorkloadTaken":    "remove the label or annotation " + kueue.PrebuiltWorkloadLabel + ", or name a Workload in it that is of no group and of no other job",
		"PrebuiltWorkloadNotFound": "make the Workload that its label or annotation " + kueue.PrebuiltWorkloadLabel + " names, or remove that",
		"BasisNotFound":            "make what that names, or name what there is",
		"BasisNotRecorded":         "make what it names smaller, or name something else: cancel the job, and submit it again",
		"ErrWorkloadCompose":       "correct what that names: cancel the job, and submit it again",
		"JobNestingTooDeep":        "submit it with fewer objects above it",
	}
}

// eventText is what an event says.
func eventText(e *corev1.Event) string {
	return fmt.Sprintf("%s %s: %s", e.InvolvedObject.Kind, e.InvolvedObject.Name, e.Message)
}

// findEvents looks for what only events say: why pods could not be made, that they got
// other nodes, and why there is no Workload.
func (p *JobObjects) findEvents(ctx context.Context, c client.Reader) error {
	var all corev1.EventList
	if err := c.List(ctx, &all, client.InNamespace(p.Asked.Namespace)); err != nil {
		return gather.Readable(err)
	}
	makers, err := p.makers(ctx, c)
	if err != nil {
		return err
	}
	for i := range all.Items {
		e := &all.Items[i]
		of := e.InvolvedObject
		switch {
		case gather.Unmade(e.Reason) && makers[of.Kind+"/"+of.Name] && gather.Later(e, p.Failed):
			p.Failed = e
		case e.Reason == gather.Moved && p.Workload != nil && of.Name == p.Workload.Name && gather.Later(e, p.Moved):
			p.Moved = e
		case unqueuedHelps()[e.Reason] != "" && of.Kind == string(p.Asked.Kind) && of.Name == p.Asked.Name && gather.Later(e, p.Refused):
			p.Refused = e
		case e.Reason == gather.NotEvacuated && p.concerns(of) && gather.Later(e, p.Stays):
			p.Stays = e
		}
	}
	p.Hindered = p.hindered(all.Items, makers)
	if p.Failed == nil && p.Set != nil {
		if p.Failed, err = gather.TakenName(ctx, c, p.Set, p.Pods); err != nil {
			return err
		}
	}
	if p.Stays != nil && !p.driven(ctx, c) {
		p.Stays = nil
	}
	return nil
}

// hindered is the last warning about a pod of the job, of those too that are gone and that who makes
// them told of; nil if there is none.
func (p *JobObjects) hindered(all []corev1.Event, makers map[string]bool) (last *corev1.Event) {
	pods := map[string]bool{}
	for i := range p.Pods {
		pods[p.Pods[i].Name] = true
	}
	for i := range all {
		of := all[i].InvolvedObject
		if m := created.FindStringSubmatch(all[i].Message); m != nil && makers[of.Kind+"/"+of.Name] {
			pods[m[1]] = true
		}
	}
	for i := range all {
		e := &all[i]
		if e.Type == corev1.EventTypeWarning && e.InvolvedObject.Kind == string(view.KindPod) &&
			pods[e.InvolvedObject.Name] &&
			gather.Later(e, last) {
			last = e
		}
	}
	return last
}

// concerns reports whether an object is the job or one of its pods.
func (p *JobObjects) concerns(of corev1.ObjectReference) bool {
	return of.Kind == string(p.Asked.Kind) && of.Name == p.Asked.Name ||
		of.Kind == string(view.KindPod) &&
			slices.ContainsFunc(p.Pods, func(o corev1.Pod) bool { return o.Name == of.Name })
}

// driven reports whether a pod of the job is still on a node that drives it off, as far as the
// user may read nodes.
func (p *JobObjects) driven(ctx context.Context, c client.Reader) bool {
	for i := range p.Pods {
		pod := &p.Pods[i]
		if pod.Spec.NodeName == "" || pod.Status.Phase == corev1.PodSucceeded ||
			pod.Status.Phase == corev1.PodFailed {
			continue
		}
		var n corev1.Node
		switch err := c.Get(ctx, client.ObjectKey{Name: pod.Spec.NodeName}, &n); {
		case err == nil && jobs.MustLeave(pod, &n, jobs.AvoidBadGPUs()) != "":
			return true
		case apierrors.IsForbidden(err):
			return true // the event is all that there is to know
		}
	}
	return false
}

// makers are the objects that make the job's pods, as KIND/NAME.
func (p *JobObjects) makers(ctx context.Context, c client.Reader) (map[string]bool, error) {
	out := map[string]bool{string(p.Asked.Kind) + "/" + p.Asked.Name: true}
	var root client.Object
	switch {
	case p.AppWrapper != nil:
		root = p.AppWrapper
		for _, s := range p.AppWrapper.Status.ComponentStatus {
			out[s.Kind+"/"+s.Name] = true
		}
	case p.Other != nil:
		root = p.Other
	case p.Deployment != nil, p.Set != nil:
		return out, p.makersOfServers(ctx, c, out)
	default:
		return out, nil
	}
	ours := map[types.UID]bool{root.GetUID(): true}
	members, err := p.members(ctx, c)
	for range nesting {
		before := len(ours)
		for i := range members {
			o := &members[i]
			if owner := metav1.GetControllerOf(o); owner != nil && ours[owner.UID] {
				ours[o.UID], out[o.Kind+"/"+o.Name] = true, true
			}
		}
		if len(ours) == before {
			break
		}
	}
	return out, err
}

// members are all objects of the namespace that jobs can be made of besides pods.
func (p *JobObjects) members(
	ctx context.Context,
	c client.Reader,
) (out []metav1.PartialObjectMetadata, err error) {
	all := kinds.All()
	wanted := []schema.GroupVersionKind{batchv1.SchemeGroupVersion.WithKind(string(view.KindJob))}
	for _, child := range all.Children() {
		if !slices.Contains(wanted, child.GVK) {
			wanted = append(wanted, child.GVK)
		}
	}
	for _, gvk := range wanted {
		var list metav1.PartialObjectMetadataList
		list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
		err := c.List(ctx, &list, client.InNamespace(p.Asked.Namespace))
		if err := gather.Readable(err); err != nil && !apimeta.IsNoMatchError(err) {
			return nil, fmt.Errorf("list %ss: %w", gvk.Kind, err)
		}
		for i := range list.Items {
			list.Items[i].Kind = gvk.Kind
		}
		out = append(out, list.Items...)
	}
	return out, nil
}

// ran reports whether a pod of the job began to run, as far as pods are left.
func (p *JobObjects) ran() bool {
	for i := range p.Pods {
		if p.Pods[i].Status.StartTime != nil || p.Pods[i].Status.Phase != corev1.PodPending {
			return true
		}
	}
	return false
}
