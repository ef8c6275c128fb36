package raycluster

import (
	"encoding/hex"
	"fmt"
	"io"
	"maps"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	api "github.com/mlbatch/mlbatch/api/ray/v1"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// artifacts are what a cluster has beside its pods.
func artifacts(o jobs.Object, _ *jobs.Plan, _ *jobs.Progress) ([]jobs.Artifact, error) {
	c, err := cast(o)
	if err != nil {
		return nil, err
	}
	out := []jobs.Artifact{{Object: headService(c)}}
	if multiHost(&c.Spec) {
		out = append(out, jobs.Artifact{Object: workerService(c)})
	}
	if AsksForToken(&c.Spec) && !AsksKubernetes(&c.Spec) && TokenSecret(&c.Spec, c.Name) == c.Name {
		out = append(
			out,
			jobs.Artifact{Object: &corev1.Secret{ObjectMeta: meta(c, c.Name)}, Fill: fillToken, Stays: true},
		)
	}
	if autoscales(&c.Spec) {
		out = append(out, rights(c)...)
	}
	return out, nil
}

// meta is that of an artifact.
func meta(c *api.RayCluster, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Labels: map[string]string{
		api.ClusterLabel:               c.Name,
		"app.kubernetes.io/name":       "kuberay",
		"app.kubernetes.io/created-by": "kuberay-operator",
	}}
}

// headService is where the head is found: before it is ready, since workers ask for it
// while it comes up.
func headService(c *api.RayCluster) *corev1.Service {
	h := &c.Spec.HeadGroupSpec
	selector := labels(c, api.HeadNode, api.HeadGroup)
	delete(selector, api.GroupLabel)
	s := &corev1.Service{ObjectMeta: meta(c, ServiceName(c))}
	maps.Copy(s.Labels, selector)
	s.Annotations = maps.Clone(c.Spec.HeadServiceAnnotations)
	s.Spec = corev1.ServiceSpec{Type: h.ServiceType, Selector: selector, PublishNotReadyAddresses: true}
	if own := h.HeadService; own != nil {
		own = own.DeepCopy()
		merge(&s.Labels, own.Labels)
		merge(&s.Annotations, own.Annotations)
		kind, ports := s.Spec.Type, own.Spec.Ports
		s.Spec = own.Spec
		s.Spec.Selector, s.Spec.PublishNotReadyAddresses, s.Spec.Ports = selector, true, ports
		if kind != "" {
			s.Spec.Type = kind
		}
	}
	if s.Spec.Type == "" {
		s.Spec.Type = corev1.ServiceTypeClusterIP
		if s.Spec.ClusterIP == "" {
			s.Spec.ClusterIP = corev1.ClusterIPNone
		}
	}
	s.Spec.Ports = addPorts(s.Spec.Ports, headPorts(&h.Template))
	return s
}

// merge adds what is not there.
func merge(to *map[string]string, more map[string]string) {
	for key, value := range more {
		if *to == nil {
			*to = map[string]string{}
		}
		if _, is := (*to)[key]; !is {
			(*to)[key] = value
		}
	}
}

// addPorts adds those of the head to what its author wrote.
func addPorts(written []corev1.ServicePort, ports []corev1.ContainerPort) []corev1.ServicePort {
	out := written
	for _, p := range ports {
		there := false
		for _, w := range written {
			there = there || w.Name == p.Name || w.Port == p.ContainerPort
		}
		if there {
			continue
		}
		protocol := p.Protocol
		if protocol == "" {
			protocol = corev1.ProtocolTCP
		}
		out = append(out, corev1.ServicePort{
			Name:        p.Name,
			Port:        p.ContainerPort,
			TargetPort:  intstr.FromInt32(p.ContainerPort),
			Protocol:    protocol,
			AppProtocol: new("tcp"),
		})
	}
	return out
}

// ServicePorts are those of a service that leads to the head.
func ServicePorts(s *api.RayClusterSpec) []corev1.ServicePort {
	return addPorts(nil, headPorts(&s.HeadGroupSpec.Template))
}

// workerService gives the pods of replicas with several hosts their names.
func workerService(c *api.RayCluster) *corev1.Service {
	s := &corev1.Service{ObjectMeta: meta(c, c.Name+"-headless")}
	s.Spec = corev1.ServiceSpec{
		ClusterIP:                corev1.ClusterIPNone,
		PublishNotReadyAddresses: true,
		Selector: map[string]string{
			api.NodeLabel:     "yes",
			api.ClusterLabel:  c.Name,
			api.NodeTypeLabel: api.WorkerNode,
		},
	}
	return s
}

// tokenBytes is how long a token is.
const tokenBytes = 32

func fillToken(random io.Reader, o jobs.Object) error {
	secret, ok := o.(*corev1.Secret)
	if !ok {
		return fmt.Errorf("make token: %T is no Secret", o)
	}
	b := make([]byte, tokenBytes)
	if _, err := io.ReadFull(random, b); err != nil {
		return fmt.Errorf("make token: %w", err)
	}
	secret.Data = map[string][]byte{TokenKey: []byte(hex.EncodeToString(b))}
	return nil
}

// rights let the head change how many workers its own cluster has. It reads all pods of
// the namespace, since a right to list cannot be bound to labels; everything else that it
// may is about the one object that it belongs to.
func rights(c *api.RayCluster) []jobs.Artifact {
	var out []jobs.Artifact
	if c.Spec.HeadGroupSpec.Template.Spec.ServiceAccountName == "" {
		out = append(out, jobs.Artifact{Object: &corev1.ServiceAccount{ObjectMeta: meta(c, account(c))}})
	}
	return append(out,
		jobs.Artifact{Object: &rbacv1.Role{ObjectMeta: meta(c, c.Name), Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get", "list", "watch"}},
			{
				APIGroups:     []string{api.GroupVersion.Group},
				Resources:     []string{"rayclusters"},
				ResourceNames: []string{c.Name},
				Verbs:         []string{"get", "patch"},
			},
		}}},
		jobs.Artifact{Object: &rbacv1.RoleBinding{
			ObjectMeta: meta(c, c.Name),
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: c.Name},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: account(c), Namespace: c.Namespace}},
		}})
}
