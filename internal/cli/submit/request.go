package submit

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// Framework says what the processes of a job find each other by.
type Framework string

// The frameworks. Auto is decided by what the command starts.
const (
	Auto  Framework = "auto"
	Plain Framework = "plain"
	Torch Framework = "torch"
	MPI   Framework = "mpi"
	JAX   Framework = "jax"
	Ray   Framework = "ray"
)

// Frameworks are all of them.
func Frameworks() []Framework { return []Framework{Auto, Plain, Torch, MPI, JAX, Ray} }

// Request is a job as somebody wants it. Amounts are those of each node, and a node is a pod.
type Request struct {
	// Name is that of the job; "" makes one of Prefix and a number.
	Name string
	// Prefix is what people call the job, of which there may be several.
	Prefix string
	// Queue is a LocalQueue, Priority a WorkloadPriorityClass, PodPriority a PriorityClass.
	Queue, Priority, PodPriority string
	Nodes                        int
	// RequiredTopology and PreferredTopology are labels of nodes of which all nodes of the job must, or should, have one
	// value: that of their rack, say.
	RequiredTopology, PreferredTopology string
	GPUs                                GPUs
	// CPU and Memory are nil if not given.
	CPU, Memory *resource.Quantity
	// Time is how long the job may run, 0 for any time.
	Time      time.Duration
	Image     string
	Framework Framework
	// TasksPerNode is how many processes a node runs, 0 if nobody says so.
	TasksPerNode int
	// Elastic bounds the number of nodes; nil if it is fixed.
	Elastic *Elastic
	// Array is nil for a job that is none.
	Array *Array
	After []jobs.Dependency
	// Retries is how often the job, or a task of an array, is tried again after it failed.
	Retries int
	Env     []Var
	Mounts  []Mount
	// Workdir is a local directory that goes along; "" for none.
	Workdir string
	// Chdir is the directory in which the command starts.
	Chdir   string
	Profile string
	// Setup is what a shell does before the command.
	Setup string
	// Command are words; Script a program for Interpreter, and Command its arguments.
	Command     []string
	Script      string
	Interpreter []string
	// GPUTypes are the node labels, as KEY=VALUE, that types of GPUs mean; they come from a profile.
	GPUTypes map[string]string
	// SubmitDir and File are where the request comes from; SLURM_SUBMIT_DIR and $0 tell.
	SubmitDir, File string
}

// GPUs are those of a node.
type GPUs struct {
	// Resource is what pods ask for, such as nvidia.com/gpu.
	Resource string
	// Type is what people call them, "" for any.
	Type  string
	Count int64
}

// Elastic are the fewest and the most nodes that a job works with.
type Elastic struct{ Least, Most int }

// Var is a variable of the environment.
type Var struct{ Name, Value string }

// MountKind is what is mounted.
type MountKind string

// The kinds of what is mounted.
const (
	MountClaim     MountKind = "pvc"
	MountSecret    MountKind = "secret"
	MountConfigMap MountKind = "cm"
)

// Mount is something of the namespace that every node sees.
type Mount struct {
	Kind     MountKind
	Name     string
	Path     string
	ReadOnly bool
}

// New is a request of which nothing was said.
func New() *Request { return &Request{Nodes: 1, Framework: Auto} }

// SetEnv sets a variable; what was said last is true.
func (r *Request) SetEnv(name, value string) {
	i := slices.IndexFunc(r.Env, func(v Var) bool { return v.Name == name })
	if i < 0 {
		r.Env = append(r.Env, Var{name, value})
		return
	}
	r.Env[i].Value = value
}

// Kind is the framework, decided by what the command starts if nobody says so.
func (r *Request) Kind() Framework {
	if r.Framework != Auto && r.Framework != "" {
		return r.Framework
	}
	if r.Nodes < 2 && r.Elastic == nil {
		return Plain
	}
	words := r.Command
	if r.Script != "" {
		words = scriptWords(r.Script)
	}
	for i, w := range words {
		switch path.Base(w) {
		case "torchrun", "torch.distributed.run", "torch.distributed.launch":
			return Torch
		case "mpirun", "mpiexec":
			return MPI
		case "bash", "sh":
			if i == 0 && len(words) == 3 && words[1] == "-c" {
				inner := *r
				inner.Command = strings.Fields(words[2])
				return inner.Kind()
			}
		}
	}
	return Plain
}

// scriptWords are the words of a script that are no comments.
func scriptWords(script string) (out []string) {
	for line := range strings.Lines(script) {
		if line = strings.TrimSpace(line); !strings.HasPrefix(line, "#") {
			out = append(out, strings.Fields(line)...)
		}
	}
	return out
}

// Check finds what is missing or contradicts itself. The error names the option.
func (r *Request) Check() error {
	kind := r.Kind()
	switch {
	case len(r.Command) == 0 && r.Script == "":
		return fmt.Errorf("there is nothing to run: give a command after --, or a script")
	case r.Nodes < 1:
		return fmt.Errorf("--nodes %d: use 1 or more", r.Nodes)
	case r.Array != nil && (r.Nodes > 1 || kind != Plain):
		return fmt.Errorf(
			"--array with --nodes or --framework: each task of an array is one pod; submit one job for each instead",
		)
	case r.Array != nil && r.RequiredTopology+r.PreferredTopology != "":
		return fmt.Errorf(
			"--array with --required-topology or --preferred-topology: tasks of an array know nothing of each other; leave it out",
		)
	case r.Array != nil && r.Elastic != nil:
		return fmt.Errorf(
			"--array with --elastic: an array starts with as many tasks as there is room for anyway; leave --elastic out",
		)
	case r.Elastic != nil && kind != Torch && kind != Ray:
		return fmt.Errorf(
			"--elastic: only torch and ray go on with another number of nodes, and this is %s: give --framework, or leave --elastic out",
			kind,
		)
	case r.Retries < 0:
		return fmt.Errorf("--retries %d: use 0 or more", r.Retries)
	case r.Image == "":
		return fmt.Errorf("--image is missing: say which image the command runs in, or name a --profile that does")
	}
	if r.Setup != "" && len(r.Interpreter) > 0 && !isShell(r.Interpreter) {
		return fmt.Errorf("setup goes before a shell script or a command, and %s is neither", r.File)
	}
	if kind == Ray && (r.Setup != "" || r.Script != "" && rayLine(r) == "") {
		return fmt.Errorf(
			"--framework ray: Ray starts one command and no script: use mlbatch run --workdir . --framework ray -- python driver.py",
		)
	}
	if r.GPUs.Count == 0 && r.GPUs.Type != "" {
		return fmt.Errorf("--gpus %s:0: how many of them?", r.GPUs.Type)
	}
	return r.checkMounts()
}

// rayLine is the one line of a shell script, "" if it has more.
func rayLine(r *Request) string {
	var out []string
	for line := range strings.Lines(r.Script) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			out = append(out, line)
		}
	}
	if len(out) != 1 || !isShell(r.Interpreter) || len(r.Command) > 0 {
		return ""
	}
	return out[0]
}

func (r *Request) checkMounts() error {
	at := map[string]bool{}
	if r.Workdir != "" {
		at[WorkdirPath] = true
	}
	for _, m := range r.Mounts {
		if at[m.Path] {
			return fmt.Errorf("--mount %s: something else is mounted at %s already", m.Name, m.Path)
		}
		at[m.Path] = true
	}
	return nil
}
