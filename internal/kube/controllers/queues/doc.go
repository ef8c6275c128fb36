// Package queues keeps the status of ClusterQueues and LocalQueues, shows the
// same in gauges, and holds back the deletion of ClusterQueues and
// ResourceFlavors that are in use.
//
// It decides nothing: how many workloads wait and how much is used comes from
// the decision loop, through Numbers; whether a queue can admit follows from the
// objects (Active conditions). Of each queue the status is written when it
// differs from what is stored, and at most once per Interval: the first change
// after a pause is written at once, what follows is gathered.
package queues
