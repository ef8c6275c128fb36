package podgroup

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/podmeta"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/sakkara"
)

// openSakkara reads of a group of Sakkara's how many pods it has, and how near to each other they have to be.
func (r *reconciler) openSakkara(ctx context.Context, s *facts) error {
	first := s.unit.First()
	name := first.Labels[sakkara.MemberLabel]
	for _, p := range s.unit.Pods {
		if other := p.Labels[sakkara.MemberLabel]; other != name {
			s.unit.AtLeast(1, fmt.Sprintf("pod %s is of group %q by its label %s, and pod %s of %q: create one of them anew",
				p.Name, other, sakkara.MemberLabel, first.Name, name))
			return nil
		}
	}
	found, wrong, err := r.groupMap(ctx, first.Namespace, name)
	if err != nil || wrong != "" {
		s.unit.AtLeast(1, wrong)
		return err
	}
	g, err := sakkara.ReadGroup(found.Data)
	if err == nil {
		s.unit.Near, err = g.Near()
	}
	if err != nil {
		s.unit.AtLeast(1, fmt.Sprintf("ConfigMap %s: %v", found.Name, err))
		return nil
	}
	s.unit.AtLeast(g.Size, notWith(&g, s))
	return nil
}

// notWith says what the pods of a group say that does not go with its constraints; "" if all does.
func notWith(g *sakkara.Group, s *facts) string {
	roles := map[string]bool{}
	for _, p := range s.held() {
		roles[p.Annotations[kueue.RoleHashAnnotation]] = true
		for _, key := range kueue.NearAnnotations() {
			if p.Annotations[key] != "" && len(s.unit.Near) > 0 {
				return fmt.Sprintf(
					"pod %s says by annotation %s how near its group has to be, and the ConfigMap of the group does by constraints: leave one of them out",
					p.Name, key)
			}
		}
	}
	if key := g.Alike(); key != "" && len(roles) > 1 {
		return fmt.Sprintf("%s counts pods that ask for the same, and those of the group differ: give all the same requests, selectors and tolerations", key)
	}
	return ""
}

// reconstrained reports whether the constraints of a group ask for something else than what its Workload was given.
func reconstrained(s facts, asks []kueue.PodSet) bool {
	if s.unit.OfPodGroup() != podmeta.SakkaraGroup {
		return false
	}
	return !slices.EqualFunc(s.workload.Spec.PodSets, asks, func(a, b kueue.PodSet) bool {
		return equality.Semantic.DeepEqual(a.TopologyRequest, b.TopologyRequest) &&
			!slices.ContainsFunc(kueue.NearAnnotations(), func(key string) bool {
				return a.Template.Annotations[key] != b.Template.Annotations[key]
			})
	})
}

// groupMap finds the ConfigMap of a group of a namespace. wrong says why there is none that counts.
func (r *reconciler) groupMap(ctx context.Context, namespace, group string) (found *corev1.ConfigMap, wrong string, err error) {
	var maps corev1.ConfigMapList
	if err := r.Live.List(ctx, &maps, client.InNamespace(namespace), client.HasLabels{sakkara.GroupLabel}); err != nil {
		return nil, "", fmt.Errorf("list ConfigMaps of groups in namespace %s: %w", namespace, err)
	}
	of := slices.DeleteFunc(maps.Items, func(m corev1.ConfigMap) bool { return m.Data["name"] != group })
	switch len(of) {
	case 0:
		return nil, fmt.Sprintf(
			"there is no ConfigMap with label %s whose key name is %q: create it", sakkara.GroupLabel, group), nil
	case 1:
		return &of[0], "", nil
	}
	names := make([]string, len(of))
	for i := range of {
		names[i] = of[i].Name
	}
	slices.Sort(names)
	return nil, fmt.Sprintf("ConfigMaps %s have %q for their key name: leave one of them", strings.Join(names, " and "), group), nil
}
