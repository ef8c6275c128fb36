package v1beta2

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// The values of fields that a file leaves out. They are Kueue's, except those
// that say otherwise.
const (
	// DefaultNamespace differs from Kueue's, so that both can be installed.
	DefaultNamespace   = "mlbatch-system"
	DefaultWebhookPort = 9443
	// DefaultWebhookCertDir is where controller-runtime looks too.
	DefaultWebhookCertDir = "/tmp/k8s-webhook-server/serving-certs"
	// DefaultWebhookService and DefaultWebhookSecret differ from Kueue's, so that both can be
	// installed.
	DefaultWebhookService = "mlbatch-webhook-service"
	DefaultWebhookSecret  = "mlbatch-webhook-server-cert" //nolint:gosec // a name
	// DefaultMetricsBindAddress differs from Kueue's :8443: metrics are plain
	// HTTP here.
	DefaultMetricsBindAddress = ":8080"
	DefaultHealthBindAddress  = ":8081"
	DefaultReadinessEndpoint  = "readyz"
	DefaultLivenessEndpoint   = "healthz"
	// DefaultLeaderElectionName differs from Kueue's.
	DefaultLeaderElectionName = "mlbatch-controller"
	// DefaultLeaseDuration and what follows are shorter than those of Kubernetes, since a
	// leader that cannot renew does not end: docs/high-availability.md.
	DefaultLeaseDuration = 4 * time.Second
	DefaultRenewDeadline = 3 * time.Second
	DefaultRetryPeriod   = time.Second
	// LeaderElectionLock is the only kind of lock there is.
	LeaderElectionLock        = "leases"
	DefaultPodsReadyTimeout   = 30 * time.Minute
	DefaultBackoffBaseSeconds = 60
	DefaultBackoffMaxSeconds  = 3600
	// DefaultUsageHalfLifeTime differs from Kueue, where nothing is remembered if
	// it is not set and admission fair sharing is then silently off.
	DefaultUsageHalfLifeTime     = 7 * 24 * time.Hour
	DefaultUsageSamplingInterval = 5 * time.Minute
	DefaultCacheSyncTimeout      = 2 * time.Minute
	DefaultVisibilityBindAddress = "0.0.0.0"
	DefaultVisibilityBindPort    = 8082
	DefaultMaxTerminationTime    = 15 * time.Minute
	// DefaultMaxJobs, DefaultMaxJobSize, DefaultMaxTotalSize and DefaultMaxComponents are
	// far above what people make, and below what fills a cluster.
	DefaultMaxJobs       = 10_000
	DefaultMaxJobSize    = 512 << 10 // 512Ki; a third of what etcd stores as one object
	DefaultMaxTotalSize  = 256 << 20 // 256Mi; 10,000 jobs have 60, and etcd stores 2 to 8 Gi
	DefaultMaxComponents = 100
	// DefaultHistoryAfterEnded and DefaultHistoryPerNamespace remember a month of a busy team, in
	// about 1 MiB of etcd.
	DefaultHistoryAfterEnded   = 30 * 24 * time.Hour
	DefaultHistoryPerNamespace = 2048
	// DefaultKeepNodes is longer than a node takes to start again.
	DefaultKeepNodes = 5 * time.Minute
	// DefaultMaxStopNotice is enough for most checkpoints, and what waits for the nodes waits no longer than that.
	DefaultMaxStopNotice = time.Minute
	// DefaultReturnAfter is longer than a signal takes to flap; DefaultReturnAfterAtMost leaves a node that does so
	// all day out of service for most of it.
	DefaultReturnAfter       = 5 * time.Minute
	DefaultReturnAfterAtMost = 4 * time.Hour
	// DefaultMaxNewPercent is more than nodes fail at once, and less than a fault of what watches them hits.
	DefaultMaxNewPercent = 10
	// DefaultTestNamespace is that of deep tests, DefaultTestQueue the name of LocalQueue and WorkloadPriorityClass there.
	DefaultTestNamespace = "mlbatch-tests"
	DefaultTestQueue     = "deep-tests"
	// DefaultTestEvery is a week, DefaultTestDeadline longer than the longest diagnosis of DCGM takes.
	DefaultTestEvery    = 7 * 24 * time.Hour
	DefaultTestDeadline = 3 * time.Hour
)

// Default fills in what a file leaves out, in place. ownNamespace is that of
// the process, empty if it runs in none. A section whose presence turns
// something on is not added; of those, WaitForPodsReady is there by default.
func Default(c *Configuration, ownNamespace string) {
	c.APIVersion, c.Kind = APIVersion, Kind
	if ownNamespace == "" {
		ownNamespace = DefaultNamespace
	}
	set(&c.Namespace, ownNamespace)
	defaultManager(&c.ControllerManager, *c.Namespace)
	t := section(&c.Tenants)
	set(&t.MaxTerminationTime, metav1.Duration{Duration: DefaultMaxTerminationTime})
	set(&t.MaxJobs, DefaultMaxJobs)
	set(&t.MaxJobSize, *resource.NewQuantity(DefaultMaxJobSize, resource.BinarySI))
	set(&t.MaxTotalSize, *resource.NewQuantity(DefaultMaxTotalSize, resource.BinarySI))
	set(&t.MaxComponents, DefaultMaxComponents)
	h := section(&c.History)
	set(&h.AfterEnded, metav1.Duration{Duration: DefaultHistoryAfterEnded})
	set(&h.PerNamespace, DefaultHistoryPerNamespace)
	set(&section(&c.Recovery).KeepNodes, metav1.Duration{Duration: DefaultKeepNodes})
	set(&section(&c.Recovery).MaxStopNotice, metav1.Duration{Duration: DefaultMaxStopNotice})
	set(&section(&c.Capacity).WhenShort, ShortTell)
	n := section(&c.NodeHealth)
	set(&n.Mode, HealthDecide)
	set(&n.ReturnAfter, metav1.Duration{Duration: DefaultReturnAfter})
	set(&n.ReturnAfterAtMost, metav1.Duration{Duration: max(DefaultReturnAfterAtMost, n.ReturnAfter.Duration)})
	set(&n.MaxNewPercent, DefaultMaxNewPercent)
	if t := n.DeepTest; t != nil {
		text(&t.Namespace, DefaultTestNamespace)
		text(&t.Queue, DefaultTestQueue)
		text(&t.PriorityClass, DefaultTestQueue)
		set(&t.Every, metav1.Duration{Duration: DefaultTestEvery})
		set(&t.Deadline, metav1.Duration{Duration: DefaultTestDeadline})
		set(&t.AfterFault, true)
		set(&t.OnReturn, true)
		set(&t.MaxAtOnce, intstr.FromInt32(1))
	}
	if c.ManagedJobsNamespaceSelector == nil {
		c.ManagedJobsNamespaceSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
			Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpNotIn,
			Values: []string{metav1.NamespaceSystem, *c.Namespace},
		}}}
	}
	defaultWaitForPodsReady(section(&c.WaitForPodsReady))
	if f := c.FairSharing; f != nil && len(f.PreemptionStrategies) == 0 {
		f.PreemptionStrategies = []PreemptionStrategy{LessThanOrEqualToFinalShare, LessThanInitialShare}
	}
	a := section(&c.AdmissionFairSharing)
	set(&a.UsageHalfLifeTime, metav1.Duration{Duration: DefaultUsageHalfLifeTime})
	set(&a.UsageSamplingInterval, metav1.Duration{Duration: DefaultUsageSamplingInterval})
	r := section(&c.Resources)
	set(&r.QuotaCheckStrategy, BlockUndeclared)
	r.Transformations = slices.Clone(r.Transformations)
	for i := range r.Transformations {
		set(&r.Transformations[i].Strategy, Retain)
	}
	certs := section(&c.InternalCertManagement)
	set(&certs.Enable, c.Webhook.CertDir == "") // who names files has some
	set(&certs.WebhookServiceName, DefaultWebhookService)
	set(&certs.WebhookSecretName, DefaultWebhookSecret)
	if !*certs.Enable {
		text(&c.Webhook.CertDir, DefaultWebhookCertDir)
	}
	v := section(&c.VisibilityServer)
	set(&v.BindAddress, DefaultVisibilityBindAddress)
	set(&v.BindPort, DefaultVisibilityBindPort)
}

func defaultManager(m *ControllerManager, namespace string) {
	set(&m.Webhook.Port, DefaultWebhookPort)
	text(&m.Metrics.BindAddress, DefaultMetricsBindAddress)
	set(&section(&m.Metrics.LocalQueueMetrics).Enable, true)
	for i := range m.Metrics.CustomLabels {
		l := &m.Metrics.CustomLabels[i]
		set(&l.SourceKind, SourceClusterQueue)
		if l.SourceLabelKey == "" && l.SourceAnnotationKey == "" {
			l.SourceLabelKey = l.Name
		}
	}
	text(&m.Health.HealthProbeBindAddress, DefaultHealthBindAddress)
	text(&m.Health.ReadinessEndpointName, DefaultReadinessEndpoint)
	text(&m.Health.LivenessEndpointName, DefaultLivenessEndpoint)
	set(&section(&m.Controller).CacheSyncTimeout, Timeout{DefaultCacheSyncTimeout})
	l := section(&m.LeaderElection)
	set(&l.LeaderElect, true)
	set(&l.LeaseDuration, metav1.Duration{Duration: DefaultLeaseDuration})
	set(&l.RenewDeadline, metav1.Duration{Duration: DefaultRenewDeadline})
	set(&l.RetryPeriod, metav1.Duration{Duration: DefaultRetryPeriod})
	text(&l.ResourceLock, LeaderElectionLock)
	text(&l.ResourceName, DefaultLeaderElectionName)
	text(&l.ResourceNamespace, namespace)
}

func defaultWaitForPodsReady(w *WaitForPodsReady) {
	set(&w.Timeout, metav1.Duration{Duration: DefaultPodsReadyTimeout})
	set(&w.BlockAdmission, false)
	set(&w.RecoveryTimeout, *w.Timeout)
	s := section(&w.RequeuingStrategy)
	set(&s.Timestamp, EvictionTimestamp)
	set(&s.BackoffBaseSeconds, DefaultBackoffBaseSeconds)
	set(&s.BackoffMaxSeconds, DefaultBackoffMaxSeconds)
}

// set gives a field that is left out a value.
func set[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}

// text gives a text that is left out a value.
func text(field *string, value string) {
	if *field == "" {
		*field = value
	}
}

// section returns a section, which is added if it is left out.
func section[T any](field **T) *T {
	if *field == nil {
		*field = new(T)
	}
	return *field
}
