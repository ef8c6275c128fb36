package corpus

// training are the kinds of kubeflow.org, with what only one of them has.
func training() []kind {
	return []kind{
		{name: "PyTorchJob", field: "pytorchReplicaSpecs", main: "pytorch", port: "pytorchjob-port", rows: []row{
			{
				name: "master",
				why:  "the usual pair of roles",
				spec: "FIELD: {Master: {replicas: 1, restartPolicy: OnFailure, POD}, Worker: {replicas: 3, restartPolicy: OnFailure, POD}}",
				pods: 4,
			},
			{name: "alone", why: "one pod", spec: "FIELD: {Master: {POD}}", pods: 1},
			{
				name: "no-workers",
				why:  "generators write the empty role",
				spec: "FIELD: {Master: {POD}, Worker: {replicas: 0, POD}}",
				pods: 1,
			},
			{name: "nproc-auto", why: "", spec: "nprocPerNode: auto, FIELD: {Master: {POD}, Worker: {POD}}", pods: 2},
			{name: "nproc-gpu", why: "", spec: "nprocPerNode: gpu, FIELD: {Master: {POD}, Worker: {POD}}", pods: 2},
			{name: "nproc-cpu", why: "", spec: "nprocPerNode: cpu, FIELD: {Master: {POD}, Worker: {POD}}", pods: 2},
			{name: "nproc-number", why: "", spec: `nprocPerNode: "8", FIELD: {Master: {POD}, Worker: {POD}}`, pods: 2},
			{
				name: "elastic",
				why:  "workers come and go",
				spec: "elasticPolicy: {rdzvBackend: c10d, minReplicas: 1, maxReplicas: 3, maxRestarts: 100}, FIELD: {Worker: {replicas: 2, restartPolicy: OnFailure, POD}}",
				pods: 2,
			},
			{
				name: "elastic-old",
				why:  "the older place of the number of processes",
				spec: "elasticPolicy: {rdzvBackend: c10d, minReplicas: 1, maxReplicas: 2, nProcPerNode: 2, rdzvConf: [{key: timeout, value: '900'}]}, FIELD: {Worker: {replicas: 2, POD}}",
				pods: 2,
			},
			{
				name: "elastic-etcd",
				why:  "they meet elsewhere",
				spec: "elasticPolicy: {rdzvBackend: etcd-v2, rdzvHost: etcd, rdzvPort: 2379, rdzvId: run, minReplicas: 1, maxReplicas: 2}, FIELD: {Worker: {replicas: 2, POD}}",
				pods: 2,
			},
			{
				name: "elastic-metrics",
				why:  "an autoscaler chooses",
				spec: "elasticPolicy: {minReplicas: 1, maxReplicas: 3, metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 80}}}]}, FIELD: {Worker: {POD}}",
				pods: 1,
			},
			{
				name: "standalone",
				why:  "processes of one pod",
				spec: "elasticPolicy: {standalone: true}, FIELD: {Worker: {POD}}",
				pods: 1,
			},
			{
				name: "always",
				why:  "workers without an end stop with the master",
				spec: "FIELD: {Master: {POD}, Worker: {restartPolicy: Always, POD}}",
				pods: 2,
			},
		}},
		{name: "TFJob", field: "tfReplicaSpecs", main: "tensorflow", port: "tfjob-port", rows: []row{
			{
				name: "servers",
				why:  "the usual pair of roles",
				spec: "FIELD: {PS: {replicas: 2, restartPolicy: Never, POD}, Worker: {replicas: 4, restartPolicy: Never, POD}}",
				pods: 6,
			},
			{
				name: "endless-servers",
				why:  "servers serve until they are stopped",
				spec: "FIELD: {PS: {template: {metadata: {annotations: {mlbatch.dev/run-for: forever}}, spec: {containers: [{WORK}]}}}, Worker: {replicas: 2, POD}}",
				pods: 3,
			},
			{
				name: "chief",
				why:  "it decides",
				spec: "FIELD: {Chief: {POD}, PS: {POD}, Worker: {replicas: 2, POD}, Evaluator: {POD}}",
				pods: 5,
			},
			{name: "master", why: "the chief's older name", spec: "FIELD: {Master: {POD}, Worker: {POD}}", pods: 2},
			{
				name: "lower-chief",
				why:  "roles in any case",
				spec: "FIELD: {chief: {POD}, ps: {POD}, wORKER: {POD}}",
				pods: 3,
			},
			{
				name: "clean-top",
				why:  "the older place",
				spec: "cleanPodPolicy: All, FIELD: {Worker: {replicas: 2, POD}}",
				pods: 2,
			},
			{
				name: "all-workers",
				why:  "the first is not enough",
				spec: "successPolicy: AllWorkers, FIELD: {Worker: {replicas: 3, POD}}",
				pods: 3,
			},
			{
				name: "default-success",
				why:  "an empty word is the default",
				spec: `successPolicy: "", FIELD: {Worker: {replicas: 3, POD}}`,
				pods: 3,
			},
			{
				name: "dynamic",
				why:  "workers come and go",
				spec: "enableDynamicWorker: true, FIELD: {PS: {POD}, Worker: {replicas: 2, POD}}",
				pods: 3,
			},
		}},
		{
			name:   "XGBoostJob",
			field:  "xgbReplicaSpecs",
			main:   "xgboost",
			port:   "xgboostjob-port",
			master: true,
			rows: []row{
				{name: "alone", why: "one pod", spec: "FIELD: {Master: {POD}}", pods: 1},
				{
					name: "workers",
					why:  "the usual pair of roles",
					spec: "FIELD: {Master: {replicas: 1, restartPolicy: Never, POD}, Worker: {replicas: 2, restartPolicy: ExitCode, POD}}",
					pods: 3,
				},
			},
		},
		{name: "PaddleJob", field: "paddleReplicaSpecs", main: "paddle", port: "master", rows: []row{
			{
				name: "servers",
				why:  "parameter servers",
				spec: "FIELD: {Master: {replicas: 2, POD}, Worker: {replicas: 2, POD}}",
				pods: 4,
			},
			{
				name: "elastic",
				why:  "workers come and go",
				spec: "elasticPolicy: {minReplicas: 1, maxReplicas: 2, maxRestarts: 3}, FIELD: {Worker: {replicas: 2, POD}}",
				pods: 2,
			},
			{
				name: "elastic-metrics",
				why:  "an autoscaler chooses",
				spec: "elasticPolicy: {minReplicas: 1, maxReplicas: 2, metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 80}}}]}, FIELD: {Worker: {POD}}",
				pods: 1,
			},
		}},
		{name: "JAXJob", field: "jaxReplicaSpecs", main: "jax", port: "jaxjob-port", rows: []row{
			{
				name: "large",
				why:  "more processes",
				spec: "FIELD: {Worker: {replicas: 5, restartPolicy: OnFailure, POD}}",
				pods: 5,
			},
		}},
	}
}
