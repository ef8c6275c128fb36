package install

import (
	"fmt"
	"path"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	health "github.com/mlbatch/mlbatch/api/health/v1alpha1"
)

// AgentComponent is what runs on each node.
const AgentComponent = "agent"

// Names of what the agent has.
const (
	// Agent names the roles and the service account of the agent.
	Agent = "mlbatch-agent"
	// AgentViewerRole lets ask agents for light checks and metrics, AgentOperatorRole for heavy ones as well.
	AgentViewerRole   = "mlbatch-agent-viewer"
	AgentOperatorRole = "mlbatch-agent-operator"
	// agentGuard names the policy that leaves each agent its own Node, and of that little.
	agentGuard = "mlbatch-agent-node"
	// agentLease is what agents that test deeply take turns by.
	agentLease = "mlbatch-agent-deep"
)

const (
	agentPort       = 3333
	agentHealthPort = 8080
	// agentAudience is that of the tokens by which agents ask each other.
	agentAudience = "mlbatch-agent"
	agentTokenDir = "/var/run/secrets/mlbatch" //nolint:gosec // a directory
	programDir    = "/program"
	kernelLogDir  = "/kernel-log"
	// logReaders is the group adm, which system loggers let read their files.
	logReaders = 4
)

// Agents are on the nodes.
type Agents struct {
	Enabled bool `json:"enabled"`
	// Config is their configuration file.
	Config string `json:"config"`
	// WriteLabel has them write Autopilot's label.
	WriteLabel bool `json:"writeLabel"`
	// ToolsImage is an image with the tools that they run, to which the program is copied.
	ToolsImage string `json:"toolsImage"`
	// RuntimeClassName is the runtime that shows containers the GPUs.
	RuntimeClassName string `json:"runtimeClassName"`
	// KernelLog is a file of nodes.
	KernelLog    string                      `json:"kernelLog"`
	NodeSelector map[string]string           `json:"nodeSelector"`
	Tolerations  []corev1.Toleration         `json:"tolerations"`
	Resources    corev1.ResourceRequirements `json:"resources"`
	ExtraArgs    []string                    `json:"extraArgs"`
}

func defaultAgents() Agents {
	return Agents{
		Config:       "{}\n",
		NodeSelector: map[string]string{},
		// Bad nodes and pools of GPUs have taints, and are what it is for.
		Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		// The limit is for the tools that it runs.
		Resources: resources("10m", "32Mi", "1Gi"),
		ExtraArgs: []string{},
	}
}

// agents are the DaemonSet, if it is wanted.
func (x *rendering) agents() []client.Object {
	if !x.Agent.Enabled {
		return nil
	}
	field := func(of string) *corev1.EnvVarSource {
		return &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: of}}
	}
	args := []string{
		"agent",
		"--config=" + configDir + "/agent.yaml",
		"--namespace=" + x.Namespace,
		fmt.Sprintf("--port=%d", agentPort),
		fmt.Sprintf("--health-port=%d", agentHealthPort),
		"--peer-token-file=" + agentTokenDir + "/token",
		fmt.Sprintf("--write-label=%t", x.Agent.WriteLabel),
	}
	if x.Agent.KernelLog != "" {
		args = append(args, "--kernel-log="+kernelLogDir+"/"+path.Base(x.Agent.KernelLog))
	}
	pod := x.pod(
		AgentComponent,
		Agent,
		Program{Resources: x.Agent.Resources, ExtraArgs: x.Agent.ExtraArgs},
		args,
		[]corev1.ContainerPort{
			{Name: "https", ContainerPort: agentPort}, {Name: "health", ContainerPort: agentHealthPort},
		},
	)
	pod.Annotations = map[string]string{ConfigHash: hash(x.Agent.Config)}
	s := &pod.Spec
	s.Affinity, s.PriorityClassName = nil, "system-node-critical"
	s.NodeSelector, s.Tolerations = x.Agent.NodeSelector, x.Agent.Tolerations
	if x.Agent.RuntimeClassName != "" {
		s.RuntimeClassName = new(x.Agent.RuntimeClassName)
	}
	c := &s.Containers[0]
	c.Env = []corev1.EnvVar{
		{Name: "NODE_NAME", ValueFrom: field("spec.nodeName")},
		{Name: "POD_NAME", ValueFrom: field("metadata.name")},
		// NVIDIA's runtime shows GPUs to containers that say so, without giving them any.
		{Name: "NVIDIA_VISIBLE_DEVICES", Value: "all"},
		{Name: "NVIDIA_DRIVER_CAPABILITIES", Value: "utility"},
	}
	s.Volumes = []corev1.Volume{
		{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: x.fullname(AgentComponent)},
		}}},
		{Name: "token", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
			Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{
				Audience: agentAudience, ExpirationSeconds: ptr.To[int64](3600), Path: "token",
			}}},
		}}},
	}
	c.VolumeMounts = []corev1.VolumeMount{
		{Name: "config", MountPath: configDir, ReadOnly: true},
		{Name: "token", MountPath: agentTokenDir, ReadOnly: true},
	}
	if x.Agent.ToolsImage != "" {
		copying := *c.DeepCopy()
		copying.Name, copying.Args = "program", []string{"agent", "copy", programDir + "/mlbatch"}
		copying.Env, copying.Ports = nil, nil
		copying.Resources = resources("10m", "32Mi", "1Gi") // what is copied counts as well
		copying.StartupProbe, copying.LivenessProbe, copying.ReadinessProbe = nil, nil, nil
		copying.VolumeMounts = []corev1.VolumeMount{{Name: "program", MountPath: programDir}}
		s.InitContainers = []corev1.Container{copying}
		s.Volumes = append(s.Volumes, corev1.Volume{
			Name: "program", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}},
		})
		c.Command, c.Image = []string{programDir + "/mlbatch"}, x.Agent.ToolsImage
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{
			Name: "program", MountPath: programDir, ReadOnly: true,
		})
	}
	if x.Agent.KernelLog != "" {
		// The directory and not the file: a file that is mounted stays the one that loggers renamed long ago.
		s.Volumes = append(s.Volumes, corev1.Volume{Name: "kernel-log", VolumeSource: corev1.VolumeSource{
			HostPath: &corev1.HostPathVolumeSource{
				Path: path.Dir(x.Agent.KernelLog), Type: ptr.To(corev1.HostPathDirectory),
			},
		}})
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{
			Name: "kernel-log", MountPath: kernelLogDir, ReadOnly: true,
		})
		s.SecurityContext.SupplementalGroups = []int64{logReaders}
	}
	meta := x.meta(x.fullname(AgentComponent))
	meta.Labels = map[string]string{ComponentLabel: AgentComponent}
	return []client.Object{&appsv1.DaemonSet{
		ObjectMeta: meta,
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: selector(AgentComponent)},
			Template: pod,
			UpdateStrategy: appsv1.DaemonSetUpdateStrategy{
				Type: appsv1.RollingUpdateDaemonSetStrategyType,
				RollingUpdate: &appsv1.RollingUpdateDaemonSet{
					MaxUnavailable: new(intstr.FromString("10%")), MaxSurge: new(intstr.FromInt32(0)),
				},
			},
			RevisionHistoryLimit: ptr.To[int32](3),
		},
	}}
}

// agentConfiguration is the agents' file.
func (x *rendering) agentConfiguration() []client.Object {
	if !x.Agent.Enabled {
		return nil
	}
	return []client.Object{&corev1.ConfigMap{
		ObjectMeta: x.meta(x.fullname(AgentComponent)),
		Data:       map[string]string{"agent.yaml": x.Agent.Config},
	}}
}

// agentPaths are what agents answer.
func agentPaths() []string {
	return []string{
		"/dcgm",
		"/gpumem",
		"/gpupower",
		"/invasive",
		"/iperf",
		"/iperfsink",
		"/metrics",
		"/pciebw",
		"/ping",
		"/pvc",
		"/remapped",
		"/status",
		"/xid",
	}
}

// agentRoles are what agents may do, and what others may ask of them. Of Nodes and pods RBAC cannot say which:
// agentGuards do for what is written. In mlbatch's namespace they take turns by a Lease and, if they check volumes, make
// claims for them.
func (x *rendering) agentRoles() []client.Object {
	if !x.Agent.Enabled {
		return nil
	}
	home := metav1.ObjectMeta{Namespace: x.Namespace, Name: Agent}
	subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: x.Namespace, Name: Agent}}
	bind := func(name, role string) client.Object {
		return &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Subjects: subjects,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		}
	}
	rules := []rbacv1.PolicyRule{
		named(allow("coordination.k8s.io", []string{"get", "update"}, "leases"), agentLease),
	}
	if x.Agent.claims() {
		rules = append(rules, allow("", []string{"create", "delete", "get"}, "persistentvolumeclaims"))
	}
	return []client.Object{
		&corev1.ServiceAccount{ObjectMeta: home},
		// It is made here, so that no agent needs the right to make any, which cannot be for one name.
		&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: x.Namespace, Name: agentLease}},
		&rbacv1.Role{ObjectMeta: home, Rules: rules},
		&rbacv1.RoleBinding{
			ObjectMeta: home, Subjects: subjects,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: Agent},
		},
		clusterRole(Agent, []rbacv1.PolicyRule{
			allow("", []string{"get", "list", "patch"}, "nodes"),
			allow("", []string{"list"}, "pods"),
			allow("authentication.k8s.io", []string{"create"}, "tokenreviews"),
			allow("authorization.k8s.io", []string{"create"}, "subjectaccessreviews"),
		}),
		bind(Agent, Agent),
		clusterRole(AgentViewerRole, []rbacv1.PolicyRule{{NonResourceURLs: agentPaths(), Verbs: []string{"get"}}}),
		clusterRole(AgentOperatorRole, []rbacv1.PolicyRule{
			{NonResourceURLs: agentPaths(), Verbs: []string{"get", "post"}},
		}),
		bind(Agent+":operator", AgentOperatorRole), // they ask each other
	}
}

// claims reports whether their file has them check volumes. One that cannot be read does not: agents say what is wrong
// with it.
func (a *Agents) claims() bool {
	var c struct {
		Checks []string `json:"checks"`
	}
	return yaml.Unmarshal([]byte(a.Config), &c) == nil && slices.Contains(c.Checks, "pvc")
}

// agentGuards are a policy that leaves agents the Node that their pod is on, and of that the annotations in which
// they tell what they found and Autopilot's label. An attacker who took one node over could otherwise take all nodes
// from users, or draw pods to that node.
func (x *rendering) agentGuards() []client.Object {
	if !x.Agent.Enabled {
		return nil
	}
	about := written("", "nodes")
	about.Operations = []admissionregistrationv1.OperationType{admissionregistrationv1.Update}
	// Both ways round: what is new or other must be ours, and so must what is gone.
	kept := func(field, ours string) string {
		const now, was = "object.metadata.?%[1]s.orValue({})", "oldObject.metadata.?%[1]s.orValue({})"
		return fmt.Sprintf(
			now+".all(k, k in ["+ours+"] || (k in "+was+" && "+was+"[k] == "+now+"[k])) && "+
				was+".all(k, k in ["+ours+"] || k in "+now+")",
			field,
		)
	}
	const node = "'authentication.kubernetes.io/node-name'"
	notes := "'" + health.ChecksAnnotation + "', 'mlbatch.dev/agent-label', 'mlbatch.dev/agent-certificate'"
	return guard(agentGuard, about,
		[]admissionregistrationv1.MatchCondition{{
			Name:       "by-an-agent",
			Expression: "request.userInfo.username == 'system:serviceaccount:" + x.Namespace + ":" + Agent + "'",
		}},
		[]admissionregistrationv1.Validation{
			{
				Expression: "request.userInfo.?extra[?" + node + "].orValue([]) == [object.metadata.name]",
				Message:    "an agent may change the Node that its pod is on only",
			},
			{
				Expression: "object.spec == oldObject.spec && object.metadata.?finalizers == oldObject.metadata.?finalizers && " +
					"object.metadata.?ownerReferences == oldObject.metadata.?ownerReferences && " +
					kept(
						"labels",
						"'autopilot.ibm.com/gpuhealth'",
					) + " && " + kept(
					"annotations",
					notes,
				),
				Message: "an agent may change its own annotations and the label autopilot.ibm.com/gpuhealth only",
			},
		},
	)
}
