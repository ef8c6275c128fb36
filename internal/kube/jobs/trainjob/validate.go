package trainjob

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	jobset "github.com/mlbatch/mlbatch/api/jobset/v1alpha2"
	api "github.com/mlbatch/mlbatch/api/trainer/v1alpha1"
)

// validate finds what is wrong with a TrainJob: by itself and, if it has one, with its
// runtime.
func validate(t *api.TrainJob) field.ErrorList {
	errs := validateAlone(t)
	if len(errs) > 0 {
		return errs
	}
	_, errs = render(t)
	return errs
}

// validateNew finds what is wrong with a TrainJob that its author writes now. One that was written
// before is run whatever its words look like.
func validateNew(t *api.TrainJob) field.ErrorList {
	return append(validate(t), checkWords(t, &api.TrainJob{})...)
}

// Forms of words that name what is elsewhere.
var (
	// source is where data come from: SCHEME://PATH, or a path of a volume.
	source = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9+.-]*://.+|/.*)$`)
	// domain is who writes a patch: DOMAIN/NAME.
	domain = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`)
)

// checkWords refuses words that have not the form of what they are, where they were not so before.
func checkWords(is, was *api.TrainJob) field.ErrorList {
	var errs field.ErrorList
	before := initializer(was)
	for i, s := range initializer(is) {
		if s == nil || s.StorageURI == nil || source.MatchString(*s.StorageURI) {
			continue
		}
		if b := before[i]; b == nil || !ptr.Equal(b.StorageURI, s.StorageURI) {
			at := field.NewPath("spec", "initializer", []string{"dataset", "model"}[i], "storageUri")
			errs = append(
				errs,
				field.Invalid(
					at,
					*s.StorageURI,
					"say where it is as SCHEME://PATH, such as hf://org/name or s3://bucket/path, or as a path that begins with /",
				),
			)
		}
	}
	for i := range is.Spec.RuntimePatches {
		m := is.Spec.RuntimePatches[i].Manager
		there := slices.ContainsFunc(
			was.Spec.RuntimePatches,
			func(p api.RuntimePatch) bool { return p.Manager == m },
		)
		if m == "" || there || domain.MatchString(m) {
			continue // that it is needed is said by who needs it
		}
		errs = append(
			errs,
			field.Invalid(
				field.NewPath("spec", "runtimePatches").Index(i).Child("manager"),
				m,
				"say who wants it as DOMAIN/NAME, as in example.com/me",
			),
		)
	}
	return errs
}

// initializer are the sources of a job, in their order; nil where there is none.
func initializer(t *api.TrainJob) [2]*api.Source {
	in := ptr.Deref(t.Spec.Initializer, api.Initializer{})
	return [2]*api.Source{in.Dataset, in.Model}
}

// validateAlone finds what is wrong with a TrainJob whatever its runtime is.
func validateAlone(t *api.TrainJob) field.ErrorList {
	errs := append(checkName(t), checkRef(&t.Spec.RuntimeRef)...)
	if m := ptr.Deref(
		t.Spec.ManagedBy,
		"",
	); t.Spec.ManagedBy != nil && m != api.ManagedByController &&
		m != api.ManagedByMultiKueue {
		errs = append(
			errs,
			field.NotSupported(
				field.NewPath("spec", "managedBy"),
				m,
				[]string{api.ManagedByController, api.ManagedByMultiKueue},
			),
		)
	}
	if n := t.Spec.ActiveDeadlineSeconds; n != nil && *n < 1 {
		errs = append(
			errs,
			field.Invalid(field.NewPath("spec", "activeDeadlineSeconds"), *n, "use a number from 1"),
		)
	}
	if tr := t.Spec.Trainer; tr != nil {
		if n := tr.NumNodes; n != nil && (*n < 1 || *n > mostPods) {
			errs = append(
				errs,
				field.Invalid(trainerPath().Child("numNodes"), *n, fmt.Sprintf("use a number from 1 to %d", mostPods)),
			)
		}
		errs = append(errs, checkProcesses(tr.NumProcPerNode)...)
	}
	seen := map[string]bool{}
	for i := range t.Spec.RuntimePatches {
		m, at := t.Spec.RuntimePatches[i].Manager, field.NewPath("spec", "runtimePatches").Index(i).Child("manager")
		if m == "" {
			errs = append(errs, field.Required(at, "say who wants it, as in example.com/me"))
		} else if seen[m] {
			errs = append(errs, field.Duplicate(at, m))
		}
		seen[m] = true
	}
	return errs
}

// checkName refuses names that services and pods could not have.
func checkName(t *api.TrainJob) field.ErrorList {
	name, at := t.Name, field.NewPath("metadata", "name")
	if name == "" {
		name, at = t.GenerateName+"xxxxx", field.NewPath("metadata", "generateName")
	}
	if wrong := validation.IsDNS1035Label(name); len(wrong) > 0 {
		return field.ErrorList{
			field.Invalid(at, name, "its service and its pods have it in their names: "+strings.Join(wrong, ", ")),
		}
	}
	return nil
}

func checkRef(ref *api.RuntimeRef) field.ErrorList {
	var errs field.ErrorList
	if ref.Name == "" {
		errs = append(
			errs,
			field.Required(runtimeRef().Child("name"), "name a TrainingRuntime or ClusterTrainingRuntime"),
		)
	}
	if g := cmp.Or(ptr.Deref(ref.APIGroup, ""), api.GroupVersion.Group); g != api.GroupVersion.Group {
		errs = append(errs, field.NotSupported(runtimeRef().Child("apiGroup"), g, []string{api.GroupVersion.Group}))
	}
	if k := refKind(ref); k != api.TrainingRuntimeKind && k != api.ClusterTrainingRuntimeKind {
		errs = append(
			errs,
			field.NotSupported(
				runtimeRef().Child("kind"),
				k,
				[]string{api.ClusterTrainingRuntimeKind, api.TrainingRuntimeKind},
			),
		)
	}
	return errs
}

// refKind is the kind of a runtime that is named.
func refKind(ref *api.RuntimeRef) string {
	return cmp.Or(ptr.Deref(ref.Kind, ""), api.ClusterTrainingRuntimeKind)
}

func checkProcesses(n *intstr.IntOrString) field.ErrorList {
	at := trainerPath().Child("numProcPerNode")
	switch {
	case n == nil:
	case n.Type == intstr.Int && n.IntVal < 1:
		return field.ErrorList{field.Invalid(at, n.IntVal, "use a number from 1")}
	case n.Type == intstr.String && n.StrVal != "auto" && n.StrVal != "cpu" && n.StrVal != "gpu":
		return field.ErrorList{field.Invalid(at, n.StrVal, "use a number, auto, cpu or gpu")}
	}
	return nil
}

// check finds what of a TrainJob does not go with its runtime.
func (r *rendering) check() {
	r.checkPolicy()
	r.checkParts()
	for _, c := range changes(r.job) {
		r.checkChange(&c)
	}
	reserved := r.reserved()
	if t := r.job.Spec.Trainer; t != nil {
		for i, v := range t.Env {
			if slices.Contains(reserved, v.Name) {
				r.errs = append(r.errs, field.Forbidden(trainerPath().Child("env").Index(i).Child("name"),
					fmt.Sprintf("%s is set by the %s: remove it", v.Name, r.runtime())))
			}
		}
	}
}

// checkPolicy finds what the framework of the runtime does not allow.
func (r *rendering) checkPolicy() {
	if r.policy.Flux != nil {
		r.invalid(
			runtimeRef(),
			r.job.Spec.RuntimeRef.Name,
			"the %s is for the Flux scheduler, which is not run here: use another",
			r.runtime(),
		)
	}
	t := ptr.Deref(r.job.Spec.Trainer, api.Trainer{})
	if n := t.NumProcPerNode; n != nil && r.policy.MPI != nil && n.Type == intstr.String {
		r.invalid(
			trainerPath().Child("numProcPerNode"),
			n.StrVal,
			"the %s is for MPI, which needs a number",
			r.runtime(),
		)
	}
	if r.launcherTrains() && ptr.Deref(t.NumNodes, 1) > 1 && (r.launcher() == nil || r.mpiNodes() == nil) {
		r.invalid(
			trainerPath().Child("numNodes"),
			*t.NumNodes,
			"the %s has no replicated jobs launcher and node, so that there is one pod: use 1",
			r.runtime(),
		)
	}
	if p := r.policy.Torch; p != nil && p.ElasticPolicy != nil && t.NumNodes != nil {
		least, most := ptr.Deref(p.ElasticPolicy.MinNodes, 1), ptr.Deref(p.ElasticPolicy.MaxNodes, *t.NumNodes)
		if n := *t.NumNodes; n < least || n > most {
			r.invalid(
				trainerPath().Child("numNodes"),
				n,
				"the %s trains with %d to %d nodes",
				r.runtime(),
				least,
				most,
			)
		}
	}
}

// checkParts finds parts of the TrainJob that the runtime has no container for.
func (r *rendering) checkParts() {
	in := ptr.Deref(r.job.Spec.Initializer, api.Initializer{})
	for _, part := range []struct {
		name, container string
		at              *field.Path
		said            bool
	}{
		{api.AncestorTrainer, api.Node, trainerPath(), r.job.Spec.Trainer != nil},
		{api.DatasetInitializer, api.DatasetInitializer, field.NewPath("spec", "initializer", "dataset"), in.Dataset != nil},
		{api.ModelInitializer, api.ModelInitializer, field.NewPath("spec", "initializer", "model"), in.Model != nil},
	} {
		if !part.said {
			continue
		}
		all := r.of(part.name)
		if len(all) == 0 {
			r.errs = append(
				r.errs,
				field.Forbidden(
					part.at,
					fmt.Sprintf(
						"the %s has no replicated job with the label %s: %s: remove this field, or use another runtime",
						r.runtime(),
						api.AncestorLabel,
						part.name,
					),
				),
			)
		}
		for _, j := range all {
			if container(j, part.container) == nil {
				r.errs = append(
					r.errs,
					field.Forbidden(
						part.at,
						fmt.Sprintf(
							"the %s has no container %s in the replicated job %s: remove this field, or use another runtime",
							r.runtime(),
							part.container,
							j.Name,
						),
					),
				)
			}
		}
	}
}

// checkChange finds what of a change is about nothing, or not its to say.
func (r *rendering) checkChange(c *change) {
	for _, t := range c.targets {
		if r.find(t.name) == nil {
			r.invalid(
				t.at,
				t.name,
				"the %s has no such replicated job: use one of %s",
				r.runtime(),
				strings.Join(r.names(), ", "),
			)
		}
	}
	if c.spec == nil {
		return
	}
	for i := range c.spec.InitContainers {
		r.checkContainer(
			c,
			&c.spec.InitContainers[i],
			c.specAt.Child("initContainers").Index(i),
			func(s *corev1.PodSpec) []corev1.Container { return s.InitContainers },
		)
	}
	for i := range c.spec.Containers {
		r.checkContainer(
			c,
			&c.spec.Containers[i],
			c.specAt.Child("containers").Index(i),
			func(s *corev1.PodSpec) []corev1.Container { return s.Containers },
		)
	}
}

// checkContainer finds containers that some of the jobs that a change is about do not have,
// or none if it is about all.
func (r *rendering) checkContainer(
	c *change,
	p *api.ContainerPatch,
	at *field.Path,
	of func(*corev1.PodSpec) []corev1.Container,
) {
	var without []string
	with := false
	for i := range r.set.Spec.ReplicatedJobs {
		j := &r.set.Spec.ReplicatedJobs[i]
		if !c.about(j.Name) {
			continue
		}
		if slices.ContainsFunc(of(pods(j)), func(x corev1.Container) bool { return x.Name == p.Name }) {
			with = true
		} else {
			without = append(without, j.Name)
		}
	}
	if len(without) > 0 && (len(c.targets) > 0 || !with) {
		r.invalid(
			at.Child("name"),
			p.Name,
			"the %s has no such container in the replicated job %s",
			r.runtime(),
			strings.Join(without, ", "),
		)
	}
	where := map[string]string{api.Node: "spec.trainer.env", api.DatasetInitializer: "spec.initializer.dataset.env", api.ModelInitializer: "spec.initializer.model.env"}[p.Name]
	if len(p.Env) > 0 && where != "" {
		r.errs = append(
			r.errs,
			field.Forbidden(
				at.Child("env"),
				fmt.Sprintf("variables of the container %s are set in %s", p.Name, where),
			),
		)
	}
}

func (r *rendering) names() []string {
	var out []string
	for i := range r.set.Spec.ReplicatedJobs {
		out = append(out, r.set.Spec.ReplicatedJobs[i].Name)
	}
	return out
}

// validateChange finds what is wrong with a change. What was wrong before may stay so while
// the spec does; what was not may not become so, since a job that nobody understands cannot
// be stopped.
func validateChange(was, is *api.TrainJob) field.ErrorList {
	const anew = "it cannot be changed: delete the job and create it anew"
	var errs field.ErrorList
	spec := field.NewPath("spec")
	if !equality.Semantic.DeepEqual(refOf(was), refOf(is)) {
		errs = append(errs, field.Forbidden(runtimeRef(), anew))
	}
	if ptr.Deref(was.Spec.ManagedBy, "") != ptr.Deref(is.Spec.ManagedBy, "") {
		errs = append(errs, field.Forbidden(spec.Child("managedBy"), anew))
	}
	if !ptr.Equal(was.Spec.ActiveDeadlineSeconds, is.Spec.ActiveDeadlineSeconds) {
		errs = append(errs, field.Forbidden(spec.Child("activeDeadlineSeconds"), anew))
	}
	if len(errs) > 0 || equality.Semantic.DeepEqual(was.Spec, is.Spec) {
		return errs
	}
	next := is.DeepCopy() // with the runtime that it has, whoever writes it
	keepRuntime(was, next)
	if errs := append(validate(next), checkWords(next, was)...); len(errs) > 0 {
		return errs
	}
	return validateLater(was, next)
}

func refOf(t *api.TrainJob) [2]string {
	return [2]string{refKind(&t.Spec.RuntimeRef), t.Spec.RuntimeRef.Name}
}

// validateLater refuses changes of a job that runs, but for how many nodes it has: with another
// number it is stopped and queued anew. One that is suspended gets another JobSet if its own could
// not be changed so.
func validateLater(was, is *api.TrainJob) field.ErrorList {
	before, errs := render(was)
	if before == nil || len(errs) > 0 || suspended(was) || suspended(is) {
		return nil
	}
	sized := is.DeepCopy()
	if t := sized.Spec.Trainer; t != nil {
		t.NumNodes = nil
		if was.Spec.Trainer != nil {
			t.NumNodes = was.Spec.Trainer.NumNodes
		}
	}
	after, errs := render(sized)
	if len(errs) > 0 {
		return errs
	}
	if !equality.Semantic.DeepEqual(before.set.Spec, after.set.Spec) {
		return field.ErrorList{
			field.Forbidden(
				field.NewPath("spec"),
				"what the pods are can be changed only while the job is held: mlbatch hold --stop, change it, mlbatch release",
			),
		}
	}
	return nil
}

// lasting is what a JobSet keeps from its creation; all else can be changed while it is suspended.
func lasting(s *jobset.JobSet) *jobset.JobSetSpec {
	out := s.Spec.DeepCopy()
	out.Suspend = nil
	for i := range out.ReplicatedJobs {
		t := &out.ReplicatedJobs[i].Template.Spec.Template
		t.Labels, t.Annotations = nil, nil
		t.Spec.NodeSelector, t.Spec.Tolerations, t.Spec.SchedulingGates = nil, nil, nil
	}
	return out
}
