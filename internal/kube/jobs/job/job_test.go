package job_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/job"
)

// aJob is a suspended Job of 4 pods.
func aJob(change ...func(*batchv1.Job)) *batchv1.Job {
	j := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "j", Annotations: map[string]string{}},
		Spec: batchv1.JobSpec{
			Parallelism: ptr.To[int32](4),
			Completions: ptr.To[int32](4),
			Suspend:     new(true),
		},
	}
	for _, c := range change {
		c(j)
	}
	return j
}

func annotated(key, value string) func(*batchv1.Job) {
	return func(j *batchv1.Job) { j.Annotations[key] = value }
}

func indexed(completed, failed string) func(*batchv1.Job) {
	return func(j *batchv1.Job) {
		j.Spec.CompletionMode = new(batchv1.IndexedCompletion)
		j.Status.CompletedIndexes, j.Status.FailedIndexes = completed, &failed
	}
}

func size(parallelism, completions int32) func(*batchv1.Job) {
	return func(j *batchv1.Job) { j.Spec.Parallelism, j.Spec.Completions = &parallelism, &completions }
}

func succeeded(n int32) func(*batchv1.Job) { return func(j *batchv1.Job) { j.Status.Succeeded = n } }

// A Job that can do with fewer pods says so, starts with what it was given, and
// is what its author wrote when it stops.
func TestPartialAdmission(t *testing.T) {
	atLeast2 := annotated(kueue.JobMinParallelismAnnotation, "2")
	same := annotated(kueue.JobCompletionsEqualParallelismAnnotation, "true")
	type shape struct {
		Fewest                   *int32
		Parallelism, Completions int32
	}
	cases := map[string]struct {
		why     string
		job     *batchv1.Job
		whole   bool // gate
		given   int32
		started shape
	}{
		"all or nothing": {"the usual Job", aJob(), false, 4, shape{nil, 4, 4}},
		"fewer":          {"the work takes longer", aJob(atLeast2), false, 3, shape{new(int32(2)), 3, 4}},
		"fewer pods, less work": {
			"each pod is one completion",
			aJob(atLeast2, same),
			false,
			3,
			shape{new(int32(2)), 3, 3},
		},
		"all after all": {"nothing is reduced", aJob(atLeast2, same), false, 4, shape{new(int32(2)), 4, 4}},
		"as many as it has": {
			"then it needs all of them",
			aJob(annotated(kueue.JobMinParallelismAnnotation, "4")),
			false,
			4,
			shape{nil, 4, 4},
		},
		"no number": {
			"the webhook refuses it",
			aJob(annotated(kueue.JobMinParallelismAnnotation, "few")),
			false,
			4,
			shape{nil, 4, 4},
		},
		"gate is off": {"the annotation means nothing", aJob(atLeast2), true, 4, shape{nil, 4, 4}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			adapter := job.Kind()
			if c.whole {
				adapter = jobs.Kinds{adapter}.WholeOnly()[0]
			}
			facts, err := adapter.Read(c.job)
			if err != nil {
				t.Fatal(err)
			}
			o, err := adapter.Start(c.job, []jobs.PodSetInfo{{Name: job.PodSet, Count: c.given}})
			if err != nil {
				t.Fatal(err)
			}
			started := o.(*batchv1.Job)
			if diff := cmp.Diff(
				c.started,
				shape{facts.PodSets[0].MinCount, *started.Spec.Parallelism, *started.Spec.Completions},
			); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.why, diff)
			}
			for range 2 { // first suspended, then restored
				if o, err = adapter.Stop(o, facts.PodSets); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(c.job.Spec, o.(*batchv1.Job).Spec); diff != "" {
				t.Errorf("not restored (-want +got):\n%s", diff)
			}
		})
	}
}

// The API server's own labels of a template stay, whatever the Workload knows.
func TestStopKeepsTheJobsLabels(t *testing.T) {
	j := aJob(func(j *batchv1.Job) {
		j.Spec.Template.Labels = map[string]string{
			batchv1.ControllerUidLabel: "u",
			batchv1.JobNameLabel:       "j",
			kueue.PodSetLabel:          "main",
		}
	})
	o, err := job.Adapter{}.Stop(j, []kueue.PodSet{{Name: job.PodSet, Count: 4}})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{batchv1.ControllerUidLabel: "u", batchv1.JobNameLabel: "j"}
	if diff := cmp.Diff(want, o.(*batchv1.Job).Spec.Template.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
}

// What a Job says of all of its pods is recorded as groups of their set, around those that the template names, and does not
// stay in the template when the Job has stopped.
func TestStopLeavesNoGroups(t *testing.T) {
	for name, own := range map[string]map[string]string{
		"pods in a rack":         {kueue.PodSetRequiredTopologyAnnotation: "rack"},
		"pods that name a group": {kueue.PodSetRequiredTopologyAnnotation: "rack", kueue.TopologyGroupsAnnotation: "row=mine"},
	} {
		author := aJob(annotated(kueue.KAIRequiredAnnotation, "block"), func(j *batchv1.Job) {
			j.Spec.Suspend = new(true)
			j.Spec.Template.Annotations = maps.Clone(own)
		})
		facts, err := job.Adapter{}.Read(author)
		if err != nil {
			t.Fatal(err)
		}
		jobs.NearAsJobSays(author.Annotations, facts.PodSets)
		if got := facts.PodSets[0].Template.Annotations[kueue.TopologyGroupsAnnotation]; !strings.Contains(
			got,
			"block=",
		) {
			t.Fatalf("%s: its Workload records the groups %q", name, got)
		}
		started, err := job.Adapter{}.Start(author, []jobs.PodSetInfo{
			{
				Name:  "main",
				Count: 4,
				Labels: map[string]string{
					kueue.PodSetLabel: "main",
				},
				Annotations: map[string]string{kueue.WorkloadAnnotation: "w"},
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		stopped, err := job.Adapter{}.Stop(started, facts.PodSets)
		if err != nil {
			t.Fatal(err)
		}
		stopped.(*batchv1.Job).Status.Conditions = []batchv1.JobCondition{
			{Type: batchv1.JobSuspended, Status: corev1.ConditionTrue},
		}
		back, err := job.Adapter{}.Stop(stopped, facts.PodSets)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(own, back.(*batchv1.Job).Spec.Template.Annotations); diff != "" {
			t.Errorf("%s: annotations of the template (-want +got):\n%s", name, diff)
		}
	}
}

// A Workload knows of its Job only what bears on pods: two Jobs of one manifest
// have equal Workloads.
func TestWorkloadsWithoutJobLabels(t *testing.T) {
	j := aJob(func(j *batchv1.Job) {
		j.Spec.Template.Labels = map[string]string{
			batchv1.ControllerUidLabel: "u",
			batchv1.JobNameLabel:       "j",
			"controller-uid":           "u",
			"job-name":                 "j",
			"app":                      "train",
		}
	})
	before := j.DeepCopy()
	facts, err := job.Adapter{}.Read(j)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"app": "train"}, facts.PodSets[0].Template.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(before, j); diff != "" {
		t.Errorf("the Job changed:\n%s", diff)
	}
}

// What a job tolerates already is not said again by its flavor or its checks.
func TestToleratesOnce(t *testing.T) {
	spot := corev1.Toleration{Key: "spot", Operator: corev1.TolerationOpExists, TolerationSeconds: new(int64(5))}
	gpu := corev1.Toleration{Key: "gpu", Operator: corev1.TolerationOpExists}
	again := spot
	again.TolerationSeconds = new(int64(5))
	longer := spot
	longer.TolerationSeconds = new(int64(6))
	j := aJob(func(j *batchv1.Job) { j.Spec.Template.Spec.Tolerations = []corev1.Toleration{spot} })
	info, err := jobs.PodSetInfo{
		Tolerations: []corev1.Toleration{again, gpu},
	}.With(
		kueue.PodSetUpdate{Tolerations: []corev1.Toleration{gpu, longer}},
	)
	if err != nil {
		t.Fatal(err)
	}
	o, err := job.Adapter{}.Start(j, []jobs.PodSetInfo{info})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(
		[]corev1.Toleration{spot, gpu, longer},
		o.(*batchv1.Job).Spec.Template.Spec.Tolerations,
	); diff != "" {
		t.Errorf("tolerations (-want +got):\n%s", diff)
	}
}

func TestReclaimable(t *testing.T) {
	cases := map[string]struct {
		why  string
		job  *batchv1.Job
		want int32
	}{
		"none ended":           {"all pods are needed", aJob(), 0},
		"one ended":            {"three are left for three completions", aJob(succeeded(1)), 1},
		"more to do than pods": {"the next pod takes the place", aJob(size(4, 8), succeeded(3)), 0},
		"the tail":             {"two completions are left", aJob(size(4, 8), succeeded(6)), 2},
		"one at a time":        {"its only pod is needed to the end", aJob(size(1, 3), succeeded(2)), 0},
		"no completions": {
			"a work queue may need every pod",
			aJob(func(j *batchv1.Job) { j.Spec.Completions = nil; j.Status.Succeeded = 2 }),
			0,
		},
		"indexes":                {"they are counted, not pods", aJob(indexed("0,2", "")), 2},
		"failed indexes":         {"they are not tried again", aJob(indexed("0", "2-3")), 3},
		"index in both":          {"it counts once", aJob(indexed("0-1", "1")), 2},
		"indexes beyond the end": {"completions were reduced since", aJob(indexed("0,4-9", "")), 1},
		"waits, its work is fixed": {
			"what is done need not run again",
			aJob(annotated(kueue.JobMinParallelismAnnotation, "2"), succeeded(1)),
			1,
		},
		"waits, its work may be reduced": {
			"index 3 is none of a Job of 2 completions",
			aJob(
				annotated(kueue.JobMinParallelismAnnotation, "2"),
				annotated(kueue.JobCompletionsEqualParallelismAnnotation, "true"),
				indexed("3", ""),
			),
			0,
		},
		"succeeded and indexed": {
			"a pod of an index that ended already is not counted twice",
			aJob(indexed("0", ""), succeeded(3)),
			1,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			facts, err := job.Adapter{}.Read(c.job)
			if err != nil {
				t.Fatal(err)
			}
			got := int32(0)
			for _, r := range facts.Reclaimable {
				got += r.Count
			}
			if got != c.want {
				t.Errorf("%s: got %d, want %d", c.why, got, c.want)
			}
		})
	}
}

// Whatever the status says, a Job never gives back more pods than it has.
func TestReclaimableIsBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.StringMatching(`([0-9]{0,3}(-[0-9]{0,3})?,?){0,5}`)
		j := aJob(
			size(rapid.Int32Range(0, 9).Draw(t, "parallelism"), rapid.Int32Range(0, 9).Draw(t, "completions")),
			indexed(list.Draw(t, "completed"), list.Draw(t, "failed")),
		)
		facts, err := job.Adapter{}.Read(j)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range facts.Reclaimable {
			if r.Count <= 0 || r.Count > facts.PodSets[0].Count {
				t.Fatalf("gives back %d of %d pods", r.Count, facts.PodSets[0].Count)
			}
		}
	})
}
