package trim

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"unique"

	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// Transforms are what becomes of pods and nodes before the cache keeps them.
func Transforms() map[client.Object]cache.ByObject {
	return map[client.Object]cache.ByObject{
		&corev1.Pod{}:  {Transform: (&resourceLists{}).trimPod},
		&corev1.Node{}: {Transform: trimNode},
	}
}

// mostLists bounds how many lists of resources are remembered.
const mostLists = 4096

// resourceLists are the lists of resources that pods ask for, each once: they are most of what
// is left of a pod, and there are few different ones. No list in the cache is ever changed.
type resourceLists struct {
	mu  sync.Mutex
	all map[string]corev1.ResourceList
}

// shared is a list that is equal to this one.
func (r *resourceLists) shared(l corev1.ResourceList) corev1.ResourceList {
	if len(l) == 0 {
		return nil
	}
	var key strings.Builder
	for _, name := range slices.Sorted(maps.Keys(l)) {
		q := l[name]
		key.WriteString(string(name) + "=" + q.String() + "/" + string(q.Format) + ";")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if is, known := r.all[key.String()]; known {
		return is
	}
	if r.all == nil || len(r.all) >= mostLists {
		r.all = map[string]corev1.ResourceList{}
	}
	r.all[key.String()] = l
	return l
}

// trimPod drops what is not read of a pod that is not queued itself.
func (r *resourceLists) trimPod(o any) (any, error) {
	p, is := o.(*corev1.Pod)
	if !is {
		return o, expected(o)
	}
	p.ManagedFields = nil
	share(p)
	if p.Labels[kueue.ManagedLabel] == "true" { // as queued sees it
		return p, nil
	}
	spec := &p.Spec
	spec.Volumes, spec.ImagePullSecrets, spec.HostAliases, spec.DNSConfig, spec.ReadinessGates = nil, nil, nil, nil, nil
	spec.Overhead, spec.NodeSelector = r.shared(spec.Overhead), sharedMap(spec.NodeSelector)
	spec.SecurityContext, spec.EphemeralContainers, spec.Tolerations = nil, nil, nil
	for _, all := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range all {
			all[i] = r.trimContainer(&all[i])
		}
	}
	for _, all := range [][]corev1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
		for i := range all {
			s := &all[i]
			s.VolumeMounts, s.ImageID, s.ContainerID, s.User = nil, "", "", nil
			s.Image = shared(s.Image)
		}
	}
	p.Status.EphemeralContainerStatuses = nil
	return p, nil
}

// SharePods returns what a scheduler's informer does with a pod before it keeps it: what it has in common with
// others is kept once, and its volumes go that are on its node alone and can be in nobody's way, if it has a
// node. What is no pod is left as it is.
func SharePods() toolscache.TransformFunc {
	r := &resourceLists{}
	return func(o any) (any, error) {
		p, is := o.(*corev1.Pod)
		if !is {
			return o, nil
		}
		p.ManagedFields = nil
		if p.Spec.NodeName == "" {
			return p, nil
		}
		share(p)
		spec := &p.Spec
		spec.Overhead, spec.NodeSelector = r.shared(spec.Overhead), sharedMap(spec.NodeSelector)
		spec.RestartPolicy, spec.DNSPolicy = corev1.RestartPolicy(shared(string(spec.RestartPolicy))),
			corev1.DNSPolicy(shared(string(spec.DNSPolicy)))
		spec.Volumes = slices.Clip(slices.DeleteFunc(spec.Volumes, ofNodeAlone))
		if len(spec.Volumes) == 0 {
			spec.Volumes = nil
		}
		for _, all := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
			for i := range all {
				c := &all[i]
				c.Name, c.Image = shared(c.Name), ""
				c.Resources.Requests, c.Resources.Limits = r.shared(c.Resources.Requests), r.shared(c.Resources.Limits)
			}
		}
		for _, all := range [][]corev1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
			for i := range all {
				s := &all[i]
				*s = corev1.ContainerStatus{
					Name: shared(s.Name), AllocatedResources: r.shared(s.AllocatedResources), Resources: s.Resources,
				}
				if s.Resources != nil {
					s.Resources.Requests, s.Resources.Limits = r.shared(s.Resources.Requests), r.shared(s.Resources.Limits)
				}
			}
		}
		for i := range p.Status.Conditions {
			c := &p.Status.Conditions[i]
			c.Type, c.Status = corev1.PodConditionType(
				shared(string(c.Type)),
			), corev1.ConditionStatus(
				shared(string(c.Status)),
			)
			c.Reason = shared(c.Reason)
		}
		return p, nil
	}
}

// ofNodeAlone reports whether a volume is made on the node of its pod: no limit, zone or other pod is asked about it.
func ofNodeAlone(v corev1.Volume) bool {
	return v.EmptyDir != nil || v.HostPath != nil || v.Secret != nil || v.ConfigMap != nil ||
		v.DownwardAPI != nil ||
		v.Projected != nil
}

// trimContainer is what is read of a container: what it asks for, what it is, and where it
// answers.
func (r *resourceLists) trimContainer(c *corev1.Container) corev1.Container {
	return corev1.Container{
		Name: shared(c.Name), Image: shared(c.Image), Ports: c.Ports, RestartPolicy: c.RestartPolicy,
		Resources: corev1.ResourceRequirements{
			Requests: r.shared(c.Resources.Requests), Limits: r.shared(c.Resources.Limits), Claims: c.Resources.Claims,
		},
	}
}

// trimNode drops what is not read of a node. Images alone are ten kilobytes of each.
func trimNode(o any) (any, error) {
	n, is := o.(*corev1.Node)
	if !is {
		return o, expected(o)
	}
	n.ManagedFields = nil
	n.Labels = sharedMap(n.Labels)
	n.Status.Images, n.Status.VolumesInUse, n.Status.VolumesAttached = nil, nil, nil
	n.Status.NodeInfo, n.Status.RuntimeHandlers = corev1.NodeSystemInfo{}, nil
	return n, nil
}

// expected fails for an object of another kind; a mark of what was deleted is none.
func expected(o any) error {
	if _, gone := o.(toolscache.DeletedFinalStateUnknown); gone {
		return nil
	}
	return fmt.Errorf("%T is not of the kind that is watched", o)
}

// share keeps once what many pods say alike.
func share(p *corev1.Pod) {
	p.Namespace, p.GenerateName = shared(p.Namespace), shared(p.GenerateName)
	p.Labels, p.Annotations = sharedMap(p.Labels), sharedMap(p.Annotations)
	for i := range p.OwnerReferences {
		r := &p.OwnerReferences[i]
		r.APIVersion, r.Kind, r.Name = shared(r.APIVersion), shared(r.Kind), shared(r.Name)
	}
	p.Spec.NodeName, p.Spec.SchedulerName, p.Spec.ServiceAccountName = shared(
		p.Spec.NodeName,
	), shared(
		p.Spec.SchedulerName,
	), shared(
		p.Spec.ServiceAccountName,
	)
	p.Spec.DeprecatedServiceAccount, p.Spec.PriorityClassName = p.Spec.ServiceAccountName, shared(
		p.Spec.PriorityClassName,
	)
	p.Status.HostIP = shared(p.Status.HostIP)
}

func shared(s string) string {
	if s == "" {
		return ""
	}
	return unique.Make(s).Value()
}

func sharedMap(m map[string]string) map[string]string {
	if len(m) == 0 {
		return nil
	}
	out := make(map[string]string, len(m))
	for k, v := range m {
		if len(v) < 128 { // what is longer is seldom the same
			v = shared(v)
		}
		out[shared(k)] = v
	}
	return out
}
