package webhook_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

const (
	mutateJob   = "/mutate-batch-v1-job"
	validateJob = "/validate-batch-v1-job"
)

// job is a Job of team blue with some labels and annotations.
func job(labels, annotations, spec string) string {
	return strings.NewReplacer("LABELS", labels, "ANNOTATIONS", annotations, "SPEC", spec).Replace(`
apiVersion: batch/v1
kind: Job
metadata: {name: j, namespace: blue, labels: {LABELS}, annotations: {ANNOTATIONS}}
spec:
  unknownField: stays
  template: {spec: {schedulerName: default-scheduler, containers: [{name: c}]}}
  SPEC
`)
}

const queueLabel = "kueue.x-k8s.io/queue-name: default-queue"

func TestMutateJob(t *testing.T) {
	type outcome struct {
		Suspend   bool
		Scheduler string
		Queue     string
		Unknown   string
		Warned    bool
	}
	cases := map[string]struct {
		why     string
		new     string
		objects []client.Object
		want    outcome
	}{
		"Queued": {
			why:  "it waits until it is admitted, then our scheduler places it",
			new:  job(queueLabel, "", ""),
			want: outcome{Suspend: true, Scheduler: "mlbatch-scheduler", Queue: "default-queue", Unknown: "stays"},
		},
		"NoQueue": {
			why:  "it is held, and the author is told",
			new:  job("", "", "suspend: false"),
			want: outcome{Suspend: true, Scheduler: "mlbatch-scheduler", Unknown: "stays", Warned: true},
		},
		"DefaultQueue": {
			why:     "a queue named default is for Jobs that name none",
			new:     job("", "", ""),
			objects: []client.Object{localQueue("blue", "default")},
			want:    outcome{Suspend: true, Scheduler: "mlbatch-scheduler", Queue: "default", Unknown: "stays"},
		},
		"OwnScheduler": {
			why:  "a scheduler that the author chose stays",
			new:  strings.Replace(job(queueLabel, "", "suspend: true"), "default-scheduler", "sakkara", 1),
			want: outcome{Suspend: true, Scheduler: "sakkara", Queue: "default-queue", Unknown: "stays"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := send(t, serve(t, nil, world(tc.objects...)...), ask{path: mutateJob, new: tc.new})
			o := unstructured.Unstructured{Object: r.Object}
			got := outcome{Queue: o.GetLabels()[v1beta2.QueueNameLabel], Warned: len(r.Warnings) > 0}
			got.Suspend, _, _ = unstructured.NestedBool(r.Object, "spec", "suspend")
			got.Unknown, _, _ = unstructured.NestedString(r.Object, "spec", "unknownField")
			got.Scheduler, _, _ = unstructured.NestedString(r.Object, "spec", "template", "spec", "schedulerName")
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.why, diff)
			}
		})
	}
}

func TestValidateJob(t *testing.T) {
	const (
		suspended = "suspend: true"
		maxExec   = "kueue.x-k8s.io/max-exec-time-seconds: "
		class     = "kueue.x-k8s.io/priority-class: "
		fewest    = "kueue.x-k8s.io/job-min-parallelism: "
		equal     = "kueue.x-k8s.io/job-completions-equal-parallelism: "
	)
	create := func(labels, annotations, spec string) ask {
		return ask{path: validateJob, new: job(labels, annotations, spec)}
	}
	change := func(from, to string) ask { return ask{path: validateJob, old: from, new: to} }
	reviews{
		"Good": {why: "a queued Job", ask: create(queueLabel, "", suspended)},
		"QueueName": {
			why:    "no queue can have that name",
			ask:    create("kueue.x-k8s.io/queue-name: A_B", "", suspended),
			refuse: []string{"metadata.labels[kueue.x-k8s.io/queue-name]", "lowercase"},
		},
		"UnknownPriorityClass": {
			why: "it would be admitted, and its pods refused",
			ask: ask{
				path: validateJob,
				new: strings.Replace(
					job(queueLabel, "", suspended),
					"schedulerName:",
					"priorityClassName: urgent, schedulerName:",
					1,
				),
			},
			refuse: []string{"spec.template.spec.priorityClassName", `"urgent"`, "use one of default-priority"},
		},
		"MaxExecTime": {why: "a limit in seconds", ask: create(queueLabel+", "+maxExec+`"60"`, "", suspended)},
		"MaxExecTimeZero": {
			why:    "no time to run",
			ask:    create(queueLabel+", "+maxExec+`"0"`, "", suspended),
			refuse: []string{"seconds above 0"},
		},
		"MaxExecTimeWords": {
			why:    "not a number",
			ask:    create(queueLabel+", "+maxExec+"1h", "", suspended),
			refuse: []string{"seconds above 0"},
		},
		"Fewest": {
			why: "may start with one of two",
			ask: create(queueLabel, fewest+`"1"`, "parallelism: 2"),
		},
		"FewestIsAll": {
			why:    "that is no choice",
			ask:    create(queueLabel, fewest+`"2"`, "parallelism: 2"),
			refuse: []string{"between 0 and 1"},
		},
		"EqualNotIndexed": {
			why:    "completions belong to indexes",
			ask:    create(queueLabel, equal+`"true"`, "parallelism: 2"),
			refuse: []string{"completionMode Indexed"},
		},
		"EqualWords": {
			why:    "not a truth value",
			ask:    create(queueLabel, equal+"maybe", ""),
			refuse: []string{"true or false"},
		},
		"MoveWaiting": {
			why: "a waiting Job may move to a queue that exists",
			ask: change(job("kueue.x-k8s.io/queue-name: gone", "", suspended), job(queueLabel, "", suspended)),
		},
		"MoveRunning": {
			why: "its quota is of the old queue",
			ask: change(
				job(queueLabel, "", "suspend: false"),
				job("kueue.x-k8s.io/queue-name: other", "", "suspend: false"),
			),
			refuse: []string{"not suspended", "queue-name"},
		},
		"QueueGone": {
			why: "a queue that was deleted later does not block other changes",
			ask: change(
				job("kueue.x-k8s.io/queue-name: gone", "", suspended),
				job("kueue.x-k8s.io/queue-name: gone, a: b", "", suspended),
			),
		},
		"DropClass": {
			why:    "the class would be forgotten silently",
			ask:    change(job(queueLabel+", "+class+"a", "", suspended), job(queueLabel, "", suspended)),
			refuse: []string{"cannot be removed"},
		},
		"LongerRun": {
			why:    "the limit is part of the admission",
			ask:    change(job(queueLabel+", "+maxExec+`"60"`, "", ""), job(queueLabel+", "+maxExec+`"90"`, "", "")),
			refuse: []string{"max-exec-time-seconds", "not suspended"},
		},
		"ResizePartial": {
			why: "the admission set its size",
			ask: change(
				job(queueLabel, fewest+`"1"`, "parallelism: 3"),
				job(queueLabel, fewest+`"1"`, "parallelism: 4"),
			),
			refuse: []string{"spec.parallelism"},
		},
	}.run(t, world()...)
}

func TestDefaultQueueStays(t *testing.T) {
	reviews{
		"DropQueue": {
			why: "it would get the label again at once",
			ask: ask{
				path: validateJob,
				old:  job(queueLabel, "", "suspend: true"),
				new:  job("", "", "suspend: true"),
			},
			refuse: []string{"cannot be removed", `"default"`},
		},
	}.run(t, world(localQueue("blue", "default"))...)
}
