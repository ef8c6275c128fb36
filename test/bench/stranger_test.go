package bench_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	restclient "k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
)

// strangerUser is the user of the driver that mlbatch knows nothing of, and
// strangerOwner the owner of the fields that it writes.
const (
	strangerUser  = "load-driver"
	strangerOwner = client.FieldOwner("load-driver")
)

// stranger ends workloads as a controller of another project would: from an
// informer, with one worker, which says by server-side apply that a workload has
// finished, and clears the reservation of one that was evicted. It is a user of
// its own, so that admission plugins and webhooks see all that it writes.
type stranger struct {
	*load
	client client.Client
	cache  cache.Cache
	todo   workqueue.TypedDelayingInterface[string]

	mu     sync.Mutex
	ends   map[string]time.Time // by name: when the turn of an admitted workload is over
	ended  map[string]bool
	begun  map[string]string // by name: the reservation that ends belongs to
	failed error
}

// stranger makes the user with the rights that such a driver needs.
func (bd bed) stranger(b *testing.B) client.Client {
	b.Helper()
	for _, o := range []client.Object{
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: strangerUser}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{kueue.GroupVersion.Group}, Resources: []string{"workloads"}, Verbs: []string{"create", "get", "list", "watch"}},
			{APIGroups: []string{kueue.GroupVersion.Group}, Resources: []string{"workloads/status"}, Verbs: []string{"get", "patch", "update"}},
		}},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: strangerUser},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: strangerUser}},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: strangerUser},
		},
	} {
		if err := bd.client.Create(b.Context(), o); err != nil {
			b.Fatal(err)
		}
	}
	c, err := client.New(bd.asStranger(), client.Options{Scheme: scheme.New()})
	if err != nil {
		b.Fatal(err)
	}
	return c
}

func (bd bed) asStranger() *restclient.Config {
	cfg := bd.RESTConfig()
	cfg.Impersonate.UserName = strangerUser
	return cfg
}

// finishAll ends all workloads.
func (s *stranger) finishAll(ctx context.Context, total int) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	s.ends, s.ended, s.begun = map[string]time.Time{}, map[string]bool{}, map[string]string{}
	s.todo = workqueue.NewTypedDelayingQueue[string]()
	var err error
	if s.cache, err = cache.New(
		s.asStranger(),
		cache.Options{Scheme: scheme.New(), DefaultNamespaces: map[string]cache.Config{team: {}}},
	); err != nil {
		return fmt.Errorf("watch workloads: %w", err)
	}
	informer, err := s.cache.GetInformer(ctx, &kueue.Workload{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watch workloads: %w", err)
	}
	runs := s.byPriority()
	see := func(o any) {
		if w, ok := o.(*kueue.Workload); ok && w.Spec.Priority != nil {
			s.see(w, runs[*w.Spec.Priority])
		}
	}
	if _, err := informer.AddEventHandler(
		toolscache.ResourceEventHandlerFuncs{AddFunc: see, UpdateFunc: func(_, o any) { see(o) }},
	); err != nil {
		return fmt.Errorf("watch workloads: %w", err)
	}
	var watch sync.WaitGroup
	defer watch.Wait()
	defer stop()
	watch.Go(func() {
		if err := s.cache.Start(ctx); err != nil {
			s.mu.Lock()
			s.failed = err
			s.mu.Unlock()
			s.todo.ShutDown()
		}
	})
	end := context.AfterFunc(ctx, s.todo.ShutDown)
	defer end()
	return s.work(ctx, total)
}

// see notes what became of a workload.
func (s *stranger) see(w *kueue.Workload, class loadClass) {
	s.follow(w, class.name)
	s.mu.Lock()
	defer s.mu.Unlock()
	admitted := apimeta.FindStatusCondition(w.Status.Conditions, kueue.WorkloadAdmitted)
	switch {
	case s.ended[w.Name]:
	case apimeta.IsStatusConditionTrue(w.Status.Conditions, kueue.WorkloadEvicted):
		delete(s.ends, w.Name)
		delete(s.begun, w.Name)
		if w.Status.Admission != nil {
			s.todo.Add(w.Name)
		}
	case admitted == nil || admitted.Status != metav1.ConditionTrue:
		delete(s.ends, w.Name)
		delete(s.begun, w.Name)
	case s.begun[w.Name] == "":
		s.begun[w.Name] = w.ResourceVersion
		s.ends[w.Name] = time.Now().Add(class.runs)
		s.todo.AddAfter(w.Name, class.runs)
	}
}

// work is the one worker.
func (s *stranger) work(ctx context.Context, total int) error {
	for {
		name, over := s.todo.Get()
		if over {
			s.mu.Lock()
			defer s.mu.Unlock()
			return errors.Join(ctx.Err(), s.failed)
		}
		err := s.next(ctx, name)
		s.todo.Done(name)
		if err != nil {
			return err
		}
		s.load.mu.Lock()
		all := s.done == total
		s.load.mu.Unlock()
		if all {
			return nil
		}
	}
}

// next does what one workload needs now.
func (s *stranger) next(ctx context.Context, name string) error {
	w := &kueue.Workload{}
	if err := s.cache.Get(ctx, client.ObjectKey{Namespace: team, Name: name}, w); err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	s.mu.Lock()
	ends, runs := s.ends[name]
	ended := s.ended[name]
	s.mu.Unlock()
	switch {
	case ended:
		return nil
	case apimeta.IsStatusConditionTrue(w.Status.Conditions, kueue.WorkloadEvicted) && w.Status.Admission != nil:
		return s.clear(ctx, w)
	case !runs || time.Now().Before(ends):
		return nil
	}
	if err := s.finish(ctx, w); err != nil {
		return err
	}
	s.mu.Lock()
	s.ended[name] = true
	s.mu.Unlock()
	s.load.mu.Lock()
	s.done++
	s.load.mu.Unlock()
	return nil
}

// finish applies the condition that a workload is done.
func (s *stranger) finish(ctx context.Context, w *kueue.Workload) error {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(kueue.GroupVersion.WithKind("Workload"))
	u.SetNamespace(w.Namespace)
	u.SetName(w.Name)
	u.SetUID(w.UID)
	conditions := []any{
		map[string]any{
			"type":               kueue.WorkloadFinished,
			"status":             string(metav1.ConditionTrue),
			"reason":             "ByDriver",
			"message":            "Finished by the driver",
			"lastTransitionTime": time.Now().UTC().Format(time.RFC3339),
			"observedGeneration": w.Generation,
		},
	}
	if err := unstructured.SetNestedSlice(u.Object, conditions, "status", "conditions"); err != nil {
		return fmt.Errorf("finish %s: %w", w.Name, err)
	}
	if err := s.client.Status().Apply(
		ctx,
		client.ApplyConfigurationFromUnstructured(u),
		strangerOwner,
		client.ForceOwnership,
	); err != nil {
		return fmt.Errorf("finish %s: %w", w.Name, err)
	}
	return nil
}

// clear takes the reservation of an evicted workload away, unless another client was
// faster.
func (s *stranger) clear(ctx context.Context, w *kueue.Workload) error {
	next := w.DeepCopy()
	next.Status.Admission = nil
	for _, condition := range []string{kueue.WorkloadQuotaReserved, kueue.WorkloadAdmitted} {
		apimeta.SetStatusCondition(&next.Status.Conditions, metav1.Condition{
			Type:               condition,
			Status:             metav1.ConditionFalse,
			Reason:             kueue.ReasonPending,
			Message:            "Evicted",
			ObservedGeneration: w.Generation,
		})
	}
	err := s.client.Status().Update(ctx, next, strangerOwner)
	if apierrors.IsConflict(err) {
		return nil // what it is now is on its way here
	}
	if err != nil {
		return fmt.Errorf("clear the reservation of %s: %w", w.Name, err)
	}
	return nil
}
