// Package generate makes manifests of a few values: an AppWrapper with a PyTorchJob, as MLBatch's
// chart pytorchjob-generator does. Values are what is asked for, Settings what there is to
// know of each of them, Manifest what becomes of them.
//
// What the chart gets wrong is done right here; docs/generate.md lists where the two differ.
// It reaches no cluster: what is made is created by others.
package generate

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	aw "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	kubeflow "github.com/mlbatch/mlbatch/api/kubeflow/v1"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/nodehealth"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/appwrapper"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/sakkara"
)

const (
	// versionAnnotation says which chart a manifest is like.
	versionAnnotation = "workload.codeflare.dev.mlbatch/pytorchGeneratorVersion"
	chartVersion      = "1.1.12"

	container        = "pytorch"
	gpu              = "nvidia.com/gpu"
	topologyVariable = "NCCL_TOPO_FILE"
	topologyVolume   = "topology-volume"
	topologyPath     = "/var/run/nvidia-topologyd"
	scratchPath      = "/workspace/scratch-nvme"
	scratchClass     = "odf-lvm-vg1"
	scratchVolume    = "ephemeral-odf-lvm-vg1"
	sharedMemory     = "dshm"
	keyVolume        = "private-ssh-git-deploy-key"
	hostsVolume      = "github-known-hosts"
	rankLabel        = sakkara.RankLabel
	networkKey       = "k8s.v1.cni.cncf.io/networks"
)

// Manifest is the AppWrapper, as an object to print. The values must have passed Check.
func (v *Values) Manifest() (map[string]any, error) {
	job := kubeflow.PyTorchJob{
		TypeMeta:   metav1.TypeMeta{APIVersion: kubeflow.GroupVersion.String(), Kind: kubeflow.PyTorchJobKind},
		ObjectMeta: metav1.ObjectMeta{Name: v.JobName, Namespace: v.Namespace, Labels: v.labels()},
		Spec: kubeflow.PyTorchJobSpec{
			PyTorchReplicaSpecs: map[kubeflow.ReplicaType]*kubeflow.ReplicaSpec{kubeflow.RoleMaster: v.role(1)},
		},
	}
	if v.NumPods > 1 {
		job.Spec.PyTorchReplicaSpecs[kubeflow.RoleWorker] = v.role(v.NumPods - 1)
	}
	component, err := object(&job)
	if err != nil {
		return nil, err
	}
	labels := v.labels()
	if v.QueueName != "" {
		labels[kueue.QueueNameLabel] = v.QueueName
	}
	w := aw.AppWrapper{
		TypeMeta: metav1.TypeMeta{APIVersion: aw.GroupVersion.String(), Kind: aw.AppWrapperKind},
		ObjectMeta: metav1.ObjectMeta{
			Name:        v.JobName,
			Namespace:   v.Namespace,
			Labels:      labels,
			Annotations: v.annotations(),
		},
	}
	out, err := object(&w)
	if err != nil {
		return nil, err
	}
	out["spec"] = map[string]any{"components": []any{map[string]any{"template": component}}}
	return out, nil
}

// object is what of a typed object people would have written.
func object(o runtime.Object) (map[string]any, error) {
	data, err := json.Marshal(o)
	if err != nil {
		return nil, fmt.Errorf("write %T: %w", o, err)
	}
	var out map[string]any
	if err := json.Unmarshal(data, &out); err != nil {
		return nil, fmt.Errorf("write %T: %w", o, err)
	}
	delete(out, "status")
	prune(out)
	return out, nil
}

// prune takes out what typed objects write although nobody said it.
func prune(v any) {
	switch v := v.(type) {
	case map[string]any:
		for key, child := range v {
			if m, is := child.(map[string]any); child == nil ||
				is && len(m) == 0 && (key == "resources" || key == "metadata" || key == "runPolicy") {
				delete(v, key)
				continue
			}
			prune(child)
		}
	case []any:
		for _, child := range v {
			prune(child)
		}
	}
}

func (v *Values) labels() map[string]string {
	out := map[string]string{}
	for _, l := range v.CustomLabels {
		out[l.Key] = l.Value
	}
	return out
}

// annotations are what the AppWrapper controller is told.
func (v *Values) annotations() map[string]string {
	out := map[string]string{versionAnnotation: chartVersion}
	for name, text := range v.durations() {
		if text != "" {
			out[appwrapper.AnnotationPrefix+name], _ = duration(text) // it was checked
		}
	}
	if v.RetryLimit != nil {
		out[appwrapper.AnnotationPrefix+"retryLimit"] = strconv.Itoa(int(*v.RetryLimit))
	}
	return out
}

// role is the master or the workers: they differ in their number alone.
func (v *Values) role(n int32) *kubeflow.ReplicaSpec {
	t := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: v.labels()}}
	if len(v.AutopilotHealthChecks) > 0 {
		t.Labels["autopilot"] = ""
	}
	for _, check := range v.AutopilotHealthChecks {
		t.Labels[check] = ""
	}
	if v.MultiNicNetworkName != "" {
		t.Annotations = map[string]string{networkKey: v.MultiNicNetworkName}
	}
	t.Spec = corev1.PodSpec{
		PriorityClassName: v.Priority, SchedulerName: v.SchedulerName, ServiceAccountName: v.ServiceAccountName,
		TerminationGracePeriodSeconds: v.TerminationGracePeriodSeconds,
		Affinity:                      v.affinity(),
		Volumes:                       v.volumes(),
		Containers: []corev1.Container{{
			Name: container, Image: v.ContainerImage, ImagePullPolicy: corev1.PullPolicy(v.ImagePullPolicy),
			Command: []string{"sh", "-c", v.script()},
			Env:     v.variables(), EnvFrom: v.sources(), Resources: v.requirements(), VolumeMounts: v.volumeMounts(),
		}},
	}
	if v.NumRoceGdr > 0 || v.ServiceAccountName == "gdr" {
		t.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{
			Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"IPC_LOCK"}},
		}
	}
	for _, s := range v.ImagePullSecrets {
		t.Spec.ImagePullSecrets = append(t.Spec.ImagePullSecrets, corev1.LocalObjectReference{Name: s.Name})
	}
	for _, c := range v.InitContainers {
		t.Spec.InitContainers = append(
			t.Spec.InitContainers,
			corev1.Container{Name: c.Name, Image: c.Image, Command: c.Command},
		)
	}
	return &kubeflow.ReplicaSpec{
		Replicas:      &n,
		RestartPolicy: kubeflow.RestartPolicy(v.RestartPolicy),
		Template:      t,
	}
}

// badMarks are the values of the health label of nodes whose GPUs take no pods.
func badMarks() []string {
	return nodehealth.Marks(func(s core.NodeState) bool { return !s.TakesWork() })
}

// affinity keeps pods from nodes: nodes that were named and, if the pods have GPUs, nodes whose
// GPUs are bad.
func (v *Values) affinity() *corev1.Affinity {
	var not []corev1.NodeSelectorRequirement
	if v.NumGPUsPerPod > 0 {
		not = append(
			not,
			corev1.NodeSelectorRequirement{
				Key:      nodehealth.HealthLabel,
				Operator: corev1.NodeSelectorOpNotIn,
				Values:   badMarks(),
			},
		)
	}
	if len(v.HostIgnoreList) > 0 {
		not = append(
			not,
			corev1.NodeSelectorRequirement{
				Key:      corev1.LabelHostname,
				Operator: corev1.NodeSelectorOpNotIn,
				Values:   v.HostIgnoreList,
			},
		)
	}
	if len(not) == 0 {
		return nil
	}
	return &corev1.Affinity{
		NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: not}},
		}},
	}
}

func (v *Values) requirements() corev1.ResourceRequirements {
	one := func(cpu, memory Amount) corev1.ResourceList {
		out := corev1.ResourceList{corev1.ResourceCPU: cpu.quantity(), corev1.ResourceMemory: memory.quantity()}
		if v.NumGPUsPerPod > 0 {
			out[gpu] = *resource.NewQuantity(int64(v.NumGPUsPerPod), resource.DecimalSI)
		}
		if v.NumRoceGdr > 0 {
			out[corev1.ResourceName(v.RoceGdrResName)] = *resource.NewQuantity(int64(v.NumRoceGdr), resource.DecimalSI)
		}
		return out
	}
	return corev1.ResourceRequirements{
		Requests: one(v.NumCPUsPerPod, v.TotalMemoryPerPod),
		Limits:   one(cmp.Or(v.LimitCPUsPerPod, v.NumCPUsPerPod), cmp.Or(v.LimitMemoryPerPod, v.TotalMemoryPerPod)),
	}
}

// sakkara reports whether Sakkara gives the ranks.
func (v *Values) sakkara() bool {
	return v.SchedulerName == "sakkara" || v.SchedulerName == "sakkara-scheduler"
}

// variables are what the container is told, the author's last: they win where they may.
func (v *Values) variables() []corev1.EnvVar {
	var out []corev1.EnvVar
	add := func(name, value string) { out = append(out, corev1.EnvVar{Name: name, Value: value}) }
	if v.TopologyFileConfigMap != "" {
		add(topologyVariable, topologyPath+"/virtualTopology.xml")
	}
	if v.MountNVMe != nil {
		add("NVME_MOUNT_PATH", v.scratchPath()) // which the chart sets
		add("MOUNT_PATH_NVME", v.scratchPath()) // which its documentation says
	}
	if g := v.SSHGitCloneConfig; g != nil {
		keys, hosts := g.paths()
		add(
			"GIT_SSH_COMMAND",
			cmp.Or(g.SSHCmd, fmt.Sprintf("ssh -i %s/id_rsa -o UserKnownHostsFile=%s/known_hosts -vv", keys, hosts)),
		)
	}
	if v.sakkara() {
		out = append(
			out,
			corev1.EnvVar{
				Name: "SAKKARA_RANK",
				ValueFrom: &corev1.EnvVarSource{
					FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels['" + rankLabel + "']"},
				},
			},
		)
	}
	for _, e := range v.EnvironmentVariables {
		out = slices.DeleteFunc(out, func(o corev1.EnvVar) bool { return o.Name == e.Name })
		out = append(out, e.variable())
	}
	return out
}

func (e *Variable) variable() corev1.EnvVar {
	out := corev1.EnvVar{Name: e.Name}
	switch {
	case e.Value != nil:
		out.Value = string(*e.Value)
	case e.Secret != nil:
		out.ValueFrom = &corev1.EnvVarSource{
			SecretKeyRef: &corev1.SecretKeySelector{
				LocalObjectReference: corev1.LocalObjectReference{Name: e.Secret.Name},
				Key:                  e.Secret.Key,
			},
		}
	case e.ConfigMap != nil:
		out.ValueFrom = &corev1.EnvVarSource{
			ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
				LocalObjectReference: corev1.LocalObjectReference{Name: e.ConfigMap.Name},
				Key:                  e.ConfigMap.Key,
			},
		}
	}
	return out
}

func (v *Values) sources() []corev1.EnvFromSource {
	var out []corev1.EnvFromSource
	if v.NCCLGdrEnvConfigMap != "" {
		out = append(
			out,
			corev1.EnvFromSource{
				ConfigMapRef: &corev1.ConfigMapEnvSource{
					LocalObjectReference: corev1.LocalObjectReference{Name: v.NCCLGdrEnvConfigMap},
				},
			},
		)
	}
	for _, s := range v.EnvFrom {
		one := corev1.EnvFromSource{Prefix: s.Prefix}
		if r := s.SecretRef; r != nil {
			one.SecretRef = &corev1.SecretEnvSource{
				LocalObjectReference: corev1.LocalObjectReference{Name: r.Name},
				Optional:             r.Optional,
			}
		}
		if r := s.ConfigMapRef; r != nil {
			one.ConfigMapRef = &corev1.ConfigMapEnvSource{
				LocalObjectReference: corev1.LocalObjectReference{Name: r.Name},
				Optional:             r.Optional,
			}
		}
		out = append(out, one)
	}
	return out
}

func (g *GitOverSSH) paths() (keys, hosts string) {
	return cmp.Or(g.SecretMountPath, "/tmp/.ssh/keys"), cmp.Or(g.ConfigMapMountPath, "/tmp/.ssh/hosts")
}

func (v *Values) scratchPath() string { return cmp.Or(v.MountNVMe.MountPath, scratchPath) }

// mount is a volume with where it is mounted, and which value asks for it.
type mount struct {
	of         string
	index      int
	name, path string
	source     corev1.VolumeSource
	readOnly   bool
}

// mounts are all volumes of a pod.
func (v *Values) mounts() []mount {
	var out []mount
	for i, c := range v.Volumes {
		out = append(out, mount{"volumes", i, c.Name, c.MountPath, corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: c.ClaimName},
		}, false})
	}
	if v.TopologyFileConfigMap != "" {
		out = append(
			out,
			mount{
				"topologyFileConfigMap",
				-1,
				topologyVolume,
				topologyPath,
				ofConfigMap(v.TopologyFileConfigMap, nil),
				false,
			},
		)
	}
	if g := v.SSHGitCloneConfig; g != nil {
		keys, hosts := g.paths()
		out = append(
			out,
			mount{
				"sshGitCloneConfig",
				-1,
				keyVolume,
				keys,
				corev1.VolumeSource{
					Secret: &corev1.SecretVolumeSource{
						SecretName:  g.SecretName,
						DefaultMode: new(int32(0o400)),
						Optional:    new(false),
					},
				},
				true,
			},
			mount{"sshGitCloneConfig", -1, hostsVolume, hosts, ofConfigMap(g.ConfigMapName, new(false)), false},
		)
	}
	if v.MountNVMe != nil {
		out = append(out, mount{"mountNVMe", -1, scratchVolume, v.scratchPath(), v.scratch(), false})
	}
	if !v.DisableSharedMemory {
		out = append(
			out,
			mount{
				"disableSharedMemory",
				-1,
				sharedMemory,
				"/dev/shm",
				corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}},
				false,
			},
		)
	}
	return out
}

func ofConfigMap(name string, optional *bool) corev1.VolumeSource {
	return corev1.VolumeSource{
		ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: name},
			Optional:             optional,
		},
	}
}

// scratch is a claim that comes and goes with its pod.
func (v *Values) scratch() corev1.VolumeSource {
	return corev1.VolumeSource{
		Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				StorageClassName: new(cmp.Or(v.MountNVMe.StorageClassName, scratchClass)),
				Resources: corev1.VolumeResourceRequirements{
					Requests: corev1.ResourceList{corev1.ResourceStorage: v.MountNVMe.Storage.quantity()},
				},
			},
		}},
	}
}

func (v *Values) volumes() []corev1.Volume {
	var out []corev1.Volume
	for _, m := range v.mounts() {
		out = append(out, corev1.Volume{Name: m.name, VolumeSource: m.source})
	}
	return out
}

func (v *Values) volumeMounts() []corev1.VolumeMount {
	var out []corev1.VolumeMount
	for _, m := range v.mounts() {
		out = append(out, corev1.VolumeMount{Name: m.name, MountPath: m.path, ReadOnly: m.readOnly})
	}
	return out
}

// script is what the container runs: the setup, then what it was told, then torchrun.
func (v *Values) script() string {
	lines := slices.Clone(v.SetupCommands)
	if v.sakkara() {
		lines = append(lines, `export RANK="${SAKKARA_RANK:-$RANK}"`) // Sakkara may be late
	}
	lines = append(lines,
		`echo "master $MASTER_ADDR:$MASTER_PORT, $WORLD_SIZE pods, this one is $RANK of them, on $(hostname)"`)
	if v.MainProgram != "" {
		torchrun := "torchrun --nnodes=$WORLD_SIZE --node_rank=$RANK"
		if v.NumGPUsPerPod > 0 {
			torchrun += fmt.Sprintf(" --nproc_per_node=%d", v.NumGPUsPerPod)
		}
		lines = append(lines, torchrun+" --rdzv_id=101 --rdzv_endpoint=$MASTER_ADDR:$MASTER_PORT "+v.MainProgram)
	}
	return strings.Join(lines, "\n")
}

// Notes tell of values that have no effect, or another one than people may think.
func (v *Values) Notes() []string {
	var out []string
	if len(v.AutopilotHealthChecks) > 0 {
		out = append(out, "autopilotHealthChecks: the labels are written, and Autopilot reads them no more")
	}
	if v.SchedulerName == "sakkara" {
		out = append(
			out,
			"schedulerName sakkara: Sakkara's own chart registers the scheduler as sakkara-scheduler; mlbatch answers to both",
		)
	}
	for _, name := range slices.Sorted(maps.Keys(v.durations())) {
		if strings.HasSuffix(v.durations()[name], "d") {
			out = append(out, name+": written in hours, which every AppWrapper controller understands")
		}
	}
	return out
}
