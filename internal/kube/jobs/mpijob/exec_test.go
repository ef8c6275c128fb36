package mpijob_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/mlbatch/mlbatch/internal/engine/podplan"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/mpijob"
)

// TestExec is the contract of v1.
func TestExec(t *testing.T) {
	j := decode(t, "slotsPerWorker: 2, PAIR", "v1")
	p := compile(t, j)
	l := p.Role("launcher")
	if l.Member != "a-launcher" || l.Holds || p.Make != nil || l.OnFailure != podplan.FailJob ||
		l.Labels["training.kubeflow.org/job-role"] != "master" ||
		l.Labels["training.kubeflow.org/operator-name"] != "mpijob-controller" {
		t.Errorf("launcher %+v", l)
	}
	if diff := cmp.Diff([]podplan.Dependency{{Role: "worker"}}, l.After); diff != "" {
		t.Errorf("kubectl exec needs pods that run: %s", diff)
	}
	if diff := cmp.Diff(podplan.Success{{Roles: []string{"launcher"}}}, p.Success); diff != "" {
		t.Error(diff)
	}
	var want corev1.PodSpec
	parse(t, `
restartPolicy: Never
serviceAccountName: a-launcher
volumes:
- name: mpi-job-config
  configMap:
    name: a-config
    items: [{key: kubexec.sh, path: kubexec.sh, mode: 365}, {key: hostfile, path: hostfile, mode: 292}, {key: discover_hosts.sh, path: discover_hosts.sh, mode: 365}]
containers:
- name: mpi
  image: i
  env:
  - {name: OMPI_MCA_plm_rsh_agent, value: /etc/mpi/kubexec.sh}
  - {name: OMPI_MCA_plm_rsh_no_tree_spawn, value: "true"}
  - {name: OMPI_MCA_orte_default_hostfile, value: /etc/mpi/hostfile}
  - {name: OMPI_MCA_orte_set_default_slots, value: "2"}
  - {name: I_MPI_HYDRA_BOOTSTRAP, value: rsh}
  - {name: I_MPI_HYDRA_BOOTSTRAP_EXEC, value: /etc/mpi/kubexec.sh}
  - {name: I_MPI_HYDRA_HOST_FILE, value: /etc/mpi/hostfile}
  - {name: NVIDIA_VISIBLE_DEVICES}
  - {name: NVIDIA_DRIVER_CAPABILITIES}
  volumeMounts: [{name: mpi-job-config, mountPath: /etc/mpi}]
`, &want)
	if diff := cmp.Diff(want, member(t, j, "launcher", 0).Spec); diff != "" {
		t.Errorf("launcher (-want +got):\n%s", diff)
	}
	want = corev1.PodSpec{}
	parse(t, `
restartPolicy: Never
volumes: [{name: mpi-job-config, configMap: {name: a-config, items: [{key: kubexec.sh, path: kubexec.sh, mode: 365}]}}]
containers: [{name: mpi, image: i, command: [sleep], args: [365d], volumeMounts: [{name: mpi-job-config, mountPath: /etc/mpi}]}]
`, &want)
	pod := member(t, j, "worker", 1)
	if diff := cmp.Diff(want, pod.Spec); diff != "" || pod.Name != "a-worker-1" {
		t.Errorf("worker %s (-want +got):\n%s", pod.Name, diff)
	}
	files, _ := artifacts(t, j)["ConfigMap a-config"].Object.(*corev1.ConfigMap)
	if got := files.Data["hostfile"]; got != "a-worker-0 slots=2\na-worker-1 slots=2\n" {
		t.Errorf("hosts are the names of pods: %q", got)
	}
	if p := compile(
		t,
		decode(t, "ROLES: {Launcher: {POD}}", "v1"),
	); p.Role("launcher").After != nil ||
		len(p.Roles) != 1 {
		t.Error("a launcher alone waits for nobody")
	}
	for policy, after := range map[string]podplan.OnFailure{"ExitCode": podplan.ReplaceRetriable, "OnFailure": podplan.Replace, "Never": podplan.FailJob} {
		if got := compile(t, decode(t, "ROLES: {Launcher: {restartPolicy: "+policy+", POD}}", "v1")).Roles[0].OnFailure; got != after {
			t.Errorf("%s: %v, want %v", policy, got, after)
		}
	}
}

// TestLauncherWithGPUs of v1 runs processes as well: that is how people ask for it there.
func TestLauncherWithGPUs(t *testing.T) {
	j := decode(
		t,
		"ROLES: {Launcher: {template: {spec: {containers: [{name: l, resources: {limits: {nvidia.com/gpu: 2}}}]}}}, Worker: {replicas: 1, POD}}",
		"v1",
	)
	files, _ := artifacts(t, j)["ConfigMap a-config"].Object.(*corev1.ConfigMap)
	if got := files.Data["hostfile"]; got != "a-launcher slots=1\na-worker-0 slots=1\n" {
		t.Errorf("hosts: %q", got)
	}
	for _, e := range member(t, j, "launcher", 0).Spec.Containers[0].Env {
		if strings.HasPrefix(e.Name, "NVIDIA") {
			t.Errorf("its GPUs are hidden: %v", e)
		}
	}
}

// TestKubectlIsBrought by an image that the author names, for no more than the launcher asks
// for: that is what the queue has counted.
func TestKubectlIsBrought(t *testing.T) {
	j := decode(
		t,
		"ROLES: {Launcher: {template: {spec: {containers: [{name: l, securityContext: {runAsUser: 7}, resources: {limits: {cpu: 2, nvidia.com/gpu: 2}, requests: {memory: 1Gi}}}]}}}}",
		"v1",
	)
	j.Annotations["mlbatch.dev/kubectl-image"] = "example/kubectl:1"
	var want []corev1.Container
	parse(t, `
- name: kubectl-delivery
  image: example/kubectl:1
  imagePullPolicy: IfNotPresent
  command: [sh, -c, 'cp "$(command -v kubectl)" /opt/kube/kubectl']
  securityContext: {runAsUser: 7}
  resources: {limits: {cpu: 2}, requests: {memory: 1Gi}}
  volumeMounts: [{name: mpi-job-kubectl, mountPath: /opt/kube}]
`, &want)
	spec := member(t, j, "launcher", 0).Spec
	if diff := cmp.Diff(want, spec.InitContainers); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if m := spec.Containers[0].VolumeMounts; m[len(m)-1].MountPath != "/opt/kube" ||
		spec.Volumes[len(spec.Volumes)-1].EmptyDir == nil {
		t.Errorf("the launcher does not get it: %v", m)
	}
}

// TestRightsOfLaunchers: a launcher may look at the workers of its own job and run commands
// in them, once they are there, and nothing else.
func TestRightsOfLaunchers(t *testing.T) {
	j := decode(t, "PAIR", "v1")
	all := artifacts(t, j)
	role, _ := all["Role a-launcher"].Object.(*rbacv1.Role)
	want := []rbacv1.PolicyRule{
		{
			APIGroups:     []string{""},
			Resources:     []string{"pods"},
			Verbs:         []string{"get"},
			ResourceNames: []string{"a-worker-0", "a-worker-1"},
		},
		{
			APIGroups:     []string{""},
			Resources:     []string{"pods/exec"},
			Verbs:         []string{"create"},
			ResourceNames: []string{"a-worker-0", "a-worker-1"},
		},
	}
	if diff := cmp.Diff(want, role.Rules); diff != "" {
		t.Errorf("rights (-want +got):\n%s", diff)
	}
	binding, _ := all["RoleBinding a-launcher"].Object.(*rbacv1.RoleBinding)
	if diff := cmp.Diff(
		[]rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "b", Name: "a-launcher"}},
		binding.Subjects,
	); diff != "" {
		t.Errorf("whose (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(
		rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "Role", Name: "a-launcher"},
		binding.RoleRef,
	); diff != "" {
		t.Errorf("which (-want +got):\n%s", diff)
	}
	if _, made := all["ServiceAccount a-launcher"]; !made {
		t.Error("a pod without its account is refused")
	}
	for name, tc := range map[string]struct {
		why   string
		spec  string
		there int32
	}{
		"a worker is missing": {"somebody else's pod can be called like it", "PAIR", 1},
		"none is there yet":   {"no more can any of them", "PAIR", 0},
		"no workers":          {"a rule without names is one for all pods", "ROLES: {Launcher: {POD}}", 0},
	} {
		role, _ := artifacts(t, decode(t, tc.spec, "v1"), tc.there)["Role a-launcher"].Object.(*rbacv1.Role)
		if len(role.Rules) > 0 {
			t.Errorf("%s: %s: %v", name, tc.why, role.Rules)
		}
	}
	named := decode(
		t,
		"ROLES: {Launcher: {template: {spec: {serviceAccountName: mine, containers: [{name: l}]}}}, Worker: {replicas: 1, POD}}",
		"v1",
	)
	for name := range artifacts(t, named) {
		if !strings.HasPrefix(name, "ConfigMap") {
			t.Errorf("an account that the author names gets rights that it did not have: %s", name)
		}
	}
	if got := member(t, named, "launcher", 0).Spec.ServiceAccountName; got != "mine" {
		t.Errorf("the launcher's account is %s", got)
	}
	var kinds []string
	for name := range artifacts(t, decode(t, "PAIR")) {
		kinds = append(kinds, name)
	}
	slices.Sort(kinds)
	if diff := cmp.Diff([]string{"ConfigMap a-config", "Secret a-ssh", "Service a"}, kinds); diff != "" {
		t.Errorf("jobs of v2beta1 need no rights (-want +got):\n%s", diff)
	}
	if _, err := mpijob.Kind().Running.Operator.Artifacts(j, nil, nil); err != nil {
		t.Error(err)
	}
}
