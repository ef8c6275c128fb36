package raycluster_test

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	api "github.com/mlbatch/mlbatch/api/ray/v1"
	"github.com/mlbatch/mlbatch/internal/engine/podplan"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/raycluster"
)

const (
	pod  = "template: {spec: {containers: [{name: ray, image: i, resources: {limits: {cpu: 2, memory: 4Gi}, requests: {cpu: 1, memory: 2Gi}}}]}}"
	one  = "headGroupSpec: {POD}"
	some = "headGroupSpec: {POD}, workerGroupSpecs: [{groupName: small, replicas: 2, minReplicas: 1, maxReplicas: 5, POD}]"
)

// decode reads a cluster whose spec may name POD, a template.
func decode(t testing.TB, spec string) *api.RayCluster {
	t.Helper()
	c := &api.RayCluster{}
	text := "{metadata: {name: a, namespace: b, uid: u}, spec: {" + strings.ReplaceAll(spec, "POD", pod) + "}}"
	if err := yaml.UnmarshalStrict([]byte(text), c); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return c
}

func compile(t testing.TB, c *api.RayCluster) *jobs.Plan {
	t.Helper()
	k := raycluster.Kind()
	p, err := k.Running.Operator.Compile(c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// command is what the Ray container of a role runs.
func command(t testing.TB, p *jobs.Plan, role string) string {
	t.Helper()
	c := p.TemplateOf(podplan.Member{Role: role}).Spec.Containers[0]
	return strings.Join(slices.Concat(c.Command, c.Args), " ")
}

func variables(c *corev1.Container) map[string]string {
	out := map[string]string{}
	for _, e := range c.Env {
		out[e.Name] = e.Value
		switch v := e.ValueFrom; {
		case v == nil:
		case v.FieldRef != nil:
			out[e.Name] = "<" + v.FieldRef.FieldPath + ">"
		case v.SecretKeyRef != nil:
			out[e.Name] = "<" + v.SecretKeyRef.Name + "/" + v.SecretKeyRef.Key + ">"
		}
	}
	return out
}

// TestRoles: the head and each group are a role, with the names and labels by which people
// and Ray find pods.
func TestRoles(t *testing.T) {
	p := compile(t, decode(t, some))
	labels := func(node, group string) map[string]string {
		return map[string]string{
			"ray.io/is-ray-node": "yes",
			"ray.io/cluster":     "a",
			"ray.io/node-type":   node,
			"ray.io/group":       group,
			"ray.io/identifier":  "a-" + node,
		}
	}
	want := []podplan.Role{
		{
			Name:      "head",
			Count:     1,
			Member:    "a-head",
			Labels:    labels("head", "headgroup"),
			OnFailure: podplan.Replace,
			Forever:   true,
		},
		{
			Name:      "small",
			Count:     2,
			Member:    "a-small-worker-{index}",
			Labels:    labels("worker", "small"),
			OnFailure: podplan.Replace,
			Floating:  true,
		},
	}
	if diff := cmp.Diff(want, p.Roles); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if len(p.Success) > 0 {
		t.Errorf("a cluster never ends: %v", p.Success)
	}
	for _, template := range p.Templates {
		if template.Labels["app.kubernetes.io/name"] != "kuberay" ||
			template.Labels["app.kubernetes.io/created-by"] != "kuberay-operator" {
			t.Errorf("labels %v", template.Labels)
		}
	}
}

// TestCounts: how many pods there are, and for how many quota is asked.
func TestCounts(t *testing.T) {
	for name, tc := range map[string]struct {
		why, cluster, group string
		count, admitted     int32
	}{
		"Nothing":    {"the least, which is none", "", "", 0, 0},
		"Some":       {"", "", "replicas: 3,", 3, 3},
		"Hosts":      {"a replica is a pod on each", "", "replicas: 3, numOfHosts: 4,", 12, 12},
		"Least":      {"", "", "replicas: 1, minReplicas: 2,", 2, 2},
		"LeastAlone": {"", "", "minReplicas: 2,", 2, 2},
		"Most":       {"", "", "replicas: 9, maxReplicas: 4,", 4, 4},
		"Suspended":  {"the group has none", "", "replicas: 9, suspend: true,", 0, 0},
		"Grows":      {"all that it may grow to is counted before it does", "enableInTreeAutoscaling: true,", "replicas: 1, maxReplicas: 4, numOfHosts: 2,", 2, 8},
		"GrowsOff":   {"it may not grow", "enableInTreeAutoscaling: false,", "replicas: 1, maxReplicas: 4,", 1, 1},
		"GrowsNot":   {"nothing runs of it", "enableInTreeAutoscaling: true,", "replicas: 1, suspend: true,", 0, 0},
	} {
		c := decode(t, tc.cluster+" headGroupSpec: {POD}, workerGroupSpecs: [{groupName: g, "+tc.group+" POD}]")
		f, err := raycluster.Kind().Read(c)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := compile(t, c).Roles[1].Count; got != tc.count || f.PodSets[1].Count != tc.admitted ||
			f.PodSets[0].Count != 1 {
			t.Errorf(
				"%s: %s: %d pods are made, want %d; %v are counted",
				name,
				tc.why,
				got,
				tc.count,
				f.PodSets[1].Count,
			)
		}
	}
}

// TestStart: Ray is told what the container may use, and what its author says instead.
func TestStart(t *testing.T) {
	const head, worker = "ray start --head", "ray start --address=a-head-svc.b.svc.cluster.local:6379"
	limits := func(list string) string {
		return "headGroupSpec: {PARAMS template: {spec: {containers: [{name: ray, image: i, resources: {" + list + "}}]}}}"
	}
	for name, tc := range map[string]struct{ why, spec, role, want string }{
		"Head":      {"", one, "head", head + " --block --dashboard-agent-listen-port=52365 --dashboard-host=0.0.0.0 --memory=4294967296 --metrics-export-port=8080 --num-cpus=2"},
		"Worker":    {"it asks the head", some, "small", worker + " --block --dashboard-agent-listen-port=52365 --memory=4294967296 --metrics-export-port=8080 --num-cpus=2"},
		"Requests":  {"memory that is not a limit can be taken away", limits("requests: {cpu: 3, memory: 1Gi}"), "head", head + " --block --dashboard-agent-listen-port=52365 --dashboard-host=0.0.0.0 --metrics-export-port=8080 --num-cpus=3"},
		"Part":      {"part of a core is one", limits("limits: {cpu: 500m}"), "head", "--num-cpus=1"},
		"GPUs":      {"of any maker", limits("limits: {nvidia.com/gpu: 4}"), "head", "--num-gpus=4"},
		"TPUs":      {"Ray knows them by another name", limits("limits: {google.com/tpu: 4}"), "head", `--resources='{"TPU":4}'`},
		"Author":    {"what the author says stays", strings.Replace(limits("limits: {cpu: 4}"), "PARAMS", `rayStartParams: {num-cpus: "0", dashboard-host: 127.0.0.1, block: "false"},`, 1), "head", head + " --block --dashboard-agent-listen-port=52365 --dashboard-host=127.0.0.1 --metrics-export-port=8080 --num-cpus=0"},
		"Flags":     {"some options have no argument", strings.Replace(limits(""), "PARAMS", `rayStartParams: {no-monitor: "true", disable-usage-stats: "False", include-dashboard: "true", log-color: "false"},`, 1), "head", "--include-dashboard=true --log-color=false --metrics-export-port=8080 --no-monitor"},
		"Resources": {"the newer way to say it", "headGroupSpec: {resources: {CPU: '1', GPU: '2', memory: '5', disk: '7'}, labels: {zone: a, arch: x}, POD}", "head", `--labels=arch=x,zone=a --memory=5 --metrics-export-port=8080 --num-cpus=1 --num-gpus=2 --resources='{"disk":7}'`},
		"Grows":     {"the autoscaler is beside it", "enableInTreeAutoscaling: true, " + one, "head", "--no-monitor"},
		"Redis":     {"by the variable that it has", "gcsFaultToleranceOptions: {redisAddress: 'r:1', redisPassword: {value: p}, redisUsername: {value: u}}, " + one, "head", "--redis-password=$REDIS_PASSWORD --redis-username=$REDIS_USERNAME"},
		"Port":      {"the head's own", "headGroupSpec: {rayStartParams: {port: '7000'}, POD}, workerGroupSpecs: [{groupName: g, replicas: 1, POD}]", "g", "--address=a-head-svc.b.svc.cluster.local:7000"},
	} {
		got := command(t, compile(t, decode(t, strings.Replace(tc.spec, "PARAMS", "", 1))), tc.role)
		want := tc.want
		if strings.HasPrefix(want, "ray start") {
			want = "/bin/bash -c -- ulimit -n 65536; " + want
			if got != want {
				t.Errorf("%s: %s\n got %s\nwant %s", name, tc.why, got, want)
			}
		} else if !strings.Contains(got, want) {
			t.Errorf("%s: %s\n%s\nis not in %s", name, tc.why, want, got)
		}
	}
}

// TestCommands: what the author wants to run comes first, or instead.
func TestCommands(t *testing.T) {
	with := func(words string) string {
		return "headGroupSpec: {template: {spec: {containers: [{name: ray, image: i, " + words + "}]}}}"
	}
	for name, tc := range map[string]struct {
		why, words string
		leave      bool
		prefix     string
	}{
		"Before":    {"something to prepare", `command: ["echo 123"], args: ["456"]`, false, "/bin/bash -c -- echo 123 456 && ulimit -n 65536; ray start --head"},
		"Itself":    {"it starts Ray", `command: ["bash", "-c"], args: ["echo x; ray start --head --block"]`, false, "bash -c echo x; ray start --head --block"},
		"Overwrite": {"it is asked to be left", `command: ["sleep", "1"]`, true, "sleep 1"},
	} {
		c := decode(t, with(tc.words))
		if tc.leave {
			c.Annotations = map[string]string{"ray.io/overwrite-container-cmd": "true"}
		}
		p := compile(t, c)
		if got := command(t, p, "head"); !strings.HasPrefix(got, tc.prefix) {
			t.Errorf("%s: %s: %s", name, tc.why, got)
		}
		if v := variables(&p.Templates[0].Spec.Containers[0])["KUBERAY_GEN_RAY_START_CMD"]; !strings.HasPrefix(
			v,
			"ulimit -n 65536; ray start --head ",
		) {
			t.Errorf("%s: what would have been run is told: %s", name, v)
		}
	}
}

// TestEnvironment: what Ray and its tools ask for. A variable of the author's stays.
func TestEnvironment(t *testing.T) {
	p := compile(
		t,
		decode(
			t,
			strings.Replace(
				some,
				"POD",
				"template: {spec: {containers: [{name: ray, image: i, env: [{name: RAY_PORT, value: mine}]}, {name: side, image: j}]}}",
				1,
			),
		),
	)
	generated := "KUBERAY_GEN_RAY_START_CMD"
	common := map[string]string{
		"RAY_CLUSTER_NAME":                    "<metadata.labels['ray.io/cluster']>",
		"RAY_CLOUD_INSTANCE_ID":               "<metadata.name>",
		"RAY_NODE_TYPE_NAME":                  "<metadata.labels['ray.io/group']>",
		"RAY_USAGE_STATS_KUBERAY_IN_USE":      "1",
		"RAY_DASHBOARD_ENABLE_K8S_DISK_USAGE": "1",
	}
	for role, more := range map[string]map[string]string{
		"head":  {"RAY_PORT": "mine", "RAY_ADDRESS": "127.0.0.1:6379"},
		"small": {"RAY_PORT": "6379", "RAY_ADDRESS": "a-head-svc.b.svc.cluster.local:6379", "FQ_RAY_IP": "a-head-svc.b.svc.cluster.local", "RAY_IP": "a-head-svc"},
	} {
		template := p.TemplateOf(podplan.Member{Role: role})
		got := variables(&template.Spec.Containers[0])
		delete(got, generated)
		want := maps.Clone(common)
		maps.Copy(want, more)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", role, diff)
		}
	}
	if env := p.Templates[0].Spec.Containers[1].Env; len(env) > 0 {
		t.Errorf("a container beside it is told %v", env)
	}
}

// TestWorkers: they wait for the head, and need no more than their author wrote.
func TestWorkers(t *testing.T) {
	p := compile(t, decode(t, some))
	w := p.Templates[1].Spec
	if len(w.InitContainers) != 1 || w.InitContainers[0].Name != "wait-gcs-ready" ||
		w.InitContainers[0].Image != "i" {
		t.Fatalf("%+v", w.InitContainers)
	}
	init := w.InitContainers[0]
	if !strings.Contains(init.Args[0], "ray health-check --address a-head-svc.b.svc.cluster.local:6379 ") {
		t.Errorf("it asks %v", init.Args)
	}
	if cpu, memory := init.Resources.Requests.Cpu().
		String(),
		init.Resources.Requests.Memory().
			String(); cpu != "200m" ||
		memory != "256Mi" {
		t.Errorf("it asks for %s and %s", cpu, memory)
	}
	small := compile(t, decode(t, "headGroupSpec: {POD}, workerGroupSpecs: [{groupName: g, replicas: 1, template: {spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 100m}}}]}}}]")).Templates[1].Spec
	if r := small.InitContainers[0].Resources; r.Requests.Cpu().String() != "100m" || len(r.Requests) != 1 ||
		len(r.Limits) != 0 {
		t.Errorf("a small worker is counted with 100m and nothing else: %v", r)
	}
}

// TestPods: shared memory, probes and ports, where the author has none.
func TestPods(t *testing.T) {
	p := compile(t, decode(t, some))
	for i, template := range p.Templates {
		c := template.Spec.Containers[0]
		if c.LivenessProbe == nil || c.ReadinessProbe == nil ||
			strings.Contains(fmt.Sprint(c.ReadinessProbe.Exec.Command), "gcs_healthz") != (i == 0) {
			t.Errorf("probes %v, %v", c.LivenessProbe, c.ReadinessProbe)
		}
		v := template.Spec.Volumes
		if len(v) != 1 || v[0].EmptyDir.Medium != corev1.StorageMediumMemory ||
			v[0].EmptyDir.SizeLimit.String() != "2Gi" ||
			c.VolumeMounts[0].MountPath != "/dev/shm" {
			t.Errorf("volumes %v at %v", v, c.VolumeMounts)
		}
	}
	var ports []string
	for _, port := range p.Templates[0].Spec.Containers[0].Ports {
		ports = append(ports, fmt.Sprintf("%s=%d", port.Name, port.ContainerPort))
	}
	if got := strings.Join(
		ports,
		" ",
	); got != "client=10001 dashboard=8265 gcs-server=6379 serve=8000 metrics=8080" {
		t.Errorf("ports %s", got)
	}
	own := decode(
		t,
		`headGroupSpec: {template: {spec: {volumes: [{name: m, emptyDir: {}}], containers: [{name: ray, image: i, ports: [{name: dashboard, containerPort: 9000}], livenessProbe: {exec: {command: [x]}}, readinessProbe: {exec: {command: [why]}}, volumeMounts: [{name: m, mountPath: /dev/shm}]}]}}}`,
	)
	before := own.DeepCopy()
	c := compile(t, own).Templates[0].Spec
	if len(c.Volumes) != 1 || c.Containers[0].LivenessProbe.Exec.Command[0] != "x" ||
		c.Containers[0].ReadinessProbe.Exec.Command[0] != "why" ||
		len(c.Containers[0].Ports) != 2 {
		t.Errorf("what the author has stays: %+v", c)
	}
	if !equality.Semantic.DeepEqual(before, own) {
		t.Error("the user's object was changed")
	}
}

// TestVersion: with Recreate all pods are made anew when what they are made from changes, and
// not when Ray, or who queues it, changes the cluster.
func TestVersion(t *testing.T) {
	const group = "workerGroupSpecs: [{groupName: small, replicas: 2, minReplicas: 1, maxReplicas: 5, POD}]"
	is := compile(t, decode(t, "upgradeStrategy: {type: Recreate}, "+some))
	if !is.Renews || !is.Together || is.Version == "" {
		t.Errorf("%+v", is.Plan)
	}
	for spec, renews := range map[string]bool{one: false, "upgradeStrategy: {}, " + one: false, "upgradeStrategy: {type: None}, " + one: false} {
		if p := compile(t, decode(t, spec)); p.Renews != renews || p.Version == "" {
			t.Errorf("%s: %+v", spec, p.Plan)
		}
	}
	for name, tc := range map[string]struct {
		why, spec string
		same      bool
	}{
		"Strategy":  {"it is not about the pods", some, true},
		"Suspended": {"its queue does that", "suspend: true, " + some, true},
		"Scaled":    {"Ray does that", "headGroupSpec: {POD}, workerGroupSpecs: [{groupName: small, replicas: 3, minReplicas: 0, maxReplicas: 9, scaleStrategy: {workersToDelete: [a-small-worker-0]}, POD}]", true},
		"Paused":    {"a group that pauses leaves the others alone", "headGroupSpec: {POD}, workerGroupSpecs: [{groupName: small, suspend: true, replicas: 2, minReplicas: 1, maxReplicas: 5, POD}]", true},
		"Params":    {"", "headGroupSpec: {rayStartParams: {num-cpus: '0'}, POD}, " + group, false},
		"Head":      {"", strings.Replace(some, "POD", strings.Replace(pod, "image: i", "image: other", 1), 1), false},
		"Version":   {"", "rayVersion: 2.9.0, " + some, false},
		"Group":     {"upstream, too, makes all anew", "headGroupSpec: {POD}, workerGroupSpecs: [{groupName: small, POD}, {groupName: large, POD}]", false},
	} {
		if got := compile(t, decode(t, tc.spec)); (got.Version == is.Version) != tc.same {
			t.Errorf("%s: %s: %s and %s", name, tc.why, got.Version, is.Version)
		}
	}
}

// TestUnwanted: workers that Ray wants to lose go first, and the others of their replica
// with them.
func TestUnwanted(t *testing.T) {
	for name, tc := range map[string]struct {
		group string
		want  []int32
	}{
		"None":  {"", nil},
		"One":   {"scaleStrategy: {workersToDelete: [a-g-worker-1]},", []int32{1}},
		"Other": {"scaleStrategy: {workersToDelete: [a-h-worker-1, a-g-worker-x, a-g-worker--1, z]},", nil},
		"Hosts": {"numOfHosts: 2, scaleStrategy: {workersToDelete: [a-g-worker-3]},", []int32{2, 3}},
	} {
		p := compile(
			t,
			decode(t, "headGroupSpec: {POD}, workerGroupSpecs: [{groupName: g, replicas: 3, "+tc.group+" POD}]"),
		)
		if diff := cmp.Diff(tc.want, p.Roles[1].Unwanted); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestLongNames: a pod's name is that of a host, and no two groups share names.
func TestLongNames(t *testing.T) {
	c := decode(
		t,
		"headGroupSpec: {POD}, workerGroupSpecs: [{groupName: "+strings.Repeat(
			"g",
			62,
		)+"a, replicas: 1, POD}, {groupName: "+strings.Repeat(
			"g",
			62,
		)+"b, replicas: 1, POD}]",
	)
	c.Name = strings.Repeat("n", 54)
	p := compile(t, c)
	a, b := p.Roles[1].Expand(p.Roles[1].Member, 999_999), p.Roles[2].Expand(p.Roles[2].Member, 999_999)
	if len(a) > 63 || len(b) > 63 || a == b || !strings.HasPrefix(a, "nnnn") ||
		!strings.HasSuffix(a, "-worker-999999") {
		t.Errorf("%s and %s", a, b)
	}
	if len(p.Roles[0].Labels["ray.io/identifier"]) > 63 || len(p.Roles[1].Labels["ray.io/identifier"]) > 63 {
		t.Errorf("labels %v", p.Roles[1].Labels)
	}
	c.Name += "n"
	if errs := raycluster.Kind().Admission.Validate(c); len(errs) != 1 || errs[0].Field != "metadata.name" {
		t.Errorf("%v", errs)
	}
}

// artifacts of a cluster, by kind and name.
func artifacts(t testing.TB, c *api.RayCluster) map[string]jobs.Artifact {
	t.Helper()
	k := raycluster.Kind()
	all, err := k.Running.Operator.Artifacts(c, compile(t, c), &jobs.Progress{})
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]jobs.Artifact{}
	for _, a := range all {
		out[strings.TrimPrefix(fmt.Sprintf("%T", a.Object), "*v1.")+" "+a.Object.GetName()] = a
	}
	return out
}

// TestServices: the head is found before it is ready, by all of its ports.
func TestServices(t *testing.T) {
	all := artifacts(t, decode(t, some))
	if len(all) != 1 {
		t.Fatalf("%v", all)
	}
	s, _ := all["Service a-head-svc"].Object.(*corev1.Service)
	selector := map[string]string{
		"ray.io/is-ray-node": "yes",
		"ray.io/cluster":     "a",
		"ray.io/node-type":   "head",
		"ray.io/identifier":  "a-head",
	}
	if s.Spec.ClusterIP != "None" || !s.Spec.PublishNotReadyAddresses ||
		!maps.Equal(s.Spec.Selector, selector) ||
		len(s.Spec.Ports) != 5 {
		t.Errorf("%+v", s.Spec)
	}
	own, _ := artifacts(t, decode(t, `headServiceAnnotations: {x: z}, headGroupSpec: {serviceType: NodePort, headService: {metadata: {name: mine, labels: {ray.io/cluster: other, c: d}, annotations: {e: f}}, spec: {selector: {app: database}, ports: [{name: dashboard, port: 8265, nodePort: 30000}, {name: extra, port: 1}]}}, POD}`))["Service mine"].Object.(*corev1.Service)
	if own == nil || own.Spec.Type != corev1.ServiceTypeNodePort || own.Spec.ClusterIP != "" ||
		len(own.Spec.Ports) != 6 ||
		own.Annotations["x"] != "z" ||
		own.Annotations["e"] != "f" ||
		own.Labels["c"] != "d" {
		t.Errorf("%+v", own)
	}
	if !maps.Equal(own.Spec.Selector, selector) || own.Labels["ray.io/cluster"] != "a" {
		t.Errorf("it leads to the head and nowhere else: %v", own.Spec.Selector)
	}
	if hosts := artifacts(
		t,
		decode(t, "headGroupSpec: {POD}, workerGroupSpecs: [{groupName: g, numOfHosts: 2, POD}]"),
	); len(hosts) != 2 ||
		hosts["Service a-headless"].Object == nil {
		t.Errorf("%v", hosts)
	}
}

// TestRights: the head of a cluster that grows by itself may change its own cluster, and
// nobody else's.
func TestRights(t *testing.T) {
	grows := "enableInTreeAutoscaling: true, " + some
	all := artifacts(t, decode(t, grows))
	role, _ := all["Role a"].Object.(*rbacv1.Role)
	want := []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get", "list", "watch"}},
		{
			APIGroups:     []string{"ray.io"},
			Resources:     []string{"rayclusters"},
			ResourceNames: []string{"a"},
			Verbs:         []string{"get", "patch"},
		},
	}
	if role == nil || !equality.Semantic.DeepEqual(role.Rules, want) {
		t.Fatalf("%+v", role)
	}
	binding, _ := all["RoleBinding a"].Object.(*rbacv1.RoleBinding)
	if all["ServiceAccount a"].Object == nil || binding.RoleRef.Name != "a" || binding.RoleRef.Kind != "Role" ||
		len(binding.Subjects) != 1 ||
		binding.Subjects[0] != (rbacv1.Subject{Kind: "ServiceAccount", Name: "a", Namespace: "b"}) {
		t.Errorf("%+v", binding)
	}
	p := compile(t, decode(t, grows))
	head, worker := p.Templates[0].Spec, p.Templates[1].Spec
	if head.ServiceAccountName != "a" || worker.ServiceAccountName != "" {
		t.Errorf("who may: %q, %q", head.ServiceAccountName, worker.ServiceAccountName)
	}
	own := strings.Replace(
		grows,
		"POD",
		"template: {spec: {serviceAccountName: mine, containers: [{name: c, image: i}]}}",
		1,
	)
	all = artifacts(t, decode(t, own))
	if binding, _ := all["RoleBinding a"].Object.(*rbacv1.RoleBinding); all["ServiceAccount mine"].Object != nil ||
		binding.Subjects[0].Name != "mine" {
		t.Errorf("%v", all)
	}
}

// TestAutoscaler: the container that decides, counted with the head.
func TestAutoscaler(t *testing.T) {
	c := decode(
		t,
		`enableInTreeAutoscaling: true, autoscalerOptions: {version: v2, idleTimeoutSeconds: 5, upscalingMode: Default, image: j, imagePullPolicy: Always, env: [{name: A, value: b}], envFrom: [{secretRef: {name: s}}],
  volumeMounts: [{name: x, mountPath: /x}], securityContext: {runAsUser: 1}, resources: {limits: {cpu: 1}, requests: {cpu: 1}}}, `+some,
	)
	p := compile(t, c)
	head := p.Templates[0].Spec
	got := head.Containers[1]
	if got.Name != "autoscaler" || got.Image != "j" || got.ImagePullPolicy != corev1.PullAlways ||
		*got.SecurityContext.RunAsUser != 1 ||
		len(got.VolumeMounts) != 2 ||
		len(got.EnvFrom) != 1 {
		t.Errorf("%+v", got)
	}
	if v := variables(
		&got,
	); v["A"] != "b" || v["RAY_enable_autoscaler_v2"] != "1" || v["RAY_CLUSTER_NAMESPACE"] != "<metadata.namespace>" ||
		v["RAY_HEAD_POD_NAME"] != "<metadata.name>" {
		t.Errorf("%v", v)
	}
	if head.RestartPolicy != corev1.RestartPolicyNever ||
		p.Templates[1].Spec.RestartPolicy != corev1.RestartPolicyNever {
		t.Error("version 2 takes a restarted container for another node")
	}
	if later, err := raycluster.Kind().Read(
		c,
	); err != nil || !slices.Equal(later.Later, []string{"small"}) ||
		!slices.Equal(p.Roles[1].After, []podplan.Dependency{{Role: "head"}}) {
		t.Errorf("its head does not wait for workers that it may never have: %v, %v", later.Later, p.Roles[1].After)
	}
	if f, err := raycluster.Kind().Read(decode(t, some)); err != nil || len(f.Later) > 0 {
		t.Errorf("others start as a whole: %v, %v", f.Later, err)
	}
	if !strings.Contains(
		got.Args[0],
		"ray kuberay-autoscaler --cluster-name $(RAY_CLUSTER_NAME) --cluster-namespace $(RAY_CLUSTER_NAMESPACE)",
	) {
		t.Errorf("it runs %v", got.Args)
	}
	f, err := raycluster.Kind().Read(c)
	if err != nil {
		t.Fatal(err)
	}
	counted := f.PodSets[0].Template.Spec.Containers
	if len(counted) != 2 || counted[1].Resources.Requests.Cpu().String() != "1" {
		t.Errorf("it is counted: %+v", counted)
	}
	plain, err := raycluster.Kind().Read(decode(t, "enableInTreeAutoscaling: true, "+some))
	if err != nil {
		t.Fatal(err)
	}
	if r := plain.PodSets[0].Template.Spec.Containers[1].Resources; r.Requests.Cpu().String() != "500m" ||
		r.Limits.Memory().String() != "512Mi" {
		t.Errorf("%v", r)
	}
}

// TestToken: it is made for the cluster, and everything of the cluster has it.
func TestToken(t *testing.T) {
	c := decode(t, "authOptions: {mode: token}, enableInTreeAutoscaling: true, "+some)
	a := artifacts(t, c)["Secret a"]
	if a.Fill == nil || !a.Stays {
		t.Fatalf("%+v", a)
	}
	if err := a.Fill(bytes.NewReader(bytes.Repeat([]byte{7}, 32)), a.Object); err != nil {
		t.Fatal(err)
	}
	secret, _ := a.Object.(*corev1.Secret)
	if got := string(secret.Data["auth_token"]); got != strings.Repeat("07", 32) {
		t.Errorf("token %q", got)
	}
	if err := a.Fill(bytes.NewReader(nil), a.Object); err == nil {
		t.Error("without chance there is no token")
	}
	p := compile(t, c)
	for i, where := range []*corev1.Container{&p.Templates[0].Spec.Containers[0], &p.Templates[0].Spec.Containers[1], &p.Templates[1].Spec.Containers[0], &p.Templates[1].Spec.InitContainers[0]} {
		if v := variables(where); v["RAY_AUTH_MODE"] != "token" || v["RAY_AUTH_TOKEN"] != "<a/auth_token>" {
			t.Errorf("container %d: %v", i, v)
		}
	}
}

// TestTokensOfOthers: the token is one that its author has, or those of ServiceAccounts. A cluster
// whose author says nothing of the mode is never open.
func TestTokensOfOthers(t *testing.T) {
	const mount = "/var/run/secrets/ray.io/serviceaccount"
	for name, tc := range map[string]struct {
		why, options      string
		made              bool
		token, kubernetes string
		mounted           bool
	}{
		"Default":    {"options that say no mode ask for a token", "{}", true, "<a/auth_token>", "", false},
		"Off":        {"", "{mode: disabled}", false, "", "", false},
		"Named":      {"nothing is made beside the author's Secret", "{secretName: mine}", false, "<mine/auth_token>", "", false},
		"Empty":      {"", "{mode: token, secretName: ''}", true, "<a/auth_token>", "", false},
		"Kubernetes": {"Ray asks Kubernetes for the token that each pod has", "{mode: token, enableK8sTokenAuth: true}", false, "", "true", true},
	} {
		c := decode(t, "authOptions: "+tc.options+", enableInTreeAutoscaling: true, "+some)
		if _, made := artifacts(t, c)["Secret a"]; made != tc.made {
			t.Errorf("%s: %s: a Secret is made: %v", name, tc.why, made)
		}
		p := compile(t, c)
		for i, where := range []*corev1.Container{&p.Templates[0].Spec.Containers[0], &p.Templates[0].Spec.Containers[1], &p.Templates[1].Spec.Containers[0], &p.Templates[1].Spec.InitContainers[0]} {
			mounted := slices.ContainsFunc(
				where.VolumeMounts,
				func(m corev1.VolumeMount) bool { return m.Name == "ray-token" && m.MountPath == mount && m.ReadOnly },
			)
			if v := variables(
				where,
			); v["RAY_AUTH_TOKEN"] != tc.token || v["RAY_ENABLE_K8S_TOKEN_AUTH"] != tc.kubernetes ||
				mounted != tc.mounted {
				t.Errorf("%s: %s: container %d: %v, %v", name, tc.why, i, v, where.VolumeMounts)
			}
		}
		for i, template := range p.Templates {
			volumes := 0
			for _, v := range template.Spec.Volumes {
				if v.Projected != nil && v.Projected.Sources[0].ServiceAccountToken.Path == "token" {
					volumes++
				}
			}
			if (volumes == 1) != tc.mounted {
				t.Errorf("%s: template %d has %d volumes with a token", name, i, volumes)
			}
		}
	}
}

// TestScalerStart: an author starts the autoscaler otherwise, and Ray is told which one it is
// where its author says so.
func TestScalerStart(t *testing.T) {
	for name, tc := range map[string]struct{ why, options, runs, version string }{
		"Nothing": {"Ray knows which one it has", "{}", "ray kuberay-autoscaler", ""},
		"Args":    {"in the shell that there is", "{args: ['$KUBERAY_GEN_AUTOSCALER_START_CMD']}", "$KUBERAY_GEN_AUTOSCALER_START_CMD", ""},
		"Both":    {"", "{command: [sh, -c], args: [x]}", "sh -c x", ""},
		"One":     {"a newer Ray would take the other one", "{version: v1}", "ray kuberay-autoscaler", "0"},
		"Two":     {"", "{version: v2}", "ray kuberay-autoscaler", "1"},
	} {
		head := compile(t, decode(t, "enableInTreeAutoscaling: true, autoscalerOptions: "+tc.options+", "+some)).Templates[0].Spec
		got := head.Containers[1]
		if run := strings.Join(slices.Concat(got.Command, got.Args), " "); !strings.Contains(run, tc.runs) {
			t.Errorf("%s: %s: it runs %s", name, tc.why, run)
		}
		v := variables(&got)
		if !strings.HasPrefix(v["KUBERAY_GEN_AUTOSCALER_START_CMD"], "ray kuberay-autoscaler") ||
			v["RAY_enable_autoscaler_v2"] != tc.version ||
			variables(&head.Containers[0])["RAY_enable_autoscaler_v2"] != tc.version {
			t.Errorf("%s: %s: %v", name, tc.why, v)
		}
	}
}

// TestInitContainers: those of the author know where the head is, as many wait for it by name, and
// what they know already stays. The author's object is not changed.
func TestInitContainers(t *testing.T) {
	const inits = "template: {spec: {initContainers: [{name: wait, image: i}, {name: knows, image: i, env: [{name: RAY_IP, value: x}]}], containers: [{name: ray, image: i}]}}"
	c := decode(t, "headGroupSpec: {"+inits+"}, workerGroupSpecs: [{groupName: g, replicas: 1, "+inits+"}]")
	before := c.DeepCopy()
	for i, template := range compile(t, c).Templates {
		first, second := variables(&template.Spec.InitContainers[0]), variables(&template.Spec.InitContainers[1])
		if first["FQ_RAY_IP"] != "a-head-svc.b.svc.cluster.local" || first["RAY_IP"] != "a-head-svc" ||
			second["RAY_IP"] != "x" ||
			second["FQ_RAY_IP"] == "" {
			t.Errorf("template %d: %v, %v", i, first, second)
		}
	}
	if !equality.Semantic.DeepEqual(before, c) {
		t.Error("the object was changed")
	}
}

// TestLabels: labels of Ray's nodes are those of their pods, too, but for those by which pods are
// found to be of the cluster.
func TestLabels(t *testing.T) {
	const told = "labels: {zone: told, ray.io/group: other}, template: {metadata: {labels: {zone: written, app: x}}, spec: {containers: [{name: ray, image: i}]}}"
	p := compile(
		t,
		decode(t, "headGroupSpec: {"+told+"}, workerGroupSpecs: [{groupName: g, replicas: 1, "+told+"}]"),
	)
	for i, group := range []string{"headgroup", "g"} {
		got := maps.Clone(p.Templates[i].Labels)
		maps.Copy(got, p.Roles[i].Labels)
		if got["zone"] != "told" || got["app"] != "x" || got["ray.io/group"] != group {
			t.Errorf("%s: %v", group, got)
		}
	}
}

// TestPersistence: what has to survive the head is kept outside of it.
func TestPersistence(t *testing.T) {
	p := compile(
		t,
		decode(
			t,
			"gcsFaultToleranceOptions: {redisAddress: 'redis:6379', redisPassword: {valueFrom: {secretKeyRef: {name: s, key: k}}}}, "+some,
		),
	)
	head, worker := variables(&p.Templates[0].Spec.Containers[0]), variables(&p.Templates[1].Spec.Containers[0])
	if head["RAY_REDIS_ADDRESS"] != "redis:6379" || head["REDIS_PASSWORD"] != "<s/k>" ||
		head["RAY_external_storage_namespace"] != "u" ||
		worker["RAY_gcs_rpc_server_reconnect_timeout_s"] != "600" {
		t.Errorf("%v\n%v", head, worker)
	}
	if p.Templates[1].Annotations["ray.io/ft-enabled"] != "true" {
		t.Errorf("%v", p.Templates[1].Annotations)
	}
	c := decode(t, some)
	c.Annotations = map[string]string{"ray.io/ft-enabled": "true", "ray.io/external-storage-namespace": "mine"}
	if v := variables(
		&compile(t, c).Templates[0].Spec.Containers[0],
	); v["RAY_external_storage_namespace"] != "mine" {
		t.Errorf("%v", v)
	}
}

// TestRefused: an error names the field and the cure.
func TestRefused(t *testing.T) {
	k := raycluster.Kind()
	group := func(what string) string { return "headGroupSpec: {POD}, workerGroupSpecs: [{" + what + "}]" }
	for name, tc := range map[string]struct{ spec, field, cure string }{
		"NoHead":       {"headGroupSpec: {template: {}}", "spec.headGroupSpec.template.spec.containers", "runs Ray"},
		"NoWorker":     {group("groupName: g"), "spec.workerGroupSpecs[0].template.spec.containers", "runs Ray"},
		"NoName":       {group("groupName: '', POD"), "spec.workerGroupSpecs[0].groupName", "in their names"},
		"Capitals":     {group("groupName: Big, POD"), "spec.workerGroupSpecs[0].groupName", "small letters"},
		"HeadGroup":    {group("groupName: head, POD"), "spec.workerGroupSpecs[0].groupName", "another name"},
		"Twice":        {"headGroupSpec: {POD}, workerGroupSpecs: [{groupName: g, POD}, {groupName: g, POD}]", "spec.workerGroupSpecs[1].groupName", "Duplicate"},
		"Reversed":     {group("groupName: g, minReplicas: 3, maxReplicas: 2, POD"), "spec.workerGroupSpecs[0].minReplicas", "at most 2"},
		"Negative":     {group("groupName: g, replicas: -1, POD"), "spec.workerGroupSpecs[0].replicas", "from 0"},
		"Hosts":        {group("groupName: g, numOfHosts: -1, POD"), "spec.workerGroupSpecs[0].numOfHosts", "from 1"},
		"TooMany":      {group("groupName: g, replicas: 2000000000, numOfHosts: 2, POD"), "spec.workerGroupSpecs", "at most 1000000"},
		"TooManyLater": {group("groupName: g, suspend: true, replicas: 2000000000, numOfHosts: 2, POD"), "spec.workerGroupSpecs[0].replicas", "at most 1000000"},
		"Boundless":    {"enableInTreeAutoscaling: true, " + group("groupName: g, POD"), "spec.workerGroupSpecs[0].maxReplicas", "say how many"},
		"Manager":      {"managedBy: me, " + one, "spec.managedBy", "ray.io/kuberay-operator"},
		"ExternalName": {"headGroupSpec: {serviceType: ExternalName, POD}", "spec.headGroupSpec.serviceType", "ClusterIP"},
		"ExternalToo":  {"headGroupSpec: {headService: {spec: {type: ExternalName, externalName: x}}, POD}", "spec.headGroupSpec.headService.spec.type", "ClusterIP"},
		"ExternalIPs":  {"headGroupSpec: {headService: {spec: {externalIPs: [1.1.1.1]}}, POD}", "spec.headGroupSpec.headService.spec.externalIPs", "remove them"},
		"Elsewhere":    {"headGroupSpec: {headService: {metadata: {namespace: other}}, POD}", "spec.headGroupSpec.headService.metadata.namespace", "remove it"},
		"ServiceName":  {"headGroupSpec: {headService: {metadata: {name: A}}, POD}", "spec.headGroupSpec.headService.metadata.name", "lower case"},
		"TLS":          {"tlsOptions: {enabled: true}, " + one, "spec.tlsOptions.enabled", "RAY_USE_TLS"},
		"HeadLabels":   {"headGroupSpec: {labels: {a: 'b c'}, POD}", "spec.headGroupSpec.labels", "b c"},
		"GroupLabels":  {group("groupName: g, labels: {'a b': c}, POD"), "spec.workerGroupSpecs[0].labels", "a b"},
		"FQDN":         {"podFQDN: {mode: DNSOnly}, " + one, "spec.podFQDN", "remove it"},
		"Storage":      {"gcsFaultToleranceOptions: {backend: rocksdb, storage: {size: 1Gi}}, " + one, "spec.gcsFaultToleranceOptions.storage", "redisAddress"},
		"AuthMode":     {"authOptions: {mode: Token}, " + one, "spec.authOptions.mode", "disabled"},
		"AuthNone":     {"authOptions: {mode: disabled, enableK8sTokenAuth: true}, " + one, "spec.authOptions.enableK8sTokenAuth", "mode token"},
		"AuthBoth":     {"authOptions: {secretName: s, enableK8sTokenAuth: true}, " + one, "spec.authOptions.secretName", "one of them"},
		"AuthSecret":   {"authOptions: {secretName: A_b}, " + one, "spec.authOptions.secretName", "lower case"},
		"ScalerStart":  {"autoscalerOptions: {env: [{name: KUBERAY_GEN_AUTOSCALER_START_CMD, value: x}]}, " + one, "spec.autoscalerOptions.env", "use args"},
		"Network":      {"networkPolicy: {}, " + one, "spec.networkPolicy", "NetworkPolicy"},
		"Rocks":        {"gcsFaultToleranceOptions: {backend: rocksdb}, " + one, "spec.gcsFaultToleranceOptions.backend", "redis"},
		"NoRedis":      {"gcsFaultToleranceOptions: {}, " + one, "spec.gcsFaultToleranceOptions.redisAddress", "host and port"},
		"TwoPasswords": {"gcsFaultToleranceOptions: {redisAddress: r, redisPassword: {value: a, valueFrom: {fieldRef: {fieldPath: b}}}}, " + one, "spec.gcsFaultToleranceOptions.redisPassword.valueFrom", "one of them"},
		"Idle":         {"autoscalerOptions: {idleTimeoutSeconds: -1}, " + one, "spec.autoscalerOptions.idleTimeoutSeconds", "from 0"},
	} {
		c := decode(t, tc.spec)
		errs := k.Admission.Validate(c)
		if len(errs) != 1 || errs[0].Field != tc.field || !strings.Contains(errs[0].Error(), tc.cure) {
			t.Errorf("%s: %v", name, errs)
		}
		if _, err := k.Running.Operator.Compile(c); err == nil {
			t.Errorf("%s: it has a plan", name)
		}
		if _, err := k.Read(c); err == nil {
			t.Errorf("%s: it can be queued", name)
		}
		if was := decode(t, some); len(k.Admission.ValidateChange(was, c)) == 0 {
			t.Errorf("%s: it may become so", name)
		}
		if name != "Manager" && len(k.Admission.ValidateChange(c, c)) > 0 {
			t.Errorf("%s: what is so may stay so", name)
		}
	}
	many := "headGroupSpec: {POD}, workerGroupSpecs: ["
	for i := range 17 {
		many += fmt.Sprintf("{groupName: g%d, POD},", i)
	}
	if errs := k.Admission.Validate(
		decode(t, many+"]"),
	); len(errs) != 1 ||
		errs[0].Field != "spec.workerGroupSpecs" {
		t.Errorf("%v", errs)
	}
}

// TestWarnings: what is not done is said.
func TestWarnings(t *testing.T) {
	k := raycluster.Kind()
	for spec, want := range map[string]string{
		one: "",
		"headGroupSpec: {enableIngress: true, POD}": "enableIngress",
		"headGroupSpec: {ingressOptions: {}, POD}":  "enableIngress",
		"historyServerOptions: {}, " + one:          "historyServerOptions",
		"upgradeStrategy: {type: Recreate}, " + one: "",
		"upgradeStrategy: {type: None}, " + one:     "",
	} {
		got := strings.Join(k.Admission.Warnings(decode(t, spec), nothing()), "")
		if (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %q", spec, got)
		}
	}
}

// TestSuspension: starting clears the field and nothing else, and what the admission gives
// must fit into the pods.
func TestSuspension(t *testing.T) {
	k := raycluster.Kind()
	c := decode(t, "suspend: true, "+some)
	infos := []jobs.PodSetInfo{
		{Name: "head", NodeSelector: map[string]string{"a": "b"}},
		{Name: "small", Labels: map[string]string{"c": "d"}},
	}
	started, err := k.Start(c, infos)
	if err != nil {
		t.Fatal(err)
	}
	want := c.DeepCopy()
	want.Spec.Suspend = new(false)
	if diff := cmp.Diff(jobs.Object(want), started); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if _, err := k.Start(c, infos[:1]); err == nil {
		t.Error("pods without an admission cannot start")
	}
	other := decode(
		t,
		"suspend: true, headGroupSpec: {template: {spec: {nodeSelector: {a: z}, containers: [{name: c}]}}}",
	)
	if _, err := k.Start(other, infos); err == nil || !strings.Contains(err.Error(), "nodeSelector a") {
		t.Errorf("%v", err)
	}
	stopped, err := k.Stop(started, nil)
	if err != nil || !equality.Semantic.DeepEqual(stopped, c) {
		t.Errorf("%v, %v", stopped, err)
	}
	running := decode(t, some)
	provisioned := metav1.Condition{
		Type:    api.ClusterProvisioned,
		Status:  metav1.ConditionTrue,
		Message: "all pods are ready for the first time",
	}
	running.Status = api.RayClusterStatus{
		State:                 api.ClusterReady,
		DesiredWorkerReplicas: 2,
		ReadyWorkerReplicas:   1,
		Conditions: []metav1.Condition{
			provisioned,
			{Type: api.HeadPodReady, Status: metav1.ConditionTrue},
		},
	}
	if f, err := k.Read(running); err != nil || !f.Active || f.Ready {
		t.Errorf("one is not: %+v, %v", f, err)
	}
	running.Status.ReadyWorkerReplicas = 2
	if f, err := k.Read(running); err != nil || !f.Active || !f.Ready || f.Suspended || f.Finished != nil {
		t.Errorf("%+v, %v", f, err)
	}
	if m := k.Maker(running); m.Stopped || m.Ended || m.Deleting {
		t.Errorf("%+v", m)
	}
	if m := k.Maker(c); !m.Stopped {
		t.Errorf("%+v", m)
	}
	user := decode(
		t,
		"suspend: true, headGroupSpec: {template: {spec: {schedulerName: x, containers: [{name: c}]}}}, workerGroupSpecs: [{groupName: other, POD}]",
	)
	kept, _ := k.Admission.Keep(running, user, nil).(*api.RayCluster)
	if kept.Spec.Suspend != nil || kept.Spec.HeadGroupSpec.Template.Spec.SchedulerName != "" {
		t.Errorf("%+v", kept.Spec)
	}
	foreign := decode(t, "managedBy: kueue.x-k8s.io/multikueue, "+some)
	if k.Ours(foreign) || !k.Ours(decode(t, "managedBy: ray.io/kuberay-operator, "+some)) {
		t.Error("a cluster says who runs it")
	}
}

// TestAsAPart: a cluster that another job made is held, released and changed by it.
func TestAsAPart(t *testing.T) {
	child := raycluster.Child()
	c := decode(t, some)
	held := child.Hold(c)
	if s := child.See(held); !s.Held || s.Life != podplan.Pending {
		t.Errorf("%+v", s)
	}
	if diff := cmp.Diff(jobs.Object(decode(t, "suspend: false, "+some)), child.Release(held, c)); diff != "" {
		t.Error(diff)
	}
	c.Status = api.RayClusterStatus{
		Conditions: []metav1.Condition{{Type: api.ClusterProvisioned, Status: metav1.ConditionFalse}},
	}
	if s := child.See(c); s.Life != podplan.Running {
		t.Errorf("%+v", s)
	}
	c.Status.State = api.ClusterReady
	if s := child.See(c); s.Life != podplan.Ready {
		t.Errorf("%+v", s)
	}
	more := decode(t, strings.Replace(some, "replicas: 2", "replicas: 4", 1))
	if got, _ := child.Adjust(c, more).(*api.RayCluster); *got.Spec.WorkerGroupSpecs[0].Replicas != 4 {
		t.Errorf("%+v", got.Spec)
	}
	grows := decode(t, "enableInTreeAutoscaling: true, "+some)
	if got, _ := child.Adjust(grows, more).(*api.RayCluster); *got.Spec.WorkerGroupSpecs[0].Replicas != 2 {
		t.Errorf("Ray says how many: %+v", got.Spec)
	}
	if other := decode(t, one); child.Adjust(c, other) != jobs.Object(c) {
		t.Error("a running cluster keeps its groups")
	}
}

func at(seconds int64) time.Time { return time.Unix(1_000_000+seconds, 0).UTC() }

// TestStory tells state and conditions of a cluster in the words that scripts wait for.
func TestStory(t *testing.T) {
	k := raycluster.Kind()
	begun := podplan.RetryState{Started: at(10)}
	tally := func(head, workers int32) map[string]podplan.Tally {
		return map[string]podplan.Tally{"head": {Active: 1, Ready: head}, "small": {Active: 2, Ready: workers}}
	}
	c := decode(t, some)
	c.Generation = 3
	for _, chapter := range []struct {
		name    string
		suspend bool
		s       jobs.Progress
		state   api.ClusterState
		want    string
	}{
		{"held by its queue", true, jobs.Progress{Suspended: true, Now: at(0)}, "suspended", "HeadPodReady=False:HeadPodNotFound RayClusterProvisioned=False:RayClusterSuspended RayClusterSuspended=True:RayClusterSuspended"},
		{"admitted", false, jobs.Progress{RetryState: begun, Now: at(10)}, "", "HeadPodReady=False:HeadPodNotFound RayClusterProvisioned=False:RayClusterPodsProvisioning RayClusterSuspended=False:RayClusterSuspended RayClusterSuspending=False:RayClusterSuspended"},
		{"comes up", false, jobs.Progress{RetryState: begun, Counts: tally(0, 0), Now: at(11)}, "", "HeadPodReady=False:ContainersNotReady RayClusterProvisioned=False:RayClusterPodsProvisioning RayClusterSuspended=False:RayClusterSuspended RayClusterSuspending=False:RayClusterSuspended"},
		{"is there", false, jobs.Progress{RetryState: begun, Ready: true, Counts: tally(1, 2), Now: at(12)}, "ready", "HeadPodReady=True:HeadPodRunningAndReady RayClusterProvisioned=True:AllPodRunningAndReadyFirstTime RayClusterSuspended=False:RayClusterSuspended RayClusterSuspending=False:RayClusterSuspended"},
		{"loses a worker", false, jobs.Progress{RetryState: begun, Counts: tally(1, 1), Now: at(13)}, "ready", "HeadPodReady=True:HeadPodRunningAndReady RayClusterProvisioned=True:AllPodRunningAndReadyFirstTime RayClusterSuspended=False:RayClusterSuspended RayClusterSuspending=False:RayClusterSuspended"},
		{"is evicted", true, jobs.Progress{RetryState: begun, Counts: tally(1, 1), Now: at(14)}, "ready", "HeadPodReady=True:HeadPodRunningAndReady RayClusterProvisioned=True:AllPodRunningAndReadyFirstTime RayClusterSuspended=False:RayClusterSuspended RayClusterSuspending=True:RayClusterSuspending"},
		{"has gone", true, jobs.Progress{Suspended: true, Now: at(15)}, "suspended", "HeadPodReady=False:HeadPodNotFound RayClusterProvisioned=False:RayClusterSuspended RayClusterSuspended=True:RayClusterSuspended RayClusterSuspending=False:RayClusterSuspended"},
	} {
		c.Spec.Suspend = &chapter.suspend
		before := c.DeepCopy()
		out, _ := k.Running.Operator.Project(c, compile(t, c), &chapter.s).(*api.RayCluster)
		if !equality.Semantic.DeepEqual(before, c) {
			t.Fatalf("%s: the object was changed", chapter.name)
		}
		var shown []string
		for _, x := range out.Status.Conditions {
			shown = append(shown, fmt.Sprintf("%s=%s:%s", x.Type, x.Status, x.Reason))
		}
		slices.Sort(shown)
		if got := strings.Join(shown, " "); got != chapter.want || out.Status.State != chapter.state {
			t.Errorf("%s: %q\n got %s\nwant %s", chapter.name, out.Status.State, got, chapter.want)
		}
		if !out.Status.LastUpdateTime.Time.Equal(chapter.s.Now) || out.Status.ObservedGeneration != 3 {
			t.Errorf("%s: %v", chapter.name, out.Status)
		}
		again, _ := k.Running.Operator.Project(out, compile(t, out), &chapter.s).(*api.RayCluster)
		if diff := cmp.Diff(out, again); diff != "" {
			t.Errorf("%s: what is so stays so:\n%s", chapter.name, diff)
		}
		c = out
	}
	if unplanned := k.Running.Operator.Project(c, nil, &jobs.Progress{}); unplanned == nil {
		t.Error("a cluster that cannot be planned has a status, too")
	}
}

// TestNumbers: what people see in columns.
func TestNumbers(t *testing.T) {
	k := raycluster.Kind()
	c := decode(
		t,
		"headGroupSpec: {POD}, workerGroupSpecs: [{groupName: a, replicas: 2, minReplicas: 1, maxReplicas: 5, numOfHosts: 2, POD}, {groupName: b, replicas: 1, template: {spec: {containers: [{name: c, image: i, resources: {limits: {nvidia.com/gpu: 3, google.com/tpu: 4}}}]}}}]",
	)
	out, _ := k.Running.Operator.Project(c, compile(t, c), &jobs.Progress{Addresses: map[string]string{"head": "1.2.3.4"}, Counts: map[string]podplan.Tally{"head": {Active: 1, Ready: 1}, "a": {Active: 4, Ready: 3}, "b": {Active: 1}}, Now: at(1)}).(*api.RayCluster)
	s := out.Status
	if s.DesiredWorkerReplicas != 5 || s.MinWorkerReplicas != 2 || s.MaxWorkerReplicas != 2147483647 ||
		s.ReadyWorkerReplicas != 3 ||
		s.AvailableWorkerReplicas != 5 {
		t.Errorf("%+v", s)
	}
	if s.DesiredCPU.String() != "5" || s.DesiredMemory.String() != "10Gi" || s.DesiredGPU.String() != "3" ||
		s.DesiredTPU.String() != "4" {
		t.Errorf("%v %v %v %v", s.DesiredCPU, s.DesiredMemory, s.DesiredGPU, s.DesiredTPU)
	}
	if s.Head.PodName != "a-head" || s.Head.PodIP != "1.2.3.4" || s.Head.ServiceName != "a-head-svc" ||
		s.Endpoints["dashboard"] != "8265" {
		t.Errorf("%+v %v", s.Head, s.Endpoints)
	}
}

func TestNames(t *testing.T) {
	k := raycluster.Kind()
	if k.GVK() != api.GroupVersion.WithKind("RayCluster") || k.Naming.Resource != "rayclusters" ||
		k.Naming.Framework != "ray.io/raycluster" {
		t.Errorf("%v, %s, %s", k.GVK(), k.Naming.Resource, k.Naming.Framework)
	}
	if _, err := k.Read(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID("x")}}); err == nil {
		t.Error("a pod is no cluster")
	}
}

func BenchmarkCompile(b *testing.B) {
	c := decode(b, "headGroupSpec: {POD}, workerGroupSpecs: [{groupName: g, replicas: 1000, POD}]")
	b.ReportAllocs()
	for b.Loop() {
		compile(b, c)
	}
}

func BenchmarkProject(b *testing.B) {
	c := decode(b, "headGroupSpec: {POD}, workerGroupSpecs: [{groupName: g, replicas: 1000, POD}]")
	p := compile(b, c)
	k := raycluster.Kind()
	s := &jobs.Progress{
		RetryState: podplan.RetryState{Started: at(1)},
		Counts:     map[string]podplan.Tally{"head": {Active: 1, Ready: 1}, "g": {Active: 1000, Ready: 900}},
		Now:        at(2),
	}
	b.ReportAllocs()
	for b.Loop() {
		k.Running.Operator.Project(c, p, s)
	}
}

// TestSweep: what a cluster keeps in Redis is removed by a pod like its head, which asks for
// little and is found by no service.
func TestSweep(t *testing.T) {
	k := raycluster.Kind()
	of := func(spec string) *batchv1.Job { return k.Running.Operator.Finalization.Job(decode(t, spec)) }
	if j := of(some); j != nil {
		t.Errorf("it keeps nothing: %+v", j)
	}
	const redis = "gcsFaultToleranceOptions: {redisAddress: 'redis:6379', redisPassword: {valueFrom: {secretKeyRef: {name: s, key: k}}}}, "
	j := of(
		redis + "enableInTreeAutoscaling: true, " + strings.Replace(
			some,
			"headGroupSpec: {",
			"headGroupSpec: {rayStartParams: {num-cpus: '0'}, ",
			1,
		),
	)
	if j == nil || j.Name != "a-redis-cleanup" || *j.Spec.ActiveDeadlineSeconds != 300 ||
		*j.Spec.BackoffLimit != 0 {
		t.Fatalf("%+v", j)
	}
	p := j.Spec.Template
	if diff := cmp.Diff(
		map[string]string{"ray.io/cluster": "a", "ray.io/node-type": "redis-cleanup"},
		p.Labels,
	); diff != "" {
		t.Error(diff)
	}
	if len(p.Spec.Containers) != 1 || p.Spec.RestartPolicy != corev1.RestartPolicyNever ||
		p.Spec.ServiceAccountName != "" {
		t.Fatalf("%+v", p.Spec)
	}
	c := &p.Spec.Containers[0]
	env := variables(c)
	if env["RAY_REDIS_ADDRESS"] != "redis:6379" || env["REDIS_PASSWORD"] != "<s/k>" ||
		env["RAY_external_storage_namespace"] != "u" {
		t.Errorf("%v", env)
	}
	if c.LivenessProbe != nil || c.ReadinessProbe != nil || len(c.Ports) > 0 ||
		c.Resources.Limits.Cpu().String() != "200m" ||
		c.Resources.Requests.Memory().String() != "256Mi" {
		t.Errorf("%+v", c)
	}
	if !strings.Contains(strings.Join(c.Args, ""), "cleanup_redis_storage") {
		t.Errorf("%v", c.Args)
	}
	old := decode(t, some)
	old.Annotations = map[string]string{"ray.io/ft-enabled": "true", "ray.io/external-storage-namespace": "mine"}
	old.Spec.HeadGroupSpec.Template.Spec.Containers[0].Env = []corev1.EnvVar{
		{Name: "RAY_REDIS_ADDRESS", Value: "r:1"},
	}
	old.Spec.HeadGroupSpec.RayStartParams = map[string]string{"redis-password": "p"}
	if j := k.Running.Operator.Finalization.Job(
		old,
	); j == nil ||
		variables(&j.Spec.Template.Spec.Containers[0])["RAY_external_storage_namespace"] != "mine" ||
		variables(&j.Spec.Template.Spec.Containers[0])["REDIS_PASSWORD"] != "p" {
		t.Errorf("by annotations: %+v", j)
	}
	old.Spec.HeadGroupSpec.Template.Spec.Containers[0].Env = nil
	if j := k.Running.Operator.Finalization.Job(old); j != nil {
		t.Errorf("nobody says where: %+v", j)
	}
	old.Spec.HeadGroupSpec.Template.Annotations = map[string]string{"kueue.x-k8s.io/workload": "of its owner"}
	old.Name = strings.Repeat("a", 55)
	old.Spec.HeadGroupSpec.RayStartParams = nil
	old.Spec.GcsFaultToleranceOptions = &api.GcsFaultToleranceOptions{RedisAddress: "r"}
	if j := k.Running.Operator.Finalization.Job(old); len(j.Name) > 63 || len(j.Spec.Template.Annotations) > 0 {
		t.Errorf("%s is too long, or admitted with its owner: %v", j.Name, j.Spec.Template.Annotations)
	}
}
