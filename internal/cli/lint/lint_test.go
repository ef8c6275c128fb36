package lint_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/examples"
	"github.com/mlbatch/mlbatch/internal/cli/lint"
	"github.com/mlbatch/mlbatch/internal/cli/manifest"
	"github.com/mlbatch/mlbatch/internal/finding"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
	"github.com/mlbatch/mlbatch/internal/testkit"
)

// job is a Job in order, with holes: of its metadata, its spec and its pods' spec, of resources.
func job(metadata, spec, pods, resources string) string {
	if resources == "" {
		resources = "limits: {cpu: 1, memory: 1Gi}"
	}
	return fmt.Sprintf(`apiVersion: batch/v1
kind: Job
metadata:
  name: a
  labels: {kueue.x-k8s.io/queue-name: q}
%s
spec:
%s
  template:
    spec:
      restartPolicy: Never
%s
      containers:
      - name: c
        image: i:1
        resources: {%s}
`, metadata, spec, pods, resources)
}

const pytorch = `apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: a, labels: {kueue.x-k8s.io/queue-name: q}}
spec:
  pytorchReplicaSpecs:
    %s:
      restartPolicy: %s
      template: {spec: {containers: [{name: pytorch, image: "i:1", resources: {limits: {cpu: 1, memory: 1Gi}}}]}}
`

// wrong are manifests in which one rule finds something, by rule: what is found is told in one
// line.
var wrong = map[string]struct{ why, text, want string }{
	"unknown-field": {
		"a misspelt field does nothing",
		job("", "  paralelism: 2", "", ""),
		`f:8:3: error: Job a: spec.paralelism: unknown field; did you mean "parallelism"? (unknown-field)`,
	},
	"invalid-field": {
		"what a field is",
		job("", "  parallelism: two", "", ""),
		`f:8:16: error: Job a: spec.parallelism: must be a whole number, not "two" (invalid-field)`,
	},
	"refused": {
		"it would go around the scheduler",
		job("", "", "      nodeName: n1", ""),
		`f:12:7: error: Job a: spec.template.spec.nodeName: it goes around the scheduler: use nodeSelector {kubernetes.io/hostname: n1} to ask for a node (refused)`,
	},
	"no-effect": {
		"a misspelt parameter",
		wrapped("metadata: {name: w, annotations: {workload.codeflare.dev.appwrapper/retryLimits: \"3\"}}"),
		`warning: AppWrapper w: metadata.annotations[workload.codeflare.dev.appwrapper/retryLimits]: annotation workload.codeflare.dev.appwrapper/retryLimits: "3" is ignored: there is no such parameter (no-effect)`,
	},
	"deprecated": {
		"nodes have no such label any more",
		job("", "", "      nodeSelector: {beta.kubernetes.io/os: linux}", ""),
		`f:12:22: warning: Job a: spec.template.spec.nodeSelector[beta.kubernetes.io/os]: nodes no longer have this label: use kubernetes.io/os (deprecated)`,
	},
	"sakkara": {
		"its pods would wait",
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, labels: {sakkara.group: ''}}\ndata:\n  name: g\n  size: '7'\n  constraints: '{\"rack\": {\"partitions\": 2}}'",
		"f:7:3: error: ConfigMap a: data.constraints: constraints.rack.partitions: 7 pods cannot be cut into 2 equal parts (sakkara)",
	},
	"no-queue": {
		"it is held",
		strings.Replace(job("", "", "", ""), "kueue.x-k8s.io/queue-name", "x", 1),
		`f:3:1: warning: Job a: metadata: names no queue: without the label kueue.x-k8s.io/queue-name it is held, unless its namespace has a default queue (no-queue)`,
	},
	"no-master": {
		"scripts do not find each other",
		fmt.Sprintf(pytorch, "Worker", "Never"),
		`f:5:3: warning: PyTorchJob a: spec.pytorchReplicaSpecs: there are workers and no Master: their scripts get no MASTER_ADDR, RANK and WORLD_SIZE (no-master)`,
	},
	"no-requests": {
		"quota counts nothing",
		job("", "", "", "limits: {cpu: 1}"),
		`f:16:9: warning: Job a: spec.template.spec.containers[0].resources: container c requests no memory: quota counts nothing for it (no-requests)`,
	},
	"gpu-limits": {
		"Kubernetes refuses the pods",
		job("", "", "", "limits: {cpu: 1, memory: 1Gi}, requests: {nvidia.com/gpu: 2}"),
		`f:16:9: error: Job a: spec.template.spec.containers[0].resources: container c requests 2 of nvidia.com/gpu, and its limit is not set: set both to the same (gpu-limits)`,
	},
	"no-limits": {
		"it may starve those beside it",
		job("", "", "", "limits: {cpu: 1, nvidia.com/gpu: 1}, requests: {memory: 1Gi}"),
		`f:16:9: warning: Job a: spec.template.spec.containers[0].resources: container c has GPUs and no limit of memory (no-limits)`,
	},
	"hidden-failure": {
		"it looks as if it ran",
		fmt.Sprintf(pytorch, "Master", "OnFailure"),
		`f:7:7: warning: PyTorchJob a: spec.pytorchReplicaSpecs.Master.restartPolicy: OnFailure without runPolicy.backoffLimit starts containers again for ever (hidden-failure)`,
	},
	"latest-image": {
		"whatever was pushed last",
		strings.Replace(job("", "", "", ""), "i:1", "host:5000/i", 1),
		`f:15:9: warning: Job a: spec.template.spec.containers[0].image: host:5000/i is whatever was pushed last: name a version (latest-image)`,
	},
	"no-grace": {
		"no checkpoint",
		job("", "", "      terminationGracePeriodSeconds: 0", ""),
		`f:12:7: warning: Job a: spec.template.spec.terminationGracePeriodSeconds: an evicted job is killed at once, without a moment to write a checkpoint (no-grace)`,
	},
	"priority-class": {
		"a slip of the finger",
		job("", "", "      priorityClassName: hi-priority", ""),
		`f:12:7: warning: Job a: spec.template.spec.priorityClassName: hi-priority is not one of low-priority, default-priority and high-priority (priority-class)`,
	},
	"queue-missing": {
		"it waits for ever",
		strings.Replace(job("", "", "", ""), "queue-name: q", "queue-name: nowhere", 1),
		`f:5:12: error: Job a: metadata.labels[kueue.x-k8s.io/queue-name]: namespace blue has no queue nowhere; there are q (queue-missing)`,
	},
	"gang-impossible": {
		"no node is so large",
		job("", "  parallelism: 3\n  completions: 3", "", "limits: {cpu: 3, memory: 1Gi}"),
		`f:11:5: error: Job a: spec.template.spec: 2 pods at most fit on all nodes together, and there are 3 (gang-impossible)`,
	},
	"class-missing": {
		"the pods would be refused",
		job("", "", "      priorityClassName: hi", ""),
		`f:12:7: error: Job a: spec.template.spec.priorityClassName: there is no class hi; there are high-priority (class-missing)`,
	},
	"dry-run": {
		"what only the cluster knows",
		strings.Replace(job("", "", "", ""), "name: a", "name: refuse-me", 1),
		`f:14:9: error: Job refuse-me: spec.template.spec.containers[0].name: Invalid value: "c": not here (dry-run)`,
	},
}

func wrapped(metadata string) string {
	inner := "      " + strings.ReplaceAll(strings.TrimSpace(job("", "", "", "")), "\n", "\n      ")
	return "apiVersion: workload.codeflare.dev/v1beta2\nkind: AppWrapper\n" + metadata + "\nspec:\n  components:\n  - template:\n" + inner + "\n"
}

// groupedJob is a Job in order whose pods are a group of Sakkara's.
func groupedJob(annotation string) string {
	return strings.Replace(
		job("", "", "", ""),
		"  template:\n",
		"  template:\n    metadata: {labels: {sakkara.group.name: g}, annotations: {"+annotation+"}}\n",
		1,
	)
}

func groupConfig(size, constraints string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m, labels: {sakkara.group: ''}}\ndata: {name: g, size: '" + size +
		"', constraints: '" + constraints + "'}\n"
}

// inWrapper is an AppWrapper with some components.
func inWrapper(components ...string) string {
	out := "apiVersion: workload.codeflare.dev/v1beta2\nkind: AppWrapper\nmetadata: {name: w}\nspec:\n  components:\n"
	for _, c := range components {
		out += "  - template:\n      " + strings.ReplaceAll(strings.TrimSpace(c), "\n", "\n      ") + "\n"
	}
	return out
}

// cluster has two nodes with 4 CPUs and a queue with 6.
func cluster(t *testing.T) *lint.Cluster {
	t.Helper()
	node := func(name string) *corev1.Node {
		return &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
				"cpu": resource.MustParse("4"), "memory": resource.MustParse("16Gi"), "pods": resource.MustParse("10"),
			}},
		}
	}
	quota := func(name, n string) kueue.ResourceQuota {
		return kueue.ResourceQuota{Name: corev1.ResourceName(name), NominalQuota: resource.MustParse(n)}
	}
	c := fake.NewClientBuilder().WithScheme(scheme.New()).WithObjects(
		node("a"),
		node("b"),
		&kueue.LocalQueue{
			ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "q"},
			Spec:       kueue.LocalQueueSpec{ClusterQueue: "blue"},
		},
		&kueue.ClusterQueue{
			ObjectMeta: metav1.ObjectMeta{Name: "blue"},
			Spec: kueue.ClusterQueueSpec{ResourceGroups: []kueue.ResourceGroup{
				{
					CoveredResources: []corev1.ResourceName{"cpu", "memory"},
					Flavors: []kueue.FlavorQuotas{
						{Name: "f", Resources: []kueue.ResourceQuota{quota("cpu", "10"), quota("memory", "64Gi")}},
					},
				},
			}},
		},
		&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "high-priority"}},
	).WithInterceptorFuncs(interceptor.Funcs{Create: func(_ context.Context, _ client.WithWatch, o client.Object, opts ...client.CreateOption) error {
		if !slices.Contains(opts, client.CreateOption(client.DryRunAll)) {
			t.Errorf("%s was created", o.GetName())
		}
		if o.GetName() == "refuse-me" {
			return apierrors.NewInvalid(
				schema.GroupKind{Group: "batch", Kind: "Job"},
				"a",
				field.ErrorList{field.Invalid(field.NewPath("spec.template.spec.containers[0].name"), "c", "not here")},
			)
		}
		return nil
	}}).Build()
	out, err := lint.Take(t.Context(), c, "blue")
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// said are the lines of findings.
func said(t *testing.T, text string, o lint.Options) string {
	t.Helper()
	docs, err := manifest.Read("f", []byte(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	var b bytes.Buffer
	for _, f := range lint.Judge(docs, o) {
		if err := lint.Print(&b, &f); err != nil {
			t.Fatal(err)
		}
	}
	return b.String()
}

// TestRules: every rule finds what it is for, alone and where it is, and can be switched off.
func TestRules(t *testing.T) {
	if got := said(t, job("", "", "", ""), lint.Options{}); got != "" {
		t.Errorf("nothing is wrong:\n%s", got)
	}
	for _, rule := range lint.Rules() {
		c, is := wrong[rule.Name]
		if !is {
			t.Errorf("rule %s has no case", rule.Name)
			continue
		}
		t.Run(rule.Name, func(t *testing.T) {
			o := lint.Options{Namespace: "blue"}
			if rule.Cluster {
				o.Cluster = cluster(t)
			}
			got := said(t, c.text, o)
			if !strings.HasSuffix(got, c.want+"\n") || strings.Count(got, "\n") != 1 {
				t.Errorf("%s\n%swant %s", c.why, got, c.want)
			}
			o.Disabled = []string{rule.Name}
			if got := said(t, c.text, o); got != "" {
				t.Errorf("switched off, %s", got)
			}
		})
	}
}

// TestMore are further things that rules find, and must not.
func TestMore(t *testing.T) {
	for name, c := range map[string]struct {
		why, text string
		cluster   bool
		want      []string
	}{
		"Inside":       {"what is wrapped is judged, at its own line", strings.Replace(wrapped("metadata: {name: w}"), "image: i:1", "image: i", 1), false, []string{"f:21:15: warning: Job a: spec.template.spec.containers[0].image"}},
		"WrapperQueue": {"AppWrappers get one", wrapped("metadata: {name: w}"), false, nil},
		"Webhook":      {"the kind's own rules", "apiVersion: workload.codeflare.dev/v1beta2\nkind: AppWrapper\nmetadata: {name: w}\nspec: {components: [{template: {apiVersion: v1, kind: ConfigMap, metadata: {name: c}}}]}", false, []string{"spec.components: at least one component must run pods; others can be created without an AppWrapper (refused)"}},
		"Forbidden":    {"what only an admission writes", strings.Replace(job("", "", "", ""), "  template:\n", "  template:\n    metadata: {annotations: {kueue.x-k8s.io/workload: w}}\n", 1), false, []string{"the admission of a job writes it: leave it as it is (refused)"}},
		"ForbiddenIn":  {"told once", strings.Replace(wrapped("metadata: {name: w}"), "restartPolicy: Never", "nodeName: n1", 1), false, []string{"it goes around the scheduler"}},
		"Serving":      {"restarts are what serving is about", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: 'i@sha256:x', resources: {limits: {cpu: 1, memory: 1Gi}}}]}}}", false, nil},
		"Backoff":      {"retries end", strings.Replace(fmt.Sprintf(pytorch, "Master", "OnFailure"), "spec:\n", "spec:\n  runPolicy: {backoffLimit: 3}\n", 1), false, nil},
		"Always":       {"for ever", fmt.Sprintf(pytorch, "Master", "Always"), false, []string{"Always starts containers again however they ended"}},
		"JobOnFailure": {"exit codes are lost", strings.Replace(job("", "", "", ""), "restartPolicy: Never", "restartPolicy: OnFailure", 1), false, []string{"f:11:7: warning: Job a: spec.template.spec.restartPolicy: OnFailure starts containers again in place"}},
		"OldVersion":   {"what to use", "apiVersion: ray.io/v1alpha1\nkind: RayCluster\nmetadata: {name: a, labels: {kueue.x-k8s.io/queue-name: q}}\nspec: {}", false, []string{"f:1:1: warning: RayCluster a: apiVersion: ray.io/v1alpha1 is given up for RayCluster: use ray.io/v1 (deprecated)"}},
		"Unequal":      {"both are to be the same", job("", "", "", "limits: {cpu: 1, memory: 1Gi, nvidia.com/gpu: 3}, requests: {nvidia.com/gpu: 2}"), false, []string{"requests 2 of nvidia.com/gpu, and its limit is 3"}},
		"Unknown":      {"a kind that nobody knows", "apiVersion: x.io/v1\nkind: Sampler\nmetadata: {name: a}\nspec: {any: thing}", false, nil},
		"TooLarge":     {"even an empty node", job("", "", "", "limits: {cpu: 5, memory: 1Gi}"), true, []string{"no node has room for one of its 1 pods, even empty: it asks for cpu 5, memory 1Gi"}},
		"NotCovered":   {"a queue without it", job("", "", "", "limits: {cpu: 1, memory: 1Gi, nvidia.com/gpu: 1}"), true, []string{"no node has room", "its queue blue has no quota of nvidia.com/gpu"}},
		"OverQuota":    {"more than all have", job("", "  parallelism: 3\n  completions: 3", "", "limits: {cpu: 2, memory: 23Gi}"), true, []string{"no node", "it asks for 69Gi of memory, and its queue blue and all that lend to it have 64Gi"}},
		"SakkaraTree":  {"it has no tree", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, labels: {sakkara.topology: ''}}\ndata: {name: t}", false, []string{"ConfigMap a: data.tree: tree: write a JSON object"}},
		"SakkaraName":  {"no pod is of it", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, labels: {sakkara.group: ''}}\ndata: {size: '2'}", false, []string{"data.name: name: name the group"}},
		"SakkaraJob":   {"its group is of another size", groupedJob("") + "---\n" + groupConfig("3", "{}"), false, []string{"f:7:1: error: Job a: spec: ConfigMap m: size: it is 3, and the job has 1 pods with the label sakkara.group.name: g"}},
		"SakkaraFits":  {"it goes with its ConfigMap", groupedJob("") + "---\n" + groupConfig("1", "{}"), false, nil},
		"SakkaraNone":  {"its ConfigMap may be in the cluster", groupedJob(""), false, nil},
		"SakkaraAway":  {"a ConfigMap of another namespace never counts", groupedJob("") + "---\n" + strings.Replace(groupConfig("3", "{}"), "name: m", "name: m, namespace: red", 1), false, nil},
		"SakkaraTwo":   {"nothing says which", groupedJob("") + "---\n" + groupConfig("1", "{}") + "---\n" + strings.Replace(groupConfig("1", "{}"), "name: m", "name: l", 1), false, []string{`spec: ConfigMaps m and l have "g" for their key name`}},
		"SakkaraBoth":  {"pods and group say it", groupedJob("kueue.x-k8s.io/podset-preferred-topology: rack") + "---\n" + groupConfig("1", `{"rack": {"hard": true}}`), false, []string{"constraints: pods main say by annotation kueue.x-k8s.io/podset-preferred-topology"}},
		"SakkaraOdd":   {"it is told of the ConfigMap", groupedJob("") + "---\n" + groupConfig("x", "{}"), false, []string{"ConfigMap m: data.size"}},
		"SakkaraIn":    {"it is made with the job", inWrapper(groupedJob(""), groupConfig("2", "{}")), false, []string{"AppWrapper w: spec: ConfigMap m: size: it is 2"}},
		"ConfigMap":    {"it is none of Sakkara's", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {size: x}", false, nil},
		"Class":        {"the cluster knows its own", job("", "", "      priorityClassName: high-priority", ""), true, nil},
	} {
		t.Run(name, func(t *testing.T) {
			o := lint.Options{Namespace: "blue"}
			if c.cluster {
				o.Cluster = cluster(t)
			}
			got := said(t, c.text, o)
			lines := strings.Split(strings.TrimSuffix(got, "\n"), "\n")
			relevant := slices.DeleteFunc(
				lines,
				func(l string) bool { return l == "" || name == "OldVersion" && !strings.Contains(l, "deprecated") },
			)
			if len(relevant) != len(c.want) {
				t.Fatalf("%s: got\n%swant %q", c.why, got, c.want)
			}
			for _, want := range c.want {
				if !strings.Contains(got, want) {
					t.Errorf("%s: got\n%swant %s", c.why, got, want)
				}
			}
		})
	}
}

// TestExamples: what is shown to people has no errors.
func TestExamples(t *testing.T) {
	files, err := examples.Kinds.ReadDir("kinds")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		text, err := examples.Kinds.ReadFile("kinds/" + f.Name())
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.SplitSeq(said(t, string(text), lint.Options{}), "\n") {
			if strings.Contains(line, ": error: ") {
				t.Errorf("%s: %s", f.Name(), line)
			}
		}
	}
}

// TestGitHub: what GitHub would take for a command is written out.
func TestGitHub(t *testing.T) {
	f := finding.Finding{
		Rule:     "r",
		Severity: finding.Error,
		File:     "a:b,c",
		Line:     1,
		Column:   2,
		Object:   "Job a",
		Path:     "spec",
		Message:  "100%\nno",
	}
	var b bytes.Buffer
	if err := lint.PrintGitHub(&b, &f); err != nil {
		t.Fatal(err)
	}
	if want := "::error file=a%3Ab%2Cc,line=1,col=2,title=r::Job a: spec: 100%25%0Ano\n"; b.String() != want {
		t.Errorf("%s want %s", b.String(), want)
	}
}

// TestTable: the table of the documentation is made of the rules.
func TestTable(t *testing.T) {
	const page = "../../../docs/judge.md"
	var b strings.Builder
	b.WriteString("| rule | severity | what it finds | what helps |\n|---|---|---|---|\n")
	for _, r := range lint.Rules() {
		severity := string(r.Severity)
		if r.Cluster {
			severity += ", with `--cluster`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", r.Name, severity, r.Asks, r.Cure)
	}
	testkit.Section(t, page, "lint rules", b.String())
}

// FuzzJudge: whatever is read is judged.
func FuzzJudge(f *testing.F) {
	for _, c := range wrong {
		f.Add(c.text)
	}
	f.Fuzz(func(_ *testing.T, text string) {
		if docs, err := manifest.Read("f", []byte(text)); err == nil {
			lint.Judge(docs, lint.Options{})
		}
	})
}
