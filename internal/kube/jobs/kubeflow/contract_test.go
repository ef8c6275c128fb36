package kubeflow_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"sigs.k8s.io/yaml"

	"github.com/mlbatch/mlbatch/internal/engine/podplan"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/pytorchjob"
)

// pods are lines of what pods are told, each the role, the index and the variables of one
// container: as they would be made.
func pods(t *testing.T, v variant, spec string) string {
	t.Helper()
	j := v.decode(t, spec)
	j.SetUID("uid")
	p := v.compile(t, j)
	var b strings.Builder
	for i := range p.Roles {
		for index := range p.Roles[i].Count {
			pod, err := p.Pod(
				j,
				v.kind.GVK(),
				podplan.Member{Role: p.Roles[i].Name, Index: index},
				&podplan.RetryState{},
				nil,
			)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range pod.Spec.Containers {
				fmt.Fprintf(&b, "%s %s:", pod.Name, c.Name)
				for _, e := range c.Env {
					value := e.Value
					if e.ValueFrom != nil {
						value = "<" + e.ValueFrom.FieldRef.FieldPath + ">"
					}
					fmt.Fprintf(&b, " %s=%s", e.Name, value)
				}
				b.WriteByte('\n')
			}
		}
	}
	for _, s := range p.Success {
		fmt.Fprintf(&b, "ends with %s", s.Roles[0])
		if s.First || s.AtLeast > 0 {
			fmt.Fprintf(&b, " %s", cmp.Or(map[bool]string{true: "0"}[s.First], fmt.Sprintf("any %d", s.AtLeast)))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// TestContracts: what frameworks and scripts read in their environment, exactly.
func TestContracts(t *testing.T) {
	cases := map[string]struct{ why, kind, spec, want string }{
		"torch": {
			"a script of torch.distributed, or torchrun, with a master",
			"PyTorchJob",
			"nprocPerNode: '4', ROLES: {Master: {POD}, Worker: {replicas: 2, template: {spec: {containers: [{name: side}, {name: pytorch, env: [{name: RANK, value: mine}]}]}}}}",
			`
a-master-0 pytorch: PYTHONUNBUFFERED=1 PET_NPROC_PER_NODE=4 MASTER_PORT=23456 PET_MASTER_PORT=23456 MASTER_ADDR=a-master-0 PET_MASTER_ADDR=a-master-0 WORLD_SIZE=12 RANK=0 PET_NODE_RANK=0 PET_NNODES=3
a-worker-0 side: PYTHONUNBUFFERED=1 PET_NPROC_PER_NODE=4 MASTER_PORT=23456 PET_MASTER_PORT=23456 MASTER_ADDR=a-master-0 PET_MASTER_ADDR=a-master-0 WORLD_SIZE=12 RANK=1 PET_NODE_RANK=1 PET_NNODES=3
a-worker-0 pytorch: RANK=mine PYTHONUNBUFFERED=1 PET_NPROC_PER_NODE=4 MASTER_PORT=23456 PET_MASTER_PORT=23456 MASTER_ADDR=a-master-0 PET_MASTER_ADDR=a-master-0 WORLD_SIZE=12 PET_NODE_RANK=1 PET_NNODES=3
a-worker-1 side: PYTHONUNBUFFERED=1 PET_NPROC_PER_NODE=4 MASTER_PORT=23456 PET_MASTER_PORT=23456 MASTER_ADDR=a-master-0 PET_MASTER_ADDR=a-master-0 WORLD_SIZE=12 RANK=2 PET_NODE_RANK=2 PET_NNODES=3
a-worker-1 pytorch: RANK=mine PYTHONUNBUFFERED=1 PET_NPROC_PER_NODE=4 MASTER_PORT=23456 PET_MASTER_PORT=23456 MASTER_ADDR=a-master-0 PET_MASTER_ADDR=a-master-0 WORLD_SIZE=12 PET_NODE_RANK=2 PET_NNODES=3
ends with master
`,
		},
		"torch, auto": {
			"how many processes there are is found out by torchrun: one counts for each pod",
			"PyTorchJob",
			"ROLES: {Master: {template: {spec: {containers: [{name: pytorch, ports: [{name: pytorchjob-port, containerPort: 29500}]}]}}}}",
			`
a-master-0 pytorch: PYTHONUNBUFFERED=1 PET_NPROC_PER_NODE=auto MASTER_PORT=29500 PET_MASTER_PORT=29500 MASTER_ADDR=a-master-0 PET_MASTER_ADDR=a-master-0 WORLD_SIZE=1 RANK=0 PET_NODE_RANK=0 PET_NNODES=1
ends with master
`,
		},
		"torch, workers": {
			"without a master nobody is one", "PyTorchJob", "ROLES: {Worker: {replicas: 2, POD}}", `
a-worker-0 pytorch: PYTHONUNBUFFERED=1 PET_NPROC_PER_NODE=auto PET_NNODES=2
a-worker-1 pytorch: PYTHONUNBUFFERED=1 PET_NPROC_PER_NODE=auto PET_NNODES=2
ends with worker
`,
		},
		"torch, elastic": {
			"workers meet at the first, any number within the bounds", "PyTorchJob",
			"elasticPolicy: {minReplicas: 1, maxReplicas: 3, maxRestarts: 100}, ROLES: {Worker: {replicas: 2, POD}}", `
a-worker-0 pytorch: PYTHONUNBUFFERED=1 PET_NPROC_PER_NODE=auto PET_RDZV_ENDPOINT=a-worker-0:23456 PET_RDZV_BACKEND=c10d PET_NNODES=1:3 PET_MAX_RESTARTS=100
a-worker-1 pytorch: PYTHONUNBUFFERED=1 PET_NPROC_PER_NODE=auto PET_RDZV_ENDPOINT=a-worker-0:23456 PET_RDZV_BACKEND=c10d PET_NNODES=1:3 PET_MAX_RESTARTS=100
ends with worker any 1
`,
		},
		"torch, etcd": {
			"everything that the policy can say",
			"PyTorchJob",
			"elasticPolicy: {nProcPerNode: 2, rdzvBackend: etcd-v2, rdzvHost: etcd.b, rdzvPort: 2379, rdzvId: r, rdzvConf: [{key: k, value: v}, {key: l, value: w}], standalone: true}, ROLES: {Worker: {POD}}",
			`
a-worker-0 pytorch: PYTHONUNBUFFERED=1 PET_NPROC_PER_NODE=2 PET_RDZV_ENDPOINT=etcd.b:2379 PET_RDZV_BACKEND=etcd-v2 PET_NNODES=1:1 PET_RDZV_ID=r PET_RDZV_CONF=k=v,l=w PET_STANDALONE=
ends with worker any 1
`,
		},
		"tensorflow": {
			"one container is told; an evaluator knows the cluster and is none of it",
			"TFJob",
			"ROLES: {PS: {POD}, Worker: {replicas: 2, template: {spec: {containers: [{name: tensorflow}, {name: side}]}}}, Evaluator: {POD}}",
			`
a-ps-0 tensorflow: TF_CONFIG={"cluster":{"ps":["a-ps-0.b.svc:2222"],"worker":["a-worker-0.b.svc:2222","a-worker-1.b.svc:2222"]},"task":{"type":"ps","index":0},"environment":"cloud"}
a-worker-0 tensorflow: TF_CONFIG={"cluster":{"ps":["a-ps-0.b.svc:2222"],"worker":["a-worker-0.b.svc:2222","a-worker-1.b.svc:2222"]},"task":{"type":"worker","index":0},"environment":"cloud"}
a-worker-0 side:
a-worker-1 tensorflow: TF_CONFIG={"cluster":{"ps":["a-ps-0.b.svc:2222"],"worker":["a-worker-0.b.svc:2222","a-worker-1.b.svc:2222"]},"task":{"type":"worker","index":1},"environment":"cloud"}
a-worker-1 side:
a-evaluator-0 tensorflow: TF_CONFIG={"cluster":{"ps":["a-ps-0.b.svc:2222"],"worker":["a-worker-0.b.svc:2222","a-worker-1.b.svc:2222"]},"task":{"type":"evaluator","index":0},"environment":"cloud"}
ends with worker 0
`,
		},
		"tensorflow, alone": {
			"nobody is there to be told of",
			"TFJob",
			"ROLES: {Worker: {POD}}",
			"\na-worker-0 tensorflow:\nends with worker 0\n",
		},
		"tensorflow, all workers": {
			"the first is not enough",
			"TFJob",
			"successPolicy: AllWorkers, ROLES: {Worker: {POD}}",
			"\na-worker-0 tensorflow:\nends with worker\n",
		},
		"tensorflow, chief": {
			"it decides, under each of its names",
			"TFJob",
			"successPolicy: AllWorkers, ROLES: {chief: {POD}, Worker: {POD}}",
			`
a-chief-0 tensorflow: TF_CONFIG={"cluster":{"chief":["a-chief-0.b.svc:2222"],"worker":["a-worker-0.b.svc:2222"]},"task":{"type":"chief","index":0},"environment":"cloud"}
a-worker-0 tensorflow: TF_CONFIG={"cluster":{"chief":["a-chief-0.b.svc:2222"],"worker":["a-worker-0.b.svc:2222"]},"task":{"type":"worker","index":0},"environment":"cloud"}
ends with chief
`,
		},
		"tensorflow, dynamic": {
			"a worker knows itself and the servers, a server itself",
			"TFJob",
			"enableDynamicWorker: true, ROLES: {PS: {POD}, Worker: {replicas: 2, POD}}",
			`
a-ps-0 tensorflow: TF_CONFIG={"sparseCluster":{"worker":{},"ps":["a-ps-0.b.svc:2222"]},"task":{"type":"ps","index":0}}
a-worker-0 tensorflow: TF_CONFIG={"sparseCluster":{"worker":{"0":"a-worker-0.b.svc:2222"},"ps":["a-ps-0.b.svc:2222"]},"task":{"type":"worker","index":0}}
a-worker-1 tensorflow: TF_CONFIG={"sparseCluster":{"worker":{"1":"a-worker-1.b.svc:2222"},"ps":["a-ps-0.b.svc:2222"]},"task":{"type":"worker","index":1}}
ends with worker 0
`,
		},
		"xgboost": {
			"rabit and LightGBM", "XGBoostJob", "ROLES: {Master: {POD}, Worker: {replicas: 2, POD}}", `
a-master-0 xgboost: MASTER_PORT=9999 MASTER_ADDR=a-master-0 WORLD_SIZE=3 RANK=0 PYTHONUNBUFFERED=1 WORKER_PORT=9999 WORKER_ADDRS=a-worker-0,a-worker-1
a-worker-0 xgboost: MASTER_PORT=9999 MASTER_ADDR=a-master-0 WORLD_SIZE=3 RANK=1 PYTHONUNBUFFERED=1 WORKER_PORT=9999 WORKER_ADDRS=a-worker-0,a-worker-1
a-worker-1 xgboost: MASTER_PORT=9999 MASTER_ADDR=a-master-0 WORLD_SIZE=3 RANK=2 PYTHONUNBUFFERED=1 WORKER_PORT=9999 WORKER_ADDRS=a-worker-0,a-worker-1
ends with master
`,
		},
		"xgboost, alone": {
			"there are no workers to list",
			"XGBoostJob",
			"ROLES: {Master: {POD}}",
			"\na-master-0 xgboost: MASTER_PORT=9999 MASTER_ADDR=a-master-0 WORLD_SIZE=1 RANK=0 PYTHONUNBUFFERED=1\nends with master\n",
		},
		"paddle": {
			"the first recognizes the meeting point by its own address",
			"PaddleJob",
			"ROLES: {Worker: {replicas: 2, POD}}",
			`
a-worker-0 paddle: POD_IP_DUMMY=<status.podIP> PADDLE_MASTER=$(POD_IP_DUMMY):36543 PYTHONUNBUFFERED=1 PADDLE_JOB_ID=a PADDLE_NNODES=2
a-worker-1 paddle: PYTHONUNBUFFERED=1 PADDLE_JOB_ID=a PADDLE_NNODES=2 PADDLE_MASTER=a-worker-0:36543
ends with worker
`,
		},
		"paddle, servers": {
			"masters serve parameters", "PaddleJob", "ROLES: {Master: {replicas: 2, POD}, Worker: {POD}}", `
a-master-0 paddle: POD_IP_DUMMY=<status.podIP> PADDLE_MASTER=$(POD_IP_DUMMY):36543 PYTHONUNBUFFERED=1 PADDLE_JOB_ID=a PADDLE_NNODES=3 PADDLE_SERVER_NUM=1
a-master-1 paddle: PYTHONUNBUFFERED=1 PADDLE_JOB_ID=a PADDLE_NNODES=3 PADDLE_MASTER=a-master-0:36543 PADDLE_SERVER_NUM=1
a-worker-0 paddle: PYTHONUNBUFFERED=1 PADDLE_JOB_ID=a PADDLE_NNODES=3 PADDLE_MASTER=a-master-0:36543 PADDLE_TRAINER_NUM=1
ends with master
`,
		},
		"paddle, own": {
			"what the author wrote stays",
			"PaddleJob",
			"ROLES: {Worker: {template: {spec: {containers: [{name: paddle, env: [{name: PADDLE_MASTER, value: mine}]}]}}}}",
			"\na-worker-0 paddle: PADDLE_MASTER=mine PYTHONUNBUFFERED=1 PADDLE_JOB_ID=a PADDLE_NNODES=1\nends with worker\n",
		},
		"jax": {
			"the first process coordinates", "JAXJob", "ROLES: {Worker: {replicas: 2, POD}}", `
a-worker-0 jax: PYTHONUNBUFFERED=1 COORDINATOR_PORT=6666 COORDINATOR_ADDRESS=a-worker-0 NUM_PROCESSES=2 PROCESS_ID=0
a-worker-1 jax: PYTHONUNBUFFERED=1 COORDINATOR_PORT=6666 COORDINATOR_ADDRESS=a-worker-0 NUM_PROCESSES=2 PROCESS_ID=1
ends with worker
`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := pods(t, variants()[tc.kind], tc.spec)
			if diff := gocmp.Diff(strings.TrimPrefix(tc.want, "\n"), got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.why, diff)
			}
		})
	}
}

// TestTFConfigIsJSON reads the variable as TensorFlow does.
func TestTFConfigIsJSON(t *testing.T) {
	v := variants()["TFJob"]
	for _, spec := range []string{
		"ROLES: {Chief: {POD}, PS: {replicas: 2, POD}, Worker: {replicas: 11, POD}, Evaluator: {POD}}",
		"enableDynamicWorker: true, ROLES: {Chief: {POD}, PS: {replicas: 2, POD}, Worker: {replicas: 11, POD}, Evaluator: {POD}}",
		"ROLES: {Worker: {replicas: 2, POD}}", "enableDynamicWorker: true, ROLES: {Worker: {replicas: 2, POD}}",
	} {
		for line := range strings.Lines(pods(t, v, spec)) {
			_, config, found := strings.Cut(line, "TF_CONFIG=")
			if !found {
				continue
			}
			var read struct {
				Cluster map[string][]string
				Sparse  struct {
					Worker map[int]string
					PS     []string
				} `json:"sparseCluster"`
				Task struct {
					Type  string
					Index int
				}
			}
			if err := json.Unmarshal([]byte(config), &read); err != nil {
				t.Fatalf("%s: %v", config, err)
			}
			if self := fmt.Sprintf("a-%s-%d ", read.Task.Type, read.Task.Index); !strings.HasPrefix(line, self) {
				t.Errorf("a pod believes that it is %s: %s", self, line)
			}
			if all := read.Cluster[read.Task.Type]; all != nil &&
				!strings.HasPrefix(all[read.Task.Index], fmt.Sprintf("a-%s-%d.", read.Task.Type, read.Task.Index)) {
				t.Errorf("it is not where the others look for it: %s", line)
			}
		}
	}
}

// TestRules are those that only one kind has.
func TestRules(t *testing.T) {
	cases := map[string]struct{ why, kind, spec, field, cure string }{
		"TwoMasters": {
			"there is one",
			"PyTorchJob",
			"ROLES: {Master: {replicas: 2, POD}}",
			"spec.ROLES.Master.replicas",
			"use 1: there is one Master, and further pods are of the role Worker",
		},
		"NoMaster": {
			"a role of none",
			"PyTorchJob",
			"ROLES: {Master: {replicas: 0, POD}, Worker: {POD}}",
			"spec.ROLES.Master.replicas",
			"use 1",
		},
		"NoWorker": {
			"a master alone, with a role that is empty, is what generators write",
			"PyTorchJob",
			"ROLES: {Master: {POD}, Worker: {replicas: 0, POD}}",
			"",
			"",
		},
		"Nobody": {
			"nothing would run",
			"PyTorchJob",
			"ROLES: {Worker: {replicas: 0, POD}}",
			"spec.ROLES",
			"from 1",
		},
		"Bounds": {
			"",
			"PyTorchJob",
			"elasticPolicy: {minReplicas: 3, maxReplicas: 2}, ROLES: {Worker: {POD}}",
			"spec.elasticPolicy.minReplicas",
			"use at most 2",
		},
		"ElasticAlone": {
			"of whom",
			"PyTorchJob",
			"elasticPolicy: {minReplicas: 1}, ROLES: {Master: {POD}}",
			"spec.elasticPolicy",
			"add the role Worker",
		},
		"LeastZero": {
			"torchrun waits for at least one",
			"PyTorchJob",
			"elasticPolicy: {minReplicas: 0}, ROLES: {Worker: {POD}}",
			"spec.elasticPolicy.minReplicas",
			"from 1",
		},
		"MostIsWorkers": {
			"what is left out is what there is",
			"PyTorchJob",
			"elasticPolicy: {minReplicas: 2}, ROLES: {Worker: {POD}}",
			"",
			"",
		},
		"TwoProcesses": {
			"which of them",
			"PyTorchJob",
			"nprocPerNode: '2', elasticPolicy: {nProcPerNode: 2}, ROLES: {Worker: {POD}}",
			"spec.elasticPolicy.nProcPerNode",
			"keep one",
		},
		"Processes": {
			"none would work",
			"PyTorchJob",
			"nprocPerNode: '0', ROLES: {Worker: {POD}}",
			"spec.nprocPerNode",
			"auto",
		},
		"OldProcesses": {
			"none would work",
			"PyTorchJob",
			"elasticPolicy: {nProcPerNode: 0}, ROLES: {Worker: {POD}}",
			"spec.elasticPolicy.nProcPerNode",
			"from 1",
		},
		"OtherProcesses": {
			"torch knows devices that we do not",
			"PyTorchJob",
			"nprocPerNode: xpu, ROLES: {Worker: {POD}}",
			"",
			"",
		},
		"RendezvousPort": {
			"there is none",
			"PyTorchJob",
			"elasticPolicy: {rdzvPort: 0}, ROLES: {Worker: {POD}}",
			"spec.elasticPolicy.rdzvPort",
			"65535",
		},
		"Backend": {
			"torch knows three",
			"PyTorchJob",
			"elasticPolicy: {rdzvBackend: zoo}, ROLES: {Worker: {POD}}",
			"spec.elasticPolicy.rdzvBackend",
			"c10d",
		},
		"GrowingName": {
			"the last worker of all that there may be has the longest name",
			"PyTorchJob",
			"elasticPolicy: {maxReplicas: 100000}, ROLES: {Worker: {POD}}",
			"metadata.name",
			"-worker-99999",
		},
		"TwoChiefs": {
			"which of them",
			"TFJob",
			"ROLES: {Chief: {POD}, Master: {POD}}",
			"spec.ROLES.Master",
			"older name of Chief",
		},
		"ChiefTwice": {
			"one decides",
			"TFJob",
			"ROLES: {Chief: {replicas: 2, POD}}",
			"spec.ROLES.Chief.replicas",
			"use 1",
		},
		"OnlyServers": {"they never end", "TFJob", "ROLES: {PS: {POD}}", "spec.ROLES.Worker", "add one"},
		"Success": {
			"there is one besides the default",
			"TFJob",
			"successPolicy: Most, ROLES: {Worker: {POD}}",
			"spec.successPolicy",
			"AllWorkers",
		},
		"TooLong": {
			"no process can be told so much",
			"TFJob",
			"ROLES: {Worker: {replicas: 100000, POD}}",
			"spec.ROLES",
			"TF_CONFIG",
		},
		"DynamicShort": {
			"no worker is told of the others",
			"TFJob",
			"enableDynamicWorker: true, ROLES: {PS: {POD}, Worker: {replicas: 100000, POD}}",
			"",
			"",
		},
		"NoBoostMaster": {
			"the others look for it",
			"XGBoostJob",
			"ROLES: {Worker: {POD}}",
			"spec.ROLES.Master",
			"has one",
		},
		"TwoBoostMasters": {
			"it is one",
			"XGBoostJob",
			"ROLES: {Master: {replicas: 2, POD}}",
			"spec.ROLES.Master.replicas",
			"use 1",
		},
		"BoostTooLong": {
			"no process can be told so much",
			"XGBoostJob",
			"ROLES: {Master: {POD}, Worker: {replicas: 100000, POD}}",
			"spec.ROLES",
			"WORKER_ADDRS",
		},
		"PaddleServers": {
			"there may be several",
			"PaddleJob",
			"ROLES: {Master: {replicas: 2, POD}, Worker: {POD}}",
			"",
			"",
		},
		"PaddleBounds": {
			"",
			"PaddleJob",
			"elasticPolicy: {minReplicas: 3, maxReplicas: 2}, ROLES: {Worker: {POD}}",
			"spec.elasticPolicy.minReplicas",
			"use at most 2",
		},
		"NoProcess": {
			"nobody coordinates",
			"JAXJob",
			"ROLES: {Worker: {replicas: 0, POD}}",
			"spec.ROLES.Worker.replicas",
			"at least 1",
		},
		"JAXMaster": {
			"it has none",
			"JAXJob",
			"ROLES: {Master: {POD}, Worker: {POD}}",
			"spec.ROLES.Master",
			`supported values: "Worker"`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			v := variants()[tc.kind]
			j := v.decode(t, tc.spec)
			if name == "GrowingName" {
				j.SetName(strings.Repeat("a", 52))
			}
			_, err := v.kind.Running.Operator.Compile(j)
			switch errs := v.kind.Admission.Validate(j); {
			case tc.cure == "":
				if err != nil || len(errs) > 0 {
					t.Errorf("%s: %v, %v", tc.why, err, errs)
				}
			case err == nil || !strings.Contains(err.Error(), tc.cure):
				t.Errorf("%s: got %v, want %s", tc.why, err, tc.cure)
			case tc.field != "" && (len(errs) != 1 || errs[0].Field != strings.Replace(tc.field, "ROLES", v.field, 1)):
				t.Errorf("%s: got %v, want %s", tc.why, errs, tc.field)
			}
		})
	}
}

// TestDynamicWorkers: one that fails is missed by nobody.
func TestDynamicWorkers(t *testing.T) {
	v := variants()["TFJob"]
	p := v.compile(t, v.decode(t, "enableDynamicWorker: true, ROLES: {PS: {POD}, Worker: {replicas: 2, POD}}"))
	if p.Role("worker").OnFailure != podplan.Ignore || p.Role("ps").OnFailure != podplan.FailJob {
		t.Errorf("%+v", p.Roles)
	}
}

// TestAutoscaler: a job with metrics has one that changes its workers within their bounds; one
// without has none, and neither is there while the job is suspended.
func TestAutoscaler(t *testing.T) {
	cases := map[string]struct{ why, policy, want string }{
		"none":    {"it is not elastic", "", ""},
		"by hand": {"nobody says by what", "elasticPolicy: {minReplicas: 1, maxReplicas: 3}, ", ""},
		"metrics": {
			"within the bounds that it says",
			"elasticPolicy: {minReplicas: 2, maxReplicas: 5, metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 80}}}]}, ",
			"PyTorchJob kubeflow.org/v1 j 2 5 1",
		},
		"default": {
			"between what there is and what there is",
			"elasticPolicy: {metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 80}}}]}, ",
			"PyTorchJob kubeflow.org/v1 j 3 3 1",
		},
	}
	k := pytorchjob.Kind()
	for name, tc := range cases {
		o := k.New()
		if err := yaml.Unmarshal(
			[]byte(
				"{metadata: {name: j}, spec: {"+tc.policy+"pytorchReplicaSpecs: {Worker: {replicas: 3, template: {spec: {containers: [{name: pytorch, image: i}]}}}}}}",
			),
			o,
		); err != nil {
			t.Fatal(err)
		}
		all, err := k.Running.Operator.Artifacts(o, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, a := range all {
			h, _ := a.Object.(*autoscalingv2.HorizontalPodAutoscaler)
			to := h.Spec.ScaleTargetRef
			got += fmt.Sprint(
				to.Kind,
				" ",
				to.APIVersion,
				" ",
				to.Name,
				" ",
				*h.Spec.MinReplicas,
				" ",
				h.Spec.MaxReplicas,
				" ",
				len(h.Spec.Metrics),
			)
			if h.Name != "j" || a.Stays {
				t.Errorf("%s: it is called %s, and stays: %v", name, h.Name, a.Stays)
			}
		}
		if got != tc.want {
			t.Errorf("%s: %s: %q, want %q", name, tc.why, got, tc.want)
		}
	}
}
