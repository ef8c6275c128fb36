package mpijob

import (
	"fmt"
	"maps"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	api "github.com/mlbatch/mlbatch/api/kubeflow/v1"
	"github.com/mlbatch/mlbatch/api/kubeflow/v2beta1"
	"github.com/mlbatch/mlbatch/internal/engine/podplan"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/kubeflow"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/sshkeys"
)

// Where pods find files, and the names of the volumes.
const (
	configPath    = "/etc/mpi"
	configVolume  = "mpi-job-config"
	sshVolume     = "ssh-auth"
	kubectlPath   = "/opt/kube"
	kubectlVolume = "mpi-job-kubectl"
	rootSSH       = "/root/.ssh"
)

// KubectlImage is an annotation of an MPIJob of v1. It names an image with kubectl and a
// shell, from which the launcher gets kubectl if its own image has none.
const KubectlImage = "mlbatch.dev/kubectl-image"

// sshArgs have ssh try again while workers start.
const sshArgs = "-o ConnectionAttempts=10"

// planSSH is the contract of v2beta1: workers run sshd, and mpirun finds in variables its
// list of hosts.
func planSSH(r *kubeflow.Reading, p *jobs.Plan) {
	s, name := spec(r.Job), r.Job.GetName()
	p.Success = podplan.Success{kubeflow.All(api.RoleLauncher)}
	p.Make = make([]jobs.Make, len(p.Roles))
	for i := range p.Roles {
		role, t := &p.Roles[i], p.Templates[i]
		first := &t.Spec.Containers[0]
		role.Container = first.Name
		role.Labels[api.JobRoleLabel] = role.Name
		t.Spec.Subdomain = name
		if t.Spec.HostNetwork && (t.Spec.DNSPolicy == "" || t.Spec.DNSPolicy == corev1.DNSClusterFirst) {
			t.Spec.DNSPolicy = corev1.DNSClusterFirstWithHostNet
		}
		mountKeys(&t.Spec, first, name, s.SSHAuthMountPath)
		role.Env = []podplan.Env{kubeflow.Var("K_MPI_JOB_ROLE", role.Name)}
		if role.Name == worker {
			t.Spec.Hostname = "" // that of the pod
			searchHosts(&t.Spec, name+"."+r.Job.GetNamespace()+".svc.cluster.local")
			if len(first.Command) == 0 && len(first.Args) == 0 {
				first.Command = []string{"/usr/sbin/sshd", "-De"}
			}
			continue
		}
		t.Spec.Hostname = name + "-launcher"
		mountConfig(&t.Spec, first, name, hostfile, discover)
		role.Env = append(role.Env, variables(s, &t.Spec)...)
		role.Holds, role.Kept = true, true
		role.Version = launcherVersion(r)
		role.OnFailure = podplan.FailJob // the Job tries again, as often as it may
		p.Make[i] = launcherJob(r.Job, p)
		if s.LauncherCreationPolicy == api.LauncherWaitForWorkersReady && p.Role(worker) != nil {
			role.After = []podplan.Dependency{{Role: worker}}
		}
	}
	if w := p.Role(worker); w != nil && ptr.Deref(s.RunLauncherAsWorker, false) {
		w.Labels[api.ReplicaIndexLabel] = "{rank}" // the launcher is the first of them
	}
}

// variables of the launcher, by whose mpirun it has.
func variables(s *api.MPIJobSpec, pod *corev1.PodSpec) []podplan.Env {
	slots, hosts := *s.SlotsPerWorker, configPath+"/"+hostfile
	var out []podplan.Env
	switch s.MPIImplementation {
	case api.MPIImplementationIntel:
		out = []podplan.Env{
			kubeflow.Var("I_MPI_HYDRA_HOST_FILE", hosts),
			kubeflow.Var("I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS", sshArgs),
			kubeflow.Number("I_MPI_PERHOST", slots),
		}
	case api.MPIImplementationMPICH:
		out = []podplan.Env{
			kubeflow.Var("HYDRA_HOST_FILE", hosts),
			kubeflow.Var("HYDRA_LAUNCH_EXTRA_ARGS", sshArgs),
		}
	case api.MPIImplementationOpenMPI:
		out = []podplan.Env{
			// The hosts are full names, and are not to be cut.
			kubeflow.Var("OMPI_MCA_orte_keep_fqdn_hostnames", "true"),
			kubeflow.Var("OMPI_MCA_orte_default_hostfile", hosts),
			kubeflow.Var("OMPI_MCA_plm_rsh_args", sshArgs),
			kubeflow.Number("OMPI_MCA_orte_set_default_slots", slots),
		}
	}
	if !ptr.Deref(s.RunLauncherAsWorker, false) {
		out = append(out, hideGPUs(pod)...)
	}
	return out
}

// hideGPUs keeps a launcher that asks for no GPU from those of its node: some runtimes show
// them to every container that does not say otherwise.
func hideGPUs(pod *corev1.PodSpec) []podplan.Env {
	if hasGPU(pod) {
		return nil
	}
	return []podplan.Env{
		kubeflow.Var("NVIDIA_VISIBLE_DEVICES", ""),
		kubeflow.Var("NVIDIA_DRIVER_CAPABILITIES", ""),
	}
}

// hasGPU reports whether a pod asks for GPUs, by the names that their vendors give them.
func hasGPU(pod *corev1.PodSpec) bool {
	for i := range pod.Containers {
		for name := range pod.Containers[i].Resources.Limits { // any one of them
			if strings.HasSuffix(string(name), "gpu") || strings.HasPrefix(string(name), "nvidia.com/mig-") {
				return true
			}
		}
	}
	return false
}

// launcherVersion is a sum of what the Job of the launcher is made from: the template of a Job that
// was started once cannot be changed.
func launcherVersion(r *kubeflow.Reading) string {
	policy := r.Job.Policy()
	return jobs.Sum(struct {
		Launcher *api.ReplicaSpec
		Backoff  *int32
		Deadline *int64
		Job      *api.MPIJobSpec
	}{r.Role(api.RoleLauncher).Spec, policy.BackoffLimit, policy.ActiveDeadlineSeconds, settings(r.Job)})
}

// settings are what the launcher of a job is told besides its template.
func settings(j api.Job) *api.MPIJobSpec {
	s := withDefaults(j)
	return &api.MPIJobSpec{
		SlotsPerWorker:      s.SlotsPerWorker,
		MPIImplementation:   s.MPIImplementation,
		SSHAuthMountPath:    s.SSHAuthMountPath,
		RunLauncherAsWorker: s.RunLauncherAsWorker,
	}
}

// launcherJob makes the Job of the launcher.
func launcherJob(j api.Job, p *jobs.Plan) jobs.Make {
	policy := j.Policy()
	gvk := v2beta1.GroupVersion.WithKind(v2beta1.MPIJobKind)
	return func(x podplan.Member, m *podplan.RetryState, admitted jobs.Admitted) (jobs.Object, error) {
		var info *jobs.PodSetInfo
		if admitted != nil {
			given, known := admitted[launcher]
			if !known {
				return nil, fmt.Errorf("its admission has no pods of role %s", launcher)
			}
			info = &given
		}
		pod, err := p.Pod(j, gvk, x, m, info)
		if err != nil {
			return nil, err
		}
		return &batchv1.Job{
			TypeMeta:   metav1.TypeMeta{APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "Job"},
			ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Labels: artifactLabels(j)},
			Spec: batchv1.JobSpec{
				Parallelism: new(int32(1)), Completions: new(int32(1)),
				BackoffLimit: policy.BackoffLimit, ActiveDeadlineSeconds: policy.ActiveDeadlineSeconds,
				// A second mpirun would find its workers taken.
				PodReplacementPolicy: ptr.To(batchv1.Failed),
				Template: corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Labels: pod.Labels, Annotations: pod.Annotations}, Spec: pod.Spec,
				},
			},
		}, nil
	}
}

// planExec is the contract of v1: mpirun starts processes in workers by a script, which calls
// kubectl exec.
func planExec(r *kubeflow.Reading, p *jobs.Plan) {
	s, name := spec(r.Job), r.Job.GetName()
	p.Success = podplan.Success{kubeflow.All(api.RoleLauncher)}
	kubeflow.Leads(p, api.RoleLauncher)
	for i := range p.Roles {
		role, t := &p.Roles[i], p.Templates[i]
		first := &t.Spec.Containers[0]
		role.Container = first.Name
		if role.Name == worker {
			// Open MPI looks for the script wherever it runs.
			mountConfig(&t.Spec, first, name, kubexec)
			if len(first.Command) == 0 {
				first.Command, first.Args = []string{"sleep"}, []string{"365d"}
			}
			continue
		}
		mountConfig(&t.Spec, first, name, kubexec, hostfile, discover)
		role.Env = append([]podplan.Env{
			kubeflow.Var("OMPI_MCA_plm_rsh_agent", configPath+"/"+kubexec),
			// Workers may not start processes in other workers.
			kubeflow.Var("OMPI_MCA_plm_rsh_no_tree_spawn", "true"),
			kubeflow.Var("OMPI_MCA_orte_default_hostfile", configPath+"/"+hostfile),
			kubeflow.Number("OMPI_MCA_orte_set_default_slots", *s.SlotsPerWorker),
			kubeflow.Var("I_MPI_HYDRA_BOOTSTRAP", "rsh"),
			kubeflow.Var("I_MPI_HYDRA_BOOTSTRAP_EXEC", configPath+"/"+kubexec),
			kubeflow.Var("I_MPI_HYDRA_HOST_FILE", configPath+"/"+hostfile),
		}, hideGPUs(&t.Spec)...)
		if workers := p.Role(worker); workers != nil && workers.Count > 0 {
			// Only a pod that runs can be told to run something.
			role.After = []podplan.Dependency{{Role: worker}}
		}
		deliverKubectl(r.Job, &t.Spec, first)
		if ownAccount(r.Job, &t.Spec) {
			t.Spec.ServiceAccountName = name + "-launcher"
		}
	}
}

// ownAccount reports whether the launcher of a job gets an account that may run commands in
// the workers. It does not if its author names one, which has to have these rights then.
func ownAccount(j api.Job, pod *corev1.PodSpec) bool {
	return pod.ServiceAccountName == "" || pod.ServiceAccountName == j.GetName()+"-launcher"
}

// deliverKubectl has an image that the author names bring kubectl along. What the container
// that does it asks for is no more than what the launcher does, which is what is counted.
func deliverKubectl(j api.Job, pod *corev1.PodSpec, first *corev1.Container) {
	image := j.GetAnnotations()[KubectlImage]
	if image == "" {
		return
	}
	mount := corev1.VolumeMount{Name: kubectlVolume, MountPath: kubectlPath}
	deliver := corev1.Container{
		Name: "kubectl-delivery", Image: image, ImagePullPolicy: corev1.PullIfNotPresent,
		Command:      []string{"sh", "-c", `cp "$(command -v kubectl)" ` + kubectlPath + "/kubectl"},
		VolumeMounts: []corev1.VolumeMount{mount}, SecurityContext: first.SecurityContext,
	}
	deliver.Resources.Limits, deliver.Resources.Requests = small(
		first.Resources.Limits,
	), small(
		first.Resources.Requests,
	)
	pod.InitContainers = append(pod.InitContainers, deliver)
	first.VolumeMounts = append(first.VolumeMounts, mount)
	pod.Volumes = append(
		pod.Volumes,
		corev1.Volume{
			Name:         kubectlVolume,
			VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}},
		},
	)
}

// small are what every container has of what one asks for.
func small(of corev1.ResourceList) corev1.ResourceList {
	out := maps.Clone(of)
	maps.DeleteFunc(out, func(name corev1.ResourceName, _ resource.Quantity) bool {
		return name != corev1.ResourceCPU && name != corev1.ResourceMemory &&
			name != corev1.ResourceEphemeralStorage
	})
	return out
}

// searchHosts lets a pod find the others of its job by their short names.
func searchHosts(pod *corev1.PodSpec, domain string) {
	if pod.DNSConfig == nil {
		pod.DNSConfig = &corev1.PodDNSConfig{}
	}
	pod.DNSConfig.Searches = append(pod.DNSConfig.Searches, domain)
}

// mountKeys gives a container the keys of the job. The superuser's ssh refuses keys that
// others can read; for other users they have to be readable.
func mountKeys(pod *corev1.PodSpec, c *corev1.Container, name, at string) {
	var mode *int32
	if at == rootSSH {
		mode = new(int32(0o600))
	}
	pod.Volumes = append(
		pod.Volumes,
		corev1.Volume{Name: sshVolume, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
			SecretName: name + "-ssh", DefaultMode: mode,
			Items: []corev1.KeyToPath{
				{
					Key:  corev1.SSHAuthPrivateKey,
					Path: "id_rsa",
				},
				{Key: sshkeys.Public, Path: "id_rsa.pub"},
				{Key: sshkeys.Public, Path: "authorized_keys"},
			},
		}}},
	)
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: sshVolume, MountPath: at})
}

// mountConfig gives a container files of the job's ConfigMap.
func mountConfig(pod *corev1.PodSpec, c *corev1.Container, name string, files ...string) {
	var items []corev1.KeyToPath
	for _, f := range files {
		mode := int32(0o555)
		if f == hostfile {
			mode = 0o444
		}
		items = append(items, corev1.KeyToPath{Key: f, Path: f, Mode: &mode})
	}
	pod.Volumes = append(
		pod.Volumes,
		corev1.Volume{
			Name: configVolume,
			VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
				LocalObjectReference: corev1.LocalObjectReference{Name: name + "-config"}, Items: items,
			}},
		},
	)
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: configVolume, MountPath: configPath})
}
