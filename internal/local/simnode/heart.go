package simnode

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// leaseNamespace is where kubelets keep their leases.
	leaseNamespace = corev1.NamespaceNodeLease
	// renewEvery is how often a node says that it lives, and leaseSeconds how
	// long it may be silent, as far as the lease says.
	renewEvery   = 7 * time.Second
	leaseSeconds = 40
)

// beats says whether a node sends heartbeats.
func beats(n *corev1.Node) bool { return n.Annotations[AnnotationSimulate] != Down }

// nodeStatus is what a living node says of itself, nil if it said that
// already. It also takes back what others said of it while it was silent.
func nodeStatus(n *corev1.Node, now time.Time) *corev1.NodeStatus {
	if !beats(n) {
		return nil
	}
	want := healthyConditions(now)
	if n.Annotations[AnnotationSimulate] == NotReady {
		ready := &want[len(want)-1]
		ready.Status, ready.Reason, ready.Message = corev1.ConditionFalse, "KubeletNotReady", "annotation "+AnnotationSimulate+" says "+NotReady
	}
	next := n.Status.DeepCopy()
	changed := false
	for _, w := range want {
		changed = setNodeCondition(next, w) || changed
	}
	if !changed {
		return nil
	}
	return next
}

func setNodeCondition(st *corev1.NodeStatus, w corev1.NodeCondition) bool {
	for i := range st.Conditions {
		c := &st.Conditions[i]
		if c.Type != w.Type {
			continue
		}
		if c.Status == w.Status && c.Reason == w.Reason {
			return false
		}
		if c.Status == w.Status {
			w.LastTransitionTime = c.LastTransitionTime
		}
		*c = w
		return true
	}
	st.Conditions = append(st.Conditions, w)
	return true
}

// newLease is a node's lease as it must look at this time.
func newLease(n *corev1.Node, now time.Time) *coordinationv1.Lease {
	t := metav1.NewMicroTime(now)
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Name: n.Name, Namespace: leaseNamespace,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: n.Name, UID: n.UID}},
		},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: new(n.Name), LeaseDurationSeconds: new(int32(leaseSeconds)), RenewTime: &t},
	}
}

// renewal is how often one node renews: a little different for each, so that
// a thousand nodes do not write all at once.
func renewal(n *corev1.Node) time.Duration {
	i, _ := index(n.Name)
	return renewEvery - time.Duration(i%40)*50*time.Millisecond
}
