// Package corpus has manifests of jobs as people write them, many of each kind: every
// field that is used in public, alone and with others. They are small, and their pods
// sleep for a moment, so that a simulated cluster runs all of them.
package corpus

import (
	"fmt"
	"slices"
	"strings"
)

// Manifest is one job.
type Manifest struct {
	// Kind of the job, and what is special about this one; both together are unique.
	Kind, Name string
	// Why it is there.
	Why string
	// Text is YAML. It names no namespace.
	Text string
	// Privileged: namespaces that keep their pods apart from nodes refuse them.
	Privileged bool
	// Pods are how many it has at the same time, and Ends the condition that it ends with:
	// Succeeded, or Completed for JobSets, or Failed.
	Pods int
	Ends string
}

// row is a manifest with words that stand for what is different between kinds: FIELD
// for the spec's field with the roles, POD for a template, MAIN for the name of the
// container that works, MASTER for the master that a kind must have.
type row struct {
	name, why, spec string
	pods            int // besides those of MASTER
	fails           bool
	privileged      bool
	metadata        string // instead of the name, or more than it
}

// kind is how manifests of a kind are spelled.
type kind struct {
	name, field, main, port string
	// master is there in every job of the kind.
	master bool
	rows   []row
}

// All returns the manifests, in the order of kinds and rows.
func All() []Manifest {
	var out []Manifest
	for _, k := range training() {
		for _, r := range slices.Concat(common(), k.rows) {
			out = append(out, k.manifest(r))
		}
	}
	return append(append(out, jobSets()...), mpi()...)
}

const (
	image   = "image: ghcr.io/example/train:1"
	command = `command: [sh, -c, "sleep 1"]`
	sizes   = `resources: {requests: {cpu: 100m, memory: 64Mi}, limits: {cpu: "1", memory: 64Mi}}`
)

func (k *kind) manifest(r row) Manifest {
	m := Manifest{
		Kind:       k.name,
		Name:       r.name,
		Why:        r.why,
		Pods:       r.pods,
		Privileged: r.privileged,
		Ends:       "Succeeded",
	}
	if r.fails {
		m.Ends = "Failed"
	}
	master := ""
	if k.master {
		master = "Master: {POD}, "
		if r.fails { // before the master can succeed
			master = "Master: {template: {metadata: {annotations: {mlbatch.dev/run-for: forever}}, spec: {containers: [{WORK}]}}}, "
		}
		if strings.Contains(r.spec, "MASTER") {
			m.Pods++
		}
	}
	spec := strings.ReplaceAll(r.spec, "MASTER", master)
	for word, text := range map[string]string{ // none contains another's word
		"POD":   "template: {spec: {containers: [{WORK}]}}",
		"FIELD": k.field, "PORT": k.port,
	} {
		spec = strings.ReplaceAll(spec, word, text)
	}
	spec = strings.ReplaceAll(spec, "WORK", "name: MAIN, "+strings.Join([]string{image, command, sizes}, ", "))
	spec = strings.ReplaceAll(spec, "MAIN", k.main)
	metadata := r.metadata
	if !strings.HasPrefix(metadata, "generateName") {
		metadata = fmt.Sprintf("name: %s-%s%s", strings.ToLower(k.name), r.name, metadata)
	}
	m.Text = fmt.Sprintf(
		"apiVersion: kubeflow.org/v1\nkind: %s\nmetadata: {%s}\nspec: {%s}\n",
		k.name,
		metadata,
		spec,
	)
	return m
}

// common are rows for every kind of training job.
func common() []row {
	return []row{
		{
			name: "plain",
			why:  "what every example begins with",
			spec: "FIELD: {MASTERWorker: {replicas: 2, restartPolicy: OnFailure, POD}}",
			pods: 2,
		},
		{name: "defaults", why: "all that may be left out is", spec: "FIELD: {MASTERWorker: {POD}}", pods: 1},
		{name: "lower", why: "roles in any case", spec: "FIELD: {MASTERworker: {replicas: 2, POD}}", pods: 2},
		{
			name: "clean-none",
			why:  "pods stay for their logs",
			spec: "runPolicy: {cleanPodPolicy: None}, FIELD: {MASTERWorker: {replicas: 2, POD}}",
			pods: 2,
		},
		{
			name: "clean-running",
			why:  "those that go on are stopped",
			spec: "runPolicy: {cleanPodPolicy: Running}, FIELD: {MASTERWorker: {replicas: 2, POD}}",
			pods: 2,
		},
		{
			name: "clean-all",
			why:  "nothing stays",
			spec: "runPolicy: {cleanPodPolicy: All}, FIELD: {MASTERWorker: {replicas: 2, POD}}",
			pods: 2,
		},
		{
			name: "ttl",
			why:  "the job goes by itself",
			spec: "runPolicy: {ttlSecondsAfterFinished: 600, cleanPodPolicy: All}, FIELD: {MASTERWorker: {POD}}",
			pods: 1,
		},
		{
			name: "deadline",
			why:  "time enough",
			spec: "runPolicy: {activeDeadlineSeconds: 36000}, FIELD: {MASTERWorker: {POD}}",
			pods: 1,
		},
		{
			name:  "late",
			why:   "not enough time",
			spec:  `runPolicy: {activeDeadlineSeconds: 1}, FIELD: {MASTERWorker: {template: {metadata: {annotations: {mlbatch.dev/run-for: forever}}, spec: {containers: [{WORK}]}}}}`,
			pods:  1,
			fails: true,
		},
		{
			name: "backoff",
			why:  "a few failures are survived",
			spec: "runPolicy: {backoffLimit: 3}, FIELD: {MASTERWorker: {replicas: 2, restartPolicy: OnFailure, POD}}",
			pods: 2,
		},
		{
			name: "exit-code",
			why:  "what may be of the moment is tried again",
			spec: "FIELD: {MASTERWorker: {replicas: 2, restartPolicy: ExitCode, POD}}",
			pods: 2,
		},
		{
			name: "never",
			why:  "nothing is tried again",
			spec: "FIELD: {MASTERWorker: {replicas: 2, restartPolicy: Never, POD}}",
			pods: 2,
		},
		{
			name:  "fails",
			why:   "a failure that is final",
			spec:  `FIELD: {MASTERWorker: {replicas: 2, restartPolicy: Never, template: {metadata: {annotations: {mlbatch.dev/exit-code: "1", mlbatch.dev/run-for: 0s}}, spec: {containers: [{WORK}]}}}}`,
			pods:  2,
			fails: true,
		},
		{
			name: "recovers",
			why:  "a failure of the moment",
			spec: `runPolicy: {backoffLimit: 5}, FIELD: {MASTERWorker: {replicas: 2, restartPolicy: ExitCode, template: {metadata: {annotations: {mlbatch.dev/exit-code: "137", mlbatch.dev/fail-first: "1", mlbatch.dev/run-for: 0s}}, spec: {containers: [{WORK}]}}}}`,
			pods: 2,
		},
		{
			name: "suspended",
			why:  "as queues want it",
			spec: "runPolicy: {suspend: true}, FIELD: {MASTERWorker: {replicas: 2, POD}}",
			pods: 2,
		},
		{
			name: "managed",
			why:  "it names the controller that there is",
			spec: "runPolicy: {managedBy: kubeflow.org/training-operator}, FIELD: {MASTERWorker: {POD}}",
			pods: 1,
		},
		{
			name: "scheduling",
			why:  "for gang schedulers",
			spec: "runPolicy: {schedulingPolicy: {minAvailable: 2, queue: q, minResources: {cpu: 2, memory: 1Gi}, scheduleTimeoutSeconds: 60, priorityClass: high-priority}}, FIELD: {MASTERWorker: {replicas: 2, POD}}",
			pods: 2,
		},
		{
			name:     "labelled",
			why:      "labels and annotations of the job and its pods",
			metadata: ", labels: {team: blue, app.kubernetes.io/name: train}, annotations: {note: hello}",
			spec:     `FIELD: {MASTERWorker: {replicas: 2, template: {metadata: {labels: {app: train}, annotations: {sidecar.istio.io/inject: "false"}}, spec: {containers: [{WORK}]}}}}`,
			pods:     2,
		},
		{
			name:     "generated",
			why:      "a name of the API server's",
			metadata: "generateName: train-",
			spec:     "FIELD: {MASTERWorker: {POD}}",
			pods:     1,
		},
		{
			name: "gpus",
			why:  "what most of them are for",
			spec: `FIELD: {MASTERWorker: {replicas: 2, template: {spec: {containers: [{name: MAIN, ` + image + `, ` + command + `, resources: {limits: {nvidia.com/gpu: 1, cpu: 2, memory: 8Gi}}}]}}}}`,
			pods: 2,
		},
		{
			name: "volumes",
			why:  "data, shared memory, configuration",
			spec: `FIELD: {MASTERWorker: {template: {spec: {containers: [{WORK, volumeMounts: [{name: shm, mountPath: /dev/shm}, {name: data, mountPath: /data, readOnly: true}, {name: config, mountPath: /config, subPath: a}]}],
  volumes: [{name: shm, emptyDir: {medium: Memory, sizeLimit: 1Gi}}, {name: data, projected: {sources: [{downwardAPI: {items: [{path: labels, fieldRef: {fieldPath: metadata.labels}}]}}]}}, {name: config, configMap: {name: c, optional: true}}]}}}}`,
			pods: 1,
		},
		{
			name: "environment",
			why:  "variables of every origin",
			spec: `FIELD: {MASTERWorker: {template: {spec: {containers: [{WORK, envFrom: [{configMapRef: {name: c, optional: true}}], env: [{name: NCCL_DEBUG, value: INFO}, {name: IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}, {name: KEY, valueFrom: {secretKeyRef: {name: s, key: k, optional: true}}}, {name: URL, value: "http://$(IP):80"}]}]}}}}`,
			pods: 1,
		},
		{
			name: "sidecar",
			why:  "containers beside and before the one that works",
			spec: `FIELD: {MASTERWorker: {template: {spec: {initContainers: [{name: fetch, image: busybox, command: [sh, -c, "true"]}], containers: [{name: logs, image: busybox, ` + command + `}, {WORK}]}}}}`,
			pods: 1,
		},
		{
			name: "placed",
			why:  "where pods may run",
			spec: `FIELD: {MASTERWorker: {replicas: 2, template: {spec: {nodeSelector: {kubernetes.io/os: linux}, tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}], priorityClassName: "",
  affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: {matchExpressions: [{key: zone, operator: In, values: [a]}]}}]}, podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, podAffinityTerm: {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: train}}}}]}},
  topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway, labelSelector: {matchLabels: {app: train}}}], containers: [{WORK}]}}}}`,
			pods: 2,
		},
		{
			name: "secured",
			why:  "who it runs as",
			spec: `FIELD: {MASTERWorker: {template: {spec: {serviceAccountName: default, automountServiceAccountToken: false, imagePullSecrets: [{name: pull}], hostIPC: false, securityContext: {runAsUser: 1000, fsGroup: 1000, seccompProfile: {type: RuntimeDefault}}, terminationGracePeriodSeconds: 5,
  containers: [{WORK, imagePullPolicy: IfNotPresent, workingDir: /tmp, args: [--epochs, "1"], securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL], add: [NET_BIND_SERVICE]}}}]}}}}`,
			pods: 1,
		},
		{
			name: "port",
			why:  "another port than the usual one",
			spec: "FIELD: {MASTERWorker: {replicas: 2, template: {spec: {containers: [{WORK, ports: [{name: PORT, containerPort: 24000}, {name: metrics, containerPort: 9400, protocol: TCP}]}]}}}}",
			pods: 2,
		},
		{
			name:       "host-network",
			why:        "fast networks",
			spec:       "FIELD: {MASTERWorker: {template: {spec: {hostNetwork: true, dnsPolicy: ClusterFirstWithHostNet, containers: [{WORK}]}}}}",
			pods:       1,
			privileged: true,
		},
		{
			name: "probed",
			why:  "probes and hooks",
			spec: `FIELD: {MASTERWorker: {template: {spec: {containers: [{WORK, readinessProbe: {exec: {command: ["true"]}, periodSeconds: 1}, livenessProbe: {tcpSocket: {port: 80}, initialDelaySeconds: 600}, lifecycle: {preStop: {exec: {command: ["true"]}}}}]}}}}`,
			pods: 1,
		},
	}
}
