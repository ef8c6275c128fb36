package submit

import (
	"fmt"
	"strconv"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	kubeflow "github.com/mlbatch/mlbatch/api/kubeflow/v1"
)

// longestList is how long the list of hosts may be that pods are told; a process can be given
// about 128 KiB in a variable.
const longestList = 100_000

// ranks is how the pods of a job tell which of its nodes they are.
type ranks struct {
	// field of the pod that has the number of its node; "" if text has it, or a prologue.
	field string
	text  string
	// prologue is a line of shell that sets what Kubernetes cannot compute.
	prologue string
	// hosts are the names of the nodes, the first of which is where all meet; nil for one node.
	hosts []string
}

// shellRank sets the rank from what the kind of job sets.
const shellRank = `export MLBATCH_NODE_RANK="$RANK" SLURM_NODEID="$RANK" SLURM_PROCID="$((RANK * SLURM_NTASKS_PER_NODE))"`

func indexField() string {
	return fmt.Sprintf("metadata.annotations['%s']", batchv1.JobCompletionIndexAnnotation)
}

func replicaField() string { return fmt.Sprintf("metadata.labels['%s']", kubeflow.ReplicaIndexLabel) }

// env are the variables of a pod: the author's, which win, after the variables that Slurm's users
// know, and ours.
func (x *rendering) env(k ranks) []corev1.EnvVar {
	r := x.request
	var out []corev1.EnvVar
	own := map[string]bool{}
	for _, v := range r.Env {
		own[v.Name] = true
	}
	put := func(v corev1.EnvVar) {
		if !own[v.Name] {
			out = append(out, v)
		}
	}
	set := func(value string, names ...string) {
		for _, name := range names {
			put(corev1.EnvVar{Name: name, Value: value})
		}
	}
	from := func(field string, names ...string) {
		for _, name := range names {
			put(
				corev1.EnvVar{
					Name:      name,
					ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: field}},
				},
			)
		}
	}
	nodes, tasks := x.nodes(), max(r.TasksPerNode, 1)
	set(strconv.Itoa(nodes), "MLBATCH_NODES")
	set(strconv.FormatInt(r.GPUs.Count, 10), "MLBATCH_GPUS_PER_NODE")
	master := "localhost"
	if len(k.hosts) > 0 {
		master = k.hosts[0]
	}
	set(master, "MLBATCH_MASTER_ADDR")
	switch {
	case k.prologue != "" && k.field == "" && k.text == "":
	case k.field != "":
		from(k.field, "MLBATCH_NODE_RANK", "SLURM_NODEID")
		if tasks == 1 {
			from(k.field, "SLURM_PROCID")
		}
	default:
		set(k.text, "MLBATCH_NODE_RANK", "SLURM_NODEID", "SLURM_PROCID")
	}
	set(x.name, "SLURM_JOB_ID", "SLURM_JOBID")
	set(x.title(), "SLURM_JOB_NAME")
	if r.Queue != "" {
		set(r.Queue, "SLURM_JOB_PARTITION")
	}
	dir := r.Chdir
	if dir == "" && r.Workdir != "" {
		dir = WorkdirPath
	}
	if dir == "" {
		dir = "." // that of the image, which is not known
	}
	set(dir, "SLURM_SUBMIT_DIR")
	set(strconv.Itoa(nodes), "SLURM_NNODES", "SLURM_JOB_NUM_NODES")
	set(strconv.Itoa(nodes*tasks), "SLURM_NTASKS", "SLURM_NPROCS")
	set(strconv.Itoa(tasks), "SLURM_NTASKS_PER_NODE")
	set("0", "SLURM_LOCALID")
	if list := strings.Join(k.hosts, ","); len(k.hosts) > 0 && len(list) <= longestList {
		set(list, "SLURM_JOB_NODELIST", "SLURM_NODELIST")
	} else if len(k.hosts) == 0 {
		from("metadata.name", "SLURM_JOB_NODELIST", "SLURM_NODELIST")
	}
	if r.CPU != nil {
		set(strconv.FormatInt(max(r.CPU.Value(), 1), 10), "SLURM_CPUS_ON_NODE")
		set(strconv.FormatInt(max(r.CPU.Value()/int64(tasks), 1), 10), "SLURM_CPUS_PER_TASK")
	}
	if r.Memory != nil {
		set(mebibytes(r.Memory, 1), "SLURM_MEM_PER_NODE")
	}
	if r.GPUs.Count > 0 {
		set(strconv.FormatInt(r.GPUs.Count, 10), "SLURM_GPUS_ON_NODE")
		set(strconv.FormatInt(r.GPUs.Count*int64(nodes), 10), "SLURM_GPUS")
	}
	if a := r.Array; a != nil {
		set(x.name, "SLURM_ARRAY_JOB_ID")
		set(strconv.Itoa(len(a.Indices)), "SLURM_ARRAY_TASK_COUNT")
		set(strconv.Itoa(a.Indices[0]), "SLURM_ARRAY_TASK_MIN")
		set(strconv.Itoa(a.Indices[len(a.Indices)-1]), "SLURM_ARRAY_TASK_MAX")
		if step := a.Step(); step > 0 {
			set(strconv.Itoa(step), "SLURM_ARRAY_TASK_STEP")
		}
		if a.fromZero() {
			from(indexField(), "SLURM_ARRAY_TASK_ID")
		}
	}
	for _, v := range r.Env {
		out = append(out, corev1.EnvVar{Name: v.Name, Value: dollars(v.Value)})
	}
	return out
}

// fromZero reports whether indices are the ones that Kubernetes counts.
func (a *Array) fromZero() bool { return a.Indices[0] == 0 && a.Step() == 1 }

// prologue is the line of shell that finds out the index of a task; "" if none is needed.
func (a *Array) prologue() string {
	switch step := a.Step(); {
	case a.fromZero():
		return ""
	case step > 0:
		return fmt.Sprintf("export SLURM_ARRAY_TASK_ID=$((%d + %d * JOB_COMPLETION_INDEX))", a.Indices[0], step)
	}
	words := make([]string, len(a.Indices))
	for i, n := range a.Indices {
		words[i] = strconv.Itoa(n)
	}
	return fmt.Sprintf(
		`export SLURM_ARRAY_TASK_ID="$(set -- %s; shift "$JOB_COMPLETION_INDEX"; echo "$1")"`,
		strings.Join(words, " "),
	)
}

// dollars keeps Kubernetes from reading $(NAME) and $$ in a text, which mean something to it.
func dollars(text string) string {
	var b strings.Builder
	for i := range len(text) {
		b.WriteByte(text[i])
		if text[i] == '$' && i+1 < len(text) && (text[i+1] == '(' || text[i+1] == '$') {
			b.WriteByte('$')
		}
	}
	return b.String()
}
