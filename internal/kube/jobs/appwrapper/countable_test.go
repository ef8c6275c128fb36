package appwrapper

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	aw "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

const (
	rayService       = `{apiVersion: ray.io/v1, kind: RayService, metadata: {name: r}, spec: {upgradeStrategy: {type: None}, serveConfigV2: "applications: [{name: a, import_path: x}]", rayClusterConfig: {headGroupSpec: {template: {spec: PODSPEC}}, workerGroupSpecs: [{groupName: g, replicas: 3, template: {spec: PODSPEC}}]}}}`
	rayManifest      = `{apiVersion: ray.io/VERSION, kind: RayCluster, metadata: {name: r}, spec: {AUTO headGroupSpec: {template: {spec: PODSPEC}}, workerGroupSpecs: [{GROUP template: {spec: PODSPEC}}]}}`
	raySubmitterPath = "template.spec.submitterPodTemplate"
	rayJob           = `{apiVersion: ray.io/v1, kind: RayJob, metadata: {name: r}, spec: {HOW rayClusterSpec: {headGroupSpec: {template: {spec: PODSPEC}}}}}`
	pyTorch          = `{apiVersion: kubeflow.org/v1, kind: PyTorchJob, metadata: {name: p}, spec: {ELASTIC pytorchReplicaSpecs: {master: {template: {spec: PODSPEC}}, WORKER: {replicas: 3, template: {spec: PODSPEC}}}}}`
	unknownKind      = `{apiVersion: example.com/v1, kind: Group, metadata: {name: g}, spec: {groups: [{replicas: 4, pods: {spec: PODSPEC}}]}}`
)

// fill writes the places of a manifest, and nothing where none is named.
func fill(manifest string, pairs ...string) string {
	return strings.NewReplacer(
		append(
			pairs,
			"VERSION",
			"v1",
			"AUTO",
			"",
			"GROUP",
			"",
			"HOW",
			"",
			"ELASTIC",
			"",
			"WORKER",
			"worker",
		)...).Replace(
		manifest,
	)
}

// Every pod that an object can become is counted.
func TestAllPodsAreCounted(t *testing.T) {
	const head, group = "template.spec.headGroupSpec.template", "template.spec.workerGroupSpecs[0].template"
	cases := map[string]struct {
		why, manifest string
		want          map[string]int32
	}{
		"hosts": {
			"a replica is a pod on each host",
			fill(rayManifest, "GROUP", "replicas: 2, numOfHosts: 4,"),
			map[string]int32{head: 1, group: 8},
		},
		"least": {
			"the operator makes at least these",
			fill(rayManifest, "GROUP", "replicas: 2, minReplicas: 5,"),
			map[string]int32{head: 1, group: 5},
		},
		"least alone": {
			"and these if nothing else is said",
			fill(rayManifest, "GROUP", "minReplicas: 3,"),
			map[string]int32{head: 1, group: 3},
		},
		"submitter": {
			"the operator makes a pod to submit the job",
			fill(rayJob),
			map[string]int32{"template.spec.rayClusterSpec.headGroupSpec.template": 1, raySubmitterPath: 1},
		},
		"own submitter": {
			"which its author may describe",
			fill(rayJob, "HOW", "submitterPodTemplate: {spec: PODSPEC},"),
			map[string]int32{"template.spec.rayClusterSpec.headGroupSpec.template": 1, raySubmitterPath: 1},
		},
		"service": {
			"one cluster, whatever is changed",
			rayService,
			map[string]int32{
				"template.spec.rayClusterConfig.headGroupSpec.template":       1,
				"template.spec.rayClusterConfig.workerGroupSpecs[0].template": 3,
			},
		},
		"by HTTP": {
			"there is none then",
			fill(rayJob, "HOW", "submissionMode: HTTPMode,"),
			map[string]int32{"template.spec.rayClusterSpec.headGroupSpec.template": 1},
		},
		"roles, any case": {
			"the operator reads them so",
			fill(pyTorch),
			map[string]int32{
				"template.spec.pytorchReplicaSpecs.master.template": 1,
				"template.spec.pytorchReplicaSpecs.worker.template": 3,
			},
		},
		"elastic, no more": {
			"it cannot grow",
			fill(pyTorch, "ELASTIC", "elasticPolicy: {maxReplicas: 3},"),
			map[string]int32{
				"template.spec.pytorchReplicaSpecs.master.template": 1,
				"template.spec.pytorchReplicaSpecs.worker.template": 3,
			},
		},
		"ReplicaSet": {
			"as a Deployment",
			`{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: r}, spec: {replicas: 6, template: {spec: PODSPEC}}}`,
			map[string]int32{"template.spec.template": 6},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := wrap(t, c.manifest)
			if errs := Validate(w); len(errs) > 0 {
				t.Fatalf("%s: %v", c.why, errs)
			}
			components, err := Components(w)
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]int32{}
			for _, ps := range components[0].PodSets {
				got[ps.Path] = ps.Count
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s (-want +got)\n%s", c.why, diff)
			}
		})
	}
}

// The pod that submits a RayJob is written into it, so that it is placed as
// it was counted.
func TestSubmitterIsOurs(t *testing.T) {
	w := wrap(t, fill(rayJob))
	w.Name = "w"
	components, err := Components(w)
	if err != nil {
		t.Fatal(err)
	}
	o, err := Inject(
		w,
		components[0],
		nil,
		InjectOptions{Schedulers: jobs.Schedulers{Given: "mlbatch-scheduler", Ours: jobs.SchedulerNames()}},
	)
	if err != nil {
		t.Fatal(err)
	}
	at, err := lookup(o.Object, raySubmitterPath)
	if err != nil {
		t.Fatal(err)
	}
	p, err := decodePods(at)
	if err != nil {
		t.Fatal(err)
	}
	if p.Spec.SchedulerName != "mlbatch-scheduler" || p.Labels[aw.AppWrapperLabel] != "w" ||
		p.Spec.Containers[0].Image != "i" {
		t.Errorf("it is %+v", p)
	}
	if cpu := p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU]; cpu.String() != "500m" {
		t.Errorf("it asks for %s of cpu", cpu.String())
	}
}

// What cannot be counted, goes around the scheduler or outlives
// its deletion is refused with the field and the cure.
func TestComponentsThatCannotBeCountedAreRefused(t *testing.T) {
	const job = `{apiVersion: batch/v1, kind: Job, metadata: {name: j}, spec: {template: {spec: PODSPEC}}}`
	inJob := func(from, to string) string { return strings.Replace(job, from, to, 1) }
	one := int32(1)
	cases := map[string]struct {
		why, manifest string
		declared      []aw.AppWrapperPodSet
		field, cure   string
	}{
		"version": {
			"its pods may be elsewhere", fill(rayManifest, "VERSION", "v1alpha1"),
			[]aw.AppWrapperPodSet{{Path: "template.spec.headGroupSpec.template"}},
			"spec.components[0].template.apiVersion", "use ray.io/v1",
		},
		"autoscaling": {
			"it grows",
			fill(rayManifest, "AUTO", "enableInTreeAutoscaling: true,"),
			nil,
			"spec.components[0].template.spec.enableInTreeAutoscaling",
			"use false",
		},
		"autoscaling in a RayJob": {
			"as does its cluster",
			strings.Replace(fill(rayJob), "rayClusterSpec: {", "rayClusterSpec: {enableInTreeAutoscaling: true, ", 1),
			nil,
			"spec.components[0].template.spec.rayClusterSpec.enableInTreeAutoscaling",
			"use false",
		},
		"sidecar": {
			"a container that is not counted",
			fill(rayJob, "HOW", "submissionMode: SidecarMode,"),
			nil,
			"spec.components[0].template.spec.submissionMode",
			"use K8sJobMode, HTTPMode",
		},
		"second cluster": {
			"it comes up beside the first",
			strings.Replace(rayService, "None", "NewCluster", 1),
			nil,
			"spec.components[0].template.spec.upgradeStrategy.type",
			"use None",
		},
		"upgrade left out": {
			"another operator would make a second cluster",
			strings.Replace(rayService, "upgradeStrategy: {type: None}, ", "", 1),
			nil,
			"spec.components[0].template.spec.upgradeStrategy.type",
			"use None",
		},
		"existing cluster": {
			"its image is not known",
			`{apiVersion: ray.io/v1, kind: RayJob, metadata: {name: r}, spec: {clusterSelector: {a: b}}}`,
			nil,
			"spec.components[0].template.spec.submitterPodTemplate",
			"give the template",
		},
		"elastic": {
			"its workers grow",
			fill(pyTorch, "ELASTIC", "elasticPolicy: {maxReplicas: 9},"),
			nil,
			"spec.components[0].template.spec.elasticPolicy.maxReplicas",
			"at most 3",
		},
		"other role": {
			"it is not known what becomes of it",
			fill(pyTorch, "WORKER", "helper"),
			nil,
			"spec.components[0].template.spec.pytorchReplicaSpecs.helper.template",
			"remove it",
		},
		"hidden template": {
			"a known kind with pods in a field of their own",
			inJob("template: {spec: PODSPEC}", "template: {spec: PODSPEC}, more: {template: {spec: PODSPEC}}"),
			nil,
			"spec.components[0].template.spec.more.template",
			"would not be counted: remove it",
		},
		"hidden spec": {
			"not in a template either",
			inJob("template: {spec: PODSPEC}", "template: {spec: PODSPEC}, pods: PODSPEC"),
			nil,
			"spec.components[0].template.spec.pods",
			"would not be counted",
		},
		"half declared": {
			"a declaration names all pods",
			`{apiVersion: example.com/v1, kind: Group, metadata: {name: g}, spec: {a: {spec: PODSPEC}, b: {spec: PODSPEC}}}`,
			[]aw.AppWrapperPodSet{{Path: "template.spec.a", Replicas: &one}},
			"spec.components[0].template.spec.b",
			"declare it in podSets, {path: template.spec.b",
		},
		"understated": {
			"a declaration says how many",
			unknownKind,
			[]aw.AppWrapperPodSet{{Path: "template.spec.groups[0].pods", Replicas: &one}},
			"spec.components[0].podSets[0].replicas",
			"replicas 4 at template.spec.groups[0]",
		},
		"CronJob": {
			"it never stops making pods",
			`{apiVersion: batch/v1, kind: CronJob, metadata: {name: c}, spec: {jobTemplate: {spec: {template: {spec: PODSPEC}}}}}`,
			[]aw.AppWrapperPodSet{{Path: "template.spec.jobTemplate.spec.template", Replicas: &one}},
			"spec.components[0].template.kind",
			"wrap a Job",
		},
		"runtime": {
			"a TrainJob would be counted by what is not there yet",
			`{apiVersion: trainer.kubeflow.org/v1alpha1, kind: TrainingRuntime, metadata: {name: r}, spec: {template: {spec: {replicatedJobs: [{name: node, template: {spec: {template: {spec: PODSPEC}}}}]}}}}`,
			nil,
			"spec.components[0].template.kind",
			"create it by itself, before the AppWrapper",
		},
		"object": {
			"it would never go",
			inJob("{name: j}", "{name: j, finalizers: [example.com/stay]}"),
			nil,
			"spec.components[0].template.metadata.finalizers",
			"remove them",
		},
		"pods": {
			"they would never go",
			inJob("template: {", "template: {metadata: {finalizers: [example.com/stay]}, "),
			nil,
			"spec.components[0].template.spec.template.metadata.finalizers",
			"remove them",
		},
		"named node": {
			"it goes around scheduler, cordon and taint",
			inJob("PODSPEC", "{nodeName: node-1, containers: [{name: c}]}"),
			nil,
			"spec.components[0].template.spec.template.spec.nodeName",
			"use nodeSelector",
		},
		"resource version": {
			"the API server would refuse it for ever",
			inJob("{name: j}", `{name: j, resourceVersion: "1"}`),
			nil,
			"spec.components[0].template.metadata.resourceVersion",
			"remove it",
		},
		"owner": {
			"an AppWrapper owns what it makes",
			inJob("{name: j}", `{name: j, ownerReferences: [{name: o}]}`),
			nil,
			"spec.components[0].template.metadata.ownerReferences",
			"remove it",
		},
		"left behind": {
			"which generators write",
			inJob("{name: j}", `{name: j, creationTimestamp: null}`),
			nil,
			"",
			"",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := wrap(t, c.manifest)
			w.Spec.Components[0].DeclaredPodSets = c.declared
			errs := Validate(w)
			if c.field == "" && len(errs) == 0 {
				return
			}
			for _, e := range errs {
				if e.Field == c.field && strings.Contains(e.Error(), c.cure) {
					return
				}
			}
			t.Errorf("%s: no error at %s saying %q: %v", c.why, c.field, c.cure, errs)
		})
	}
}

// Also one that was not checked when it was created never starts.
func TestUncountedNeverStarts(t *testing.T) {
	w := wrap(t, fill(rayManifest, "AUTO", "enableInTreeAutoscaling: true,"))
	if _, err := (Adapter{}).Start(
		w,
		nil,
	); err == nil ||
		!strings.Contains(err.Error(), "enableInTreeAutoscaling") {
		t.Errorf("it starts, or says %v", err)
	}
}

// A scheduler that knows nothing of the admission gets no pods of ours.
func TestSchedulerOfPods(t *testing.T) {
	for asked, want := range map[string]string{"": "ours", "default-scheduler": "ours", "volcano": "ours", "sakkara-scheduler": "sakkara-scheduler"} {
		w := wrap(
			t,
			strings.ReplaceAll(batchJob, "PODSPEC", `{schedulerName: "`+asked+`", containers: [{name: c}]}`),
		)
		components, err := Components(w)
		if err != nil {
			t.Fatal(err)
		}
		for ours, want := range map[string]string{"ours": want, "": asked} {
			o, err := Inject(
				w,
				components[0],
				nil,
				InjectOptions{Schedulers: jobs.Schedulers{Given: ours, Ours: jobs.SchedulerNames()}},
			)
			if err != nil {
				t.Fatal(err)
			}
			if got, _, _ := unstructured.NestedString(
				o.Object,
				"spec",
				"template",
				"spec",
				"schedulerName",
			); got != want {
				t.Errorf("%q becomes %q with scheduler %q, want %q", asked, got, ours, want)
			}
		}
	}
}

// What another controller makes of its AppWrapper is no part of ours, which
// has no Workload that it could wait for.
func TestPartsOfOthers(t *testing.T) {
	w := wrap(t, batchJob)
	gvk := schema.GroupVersionKind{Group: "batch", Version: "v1", Kind: "Job"}
	part := &metav1.ObjectMeta{Name: "j", UID: "u"}
	w.Status.ComponentStatus = []aw.AppWrapperComponentStatus{
		{Name: "j", Kind: "Job", APIVersion: "batch/v1", UID: "u"},
	}
	if got := (Adapter{}).PartOf(w, gvk, part); got != jobs.Own {
		t.Errorf("a part of ours is %v", got)
	}
	w.Spec.ManagedBy = new("example.com/other")
	if got := (Adapter{}).PartOf(w, gvk, part); got != jobs.Stranger {
		t.Errorf("a part of another's is %v", got)
	}
}

// The pod that submits a RayJob comes after its cluster, which does not wait.
func TestOnlyTheSubmitterComesLater(t *testing.T) {
	for status, want := range map[string][]bool{"": {false, true}, "Initializing": {false, true}, "Running": {false, false}} {
		components, err := Components(wrap(t, fill(rayJob)))
		if err != nil {
			t.Fatal(err)
		}
		object := &unstructured.Unstructured{Object: components[0].template}
		object.Object["status"] = map[string]any{"jobDeploymentStatus": status}
		var got []bool
		for _, ps := range components[0].Observe(object).PodSets {
			got = append(got, ps.HeldBack)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q (-want +got)\n%s", status, diff)
		}
	}
}

// What is wrapped and starts in an order says so to the queue.
func TestLaterPods(t *testing.T) {
	const group = "template: {spec: {template: {spec: {containers: [{name: c, image: i}]}}}}"
	for name, tc := range map[string]struct{ manifest, want string }{
		"submitter": {fill(rayJob), "SECOND"},
		"JobSet":    {"{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, metadata: {name: s}, spec: {replicatedJobs: [{name: a, " + group + "}, {name: b, dependsOn: [{name: a, status: Ready}], " + group + "}]}}", "SECOND"},
		"no order":  {"{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, metadata: {name: s}, spec: {replicatedJobs: [{name: a, " + group + "}, {name: b, " + group + "}]}}", ""},
	} {
		f, err := (Adapter{}).Read(wrap(t, tc.manifest))
		if err != nil {
			t.Fatal(err)
		}
		want := strings.ReplaceAll(tc.want, "SECOND", string(f.PodSets[1].Name))
		if got := strings.Join(f.Later, ","); got != want {
			t.Errorf("%s: later are %q, want %q", name, got, want)
		}
	}
}
