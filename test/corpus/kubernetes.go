package corpus

import (
	"fmt"
	"strings"
)

// Kubernetes returns manifests of the kinds that Kubernetes has itself: pods, and what
// makes them. They end with the phase Succeeded or Failed (pods), Complete or Failed
// (Jobs, and those that a CronJob makes), or Ready, which means that all replicas are.
//
// What a pod says is written once and tried in every kind: WORK stands for a container,
// and LITTLE for its image and command alone.
func Kubernetes() []Manifest {
	var out []Manifest
	for _, k := range plainKinds() {
		for _, r := range k.rows {
			out = append(out, k.manifest(r))
		}
		for _, r := range podRows() {
			if k.endless && r.once || r.fails && k.kind != "Pod" {
				continue // their pods run for ever, or Jobs try them again for minutes
			}
			k.replicas = 1
			m := k.manifest(
				plainRow{name: r.name, why: r.why, spec: k.around, metadata: "labels: {case: pod}", pod: r},
			)
			out = append(out, m)
		}
	}
	return out
}

// podRow is what is special about a pod.
type podRow struct {
	name, why string
	meta      string // labels and annotations
	spec      string
	// once: only pods that end may say it. fails: it fails.
	once, fails bool
	privileged  bool
}

// plainRow is what is special about an object that makes pods.
type plainRow struct {
	name, why string
	metadata  string
	spec      string // TEMPLATE stands for the pods
	pods      int
	pod       podRow
	fails     bool
	ends      string // what else than the usual
}

// plainKind is how manifests of a kind are spelled.
type plainKind struct {
	version, kind string
	// around is the spec of one that has nothing special but its pods.
	around  string
	endless bool
	// restart is the pods' restart policy, where the kind asks for one.
	restart, ends string
	replicas      int
	rows          []plainRow
}

func (k *plainKind) manifest(r plainRow) Manifest {
	name := strings.ToLower(k.kind) + "-" + r.name
	p := r.pod
	if p.spec == "" {
		p.spec = "containers: [{WORK}]"
	}
	labels := "app: " + name
	if strings.Contains(p.meta, "labels: {") {
		p.meta = strings.Replace(p.meta, "labels: {", "labels: {"+labels+", ", 1)
	} else {
		p.meta = strings.Trim("labels: {"+labels+"}, "+p.meta, ", ")
	}
	if k.restart != "" && !strings.HasPrefix(p.spec, "restartPolicy") {
		p.spec = "restartPolicy: " + k.restart + ", " + p.spec
	}
	work := command
	if k.endless {
		work = `command: [sh, -c, "sleep 1000000"]`
	}
	p.spec = strings.NewReplacer(
		"WORK",
		"name: main, "+strings.Join([]string{image, work, sizes}, ", "),
		"LITTLE",
		image+", "+work,
	).
		Replace(p.spec)
	m := Manifest{
		Kind:       k.kind,
		Name:       r.name,
		Why:        r.why,
		Pods:       max(r.pods, k.replicas),
		Privileged: p.privileged,
		Ends:       k.ends,
	}
	switch {
	case r.ends != "":
		m.Ends = r.ends
	case r.fails || p.fails:
		m.Ends = "Failed"
	}
	metadata := r.metadata
	if !strings.HasPrefix(metadata, "generateName") {
		metadata = strings.TrimSuffix("name: "+name+", "+metadata, ", ")
	}
	spec := strings.NewReplacer(
		"TEMPLATE",
		fmt.Sprintf("template: {metadata: {%s}, spec: {%s}}", p.meta, p.spec),
		"SELECTOR",
		fmt.Sprintf("selector: {matchLabels: {%s}}", labels),
	).
		Replace(r.spec)
	if k.kind == "Pod" {
		own := p.meta
		if r.metadata != "" && !strings.HasPrefix(r.metadata, "labels: {case") {
			own += ", " + r.metadata
		}
		m.Text = fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: %s, %s}\nspec: {%s}\n", name, own, p.spec)
		return m
	}
	m.Text = fmt.Sprintf(
		"apiVersion: %s\nkind: %s\nmetadata: {%s}\nspec: {%s}\n",
		k.version,
		k.kind,
		metadata,
		spec,
	)
	return m
}

func plainKinds() []plainKind {
	return []plainKind{
		{version: "v1", kind: "Pod", restart: "Never", ends: "Succeeded"},
		{version: "batch/v1", kind: "Job", around: "TEMPLATE", restart: "Never", ends: "Complete", rows: jobRows()},
		{
			version: "batch/v1",
			kind:    "CronJob",
			around:  `schedule: "0 3 * * *", jobTemplate: {spec: {TEMPLATE}}`,
			restart: "Never",
			ends:    "Complete",
			rows:    cronRows(),
		},
		{
			version: "apps/v1",
			kind:    "Deployment",
			around:  "SELECTOR, TEMPLATE",
			endless: true,
			ends:    "Ready",
			rows:    servingRows("Deployment"),
		},
		{
			version: "apps/v1",
			kind:    "StatefulSet",
			around:  "serviceName: none, SELECTOR, TEMPLATE",
			endless: true,
			ends:    "Ready",
			rows:    servingRows("StatefulSet"),
		},
		{
			version: "apps/v1",
			kind:    "ReplicaSet",
			around:  "SELECTOR, TEMPLATE",
			endless: true,
			ends:    "Ready",
			rows:    servingRows("ReplicaSet"),
		},
	}
}

// podRows are what pods say, whoever makes them.
func podRows() []podRow {
	return []podRow{
		{name: "least", why: "an image and no requests", spec: "containers: [{name: main, LITTLE}]"},
		{
			name: "restarts",
			why:  "the kubelet tries again",
			spec: "restartPolicy: OnFailure, containers: [{WORK}]",
			once: true,
		},
		{
			name:  "fails",
			why:   "a failure that is final",
			meta:  `annotations: {mlbatch.dev/exit-code: "1", mlbatch.dev/run-for: 0s}`,
			once:  true,
			fails: true,
		},
		{
			name: "deadline",
			why:  "time enough",
			spec: "activeDeadlineSeconds: 36000, containers: [{WORK}]",
			once: true,
		},
		{
			name: "gpu-pool",
			why:  "GPU nodes that are tainted, by selector",
			spec: `tolerations: [{key: nvidia.com/gpu, operator: Equal, value: "true", effect: NoSchedule}], nodeSelector: {kubernetes.io/os: linux}, containers: [{name: main, LITTLE, resources: {limits: {nvidia.com/gpu: 1}}}]`,
		},
		{
			name: "gpu-affinity",
			why:  "GPU nodes that are tainted, by affinity",
			spec: `tolerations: [{key: nvidia.com/gpu, operator: Equal, value: "true", effect: NoSchedule}], affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/os, operator: In, values: [linux]}, {key: nvidia.com/gpu.product, operator: Exists}]}]}}}, containers: [{name: main, LITTLE, resources: {limits: {nvidia.com/gpu: 1}}}]`,
		},
		{
			name: "gpu-served",
			why:  "limits above requests, data from a claim",
			spec: `tolerations: [{key: nvidia.com/gpu, operator: Exists}], containers: [{name: main, LITTLE, resources: {limits: {nvidia.com/gpu: 1, memory: 16Gi, cpu: "4"}, requests: {memory: 8Gi, cpu: "2"}}, volumeMounts: [{name: data, mountPath: /data}]}], volumes: [{name: data, persistentVolumeClaim: {claimName: corpus}}]`,
		},
		{
			name: "pair",
			why:  "one serves and one asks it",
			spec: "containers: [{WORK}, {name: load, LITTLE, volumeMounts: [{name: signal, mountPath: /signal}]}], volumes: [{name: signal, emptyDir: {}}]",
		},
		{
			name: "before",
			why:  "init containers",
			spec: `initContainers: [{name: fetch, image: busybox, command: [sh, -c, "true"], resources: {requests: {cpu: 200m}}}, {name: unpack, image: busybox, command: [sh, -c, "true"]}], containers: [{WORK}]`,
		},
		{
			name: "beside",
			why:  "a sidecar that Kubernetes knows",
			spec: `initContainers: [{name: proxy, image: busybox, restartPolicy: Always, command: [sleep, "1000000"], resources: {requests: {cpu: 50m}}}], containers: [{WORK}]`,
		},
		{
			name: "environment",
			why:  "variables of every origin",
			spec: `containers: [{WORK, envFrom: [{configMapRef: {name: c, optional: true}}, {prefix: S_, secretRef: {name: s, optional: true}}], env: [{name: URI, value: "http://mlflow:5000"}, {name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}, {name: CPUS, valueFrom: {resourceFieldRef: {resource: limits.cpu}}}, {name: KEY, valueFrom: {secretKeyRef: {name: s, key: k, optional: true}}}]}]`,
		},
		{
			name: "volumes",
			why:  "volumes of every origin",
			spec: `containers: [{WORK, volumeMounts: [{name: shm, mountPath: /dev/shm}, {name: config, mountPath: /etc/a, subPath: a}, {name: pod, mountPath: /pod, readOnly: true}, {name: data, mountPath: /data}]}], volumes: [{name: shm, emptyDir: {medium: Memory, sizeLimit: 1Gi}}, {name: config, configMap: {name: c, optional: true, items: [{key: a, path: a}]}}, {name: pod, projected: {sources: [{downwardAPI: {items: [{path: labels, fieldRef: {fieldPath: metadata.labels}}]}}]}}, {name: data, persistentVolumeClaim: {claimName: corpus}}]`,
		},
		{
			name: "scratch",
			why:  "local disks",
			spec: `containers: [{name: main, LITTLE, volumeMounts: [{name: tmp, mountPath: /tmp}]}], volumes: [{name: tmp, emptyDir: {sizeLimit: 1Gi}}]`,
		},
		{
			name: "apart",
			why:  "pods that keep away from each other",
			spec: `affinity: {podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 100, podAffinityTerm: {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {team: x}}}}]}}, topologySpreadConstraints: [{maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: ScheduleAnyway, labelSelector: {matchLabels: {team: x}}}], containers: [{WORK}]`,
		},
		{
			name: "important",
			why:  "a priority of its own",
			spec: "priorityClassName: high-priority, containers: [{WORK}]",
		},
		{
			name: "secured",
			why:  "who it runs as",
			spec: `serviceAccountName: default, automountServiceAccountToken: false, imagePullSecrets: [{name: pull}], securityContext: {runAsUser: 1000, runAsNonRoot: true, fsGroup: 1000, seccompProfile: {type: RuntimeDefault}}, containers: [{WORK, imagePullPolicy: IfNotPresent, workingDir: /tmp, args: [a], securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}}]`,
		},
		{
			name: "probed",
			why:  "probes and hooks",
			spec: `terminationGracePeriodSeconds: 1, containers: [{WORK, ports: [{name: http, containerPort: 8000}], startupProbe: {exec: {command: ["true"]}, failureThreshold: 30}, readinessProbe: {httpGet: {path: /health, port: http}, periodSeconds: 1}, livenessProbe: {tcpSocket: {port: 8000}, initialDelaySeconds: 600}, lifecycle: {preStop: {exec: {command: ["true"]}}}}]`,
		},
		{
			name: "networked",
			why:  "how it finds others",
			spec: `hostname: a, subdomain: b, enableServiceLinks: false, dnsPolicy: None, dnsConfig: {nameservers: [10.0.0.10], searches: [blue.svc]}, hostAliases: [{ip: 10.0.0.1, hostnames: [storage]}], containers: [{WORK}]`,
		},
		{
			name: "as-a-whole",
			why:  "requests of the pod and not of its containers",
			spec: `resources: {requests: {cpu: 200m, memory: 64Mi}, limits: {cpu: "1", memory: 128Mi}}, containers: [{name: a, LITTLE}, {name: b, LITTLE}]`,
		},
		{
			name: "scheduled",
			why:  "it names the scheduler of Kubernetes",
			spec: "schedulerName: default-scheduler, preemptionPolicy: PreemptLowerPriority, shareProcessNamespace: true, os: {name: linux}, containers: [{WORK}]",
		},
		{
			name: "labelled",
			why:  "labels and annotations that mean nothing here",
			meta: `labels: {app.kubernetes.io/name: train, workload-type: ai-ml}, annotations: {sidecar.istio.io/inject: "false", prometheus.io/scrape: "true"}`,
		},
		{
			name: "topology",
			why:  "near to each other",
			meta: "annotations: {kueue.x-k8s.io/podset-preferred-topology: kubernetes.io/hostname}",
		},
		{
			name: "messages",
			why:  "where it says why it ended",
			spec: "containers: [{WORK, stdin: true, tty: true, terminationMessagePath: /tmp/why, terminationMessagePolicy: FallbackToLogsOnError, resizePolicy: [{resourceName: cpu, restartPolicy: NotRequired}]}]",
		},
		{
			name:       "on-the-host",
			why:        "fast networks",
			spec:       "hostNetwork: true, hostIPC: true, dnsPolicy: ClusterFirstWithHostNet, containers: [{WORK}]",
			privileged: true,
		},
	}
}

// jobRows are what Jobs say besides their pods.
func jobRows() []plainRow {
	return []plainRow{
		{
			name: "plain",
			why:  "what every example begins with",
			spec: "parallelism: 1, completions: 1, activeDeadlineSeconds: 1800, backoffLimit: 6, TEMPLATE",
			pod:  podRow{spec: "restartPolicy: OnFailure, containers: [{WORK}]"},
			pods: 1,
		},
		{
			name: "indexed",
			why:  "pods that know their part",
			spec: "completions: 3, parallelism: 3, completionMode: Indexed, TEMPLATE",
			pods: 3,
		},
		{
			name: "waves",
			why:  "more work than pods at a time",
			spec: "completions: 4, parallelism: 2, completionMode: Indexed, TEMPLATE",
			pods: 2,
		},
		{name: "work-queue", why: "pods that share work", spec: "parallelism: 2, TEMPLATE", pods: 2},
		{name: "ttl", why: "it goes by itself", spec: "ttlSecondsAfterFinished: 600, TEMPLATE", pods: 1},
		{
			name:  "fails-once",
			why:   "nothing is tried again",
			spec:  "backoffLimit: 0, TEMPLATE",
			pod:   podRow{meta: `annotations: {mlbatch.dev/exit-code: "1", mlbatch.dev/run-for: 0s}`},
			pods:  1,
			fails: true,
		},
		{
			name: "recovers",
			why:  "a failure of the moment",
			spec: "backoffLimit: 3, completions: 2, parallelism: 2, completionMode: Indexed, TEMPLATE",
			pod: podRow{
				spec: "restartPolicy: OnFailure, containers: [{WORK}]",
				meta: `annotations: {mlbatch.dev/fail-first: "1", mlbatch.dev/run-for: 0s}`,
			},
			pods: 2,
		},
		{
			name: "per-index",
			why:  "each part has its own retries",
			spec: "completions: 2, parallelism: 2, completionMode: Indexed, backoffLimitPerIndex: 1, maxFailedIndexes: 1, TEMPLATE",
			pods: 2,
		},
		{
			name: "policy",
			why:  "what failures mean",
			spec: `podReplacementPolicy: Failed, podFailurePolicy: {rules: [{action: Ignore, onPodConditions: [{type: DisruptionTarget, status: "True"}]}, {action: FailJob, onExitCodes: {containerName: main, operator: In, values: [42]}}, {action: Count, onExitCodes: {operator: NotIn, values: [0, 42]}}]}, TEMPLATE`,
			pods: 1,
		},
		{
			name: "policy-index",
			why:  "a part that is given up",
			spec: `completions: 2, parallelism: 2, completionMode: Indexed, backoffLimitPerIndex: 2, podFailurePolicy: {rules: [{action: FailIndex, onExitCodes: {operator: In, values: [42]}}]}, TEMPLATE`,
			pods: 2,
		},
		{
			name: "leader",
			why:  "the first pod's success is enough",
			spec: `completions: 3, parallelism: 3, completionMode: Indexed, successPolicy: {rules: [{succeededIndexes: "0"}]}, TEMPLATE`,
			pods: 3,
		},
		{
			name: "some",
			why:  "some successes are enough",
			spec: `completions: 3, parallelism: 3, completionMode: Indexed, successPolicy: {rules: [{succeededIndexes: "0-2", succeededCount: 2}]}, TEMPLATE`,
			pods: 3,
		},
		{
			name: "suspended",
			why:  "as queues want it",
			spec: "suspend: true, completions: 2, parallelism: 2, TEMPLATE",
			pods: 2,
		},
		{
			name:     "shrinks",
			why:      "it may start smaller",
			metadata: `annotations: {kueue.x-k8s.io/job-min-parallelism: "1"}`,
			spec:     "completions: 3, parallelism: 3, TEMPLATE",
			pods:     3,
		},
		{
			name:     "shrinks-whole",
			why:      "it may be smaller altogether",
			metadata: `annotations: {kueue.x-k8s.io/job-min-parallelism: "1", kueue.x-k8s.io/job-completions-equal-parallelism: "true"}`,
			spec:     "completions: 3, parallelism: 3, completionMode: Indexed, TEMPLATE",
			pods:     3,
		},
		{
			name:     "limited",
			why:      "a limit of the queue's",
			metadata: `labels: {kueue.x-k8s.io/max-exec-time-seconds: "3600"}`,
			spec:     "TEMPLATE",
			pods:     1,
		},
		{name: "selected", why: "a selector of its own", spec: "manualSelector: true, SELECTOR, TEMPLATE", pods: 1},
		{
			name:     "generated",
			why:      "a name of the API server's",
			metadata: "generateName: job-",
			spec:     "TEMPLATE",
			pods:     1,
		},
		{
			name: "managed",
			why:  "it names the controller that there is",
			spec: "managedBy: kubernetes.io/job-controller, TEMPLATE",
			pods: 1,
		},
	}
}

// cronRows are what CronJobs say besides their Jobs. None is due while tests run.
func cronRows() []plainRow {
	return []plainRow{
		{
			name: "plain",
			why:  "what every example begins with",
			spec: `schedule: "0 3 1 1 *", jobTemplate: {spec: {TEMPLATE}}`,
			pods: 1,
		},
		{
			name: "full",
			why:  "everything that it can say",
			spec: `schedule: "0 3 1 1 *", timeZone: Etc/UTC, concurrencyPolicy: Forbid, startingDeadlineSeconds: 60, successfulJobsHistoryLimit: 1, failedJobsHistoryLimit: 1, suspend: false, jobTemplate: {metadata: {labels: {nightly: "true"}, annotations: {note: hello}}, spec: {completions: 2, parallelism: 2, completionMode: Indexed, backoffLimit: 1, ttlSecondsAfterFinished: 600, TEMPLATE}}`,
			pods: 2,
		},
		{
			name: "replace",
			why:  "a new run ends the old one",
			spec: `schedule: "@yearly", concurrencyPolicy: Replace, jobTemplate: {spec: {TEMPLATE}}`,
			pods: 1,
		},
		{
			name: "off",
			why:  "for a while",
			spec: `schedule: "0 3 1 1 *", suspend: true, jobTemplate: {spec: {TEMPLATE}}`,
			pods: 1,
		},
	}
}

// servingRows are what Deployments, StatefulSets and ReplicaSets say besides their pods.
func servingRows(kind string) []plainRow {
	around := "SELECTOR, TEMPLATE"
	if kind == "StatefulSet" {
		around = "serviceName: none, SELECTOR, TEMPLATE"
	}
	out := []plainRow{
		{name: "plain", why: "what every example begins with", spec: "replicas: 2, " + around, pods: 2},
		{name: "defaults", why: "all that may be left out is", spec: around, pods: 1},
		{name: "none", why: "it is scaled up later", spec: "replicas: 0, " + around},
		{
			name: "expressed",
			why:  "a selector in words",
			spec: "replicas: 2, " + strings.Replace(
				around,
				"SELECTOR",
				"selector: {matchExpressions: [{key: app, operator: In, values: ["+strings.ToLower(kind)+"-expressed]}]}",
				1,
			),
			pods: 2,
		},
		{
			name:     "labelled-itself",
			why:      "labels that its pods do not have",
			metadata: `labels: {app: x, workload-type: ai-ml}, annotations: {note: hello}`,
			spec:     around,
			pods:     1,
		},
		{
			name: "patient",
			why:  "ready for a while before it counts",
			spec: "minReadySeconds: 1, " + around,
			pods: 1,
		},
	}
	switch kind {
	case "Deployment":
		out = append(
			out,
			plainRow{
				name: "rolling",
				why:  "how it is updated",
				spec: "replicas: 2, strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 25%, maxUnavailable: 0}}, revisionHistoryLimit: 2, progressDeadlineSeconds: 600, " + around,
				pods: 2,
			},
			plainRow{
				name: "recreated",
				why:  "one that shares nothing",
				spec: "strategy: {type: Recreate}, " + around,
				pods: 1,
			},
		)
	case "StatefulSet":
		out = append(
			out,
			plainRow{
				name: "parallel",
				why:  "in any order",
				spec: "replicas: 2, podManagementPolicy: Parallel, " + around,
				pods: 2,
			},
			plainRow{
				name: "partitioned",
				why:  "how it is updated",
				spec: "replicas: 2, updateStrategy: {type: RollingUpdate, rollingUpdate: {partition: 1}}, revisionHistoryLimit: 2, ordinals: {start: 1}, " + around,
				pods: 2,
			},
			plainRow{
				name: "on-delete",
				why:  "updated by hand",
				spec: "updateStrategy: {type: OnDelete}, " + around,
				pods: 1,
			},
			plainRow{
				name: "claims",
				why:  "each pod has a volume",
				spec: `replicas: 2, persistentVolumeClaimRetentionPolicy: {whenDeleted: Delete, whenScaled: Delete}, volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}], ` + around,
				pods: 2,
				pod:  podRow{spec: "containers: [{WORK, volumeMounts: [{name: data, mountPath: /data}]}]"},
			},
		)
	}
	return out
}
