package lint

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	aw "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	"github.com/mlbatch/mlbatch/api/config/v1beta2"
	kubeflow "github.com/mlbatch/mlbatch/api/kubeflow/v1"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/engine/lifecycle"
	"github.com/mlbatch/mlbatch/internal/finding"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/podmeta"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/sakkara"
	"github.com/mlbatch/mlbatch/internal/strict"
	"github.com/mlbatch/mlbatch/internal/view"
)

// Rule is a question to a manifest.
type Rule struct {
	Name     string
	Severity finding.Severity
	// Asks says what it finds, Cure what helps.
	Asks, Cure string
	// Cluster is true of rules that ask one.
	Cluster bool
	find    func(s *subject) []hit
}

// hit is what a rule finds.
type hit struct {
	path, message string
	at            strict.Position
}

// Rules are all, in the order in which they are asked.
func Rules() []Rule {
	return []Rule{
		{
			"unknown-field",
			finding.Error,
			"a field that the kind does not have",
			"the field that was probably meant is told",
			false,
			unknownFields,
		},
		{
			"invalid-field",
			finding.Error,
			"a field of another type, or given twice",
			"write what the message asks for",
			false,
			invalidFields,
		},
		{
			"refused",
			finding.Error,
			"what the webhooks refuse: a job that can never run, go around its queue, or be counted",
			"the message says it",
			false,
			refused,
		},
		{
			"no-effect",
			finding.Warning,
			"annotations and fields that are not heeded",
			"take them out, or spell them as the message says",
			false,
			noEffect,
		},
		{
			"deprecated",
			finding.Warning,
			"versions, fields and labels that Kubernetes or the kind's project have given up",
			"use what took their place",
			false,
			deprecated,
		},
		{
			"no-queue",
			finding.Warning,
			"a job of a kind that is queued names no queue",
			"set the label " + kueue.QueueNameLabel,
			false,
			noQueue,
		},
		{
			"no-master",
			finding.Warning,
			"a PyTorchJob with workers, without a Master and without elasticPolicy: scripts find no MASTER_ADDR",
			"give one pod to the role Master, or set elasticPolicy",
			false,
			noMaster,
		},
		{
			"no-requests",
			finding.Warning,
			"a container without requests or limits of CPU or memory: quota counts nothing for it, and its node may run out",
			"set resources.requests",
			false,
			noRequests,
		},
		{
			"gpu-limits",
			finding.Error,
			"GPUs without a limit, or a limit that is not the request: Kubernetes refuses the pods",
			"set both to the same number",
			false,
			gpuLimits,
		},
		{
			"no-limits",
			finding.Warning,
			"a container with GPUs without limits of CPU or memory: one job can starve those beside it",
			"set resources.limits",
			false,
			noLimits,
		},
		{
			"hidden-failure",
			finding.Warning,
			"a restartPolicy by which containers are started again in place: exit codes are lost, and a job that fails over and over looks as if it ran",
			"restartPolicy Never, and retries of the job or the AppWrapper; or a backoffLimit",
			false,
			hiddenFailure,
		},
		{
			"latest-image",
			finding.Warning,
			"an image without a tag, or :latest: pods of one job may run different code",
			"name a version or a digest",
			false,
			latestImage,
		},
		{
			"no-grace",
			finding.Warning,
			"terminationGracePeriodSeconds 0: an evicted job has no moment to write a checkpoint",
			"leave it out, or give it time",
			false,
			noGrace,
		},
		{
			"priority-class",
			finding.Warning,
			"a priority class that MLBatch does not have",
			"low-priority, default-priority or high-priority; --cluster asks which there are",
			false,
			priorityClass,
		},
		{
			"sakkara",
			finding.Error,
			"a ConfigMap of a group or a tree of Sakkara's that contradicts itself, or a job that does not go with that of its group: the pods wait",
			"mend the key that the message names",
			false,
			ofSakkara,
		},
		{
			"queue-missing",
			finding.Error,
			"a queue that is not in the namespace",
			"the queues that there are, are told",
			true,
			queueMissing,
		},
		{
			"gang-impossible",
			finding.Error,
			"pods that fit on no node, or not all at the same time on all nodes, or need more than all queues of the cohort have",
			"smaller or fewer pods",
			true,
			gangImpossible,
		},
		{
			"class-missing",
			finding.Error,
			"a priority class that the cluster does not have",
			"the classes that there are, are told",
			true,
			classMissing,
		},
		{
			"dry-run",
			finding.Error,
			"what the cluster itself would refuse, by a trial that creates nothing",
			"the message says it",
			true,
			dryRun,
		},
	}
}

// ofSakkara asks what is read of the ConfigMaps of Sakkara's.
func ofSakkara(s *subject) []hit {
	m, is := s.typed.(*corev1.ConfigMap)
	if !is {
		return ofSakkaraGroup(s)
	}
	var err error
	if _, labelled := m.Labels[sakkara.GroupLabel]; labelled {
		err = groupFault(m.Data)
	} else if _, labelled := m.Labels[sakkara.TopologyLabel]; labelled {
		_, err = sakkara.ReadTree(m.Data)
	}
	if err == nil {
		return nil
	}
	key := err.Error()
	return []hit{{path: "data." + key[:strings.IndexAny(key, ".:")], message: key}}
}

// ofSakkaraGroup asks whether the pods of a job go with the ConfigMap of their group, if that is among the documents.
func ofSakkaraGroup(s *subject) []hit {
	if s.kind == nil || s.inside {
		return nil
	}
	facts, err := s.kind.Read(s.job)
	if err != nil {
		return nil // what is wrong with it, other rules say
	}
	jobs.Near(facts.PodSets, "")
	name, err := sakkara.OfJob(facts.PodSets)
	if err == nil {
		err = joinFault(s, name, &facts)
	}
	if err == nil {
		return nil
	}
	return []hit{{path: "spec", message: err.Error()}}
}

// joinFault says what of a job's pods does not go with the group that they are of; nil where its ConfigMap is not known.
func joinFault(s *subject, name string, facts *jobs.Facts) error {
	maps := s.groupMaps(name)
	switch {
	case name == "" || len(maps) == 0:
		return nil
	case len(maps) > 1:
		return fmt.Errorf("ConfigMaps %s and %s have %q for their key name: leave one of them",
			maps[0].Name, maps[1].Name, name)
	}
	g, err := sakkara.ReadGroup(maps[0].Data)
	if err != nil {
		return nil //nolint:nilerr // it is told of the ConfigMap
	}
	if _, err := g.Near(nil); err != nil {
		return nil //nolint:nilerr // as above
	}
	if _, err := g.Around(facts.PodSets, facts.Indexes, nil); err != nil {
		return fmt.Errorf("ConfigMap %s: %w", maps[0].Name, err)
	}
	return nil
}

// groupMaps are the ConfigMaps of a group that are among the documents, or inside the job.
func (s *subject) groupMaps(group string) (out []corev1.ConfigMap) {
	add := func(o *unstructured.Unstructured) {
		var m corev1.ConfigMap
		if o == nil || o.GetKind() != "ConfigMap" || o.GetNamespace() != "" && o.GetNamespace() != s.namespace() ||
			runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &m) != nil {
			return
		}
		if _, labelled := m.Labels[sakkara.GroupLabel]; labelled && m.Data["name"] == group {
			out = append(out, m)
		}
	}
	for i := range s.all {
		add(s.all[i].Object)
	}
	if s.kind.Queueing.Components == nil {
		return out
	}
	components, _ := s.kind.Queueing.Components(s.job, jobs.Schedulers{}) // what is wrong, other rules say
	for i := range components {
		add(components[i].Object)
	}
	return out
}

func groupFault(data map[string]string) error {
	g, err := sakkara.ReadGroup(data)
	if err == nil {
		_, err = g.Near(nil)
	}
	if err == nil && g.Name == "" {
		err = errors.New("name: name the group, as its pods do by the label " + sakkara.MemberLabel)
	}
	return err
}

func unknownFields(s *subject) []hit {
	return s.shaped(func(p strict.Problem) bool { return strings.HasPrefix(p.Text, "unknown field") })
}

func invalidFields(s *subject) []hit {
	return s.shaped(func(p strict.Problem) bool { return !strings.HasPrefix(p.Text, "unknown field") })
}

func (s *subject) shaped(wanted func(strict.Problem) bool) []hit {
	var out []hit
	for _, p := range s.shape {
		if wanted(p) {
			out = append(out, hit{p.Path, p.Text, p.Position})
		}
	}
	return out
}

// hits are those of errors of fields.
func hits(errs field.ErrorList) []hit {
	var out []hit
	for _, e := range errs {
		text := e.ErrorBody()
		if e.Type == field.ErrorTypeForbidden || e.Type == field.ErrorTypeRequired {
			text = e.Detail
		}
		out = append(out, hit{path: e.Field, message: text})
	}
	return out
}

// refused asks the webhooks' own functions.
func refused(s *subject) []hit {
	var errs field.ErrorList
	if s.kind != nil && !s.inside {
		job := s.job.DeepCopyObject().(jobs.Object) //nolint:forcetypeassert // a copy is of the same type
		if job.GetName() == "" {
			job.SetName("x")
		}
		errs = jobs.ValidateLabels(job)
		if s.kind.Admission.Validate != nil && s.kind.Ours(job) {
			errs = append(errs, s.kind.Admission.Validate(job)...)
		}
	}
	limits := jobs.Limits{Termination: v1beta2.DefaultMaxTerminationTime}
	for i := range s.pods {
		p := &s.pods[i]
		found := limits.ValidateTemplate(jobs.PodTemplate{Path: p.path, Template: p.template}, s.namespace())
		for _, e := range podmeta.ValidateInjected(&corev1.PodTemplateSpec{}, p.template) {
			e.Field = p.at(e.Field)
			found = append(found, e)
		}
		if !s.inside ||
			len(found) > 0 &&
				found[0].Type != field.ErrorTypeForbidden { // AppWrappers forbid the same of what is in them
			errs = append(errs, found...)
		}
	}
	return hits(errs)
}

func noEffect(s *subject) []hit {
	if s.kind == nil || s.inside {
		return nil
	}
	var out []hit
	if s.kind.Admission.Warnings != nil {
		for _, text := range s.kind.Admission.Warnings(s.job, lifecycle.Defaults()) {
			path := "metadata"
			if m := regexp.MustCompile(`^annotation (\S+): `).FindStringSubmatch(text); m != nil {
				path = "metadata.annotations[" + m[1] + "]"
			} else if m := regexp.MustCompile(`^(spec\.\S+): `).FindStringSubmatch(text); m != nil {
				path, text = m[1], strings.TrimPrefix(text, m[0])
			}
			out = append(out, hit{path: path, message: text})
		}
	}
	return out
}

// newerVersion returns the version of an API to use in place of one that was given up, among them those
// that the API server of this version of Kubernetes no longer has; "" if the version is current.
func newerVersion(group, version, kind string) string {
	switch group + "/" + version {
	case "ray.io/v1alpha1":
		return "ray.io/v1"
	case "kueue.x-k8s.io/v1beta1", "kueue.x-k8s.io/v1alpha1":
		return "kueue.x-k8s.io/v1beta2"
	case "jobset.x-k8s.io/v1alpha1":
		return "jobset.x-k8s.io/v1alpha2"
	case "workload.codeflare.dev/v1beta1":
		return "workload.codeflare.dev/v1beta2"
	case "batch/v1beta1":
		return "batch/v1"
	case "apps/v1beta1", "apps/v1beta2", "extensions/v1beta1":
		return "apps/v1"
	case "kubeflow.org/v1beta1", "kubeflow.org/v1alpha2", "kubeflow.org/v1beta2":
		return "kubeflow.org/v1"
	case "kubeflow.org/v1":
		if kind == "MPIJob" {
			return "kubeflow.org/v2beta1"
		}
	}
	return ""
}

// oldLabels are labels of nodes that were given up.
var oldLabels = map[string]string{ //nolint:gochecknoglobals // a table
	"beta.kubernetes.io/os":                    "kubernetes.io/os",
	"beta.kubernetes.io/arch":                  "kubernetes.io/arch",
	"beta.kubernetes.io/instance-type":         "node.kubernetes.io/instance-type",
	"failure-domain.beta.kubernetes.io/zone":   "topology.kubernetes.io/zone",
	"failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
}

func deprecated(s *subject) []hit {
	var out []hit
	gvk := s.doc.GVK()
	if newer := newerVersion(gvk.Group, gvk.Version, gvk.Kind); newer != "" {
		out = append(
			out,
			hit{
				path:    "apiVersion",
				message: fmt.Sprintf("%s is given up for %s: use %s", gvk.GroupVersion(), gvk.Kind, newer),
			},
		)
	}
	for i := range s.pods {
		p := &s.pods[i]
		spec := &p.template.Spec
		if spec.DeprecatedServiceAccount != "" && spec.ServiceAccountName == "" {
			out = append(out, hit{path: p.at("spec.serviceAccount"), message: "use serviceAccountName"})
		}
		for key := range spec.NodeSelector {
			if newer := oldLabels[key]; newer != "" {
				out = append(
					out,
					hit{
						path:    p.at("spec.nodeSelector[" + key + "]"),
						message: "nodes no longer have this label: use " + newer,
					},
				)
			}
		}
	}
	if j, is := s.job.(*kubeflow.PyTorchJob); is && j.Spec.ElasticPolicy != nil &&
		j.Spec.ElasticPolicy.NProcPerNode != nil {
		out = append(out, hit{path: "spec.elasticPolicy.nProcPerNode", message: "use spec.nprocPerNode"})
	}
	slices.SortFunc(out, func(a, b hit) int { return strings.Compare(a.path, b.path) })
	return out
}

func noQueue(s *subject) []hit {
	if s.kind == nil || s.inside || s.kind.Queueing.OnlyQueued ||
		s.doc.Object.GetLabels()[kueue.QueueNameLabel] != "" ||
		len(s.doc.Object.GetOwnerReferences()) > 0 {
		return nil
	}
	return []hit{
		{
			path: "metadata",
			message: fmt.Sprintf(
				"names no queue: without the label %s it is held, unless its namespace has a default queue",
				kueue.QueueNameLabel,
			),
		},
	}
}

func noMaster(s *subject) []hit {
	j, is := s.job.(*kubeflow.PyTorchJob)
	if !is || j.Spec.ElasticPolicy != nil || len(j.Spec.PyTorchReplicaSpecs) == 0 ||
		j.Spec.PyTorchReplicaSpecs[kubeflow.RoleMaster] != nil {
		return nil
	}
	return []hit{
		{
			path:    "spec.pytorchReplicaSpecs",
			message: "there are workers and no Master: their scripts get no MASTER_ADDR, RANK and WORLD_SIZE",
		},
	}
}

// containers visits the containers that run at the same time.
func (s *subject) containers(visit func(p *pods, at string, c *corev1.Container)) {
	for i := range s.pods {
		p := &s.pods[i]
		for n := range p.template.Spec.Containers {
			visit(p, p.at(fmt.Sprintf("spec.containers[%d]", n)), &p.template.Spec.Containers[n])
		}
	}
}

// missing are those of CPU and memory that lists do not have.
func missing(lists ...corev1.ResourceList) []string {
	var out []string
	for _, r := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if !slices.ContainsFunc(lists, func(l corev1.ResourceList) bool { _, has := l[r]; return has }) {
			out = append(out, string(r))
		}
	}
	return out
}

func noRequests(s *subject) []hit {
	var out []hit
	s.containers(func(p *pods, at string, c *corev1.Container) {
		var whole []corev1.ResourceList
		if r := p.template.Spec.Resources; r != nil { // of the pod as a whole
			whole = []corev1.ResourceList{r.Requests, r.Limits}
		}
		if less := missing(append(whole, c.Resources.Requests, c.Resources.Limits)...); len(less) > 0 {
			out = append(
				out,
				hit{
					path: at + ".resources",
					message: fmt.Sprintf(
						"container %s requests no %s: quota counts nothing for it",
						c.Name,
						strings.Join(less, " and no "),
					),
				},
			)
		}
	})
	return out
}

func gpuLimits(s *subject) []hit {
	var out []hit
	s.containers(func(_ *pods, at string, c *corev1.Container) {
		for _, name := range names(c.Resources) {
			if !strings.Contains(name, "/") || strings.HasPrefix(name, "kubernetes.io/") {
				continue // not an extended resource
			}
			asked, has := c.Resources.Requests[corev1.ResourceName(name)]
			limit, limited := c.Resources.Limits[corev1.ResourceName(name)]
			if has && (!limited || asked.Cmp(limit) != 0) {
				out = append(
					out,
					hit{
						path: at + ".resources",
						message: fmt.Sprintf(
							"container %s requests %s of %s, and its limit is %s: set both to the same",
							c.Name,
							asked.String(),
							name,
							orNone(limit.String(), limited),
						),
					},
				)
			}
		}
	})
	return out
}

func orNone(text string, given bool) string { //nolint:revive // as it is
	if !given {
		return "not set"
	}
	return text
}

// names are the resources of requests and limits, sorted.
func names(r corev1.ResourceRequirements) []string {
	var out []string
	for _, list := range []corev1.ResourceList{r.Requests, r.Limits} {
		for name := range list {
			out = append(out, string(name))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func noLimits(s *subject) []hit {
	var out []hit
	s.containers(func(_ *pods, at string, c *corev1.Container) {
		if !slices.ContainsFunc(names(c.Resources), view.IsGPU) {
			return
		}
		less := slices.DeleteFunc(
			missing(c.Resources.Limits),
			func(r string) bool { // without either, no-requests says it
				_, requested := c.Resources.Requests[corev1.ResourceName(r)]
				return !requested
			},
		)
		if len(less) > 0 {
			out = append(
				out,
				hit{
					path:    at + ".resources",
					message: fmt.Sprintf("container %s has GPUs and no limit of %s", c.Name, strings.Join(less, " and ")),
				},
			)
		}
	})
	return out
}

func hiddenFailure(s *subject) []hit {
	if j, is := s.job.(kubeflow.Job); is {
		return hiddenInRoles(s, j)
	}
	if _, is := s.job.(*aw.AppWrapper); is || s.kind == nil {
		return nil // its components say it; what serves is restarted on purpose
	}
	switch s.doc.Object.GetKind() {
	case "Job", "JobSet", "TrainJob":
	default:
		return nil
	}
	var out []hit
	for i := range s.pods {
		if p := &s.pods[i]; p.template.Spec.RestartPolicy == corev1.RestartPolicyOnFailure {
			out = append(
				out,
				hit{
					path:    p.at("spec.restartPolicy"),
					message: "OnFailure starts containers again in place: exit codes are lost, and pods never count as failed",
				},
			)
		}
	}
	return out
}

// hiddenInRoles judges what roles say, which is what their pods get.
func hiddenInRoles(s *subject, j kubeflow.Job) []hit {
	var out []hit
	for name, role := range *j.Roles() {
		if role == nil {
			continue
		}
		path := rolePath(s, string(name))
		switch {
		case role.RestartPolicy == kubeflow.RestartPolicyAlways:
			out = append(
				out,
				hit{path: path + ".restartPolicy", message: "Always starts containers again however they ended"},
			)
		case role.RestartPolicy == kubeflow.RestartPolicyOnFailure && j.Policy().BackoffLimit == nil:
			out = append(
				out,
				hit{
					path:    path + ".restartPolicy",
					message: "OnFailure without runPolicy.backoffLimit starts containers again for ever",
				},
			)
		}
	}
	slices.SortFunc(out, func(a, b hit) int { return strings.Compare(a.path, b.path) })
	return out
}

// rolePath is where a role is.
func rolePath(s *subject, role string) string {
	for i := range s.pods {
		if at, is := strings.CutSuffix(s.pods[i].path, "."+role+".template"); is {
			return at + "." + role
		}
	}
	return "spec"
}

func latestImage(s *subject) []hit {
	var out []hit
	for i := range s.pods {
		p := &s.pods[i]
		for where, list := range map[string][]corev1.Container{"containers": p.template.Spec.Containers, "initContainers": p.template.Spec.InitContainers} {
			for n := range list {
				image := list[n].Image
				if image == "" || strings.Contains(image, "@") {
					continue
				}
				last := image[strings.LastIndex(image, "/")+1:]
				if _, tag, tagged := strings.Cut(last, ":"); !tagged || tag == "latest" {
					out = append(
						out,
						hit{
							path:    p.at(fmt.Sprintf("spec.%s[%d].image", where, n)),
							message: fmt.Sprintf("%s is whatever was pushed last: name a version", image),
						},
					)
				}
			}
		}
	}
	slices.SortFunc(out, func(a, b hit) int { return strings.Compare(a.path, b.path) })
	return out
}

func noGrace(s *subject) []hit {
	var out []hit
	for i := range s.pods {
		if p := &s.pods[i]; ptr.Deref(p.template.Spec.TerminationGracePeriodSeconds, 1) == 0 {
			out = append(
				out,
				hit{
					path:    p.at("spec.terminationGracePeriodSeconds"),
					message: "an evicted job is killed at once, without a moment to write a checkpoint",
				},
			)
		}
	}
	return out
}

// priorityClass is asked only where no cluster is.
func priorityClass(s *subject) []hit {
	if s.options.Cluster != nil {
		return nil
	}
	var out []hit
	for i := range s.pods {
		p := &s.pods[i]
		switch name := p.template.Spec.PriorityClassName; name {
		case "", "low-priority", "default-priority", "high-priority":
		default:
			out = append(
				out,
				hit{
					path:    p.at("spec.priorityClassName"),
					message: fmt.Sprintf("%s is not one of low-priority, default-priority and high-priority", name),
				},
			)
		}
	}
	return out
}
