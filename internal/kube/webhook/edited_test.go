package webhook_test

import (
	"context"
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/kinds"
	"github.com/mlbatch/mlbatch/internal/kube/webhook"
)

// makers are one object of each kind that makes pods, or Jobs, and is no job, by the path at which it is
// judged.
func makers(t *testing.T) map[string]map[string]any {
	t.Helper()
	const pod = `{metadata: {labels: {app: o}}, spec: {restartPolicy: Always, containers: [{name: c, image: i, resources: {limits: {nvidia.com/gpu: 1}}}]}}`
	const rest = `replicas: 2, selector: {matchLabels: {app: o}}, template: ` + pod
	out := map[string]map[string]any{}
	for path, text := range map[string]string{
		"/validate-apps-v1-deployment":  `{apiVersion: apps/v1, kind: Deployment, spec: {` + rest + `}}`,
		"/validate-apps-v1-replicaset":  `{apiVersion: apps/v1, kind: ReplicaSet, spec: {` + rest + `}}`,
		"/validate-apps-v1-statefulset": `{apiVersion: apps/v1, kind: StatefulSet, spec: {serviceName: o, ` + rest + `}}`,
		"/validate-batch-v1-cronjob":    `{apiVersion: batch/v1, kind: CronJob, spec: {schedule: "* * * * *", jobTemplate: {spec: {template: ` + strings.Replace(pod, "Always", "Never", 1) + `}}}}`,
		"/validate-leaderworkerset-x-k8s-io-v1-leaderworkerset": `{apiVersion: leaderworkerset.x-k8s.io/v1, kind: LeaderWorkerSet, spec: {replicas: 2,
  rolloutStrategy: {type: RollingUpdate, rollingUpdateConfiguration: {maxUnavailable: 1, maxSurge: 0}}, startupPolicy: LeaderCreated, leaderWorkerTemplate: {size: 2, workerTemplate: ` + pod + `}}}`,
	} {
		o := map[string]any{}
		if err := yaml.Unmarshal([]byte(text), &o); err != nil {
			t.Fatal(err)
		}
		o["metadata"] = map[string]any{}
		out[path] = o
	}
	return out
}

// What templates may not say they may not be changed to say either: of all kinds whose templates can be
// changed while the job is held. What was there before the rule stays and is not asked about again.
func TestTemplatesAreJudgedWhenTheyChange(t *testing.T) {
	handlers := serveWith(t, webhook.Options{Limits: jobs.Limits{Termination: time.Hour}}, nil, nil, world()...)
	cells := map[string]struct {
		part, key string
		value     any
		says      string
	}{
		"a group of its own": {
			"spec",
			"schedulingGroup",
			map[string]any{"podGroupName": "mine"},
			"would wait for that group",
		},
		"a node":     {"spec", "nodeName", "node-1", "nodeName"},
		"a priority": {"spec", "priorityClassName", "system-node-critical", "priorityClassName"},
		"a long grace": {
			"spec",
			"terminationGracePeriodSeconds",
			int64(1_000_000),
			"terminationGracePeriodSeconds",
		},
		"finalizers": {"metadata", "finalizers", []any{"mine.dev/stay"}, "finalizers"},
	}
	judged := 0
	all := samples(t)
	maps.Copy(all, makers(t))
	for path, sample := range all {
		if strings.HasSuffix(path, "-trainjob") || strings.HasSuffix(path, "-appwrapper") {
			continue // pods of a runtime, and components, which stay as they are
		}
		with := func(part, key string, value any, note string) string {
			o := encode(t, sample)
			meta, _ := o["metadata"].(map[string]any)
			meta["namespace"], meta["name"], meta["labels"] = "blue", "o", map[string]any{
				"kueue.x-k8s.io/queue-name": "default-queue",
			}
			meta["annotations"] = map[string]any{"note": note}
			for _, template := range templatesIn(o) {
				in, is := template[part].(map[string]any)
				if !is {
					in = map[string]any{}
					template[part] = in
				}
				in[key] = value
			}
			return string(text(t, o))
		}
		plain := with("spec", "hostname", "a", "")
		if r := send(t, handlers, ask{path: path, old: plain, new: with("spec", "hostname", "b", "")}); !r.Allowed {
			continue // its templates stay as they are
		}
		judged++
		for name, cell := range cells {
			if cell.key == "schedulingGroup" &&
				(strings.HasSuffix(path, "-deployment") || strings.HasSuffix(path, "-replicaset")) {
				continue // its pods are queued one by one, or as the group that they name
			}
			t.Run(strings.TrimPrefix(path, "/validate-")+"/"+name, func(t *testing.T) {
				said := with(cell.part, cell.key, cell.value, "")
				for when, a := range map[string]ask{"made": {path: path, new: said}, "changed": {path: path, old: plain, new: said}} {
					if r := send(t, handlers, a); r.Allowed || !strings.Contains(r.Message, cell.says) {
						t.Errorf("when it is %s: allowed is %v, and it says %q", when, r.Allowed, r.Message)
					}
				}
				if r := send(
					t,
					handlers,
					ask{path: path, old: said, new: with(cell.part, cell.key, cell.value, "other")},
				); !r.Allowed {
					t.Errorf("when it is left: it says %q", r.Message)
				}
			})
		}
	}
	if judged < 13 {
		t.Errorf("the templates of %d kinds can be changed", judged)
	}
}

// Templates of what gets its first queue, of any kind, are judged as those of what is made in a queue: where
// no queue was named nobody has looked at them.
func TestTemplatesAreJudgedWhenTheyJoinAQueue(t *testing.T) {
	queue := &v1beta2.LocalQueue{
		ObjectMeta: metav1.ObjectMeta{Namespace: "nobodys", Name: "q"},
		Spec:       v1beta2.LocalQueueSpec{ClusterQueue: "cq"},
	}
	open := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "nobodys"}}
	handlers := serveWith(
		t,
		webhook.Options{Limits: jobs.Limits{Termination: time.Hour}},
		nil,
		nil,
		world(open, queue)...)
	all := samples(t)
	maps.Copy(all, makers(t))
	for path, sample := range all {
		if strings.HasSuffix(path, "-trainjob") || strings.HasSuffix(path, "-appwrapper") {
			continue // pods of a runtime, and components, which stay as they are
		}
		for name, cell := range map[string]struct {
			key, says string
			value     any
		}{
			"a group of its own": {"schedulingGroup", "would wait for that group", map[string]any{"podGroupName": "mine"}},
			"a node":             {"nodeName", "nodeName", "node-1"},
			"a long grace":       {"terminationGracePeriodSeconds", "terminationGracePeriodSeconds", int64(1_000_000)},
		} {
			if cell.key == "schedulingGroup" &&
				(strings.HasSuffix(path, "-deployment") || strings.HasSuffix(path, "-replicaset")) {
				continue // its pods are queued one by one, or as the group that they name
			}
			t.Run(strings.TrimPrefix(path, "/validate-")+"/"+name, func(t *testing.T) {
				as := func(labels map[string]any) string {
					o := encode(t, sample)
					meta, _ := o["metadata"].(map[string]any)
					meta["namespace"], meta["name"], meta["labels"] = "nobodys", "o", labels
					for _, template := range templatesIn(o) {
						spec, _ := template["spec"].(map[string]any)
						spec[cell.key] = cell.value
					}
					return string(text(t, o))
				}
				r := send(
					t,
					handlers,
					ask{path: path, old: as(map[string]any{}), new: as(map[string]any{v1beta2.QueueNameLabel: "q"})},
				)
				if r.Allowed || !strings.Contains(r.Message, cell.says) {
					t.Errorf("allowed is %v, and it says %q", r.Allowed, r.Message)
				}
			})
		}
	}
}

// The WorkloadPriorityClass of what runs, whatever it is: one may follow another, none may be taken away,
// and a first one is refused where it would change nothing. Where it makes pods anew, or leaves those
// that there are, its author is told.
func TestClassesOfWhatRuns(t *testing.T) {
	classes := []client.Object{
		&v1beta2.WorkloadPriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "low"}, Value: 1},
		&v1beta2.WorkloadPriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "high"}, Value: 2},
	}
	handlers := serveWith(t, webhook.Options{}, nil, nil, append(classes, world()...)...)
	const pods = "/keep--v1-pod"
	all := samples(t)
	maps.Copy(all, makers(t))
	for name, lines := range map[string]string{
		"/pod that runs":      "annotations: {kueue.x-k8s.io/role-hash: r}, finalizers: [kueue.x-k8s.io/managed]}, spec: {containers: [{name: c, image: i}]}}",
		"/pod of a group":     "annotations: {kueue.x-k8s.io/pod-group-total-count: '2'}, finalizers: [kueue.x-k8s.io/managed]}, spec: {containers: [{name: c, image: i}]}}",
		"/pod that is held":   "finalizers: [kueue.x-k8s.io/managed]}, spec: {schedulingGates: [{name: kueue.x-k8s.io/admission}], containers: [{name: c, image: i}]}}",
		"/pod that is a part": "annotations: {kueue.x-k8s.io/workload: w}}, spec: {containers: [{name: c, image: i}]}}",
	} {
		o := map[string]any{}
		if err := yaml.Unmarshal([]byte("{apiVersion: v1, kind: Pod, metadata: {name: o, "+lines), &o); err != nil {
			t.Fatal(err)
		}
		all[name] = o
	}
	const suspend, gone = "cannot be changed while the job is not suspended", "cannot be removed"
	first := map[string]string{ // what is said of a first one; an exclamation mark refuses it
		"/pod that runs":                                        "!cannot be given to a pod that runs",
		"/pod of a group":                                       "!cannot be given to a pod that runs",
		"/pod that is held":                                     "",
		"/pod that is a part":                                   "!it has no effect",
		"/validate-apps-v1-deployment":                          "made anew, one after the other",
		"/validate-apps-v1-replicaset":                          "the pods that there are keep",
		"/validate-apps-v1-statefulset":                         "!cannot be given while there are pods",
		"/validate-batch-v1-cronjob":                            "",
		"/validate-leaderworkerset-x-k8s-io-v1-leaderworkerset": "made anew, one after the other",
	}
	for path, sample := range all {
		t.Run(strings.TrimPrefix(path, "/"), func(t *testing.T) {
			as := func(class string) string {
				o := encode(t, sample)
				if k := kinds.All().Find(gvkOf(t, o)); k != nil {
					if err := unstructured.SetNestedField(o, false, k.Queueing.SuspendPath...); err != nil {
						t.Fatal(err)
					}
				}
				meta, _ := o["metadata"].(map[string]any)
				labels := map[string]any{v1beta2.QueueNameLabel: "default-queue"}
				if strings.Contains(path, "/pod that") && path != "/pod that is a part" || path == "/pod of a group" {
					labels[v1beta2.ManagedLabel] = "true"
				}
				if path == "/pod of a group" {
					labels[v1beta2.PodGroupNameLabel] = "g"
				}
				if class != "" {
					labels[v1beta2.PriorityClassLabel] = class
				}
				meta["namespace"], meta["name"], meta["labels"] = "blue", "o", labels
				return string(text(t, o))
			}
			at := path
			if strings.HasPrefix(path, "/pod") {
				at = pods
			}
			says, known := first[path]
			if !known {
				says = "!" + suspend
			}
			for what, cell := range map[string]struct{ from, to, says string }{
				"first": {"", "low", says}, "another": {"low", "high", ""}, "taken away": {"low", "", "!" + gone}, "left": {"low", "low", ""}, "none": {"", "", ""},
			} {
				r := send(t, handlers, ask{path: at, old: as(cell.from), new: as(cell.to)})
				words, refused := strings.CutPrefix(cell.says, "!")
				switch said := r.Message + strings.Join(r.Warnings, "\n"); {
				case what == "another" && path == "/pod that is a part":
					if r.Allowed {
						t.Error("a pod of a job is told another class")
					}
				case what == "taken away" && path == "/pod that is a part":
					if r.Allowed {
						t.Error("a pod of a job loses its class")
					}
				case r.Allowed == refused, !strings.Contains(said, words):
					t.Errorf("%s: allowed is %v, and it says %q, want %q", what, r.Allowed, said, cell.says)
				case what == "left" || what == "none":
					if strings.Contains(said, "WorkloadPriorityClass") {
						t.Errorf("%s: it says %q", what, said)
					}
				}
			}
		})
	}
}

func gvkOf(t *testing.T, o map[string]any) schema.GroupVersionKind {
	t.Helper()
	var m metav1.PartialObjectMetadata
	decode(t, o, &m)
	return m.GroupVersionKind()
}

// Who makes something of any kind that names no queue where it needs one, or a queue that is not there, is
// told, and who takes the queue away or names another one. All else that is written of it, such as by who
// scales it, is about other things.
func TestQueuesAreToldOfOnce(t *testing.T) {
	team := &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: "green", Labels: map[string]string{v1beta2.TeamNamespaceLabel: "true"}},
	}
	handlers := serveWith(t, webhook.Options{}, nil, nil, world(team)...)
	all := samples(t)
	maps.Copy(all, makers(t))
	all["/validate--v1-pod"] = map[string]any{
		"apiVersion": "v1",
		"kind":       "Pod",
		"metadata":   map[string]any{},
		"spec": map[string]any{
			"containers":      []any{map[string]any{"name": "c", "image": "i"}},
			"schedulingGates": []any{map[string]any{"name": v1beta2.AdmissionGate}},
		},
	}
	const none, missing = "names no queue", "until there is a LocalQueue"
	for path, sample := range all {
		t.Run(strings.TrimPrefix(path, "/validate-"), func(t *testing.T) {
			as := func(queue, note string) string {
				o := encode(t, sample)
				meta, _ := o["metadata"].(map[string]any)
				meta["namespace"], meta["name"], meta["labels"], meta["annotations"] = "green", "o", map[string]any{}, map[string]any{
					"note": note,
				}
				if queue != "" {
					meta["labels"] = map[string]any{v1beta2.QueueNameLabel: queue}
				}
				if spec, is := o["spec"].(map[string]any); is && spec["replicas"] != nil {
					spec["replicas"] = int64(0) // its queue may change
				}
				if strings.HasSuffix(path, "-pod") {
					meta["labels"].(map[string]any)[v1beta2.ManagedLabel] = "true"
				}
				return string(text(t, o))
			}
			for what, cell := range map[string]struct {
				old, new, says string
			}{
				"made without":       {"", as("", ""), none},
				"made with":          {"", as("gone", ""), missing},
				"without, noted":     {as("", ""), as("", "x"), ""},
				"with, noted":        {as("gone", ""), as("gone", "x"), ""},
				"taken away":         {as("gone", ""), as("", ""), none},
				"another one":        {as("gone", ""), as("lost", ""), missing},
				"one where was none": {as("", ""), as("lost", ""), missing},
			} {
				said := ""
				for _, question := range []string{"mutate", "validate"} {
					at := "/" + question + strings.TrimPrefix(path, "/validate")
					if strings.HasSuffix(path, "-pod") && cell.old != "" {
						at = "/keep--v1-pod"
					}
					if strings.Contains(path, "leaderworkerset") && question == "mutate" {
						continue // it is only signed
					}
					if question == "mutate" && cell.old != "" && !strings.Contains(path, "-apps-") &&
						!strings.HasSuffix(path, "-cronjob") {
						continue // it is asked about new ones
					}
					r := send(t, handlers, ask{path: at, old: cell.old, new: cell.new})
					said += strings.Join(r.Warnings, "\n")
					if !r.Allowed {
						said += r.Message
						break
					}
					cell.new = string(text(t, r.Object))
				}
				if strings.HasSuffix(path, "-pod") && what == "taken away" ||
					strings.HasSuffix(path, "-trainjob") && what == "made with" {
					continue // a pod that is held has its queue still, and the runtime is not in this world
				}
				if strings.HasSuffix(path, "-appwrapper") && what == "made without" {
					cell.says = missing // it is only ever queued, in the installation's queue
				}
				if strings.Contains(said, none) != (cell.says == none) ||
					strings.Contains(said, missing) != (cell.says == missing) {
					t.Errorf("%s: it says %q, want %q", what, said, cell.says)
				}
			}
		})
	}
}

// noRights is a client that may create nothing.
type noRights struct {
	client.Writer
	asked int
}

func (n *noRights) Create(_ context.Context, o client.Object, _ ...client.CreateOption) error {
	n.asked++
	return apierrors.NewForbidden(
		schema.GroupResource{Resource: "pods"},
		o.GetName(),
		errors.New(`User "x" cannot create resource "pods"`),
	)
}

// Who makes a job of a kind that runs here where nothing is queued, and so nothing has rights, is told,
// before the API server has waited for long enough.
func TestJobsOfNoTeamAreTold(t *testing.T) {
	c := cluster(t, nil, nil, world(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "nobodys"}})...)
	nobody := &noRights{Writer: c.Access}
	c.Trial = nobody
	handlers := handle(t, c, webhook.Options{})
	all := samples(t)
	const set = "/validate-leaderworkerset-x-k8s-io-v1-leaderworkerset"
	all[set] = makers(t)[set]
	for path, sample := range all {
		k := kinds.All().Find(gvkOf(t, sample))
		if path != set && (!k.RunHere() || k.Queueing.OnlyQueued) || strings.HasSuffix(path, "-trainjob") {
			continue // Kubernetes runs it, it waits for a queue, or its runtime is not in this world
		}
		o := encode(t, sample)
		meta, _ := o["metadata"].(map[string]any)
		meta["namespace"], meta["name"], meta["labels"] = "nobodys", "o", map[string]any{}
		r := send(t, handlers, ask{path: path, new: string(text(t, o))})
		if said := strings.Join(
			r.Warnings,
			"\n",
		); !r.Allowed || !strings.Contains(said, "is no team's and has no LocalQueue") ||
			nobody.asked > 0 {
			t.Errorf(
				"%s: allowed is %v (%s), it warns %q, and %d were tried",
				path,
				r.Allowed,
				r.Message,
				said,
				nobody.asked,
			)
		}
	}
}
