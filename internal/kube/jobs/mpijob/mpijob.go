// Package mpijob is the kind MPIJob of kubeflow.org: a launcher that runs mpirun, and
// workers in which it starts processes. Its two versions share fields and not contracts.
// Jobs of v2beta1 reach their workers by ssh, and their launcher is a Job. Jobs of v1 reach
// them by kubectl exec, and their launcher is a pod with an account that may do that. Objects
// of both are stored as v2beta1, so that those of v1 carry a mark (jobs.VersionAnnotation).
package mpijob

import (
	"cmp"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	api "github.com/mlbatch/mlbatch/api/kubeflow/v1"
	"github.com/mlbatch/mlbatch/api/kubeflow/v2beta1"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/engine/lifecycle"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/job"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/kubeflow"
)

// Names of roles in plans, and of their pod sets.
const (
	launcher = "launcher"
	worker   = "worker"
)

// v1 is the version of jobs that reach their workers by kubectl exec.
const v1 = "v1"

// Kind is all that there is to know of MPIJobs.
func Kind() jobs.Kind {
	ssh, exec := kubeflow.Of(bySSH()), kubeflow.Of(byExec())
	k := ssh
	k.Naming.Versions = []string{v1}
	k.Naming.AddToScheme = v2beta1.AddToScheme
	k.Adapter = adapter{ssh.Adapter, exec.Adapter}
	k.Admission.Validate = either(ssh.Admission.Validate, exec.Admission.Validate)
	k.Admission.ValidateChange = func(was, is jobs.Object) field.ErrorList {
		if isV1(was) != isV1(is) {
			return field.ErrorList{
				field.Forbidden(
					field.NewPath("metadata", "annotations").Key(jobs.VersionAnnotation),
					"it says how the launcher reaches the workers, which cannot be changed: delete the job and create it anew",
				),
			}
		}
		return kindOf(is, &ssh, &exec).Admission.ValidateChange(was, is)
	}
	k.Admission.Keep = func(was, is jobs.Object, original []kueue.PodSet) jobs.Object {
		return keepVersion(was, ssh.Admission.Keep(was, is, original))
	}
	k.Admission.Warnings = warnings
	k.Running.Operator = &jobs.Operator{
		Compile: func(o jobs.Object) (*jobs.Plan, error) { return kindOf(o, &ssh, &exec).Running.Operator.Compile(o) },
		Project: func(o jobs.Object, p *jobs.Plan, s *jobs.Progress) jobs.Object {
			return kindOf(o, &ssh, &exec).Running.Operator.Project(o, p, s)
		},
		Others:        ssh.Running.Operator.Others,
		StateOfStatus: ssh.Running.Operator.StateOfStatus,
		StatusEvents:  ssh.Running.Operator.StatusEvents,
		Children:      []jobs.ChildKind{job.Child()},
		Artifacts:     artifacts,
		Makes: []schema.GroupResource{
			{Resource: "services"},
			{Resource: "configmaps"},
			{Resource: "secrets"},
			{Resource: "serviceaccounts"},
			{Group: rbacv1.GroupName, Resource: "roles"},
			{Group: rbacv1.GroupName, Resource: "rolebindings"},
		},
		Grants: grants(),
	}
	k.Queueing.Wrapped = wrapped(ssh.Queueing.Wrapped, waits)
	k.Running.Retries = false // its launcher is a Job, which tries again by itself
	k.Queueing.Wraps = []jobs.Wrappable{{
		GVK: k.GVK().GroupKind().WithVersion(v1), Resource: k.Naming.Resource, RunsPods: true,
		Wrapping: wrapped(exec.Queueing.Wrapped, func(map[string]any) bool { return true }),
	}}
	return k
}

// bySSH are the jobs of v2beta1.
func bySSH() *kubeflow.Variant {
	v := variant()
	v.Operator = "mpi-operator"
	v.Roles = []kubeflow.Role{
		{
			Name:          api.RoleLauncher,
			Least:         1,
			Most:          1,
			Required:      true,
			Alone:         true,
			RestartPolicy: api.RestartPolicyOnFailure,
		},
		{Name: api.RoleWorker, Least: 1, None: true, RestartPolicy: api.RestartPolicyNever},
	}
	v.RestartPolicies = []api.RestartPolicy{api.RestartPolicyOnFailure, api.RestartPolicyNever}
	v.Validate, v.Plan = validateSSH, planSSH
	return v
}

// byExec are the jobs of v1.
func byExec() *kubeflow.Variant {
	v := variant()
	v.Roles = []kubeflow.Role{
		{Name: api.RoleLauncher, Least: 1, Most: 1, Required: true, Alone: true},
		{Name: api.RoleWorker, None: true},
	}
	v.RestartPolicy = api.RestartPolicyNever
	v.Validate, v.Plan = validateExec, planExec
	return v
}

// variant is what both have in common.
func variant() *kubeflow.Variant {
	return &kubeflow.Variant{
		Kind: v2beta1.MPIJobKind, Version: v2beta1.GroupVersion.Version,
		New:      func() api.Job { return &v2beta1.MPIJob{} },
		Others:   []string{"mpi-operator", "training-operator"},
		Managers: []string{v2beta1.ManagedByOperator, api.ManagedByOperator},
		Field:    "mpiReplicaSpecs",
		Default:  fill,
		Runs:     runs,
		Evicted:  "Evicted",
	}
}

func spec(o any) *api.MPIJobSpec {
	if j, ok := o.(*v2beta1.MPIJob); ok {
		return &j.Spec
	}
	return &api.MPIJobSpec{}
}

// isV1 reports whether a job was submitted as one of v1.
func isV1(o jobs.Object) bool { return jobs.SubmittedIn(o, v1) }

func kindOf(o jobs.Object, ssh, exec *jobs.Kind) *jobs.Kind {
	if isV1(o) {
		return exec
	}
	return ssh
}

// either asks the version of an object.
func either[R any](ssh, exec func(jobs.Object) R) func(jobs.Object) R {
	return func(o jobs.Object) R {
		if isV1(o) {
			return exec(o)
		}
		return ssh(o)
	}
}

// adapter is that of v2beta1 where the versions are alike.
type adapter struct {
	jobs.Adapter
	exec jobs.Adapter
}

// GVK implements jobs.Adapter.
func (a adapter) GVK() schema.GroupVersionKind { return a.Adapter.GVK() }

// Read implements jobs.Adapter.
func (a adapter) Read(o jobs.Object) (jobs.Facts, error) {
	f, err := a.of(o).Read(o)
	if len(f.PodSets) > 1 && f.PodSets[1].Count > 0 &&
		(isV1(o) || spec(o).LauncherCreationPolicy == api.LauncherWaitForWorkersReady) {
		f.Later = []string{launcher}
	}
	return f, err
}

// Start implements jobs.Adapter.
func (a adapter) Start(o jobs.Object, infos []jobs.PodSetInfo) (jobs.Object, error) {
	return a.of(o).Start(o, infos)
}

func (a adapter) of(o jobs.Object) jobs.Adapter {
	if isV1(o) {
		return a.exec
	}
	return a.Adapter
}

// keepVersion leaves the mark of a job as it was.
func keepVersion(was, is jobs.Object) jobs.Object {
	if isV1(was) == isV1(is) {
		return is
	}
	out, ok := is.DeepCopyObject().(jobs.Object)
	if !ok {
		return is
	}
	notes := out.GetAnnotations()
	delete(notes, jobs.VersionAnnotation)
	if isV1(was) {
		if notes == nil {
			notes = map[string]string{}
		}
		notes[jobs.VersionAnnotation] = v1
	}
	out.SetAnnotations(notes)
	return out
}

// fill fills in the defaults.
func fill(j api.Job) {
	s := spec(j)
	if s.SlotsPerWorker == nil {
		s.SlotsPerWorker = new(int32(1))
	}
	if s.RunPolicy.CleanPodPolicy == nil {
		s.RunPolicy.CleanPodPolicy = s.CleanPodPolicy
	}
	s.SSHAuthMountPath = cmp.Or(s.SSHAuthMountPath, "/root/.ssh")
	s.LauncherCreationPolicy = cmp.Or(s.LauncherCreationPolicy, api.LauncherAtStartup)
	s.MPIImplementation = cmp.Or(s.MPIImplementation, api.MPIImplementationOpenMPI)
}

// runs: mpirun does, and every worker is there for it.
func runs(p *jobs.Plan, s *jobs.Progress) bool {
	if s.Counts[launcher].Ready == 0 {
		return false
	}
	r := p.Role(worker)
	return r == nil || s.Counts[worker].Ready >= r.Count
}

// wrapped is what AppWrappers have to know of a version. waits reports whether the launcher
// comes after the workers.
func wrapped(w *jobs.Wrapping, waits func(map[string]any) bool) *jobs.Wrapping {
	w.Direct = false // pods of a launcher that is a Job go after it
	w.HeldBack = func(o map[string]any, path string) bool { return isLauncher(path) && waits(o) }
	return w
}

// warnings tell the author of a job of fields of the other version.
func warnings(o jobs.Object, _ lifecycle.Policy) []string {
	s := spec(o)
	var out []string
	for _, f := range []struct {
		name string
		says bool
		v1   bool
	}{
		{"runLauncherAsWorker", ptr.Deref(s.RunLauncherAsWorker, false), false},
		{"sshAuthMountPath", s.SSHAuthMountPath != "", false},
		{"launcherCreationPolicy", s.LauncherCreationPolicy != "", false},
		{"mpiImplementation", s.MPIImplementation != "", false},
		{"mainContainer", s.MainContainer != "", true},
	} {
		if f.says && f.v1 != isV1(o) {
			version := v1
			if !f.v1 {
				version = v2beta1.GroupVersion.Version
			}
			out = append(
				out,
				"spec."+f.name+": it has no effect in this version of the API: use kubeflow.org/"+version,
			)
		}
	}
	return out
}

// isLauncher reports whether a path in an AppWrapper is that of the launcher's pods.
func isLauncher(path string) bool {
	return strings.HasPrefix(strings.ToLower(path), "template.spec.mpireplicaspecs.launcher.")
}

// waits reports whether the launcher of a job of v2beta1 comes after the workers.
func waits(o map[string]any) bool {
	policy, _, _ := unstructured.NestedString(o, "spec", "launcherCreationPolicy")
	return policy == string(api.LauncherWaitForWorkersReady)
}
