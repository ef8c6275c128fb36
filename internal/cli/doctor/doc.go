// Package doctor looks at how a cluster is set up: what keeps queues from admitting,
// what is silently off, what is missing, and who else thinks that the cluster is his.
// Take reads what the user may read, Diagnose turns it into findings, each with a cure,
// by the rules of Rules. What quotas promise and what jobs ask for is the business of
// package check; what of its findings is about the set-up is told here as well.
//
// Nothing is changed.
package doctor
