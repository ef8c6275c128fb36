package webhook_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/kinds"
	"github.com/mlbatch/mlbatch/internal/kube/webhook"
)

// vast are jobs of each kind: PODS of one role, ONE of another where there can be one, and what each
// pod asks for.
func vast() map[string]string {
	of := func(name string) string {
		return "template: {spec: {containers: [{name: " + name + ", image: i, resources: {limits: {example.com/dust: AMOUNT}}}]}}"
	}
	never := strings.Replace(of("c"), "spec: {", "spec: {restartPolicy: Never, ", 1)
	ray := "{headGroupSpec: {rayStartParams: {}, " + of(
		"c",
	) + "}, workerGroupSpecs: [{groupName: g, replicas: PODS, minReplicas: 0, maxReplicas: PODS, rayStartParams: {}, " + of(
		"c",
	) + "}]}"
	return map[string]string{
		"AppWrapper": "components: [{template: {apiVersion: batch/v1, kind: Job, metadata: {name: x}, spec: {parallelism: PODS, " + never + "}}}, {template: {apiVersion: batch/v1, kind: Job, metadata: {name: z}, spec: {parallelism: ONE, " + never + "}}}]",
		"Job":        "parallelism: PODS, " + never,
		"PyTorchJob": "pytorchReplicaSpecs: {Worker: {replicas: PODS, " + of(
			"pytorch",
		) + "}, Master: {replicas: ONE, " + of(
			"pytorch",
		) + "}}",
		"TFJob": "tfReplicaSpecs: {Worker: {replicas: PODS, " + of(
			"tensorflow",
		) + "}, PS: {replicas: ONE, " + of(
			"tensorflow",
		) + "}}",
		"XGBoostJob": "xgbReplicaSpecs: {Worker: {replicas: PODS, " + of(
			"xgboost",
		) + "}, Master: {replicas: ONE, " + of(
			"xgboost",
		) + "}}",
		"PaddleJob": "paddleReplicaSpecs: {Worker: {replicas: PODS, " + of(
			"paddle",
		) + "}, Master: {replicas: ONE, " + of(
			"paddle",
		) + "}}",
		"JAXJob": "jaxReplicaSpecs: {Worker: {replicas: PODS, " + of("jax") + "}}",
		"MPIJob": "mpiReplicaSpecs: {Launcher: {" + of(
			"mpi",
		) + "}, Worker: {replicas: PODS, " + of(
			"mpi",
		) + "}}",
		"RayCluster": ray[1 : len(ray)-1],
		"RayJob":     "entrypoint: x, rayClusterSpec: " + ray,
		"RayService": "serveConfigV2: 'applications: [{name: a, import_path: a:b}]', rayClusterConfig: " + ray,
		"JobSet": "replicatedJobs: [{name: a, replicas: PODS, template: {spec: {completionMode: NonIndexed, parallelism: 1, " + of(
			"c",
		) + "}}}, {name: b, template: {spec: {completionMode: NonIndexed, parallelism: ONE, " + of(
			"c",
		) + "}}}]",
		"TrainJob": "runtimeRef: {name: torch}, trainer: {numNodes: PODS, resourcesPerNode: {limits: {example.com/dust: AMOUNT}}}",
	}
}

// Counts and amounts at the limits of their types are refused or counted as they are, for every
// kind: a sum that turns negative would be quota for nothing.
func TestNothingIsMoreThanCanBeCounted(t *testing.T) {
	all := kinds.All()
	c := cluster(
		t,
		world(),
		[]string{"create pods", "create jobs"},
		world(aRuntime(t, "torch", "containers: [{name: node, image: i}]"))...)
	handlers := handle(t, c, webhook.Options{Kinds: all, Limits: jobs.Limits{Size: 512 << 10, Components: 100}})
	for i := range all {
		k := &all[i]
		spec, known := vast()[k.GVK().Kind]
		if !known {
			t.Errorf("there is no vast %s: add one", k.GVK().Kind)
			continue
		}
		path := "/validate-" + strings.NewReplacer(".", "-").
			Replace(k.GVK().Group) +
			"-" + k.GVK().Version + "-" + strings.ToLower(
			k.GVK().Kind,
		)
		for name, tc := range map[string]struct {
			pods, one int
			amount    string
		}{
			"pods":        {math.MaxInt32, math.MaxInt32, "1"},
			"almost pods": {math.MaxInt32 - 1, 1, "9E"},
			"amount":      {4, 1, "4611686018427387904"}, // 2^62
			"both":        {math.MaxInt32, 1, "9223372036854775807"},
		} {
			text := strings.NewReplacer(
				"PODS",
				fmt.Sprint(tc.pods),
				"ONE",
				fmt.Sprint(tc.one),
				"AMOUNT",
				fmt.Sprintf("%q", tc.amount),
			).
				Replace(spec)
			manifest := fmt.Sprintf(
				"{apiVersion: %s, kind: %s, metadata: {name: v, namespace: blue, labels: {kueue.x-k8s.io/queue-name: default-queue}}, spec: {%s}}",
				k.GVK().GroupVersion(),
				k.GVK().Kind,
				text,
			)
			r := send(t, handlers, ask{path: path, new: manifest})
			alone := name == "pods" &&
				(k.GVK().Kind == "Job" || k.GVK().Kind == "JAXJob" || k.GVK().Kind == "TrainJob") // exactly as many as can be counted
			if r.Allowed && !alone {
				t.Errorf("%s, %s: it is accepted: %v", k.GVK().Kind, name, r.Warnings)
			}
			if name == "amount" &&
				!strings.Contains(r.Message, "its pods ask for more example.com/dust together than can be counted") {
				t.Errorf("%s: what its pods ask for together is not looked at: %s", k.GVK().Kind, r.Message)
			}
			if name == "pods" && k.GVK().Kind == "AppWrapper" &&
				!strings.Contains(r.Message, "4294967294 pods are more than can be counted") {
				t.Errorf("the pods of an AppWrapper are not counted together: %s", r.Message)
			}
		}
	}
}
