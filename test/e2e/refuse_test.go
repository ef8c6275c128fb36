package e2e_test

import (
	"fmt"
	"strings"
	"testing"
)

// tricks wraps a component of one line, NAME standing for a unique name and POD
// for an ordinary pod's spec.
func tricks(component string) string {
	const pod = `{restartPolicy: Never, containers: [{name: c, image: busybox, command: [sleep, "1"], resources: {limits: {nvidia.com/gpu: 1}}}]}`
	return wrapperManifest("  - template: " + strings.ReplaceAll(component, "POD", pod) + "\n")
}

// What a tenant, or an admin who means no
// harm, may not wrap, tried as each would try it.
func TestAttacksOnTheQueueAreRefused(t *testing.T) {
	const job = `{apiVersion: batch/v1, kind: Job, metadata: {name: x}, spec: {template: {spec: POD}}}`
	in := func(from, to string) string { return tricks(strings.Replace(job, from, to, 1)) }
	inPod := func(from, to string) string { return strings.Replace(tricks(job), from, to, 1) }
	cases := map[string]struct {
		user, manifest string
		words          []string
	}{
		"version of a kind": {
			"alice",
			tricks(
				`{apiVersion: ray.io/v1alpha1, kind: RayCluster, metadata: {name: x}, spec: {headGroupSpec: {template: {spec: POD}}}}`,
			),
			[]string{"spec.components[0].template.apiVersion", "use ray.io/v1"},
		},
		"hidden pods": {
			"alice",
			in("template: {spec: POD}", "template: {spec: POD}, other: {template: {spec: POD}}"),
			[]string{"spec.components[0].template.spec.other.template", "would not be counted"},
		},
		"finalizer of pods": {
			"alice",
			in("template: {spec", "template: {metadata: {finalizers: [example.com/stay]}, spec"),
			[]string{"spec.components[0].template.spec.template.metadata.finalizers", "remove them"},
		},
		"finalizer": {
			"alice",
			in("name: x", "name: x, finalizers: [example.com/stay]"),
			[]string{"spec.components[0].template.metadata.finalizers", "remove them"},
		},
		"node": {
			"alice",
			inPod("{restartPolicy", "{nodeName: node-0, restartPolicy"),
			[]string{"spec.components[0].template.spec.template.spec.nodeName", "nodeSelector"},
		},
		"class of the system": {
			"alice",
			inPod("{restartPolicy", "{priorityClassName: system-node-critical, restartPolicy"),
			[]string{
				"spec.components[0].template.spec.template.spec.priorityClassName",
				"use one of",
				"default-priority",
			},
		},
		"resource version": {
			"alice",
			in("name: x", `name: x, resourceVersion: "1"`),
			[]string{"spec.components[0].template.metadata.resourceVersion", "remove it"},
		},
		"W2 ServiceAccount": {
			"alice",
			tricks(job) + "  - template: {apiVersion: v1, kind: ServiceAccount, metadata: {name: x}}\n",
			[]string{"spec.components[1].template", `"alice" may not create ServiceAccount`},
		},
		"W2 NetworkPolicy": {
			"",
			tricks(
				job,
			) + "  - template: {apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: x}, spec: {podSelector: {}}}\n",
			[]string{"spec.components[1].template", "mlbatch may not create NetworkPolicy"},
		},
		"W2 ReplicaSet": {
			"",
			tricks(`{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: x}, spec: {template: {spec: POD}}}`),
			[]string{"spec.components[0].template", "mlbatch may not create ReplicaSet"},
		},
		"W2 CronJob": {
			"",
			tricks(
				`{apiVersion: batch/v1, kind: CronJob, metadata: {name: x}, spec: {schedule: "* * * * *", jobTemplate: {spec: {template: {spec: POD}}}}}`,
			),
			[]string{"spec.components[0]", "podSets"},
		},
		"of the whole cluster": {
			"",
			tricks(job) + "  - template: {apiVersion: v1, kind: PersistentVolume, metadata: {name: x}}\n",
			[]string{"spec.components[1].template.kind", "belong to the whole cluster"},
		},
		"negative GPUs": {
			"alice",
			inPod("gpu: 1", "gpu: -4"),
			[]string{
				"spec.components[0].template.spec.template.spec.containers[0].resources",
				"must be greater than or equal to 0",
			},
		},
		"half a GPU": {
			"alice",
			inPod("gpu: 1", "gpu: 500m"),
			[]string{"spec.components[0].template.spec.template.spec.containers[0].resources", "must be an integer"},
		},
		"request and limit": {
			"alice",
			inPod("limits: {nvidia.com/gpu: 1}", "limits: {nvidia.com/gpu: 1}, requests: {nvidia.com/gpu: 2}"),
			[]string{"spec.components[0].template.spec.template.spec.containers[0].resources.requests"},
		},
		"no image": {
			"alice",
			inPod("image: busybox, ", ""),
			[]string{"spec.components[0].template.spec.template.spec.containers[0].image: Required value"},
		},
		"restart policy": {
			"alice",
			inPod("restartPolicy: Never", "restartPolicy: Always"),
			[]string{"spec.components[0].template.spec.template.spec.restartPolicy"},
		},
		"name": {
			"alice",
			in("name: x", "name: X_1"),
			[]string{"spec.components[0].template.metadata.name"},
		},
		"version": {
			"alice",
			in("batch/v1", "batch/v9"),
			[]string{"spec.components[0].template.apiVersion", "use batch/v1"},
		},
		"pod": {
			"alice",
			tricks(`{apiVersion: v1, kind: Pod, metadata: {name: x}, spec: {containers: [{name: c}]}}`),
			[]string{"spec.components[0].template.spec.containers[0].image"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := tryCreate(t, user(t, c.user), c.manifest, "blue")
			if err == nil {
				t.Fatal("it was accepted")
			}
			for _, w := range c.words {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("the error does not say %q:\n%v", w, err)
				}
			}
		})
	}
}

// Of a kind that operators of others run, every pod is counted, those on
// further hosts and the one that submits a job included.
func TestPodsOfRayAreCounted(t *testing.T) {
	awaitEmpty(t, "blue")
	const pod = `{containers: [{name: c, image: ray, resources: {limits: {cpu: 1}}}]}`
	cases := map[string]struct {
		component string
		want      []int32
	}{
		"RayCluster": {
			`{apiVersion: ray.io/v1, kind: RayCluster, metadata: {name: x}, spec: {headGroupSpec: {template: {spec: POD}}, workerGroupSpecs: [{groupName: g, replicas: 2, numOfHosts: 4, template: {spec: POD}}]}}`,
			[]int32{1, 8},
		},
		"RayJob": {
			`{apiVersion: ray.io/v1, kind: RayJob, metadata: {name: x}, spec: {entrypoint: x, rayClusterSpec: {headGroupSpec: {template: {spec: POD}}}}}`,
			[]int32{1, 1},
		},
	}
	for kind, c := range cases {
		t.Run(kind, func(t *testing.T) {
			create(
				t,
				user(t, "alice"),
				strings.Replace(
					tricks(strings.ReplaceAll(c.component, "POD", pod)),
					"name: bad",
					"name: "+strings.ToLower(kind),
					1,
				),
				"blue",
			)
			eventually(t, "its Workload counts all pods", func() string {
				w := workloadOf(t, "blue", strings.ToLower(kind))
				if w == nil {
					return "there is none"
				}
				var got []int32
				for _, ps := range w.Spec.PodSets {
					got = append(got, ps.Count)
				}
				if fmt.Sprint(got) != fmt.Sprint(c.want) {
					t.Fatalf("its pod sets have %v pods, want %v", got, c.want)
				}
				return ""
			})
		})
	}
	awaitEmpty(t, "blue")
}

// An evicted tenant does not keep borrowed GPUs for longer than the admin
// allows (40 s in the tests' configuration), whatever its annotations and its
// pods say.
func TestEvictedTenantLetsGo(t *testing.T) {
	awaitEmpty(t, "blue", "red")
	greedy := `
apiVersion: workload.codeflare.dev/v1beta2
kind: AppWrapper
metadata:
  name: greedy
  annotations: {workload.codeflare.dev.appwrapper/forcefulDeletionGracePeriodDuration: 24h}
spec:
  components:
  - template:
      apiVersion: batch/v1
      kind: Job
      metadata: {name: greedy}
      spec:
        parallelism: 3
        completions: 3
        template:
          metadata: {annotations: {mlbatch.dev/run-for: forever, mlbatch.dev/stop-after: 24h}}
          spec:
            restartPolicy: Never
            priorityClassName: low-priority
            terminationGracePeriodSeconds: 86400
            containers: [{name: c, image: busybox, resources: {limits: {nvidia.com/gpu: 8}}}]
`
	out, err := kubectl(t, "alice", greedy, "create", "-n", "blue")
	if err != nil || !strings.Contains(out, "is longer than the maximum; 40s is used") {
		t.Fatalf("alice is not told: %v\n%s", err, out)
	}
	eventually(t, "it has all GPUs", func() string { return runs(t, "blue", "greedy", 3) })
	urgent := strings.NewReplacer(
		"greedy",
		"urgent",
		"low-priority",
		"high-priority",
		"3",
		"1",
		"86400",
		"0",
		"24h",
		"1s",
	).
		Replace(greedy)
	if out, err := kubectl(t, "alice", urgent, "create", "-n", "blue"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	eventually(t, "another one has its turn", func() string { return runs(t, "blue", "urgent", 1) })
	awaitEmpty(t, "blue")

	long := strings.Replace(
		jobManifest,
		"spec:\n      restartPolicy",
		"spec:\n      terminationGracePeriodSeconds: 86400\n      restartPolicy",
		1,
	)
	if _, err := tryCreate(
		t,
		user(t, ""),
		long,
		"blue",
	); err == nil ||
		!strings.Contains(err.Error(), "spec.template.spec.terminationGracePeriodSeconds") {
		t.Errorf("a Job may keep its pods for a day: %v", err)
	}
}

// A user who misspells annotations is told of all of them at once.
func TestMalformedAnnotations(t *testing.T) {
	awaitEmpty(t, "blue")
	manifest := strings.Replace(wrap(jobManifest), "metadata:\n  name: wrapped", `metadata:
  name: wrapped
  annotations:
    workload.codeflare.dev.appwrapper/retryLimit: many
    workload.codeflare.dev.appwrapper/warmupGracePeriodDuration: soon
    workload.codeflare.dev.appwrapper/retryPause: 10s`, 1)
	out, err := kubectl(t, "alice", manifest, "create", "-n", "blue")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, words := range []string{`"many" is not a whole number`, `"soon" is not a duration`, `retryPause: "10s" is ignored`} {
		if !strings.Contains(out, words) {
			t.Errorf("kubectl does not say %q:\n%s", words, out)
		}
	}
	awaitEmpty(t, "blue")
}
