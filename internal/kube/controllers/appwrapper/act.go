package appwrapper

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	awv1beta2 "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	"github.com/mlbatch/mlbatch/internal/engine/lifecycle"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/appwrapper"
)

// parallelDeletes bounds how many pods of one AppWrapper are deleted at once.
const parallelDeletes = 16

// errForeign means that an object with a component's name belongs to others.
var errForeign = errors.New(
	"an object of this name exists and does not belong to the AppWrapper; rename the component or delete the object",
)

// errGoing means that an earlier object of a component is not gone yet.
var errGoing = errors.New("the previous object of this name is still being deleted")

// create makes the components that do not exist, in order, and notes the
// outcome in the facts.
func (a *attempt) create(ctx context.Context) {
	for i, c := range a.components {
		if a.facts.Components[i].Exists {
			continue
		}
		uid, err := a.createOne(ctx, c)
		if err != nil {
			a.failedAt = i
			a.facts.CreateError = &lifecycle.CreateError{Component: c.Title(), Message: err.Error(), Fatal: fatal(err)}
			return
		}
		a.facts.Components[i].Exists = true
		a.uids[i] = uid
	}
}

// injectError wraps what is wrong with a component itself.
type injectError struct{ error }

func (e injectError) Unwrap() error { return e.error }

func (a *attempt) createOne(ctx context.Context, c appwrapper.Component) (types.UID, error) {
	object, err := appwrapper.Inject(a.w, c, a.w.Spec.Components[c.Index].PodSetInfos, a.inject)
	if err != nil {
		return "", injectError{err}
	}
	err = a.client.Create(ctx, object)
	if err == nil {
		a.made.add(client.ObjectKeyFromObject(a.w), object.GetUID())
	}
	if !apierrors.IsAlreadyExists(err) {
		return object.GetUID(), err
	}
	// Ours from before a crash, or another owner's. Owners are told apart by UID: an
	// AppWrapper of the same name that was deleted is another one.
	there, err := a.find(ctx, c, fresh)
	switch {
	case err != nil:
		return "", err
	case there == nil:
		return "", errGoing
	case (c.UID == "" || there.GetUID() != c.UID) && !metav1.IsControlledBy(there, a.w):
		return "", errForeign
	case there.GetDeletionTimestamp() != nil:
		return "", errGoing
	case there.GetUID() == c.UID:
		return c.UID, nil // the cache did not show it
	case a.made.has(client.ObjectKeyFromObject(a.w), there.GetUID()):
		return there.GetUID(), nil // it could not be recorded
	}
	return "", a.disown(ctx, c, there.GetUID())
}

// disown deletes an object that says it is ours and that was not recorded. It may
// be from before a crash, and then nothing is lost by creating it again; but
// a user who may write owner references may have made it, with other pods.
func (a *attempt) disown(ctx context.Context, c appwrapper.Component, uid types.UID) error {
	newest := &awv1beta2.AppWrapper{}
	if err := a.live.Get(ctx, client.ObjectKeyFromObject(a.w), newest); err != nil {
		return err
	}
	if newest.ResourceVersion != a.w.ResourceVersion {
		return apierrors.NewConflict(awv1beta2.GroupVersion.WithResource("appwrappers").GroupResource(), a.w.Name,
			errors.New("it was recorded meanwhile"))
	}
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(c.GVK)
	object.SetNamespace(c.Namespace)
	object.SetName(c.Name)
	err := gone(
		a.client.Delete(
			ctx,
			object,
			client.PropagationPolicy(metav1.DeletePropagationBackground),
			client.Preconditions{UID: &uid},
		),
	)
	if err != nil {
		return fmt.Errorf("delete %s, which was not recorded: %w", c.Title(), err)
	}
	return errGoing
}

// fatal reports whether creating again would end the same way.
func fatal(err error) bool {
	var inject injectError
	return errors.As(err, &inject) || errors.Is(err, errForeign) ||
		apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || meta.IsNoMatchError(err)
}

// deleteComponents deletes what is not marked yet. What they own goes in the
// background.
func (a *attempt) deleteComponents(ctx context.Context, opts ...client.DeleteOption) error {
	var errs []error
	for i, c := range a.components {
		f := a.facts.Components[i]
		if !f.Exists || f.Deleting && len(opts) == 0 {
			continue
		}
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(c.GVK)
		object.SetNamespace(c.Namespace)
		object.SetName(c.Name)
		all := append([]client.DeleteOption{
			client.PropagationPolicy(metav1.DeletePropagationBackground), client.Preconditions{UID: &a.uids[i]},
		}, opts...)
		if err := gone(a.client.Delete(ctx, object, all...)); err != nil && (f.Unreadable == "" || !hopeless(err)) {
			errs = append(errs, fmt.Errorf("delete %s: %w", c.Title(), err))
		}
	}
	return errors.Join(errs...)
}

// deletePods deletes the pods at once, besides the components that own them:
// the garbage collector would take its time, and the nodes are waited for.
func (a *attempt) deletePods(ctx context.Context, opts ...client.DeleteOption) error {
	var wg sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	slots := make(chan struct{}, parallelDeletes)
	for _, p := range a.facts.Pods {
		if p.Deleting && len(opts) == 0 {
			continue
		}
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			if err := a.deletePod(ctx, p, opts); err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, err)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (a *attempt) deletePod(ctx context.Context, p lifecycle.Pod, opts []client.DeleteOption) error {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: a.w.Namespace, Name: p.Name}}
	uid := types.UID(p.UID)
	all := append([]client.DeleteOption{client.Preconditions{UID: &uid}}, opts...)
	if err := gone(a.client.Delete(ctx, pod, all...)); err != nil {
		return fmt.Errorf("delete pod %s: %w", p.Name, err)
	}
	return nil
}

// deleteRemakers deletes what makes pods of the AppWrapper while it deletes them.
func (a *attempt) deleteRemakers(ctx context.Context) error {
	var errs []error
	for _, uid := range slices.Sorted(maps.Keys(a.remakers)) {
		maker := a.remakers[uid]
		o := &metav1.PartialObjectMetadata{
			TypeMeta:   metav1.TypeMeta{APIVersion: maker.APIVersion, Kind: maker.Kind},
			ObjectMeta: metav1.ObjectMeta{Namespace: a.w.Namespace, Name: maker.Name},
		}
		err := gone(
			a.client.Delete(
				ctx,
				o,
				client.PropagationPolicy(metav1.DeletePropagationBackground),
				client.Preconditions{UID: &uid},
			),
		)
		if err != nil {
			errs = append(errs, fmt.Errorf("delete %s %s, which makes pods anew: %w", maker.Kind, maker.Name, err))
		}
	}
	return errors.Join(errs...)
}

// forceDelete leaves no time to end. Components wait until no pod is left:
// their controllers may be what is needed to let the pods go. What they own is
// deleted before them: it would make pods for as long as something keeps them.
func (a *attempt) forceDelete(ctx context.Context) error {
	now, first := client.GracePeriodSeconds(0), client.PropagationPolicy(metav1.DeletePropagationForeground)
	if len(a.facts.Pods) > 0 {
		return errors.Join(a.deleteComponents(ctx, first), a.deleteRemakers(ctx), a.deletePods(ctx, now))
	}
	return a.deleteComponents(ctx, now, first)
}

// gone treats an object that is not there, or is another one by now, as
// deleted.
func gone(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) || meta.IsNoMatchError(err) {
		return nil
	}
	return err
}
