package convert_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"
	sigs "sigs.k8s.io/yaml"

	jobset "github.com/mlbatch/mlbatch/api/jobset/v1alpha2"
	kubeflow "github.com/mlbatch/mlbatch/api/kubeflow/v1"
	"github.com/mlbatch/mlbatch/examples"
	"github.com/mlbatch/mlbatch/internal/cli/convert"
	"github.com/mlbatch/mlbatch/internal/cli/manifest"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/pytorchjob"
)

type tester interface {
	Helper()
	Fatalf(format string, args ...any)
}

// stream are objects as a file.
func stream(t tester, objects []map[string]any) string {
	t.Helper()
	var parts []string
	for _, o := range objects {
		data, err := sigs.Marshal(o)
		if err != nil {
			t.Fatalf("%v", err)
		}
		parts = append(parts, string(data))
	}
	return strings.Join(parts, "---\n")
}

// converted is what becomes of a text, all of it, and what is lost.
func converted(t tester, text, to string) (string, []string) {
	t.Helper()
	docs, err := manifest.Read("f", []byte(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	all, err := convert.To(docs, to)
	if err != nil {
		t.Fatalf("to %s: %v\n%s", to, err, text)
	}
	var objects []map[string]any
	var losses []string
	for i := range all {
		objects = append(objects, all[i].Objects...)
		if all[i].Objects == nil && all[i].Document.Object.GetKind() != "Service" { // that of a Job
			objects = append(objects, all[i].Document.Object.Object)
		}
		for _, l := range all[i].Losses {
			losses = append(losses, l.Path+" "+l.Message)
		}
	}
	return stream(t, objects), losses
}

func pytorch(spec string) string {
	return "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {name: pt, namespace: blue, labels: {kueue.x-k8s.io/queue-name: q}, annotations: {a: b}}\nspec: {" + spec + "}\n"
}

const pod = `template: {metadata: {labels: {x: z}}, spec: {priorityClassName: low-priority, nodeSelector: {a: b}, containers: [{name: pytorch, image: 'i:1', command: [python, train.py], args: [--lr, '1'], env: [{name: MINE, value: '1'}], resources: {limits: {nvidia.com/gpu: 2}}}]}}`

// TestRoundTrips: through every other kind and back, a PyTorchJob is what it was, nothing is
// lost, and its pods are as many and are told the same as by its own controller.
func TestRoundTrips(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		policy := rapid.SampledFrom([]string{"Never", "OnFailure"}).Draw(t, "policy")
		workers, same := rapid.Int32Range(0, 5).Draw(t, "workers"), rapid.Bool().Draw(t, "same")
		j := kubeflow.PyTorchJob{}
		if err := sigs.Unmarshal(
			[]byte(pytorch("pytorchReplicaSpecs: {Master: {replicas: 1, restartPolicy: "+policy+", "+pod+"}}")),
			&j,
		); err != nil {
			t.Fatal(err)
		}
		first := j.Spec.PyTorchReplicaSpecs[kubeflow.RoleMaster]
		if workers > 0 {
			other := first.DeepCopy()
			other.Replicas = &workers
			if !same {
				other.Template.Spec.Containers[0].Image = "other:2"
			}
			j.Spec.PyTorchReplicaSpecs[kubeflow.RoleWorker] = other
		}
		if policy == "OnFailure" && rapid.Bool().Draw(t, "backoff") {
			j.Spec.RunPolicy.BackoffLimit = new(rapid.Int32Range(0, 9).Draw(t, "limit"))
		}
		if rapid.Bool().Draw(t, "port") {
			for _, r := range j.Spec.PyTorchReplicaSpecs {
				r.Template.Spec.Containers[0].Ports = []corev1.ContainerPort{
					{Name: "pytorchjob-port", ContainerPort: 29400},
				}
			}
		}
		if rapid.Bool().Draw(t, "processes") {
			j.Spec.NprocPerNode = new("2")
		}
		if workers > 0 && rapid.Bool().Draw(t, "elastic") {
			elastic(t, &j)
		}
		if rapid.Bool().Draw(t, "times") {
			j.Spec.RunPolicy.ActiveDeadlineSeconds = new(int64(60))
		}
		data, err := json.Marshal(&j)
		if err != nil {
			t.Fatal(err)
		}
		targets := []string{"jobset", "trainjob"}
		if first := j.Spec.PyTorchReplicaSpecs[kubeflow.RoleMaster]; first != nil && (workers == 0 || same) {
			targets = append(targets, "job")
		}
		chain := rapid.SliceOfN(rapid.SampledFrom(targets), 1, 3).Draw(t, "chain")
		text := string(data)
		for _, to := range append(chain, "pytorchjob") {
			next, losses := converted(t, text, to)
			if len(losses) > 0 {
				t.Fatalf("to %s loses %q of\n%s", to, losses, text)
			}
			if to == "jobset" {
				told(t, &j, next)
			}
			text = next
		}
		var back kubeflow.PyTorchJob
		if err := sigs.UnmarshalStrict([]byte(text), &back); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if diff := cmp.Diff(j, back); diff != "" {
			t.Fatalf("through %v: -was +is\n%s", chain, diff)
		}
	})
}

// elastic lets the number of workers change, and may leave out the master.
func elastic(t *rapid.T, j *kubeflow.PyTorchJob) {
	if rapid.Bool().Draw(t, "workers alone") {
		delete(j.Spec.PyTorchReplicaSpecs, kubeflow.RoleMaster)
	}
	e := &kubeflow.ElasticPolicy{
		MinReplicas: new(int32(1)),
		MaxReplicas: new(int32(9)),
		RDZVBackend: new(
			rapid.SampledFrom([]kubeflow.RDZVBackend{kubeflow.BackendC10D, kubeflow.BackendETCD}).Draw(t, "backend"),
		),
	}
	if rapid.Bool().Draw(t, "elsewhere") {
		e.RDZVHost, e.RDZVPort = new("etcd.example.com"), new(int32(2379))
	}
	if rapid.Bool().Draw(t, "settings") {
		e.RDZVID, e.MaxRestarts, e.RDZVConf = new(
			"mine",
		), new(
			int32(3),
		), []kubeflow.RDZVConf{
			{Key: "timeout", Value: "90"},
			{Key: "read_timeout", Value: "7"},
		}
	}
	j.Spec.ElasticPolicy = e
}

// told compares the pods of a JobSet with those that the controller of PyTorchJobs makes.
func told(t tester, j *kubeflow.PyTorchJob, text string) {
	t.Helper()
	var s jobset.JobSet
	if err := sigs.UnmarshalStrict([]byte(text), &s); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	kind := pytorchjob.Kind()
	plan, err := kind.Running.Operator.Compile(j)
	if err != nil {
		t.Fatalf("%v", err)
	}
	pods, want := int32(0), int32(0)
	for _, r := range j.Spec.PyTorchReplicaSpecs {
		want += ptr.Deref(r.Replicas, 1)
	}
	for i := range s.Spec.ReplicatedJobs {
		in := &s.Spec.ReplicatedJobs[i].Template.Spec
		pods += *in.Parallelism
		c := &in.Template.Spec.Containers[0]
		for _, e := range plan.Roles[0].Env {
			at := slices.IndexFunc(c.Env, func(have corev1.EnvVar) bool { return have.Name == e.Name })
			wrapped := len(c.Command) > 2 && strings.Contains(c.Command[2], e.Name+"=")
			if at < 0 && !wrapped {
				t.Fatalf("%s is not told %s:\n%s", s.Spec.ReplicatedJobs[i].Name, e.Name, text)
			}
			if at >= 0 && !strings.Contains(e.Name, "RANK") && !strings.HasSuffix(e.Name, "ADDR") &&
				!met(e.Name, e.Value, c.Env[at].Value) &&
				c.Env[at].Value != e.Value {
				t.Fatalf("%s is %q, want %q", e.Name, c.Env[at].Value, e.Value)
			}
		}
	}
	if pods != want {
		t.Fatalf("it has %d pods, want %d", pods, want)
	}
}

// met reports whether an endpoint is the first pod of a JobSet where it is a worker's for the
// controller of PyTorchJobs, at the same port.
func met(name, want, is string) bool {
	at, port, _ := strings.Cut(want, ":")
	host, same, _ := strings.Cut(is, ":")
	return name == "PET_RDZV_ENDPOINT" && at == "pt-worker-0" && port == same &&
		(host == "pt-worker-0-0.pt" || host == "pt-node-0-0.pt")
}

// TestLosses: what the other kind cannot say is told, with its path.
func TestLosses(t *testing.T) {
	worker := "Worker: {replicas: 2, restartPolicy: Never, " + pod + "}"
	for name, c := range map[string]struct {
		why, text, to string
		want          []string
	}{
		"Elastic":       {"torchrun is told how few and many there may be", pytorch("elasticPolicy: {minReplicas: 1, maxReplicas: 3}, pytorchReplicaSpecs: {" + worker + "}"), "jobset", nil},
		"Autoscaler":    {"JobSets have none", pytorch("elasticPolicy: {minReplicas: 1, maxReplicas: 3, metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 80}}}]}, pytorchReplicaSpecs: {" + worker + "}"), "jobset", []string{`spec.elasticPolicy.metrics is left out: [{"resource":{"name":"cpu","target":{"averageUtilization":80...`}},
		"Always":        {"Jobs know no such policy", pytorch("pytorchReplicaSpecs: {Master: {restartPolicy: Always, " + pod + "}}"), "jobset", []string{`spec.pytorchReplicaSpecs.Master.restartPolicy becomes "OnFailure", and is "Always"`}},
		"CleanUp":       {"JobSets delete nothing", pytorch("runPolicy: {cleanPodPolicy: None}, pytorchReplicaSpecs: {" + worker + "}"), "jobset", []string{"spec.runPolicy is left out: {cleanPodPolicy}"}},
		"Completions":   {"all pods of a PyTorchJob run at once", "apiVersion: batch/v1\nkind: Job\nmetadata: {name: j}\nspec: {parallelism: 2, completions: 6, completionMode: Indexed, template: {spec: {restartPolicy: OnFailure, containers: [{name: pytorch, image: i}]}}}", "pytorchjob", []string{"spec.replicatedJobs[0].template.spec.completions becomes 2, and is 6 (of the JobSet that it stands for)"}},
		"Policies":      {"what a PyTorchJob does not have", "apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nmetadata: {name: s}\nspec: {failurePolicy: {maxRestarts: 3}, replicatedJobs: [{name: node, template: {spec: {template: {spec: {restartPolicy: OnFailure, containers: [{name: pytorch, image: i}]}}}}}]}", "pytorchjob", []string{"spec.failurePolicy is left out: {maxRestarts}"}},
		"Secret":        {"values of variables are not shown", "apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nmetadata: {name: s}\nspec: {replicatedJobs: [{name: node, template: {spec: {template: {spec: {restartPolicy: OnFailure, containers: [{name: pytorch, image: i, env: [{name: PET_NNODES, value: hush}]}]}}}}}]}", "pytorchjob", nil},
		"TTL":           {"TrainJobs stay", pytorch("runPolicy: {ttlSecondsAfterFinished: 5}, pytorchReplicaSpecs: {" + worker + "}"), "trainjob", []string{"spec.ttlSecondsAfterFinished is left out: 5 (of the JobSet that it stands for)"}},
		"JobToJobSet":   {"everything is carried over", "apiVersion: batch/v1\nkind: Job\nmetadata: {name: j}\nspec: {parallelism: 2, completions: 6, backoffLimit: 3, podFailurePolicy: {rules: [{action: FailJob, onExitCodes: {operator: In, values: [42]}}]}, template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}", "jobset", nil},
		"JobSetToJob":   {"one kind of pods", "apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nmetadata: {name: s}\nspec: {network: {subdomain: x}, replicatedJobs: [{name: node, template: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}}}]}", "job", []string{"spec.network is left out: {subdomain}"}},
		"PassedThrough": {"what is no job stays", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n---\n" + pytorch("pytorchReplicaSpecs: {"+worker+"}"), "trainjob", nil},
	} {
		t.Run(name, func(t *testing.T) {
			out, got := converted(t, c.text, c.to)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s: -want +got\n%s\n%s", c.why, diff, out)
			}
			if name == "PassedThrough" && !strings.Contains(out, "kind: ConfigMap") {
				t.Error(out)
			}
		})
	}
}

// TestRefusals: what cannot be said at all is refused, with what can be done.
func TestRefusals(t *testing.T) {
	for name, c := range map[string]struct{ why, text, to, want string }{
		"Kinds":        {"a Job has one", pytorch("pytorchReplicaSpecs: {Master: {" + pod + "}, Worker: {" + strings.Replace(pod, "i:1", "j:1", 1) + "}}"), "job", "has 2 kinds of pods, and a Job has one: use --to jobset"},
		"Three":        {"master and workers", "apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nmetadata: {name: s}\nspec: {replicatedJobs: [{name: a, template: {}}, {name: b, template: {}}, {name: c, template: {}}]}", "pytorchjob", "has 3 kinds of pods"},
		"NoRuntime":    {"it says what it consists of elsewhere", "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\nmetadata: {name: t}\nspec: {runtimeRef: {name: r}}", "jobset", "its ClusterTrainingRuntime r, which says what it consists of, is not among the files: add it"},
		"NoName":       {"pods find each other by it", strings.Replace(pytorch("pytorchReplicaSpecs: {Master: {"+pod+"}}"), "name: pt", "generateName: pt-", 1), "jobset", "give it one instead of generateName"},
		"NoCommand":    {"nowhere to set the rank", pytorch("pytorchReplicaSpecs: {Master: {" + pod + "}, Worker: {" + strings.Replace(pod, "command: [python, train.py], ", "", 1) + "}}"), "jobset", "has no command"},
		"Nothing":      {"only such jobs", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}", "jobset", "there is nothing to convert"},
		"UnknownField": {"as everywhere", pytorch("pytorchReplicaSpec: {}"), "jobset", `did you mean "pytorchReplicaSpecs"?`},
	} {
		t.Run(name, func(t *testing.T) {
			docs, err := manifest.Read("f", []byte(c.text))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := convert.To(docs, c.to); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v, want %s", c.why, err, c.want)
			}
		})
	}
}

// TestExamples: the examples become all other kinds that they can, which the rules accept.
func TestExamples(t *testing.T) {
	for _, kind := range []string{"pytorchjob", "jobset", "trainjob", "job"} {
		text, err := examples.Kinds.ReadFile("kinds/" + kind + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		for _, to := range convert.Targets() {
			if kind == "jobset" && to == "job" {
				continue // it has a leader and workers
			}
			out, _ := converted(t, string(text), to)
			if !strings.Contains(strings.ToLower(out), "kind: "+to+"\n") {
				t.Errorf("%s to %s:\n%s", kind, to, out)
			}
		}
	}
}

// TestLiveObjects: what the API server added is taken out.
func TestLiveObjects(t *testing.T) {
	live := `apiVersion: batch/v1
kind: Job
metadata: {name: j, uid: u, resourceVersion: "7", creationTimestamp: "2026-01-01T00:00:00Z", ownerReferences: [{apiVersion: v1, kind: X, name: x, uid: z}]}
spec: {selector: {matchLabels: {batch.kubernetes.io/controller-uid: u}}, template: {metadata: {labels: {batch.kubernetes.io/controller-uid: u, mine: x}}, spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}
status: {active: 1}`
	out, losses := converted(t, live, "jobset")
	for _, key := range []string{"uid", "resourceVersion", "selector", "status", "ownerReferences"} {
		if strings.Contains(out, key) {
			t.Errorf("%s is left in\n%s", key, out)
		}
	}
	if len(losses) > 0 || !strings.Contains(out, "mine: x") {
		t.Errorf("%q\n%s", losses, out)
	}
}
