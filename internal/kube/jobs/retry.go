package jobs

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
)

// What a retry policy is told to be of, in messages and by who prints it.
const (
	RetryFromJob  = "the job"
	RetryFromFile = "the configuration file"
)

// RetryTextOf reads the retry policy of an object; nil if it says nothing. What makes no sense says nothing, and is an
// error for its author.
func RetryTextOf(o metav1.Object, from string) (*core.RetryText, error) {
	text, says := o.GetAnnotations()[kueue.RetryPolicyAnnotation]
	if !says {
		return nil, nil //nolint:nilnil // nothing is said, as of most
	}
	t, err := core.ParseRetryText(text, from)
	if err != nil {
		return nil, fmt.Errorf("annotation %s: %w", kueue.RetryPolicyAnnotation, err)
	}
	return &t, nil
}

// ValidateRetryPolicy says what is wrong with the retry policy of an object.
func ValidateRetryPolicy(annotations map[string]string) field.ErrorList {
	text, says := annotations[kueue.RetryPolicyAnnotation]
	if !says {
		return nil
	}
	if _, err := core.ParseRetryText(text, ""); err != nil {
		return field.ErrorList{
			field.Invalid(
				field.NewPath("metadata", "annotations").Key(kueue.RetryPolicyAnnotation),
				text,
				err.Error(),
			),
		}
	}
	return nil
}

// Retries is what is said of a job's retries, the most specific first.
type Retries struct {
	// Job is what its annotation says, and Others what its queues and the configuration file say, in this order; nil
	// where nothing is said.
	Job    *core.RetryText
	Others []*core.RetryText
	// Own: its author said in fields or annotations of its kind what is tried again, so that only Job goes besides. Limit is
	// how many retries that or its kind allows; Said: the author said so.
	Own   bool
	Limit int32
	Said  bool
}

// Policy is what all that comes to, for a kind whose retries are as core.RetryPolicy says.
func (r *Retries) Policy() core.RetryPolicy {
	out := core.RetryPolicy{Limit: r.Limit}
	limited := r.Said
	add := func(t *core.RetryText) {
		if t == nil {
			return
		}
		out.Rules = append(out.Rules, t.Rules...)
		if t.Limit != nil && !limited {
			out.Limit, limited = *t.Limit, true
		}
		if t.Disruptions != nil && out.Disruptions == 0 {
			out.Disruptions = *t.Disruptions
		}
	}
	add(r.Job)
	if r.Own {
		return out
	}
	for _, t := range r.Others {
		add(t)
	}
	out.Rules = append(out.Rules, core.DefaultRetryRules()...)
	return out
}

// QueueRetries is what a job's LocalQueue and ClusterQueue say of its retries, as far as they are known and make sense.
func QueueRetries(lq *kueue.LocalQueue, cq *kueue.ClusterQueue) (out []*core.RetryText) {
	if lq != nil {
		if t, err := RetryTextOf(lq, "LocalQueue "+lq.Name); err == nil {
			out = append(out, t)
		}
	}
	if cq != nil {
		if t, err := RetryTextOf(cq, "ClusterQueue "+cq.Name); err == nil {
			out = append(out, t)
		}
	}
	return out
}
