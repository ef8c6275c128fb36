package jobs

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	recovery "github.com/mlbatch/mlbatch/api/recovery/v1alpha1"
	"github.com/mlbatch/mlbatch/internal/engine/podplan"
)

// PodSetName is what the Workload of a job calls the pods of a role.
func PodSetName(role string) string { return strings.ToLower(role) }

// Pod makes a member of the job; m is what is kept of the job. info is what the admission gives it; nil for a
// job that needs none. What the author wrote stays.
func (p *Plan) Pod(
	job metav1.Object,
	gvk schema.GroupVersionKind,
	x podplan.Member,
	m *podplan.RetryState,
	info *PodSetInfo,
) (*corev1.Pod, error) {
	r := p.Role(x.Role)
	t := p.TemplateOf(x).DeepCopy()
	if t == nil {
		return nil, fmt.Errorf("role %s has no template of pods", x.Role)
	}
	own := memberLabels(job, r, x)
	own[recovery.AttemptLabel] = strconv.Itoa(int(m.Attempt))
	if t.Labels == nil {
		t.Labels = map[string]string{}
	}
	maps.Copy(t.Labels, own)
	if m.Failures > 0 {
		metav1.SetMetaDataAnnotation(&t.ObjectMeta, recovery.FailuresAnnotation, strconv.Itoa(int(m.Failures)))
	}
	if p.Version != "" {
		metav1.SetMetaDataAnnotation(&t.ObjectMeta, recovery.VersionAnnotation, p.Version)
	}
	if info != nil {
		if err := info.Inject(t); err != nil {
			return nil, fmt.Errorf("pods of role %s: %w", x.Role, err)
		}
	}
	for i := range t.Spec.Containers {
		if c := &t.Spec.Containers[i]; r.Container == "" || c.Name == r.Container {
			setEnv(c, r, x.Index)
		}
	}
	name := r.Expand(r.Member, x.Index)
	if t.Spec.Subdomain != "" && t.Spec.Hostname == "" {
		t.Spec.Hostname = name // a pod without one is not found below its subdomain
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: job.GetNamespace(), Name: name,
			Labels: t.Labels, Annotations: t.Annotations, Finalizers: t.Finalizers,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(job, gvk)},
		},
		Spec: t.Spec,
	}, nil
}

// Child makes a member of the job that is no pod; admitted is what the admission gives its
// pods.
func (p *Plan) Child(
	job metav1.Object,
	gvk schema.GroupVersionKind,
	x podplan.Member,
	m *podplan.RetryState,
	admitted Admitted,
) (Object, error) {
	r := p.Role(x.Role)
	o, err := p.MakeOf(x.Role)(x, m, admitted)
	if err != nil {
		return nil, fmt.Errorf("role %s: %w", x.Role, err)
	}
	labels := maps.Clone(o.GetLabels())
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, memberLabels(job, r, x))
	labels[recovery.AttemptLabel] = strconv.Itoa(int(m.Attempt))
	if r.Version != "" {
		all := maps.Clone(o.GetAnnotations())
		if all == nil {
			all = map[string]string{}
		}
		all[recovery.VersionAnnotation] = r.Version
		o.SetAnnotations(all)
	}
	o.SetLabels(labels)
	o.SetNamespace(job.GetNamespace())
	o.SetName(r.Expand(r.Member, x.Index))
	o.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(job, gvk)})
	return o, nil
}

// setEnv adds the variables of a member to a container that does not have them.
func setEnv(c *corev1.Container, r *podplan.Role, index int32) {
	for _, e := range r.Env {
		if slices.ContainsFunc(c.Env, func(has corev1.EnvVar) bool { return has.Name == e.Name }) {
			continue
		}
		v := corev1.EnvVar{Name: e.Name}
		if e.Field != "" {
			v.ValueFrom = &corev1.EnvVarSource{
				FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: e.Field},
			}
		} else {
			v.Value = r.Expand(e.Value, index)
		}
		c.Env = append(c.Env, v)
	}
}

// Service makes the service of a member, by whose name others reach it; nil if it has
// none. It answers before the pod is ready: members wait for each other.
func (p *Plan) Service(job metav1.Object, gvk schema.GroupVersionKind, m podplan.Member) *corev1.Service {
	r := p.Role(m.Role)
	if r == nil || len(r.Ports) == 0 {
		return nil
	}
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: job.GetNamespace(), Name: r.Expand(r.Member, m.Index), Labels: memberLabels(job, r, m),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(job, gvk)},
		},
		Spec: corev1.ServiceSpec{
			ClusterIP: corev1.ClusterIPNone, PublishNotReadyAddresses: true,
			Selector: identity(job, m),
		},
	}
	for _, port := range r.Ports {
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: port.Name, Port: port.Port})
	}
	return s
}

// memberLabels are those of a member's pod and service.
func memberLabels(job metav1.Object, r *podplan.Role, m podplan.Member) map[string]string {
	out := identity(job, m)
	for k, v := range r.Labels {
		out[k] = r.Expand(v, m.Index)
	}
	return out
}

// identity are the labels that say which pod of which job it is.
func identity(job metav1.Object, m podplan.Member) map[string]string {
	return map[string]string{
		recovery.JobLabel: string(
			job.GetUID(),
		),
		recovery.RoleLabel:  PodSetName(m.Role),
		recovery.IndexLabel: strconv.Itoa(int(m.Index)),
	}
}

// See reads pods as members of the plan, by their names, which nobody can change and
// no two have at the same time. Those that no member is called are members of no role.
func (p *Plan) See(pods []*corev1.Pod) []podplan.Seen {
	out := make([]podplan.Seen, len(pods))
	for i, pod := range pods {
		out[i] = seen(pod)
		if r, index := p.named(pod.Name, false); r != nil {
			out[i].Member = podplan.Member{Role: r.Name, Index: index}
			out[i].Final = final(pod, r.Container)
		}
	}
	return out
}

// SeeChild reads an object of a kind as a member of the plan, by its name, as See does pods.
func (p *Plan) SeeChild(kind *ChildKind, o Object) podplan.Seen {
	s := kind.See(o)
	s.ID, s.Attempt, s.Leaving = string(o.GetUID()), attempt(o), o.GetDeletionTimestamp() != nil
	s.Version = o.GetAnnotations()[recovery.VersionAnnotation]
	if r, index := p.named(o.GetName(), true); r != nil {
		s.Member = podplan.Member{Role: r.Name, Index: index}
	}
	return s
}

// named finds the role that has a member of a name, among those of pods or among the
// others.
func (p *Plan) named( //nolint:revive // which roles are looked at
	name string,
	child bool,
) (*podplan.Role, int32) {
	for i := range p.Roles {
		if (i < len(p.Make) && p.Make[i] != nil) != child {
			continue
		}
		if index, is := p.Roles[i].Named(name); is {
			return &p.Roles[i], index
		}
	}
	return nil, 0
}

func attempt(o metav1.Object) int32 {
	n, _ := strconv.ParseInt(o.GetLabels()[recovery.AttemptLabel], 10, 32)
	return int32(n)
}

func seen(pod *corev1.Pod) podplan.Seen {
	s := podplan.Seen{
		ID: string(
			pod.UID,
		),
		Attempt: attempt(pod),
		Version: pod.Annotations[recovery.VersionAnnotation],
		Leaving: pod.DeletionTimestamp != nil,
	}
	for _, c := range pod.Status.ContainerStatuses {
		s.Failures += c.RestartCount
	}
	switch pod.Status.Phase {
	case corev1.PodSucceeded:
		s.Life = podplan.Succeeded
	case corev1.PodFailed:
		s.Life, s.Failures, s.Why = podplan.Failed, s.Failures+1, whyFailed(pod)
		s.Disrupted = holds(pod, corev1.DisruptionTarget)
	case corev1.PodRunning:
		s.Life = podplan.Running
		if holds(pod, corev1.PodReady) {
			s.Life = podplan.Ready
		}
	case corev1.PodPending, corev1.PodUnknown:
		s.Life = podplan.Pending
	}
	return s
}

func holds(pod *corev1.Pod, t corev1.PodConditionType) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == t && c.Status == corev1.ConditionTrue
	})
}

// firstSignal is the first of the exit codes by which a process tells that a signal has
// ended it, or that it may be tried again.
const firstSignal = 128

// final reports whether a container, or any if it has no name, ended with a code that
// says that another try would end alike.
func final(pod *corev1.Pod, container string) bool {
	for _, c := range pod.Status.ContainerStatuses {
		if t := c.State.Terminated; t != nil && (container == "" || c.Name == container) && t.ExitCode > 0 &&
			t.ExitCode < firstSignal {
			return true
		}
	}
	return false
}

// whyFailed is what a failed pod says of itself.
func whyFailed(pod *corev1.Pod) string {
	for _, c := range pod.Status.ContainerStatuses {
		if t := c.State.Terminated; t != nil && t.ExitCode != 0 {
			return strings.TrimSuffix(
				fmt.Sprintf("container %s exited with code %d, %s", c.Name, t.ExitCode, t.Reason),
				", ",
			)
		}
	}
	switch s := pod.Status; {
	case s.Reason != "" && s.Message != "":
		return s.Reason + ": " + s.Message
	case s.Reason != "":
		return s.Reason
	default:
		return s.Message
	}
}
