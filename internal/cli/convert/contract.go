package convert

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"

	jobset "github.com/mlbatch/mlbatch/api/jobset/v1alpha2"
	kubeflow "github.com/mlbatch/mlbatch/api/kubeflow/v1"
)

// contract is what the pods of a PyTorchJob are told about each other. In other kinds it is
// written into their templates.
type contract struct {
	set  string // name of the JobSet
	role string // that of the first pod, "" if there is no master
	// pods is how many there are, processes how many each has, port where the first listens.
	pods      int32
	processes string
	port      int32
	// elastic says how pods find each other whose number may change, nil if it may not; meets is the
	// role at whose first pod they do, at the port meetsAt, unless elastic says where.
	elastic *kubeflow.ElasticPolicy
	meets   string
	meetsAt int32
}

const (
	defaultPort = 23456
	portName    = "pytorchjob-port"
	indexField  = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
	// after begins the command of workers, whose rank is one more than their index.
	after = `export RANK=$((JOB_COMPLETION_INDEX + 1)); export PET_NODE_RANK=$RANK; exec "$@"`
)

// host is where the first pod is found.
func host(set, role string) string { return fmt.Sprintf("%s-%s-0-0.%s", set, role, set) }

// variables are those of the pods of a role; those of workers apart from their master get
// their rank from their command.
func (c *contract) variables(role string) []corev1.EnvVar {
	text := func(name, value string) corev1.EnvVar { return corev1.EnvVar{Name: name, Value: value} }
	out := []corev1.EnvVar{text("PYTHONUNBUFFERED", "1"), text("PET_NPROC_PER_NODE", c.processes)}
	if c.role != "" {
		each, err := strconv.Atoi(c.processes)
		if err != nil {
			each = 1
		}
		port, at := strconv.Itoa(int(c.port)), host(c.set, c.role)
		out = append(
			out,
			text("MASTER_PORT", port),
			text("PET_MASTER_PORT", port),
			text("MASTER_ADDR", at),
			text("PET_MASTER_ADDR", at),
			text("WORLD_SIZE", strconv.FormatInt(int64(c.pods)*int64(each), 10)),
		)
		if role == c.role {
			index := &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: indexField}}
			out = append(
				out,
				corev1.EnvVar{Name: "RANK", ValueFrom: index},
				corev1.EnvVar{Name: "PET_NODE_RANK", ValueFrom: index.DeepCopy()},
			)
		}
	}
	if c.elastic != nil {
		return append(out, c.rendezvous()...)
	}
	return append(out, text(nodes, strconv.Itoa(int(c.pods))))
}

// tell writes the contract into the pods of a role. What its author sets stays.
func (c *contract) tell(role string, t *corev1.PodTemplateSpec) error {
	for i := range t.Spec.Containers {
		one := &t.Spec.Containers[i]
		for _, v := range c.variables(role) {
			if !slices.ContainsFunc(one.Env, func(e corev1.EnvVar) bool { return e.Name == v.Name }) {
				one.Env = append(one.Env, v)
			}
		}
		if c.role == "" || role == c.role {
			continue
		}
		if len(one.Command) == 0 {
			return fmt.Errorf(
				"container %s of the workers has no command: give it one, in which its rank can be set, or give master and workers the same template",
				one.Name,
			)
		}
		one.Command = append([]string{"sh", "-c", after, "sh"}, one.Command...)
	}
	return nil
}

// untell takes out of templates what tell wrote.
func (c *contract) untell(role string, t *corev1.PodTemplateSpec) {
	for i := range t.Spec.Containers {
		one := &t.Spec.Containers[i]
		for _, v := range c.variables(role) {
			one.Env = slices.DeleteFunc(one.Env, func(e corev1.EnvVar) bool { return sameVariable(e, v) })
		}
		if len(one.Env) == 0 {
			one.Env = nil
		}
		if len(one.Command) > 4 && slices.Equal(one.Command[:4], []string{"sh", "-c", after, "sh"}) {
			one.Command = one.Command[4:]
		}
	}
}

// sameVariable compares variables; the version of a reference to the pod itself may be left out.
func sameVariable(a, b corev1.EnvVar) bool {
	for _, v := range []*corev1.EnvVar{&a, &b} {
		if v.ValueFrom != nil && v.ValueFrom.FieldRef != nil {
			v.ValueFrom = v.ValueFrom.DeepCopy()
			v.ValueFrom.FieldRef.APIVersion = ""
		}
	}
	return equality.Semantic.DeepEqual(a, b)
}

// contractOf is what the pods of a JobSet are told, as far as they are.
func contractOf(s *jobset.JobSet) *contract {
	c := &contract{set: s.Name, processes: "auto", port: defaultPort}
	for i := range s.Spec.ReplicatedJobs {
		j := &s.Spec.ReplicatedJobs[i]
		c.pods += podsOf(j)
		for n := range j.Template.Spec.Template.Spec.Containers {
			if c.elastic == nil {
				t := &j.Template.Spec.Template
				c.elastic = elasticOf(s, c, t, t.Spec.Containers[n].Env)
			}
			for _, e := range j.Template.Spec.Template.Spec.Containers[n].Env {
				switch port, err := strconv.ParseInt(e.Value, 10, 32); {
				case e.Name == "PET_NPROC_PER_NODE" && e.Value != "":
					c.processes = e.Value
				case (e.Name == "MASTER_PORT" || e.Name == "PET_MASTER_PORT") && err == nil:
					c.port = int32(port)
				case (e.Name == "MASTER_ADDR" || e.Name == "PET_MASTER_ADDR") && strings.HasSuffix(e.Value, "."+s.Name):
					c.role = cmp.Or(c.role, roleAt(s, e.Value))
				}
			}
		}
	}
	return c
}

// roleAt is the job that a host is the first pod of.
func roleAt(s *jobset.JobSet, at string) string {
	for i := range s.Spec.ReplicatedJobs {
		if name := s.Spec.ReplicatedJobs[i].Name; host(s.Name, name) == at {
			return name
		}
	}
	return ""
}

// podsOf is how many pods a replicated job has at the same time.
func podsOf(j *jobset.ReplicatedJob) int32 {
	return ptr.Deref(j.Replicas, 1) * ptr.Deref(j.Template.Spec.Parallelism, 1)
}
