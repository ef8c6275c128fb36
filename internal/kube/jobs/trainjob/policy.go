package trainjob

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	jobset "github.com/mlbatch/mlbatch/api/jobset/v1alpha2"
	api "github.com/mlbatch/mlbatch/api/trainer/v1alpha1"
)

// port on which the pods of a training meet.
const port = 29500

// indexField is where a pod has its index in its Job.
const indexField = "metadata.annotations['batch.kubernetes.io/job-completion-index']"

// Variables by which frameworks find each other.
const (
	torchNodes     = "PET_NNODES"
	torchProcesses = "PET_NPROC_PER_NODE"
	torchRank      = "PET_NODE_RANK"
	torchAddress   = "PET_MASTER_ADDR"
	torchPort      = "PET_MASTER_PORT"
	torchBackend   = "PET_RDZV_BACKEND"
	torchEndpoint  = "PET_RDZV_ENDPOINT"
	torchID        = "PET_RDZV_ID"
	torchRestarts  = "PET_MAX_RESTARTS"

	jaxProcesses = "JAX_NUM_PROCESSES"
	jaxIndex     = "JAX_PROCESS_ID"
	jaxAddress   = "JAX_COORDINATOR_ADDRESS"

	trackerURI     = "DMLC_TRACKER_URI"
	trackerPort    = "DMLC_TRACKER_PORT"
	trackerTask    = "DMLC_TASK_ID"
	trackerWorkers = "DMLC_NUM_WORKER"
)

// reserved are the variables that the policy sets and that no author may.
func (r *rendering) reserved() []string {
	switch p := &r.policy; {
	case p.Torch != nil:
		return []string{torchNodes, torchProcesses, torchRank, torchAddress, torchPort}
	case p.JAX != nil:
		return []string{jaxProcesses, jaxIndex, jaxAddress}
	case p.XGBoost != nil:
		return []string{trackerURI, trackerPort, trackerTask, trackerWorkers}
	}
	return nil
}

// enforce tells pods what the framework of the runtime has to know.
func (r *rendering) enforce() {
	if r.policy.MPI != nil {
		r.mpi()
		return
	}
	for _, j := range r.of(api.AncestorTrainer) {
		c := container(j, api.Node)
		if c == nil {
			continue
		}
		switch {
		case r.policy.Torch != nil:
			r.torchtune(c)
			r.torch(j, c)
		case r.policy.JAX != nil:
			setEnv(
				c,
				number(jaxProcesses, size(j)),
				index(jaxIndex),
				text(jaxAddress, fmt.Sprintf("%s:%d", r.host(j, 0), port)),
			)
		case r.policy.XGBoost != nil:
			each := max(accelerators(c), 1) // a worker for each, or one that uses all processors
			setEnv(
				c,
				text(trackerURI, r.host(j, 0)),
				number(trackerPort, port),
				index(trackerTask),
				number(trackerWorkers, int64(size(j))*each),
			)
		default:
			continue
		}
		listen(c)
	}
}

// torch tells torchrun where the others are.
func (r *rendering) torch(j *jobset.ReplicatedJob, c *corev1.Container) {
	env := []corev1.EnvVar{
		number(torchNodes, size(j)), text(torchProcesses, r.processes(c)), index(torchRank),
		text(torchAddress, r.host(j, 0)), number(torchPort, port),
	}
	if e := r.policy.Torch.ElasticPolicy; e != nil {
		most := size(j)
		least := most
		if e.MinNodes != nil {
			least = min(*e.MinNodes, most)
		}
		env[0] = text(torchNodes, fmt.Sprintf("%d:%d", least, most))
		env = append(
			env,
			text(torchBackend, "c10d"),
			text(torchEndpoint, fmt.Sprintf("%s:%d", r.host(j, 0), port)),
			text(torchID, r.set.Name),
		)
		if e.MaxRestarts != nil {
			env = append(env, number(torchRestarts, *e.MaxRestarts))
			if r.set.Spec.FailurePolicy == nil {
				r.set.Spec.FailurePolicy = &jobset.FailurePolicy{MaxRestarts: *e.MaxRestarts}
			}
		}
	}
	setEnv(c, env...)
	if in := r.policy.Torch.EnvInjection; in != nil {
		for i := range pods(j).InitContainers {
			for _, name := range in.InitContainers {
				if c := &pods(j).InitContainers[i]; c.Name == name {
					setEnv(c, env...)
				}
			}
		}
	}
}

// torchtune refuses a command of torchtune without recipe and configuration. The trainer of
// Kubeflow chooses these by the name of the runtime; here they are the author's to say.
func (r *rendering) torchtune(c *corev1.Container) {
	words := slices.Concat(c.Command, c.Args)
	configured := slices.ContainsFunc(
		words,
		func(w string) bool { return w == "--config" || strings.HasPrefix(w, "--config=") },
	)
	if len(words) < 2 || words[0] != "tune" || words[1] != "run" || configured {
		return
	}
	const cure = "recipe and configuration of torchtune are not chosen by the runtime's name here: say both, as in args: [full_finetune_distributed, --config, llama3_2/1B_full]"
	if t := r.job.Spec.Trainer; t != nil && len(t.Command) > 0 {
		r.invalid(trainerPath().Child("command"), strings.Join(t.Command, " "), cure)
		return
	}
	r.invalid(runtimeRef(), r.job.Spec.RuntimeRef.Name, "the command of the %s is tune run: "+cure, r.runtime())
}

// processes is how many torchrun starts in each pod. Without a GPU that is one per
// processor, which is counted here: in a container torchrun sees those of the whole node.
func (r *rendering) processes(c *corev1.Container) string {
	n := intstr.FromString("auto")
	if said := r.policy.Torch.NumProcPerNode; said != nil {
		n = *said
	}
	if t := r.job.Spec.Trainer; t != nil && t.NumProcPerNode != nil {
		n = *t.NumProcPerNode
	}
	if n.String() == "cpu" || n.String() == "auto" && accelerators(c) == 0 {
		return strconv.FormatInt(
			max(1, amount(c, func(name string) bool { return name == string(corev1.ResourceCPU) })),
			10,
		)
	}
	return n.String()
}

// accelerators is how many GPUs a container has.
func accelerators(c *corev1.Container) int64 {
	return amount(c, func(name string) bool {
		name = strings.ToLower(name)
		return strings.Contains(name, "gpu") || strings.HasPrefix(name, "nvidia.com/mig-")
	})
}

// amount is how much a container has of some resources: its limits, or else what it asks
// for.
func amount(c *corev1.Container, is func(name string) bool) int64 {
	for _, list := range []corev1.ResourceList{c.Resources.Limits, c.Resources.Requests} {
		n := int64(0)
		for name, q := range list { // summed up
			if is(string(name)) {
				n += q.Value()
			}
		}
		if n > 0 {
			return n
		}
	}
	return 0
}

// listen opens the port on which pods meet.
func listen(c *corev1.Container) {
	for _, p := range c.Ports {
		if p.ContainerPort == port {
			return
		}
	}
	c.Ports = append(c.Ports, corev1.ContainerPort{ContainerPort: port, Protocol: corev1.ProtocolTCP})
}

func text(name, value string) corev1.EnvVar { return corev1.EnvVar{Name: name, Value: value} }

func number[N int | int32 | int64](name string, n N) corev1.EnvVar {
	return text(name, strconv.FormatInt(int64(n), 10))
}

// index is a variable with a pod's index.
func index(name string) corev1.EnvVar {
	return corev1.EnvVar{
		Name: name,
		ValueFrom: &corev1.EnvVarSource{
			FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: indexField},
		},
	}
}
