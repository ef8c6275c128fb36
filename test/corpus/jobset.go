package corpus

import (
	"fmt"
	"strings"
)

// jobSets are JobSets. In their specs JOB is a Job of one pod, TWO one of two pods, POD a
// template of a pod, WORK a container, FOREVER a template of a pod that runs until it is
// stopped, and BAD one of a pod that fails at once.
func jobSets() []Manifest {
	var out []Manifest
	for _, r := range jobSetRows() {
		spec := r.spec
		for _, word := range [][2]string{ // those that have others in them first
			{"JOB", "template: {spec: {POD}}"},
			{"TWO", "template: {spec: {parallelism: 2, completions: 2, POD}}"},
			{"POD", "template: {spec: {containers: [{WORK}]}}"},
			{"FOREVER", "template: {metadata: {annotations: {mlbatch.dev/run-for: forever}}, spec: {containers: [{WORK}]}}"},
			{"BAD", `template: {metadata: {annotations: {mlbatch.dev/exit-code: "1", mlbatch.dev/run-for: 0s}}, spec: {restartPolicy: Never, containers: [{WORK}]}}`},
			{"WORK", "name: main, " + strings.Join([]string{image, command, sizes}, ", ")},
		} {
			spec = strings.ReplaceAll(spec, word[0], word[1])
		}
		metadata := r.metadata
		if !strings.HasPrefix(metadata, "generateName") {
			metadata = "name: jobset-" + r.name + metadata
		}
		m := Manifest{Kind: "JobSet", Name: r.name, Why: r.why, Pods: r.pods, Ends: "Completed"}
		if r.fails {
			m.Ends = "Failed"
		}
		m.Text = fmt.Sprintf(
			"apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nmetadata: {%s}\nspec: {%s}\n",
			metadata,
			spec,
		)
		out = append(out, m)
	}
	return out
}

func jobSetRows() []row {
	return []row{
		{
			name: "plain",
			why:  "what every example begins with",
			spec: "replicatedJobs: [{name: workers, replicas: 2, TWO}]",
			pods: 4,
		},
		{name: "defaults", why: "all that may be left out is", spec: "replicatedJobs: [{name: a, JOB}]", pods: 1},
		{
			name: "parallel",
			why:  "two kinds of Jobs",
			spec: "replicatedJobs: [{name: workers, TWO}, {name: driver, JOB}]",
			pods: 3,
		},
		{
			name: "spelled-out",
			why:  "defaults are written, too",
			spec: `network: {enableDNSHostnames: true, publishNotReadyAddresses: true}, startupPolicy: {startupPolicyOrder: AnyOrder}, successPolicy: {operator: All}, suspend: false,
  failurePolicy: {maxRestarts: 3, restartStrategy: Recreate}, replicatedJobs: [{name: workers, groupName: default, replicas: 1, template: {spec: {completionMode: Indexed, parallelism: 2, completions: 2, backoffLimit: 0, template: {spec: {restartPolicy: OnFailure, containers: [{WORK}]}}}}}]`,
			pods: 2,
		},
		{
			name: "leader",
			why:  "the leader is stopped when the workers are done",
			spec: "successPolicy: {operator: All, targetReplicatedJobs: [workers]}, replicatedJobs: [{name: leader, template: {spec: {FOREVER}}}, {name: workers, TWO}]",
			pods: 3,
		},
		{
			name: "any",
			why:  "the first that succeeds is enough",
			spec: "successPolicy: {operator: Any, targetReplicatedJobs: [workers]}, replicatedJobs: [{name: leader, template: {spec: {FOREVER}}}, {name: workers, replicas: 2, JOB}]",
			pods: 3,
		},
		{
			name: "any-of-all",
			why:  "of whatever role",
			spec: "successPolicy: {operator: Any}, replicatedJobs: [{name: a, template: {spec: {FOREVER}}}, {name: b, JOB}]",
			pods: 2,
		},
		{
			name:  "fails",
			why:   "without a policy one failure is the end",
			spec:  "replicatedJobs: [{name: good, template: {spec: {FOREVER}}}, {name: bad, template: {spec: {backoffLimit: 0, BAD}}}]",
			pods:  2,
			fails: true,
		},
		{
			name:  "max-restarts",
			why:   "tried again in vain",
			spec:  "failurePolicy: {maxRestarts: 2}, replicatedJobs: [{name: bad, replicas: 2, template: {spec: {backoffLimit: 0, BAD}}}]",
			pods:  2,
			fails: true,
		},
		{
			name: "recovers",
			why:  "tried again, and then it goes well",
			spec: `failurePolicy: {maxRestarts: 3}, replicatedJobs: [{name: good, TWO}, {name: workers, template: {spec: {backoffLimit: 0,
  template: {metadata: {annotations: {mlbatch.dev/fail-first: "1", mlbatch.dev/run-for: 0s}}, spec: {restartPolicy: Never, containers: [{WORK}]}}}}}]`,
			pods: 3,
		},
		{
			name: "blocking",
			why:  "none begins before all are gone",
			spec: `failurePolicy: {maxRestarts: 3, restartStrategy: BlockingRecreate}, replicatedJobs: [{name: good, TWO}, {name: workers, template: {spec: {backoffLimit: 0,
  template: {metadata: {annotations: {mlbatch.dev/fail-first: "1", mlbatch.dev/run-for: 0s}}, spec: {restartPolicy: Never, containers: [{WORK}]}}}}}]`,
			pods: 3,
		},
		{
			name:  "rule-fail",
			why:   "failures of one role are final",
			spec:  "failurePolicy: {maxRestarts: 3, rules: [{name: leaderFails, action: FailJobSet, targetReplicatedJobs: [leader]}]}, replicatedJobs: [{name: leader, template: {spec: {backoffLimit: 0, BAD}}}, {name: workers, template: {spec: {FOREVER}}}]",
			pods:  2,
			fails: true,
		},
		{
			name:  "rule-reason",
			why:   "failures for a reason are final",
			spec:  "failurePolicy: {maxRestarts: 3, rules: [{action: FailJobSet, onJobFailureReasons: [BackoffLimitExceeded, PodFailurePolicy]}]}, replicatedJobs: [{name: bad, template: {spec: {backoffLimit: 0, BAD}}}]",
			pods:  1,
			fails: true,
		},
		{
			name: "rule-free",
			why:  "hosts that fail do not count",
			spec: `failurePolicy: {maxRestarts: 0, rules: [{action: RestartJobSetAndIgnoreMaxRestarts, onJobFailureReasons: [PodFailurePolicy]}, {action: FailJobSet}]}, replicatedJobs: [{name: workers, template: {spec: {backoffLimit: 0,
  podFailurePolicy: {rules: [{action: FailJob, onPodConditions: [{type: DisruptionTarget, status: "True"}]}]}, template: {spec: {restartPolicy: Never, containers: [{WORK}]}}}}}]`,
			pods: 1,
		},
		{
			name:  "rule-message",
			why:   "failures that say something",
			spec:  `failurePolicy: {maxRestarts: 1, rules: [{name: backoff, action: FailJobSet, onJobFailureMessagePatterns: ["reached the specified backoff limit$"]}]}, replicatedJobs: [{name: bad, template: {spec: {backoffLimit: 0, BAD}}}]`,
			pods:  1,
			fails: true,
		},
		{
			name: "rule-job",
			why:  "the Job alone is made anew",
			spec: `failurePolicy: {maxRestarts: 3, rules: [{action: RestartJob, targetReplicatedJobs: [workers]}]}, replicatedJobs: [{name: good, TWO}, {name: workers, template: {spec: {backoffLimit: 0,
  template: {metadata: {annotations: {mlbatch.dev/fail-first: "1", mlbatch.dev/run-for: 0s}}, spec: {restartPolicy: Never, containers: [{WORK}]}}}}}]`,
			pods: 3,
		},
		{
			name: "in-order",
			why:  "drivers first",
			spec: "startupPolicy: {startupPolicyOrder: InOrder}, successPolicy: {operator: All, targetReplicatedJobs: [workers]}, replicatedJobs: [{name: driver, template: {spec: {FOREVER}}}, {name: workers, replicas: 2, JOB}]",
			pods: 3,
		},
		{
			name: "depends-ready",
			why:  "workers wait for the leader",
			spec: "successPolicy: {operator: All, targetReplicatedJobs: [workers]}, replicatedJobs: [{name: leader, template: {spec: {FOREVER}}}, {name: workers, TWO, dependsOn: [{name: leader, status: Ready}]}]",
			pods: 3,
		},
		{
			name: "depends-complete",
			why:  "data first",
			spec: "replicatedJobs: [{name: initializer, JOB}, {name: trainer, TWO, dependsOn: [{name: initializer, status: Complete}]}]",
			pods: 3,
		},
		{
			name: "depends-on-two",
			why:  "two have to be done",
			spec: "replicatedJobs: [{name: data, JOB}, {name: model, JOB}, {name: trainer, TWO, dependsOn: [{name: data, status: Complete}, {name: model, status: Complete}]}]",
			pods: 4,
		},
		{
			name: "network",
			why:  "a name of its own",
			spec: "network: {enableDNSHostnames: true, subdomain: my-subdomain, publishNotReadyAddresses: false}, replicatedJobs: [{name: workers, TWO}]",
			pods: 2,
		},
		{
			name: "no-network",
			why:  "pods that need not find each other",
			spec: "network: {enableDNSHostnames: false}, replicatedJobs: [{name: workers, TWO}]",
			pods: 2,
		},
		{
			name: "coordinator",
			why:  "all are told where it is",
			spec: "coordinator: {replicatedJob: driver, jobIndex: 0, podIndex: 0}, replicatedJobs: [{name: workers, TWO}, {name: driver, JOB}]",
			pods: 3,
		},
		{
			name: "groups",
			why:  "roles that are counted together",
			spec: "replicatedJobs: [{name: a, groupName: blue, replicas: 2, JOB}, {name: b, groupName: blue, JOB}, {name: c, groupName: red, JOB}]",
			pods: 4,
		},
		{
			name: "ttl",
			why:  "it goes by itself",
			spec: "ttlSecondsAfterFinished: 600, replicatedJobs: [{name: workers, JOB}]",
			pods: 1,
		},
		{
			name: "suspended",
			why:  "as queues want it",
			spec: "suspend: true, replicatedJobs: [{name: workers, TWO}]",
			pods: 2,
		},
		{
			name: "managed",
			why:  "it names the controller that there is",
			spec: "managedBy: jobset.sigs.k8s.io/jobset-controller, replicatedJobs: [{name: workers, JOB}]",
			pods: 1,
		},
		{
			name: "none-of-one",
			why:  "generators write the empty role",
			spec: "replicatedJobs: [{name: leader, JOB}, {name: workers, replicas: 0, TWO}]",
			pods: 1,
		},
		{
			name: "waves",
			why:  "more work than pods at a time",
			spec: "replicatedJobs: [{name: workers, template: {spec: {parallelism: 2, completions: 4, POD}}}]",
			pods: 2,
		},
		{
			name: "work-queue",
			why:  "pods that share work",
			spec: "replicatedJobs: [{name: workers, template: {spec: {completionMode: NonIndexed, parallelism: 2, POD}}}]",
			pods: 2,
		},
		{
			name:     "exclusive",
			why:      "each Job in a rack of its own",
			metadata: ", annotations: {alpha.jobset.sigs.k8s.io/exclusive-topology: topology.kubernetes.io/rack}",
			spec:     "replicatedJobs: [{name: workers, replicas: 2, TWO}]",
			pods:     4,
		},
		{
			name: "exclusive-role",
			why:  "those of one role",
			spec: "replicatedJobs: [{name: workers, replicas: 2, template: {metadata: {annotations: {alpha.jobset.sigs.k8s.io/exclusive-topology: topology.kubernetes.io/rack}}, spec: {parallelism: 2, completions: 2, POD}}}]",
			pods: 4,
		},
		{
			name: "topology",
			why:  "near to each other",
			spec: "replicatedJobs: [{name: workers, replicas: 2, template: {spec: {parallelism: 2, completions: 2, template: {metadata: {annotations: {kueue.x-k8s.io/podset-preferred-topology: topology.kubernetes.io/rack}}, spec: {containers: [{WORK}]}}}}}]",
			pods: 4,
		},
		{
			name:     "labelled",
			why:      "labels and annotations at every level",
			metadata: ", labels: {team: blue}, annotations: {note: hello}",
			spec:     "replicatedJobs: [{name: workers, template: {metadata: {labels: {app: train}, annotations: {note: job}}, spec: {parallelism: 2, completions: 2, template: {metadata: {labels: {app: train}, annotations: {sidecar.istio.io/inject: \"false\"}}, spec: {containers: [{WORK}]}}}}}]",
			pods:     2,
		},
		{
			name:     "generated",
			why:      "a name of the API server's",
			metadata: "generateName: train-",
			spec:     "replicatedJobs: [{name: workers, JOB}]",
			pods:     1,
		},
		{
			name: "gpus",
			why:  "what most of them are for",
			spec: `replicatedJobs: [{name: workers, template: {spec: {parallelism: 2, completions: 2, backoffLimit: 0, template: {spec: {containers: [{name: pytorch, ` + image + `, ` + command + `, ports: [{containerPort: 3389}], resources: {limits: {nvidia.com/gpu: 1, cpu: 2, memory: 8Gi}},
  env: [{name: MASTER_ADDR, value: jobset-gpus-workers-0-0.jobset-gpus}, {name: RANK, valueFrom: {fieldRef: {fieldPath: "metadata.annotations['batch.kubernetes.io/job-completion-index']"}}}, {name: SLICE, valueFrom: {fieldRef: {fieldPath: "metadata.labels['jobset.sigs.k8s.io/job-global-index']"}}}]}]}}}}}]`,
			pods: 2,
		},
		{
			name: "limits",
			why:  "everything that a Job can say",
			spec: `replicatedJobs: [{name: workers, template: {spec: {parallelism: 2, completions: 2, activeDeadlineSeconds: 3600, backoffLimitPerIndex: 1, maxFailedIndexes: 1, podReplacementPolicy: Failed, suspend: false, successPolicy: {rules: [{succeededIndexes: "0-1", succeededCount: 1}]},
  podFailurePolicy: {rules: [{action: Ignore, onPodConditions: [{type: DisruptionTarget, status: "True"}]}, {action: FailIndex, onExitCodes: {containerName: main, operator: In, values: [42]}}]}, template: {spec: {restartPolicy: Never, containers: [{WORK}]}}}}}]`,
			pods: 2,
		},
		{
			name: "claims",
			why:  "volumes of the JobSet's own",
			spec: `volumeClaimPolicies: [{templates: [{metadata: {name: cache, labels: {use: cache}}, spec: {storageClassName: "", accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}], retentionPolicy: {whenDeleted: Delete}}],
  replicatedJobs: [{name: workers, template: {spec: {template: {spec: {containers: [{WORK, volumeMounts: [{name: cache, mountPath: /cache}]}]}}}}}]`,
			pods: 1,
		},
		{
			name: "placed",
			why:  "where pods may run",
			spec: `replicatedJobs: [{name: workers, template: {spec: {parallelism: 2, completions: 2, template: {spec: {nodeSelector: {kubernetes.io/os: linux}, tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}], hostIPC: false, terminationGracePeriodSeconds: 5,
  affinity: {podAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, podAffinityTerm: {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: train}}}}]}}, containers: [{WORK}]}}}}}]`,
			pods: 2,
		},
	}
}
