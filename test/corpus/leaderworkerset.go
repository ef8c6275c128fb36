package corpus

import (
	"fmt"
	"strings"
)

// Sets are LeaderWorkerSets, which have no end: each is Available one day. Their pods are
// those of all groups.
func Sets() []Manifest {
	const (
		leader = "leaderTemplate: {POD}"
		worker = "workerTemplate: {POD}"
		gpus   = "workerTemplate: {spec: {containers: [{name: serve, " + image + ", resources: {limits: {nvidia.com/gpu: 1, cpu: 2, memory: 8Gi}}}]}}"
	)
	var out []Manifest
	for _, r := range []row{
		{name: "plain", why: "what every example begins with", spec: "replicas: 2, leaderWorkerTemplate: {size: 3, " + worker + "}", pods: 6},
		{name: "defaults", why: "all that may be left out is", spec: "leaderWorkerTemplate: {" + worker + "}", pods: 1},
		{name: "leader", why: "a leader of its own", spec: "replicas: 2, leaderWorkerTemplate: {size: 2, " + leader + ", " + worker + "}", pods: 4},
		{name: "leaders-only", why: "groups of one, with both templates", spec: "replicas: 2, leaderWorkerTemplate: {size: 1, " + leader + ", " + worker + "}", pods: 2},
		{name: "none", why: "scaled to nothing", spec: "replicas: 0, leaderWorkerTemplate: {size: 4, " + worker + "}", pods: 0},
		{name: "recreate", why: "the default, said", spec: "leaderWorkerTemplate: {size: 2, restartPolicy: RecreateGroupOnPodRestart, " + worker + "}", pods: 2},
		{name: "after-start", why: "groups that have started stay together", spec: "leaderWorkerTemplate: {size: 2, restartPolicy: RecreateGroupAfterStart, " + worker + "}", pods: 2},
		{name: "restart-none", why: "each pod for itself", spec: "leaderWorkerTemplate: {size: 2, restartPolicy: None, " + worker + "}", pods: 2},
		{name: "restart-default", why: "an older name", spec: "leaderWorkerTemplate: {size: 2, restartPolicy: Default, " + worker + "}", pods: 2},
		{name: "leader-created", why: "the default, said", spec: "startupPolicy: LeaderCreated, leaderWorkerTemplate: {size: 2, " + worker + "}", pods: 2},
		{name: "leader-ready", why: "Ray's workers want their head", spec: "startupPolicy: LeaderReady, leaderWorkerTemplate: {size: 3, " + leader + ", " + worker + "}", pods: 3},
		{name: "rolling", why: "an update of one at a time", spec: "replicas: 2, rolloutStrategy: {type: RollingUpdate, rollingUpdateConfiguration: {maxUnavailable: 1, maxSurge: 1}}, leaderWorkerTemplate: {size: 2, " + worker + "}", pods: 4},
		{name: "rolling-shares", why: "shares of replicas", spec: "replicas: 2, rolloutStrategy: {type: RollingUpdate, rollingUpdateConfiguration: {maxUnavailable: 50%, maxSurge: 25%}}, leaderWorkerTemplate: {size: 1, " + worker + "}", pods: 2},
		{name: "partition", why: "canaries", spec: "replicas: 2, rolloutStrategy: {rollingUpdateConfiguration: {partition: 1}}, leaderWorkerTemplate: {size: 1, " + worker + "}", pods: 2},
		{name: "subgroups", why: "parts with the leader in the first", spec: "leaderWorkerTemplate: {size: 4, subGroupPolicy: {subGroupSize: 2}, " + worker + "}", pods: 4},
		{name: "subgroups-extra", why: "the leader is one more", spec: "leaderWorkerTemplate: {size: 5, subGroupPolicy: {subGroupPolicyType: LeaderWorker, subGroupSize: 2}, " + worker + "}", pods: 5},
		{name: "subgroups-excluded", why: "the leader is in none", spec: "leaderWorkerTemplate: {size: 3, subGroupPolicy: {subGroupPolicyType: LeaderExcluded, subGroupSize: 2}, " + leader + ", " + worker + "}", pods: 3},
		{name: "shared", why: "the default, said", spec: "networkConfig: {subdomainPolicy: Shared}, leaderWorkerTemplate: {size: 2, " + worker + "}", pods: 2},
		{name: "unique", why: "a subdomain for each group", spec: "replicas: 2, networkConfig: {subdomainPolicy: UniquePerReplica}, leaderWorkerTemplate: {size: 2, " + worker + "}", pods: 4},
		{name: "labelled", why: "labels and annotations of the set and its pods", metadata: ", labels: {team: blue}, annotations: {note: hello}", spec: "leaderWorkerTemplate: {size: 2, workerTemplate: {metadata: {labels: {role: worker}, annotations: {sidecar.istio.io/inject: 'false'}}, spec: {containers: [{WORK}]}}}", pods: 2},
		{name: "generated", why: "a name of the API server's", metadata: "generateName: lws-", spec: "leaderWorkerTemplate: {size: 2, " + worker + "}", pods: 2},
		{name: "gpus", why: "what most of them are for", spec: "leaderWorkerTemplate: {size: 2, " + gpus + "}", pods: 2},
		{
			name: "vllm", why: "the usual pair: a head with a port and a probe, and workers that join it",
			spec: `leaderWorkerTemplate: {size: 2, restartPolicy: RecreateGroupOnPodRestart,
  leaderTemplate: {metadata: {labels: {role: leader}}, spec: {containers: [{WORK, env: [{name: HF_TOKEN, valueFrom: {secretKeyRef: {name: t, key: k, optional: true}}}, {name: HEAD, value: "$(LWS_LEADER_ADDRESS):6379"}], ports: [{containerPort: 8080}], readinessProbe: {tcpSocket: {port: 8080}, initialDelaySeconds: 1, periodSeconds: 1}, volumeMounts: [{mountPath: /dev/shm, name: dshm}]}], volumes: [{name: dshm, emptyDir: {medium: Memory, sizeLimit: 1Gi}}]}},
  workerTemplate: {spec: {containers: [{WORK, volumeMounts: [{mountPath: /dev/shm, name: dshm}]}], volumes: [{name: dshm, emptyDir: {medium: Memory, sizeLimit: 1Gi}}]}}}`, pods: 2,
		},
		{name: "sidecars", why: "containers beside and before the one that serves", spec: "leaderWorkerTemplate: {size: 2, workerTemplate: {spec: {initContainers: [{name: fetch, image: busybox, command: [sh, -c, 'true']}], containers: [{WORK}, {name: logs, image: busybox}]}}}", pods: 2},
		{name: "placed", why: "where pods may run", spec: "leaderWorkerTemplate: {size: 2, workerTemplate: {spec: {nodeSelector: {kubernetes.io/os: linux}, tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}], affinity: {podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, podAffinityTerm: {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {role: worker}}}}]}}, containers: [{WORK}]}}}", pods: 2},
		{name: "secured", why: "who it runs as", spec: "leaderWorkerTemplate: {size: 2, workerTemplate: {spec: {serviceAccountName: default, automountServiceAccountToken: false, terminationGracePeriodSeconds: 5, securityContext: {runAsUser: 1000, seccompProfile: {type: RuntimeDefault}}, containers: [{WORK, securityContext: {allowPrivilegeEscalation: false}}]}}}", pods: 2},
		{name: "retained", why: "what becomes of volumes, without any", spec: "leaderWorkerTemplate: {size: 2, persistentVolumeClaimRetentionPolicy: {whenDeleted: Delete, whenScaled: Retain}, " + worker + "}", pods: 2},
		{name: "claims", why: "each pod has a volume of its own", privileged: true, spec: "leaderWorkerTemplate: {size: 2, volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], storageClassName: fast, resources: {requests: {storage: 1Gi}}}}], workerTemplate: {spec: {containers: [{WORK, volumeMounts: [{name: data, mountPath: /data}]}]}}}", pods: 2},
		{name: "exclusive-groups", why: "two groups that want to be apart, and start where they cannot be", privileged: true, metadata: ", annotations: {leaderworkerset.sigs.k8s.io/exclusive-topology: rack}", spec: "replicas: 2, leaderWorkerTemplate: {size: 2, " + worker + "}", pods: 4},
		{name: "exclusive", why: "a group has its rack for itself", privileged: true, metadata: ", annotations: {leaderworkerset.sigs.k8s.io/exclusive-topology: rack}", spec: "leaderWorkerTemplate: {size: 2, " + worker + "}", pods: 2},
	} {
		out = append(out, setOf(r))
	}
	return out
}

func setOf(r row) Manifest {
	spec := strings.ReplaceAll(r.spec, "POD", "spec: {containers: [{WORK}]}")
	spec = strings.ReplaceAll(spec, "WORK", "name: serve, "+image+", command: [serve], "+sizes)
	metadata := r.metadata
	if !strings.HasPrefix(metadata, "generateName") {
		metadata = fmt.Sprintf("name: lws-%s%s", r.name, metadata)
	}
	return Manifest{
		Kind:       "LeaderWorkerSet",
		Name:       r.name,
		Why:        r.why,
		Pods:       r.pods,
		Privileged: r.privileged,
		Ends:       "Available",
		Text: fmt.Sprintf(
			"apiVersion: leaderworkerset.x-k8s.io/v1\nkind: LeaderWorkerSet\nmetadata: {%s}\nspec: {%s}\n",
			metadata,
			spec,
		),
	}
}
