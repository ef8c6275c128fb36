package settings

import (
	"math"
	"net"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mlbatch/mlbatch/api/config/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/nodehealth"
	"github.com/mlbatch/mlbatch/internal/kube/certs"
	"github.com/mlbatch/mlbatch/internal/kube/controllers/deeptest"
	"github.com/mlbatch/mlbatch/internal/kube/controllers/history"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/manager"
	"github.com/mlbatch/mlbatch/internal/kube/metrics"
	"github.com/mlbatch/mlbatch/internal/kube/workloadlifecycle"
)

// Options sets what the configuration decides. What it does not know of, such
// as how to reach the API server, stays as it is in opts.
func (s *Resolved) Options(opts manager.Options) manager.Options {
	c := s.Configuration
	opts.Namespace = *c.Namespace
	if k := c.ClientConnection; k != nil && ptr.Deref(k.QPS, 0) > 0 {
		opts.QPS, opts.Burst = *k.QPS, int(ptr.Deref(k.Burst, 0))
	}
	opts.WebhookHost, opts.WebhookPort, opts.WebhookCertDir = c.Webhook.Host, *c.Webhook.Port, c.Webhook.CertDir
	if m := c.InternalCertManagement; *m.Enable {
		opts.Certs = &certs.Options{
			Secret: client.ObjectKey{Namespace: *c.Namespace, Name: *m.WebhookSecretName},
			Hosts:  certs.Hosts(*c.Namespace, *m.WebhookServiceName),
		}
	}
	if c.TLS != nil {
		opts.TLS, _ = c.TLS.Config(field.NewPath("tls")) // it is valid
	}
	opts.MetricsAddress = c.Metrics.BindAddress
	if v := c.VisibilityServer; *v.BindPort != 0 {
		opts.VisibilityAddress = net.JoinHostPort(*v.BindAddress, strconv.Itoa(int(*v.BindPort)))
	}
	opts.HealthAddress = c.Health.HealthProbeBindAddress
	opts.ReadyPath, opts.AlivePath = c.Health.ReadinessEndpointName, c.Health.LivenessEndpointName
	opts.ProfilesAddress = c.PprofBindAddress
	l := c.LeaderElection
	opts.LeaderElection = manager.LeaderElection{
		Enabled: *l.LeaderElect, Name: l.ResourceName, Namespace: l.ResourceNamespace,
		Lease: l.LeaseDuration.Duration, Renew: l.RenewDeadline.Duration, Retry: l.RetryPeriod.Duration,
	}
	opts.Concurrency = c.Controller.GroupKindConcurrency
	opts.CacheSyncTimeout = c.Controller.CacheSyncTimeout.Duration
	if i := c.Integrations; i != nil {
		opts.Frameworks, opts.External, opts.Elsewhere = kindsOf(i)
	}
	if w := c.WaitForPodsReady; w != nil && !s.Gates["DisableWaitForPodsReady"] {
		r := w.RequeuingStrategy
		opts.BlockAdmission = *w.BlockAdmission
		opts.Rules.RequeueByCreation = *r.Timestamp == v1beta2.CreationTimestamp
		opts.Lifecycle.PodsReady = &workloadlifecycle.PodsReady{
			Timeout:         w.Timeout.Duration,
			RecoveryTimeout: w.RecoveryTimeout.Duration,
			BackoffLimit:    r.BackoffLimitCount,
			BackoffBase:     seconds(*r.BackoffBaseSeconds),
			BackoffMax:      seconds(*r.BackoffMaxSeconds),
			Awaited:         opts.BlockAdmission,
		}
	}
	if f := c.FairSharing; f != nil {
		opts.FairSharing = &core.FairSharing{
			NonBorrowingFirst: s.Gates["FairSharingPrioritizeNonBorrowing"],
			ReclaimNominal:    s.Gates["FairSharingPreemptWithinNominal"],
		}
		for _, strategy := range f.PreemptionStrategies {
			opts.FairSharing.Strategies = append(opts.FairSharing.Strategies, core.FairStrategy(strategy))
		}
	}
	opts.Lifecycle.KeepNodes = c.Recovery.KeepNodes.Duration
	opts.Lifecycle.MaxStopNotice = c.Recovery.MaxStopNotice.Duration
	if text := c.Recovery.RetryPolicy; text != "" {
		said, _ := core.ParseRetryText(text, jobs.RetryFromFile) // it is valid
		opts.Retries = &said
	}
	opts.NodeHealth = nodeHealth(c.NodeHealth)
	opts.Capacity = capacity(c.Capacity)
	opts.Lifecycle.Explicit = s.Gates["UnadmittedWorkloadsExplicitStatus"]
	opts.AdmissionFairSharing = admissionFairSharing(c.AdmissionFairSharing)
	if p := c.ObjectRetentionPolicies; p != nil && p.Workloads != nil {
		opts.Lifecycle.Retention = workloadlifecycle.Retention{
			AfterFinished: duration(
				p.Workloads.AfterFinished,
			),
			AfterDeactivated: duration(p.Workloads.AfterDeactivatedByKueue),
		}
	}
	opts.History = history.Retention{
		AfterEnded:   c.History.AfterEnded.Duration,
		PerNamespace: int(*c.History.PerNamespace),
	}
	m := c.Metrics
	opts.Metrics = metrics.Choice{
		NoQueueResources: !m.EnableClusterQueueResources,
		NoLocalQueues:    !*m.LocalQueueMetrics.Enable || !s.Gates["LocalQueueMetrics"],
	}
	if sel := m.LocalQueueMetrics.LocalQueueSelector; sel != nil {
		opts.Metrics.LocalQueues, _ = metav1.LabelSelectorAsSelector(sel) // it is valid
	}
	if s.Gates[customLabelsGate] {
		opts.MetricLabels = metricLabels(m.CustomLabels)
	}
	return s.jobs(opts)
}

// nodeHealth is what is made of signs that nodes are bad.
func nodeHealth(n *v1beta2.NodeHealth) manager.NodeHealth {
	out := manager.NodeHealth{
		Act: *n.Mode == v1beta2.HealthAct,
		Policy: nodehealth.Policy{
			Hold: n.ReturnAfter.Duration, MaxHold: n.ReturnAfterAtMost.Duration, Forget: forgetHealth,
			Percent: int(*n.MaxNewPercent), Most: nodehealth.DefaultMost,
		},
	}
	for _, s := range n.Sources {
		r := nodehealth.Rule{
			Source: nodehealth.Source(s.Source), Name: s.Name, Status: s.Status, Resource: s.Resource,
			Severity: nodehealth.Severity(s.Severity),
		}
		if r.Source == nodehealth.SourceCondition && r.Status == "" {
			r.Status = "True"
		}
		out.Policy.Rules = append(out.Policy.Rules, r)
	}
	out.Policy.Rules = append(out.Policy.Rules, nodehealth.DefaultRules()...)
	if t := n.DeepTest; t != nil {
		out.Policy.TestReturned = *t.OnReturn
		out.DeepTest = deepTest(t)
	}
	return out
}

// deepTest is which nodes are tested when.
func deepTest(t *v1beta2.DeepTest) *manager.DeepTest {
	out := &manager.DeepTest{
		Namespace: t.Namespace,
		Flavors:   t.Flavors,
		Policy: nodehealth.TestPolicy{
			Every: t.Every.Duration, AfterFault: *t.AfterFault, OnReturn: *t.OnReturn,
		},
		Template: deeptest.Template{
			Image: t.Image, ToolsImage: t.ToolsImage, Command: t.Command, RuntimeClassName: t.RuntimeClassName,
			Deadline: t.Deadline.Duration, Queue: t.Queue, PriorityClass: t.PriorityClass,
		},
	}
	if n := t.MaxAtOnce; n.Type == intstr.String {
		out.Policy.Percent, _ = v1beta2.Percent(n.StrVal) // it is valid
	} else {
		out.Policy.Most = n.IntValue()
	}
	return out
}

// capacity is what nodes there should be.
func capacity(c *v1beta2.Capacity) manager.Capacity {
	out := manager.Capacity{Cut: *c.WhenShort == v1beta2.ShortCut, Pools: map[string]nodehealth.Pool{}}
	for _, f := range c.Flavors {
		pool := nodehealth.Pool{Planned: convert.Resources(f.Planned)}
		if s := f.Spares; s != nil && s.Type == intstr.String {
			pool.Spares.Percent, _ = intstr.GetScaledValueFromIntOrPercent(s, 100, true) // it is valid
		} else if s != nil {
			pool.Spares.Nodes = s.IntValue()
		}
		out.Pools[f.Name] = pool
	}
	return out
}

// forgetHealth is after how long a node that is healthy counts as one that never failed.
const forgetHealth = 24 * time.Hour

// customLabelsGate lets metrics carry labels of objects.
const customLabelsGate = "CustomMetricLabels"

func metricLabels(all []v1beta2.ControllerMetricsCustomLabel) []metrics.CustomLabel {
	var out []metrics.CustomLabel
	for _, l := range all {
		out = append(out, metrics.CustomLabel{
			Name:       l.Name,
			From:       metrics.Source(*l.SourceKind),
			Label:      l.SourceLabelKey,
			Annotation: l.SourceAnnotationKey,
			Tracked:    l.TrackedValues,
		})
	}
	return out
}

// admissionFairSharing is how past usage counts. A half-life of 0 forgets at once,
// which for the engine is the shortest there is.
func admissionFairSharing(a *v1beta2.AdmissionFairSharing) core.AdmissionFairSharing {
	var out core.AdmissionFairSharing
	if a == nil {
		return out
	}
	if a.UsageHalfLifeTime != nil {
		out.HalfLife = max(a.UsageHalfLifeTime.Duration, 1)
	}
	if a.UsageSamplingInterval != nil {
		out.Sampling = a.UsageSamplingInterval.Duration
	}
	out.Weights = map[string]core.Weight{}
	for name, w := range a.ResourceWeights {
		out.Weights[string(name)] = core.Weight(math.Round(w * float64(core.WeightOne)))
	}
	return out
}

func seconds(n int32) time.Duration { return time.Duration(n) * time.Second }

// duration is what a file says; nil stays nil.
func duration(d *metav1.Duration) *time.Duration {
	if d == nil {
		return nil
	}
	return &d.Duration
}
