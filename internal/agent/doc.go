// Package agent looks after the health of the node that it runs on: it runs checks now and then and when asked, tells
// what they found in an annotation of its Node (api/health/v1alpha1), as metrics, and to whoever asks by HTTP as
// Autopilot's scripts expect it. It runs on every node, so it is small: it watches nothing, asks the API server only
// when it has something to tell or is about to do something heavy, and knows nothing of queues and jobs. What a
// finding means for jobs is decided elsewhere. What tools say is read by package reading.
package agent
