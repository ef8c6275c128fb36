package v1beta2

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// MostStopNotice is the longest time that a configuration may let jobs run on that are to be stopped.
const MostStopNotice = time.Hour

// Validate says what is wrong with a configuration that Default has completed.
// Whether mlbatch can do what it asks for is not its matter.
func Validate(c *Configuration) field.ErrorList {
	var errs field.ErrorList
	errs = append(errs, names(field.NewPath("namespace"), *c.Namespace, validation.IsDNS1123Label)...)
	errs = append(errs, validateManager(&c.ControllerManager)...)
	errs = append(errs, validateSelector(c)...)
	errs = append(errs, validateCerts(c.InternalCertManagement, field.NewPath("internalCertManagement"))...)
	errs = append(errs, validatePodsReady(c.WaitForPodsReady, field.NewPath("waitForPodsReady"))...)
	errs = append(errs, validateIntegrations(c.Integrations, field.NewPath("integrations"))...)
	errs = append(errs, validateMultiKueue(c.MultiKueue, field.NewPath("multiKueue"))...)
	errs = append(
		errs,
		validateFairSharing(c.FairSharing, field.NewPath("fairSharing", "preemptionStrategies"))...)
	errs = append(
		errs,
		validateAdmissionFairSharing(c.AdmissionFairSharing, field.NewPath("admissionFairSharing"))...)
	errs = append(errs, validateResources(c.Resources, field.NewPath("resources"))...)
	errs = append(errs, validateTenants(c.Tenants, field.NewPath("tenants"))...)
	errs = append(errs, notNegative(field.NewPath("history", "afterEnded"), c.History.AfterEnded)...)
	errs = append(errs, notNegative(field.NewPath("recovery", "keepNodes"), c.Recovery.KeepNodes)...)
	if at, d := field.NewPath(
		"recovery",
		"maxStopNotice",
	), c.Recovery.MaxStopNotice.Duration; d < 0 ||
		d > MostStopNotice {
		errs = append(
			errs,
			field.Invalid(at, d.String(), fmt.Sprintf("must be from 0s, which tells nobody, to %s", MostStopNotice)),
		)
	}
	errs = append(errs, validateNodeHealth(c.NodeHealth, field.NewPath("nodeHealth"))...)
	errs = append(errs, validateCapacity(c.Capacity, field.NewPath("capacity"))...)
	if t := c.NodeHealth.DeepTest; t != nil {
		errs = append(errs, validateDeepTest(t, c, field.NewPath("nodeHealth", "deepTest"))...)
	}
	if n := *c.History.PerNamespace; n < leastHistory {
		errs = append(
			errs,
			field.Invalid(
				field.NewPath("history", "perNamespace"),
				n,
				fmt.Sprintf("must be %d, which are one object, or more; afterEnded: 0s remembers none", leastHistory),
			),
		)
	}
	if p := c.ObjectRetentionPolicies; p != nil && p.Workloads != nil {
		at := field.NewPath("objectRetentionPolicies", "workloads")
		errs = append(errs, notNegative(at.Child("afterFinished"), p.Workloads.AfterFinished)...)
		errs = append(
			errs,
			notNegative(at.Child("afterDeactivatedByKueue"), p.Workloads.AfterDeactivatedByKueue)...)
	}
	return errs
}

func validateSelector(c *Configuration) field.ErrorList {
	at := field.NewPath("managedJobsNamespaceSelector")
	errs := metav1validation.ValidateLabelSelector(
		c.ManagedJobsNamespaceSelector,
		metav1validation.LabelSelectorValidationOptions{},
		at,
	)
	selector, err := metav1.LabelSelectorAsSelector(c.ManagedJobsNamespaceSelector)
	if len(errs) > 0 || err != nil {
		return errs
	}
	for _, ns := range []string{metav1.NamespaceSystem, *c.Namespace} {
		if selector.Matches(labels.Set{corev1.LabelMetadataName: ns}) {
			errs = append(
				errs,
				field.Invalid(at, metav1.FormatLabelSelector(c.ManagedJobsNamespaceSelector), fmt.Sprintf(
					"must leave out the namespace %s, or the cluster could block itself: add a matchExpression with key %s, operator NotIn and that value",
					ns,
					corev1.LabelMetadataName,
				)),
			)
		}
	}
	return errs
}

func validateTenants(t *Tenants, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, name := range t.PodPriorityClasses {
		errs = append(errs, names(at.Child("podPriorityClasses").Index(i), name, validation.IsDNS1123Subdomain)...)
	}
	if d := t.MaxTerminationTime; d.Duration < time.Second {
		errs = append(
			errs,
			field.Invalid(at.Child("maxTerminationTime"), d.Duration.String(), "must be 1s or longer"),
		)
	}
	const orNone = "must be 0, which is without limit, or more"
	if *t.MaxJobs < 0 {
		errs = append(errs, field.Invalid(at.Child("maxJobs"), *t.MaxJobs, orNone))
	}
	if *t.MaxComponents < 0 {
		errs = append(errs, field.Invalid(at.Child("maxComponents"), *t.MaxComponents, orNone))
	}
	if n := t.MaxJobSize.Value(); n < 0 || n > 0 && n < leastJobSize {
		errs = append(
			errs,
			field.Invalid(
				at.Child("maxJobSize"),
				t.MaxJobSize.String(),
				"must be 0, which is without limit, or 4Ki or more",
			),
		)
	}
	if n := t.MaxTotalSize.Value(); n < 0 || n > 0 && n < t.MaxJobSize.Value() {
		errs = append(
			errs,
			field.Invalid(
				at.Child("maxTotalSize"),
				t.MaxTotalSize.String(),
				"must be 0, which is without limit, or as much as maxJobSize or more",
			),
		)
	}
	return errs
}

// leastHistory is how many jobs one object remembers.
const leastHistory = 64

// leastJobSize is a size that any job may have.
const leastJobSize = 4 << 10

func validateCerts(m *InternalCertManagement, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if m == nil {
		return nil
	}
	if m.WebhookServiceName != nil {
		errs = append(
			errs,
			names(at.Child("webhookServiceName"), *m.WebhookServiceName, validation.IsDNS1035Label)...)
	}
	if m.WebhookSecretName != nil {
		errs = append(
			errs,
			names(at.Child("webhookSecretName"), *m.WebhookSecretName, validation.IsDNS1123Subdomain)...)
	}
	return errs
}

func validatePodsReady(w *WaitForPodsReady, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	errs = append(errs, notNegative(at.Child("timeout"), w.Timeout)...)
	errs = append(errs, notNegative(at.Child("recoveryTimeout"), w.RecoveryTimeout)...)
	at = at.Child("requeuingStrategy")
	s := w.RequeuingStrategy
	errs = append(errs, oneOf(at.Child("timestamp"), *s.Timestamp, EvictionTimestamp, CreationTimestamp)...)
	errs = append(errs, atLeast(at.Child("backoffLimitCount"), s.BackoffLimitCount, 0)...)
	errs = append(errs, atLeast(at.Child("backoffBaseSeconds"), s.BackoffBaseSeconds, 0)...)
	return append(errs, atLeast(at.Child("backoffMaxSeconds"), s.BackoffMaxSeconds, 0)...)
}

func validateIntegrations(n *Integrations, at *field.Path) field.ErrorList {
	if n == nil {
		return nil
	}
	var errs field.ErrorList
	seen := map[string]bool{}
	for i, name := range n.Frameworks {
		at := at.Child("frameworks").Index(i)
		switch {
		case !slices.Contains(FrameworkNames(), name):
			errs = append(errs, field.NotSupported(at, name, FrameworkNames()))
		case seen[name]:
			errs = append(errs, field.Duplicate(at, name))
		}
		seen[name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(n.Modes)) {
		at := at.Child("modes").Key(name)
		if !slices.Contains(FrameworkNames(), name) {
			errs = append(errs, field.NotSupported(at, name, FrameworkNames()))
			continue
		}
		errs = append(errs, oneOf(at, n.Modes[name], RunKind, QueueKind, IgnoreKind)...)
	}
	kinds := map[schema.GroupVersionKind]bool{}
	for i, name := range n.ExternalFrameworks {
		at := at.Child("externalFrameworks").Index(i)
		gvk, _ := schema.ParseKindArg(name)
		switch {
		case gvk == nil:
			errs = append(
				errs,
				field.Invalid(at, name, "must be Kind.version.group, such as AppWrapper.v1beta2.workload.codeflare.dev"),
			)
		case kinds[*gvk]:
			errs = append(errs, field.Duplicate(at, name))
		default:
			kinds[*gvk] = true
		}
	}
	for i, key := range n.LabelKeysToCopy {
		errs = append(errs, names(at.Child("labelKeysToCopy").Index(i), key, validation.IsQualifiedName)...)
	}
	return errs
}

func validateMultiKueue(m *MultiKueue, at *field.Path) field.ErrorList {
	if m == nil {
		return nil
	}
	errs := notNegative(at.Child("gcInterval"), m.GCInterval)
	errs = append(errs, notNegative(at.Child("workerLostTimeout"), m.WorkerLostTimeout)...)
	if m.Origin != nil {
		errs = append(errs, names(at.Child("origin"), *m.Origin, validation.IsValidLabelValue)...)
	}
	if m.IncrementalDispatcherConfig != nil {
		errs = append(
			errs,
			atLeast(at.Child("incrementalDispatcherConfig", "stepSize"), m.IncrementalDispatcherConfig.StepSize, 1)...)
	}
	return errs
}

func validateFairSharing(f *FairSharing, at *field.Path) field.ErrorList {
	if f == nil {
		return nil
	}
	allowed := [][]PreemptionStrategy{
		{LessThanOrEqualToFinalShare}, {LessThanInitialShare}, {LessThanOrEqualToFinalShare, LessThanInitialShare},
	}
	for _, a := range allowed {
		if slices.Equal(a, f.PreemptionStrategies) {
			return nil
		}
	}
	return field.ErrorList{field.Invalid(at, f.PreemptionStrategies, fmt.Sprintf(
		"must be [%s], [%s], or both in this order", LessThanOrEqualToFinalShare, LessThanInitialShare))}
}

func validateAdmissionFairSharing(a *AdmissionFairSharing, at *field.Path) field.ErrorList {
	errs := notNegative(at.Child("usageHalfLifeTime"), a.UsageHalfLifeTime)
	if d := a.UsageSamplingInterval.Duration; d <= 0 {
		errs = append(errs, field.Invalid(at.Child("usageSamplingInterval"), d.String(), "must be longer than 0"))
	}
	for _, name := range slices.Sorted(maps.Keys(a.ResourceWeights)) {
		w := a.ResourceWeights[name]
		if !(w >= 0) || math.IsInf(w, 1) {
			errs = append(errs, field.Invalid(at.Child("resourceWeights").Key(string(name)), w, "must be 0 or more"))
		}
	}
	return errs
}

func validateResources(r *Resources, at *field.Path) field.ErrorList {
	errs := oneOf(at.Child("quotaCheckStrategy"), *r.QuotaCheckStrategy, BlockUndeclared, IgnoreUndeclared)
	if *r.QuotaCheckStrategy == IgnoreUndeclared && len(r.ExcludeResourcePrefixes) > 0 {
		errs = append(errs, field.Invalid(at.Child("excludeResourcePrefixes"), r.ExcludeResourcePrefixes,
			"must be empty if quotaCheckStrategy is IgnoreUndeclared, which leaves out whatever has no quota"))
	}
	for i, p := range r.ExcludeResourcePrefixes {
		if p == "" {
			errs = append(
				errs,
				field.Invalid(
					at.Child("excludeResourcePrefixes").Index(i),
					p,
					"must not be empty, or nothing would count: take the entry out",
				),
			)
		}
	}
	inputs := map[corev1.ResourceName]bool{}
	for i, t := range r.Transformations {
		at := at.Child("transformations").Index(i)
		errs = append(errs, validateTransformation(t, at)...)
		if inputs[t.Input] {
			errs = append(errs, field.Duplicate(at.Child("input"), t.Input))
		}
		inputs[t.Input] = true
	}
	return append(errs, validateDeviceClasses(r.DeviceClassMappings, at.Child("deviceClassMappings"))...)
}

func validateTransformation(t ResourceTransformation, at *field.Path) field.ErrorList {
	errs := names(at.Child("input"), string(t.Input), validation.IsQualifiedName)
	errs = append(errs, oneOf(at.Child("strategy"), *t.Strategy, Retain, Replace)...)
	if t.MultiplyBy != "" {
		errs = append(errs, names(at.Child("multiplyBy"), string(t.MultiplyBy), validation.IsQualifiedName)...)
	}
	for _, name := range slices.Sorted(maps.Keys(t.Outputs)) {
		errs = append(
			errs,
			names(at.Child("outputs").Key(string(name)), string(name), validation.IsQualifiedName)...)
	}
	return errs
}

func validateDeviceClasses(all []DeviceClassMapping, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(all) > 16 {
		errs = append(errs, field.TooMany(at, len(all), 16))
	}
	for i, m := range all {
		at := at.Index(i)
		errs = append(errs, names(at.Child("name"), string(m.Name), validation.IsQualifiedName)...)
		if n := len(m.DeviceClassNames); n == 0 || n > 8 {
			errs = append(errs, field.Invalid(at.Child("deviceClassNames"), n, "must be 1 to 8 names"))
		}
		for j, s := range m.Sources {
			if (s.Counter == nil) == (s.Capacity == nil) {
				errs = append(errs, field.Invalid(at.Child("sources").Index(j), "", "must be either counter or capacity"))
			}
		}
	}
	return errs
}

// names reports what a rule for names finds wrong with one.
func names(at *field.Path, value string, rule func(string) []string) field.ErrorList {
	if found := rule(value); len(found) > 0 {
		return field.ErrorList{field.Invalid(at, value, strings.Join(found, ", "))}
	}
	return nil
}

func oneOf[T ~string](at *field.Path, value T, allowed ...T) field.ErrorList {
	if slices.Contains(allowed, value) {
		return nil
	}
	return field.ErrorList{field.NotSupported(at, value, allowed)}
}

func notNegative(at *field.Path, d *metav1.Duration) field.ErrorList {
	if d != nil && d.Duration < 0 {
		return field.ErrorList{field.Invalid(at, d.Duration.String(), "must be 0 or longer")}
	}
	return nil
}

func atLeast(at *field.Path, n *int32, low int32) field.ErrorList {
	if n != nil && *n < low {
		return field.ErrorList{field.Invalid(at, *n, fmt.Sprintf("must be %d or more", low))}
	}
	return nil
}

// Sources and severities of findings on nodes.
func healthSources() []string {
	return []string{"Condition", "Taint", "Label", "Check", "Device", "Hang"}
}
func healthSeverities() []string { return []string{"Ignored", "Warned", "Failed", "Fatal"} }

// healthLabel is judged without rules.
const healthLabel = "autopilot.ibm.com/gpuhealth"

func validateNodeHealth(n *NodeHealth, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if m := *n.Mode; m != HealthDecide && m != HealthAct {
		errs = append(errs, field.NotSupported(at.Child("mode"), m, []NodeHealthMode{HealthDecide, HealthAct}))
	}
	errs = append(errs, notNegative(at.Child("returnAfter"), n.ReturnAfter)...)
	if n.ReturnAfterAtMost.Duration < n.ReturnAfter.Duration {
		errs = append(errs, field.Invalid(at.Child("returnAfterAtMost"), n.ReturnAfterAtMost.Duration.String(),
			"must be returnAfter ("+n.ReturnAfter.Duration.String()+") or more"))
	}
	if p := *n.MaxNewPercent; p < 0 || p > 100 {
		errs = append(errs, field.Invalid(at.Child("maxNewPercent"), p, "must be from 0 to 100"))
	}
	for i, s := range n.Sources {
		at := at.Child("sources").Index(i)
		if !slices.Contains(healthSources(), s.Source) {
			errs = append(errs, field.NotSupported(at.Child("source"), s.Source, healthSources()))
		}
		if !slices.Contains(healthSeverities(), s.Severity) {
			errs = append(errs, field.NotSupported(at.Child("severity"), s.Severity, healthSeverities()))
		}
		if s.Source == "Hang" && (s.Severity == "Failed" || s.Severity == "Fatal") {
			errs = append(errs, field.Invalid(at.Child("severity"), s.Severity,
				"must be Ignored or Warned: tenants write the steps of their jobs, and could have nodes taken away"))
		}
		if s.Name == "" {
			errs = append(
				errs,
				field.Required(at.Child("name"), "name a condition, taint, check or resource, or give *"),
			)
		}
		if s.Source == "Label" && s.Name == healthLabel {
			errs = append(
				errs,
				field.Forbidden(
					at.Child("name"),
					"this label is taken at its word: docs/node-health.md says which word does what",
				),
			)
		}
		if s.Resource != "" && (s.Source == "Check" || s.Source == "Device") {
			errs = append(
				errs,
				field.Forbidden(at.Child("resource"), "checks and devices say it themselves: leave it out"),
			)
		}
		if s.Status != "" && slices.Contains([]string{"Check", "Device", "Hang"}, s.Source) {
			errs = append(
				errs,
				field.Forbidden(at.Child("status"), "only conditions, taints and labels have one: leave it out"),
			)
		}
	}
	return errs
}

// defaultLocalQueue is the LocalQueue of Jobs that name none, where there is one.
const defaultLocalQueue = "default"

func validateDeepTest(t *DeepTest, c *Configuration, at *field.Path) field.ErrorList {
	errs := names(at.Child("namespace"), t.Namespace, validation.IsDNS1123Label)
	errs = append(errs, names(at.Child("queue"), t.Queue, validation.IsDNS1123Subdomain)...)
	errs = append(errs, names(at.Child("priorityClass"), t.PriorityClass, validation.IsDNS1123Subdomain)...)
	if t.RuntimeClassName != "" {
		errs = append(
			errs,
			names(at.Child("runtimeClassName"), t.RuntimeClassName, validation.IsDNS1123Subdomain)...)
	}
	for i, f := range t.Flavors {
		errs = append(errs, names(at.Child("flavors").Index(i), f, validation.IsDNS1123Subdomain)...)
	}
	if t.Image == "" {
		errs = append(
			errs,
			field.Required(at.Child("image"), "name the image of mlbatch, or one that has your command"),
		)
	}
	if n := t.Namespace; n == *c.Namespace || n == metav1.NamespaceSystem || n == metav1.NamespaceDefault {
		errs = append(errs, field.Invalid(
			at.Child("namespace"),
			n,
			"must be one of its own, since what passes a test there is believed: docs/node-health.md has one to apply",
		))
	}
	if t.Queue == defaultLocalQueue {
		errs = append(
			errs,
			field.Invalid(at.Child("queue"), t.Queue, "must be another: Jobs that name no queue, as those that "+
				"test nodes out of service, would be put into it, and wait for ever"),
		)
	}
	const shortest = time.Minute
	if d := t.Every.Duration; d != 0 && d < shortest {
		errs = append(errs, field.Invalid(at.Child("every"), d.String(), "must be 0s, for never, or 1m or more"))
	}
	if d := t.Deadline.Duration; d < shortest {
		errs = append(errs, field.Invalid(at.Child("deadline"), d.String(), "must be 1m or more"))
	}
	if n := t.MaxAtOnce; n.Type == intstr.String {
		if _, is := Percent(n.StrVal); !is {
			errs = append(
				errs,
				field.Invalid(at.Child("maxAtOnce"), n.StrVal, "must be a number, or a share from 1% to 100%"),
			)
		}
	} else if n.IntVal < 1 {
		errs = append(
			errs,
			field.Invalid(at.Child("maxAtOnce"), n.IntVal, "must be 1 or more; leave deepTest out for no tests"),
		)
	}
	if c.ManageJobsWithoutQueueName && (*t.AfterFault || *t.OnReturn) {
		errs = append(errs, field.Forbidden(
			at,
			"afterFault and onReturn run Jobs without a queue on nodes out of service, which manageJobsWithoutQueueName "+
				"would hold for ever: set these two to false, or that",
		))
	}
	if i := c.Integrations; i != nil && len(i.Frameworks) > 0 && !slices.Contains(i.Frameworks, "batch/job") {
		errs = append(errs, field.Forbidden(at, "tests are Jobs: add batch/job to integrations.frameworks"))
	}
	return errs
}

// Percent is the number in a share such as 5%, and false if it is none from 1 to 100.
func Percent(text string) (int, bool) {
	digits, is := strings.CutSuffix(text, "%")
	n, err := strconv.Atoi(digits)
	return n, is && err == nil && n >= 1 && n <= 100
}
