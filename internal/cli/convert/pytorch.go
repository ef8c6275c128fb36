package convert

import (
	"fmt"
	"math"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	jobset "github.com/mlbatch/mlbatch/api/jobset/v1alpha2"
	kubeflow "github.com/mlbatch/mlbatch/api/kubeflow/v1"
)

const (
	master = "master"
	worker = "worker"
	// pytorch is how the container of a PyTorchJob must be called.
	pytorch = "pytorch"
	// jobsBackoff is how often a Job retries if it does not say.
	jobsBackoff = 6
)

// settledPyTorch fills in what goes without saying.
func settledPyTorch(j *kubeflow.PyTorchJob) {
	for _, r := range j.Spec.PyTorchReplicaSpecs {
		if r == nil {
			continue
		}
		r.Replicas = new(ptr.Deref(r.Replicas, 1))
		if r.RestartPolicy == "" {
			r.RestartPolicy = kubeflow.RestartPolicyOnFailure
		}
		r.Template.Spec.RestartPolicy = "" // that of the role overrules it
	}
	if ptr.Deref(j.Spec.NprocPerNode, "") == "auto" {
		j.Spec.NprocPerNode = nil
	}
	settledElastic(j)
}

// readPyTorchJob makes one replicated job of master and workers whose pods are the same, and
// two of others.
func readPyTorchJob(o runtime.Object, _ []runtime.Object) (*jobset.JobSet, error) {
	j, is := o.DeepCopyObject().(*kubeflow.PyTorchJob)
	if !is {
		return nil, fmt.Errorf("is a %T", o)
	}
	if j.Name == "" {
		return nil, errNoName
	}
	settledPyTorch(j)
	s := newSet(j.ObjectMeta)
	p := &j.Spec.RunPolicy
	s.Spec.Suspend, s.Spec.TTLSecondsAfterFinished = p.Suspend, p.TTLSecondsAfterFinished
	c := &contract{set: j.Name, processes: ptr.Deref(j.Spec.NprocPerNode, "auto"), port: defaultPort}
	first, others := j.Spec.PyTorchReplicaSpecs[kubeflow.RoleMaster], j.Spec.PyTorchReplicaSpecs[kubeflow.RoleWorker]
	type role struct {
		name  string
		count int32
		*kubeflow.ReplicaSpec
	}
	var roles []role
	switch {
	case first == nil && others == nil:
		return nil, fmt.Errorf("has neither Master nor Worker")
	case first == nil:
		roles = []role{{worker, *others.Replicas, others}}
	case others == nil || *others.Replicas == 0:
		c.role, roles = node, []role{{node, 1, first}}
	case equality.Semantic.DeepEqual(first.Template, others.Template) && first.RestartPolicy == others.RestartPolicy:
		c.role, roles = node, []role{{node, 1 + *others.Replicas, first}}
	default:
		c.role, roles = master, []role{{master, 1, first}, {worker, *others.Replicas, others}}
		s.Spec.SuccessPolicy = &jobset.SuccessPolicy{
			Operator:             jobset.OperatorAll,
			TargetReplicatedJobs: []string{master},
		}
	}
	if first != nil {
		c.port = portOf(&first.Template)
	}
	if e := j.Spec.ElasticPolicy; e != nil && others != nil {
		c.elastic, c.meets, c.meetsAt = e, roles[len(roles)-1].name, portOf(&others.Template)
	}
	for _, r := range roles {
		c.pods += r.count
	}
	for _, r := range roles {
		t := r.Template.DeepCopy()
		t.Spec.RestartPolicy = podsPolicy(r.RestartPolicy)
		if t.Spec.PriorityClassName == "" && p.SchedulingPolicy != nil {
			t.Spec.PriorityClassName = p.SchedulingPolicy.PriorityClass
		}
		if err := c.tell(r.name, t); err != nil {
			return nil, err
		}
		s.Spec.ReplicatedJobs = append(
			s.Spec.ReplicatedJobs,
			jobset.ReplicatedJob{Name: r.name, Template: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{
				Parallelism: new(
					r.count,
				),
				Completions:           new(r.count),
				BackoffLimit:          new(backoff(r.RestartPolicy, p.BackoffLimit)),
				ActiveDeadlineSeconds: p.ActiveDeadlineSeconds,
				Template:              *t,
			}}},
		)
	}
	return settled(s), nil
}

// portOf is where the master listens.
func portOf(t *corev1.PodTemplateSpec) int32 {
	for i := range t.Spec.Containers {
		for _, p := range t.Spec.Containers[i].Ports {
			if p.Name == portName {
				return p.ContainerPort
			}
		}
	}
	return defaultPort
}

// podsPolicy is the policy of pods for that of a role. Jobs know two.
func podsPolicy(p kubeflow.RestartPolicy) corev1.RestartPolicy {
	if p == kubeflow.RestartPolicyNever || p == kubeflow.RestartPolicyExitCode {
		return corev1.RestartPolicyNever
	}
	return corev1.RestartPolicyOnFailure
}

// backoff is how many failures a Job survives for a role.
func backoff(p kubeflow.RestartPolicy, limit *int32) int32 {
	if p == kubeflow.RestartPolicyNever {
		return 0
	}
	return ptr.Deref(limit, math.MaxInt32)
}

// writePyTorchJob makes a master and workers of one or two kinds of pods.
func writePyTorchJob(s *jobset.JobSet) ([]runtime.Object, error) {
	if s.Name == "" {
		return nil, errNoName
	}
	all := s.Spec.ReplicatedJobs
	c := contractOf(s)
	j := &kubeflow.PyTorchJob{
		TypeMeta: metav1.TypeMeta{
			APIVersion: kubeflow.GroupVersion.String(),
			Kind:       kubeflow.PyTorchJobKind,
		},
		ObjectMeta: *s.ObjectMeta.DeepCopy(),
		Spec:       kubeflow.PyTorchJobSpec{PyTorchReplicaSpecs: map[kubeflow.ReplicaType]*kubeflow.ReplicaSpec{}},
	}
	p := &j.Spec.RunPolicy
	p.Suspend, p.TTLSecondsAfterFinished = s.Spec.Suspend, s.Spec.TTLSecondsAfterFinished
	if c.processes != "auto" {
		j.Spec.NprocPerNode = &c.processes
	}
	j.Spec.ElasticPolicy = c.elastic
	set := func(role kubeflow.ReplicaType, of *jobset.ReplicatedJob, n int32) {
		if n > 0 {
			j.Spec.PyTorchReplicaSpecs[role] = roleOf(c, of, n)
		}
	}
	switch {
	case len(all) == 1 && all[0].Name == worker && c.role == "":
		set(kubeflow.RoleWorker, &all[0], podsOf(&all[0]))
	case len(all) == 1:
		set(kubeflow.RoleMaster, &all[0], 1)
		set(kubeflow.RoleWorker, &all[0], podsOf(&all[0])-1)
	case len(all) == 2: //nolint:mnd // master and workers
		first := slices.IndexFunc(
			all,
			func(j jobset.ReplicatedJob) bool { return podsOf(&j) == 1 && (c.role == "" || c.role == j.Name) },
		)
		if first < 0 {
			return nil, fmt.Errorf(
				"has two kinds of pods, of neither of which there is one, to be the master: use --to jobset",
			)
		}
		set(kubeflow.RoleMaster, &all[first], 1)
		set(kubeflow.RoleWorker, &all[1-first], podsOf(&all[1-first]))
	default:
		return nil, fmt.Errorf(
			"has %d kinds of pods, and a PyTorchJob has a master and workers: use --to jobset",
			len(all),
		)
	}
	in := &all[0].Template.Spec
	p.ActiveDeadlineSeconds = in.ActiveDeadlineSeconds
	if limit := ptr.Deref(
		in.BackoffLimit,
		jobsBackoff,
	); limit != math.MaxInt32 &&
		in.Template.Spec.RestartPolicy != corev1.RestartPolicyNever {
		p.BackoffLimit = &limit
	}
	return []runtime.Object{j}, nil
}

// roleOf is a role of so many pods of a replicated job.
func roleOf(c *contract, of *jobset.ReplicatedJob, n int32) *kubeflow.ReplicaSpec {
	t := of.Template.Spec.Template.DeepCopy()
	policy := kubeflow.RestartPolicy(t.Spec.RestartPolicy)
	t.Spec.RestartPolicy = ""
	c.untell(of.Name, t)
	if !slices.ContainsFunc(t.Spec.Containers, func(x corev1.Container) bool { return x.Name == pytorch }) &&
		len(t.Spec.Containers) > 0 {
		t.Spec.Containers[0].Name = pytorch
	}
	if c.port != defaultPort && portOf(t) != c.port {
		for i := range t.Spec.Containers {
			if x := &t.Spec.Containers[i]; x.Name == pytorch {
				at := slices.IndexFunc(x.Ports, func(p corev1.ContainerPort) bool { return p.ContainerPort == c.port })
				if at < 0 {
					at, x.Ports = len(x.Ports), append(x.Ports, corev1.ContainerPort{ContainerPort: c.port})
				}
				x.Ports[at].Name = portName
			}
		}
	}
	return &kubeflow.ReplicaSpec{Replicas: &n, RestartPolicy: policy, Template: *t}
}
