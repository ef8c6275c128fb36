package submit

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// SlurmOption is an option of sbatch, as far as it is known here.
type SlurmOption struct {
	Long, Letter string
	// Bare options have no value.
	Bare  bool
	Usage string
	// Remark says why it has no effect; "" if it has one.
	Remark string
	// Refusal says why a job with it is refused; "" if it is not.
	Refusal string
	// Rare options are not listed by help.
	Rare bool
	take func(*slurm, Setting) error
}

// slurm is what was said in sbatch's words. Its amounts are those of tasks or of the whole job, and
// only together make those of a node.
type slurm struct {
	nodes, tasks, tasksPerNode     int
	cpusPerTask, cpusPerGPU        int
	gpus, gpusPerNode, gpusPerTask *GPUs
	memPerCPU, memPerGPU           *resource.Quantity
	out                            []Setting
}

// SlurmOptions are those of sbatch that are known.
func SlurmOptions() []SlurmOption {
	count := func(to func(*slurm) *int) func(*slurm, Setting) error {
		return func(x *slurm, s Setting) error {
			n, err := strconv.Atoi(s.Value)
			if err != nil || n < 1 || n > mostTasks {
				return fmt.Errorf("%q is no number from 1", s.Value)
			}
			*to(x) = n
			return nil
		}
	}
	gpus := func(to func(*slurm) **GPUs) func(*slurm, Setting) error {
		return func(x *slurm, s Setting) error {
			g, err := ParseGPUs(s.Value)
			*to(x) = &g
			return err
		}
	}
	memory := func(to func(*slurm) **resource.Quantity) func(*slurm, Setting) error {
		return func(x *slurm, s Setting) (err error) {
			*to(x), err = ParseMemory(s.Value)
			return err
		}
	}
	as := func(option string) func(*slurm, Setting) error {
		return func(x *slurm, s Setting) error {
			s.Option = option
			x.out = append(x.out, s)
			return nil
		}
	}
	const logs = "what it prints is read with mlbatch logs"
	return append([]SlurmOption{
		{Long: "job-name", Letter: "J", Usage: "`NAME`, behind which a number is put", take: as("job-name")},
		{Long: "partition", Letter: "p", Usage: "LocalQueue", take: as("queue")},
		{Long: "qos", Letter: "q", Usage: "WorkloadPriorityClass", take: as("priority")},
		{
			Long:   "nodes",
			Letter: "N",
			Usage:  "number of nodes; of MIN-MAX the first",
			take: func(x *slurm, s Setting) error {
				s.Value, _, _ = strings.Cut(s.Value, "-")
				return count(func(x *slurm) *int { return &x.nodes })(x, s)
			},
		},
		{
			Long:   "ntasks",
			Letter: "n",
			Usage:  "number of tasks, on all nodes together",
			take:   count(func(x *slurm) *int { return &x.tasks }),
		},
		{
			Long:  "ntasks-per-node",
			Usage: "number of tasks of each node",
			take:  count(func(x *slurm) *int { return &x.tasksPerNode }),
		},
		{
			Long:   "cpus-per-task",
			Letter: "c",
			Usage:  "processors of each task",
			take:   count(func(x *slurm) *int { return &x.cpusPerTask }),
		},
		{
			Long:  "cpus-per-gpu",
			Usage: "processors for each GPU",
			take:  count(func(x *slurm) *int { return &x.cpusPerGPU }),
		},
		{
			Long:   "gpus",
			Letter: "G",
			Usage:  "[TYPE:]N GPUs, on all nodes together",
			take:   gpus(func(x *slurm) **GPUs { return &x.gpus }),
		},
		{
			Long:  "gpus-per-node",
			Usage: "[TYPE:]N GPUs of each node",
			take:  gpus(func(x *slurm) **GPUs { return &x.gpusPerNode }),
		},
		{
			Long:  "gpus-per-task",
			Usage: "[TYPE:]N GPUs of each task",
			take:  gpus(func(x *slurm) **GPUs { return &x.gpusPerTask }),
		},
		{Long: "gres", Usage: "gpu[:TYPE]:N, of each node", take: func(x *slurm, s Setting) error {
			if s.Value != "gpu" && !strings.HasPrefix(s.Value, "gpu:") {
				return fmt.Errorf("%q: gpu is the only one that is known", s.Value)
			}
			return gpus(func(x *slurm) **GPUs { return &x.gpusPerNode })(x, s)
		}},
		{Long: "mem", Usage: "memory of each node", take: func(x *slurm, s Setting) error {
			if s.Value == "0" {
				return fmt.Errorf(
					"0 means all that a node has, which is not known before there is a node: give an amount",
				)
			}
			return as("mem")(x, s)
		}},
		{
			Long:  "mem-per-cpu",
			Usage: "memory for each processor",
			take:  memory(func(x *slurm) **resource.Quantity { return &x.memPerCPU }),
		},
		{
			Long:  "mem-per-gpu",
			Usage: "memory for each GPU",
			take:  memory(func(x *slurm) **resource.Quantity { return &x.memPerGPU }),
		},
		{Long: "time", Letter: "t", Usage: "how long it may run", take: as("time")},
		{Long: "array", Letter: "a", Usage: "indices, such as 0-99%10", take: as("array")},
		{Long: "dependency", Letter: "d", Usage: "afterok:JOB, afterany:JOB or afternotok:JOB", take: dependency},
		{Long: "chdir", Letter: "D", Usage: "directory of the container in which it starts", take: as("chdir")},
		{Long: "export", Usage: "NAME=VALUE,...; NONE and ALL alike export nothing else", take: export},
		{Long: "export-file", Usage: "file with a variable in each line", take: as("env-file")},
		{Long: "output", Letter: "o", Usage: "has no effect: " + logs, Remark: logs},
		{Long: "error", Letter: "e", Usage: "has no effect: " + logs, Remark: logs},
		{Long: "open-mode", Usage: "has no effect", Remark: logs},
		{Long: "mail-type", Usage: "has no effect", Remark: "no mail is sent"},
		{Long: "mail-user", Usage: "has no effect", Remark: "no mail is sent"},
		{Long: "account", Letter: "A", Usage: "has no effect", Remark: "the queue says whose quota is used"},
		{
			Long:   "exclusive",
			Bare:   true,
			Usage:  "has no effect",
			Remark: "nodes are shared; who asks for all GPUs of a node has them alone",
		},
		{Long: "comment", Usage: "has no effect", Remark: "it is kept nowhere"},
		{
			Long:  "requeue",
			Bare:  true,
			Usage: "as always: what is evicted is queued again",
			take:  func(*slurm, Setting) error { return nil },
		},
		{Long: "no-requeue", Bare: true, Usage: "has no effect", Remark: "what is evicted is queued again"},
	}, rareOptions()...)
}

// dependency reads afterok:JOB[:JOB...][,...].
func dependency(x *slurm, s Setting) error {
	kinds := map[string]jobs.When{
		"afterok":    jobs.AfterOK,
		"afterany":   jobs.AfterAny,
		"afternotok": jobs.AfterFail,
	}
	if strings.Contains(s.Value, "?") {
		return fmt.Errorf("%q: a job waits for all of those that it names, and not for one of them (?)", s.Value)
	}
	for part := range strings.SplitSeq(s.Value, ",") {
		kind, names, _ := strings.Cut(part, ":")
		when, known := kinds[kind]
		if !known || names == "" {
			return fmt.Errorf("%q: use afterok:JOB, afterany:JOB or afternotok:JOB", part)
		}
		for job := range strings.SplitSeq(names, ":") {
			x.out = append(x.out, Setting{"after", string(when) + ":" + job, s.Where})
		}
	}
	return nil
}

// export reads NAME=VALUE,...
func export(x *slurm, s Setting) error {
	for part := range strings.SplitSeq(s.Value, ",") {
		if part != "ALL" && part != "NONE" && part != "NIL" {
			x.out = append(x.out, Setting{"env", part, s.Where})
		}
	}
	return nil
}

// slurmOption is that of a name or letter; nil for none.
func slurmOption(name string) *SlurmOption {
	all := SlurmOptions()
	i := slices.IndexFunc(
		all,
		func(o SlurmOption) bool { return o.Long == name || o.Letter != "" && o.Letter == name },
	)
	if i < 0 {
		return nil
	}
	return &all[i]
}

// FromSlurm turns options of sbatch into those of here. Those without effect are remarked upon.
func FromSlurm(given []Setting) (out []Setting, remarks []string, err error) {
	x := &slurm{}
	for _, s := range given {
		o := slurmOption(s.Option)
		switch {
		case o == nil:
			return nil, nil, s.error(fmt.Errorf("there is no such option"))
		case o.Refusal != "":
			return nil, nil, s.error(errors.New(o.Refusal))
		case o.Remark != "":
			remarks = append(remarks, remark(s, "has no effect: "+o.Remark))
			continue
		}
		if err := o.take(x, s); err != nil {
			return nil, nil, s.error(err)
		}
	}
	settings, err := x.settings()
	return append(x.out, settings...), remarks, err
}

func remark(s Setting, text string) string {
	if s.Where == "" {
		return fmt.Sprintf("--%s %s", s.Option, text)
	}
	return fmt.Sprintf("%s: --%s %s", s.Where, s.Option, text)
}

// settings are the amounts of a node.
func (x *slurm) settings() (out []Setting, err error) {
	if x.nodes == 0 && x.tasks > 0 && x.tasksPerNode > 0 {
		x.nodes = (x.tasks + x.tasksPerNode - 1) / x.tasksPerNode
	}
	nodes := max(x.nodes, 1)
	if x.tasks > 0 && x.tasksPerNode == 0 {
		if x.tasks%nodes != 0 {
			return nil, fmt.Errorf(
				"--ntasks %d on %d nodes: nodes are alike here; use a multiple of %d",
				x.tasks,
				nodes,
				nodes,
			)
		}
		x.tasksPerNode = x.tasks / nodes
	}
	tasks := max(x.tasksPerNode, 1)
	add := func(option, value string) { out = append(out, Setting{Option: option, Value: value}) }
	if x.nodes > 0 {
		add("nodes", strconv.Itoa(x.nodes))
	}
	if x.tasksPerNode > 0 {
		add("ntasks-per-node", strconv.Itoa(x.tasksPerNode))
	}
	g, err := x.gpusOfNode(nodes, tasks)
	if err != nil {
		return nil, err
	}
	if g != nil {
		add("gpus", g.String())
	}
	cpus := int64(0)
	switch {
	case x.cpusPerTask > 0:
		cpus = int64(x.cpusPerTask * tasks)
	case x.cpusPerGPU > 0 && g != nil:
		cpus = int64(x.cpusPerGPU) * g.Count
	case x.tasksPerNode > 0:
		cpus = int64(tasks)
	}
	if cpus > 0 {
		add("cpus", strconv.FormatInt(cpus, 10))
	}
	switch {
	case x.memPerCPU != nil && cpus > 0:
		add("mem", mebibytes(x.memPerCPU, cpus))
	case x.memPerCPU != nil:
		add("mem", mebibytes(x.memPerCPU, 1))
	case x.memPerGPU != nil && g == nil:
		return nil, fmt.Errorf("--mem-per-gpu without GPUs: use --mem")
	case x.memPerGPU != nil:
		add("mem", mebibytes(x.memPerGPU, g.Count))
	}
	return out, nil
}

// gpusOfNode is how many GPUs a node gets; nil for none.
func (x *slurm) gpusOfNode(nodes, tasks int) (*GPUs, error) {
	switch {
	case x.gpusPerNode != nil:
		return x.gpusPerNode, nil
	case x.gpusPerTask != nil:
		g := *x.gpusPerTask
		g.Count *= int64(tasks)
		return &g, nil
	case x.gpus != nil:
		g := *x.gpus
		if g.Count%int64(nodes) != 0 {
			return nil, fmt.Errorf(
				"--gpus %d on %d nodes: nodes are alike here; use a multiple of %d, or --gpus-per-node",
				g.Count,
				nodes,
				nodes,
			)
		}
		g.Count /= int64(nodes)
		return &g, nil
	}
	return nil, nil
}

// String is what ParseGPUs reads.
func (g GPUs) String() string {
	switch {
	case g.Type != "":
		return fmt.Sprintf("%s:%d", g.Type, g.Count)
	case g.Resource != defaultGPU:
		return fmt.Sprintf("%s:%d", g.Resource, g.Count)
	}
	return strconv.FormatInt(g.Count, 10)
}

// mebibytes are those of n times a quantity.
func mebibytes(q *resource.Quantity, n int64) string {
	const mebi = 1 << 20
	return strconv.FormatInt(max(q.Value()*n/mebi, 1), 10)
}
