package deeptest

import (
	"encoding/json"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/engine/nodehealth"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
)

// Template is what tests run.
type Template struct {
	// Image runs Command. Where ToolsImage is set, that does, and mlbatch is copied into it from Image.
	Image, ToolsImage string
	// Command that tests; none is mlbatch's own.
	Command          []string
	RuntimeClassName string
	// AnyUser leaves to the cluster as which user tests run, as OpenShift gives each namespace some of its own.
	AnyUser  bool
	Deadline time.Duration
	// Queue and PriorityClass are those of tests of nodes in service.
	Queue, PriorityClass string
}

const (
	container  = "test"
	programDir = "/program"
	nobody     = 65534
)

// unclear are exit codes that say nothing of the GPUs: of mlbatch agent check (2, 3), of containers that cannot start
// (125 to 128), and of those that are killed (137, 143).
func unclear() []int32 { return []int32{2, 3, 125, 126, 127, 128, 137, 143} }

// job is the Job of a test of a node.
func (t Template) job(test *nodehealth.Test, n *corev1.Node, namespace string) (*batchv1.Job, error) {
	said, err := json.Marshal(convert.DeepTest{
		Node: test.Node, UID: test.UID, Number: test.Number, Cause: test.Cause, Tries: test.Tries,
	})
	if err != nil {
		return nil, fmt.Errorf("describe the deep test of node %s: %w", test.Node, err)
	}
	j := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: convert.TestJobName(test),
			Labels:      map[string]string{convert.DeepTestLabel: "true"},
			Annotations: map[string]string{convert.DeepTestLabel: string(said)},
		},
		Spec: batchv1.JobSpec{
			BackoffLimit:          new(int32),
			ActiveDeadlineSeconds: new(int64(t.Deadline / time.Second)),
			PodFailurePolicy: &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{
				{
					Action: batchv1.PodFailurePolicyActionIgnore,
					OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{
						{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue},
					},
				},
				{
					Action: batchv1.PodFailurePolicyActionFailJob,
					OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{
						ContainerName: new(container), Operator: batchv1.PodFailurePolicyOnExitCodesOpNotIn, Values: unclear(),
					},
				},
			}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{convert.DeepTestLabel: "true"}},
				Spec:       t.pod(n),
			},
		},
	}
	spec := &j.Spec.Template.Spec
	if !test.Queued {
		spec.NodeName = n.Name
		return j, nil
	}
	j.Labels[kueue.QueueNameLabel] = t.Queue
	if t.PriorityClass != "" {
		j.Labels[kueue.PriorityClassLabel] = t.PriorityClass
	}
	j.Spec.Suspend = new(true)
	spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{
				{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{n.Name}},
			}}},
		},
	}}
	return j, nil
}

// pod asks for all GPUs that a node has, also for those that cannot be allocated: then it does not run, rather than to
// pass without a look at them. It has no rights in the cluster.
func (t Template) pod(n *corev1.Node) corev1.PodSpec {
	asks := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("2Gi"),
	}
	limits := corev1.ResourceList{}
	for _, gpu := range convert.GPUsOf(n) {
		if all := n.Status.Capacity[gpu]; !all.IsZero() {
			asks[gpu], limits[gpu] = all, all
		}
	}
	c := corev1.Container{
		Name: container, Image: t.Image, Command: t.Command,
		Resources: corev1.ResourceRequirements{Requests: asks, Limits: limits},
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: new(false),
			Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
	}
	if len(c.Command) == 0 {
		c.Args = []string{"agent", "check", "--deep"}
	}
	s := corev1.PodSpec{
		RestartPolicy:                corev1.RestartPolicyNever,
		AutomountServiceAccountToken: new(false),
		EnableServiceLinks:           new(false),
		Tolerations:                  []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot:   new(true),
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
	}
	if !t.AnyUser {
		s.SecurityContext.RunAsUser, s.SecurityContext.RunAsGroup = new(int64(nobody)), new(int64(nobody))
	}
	if t.RuntimeClassName != "" {
		s.RuntimeClassName = new(t.RuntimeClassName)
	}
	if t.ToolsImage != "" {
		mount := corev1.VolumeMount{Name: "program", MountPath: programDir}
		s.InitContainers = []corev1.Container{{
			Name: "program", Image: t.Image, Args: []string{"agent", "copy", programDir + "/mlbatch"},
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("64Mi"),
			}},
			SecurityContext: c.SecurityContext.DeepCopy(), VolumeMounts: []corev1.VolumeMount{mount},
		}}
		s.Volumes = []corev1.Volume{{
			Name: "program", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}},
		}}
		mount.ReadOnly = true
		c.Image, c.VolumeMounts = t.ToolsImage, []corev1.VolumeMount{mount}
		if len(c.Command) == 0 {
			c.Command = []string{programDir + "/mlbatch"}
		}
	}
	s.Containers = []corev1.Container{c}
	return s
}
