package config_test

import (
	"fmt"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/mlbatch/mlbatch/config/crdtest"
)

// TestJobTemplates: what people write in the Jobs and claims of JobSets is kept and
// checked as that of Jobs and claims is.
func TestJobTemplates(t *testing.T) {
	s := crdtest.Of(t, "jobsets.jobset.x-k8s.io", "v1alpha2")
	const pods = "{containers: [{name: c, ports: [{containerPort: 1}]}]}"
	set := func(job, claim string) string {
		return fmt.Sprintf(
			"{spec: {replicatedJobs: [{name: a, template: %s}], volumeClaimPolicies: [{templates: [%s]}]}}",
			job,
			claim,
		)
	}
	claim := "{metadata: {name: data, labels: {g: h}}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}"
	good := s.Parse(
		t,
		set(
			"{metadata: {labels: {a: b}, annotations: {c: d}}, spec: {completionMode: Indexed, unheardOf: 1, template: {metadata: {labels: {e: f}}, spec: "+pods+"}}}",
			claim,
		),
	)
	if got := s.Validate(t, good, nil); got != "" {
		t.Errorf("it is a JobSet: %s", got)
	}
	data, err := yaml.Marshal(good)
	if err != nil {
		t.Fatal(err)
	}
	for want, why := range map[string]string{
		"a: b":                    "Jobs have labels, such as that of their queue",
		"c: d":                    "annotations too",
		"e: f":                    "so have their pods",
		"g: h":                    "and claims",
		"name: data":              "claims are known by name",
		"protocol: TCP":           "ports are known by number and protocol",
		"completionMode: Indexed": "fields of Jobs are kept",
		"replicas: 1":             "people read it",
		"groupName: default":      "people read it",
	} {
		if !strings.Contains(string(data), want) {
			t.Errorf("%s: no %q in\n%s", why, want, data)
		}
	}
	old := s.Parse(
		t,
		set(
			"{spec: {template: {spec: {containers: [{name: c}], volumes: [{name: v, glusterfs: {path: somewhere, endpoints: e}}]}}}}",
			claim,
		),
	)
	if got := s.Validate(t, old, nil); got != "" {
		t.Errorf("volumes that are deprecated are for the API server to judge: %s", got)
	}
	if text, err := yaml.Marshal(old); err != nil || !strings.Contains(string(text), "path: somewhere") {
		t.Errorf("what a deprecated volume says is not kept (%v):\n%s", err, text)
	}
	if strings.Contains(string(data), "unheardOf") {
		t.Error("a field that Jobs do not have was kept")
	}
	for why, tc := range map[string]struct{ job, claim, want string }{
		"a Job has pods":              {"{spec: {}}", claim, "template: Required value"},
		"pods have containers":        {"{spec: {template: {spec: {}}}}", claim, "containers: Required value"},
		"a count is a number":         {"{spec: {parallelism: many, template: {spec: " + pods + "}}}", claim, "parallelism"},
		"names of claims are strings": {"{spec: {template: {spec: " + pods + "}}}", "{metadata: {name: 3}}", "metadata.name"},
	} {
		if got := s.Validate(t, s.Parse(t, set(tc.job, tc.claim)), nil); !strings.Contains(got, tc.want) {
			t.Errorf("%s: got %q, want %q", why, got, tc.want)
		}
	}
}

// trainer is a job of one kind, with a pod template.
func trainer(field, template string) string {
	return fmt.Sprintf("{spec: {%s: {Worker: {replicas: 2, template: %s}}}}", field, template)
}

// TestPodTemplates: what people write in the templates of roles is kept and checked as
// that of a pod is.
func TestPodTemplates(t *testing.T) {
	for kind, field := range map[string]string{
		"jaxjobs": "jaxReplicaSpecs", "paddlejobs": "paddleReplicaSpecs", "pytorchjobs": "pytorchReplicaSpecs",
		"tfjobs": "tfReplicaSpecs", "xgboostjobs": "xgbReplicaSpecs",
	} {
		t.Run(kind, func(t *testing.T) {
			s := crdtest.Of(t, kind+".kubeflow.org", "v1")
			good := s.Parse(t, trainer(field, "{metadata: {labels: {a: b}, annotations: {c: d}}, "+
				"spec: {containers: [{name: c, image: i, ports: [{containerPort: 1}], unheardOf: 1}]}}"))
			if got := s.Validate(t, good, nil); got != "" {
				t.Errorf("it is a pod: %s", got)
			}
			data, err := yaml.Marshal(good)
			if err != nil {
				t.Fatal(err)
			}
			for want, why := range map[string]string{
				"a: b":          "labels of pods are how networks and monitors find them",
				"c: d":          "annotations too",
				"protocol: TCP": "ports are known by number and protocol, so that two clients can own one each",
			} {
				if !strings.Contains(string(data), want) {
					t.Errorf("%s: no %q in\n%s", why, want, data)
				}
			}
			if strings.Contains(string(data), "unheardOf") {
				t.Error("a field that pods do not have was kept")
			}
			for template, want := range map[string]string{
				"{spec: {}}": "containers: Required value",
				"{spec: {containers: [{name: c}, {name: c}]}}": "Duplicate value",
				"{spec: {containers: [{name: 1}]}}":            "name",
			} {
				bad := s.Parse(t, trainer(field, template))
				if got := s.Validate(t, bad, nil); !strings.Contains(got, want) {
					t.Errorf("%s: got %q, want %q", template, got, want)
				}
			}
		})
	}
}

// TestRuntimePatches: what TrainJobs change of pods is kept and checked as that of pods is, in
// all three generations of the fields.
func TestRuntimePatches(t *testing.T) {
	s := crdtest.Of(t, "trainjobs.trainer.kubeflow.org", "v1alpha1")
	job := func(pods string) map[string]any {
		return s.Parse(
			t,
			fmt.Sprintf(
				`{spec: {runtimeRef: {name: r}, trainer: {numProcPerNode: auto, resourcesPerNode: {requests: {cpu: 2}}, env: [{name: A, value: b}]},
  podSpecOverrides: [{targetJobs: [{name: node}], %[1]s}], podTemplateOverrides: [{targetJobs: [{name: node}], metadata: {labels: {a: b}, creationTimestamp: null}, spec: {%[1]s}}],
  runtimePatches: [{manager: me, trainingRuntimeSpec: {template: {metadata: {labels: {c: d}}, spec: {replicatedJobs: [{name: node, template: {metadata: {labels: {e: f}}, spec: {template: {metadata: {labels: {g: h}}, spec: {%[1]s}}}}}]}}}}]}}`,
				pods,
			),
		)
	}
	good := job(
		`volumes: [{name: v, emptyDir: {}}], containers: [{name: c, env: [{name: E, value: x}], volumeMounts: [{name: v, mountPath: /v}], securityContext: {runAsUser: 1}}], affinity: {nodeAffinity: {}}, securityContext: {fsGroup: 2}, tolerations: [{key: gpu, operator: Exists}]`,
	)
	if got := s.Validate(t, good, nil); got != "" {
		t.Errorf("it is a TrainJob: %s", got)
	}
	data, err := yaml.Marshal(good)
	if err != nil {
		t.Fatal(err)
	}
	for want, n := range map[string]int{
		"mountPath: /v": 3, "fsGroup: 2": 3, "runAsUser: 1": 3, "emptyDir: {}": 3, "nodeAffinity: {}": 3, "key: gpu": 3,
		"a: b": 1, "c: d": 1, "e: f": 1, "g: h": 1, "cpu: 2": 1, "kind: ClusterTrainingRuntime": 1,
	} {
		if got := strings.Count(string(data), want); got != n {
			t.Errorf("%q is there %d times, not %d, in\n%s", want, got, n, data)
		}
	}
	for pods, want := range map[string]string{
		"volumes: [{emptyDir: {}}]":                                                      "name: Required value",
		"containers: [{name: c, volumeMounts: [{name: v}]}]":                             "mountPath: Required value",
		"containers: [{name: c, env: [{name: A}, {name: A}]}]":                           "Duplicate value",
		"affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {}}}": "nodeSelectorTerms: Required value",
	} {
		if got := s.Validate(t, job(pods), nil); !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %q", pods, got, want)
		}
	}
}

// TestRuntimes: one policy, and JobSets that are kept as JobSets are.
func TestRuntimes(t *testing.T) {
	for _, name := range []string{"trainingruntimes", "clustertrainingruntimes"} {
		s := crdtest.Of(t, name+".trainer.kubeflow.org", "v1alpha1")
		runtime := func(policy string) map[string]any {
			return s.Parse(
				t,
				fmt.Sprintf(
					"{spec: {mlPolicy: {%s}, template: {metadata: {labels: {a: b}}, spec: {replicatedJobs: [{name: node, template: {metadata: {labels: {c: d}}, spec: {template: {metadata: {labels: {e: f}}, spec: {containers: [{name: node}]}}}}}]}}}}",
					policy,
				),
			)
		}
		for policy, want := range map[string]string{
			"numNodes: 2, torch: {numProcPerNode: auto}": "", "torch: {numProcPerNode: 4}": "", "mpi: {}": "", "jax: {}": "", "xgboost: {}": "", "flux: {}": "",
			"torch: {elasticPolicy: {minNodes: 1, maxNodes: 2, metrics: [{type: Resource, resource: {name: cpu}}]}}": "",
			"torch: {}, jax: {}": "only one of torch",
			"numNodes: 2, torch: {elasticPolicy: {maxNodes: 2}}": "remove numNodes",
			"numNodes: 0": "numNodes",
		} {
			o := runtime(policy)
			if got := s.Validate(t, o, nil); (want == "") != (got == "") || !strings.Contains(got, want) {
				t.Errorf("%s: got %q, want %q", policy, got, want)
			}
			data, err := yaml.Marshal(o)
			if err != nil {
				t.Fatal(err)
			}
			for _, kept := range []string{"a: b", "c: d", "e: f"} {
				if !strings.Contains(string(data), kept) {
					t.Errorf("no %q in\n%s", kept, data)
				}
			}
		}
	}
}
