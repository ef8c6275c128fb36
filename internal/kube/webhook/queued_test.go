package webhook_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/webhook"
)

const (
	gatedBy   = "kueue.x-k8s.io/admission-gated-by: "
	prebuilt  = "kueue.x-k8s.io/prebuilt-workload-name: "
	isWaiting = "suspend: true"
	isRunning = "suspend: false"
	longGate  = "acme.com/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
)

func TestQueuedRules(t *testing.T) {
	create := func(annotations string) ask { return ask{path: validateJob, new: job(queueLabel, annotations, "")} }
	change := func(before, after, state string) ask {
		return ask{path: validateJob, old: job(queueLabel, before, state), new: job(queueLabel, after, state)}
	}
	reviews{
		"Gated": {
			why: "an admission may wait for others",
			ask: create(gatedBy + `"acme.com/a,acme.com/b"`),
		},
		"GateWithoutOwner": {
			why:    "whose is it?",
			ask:    create(gatedBy + "mine"),
			refuse: []string{"admission-gated-by", "example.com/gate"},
		},
		"GateTwice": {
			why:    "a list without repetitions",
			ask:    create(gatedBy + `"acme.com/a,acme.com/a"`),
			refuse: []string{"Duplicate"},
		},
		"GateTooLong": {
			why:    "as in the field managedBy of Jobs",
			ask:    create(gatedBy + longGate),
			refuse: []string{"63"},
		},
		"OneGateLess": {
			why: "it was opened",
			ask: change(gatedBy+`"acme.com/a,acme.com/b"`, gatedBy+"acme.com/b", isWaiting),
		},
		"NoGateLeft": {why: "the last one was opened", ask: change(gatedBy+"acme.com/a", "", isWaiting)},
		"OneGateMore": {
			why:    "it may be admitted already",
			ask:    change(gatedBy+"acme.com/a", gatedBy+`"acme.com/a,acme.com/c"`, isWaiting),
			refuse: []string{"acme.com/c", "only be removed"},
		},
		"FirstGateLater": {
			why:    "it may be admitted already",
			ask:    change("", gatedBy+"acme.com/a", isWaiting),
			refuse: []string{"after the job was created"},
		},

		"After": {why: "it waits for jobs", ask: create(`mlbatch.dev/after: "ok:a,any:b"`)},
		"AfterHow": {
			why:    "one of three ways to end",
			ask:    create("mlbatch.dev/after: a"),
			refuse: []string{"metadata.annotations[mlbatch.dev/after]", "use ok:JOB"},
		},
		"AfterChanged": {
			why: "while it waits",
			ask: change("mlbatch.dev/after: ok:a", "mlbatch.dev/after: ok:b", isWaiting),
		},
		"AfterBroken": {
			why:    "also later",
			ask:    change("mlbatch.dev/after: ok:a", `mlbatch.dev/after: "ok:"`, isWaiting),
			refuse: []string{"use ok:JOB"},
		},

		"Prebuilt": {why: "a Workload made beforehand", ask: create(prebuilt + "w-1")},
		"PrebuiltNoName": {
			why:    "no object can have it",
			ask:    create(prebuilt + `"W 1"`),
			refuse: []string{"metadata.annotations[kueue.x-k8s.io/prebuilt-workload-name]"},
		},
		"PrebuiltWaiting": {why: "nothing runs on it yet", ask: change(prebuilt+"w-1", prebuilt+"w-2", isWaiting)},
		"PrebuiltRunning": {
			why:    "its quota is of the old one",
			ask:    change(prebuilt+"w-1", prebuilt+"w-2", isRunning),
			refuse: []string{"not suspended"},
		},
		"PrebuiltLabel": {
			why:    "the label does the same",
			ask:    ask{path: validateJob, new: job(queueLabel+", "+prebuilt+"w_1", "", "")},
			refuse: []string{"metadata.labels[kueue.x-k8s.io/prebuilt-workload-name]"},
		},
		"AnnotationWins": {
			why: "both may be set, and the annotation counts",
			ask: ask{path: validateJob, new: job(queueLabel+", "+prebuilt+"w_1", prebuilt+"w-1", "")},
		},

		"DropQueueOfWrapper": {
			why: "without a default queue it may be held",
			ask: ask{
				path: validateWrapper,
				user: "admin",
				old:  wrapper("blue", queueLabel, "true", podComponent),
				new:  wrapper("blue", "", "true", podComponent),
			},
		},
	}.run(t, world()...)
	reviews{
		"DropQueueOfWrapper": {
			why: "where jobs have a default queue",
			ask: ask{
				path: validateWrapper,
				user: "admin",
				old:  wrapper("blue", queueLabel, "true", podComponent),
				new:  wrapper("blue", "", "true", podComponent),
			},
			refuse: []string{`default queue "default"`},
		},
	}.run(t, world(localQueue("blue", "default"))...)
}

// With the gate off the annotation is one like any other.
func TestGatesOff(t *testing.T) {
	handlers := serveWith(t, webhook.Options{NoAdmissionGates: true}, nil, nil, world()...)
	for _, a := range []ask{
		{path: validateJob, new: job(queueLabel, gatedBy+"mine", "")},
		{path: validateJob, old: job(queueLabel, "", isWaiting), new: job(queueLabel, gatedBy+"mine", isWaiting)},
	} {
		if r := send(t, handlers, a); !r.Allowed {
			t.Errorf("refused: %s", r.Message)
		}
	}
}

// What new jobs are given, by where they are and what the installation chose.
func TestDefaults(t *testing.T) {
	type outcome struct {
		Queue, Class string
		Suspend      bool
		Warned       bool
	}
	class := &v1beta2.WorkloadPriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "default"}, Value: 3}
	inLab := func(s string) string { return strings.Replace(s, "namespace: blue", "namespace: lab", 1) }
	teams := labels.SelectorFromSet(labels.Set{"mlbatch-team-namespace": "true"})
	cases := map[string]struct {
		why     string
		path    string
		new     string
		opts    webhook.Options
		cached  []client.Object
		objects []client.Object
		want    outcome
	}{
		"Job of no team": {why: "it concerns no queue", path: mutateJob, new: inLab(job("", "", ""))},
		"Job of no team, default queue": {
			why:     "the namespace has a queue for it",
			path:    mutateJob,
			new:     inLab(job("", "", "")),
			objects: []client.Object{localQueue("lab", "default")},
			want:    outcome{Queue: "default", Suspend: true},
		},
		"Job of no team, all managed": {
			why: "the installation holds jobs without a queue", path: mutateJob, new: inLab(job("", "", "")),
			opts: webhook.Options{Scope: jobs.Scope{WithoutQueue: true}}, want: outcome{Suspend: true, Warned: true},
		},
		"queued Job elsewhere": {
			why:  "outside the selected namespaces jobs are left alone, whatever their labels",
			path: mutateJob,
			new:  inLab(job(queueLabel, "", "")),
			opts: webhook.Options{Scope: jobs.Scope{Namespaces: teams}},
			want: outcome{Queue: "default-queue"},
		},
		"Job elsewhere, default queue": {
			why:     "nor does it get a queue",
			path:    mutateJob,
			new:     inLab(job("", "", "")),
			objects: []client.Object{localQueue("lab", "default")},
			opts:    webhook.Options{Scope: jobs.Scope{Namespaces: teams}},
		},
		"default class": {
			why:    "a job that names no class gets it",
			path:   mutateJob,
			new:    job(queueLabel, "", ""),
			cached: []client.Object{class},
			want:   outcome{Queue: "default-queue", Class: "default", Suspend: true},
		},
		"own class": {
			why:    "what the author chose stays",
			path:   mutateJob,
			new:    job(queueLabel+", kueue.x-k8s.io/priority-class: high", "", ""),
			cached: []client.Object{class},
			want:   outcome{Queue: "default-queue", Class: "high", Suspend: true},
		},
		"default class, gate off": {
			why:    "the installation does without",
			path:   mutateJob,
			new:    job(queueLabel, "", ""),
			cached: []client.Object{class},
			opts:   webhook.Options{NoDefaultPriorityClass: true},
			want:   outcome{Queue: "default-queue", Suspend: true},
		},
		"kind not enabled": {
			why:  "the installation does not queue Jobs",
			path: mutateJob,
			new:  job(queueLabel, "", ""),
			opts: webhook.Options{Frameworks: []string{}},
			want: outcome{Queue: "default-queue"},
		},
		"AppWrapper of a team": {
			why:     "the team's queue comes first",
			path:    mutateWrapper,
			new:     wrapper("blue", "", "false", podComponent),
			objects: []client.Object{localQueue("blue", "default")},
			want:    outcome{Queue: "default-queue", Suspend: true},
		},
		"AppWrapper, default queue": {
			why:     "then that of the namespace",
			path:    mutateWrapper,
			new:     wrapper("attic", "", "false", podComponent),
			objects: []client.Object{localQueue("attic", "default")},
			want:    outcome{Queue: "default", Suspend: true},
		},
		"AppWrapper, default class": {
			why:    "the rules are those of all jobs",
			path:   mutateWrapper,
			new:    wrapper("blue", "", "false", podComponent),
			cached: []client.Object{class},
			want:   outcome{Queue: "default-queue", Class: "default", Suspend: true},
		},
		"AppWrapper elsewhere": {
			why:  "outside the selected namespaces it just runs",
			path: mutateWrapper,
			new:  wrapper("lab", "", "false", podComponent),
			opts: webhook.Options{Scope: jobs.Scope{Namespaces: teams}},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := send(
				t,
				serveWith(t, tc.opts, tc.cached, nil, world(tc.objects...)...),
				ask{path: tc.path, new: tc.new},
			)
			o := unstructured.Unstructured{Object: r.Object}
			got := outcome{
				Queue:  o.GetLabels()[v1beta2.QueueNameLabel],
				Class:  o.GetLabels()[v1beta2.PriorityClassLabel],
				Warned: len(r.Warnings) > 0,
			}
			got.Suspend, _, _ = unstructured.NestedBool(r.Object, "spec", "suspend")
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.why, diff)
			}
		})
	}
}
