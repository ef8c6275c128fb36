package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// lifetime measures what becomes of Workloads between two of their versions, so
// that what carries out a step need not know of it.
type lifetime struct {
	around                               *surroundings
	checksWait, readyWait, admittedReady timedTwice
	evicted                              countedTwice
	evictedOnce                          *prometheus.CounterVec
	readyEvicted, evictionLatency        *prometheus.HistogramVec
	creation                             *prometheus.HistogramVec
}

func newLifetime(b *builder) lifetime {
	return lifetime{
		around: b.around,
		checksWait: b.timedTwice(
			"admission_checks_wait_time_seconds",
			"Time from the reservation of quota until all admission checks agreed",
			14,
			14,
		),
		readyWait: b.timedTwice(
			"ready_wait_time_seconds",
			"Time from creation or requeue until all pods were ready",
			14,
			14,
		),
		admittedReady: b.timedTwice(
			"admitted_until_ready_wait_time_seconds",
			"Time from admission until all pods were ready",
			14,
			14,
		),
		evicted: b.countedTwice(
			"evicted_workloads_total",
			"Workloads that were evicted",
			"reason",
			"underlying_cause",
			"priority_class",
		),
		evictedOnce: b.queueCounter(
			"evicted_workloads_once_total",
			"Workloads that were evicted, each counted once for a reason and cause.",
			"cluster_queue",
			"reason",
			"underlying_cause",
			"priority_class",
		),
		readyEvicted: b.queueHistogram(
			"pods_ready_to_evicted_time_seconds",
			"Time from when all pods were ready to the eviction.",
			waits(14),
			"cluster_queue",
			"reason",
			"underlying_cause",
		),
		evictionLatency: b.queueHistogram(
			"workload_eviction_latency_seconds",
			"Time from the eviction until all had stopped and the quota was free.",
			waits(14),
			"cluster_queue",
			"reason",
		),
		creation: b.histogram(
			"workload_creation_latency_seconds",
			"Time from the creation of a job to that of its Workload.",
			prometheus.ExponentialBuckets(0.01, 2, 11),
			"job_kind",
		),
	}
}

// Workloads returns a handler for all Workloads: it measures what becomes of
// them and counts what there is. now tells the time.
func (m *Metrics) Workloads(now func() time.Time) toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(o any, atStart bool) {
			if w, ok := o.(*kueue.Workload); ok {
				m.population.move(nil, w)
				m.expect(w)
				if !atStart {
					m.lifetime.created(w, now())
				}
			}
		},
		UpdateFunc: func(was, is any) {
			before, ok1 := was.(*kueue.Workload)
			after, ok2 := is.(*kueue.Workload)
			if ok1 && ok2 && before.ResourceVersion != after.ResourceVersion {
				m.population.move(before, after)
				if before.Status.Admission == nil {
					m.expect(after)
				}
				m.lifetime.changed(before, after)
			}
		},
		DeleteFunc: func(o any) {
			if t, gone := o.(toolscache.DeletedFinalStateUnknown); gone {
				o = t.Obj
			}
			if w, ok := o.(*kueue.Workload); ok {
				m.population.move(w, nil)
			}
		},
	}
}

// expect makes the series of what may happen to an admitted workload and is alarmed about or summed up, at 0 if it has not
// happened yet: Prometheus knows no growth of a series that begins at 1.
func (m *Metrics) expect(w *kueue.Workload) {
	if w.Status.Admission == nil {
		return
	}
	queue := string(w.Status.Admission.ClusterQueue)
	labels := Of(w, queue)
	m.lifetime.evicted.expect(labels, kueue.ReasonNodeFailures, "", labels.PriorityClass)
	m.jobAttempts.expect(queue)
}

func (l lifetime) created(w *kueue.Workload, now time.Time) {
	owner := metav1.GetControllerOf(w)
	submitted, err := time.Parse(time.RFC3339Nano, w.Annotations[kueue.SubmittedAtAnnotation])
	if owner == nil || err != nil {
		return
	}
	l.creation.WithLabelValues(owner.Kind).Observe(max(now.Sub(submitted), 0).Seconds())
}

func (l lifetime) changed(was, is *kueue.Workload) {
	if is.Status.Admission != nil {
		labels := Of(is, string(is.Status.Admission.ClusterQueue))
		if c := became(
			was,
			is,
			kueue.WorkloadAdmitted,
			metav1.ConditionTrue,
		); c != nil &&
			len(is.Status.AdmissionChecks) > 0 {
			if reserved := condition(is, kueue.WorkloadQuotaReserved); reserved != nil {
				l.checksWait.observe(labels, c.LastTransitionTime.Sub(reserved.LastTransitionTime.Time))
			}
		}
		if c := became(
			was,
			is,
			kueue.WorkloadPodsReady,
			metav1.ConditionTrue,
		); c != nil &&
			c.Reason == kueue.ReasonStarted {
			l.ready(is, labels, c.LastTransitionTime.Time)
		}
	}
	if c := became(was, is, kueue.WorkloadEvicted, metav1.ConditionTrue); c != nil {
		l.eviction(was, is, c)
	}
	// The reservation may only be taken from a workload that was told to stop.
	evicted := condition(is, kueue.WorkloadEvicted)
	if c := became(
		was,
		is,
		kueue.WorkloadQuotaReserved,
		metav1.ConditionFalse,
	); c != nil && was.Status.Admission != nil && evicted != nil &&
		evicted.Status == metav1.ConditionTrue {
		reason, _ := splitReason(evicted.Reason)
		l.evictionLatency.WithLabelValues(string(was.Status.Admission.ClusterQueue), reason).
			Observe(max(c.LastTransitionTime.Sub(evicted.LastTransitionTime.Time), 0).Seconds())
	}
}

func (l lifetime) ready(w *kueue.Workload, labels Workload, at time.Time) {
	l.readyWait.observe(labels, at.Sub(QueuedSince(w)))
	if admitted := condition(
		w,
		kueue.WorkloadAdmitted,
	); admitted != nil &&
		admitted.Status == metav1.ConditionTrue {
		l.admittedReady.observe(labels, at.Sub(admitted.LastTransitionTime.Time))
	}
}

func (l lifetime) eviction(was, is *kueue.Workload, c *metav1.Condition) {
	queue := l.around.behind(is.Namespace, string(is.Spec.QueueName))
	if was.Status.Admission != nil {
		queue = string(was.Status.Admission.ClusterQueue)
	}
	labels := Of(is, queue)
	e := counted(was, is, c)
	cause := string(e.UnderlyingCause)
	l.evicted.inc(labels, e.Reason, cause, labels.PriorityClass)
	if e.Count == 1 {
		l.evictedOnce.WithLabelValues(queue, e.Reason, cause, labels.PriorityClass).Inc()
	}
	if ready := condition(was, kueue.WorkloadPodsReady); ready != nil && ready.Status == metav1.ConditionTrue {
		l.readyEvicted.WithLabelValues(queue, e.Reason, cause).
			Observe(max(c.LastTransitionTime.Sub(ready.LastTransitionTime.Time), 0).Seconds())
	}
}

// counted is the entry of the scheduling statistics that an eviction raised; if
// there is none, what the condition says.
func counted(was, is *kueue.Workload, c *metav1.Condition) kueue.WorkloadSchedulingStatsEviction {
	if is.Status.SchedulingStats != nil {
		for _, e := range is.Status.SchedulingStats.Evictions {
			if e.Count > evictions(was, e.Reason, e.UnderlyingCause) {
				return e
			}
		}
	}
	reason, cause := splitReason(c.Reason)
	return kueue.WorkloadSchedulingStatsEviction{
		Reason:          reason,
		UnderlyingCause: kueue.EvictionUnderlyingCause(cause),
	}
}

func evictions(w *kueue.Workload, reason string, cause kueue.EvictionUnderlyingCause) int32 {
	if w.Status.SchedulingStats != nil {
		for _, e := range w.Status.SchedulingStats.Evictions {
			if e.Reason == reason && e.UnderlyingCause == cause {
				return e.Count
			}
		}
	}
	return 0
}

// splitReason takes the cause out of the reason of a deactivation.
func splitReason(reason string) (string, string) {
	if n := len(kueue.ReasonDeactivatedDueTo); len(reason) > n && reason[:n] == kueue.ReasonDeactivatedDueTo {
		return kueue.ReasonDeactivated, reason[n:]
	}
	return reason, ""
}

func condition(w *kueue.Workload, kind string) *metav1.Condition {
	return apimeta.FindStatusCondition(w.Status.Conditions, kind)
}

// became returns the condition if it has got that status.
func became(was, is *kueue.Workload, kind string, status metav1.ConditionStatus) *metav1.Condition {
	after := condition(is, kind)
	if after == nil || after.Status != status {
		return nil
	}
	if before := condition(was, kind); before != nil && before.Status == status {
		return nil
	}
	return after
}
