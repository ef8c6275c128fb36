package trainjob

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	jobset "github.com/mlbatch/mlbatch/api/jobset/v1alpha2"
	api "github.com/mlbatch/mlbatch/api/trainer/v1alpha1"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/sshkeys"
)

// Names of what MPI needs beside its pods.
const (
	keysSuffix     = "-mpi-ssh-auth"
	hostfileSuffix = "-mpi-hostfile"
	keysVolume     = "mpi-ssh-auth"
	hostfileVolume = "mpi-hostfile"
	hostfileDir    = "/etc/mpi"
	hostfileName   = "hostfile"
	// rootKeys is where ssh of root looks for keys.
	rootKeys = "/root/.ssh"
)

// rshArgs have ssh try again: nodes may be found before they answer.
const rshArgs = "-o ConnectionAttempts=10"

func (r *rendering) launcherTrains() bool {
	return r.policy.MPI != nil && ptr.Deref(r.policy.MPI.RunLauncherAsNode, false)
}

// launcher is the replicated job that starts processes, nil if there is none: the one of
// that name, or else the one that trains and is not the nodes.
func (r *rendering) launcher() *jobset.ReplicatedJob {
	if r.policy.MPI == nil {
		return nil
	}
	if j := r.find(api.Launcher); j != nil {
		return j
	}
	for _, j := range r.of(api.AncestorTrainer) {
		if j.Name != api.Node {
			return j
		}
	}
	return nil
}

// mpiNodes is the replicated job on which processes are started, nil if there is none.
func (r *rendering) mpiNodes() *jobset.ReplicatedJob {
	if r.policy.MPI == nil {
		return nil
	}
	return r.find(api.Node)
}

// slots is how many processes a node has room for.
func (r *rendering) slots() int32 {
	if t := r.job.Spec.Trainer; t != nil && t.NumProcPerNode != nil {
		return t.NumProcPerNode.IntVal
	}
	n := ptr.Deref(r.policy.MPI.NumProcPerNode, 1)
	node := r.mpiNodes()
	if node == nil {
		node = r.launcher()
	}
	if n == 1 && node != nil {
		if c := container(node, api.Node); c != nil {
			return int32(max(accelerators(c), 1)) //nolint:gosec // a node has a few
		}
	}
	return n
}

// mpi gives launcher and nodes their keys, and the launcher the list of nodes.
func (r *rendering) mpi() {
	launcher, node := r.launcher(), r.mpiNodes()
	path, mode := ptr.Deref(r.policy.MPI.SSHAuthMountPath, rootKeys), int32(0o640)
	if path == rootKeys { // ssh refuses a key of its own user that a group may read; others need the group
		mode = 0o600
	}
	for _, j := range []*jobset.ReplicatedJob{launcher, node} {
		if j == nil {
			continue
		}
		add(j, keysVolume, path, corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
			SecretName:  r.set.Name + keysSuffix,
			DefaultMode: &mode,
			Items: []corev1.KeyToPath{
				{Key: corev1.SSHAuthPrivateKey, Path: "id_rsa"},
				{Key: sshkeys.Public, Path: "id_rsa.pub"},
				{Key: sshkeys.Public, Path: "authorized_keys"},
			},
		}})
	}
	if launcher == nil {
		return
	}
	add(launcher, hostfileVolume, hostfileDir, corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: r.set.Name + hostfileSuffix},
		Items:                []corev1.KeyToPath{{Key: hostfileName, Path: hostfileName, Mode: new(int32(0o444))}},
	}})
	if c := container(launcher, api.Node); c != nil {
		setEnv(c, r.mpiEnv()...)
	}
}

// mpiEnv is how mpirun finds the nodes.
func (r *rendering) mpiEnv() []corev1.EnvVar {
	file, n := hostfileDir+"/"+hostfileName, r.slots()
	switch ptr.Deref(r.policy.MPI.MPIImplementation, api.OpenMPI) {
	case api.IntelMPI:
		return []corev1.EnvVar{
			text("I_MPI_HYDRA_HOST_FILE", file),
			text("I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS", rshArgs),
			number("I_MPI_PERHOST", n),
		}
	case api.MPICH:
		return []corev1.EnvVar{text("HYDRA_HOST_FILE", file), text("HYDRA_LAUNCH_EXTRA_ARGS", rshArgs)}
	case api.OpenMPI:
	}
	return []corev1.EnvVar{
		text("OMPI_MCA_orte_default_hostfile", file), text("OMPI_MCA_orte_keep_fqdn_hostnames", "true"),
		number("OMPI_MCA_orte_set_default_slots", n), text("OMPI_MCA_plm_rsh_args", rshArgs),
	}
}

// add mounts a volume in the container that works; one of the same name is replaced.
func add(j *jobset.ReplicatedJob, name, path string, source corev1.VolumeSource) {
	s := pods(j)
	s.Volumes = joined(
		s.Volumes,
		[]corev1.Volume{{Name: name, VolumeSource: source}},
		func(v *corev1.Volume) string { return v.Name },
	)
	if c := container(j, api.Node); c != nil {
		c.VolumeMounts = slices.DeleteFunc(
			c.VolumeMounts,
			func(m corev1.VolumeMount) bool { return m.MountPath == path },
		)
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: name, MountPath: path})
	}
}

// hostfile lists the nodes, in the order of the runtime.
func (r *rendering) hostfile() string {
	separator := " slots="
	if ptr.Deref(r.policy.MPI.MPIImplementation, api.OpenMPI) != api.OpenMPI {
		separator = ":"
	}
	n := r.slots()
	var b strings.Builder
	for i := range r.set.Spec.ReplicatedJobs {
		j := &r.set.Spec.ReplicatedJobs[i]
		if j != r.mpiNodes() && (j != r.launcher() || !r.launcherTrains()) {
			continue
		}
		for k := range size(j) {
			fmt.Fprintf(&b, "%s%s%d\n", r.host(j, k), separator, n)
		}
	}
	return b.String()
}

// artifacts are the keys of an MPI training and its list of nodes; others have none.
func artifacts(t *api.TrainJob) ([]jobs.Artifact, error) {
	r, err := rendered(t)
	if errors.Is(err, jobs.ErrIncomplete) {
		return nil, nil
	}
	if err != nil || r.policy.MPI == nil {
		return nil, err
	}
	return []jobs.Artifact{
		{
			Stays: true,
			Fill:  sshkeys.Fill,
			Object: &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Name: t.Name + keysSuffix},
				Type:       corev1.SecretTypeSSHAuth,
				Immutable:  new(true),
			},
		},
		{
			Stays: true,
			Object: &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Name: t.Name + hostfileSuffix},
				Data:       map[string]string{hostfileName: r.hostfile()},
			},
		},
	}, nil
}
