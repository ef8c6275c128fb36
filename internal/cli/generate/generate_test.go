package generate_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	aw "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	kubeflow "github.com/mlbatch/mlbatch/api/kubeflow/v1"
	"github.com/mlbatch/mlbatch/internal/cli/generate"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/appwrapper"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/pytorchjob"
	"github.com/mlbatch/mlbatch/internal/testkit"
)

// made is the manifest of values.
func made(t interface {
	Helper()
	Fatalf(format string, args ...any)
}, text string,
) string {
	t.Helper()
	v := generate.Defaults()
	places, err := v.Read("values.yaml", []byte(text))
	if err == nil {
		err = v.Check("values.yaml", places)
	}
	if err != nil {
		t.Fatalf("%s\n%v", text, err)
	}
	m, err := v.Manifest()
	if err != nil {
		t.Fatalf("%s\n%v", text, err)
	}
	out, err := yaml.Marshal(m)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return string(out)
}

const least = "jobName: a\ncontainerImage: i\n"

// alone are all values, each with what is to be seen of it. TestEachValue asks that none is
// forgotten.
var alone = []string{
	"jobName: another",
	"namespace: blue",
	"queueName: mine",
	"queueName: null",
	"priority: high-priority",
	"customLabels: [{key: team.io/X, value: B}, {key: a, value: ''}]",
	"containerImage: other:1",
	"imagePullSecrets: [{name: pull}]",
	"imagePullPolicy: Always",
	"numPods: 3",
	"numCpusPerPod: 500m",
	"numGpusPerPod: 8",
	"totalMemoryPerPod: 20Gi",
	"limitCpusPerPod: 2",
	"{numGpusPerPod: 2, limitGpusPerPod: 2}",
	"limitMemoryPerPod: 40Gi",
	"environmentVariables: [{name: A, value: 0}, {name: B, value: true}, {name: C, value: ''}, {name: D, secret: {name: s, key: k}}, {name: E, configmap: {name: c, key: k}}]",
	"envFrom: [{secretRef: {name: s}}, {configMapRef: {name: c, optional: true}, prefix: P_}]",
	"sshGitCloneConfig: {secretName: s, configMapName: c}",
	"sshGitCloneConfig: {secretName: s, configMapName: c, secretMountPath: /k, configMapMountPath: /h, sshCmd: ssh -q}",
	"setupCommands: [cd /x, 'echo \"a\"']",
	"mainProgram: train.py --lr 1",
	"volumes: [{name: v, claimName: c, mountPath: /v}]",
	"{numPods: 2, numRoceGdr: 2, roceGdrResName: my.com/rdma}",
	"{numPods: 2, numRoceGdr: 2}",
	"topologyFileConfigMap: topo",
	"ncclGdrEnvConfigMap: nccl",
	"multiNicNetworkName: net",
	"disableSharedMemory: true",
	"mountNVMe: {storage: 10Gi}",
	"mountNVMe: {storage: 10Gi, mountPath: /s, storageClassName: fast}",
	"initContainers: [{name: first, image: j, command: [sh, -c, ls]}]",
	"autopilotHealthChecks: [gpu-pcie-bw]",
	"hostIgnoreList: [n1, n2]",
	"schedulerName: default-scheduler",
	"schedulerName: sakkara",
	"schedulerName: sakkara-scheduler",
	"serviceAccountName: me",
	"serviceAccountName: gdr",
	"admissionGracePeriodDuration: 2m",
	"warmupGracePeriodDuration: 1h30m",
	"failureGracePeriodDuration: 3m",
	"retryPausePeriodDuration: 0s",
	"forcefulDeletionGracePeriodDuration: 4m",
	"deletionOnFailureGracePeriodDuration: 1d",
	"successTTLDuration: 2d",
	"retryLimit: 0",
	"restartPolicy: OnFailure",
	"terminationGracePeriodSeconds: 0",
	// Together they meet.
	"{topologyFileConfigMap: topo, disableSharedMemory: true}",
	"{schedulerName: sakkara, mainProgram: train.py, numGpusPerPod: 1, setupCommands: [ls]}",
	"{numGpusPerPod: 1, hostIgnoreList: [n1]}",
}

// TestEachValue: what each value changes in the manifest, and that none is forgotten.
func TestEachValue(t *testing.T) {
	base := strings.Split(made(t, least), "\n")
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", strings.Join(base, "\n"))
	seen := map[string]bool{}
	for _, text := range alone {
		var m map[string]any
		if err := yaml.Unmarshal([]byte(text), &m); err != nil {
			t.Fatal(err)
		}
		for key := range m {
			seen[key] = true
		}
		all := map[string]any{"jobName": "a", "containerImage": "i"}
		maps.Copy(all, m)
		whole, err := yaml.Marshal(all)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "== %s\n%s", text, difference(base, strings.Split(made(t, string(whole)), "\n")))
	}
	for _, s := range generate.Settings() {
		if !seen[s.Name] {
			t.Errorf("%s has no line in alone", s.Name)
		}
	}
	testkit.Golden(t, "testdata/values.txt", b.String())
}

// difference lists lines that went and came, by their longest common subsequence.
func difference(a, b []string) string {
	n := make([][]int, len(a)+1)
	for i := range n {
		n[i] = make([]int, len(b)+1)
	}
	for i := range slices.Backward(a) {
		for j := len(b) - 1; j >= 0; j-- {
			n[i][j] = max(n[i+1][j], n[i][j+1])
			if a[i] == b[j] {
				n[i][j] = n[i+1][j+1] + 1
			}
		}
	}
	var out strings.Builder
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			i, j = i+1, j+1
		case j >= len(b) || i < len(a) && n[i+1][j] >= n[i][j+1]:
			out.WriteString("-" + a[i] + "\n")
			i++
		default:
			out.WriteString("+" + b[j] + "\n")
			j++
		}
	}
	return out.String()
}

// TestSettingsAreTheValues: nothing of Values is without its setting, and the other way round.
func TestSettingsAreTheValues(t *testing.T) {
	var want, got []string
	for f := range reflect.TypeFor[generate.Values]().Fields() {
		want = append(want, f.Tag.Get("json"))
	}
	for _, s := range generate.Settings() {
		got = append(got, s.Name)
		if s.Help == "" || s.FlagName() != strings.ToLower(s.FlagName()) {
			t.Errorf("%s: flag %q, help %q", s.Name, s.FlagName(), s.Help)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-values +settings\n%s", diff)
	}
}

// TestRefusals: what is wrong is said with the line, the name and the cure.
func TestRefusals(t *testing.T) {
	for name, c := range map[string]struct{ why, text, want string }{
		"Typo":          {"a misspelt value would do nothing", "numPod: 2", `values.yaml:3:1: numPod: unknown field; did you mean "numPods"?`},
		"Nested":        {"within lists, too", "volumes:\n- name: v\n  claim: c", `values.yaml:5:3: volumes[0].claim: unknown field`},
		"Type":          {"what a value is", "numPods: two", `values.yaml:3:10: numPods: must be a whole number, not "two"`},
		"Name":          {"pods are named after it", "jobName: Big", `duplicate`},
		"NoJobName":     {"nothing can be made without", "", ""},
		"GPULimit":      {"the chart makes pods that Kubernetes refuses", "numGpusPerPod: 2\nlimitGpusPerPod: 4", `values.yaml:4:1: limitGpusPerPod: Invalid value: 4: must be numGpusPerPod, which is 2`},
		"CPULimit":      {"less than is requested", "limitCpusPerPod: 500m", `limitCpusPerPod: Invalid value: "500m": must not be less than numCpusPerPod, which is 1`},
		"Gdr":           {"one pod has nobody to talk to", "numRoceGdr: 2", "numRoceGdr: Invalid value: 2: must be 0 with one pod"},
		"Duration":      {"Go's and days", "successTTLDuration: 2 weeks", "successTTLDuration: Invalid value: \"2 weeks\": use a duration such as 90s, 1h30m or 2d"},
		"Enum":          {"all that there is", "imagePullPolicy: always", `imagePullPolicy: Unsupported value: "always": supported values: "IfNotPresent", "Always", "Never"`},
		"Label":         {"as Kubernetes has them", "customLabels: [{key: 'a b', value: c}]", "customLabels[0].key: Invalid value: \"a b\""},
		"QueueLabel":    {"two ways to name the queue", "customLabels: [{key: kueue.x-k8s.io/queue-name, value: c}]", "queues are asked for with queueName"},
		"Variable":      {"the chart fails in its template", "environmentVariables: [{name: A}]", "environmentVariables[0]: variable A: give one of value, secret and configmap"},
		"TwiceVariable": {"the last would win", "environmentVariables: [{name: A, value: 1}, {name: A, value: 2}]", `environmentVariables[1].name: Duplicate value: "A"`},
		"Topology":      {"set by another value", "topologyFileConfigMap: t\nenvironmentVariables: [{name: NCCL_TOPO_FILE, value: x}]", "topologyFileConfigMap sets it"},
		"Mount":         {"two volumes at one place", "volumes: [{name: v, claimName: c, mountPath: /dev/shm}]", `Duplicate value: "/dev/shm"`},
		"MountPath":     {"not relative", "volumes: [{name: v, claimName: c, mountPath: data}]", "volumes[0].mountPath: Invalid value: \"data\": must be an absolute path"},
		"Class":         {"a field that ours has", "mountNVMe: {storage: 1Gi, storageClass: x}", `did you mean "storageClassName"?`},
		"Retries":       {"as many as the chart allows", "retryLimit: 101", "retryLimit: Invalid value: 101: must be 100 or less"},
		"Pods":          {"at least the master", "numPods: 0", "numPods: Invalid value: 0: must be 1 or more"},
		"Second":        {"one document", "---\nnumPods: 2", "second document: keep one"},
	} {
		t.Run(name, func(t *testing.T) {
			text := least + c.text
			switch name {
			case "Name":
				text, c.want = "containerImage: i\njobName: Big", `values.yaml:2:1: jobName: Invalid value: "Big": use small letters`
			case "NoJobName":
				text, c.want = "containerImage: i", "values.yaml: jobName: must be given"
			}
			v := generate.Defaults()
			places, err := v.Read("values.yaml", []byte(text))
			if err == nil {
				err = v.Check("values.yaml", places)
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v; want %s: %s", err, c.want, c.why)
			}
		})
	}
}

// TestFlags: what can be typed for a value is the same as what a file says.
func TestFlags(t *testing.T) {
	for _, c := range []struct{ name, text, file string }{
		{"jobName", "b", "jobName: b"},
		{"numPods", "3", "numPods: 3"},
		{"numCpusPerPod", "500m", "numCpusPerPod: 500m"},
		{"retryLimit", "0", "retryLimit: 0"},
		{"customLabels", "a/b=c=d", "customLabels: [{key: a/b, value: c=d}]"},
		{"imagePullSecrets", "s", "imagePullSecrets: [{name: s}]"},
		{"environmentVariables", "A=b,c=d", "environmentVariables: [{name: A, value: 'b,c=d'}]"},
		{"environmentVariables", "{name: A, secret: {name: s, key: k}}", "environmentVariables: [{name: A, secret: {name: s, key: k}}]"},
		{"volumes", "name=v,claimName=c,mountPath=/x", "volumes: [{name: v, claimName: c, mountPath: /x}]"},
		{"mountNVMe", "storage=10Gi", "mountNVMe: {storage: 10Gi}"},
		{"setupCommands", "a, {b: c}", "setupCommands: ['a, {b: c}']"},
		{"disableSharedMemory", "true", "disableSharedMemory: true"},
		{"hostIgnoreList", "n1", "hostIgnoreList: [n1]"},
	} {
		settings := generate.Settings()
		s := &settings[slices.IndexFunc(settings, func(s generate.Setting) bool { return s.Name == c.name })]
		typed, read := generate.Defaults(), generate.Defaults()
		if err := typed.Set(s, c.text); err != nil {
			t.Errorf("%s %q: %v", c.name, c.text, err)
		}
		if _, err := read.Read("f", []byte(c.file)); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(read, typed); diff != "" {
			t.Errorf("%s %q: -file +flag\n%s", c.name, c.text, diff)
		}
	}
	for name, text := range map[string]string{"numPods": "x", "volumes": "v", "customLabels": "a", "mountNVMe": "size=3", "numCpusPerPod": "many"} {
		settings := generate.Settings()
		s := &settings[slices.IndexFunc(settings, func(s generate.Setting) bool { return s.Name == name })]
		if generate.Defaults().Set(s, text) == nil {
			t.Errorf("%s takes %q", name, text)
		}
	}
}

// TestAccepted: whatever passes Check is accepted by the rules of the webhooks, and its pods
// are those that were asked for.
func TestAccepted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parts := []string{"jobName: a", "containerImage: i"}
		taken := map[string]bool{"jobName": true, "containerImage": true}
		for _, text := range rapid.SliceOfN(rapid.SampledFrom(alone), 0, 8).Draw(t, "values") {
			key, _, _ := strings.Cut(strings.TrimPrefix(text, "{"), ":")
			if strings.HasPrefix(text, "{") || taken[key] {
				continue
			}
			taken[key] = true
			parts = append(parts, text)
		}
		n := rapid.Int32Range(1, 500).Draw(t, "pods")
		if !taken["numPods"] {
			parts = append(parts, fmt.Sprintf("numPods: %d", n))
		} else {
			n = 3
		}
		text := strings.Join(parts, "\n")
		out := made(t, text)
		var w aw.AppWrapper
		if err := yaml.UnmarshalStrict([]byte(out), &w); err != nil {
			t.Fatalf("%s\n%v", out, err)
		}
		if errs := appwrapper.Validate(&w); len(errs) > 0 {
			t.Fatalf("%s\n%v", out, errs)
		}
		var job kubeflow.PyTorchJob
		if err := yaml.UnmarshalStrict(w.Spec.Components[0].Template.Raw, &job); err != nil {
			t.Fatalf("%s\n%v", out, err)
		}
		kind := pytorchjob.Kind()
		if errs := kind.Admission.Validate(&job); len(errs) > 0 {
			t.Fatalf("%s\n%v", out, errs)
		}
		components, err := appwrapper.Components(&w)
		if err != nil {
			t.Fatal(err)
		}
		var pods int32
		for _, ps := range components[0].PodSets {
			pods += ps.Count
		}
		if pods != n {
			t.Fatalf("%s\nhas %d pods, want %d", out, pods, n)
		}
		infos := make([]aw.AppWrapperPodSetInfo, len(components[0].PodSets))
		for i := range infos {
			infos[i] = aw.AppWrapperPodSetInfo{
				NodeSelector: map[string]string{"flavor": "x"},
				Labels:       map[string]string{"admitted": "yes"},
			}
		}
		if _, err := appwrapper.Inject(
			&w,
			components[0],
			infos,
			appwrapper.InjectOptions{Schedulers: jobs.Schedulers{Given: "mlbatch-scheduler"}},
		); err != nil {
			t.Fatalf("%s\n%v", out, err)
		}
	})
}

// TestSchema: the schema knows every value, and is JSON.
func TestSchema(t *testing.T) {
	data, err := json.Marshal(generate.Schema())
	if err != nil {
		t.Fatal(err)
	}
	var s struct {
		Properties map[string]struct {
			Type []string
			Enum []any
		}
		AdditionalProperties *bool
	}
	if err := json.Unmarshal(data, &s); err != nil || s.AdditionalProperties == nil || *s.AdditionalProperties {
		t.Fatal(err, string(data))
	}
	for _, one := range generate.Settings() {
		if len(s.Properties[one.Name].Type) == 0 ||
			len(one.Enum) > 0 && len(s.Properties[one.Name].Enum) != len(one.Enum)+1 {
			t.Errorf("%s: %+v", one.Name, s.Properties[one.Name])
		}
	}
}

// FuzzValues: whatever is read is refused or made, and never a panic.
func FuzzValues(f *testing.F) {
	for _, text := range alone {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		v := generate.Defaults()
		places, err := v.Read("f", []byte(text))
		if err == nil && v.Check("f", places) == nil {
			if _, err := v.Manifest(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestNotes: what has no effect is told.
func TestNotes(t *testing.T) {
	v := generate.Defaults()
	if _, err := v.Read(
		"f",
		[]byte("autopilotHealthChecks: [a]\nschedulerName: sakkara\nsuccessTTLDuration: 2d"),
	); err != nil {
		t.Fatal(err)
	}
	if got := v.Notes(); len(got) != 3 {
		t.Error(got)
	}
}

// TestTable: the table of the documentation is made of the settings.
func TestTable(t *testing.T) {
	const page = "../../../docs/generate.md"
	var b strings.Builder
	b.WriteString("| value | flag | what it does | default |\n|---|---|---|---|\n")
	for _, s := range generate.Settings() {
		like := s.Like
		if like != "" {
			like = " `" + like + "`"
		}
		help := s.Help
		if len(s.Enum) > 0 {
			help += ": " + strings.Join(s.Enum, ", ")
		}
		fmt.Fprintf(&b, "| `%s` | `--%s`%s | %s | %s |\n", s.Name, s.FlagName(), like, help, s.Default)
	}
	testkit.Section(t, page, "values", b.String())
}
