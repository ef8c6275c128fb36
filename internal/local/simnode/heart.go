package simnode

import (
	"encoding/json"
	"maps"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// leaseNamespace is where kubelets keep their leases.
	leaseNamespace = corev1.NamespaceNodeLease
	// renewals is how often a node says that it lives while it may be silent.
	renewals = 3
	// shortGrace is how long the nodes of a fleet of up to fewNodes may be silent. Each more gives all
	// of them more time, so that fleets of any size write some fifty leases a second at most.
	shortGrace = 21 * time.Second
	fewNodes   = 300
	perNode    = 60 * time.Millisecond
)

// Grace is how long the nodes of a fleet of that size may be silent before they count as dead.
func Grace(nodes int) time.Duration {
	return shortGrace + time.Duration(max(nodes-fewNodes, 0))*perNode
}

// plays says whether a node is simulated here, and sends heartbeats: one with our
// label, or one that has the name of a node of the fleet, because a user created it
// again and left the labels to its kubelet.
func (s *simulator) plays(n *corev1.Node) bool {
	i, named := index(n.Name)
	_, labelled := n.Labels[LabelSimulated]
	return (labelled || named && i < s.fleet.Count) && n.Annotations[AnnotationSimulate] != Down
}

// self is a node as its kubelet would register it.
func (s *simulator) self(n *corev1.Node, now time.Time) *corev1.Node {
	i, ok := index(n.Name)
	self := s.fleet.Node(i, now)
	if !ok || i >= s.fleet.Count {
		// It was made up elsewhere, and says what it has.
		self = &corev1.Node{Status: corev1.NodeStatus{
			Addresses: addresses(n.Name), NodeInfo: nodeInfo(n.Name), DeclaredFeatures: declaredFeatures(),
		}}
	}
	if s.port != 0 {
		self.Status.Addresses = append(
			self.Status.Addresses,
			corev1.NodeAddress{Type: corev1.NodeExternalIP, Address: loopback},
		)
		self.Status.DaemonEndpoints.KubeletEndpoint.Port = s.port
	}
	return self
}

// missingLabels is a patch with the labels that a kubelet puts on its node, nil if it
// is known as ours: then the others are the administrator's affair.
func missingLabels(n, self *corev1.Node) []byte {
	if _, ok := n.Labels[LabelSimulated]; ok {
		return nil
	}
	labels := maps.Clone(self.Labels)
	maps.DeleteFunc(labels, func(k, _ string) bool { _, has := n.Labels[k]; return has })
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": labels}})
	if err != nil {
		return nil // strings can be written
	}
	return patch
}

// nodeStatus is what a living node says of itself, nil if it said that
// already. It also takes back what others said of it while it was silent.
func nodeStatus(n, self *corev1.Node, now time.Time) *corev1.NodeStatus {
	want := healthyConditions(now)
	if n.Annotations[AnnotationSimulate] == NotReady {
		ready := &want[len(want)-1]
		ready.Status, ready.Reason, ready.Message = corev1.ConditionFalse, "KubeletNotReady", "annotation "+AnnotationSimulate+" says "+NotReady
	}
	next := n.Status.DeepCopy()
	changed := register(next, self.Status)
	for _, w := range want {
		changed = setNodeCondition(next, w) || changed
	}
	if !changed {
		return nil
	}
	return next
}

// register fills in what a kubelet says of its node once: where it answers, and, of a
// node that says nothing yet, what it has.
func register(st *corev1.NodeStatus, self corev1.NodeStatus) bool {
	changed := false
	if !slices.Equal(st.Addresses, self.Addresses) || st.DaemonEndpoints != self.DaemonEndpoints {
		st.Addresses, st.DaemonEndpoints, changed = self.Addresses, self.DaemonEndpoints, true
	}
	if len(st.Capacity) == 0 && len(self.Capacity) > 0 {
		st.Capacity, st.Allocatable, changed = self.Capacity, self.Allocatable, true
	}
	if !slices.Equal(st.DeclaredFeatures, self.DeclaredFeatures) {
		st.DeclaredFeatures, changed = self.DeclaredFeatures, true
	}
	if st.NodeInfo.MachineID == "" {
		st.NodeInfo, changed = self.NodeInfo, true
	}
	return changed
}

// declaredFeatures are what pods may ask of a simulated node that not every kubelet can: the scheduler binds none that asks
// for more (KEP-5328).
func declaredFeatures() []string { return []string{"RestartAllContainersOnContainerExits"} }

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
func (s *simulator) newLease(n *corev1.Node, now time.Time) *coordinationv1.Lease {
	t := metav1.NewMicroTime(now)
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Name: n.Name, Namespace: leaseNamespace,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: n.Name, UID: n.UID}},
		},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity:       new(n.Name),
			LeaseDurationSeconds: new(int32(2 * Grace(s.fleet.Count).Seconds())),
			RenewTime:            &t,
		},
	}
}

// renewal is how often one node renews: a little different for each, so that
// a thousand nodes do not write all at once.
func (s *simulator) renewal(n *corev1.Node) time.Duration {
	const parts, spread = 40, 3 // of a third less at most
	every := Grace(s.fleet.Count) / renewals
	i, _ := index(n.Name)
	return every - every/spread*time.Duration(i%parts)/parts
}
