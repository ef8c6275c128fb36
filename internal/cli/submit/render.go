package submit

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	jobset "github.com/mlbatch/mlbatch/api/jobset/v1alpha2"
	kubeflow "github.com/mlbatch/mlbatch/api/kubeflow/v1"
	"github.com/mlbatch/mlbatch/api/kubeflow/v2beta1"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	ray "github.com/mlbatch/mlbatch/api/ray/v1"
	"github.com/mlbatch/mlbatch/internal/view"
)

// productLabel of a node says which GPUs it has.
const productLabel = "nvidia.com/gpu.product"

// longestName is that of a job, so that the names of its pods and services are not too long.
const longestName = 45

// DefaultQueue is the LocalQueue of those who name none.
const DefaultQueue = "default-queue"

// rendering is a request on its way to a manifest.
type rendering struct {
	request *Request
	name    string
	// upload is the name of the ConfigMap that has the working directory; "" for none.
	upload string
}

// prefix is what goes before the number in the name of a job, made of what people call it.
func (r *Request) prefix() string {
	from := r.Prefix
	if from == "" && r.File != "" {
		base := path.Base(r.File)
		from = strings.TrimSuffix(base, path.Ext(base))
	}
	if from == "" {
		from = programOf(r.Command)
	}
	from = strings.TrimLeft(
		regexp.MustCompile(`[^a-z0-9]+`).ReplaceAllString(strings.ToLower(from), "-"),
		"-0123456789",
	)
	const digits = 6 // of the number, and the - before it
	from = strings.TrimRight(from[:min(len(from), longestName-digits)], "-")
	if from == "" {
		return "job"
	}
	return from
}

// programOf is what people call a command by: the script that it runs, or else what it starts.
func programOf(words []string) string {
	for _, w := range words {
		if ext := path.Ext(w); (ext == ".py" || ext == ".sh") && !strings.HasPrefix(w, "-") {
			return strings.TrimSuffix(path.Base(w), ext)
		}
	}
	if len(words) == 0 {
		return ""
	}
	return path.Base(words[0])
}

// NameWith is the name of the job with a number, or the one that was asked for.
func (r *Request) NameWith(number int) string {
	if r.Name != "" {
		return r.Name
	}
	return r.prefix() + "-" + strconv.Itoa(number)
}

// title is what people call the job.
func (x *rendering) title() string {
	if x.request.Prefix != "" {
		return x.request.Prefix
	}
	if x.request.Name != "" {
		return x.request.Name
	}
	return x.request.prefix()
}

// nodes is how many the job begins with.
func (x *rendering) nodes() int {
	if e := x.request.Elastic; e != nil && x.request.Nodes < e.Least {
		return e.Most
	}
	return x.request.Nodes
}

// Render makes the object of the job, which has been checked. upload is the ConfigMap that has its
// working directory, "" for none.
func (r *Request) Render(namespace, name, upload string) (client.Object, error) {
	if err := r.Check(); err != nil {
		return nil, err
	}
	x := &rendering{request: r, name: name, upload: upload}
	if e := r.Elastic; e != nil && (x.nodes() < e.Least || x.nodes() > e.Most) {
		return nil, fmt.Errorf("--nodes %d is not within --elastic %d:%d", r.Nodes, e.Least, e.Most)
	}
	if t := r.GPUs.Type; t != "" && r.GPUTypes[strings.ToLower(t)] != "" {
		if key, value, ok := strings.Cut(r.GPUTypes[strings.ToLower(t)], "="); !ok || key == "" || value == "" {
			return nil, fmt.Errorf(
				"profile %s: gpu-type.%s: %q is no KEY=VALUE of a node label",
				r.Profile,
				t,
				r.GPUTypes[strings.ToLower(t)],
			)
		}
	}
	var o client.Object
	switch kind := r.Kind(); {
	case kind == Torch:
		o = x.torch()
	case kind == MPI:
		o = x.mpi()
	case kind == JAX:
		o = x.jax()
	case kind == Ray:
		o = x.ray()
	case r.Nodes > 1:
		o = x.jobSet()
	default:
		o = x.job()
	}
	o.SetNamespace(namespace)
	o.SetName(name)
	o.SetLabels(x.labels())
	return o, nil
}

// labels are those by which the job is queued.
func (x *rendering) labels() map[string]string {
	r := x.request
	queue := r.Queue
	if queue == "" {
		queue = DefaultQueue
	}
	out := map[string]string{kueue.QueueNameLabel: queue}
	if r.Priority != "" {
		out[kueue.PriorityClassLabel] = r.Priority
	}
	if r.Time > 0 {
		out[kueue.MaxExecTimeSecondsLabel] = strconv.FormatInt(int64((r.Time+time.Second-1)/time.Second), 10)
	}
	if title := labelValue(x.title()); title != "" {
		out[view.TitleLabel] = title
	}
	return out
}

// labelValue is a text as far as it can be that of a label.
func labelValue(text string) string {
	const longest = 63
	text = regexp.MustCompile(`[^A-Za-z0-9._-]+`).ReplaceAllString(text, "-")
	if len(text) > longest {
		text = text[:longest]
	}
	return strings.Trim(text, "-._")
}

// retries is a number of them.
func (x *rendering) retries() *int32 { return new(int32(x.request.Retries)) } //nolint:gosec // values are bounded when they are read

// untouched lets a Job forgive pods whose node was lost or that were evicted.
func untouched() *batchv1.PodFailurePolicy {
	return &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{
		Action: batchv1.PodFailurePolicyActionIgnore,
		OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue,
		}},
	}}}
}

// job is a Job: one pod, or one for each index.
func (x *rendering) job() client.Object {
	r := x.request
	k := ranks{text: "0"}
	o := &batchv1.Job{TypeMeta: metav1.TypeMeta{APIVersion: "batch/v1", Kind: "Job"}}
	o.Spec.Suspend = new(true)
	o.Spec.BackoffLimit = x.retries()
	o.Spec.PodFailurePolicy = untouched()
	if a := r.Array; a != nil {
		n := int32(len(a.Indices)) //nolint:gosec // values are bounded when they are read
		atOnce := n
		if a.AtOnce > 0 {
			atOnce = min(n, int32(a.AtOnce)) //nolint:gosec // values are bounded when they are read
		}
		o.Spec.Completions, o.Spec.Parallelism = &n, &atOnce
		o.Spec.CompletionMode = new(batchv1.IndexedCompletion)
		o.Spec.BackoffLimit, o.Spec.BackoffLimitPerIndex = nil, x.retries()
		if atOnce > 1 {
			o.Annotations = map[string]string{kueue.JobMinParallelismAnnotation: "1"}
		}
		k.prologue = a.prologue()
	}
	o.Spec.Template = x.pod("main", k)
	o.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	return o
}

// jobSet is a JobSet of one Job, whose pods find each other by name and begin anew together.
func (x *rendering) jobSet() client.Object {
	const role = "node"
	k := ranks{field: indexField()}
	for i := range x.nodes() {
		k.hosts = append(k.hosts, fmt.Sprintf("%s-%s-0-%d.%s", x.name, role, i, x.name))
	}
	n := int32(x.nodes()) //nolint:gosec // values are bounded when they are read
	template := x.pod("main", k)
	template.Spec.RestartPolicy = corev1.RestartPolicyNever
	return &jobset.JobSet{
		TypeMeta: metav1.TypeMeta{APIVersion: jobset.GroupVersion.String(), Kind: "JobSet"},
		Spec: jobset.JobSetSpec{
			Suspend:       new(true),
			FailurePolicy: &jobset.FailurePolicy{MaxRestarts: *x.retries(), RestartStrategy: jobset.BlockingRecreate},
			ReplicatedJobs: []jobset.ReplicatedJob{{
				Name: role,
				Template: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{
					Parallelism: &n, Completions: &n, CompletionMode: new(batchv1.IndexedCompletion),
					BackoffLimit: new(int32(0)), PodFailurePolicy: untouched(), Template: template,
				}},
			}},
		},
	}
}

// role is n pods of a training job. With retries they are restarted after a failure.
func (x *rendering) role(n int, template corev1.PodTemplateSpec) *kubeflow.ReplicaSpec {
	restart := kubeflow.RestartPolicyNever
	if x.request.Retries > 0 {
		restart = kubeflow.RestartPolicyOnFailure
	}
	return &kubeflow.ReplicaSpec{
		Replicas:      new(int32(n)), //nolint:gosec // values are bounded when they are read
		RestartPolicy: restart,
		Template:      template,
	}
}

func (x *rendering) policy() kubeflow.RunPolicy {
	p := kubeflow.RunPolicy{Suspend: new(true), CleanPodPolicy: new(kubeflow.CleanPodPolicyRunning)}
	if x.request.Retries > 0 {
		p.BackoffLimit = x.retries()
	}
	return p
}

func (x *rendering) torch() client.Object {
	r, nodes := x.request, x.nodes()
	k := ranks{prologue: shellRank, hosts: []string{x.name + "-master-0"}}
	for i := range nodes - 1 {
		k.hosts = append(k.hosts, fmt.Sprintf("%s-worker-%d", x.name, i))
	}
	o := &kubeflow.PyTorchJob{
		TypeMeta: metav1.TypeMeta{APIVersion: kubeflow.GroupVersion.String(), Kind: kubeflow.PyTorchJobKind},
	}
	o.Spec.RunPolicy = x.policy()
	processes := "auto"
	if n := r.TasksPerNode; n > 0 {
		processes = strconv.Itoa(n)
	} else if r.GPUs.Count > 0 {
		processes = strconv.FormatInt(r.GPUs.Count, 10)
	}
	o.Spec.NprocPerNode = &processes
	o.Spec.PyTorchReplicaSpecs = map[kubeflow.ReplicaType]*kubeflow.ReplicaSpec{}
	if e := r.Elastic; e != nil {
		k = ranks{field: replicaField()}
		for i := range nodes {
			k.hosts = append(k.hosts, fmt.Sprintf("%s-worker-%d", x.name, i))
		}
		o.Spec.ElasticPolicy = &kubeflow.ElasticPolicy{
			MinReplicas: new(int32(e.Least)), //nolint:gosec // values are bounded when they are read
			MaxReplicas: new(int32(e.Most)),  //nolint:gosec // values are bounded when they are read
			RDZVBackend: new(kubeflow.BackendC10D),
		}
		o.Spec.PyTorchReplicaSpecs[kubeflow.RoleWorker] = x.role(nodes, x.pod("pytorch", k))
		return o
	}
	o.Spec.PyTorchReplicaSpecs[kubeflow.RoleMaster] = x.role(1, x.pod("pytorch", k))
	if nodes > 1 {
		o.Spec.PyTorchReplicaSpecs[kubeflow.RoleWorker] = x.role(nodes-1, x.pod("pytorch", k))
	}
	return o
}

func (x *rendering) jax() client.Object {
	k := ranks{field: replicaField()}
	for i := range x.nodes() {
		k.hosts = append(k.hosts, fmt.Sprintf("%s-worker-%d", x.name, i))
	}
	o := &kubeflow.JAXJob{
		TypeMeta: metav1.TypeMeta{APIVersion: kubeflow.GroupVersion.String(), Kind: kubeflow.JAXJobKind},
	}
	o.Spec.RunPolicy = x.policy()
	o.Spec.JAXReplicaSpecs = map[kubeflow.ReplicaType]*kubeflow.ReplicaSpec{
		kubeflow.RoleWorker: x.role(x.nodes(), x.pod("jax", k)),
	}
	return o
}

// mpi is an MPIJob: the command runs in a launcher, and mpirun reaches the nodes by ssh.
func (x *rendering) mpi() client.Object {
	r := x.request
	k := ranks{text: "0"}
	for i := range x.nodes() {
		k.hosts = append(k.hosts, fmt.Sprintf("%s-worker-%d.%s", x.name, i, x.name))
	}
	slots := int32( //nolint:gosec // values are bounded when they are read
		max(r.TasksPerNode, int(r.GPUs.Count), 1),
	)
	o := &v2beta1.MPIJob{
		TypeMeta: metav1.TypeMeta{APIVersion: v2beta1.GroupVersion.String(), Kind: v2beta1.MPIJobKind},
	}
	o.Spec.RunPolicy = x.policy()
	o.Spec.RunPolicy.BackoffLimit = x.retries()
	o.Spec.SlotsPerWorker = &slots
	o.Spec.LauncherCreationPolicy = kubeflow.LauncherWaitForWorkersReady
	launcher, worker := x.pod("mpi", k), x.pod("mpi", k)
	launcher.Spec.Containers[0].Resources = corev1.ResourceRequirements{Limits: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("1Gi"),
	}}
	launcher.Spec.NodeSelector = nil // that of GPUs, which it has none of
	launcher.Annotations = nil       // it may be anywhere
	worker.Spec.Containers[0].Command, worker.Spec.Containers[0].Args = nil, nil
	launcher.Spec.RestartPolicy, worker.Spec.RestartPolicy = corev1.RestartPolicyNever, corev1.RestartPolicyNever
	o.Spec.MPIReplicaSpecs = map[kubeflow.ReplicaType]*kubeflow.ReplicaSpec{
		kubeflow.RoleLauncher: {
			Replicas:      new(int32(1)),
			RestartPolicy: kubeflow.RestartPolicyNever,
			Template:      launcher,
		},
		kubeflow.RoleWorker: {
			Replicas:      new(int32(x.nodes())), //nolint:gosec // values are bounded when they are read
			RestartPolicy: kubeflow.RestartPolicyNever,
			Template:      worker,
		},
	}
	return o
}

// ray is a RayJob: the command runs on the head of a cluster that is made for it. The head is
// one of the nodes.
func (x *rendering) ray() client.Object {
	r := x.request
	k := ranks{text: "0"}
	head, worker := x.pod("ray-head", k), x.pod("ray-worker", k)
	words := quoted(slices.Concat(head.Spec.Containers[0].Command, head.Spec.Containers[0].Args))
	if r.Script != "" {
		words = dollars(rayLine(r))
	}
	for _, t := range []*corev1.PodTemplateSpec{&head, &worker} {
		t.Spec.Containers[0].Command, t.Spec.Containers[0].Args = nil, nil
	}
	o := &ray.RayJob{TypeMeta: metav1.TypeMeta{APIVersion: ray.GroupVersion.String(), Kind: "RayJob"}}
	o.Spec.Suspend = true
	o.Spec.ShutdownAfterJobFinishes = true
	if r.Retries > 0 {
		o.Spec.BackoffLimit = x.retries()
	}
	o.Spec.Entrypoint = words
	cluster := &ray.RayClusterSpec{HeadGroupSpec: ray.HeadGroupSpec{Template: head}}
	if n := int32( //nolint:gosec // values are bounded when they are read
		x.nodes() - 1,
	); n > 0 ||
		r.Elastic != nil {
		group := ray.WorkerGroupSpec{GroupName: "worker", Replicas: &n, Template: worker}
		if e := r.Elastic; e != nil {
			group.MinReplicas, group.MaxReplicas = new(
				int32(e.Least-1), //nolint:gosec // values are bounded when they are read
			), new(
				int32(e.Most-1), //nolint:gosec // values are bounded when they are read
			)
			cluster.EnableInTreeAutoscaling = new(true)
		}
		cluster.WorkerGroupSpecs = []ray.WorkerGroupSpec{group}
	}
	o.Spec.RayClusterSpec = cluster
	return o
}

// pod is the template of pods that run the command in a container of a name.
func (x *rendering) pod(container string, k ranks) corev1.PodTemplateSpec {
	r := x.request
	command, args := x.command(k)
	c := corev1.Container{
		Name:       container,
		Image:      r.Image,
		Command:    command,
		Args:       args,
		WorkingDir: r.Chdir,
		Env:        x.env(k),
	}
	limits := corev1.ResourceList{}
	if r.CPU != nil {
		limits[corev1.ResourceCPU] = *r.CPU
	}
	if r.Memory != nil {
		limits[corev1.ResourceMemory] = *r.Memory
	}
	var t corev1.PodTemplateSpec
	t.Spec.PriorityClassName = r.PodPriority
	if g := r.GPUs; g.Count > 0 {
		limits[corev1.ResourceName(g.Resource)] = *resource.NewQuantity(g.Count, resource.DecimalSI)
		if g.Type != "" {
			key, value, _ := strings.Cut(r.GPUTypes[strings.ToLower(g.Type)], "=")
			if key == "" {
				key, value = productLabel, g.Type
			}
			t.Spec.NodeSelector = map[string]string{key: value}
		}
		// Without this processes share 64 MiB.
		t.Spec.Volumes = append(
			t.Spec.Volumes,
			corev1.Volume{
				Name: "shm",
				VolumeSource: corev1.VolumeSource{
					EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory},
				},
			},
		)
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "shm", MountPath: "/dev/shm"})
	}
	if len(limits) > 0 {
		c.Resources.Limits = limits
	}
	for i, m := range r.Mounts {
		v := corev1.Volume{Name: fmt.Sprintf("%s-%d", m.Kind, i)}
		switch m.Kind {
		case MountClaim:
			v.PersistentVolumeClaim = &corev1.PersistentVolumeClaimVolumeSource{
				ClaimName: m.Name,
				ReadOnly:  m.ReadOnly,
			}
		case MountSecret:
			v.Secret = &corev1.SecretVolumeSource{SecretName: m.Name}
		case MountConfigMap:
			v.ConfigMap = &corev1.ConfigMapVolumeSource{
				LocalObjectReference: corev1.LocalObjectReference{Name: m.Name},
			}
		}
		t.Spec.Volumes = append(t.Spec.Volumes, v)
		c.VolumeMounts = append(
			c.VolumeMounts,
			corev1.VolumeMount{Name: v.Name, MountPath: m.Path, ReadOnly: m.ReadOnly || m.Kind != MountClaim},
		)
	}
	if x.upload != "" {
		x.unpack(&t.Spec, &c)
	}
	t.Spec.Containers = []corev1.Container{c}
	t.Annotations = r.nearness()
	return t
}

// nearness are the annotations of pods that say how near to each other they must be. Where the nodes of a job are of
// two roles, they are of one group, which has one domain.
func (r *Request) nearness() map[string]string {
	out := map[string]string{}
	if r.RequiredTopology != "" {
		out[kueue.PodSetRequiredTopologyAnnotation] = r.RequiredTopology
		if kind := r.Kind(); kind == Ray || kind == Torch && r.Elastic == nil {
			out[kueue.PodSetGroupNameAnnotation] = "nodes"
		}
	}
	if r.PreferredTopology != "" {
		out[kueue.PodSetPreferredTopologyAnnotation] = r.PreferredTopology
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// command is what a container runs.
func (x *rendering) command(k ranks) (command, args []string) {
	r := x.request
	lines := slices.DeleteFunc(
		[]string{k.prologue, strings.TrimRight(r.Setup, "\n")},
		func(s string) bool { return s == "" },
	)
	switch {
	case r.Script != "" && isShell(r.Interpreter):
		if r.Setup != "" { // as the first of its lines, what follows does not run if it fails
			lines = append(lines[:len(lines)-1], "set -e", lines[len(lines)-1], "set +e")
		}
		if usesSrun(r.Script) {
			lines = append(lines, srunShim)
		}
		text := r.Script
		if len(lines) > 0 {
			text = strings.Join(lines, "\n") + "\n" + text
		}
		command = append(slices.Clone(r.Interpreter), "-c")
		args = append([]string{text, path.Base(orElse(r.File, "job"))}, r.Command...)
	case r.Script != "" && len(lines) == 0:
		command = append(slices.Clone(r.Interpreter), "-c")
		args = append([]string{r.Script}, r.Command...)
	case r.Script != "": // the line of shell goes before the interpreter
		command = []string{"/bin/sh", "-c"}
		args = append(
			[]string{strings.Join(lines, "\n") + "\nexec " + quoted(r.Interpreter) + ` -c "$0" "$@"`, r.Script},
			r.Command...)
	case len(lines) > 0:
		command = []string{"/bin/sh", "-c"}
		if r.Setup != "" {
			lines = append([]string{"set -e"}, lines...)
		}
		args = []string{strings.Join(lines, "\n") + "\nexec " + quoted(r.Command)}
	default:
		command = r.Command
	}
	for _, words := range []*[]string{&command, &args} {
		*words = slices.Clone(*words)
		for i := range *words {
			(*words)[i] = dollars((*words)[i])
		}
	}
	return command, args
}

var srunWord = regexp.MustCompile(`(?m)^[^#\n]*\bsrun\b`)

// usesSrun reports whether a script starts tasks with srun.
func usesSrun(script string) bool { return srunWord.MatchString(script) }

// srunShim is srun for a script that runs on every node: it starts the tasks of this one, and
// fails as the worst of them does. Options before the command are passed over.
const srunShim = `srun() {
  while :; do case "$1" in
    --*=*|--label|--unbuffered|--exclusive|--overlap|--exact|--verbose|-l|-u|-v|-K|-K?*|-[nNcpJGtw]?*) shift ;;
    --kill-on-bad-exit) shift ;;
    -*) shift 2 ;;
    *) break ;;
  esac; done
  if [ "${SLURM_NTASKS_PER_NODE:-1}" -le 1 ]; then "$@"; return; fi
  _i=0; _pids=""
  while [ "$_i" -lt "$SLURM_NTASKS_PER_NODE" ]; do
    SLURM_LOCALID=$_i SLURM_PROCID=$((SLURM_NODEID * SLURM_NTASKS_PER_NODE + _i)) "$@" & _pids="$_pids $!"
    _i=$((_i + 1))
  done
  _worst=0
  for _p in $_pids; do wait "$_p" || _worst=$?; done
  return "$_worst"
}`

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// quoted is a command line that a shell reads as these words.
func quoted(words []string) string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = w
		if !plainWord.MatchString(w) {
			out[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return strings.Join(out, " ")
}

func orElse(text, other string) string {
	if text == "" {
		return other
	}
	return text
}
