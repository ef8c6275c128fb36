package mpijob

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	api "github.com/mlbatch/mlbatch/api/kubeflow/v1"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/kubeflow"
)

// largestFile is how much a ConfigMap can have, with room for the scripts.
const largestFile = 1000 * 1000

// validateSSH finds what is wrong with a job of v2beta1.
func validateSSH(r *kubeflow.Reading) field.ErrorList {
	s, at := spec(r.Job), field.NewPath("spec")
	errs := validate(r)
	if all := []api.MPIImplementation{
		api.MPIImplementationOpenMPI,
		api.MPIImplementationIntel,
		api.MPIImplementationMPICH,
	}; !slices.Contains(
		all,
		s.MPIImplementation,
	) {
		errs = append(errs, field.NotSupported(at.Child("mpiImplementation"), s.MPIImplementation, all))
	}
	if all := []api.LauncherCreationPolicy{
		api.LauncherAtStartup,
		api.LauncherWaitForWorkersReady,
	}; !slices.Contains(
		all,
		s.LauncherCreationPolicy,
	) {
		errs = append(errs, field.NotSupported(at.Child("launcherCreationPolicy"), s.LauncherCreationPolicy, all))
	}
	if !strings.HasPrefix(s.SSHAuthMountPath, "/") {
		errs = append(
			errs,
			field.Invalid(
				at.Child("sshAuthMountPath"),
				s.SSHAuthMountPath,
				"use a path that begins with /, such as "+rootSSH,
			),
		)
	}
	errs = append(errs, ownVolumes(r, api.RoleLauncher, sshVolume, configVolume)...)
	return append(errs, ownVolumes(r, api.RoleWorker, sshVolume)...)
}

// validateExec finds what is wrong with a job of v1.
func validateExec(r *kubeflow.Reading) field.ErrorList {
	s := spec(r.Job)
	errs := validate(r)
	if w := r.Role(api.RoleWorker); w != nil && s.MainContainer != "" {
		known := slices.ContainsFunc(
			w.Spec.Template.Spec.Containers,
			func(c corev1.Container) bool { return c.Name == s.MainContainer },
		)
		if !known {
			errs = append(
				errs,
				field.Invalid(
					field.NewPath("spec", "mainContainer"),
					s.MainContainer,
					"use the name of a container of the role Worker",
				),
			)
		}
	}
	errs = append(errs, ownVolumes(r, api.RoleLauncher, configVolume, kubectlVolume)...)
	return append(errs, ownVolumes(r, api.RoleWorker, configVolume)...)
}

func validate(r *kubeflow.Reading) field.ErrorList {
	s, at := spec(r.Job), field.NewPath("spec")
	var errs field.ErrorList
	if *s.SlotsPerWorker < 0 {
		errs = append(errs, field.Invalid(at.Child("slotsPerWorker"), *s.SlotsPerWorker, "use a number from 0"))
	}
	w := r.Role(api.RoleWorker)
	if w == nil {
		return errs
	}
	domain, slots := lineAround(r.Job, s)
	if n := int64(len(w.Host(w.Count-1)+domain+slots)) * int64(w.Count); n > largestFile {
		errs = append(errs, field.Invalid(at.Child("mpiReplicaSpecs", "Worker", "replicas"), w.Count, fmt.Sprintf(
			"the list of hosts would be longer than the %d bytes that a ConfigMap can have: use fewer replicas or shorter names",
			largestFile,
		)))
	}
	return errs
}

// ownVolumes refuses volumes of a role that have the names of volumes which are added to its pods.
func ownVolumes(r *kubeflow.Reading, role api.ReplicaType, names ...string) field.ErrorList {
	x := r.Role(role)
	if x == nil {
		return nil
	}
	var errs field.ErrorList
	for i, v := range x.Spec.Template.Spec.Volumes {
		if slices.Contains(names, v.Name) {
			errs = append(
				errs,
				field.Invalid(
					field.NewPath("spec", "mpiReplicaSpecs", string(role), "template", "spec", "volumes").
						Index(i).
						Child("name"),
					v.Name,
					"a volume of this name is added to the pods: use another one",
				),
			)
		}
	}
	return errs
}
