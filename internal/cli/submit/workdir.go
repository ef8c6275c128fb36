package submit

import (
	"path"

	corev1 "k8s.io/api/core/v1"
)

// WorkdirPath is where a working directory that goes along is in the container.
const WorkdirPath = "/mlbatch/workdir"

// Where the archive is in the pods that unpack it.
const (
	uploadPath = "/mlbatch/upload"
	uploadKey  = "workdir.tar.gz"
)

// unpack lets a container of the same image unpack the archive before the command starts. The
// image needs tar and gzip.
func (x *rendering) unpack(pod *corev1.PodSpec, c *corev1.Container) {
	const archive, files = "workdir-archive", "workdir"
	pod.Volumes = append(
		pod.Volumes,
		corev1.Volume{
			Name: archive,
			VolumeSource: corev1.VolumeSource{
				ConfigMap: &corev1.ConfigMapVolumeSource{
					LocalObjectReference: corev1.LocalObjectReference{Name: x.upload},
				},
			},
		},
		corev1.Volume{Name: files, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
	)
	init := corev1.Container{
		Name:    "workdir",
		Image:   c.Image,
		Command: []string{"tar", "-xzf", path.Join(uploadPath, uploadKey), "-C", WorkdirPath},
		VolumeMounts: []corev1.VolumeMount{
			{Name: archive, MountPath: uploadPath, ReadOnly: true},
			{Name: files, MountPath: WorkdirPath},
		},
	}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if q, has := c.Resources.Limits[name]; has { // no more than the command has afterwards
			if init.Resources.Limits == nil {
				init.Resources.Limits = corev1.ResourceList{}
			}
			init.Resources.Limits[name] = q
		}
	}
	pod.InitContainers = append(pod.InitContainers, init)
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: files, MountPath: WorkdirPath})
	if c.WorkingDir == "" {
		c.WorkingDir = WorkdirPath
	}
}
