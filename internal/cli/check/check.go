// Package check compares what queues promise with what nodes have, and looks at what jobs ask
// for: the questions of MLBatch's cluster-checker. Take reads what the user may read, Judge
// turns it into a Report: sums, a line for each queue, and findings by the rules of Rules.
//
// What is wrong with the configuration itself, such as a queue that can never admit, is not
// asked here. Nothing is changed.
package check

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/finding"
	"github.com/mlbatch/mlbatch/internal/view/gather"
)

// Cluster is what was read.
type Cluster struct {
	Nodes       []corev1.Node
	Pods        []corev1.Pod
	Queues      []kueue.ClusterQueue
	LocalQueues []kueue.LocalQueue
	Flavors     []kueue.ResourceFlavor
	Workloads   []kueue.Workload
	// Unread are the kinds that the user may not read.
	Unread []string
	// Namespace is the only one that was looked at; "" is all.
	Namespace string
	// Slack is the name of the queue that belongs to no team, and lends what they do not have.
	Slack string
}

// Take reads a cluster: jobs of a namespace, or of all if it is "".
func Take(ctx context.Context, c client.Reader, namespace, slack string) (*Cluster, error) {
	out := &Cluster{Namespace: namespace, Slack: slack}
	var nodes corev1.NodeList
	var pods corev1.PodList
	var queues kueue.ClusterQueueList
	var local kueue.LocalQueueList
	var flavors kueue.ResourceFlavorList
	var workloads kueue.WorkloadList
	in := []client.ListOption{client.InNamespace(namespace)}
	unread, err := gather.ReadLists(
		ctx,
		c,
		gather.List{
			What: "nodes",
			Into: &nodes,
		},
		gather.List{What: "ClusterQueues", Into: &queues},
		gather.List{What: "ResourceFlavors", Into: &flavors},
		gather.List{
			What:    "pods",
			Into:    &pods,
			Options: in,
		},
		gather.List{What: "LocalQueues", Into: &local, Options: in},
		gather.List{What: "Workloads", Into: &workloads, Options: in},
	)
	out.Unread = unread
	out.Nodes, out.Pods, out.Queues, out.LocalQueues, out.Flavors, out.Workloads = nodes.Items, pods.Items, queues.Items, local.Items, flavors.Items, workloads.Items
	return out, err //nolint:wrapcheck // it says what it read
}

// Capacity is what the nodes of a flavor have of a resource, and what is promised of it.
type Capacity struct {
	Flavor   string `json:"flavor"`
	Resource string `json:"resource"`
	// Total is what all nodes have, Out what of it is out of service, Outside what pods have
	// that no queue counts; nil if the user may not read pods.
	Total   string  `json:"total"`
	Out     string  `json:"out"`
	Outside *string `json:"outside,omitempty"`
	// Teams is the quota of all queues but the slack queue, Slack the quota of that, and
	// Adjusted how much less of it is lent now.
	Teams    string `json:"teams"`
	Slack    string `json:"slack,omitempty"`
	Adjusted string `json:"adjusted,omitempty"`
	// Used is what jobs have, Borrowed how much of that is not their queue's.
	Used     string `json:"used"`
	Borrowed string `json:"borrowed"`

	sums sums
}

// Queue is what a team's queue has and does with one resource.
type Queue struct {
	Name     string `json:"name"`
	Flavor   string `json:"flavor"`
	Resource string `json:"resource"`
	Quota    string `json:"quota"`
	Used     string `json:"used"`
	Admitted int    `json:"admitted"`
	Waiting  int    `json:"waiting"`
}

// Report is what there is to say.
type Report struct {
	Time     time.Time         `json:"time"`
	Capacity []Capacity        `json:"capacity"`
	Queues   []Queue           `json:"queues"`
	Findings []finding.Finding `json:"findings"`
	// Unread are kinds that the user may not read: rules that need them found nothing.
	Unread []string `json:"unread,omitempty"`
}

// Warnings is how many findings are to be mended.
func (r *Report) Warnings() int { return finding.Count(r.Findings, finding.Warning) }

// Judge asks all rules. now is the time, patience how long a job may take to run after it was
// admitted.
func (c *Cluster) Judge(now time.Time, patience time.Duration) *Report {
	v := newAudit(c, now, patience)
	out := &Report{
		Time:     now.UTC(),
		Capacity: v.capacity,
		Queues:   v.queues,
		Findings: []finding.Finding{},
		Unread:   c.Unread,
	}
	for _, rule := range Rules() {
		for _, f := range rule.find(v) {
			out.Findings = append(
				out.Findings,
				finding.Finding{Rule: rule.Name, Severity: rule.Severity, Object: f.object, Message: f.message},
			)
		}
	}
	return out
}
