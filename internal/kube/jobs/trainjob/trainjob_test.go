package trainjob_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	jobset "github.com/mlbatch/mlbatch/api/jobset/v1alpha2"
	api "github.com/mlbatch/mlbatch/api/trainer/v1alpha1"
	"github.com/mlbatch/mlbatch/examples"
	"github.com/mlbatch/mlbatch/internal/engine/podplan"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/trainjob"
)

// shipped are the runtimes of the examples, by name.
func shipped(t testing.TB) map[string]*api.ClusterTrainingRuntime {
	t.Helper()
	files, err := examples.Runtimes.ReadDir("runtimes")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]*api.ClusterTrainingRuntime{}
	for _, f := range files {
		text, err := examples.Runtimes.ReadFile("runtimes/" + f.Name())
		if err != nil {
			t.Fatal(err)
		}
		r := &api.ClusterTrainingRuntime{}
		if err := yaml.UnmarshalStrict(text, r); err != nil {
			t.Fatal(err)
		}
		out[r.Name] = r
	}
	return out
}

// NODE stands for the replicated job that trains, as runtimes have it.
const node = "{name: node, template: {metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}, spec: {template: {spec: {containers: [{name: node, image: base, env: [{name: FROM, value: runtime}]}]}}}}}"

// initializers stand before it.
const initializers = `{name: dataset-initializer, template: {metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: dataset-initializer}}, spec: {template: {spec: {containers: [{name: dataset-initializer, image: fetch, env: [{name: STORAGE_URI, value: nowhere}]}]}}}}},
  {name: model-initializer, dependsOn: [{name: dataset-initializer, status: Complete}], template: {metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: model-initializer}}, spec: {template: {spec: {containers: [{name: model-initializer, image: fetch}]}}}}}`

// mpi stands for the replicated jobs of MPI.
const mpi = `{name: node, template: {spec: {template: {spec: {containers: [{name: node, image: base}]}}}}},
  {name: launcher, dependsOn: [{name: node, status: Ready}], template: {metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}, spec: {template: {spec: {containers: [{name: node, image: base}]}}}}}`

// job reads a TrainJob with a runtime: of the name of one that is shipped, or a spec; "" is
// none.
func job(t testing.TB, spec, runtime string) *api.TrainJob {
	t.Helper()
	out := &api.TrainJob{}
	if !strings.Contains(spec, "runtimeRef") {
		spec = "runtimeRef: {name: r}, " + spec
	}
	if err := yaml.UnmarshalStrict(
		[]byte("{metadata: {name: tj, namespace: blue, uid: u}, spec: {"+spec+"}}"),
		out,
	); err != nil {
		t.Fatalf("%s: %v", spec, err)
	}
	if runtime == "" {
		return out
	}
	r := shipped(t)[runtime]
	if r == nil {
		r = &api.ClusterTrainingRuntime{}
		if err := yaml.UnmarshalStrict(
			[]byte("{metadata: {name: r}, spec: {"+words.Replace(runtime)+"}}"),
			r,
		); err != nil {
			t.Fatalf("%s: %v", runtime, err)
		}
	}
	based, ok := trainjob.Kind().Queueing.Basis.With(out, r, jobs.Schedulers{}).(*api.TrainJob)
	if !ok {
		t.Fatal("it became another kind")
	}
	return based
}

// set is the JobSet that a TrainJob becomes.
func set(t testing.TB, o *api.TrainJob, admitted jobs.Admitted) *jobset.JobSet {
	t.Helper()
	p, err := trainjob.Kind().Running.Operator.Compile(o)
	if err != nil {
		t.Fatal(err)
	}
	made, err := p.Make[0](podplan.Member{Role: "jobset"}, &podplan.RetryState{}, admitted)
	if err != nil {
		t.Fatal(err)
	}
	s, ok := made.(*jobset.JobSet)
	if !ok {
		t.Fatalf("it makes a %T", made)
	}
	return s
}

// shown is a JobSet in lines, each about one thing.
func shown(s *jobset.JobSet) []string {
	var out []string
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	pairs := func(what string, m map[string]string) {
		for k, v := range m {
			say("%s %s=%s", what, k, v)
		}
	}
	pairs("set label", s.Labels)
	pairs("set annotation", s.Annotations)
	if f := s.Spec.FailurePolicy; f != nil {
		say("restarts %d", f.MaxRestarts)
	}
	for i := range s.Spec.ReplicatedJobs {
		j := &s.Spec.ReplicatedJobs[i]
		in := &j.Template.Spec
		say(
			"%s pods %d of %d times %d",
			j.Name,
			ptr.Deref(in.Parallelism, -1),
			ptr.Deref(in.Completions, -1),
			ptr.Deref(j.Replicas, -1),
		)
		pairs(j.Name+" job label", j.Template.Labels)
		pairs(j.Name+" job annotation", j.Template.Annotations)
		pairs(j.Name+" label", in.Template.Labels)
		pairs(j.Name+" annotation", in.Template.Annotations)
		p := &in.Template.Spec
		say(
			"%s account %s scheduler %s grace %d",
			j.Name,
			p.ServiceAccountName,
			p.SchedulerName,
			ptr.Deref(p.TerminationGracePeriodSeconds, 30),
		)
		pairs(j.Name+" selector", p.NodeSelector)
		for _, x := range p.Tolerations {
			say("%s tolerates %s", j.Name, x.Key)
		}
		for _, x := range p.SchedulingGates {
			say("%s gate %s", j.Name, x.Name)
		}
		for _, x := range p.ImagePullSecrets {
			say("%s pulls with %s", j.Name, x.Name)
		}
		if a := p.Affinity; a != nil {
			say("%s affinity %v %v %v", j.Name, a.NodeAffinity != nil, a.PodAffinity != nil, a.PodAntiAffinity != nil)
		}
		if c := p.SecurityContext; c != nil {
			say(
				"%s runs as %d group %d of files %d",
				j.Name,
				ptr.Deref(c.RunAsUser, 0),
				ptr.Deref(c.RunAsGroup, 0),
				ptr.Deref(c.FSGroup, 0),
			)
		}
		for _, v := range p.Volumes {
			say("%s volume %s %s", j.Name, v.Name, source(&v))
		}
		for _, c := range p.InitContainers {
			out = append(out, container(j.Name+"/"+c.Name, &c)...)
		}
		for _, c := range p.Containers {
			out = append(out, container(j.Name+"/"+c.Name, &c)...)
		}
	}
	return out
}

func source(v *corev1.Volume) string {
	switch {
	case v.Secret != nil:
		return fmt.Sprintf("secret %s %o", v.Secret.SecretName, ptr.Deref(v.Secret.DefaultMode, 0))
	case v.ConfigMap != nil:
		return "configmap " + v.ConfigMap.Name
	case v.EmptyDir != nil:
		return "empty"
	}
	return "other"
}

func container(in string, c *corev1.Container) []string {
	out := []string{
		fmt.Sprintf("%s image %s", in, c.Image),
		fmt.Sprintf("%s command %q args %q", in, c.Command, c.Args),
	}
	for _, e := range c.Env {
		v := e.Value
		if e.ValueFrom != nil && e.ValueFrom.FieldRef != nil {
			v = "$" + e.ValueFrom.FieldRef.FieldPath
		}
		out = append(out, fmt.Sprintf("%s env %s=%s", in, e.Name, v))
	}
	for _, e := range c.EnvFrom {
		out = append(out, fmt.Sprintf("%s env of secret %s", in, e.SecretRef.Name))
	}
	for name, q := range c.Resources.Limits {
		out = append(out, fmt.Sprintf("%s limit %s=%s", in, name, q.String()))
	}
	for name, q := range c.Resources.Requests {
		out = append(out, fmt.Sprintf("%s request %s=%s", in, name, q.String()))
	}
	for _, m := range c.VolumeMounts {
		out = append(out, fmt.Sprintf("%s mount %s=%s", in, m.MountPath, m.Name))
	}
	for _, p := range c.Ports {
		out = append(out, fmt.Sprintf("%s port %d", in, p.ContainerPort))
	}
	if s := c.SecurityContext; s != nil {
		out = append(
			out,
			fmt.Sprintf("%s runs as %d group %d", in, ptr.Deref(s.RunAsUser, 0), ptr.Deref(s.RunAsGroup, 0)),
		)
	}
	return out
}

const rank = "$metadata.annotations['batch.kubernetes.io/job-completion-index']"

// TestJobSet: what a TrainJob makes of its runtime.
func TestJobSet(t *testing.T) {
	plain := "template: {spec: {replicatedJobs: [NODE]}}"
	cases := map[string]struct {
		why, spec, runtime string
		want, not          []string
	}{
		"Nothing": {
			"a runtime runs as it is",
			"",
			plain,
			[]string{
				"node pods -1 of -1 times 1",
				"node/node image base",
				"node/node command [] args []",
				"node/node env FROM=runtime",
			},
			[]string{"port", "PET_", "restarts"},
		},
		"Trainer": {
			"image, command, arguments and variables are the author's",
			"trainer: {image: mine, command: [python], args: [train.py, --all], env: [{name: A, value: b}, {name: FROM, value: me}], resourcesPerNode: {limits: {cpu: 2}, requests: {memory: 1Gi}}}",
			plain,
			[]string{
				"node/node image mine",
				`node/node command ["python"] args ["train.py" "--all"]`,
				"node/node env A=b",
				"node/node env FROM=me",
				"node/node limit cpu=2",
				"node/node request memory=1Gi",
			},
			[]string{"FROM=runtime"},
		},
		"Nodes": {
			"the author says how many",
			"trainer: {numNodes: 3}",
			"mlPolicy: {numNodes: 7}, " + plain,
			[]string{"node pods 3 of 3 times 1"},
			nil,
		},
		"RuntimeNodes": {
			"or else the runtime",
			"",
			"mlPolicy: {numNodes: 7}, " + plain,
			[]string{"node pods 7 of 7 times 1"},
			nil,
		},
		"OtherNames": {
			"the label says which job trains, and the only container of it does",
			"trainer: {image: mine, numNodes: 2}",
			"template: {spec: {replicatedJobs: [{name: work, template: {metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}, spec: {template: {spec: {containers: [{name: main, image: base}]}}}}}, {name: node, template: {spec: {template: {spec: {containers: [{name: node, image: base}]}}}}}]}}",
			[]string{
				"work pods 2 of 2 times 1",
				"work/main image mine",
				"node pods -1 of -1 times -1",
				"node/node image base",
			},
			nil,
		},
		"PodLabel": {
			"older runtimes have the label on pods",
			"trainer: {image: mine}",
			"template: {spec: {replicatedJobs: [{name: work, template: {spec: {template: {metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}, spec: {containers: [{name: node, image: base}]}}}}}]}}",
			[]string{"work/node image mine"},
			nil,
		},
		"NoLabel": {
			"and some have none, and the name",
			"trainer: {image: mine}",
			"template: {spec: {replicatedJobs: [{name: node, template: {spec: {template: {spec: {containers: [{name: node, image: base}]}}}}}]}}",
			[]string{"node/node image mine"},
			nil,
		},
		"Metadata": {
			"labels of the runtime and of the job, which wins",
			"labels: {a: job, b: job}, annotations: {c: job}",
			"template: {metadata: {labels: {a: runtime, d: runtime, kueue.x-k8s.io/queue-name: q}, annotations: {e: runtime}}, spec: {replicatedJobs: [NODE]}}",
			[]string{
				"set label a=job",
				"set label b=job",
				"set label d=runtime",
				"set annotation c=job",
				"set annotation e=runtime",
			},
			[]string{"queue-name"},
		},
		"Initializers": {
			"what is fetched is told the containers that fetch",
			"initializer: {dataset: {storageUri: 'hf://data', env: [{name: PART, value: train}], secretRef: {name: token}}, model: {storageUri: 'hf://model'}}",
			"template: {spec: {replicatedJobs: [INITIALIZERS, NODE]}}",
			[]string{
				"dataset-initializer/dataset-initializer env STORAGE_URI=hf://data",
				"dataset-initializer/dataset-initializer env PART=train",
				"dataset-initializer/dataset-initializer env of secret token",
				"model-initializer/model-initializer env STORAGE_URI=hf://model",
			},
			[]string{"nowhere", "node/node env STORAGE_URI"},
		},
		"InitializersAlone": {
			"what the author leaves out stays as the runtime has it",
			"",
			"template: {spec: {replicatedJobs: [INITIALIZERS, NODE]}}",
			[]string{"dataset-initializer/dataset-initializer env STORAGE_URI=nowhere"},
			nil,
		},

		"Torch": {
			"torchrun reads its arguments from variables",
			"trainer: {numNodes: 3, resourcesPerNode: {limits: {nvidia.com/gpu: 4, cpu: 8}}}",
			"torch-distributed",
			[]string{
				"node pods 3 of 3 times 1",
				"node/node env PET_NNODES=3",
				"node/node env PET_NPROC_PER_NODE=auto",
				"node/node env PET_NODE_RANK=" + rank,
				"node/node env PET_MASTER_ADDR=tj-node-0-0.tj",
				"node/node env PET_MASTER_PORT=29500",
				"node/node port 29500",
			},
			[]string{"PET_RDZV"},
		},
		"TorchDomain": {
			"where pods are found",
			"",
			"mlPolicy: {torch: {}}, template: {spec: {network: {subdomain: net}, replicatedJobs: [NODE]}}",
			[]string{"node/node env PET_MASTER_ADDR=tj-node-0-0.net"},
			nil,
		},
		"TorchCPU": {
			"a process for each processor of the pod, and not of its node",
			"trainer: {resourcesPerNode: {requests: {cpu: 3500m}}}",
			"torch-distributed",
			[]string{"node/node env PET_NPROC_PER_NODE=4"},
			nil,
		},
		"TorchLimits": {
			"limits say more than requests",
			"trainer: {resourcesPerNode: {requests: {cpu: 2}, limits: {cpu: 6}}}",
			"torch-distributed",
			[]string{"node/node env PET_NPROC_PER_NODE=6"},
			nil,
		},
		"TorchNothing": {
			"one if nothing is known",
			"",
			"torch-distributed",
			[]string{"node/node env PET_NPROC_PER_NODE=1"},
			nil,
		},
		"TorchSaysCPU": {
			"cpu counts processors beside GPUs",
			"trainer: {numProcPerNode: cpu, resourcesPerNode: {limits: {cpu: 8, nvidia.com/gpu: 2}}}",
			"torch-distributed",
			[]string{"node/node env PET_NPROC_PER_NODE=8"},
			nil,
		},
		"TorchSaysGPU": {
			"torchrun counts GPUs",
			"trainer: {numProcPerNode: gpu}",
			"torch-distributed",
			[]string{"node/node env PET_NPROC_PER_NODE=gpu"},
			nil,
		},
		"TorchNumber": {
			"a number is a number",
			"trainer: {numProcPerNode: 5}",
			"torch-distributed",
			[]string{"node/node env PET_NPROC_PER_NODE=5"},
			nil,
		},
		"TorchRuntime": {
			"the older place of it",
			"",
			"mlPolicy: {torch: {numProcPerNode: 6}}, " + plain,
			[]string{"node/node env PET_NPROC_PER_NODE=6"},
			nil,
		},
		"TorchOverrides": {
			"the author has the last word",
			"trainer: {numProcPerNode: 5}",
			"mlPolicy: {torch: {numProcPerNode: 6}}, " + plain,
			[]string{"node/node env PET_NPROC_PER_NODE=5"},
			nil,
		},
		"TorchMIG": {
			"a part of a GPU is one",
			"trainer: {resourcesPerNode: {limits: {nvidia.com/mig-1g.5gb: 1, cpu: 4}}}",
			"torch-distributed",
			[]string{"node/node env PET_NPROC_PER_NODE=auto"},
			nil,
		},
		"TorchElastic": {
			"fewer nodes are enough",
			"",
			"mlPolicy: {torch: {elasticPolicy: {minNodes: 2, maxNodes: 5, maxRestarts: 7}}}, " + plain,
			[]string{
				"node pods 5 of 5 times 1",
				"node/node env PET_NNODES=2:5",
				"node/node env PET_RDZV_BACKEND=c10d",
				"node/node env PET_RDZV_ENDPOINT=tj-node-0-0.tj:29500",
				"node/node env PET_RDZV_ID=tj",
				"node/node env PET_MAX_RESTARTS=7",
				"restarts 7",
			},
			nil,
		},
		"TorchElasticOfJob": {
			"no more than the author wants",
			"trainer: {numNodes: 3}",
			"mlPolicy: {torch: {elasticPolicy: {minNodes: 2, maxNodes: 5}}}, " + plain,
			[]string{"node pods 3 of 3 times 1", "node/node env PET_NNODES=2:3"},
			[]string{"restarts"},
		},
		"TorchElasticLeast": {
			"the least is the number if there is no other",
			"",
			"mlPolicy: {torch: {elasticPolicy: {minNodes: 2}}}, " + plain,
			[]string{"node pods 2 of 2 times 1", "node/node env PET_NNODES=2:2"},
			nil,
		},
		"TorchElasticOwn": {
			"the runtime's own policy stays",
			"",
			"mlPolicy: {torch: {elasticPolicy: {maxNodes: 2, maxRestarts: 7}}}, template: {spec: {failurePolicy: {maxRestarts: 1}, replicatedJobs: [NODE]}}",
			[]string{"restarts 1"},
			nil,
		},
		"TorchInit": {
			"containers that check the network before",
			"",
			"mlPolicy: {torch: {envInjection: {initContainers: [check]}}}, template: {spec: {replicatedJobs: [{name: node, template: {spec: {template: {spec: {initContainers: [{name: check}, {name: other}], containers: [{name: node}]}}}}}]}}",
			[]string{"node/check env PET_NNODES=1", "node/check env PET_MASTER_ADDR=tj-node-0-0.tj"},
			[]string{"node/other env"},
		},
		"TorchPort": {
			"a port that is open is not opened again",
			"",
			"mlPolicy: {torch: {}}, template: {spec: {replicatedJobs: [{name: node, template: {spec: {template: {spec: {containers: [{name: node, ports: [{name: meet, containerPort: 29500}]}]}}}}}]}}",
			[]string{"node/node port 29500"},
			nil,
		},
		"TorchBeside": {
			"other containers and jobs are told nothing",
			"",
			"mlPolicy: {torch: {}}, template: {spec: {replicatedJobs: [INITIALIZERS, {name: node, template: {spec: {template: {spec: {containers: [{name: log}, {name: node}]}}}}}]}}",
			[]string{"node/node env PET_NNODES=1"},
			[]string{"node/log env", "initializer env PET"},
		},

		"JAX": {
			"jax.distributed reads three variables",
			"trainer: {numNodes: 2}",
			"jax-distributed",
			[]string{
				"node/node env JAX_NUM_PROCESSES=2",
				"node/node env JAX_PROCESS_ID=" + rank,
				"node/node env JAX_COORDINATOR_ADDRESS=tj-node-0-0.tj:29500",
				"node/node port 29500",
			},
			[]string{"PET_"},
		},
		"XGBoost": {
			"a worker in each pod",
			"trainer: {numNodes: 2, resourcesPerNode: {limits: {cpu: 4}}}",
			"xgboost-distributed",
			[]string{
				"node/node env DMLC_TRACKER_URI=tj-node-0-0.tj",
				"node/node env DMLC_TRACKER_PORT=29500",
				"node/node env DMLC_TASK_ID=" + rank,
				"node/node env DMLC_NUM_WORKER=2",
			},
			nil,
		},
		"XGBoostGPUs": {
			"or one for each GPU",
			"trainer: {numNodes: 2, resourcesPerNode: {limits: {nvidia.com/gpu: 4}}}",
			"xgboost-distributed",
			[]string{"node/node env DMLC_NUM_WORKER=8"},
			nil,
		},

		"MPI": {
			"the launcher is one of the nodes",
			"trainer: {image: mine, command: [mpirun, train], numNodes: 4, env: [{name: A, value: b}], resourcesPerNode: {limits: {nvidia.com/gpu: 8}}}",
			"mpi-distributed",
			[]string{
				"launcher pods 1 of 1 times 1",
				"node pods 3 of 3 times 1",
				`launcher/node command ["mpirun" "train"] args []`,
				`node/node command ["/usr/sbin/sshd" "-De" "-f" "/home/mpiuser/.sshd_config"] args []`,
				"launcher/node image mine",
				"node/node image mine",
				"launcher/node env A=b",
				"node/node env A=b",
				"launcher/node limit nvidia.com/gpu=8",
				"node/node limit nvidia.com/gpu=8",
				"launcher/node env OMPI_MCA_orte_default_hostfile=/etc/mpi/hostfile",
				"launcher/node env OMPI_MCA_orte_keep_fqdn_hostnames=true",
				"launcher/node env OMPI_MCA_orte_set_default_slots=8",
				"launcher/node env OMPI_MCA_plm_rsh_args=-o ConnectionAttempts=10",
				"launcher volume mpi-ssh-auth secret tj-mpi-ssh-auth 640",
				"node volume mpi-ssh-auth secret tj-mpi-ssh-auth 640",
				"launcher volume mpi-hostfile configmap tj-mpi-hostfile",
				"launcher/node mount /home/mpiuser/.ssh=mpi-ssh-auth",
				"node/node mount /home/mpiuser/.ssh=mpi-ssh-auth",
				"launcher/node mount /etc/mpi=mpi-hostfile",
			},
			[]string{"node/node mount /etc/mpi", "node volume mpi-hostfile", "node/node env OMPI"},
		},
		"MPILauncherOnly": {
			"a launcher that only starts has no GPUs, which upstream gives it",
			"trainer: {numNodes: 2, resourcesPerNode: {limits: {nvidia.com/gpu: 8}}}",
			"mlPolicy: {mpi: {}}, template: {spec: {replicatedJobs: [MPIJOBS]}}",
			[]string{
				"launcher pods 1 of 1 times 1",
				"node pods 2 of 2 times 1",
				"node/node limit nvidia.com/gpu=8",
				"launcher volume mpi-ssh-auth secret tj-mpi-ssh-auth 600",
				"launcher/node env OMPI_MCA_orte_set_default_slots=8",
			},
			[]string{"launcher/node limit"},
		},
		"MPIOne": {
			"nodes are there beside the launcher",
			"trainer: {numNodes: 1}",
			"mpi-distributed",
			[]string{"launcher pods 1 of 1 times 1", "node pods 1 of 1 times 1"},
			nil,
		},
		"MPISlots": {
			"slots are a number",
			"trainer: {numProcPerNode: 3}",
			"mpi-distributed",
			[]string{"launcher/node env OMPI_MCA_orte_set_default_slots=3"},
			nil,
		},
		"MPIPolicy": {
			"as the runtime has it",
			"",
			"mlPolicy: {mpi: {numProcPerNode: 2}}, template: {spec: {replicatedJobs: [MPIJOBS]}}",
			[]string{"launcher/node env OMPI_MCA_orte_set_default_slots=2"},
			nil,
		},
		"MPIIntel": {
			"another implementation",
			"",
			"mlPolicy: {mpi: {mpiImplementation: Intel}}, template: {spec: {replicatedJobs: [MPIJOBS]}}",
			[]string{
				"launcher/node env I_MPI_HYDRA_HOST_FILE=/etc/mpi/hostfile",
				"launcher/node env I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS=-o ConnectionAttempts=10",
				"launcher/node env I_MPI_PERHOST=1",
			},
			[]string{"OMPI"},
		},
		"MPICH": {
			"and another",
			"",
			"mlPolicy: {mpi: {mpiImplementation: MPICH}}, template: {spec: {replicatedJobs: [MPIJOBS]}}",
			[]string{
				"launcher/node env HYDRA_HOST_FILE=/etc/mpi/hostfile",
				"launcher/node env HYDRA_LAUNCH_EXTRA_ARGS=-o ConnectionAttempts=10",
			},
			[]string{"OMPI"},
		},
		"MPINode": {
			"a runtime without a launcher",
			"trainer: {numNodes: 2}",
			"mlPolicy: {mpi: {}}, template: {spec: {replicatedJobs: [NODE]}}",
			[]string{"node pods 2 of 2 times 1", "node volume mpi-ssh-auth secret tj-mpi-ssh-auth 600"},
			nil,
		},

		"PodSpecOverrides": {
			"the first generation",
			`podSpecOverrides: [{targetJobs: [{name: node}], serviceAccountName: me, nodeSelector: {a: b}, tolerations: [{key: gpu}], volumes: [{name: v, emptyDir: {}}],
  containers: [{name: node, volumeMounts: [{name: v, mountPath: /v}]}], schedulingGates: [{name: g}], imagePullSecrets: [{name: s}]}]`,
			plain,
			[]string{
				"node account me scheduler  grace 30",
				"node selector a=b",
				"node tolerates gpu",
				"node volume v empty",
				"node/node mount /v=v",
				"node gate g",
				"node pulls with s",
			},
			nil,
		},
		"PodTemplateOverrides": {
			"the second",
			`podTemplateOverrides: [{manager: me, targetJobs: [{name: node}], metadata: {labels: {l: x}, annotations: {m: z}}, spec: {serviceAccountName: me, affinity: {podAffinity: {}}}}, {targetJobs: [{name: node}], spec: {serviceAccountName: you}}]`,
			plain,
			[]string{
				"node label l=x",
				"node annotation m=z",
				"node account you scheduler  grace 30",
				"node affinity false true false",
			},
			nil,
		},
		"RuntimePatches": {
			"the third",
			`runtimePatches: [{manager: a.b/me, trainingRuntimeSpec: {template: {metadata: {labels: {s: t}}, spec: {replicatedJobs: [{name: node, template: {metadata: {labels: {j: k}, annotations: {o: p}}, spec: {template: {metadata: {labels: {l: x}},
  spec: {terminationGracePeriodSeconds: 5, securityContext: {fsGroup: 3}, containers: [{name: node, securityContext: {runAsUser: 4}}]}}}}}]}}}}]`,
			plain,
			[]string{
				"set label s=t",
				"node job label j=k",
				"node job annotation o=p",
				"node label l=x",
				"node account  scheduler  grace 5",
				"node runs as 0 group 0 of files 3",
				"node/node runs as 4 group 0",
			},
			nil,
		},
		"AllGenerations": {
			"the newest has the last word",
			`podSpecOverrides: [{targetJobs: [{name: node}], serviceAccountName: a}], podTemplateOverrides: [{targetJobs: [{name: node}], spec: {serviceAccountName: b}}],
  runtimePatches: [{manager: a.b/me, trainingRuntimeSpec: {template: {spec: {replicatedJobs: [{name: node, template: {spec: {template: {spec: {serviceAccountName: c}}}}}]}}}}]`,
			plain,
			[]string{"node account c scheduler  grace 30"},
			nil,
		},
		"EveryJob": {
			"no targets are all",
			"podTemplateOverrides: [{spec: {serviceAccountName: me}}]",
			"template: {spec: {replicatedJobs: [INITIALIZERS, NODE]}}",
			[]string{"node account me scheduler  grace 30", "dataset-initializer account me scheduler  grace 30"},
			nil,
		},
		"OneJob": {
			"and others stay as they are",
			"podTemplateOverrides: [{targetJobs: [{name: dataset-initializer}], spec: {serviceAccountName: me}}]",
			"template: {spec: {replicatedJobs: [INITIALIZERS, NODE]}}",
			[]string{"node account  scheduler  grace 30", "dataset-initializer account me scheduler  grace 30"},
			nil,
		},
		"Merged": {
			"what has a name is joined, tolerations are not, parts that are left out stay",
			`podTemplateOverrides: [{targetJobs: [{name: node}], spec: {tolerations: [{key: b}], nodeSelector: {c: d}, volumes: [{name: v, emptyDir: {}}, {name: w, emptyDir: {}}], securityContext: {runAsUser: 1}, affinity: {podAntiAffinity: {}},
  initContainers: [{name: first, env: [{name: E, value: mine}, {name: F, value: g}], volumeMounts: [{name: w, mountPath: /v}, {name: w, mountPath: /w}], securityContext: {runAsGroup: 8}}]}}]`,
			`template: {spec: {replicatedJobs: [{name: node, template: {spec: {template: {spec: {tolerations: [{key: a}], nodeSelector: {a: b}, volumes: [{name: v, configMap: {name: m}}], securityContext: {fsGroup: 3}, affinity: {nodeAffinity: {}},
  initContainers: [{name: first, env: [{name: E, value: theirs}], volumeMounts: [{name: v, mountPath: /v}], securityContext: {runAsUser: 7}}], containers: [{name: node}]}}}}}]}}`,
			[]string{
				"node tolerates b",
				"node selector a=b",
				"node selector c=d",
				"node volume v empty",
				"node volume w empty",
				"node runs as 1 group 0 of files 3",
				"node affinity true false true",
				"node/first env E=mine",
				"node/first env F=g",
				"node/first mount /v=w",
				"node/first mount /w=w",
				"node/first runs as 7 group 8",
			},
			[]string{"tolerates a", "configmap m", "theirs"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o := job(t, tc.spec, tc.runtime)
			if errs := trainjob.Kind().Admission.Validate(o); len(errs) > 0 {
				t.Fatalf("%s: refused: %v", tc.why, errs)
			}
			got := shown(set(t, o, nil))
			for _, want := range tc.want {
				if n := strings.Count("\n"+strings.Join(got, "\n")+"\n", "\n"+want+"\n"); n != 1 {
					t.Errorf("%s: %q is there %d times in\n%s", tc.why, want, n, strings.Join(got, "\n"))
				}
			}
			for _, not := range tc.not {
				if i := slices.IndexFunc(got, func(line string) bool { return strings.Contains(line, not) }); i >= 0 {
					t.Errorf("%s: %q must not be there", tc.why, got[i])
				}
			}
			f, err := trainjob.Kind().Read(o)
			if err != nil {
				t.Fatal(err)
			}
			for i, j := range set(t, o, nil).Spec.ReplicatedJobs {
				if want := ptr.Deref(
					j.Replicas,
					1,
				) * ptr.Deref(
					j.Template.Spec.Parallelism,
					1,
				); f.PodSets[i].Count != want ||
					string(f.PodSets[i].Name) != j.Name {
					t.Errorf("%d pods %s are queued, %d are made of %s", f.PodSets[i].Count, f.PodSets[i].Name, want, j.Name)
				}
			}
		})
	}
}
