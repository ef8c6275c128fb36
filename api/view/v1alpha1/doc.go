// Package v1alpha1 names the view.mlbatch.dev API: how jobs, nodes, queues and teams stand, as every
// controller serves it. Its objects are computed when they are asked for, and described by the OpenAPI
// documents that are served with them.
package v1alpha1

import "k8s.io/apimachinery/pkg/runtime/schema"

// GroupVersion names this version of the API.
var GroupVersion = schema.GroupVersion{Group: "view.mlbatch.dev", Version: "v1alpha1"}

// What the API calls views of jobs and of nodes.
const (
	JobViews  = "jobviews"
	NodeViews = "nodeviews"
	// DomainViews are of racks, blocks and other domains of nodes.
	DomainViews = "domainviews"
	// QueueViews are of ClusterQueues and Cohorts, LocalQueueViews of LocalQueues, TeamViews of teams.
	QueueViews      = "queueviews"
	LocalQueueViews = "localqueueviews"
	TeamViews       = "teamviews"
)

// What the API tells of one job alone, as subresources of its view: why it is where it is, and all that there
// is to know.
const (
	Explanation = "explanation"
	Details     = "details"
)
