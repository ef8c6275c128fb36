package settings

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/mlbatch/mlbatch/api/config/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/manager"
)

// jobs sets which jobs wait for admission and what their requests count as.
func (s *Resolved) jobs(opts manager.Options) manager.Options {
	c := s.Configuration
	opts.Scope = jobs.Scope{WithoutQueue: c.ManageJobsWithoutQueueName}
	if c.ManagedJobsNamespaceSelector != nil {
		opts.Scope.Namespaces, _ = metav1.LabelSelectorAsSelector(c.ManagedJobsNamespaceSelector) // it is valid
	}
	if c.Integrations != nil {
		opts.LabelKeysToCopy = c.Integrations.LabelKeysToCopy
		opts.WritePodGroups = c.Integrations.WritePodGroups
	}
	opts.IgnoreUndeclared = ptr.Deref(
		c.Resources.QuotaCheckStrategy,
		v1beta2.BlockUndeclared,
	) == v1beta2.IgnoreUndeclared
	opts.Rules.Counting = convert.Counting{ExcludePrefixes: c.Resources.ExcludeResourcePrefixes}
	for _, t := range c.Resources.Transformations {
		opts.Rules.Counting.Transformations = append(opts.Rules.Counting.Transformations, convert.Transformation{
			Input:      t.Input,
			Replace:    ptr.Deref(t.Strategy, v1beta2.Retain) == v1beta2.Replace,
			MultiplyBy: t.MultiplyBy,
			Outputs:    t.Outputs,
		})
	}
	opts.Limits = jobs.Limits{
		PriorityClasses: c.Tenants.PodPriorityClasses,
		Termination:     c.Tenants.MaxTerminationTime.Duration,
		Jobs: int(
			*c.Tenants.MaxJobs,
		),
		Size:       c.Tenants.MaxJobSize.Value(),
		TotalSize:  c.Tenants.MaxTotalSize.Value(),
		Components: int(*c.Tenants.MaxComponents),
	}
	opts.Rules.PriorityBoost = s.Gates["PriorityBoost"]
	opts.Rules.WholeOnly = !s.Gates["PartialAdmission"]
	opts.Rules.Balanced = s.Gates["TASBalancedPlacement"]
	opts.Rules.KeepDone = !s.Gates["ReclaimablePods"]
	opts.Rules.NoAdmissionGates = !s.Gates["AdmissionGatedBy"]
	opts.Gates = manager.Gates{
		WholeJobsOnly:          !s.Gates["PartialAdmission"],
		NoReclaimablePods:      !s.Gates["ReclaimablePods"],
		NoQueueLabels:          !s.Gates["AssignQueueLabelsForPods"],
		NoDefaultPriorityClass: !s.Gates["WorkloadPriorityClassDefaulting"],
	}
	return opts
}
