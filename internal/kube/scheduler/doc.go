// Package scheduler is the kube-scheduler of mlbatch: the upstream scheduling
// framework with plugins that carry out what the engine planned.
//
// It owns four promises.
//
//   - Planned pods go where the plan says. A pod that names a Workload
//     (annotation kueue.x-k8s.io/workload) is not tried before the Workload is
//     admitted, and then only on the nodes that its pod set was given. Every
//     ordinary Kubernetes rule is still checked for that node, and nothing is
//     evicted for it: evictions are the engine's to decide.
//   - Gangs start together or not at all. Before the first pod of a gang takes
//     anything, the whole gang is tried on a copy of the cluster (file
//     dryrun.go), so a gang that does not fit holds nothing, and two gangs
//     that want the same nodes cannot block each other half-way. The same holds
//     for PodGroups (label scheduling.x-k8s.io/pod-group) outside the queues; one
//     that a dying process left half bound is finished before others get room.
//   - No place is given twice. A pod of which it is not known what became, because an
//     API server died or one watch is ahead of another, keeps its place until the API
//     server has been asked (index.go, bind.go): a controller may have made another in
//     its stead.
//   - GPUs are packed, and pods that ask for GPUs stay off nodes that a health
//     check has marked bad.
//
// How it is laid out: package gang decides, over values alone;
// reservations.go holds what this process has decided so far; gangplugin.go and
// health.go connect both to the framework; source.go and wake.go turn watched
// objects into gangs and wake their pods; run.go wires the process.
//
// All state that matters is in the API: a restarted scheduler rebuilds its
// reservations from bound pods and stored plans. The package does not choose nodes for
// Workloads, does not touch quota and never deletes a pod.
package scheduler
