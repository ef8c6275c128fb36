package job_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/job"
)

func says(kind batchv1.JobConditionType, status corev1.ConditionStatus, message string) func(*batchv1.Job) {
	return func(j *batchv1.Job) {
		j.Status.Conditions = append(
			j.Status.Conditions,
			batchv1.JobCondition{Type: kind, Status: status, Message: message},
		)
	}
}

func running(j *batchv1.Job) { j.Spec.Suspend = nil }

// What a Job says of itself.
func TestRead(t *testing.T) {
	type facts struct {
		Suspended, Active, Ready, EndsOnce bool
		Pods                               int32
		Finished                           *jobs.Outcome
	}
	status := func(s batchv1.JobStatus) func(*batchv1.Job) { return func(j *batchv1.Job) { j.Status = s } }
	waits := facts{Suspended: true, EndsOnce: true, Pods: 4}
	runs := facts{EndsOnce: true, Pods: 4}
	tests := map[string]struct {
		why  string
		job  *batchv1.Job
		want facts
	}{
		"waits": {"it is suspended", aJob(), waits},
		"runs":  {"not suspended is the default", aJob(running), runs},
		"has pods": {
			"one is enough",
			aJob(running, status(batchv1.JobStatus{Active: 1})),
			facts{Active: true, EndsOnce: true, Pods: 4},
		},
		"has pods that go": {
			"they hold their nodes still",
			aJob(running, status(batchv1.JobStatus{Terminating: new(int32(1))})),
			facts{Active: true, EndsOnce: true, Pods: 4},
		},
		"none that go": {
			"the field is there and says none",
			aJob(running, status(batchv1.JobStatus{Terminating: new(int32(0))})),
			runs,
		},
		"not quite ready": {
			"three of four",
			aJob(running, status(batchv1.JobStatus{Active: 3, Ready: new(int32(3))})),
			facts{Active: true, EndsOnce: true, Pods: 4},
		},
		"ready": {
			"a pod that succeeded was ready",
			aJob(
				running,
				status(
					batchv1.JobStatus{
						Active:                  3,
						Ready:                   new(int32(2)),
						Succeeded:               1,
						UncountedTerminatedPods: &batchv1.UncountedTerminatedPods{Succeeded: []types.UID{"a"}},
					},
				),
			),
			facts{Active: true, Ready: true, EndsOnce: true, Pods: 4},
		},
		"more work than pods": {
			"pods follow those that succeeded",
			aJob(size(4, 5)),
			facts{Suspended: true, Pods: 4},
		},
		"less work than pods": {
			"it never has more pods than completions",
			aJob(size(4, 3)),
			facts{Suspended: true, EndsOnce: true, Pods: 3},
		},
		"a work queue": {
			"it is not known how many completions there are, but none follows a success",
			aJob(func(j *batchv1.Job) { j.Spec.Completions = nil }),
			waits,
		},
		"nothing said": {
			"one pod, one completion",
			aJob(func(j *batchv1.Job) { j.Spec.Completions, j.Spec.Parallelism = nil, nil }),
			facts{Suspended: true, EndsOnce: true, Pods: 1},
		},
		"two, one at a time": {
			"the second follows the first",
			aJob(func(j *batchv1.Job) { j.Spec.Completions, j.Spec.Parallelism = new(int32(2)), nil }),
			facts{Suspended: true, Pods: 1},
		},
		"one completion": {
			"one pod is the default",
			aJob(func(j *batchv1.Job) { j.Spec.Completions, j.Spec.Parallelism = new(int32(1)), nil }),
			facts{Suspended: true, EndsOnce: true, Pods: 1},
		},
		"complete": {
			"it says so itself",
			aJob(
				says(batchv1.JobSuspended, corev1.ConditionTrue, "x"),
				says(batchv1.JobComplete, corev1.ConditionTrue, "well done"),
			),
			facts{
				Suspended: true,
				EndsOnce:  true,
				Pods:      4,
				Finished:  &jobs.Outcome{Success: true, Message: "well done"},
			},
		},
		"complete, without a word": {
			"users are told something",
			aJob(says(batchv1.JobComplete, corev1.ConditionTrue, "")),
			facts{
				Suspended: true,
				EndsOnce:  true,
				Pods:      4,
				Finished:  &jobs.Outcome{Success: true, Message: "Job finished successfully"},
			},
		},
		"failed": {
			"the first condition is about something else",
			aJob(
				says(batchv1.JobComplete, corev1.ConditionFalse, "x"),
				says(batchv1.JobFailed, corev1.ConditionTrue, ""),
			),
			facts{Suspended: true, EndsOnce: true, Pods: 4, Finished: &jobs.Outcome{Message: "Job failed"}},
		},
		"is about to fail": {
			"its pods still end",
			aJob(says(batchv1.JobFailureTarget, corev1.ConditionTrue, "x")),
			waits,
		},
		"did not fail": {
			"a condition that is false",
			aJob(says(batchv1.JobFailed, corev1.ConditionFalse, "x")),
			waits,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			f, err := job.Adapter{}.Read(tc.job)
			if err != nil {
				t.Fatal(err)
			}
			got := facts{f.Suspended, f.Active, f.Ready, f.EndsOnce, f.PodSets[0].Count, f.Finished}
			if d := cmp.Diff(tc.want, got); d != "" || len(f.PodSets) != 1 || f.PodSets[0].Name != "main" {
				t.Errorf("%s (-want +got):\n%s", tc.why, d)
			}
			if got, want := (job.Adapter{}).Maker(
				tc.job,
			), (core.MakerState{Stopped: tc.want.Suspended, Ended: tc.want.Finished != nil}); got != want {
				t.Errorf("%s: whether more pods may come: %+v, want %+v", tc.why, got, want)
			}
		})
	}
	leaves := aJob(running)
	leaves.DeletionTimestamp = new(metav1.Now())
	if got := (job.Adapter{}).Maker(leaves); got != (core.MakerState{Deleting: true}) {
		t.Errorf("a Job that is deleted: %+v", got)
	}
}

// How few pods may do, at the borders.
func TestFewest(t *testing.T) {
	const all = int32(-1)
	for value, want := range map[string]int32{"0": all, "-1": all, "1": 1, "3": 3, "4": all, "2147483648": all, "03": 3, "9": all} {
		f, err := job.Adapter{}.Read(aJob(annotated(kueue.JobMinParallelismAnnotation, value)))
		if err != nil {
			t.Fatal(err)
		}
		got := all
		if f.PodSets[0].MinCount != nil {
			got = *f.PodSets[0].MinCount
		}
		if got != want {
			t.Errorf("%s of 4: %d, want %d", value, got, want)
		}
	}
	many := aJob(size(2_000_000_000, 2_000_000_000), annotated(kueue.JobMinParallelismAnnotation, "1900000000"))
	if f, err := (job.Adapter{}).Read(many); err != nil || f.PodSets[0].MinCount == nil {
		t.Errorf("1,900,000,000 of 2,000,000,000 may do: %v", err)
	}
	tail := aJob(size(2_000_000_000, 2_000_000_000), indexed("1900000000-1999999999", ""))
	if f, err := (job.Adapter{}).Read(tail); err != nil || f.Reclaimable[0].Count != 100_000_000 {
		t.Errorf("the last 100,000,000 of 2,000,000,000 are done: %v %v", f.Reclaimable, err)
	}
}

func TestOurs(t *testing.T) {
	for name, want := range map[string]bool{"": true, batchv1.JobControllerName: true, "example.com/other": false} {
		j := aJob()
		if name != "" {
			j.Spec.ManagedBy = &name
		}
		if got := (job.Adapter{}).Ours(j); got != want {
			t.Errorf("managed by %q: %t", name, got)
		}
	}
}

// An author who applies the manifest again neither loses what was assigned to the Job
// nor starts it.
func TestKeep(t *testing.T) {
	toleration := func(key string) []corev1.Toleration { return []corev1.Toleration{{Key: key}} }
	written := func() *batchv1.Job {
		return aJob(func(j *batchv1.Job) {
			j.Spec.Suspend = nil
			j.Spec.Template.Labels = map[string]string{"app": "x"}
			j.Spec.Template.Annotations = map[string]string{"note": "x"}
			j.Spec.Template.Spec.NodeSelector = map[string]string{"zone": "x"}
			j.Spec.Template.Spec.Tolerations = toleration("own")
			j.Spec.Template.Spec.SchedulerName = "default-scheduler"
		})
	}
	stored := func() *batchv1.Job {
		j := written()
		j.Spec.Suspend = new(true)
		j.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{batchv1.ControllerUidLabel: "u"}}
		j.Spec.Template.Labels[batchv1.ControllerUidLabel] = "u"
		j.Spec.Template.Spec.SchedulerName = "mlbatch-scheduler"
		return j
	}
	started := func() *batchv1.Job {
		j := stored()
		j.Spec.Suspend = new(false)
		j.Spec.Template.Labels[kueue.PodSetLabel] = "main"
		j.Spec.Template.Annotations[kueue.WorkloadAnnotation] = "w"
		j.Spec.Template.Spec.NodeSelector["flavor"] = "f"
		j.Spec.Template.Spec.Tolerations = append(toleration("own"), toleration("spot")...)
		return j
	}
	original := kueue.PodSet{Name: "main", Count: 4, Template: written().Spec.Template}
	annotate := func(j *batchv1.Job, keys ...string) *batchv1.Job {
		for _, k := range keys {
			j.Annotations[k] = "true"
		}
		return j
	}
	smaller := func(parallelism, completions int32, keys ...string) *batchv1.Job {
		j := annotate(started(), keys...)
		size(parallelism, completions)(j)
		return j
	}
	fewer, same := kueue.JobMinParallelismAnnotation, kueue.JobCompletionsEqualParallelismAnnotation
	change := func(j *batchv1.Job, f func(*batchv1.Job)) *batchv1.Job { f(j); return j }
	owned := func(kind string) func(*batchv1.Job) {
		return func(j *batchv1.Job) {
			j.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: "o", Controller: new(true)}}
		}
	}
	tests := map[string]struct {
		why     string
		was, is *batchv1.Job
		author  *kueue.PodSet
		want    *batchv1.Job
	}{
		"while it waits": {
			why:  "suspend, selector and the Job's own labels stay",
			was:  stored(),
			is:   written(),
			want: stored(),
		},
		"while it runs": {
			why:    "so does what was assigned",
			was:    started(),
			is:     written(),
			author: &original,
			want:   started(),
		},
		"nobody knows what its author wrote": {
			why: "only what the Job has from Kubernetes and us stays", was: started(), is: written(),
			want: change(stored(), func(j *batchv1.Job) { j.Spec.Suspend = new(false) }),
		},
		"a label removed": {
			why: "what its author wrote before and does not write now is gone", was: started(), author: &original,
			is:   change(written(), func(j *batchv1.Job) { j.Spec.Template.Labels = nil }),
			want: change(started(), func(j *batchv1.Job) { delete(j.Spec.Template.Labels, "app") }),
		},
		"no selector any more": {
			why: "what the flavor says stays", was: started(), author: &original,
			is:   change(written(), func(j *batchv1.Job) { j.Spec.Template.Spec.NodeSelector = nil }),
			want: change(started(), func(j *batchv1.Job) { delete(j.Spec.Template.Spec.NodeSelector, "zone") }),
		},
		"a label changed": {
			why: "the author's word counts", was: started(), author: &original,
			is:   change(written(), func(j *batchv1.Job) { j.Spec.Template.Labels["app"] = "y" }),
			want: change(started(), func(j *batchv1.Job) { j.Spec.Template.Labels["app"] = "y" }),
		},
		"tolerations changed": {
			why: "the author's word counts", was: started(), author: &original,
			is:   change(written(), func(j *batchv1.Job) { j.Spec.Template.Spec.Tolerations = toleration("new") }),
			want: change(started(), func(j *batchv1.Job) { j.Spec.Template.Spec.Tolerations = toleration("new") }),
		},
		"its own selector": {
			why: "a user who manages selectors by hand does so", was: stored(),
			is:   change(written(), func(j *batchv1.Job) { j.Spec.ManualSelector = new(true) }),
			want: change(stored(), func(j *batchv1.Job) { j.Spec.ManualSelector, j.Spec.Selector = new(true), nil }),
		},
		"part of an AppWrapper": {
			why:  "which is stopped and started by us",
			was:  change(stored(), owned("AppWrapper")),
			is:   change(written(), owned("AppWrapper")),
			want: change(stored(), owned("AppWrapper")),
		},
		"part of another job": {
			why:  "its owner stops and starts it",
			was:  change(stored(), owned("JobSet")),
			is:   change(written(), owned("JobSet")),
			want: change(stored(), func(j *batchv1.Job) { owned("JobSet")(j); j.Spec.Suspend = nil }),
		},
		"runs with fewer pods": {
			why:    "applying the manifest again is no wish for more",
			was:    smaller(2, 4, fewer),
			is:     annotate(written(), fewer),
			author: &original,
			want:   smaller(2, 4, fewer),
		},
		"runs with fewer pods and less work": {
			why:    "both were reduced",
			was:    smaller(2, 2, fewer, same),
			is:     annotate(written(), fewer, same),
			author: &original,
			want:   smaller(2, 2, fewer, same),
		},
		"runs with fewer pods, and its work grows": {
			why: "that is not what was written before", was: smaller(2, 2, fewer, same), author: &original,
			is: change(annotate(written(), fewer, same), size(4, 6)), want: smaller(2, 6, fewer, same),
		},
		"runs with fewer pods, and another number": {
			why:    "that is a wish",
			was:    smaller(2, 4, fewer),
			is:     change(annotate(written(), fewer), size(3, 4)),
			author: &original,
			want:   smaller(3, 4, fewer),
		},
		"made smaller by hand, and as large as before": {
			why:    "completions, which no admission changes here, tell that it is a wish",
			was:    smaller(2, 2, fewer),
			is:     annotate(written(), fewer),
			author: &original,
			want:   smaller(4, 4, fewer),
		},
		"waits again": {
			why:    "it is to have all its pods",
			was:    change(smaller(2, 4, fewer), func(j *batchv1.Job) { j.Spec.Suspend = new(true) }),
			is:     annotate(written(), fewer),
			author: &original,
			want:   change(smaller(4, 4, fewer), func(j *batchv1.Job) { j.Spec.Suspend = new(true) }),
		},
		"one of one is the default": {
			why:    "a manifest that does not say asks for one pod",
			was:    change(smaller(0, 4, fewer), func(j *batchv1.Job) { j.Spec.Completions = nil }),
			author: &kueue.PodSet{Name: "main", Count: 1, Template: written().Spec.Template},
			is: change(
				annotate(written(), fewer),
				func(j *batchv1.Job) { j.Spec.Parallelism, j.Spec.Completions = nil, nil },
			),
			want: change(smaller(0, 4, fewer), func(j *batchv1.Job) { j.Spec.Completions = nil }),
		},
		"no completions are none": {
			why:    "a work queue is not given any",
			was:    smaller(0, 0, fewer, same),
			author: &kueue.PodSet{Name: "main", Count: 1, Template: written().Spec.Template},
			is: change(
				annotate(written(), fewer, same),
				func(j *batchv1.Job) { j.Spec.Parallelism, j.Spec.Completions = nil, nil },
			),
			want: change(smaller(0, 0, fewer, same), func(j *batchv1.Job) { j.Spec.Completions = nil }),
		},
		"never with fewer pods": {
			why: "another client scaled it", was: smaller(2, 4), is: written(), author: &original,
			want: smaller(4, 4),
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			before := tc.is.DeepCopy()
			var author []kueue.PodSet
			if tc.author != nil {
				author = append(author, *tc.author)
			}
			if d := cmp.Diff(tc.want, job.Keep(tc.was, tc.is, author)); d != "" {
				t.Errorf("%s (-want +got):\n%s", tc.why, d)
			}
			if d := cmp.Diff(before, tc.is); d != "" {
				t.Errorf("the new Job was changed:\n%s", d)
			}
		})
	}
}

// A Job starts with what was assigned to it, and is as its author wrote it when it has
// stopped.
func TestStartAndStop(t *testing.T) {
	spot := corev1.Toleration{Key: "spot"}
	author := aJob(func(j *batchv1.Job) {
		j.Spec.Template.Labels = map[string]string{"app": "x"}
		j.Spec.Template.Annotations = map[string]string{"note": "x"}
		j.Spec.Template.Spec.NodeSelector = map[string]string{"zone": "x"}
		j.Spec.Template.Spec.Tolerations = []corev1.Toleration{{Key: "own"}}
	})
	original := []kueue.PodSet{{Name: "main", Count: 4, Template: *author.Spec.Template.DeepCopy()}}
	info := jobs.PodSetInfo{
		Name:         "main",
		Count:        4,
		Labels:       map[string]string{kueue.PodSetLabel: "main"},
		Annotations:  map[string]string{kueue.WorkloadAnnotation: "w"},
		NodeSelector: map[string]string{"flavor": "f"},
		Tolerations:  []corev1.Toleration{spot},
	}
	want := author.DeepCopy()
	want.Spec.Suspend = new(false)
	want.Spec.Template.Labels[kueue.PodSetLabel] = "main"
	want.Spec.Template.Annotations[kueue.WorkloadAnnotation] = "w"
	want.Spec.Template.Spec.NodeSelector["flavor"] = "f"
	want.Spec.Template.Spec.Tolerations = append(want.Spec.Template.Spec.Tolerations, spot)
	before := author.DeepCopy()
	started, err := job.Adapter{}.Start(author, []jobs.PodSetInfo{info})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(jobs.Object(want), started); d != "" || !cmp.Equal(before, author) {
		t.Errorf("started (-want +got):\n%s", d)
	}
	if again, err := (job.Adapter{}).Start(started, nil); err != nil || !cmp.Equal(again, started) {
		t.Errorf("starting what runs changed it, or failed: %v", err)
	}
	for said, infos := range map[string][]jobs.PodSetInfo{
		"start job blue/j: admission has 0 pod sets, a Job has 1":                                                        nil,
		"start job blue/j: admission has 2 pod sets, a Job has 1":                                                        {info, info},
		`start job blue/j: nodeSelector zone: the pod template says "x", the admission "y"; remove it from the template`: {{NodeSelector: map[string]string{"zone": "y"}}},
	} {
		if _, err := (job.Adapter{}).Start(author, infos); err == nil || err.Error() != said {
			t.Errorf("%v, want %q", err, said)
		}
	}

	suspended := want.DeepCopy()
	suspended.Spec.Suspend = new(true)
	stopped, err := job.Adapter{}.Stop(started, original)
	if d := cmp.Diff(jobs.Object(suspended), stopped); d != "" || err != nil {
		t.Errorf("%v: only suspended at first, because nothing else may be written then (-want +got):\n%s", err, d)
	}
	tests := map[string]struct {
		why    string
		change func(*batchv1.Job)
		sets   []kueue.PodSet
		back   bool
	}{
		"never started": {"its template may be written", func(*batchv1.Job) {}, original, true},
		"has stopped": {"it says so itself", func(j *batchv1.Job) {
			j.Status.StartTime = new(metav1.Now())
			says(batchv1.JobSuspended, corev1.ConditionTrue, "")(j)
		}, original, true},
		"has not stopped": {"the API server would refuse", func(j *batchv1.Job) {
			j.Status.StartTime = new(metav1.Now())
			says(batchv1.JobSuspended, corev1.ConditionFalse, "")(j)
		}, original, false},
		"has pods": {
			"the API server would refuse",
			func(j *batchv1.Job) { j.Status.Active = 1 },
			original,
			false,
		},
		"nobody knows what": {"its Workload is gone", func(*batchv1.Job) {}, nil, false},
		"nothing was added": {
			"what its author writes meanwhile stays",
			func(j *batchv1.Job) { delete(j.Spec.Template.Labels, kueue.PodSetLabel) },
			original,
			false,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			j := suspended.DeepCopy()
			tc.change(j)
			want := j.DeepCopy()
			if tc.back {
				want.Spec.Template = author.Spec.Template
			}
			got, err := job.Adapter{}.Stop(j, tc.sets)
			if d := cmp.Diff(jobs.Object(want), got); d != "" || err != nil {
				t.Errorf("%s: %v (-want +got):\n%s", tc.why, err, d)
			}
		})
	}
}
