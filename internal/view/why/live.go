package why

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appwrapper "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	podgroup "github.com/mlbatch/mlbatch/api/podgroup/v1alpha1"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/view"
	"github.com/mlbatch/mlbatch/internal/view/gather"
)

// ListOf is an empty list of objects of a kind.
func ListOf(k view.Kind) (client.ObjectList, error) {
	if job := gather.KindOf(k); job != nil {
		return gather.ListOf(job)
	}
	if groups := gather.Grouped(k); groups != nil {
		return gather.ListOfGroups(groups)
	}
	switch k {
	case view.KindWorkload:
		return &kueue.WorkloadList{}, nil
	case view.KindPodGroup:
		return &podgroup.PodGroupList{}, nil
	case view.KindDeployment:
		return &appsv1.DeploymentList{}, nil
	case view.KindPod:
		return &corev1.PodList{}, nil
	default:
		return nil, fmt.Errorf("kind %s is not known", k)
	}
}

// Facts is how the job stands, as far as its objects say.
func (p *JobObjects) Facts() view.Standing { return view.StandingOf(p.objects()) }

// Owns reports whether a pod belongs to the job.
func (p *JobObjects) Owns(pod *corev1.Pod) bool { return p.owns(pod) }

// Update puts a newer state of an object into them, or takes one away that is gone. It
// reports whether the object is one of them.
func (p *JobObjects) Update(o client.Object, gone bool) bool { //nolint:revive // a fact
	if w, is := o.(*kueue.Workload); is && p.updateWorkload(w, gone) {
		return true
	}
	root := p.Root()
	if root != nil && root.GetUID() == o.GetUID() && !gone {
		p.setRoot(o)
	}
	pod, is := o.(*corev1.Pod)
	if !is {
		return root != nil && root.GetUID() == o.GetUID()
	}
	// What is known to be a pod of the job stays one when the Workload that said so is gone.
	kept := slices.DeleteFunc(slices.Clone(p.Pods), func(has corev1.Pod) bool { return has.UID == pod.UID })
	if len(kept) == len(p.Pods) && !p.owns(pod) {
		return false
	}
	if p.Pods = kept; !gone {
		p.Pods = append(p.Pods, *pod)
	}
	return true
}

// updateWorkload takes over a Workload of the job, if it speaks for the job rather than the one
// that is known.
func (p *JobObjects) updateWorkload(w *kueue.Workload, gone bool) bool { //nolint:revive // a fact
	has := p.Workload
	if has != nil && has.UID == w.UID {
		if p.Workload = w; gone && p.Root() != client.Object(w) {
			p.Workload = nil
		}
		return true
	}
	root := p.Root()
	if root == nil || w.Labels[kueue.JobUIDLabel] != string(root.GetUID()) || gone ||
		has != nil && !gather.Newer(w, has) {
		return false
	}
	p.Workload = w
	return true
}

// setRoot replaces the object of the job itself.
func (p *JobObjects) setRoot(o client.Object) {
	switch o := o.(type) {
	case *appwrapper.AppWrapper:
		p.AppWrapper = o
	case *batchv1.Job:
		p.Job = o
	case *podgroup.PodGroup:
		p.PodGroup = o
	case *appsv1.Deployment:
		p.Deployment = o
	case *corev1.Pod:
		p.Pod = o
	case jobs.Object:
		p.Other = o
	}
}
