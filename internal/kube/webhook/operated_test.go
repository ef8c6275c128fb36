package webhook_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	trainer "github.com/mlbatch/mlbatch/api/trainer/v1alpha1"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/jobset"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/pytorchjob"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/raycluster"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/rayjob"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/trainjob"
	"github.com/mlbatch/mlbatch/internal/kube/webhook"
)

// A job whose pods are made here is tried like an AppWrapper: with one pod of each role,
// as it will be made.
func TestPodsOfOperatedJobsAreTried(t *testing.T) {
	kinds := jobs.Kinds{pytorchjob.Kind()}
	const validate = "/validate-kubeflow-org-v1-pytorchjob"
	manifest := func(name, more string) string {
		return fmt.Sprintf(
			`{apiVersion: kubeflow.org/v1, kind: PyTorchJob, metadata: {name: %s, namespace: blue, labels: {kueue.x-k8s.io/queue-name: default-queue}%s}, spec: {runPolicy: {suspend: true},
  pytorchReplicaSpecs: {master: {template: {spec: {containers: [{name: pytorch, image: i}]}}}, Worker: {replicas: 3, template: {spec: {containers: [{name: pytorch, image: i}]}}}}}}`,
			name,
			more,
		)
	}
	image := field.NewPath("spec", "containers").Index(0).Child("image")
	invalid := apierrors.NewInvalid(
		schema.GroupKind{Kind: "Pod"},
		"p",
		field.ErrorList{field.Required(image, "")},
	)
	policy := apierrors.NewForbidden(
		schema.GroupResource{Resource: "pods"},
		"p",
		errors.New(`violates PodSecurity "baseline"`),
	)
	cases := map[string]struct {
		why     string
		say     map[string]error // by pod
		more    string           // metadata
		tried   string
		refused string
		warned  string
	}{
		"fine": {why: "one of each role", tried: "a-master-0 a-worker-0"},
		"invalid": {
			why:     "at the field that its author wrote",
			say:     map[string]error{"a-master-0": invalid},
			tried:   "a-master-0 a-worker-0",
			refused: "spec.pytorchReplicaSpecs.master.template.spec.containers[0].image: Required value",
		},
		"forbidden": {
			why:    "which may change until it starts",
			say:    map[string]error{"a-worker-0": policy},
			tried:  "a-master-0 a-worker-0",
			warned: "spec.pytorchReplicaSpecs.Worker.template: as things are now, the job could not start",
		},
		"a part": {
			why:  "it was tried with the whole",
			more: ", ownerReferences: [{apiVersion: v1, kind: X, name: x, uid: u, controller: true}]",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := cluster(t, nil, nil, world()...)
			var tried []string
			c.Trial = interceptor.NewClient(c.Live.(client.WithWatch), interceptor.Funcs{
				Create: func(_ context.Context, _ client.WithWatch, o client.Object, opts ...client.CreateOption) error {
					all := client.CreateOptions{}
					all.ApplyOptions(opts)
					if len(all.DryRun) == 0 {
						t.Errorf("%s is stored", o.GetName())
					}
					pod := &corev1.Pod{}
					if u, is := o.(*unstructured.Unstructured); !is || u.GetKind() != "Pod" ||
						len(u.GetOwnerReferences()) != 1 {
						t.Errorf("%T is no pod of the job", o)
					} else if err := runtime.DefaultUnstructuredConverter.FromUnstructured(
						u.Object,
						pod,
					); err != nil ||
						len(pod.Spec.Containers[0].Env) == 0 {
						t.Errorf("it is not tried as it is made: %v, %v", err, pod.Spec.Containers)
					}
					tried = append(tried, o.GetName())
					return tc.say[o.GetName()]
				},
			})
			handlers := handle(t, c, webhook.Options{Kinds: kinds})
			r := send(t, handlers, ask{user: "admin", path: validate, new: manifest("a", tc.more)})
			if got := strings.Join(tried, " "); got != tc.tried {
				t.Errorf("%s: tried %s, want %s", tc.why, got, tc.tried)
			}
			if r.Allowed != (tc.refused == "") || !strings.Contains(r.Message, tc.refused) {
				t.Errorf("%s: allowed is %v: %s", tc.why, r.Allowed, r.Message)
			}
			if told := strings.Join(
				r.Warnings,
				"\n",
			); !strings.Contains(told, tc.warned) ||
				(tc.warned == "") != (told == "") {
				t.Errorf("%s: warnings are %q", tc.why, r.Warnings)
			}
			if tc.say != nil || tc.tried == "" {
				return
			}
			tried = nil
			send(t, handlers, ask{user: "admin", path: validate, new: manifest("b", "")})
			if len(tried) > 0 {
				t.Errorf("the second of equal jobs costs no trial: %v", tried)
			}
		})
	}
}

// A job that is made of Jobs is tried with one Job of each role, and what is wrong with it is
// told where its author wrote it.
func TestJobsOfOperatedJobsAreTried(t *testing.T) {
	kinds := jobs.Kinds{jobset.Kind()}
	const validate = "/validate-jobset-x-k8s-io-v1alpha2-jobset"
	manifest := `{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, metadata: {name: a, namespace: blue, labels: {kueue.x-k8s.io/queue-name: default-queue}}, spec: {suspend: true,
  replicatedJobs: [{name: leader, template: {spec: {template: {spec: {containers: [{name: c, image: i}]}}}}}, {name: workers, replicas: 3, template: {spec: {template: {spec: {containers: [{name: c}]}}}}}]}}`
	c := cluster(t, nil, nil, world()...)
	var tried []string
	c.Trial = interceptor.NewClient(c.Live.(client.WithWatch), interceptor.Funcs{
		Create: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.CreateOption) error {
			job := &batchv1.Job{}
			if u, is := o.(*unstructured.Unstructured); is && u.GetKind() == "Pod" {
				tried = append(tried, "pod-of-"+o.GetGenerateName())
				return apierrors.NewForbidden(
					schema.GroupResource{Resource: "pods"},
					"",
					errors.New("violates PodSecurity"),
				)
			} else if !is || u.GetKind() != "Job" || len(u.GetOwnerReferences()) != 1 {
				t.Errorf("%T is no Job of the JobSet", o)
			} else if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, job); err != nil || job.Spec.Template.Spec.RestartPolicy != corev1.RestartPolicyOnFailure {
				t.Errorf("it is not tried as it is made: %v, %+v", err, job.Spec)
			}
			tried = append(tried, o.GetName())
			if o.GetName() == "a-leader-0" {
				return nil
			}
			image := field.NewPath("spec", "template", "spec", "containers").Index(0).Child("image")
			return apierrors.NewInvalid(
				schema.GroupKind{Group: "batch", Kind: "Job"},
				o.GetName(),
				field.ErrorList{field.Required(image, "")},
			)
		},
	})
	r := send(t, handle(t, c, webhook.Options{Kinds: kinds}), ask{user: "admin", path: validate, new: manifest})
	if got := strings.Join(tried, " "); got != "a-leader-0 pod-of-a-leader-0- a-workers-0" {
		t.Errorf("tried %s", got)
	}
	if want := "spec.replicatedJobs[1].template.spec.template.spec.containers[0].image: Required value"; r.Allowed ||
		!strings.Contains(r.Message, want) {
		t.Errorf("allowed is %v: %s", r.Allowed, r.Message)
	}
	if w := strings.Join(
		r.Warnings,
		"",
	); !strings.Contains(w, "spec.replicatedJobs[0].template: as things are now") ||
		!strings.Contains(w, "PodSecurity") {
		t.Errorf("a namespace that takes no such pods takes their Job, and it is said: %s", w)
	}
}

// What a job consists of may itself be made of pods: they are tried as well, and what is wrong with
// them is told where the author of the job wrote it.
func TestPodsOfMembersAreTried(t *testing.T) {
	kinds := jobs.Kinds{rayjob.Kind(), raycluster.Kind()}
	manifest := `{apiVersion: ray.io/v1, kind: RayJob, metadata: {name: a, namespace: blue, labels: {kueue.x-k8s.io/queue-name: default-queue}}, spec: {suspend: true, entrypoint: x, rayClusterSpec: {
  headGroupSpec: {template: {spec: {containers: [{name: c, image: i}]}}},
  workerGroupSpecs: [{groupName: none, replicas: 0, template: {spec: {containers: [{name: c, image: i}]}}}, {groupName: g, replicas: 2, template: {spec: {containers: [{name: c, image: i}]}}}]}}}`
	c := cluster(t, nil, nil, world()...)
	tried := map[string]int{}
	c.Trial = interceptor.NewClient(c.Live.(client.WithWatch), interceptor.Funcs{
		Create: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.CreateOption) error {
			u, is := o.(*unstructured.Unstructured)
			if !is || len(u.GetOwnerReferences()) != 1 {
				t.Fatalf("%T is no part of the job", o)
			}
			tried[u.GetKind()]++
			if u.GetKind() != "Pod" || u.GetLabels()["ray.io/group"] != "g" {
				return nil
			}
			limits := field.NewPath("spec", "containers").Index(0).Child("resources", "limits")
			return apierrors.NewInvalid(
				schema.GroupKind{Kind: "Pod"},
				o.GetName(),
				field.ErrorList{field.Required(limits, "")},
			)
		},
	})
	r := send(
		t,
		handle(t, c, webhook.Options{Kinds: kinds}),
		ask{user: "admin", path: "/validate-ray-io-v1-rayjob", new: manifest},
	)
	const at = "spec.rayClusterSpec.workerGroupSpecs[1].template.spec.containers[0].resources.limits: Required value"
	if r.Allowed || !strings.Contains(r.Message, at) {
		t.Errorf("allowed is %v: %s", r.Allowed, r.Message)
	}
	if want := map[string]int{"RayCluster": 1, "Job": 1, "Pod": 3}; !maps.Equal(tried, want) {
		t.Errorf("tried %v, want %v", tried, want)
	}
}

// TestPodsBelowMembersAreTried: so are those of the Jobs of a member.
func TestPodsBelowMembersAreTried(t *testing.T) {
	kinds := jobs.Kinds{trainjob.Kind(), jobset.Kind()}
	runtime := `{apiVersion: trainer.kubeflow.org/v1alpha1, kind: TrainingRuntime, metadata: {name: torch, namespace: blue}, spec: {mlPolicy: {numNodes: 1, torch: {}},
  template: {spec: {replicatedJobs: [{name: node, template: {metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}, spec: {template: {spec: {containers: [{name: node, image: i}]}}}}}]}}}}`
	manifest := `{apiVersion: trainer.kubeflow.org/v1alpha1, kind: TrainJob, metadata: {name: a, namespace: blue, labels: {kueue.x-k8s.io/queue-name: default-queue}}, spec: {suspend: true, runtimeRef: {kind: TrainingRuntime, name: torch}}}`
	o := &trainer.TrainingRuntime{}
	if err := yaml.Unmarshal([]byte(runtime), o); err != nil {
		t.Fatal(err)
	}
	c := cluster(t, nil, nil, append(world(), o)...)
	c.Trial = interceptor.NewClient(c.Live.(client.WithWatch), interceptor.Funcs{
		Create: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.CreateOption) error {
			if u, is := o.(*unstructured.Unstructured); !is || u.GetKind() != "Job" {
				return nil
			}
			limits := field.NewPath("spec", "template", "spec", "containers").Index(0).Child("resources", "limits")
			return apierrors.NewInvalid(
				schema.GroupKind{Group: "batch", Kind: "Job"},
				o.GetName(),
				field.ErrorList{field.Required(limits, "")},
			)
		},
	})
	r := send(
		t,
		handle(t, c, webhook.Options{Kinds: kinds}),
		ask{user: "admin", path: "/validate-trainer-kubeflow-org-v1alpha1-trainjob", new: manifest},
	)
	const at = "spec.runtimeRef(torch).node.spec.containers[0].resources.limits: Required value"
	if r.Allowed || !strings.Contains(r.Message, at) {
		t.Errorf("allowed is %v: %s", r.Allowed, r.Message)
	}
}
