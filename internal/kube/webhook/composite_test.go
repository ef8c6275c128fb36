package webhook_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/podmeta"
	"github.com/mlbatch/mlbatch/internal/kube/webhook"
)

// Pods of PodGroups within a CompositePodGroup are one group when they are created, with a role of their own for each
// PodGroup; what is not there yet leaves them to their PodGroup, and what can never be one is refused.
func TestPodsJoinComposites(t *testing.T) {
	group := func(name, parent string) client.Object {
		g := &schedulingv1beta1.PodGroup{}
		g.Namespace, g.Name = "blue", name
		if parent != "" {
			g.Spec.ParentCompositePodGroupName = &parent
		}
		return g
	}
	gang := func(namespace, name, parent string) client.Object {
		g := &schedulingv1alpha3.CompositePodGroup{}
		g.Namespace, g.Name = namespace, name
		g.Spec.SchedulingPolicy.Gang = &schedulingv1alpha3.CompositeGangSchedulingPolicy{MinGroupCount: 1}
		if parent != "" {
			g.Spec.ParentCompositePodGroupName = &parent
		}
		return g
	}
	const none = podmeta.NativeGroup
	for name, tc := range map[string]struct {
		objects     []client.Object
		off         bool
		group, kind string
		refused     string
	}{
		"in one": {[]client.Object{group("g", "train"), gang("blue", "train", "")}, false, "train", podmeta.CompositeGroup, ""},
		"in one that is in one": {
			[]client.Object{group("g", "in"), gang("blue", "in", "train"), gang("blue", "train", "")}, false, "train", podmeta.CompositeGroup, "",
		},
		"in none":                   {[]client.Object{group("g", "")}, false, "g", none, ""},
		"no PodGroup yet":           {nil, false, "g", none, ""},
		"none yet":                  {[]client.Object{group("g", "train")}, false, "g", none, ""},
		"another namespace's":       {[]client.Object{group("g", "train"), gang("green", "train", "")}, false, "g", none, ""},
		"a circle":                  {[]client.Object{group("g", "x"), gang("blue", "x", "y"), gang("blue", "y", "x")}, false, "", "", "circle"},
		"the cluster has none here": {[]client.Object{group("g", "train"), gang("blue", "train", "")}, true, "g", none, ""},
	} {
		c := cluster(t, tc.objects, nil, world()...)
		mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{schedulingv1beta1.SchemeGroupVersion})
		mapper.Add(schedulingv1beta1.SchemeGroupVersion.WithKind("PodGroup"), meta.RESTScopeNamespace)
		c.Mapper = mapper
		r := send(t, handle(t, c, webhook.Options{Composites: !tc.off}), ask{
			path: mutatePod, new: podText("blue", queueLabel, "", "", "schedulingGroup: {podGroupName: g}"),
		})
		if tc.refused != "" {
			if r.Allowed || !strings.Contains(r.Message, "spec.schedulingGroup.podGroupName") ||
				!strings.Contains(r.Message, tc.refused) {
				t.Errorf("%s: it is allowed (%v): %s", name, r.Allowed, r.Message)
			}
			continue
		}
		p := &corev1.Pod{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(r.Object, p); err != nil || !r.Allowed {
			t.Fatal(name, r.Message, err)
		}
		role := p.Annotations[v1beta2.RoleHashAnnotation]
		if podmeta.Group(p) != tc.group || p.Annotations[podmeta.PodGroupKindAnnotation] != tc.kind ||
			strings.HasPrefix(role, "g-") != (tc.kind == podmeta.CompositeGroup) {
			t.Errorf(
				"%s: group %q of %q, role %s",
				name,
				podmeta.Group(p),
				p.Annotations[podmeta.PodGroupKindAnnotation],
				role,
			)
		}
	}
}
