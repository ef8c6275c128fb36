package corpus

import (
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// AppWrappers returns AppWrappers around manifests of the other kinds. They end with the
// phase Succeeded or Failed, or are Running with all their pods.
func AppWrappers() []Manifest {
	all := slices.Concat(All(), Kubernetes(), Ray(), Sets(), TrainJobs())
	var out []Manifest
	for _, r := range wrapperRows() {
		m := Manifest{Kind: "AppWrapper", Name: r.name, Why: r.why, Ends: "Succeeded"}
		var parts []string
		for i, name := range r.wraps {
			part := name
			if !strings.Contains(name, "\n") {
				inner := find(all, name)
				m.Pods += inner.Pods
				part = renamed(inner.Text, fmt.Sprintf("wrapped-%s-%d", r.name, i))
				switch inner.Ends {
				case "Ready", "ready", "Available":
					m.Ends = "Running"
				case "Failed":
					m.Ends = "Failed"
				}
			}
			parts = append(parts, "  - template:\n      "+strings.ReplaceAll(part, "\n", "\n      ")+r.declares)
		}
		metadata := r.metadata
		if !strings.HasPrefix(metadata, "generateName") {
			metadata = strings.TrimSuffix("name: appwrapper-"+r.name+", "+metadata, ", ")
		}
		m.Text = fmt.Sprintf(
			"apiVersion: workload.codeflare.dev/v1beta2\nkind: AppWrapper\nmetadata: {%s}\nspec:\n%s  components:\n%s\n",
			metadata,
			r.spec,
			strings.Join(parts, "\n"),
		)
		out = append(out, m)
	}
	return out
}

// renamed gives a manifest another name: AppWrappers side by side may not have components
// of the same name.
func renamed(manifest, name string) string {
	var o map[string]any
	if err := yaml.Unmarshal([]byte(manifest), &o); err != nil {
		panic(err)
	}
	metadata, _ := o["metadata"].(map[string]any)
	metadata["name"] = name
	delete(metadata, "generateName")
	out, err := yaml.Marshal(o)
	if err != nil {
		panic(err)
	}
	return strings.TrimSpace(string(out))
}

// find returns the manifest with this kind and name, or panics: the tables name each other.
func find(all []Manifest, kindAndName string) Manifest {
	at := slices.IndexFunc(all, func(m Manifest) bool { return m.Kind+" "+m.Name == kindAndName })
	if at < 0 {
		panic("there is no " + kindAndName)
	}
	return all[at]
}

// wrapperRow is what is special about an AppWrapper.
type wrapperRow struct {
	name, why string
	// wraps are kinds and names of manifests, or manifests.
	wraps []string
	// declares is what each component says of its pods.
	declares, metadata, spec string
}

func wrapperRows() []wrapperRow {
	const tolerance = "workload.codeflare.dev.appwrapper/"
	service := "apiVersion: v1\nkind: Service\nmetadata: {name: SERVICE}\nspec: {clusterIP: None, selector: {app: job-plain}, ports: [{name: http, port: 80}]}"
	config := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: wrapped-config}\ndata: {train.py: \"print('hello')\"}"
	path := "\n    annotations: {note: hello}\n    podSets:\n    - {path: template.spec.template, replicas: %d, annotations: {note: hello}}"
	return []wrapperRow{
		{name: "job", why: "what every example begins with", wraps: []string{"Job plain"}},
		{
			name:  "jobs",
			why:   "several, which start together",
			wraps: []string{"Job indexed", "Job plain", "Job work-queue"},
		},
		{name: "inference", why: "a Job of one pod with two containers and a claim", wraps: []string{"Job pair"}},
		{
			name:     "declared",
			why:      "it says itself where its pods are",
			wraps:    []string{"Job indexed"},
			declares: fmt.Sprintf(path, 3),
		},
		{
			name:     "generated",
			why:      "a name of the API server's",
			metadata: "generateName: wrapped-",
			wraps:    []string{"Job environment"},
		},
		{
			name:  "extras",
			why:   "with what its pods need",
			wraps: []string{strings.Replace(service, "SERVICE", "wrapped-service", 1), config, "Job ttl"},
		},
		{
			name:     "tolerant",
			why:      "how long it is waited and how often tried",
			wraps:    []string{"Job volumes"},
			metadata: "annotations: {" + tolerance + "admissionGracePeriodDuration: 2m, " + tolerance + "warmupGracePeriodDuration: 10m, " + tolerance + "failureGracePeriodDuration: 1m, " + tolerance + "retryPausePeriodDuration: 90s, " + tolerance + `retryLimit: "5", ` + tolerance + "forcefulDeletionGracePeriodDuration: 10m, " + tolerance + "deletionOnFailureGracePeriodDuration: 0s, " + tolerance + "successTTLDuration: 168h}",
		},
		{
			name:     "gives-up",
			why:      "a failure that is final",
			wraps:    []string{"Job fails-once"},
			metadata: "annotations: {" + tolerance + `retryLimit: "0", ` + tolerance + "failureGracePeriodDuration: 0s, " + tolerance + `terminalExitCodes: "1", ` + tolerance + `retryableExitCodes: "137"}`,
		},
		{name: "suspended", why: "as queues want it", spec: "  suspend: true\n", wraps: []string{"Job limited"}},
		{
			name:  "managed",
			why:   "it names the controller that there is",
			spec:  "  managedBy: workload.codeflare.dev/appwrapper-controller\n",
			wraps: []string{"Job selected"},
		},
		{name: "pod", why: "a pod alone", wraps: []string{"Pod labelled"}},
		{name: "pods", why: "several pods", wraps: []string{"Pod gpu-pool", "Pod before", "Pod environment"}},
		{
			name:  "deployment",
			why:   "what serves, with its Service",
			wraps: []string{"Deployment plain", strings.Replace(service, "SERVICE", "wrapped-served", 1)},
		},
		{name: "statefulset", why: "what serves and keeps its names", wraps: []string{"StatefulSet parallel"}},
		{name: "jobset", why: "Jobs of several kinds", wraps: []string{"JobSet parallel"}},
		{name: "jobset-leader", why: "workers decide", wraps: []string{"JobSet leader"}},
		{name: "pytorchjob", why: "training", wraps: []string{"PyTorchJob plain"}},
		{name: "pytorchjob-lower", why: "training with roles in any case", wraps: []string{"PyTorchJob lower"}},
		{name: "tfjob", why: "training", wraps: []string{"TFJob plain"}},
		{name: "mpijob", why: "a launcher and workers", wraps: []string{"MPIJob v2beta1-plain"}},
		{name: "raycluster", why: "a cluster that serves", wraps: []string{"RayCluster sample"}},
		{name: "lws", why: "groups that serve", wraps: []string{"LeaderWorkerSet leader"}},
		{name: "trainjob", why: "training by a runtime of the cluster", wraps: []string{"TrainJob torch-gpus"}},
		{name: "trainjob-mpi", why: "a launcher that waits for the nodes", wraps: []string{"TrainJob mpi-beside"}},
		{
			name:  "trainjob-steps",
			why:   "by a runtime of the namespace, data and model first",
			wraps: []string{"TrainJob steps"},
		},
		{name: "trainjob-patches", why: "with changes of the newest kind", wraps: []string{"TrainJob patches"}},
		{
			name:  "trainjobs",
			why:   "two with one runtime, and one with another",
			wraps: []string{"TrainJob torch", "TrainJob overrides-second", "TrainJob torch-args"},
		},
		{
			name:  "mixed",
			why:   "what trains beside what serves",
			wraps: []string{"JobSet plain", "Deployment defaults"},
		},
		{
			name:     "labelled",
			why:      "labels and annotations of its own",
			metadata: "labels: {team: blue}, annotations: {note: hello}",
			wraps:    []string{"Job secured"},
		},
	}
}
