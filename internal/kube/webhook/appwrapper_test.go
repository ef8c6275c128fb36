package webhook_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/webhook"
)

const (
	mutateWrapper   = "/mutate-workload-codeflare-dev-v1beta2-appwrapper"
	validateWrapper = "/validate-workload-codeflare-dev-v1beta2-appwrapper"
)

// wrapper is an AppWrapper with components in YAML.
func wrapper(namespace, labels string, suspend string, components ...string) string {
	return strings.NewReplacer(
		"NAMESPACE",
		namespace,
		"LABELS",
		labels,
		"SUSPEND",
		suspend,
		"COMPONENTS",
		strings.Join(components, ", "),
	).Replace(
		`
apiVersion: workload.codeflare.dev/v1beta2
kind: AppWrapper
metadata: {name: w, namespace: NAMESPACE, labels: {LABELS}}
spec: {suspend: SUSPEND, components: [COMPONENTS]}
`,
	)
}

const (
	podComponent = `{template: {apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c}]}}}`
	jobComponent = `{template: {apiVersion: batch/v1, kind: Job, metadata: {name: j}, spec: {template: {spec: {priorityClassName: CLASS, containers: [{name: c}]}}}}}`
	binding      = `{template: {apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: b}}}`
	unheardOf    = `{template: {apiVersion: example.com/v1, kind: Thing, metadata: {name: t}}}`
	account      = `{template: {apiVersion: v1, kind: ServiceAccount, metadata: {name: s}}}`
)

func TestMutateWrapper(t *testing.T) {
	type outcome struct {
		Labels  map[string]string
		Suspend bool
	}
	author := func(queue string) map[string]string {
		l := map[string]string{"workload.codeflare.dev/user": "alice", "workload.codeflare.dev/userid": "alice_1"}
		if queue != "" {
			l["kueue.x-k8s.io/queue-name"], l["mlbatch.dev/user"] = queue, "alice"
		}
		return l
	}
	cases := map[string]struct {
		why  string
		new  string
		want outcome
	}{
		"Plain": {
			why:  "it gets a queue and waits",
			new:  wrapper("blue", "", "false", podComponent),
			want: outcome{author("default-queue"), true},
		},
		"OwnQueue": {
			why:  "a queue that the author chose stays",
			new:  wrapper("lab", "kueue.x-k8s.io/queue-name: big", "true", podComponent),
			want: outcome{author("big"), true},
		},
		"FalseAuthor": {
			why:  "use is accounted to the user who submits",
			new:  wrapper("blue", "workload.codeflare.dev/user: bob", "true", podComponent),
			want: outcome{author("default-queue"), true},
		},
		"ManagedElsewhere": {
			why: "another controller decides when it starts",
			new: strings.Replace(
				wrapper("blue", "", "false", podComponent),
				"spec: {",
				"spec: {managedBy: example.com/other, ",
				1,
			),
			want: outcome{author(""), false},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := send(t, serve(t, nil, world()...), ask{path: mutateWrapper, new: tc.new})
			o := unstructured.Unstructured{Object: r.Object}
			got := outcome{Labels: o.GetLabels()}
			got.Suspend, _, _ = unstructured.NestedBool(r.Object, "spec", "suspend")
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.why, diff)
			}
		})
	}
}

func TestValidateNewWrapper(t *testing.T) {
	good := strings.Replace(jobComponent, "CLASS", "default-priority", 1)
	create := func(namespace string, components ...string) ask {
		return ask{path: validateWrapper, new: wrapper(namespace, queueLabel, "true", components...)}
	}
	reviews{
		"TeamJob": {
			why: "users of a team may wrap Jobs, which they may not create directly",
			ask: create("blue", good),
		},
		"TeamPod": {why: "and pods", ask: create("blue", podComponent)},
		"TeamBinding": {
			why: "or anyone could give themselves rights through the controller",
			ask: create("blue", good, binding),
			refuse: []string{
				"spec.components[1].template",
				"RoleBinding.rbac.authorization.k8s.io",
				`"alice" may not create`,
			},
		},
		"TeamBindingAllowed": {
			why:    "a user who may create it directly may wrap it",
			rights: []string{"create rolebindings"},
			ask:    create("blue", good, binding),
		},
		"TeamServiceAccount": {
			why:    "an identity is a right",
			ask:    create("blue", good, account),
			refuse: []string{"spec.components[1].template", "ServiceAccount"},
		},
		"W9UnknownKind": {
			why:    "it could not be created after it was admitted",
			rights: []string{"create *"},
			ask:    create("blue", good, unheardOf),
			refuse: []string{"spec.components[1].template.kind", "no kind Thing.example.com in version v1"},
		},
		"W9UnknownVersion": {
			why:    "nor this",
			ask:    create("blue", strings.Replace(good, "batch/v1", "batch/v9", 1)),
			refuse: []string{"spec.components[0].template"},
		},
		"W2NotOurs": {
			why:    "the controller could not look after it, nor delete it",
			rights: []string{"create serviceaccounts"},
			ask:    create("blue", good, account),
			refuse: []string{
				"spec.components[1].template: Forbidden: mlbatch may not create ServiceAccount in namespace blue",
				"let mlbatch create, get and delete serviceaccounts",
			},
		},
		"W2Cluster": {
			why:    "it has no namespace",
			rights: []string{"create persistentvolumes"},
			ask:    create("blue", good, `{template: {apiVersion: v1, kind: PersistentVolume, metadata: {name: v}}}`),
			refuse: []string{"spec.components[1].template.kind", "belong to the whole cluster"},
		},
		"OutsideTeams": {
			why:    "where there is no team the author's own rights count",
			ask:    create("lab", good),
			refuse: []string{"spec.components[0].template", "Job.batch"},
		},
		"OutsideTeamsAllowed": {
			why:    "a user who may create Jobs may wrap them",
			rights: []string{"create jobs"},
			ask:    create("lab", good),
		},
		"UnknownPriorityClass": {
			why: "its pods would be refused after admission",
			ask: create("blue", strings.Replace(jobComponent, "CLASS", "urgent", 1)),
			refuse: []string{
				"spec.components[0].template.spec.template.spec.priorityClassName",
				"use one of default-priority",
			},
		},
		"Nested": {
			why: "an AppWrapper has no AppWrappers",
			ask: create(
				"blue",
				good,
				`{template: {apiVersion: workload.codeflare.dev/v1beta2, kind: AppWrapper, metadata: {name: n}}}`,
			),
			refuse: []string{"spec.components[1].template.kind"},
		},
		"OtherNamespace": {
			why:    "components stay at home",
			ask:    create("blue", strings.Replace(good, "name: j", "name: j, namespace: red", 1)),
			refuse: []string{"spec.components[0].template.metadata.namespace", `"blue"`},
		},
		"NoPods": {
			why:    "there is nothing to queue",
			ask:    create("blue", `{template: {apiVersion: v1, kind: ConfigMap, metadata: {name: m}}}`),
			refuse: []string{"spec.components"},
		},
	}.run(t, world()...)
}

func TestValidateWrapperChange(t *testing.T) {
	change := func(user, from, to string) ask { return ask{path: validateWrapper, user: user, old: from, new: to} }
	waiting, running := wrapper(
		"blue",
		queueLabel,
		"true",
		podComponent,
	), wrapper(
		"blue",
		queueLabel,
		"false",
		podComponent,
	)
	placed := strings.Replace(running, "{template", "{podSetInfos: [{nodeSelector: {a: b}}], template", 1)
	reviews{
		"StartByHand": {
			why:    "a user cannot admit",
			ask:    change("", waiting, running),
			refuse: []string{"spec: Forbidden", "when the job is admitted"},
		},
		"PlaceByHand": {
			why:    "nor choose places",
			ask:    change("", running, placed),
			refuse: []string{"when the job is admitted"},
		},
		"StartByController": {
			why:    "a user who may write the status of Workloads may admit",
			rights: []string{"update workloads/status"},
			ask:    change("", waiting, placed),
		},
		"SuspendByHand": {why: "a user may give up quota", ask: change("", running, waiting)},
		"OtherTemplate": {
			why:    "what was counted may not change, whichever user asks",
			ask:    change("admin", running, strings.Replace(running, "name: c", "name: d", 1)),
			refuse: []string{"spec.components[0].template"},
		},
		"OtherQueueWhileRunning": {
			why:    "its quota is of the old queue",
			ask:    change("", running, strings.Replace(running, "default-queue", "other", 1)),
			refuse: []string{"queue-name"},
		},
		"Annotate": {
			why: "grace periods may be changed at any time",
			ask: change(
				"",
				running,
				strings.Replace(
					running,
					"labels:",
					"annotations: {workload.codeflare.dev.appwrapper/retryLimit: \"1\"}, labels:",
					1,
				),
			),
		},
	}.run(t, world()...)
}

// Which PriorityClasses pods may have is the installation's to say.
func TestPriorityClasses(t *testing.T) {
	wrapped := func(class string) ask {
		return ask{
			path: validateWrapper,
			new:  wrapper("blue", queueLabel, "true", strings.Replace(jobComponent, "CLASS", class, 1)),
		}
	}
	plain := func(class string) ask {
		return ask{
			path: validateJob,
			new: strings.Replace(
				job(queueLabel, "", ""),
				"containers",
				"priorityClassName: "+class+", containers",
				1,
			),
		}
	}
	only := webhook.Options{Limits: jobs.Limits{PriorityClasses: []string{"system-node-critical"}}}
	cases := map[string]struct {
		why    string
		opts   webhook.Options
		ask    ask
		refuse []string
	}{
		"usual": {"any that there is", webhook.Options{}, wrapped("default-priority"), nil},
		"system": {
			"it would push out what keeps the cluster alive",
			webhook.Options{},
			wrapped("system-node-critical"),
			[]string{
				"spec.components[0].template.spec.template.spec.priorityClassName: Forbidden",
				"use one of default-priority",
			},
		},
		"system, Job": {
			"Jobs too",
			webhook.Options{},
			plain("system-node-critical"),
			[]string{"spec.template.spec.priorityClassName: Forbidden", "use one of default-priority"},
		},
		"not in the list": {
			"the admin said which",
			only,
			wrapped("default-priority"),
			[]string{"Forbidden", "use one of system-node-critical"},
		},
		"in the list": {"whatever its name", only, wrapped("system-node-critical"), nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := send(t, serveWith(t, tc.opts, nil, nil, world()...), tc.ask)
			if r.Allowed != (len(tc.refuse) == 0) {
				t.Errorf("%s: allowed is %v: %s", tc.why, r.Allowed, r.Message)
			}
			for _, part := range tc.refuse {
				if !strings.Contains(r.Message, part) {
					t.Errorf("%s: message lacks %q: %s", tc.why, part, r.Message)
				}
			}
		})
	}
}

// What a Job's template may not say.
func TestTemplatesOfJobs(t *testing.T) {
	limited := webhook.Options{Limits: jobs.Limits{Termination: 15 * time.Minute}}
	for name, tc := range map[string]struct {
		old, new string
		refuse   string // "" is allowed
	}{
		"long grace":       {"containers", "terminationGracePeriodSeconds: 86400, containers", "spec.template.spec.terminationGracePeriodSeconds: Invalid value: 86400: an evicted job may keep its pods for 900 seconds at most"},
		"short grace":      {"containers", "terminationGracePeriodSeconds: 900, containers", ""},
		"keeps others off": {"containers", "affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/os, namespaceSelector: {}}]}}, containers", "spec.template.spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].namespaceSelector: Forbidden"},
		"node":             {"containers", "nodeName: node-1, containers", "spec.template.spec.nodeName: Forbidden: it goes around the scheduler: use nodeSelector {kubernetes.io/hostname: node-1}"},
		"finalizer":        {"template: {", "template: {metadata: {finalizers: [a/b]}, ", "spec.template.metadata.finalizers: Forbidden"},
	} {
		t.Run(name, func(t *testing.T) {
			r := send(
				t,
				serveWith(t, limited, nil, nil, world()...),
				ask{path: validateJob, new: strings.Replace(job(queueLabel, "", ""), tc.old, tc.new, 1)},
			)
			if r.Allowed != (tc.refuse == "") || !strings.Contains(r.Message, tc.refuse) {
				t.Errorf("allowed is %v: %s", r.Allowed, r.Message)
			}
		})
	}
}

// The pods of a queued Job go to our scheduler, whatever they ask for.
func TestQueuedPodsGoToOurScheduler(t *testing.T) {
	for asked, want := range map[string]string{
		"default-scheduler": "mlbatch-scheduler", "volcano": "mlbatch-scheduler", "sakkara": "sakkara", "scheduler-plugins-scheduler": "scheduler-plugins-scheduler",
	} {
		r := send(
			t,
			serve(t, nil, world()...),
			ask{path: mutateJob, new: strings.Replace(job(queueLabel, "", ""), "default-scheduler", asked, 1)},
		)
		if got, _, _ := unstructured.NestedString(
			r.Object,
			"spec",
			"template",
			"spec",
			"schedulerName",
		); got != want {
			t.Errorf("%s becomes %s, want %s", asked, got, want)
		}
	}
}

// What is wrong with annotations is said at once, all of it.
func TestAnnotationsAreTold(t *testing.T) {
	annotated := func(text string) string {
		return strings.Replace(
			wrapper("blue", queueLabel, "true", podComponent),
			"labels:",
			"annotations: {"+text+"}, labels:",
			1,
		)
	}
	const prefix = "workload.codeflare.dev.appwrapper/"
	bad := prefix + "retryLimit: many, " + prefix + "warmupGracePeriodDuration: soon, " + prefix + "forcefulDeletionGracePeriodDuration: 24h"
	for name, tc := range map[string]struct {
		ask  ask
		want []string
	}{
		"new": {ask{path: validateWrapper, new: annotated(bad)}, []string{"24h", "15m0s is used", "many", "soon"}},
		"changed": {
			ask{path: validateWrapper, old: annotated(bad), new: annotated(prefix + "retryLimit: few")}, []string{"few"},
		},
		"unchanged": {ask{path: validateWrapper, old: annotated(bad), new: annotated(bad)}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := send(t, serve(t, nil, world()...), tc.ask)
			all := strings.Join(r.Warnings, "\n")
			if !r.Allowed || (len(tc.want) == 0) != (len(r.Warnings) == 0) {
				t.Errorf("allowed is %v, warnings %q", r.Allowed, r.Warnings)
			}
			for _, part := range tc.want {
				if !strings.Contains(all, part) {
					t.Errorf("no warning says %q: %q", part, r.Warnings)
				}
			}
		})
	}
}

// Of an AppWrapper that is wrong only that is told: what it would create is not clear,
// and no server is asked about it.
func TestWrongWrapperIsRefusedForThat(t *testing.T) {
	for name, component := range map[string]string{
		"unnamed, and not allowed": `{template: {apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {}}}`,
		"of no kind":               `{template: {metadata: {name: x}}}`,
	} {
		r := send(
			t,
			serve(t, nil, world()...),
			ask{path: validateWrapper, new: wrapper("blue", queueLabel, "true", podComponent, component)},
		)
		if r.Allowed || !strings.Contains(r.Message, "is invalid: spec.components[1].template") ||
			strings.Contains(r.Message, "may not create") {
			t.Errorf("%s: %s", name, r.Message)
		}
	}
}
