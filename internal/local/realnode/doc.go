// Package realnode holds what makes nodes with real pods on one machine: the programs
// of "mlbatch up --runtime containerd" besides the control plane.
//
// A node is a process that has namespaces for itself (machine_linux.go): it makes a root
// directory out of the machine's programs and the node's own files, waits for its
// network, offers pretend GPUs, and is the first process there, so that the kernel ends
// everything on the node with it. containerd, the kubelet and kube-proxy run inside.
// The network of the cluster (network_linux.go) is a process with a network namespace
// that all nodes are plugged into. So the machine gets one network interface and one
// route, no firewall rule, no mount and no named namespace; they vanish with the
// processes. What would not is cgroups, which Sweep removes.
//
// It does not decide which nodes there are, and starts no process but those of Debian's
// packages: package local does.
package realnode
