package operator

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

// A controller hears of the pods of its own kind, and of one that is not its kind's any more, and of no
// others.
func TestControlledBy(t *testing.T) {
	of := func(apiVersion, kind string, controls bool) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				OwnerReferences: []metav1.OwnerReference{
					{APIVersion: apiVersion, Kind: kind, Name: "a", Controller: &controls},
				},
			},
		}
	}
	mine := of("kubeflow.org/v1", "PyTorchJob", true)
	p := controlledBy(schema.GroupVersionKind{Group: "kubeflow.org", Version: "v1", Kind: "PyTorchJob"})
	for name, tc := range map[string]struct {
		pod  *corev1.Pod
		want bool
	}{
		"of the kind":                       {mine, true},
		"of the kind in another version":    {of("kubeflow.org/v2", "PyTorchJob", true), true},
		"owned and not controlled":          {of("kubeflow.org/v1", "PyTorchJob", false), false},
		"of another kind of the same group": {of("kubeflow.org/v1", "TFJob", true), false},
		"of a kind of that name elsewhere":  {of("example.com/v1", "PyTorchJob", true), false},
		"of a group that begins alike":      {of("kubeflow.org.example.com/v1", "PyTorchJob", true), false},
		"of nobody":                         {&corev1.Pod{}, false},
	} {
		if got := p.Create(event.CreateEvent{Object: tc.pod}); got != tc.want {
			t.Errorf("%s: created, it hears: %v", name, got)
		}
		if got := p.Delete(event.DeleteEvent{Object: tc.pod}); got != tc.want {
			t.Errorf("%s: deleted, it hears: %v", name, got)
		}
		if got := p.Update(event.UpdateEvent{ObjectOld: mine, ObjectNew: tc.pod}); !got {
			t.Errorf("%s: it was of the kind before, and it does not hear", name)
		}
		if got := p.Update(event.UpdateEvent{ObjectOld: &corev1.Pod{}, ObjectNew: tc.pod}); got != tc.want {
			t.Errorf("%s: it was nobody's before, it hears: %v", name, got)
		}
	}
}
