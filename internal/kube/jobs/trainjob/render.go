package trainjob

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	jobset "github.com/mlbatch/mlbatch/api/jobset/v1alpha2"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	api "github.com/mlbatch/mlbatch/api/trainer/v1alpha1"
	jobsetkind "github.com/mlbatch/mlbatch/internal/kube/jobs/jobset"
)

// rendering is a TrainJob on its way to the JobSet that it becomes.
type rendering struct {
	job    *api.TrainJob
	from   *api.ResolvedRuntime
	policy api.MLPolicy
	set    *jobset.JobSet
	errs   field.ErrorList
}

// runtimeRef and trainerPath are the parts of a TrainJob that errors are about.
func runtimeRef() *field.Path  { return field.NewPath("spec", "runtimeRef") }
func trainerPath() *field.Path { return field.NewPath("spec", "trainer") }

// render makes the JobSet of a TrainJob from the runtime that it has. The errors are for the
// author of the TrainJob; of a job without a runtime there is nothing to say yet.
func render(t *api.TrainJob) (*rendering, field.ErrorList) {
	from := recorded(t)
	if from == nil {
		return nil, nil
	}
	spec := from.Spec.DeepCopy()
	r := &rendering{job: t, from: from, policy: ptr.Deref(spec.MLPolicy, api.MLPolicy{}), set: &jobset.JobSet{
		ObjectMeta: metav1.ObjectMeta{
			Name:        cmp.Or(t.Name, t.GenerateName+"xxxxx"),
			Namespace:   t.Namespace,
			Labels:      spec.Template.Metadata.Labels,
			Annotations: spec.Template.Metadata.Annotations,
		},
		Spec: spec.Template.Spec,
	}}
	r.set.Labels = merged(r.set.Labels, t.Spec.Labels)
	r.set.Annotations = merged(r.set.Annotations, t.Spec.Annotations)
	r.check()
	if len(r.errs) > 0 {
		return nil, r.errs
	}
	r.patch()
	r.initialize()
	r.train()
	r.enforce()
	s := &r.set.Spec
	// Who deletes the JobSet, and whose it is, is the TrainJob's to say; it would be made anew
	// if it went by itself.
	s.Suspend, s.ManagedBy, s.TTLSecondsAfterFinished = t.Spec.Suspend, nil, nil
	delete(r.set.Labels, kueue.QueueNameLabel)
	r.checkSet()
	if len(r.errs) > 0 {
		return nil, r.errs
	}
	return r, nil
}

// merged adds entries, which win, to a map that may be changed.
func merged(is, more map[string]string) map[string]string {
	if is == nil {
		return maps.Clone(more)
	}
	maps.Copy(is, more)
	return is
}

func (r *rendering) invalid(at *field.Path, value any, format string, args ...any) {
	r.errs = append(r.errs, field.Invalid(at, value, fmt.Sprintf(format, args...)))
}

// runtime is what errors call the runtime.
func (r *rendering) runtime() string {
	return r.from.Kind + " " + r.from.Name
}

// step is the part of a TrainJob that a replicated job is about; "" if none. Its label is on
// the Job, or in older runtimes on the pods, or it has the part's name.
func step(j *jobset.ReplicatedJob) string {
	for _, labels := range []map[string]string{j.Template.Labels, j.Template.Spec.Template.Labels} {
		if s := labels[api.AncestorLabel]; s != "" {
			return s
		}
	}
	switch j.Name {
	case api.Node:
		return api.AncestorTrainer
	case api.DatasetInitializer, api.ModelInitializer:
		return j.Name
	}
	return ""
}

// of returns the replicated jobs of a part.
func (r *rendering) of(part string) []*jobset.ReplicatedJob {
	var labelled, named []*jobset.ReplicatedJob
	for i := range r.set.Spec.ReplicatedJobs {
		j := &r.set.Spec.ReplicatedJobs[i]
		if step(j) != part {
			continue
		}
		if j.Template.Labels[api.AncestorLabel] == "" && j.Template.Spec.Template.Labels[api.AncestorLabel] == "" {
			named = append(named, j)
		} else {
			labelled = append(labelled, j)
		}
	}
	if len(labelled) > 0 { // names are asked only where nothing is labelled
		return labelled
	}
	return named
}

// find returns the replicated job of a name, nil if there is none.
func (r *rendering) find(name string) *jobset.ReplicatedJob {
	for i := range r.set.Spec.ReplicatedJobs {
		if r.set.Spec.ReplicatedJobs[i].Name == name {
			return &r.set.Spec.ReplicatedJobs[i]
		}
	}
	return nil
}

func pods(j *jobset.ReplicatedJob) *corev1.PodSpec { return &j.Template.Spec.Template.Spec }

// container finds the one of a name; where there is only one, that is it, whatever it is
// called. nil if there is none.
func container(j *jobset.ReplicatedJob, name string) *corev1.Container {
	all := pods(j).Containers
	for i := range all {
		if all[i].Name == name {
			return &all[i]
		}
	}
	if len(all) == 1 {
		return &all[0]
	}
	return nil
}

// initialize says what is fetched before the training.
func (r *rendering) initialize() {
	in := r.job.Spec.Initializer
	if in == nil {
		return
	}
	for _, one := range []struct {
		name   string
		source *api.Source
	}{{api.DatasetInitializer, in.Dataset}, {api.ModelInitializer, in.Model}} {
		if one.source == nil {
			continue
		}
		for _, j := range r.of(one.name) {
			j.Replicas = new(int32(1))
			c := container(j, one.name)
			if c == nil {
				continue // as is said by check
			}
			if uri := one.source.StorageURI; uri != nil {
				setEnv(c, corev1.EnvVar{Name: storageURI, Value: *uri})
			}
			setEnv(c, one.source.Env...)
			if ref := one.source.SecretRef; ref != nil {
				c.EnvFrom = append(
					c.EnvFrom,
					corev1.EnvFromSource{
						SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: ref.Name}},
					},
				)
			}
		}
	}
}

// storageURI is the variable that says where something is fetched from.
const storageURI = "STORAGE_URI"

// train says what the training is.
func (r *rendering) train() {
	t := ptr.Deref(r.job.Spec.Trainer, api.Trainer{})
	for _, j := range r.of(api.AncestorTrainer) {
		j.Replicas = new(int32(1))
		if c := container(j, api.Node); c != nil {
			if t.Command != nil {
				c.Command = t.Command
			}
			if t.Args != nil {
				c.Args = t.Args
			}
			r.settle(c, &t)
			if r.policy.MPI == nil || r.launcherTrains() {
				sized(c, &t)
			}
		}
	}
	if node := r.mpiNodes(); node != nil { // what the launcher starts runs there
		if c := container(node, api.Node); c != nil {
			r.settle(c, &t)
			sized(c, &t)
		}
	}
	r.count()
}

// settle gives a container what its author wants of image and variables.
func (*rendering) settle(c *corev1.Container, t *api.Trainer) {
	if t.Image != nil {
		c.Image = *t.Image
	}
	setEnv(c, t.Env...)
}

func sized(c *corev1.Container, t *api.Trainer) {
	if s := t.ResourcesPerNode; s != nil && (s.Limits != nil || s.Requests != nil || s.Claims != nil) {
		c.Resources = *s
	}
}

// nodes is how many train; nil if neither job nor runtime says.
func (r *rendering) nodes() *int32 {
	if t := r.job.Spec.Trainer; t != nil && t.NumNodes != nil {
		return t.NumNodes
	}
	if r.policy.NumNodes != nil {
		return r.policy.NumNodes
	}
	if t := r.policy.Torch; t != nil && t.ElasticPolicy != nil {
		if t.ElasticPolicy.MaxNodes != nil {
			return t.ElasticPolicy.MaxNodes
		}
		return t.ElasticPolicy.MinNodes
	}
	return nil
}

// count gives the replicated jobs that train their number of pods.
func (r *rendering) count() {
	n := r.nodes()
	if n == nil {
		return
	}
	if r.policy.MPI != nil {
		node := r.mpiNodes()
		if node == nil {
			for _, j := range r.of(api.AncestorTrainer) {
				resize(j, *n)
			}
			return
		}
		if launcher := r.launcher(); launcher != nil {
			resize(launcher, 1)
		}
		if r.launcherTrains() {
			resize(node, max(*n-1, 1))
		} else {
			resize(node, *n)
		}
		return
	}
	for _, j := range r.of(api.AncestorTrainer) {
		resize(j, *n)
	}
}

func resize(j *jobset.ReplicatedJob, n int32) {
	j.Replicas = new(int32(1))
	j.Template.Spec.Parallelism, j.Template.Spec.Completions = &n, new(n)
}

// size is how many pods of one Job run at the same time.
func size(j *jobset.ReplicatedJob) int32 {
	s := &j.Template.Spec
	n := ptr.Deref(s.Parallelism, 1)
	if s.Completions != nil {
		n = min(n, *s.Completions)
	}
	return n
}

// host is the name under which a pod is found.
func (r *rendering) host(j *jobset.ReplicatedJob, index int32) string {
	domain := r.set.Name
	if n := r.set.Spec.Network; n != nil && n.Subdomain != "" {
		domain = n.Subdomain
	}
	return fmt.Sprintf("%s-%s-0-%d.%s", r.set.Name, j.Name, index, domain)
}

// mostPods is more than any cluster has.
const mostPods = 1_000_000

// checkSet refuses what is no JobSet, or has pods that would go around the queue. What is
// wrong is mostly the runtime's; what is said of names is about that of the TrainJob.
func (r *rendering) checkSet() {
	for _, e := range jobsetkind.Kind().Admission.Validate(r.set) {
		if strings.HasPrefix(e.Field, "metadata.") {
			if r.job.Name == "" {
				e.Field = "metadata.generateName"
			}
			r.errs = append(r.errs, e)
			continue
		}
		r.invalid(
			runtimeRef(),
			r.job.Spec.RuntimeRef.Name,
			"of the %s no JobSet can be made: %s",
			r.runtime(),
			e.Error(),
		)
	}
	for i := range r.set.Spec.ReplicatedJobs {
		r.checkTemplate(&r.set.Spec.ReplicatedJobs[i])
	}
}

// checkTemplate refuses pods of a runtime that would go around the scheduler, or stay for
// ever. Those of other kinds are refused by their author's words; here they are another's.
func (r *rendering) checkTemplate(j *jobset.ReplicatedJob) {
	name, t := r.job.Spec.RuntimeRef.Name, &j.Template.Spec.Template
	if t.Spec.NodeName != "" {
		r.invalid(
			runtimeRef(),
			name,
			"the %s puts the pods of %s on node %s, around the scheduler: have it use a nodeSelector",
			r.runtime(),
			j.Name,
			t.Spec.NodeName,
		)
	}
	if len(t.Finalizers) > 0 {
		r.invalid(
			runtimeRef(),
			name,
			"the %s gives the pods of %s finalizers, which would keep pods that have to go: have them removed",
			r.runtime(),
			j.Name,
		)
	}
	if ptr.Deref(j.Template.Spec.CompletionMode, batchv1.IndexedCompletion) != batchv1.IndexedCompletion &&
		slices.Contains(r.of(api.AncestorTrainer), j) &&
		r.needsIndexes() {
		r.invalid(
			runtimeRef(),
			name,
			"the %s has pods of %s without indexes, by which they would find each other: have its completionMode be Indexed",
			r.runtime(),
			j.Name,
		)
	}
}

// needsIndexes reports whether pods are told which of them they are.
func (r *rendering) needsIndexes() bool {
	return r.policy.Torch != nil || r.policy.JAX != nil || r.policy.XGBoost != nil
}

// setEnv sets variables of a container; a variable that it has gets the new value.
func setEnv(c *corev1.Container, all ...corev1.EnvVar) {
	for _, v := range all {
		if at := slices.IndexFunc(c.Env, func(is corev1.EnvVar) bool { return is.Name == v.Name }); at >= 0 {
			c.Env[at] = v
			continue
		}
		c.Env = append(c.Env, v)
	}
}
