package appwrapper

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	awv1beta2 "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	"github.com/mlbatch/mlbatch/internal/engine/lifecycle"
)

// conditionsOf reads the conditions that lifecycle knows.
func conditionsOf(w *awv1beta2.AppWrapper) []lifecycle.Condition {
	var out []lifecycle.Condition
	for _, c := range w.Status.Conditions {
		if known(c.Type) {
			out = append(out, lifecycle.Condition{
				Type: lifecycle.ConditionType(c.Type), True: c.Status == metav1.ConditionTrue,
				Reason: c.Reason, Message: c.Message, Since: c.LastTransitionTime.Time,
			})
		}
	}
	return out
}

func known(conditionType string) bool {
	switch lifecycle.ConditionType(conditionType) {
	case lifecycle.QuotaReserved, lifecycle.ResourcesDeployed, lifecycle.PodsReady,
		lifecycle.Unhealthy, lifecycle.DeletingResources:
		return true
	}
	return false
}

// status is the AppWrapper's status after the step.
func (a *attempt) status() awv1beta2.AppWrapperStatus {
	old := &a.w.Status
	next := *old.DeepCopy()
	next.Phase = awv1beta2.AppWrapperPhase(a.step.Phase)
	next.Retries = a.step.Retries
	// Conditions of others stay, behind ours.
	next.Conditions = nil
	for _, c := range a.step.Conditions {
		next.Conditions = append(next.Conditions, condition(c))
	}
	for _, c := range old.Conditions {
		if !known(c.Type) {
			next.Conditions = append(next.Conditions, c)
		}
	}
	next.ComponentStatus = a.componentStatus()
	return next
}

func condition(c lifecycle.Condition) metav1.Condition {
	status := metav1.ConditionFalse
	if c.True {
		status = metav1.ConditionTrue
	}
	return metav1.Condition{
		Type: string(c.Type), Status: status, Reason: c.Reason, Message: c.Message,
		LastTransitionTime: metav1.NewTime(c.Since),
	}
}

// componentStatus lists the components. What is recorded of an object is kept
// once creation may have begun, whatever becomes of the spec.
func (a *attempt) componentStatus() []awv1beta2.AppWrapperComponentStatus {
	old := a.w.Status.ComponentStatus
	var out []awv1beta2.AppWrapperComponentStatus
	for i, c := range a.components {
		s := c.Status()
		s.UID = a.recordedUID(i)
		s.Node = a.nodeOf(i, s.UID)
		if i < len(old) {
			s.Conditions = old[i].DeepCopy().Conditions
		}
		if deployed, ok := a.deployed(i); ok {
			deployed.LastTransitionTime = metav1.NewTime(a.clock.Now())
			meta.SetStatusCondition(&s.Conditions, deployed)
		}
		out = append(out, s)
	}
	return out
}

// recordedUID is the UID by which a component is known from now on; "" before it
// exists, and between two attempts.
func (a *attempt) recordedUID(i int) types.UID {
	begins := a.step.Phase == lifecycle.Resuming && a.facts.Phase != lifecycle.Resuming
	switch {
	case begins, !a.isDeployed():
		return ""
	case a.facts.Components[i].Exists && a.uids[i] != "":
		return a.uids[i]
	}
	return a.components[i].UID
}

// deployed is the ResourcesDeployed condition of a component, if the step says
// anything about it.
func (a *attempt) deployed(i int) (metav1.Condition, bool) {
	c := metav1.Condition{Type: awv1beta2.ResourcesDeployed}
	was := a.facts.Components[i].Exists
	switch {
	case i == a.failedAt:
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, awv1beta2.ReasonComponentCreationErrored, a.facts.CreateError.Message
	case a.step.Phase == lifecycle.Resuming && a.facts.Phase != lifecycle.Resuming:
		c.Status, c.Reason = metav1.ConditionUnknown, awv1beta2.ReasonComponentCreationInitiated
	case was && (a.facts.Phase == lifecycle.Resuming || a.facts.Phase == lifecycle.Running):
		c.Status, c.Reason = metav1.ConditionTrue, awv1beta2.ReasonComponentCreatedSuccessfully
	case !was && a.facts.Phase != lifecycle.New && !a.isDeployed():
		if !a.everDeployed(i) {
			return c, false
		}
		c.Status, c.Reason = metav1.ConditionFalse, awv1beta2.ReasonComponentDeleted
	default:
		return c, false
	}
	return c, true
}

// isDeployed reports whether the AppWrapper's components exist after the step.
func (a *attempt) isDeployed() bool {
	i := slices.IndexFunc(
		a.step.Conditions,
		func(c lifecycle.Condition) bool { return c.Type == lifecycle.ResourcesDeployed },
	)
	return i >= 0 && a.step.Conditions[i].True
}

func (a *attempt) everDeployed(i int) bool {
	statuses := a.w.Status.ComponentStatus
	return i < len(statuses) && len(statuses[i].Conditions) > 0
}
