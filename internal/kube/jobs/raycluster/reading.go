package raycluster

import (
	"hash/fnv"
	"math"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	api "github.com/mlbatch/mlbatch/api/ray/v1"
)

// Head is the name of the head's role and pod set. Those of workers have the name of their
// group.
const Head = "head"

// domain is that of names in the cluster. Ray's own tools look for addresses in it.
const domain = ".svc.cluster.local"

// gcsPort is where the head is found by workers.
const gcsPort = 6379

// group are the workers of one group, with what its author left out.
type group struct {
	*api.WorkerGroupSpec
	// Hosts are the pods of a replica, Count all that there are to be, Least and Most the
	// bounds of that. Admitted are those that it needs quota for. Written are those that its
	// author asks for, whether the group is suspended or not.
	Hosts, Count, Least, Most, Admitted, Written int32
}

// groupOf reads a group. Of a cluster that grows by itself it is what it may grow to that
// quota is needed for: a worker that Ray asks for is never taken for a change of the job.
func groupOf(s *api.RayClusterSpec, g *api.WorkerGroupSpec) group {
	least := max(ptr.Deref(g.MinReplicas, 0), 0)
	most := ptr.Deref(g.MaxReplicas, math.MaxInt32)
	n := min(max(ptr.Deref(g.Replicas, least), least), most)
	out := group{WorkerGroupSpec: g, Hosts: max(g.NumOfHosts, 1)}
	out.Count, out.Least, out.Most = times(n, out.Hosts), times(least, out.Hosts), times(most, out.Hosts)
	out.Admitted, out.Written = out.Count, out.Count
	if autoscales(s) {
		out.Admitted = max(out.Most, 0)
	}
	if ptr.Deref(g.Suspend, false) {
		out.Count, out.Admitted = 0, 0
	}
	return out
}

// times multiplies counts; what is too large is the largest.
func times(a, b int32) int32 {
	return int32(min(int64(a)*int64(b), math.MaxInt32)) //nolint:gosec // it is no larger
}

// role is the name of a group's role.
func (g *group) role() string { return strings.ToLower(g.GroupName) }

func autoscales(s *api.RayClusterSpec) bool { return ptr.Deref(s.EnableInTreeAutoscaling, false) }

func suspended(c *api.RayCluster) bool { return ptr.Deref(c.Spec.Suspend, false) }

// mostPods is more than any cluster has.
const mostPods = 1_000_000

// longestName is that of a pod: its host has it as its name.
const longestName = 63

// workerPrefix is the name of a group's pods without their index. What would be too long is
// cut, with a sum of what is cut, so that no two groups get the same names.
func workerPrefix(cluster string, g *group) string {
	const end = "-worker-"
	const digits = 6 // of mostPods, so that the name is the same however many there are
	return cut(cluster+"-"+g.GroupName, longestName-len(end)-digits) + end
}

// cut returns a name that is not too long: another one for each.
func cut(name string, room int) string {
	if len(name) <= room {
		return name
	}
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(name)) // it never fails
	const letters = 7
	text := "-" + strconv.FormatUint(uint64(sum.Sum32()), 36)
	text = text[:min(len(text), letters+1)]
	return strings.TrimRight(name[:room-len(text)], "-.") + text
}

// headName is that of the head's pod.
func headName(cluster string) string { return cluster + "-head" }

// ServiceName is the name of the head's service.
func ServiceName(c *api.RayCluster) string {
	if s := c.Spec.HeadGroupSpec.HeadService; s != nil && s.Name != "" {
		return s.Name
	}
	return headName(c.Name) + "-svc"
}

// HeadAddress is where the head is found from anywhere in the Kubernetes cluster.
func HeadAddress(c *api.RayCluster) string {
	return ServiceName(c) + "." + c.Namespace + domain
}

// multiHost reports whether any group has replicas of several pods.
func multiHost(s *api.RayClusterSpec) bool {
	for i := range s.WorkerGroupSpecs {
		if s.WorkerGroupSpecs[i].NumOfHosts > 1 {
			return true
		}
	}
	return false
}

// headPorts are the ports of the head's container, and the usual ones where it has none.
func headPorts(t *corev1.PodTemplateSpec) []corev1.ContainerPort {
	var out []corev1.ContainerPort
	metrics := false
	if len(t.Spec.Containers) > 0 {
		for _, p := range t.Spec.Containers[0].Ports {
			if p.Name == "" {
				continue
			}
			out = append(out, p)
			metrics = metrics || p.Name == api.MetricsPort
		}
	}
	if len(out) == 0 {
		out = []corev1.ContainerPort{
			{Name: api.ClientPort, ContainerPort: 10001},
			{Name: api.DashboardPort, ContainerPort: 8265},
			{Name: api.GCSPort, ContainerPort: gcsPort},
			{Name: api.ServePort, ContainerPort: 8000},
		}
	}
	if !metrics {
		out = append(out, corev1.ContainerPort{Name: api.MetricsPort, ContainerPort: 8080})
	}
	return out
}

// PortOfDashboard is where the head's dashboard answers.
func PortOfDashboard(s *api.RayClusterSpec) int32 {
	if n, err := strconv.ParseInt(
		s.HeadGroupSpec.RayStartParams["dashboard-port"],
		10,
		32,
	); err == nil && n > 0 &&
		n < 65536 {
		return int32(n)
	}
	for _, p := range headPorts(&s.HeadGroupSpec.Template) {
		if p.Name == api.DashboardPort {
			return p.ContainerPort
		}
	}
	return 8265
}
