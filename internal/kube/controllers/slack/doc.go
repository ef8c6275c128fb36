// Package slack keeps the promised quotas true when nodes go bad. The slack
// queue is a ClusterQueue without members: its quota is only lent
// to others. When capacity is out of service, the controller lets the slack
// queue lend that much less, by lowering its lendingLimit, and when the
// capacity is back it lends again. No team's own quota and no running work is
// touched. The lending limits of the slack queue belong to this controller;
// what a person writes there is overwritten.
//
// What is out of service is judged by package nodehealth: nodes with label
// autopilot.ibm.com/gpuhealth TESTING, ERR or EVICT (their GPUs), and nodes that
// are cordoned, not ready, being deleted, or gone. If more is missing than the
// slack queue holds, it lends nothing and the rest is for the admin to decide.
//
// It also has each ResourceFlavor say, in an annotation, how its capacity stands: what
// is planned, present, healthy and promised, and since when that is too little. Quotas
// are cut by that, where the configuration asks for it, when they are told to the engine
// (package cache); no spec of a queue is written for it.
//
// To know what a deleted node had, the controller keeps the ConfigMap
// mlbatch-nodes in its own namespace: one key per node, with the flavors it
// served and its capacity. A deleted node stays missing until it comes back or
// an admin accepts that it is gone for good, by removing its key:
//
//	kubectl -n mlbatch-system patch configmap mlbatch-nodes --type=json \
//	  -p '[{"op":"remove","path":"/data/NODE"}]'
//
// after lowering the quotas that were promised on it, where there are such.
package slack
