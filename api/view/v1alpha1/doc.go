// Package v1alpha1 names the view.mlbatch.dev API: how jobs and nodes stand, as every controller serves it. Its objects are
// computed when they are asked for, and described by the OpenAPI documents that are served with them.
package v1alpha1

import "k8s.io/apimachinery/pkg/runtime/schema"

// GroupVersion names this version of the API.
var GroupVersion = schema.GroupVersion{Group: "view.mlbatch.dev", Version: "v1alpha1"}

// What the API calls views of jobs and of nodes.
const (
	JobViews  = "jobviews"
	NodeViews = "nodeviews"
	// QueueViews are of ClusterQueues and Cohorts, LocalQueueViews of LocalQueues, TeamViews of teams.
	QueueViews      = "queueviews"
	LocalQueueViews = "localqueueviews"
	TeamViews       = "teamviews"
)
