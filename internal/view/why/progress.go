package why

import (
	"fmt"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// progress tells of a job that states how often it takes a step how that goes; nil of others.
func (p *JobObjects) progress() *metav1.Condition {
	if p.Workload == nil {
		return nil
	}
	return apimeta.FindStatusCondition(p.Workload.Status.Conditions, kueue.WorkloadProgressing)
}

// progressed says how the steps of a job go.
func (e *Explanation) progressed(p JobObjects) {
	switch c := p.progress(); {
	case c == nil:
	case c.Status == metav1.ConditionTrue:
		e.say("Its last progress that was noted is %s", c.Message)
	default:
		e.say("It hangs, which was found %s ago: %s", p.ago(c.LastTransitionTime.Time), c.Message)
		e.Helps = fmt.Sprintf(
			"read what its pods said last: mlbatch logs %s/%s --evidence",
			p.Asked.Namespace,
			p.Asked.Name,
		)
	}
}
