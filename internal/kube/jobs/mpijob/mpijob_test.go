package mpijob_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/mlbatch/mlbatch/api/kubeflow/v2beta1"
	"github.com/mlbatch/mlbatch/internal/engine/lifecycle"
	"github.com/mlbatch/mlbatch/internal/engine/podplan"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/mpijob"
)

// decode reads a job whose spec may name POD, a template with one container, ROLES and PAIR,
// a launcher with two workers.
func decode(t testing.TB, spec string, v1 ...string) *v2beta1.MPIJob {
	t.Helper()
	spec = strings.NewReplacer(
		"PAIR",
		"mpiReplicaSpecs: {Launcher: {template: {spec: {containers: [{name: mpi, image: i}]}}}, Worker: {replicas: 2, template: {spec: {containers: [{name: mpi, image: i}]}}}}",
		"POD",
		"template: {spec: {containers: [{name: mpi, image: i}]}}",
		"ROLES",
		"mpiReplicaSpecs",
	).Replace(spec)
	j := &v2beta1.MPIJob{}
	if err := yaml.UnmarshalStrict(
		[]byte("{metadata: {name: a, namespace: b, uid: u}, spec: {"+spec+"}}"),
		j,
	); err != nil {
		t.Fatalf("%s: %v", spec, err)
	}
	for _, is := range v1 {
		j.Annotations = map[string]string{jobs.VersionAnnotation: is}
	}
	return j
}

func compile(t testing.TB, j *v2beta1.MPIJob) *jobs.Plan {
	t.Helper()
	p, err := mpijob.Kind().Running.Operator.Compile(j)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func member(t testing.TB, j *v2beta1.MPIJob, role string, index int32) *corev1.Pod {
	t.Helper()
	k := mpijob.Kind()
	pod, err := compile(
		t,
		j,
	).Pod(j, k.GVK(), podplan.Member{Role: role, Index: index}, &podplan.RetryState{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return pod
}

// artifacts are those of a job whose workers are all there, by kind and name.
func artifacts(t testing.TB, j *v2beta1.MPIJob, there ...int32) map[string]jobs.Artifact {
	t.Helper()
	p := compile(t, j)
	s := &jobs.Progress{Counts: map[string]podplan.Tally{}}
	if w := p.Role("worker"); w != nil {
		s.Counts["worker"] = podplan.Tally{Active: w.Count}
	}
	for _, n := range there {
		s.Counts["worker"] = podplan.Tally{Active: n}
	}
	all, err := mpijob.Kind().Running.Operator.Artifacts(j, p, s)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]jobs.Artifact{}
	for _, a := range all {
		out[strings.TrimPrefix(fmt.Sprintf("%T", a.Object), "*v1.")+" "+a.Object.GetName()] = a
	}
	return out
}

func TestNames(t *testing.T) {
	k := mpijob.Kind()
	if k.GVK() != v2beta1.GroupVersion.WithKind("MPIJob") || k.Naming.Resource != "mpijobs" ||
		k.Naming.Framework != "kubeflow.org/mpijob" ||
		k.Naming.Versions[0] != "v1" {
		t.Errorf("%v, %s, %s, %v", k.GVK(), k.Naming.Resource, k.Naming.Framework, k.Naming.Versions)
	}
}

// TestLauncherVersion: the launcher's Job carries a sum of what it is made from, which changes with
// all that the job's author may change of it, and with nothing else.
func TestLauncherVersion(t *testing.T) {
	k := mpijob.Kind()
	version := func(j *v2beta1.MPIJob) string {
		p := compile(t, j)
		o, err := p.Child(j, k.GVK(), podplan.Member{Role: "launcher"}, &podplan.RetryState{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if seen := p.SeeChild(
			k.Running.Operator.Child(batchv1.SchemeGroupVersion.WithKind("Job")),
			o,
		); seen.Version != p.Role("launcher").Version ||
			seen.Version == "" {
			t.Errorf("it is seen as of version %q, and its role has %q", seen.Version, p.Role("launcher").Version)
		}
		return p.Role("launcher").Version
	}
	was := version(decode(t, "PAIR"))
	for spec, same := range map[string]bool{
		"runPolicy: {suspend: true}, PAIR": true, "runPolicy: {cleanPodPolicy: All}, PAIR": true,
		"runPolicy: {backoffLimit: 9}, PAIR": false, "slotsPerWorker: 3, PAIR": false, "mpiImplementation: Intel, PAIR": false,
		"mpiReplicaSpecs: {Launcher: {template: {spec: {containers: [{name: mpi, image: other}]}}}, Worker: {replicas: 2, template: {spec: {containers: [{name: mpi, image: i}]}}}}": false,
		"mpiReplicaSpecs: {Launcher: {template: {spec: {containers: [{name: mpi, image: i}]}}}, Worker: {replicas: 4, template: {spec: {containers: [{name: mpi, image: x}]}}}}":     true,
	} {
		if got := version(decode(t, spec)); (got == was) != same {
			t.Errorf("%s: the same version: %v, want %v", spec, got == was, same)
		}
	}
}

// TestSSH is the contract of v2beta1, by which images and scripts find their way.
func TestSSH(t *testing.T) {
	j := decode(t, "slotsPerWorker: 4, runPolicy: {backoffLimit: 3, activeDeadlineSeconds: 60}, PAIR")
	p := compile(t, j)
	if diff := cmp.Diff(podplan.Success{{Roles: []string{"launcher"}}}, p.Success); diff != "" {
		t.Error(diff)
	}
	l, w := p.Role("launcher"), p.Role("worker")
	if l.Member != "a-launcher" || !l.Holds || l.After != nil || l.OnFailure != podplan.FailJob ||
		p.Make[0] == nil ||
		p.Make[1] != nil {
		t.Errorf("launcher %+v", l)
	}
	if !l.Kept || w.Kept {
		t.Errorf("of cleanPodPolicy All workers go, and not the launcher with its log: %v, %v", l.Kept, w.Kept)
	}
	if w.Member != "a-worker-{index}" || w.Holds || w.OnFailure != podplan.FailJob || len(w.Ports) > 0 {
		t.Errorf("worker %+v", w)
	}
	pod := member(t, j, "worker", 1)
	want := map[string]string{
		"training.kubeflow.org/operator-name": "mpi-operator",
		"training.kubeflow.org/job-name":      "a",
		"training.kubeflow.org/job-role":      "worker",
		"training.kubeflow.org/replica-index": "1",
		"training.kubeflow.org/replica-type":  "worker",
		"mlbatch.dev/job-uid":                 "u",
		"mlbatch.dev/role":                    "worker",
		"mlbatch.dev/index":                   "1",
		"mlbatch.dev/attempt":                 "0",
	}
	if diff := cmp.Diff(want, pod.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	var spec corev1.PodSpec
	parse(t, `
hostname: a-worker-1
subdomain: a
restartPolicy: Never
dnsConfig: {searches: [a.b.svc.cluster.local]}
volumes:
- name: ssh-auth
  secret:
    secretName: a-ssh
    defaultMode: 384
    items: [{key: ssh-privatekey, path: id_rsa}, {key: ssh-publickey, path: id_rsa.pub}, {key: ssh-publickey, path: authorized_keys}]
containers:
- name: mpi
  image: i
  command: [/usr/sbin/sshd, -De]
  env: [{name: K_MPI_JOB_ROLE, value: worker}]
  volumeMounts: [{name: ssh-auth, mountPath: /root/.ssh}]
`, &spec)
	if diff := cmp.Diff(spec, pod.Spec); diff != "" {
		t.Errorf("worker (-want +got):\n%s", diff)
	}
	o, err := p.Make[0](podplan.Member{Role: "launcher"}, &podplan.RetryState{}, jobs.Admitted{
		"launcher": {
			NodeSelector: map[string]string{"x": "y"},
			Labels:       map[string]string{"of": "the admission"},
		},
		"worker": {},
	})
	if err != nil {
		t.Fatal(err)
	}
	made, _ := o.(*batchv1.Job)
	var job batchv1.JobSpec
	parse(t, `
parallelism: 1
completions: 1
backoffLimit: 3
activeDeadlineSeconds: 60
podReplacementPolicy: Failed
template:
  metadata:
    labels:
      training.kubeflow.org/operator-name: mpi-operator
      training.kubeflow.org/job-name: a
      training.kubeflow.org/job-role: launcher
      training.kubeflow.org/replica-index: "0"
      training.kubeflow.org/replica-type: launcher
      mlbatch.dev/job-uid: u
      mlbatch.dev/role: launcher
      mlbatch.dev/index: "0"
      mlbatch.dev/attempt: "0"
      of: the admission
  spec:
    hostname: a-launcher
    subdomain: a
    restartPolicy: OnFailure
    nodeSelector: {x: "y"}
    volumes:
    - name: ssh-auth
      secret:
        secretName: a-ssh
        defaultMode: 384
        items: [{key: ssh-privatekey, path: id_rsa}, {key: ssh-publickey, path: id_rsa.pub}, {key: ssh-publickey, path: authorized_keys}]
    - name: mpi-job-config
      configMap: {name: a-config, items: [{key: hostfile, path: hostfile, mode: 292}, {key: discover_hosts.sh, path: discover_hosts.sh, mode: 365}]}
    containers:
    - name: mpi
      image: i
      env:
      - {name: K_MPI_JOB_ROLE, value: launcher}
      - {name: OMPI_MCA_orte_keep_fqdn_hostnames, value: "true"}
      - {name: OMPI_MCA_orte_default_hostfile, value: /etc/mpi/hostfile}
      - {name: OMPI_MCA_plm_rsh_args, value: -o ConnectionAttempts=10}
      - {name: OMPI_MCA_orte_set_default_slots, value: "4"}
      - {name: NVIDIA_VISIBLE_DEVICES}
      - {name: NVIDIA_DRIVER_CAPABILITIES}
      volumeMounts: [{name: ssh-auth, mountPath: /root/.ssh}, {name: mpi-job-config, mountPath: /etc/mpi}]
`, &job)
	if diff := cmp.Diff(job, made.Spec); diff != "" {
		t.Errorf("launcher (-want +got):\n%s", diff)
	}
	if made.Name != "a-launcher" || made.APIVersion != "batch/v1" || made.Kind != "Job" {
		t.Errorf("it is called %s %s %s", made.APIVersion, made.Kind, made.Name)
	}
	if _, err := p.Make[0](
		podplan.Member{Role: "launcher"},
		&podplan.RetryState{},
		jobs.Admitted{"worker": {}},
	); err == nil {
		t.Error("a launcher that was not admitted was made")
	}
}

func parse(t testing.TB, text string, into any) {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(text), into); err != nil {
		t.Fatal(err)
	}
}

// TestSSHChoices: what authors may choose, and what follows.
func TestSSHChoices(t *testing.T) {
	env := func(j *v2beta1.MPIJob, role string) string {
		var out []string
		for _, e := range member(t, j, role, 0).Spec.Containers[0].Env {
			out = append(out, e.Name+"="+e.Value)
		}
		return strings.Join(out, " ")
	}
	hosts := func(j *v2beta1.MPIJob) string {
		c, _ := artifacts(t, j)["ConfigMap a-config"].Object.(*corev1.ConfigMap)
		return c.Data["hostfile"]
	}
	const blank = " NVIDIA_VISIBLE_DEVICES= NVIDIA_DRIVER_CAPABILITIES="
	tests := map[string]struct {
		why, spec, env, hosts string
	}{
		"Open MPI": {
			"the default",
			"PAIR",
			"K_MPI_JOB_ROLE=launcher OMPI_MCA_orte_keep_fqdn_hostnames=true OMPI_MCA_orte_default_hostfile=/etc/mpi/hostfile OMPI_MCA_plm_rsh_args=-o ConnectionAttempts=10 OMPI_MCA_orte_set_default_slots=1" + blank,
			"a-worker-0.a.b.svc slots=1\na-worker-1.a.b.svc slots=1\n",
		},
		"Intel": {
			"Hydra has another form of the list",
			"mpiImplementation: Intel, slotsPerWorker: 2, PAIR",
			"K_MPI_JOB_ROLE=launcher I_MPI_HYDRA_HOST_FILE=/etc/mpi/hostfile I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS=-o ConnectionAttempts=10 I_MPI_PERHOST=2" + blank,
			"a-worker-0.a.b.svc:2\na-worker-1.a.b.svc:2\n",
		},
		"MPICH": {
			"Hydra again",
			"mpiImplementation: MPICH, PAIR",
			"K_MPI_JOB_ROLE=launcher HYDRA_HOST_FILE=/etc/mpi/hostfile HYDRA_LAUNCH_EXTRA_ARGS=-o ConnectionAttempts=10" + blank,
			"a-worker-0.a.b.svc:1\na-worker-1.a.b.svc:1\n",
		},
		"launcher works": {
			"it is the first host, and sees its GPUs",
			"mpiImplementation: MPICH, runLauncherAsWorker: true, PAIR",
			"K_MPI_JOB_ROLE=launcher HYDRA_HOST_FILE=/etc/mpi/hostfile HYDRA_LAUNCH_EXTRA_ARGS=-o ConnectionAttempts=10",
			"a-launcher.a.b.svc:1\na-worker-0.a.b.svc:1\na-worker-1.a.b.svc:1\n",
		},
		"launcher with GPUs": {
			"it asked for them",
			"mpiImplementation: MPICH, ROLES: {Launcher: {template: {spec: {containers: [{name: l, resources: {limits: {nvidia.com/gpu: 1}}}]}}}, Worker: {replicas: 1, POD}}",
			"K_MPI_JOB_ROLE=launcher HYDRA_HOST_FILE=/etc/mpi/hostfile HYDRA_LAUNCH_EXTRA_ARGS=-o ConnectionAttempts=10",
			"a-worker-0.a.b.svc:1\n",
		},
		"the author's variable": {
			"what an author says stays",
			"mpiImplementation: MPICH, ROLES: {Launcher: {template: {spec: {containers: [{name: l, env: [{name: HYDRA_LAUNCH_EXTRA_ARGS, value: -p 2222}]}]}}}, Worker: {replicas: 1, POD}}",
			"HYDRA_LAUNCH_EXTRA_ARGS=-p 2222 K_MPI_JOB_ROLE=launcher HYDRA_HOST_FILE=/etc/mpi/hostfile" + blank,
			"a-worker-0.a.b.svc:1\n",
		},
		"no workers": {
			"mpirun in one pod",
			"mpiImplementation: MPICH, runLauncherAsWorker: true, slotsPerWorker: 8, ROLES: {Launcher: {POD}}",
			"K_MPI_JOB_ROLE=launcher HYDRA_HOST_FILE=/etc/mpi/hostfile HYDRA_LAUNCH_EXTRA_ARGS=-o ConnectionAttempts=10",
			"a-launcher.a.b.svc:8\n",
		},
	}
	for name, tc := range tests {
		j := decode(t, tc.spec)
		if got := env(j, "launcher"); got != tc.env {
			t.Errorf("%s: %s:\n got %s\nwant %s", name, tc.why, got, tc.env)
		}
		if got := hosts(j); got != tc.hosts {
			t.Errorf("%s: %s:\n got %s\nwant %s", name, tc.why, got, tc.hosts)
		}
	}
	if w := compile(
		t,
		decode(t, "runLauncherAsWorker: true, PAIR"),
	).Role("worker"); w.Labels["training.kubeflow.org/replica-index"] != "{rank}" {
		t.Errorf("the first worker follows the launcher: %v", w.Labels)
	}
	waits := compile(t, decode(t, "launcherCreationPolicy: WaitForWorkersReady, PAIR")).Role("launcher")
	if diff := cmp.Diff([]podplan.Dependency{{Role: "worker"}}, waits.After); diff != "" {
		t.Errorf("the launcher waits: %s", diff)
	}
	for at, mode := range map[string]bool{"/root/.ssh": true, "/home/mpiuser/.ssh": false} {
		pod := member(t, decode(t, "sshAuthMountPath: "+at+", PAIR"), "worker", 0)
		if got := pod.Spec.Volumes[0].Secret.DefaultMode; (got != nil) != mode ||
			pod.Spec.Containers[0].VolumeMounts[0].MountPath != at {
			t.Errorf("keys at %s: mode %v, %v", at, got, pod.Spec.Containers[0].VolumeMounts)
		}
	}
	own := member(
		t,
		decode(
			t,
			"ROLES: {Launcher: {POD}, Worker: {replicas: 1, template: {spec: {hostname: h, hostNetwork: true, containers: [{name: w, args: [x]}]}}}}",
		),
		"worker",
		0,
	)
	if own.Spec.Hostname != "a-worker-0" || own.Spec.DNSPolicy != corev1.DNSClusterFirstWithHostNet ||
		own.Spec.Containers[0].Command != nil {
		t.Errorf(
			"hostname %s, %s, command %v",
			own.Spec.Hostname,
			own.Spec.DNSPolicy,
			own.Spec.Containers[0].Command,
		)
	}
}

// TestPolicies: what the run policy says, in either place.
func TestPolicies(t *testing.T) {
	for name, tc := range map[string]struct {
		why, policy string
		want        podplan.Plan
	}{
		"nothing":        {"workers never end by themselves, and would hold quota", "", podplan.Plan{CleanUp: podplan.RemoveRunning}},
		"older place":    {"manifests of both versions have it there", "cleanPodPolicy: All,", podplan.Plan{CleanUp: podplan.RemoveAll}},
		"both places":    {"the policy comes first", "cleanPodPolicy: All, runPolicy: {cleanPodPolicy: None},", podplan.Plan{CleanUp: podplan.Keep}},
		"limits":         {"", "runPolicy: {backoffLimit: 1, activeDeadlineSeconds: 60, ttlSecondsAfterFinished: 9},", podplan.Plan{CleanUp: podplan.RemoveRunning, Retries: new(int32(1)), Deadline: time.Minute, TTL: new(9 * time.Second)}},
		"suspended":      {"", "runPolicy: {suspend: true},", podplan.Plan{CleanUp: podplan.RemoveRunning, Suspended: true}},
		"training's own": {"manifests of v1 name it", "runPolicy: {managedBy: kubeflow.org/training-operator},", podplan.Plan{CleanUp: podplan.RemoveRunning}},
	} {
		for _, j := range []*v2beta1.MPIJob{decode(t, tc.policy+"PAIR"), decode(t, tc.policy+"PAIR", "v1")} {
			p := compile(t, j).Plan
			p.Roles, p.Success = nil, nil
			if diff := cmp.Diff(tc.want, p); diff != "" {
				t.Errorf("%s: %s (-want +got):\n%s", name, tc.why, diff)
			}
			if !mpijob.Kind().Ours(j) {
				t.Errorf("%s: it is left to others", name)
			}
		}
	}
	if mpijob.Kind().Ours(decode(t, "runPolicy: {managedBy: kueue.x-k8s.io/multikueue}, PAIR")) {
		t.Error("a job of another cluster is run here")
	}
}

// TestRefusals: what cannot run is refused with field and cure, whoever reads it.
func TestRefusals(t *testing.T) {
	const volume = "template: {spec: {containers: [{name: mpi}], volumes: [{name: %s}]}}"
	const at = "spec.mpiReplicaSpecs."
	for name, tc := range map[string]struct {
		why, spec, field, cure string
		v1                     []string
	}{
		"no launcher":      {"nothing would end it", "ROLES: {Worker: {replicas: 1, POD}}", at + "Launcher", "has one", nil},
		"two launchers":    {"which of them", "ROLES: {Launcher: {replicas: 2, POD}}", at + "Launcher.replicas", "use 1", nil},
		"twice in letters": {"capitals make no other role", "ROLES: {Launcher: {POD}, launcher: {restartPolicy: Never, POD}}", at + "launcher", "keep one", nil},
		"zero workers":     {"a mistake, if one writes the role", "ROLES: {Launcher: {POD}, Worker: {replicas: 0, POD}}", at + "Worker.replicas", "use at least 1", nil},
		"unsaid workers":   {"upstream it is none, which is refused", "ROLES: {Launcher: {POD}, Worker: {POD}}", at + "Worker.replicas", "use at least 1", nil},
		"unknown role":     {"nobody knows it", "ROLES: {Launcher: {POD}, PS: {POD}}", at + "PS", `"Launcher"`, nil},
		"no container":     {"nothing would run", "ROLES: {Launcher: {template: {spec: {containers: []}}}}", at + "Launcher.template.spec.containers", "a pod has one", nil},
		"always":           {"a Job has no such pods", "ROLES: {Launcher: {restartPolicy: Always, POD}}", at + "Launcher.restartPolicy", `"OnFailure"`, nil},
		"exit code":        {"as upstream", "ROLES: {Launcher: {POD}, Worker: {replicas: 1, restartPolicy: ExitCode, POD}}", at + "Worker.restartPolicy", `"Never"`, nil},
		"exit code, v1":    {"there it may be", "ROLES: {Launcher: {replicas: 0, POD}, Worker: {replicas: 1, restartPolicy: ExitCode, POD}}", at + "Launcher.replicas", "use 1", []string{"v1"}},
		"implementation":   {"", "mpiImplementation: LAM, PAIR", "spec.mpiImplementation", `"MPICH"`, nil},
		"creation":         {"", "launcherCreationPolicy: Later, PAIR", "spec.launcherCreationPolicy", `"WaitForWorkersReady"`, nil},
		"keys":             {"no place in a container", "sshAuthMountPath: .ssh, PAIR", "spec.sshAuthMountPath", "begins with /", nil},
		"slots":            {"less than none", "slotsPerWorker: -1, PAIR", "spec.slotsPerWorker", "from 0", nil},
		"slots, v1":        {"less than none", "slotsPerWorker: -1, PAIR", "spec.slotsPerWorker", "from 0", []string{"v1"}},
		"manager":          {"", "runPolicy: {managedBy: me}, PAIR", "spec.runPolicy.managedBy", "kubeflow.org/mpi-operator", nil},
		"key volume":       {"two of one name", "ROLES: {Launcher: {" + strings.Replace(volume, "%s", "ssh-auth", 1) + "}}", at + "Launcher.template.spec.volumes[0].name", "another one", nil},
		"worker's volume":  {"two of one name", "ROLES: {Launcher: {POD}, Worker: {replicas: 1, " + strings.Replace(volume, "%s", "ssh-auth", 1) + "}}", at + "Worker.template.spec.volumes[0].name", "another one", nil},
		"files":            {"two of one name", "ROLES: {Launcher: {" + strings.Replace(volume, "%s", "mpi-job-config", 1) + "}}", at + "Launcher.template.spec.volumes[0].name", "another one", []string{"v1"}},
		"main container":   {"nobody is called that", "mainContainer: x, PAIR", "spec.mainContainer", "role Worker", []string{"v1"}},
		"too many hosts":   {"no ConfigMap has them", "ROLES: {Launcher: {POD}, Worker: {replicas: 100000, POD}}", at + "Worker.replicas", "fewer replicas", nil},
	} {
		j, k := decode(t, tc.spec, tc.v1...), mpijob.Kind()
		errs := k.Admission.Validate(j)
		found := false
		for _, e := range errs {
			found = found || e.Field == tc.field && strings.Contains(e.Error(), tc.cure)
		}
		if !found {
			t.Errorf("%s: %s: got %v, want %s: %s", name, tc.why, errs, tc.field, tc.cure)
		}
		if _, err := k.Running.Operator.Compile(j); err == nil {
			t.Errorf("%s: it compiled", name)
		}
		if _, err := k.Read(j); err == nil {
			t.Errorf("%s: it could be queued", name)
		}
	}
	for name, j := range map[string]*v2beta1.MPIJob{
		"no workers": decode(t, "ROLES: {Launcher: {POD}}"), "no workers, v1": decode(t, "ROLES: {Launcher: {POD}, Worker: {POD}}", "v1"),
		"no slots": decode(t, "slotsPerWorker: 0, PAIR"),
	} {
		if errs := mpijob.Kind().Admission.Validate(j); len(errs) > 0 {
			t.Errorf("%s: %v", name, errs)
		}
	}
	for length, ok := range map[int]bool{54: true, 55: false} { // -launcher, -worker-0
		j := decode(t, "PAIR")
		j.Name = strings.Repeat("a", length)
		if errs := mpijob.Kind().Admission.Validate(j); (len(errs) == 0) != ok {
			t.Errorf("a name of %d characters: %v", length, errs)
		}
	}
}

// TestListOfHosts: a job may have as many workers as their list has room in a ConfigMap.
func TestListOfHosts(t *testing.T) {
	for workers, want := range map[int]int{40000: 0, 40001: 1} { // abc-worker-12345 slots=1
		j := decode(t, fmt.Sprintf("ROLES: {Launcher: {POD}, Worker: {replicas: %d, POD}}", workers), "v1")
		j.Name = "abc"
		if errs := mpijob.Kind().Admission.Validate(j); len(errs) != want {
			t.Errorf("%d workers: %v", workers, errs)
		}
	}
}

// TestSidecars: variables are for the container that does the work, and what belongs to a job
// is found by its labels.
func TestSidecars(t *testing.T) {
	const two = "template: {spec: {containers: [{name: mpi}, {name: side}]}}"
	for _, j := range []*v2beta1.MPIJob{decode(t, "ROLES: {Launcher: {"+two+"}, Worker: {replicas: 1, "+two+"}}"), decode(t, "ROLES: {Launcher: {"+two+"}, Worker: {replicas: 1, "+two+"}}", "v1")} {
		all := member(t, j, "launcher", 0).Spec.Containers
		if len(all[0].Env) == 0 || len(all[1].Env) > 0 {
			t.Errorf("variables: %v, and beside it %v", all[0].Env, all[1].Env)
		}
		for name, a := range artifacts(t, j) {
			if diff := cmp.Diff(
				map[string]string{"app": "a", "training.kubeflow.org/job-name": "a"},
				a.Object.GetLabels(),
			); diff != "" {
				t.Errorf("%s: labels (-want +got):\n%s", name, diff)
			}
		}
	}
}

// TestVersionStays: which contract a job has is known from the mark alone, and stays.
func TestVersionStays(t *testing.T) {
	k := mpijob.Kind()
	was, is := decode(t, "PAIR"), decode(t, "PAIR", "v1")
	for _, pair := range [][2]*v2beta1.MPIJob{{was, is}, {is, was}} {
		if errs := k.Admission.ValidateChange(
			pair[0],
			pair[1],
		); len(errs) != 1 ||
			!strings.Contains(errs[0].Error(), "create it anew") {
			t.Errorf("the version was changed: %v", errs)
		}
		if kept := k.Admission.Keep(
			pair[0],
			pair[1],
			nil,
		); kept.GetAnnotations()[jobs.VersionAnnotation] != pair[0].Annotations[jobs.VersionAnnotation] {
			t.Errorf("an apply without the mark made it %v, from %v", kept.GetAnnotations(), pair[0].Annotations)
		}
	}
	if errs := k.Admission.ValidateChange(is, is); len(errs) > 0 {
		t.Error(errs)
	}
	odd := decode(t, "PAIR", "v2")
	if p := compile(t, odd); p.Make == nil {
		t.Error("a mark that is none was taken for one")
	}
}

func TestWarnings(t *testing.T) {
	for _, tc := range []struct {
		spec string
		v1   []string
		want string
	}{
		{"PAIR", nil, ""},
		{"runLauncherAsWorker: true, sshAuthMountPath: /s, launcherCreationPolicy: AtStartup, mpiImplementation: Intel, PAIR", nil, ""},
		{"mainContainer: mpi, PAIR", nil, "spec.mainContainer: it has no effect in this version of the API: use kubeflow.org/v1"},
		{"mainContainer: mpi, runLauncherAsWorker: false, PAIR", []string{"v1"}, ""},
		{"runLauncherAsWorker: true, PAIR", []string{"v1"}, "spec.runLauncherAsWorker: it has no effect in this version of the API: use kubeflow.org/v2beta1"},
	} {
		k := mpijob.Kind()
		if got := strings.Join(
			k.Admission.Warnings(decode(t, tc.spec, tc.v1...), lifecycle.Defaults()),
			"; ",
		); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.spec, got, tc.want)
		}
	}
}
