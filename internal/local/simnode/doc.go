// Package simnode plays the kubelets of simulated GPU nodes.
//
// Fleet describes the nodes. Main is the program: it watches the pods bound to
// simulated nodes and lets them run in time, renews the nodes' leases, and
// keeps nodes ready. What happens to a pod is decided by one pure function,
// Decide; the rest is plumbing.
//
// A pod starts as soon as it is bound. It runs for as long as its command
// sleeps, or as its annotation mlbatch.dev/run-for says, divided by the time
// scale; otherwise 60 s (also divided) if it may end (restartPolicy Never or
// OnFailure) and forever if not. It ends with exit code 0, or with the one in
// mlbatch.dev/exit-code. A deleted pod ends after 200 ms, or
// mlbatch.dev/stop-after, but at the latest when its grace period is over;
// those are durations of the system and not divided. Containers that are
// restarted wait as under a real kubelet.
//
// Everything that must survive is in the pods' status: a simulator that was
// killed goes on where it stopped, and time passes for pods meanwhile.
//
// The package registers no nodes (see Reconcile) and schedules nothing.
package simnode
