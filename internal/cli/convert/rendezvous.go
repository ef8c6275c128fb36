package convert

import (
	"cmp"
	"fmt"
	"net"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	jobset "github.com/mlbatch/mlbatch/api/jobset/v1alpha2"
	kubeflow "github.com/mlbatch/mlbatch/api/kubeflow/v1"
)

// Variables by which elastic workers find each other.
const (
	rdzvEndpoint = "PET_RDZV_ENDPOINT"
	rdzvBackend  = "PET_RDZV_BACKEND"
	rdzvID       = "PET_RDZV_ID"
	rdzvConf     = "PET_RDZV_CONF"
	maxRestarts  = "PET_MAX_RESTARTS"
	standalone   = "PET_STANDALONE"
	nodes        = "PET_NNODES"
)

// settledElastic fills in what goes without saying of an elastic job, and leaves out what says
// what goes without.
func settledElastic(j *kubeflow.PyTorchJob) {
	e, workers := j.Spec.ElasticPolicy, j.Spec.PyTorchReplicaSpecs[kubeflow.RoleWorker]
	if e == nil || workers == nil {
		return
	}
	n := ptr.Deref(workers.Replicas, 1)
	e.MinReplicas = new(ptr.Deref(e.MinReplicas, min(n, ptr.Deref(e.MaxReplicas, n))))
	e.MaxReplicas = new(ptr.Deref(e.MaxReplicas, max(n, *e.MinReplicas)))
	e.RDZVBackend = new(ptr.Deref(e.RDZVBackend, kubeflow.BackendC10D))
	if ptr.Deref(e.RDZVPort, 0) == portOf(&workers.Template) {
		e.RDZVPort = nil
	}
	if !ptr.Deref(e.Standalone, false) {
		e.Standalone = nil
	}
	if e.NProcPerNode != nil && j.Spec.NprocPerNode == nil {
		j.Spec.NprocPerNode, e.NProcPerNode = new(strconv.Itoa(int(*e.NProcPerNode))), nil
	}
}

// rendezvous is how the pods of an elastic job find each other: at its first worker, unless its
// author says where.
func (c *contract) rendezvous() []corev1.EnvVar {
	e := c.elastic
	at := cmp.Or(ptr.Deref(e.RDZVHost, ""), host(c.set, c.meets))
	out := []corev1.EnvVar{
		{Name: rdzvEndpoint, Value: fmt.Sprintf("%s:%d", at, ptr.Deref(e.RDZVPort, c.meetsAt))},
		{Name: rdzvBackend, Value: string(ptr.Deref(e.RDZVBackend, kubeflow.BackendC10D))},
		{Name: nodes, Value: fmt.Sprintf("%d:%d", ptr.Deref(e.MinReplicas, 1), ptr.Deref(e.MaxReplicas, 1))},
	}
	if e.MaxRestarts != nil {
		out = append(out, corev1.EnvVar{Name: maxRestarts, Value: strconv.Itoa(int(*e.MaxRestarts))})
	}
	if e.RDZVID != nil {
		out = append(out, corev1.EnvVar{Name: rdzvID, Value: *e.RDZVID})
	}
	if len(e.RDZVConf) > 0 {
		settings := make([]string, len(e.RDZVConf))
		for i, s := range e.RDZVConf {
			settings[i] = s.Key + "=" + s.Value
		}
		out = append(out, corev1.EnvVar{Name: rdzvConf, Value: strings.Join(settings, ",")})
	}
	if ptr.Deref(e.Standalone, false) {
		out = append(out, corev1.EnvVar{Name: standalone})
	}
	return out
}

// elasticOf reads from the variables of a pod how it finds the others of its elastic job; nil if
// they say nothing of that.
func elasticOf(
	s *jobset.JobSet,
	c *contract,
	t *corev1.PodTemplateSpec,
	env []corev1.EnvVar,
) *kubeflow.ElasticPolicy {
	value := map[string]string{}
	for _, v := range env {
		value[v.Name] = v.Value
	}
	number := func(text string) *int32 {
		n, err := strconv.ParseInt(text, 10, 32)
		if err != nil {
			return nil
		}
		return new(int32(n))
	}
	least, most, ranges := strings.Cut(value[nodes], ":")
	at, port, err := net.SplitHostPort(value[rdzvEndpoint])
	if err != nil || !ranges || value[rdzvBackend] == "" || number(least) == nil || number(most) == nil ||
		number(port) == nil {
		return nil
	}
	e := &kubeflow.ElasticPolicy{
		MinReplicas: number(
			least,
		),
		MaxReplicas: number(most),
		RDZVBackend: new(kubeflow.RDZVBackend(value[rdzvBackend])),
		MaxRestarts: number(value[maxRestarts]),
		RDZVPort:    number(port),
	}
	if c.meetsAt = portOf(t); *e.RDZVPort == c.meetsAt {
		e.RDZVPort = nil
	}
	if c.meets = roleAt(s, at); c.meets == "" {
		e.RDZVHost = &at
	}
	if id, is := value[rdzvID]; is {
		e.RDZVID = &id
	}
	if text := value[rdzvConf]; text != "" {
		for one := range strings.SplitSeq(text, ",") {
			key, v, _ := strings.Cut(one, "=")
			e.RDZVConf = append(e.RDZVConf, kubeflow.RDZVConf{Key: key, Value: v})
		}
	}
	if _, is := value[standalone]; is {
		e.Standalone = new(true)
	}
	return e
}
