package provisioning

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/mlbatch/mlbatch/api/autoscaling"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/workloadstatus"
)

// reconciler answers the checks of workloads.
type reconciler struct{ Options }

// goingPause is how long to wait for a request of the same name to be gone.
const goingPause = time.Second

// Reconcile does the next step for one workload.
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	f, ok, err := r.gather(ctx, req.NamespacedName)
	if err != nil || !ok {
		return reconcile.Result{}, err
	}
	next := decide(f)
	for _, old := range next.remove {
		if err := r.remove(ctx, old); err != nil {
			return reconcile.Result{}, err
		}
	}
	pause := time.Duration(0)
	for _, d := range next.create {
		err := r.create(ctx, f.workload, d)
		switch {
		case apierrors.IsAlreadyExists(err): // it is going, or not seen yet
			pause = goingPause
		case err != nil:
			r.Recorder.Eventf(
				f.workload,
				nil,
				corev1.EventTypeWarning,
				kueue.EventFailedCreate,
				"Provision",
				"%s",
				err.Error(),
			)
			return reconcile.Result{}, err
		default:
			r.Recorder.Eventf(
				f.workload,
				nil,
				corev1.EventTypeNormal,
				"ProvisioningRequestCreated",
				"Provision",
				"Created ProvisioningRequest %s",
				d.request.Name,
			)
		}
	}
	if err := r.answer(ctx, f.workload, next.states); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: pause}, nil
}

// answer writes the states of checks, all in one write, and tells of those that
// changed.
func (r *reconciler) answer(
	ctx context.Context,
	w *kueue.Workload,
	states []kueue.AdmissionCheckState,
) error {
	if len(states) == 0 {
		return nil
	}
	next := w.Status.DeepCopy()
	var told []string
	for _, s := range states {
		for i := range next.AdmissionChecks {
			have := &next.AdmissionChecks[i]
			if have.Name != s.Name {
				continue
			}
			if have.State != s.State {
				told = append(
					told,
					fmt.Sprintf("Admission check %s went from %s to %s: %s", s.Name, have.State, s.State, s.Message),
				)
			}
			*have = s
		}
	}
	err := workloadstatus.Write(ctx, r.Client, w, *next)
	if workloadstatus.Overtaken(err) {
		return nil // the newer object is on its way here
	}
	if err != nil {
		return fmt.Errorf("answer the checks of workload %s/%s: %w", w.Namespace, w.Name, err)
	}
	for _, text := range told {
		r.Recorder.Eventf(w, nil, corev1.EventTypeNormal, "AdmissionCheckUpdated", "Provision", "%s", text)
	}
	return nil
}

// gather reads what decide needs to know. The second result is false if the
// workload is gone.
func (r *reconciler) gather(ctx context.Context, name types.NamespacedName) (facts, bool, error) {
	f := facts{
		workload: &kueue.Workload{},
		flavors:  map[kueue.ResourceFlavorReference]*kueue.ResourceFlavor{},
		now:      r.Clock.Now(),
	}
	if err := r.Client.Get(ctx, name, f.workload); err != nil {
		return f, false, client.IgnoreNotFound(err)
	}
	var requests autoscaling.ProvisioningRequestList
	if err := r.Client.List(ctx, &requests, client.InNamespace(name.Namespace)); err != nil {
		return f, false, fmt.Errorf("list ProvisioningRequests: %w", err)
	}
	for i := range requests.Items {
		q := &requests.Items[i]
		if q.DeletionTimestamp == nil && metav1.IsControlledBy(q, f.workload) {
			f.requests = append(f.requests, q)
		}
	}
	for _, s := range f.workload.Status.AdmissionChecks {
		var c kueue.AdmissionCheck
		err := r.Client.Get(ctx, types.NamespacedName{Name: string(s.Name)}, &c)
		if apierrors.IsNotFound(err) ||
			(err == nil && c.Spec.ControllerName != kueue.ProvisioningRequestControllerName) {
			continue
		}
		if err != nil {
			return f, false, fmt.Errorf("read AdmissionCheck %s: %w", s.Name, err)
		}
		config, err := configuration(ctx, r.Client, &c)
		if err != nil {
			return f, false, err
		}
		f.checks = append(f.checks, check{s.Name, config})
	}
	return f, true, r.readFlavors(ctx, &f)
}

func (r *reconciler) readFlavors(ctx context.Context, f *facts) error {
	if f.workload.Status.Admission == nil || len(f.checks) == 0 {
		return nil
	}
	for _, a := range f.workload.Status.Admission.PodSetAssignments {
		for _, name := range a.Flavors {
			var flavor kueue.ResourceFlavor
			err := r.Client.Get(ctx, types.NamespacedName{Name: string(name)}, &flavor)
			if client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("read flavor %s: %w", name, err)
			}
			if err == nil {
				f.flavors[name] = &flavor
			}
		}
	}
	return nil
}

// create makes the templates and then the request that refers to them. A
// template that is left from a cut-off attempt is overwritten.
func (r *reconciler) create(ctx context.Context, w *kueue.Workload, d demand) error {
	for _, t := range d.templates {
		if err := controllerutil.SetControllerReference(w, t, r.Client.Scheme()); err != nil {
			return fmt.Errorf("own pod template %s: %w", t.Name, err)
		}
		err := r.Client.Create(ctx, t)
		if apierrors.IsAlreadyExists(err) {
			err = r.Client.Update(ctx, t)
		}
		if err != nil {
			return fmt.Errorf("create pod template %s/%s: %w", t.Namespace, t.Name, err)
		}
	}
	if err := controllerutil.SetControllerReference(w, d.request, r.Client.Scheme()); err != nil {
		return fmt.Errorf("own ProvisioningRequest %s: %w", d.request.Name, err)
	}
	if err := r.Client.Create(ctx, d.request); err != nil {
		return fmt.Errorf("create ProvisioningRequest %s/%s: %w", d.request.Namespace, d.request.Name, err)
	}
	return nil
}

// remove deletes a request of ours and its templates.
func (r *reconciler) remove(ctx context.Context, old *autoscaling.ProvisioningRequest) error {
	for _, ps := range old.Spec.PodSets {
		t := &corev1.PodTemplate{
			ObjectMeta: metav1.ObjectMeta{Namespace: old.Namespace, Name: ps.PodTemplateRef.Name},
		}
		if err := r.Client.Delete(ctx, t); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete pod template %s/%s: %w", t.Namespace, t.Name, err)
		}
	}
	err := r.Client.Delete(ctx, old, client.Preconditions{UID: &old.UID})
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return fmt.Errorf("delete ProvisioningRequest %s/%s: %w", old.Namespace, old.Name, err)
}
