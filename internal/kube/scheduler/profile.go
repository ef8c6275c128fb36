package scheduler

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/mlbatch/mlbatch/internal/core"
)

// healthWeight makes a suspect node a worse choice than any packing is good.
const healthWeight = 10

// profiles makes one profile for each scheduler name: the default plugins with
// ours before them, GPUs packed, and without what would spread pods again.
func profiles(schedulerNames []string) ([]config.KubeSchedulerProfile, error) {
	defaults, err := latest.Default()
	if err != nil {
		return nil, fmt.Errorf("read default scheduler configuration: %w", err)
	}
	if len(defaults.Profiles) != 1 {
		return nil, fmt.Errorf("read default scheduler configuration: %d profiles, want 1", len(defaults.Profiles))
	}
	out := make([]config.KubeSchedulerProfile, 0, len(schedulerNames))
	for _, name := range schedulerNames {
		p := *defaults.Profiles[0].DeepCopy()
		p.SchedulerName = name
		p.Plugins = plugins(p.Plugins)
		for i := range p.PluginConfig {
			adjust(p.PluginConfig[i].Args)
		}
		out = append(out, p)
	}
	return out, nil
}

// plugins puts ours first: of the plugins that may refuse a pod before nodes
// are looked at, ours is the cheapest and has the most to say.
func plugins(defaults *config.Plugins) *config.Plugins {
	p := defaults.DeepCopy()
	rest := slices.DeleteFunc(
		p.MultiPoint.Enabled,
		func(pl config.Plugin) bool { return pl.Name == names.PrioritySort },
	)
	p.MultiPoint.Enabled = append(
		[]config.Plugin{{Name: GangName}, {Name: HealthName, Weight: healthWeight}},
		rest...)
	// Balance and image locality would pull pods away from the fullest node.
	p.Score.Disabled = append(p.Score.Disabled,
		config.Plugin{Name: names.NodeResourcesBalancedAllocation}, config.Plugin{Name: names.ImageLocality})
	p.PreScore.Disabled = append(p.PreScore.Disabled, config.Plugin{Name: names.NodeResourcesBalancedAllocation})
	return p
}

// adjust changes the arguments of default plugins in place.
func adjust(args runtime.Object) {
	switch a := args.(type) {
	case *config.NodeResourcesFitArgs:
		a.ScoringStrategy = &config.ScoringStrategy{
			Type:      config.RequestedToCapacityRatio,
			Resources: []config.ResourceSpec{{Name: core.GPU, Weight: 1}},
			RequestedToCapacityRatio: &config.RequestedToCapacityRatioParam{
				Shape: []config.UtilizationShapePoint{
					{Utilization: 0, Score: 0},
					{Utilization: 100, Score: int32(config.MaxCustomPriorityScore)},
				},
			},
		}
	case *config.PodTopologySpreadArgs:
		// Pods that ask for spreading are spread; others are not.
		a.DefaultingType = config.ListDefaulting
		a.DefaultConstraints = []corev1.TopologySpreadConstraint{}
	}
}
