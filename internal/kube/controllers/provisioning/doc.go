// Package provisioning answers the admission check
// kueue.x-k8s.io/provisioning-request: a workload whose quota is reserved
// starts only when what makes nodes, such as Cluster Autoscaler, has made
// them. It asks by a ProvisioningRequest and follows its conditions.
//
// For one workload it gathers the facts, decides (decide.go, pure), and
// applies: requests are made and removed, then the states of the checks are
// written at once. What follows from a state (admission, eviction, giving up)
// is done elsewhere: this package knows status.admissionChecks and nothing of
// the life of a workload beyond it.
//
// One request belongs to one reservation. Its number is how often the check has
// asked for another try, plus one, so that nothing has to be remembered here.
package provisioning

// reservationAnnotation of a request says for which reservation it is: since
// when quota is reserved, RFC 3339.
const reservationAnnotation = "mlbatch.dev/reserved-at"
