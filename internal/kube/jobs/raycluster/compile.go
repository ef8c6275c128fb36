package raycluster

import (
	"fmt"
	"strconv"
	"strings"

	"k8s.io/utils/ptr"

	api "github.com/mlbatch/mlbatch/api/ray/v1"
	"github.com/mlbatch/mlbatch/internal/engine/podplan"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// compile makes the plan of a cluster. It has no end: pods that fail are made anew.
func compile(o jobs.Object) (*jobs.Plan, error) {
	c, err := cast(o)
	if err != nil {
		return nil, err
	}
	if errs := validate(c); len(errs) > 0 {
		return nil, fmt.Errorf("plan RayCluster %s/%s: %w", c.Namespace, c.Name, errs.ToAggregate())
	}
	p := &jobs.Plan{
		Plan: podplan.Plan{
			Suspended: suspended(c),
			Version:   version(&c.Spec),
			Renews:    renews(&c.Spec),
			Together:  true,
		},
	}
	p.Roles = append(p.Roles, podplan.Role{
		Name:      Head,
		Count:     1,
		Member:    headName(c.Name),
		Labels:    labels(c, api.HeadNode, api.HeadGroup),
		OnFailure: podplan.Replace,
		Forever:   true,
	})
	p.Templates, p.Where = append(p.Templates, head(c)), append(p.Where, "spec.headGroupSpec.template")
	var after []podplan.Dependency
	if autoscales(&c.Spec) { // see Later
		after = []podplan.Dependency{{Role: Head}}
	}
	for i := range c.Spec.WorkerGroupSpecs {
		g := groupOf(&c.Spec, &c.Spec.WorkerGroupSpecs[i])
		prefix := workerPrefix(c.Name, &g)
		p.Roles = append(p.Roles, podplan.Role{
			Name: g.role(), Count: g.Count, Member: prefix + "{index}", Labels: labels(c, api.WorkerNode, g.GroupName),
			OnFailure: podplan.Replace, Floating: true, Unwanted: unwanted(&g, prefix), After: after,
		})
		p.Templates = append(p.Templates, worker(c, &g))
		p.Where = append(p.Where, fmt.Sprintf("spec.workerGroupSpecs[%d].template", i))
	}
	if tolerant(c) {
		for _, t := range p.Templates {
			t.Annotations[api.FaultTolerantAnnotation] = "true"
		}
	}
	return p, nil
}

// renews reports whether all pods of a cluster are made anew when it changes.
func renews(s *api.RayClusterSpec) bool {
	return s.UpgradeStrategy != nil && ptr.Deref(s.UpgradeStrategy.Type, api.UpgradeNone) == api.UpgradeRecreate
}

// version is a sum of what a cluster is made of: all but how many workers there are, which
// Ray changes itself, and whether it is held back.
func version(s *api.RayClusterSpec) string {
	of := s.DeepCopy()
	of.Suspend, of.ManagedBy, of.UpgradeStrategy = nil, nil, nil
	for i := range of.WorkerGroupSpecs {
		g := &of.WorkerGroupSpecs[i]
		g.Replicas, g.MinReplicas, g.MaxReplicas, g.Suspend, g.ScaleStrategy = nil, nil, nil, nil, api.ScaleStrategy{}
	}
	return jobs.Sum(of)
}

// labels are how people, services and Ray itself find pods.
func labels(c *api.RayCluster, node, group string) map[string]string {
	return map[string]string{
		api.NodeLabel: "yes", api.ClusterLabel: c.Name, api.NodeTypeLabel: node, api.GroupLabel: group,
		api.IdentifierLabel: c.Name + "-" + node,
	}
}

// unwanted are the indexes of workers that go first. One pod that goes takes the others of
// its replica along.
func unwanted(g *group, prefix string) []int32 {
	var out []int32
	for _, name := range g.ScaleStrategy.WorkersToDelete {
		digits, is := strings.CutPrefix(name, prefix)
		n, err := strconv.ParseInt(digits, 10, 32)
		if !is || err != nil || n < 0 {
			continue
		}
		first := int32(n) - int32(n)%g.Hosts
		for host := range g.Hosts {
			out = append(out, first+host)
		}
	}
	return out
}
