package manager

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	crmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/metrics"
)

// metricsOptions say where and to which users the metrics are served.
func metricsOptions(opts Options) metricsserver.Options {
	out := metricsserver.Options{BindAddress: address(opts.MetricsAddress)}
	if opts.MetricsSecure {
		out.SecureServing, out.CertDir, out.TLSOpts = true, opts.WebhookCertDir, append(
			restrictions(opts.TLS),
			opts.certificate()...)
		out.FilterProvider = filters.WithAuthenticationAndAuthorization
	}
	return out
}

// newMetrics registers the metrics and lets them watch what they take labels from,
// in every replica.
func newMetrics(ctx context.Context, mgr manager.Manager, opts Options) (*metrics.Metrics, error) {
	m, err := metrics.New(crmetrics.Registry, metrics.Options{
		Role: roleOf(opts.LeaderElection, mgr.Elected()), Choice: opts.Metrics, Labels: opts.MetricLabels,
	})
	if err != nil {
		return nil, err
	}
	for _, kind := range m.Sources() {
		informer, err := mgr.GetCache().GetInformer(ctx, source(kind))
		if err != nil {
			return nil, fmt.Errorf("watch %ss: %w", kind, err)
		}
		if _, err := informer.AddEventHandler(m.Objects(kind)); err != nil {
			return nil, fmt.Errorf("watch %ss: %w", kind, err)
		}
	}
	return m, nil
}

// roleOf tells the role of this process at any time: elected is closed when it
// leads.
func roleOf(l LeaderElection, elected <-chan struct{}) func() metrics.Role {
	return func() metrics.Role {
		if !l.Enabled {
			return metrics.RoleStandalone
		}
		select {
		case <-elected:
			return metrics.RoleLeader
		default:
			return metrics.RoleFollower
		}
	}
}

// source is an object of a kind that labels are taken from.
func source(kind metrics.Source) client.Object {
	switch kind {
	case metrics.SourceLocalQueue:
		return &kueue.LocalQueue{}
	case metrics.SourceCohort:
		return &kueue.Cohort{}
	case metrics.SourceWorkload:
		return &kueue.Workload{}
	case metrics.SourceClusterQueue:
	}
	return &kueue.ClusterQueue{}
}
