package podgroup

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/admission"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/podmeta"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/sakkara"
	"github.com/mlbatch/mlbatch/internal/kube/workloadlifecycle"
)

// openSakkara reads of a group of Sakkara's how many pods it has, and how near to each other they have to be.
func (r *reconciler) openSakkara(ctx context.Context, s *facts) error {
	first := s.unit.First()
	for _, p := range s.unit.Pods {
		if name := p.Labels[sakkara.MemberLabel]; sakkara.GroupName(name) != s.unit.Name {
			s.unit.AtLeast(
				1,
				fmt.Sprintf("pod %s is of group %q by its label %s, and was made as one of group %s: create it anew",
					p.Name, name, sakkara.MemberLabel, s.unit.Name),
			)
			return nil
		}
	}
	all, err := r.sakkara().List(ctx, first.Namespace)
	if err != nil {
		return err
	}
	found, wrong := admission.OneOf(all, first.Labels[sakkara.MemberLabel])
	if wrong != "" {
		s.unit.AtLeast(1, wrong)
		return nil
	}
	known, err := r.sakkara().Levels(ctx)
	if err != nil {
		return err
	}
	g, err := sakkara.ReadGroup(found.Data)
	if err == nil {
		s.unit.Near, err = g.Near(known)
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
		for _, key := range append(kueue.NearAnnotations(), kueue.KAIAnnotations()...) {
			if p.Annotations[key] != "" && len(s.unit.Near) > 0 && !slices.Contains(sakkara.Nests(), key) {
				return fmt.Sprintf(
					"pod %s says by annotation %s how near its group has to be, and the ConfigMap of the group does by constraints: leave one of them out",
					p.Name,
					key,
				)
			}
		}
	}
	if key := g.Alike(); key != "" && len(roles) > 1 {
		return fmt.Sprintf(
			"%s counts pods that ask for the same, and those of the group differ: give all the same requests, selectors and tolerations",
			key,
		)
	}
	return ""
}

// report tells the ConfigMap of a group where its pods are, once all have nodes, and when they were stopped.
func (r *reconciler) report(ctx context.Context, unit types.NamespacedName, s *facts) error {
	if s.unit.OfPodGroup() != podmeta.SakkaraGroup || s.workload == nil || s.theirs || !s.covered {
		return nil
	}
	stops := workloadlifecycle.Stops(s.workload, s.lifecycle.MaxStopNotice, s.now)
	is, some := admission.SakkaraOutcomeOf(s.workload, stops, s.unit.Pods, int(s.unit.Total))
	digest := fmt.Sprint(is)
	if last, ok := r.reported.Load(unit); !some || ok && last == digest {
		return nil
	}
	name := s.unit.First().Labels[sakkara.MemberLabel]
	if sakkara.GroupName(name) != unit.Name {
		return nil // somebody changed it, and the ConfigMap is that of another group
	}
	if told, err := r.sakkara().Tell(ctx, s.workload, name, is); err != nil || !told {
		return err
	}
	r.reported.Store(unit, digest)
	return nil
}

func (r *reconciler) sakkara() admission.SakkaraGroups {
	return admission.SakkaraGroups{Client: r.Client, Live: r.Live, Shared: r.SakkaraMaps}
}
