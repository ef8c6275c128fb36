package corpus

import (
	"fmt"
	"strings"
)

// trainWords are what manifests of TrainJobs and their runtimes are spelled with: NODE is the
// replicated job that trains, FETCH those before it, LAUNCHED those of MPI, WORK what a container
// does, SLOW what one does that is stopped, SIZES its size.
func trainWords() *strings.Replacer {
	work := strings.Join([]string{"image: ghcr.io/example/train:1", command, sizes}, ", ")
	step := func(name string) string {
		return "metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: " + name + "}}"
	}
	fetch := func(name, more string) string {
		return fmt.Sprintf(
			"{name: %s%s, template: {%s, spec: {template: {spec: {containers: [{name: %s, %s}]}}}}}",
			name,
			more,
			step(name),
			name,
			work,
		)
	}
	return strings.NewReplacer(
		"NODE",
		"{name: node, template: {"+step(
			"trainer",
		)+", spec: {template: {spec: {containers: [{name: node, "+work+"}]}}}}}",
		"FETCH",
		fetch(
			"dataset-initializer",
			"",
		)+", "+fetch(
			"model-initializer",
			", dependsOn: [{name: dataset-initializer, status: Complete}]",
		),
		"LAST",
		"{name: node, dependsOn: [{name: model-initializer, status: Complete}], template: {"+step(
			"trainer",
		)+", spec: {template: {spec: {containers: [{name: node, "+work+"}]}}}}}",
		"LAUNCHED",
		`{name: node, template: {metadata: {}, spec: {template: {metadata: {annotations: {mlbatch.dev/run-for: forever}}, spec: {containers: [{name: node, image: "ghcr.io/example/mpi:1", command: [/usr/sbin/sshd, -De], `+sizes+`}]}}}}},
  {name: launcher, dependsOn: [{name: node, status: Ready}], template: {`+step(
			"trainer",
		)+`, spec: {template: {spec: {containers: [{name: node, `+work+`}]}}}}}`,
		"WORK",
		work,
		"COMMAND",
		command,
		"SIZES",
		sizes,
	)
}

// Runtimes are the runtimes that manifests of TrainJobs name: some of a namespace, some of the
// whole cluster.
func Runtimes() []string {
	var out []string
	for _, r := range []struct{ kind, name, spec string }{
		{"TrainingRuntime", "plain", "template: {spec: {replicatedJobs: [NODE]}}"},
		{"ClusterTrainingRuntime", "corpus-torch", "mlPolicy: {numNodes: 1, torch: {}}, podGroupPolicy: {coscheduling: {scheduleTimeoutSeconds: 100}}, template: {metadata: {labels: {team: blue}, annotations: {note: hello}, creationTimestamp: null}, spec: {replicatedJobs: [NODE]}}"},
		{"ClusterTrainingRuntime", "corpus-torch-old", "mlPolicy: {numNodes: 2, torch: {numProcPerNode: auto}}, podGroupPolicy: {volcano: {networkTopology: {mode: hard, highestTierAllowed: 1}}}, template: {spec: {replicatedJobs: [{name: node, template: {spec: {backoffLimit: 3, template: {metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}, spec: {containers: [{name: node, WORK}]}}}}}]}}"},
		{"TrainingRuntime", "elastic", "mlPolicy: {torch: {numProcPerNode: 2, elasticPolicy: {minNodes: 1, maxNodes: 2, maxRestarts: 3, metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 80}}}]}}}, template: {spec: {replicatedJobs: [NODE]}}"},
		{"TrainingRuntime", "injected", "mlPolicy: {torch: {envInjection: {initContainers: [check]}}}, template: {spec: {replicatedJobs: [{name: node, template: {spec: {template: {spec: {initContainers: [{name: check, image: busybox, command: [sh, -c, 'true']}], containers: [{name: log, WORK}, {name: node, WORK}]}}}}}]}}"},
		{"ClusterTrainingRuntime", "corpus-jax", "mlPolicy: {jax: {}}, template: {spec: {replicatedJobs: [NODE]}}"},
		{"ClusterTrainingRuntime", "corpus-xgboost", "mlPolicy: {numNodes: 2, xgboost: {}}, template: {spec: {replicatedJobs: [NODE]}}"},
		{"ClusterTrainingRuntime", "corpus-mpi", "mlPolicy: {numNodes: 2, mpi: {numProcPerNode: 1, mpiImplementation: OpenMPI, sshAuthMountPath: /home/mpiuser/.ssh, runLauncherAsNode: true}}, template: {spec: {network: {publishNotReadyAddresses: true}, successPolicy: {operator: All, targetReplicatedJobs: [launcher]}, replicatedJobs: [LAUNCHED]}}"},
		{"TrainingRuntime", "mpi-beside", "mlPolicy: {mpi: {}}, template: {spec: {successPolicy: {operator: All, targetReplicatedJobs: [launcher]}, replicatedJobs: [LAUNCHED]}}"},
		{"TrainingRuntime", "steps", "mlPolicy: {torch: {}}, template: {spec: {replicatedJobs: [FETCH, LAST]}}"},
		{"TrainingRuntime", "tried-again", `mlPolicy: {torch: {}}, template: {spec: {failurePolicy: {maxRestarts: 3}, replicatedJobs: [{name: node, template: {spec: {backoffLimit: 0, template: {metadata: {annotations: {mlbatch.dev/fail-first: "1", mlbatch.dev/run-for: 0s}}, spec: {restartPolicy: Never, containers: [{name: node, WORK}]}}}}}]}}`},
		{"TrainingRuntime", "broken", `template: {spec: {replicatedJobs: [{name: node, template: {spec: {backoffLimit: 0, template: {metadata: {annotations: {mlbatch.dev/exit-code: "1", mlbatch.dev/run-for: 0s}}, spec: {restartPolicy: Never, containers: [{name: node, WORK}]}}}}}]}}`},
		{"TrainingRuntime", "endless", "template: {spec: {ttlSecondsAfterFinished: 600, replicatedJobs: [{name: node, template: {spec: {template: {metadata: {annotations: {mlbatch.dev/run-for: forever}}, spec: {containers: [{name: node, WORK}]}}}}}]}}"},
		{"TrainingRuntime", "volumes", "template: {spec: {replicatedJobs: [{name: node, template: {spec: {template: {spec: {securityContext: {fsGroup: 1000}, volumes: [{name: shm, emptyDir: {medium: Memory}}], containers: [{name: node, WORK, volumeMounts: [{name: shm, mountPath: /dev/shm}]}, {name: log, WORK}]}}}}}]}}"},
	} {
		out = append(
			out,
			trainWords().Replace(
				fmt.Sprintf(
					"apiVersion: trainer.kubeflow.org/v1alpha1\nkind: %s\nmetadata: {name: %s}\nspec: {%s}\n",
					r.kind,
					r.name,
					r.spec,
				),
			),
		)
	}
	return out
}

// TrainJobs are manifests of TrainJobs, by the runtimes that Runtimes has.
func TrainJobs() []Manifest {
	var out []Manifest
	for _, r := range trainJobRows() {
		metadata := r.metadata
		if !strings.HasPrefix(metadata, "generateName") {
			metadata = "name: trainjob-" + r.name + metadata
		}
		m := Manifest{Kind: "TrainJob", Name: r.name, Why: r.why, Pods: r.pods, Ends: "Complete"}
		if r.fails {
			m.Ends = "Failed"
		}
		m.Text = trainWords().Replace(
			fmt.Sprintf(
				"apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\nmetadata: {%s}\nspec: {%s}\n",
				metadata,
				r.spec,
			),
		)
		out = append(out, m)
	}
	return out
}

func trainJobRows() []row {
	// What most write: a runtime of the cluster, or of the namespace.
	in := func(name string) string { return "runtimeRef: {name: " + name + ", kind: TrainingRuntime}" }
	all := func(name string) string { return "runtimeRef: {name: " + name + "}" }
	return []row{
		{name: "plain", why: "a runtime as it is", spec: in("plain"), pods: 1},
		{
			name: "spelled-out",
			why:  "defaults are written, too",
			spec: "runtimeRef: {apiGroup: trainer.kubeflow.org, kind: ClusterTrainingRuntime, name: corpus-torch}, managedBy: trainer.kubeflow.org/trainjob-controller, suspend: false",
			pods: 1,
		},
		{
			name: "torch",
			why:  "what every example begins with",
			spec: all("corpus-torch") + ", trainer: {numNodes: 2, image: 'ghcr.io/example/train:2', COMMAND}",
			pods: 2,
		},
		{
			name: "torch-gpus",
			why:  "what most of them are for",
			spec: all(
				"corpus-torch",
			) + ", trainer: {numNodes: 2, numProcPerNode: 1, resourcesPerNode: {limits: {nvidia.com/gpu: 1, cpu: 2, memory: 8Gi}}}",
			pods: 2,
		},
		{
			name: "torch-auto",
			why:  "processes by a word",
			spec: all("corpus-torch") + ", trainer: {numProcPerNode: auto, resourcesPerNode: {requests: {cpu: 1}}}",
			pods: 1,
		},
		{
			name: "torch-old",
			why:  "a runtime of an older version",
			spec: all("corpus-torch-old") + ", trainer: {numProcPerNode: gpu}",
			pods: 2,
		},
		{
			name: "torch-args",
			why:  "arguments without a command",
			spec: all(
				"corpus-torch",
			) + ", trainer: {args: [--epochs, '3'], env: [{name: NCCL_DEBUG, value: INFO}, {name: IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}]}",
			pods: 1,
		},
		{name: "elastic", why: "fewer nodes are enough", spec: in("elastic"), pods: 2},
		{
			name: "elastic-one",
			why:  "as few as the author wants",
			spec: in("elastic") + ", trainer: {numNodes: 1}",
			pods: 1,
		},
		{
			name: "injected",
			why:  "containers that check before",
			spec: in("injected") + ", trainer: {numNodes: 2}",
			pods: 2,
		},
		{name: "jax", why: "another framework", spec: all("corpus-jax") + ", trainer: {numNodes: 2}", pods: 2},
		{name: "xgboost", why: "and another", spec: all("corpus-xgboost"), pods: 2},
		{
			name: "mpi",
			why:  "the launcher trains, too",
			spec: all(
				"corpus-mpi",
			) + ", trainer: {COMMAND, numNodes: 3, resourcesPerNode: {requests: {cpu: 100m, memory: 64Mi}}}",
			pods: 3,
		},
		{
			name: "mpi-beside",
			why:  "the launcher only starts",
			spec: in("mpi-beside") + ", trainer: {COMMAND, numNodes: 2, numProcPerNode: 4}",
			pods: 3,
		},
		{
			name: "steps",
			why:  "data and model first",
			spec: in(
				"steps",
			) + ", initializer: {dataset: {storageUri: 'hf://yelp/reviews', env: [{name: SPLIT, value: train}], secretRef: {name: token}}, model: {storageUri: 's3://models/base', env: [{name: REVISION, value: main}], secretRef: {name: token}}}, trainer: {numNodes: 2}",
			pods: 4,
		},
		{name: "steps-default", why: "as the runtime has them", spec: in("steps"), pods: 3},
		{
			name: "overrides-first",
			why:  "the first generation",
			spec: in(
				"volumes",
			) + `, podSpecOverrides: [{targetJobs: [{name: node}], serviceAccountName: default, nodeSelector: {kubernetes.io/os: linux}, tolerations: [{key: nvidia.com/gpu, operator: Exists}], volumes: [{name: tmp, emptyDir: {}}],
  containers: [{name: node, volumeMounts: [{name: tmp, mountPath: /tmp}]}, {name: log, env: [{name: A, value: b}]}]}]`,
			pods: 1,
		},
		{
			name: "overrides-second",
			why:  "the second",
			spec: in(
				"volumes",
			) + `, labels: {a: b}, annotations: {c: d}, podTemplateOverrides: [{manager: example.com/me, time: "2026-01-02T03:04:05Z", targetJobs: [{name: node}], metadata: {labels: {user: alice}, annotations: {note: hello}}, spec: {imagePullSecrets: [{name: pull}],
  affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: {matchExpressions: [{key: zone, operator: In, values: [a]}]}}]}}}}, {targetJobs: [{name: node}], spec: {tolerations: [{operator: Exists}]}}]`,
			pods: 1,
		},
		{
			name: "patches",
			why:  "the third",
			spec: in(
				"volumes",
			) + `, runtimePatches: [{manager: example.com/me, time: "2026-01-02T03:04:05Z", trainingRuntimeSpec: {template: {metadata: {labels: {a: b}, annotations: {c: d}}, spec: {replicatedJobs: [{name: node, template: {metadata: {labels: {c: d}}, spec: {template: {metadata: {labels: {e: f}},
  spec: {terminationGracePeriodSeconds: 5, securityContext: {runAsUser: 1000}, containers: [{name: log, securityContext: {allowPrivilegeEscalation: false}}]}}}}}]}}}}, {manager: example.com/you}]`,
			pods: 1,
		},
		{name: "deadline", why: "time enough", spec: in("plain") + ", activeDeadlineSeconds: 36000", pods: 1},
		{
			name:  "late",
			why:   "not enough time",
			spec:  in("endless") + ", activeDeadlineSeconds: 1",
			pods:  1,
			fails: true,
		},
		{name: "recovers", why: "all begins anew", spec: in("tried-again") + ", trainer: {numNodes: 2}", pods: 2},
		{name: "fails", why: "a failure that is final", spec: in("broken"), pods: 1, fails: true},
		{name: "suspended", why: "as queues want it", spec: all("corpus-torch") + ", suspend: true", pods: 1},
		{
			name:     "labelled",
			why:      "labels and annotations of the job",
			metadata: ", labels: {team: blue}, annotations: {note: hello}",
			spec:     all("corpus-torch"),
			pods:     1,
		},
		{
			name:     "generated",
			why:      "a name of the API server's",
			metadata: "generateName: tune-",
			spec:     all("corpus-torch"),
			pods:     1,
		},
	}
}
