package why

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/appwrapper"
	"github.com/mlbatch/mlbatch/internal/view"
)

// Retries is what is left of a job's retries, and who says what is tried again. Its JSON is stable.
type Retries struct {
	// Used is how many failures of its own were followed by another attempt, of Limit; nil if only the configuration
	// file of the controller or the defaults say that.
	Used  int32  `json:"used"`
	Limit *int32 `json:"limit,omitempty"`
	// Disruptions are those since the last attempt with progress, which is no failure of its own.
	Disruptions int32 `json:"disruptions"`
	// Policies are what the job and its queues say, as far as their reader may see, the most specific first.
	Policies []SaidPolicy `json:"policies,omitempty"`
	// AvoidedNodes are nodes on which it failed, and which it gets only if there are no others.
	AvoidedNodes []string `json:"avoidedNodes,omitempty"`
}

// SaidPolicy is a retry policy and who wrote it.
type SaidPolicy struct {
	From string `json:"from"`
	Text string `json:"text"`
}

// clusterQueue is that of the job's LocalQueue, if its reader may see it.
func (p *JobObjects) clusterQueue(ctx context.Context, c client.Reader) *kueue.ClusterQueue {
	var cq kueue.ClusterQueue
	if p.LocalQueue == nil ||
		c.Get(ctx, types.NamespacedName{Name: string(p.LocalQueue.Spec.ClusterQueue)}, &cq) != nil {
		return nil
	}
	return &cq
}

// retries are those of the job, whose ClusterQueue is nil if it cannot be seen; nil of one that has none, or of which
// nothing is to be told.
func (p *JobObjects) retries(cq *kueue.ClusterQueue) *Retries {
	root := p.Root()
	if p.Workload == nil || root == nil {
		return nil
	}
	out := &Retries{}
	for _, n := range convert.Avoided(p.Workload) {
		out.AvoidedNodes = append(out.AvoidedNodes, n.Name)
	}
	switch {
	case p.AppWrapper != nil:
		out.Used = p.AppWrapper.Status.Retries
	case p.Recovery != nil:
		out.Used = p.Recovery.Failures
	default: // others run it
		if len(out.AvoidedNodes) == 0 {
			return nil
		}
		return out
	}
	history := view.RetryHistory(p.attemptsWithin(), out.Used)
	_, out.Disruptions = history.Used()
	said := func(o metav1.Object, from string) {
		text, says := o.GetAnnotations()[kueue.RetryPolicyAnnotation]
		t, err := core.ParseRetryText(text, from)
		if !says || err != nil {
			return // it says nothing
		}
		out.Policies = append(out.Policies, SaidPolicy{from, oneLine(text)})
		if out.Limit == nil && p.AppWrapper != nil { // others have their own in their fields
			out.Limit = t.Limit
		}
	}
	if own, err := strconv.ParseInt(
		root.GetAnnotations()[appwrapper.AnnotationPrefix+"retryLimit"],
		10,
		32,
	); err == nil &&
		p.AppWrapper != nil &&
		own >= 0 {
		out.Limit = new(int32(own))
	}
	said(root, "the job")
	if own, _ := appwrapper.SaysRetries(root.GetAnnotations()); !own && p.LocalQueue != nil {
		said(p.LocalQueue, "LocalQueue "+p.LocalQueue.Name)
		if cq != nil {
			said(cq, "ClusterQueue "+cq.Name)
		}
	}
	if out.Used == 0 && out.Disruptions == 0 && len(out.Policies) == 0 && len(out.AvoidedNodes) == 0 {
		return nil
	}
	return out
}

// oneLine is a policy with its entries behind semicolons.
func oneLine(policy string) string {
	var entries []string
	for entry := range strings.FieldsFuncSeq(policy, func(r rune) bool { return r == ';' || r == '\n' }) {
		if entry = strings.Join(strings.Fields(entry), " "); entry != "" {
			entries = append(entries, entry)
		}
	}
	return strings.Join(entries, "; ")
}

// retried says what is left of the job's retries, where more is to be told than how many it used.
func (e *Explanation) retried(p *JobObjects) {
	r := p.retries(nil)
	if r != nil && (r.Limit != nil || r.Disruptions > 0 || len(r.Policies)+len(r.AvoidedNodes) > 0) {
		e.say("Retries: %s", RetriesText(r))
	}
}

// RetriesText says what is left of a job's retries, and who says what is tried again.
func RetriesText(r *Retries) string {
	text := fmt.Sprintf("%d used", r.Used)
	if r.Limit != nil {
		text = fmt.Sprintf("%d of %d used", r.Used, *r.Limit)
	}
	if r.Disruptions > 0 {
		text += fmt.Sprintf(", %d disruptions in a row without progress", r.Disruptions)
	}
	for _, p := range r.Policies {
		text += "; " + p.From + " says: " + p.Text
	}
	if len(r.AvoidedNodes) > 0 {
		text += "; gets other nodes than " + strings.Join(r.AvoidedNodes, ", ") + " if there are some"
	}
	return text
}
