package install

import (
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// networkPolicies say who may connect to the programs: the API server to what it calls, who
// reads metrics to those. Probes of kubelets come from the node that a pod is on, which
// Kubernetes always lets in; for network plugins that do not, networkPolicy.nodes does.
//
// Where the API server comes from no policy can say but by its addresses, since it is no pod. As
// long as nobody names them, all may reach what it calls; what listens there asks for proof of
// who calls, or tells nothing (docs/security.md).
//
// What the programs connect to is not bounded: the API server's addresses, and heads of Ray in all
// namespaces.
func (x *rendering) networkPolicies() []client.Object {
	if !x.NetworkPolicy.Enabled {
		return nil
	}
	called := []int32{webhookPort}
	if x.Visibility.Enabled {
		called = append(called, visibilityPort)
	}
	all := []client.Object{
		x.networkPolicy(ControllerComponent, rules(
			ingress(blocks(x.NetworkPolicy.APIServer), true, called...),
			ingress(x.NetworkPolicy.Metrics, false, metricsPort),
			ingress(blocks(x.NetworkPolicy.Nodes), false, healthPort),
		)),
	}
	if x.Scheduler.Enabled {
		all = append(all, x.networkPolicy(SchedulerComponent, rules(
			ingress(x.NetworkPolicy.Metrics, false, schedulerPort),
			ingress(blocks(x.NetworkPolicy.Nodes), false, schedulerPort),
		)))
	}
	if x.Agent.Enabled {
		// Who asks an agent has to prove who they are.
		all = append(all, x.networkPolicy(AgentComponent, rules(
			ingress(nil, true, agentPort),
			ingress(blocks(x.NetworkPolicy.Nodes), false, agentHealthPort),
		)))
	}
	return all
}

func (x *rendering) networkPolicy(
	component string,
	rules []networkingv1.NetworkPolicyIngressRule,
) client.Object {
	return &networkingv1.NetworkPolicy{
		ObjectMeta: x.meta(x.fullname(component)),
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: selector(component)},
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
			Ingress:     rules,
		},
	}
}

// ingress lets some in to ports. A rule without peers lets in all, which only open ones may.
func ingress( //nolint:revive // a fact
	from []networkingv1.NetworkPolicyPeer,
	open bool,
	ports ...int32,
) *networkingv1.NetworkPolicyIngressRule {
	if len(from) == 0 && !open {
		return nil
	}
	r := &networkingv1.NetworkPolicyIngressRule{From: from}
	for _, p := range ports {
		r.Ports = append(
			r.Ports,
			networkingv1.NetworkPolicyPort{Protocol: ptr.To(corev1.ProtocolTCP), Port: new(intstr.FromInt32(p))},
		)
	}
	return r
}

func rules(all ...*networkingv1.NetworkPolicyIngressRule) []networkingv1.NetworkPolicyIngressRule {
	var out []networkingv1.NetworkPolicyIngressRule
	for _, r := range all {
		if r != nil {
			out = append(out, *r)
		}
	}
	return out
}

func blocks(cidrs []string) []networkingv1.NetworkPolicyPeer {
	var out []networkingv1.NetworkPolicyPeer
	for _, c := range cidrs {
		out = append(out, networkingv1.NetworkPolicyPeer{IPBlock: &networkingv1.IPBlock{CIDR: c}})
	}
	return out
}
