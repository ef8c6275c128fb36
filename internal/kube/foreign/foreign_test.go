package foreign

import (
	"context"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
)

const image = "toys/toy-operator"

func aPod(namespace, image string, phase corev1.PodPhase) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "operator"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: image}}},
		Status:     corev1.PodStatus{Phase: phase},
	}
}

func aNamespace(labels map[string]string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "tools", Labels: labels}}
}

// What was left to a controller of others is looked at when that controller's pod turns out to be a
// tenant's, or no tenant's any more; nothing is for namespaces without such a pod.
func TestJobsAreLookedAtWhereTheOtherControllerRuns(t *testing.T) {
	all := func(context.Context, client.Object) []reconcile.Request { return []reconcile.Request{{}} }
	queue := &kueue.LocalQueue{ObjectMeta: metav1.ObjectMeta{Namespace: "tools", Name: "tools"}}
	for name, tc := range map[string]struct {
		pod  *corev1.Pod
		want bool
	}{
		"it runs there":     {aPod("tools", "docker.io/"+image+":v1", corev1.PodRunning), true},
		"it runs elsewhere": {aPod("kubeflow", image, corev1.PodRunning), false},
		"it has ended":      {aPod("tools", image, corev1.PodSucceeded), false},
		"another runs":      {aPod("tools", "toys/train", corev1.PodRunning), false},
	} {
		c := fake.NewClientBuilder().WithScheme(scheme.New()).WithObjects(tc.pod).
			WithIndex(&corev1.Pod{}, Index, IndexImages([]string{image})).Build()
		lead := whereOneRuns(c, all, []string{"toys/older", image})
		for _, o := range []client.Object{aNamespace(nil), queue} {
			if got := len(lead(t.Context(), o)) > 0; got != tc.want {
				t.Errorf("%s: jobs are looked at when %T tools changes: %v", name, o, got)
			}
		}
	}
}

// Only what can change whether a controller of others counts wakes all jobs.
func TestChangesThatMatter(t *testing.T) {
	team := map[string]string{kueue.TeamNamespaceLabel: "tools"}
	runs, ended := aPod("kubeflow", image, corev1.PodRunning), aPod("kubeflow", image, corev1.PodFailed)
	queue := &kueue.LocalQueue{}
	for name, tc := range map[string]struct {
		p                         predicate.Predicate
		before, after             client.Object
		created, changed, deleted bool
	}{
		"a pod that goes on":            {comeOrGo([]string{image}), runs, runs, true, false, true},
		"a pod that ends":               {comeOrGo([]string{image}), runs, ended, false, true, false},
		"a pod that begins":             {comeOrGo([]string{image}), ended, runs, true, true, true},
		"a namespace that is a team's":  {teamsChange(), aNamespace(team), aNamespace(team), false, false, false},
		"a namespace given to a team":   {teamsChange(), aNamespace(nil), aNamespace(team), false, true, false},
		"a namespace taken from a team": {teamsChange(), aNamespace(team), aNamespace(nil), false, true, false},
		"a LocalQueue":                  {queuesChange(), queue, queue, true, false, true},
	} {
		got := []bool{
			tc.p.Create(event.CreateEvent{Object: tc.after}),
			tc.p.Update(event.UpdateEvent{ObjectOld: tc.before, ObjectNew: tc.after}),
			tc.p.Delete(event.DeleteEvent{Object: tc.after}),
		}
		if want := []bool{tc.created, tc.changed, tc.deleted}; !slices.Equal(got, want) {
			t.Errorf("%s: created, changed and deleted are let through: %v, not %v", name, got, want)
		}
	}
}
