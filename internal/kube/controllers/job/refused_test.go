package job

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// aQuota counts Workloads, and other things.
func aQuota(hard, used string) *corev1.ResourceQuota {
	count := func(n string) corev1.ResourceList {
		return corev1.ResourceList{
			countedWorkloads:    resource.MustParse(n),
			corev1.ResourcePods: resource.MustParse("5"),
		}
	}
	return &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "objects"},
		Status:     corev1.ResourceQuotaStatus{Hard: count(hard), Used: count(used)},
	}
}

// limitedTo refuses Workloads beyond a number, as a ResourceQuota does, and counts
// the refusals.
func limitedTo(b bench, most, refusals *int) {
	b.opts.Client = interceptor.NewClient(b.opts.Client.(client.WithWatch), interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			var have kueue.WorkloadList
			if err := c.List(ctx, &have); err != nil {
				return err
			}
			if _, ok := o.(*kueue.Workload); ok && len(have.Items) >= *most {
				*refusals++
				return apierrors.NewForbidden(
					schema.GroupResource{Group: "kueue.x-k8s.io", Resource: "workloads"},
					o.GetName(),
					fmt.Errorf("exceeded quota: objects"),
				)
			}
			return c.Create(ctx, o, opts...)
		},
	})
}

func numbered(n int) func(*batchv1.Job) {
	return func(j *batchv1.Job) {
		j.Name, j.UID = fmt.Sprintf("train-%d", n), types.UID(fmt.Sprintf("u%d", n))
	}
}

// A job whose Workload is refused says why, is not tried again and again, and goes
// on when there is room: in the order in which the jobs were refused, and as many
// as there is room for.
func TestRefusedWorkloadsWaitForRoom(t *testing.T) {
	b := newBench(
		t,
		nil,
		aJob(inQueue, numbered(0)),
		aJob(inQueue, numbered(1)),
		aJob(inQueue, numbered(2)),
		aJob(inQueue, numbered(3)),
	)
	most, refusals := 1, 0
	limitedTo(b, &most, &refusals)
	key := func(n int) types.NamespacedName {
		return types.NamespacedName{Namespace: "blue", Name: fmt.Sprintf("train-%d", n)}
	}
	once := func(n int) reconcile.Result {
		t.Helper()
		res, err := b.Reconcile(t.Context(), reconcile.Request{NamespacedName: key(n)})
		if err != nil {
			t.Fatalf("an error is tried again at once, and again: %v", err)
		}
		return res
	}
	woken := func(q *corev1.ResourceQuota) []string {
		var out []string
		for _, r := range b.roomFor(t.Context(), q) {
			out = append(out, r.Name)
		}
		return out
	}
	b.reconcileAll(t, key(0))
	b.events()
	for _, n := range []int{2, 1, 3} {
		if res := once(n); res.RequeueAfter != refusedPause {
			t.Errorf("train-%d is tried again after %v, want %v", n, res.RequeueAfter, refusedPause)
		}
	}
	if refusals != 3 {
		t.Errorf("%d refusals of three jobs", refusals)
	}
	told := <-b.told.Events
	for _, part := range []string{"Warning " + kueue.EventWorkloadRefused, "cannot be queued", "exceeded quota: objects", "as soon as jobs are gone"} {
		if !strings.Contains(told, part) {
			t.Errorf("the event lacks %q: %s", part, told)
		}
	}

	once(2) // for whatever reason; it keeps its place in the line
	if diff := cmp.Diff([]string{"train-2", "train-1"}, woken(aQuota("3", "1"))); diff != "" {
		t.Errorf("room for two wakes others than the first two: (-want +got)\n%s", diff)
	}
	if got := woken(aQuota("1", "1")); len(got) != 0 {
		t.Errorf("no room wakes %v", got)
	}
	most = 2
	once(2)
	if diff := cmp.Diff([]string{"train-1", "train-3"}, woken(aQuota("9", "2"))); diff != "" {
		t.Errorf("a job that has a Workload waits no longer: (-want +got)\n%s", diff)
	}
	gone := aJob(inQueue, numbered(1))
	if err := b.opts.Client.Delete(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	once(1)
	deleted := aQuota("2", "2")
	deleted.DeletionTimestamp = &metav1.Time{Time: now}
	if diff := cmp.Diff([]string{"train-3"}, woken(deleted)); diff != "" {
		t.Errorf("a quota that goes wakes all that are left: (-want +got)\n%s", diff)
	}
}

// A ResourceQuota is written for each object that it counts. Only when it counts
// fewer Workloads than before, or lets more be, is any looked at.
func TestQuotasThatGiveRoom(t *testing.T) {
	pods := aQuota("5", "5")
	pods.Status.Used[corev1.ResourcePods] = resource.MustParse("1")
	for name, tc := range map[string]struct {
		was, is *corev1.ResourceQuota
		want    bool
	}{
		"one ends":         {aQuota("5", "5"), aQuota("5", "4"), true},
		"one comes":        {aQuota("5", "4"), aQuota("5", "5"), false},
		"others end":       {aQuota("5", "5"), pods, false},
		"it is larger":     {aQuota("5", "5"), aQuota("6", "5"), true},
		"it was not known": {&corev1.ResourceQuota{}, aQuota("6", "5"), true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := resourceQuotas().Update(event.UpdateEvent{ObjectOld: tc.was, ObjectNew: tc.is}); got != tc.want {
				t.Errorf("lets through: %v, want %v", got, tc.want)
			}
		})
	}
	if resourceQuotas().Create(event.CreateEvent{Object: aQuota("5", "1")}) {
		t.Error("a new quota gives no room")
	}
	if !resourceQuotas().Delete(event.DeleteEvent{Object: aQuota("5", "5")}) {
		t.Error("a quota that is gone bounds no job")
	}
}
