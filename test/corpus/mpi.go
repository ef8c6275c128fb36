package corpus

import (
	"fmt"
	"strings"
)

// mpi are MPIJobs of both versions. In their specs L stands for a launcher with a template, W
// for workers with one, LAUNCH and WORK for the containers in these.
func mpi() []Manifest {
	var out []Manifest
	for _, v := range []struct {
		version string
		rows    []row
	}{
		{"v2beta1", append(mpiCommon("v2beta1"), mpiBySSH()...)}, {"v1", append(mpiCommon("v1"), mpiByExec()...)},
	} {
		for _, r := range v.rows {
			m := Manifest{
				Kind:       "MPIJob",
				Name:       v.version + "-" + r.name,
				Why:        r.why,
				Pods:       r.pods,
				Privileged: r.privileged,
				Ends:       "Succeeded",
			}
			if r.fails {
				m.Ends = "Failed"
			}
			spec := strings.NewReplacer(
				"ROLES",
				"mpiReplicaSpecs",
				"PAIR",
				"mpiReplicaSpecs: {Launcher: {template: {spec: {containers: [{LAUNCH}]}}}, Worker: {replicas: 2, template: {spec: {containers: [{WORK}]}}}}",
				"L:",
				"Launcher: {template: {spec: {containers: [{LAUNCH}]}}},",
				"W:",
				"Worker: {replicas: 2, template: {spec: {containers: [{WORK}]}}}",
			).Replace(r.spec)
			spec = strings.NewReplacer(
				"LAUNCH",
				"name: mpi, "+strings.Join(
					[]string{image, `command: [sh, -c, "sleep 1 # mpirun python train.py"]`, sizes},
					", ",
				),
				"WORK",
				"name: mpi, "+strings.Join([]string{image, sizes}, ", "),
			).Replace(spec)
			metadata := "name: mpi-" + m.Name + r.metadata
			if strings.HasPrefix(r.metadata, "generateName") {
				metadata = r.metadata
			}
			m.Text = fmt.Sprintf(
				"apiVersion: kubeflow.org/%s\nkind: MPIJob\nmetadata: {%s}\nspec: {%s}\n",
				v.version,
				metadata,
				spec,
			)
			out = append(out, m)
		}
	}
	return out
}

// mpiCommon are rows for both versions.
func mpiCommon(version string) []row {
	failing := `{metadata: {annotations: {mlbatch.dev/exit-code: "1", mlbatch.dev/run-for: 0s}}, spec: {containers: [{LAUNCH}]}}`
	managers := map[string]string{"v1": "training-operator", "v2beta1": "mpi-operator"}
	return []row{
		{name: "plain", why: "what every example begins with", spec: "slotsPerWorker: 1, PAIR", pods: 3},
		{
			name: "running",
			why:  "13 of 14 public ones say it",
			spec: "slotsPerWorker: 1, runPolicy: {cleanPodPolicy: Running, ttlSecondsAfterFinished: 600, backoffLimit: 2}, PAIR",
			pods: 3,
		},
		{name: "clean-all", why: "nothing stays", spec: "runPolicy: {cleanPodPolicy: All}, PAIR", pods: 3},
		{name: "clean-none", why: "workers stay", spec: "runPolicy: {cleanPodPolicy: None}, PAIR", pods: 3},
		{name: "clean-top", why: "the older place", spec: "cleanPodPolicy: Running, PAIR", pods: 3},
		{name: "alone", why: "mpirun in one pod", spec: "ROLES: {L:}", pods: 1},
		{
			name: "lower",
			why:  "roles in any case",
			spec: "ROLES: {launcher: {replicas: 1, template: {spec: {containers: [{LAUNCH}]}}}, worker: {replicas: 1, template: {spec: {containers: [{WORK}]}}}}",
			pods: 2,
		},
		{
			name: "slots",
			why:  "a process for each GPU",
			spec: "slotsPerWorker: 8, ROLES: {L: Worker: {replicas: 1, template: {spec: {containers: [{name: mpi, " + image + ", resources: {limits: {nvidia.com/gpu: 1, cpu: 2, memory: 4Gi}}}]}}}}",
			pods: 2,
		},
		{
			name: "restarts",
			why:  "policies by role",
			spec: "ROLES: {Launcher: {replicas: 1, restartPolicy: OnFailure, template: {spec: {containers: [{LAUNCH}]}}}, Worker: {replicas: 2, restartPolicy: OnFailure, template: {spec: {containers: [{WORK}]}}}}",
			pods: 3,
		},
		{
			name:  "fails",
			why:   "a launcher that fails too often",
			spec:  "runPolicy: {backoffLimit: 0}, ROLES: {Launcher: {restartPolicy: Never, template: " + failing + "}, W:}",
			pods:  3,
			fails: true,
		},
		{
			name:  "late",
			why:   "not enough time",
			spec:  "runPolicy: {activeDeadlineSeconds: 1}, ROLES: {Launcher: {template: {metadata: {annotations: {mlbatch.dev/run-for: forever}}, spec: {containers: [{LAUNCH}]}}}, W:}",
			pods:  3,
			fails: true,
		},
		{name: "deadline", why: "time enough", spec: "runPolicy: {activeDeadlineSeconds: 36000}, PAIR", pods: 3},
		{name: "suspended", why: "as queues want it", spec: "runPolicy: {suspend: true}, PAIR", pods: 3},
		{
			name: "managed",
			why:  "it names the controller that there is",
			spec: "runPolicy: {managedBy: kubeflow.org/" + managers[version] + "}, PAIR",
			pods: 3,
		},
		{
			name: "scheduling",
			why:  "for gang schedulers",
			spec: "runPolicy: {schedulingPolicy: {minAvailable: 3, queue: q, minResources: {cpu: 2}, scheduleTimeoutSeconds: 60, priorityClass: high-priority}}, PAIR",
			pods: 3,
		},
		{
			name:     "labelled",
			why:      "labels and annotations of the job and its pods",
			metadata: ", labels: {app: mpi}, annotations: {note: hello}",
			spec:     `ROLES: {L: Worker: {replicas: 2, template: {metadata: {labels: {app: mpi}, annotations: {sidecar.istio.io/inject: "false"}}, spec: {containers: [{WORK}]}}}}`,
			pods:     3,
		},
		{
			name:     "generated",
			why:      "a name of the API server's",
			metadata: "generateName: mpi-",
			spec:     "PAIR",
			pods:     3,
		},
		{
			name: "volumes",
			why:  "data and shared memory",
			spec: "ROLES: {L: Worker: {replicas: 2, template: {spec: {containers: [{WORK, volumeMounts: [{name: shm, mountPath: /dev/shm}, {name: data, mountPath: /data}]}], volumes: [{name: shm, emptyDir: {medium: Memory}}, {name: data, emptyDir: {}}]}}}}",
			pods: 3,
		},
		{
			name: "environment",
			why:  "variables for NCCL and the author's own",
			spec: "ROLES: {Launcher: {template: {spec: {containers: [{LAUNCH, env: [{name: NCCL_DEBUG, value: INFO}, {name: OMPI_MCA_btl, value: 'self,tcp'}]}]}}}, W:}",
			pods: 3,
		},
		{
			name: "command",
			why:  "workers with a command of their own",
			spec: `ROLES: {L: Worker: {replicas: 2, template: {spec: {containers: [{WORK, command: [sh, -c, "sleep 365d"]}]}}}}`,
			pods: 3,
		},
		{
			name: "sidecar",
			why:  "containers beside and before the one that works",
			spec: `ROLES: {L: Worker: {replicas: 1, template: {spec: {initContainers: [{name: fetch, image: busybox, command: [sh, -c, "true"]}], containers: [{WORK}, {name: logs, image: busybox, command: [sh, -c, "sleep 365d"]}]}}}}`,
			pods: 2,
		},
		{
			name: "placed",
			why:  "where pods may run",
			spec: "ROLES: {L: Worker: {replicas: 2, template: {spec: {nodeSelector: {kubernetes.io/os: linux}, tolerations: [{operator: Exists, key: nvidia.com/gpu}], containers: [{WORK}]}}}}",
			pods: 3,
		},
		{
			name: "secured",
			why:  "not the superuser",
			spec: "ROLES: {Launcher: {template: {spec: {securityContext: {runAsUser: 1000, fsGroup: 1000}, terminationGracePeriodSeconds: 5, containers: [{LAUNCH, imagePullPolicy: IfNotPresent}]}}}, Worker: {replicas: 2, template: {spec: {imagePullSecrets: [{name: pull}], containers: [{WORK, securityContext: {runAsUser: 1000, capabilities: {add: [NET_BIND_SERVICE]}}}]}}}}",
			pods: 3,
		},
		{
			name:       "host-network",
			why:        "fast networks",
			spec:       "ROLES: {L: Worker: {replicas: 1, template: {spec: {hostNetwork: true, containers: [{WORK}]}}}}",
			pods:       2,
			privileged: true,
		},
	}
}

// mpiBySSH are rows for v2beta1.
func mpiBySSH() []row {
	return []row{
		{name: "open-mpi", why: "it is named", spec: "mpiImplementation: OpenMPI, PAIR", pods: 3},
		{name: "intel", why: "another mpirun", spec: "mpiImplementation: Intel, slotsPerWorker: 2, PAIR", pods: 3},
		{name: "mpich", why: "another mpirun", spec: "mpiImplementation: MPICH, PAIR", pods: 3},
		{
			name: "user",
			why:  "keys of a user who is not the superuser",
			spec: "sshAuthMountPath: /home/mpiuser/.ssh, PAIR",
			pods: 3,
		},
		{
			name: "waits",
			why:  "the launcher comes last",
			spec: "launcherCreationPolicy: WaitForWorkersReady, PAIR",
			pods: 3,
		},
		{
			name: "at-startup",
			why:  "the launcher tries until they answer",
			spec: "launcherCreationPolicy: AtStartup, PAIR",
			pods: 3,
		},
		{
			name: "launcher-works",
			why:  "no pod that only waits",
			spec: "runLauncherAsWorker: true, slotsPerWorker: 2, PAIR",
			pods: 3,
		},
		{
			name: "readiness",
			why:  "ready when sshd listens",
			spec: "launcherCreationPolicy: WaitForWorkersReady, ROLES: {L: Worker: {replicas: 2, template: {spec: {containers: [{WORK, command: [/usr/sbin/sshd], args: [-De, -f, /home/mpiuser/.sshd_config], ports: [{containerPort: 2222}], readinessProbe: {tcpSocket: {port: 2222}, initialDelaySeconds: 2}}]}}}}",
			pods: 3,
		},
	}
}

// mpiByExec are rows for v1.
func mpiByExec() []row {
	return []row{
		{
			name: "main-container",
			why:  "processes start in another container than the first",
			spec: "mainContainer: mpi, ROLES: {L: Worker: {replicas: 1, template: {spec: {containers: [{name: logs, image: busybox, command: [sh, -c, \"sleep 365d\"]}, {WORK, command: [sh, -c, \"sleep 365d\"]}]}}}}",
			pods: 2,
		},
		{
			name: "no-workers",
			why:  "generators write the empty role",
			spec: "ROLES: {L: Worker: {replicas: 0, template: {spec: {containers: [{WORK}]}}}}",
			pods: 1,
		},
		{
			name: "exit-code",
			why:  "what may be of the moment is tried again",
			spec: "ROLES: {Launcher: {restartPolicy: ExitCode, template: {spec: {containers: [{LAUNCH}]}}}, Worker: {replicas: 2, restartPolicy: Always, template: {spec: {containers: [{WORK}]}}}}",
			pods: 3,
		},
		{
			name: "gpu-launcher",
			why:  "it runs processes, too",
			spec: "ROLES: {Launcher: {template: {spec: {containers: [{name: mpi, " + image + ", " + command + ", resources: {limits: {nvidia.com/gpu: 1, cpu: 1, memory: 1Gi}}}]}}}, W:}",
			pods: 3,
		},
		{
			name: "own-account",
			why:  "an account that has the rights already",
			spec: "ROLES: {Launcher: {template: {spec: {serviceAccountName: default, containers: [{LAUNCH}]}}}, W:}",
			pods: 3,
		},
		{
			name:     "kubectl",
			why:      "an image without kubectl",
			metadata: ", annotations: {mlbatch.dev/kubectl-image: example/kubectl}",
			spec:     "PAIR",
			pods:     3,
		},
	}
}
