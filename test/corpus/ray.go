package corpus

import (
	"fmt"
	"strings"
)

// Ray returns the manifests of Ray's kinds. A cluster has no end: Ends is the state that it
// comes to.
func Ray() []Manifest {
	var out []Manifest
	for _, r := range clusters() {
		out = append(out, ray("RayCluster", "ready", r))
	}
	for _, r := range rayJobs() {
		ends := "Complete"
		if r.fails {
			ends = "Failed"
		}
		out = append(out, ray("RayJob", ends, r))
	}
	for _, r := range rayServices() {
		out = append(out, ray("RayService", "Running", r))
	}
	return out
}

// Words that stand for what manifests have in common: NODE is a container, LITTLE a template
// with it.
const (
	rayContainer = `name: ray, image: "rayproject/ray:2.46.0", resources: {requests: {cpu: 100m, memory: 64Mi}, limits: {cpu: "1", memory: 64Mi}}`
	rayTemplate  = "template: {spec: {containers: [{NODE}]}}"
)

func ray(kind, ends string, r row) Manifest {
	spec := strings.ReplaceAll(
		r.spec,
		"CLUSTER",
		"rayClusterSpec: {headGroupSpec: {rayStartParams: {}, LITTLE}, workerGroupSpecs: [{groupName: small-group, replicas: 1, minReplicas: 1, maxReplicas: 5, rayStartParams: {}, LITTLE}]}",
	)
	spec = strings.ReplaceAll(
		spec,
		"APPS",
		`serveConfigV2: "applications:\n- name: fruit\n  import_path: fruit.graph\n  route_prefix: /fruit\n  deployments:\n  - name: Market\n    num_replicas: 1\n"`,
	)
	spec = strings.ReplaceAll(
		spec,
		"CONFIG",
		"rayClusterConfig: {headGroupSpec: {LITTLE}, workerGroupSpecs: [{groupName: small-group, replicas: 1, minReplicas: 1, maxReplicas: 5, rayStartParams: {}, LITTLE}]}",
	)
	spec = strings.ReplaceAll(strings.ReplaceAll(spec, "LITTLE", rayTemplate), "NODE", rayContainer)
	metadata := r.metadata
	if !strings.HasPrefix(metadata, "generateName") {
		metadata = fmt.Sprintf("name: %s-%s%s", strings.ToLower(kind), r.name, metadata)
	}
	version := "v1"
	if strings.HasPrefix(r.name, "old") {
		version = "v1alpha1"
	}
	return Manifest{
		Kind:       kind,
		Name:       r.name,
		Why:        r.why,
		Pods:       r.pods,
		Privileged: r.privileged,
		Ends:       ends,
		Text: fmt.Sprintf(
			"apiVersion: ray.io/%s\nkind: %s\nmetadata: {%s}\nspec: {%s}\n",
			version,
			kind,
			metadata,
			spec,
		),
	}
}

// clusters are what people write of RayClusters.
func clusters() []row {
	return []row{
		{name: "head", why: "a head alone", spec: "headGroupSpec: {LITTLE}", pods: 1},
		{
			name: "sample",
			why:  "what every example begins with",
			spec: `rayVersion: "2.46.0", headGroupSpec: {rayStartParams: {}, template: {spec: {containers: [{name: ray-head, image: "rayproject/ray:2.46.0", resources: {limits: {cpu: 1, memory: 2Gi}, requests: {cpu: 1, memory: 2Gi}},
  ports: [{containerPort: 6379, name: gcs-server}, {containerPort: 8265, name: dashboard}, {containerPort: 10001, name: client}]}]}}}, workerGroupSpecs: [{replicas: 1, minReplicas: 1, maxReplicas: 5, groupName: workergroup, rayStartParams: {}, LITTLE}]`,
			pods: 2,
		},
		{
			name: "complete",
			why:  "all that a template may say",
			spec: `headGroupSpec: {serviceType: ClusterIP, rayStartParams: {dashboard-host: 0.0.0.0}, template: {metadata: {labels: {app: x}}, spec: {containers: [{NODE, ports: [{containerPort: 6379, name: gcs-server}, {containerPort: 8265, name: dashboard}, {containerPort: 10001, name: client}, {containerPort: 8000, name: serve}],
  lifecycle: {preStop: {exec: {command: [/bin/sh, -c, ray stop]}}}, volumeMounts: [{mountPath: /tmp/ray, name: ray-logs}]}], volumes: [{name: ray-logs, emptyDir: {}}]}}},
  workerGroupSpecs: [{replicas: 1, minReplicas: 1, maxReplicas: 10, groupName: small-group, rayStartParams: {}, template: {spec: {containers: [{NODE, lifecycle: {preStop: {exec: {command: [/bin/sh, -c, ray stop]}}}, volumeMounts: [{mountPath: /tmp/ray, name: ray-logs}]}], volumes: [{name: ray-logs, emptyDir: {}}]}}}]`,
			pods: 2,
		},
		{
			name: "groups",
			why:  "workers of several kinds",
			spec: "headGroupSpec: {LITTLE}, workerGroupSpecs: [{groupName: cpu, replicas: 2, minReplicas: 0, maxReplicas: 4, rayStartParams: {}, LITTLE}, {groupName: big, replicas: 1, minReplicas: 0, maxReplicas: 1, rayStartParams: {resources: '\"{\\\"disk\\\": 1}\"'}, LITTLE}, {groupName: spare, replicas: 0, minReplicas: 0, maxReplicas: 3, rayStartParams: {}, LITTLE}]",
			pods: 4,
		},
		{
			name: "least",
			why:  "replicas left out",
			spec: "headGroupSpec: {LITTLE}, workerGroupSpecs: [{groupName: g, minReplicas: 2, maxReplicas: 3, LITTLE}]",
			pods: 3,
		},
		{
			name: "hosts",
			why:  "replicas of several hosts",
			spec: "headGroupSpec: {LITTLE}, workerGroupSpecs: [{groupName: slices, replicas: 2, numOfHosts: 2, minReplicas: 0, maxReplicas: 2, LITTLE}]",
			pods: 5,
		},
		{
			name: "grows",
			why:  "it decides itself how many workers it has",
			spec: "enableInTreeAutoscaling: true, headGroupSpec: {rayStartParams: {num-cpus: '0'}, LITTLE}, workerGroupSpecs: [{groupName: g, replicas: 1, minReplicas: 0, maxReplicas: 3, LITTLE}]",
			pods: 2,
		},
		{
			name: "scaler",
			why:  "every option of the autoscaler",
			spec: `enableInTreeAutoscaling: true, autoscalerOptions: {version: v2, upscalingMode: Default, idleTimeoutSeconds: 60, image: "rayproject/ray:2.46.0", imagePullPolicy: IfNotPresent, securityContext: {}, env: [{name: A, value: b}], envFrom: [], resources: {limits: {cpu: 500m, memory: 512Mi}, requests: {cpu: 500m, memory: 512Mi}}},
  headGroupSpec: {LITTLE}, workerGroupSpecs: [{groupName: g, replicas: 1, minReplicas: 1, maxReplicas: 2, idleTimeoutSeconds: 30, LITTLE}]`,
			pods: 2,
		},
		{
			name: "scaler-one",
			why:  "the older autoscaler, by name",
			spec: "enableInTreeAutoscaling: true, autoscalerOptions: {version: v1, upscalingMode: Conservative}, headGroupSpec: {LITTLE}, workerGroupSpecs: [{groupName: g, maxReplicas: 1, LITTLE}]",
			pods: 1,
		},
		{
			name: "scaler-mounts",
			why:  "the autoscaler sees the logs of Ray",
			spec: "enableInTreeAutoscaling: true, autoscalerOptions: {volumeMounts: [{name: logs, mountPath: /var/log/ray}]}, headGroupSpec: {enableIngress: false, template: {spec: {volumes: [{name: logs, emptyDir: {}}], containers: [{NODE, volumeMounts: [{name: logs, mountPath: /var/log/ray}]}]}}}, workerGroupSpecs: [{groupName: g, maxReplicas: 1, LITTLE}]",
			pods: 1,
		},
		{
			name: "going",
			why:  "as an autoscaler leaves it",
			spec: "headGroupSpec: {LITTLE}, workerGroupSpecs: [{groupName: g, replicas: 1, minReplicas: 0, maxReplicas: 3, scaleStrategy: {workersToDelete: [raycluster-going-g-worker-0]}, LITTLE}]",
			pods: 2,
		},
		{
			name: "suspended",
			why:  "as queues want it",
			spec: "suspend: true, headGroupSpec: {LITTLE}, workerGroupSpecs: [{groupName: g, replicas: 1, LITTLE}]",
			pods: 2,
		},
		{
			name: "part",
			why:  "a group that has no pods yet",
			spec: "headGroupSpec: {LITTLE}, workerGroupSpecs: [{groupName: g, replicas: 3, suspend: true, LITTLE}]",
			pods: 1,
		},
		{
			name: "managed",
			why:  "it names the controller that there is",
			spec: "managedBy: ray.io/kuberay-operator, headGroupSpec: {LITTLE}",
			pods: 1,
		},
		{
			name: "redis",
			why:  "the head may be lost",
			spec: `gcsFaultToleranceOptions: {backend: redis, redisAddress: "redis:6379", redisPassword: {valueFrom: {secretKeyRef: {name: redis, key: password}}}, redisUsername: {value: me}, externalStorageNamespace: mine}, headGroupSpec: {LITTLE}, workerGroupSpecs: [{groupName: g, replicas: 1, LITTLE}]`,
			pods: 2,
		},
		{
			name:     "redis-noted",
			why:      "the older way to say it",
			metadata: `, annotations: {ray.io/ft-enabled: "true", ray.io/external-storage-namespace: mine}`,
			spec:     "headGroupSpec: {rayStartParams: {redis-password: $REDIS_PASSWORD}, template: {spec: {containers: [{NODE, env: [{name: RAY_REDIS_ADDRESS, value: 'redis:6379'}, {name: REDIS_PASSWORD, value: x}]}]}}}",
			pods:     1,
		},
		{
			name: "command",
			why:  "something to run first",
			spec: `headGroupSpec: {template: {spec: {containers: [{NODE, command: ["echo hello"], args: ["&& echo again"]}]}}}`,
			pods: 1,
		},
		{
			name:     "overwritten",
			why:      "its author starts Ray",
			metadata: `, annotations: {ray.io/overwrite-container-cmd: "true"}`,
			spec:     `headGroupSpec: {template: {spec: {containers: [{NODE, command: [/bin/bash, -c, --], args: ["ulimit -n 65536; $KUBERAY_GEN_RAY_START_CMD"]}]}}}`,
			pods:     1,
		},
		{
			name: "service",
			why:  "the head's service is described",
			spec: "headServiceAnnotations: {note: x}, headGroupSpec: {serviceType: NodePort, headService: {metadata: {name: ray-entry, labels: {a: b}, annotations: {c: d}}, spec: {ports: [{name: dashboard, port: 8265}]}}, LITTLE}",
			pods: 1,
		},
		{
			name: "balanced",
			why:  "it is reached from outside",
			spec: "headGroupSpec: {serviceType: LoadBalancer, LITTLE}",
			pods: 1,
		},
		{
			name: "token",
			why:  "who talks to it is asked for a token",
			spec: "authOptions: {mode: token}, headGroupSpec: {LITTLE}, workerGroupSpecs: [{groupName: g, replicas: 1, LITTLE}]",
			pods: 2,
		},
		{
			name: "token-meant",
			why:  "options without a mode ask for one, too",
			spec: "authOptions: {}, headGroupSpec: {LITTLE}",
			pods: 1,
		},
		{
			name: "token-named",
			why:  "a token that its author has",
			spec: "enableInTreeAutoscaling: true, authOptions: {mode: token, secretName: mine}, headGroupSpec: {LITTLE}, workerGroupSpecs: [{groupName: g, replicas: 1, minReplicas: 1, maxReplicas: 2, LITTLE}]",
			pods: 2,
		},
		{
			name: "token-kubernetes",
			why:  "tokens of ServiceAccounts",
			spec: "authOptions: {mode: token, enableK8sTokenAuth: true}, headGroupSpec: {LITTLE}, workerGroupSpecs: [{groupName: g, replicas: 1, LITTLE}]",
			pods: 2,
		},
		{
			name: "token-off",
			why:  "nobody is asked",
			spec: "authOptions: {mode: disabled}, headGroupSpec: {LITTLE}",
			pods: 1,
		},
		{
			name: "plain-text",
			why:  "certificates are not wanted",
			spec: "tlsOptions: {enabled: false}, headGroupSpec: {LITTLE}",
			pods: 1,
		},
		{
			name: "scaler-command",
			why:  "its author starts the autoscaler",
			spec: "enableInTreeAutoscaling: true, autoscalerOptions: {version: v2, command: [/bin/bash, -lc, --], args: ['echo now; $KUBERAY_GEN_AUTOSCALER_START_CMD']}, headGroupSpec: {LITTLE}, workerGroupSpecs: [{groupName: g, replicas: 1, minReplicas: 0, maxReplicas: 2, LITTLE}]",
			pods: 2,
		},
		{
			name: "waits",
			why:  "workers of old wait for the head by name",
			spec: "headGroupSpec: {LITTLE}, workerGroupSpecs: [{groupName: g, replicas: 1, template: {spec: {initContainers: [{name: init, image: busybox, command: [sh, -c, 'nslookup $RAY_IP']}], containers: [{NODE}]}}}]",
			pods: 2,
		},
		{
			name: "told",
			why:  "what Ray is told instead of limits",
			spec: "headGroupSpec: {resources: {CPU: '0'}, labels: {zone: a}, LITTLE}, workerGroupSpecs: [{groupName: g, replicas: 1, resources: {CPU: '4', memory: '1000', disk: '2'}, labels: {zone: b}, priority: 5, LITTLE}]",
			pods: 2,
		},
		{
			name: "params",
			why:  "options of ray start",
			spec: `headGroupSpec: {rayStartParams: {num-cpus: "0", block: "true", no-monitor: "true", object-store-memory: "100000000", port: "6380", dashboard-port: "8266", metrics-export-port: "8081"}, LITTLE}, workerGroupSpecs: [{groupName: g, replicas: 1, rayStartParams: {num-cpus: "3", node-ip-address: $MY_POD_IP, log-color: "false"}, LITTLE}]`,
			pods: 2,
		},
		{
			name: "gpus",
			why:  "what many of them are for",
			spec: `headGroupSpec: {LITTLE}, workerGroupSpecs: [{groupName: gpu, replicas: 2, minReplicas: 2, maxReplicas: 2, rayStartParams: {num-gpus: "1"}, template: {spec: {nodeSelector: {kubernetes.io/os: linux}, tolerations: [{key: nvidia.com/gpu, operator: Exists}], containers: [{name: ray, image: "rayproject/ray-ml:2.9.0-gpu", resources: {limits: {nvidia.com/gpu: 1, cpu: 2, memory: 8Gi}}}]}}}]`,
			pods: 3,
		},
		{
			name: "extras",
			why:  "containers and volumes beside it, and a ConfigMap with code",
			spec: `headGroupSpec: {template: {metadata: {annotations: {sidecar.istio.io/inject: "false"}}, spec: {serviceAccountName: default, imagePullSecrets: [{name: pull}], initContainers: [{name: init, image: busybox, command: [sh, -c, "true"]}], containers: [{NODE, env: [{name: MY_POD_IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}], envFrom: [{secretRef: {name: s, optional: true}}],
  volumeMounts: [{mountPath: /home/ray/samples, name: code}, {mountPath: /dev/shm, name: shm}]}, {name: log, image: busybox, command: [tail, -F, /tmp/x]}], volumes: [{name: code, configMap: {name: code, optional: true, items: [{key: a.py, path: a.py}]}}, {name: shm, emptyDir: {medium: Memory}}]}}}`,
			pods: 1,
		},
		{
			name: "upgrades",
			why:  "nothing is made anew when it is changed",
			spec: "upgradeStrategy: {type: None}, headGroupSpec: {LITTLE}",
			pods: 1,
		},
		{
			name: "recovers",
			why:  "a worker that ends is made anew",
			spec: `headGroupSpec: {LITTLE}, workerGroupSpecs: [{groupName: g, replicas: 1, template: {metadata: {annotations: {mlbatch.dev/exit-code: "1", mlbatch.dev/fail-first: "1", mlbatch.dev/run-for: forever}}, spec: {restartPolicy: Never, containers: [{NODE}]}}}]`,
			pods: 2,
		},
		{
			name:     "labelled",
			why:      "labels and annotations of the cluster",
			metadata: ", labels: {team: blue, controller-tools.k8s.io: '1.0'}, annotations: {note: hello}",
			spec:     "headGroupSpec: {LITTLE}",
			pods:     1,
		},
		{
			name: "old",
			why:  "the older version",
			spec: `rayVersion: "2.9.0", headGroupSpec: {serviceType: ClusterIP, rayStartParams: {dashboard-host: 0.0.0.0}, LITTLE}, workerGroupSpecs: [{groupName: small-group, replicas: 1, minReplicas: 1, maxReplicas: 5, rayStartParams: {}, scaleStrategy: {}, LITTLE}]`,
			pods: 2,
		},
		{
			name:       "host-network",
			why:        "fast networks",
			spec:       "headGroupSpec: {template: {spec: {hostNetwork: true, dnsPolicy: ClusterFirstWithHostNet, containers: [{NODE}]}}}",
			pods:       1,
			privileged: true,
		},
	}
}

// rayJobs are what people write of RayJobs. Those that end shut their clusters down, since a
// cluster holds its quota.
func rayJobs() []row {
	const end = "shutdownAfterJobFinishes: true, "
	fails := "submitterPodTemplate: {metadata: {annotations: {mlbatch.dev/exit-code: \"1\", mlbatch.dev/run-for: 0s}}, spec: {restartPolicy: Never, containers: [{NODE}]}}, submitterConfig: {backoffLimit: 0}, "
	return []row{
		{
			name: "sample",
			why:  "what every example begins with",
			spec: `entrypoint: python /home/ray/samples/sample_code.py, runtimeEnvYAML: "pip:\n- requests==2.26.0\nenv_vars:\n  counter_name: test_counter\n", ` + end + "CLUSTER",
			pods: 2,
		},
		{name: "plain", why: "no more than needed", spec: "entrypoint: python a.py, CLUSTER", pods: 2},
		{
			name: "shutdown",
			why:  "its cluster goes with it",
			spec: "entrypoint: python a.py, " + end + "CLUSTER",
			pods: 2,
		},
		{
			name: "later",
			why:  "its cluster goes after a while",
			spec: "entrypoint: python a.py, ttlSecondsAfterFinished: 3, " + end + "CLUSTER",
			pods: 2,
		},
		{
			name: "k8s",
			why:  "the mode by name",
			spec: "entrypoint: python a.py, submissionMode: K8sJobMode, " + end + "CLUSTER",
			pods: 2,
		},
		{
			name: "submitter",
			why:  "the pod that submits it is described",
			spec: "entrypoint: python a.py, submitterPodTemplate: {spec: {restartPolicy: Never, containers: [{name: my-custom-rayjob-submitter, image: \"rayproject/ray:2.46.0\", command: [sh, -c, \"sleep 1\"], resources: {limits: {cpu: 100m, memory: 64Mi}}}]}}, " + end + "CLUSTER",
			pods: 2,
		},
		{
			name: "tries",
			why:  "how often it is submitted",
			spec: "entrypoint: python a.py, submitterConfig: {backoffLimit: 5}, " + end + "CLUSTER",
			pods: 2,
		},
		{
			name: "resources",
			why:  "what the entrypoint takes",
			spec: "entrypoint: python a.py, entrypointNumCpus: 0.5, entrypointNumGpus: 0, entrypointResources: '{\"Custom1\": 1}', " + end + "CLUSTER",
			pods: 2,
		},
		{
			name: "named",
			why:  "how Ray calls it, and what is told to it",
			spec: "entrypoint: python a.py, jobId: my-job, metadata: {owner: me, k: v}, " + end + "CLUSTER",
			pods: 2,
		},
		{
			name: "deadline",
			why:  "time enough",
			spec: "entrypoint: python a.py, activeDeadlineSeconds: 36000, " + end + "CLUSTER",
			pods: 2,
		},
		{
			name:  "late",
			why:   "not enough time",
			fails: true,
			spec:  "entrypoint: python a.py, activeDeadlineSeconds: 1, " + end + "CLUSTER",
			pods:  2,
		},
		{
			name: "backoff",
			why:  "a failure would be survived",
			spec: "entrypoint: python a.py, backoffLimit: 2, " + end + "CLUSTER",
			pods: 2,
		},
		{
			name:  "fails",
			why:   "a failure that is final",
			fails: true,
			spec:  "entrypoint: python a.py, " + fails + end + "CLUSTER",
			pods:  2,
		},
		{
			name:  "fails-again",
			why:   "each try in a cluster of its own",
			fails: true,
			spec:  "entrypoint: python a.py, backoffLimit: 1, " + fails + end + "CLUSTER",
			pods:  2,
		},
		{
			name: "suspended",
			why:  "as queues want it",
			spec: "suspend: true, entrypoint: python a.py, " + end + "CLUSTER",
			pods: 2,
		},
		{
			name: "rules",
			why:  "what goes after which end",
			spec: "entrypoint: python a.py, deletionStrategy: {deletionRules: [{policy: DeleteCluster, condition: {jobStatus: SUCCEEDED, ttlSeconds: 1}}, {policy: DeleteCluster, condition: {jobDeploymentStatus: Failed}}, {policy: DeleteNone, condition: {jobStatus: FAILED}}]}, CLUSTER",
			pods: 2,
		},
		{
			name: "rules-older",
			why:  "an older way to say it",
			spec: "entrypoint: python a.py, deletionStrategy: {onSuccess: {policy: DeleteCluster}, onFailure: {policy: DeleteNone}}, CLUSTER",
			pods: 2,
		},
		{
			name: "workers-go",
			why:  "its head stays for a while, to be looked at",
			spec: "entrypoint: python a.py, deletionStrategy: {deletionRules: [{policy: DeleteWorkers, condition: {jobStatus: SUCCEEDED}}, {policy: DeleteCluster, condition: {jobStatus: SUCCEEDED, ttlSeconds: 5}}]}, rayClusterSpec: {headGroupSpec: {LITTLE}, workerGroupSpecs: [{groupName: small-group, replicas: 1, LITTLE}]}",
			pods: 2,
		},
		{
			name: "managed",
			why:  "it names the controller that there is",
			spec: "managedBy: ray.io/kuberay-operator, entrypoint: python a.py, " + end + "CLUSTER",
			pods: 2,
		},
		{
			name: "grows",
			why:  "its cluster decides how many workers it has",
			spec: "entrypoint: python a.py, " + end + "rayClusterSpec: {enableInTreeAutoscaling: true, headGroupSpec: {LITTLE}, workerGroupSpecs: [{groupName: g, replicas: 1, minReplicas: 0, maxReplicas: 2, LITTLE}]}",
			pods: 2,
		},
		{
			name: "service",
			why:  "the head's service is described",
			spec: "entrypoint: python a.py, " + end + "rayClusterSpec: {headGroupSpec: {headService: {metadata: {annotations: {a: b}}}, LITTLE}}",
			pods: 2,
		},
		{
			name: "code",
			why:  "code in a ConfigMap",
			spec: "entrypoint: python /home/ray/samples/a.py, " + end + "rayClusterSpec: {headGroupSpec: {template: {spec: {containers: [{NODE, volumeMounts: [{mountPath: /home/ray/samples, name: code}]}], volumes: [{name: code, configMap: {name: code, optional: true}}]}}}}",
			pods: 2,
		},
		{
			name: "http",
			why:  "a request submits it",
			spec: "submissionMode: HTTPMode, entrypoint: sleep 1, runtimeEnvYAML: \"pip: [requests]\", metadata: {a: b}, entrypointNumCpus: 1, entrypointResources: '{\"disk\": 1}', " + end + "CLUSTER",
			pods: 2,
		},
		{
			name:  "http-fails",
			why:   "a failure that Ray tells of",
			fails: true,
			spec:  "submissionMode: HTTPMode, entrypoint: exit 1, backoffLimit: 1, " + end + "CLUSTER",
			pods:  2,
		},
		{
			name: "sidecar",
			why:  "a container beside the head submits it",
			spec: "submissionMode: SidecarMode, entrypoint: sleep 1, " + end + "rayClusterSpec: {headGroupSpec: {LITTLE}, workerGroupSpecs: [{groupName: small-group, replicas: 1, minReplicas: 1, maxReplicas: 5, LITTLE}]}",
			pods: 2,
		},
		{
			name: "token",
			why:  "its cluster asks for a token that there is",
			spec: "entrypoint: python a.py, " + end + "rayClusterSpec: {authOptions: {secretName: mine}, headGroupSpec: {LITTLE}}",
			pods: 2,
		},
		{
			name: "http-token",
			why:  "a request with a token submits it",
			spec: "submissionMode: HTTPMode, entrypoint: sleep 1, " + end + "rayClusterSpec: {authOptions: {mode: token}, headGroupSpec: {LITTLE}, workerGroupSpecs: [{groupName: g, replicas: 1, LITTLE}]}",
			pods: 2,
		},
		{
			name: "late-start",
			why:  "time enough to begin",
			spec: "entrypoint: python a.py, preRunningDeadlineSeconds: 600, " + end + "CLUSTER",
			pods: 2,
		},
		{name: "old", why: "the older version", spec: "entrypoint: python a.py, " + end + "CLUSTER", pods: 2},
	}
}

// rayServices are what people write of RayServices.
func rayServices() []row {
	const head = "rayClusterConfig: {headGroupSpec: {LITTLE}}"
	return []row{
		{name: "sample", why: "what every example begins with", spec: "APPS, CONFIG", pods: 1},
		{name: "head", why: "a head alone", spec: "APPS, " + head, pods: 1},
		{
			name: "json",
			why:  "the applications as JSON",
			spec: `serveConfigV2: '{"applications": [{"name": "a", "import_path": "a:app"}]}', CONFIG`,
			pods: 1,
		},
		{
			name: "two",
			why:  "several applications",
			spec: `serveConfigV2: "applications:\n- {name: a, import_path: 'a:app', route_prefix: /a}\n- {name: b, import_path: 'b:app', route_prefix: /b, runtime_env: {pip: [x]}}\n", CONFIG`,
			pods: 1,
		},
		{
			name: "unnamed",
			why:  "one needs no name",
			spec: `serveConfigV2: "applications:\n- import_path: a:app\n", CONFIG`,
			pods: 1,
		},
		{
			name: "options",
			why:  "all that a config may say",
			spec: `serveConfigV2: "proxy_location: EveryNode\nhttp_options: {host: 0.0.0.0, port: 8000}\nlogging_config: {log_level: INFO}\napplications:\n- {name: a, import_path: 'a:app', args: {model: x}, deployments: [{name: d, autoscaling_config: {min_replicas: 1, max_replicas: 2}, ray_actor_options: {num_cpus: 0.5}}]}\n", CONFIG`,
			pods: 1,
		},
		{
			name: "new-cluster",
			why:  "another cluster takes over",
			spec: "upgradeStrategy: {type: NewCluster}, APPS, CONFIG",
			pods: 1,
		},
		{
			name: "none",
			why:  "the cluster stays as it is",
			spec: "upgradeStrategy: {type: None}, APPS, CONFIG",
			pods: 1,
		},
		{name: "upgrade-empty", why: "an empty strategy", spec: "upgradeStrategy: {}, APPS, CONFIG", pods: 1},
		{
			name: "thresholds",
			why:  "fields that have no effect any more",
			spec: "serviceUnhealthySecondThreshold: 900, deploymentUnhealthySecondThreshold: 300, APPS, CONFIG",
			pods: 1,
		},
		{
			name: "serve-service",
			why:  "the service is described",
			spec: "serveService: {metadata: {name: my-serve, labels: {a: b}, annotations: {c: d}}, spec: {ports: [{name: serve, port: 8000}]}}, APPS, CONFIG",
			pods: 1,
		},
		{
			name: "node-port",
			why:  "it is reached from outside",
			spec: "serveService: {spec: {type: NodePort, ports: [{name: serve, port: 8000}]}}, APPS, CONFIG",
			pods: 1,
		},
		{
			name: "no-head",
			why:  "the head answers no requests",
			spec: "excludeHeadPodFromServeSvc: true, APPS, CONFIG",
			pods: 1,
		},
		{
			name: "delay",
			why:  "how long the cluster before stays",
			spec: "rayClusterDeletionDelaySeconds: 5, APPS, CONFIG",
			pods: 1,
		},
		{name: "suspended", why: "as queues want it", spec: "suspend: true, APPS, CONFIG", pods: 1},
		{
			name: "managed",
			why:  "it names the controller that there is",
			spec: "managedBy: ray.io/kuberay-operator, APPS, CONFIG",
			pods: 1,
		},
		{
			name: "ports",
			why:  "the usual ports by name",
			spec: "APPS, rayClusterConfig: {headGroupSpec: {rayStartParams: {dashboard-host: 0.0.0.0}, template: {spec: {containers: [{NODE, ports: [{containerPort: 6379, name: gcs-server}, {containerPort: 8265, name: dashboard}, {containerPort: 10001, name: client}, {containerPort: 9000, name: serve}]}]}}}}",
			pods: 1,
		},
		{
			name: "grows",
			why:  "its cluster decides how many workers it has",
			spec: "APPS, rayClusterConfig: {enableInTreeAutoscaling: true, headGroupSpec: {LITTLE}, workerGroupSpecs: [{groupName: g, replicas: 1, minReplicas: 0, maxReplicas: 2, LITTLE}]}",
			pods: 1,
		},
		{
			name: "groups",
			why:  "workers of several kinds",
			spec: "APPS, rayClusterConfig: {headGroupSpec: {LITTLE}, workerGroupSpecs: [{groupName: cpu, replicas: 1, LITTLE}, {groupName: big, replicas: 1, LITTLE}]}",
			pods: 1,
		},
		{
			name: "survives",
			why:  "state outside its head",
			spec: `APPS, rayClusterConfig: {gcsFaultToleranceOptions: {redisAddress: "redis:6379"}, headGroupSpec: {LITTLE}, workerGroupSpecs: [{groupName: g, replicas: 1, LITTLE}]}`,
			pods: 1,
		},
		{
			name: "token",
			why:  "who tells it what to serve is asked for a token",
			spec: "APPS, rayClusterConfig: {authOptions: {mode: token}, headGroupSpec: {LITTLE}, workerGroupSpecs: [{groupName: g, replicas: 1, LITTLE}]}",
			pods: 1,
		},
		{
			name:     "labelled",
			why:      "labels and annotations of the service",
			metadata: ", labels: {team: blue}, annotations: {note: hello}",
			spec:     "APPS, CONFIG",
			pods:     1,
		},
		{name: "old", why: "the older version", spec: "APPS, CONFIG", pods: 1},
	}
}
