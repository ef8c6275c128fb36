package submit

// rareOptions are those of sbatch that have no meaning here: what only tunes how a job runs has no
// effect and is remarked upon, and what says where, when or with what it has to run is refused,
// since the job would run otherwise. Both alike on a command line and in a script.
func rareOptions() []SlurmOption {
	const (
		places  = "which nodes a job gets is a matter of its queue: choose one with --partition, and a type of GPU with --gpus-per-node TYPE:N"
		binding = "processors, memory and GPUs are bound by the node"
		kernel  = "processors are counted and not laid out"
	)
	ignored := func(why string, options ...SlurmOption) (out []SlurmOption) {
		for _, o := range options {
			o.Remark, o.Usage, o.Rare = why, "has no effect: "+why, true
			out = append(out, o)
		}
		return out
	}
	refused := func(why string, options ...SlurmOption) (out []SlurmOption) {
		for _, o := range options {
			o.Refusal, o.Usage, o.Rare = why, "is refused: "+why, true
			out = append(out, o)
		}
		return out
	}
	long := func(names ...string) (out []SlurmOption) {
		for _, name := range names {
			out = append(out, SlurmOption{Long: name})
		}
		return out
	}
	bare := func(names ...string) (out []SlurmOption) {
		for _, name := range names {
			out = append(out, SlurmOption{Long: name, Bare: true})
		}
		return out
	}
	var all []SlurmOption
	for _, some := range [][]SlurmOption{
		refused(places, SlurmOption{Long: "constraint", Letter: "C"}, SlurmOption{Long: "nodelist", Letter: "w"}, SlurmOption{Long: "exclude", Letter: "x"},
			SlurmOption{Long: "nodefile", Letter: "F"}, SlurmOption{Long: "contiguous", Bare: true}),
		refused("there are no reservations: quota is kept by queues", long("reservation")...),
		refused("there are no licenses to count", SlurmOption{Long: "licenses", Letter: "L"}),
		refused("a job is submitted to one cluster: choose it with --kubeconfig", SlurmOption{Long: "clusters", Letter: "M"}, SlurmOption{Long: "cluster-constraint"}),
		refused("jobs start as soon as they can: submit it when it is to queue", SlurmOption{Long: "begin", Letter: "b"}, SlurmOption{Long: "deadline"}),
		refused("submit the job and type mlbatch hold JOB", SlurmOption{Long: "hold", Letter: "H", Bare: true}),
		refused("standard input is empty: read the file in the script", SlurmOption{Long: "input", Letter: "i"}),
		refused("the image is given with --image", long("container", "container-id")...),
		refused("give --ntasks-per-node", long("ntasks-per-gpu", "tres-per-task")...),
		refused("space on nodes is not counted", long("tmp", "bb", "bbf")...),
		ignored(places, long("prefer", "switches", "delay-boot")...),
		ignored(places, bare("spread-job", "use-min-nodes", "reboot")...),
		ignored(binding, long("mem-bind", "gpu-bind", "gpu-freq", "cpu-freq", "gres-flags", "network", "acctg-freq")...),
		ignored(kernel, SlurmOption{Long: "distribution", Letter: "m"}, SlurmOption{Long: "core-spec", Letter: "S"}, SlurmOption{Long: "extra-node-info", Letter: "B"}),
		ignored(kernel, long("thread-spec", "hint", "ntasks-per-core", "ntasks-per-socket", "cores-per-socket", "sockets-per-node", "threads-per-core", "mincpus")...),
		ignored("nodes are shared", SlurmOption{Long: "oversubscribe", Letter: "s", Bare: true}, SlurmOption{Long: "overcommit", Letter: "O", Bare: true}),
		ignored("the priority is that of --qos", SlurmOption{Long: "nice", Bare: true}),
		ignored("no signal is sent before the time is over", long("signal")...),
		ignored("a job that loses a node is stopped, or made anew", SlurmOption{Long: "no-kill", Letter: "k", Bare: true}),
		ignored("it is kept nowhere", long("wckey", "mcs-label", "extra")...),
		ignored("limits and variables are those of the container", long("propagate", "uid", "gid")...),
		ignored("limits and variables are those of the container", bare("get-user-env")...),
		ignored("it is always so", SlurmOption{Long: "ignore-pbs", Bare: true}),
		ignored("a job whose predecessor failed waits, and mlbatch why says so", long("kill-on-invalid-dep")...),
		ignored("there is nothing more to tell", SlurmOption{Long: "verbose", Letter: "v", Bare: true}),
	} {
		all = append(all, some...)
	}
	return all
}
