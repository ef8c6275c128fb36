package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	aw "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// queueManifest is a v1beta1 ClusterQueue as the tutorial writes them, with the
// given lines in its spec.
func queueManifest(name, spec string) string {
	return "apiVersion: kueue.x-k8s.io/v1beta1\nkind: ClusterQueue\nmetadata:\n  name: " + name + "\nspec:\n" + spec
}

// wrapperManifest wraps one component.
func wrapperManifest(component string) string {
	return "apiVersion: workload.codeflare.dev/v1beta2\nkind: AppWrapper\nmetadata:\n  name: bad\nspec:\n  components:\n" + component
}

const oneFlavor = `  cohort: c
  resourceGroups:
  - coveredResources: ["cpu"]
    flavors:
    - name: default-flavor
      resources:
      - name: cpu
        nominalQuota: %s
`

const sleepJob = `  - template:
      apiVersion: batch/v1
      kind: Job
      metadata:
        name: bad
        namespace: %s
      spec:
        template:
          spec:
            restartPolicy: Never
            priorityClassName: %s
            containers:
            - name: c
              image: busybox
              command: ["sleep", "1"]
              resources:
                limits:
                  nvidia.com/gpu: 1
`

// Nonsense gets an error that names the field and the cure, and changes
// nothing.
func TestBadInput(t *testing.T) {
	cases := map[string]struct {
		user, namespace, manifest string
		words                     []string
	}{
		"lending limit over nominal quota": {
			manifest: queueManifest("bad", fmt.Sprintf(oneFlavor, "1\n        lendingLimit: 2")),
			words:    []string{"spec.resourceGroups[0].flavors[0].resources[0].lendingLimit", "nominalQuota"},
		},
		"negative quota": {
			manifest: queueManifest("bad", fmt.Sprintf(oneFlavor, `"-1"`)),
			words:    []string{"spec.resourceGroups[0].flavors[0].resources[0].nominalQuota", "0"},
		},
		"flavors of one group with different resources": {
			manifest: queueManifest("bad", `  resourceGroups:
  - coveredResources: ["cpu", "memory"]
    flavors:
    - name: a
      resources: [{name: cpu, nominalQuota: 1}, {name: memory, nominalQuota: 1}]
    - name: b
      resources: [{name: memory, nominalQuota: 1}, {name: cpu, nominalQuota: 1}]
`),
			words: []string{"spec.resourceGroups[0].flavors[1].resources", "cpu"},
		},
		"borrowing limit without cohort": {
			manifest: queueManifest(
				"bad",
				strings.Replace(fmt.Sprintf(oneFlavor, "1\n        borrowingLimit: 2"), "  cohort: c\n", "", 1),
			),
			words: []string{"borrowingLimit", "cohort"},
		},
		"cohort that is its own parent": {
			manifest: "apiVersion: kueue.x-k8s.io/v1beta2\nkind: Cohort\nmetadata:\n  name: loop\nspec:\n  parentName: loop\n",
			words:    []string{"spec.parentName", "loop"},
		},
		"AppWrapper without pods": {
			user:      "alice",
			namespace: "blue",
			manifest: wrapperManifest(
				"  - template:\n      apiVersion: v1\n      kind: Service\n      metadata:\n        name: s\n      spec:\n        ports: [{port: 80}]\n",
			),
			words: []string{"spec.components", "pod"},
		},
		"AppWrapper in an AppWrapper": {
			user:      "alice",
			namespace: "blue",
			manifest: wrapperManifest(
				"  - template:\n      apiVersion: workload.codeflare.dev/v1beta2\n      kind: AppWrapper\n      metadata:\n        name: inner\n      spec:\n        components: []\n",
			),
			words: []string{"spec.components[0].template", "AppWrapper"},
		},
		"component in another namespace": {
			user:      "alice",
			namespace: "blue",
			manifest:  wrapperManifest(fmt.Sprintf(sleepJob, "red", "default-priority")),
			words:     []string{"spec.components[0].template.metadata.namespace", "blue"},
		},
		"priority class that does not exist": {
			user: "alice", namespace: "blue", manifest: wrapperManifest(fmt.Sprintf(sleepJob, "blue", "urgent")),
			words: []string{"priorityClassName", "urgent", "high-priority"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			o, err := tryCreate(t, user(t, c.user), c.manifest, c.namespace)
			if err == nil {
				t.Fatalf("%s %s was accepted", o.GetKind(), o.GetName())
			}
			for _, w := range c.words {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("the error does not say %q:\n%v", w, err)
				}
			}
			if err := user(t, "").Get(t.Context(), client.ObjectKeyFromObject(o), o); err == nil {
				t.Errorf("the object exists although it was refused")
			}
		})
	}
}

// A pod that no node can hold is never admitted, and says so.
func TestPodLargerThanAnyNode(t *testing.T) {
	awaitEmpty(t, "blue")
	m := strings.Replace(
		wrapperManifest(fmt.Sprintf(sleepJob, "blue", "default-priority")),
		"nvidia.com/gpu: 1",
		"nvidia.com/gpu: 9",
		1,
	)
	name := create(t, user(t, "alice"), m, "blue")
	eventually(t, "it says that no node is large enough", waits(t, "blue", name, "9", "nvidia.com/gpu", "node"))
	if w := wrapper(t, "blue", name); w.Status.Phase != aw.AppWrapperSuspended {
		t.Errorf("phase is %s, want Suspended", w.Status.Phase)
	}
	var ws kueue.WorkloadList
	if err := user(t, "").List(t.Context(), &ws, client.InNamespace("blue")); err != nil {
		t.Fatal(err)
	}
	for _, w := range ws.Items {
		if w.Status.Admission != nil {
			t.Errorf("workload %s was admitted", w.Name)
		}
	}
}
