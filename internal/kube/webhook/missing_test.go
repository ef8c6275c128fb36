package webhook_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/webhook"
)

// A job may come before its queue and its class. The user who submits it is
// told what it waits for, and what there is instead.
func TestJobsComeBeforeTheirQueues(t *testing.T) {
	const fast, urgent = "kueue.x-k8s.io/queue-name: fast", "kueue.x-k8s.io/priority-class: urgent"
	podJob := strings.Replace(jobComponent, "CLASS", "default-priority", 1)
	cases := map[string]struct {
		why  string
		ask  ask
		tell []string // parts of the warnings, in order
	}{
		"Job": {
			"it is misspelt, or comes later",
			ask{path: validateJob, new: job(fast, "", isWaiting)},
			[]string{
				"metadata.labels[kueue.x-k8s.io/queue-name]: the job is held until there is a LocalQueue fast in namespace blue; there are default-queue",
			},
		},
		"class": {
			"there is none at all",
			ask{path: validateJob, new: job(queueLabel+", "+urgent, "", isWaiting)},
			[]string{
				"metadata.labels[kueue.x-k8s.io/priority-class]: the job is held until there is a WorkloadPriorityClass urgent; there is no other",
			},
		},
		"both": {
			"both are said",
			ask{path: validateJob, new: job(fast+", "+urgent, "", isWaiting)},
			[]string{"LocalQueue fast", "WorkloadPriorityClass urgent"},
		},
		"moved": {
			"it moves to a queue that may come",
			ask{path: validateJob, old: job(queueLabel, "", isWaiting), new: job(fast, "", isWaiting)},
			[]string{"LocalQueue fast"},
		},
		"unchanged": {
			"it was said before",
			ask{path: validateJob, old: job(fast, "", isWaiting), new: job(fast, "a: b", isWaiting)},
			nil,
		},
		"empty namespace": {
			"nothing to choose from",
			ask{path: validateJob, new: strings.Replace(job(queueLabel, "", ""), "blue", "empty", 1)},
			[]string{"LocalQueue default-queue in namespace empty; there is no other"},
		},
		"AppWrapper": {
			"the rule is that of all jobs",
			ask{path: validateWrapper, new: wrapper("blue", fast+", "+urgent, "true", podJob)},
			[]string{"LocalQueue fast", "WorkloadPriorityClass urgent"},
		},
		"AppWrapper, moved": {
			"and of changes",
			ask{
				path: validateWrapper,
				old:  wrapper("blue", queueLabel, "true", podJob),
				new:  wrapper("blue", fast, "true", podJob),
			},
			[]string{"LocalQueue fast"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := send(t, serve(t, nil, world()...), tc.ask)
			if !r.Allowed {
				t.Fatalf("%s: refused: %s", tc.why, r.Message)
			}
			if len(r.Warnings) != len(tc.tell) {
				t.Fatalf("%s: warnings are %q, want %d", tc.why, r.Warnings, len(tc.tell))
			}
			for i, part := range tc.tell {
				if !strings.Contains(r.Warnings[i], part) {
					t.Errorf("%s: %q lacks %q", tc.why, r.Warnings[i], part)
				}
			}
		})
	}
}

// TestRefusedIsToldNothingElse: a first class for a job that runs is refused in the same words, whether
// there is such a class or not, and nobody is told that the job is held until there is.
func TestRefusedIsToldNothingElse(t *testing.T) {
	const class = "kueue.x-k8s.io/priority-class: "
	podJob := strings.Replace(jobComponent, "CLASS", "default-priority", 1)
	there := &v1beta2.WorkloadPriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "there"}, Value: 3}
	for kind, tc := range map[string]struct {
		path string
		make func(labels string) string
	}{
		"Job":        {validateJob, func(labels string) string { return job(labels, "", isRunning) }},
		"AppWrapper": {validateWrapper, func(labels string) string { return wrapper("blue", labels, "false", podJob) }},
	} {
		for _, name := range []string{"there", "nowhere"} {
			r := send(
				t,
				serve(t, nil, append(world(), there)...),
				ask{path: tc.path, old: tc.make(queueLabel), new: tc.make(queueLabel + ", " + class + name)},
			)
			if want := name + `": cannot be changed while the job is not suspended: delete the job and submit it anew`; r.Allowed ||
				!strings.Contains(r.Message, want) ||
				len(r.Warnings) > 0 {
				t.Errorf(
					"%s, a class that is %s: allowed is %v, %s; warnings %q",
					kind,
					name,
					r.Allowed,
					r.Message,
					r.Warnings,
				)
			}
		}
	}
}

// Where no job is queued, labels like ours belong to others.
func TestOthersJobsAreNotChecked(t *testing.T) {
	const nonsense = "kueue.x-k8s.io/queue-name: A_B, kueue.x-k8s.io/max-exec-time-seconds: never"
	const managedBy = "managedBy: example.com/other"
	elsewhere := webhook.Options{
		Scope: jobs.Scope{Namespaces: labels.SelectorFromSet(labels.Set{"queued": "yes"})},
	}
	foreign := func(s string) string {
		return strings.Replace(s, "spec: {", "spec: {managedBy: example.com/other, ", 1)
	}
	for name, tc := range map[string]struct {
		opts webhook.Options
		ask  ask
	}{
		"Job outside the selected namespaces":        {elsewhere, ask{path: validateJob, new: job(nonsense, "", "")}},
		"change outside the selected namespaces":     {elsewhere, ask{path: validateJob, old: job(nonsense, "", isRunning), new: job(queueLabel, "", isRunning)}},
		"AppWrapper outside the selected namespaces": {elsewhere, ask{path: validateWrapper, new: wrapper("blue", nonsense, "true", podComponent)}},
		"Jobs are not queued":                        {webhook.Options{Frameworks: []string{}}, ask{path: validateJob, new: job(nonsense, "", "")}},
		"Job of another controller":                  {webhook.Options{}, ask{path: validateJob, new: job(nonsense, "", managedBy)}},
		"AppWrapper of another controller":           {webhook.Options{}, ask{path: validateWrapper, new: foreign(wrapper("blue", nonsense, "true", podComponent))}},
	} {
		t.Run(name, func(t *testing.T) {
			if r := send(t, serveWith(t, tc.opts, nil, nil, world()...), tc.ask); !r.Allowed || len(r.Warnings) > 0 {
				t.Errorf("allowed is %v: %s %q", r.Allowed, r.Message, r.Warnings)
			}
		})
	}
}

// A Job of another controller is not touched, a queue label notwithstanding.
func TestJobOfAnotherController(t *testing.T) {
	is := job(queueLabel, "", "managedBy: example.com/other")
	for path, old := range map[string]string{mutateJob: "", keepJob: job(queueLabel, "", "managedBy: example.com/other\n  suspend: true")} {
		r := send(t, serve(t, nil, world()...), ask{path: path, old: old, new: is})
		if _, held := r.Object["spec"].(map[string]any)["suspend"]; held {
			t.Errorf("%s writes to it: %v", path, r.Object)
		}
	}
}

// No user makes an AppWrapper ours that was created for another controller,
// unchecked.
func TestManagerStays(t *testing.T) {
	foreign := strings.Replace(
		wrapper("blue", queueLabel, "true", binding),
		"spec: {",
		"spec: {managedBy: example.com/other, ",
		1,
	)
	reviews{
		"from another": {
			why:    "it was not checked",
			ask:    ask{path: validateWrapper, old: foreign, new: wrapper("blue", queueLabel, "true", binding)},
			refuse: []string{"spec.managedBy", "cannot be changed"},
		},
		"to another": {
			why:    "quota would stay behind",
			ask:    ask{path: validateWrapper, new: foreign, old: wrapper("blue", queueLabel, "true", binding)},
			refuse: []string{"spec.managedBy", "cannot be changed"},
		},
	}.run(t, world()...)
}

// What cannot be looked up on a change is an error, not a yes.
func TestLookupsFailLoudly(t *testing.T) {
	broken := errors.New("no answer")
	fail := func(kind client.Object) interceptor.Funcs {
		return interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
				if sameType(o, kind) {
					return broken
				}
				return c.Get(ctx, key, o, opts...)
			},
		}
	}
	podJob := strings.Replace(jobComponent, "CLASS", "default-priority", 1)
	for name, tc := range map[string]struct {
		breaks client.Object
		ask    ask
	}{
		"queue of a Job":         {&v1beta2.LocalQueue{}, ask{path: validateJob, old: job("", "", isWaiting), new: job(queueLabel, "", isWaiting)}},
		"class of a Job":         {&v1beta2.WorkloadPriorityClass{}, ask{path: validateJob, old: job(queueLabel, "", isWaiting), new: job(queueLabel+", kueue.x-k8s.io/priority-class: p", "", isWaiting)}},
		"queue of an AppWrapper": {&v1beta2.LocalQueue{}, ask{path: validateWrapper, old: wrapper("blue", "", "true", podJob), new: wrapper("blue", queueLabel, "true", podJob)}},
		"class of an AppWrapper": {&v1beta2.WorkloadPriorityClass{}, ask{path: validateWrapper, old: wrapper("blue", queueLabel, "true", podJob), new: wrapper("blue", queueLabel+", kueue.x-k8s.io/priority-class: p", "true", podJob)}},
		"new Job":                {&v1beta2.LocalQueue{}, ask{path: validateJob, new: job(queueLabel, "", isWaiting)}},
		"new AppWrapper":         {&v1beta2.LocalQueue{}, ask{path: validateWrapper, new: wrapper("blue", queueLabel, "true", podJob)}},
	} {
		t.Run(name, func(t *testing.T) {
			r := send(
				t,
				serveBroken(
					t,
					fail(tc.breaks),
					world(&v1beta2.WorkloadPriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "p"}})...),
				tc.ask,
			)
			if r.Allowed || !strings.Contains(r.Message, broken.Error()) {
				t.Errorf("allowed is %v, saying %q", r.Allowed, r.Message)
			}
		})
	}
}
