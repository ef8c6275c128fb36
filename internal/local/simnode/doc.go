// Package simnode plays the kubelets of simulated GPU nodes.
//
// Fleet describes the nodes. Main is the program: it watches the pods bound to
// simulated nodes and lets them run in time, renews the nodes' leases, and
// keeps nodes ready. What happens to a pod is decided by one pure function,
// Decide; the rest is plumbing.
//
// A pod starts as soon as it is bound. Its init containers run first, one after the
// other. Each container runs for as long as its command sleeps, or as the pod's
// annotation mlbatch.dev/run-for says, divided by the time scale; if neither says
// anything, init containers end at once, others after 60 s (also divided) if they may
// end (restartPolicy Never or OnFailure) and never if not. An sshd in the foreground never
// ends. What a pod runs that
// finds a hostfile in a ConfigMap, as launchers of MPI do, begins when the pods are up that
// are named there (hosts.go). A container ends with the
// code that its command exits with, or with the one in mlbatch.dev/exit-code, else
// with 0. An image of a registry below .invalid is nowhere to be pulled, and a command below
// /nonexistent cannot be started. The annotations are for containers and not for init containers. A deleted
// pod ends after 200 ms, or mlbatch.dev/stop-after, but at the latest when its grace period is over; those
// are durations of the system and not divided. Containers that are restarted wait as under a real kubelet.
//
// Everything that must survive is in the pods' status: a simulator that was
// killed goes on where it stopped, and time passes for pods meanwhile.
//
// The kubelets answer as well: kubectl logs tells what became of a container, and
// exec, attach and port-forward say that nothing is really run (kubelet.go). Heads of Ray answer
// as its dashboard does, to who goes through a proxy (ray.go). Claims of
// the storage class get volumes that hold nothing (volumes.go).
//
// The package registers no nodes (see Reconcile) and schedules nothing. A node that
// is deleted and created again gets back what a kubelet says of itself.
package simnode
