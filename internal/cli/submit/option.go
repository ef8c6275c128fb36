package submit

import (
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// Host is what options say nothing of and yet mean.
type Host struct {
	// Lookup finds variables of the environment.
	Lookup func(string) (string, bool)
	// ReadFile reads files that options name.
	ReadFile func(string) ([]byte, error)
}

// ThisHost is the machine on which the program runs.
func ThisHost() Host { return Host{Lookup: os.LookupEnv, ReadFile: os.ReadFile} }

// Option is something that one can say of a job, in whatever place.
type Option struct {
	Name string
	// Letter is the short form on the command line, "" for none.
	Letter string
	// Value is what the value is called in help.
	Value string
	Usage string
	// Many may be given several times.
	Many bool
	set  func(r *Request, h Host, value string) error
}

// Setting is an option with its value.
type Setting struct {
	Option string
	Value  string
	// Where it was said, such as "train.sh:3"; "" for the command line.
	Where string
}

// error says where a setting was made that err complains about.
func (s Setting) error(err error) error {
	if s.Where != "" {
		return fmt.Errorf("%s: %s: %w", s.Where, s.Option, err)
	}
	return fmt.Errorf("--%s: %w", s.Option, err)
}

// Options are all of them, in the order in which people are told of them.
func Options() []Option {
	return []Option{
		{
			Name:  "name",
			Value: "NAME",
			Usage: "`NAME` of the job, exactly (default: that of --job-name or of the script or command, and a number)",
			set: func(r *Request, _ Host, v string) error {
				if wrong := validation.IsDNS1035Label(v); len(wrong) > 0 || len(v) > longestName {
					return fmt.Errorf(
						"%q is no name of a job: use at most %d lower case letters, digits and -, a letter first",
						v,
						longestName,
					)
				}
				r.Name = v
				return nil
			},
		},
		{
			Name:   "job-name",
			Letter: "J",
			Value:  "NAME",
			Usage:  "`NAME` that a number is put behind, so that the same job can be submitted again",
			set: func(r *Request, _ Host, v string) error {
				if v == "" {
					return fmt.Errorf("it is empty")
				}
				r.Prefix = v
				return nil
			},
		},
		{
			Name:   "queue",
			Letter: "q",
			Value:  "QUEUE",
			Usage:  "LocalQueue (default: the only one of the namespace, or default-queue)",
			set:    subdomain(func(r *Request, v string) { r.Queue = v }),
		},
		{
			Name:  "priority",
			Value: "CLASS",
			Usage: "WorkloadPriorityClass",
			set:   subdomain(func(r *Request, v string) { r.Priority = v }),
		},
		{
			Name:  "pod-priority",
			Value: "CLASS",
			Usage: "PriorityClass of the pods, where there are no WorkloadPriorityClasses",
			set:   subdomain(func(r *Request, v string) { r.PodPriority = v }),
		},
		{
			Name:   "nodes",
			Letter: "N",
			Value:  "N",
			Usage:  "number of nodes: pods that start together (default 1)",
			set:    number(1, func(r *Request, n int) { r.Nodes = n }),
		},
		{
			Name:  "required-topology",
			Value: "LABEL",
			Usage: "node `LABEL` of which all nodes must have one value: to be in one rack, say (mlbatch topology lists levels)",
			set:   level(func(r *Request, v string) { r.RequiredTopology = v }),
		},
		{
			Name:  "preferred-topology",
			Value: "LABEL",
			Usage: "the same where it can be had, else as near to each other as can be had",
			set:   level(func(r *Request, v string) { r.PreferredTopology = v }),
		},
		{
			Name:   "gpus",
			Letter: "g",
			Value:  "[TYPE:]N",
			Usage:  "GPUs of each node, such as 8, h100:8 or amd.com/gpu:8",
			set: func(r *Request, _ Host, v string) (err error) {
				r.GPUs, err = ParseGPUs(v)
				return err
			},
		},
		{
			Name:   "cpus",
			Letter: "c",
			Value:  "N",
			Usage:  "processors of each node",
			set: func(r *Request, _ Host, v string) (err error) {
				r.CPU, err = ParseCPU(v)
				return err
			},
		},
		{
			Name:  "mem",
			Value: "SIZE",
			Usage: "memory of each node, such as 64G (GiB)",
			set: func(r *Request, _ Host, v string) (err error) {
				r.Memory, err = ParseMemory(v)
				return err
			},
		},
		{
			Name:   "time",
			Letter: "t",
			Value:  "TIME",
			Usage:  "how long it may run: minutes, HH:MM:SS, D-HH:MM:SS, or 90m",
			set: func(r *Request, _ Host, v string) (err error) {
				r.Time, err = ParseTime(v)
				return err
			},
		},
		{
			Name:  "image",
			Value: "IMAGE",
			Usage: "container image that it runs in",
			set: func(r *Request, _ Host, v string) error {
				if v == "" || strings.ContainsAny(v, " \t\n") {
					return fmt.Errorf("%q is no image", v)
				}
				r.Image = v
				return nil
			},
		},
		{
			Name:  "framework",
			Value: "NAME",
			Usage: "torch, mpi, jax, ray, plain, or auto: by what the command starts (torchrun, mpirun)",
			set: func(r *Request, _ Host, v string) error {
				if !slices.Contains(Frameworks(), Framework(v)) {
					return fmt.Errorf("%q is not known: use auto, plain, torch, mpi, jax or ray", v)
				}
				r.Framework = Framework(v)
				return nil
			},
		},
		{
			Name:  "ntasks-per-node",
			Value: "N",
			Usage: "processes of each node: those of torchrun, slots of MPI, what srun in a script starts",
			set:   number(1, func(r *Request, n int) { r.TasksPerNode = n }),
		},
		{
			Name:  "elastic",
			Value: "MIN:MAX",
			Usage: "number of nodes that torch or ray can work with; it starts with --nodes, or MAX",
			set: func(r *Request, _ Host, v string) (err error) {
				r.Elastic, err = ParseElastic(v)
				return err
			},
		},
		{
			Name:   "array",
			Letter: "a",
			Value:  "INDICES",
			Usage:  "run once for each index: 0-99, 1,3,5-7, 0-15:4; 0-99%10 runs 10 at once",
			set: func(r *Request, _ Host, v string) (err error) {
				r.Array, err = ParseArray(v)
				return err
			},
		},
		{
			Name:  "after",
			Value: "WHEN:JOB",
			Usage: "wait until a job has ended: ok:JOB, any:JOB or fail:JOB",
			Many:  true,
			set: func(r *Request, _ Host, v string) error {
				d, err := jobs.ParseDependency(v)
				r.After = append(r.After, d)
				return err
			},
		},
		{
			Name:  "retries",
			Value: "N",
			Usage: "how often it is tried again after it failed (default 0)",
			set:   number(0, func(r *Request, n int) { r.Retries = n }),
		},
		{
			Name:   "env",
			Letter: "e",
			Value:  "NAME=VALUE",
			Usage:  "variable; NAME alone takes its value here",
			Many:   true,
			set: func(r *Request, h Host, v string) error {
				x, err := ParseVar(v, h.Lookup)
				if err == nil {
					r.SetEnv(x.Name, x.Value)
				}
				return err
			},
		},
		{Name: "env-file", Value: "FILE", Usage: "file with a variable in each line", Many: true, set: readEnv},
		{
			Name:  "mount",
			Value: "WHAT:/PATH",
			Usage: "[pvc:|secret:|cm:]NAME:/PATH[:ro]: a PersistentVolumeClaim, Secret or ConfigMap",
			Many:  true,
			set: func(r *Request, _ Host, v string) error {
				m, err := ParseMount(v)
				r.Mounts = append(r.Mounts, m)
				return err
			},
		},
		{
			Name:  "workdir",
			Value: "DIR",
			Usage: "directory that goes along and in which the command starts",
			set: func(r *Request, _ Host, v string) error {
				if v == "" {
					return fmt.Errorf("it is empty: use . for this directory")
				}
				r.Workdir = v
				return nil
			},
		},
		{
			Name:  "chdir",
			Value: "/PATH",
			Usage: "directory of the container in which the command starts",
			set: func(r *Request, _ Host, v string) error {
				if !path.IsAbs(v) {
					return fmt.Errorf("%q is no absolute path in the container; --workdir takes a directory along", v)
				}
				r.Chdir = path.Clean(v)
				return nil
			},
		},
		{
			Name:  "profile",
			Value: "NAME",
			Usage: "settings that an administrator made; mlbatch-profile-NAME (default: default, if there is one)",
			set:   subdomain(func(r *Request, v string) { r.Profile = v }),
		},
	}
}

// find is an option by its name; nil for none.
func find(options []Option, name string) *Option {
	i := slices.IndexFunc(options, func(o Option) bool { return o.Name == name })
	if i < 0 {
		return nil
	}
	return &options[i]
}

// Apply says all settings to a request, one after the other.
func (r *Request) Apply(h Host, settings []Setting) error {
	options := Options()
	for _, s := range settings {
		o := find(options, s.Option)
		if o == nil {
			return s.error(fmt.Errorf("there is no such option"))
		}
		if err := o.set(r, h, s.Value); err != nil {
			return s.error(err)
		}
	}
	return nil
}

func number(least int, to func(*Request, int)) func(*Request, Host, string) error {
	const most = 10_000
	return func(r *Request, _ Host, v string) error {
		n, err := strconv.Atoi(v)
		if err != nil || n < least || n > most {
			return fmt.Errorf("%q is no number between %d and %d", v, least, most)
		}
		to(r, n)
		return nil
	}
}

func subdomain(to func(*Request, string)) func(*Request, Host, string) error {
	return func(r *Request, _ Host, v string) error {
		if wrong := validation.IsDNS1123Subdomain(v); len(wrong) > 0 {
			return fmt.Errorf("%q is no name of an object", v)
		}
		to(r, v)
		return nil
	}
}

// readEnv reads a file of variables: NAME=VALUE in each line, # for comments. Values may stand in
// quotes.
func readEnv(r *Request, h Host, file string) error {
	data, err := h.ReadFile(file)
	if err != nil {
		return err
	}
	n := 0
	for line := range strings.Lines(string(data)) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		v, err := ParseVar(strings.TrimPrefix(line, "export "), h.Lookup)
		if err != nil {
			return fmt.Errorf("%s:%d: %w", file, n, err)
		}
		if q := v.Value; len(q) > 1 && (q[0] == '"' || q[0] == '\'') && q[len(q)-1] == q[0] {
			v.Value = q[1 : len(q)-1]
		}
		r.SetEnv(v.Name, v.Value)
	}
	return nil
}

// level is the setting of a label of nodes.
func level(set func(r *Request, v string)) func(*Request, Host, string) error {
	return func(r *Request, _ Host, v string) error {
		if wrong := validation.IsQualifiedName(v); len(wrong) > 0 {
			return fmt.Errorf("%q is no label of nodes, such as cloud.provider.com/topology-rack", v)
		}
		set(r, v)
		return nil
	}
}
