package job

import (
	"fmt"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/admission"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	batchjob "github.com/mlbatch/mlbatch/internal/kube/jobs/job"
)

// TestLinger: a job that ended gives back the quota of pods that have ended or are gone, however
// they ended, while it keeps others, and ends once none is left.
func TestLinger(t *testing.T) {
	sets := []kueue.PodSet{{Name: "head", Count: 1}, {Name: "small", Count: 2}, {Name: "submitter", Count: 1}}
	done := func(names ...kueue.PodSetReference) []kueue.ReclaimablePod {
		var out []kueue.ReclaimablePod
		for _, n := range names {
			for _, s := range sets {
				if s.Name == n {
					out = append(out, kueue.ReclaimablePod{Name: n, Count: s.Count})
				}
			}
		}
		return out
	}
	evicted := condition(kueue.WorkloadEvicted, kueue.ReasonPreempted)
	const leaving, keeping = "leaving", "keeping"
	leaves := func(w *kueue.Workload) { admitted(w); w.Annotations = map[string]string{leaving: ""} }
	keeps := func(w *kueue.Workload) { admitted(w); w.Annotations = map[string]string{keeping: ""} }
	for name, c := range map[string]struct {
		why  string
		done []kueue.ReclaimablePod
		live map[kueue.PodSetReference]int
		was  []kueue.ReclaimablePod
		of   func(*kueue.Workload)
		want string
	}{
		"Gone":      {"its workers are", done("small"), map[kueue.PodSetReference]int{"head": 1}, nil, admitted, "small=2 submitter=1"},
		"Some":      {"one of its workers was not done when it ended, and runs on", nil, map[kueue.PodSetReference]int{"head": 1, "small": 1}, nil, admitted, "small=1 submitter=1"},
		"Leaving":   {"those that go are waited for", done("small", "submitter"), map[kueue.PodSetReference]int{"head": 1, "small": 1}, nil, leaves, ""},
		"Stay":      {"nothing of it goes", nil, map[kueue.PodSetReference]int{"head": 1, "small": 2, "submitter": 1}, nil, admitted, ""},
		"Written":   {"it was said", done("small"), map[kueue.PodSetReference]int{"head": 1, "submitter": 1}, done("small"), admitted, ""},
		"Earlier":   {"what was given back stays so", done("small"), map[kueue.PodSetReference]int{"head": 1, "submitter": 1}, done("submitter"), admitted, "small=2 submitter=1"},
		"Evicted":   {"others are to have the quota of what it kept", done("small"), map[kueue.PodSetReference]int{"head": 1}, nil, evicted, "stopped"},
		"NoPodSet":  {"of which it is, one of its pods does not say", done("small"), map[kueue.PodSetReference]int{"": 1}, nil, admitted, ""},
		"KeepsDone": {"the installation gives nothing back before the end", done("small"), map[kueue.PodSetReference]int{"head": 1}, nil, keeps, ""},
		"AllIsGone": {"it has ended", done("small", "submitter"), nil, nil, admitted, "finished"},
	} {
		t.Run(name, func(t *testing.T) {
			w := aWorkload(admitted, c.of)
			w.Spec.PodSets, w.Status.ReclaimablePods = sets, c.was
			s := facts{
				job: aJob(running), adapter: batchjob.Adapter{}, workload: w, now: now, pods: admission.Pods{Of: c.live},
				facts: jobs.Facts{Finished: &jobs.Outcome{Success: true}, PodSets: sets, Reclaimable: c.done},
			}
			for _, n := range c.live {
				s.pods.Live += n
			}
			if _, is := w.Annotations[leaving]; is {
				s.pods.Leaving = 1
			}
			_, s.keepsDone = w.Annotations[keeping]
			got := ""
			if st, err := finish(s); err != nil {
				t.Fatal(err)
			} else if j, is := st.job.(*batchv1.Job); is && ptr.Deref(j.Spec.Suspend, false) {
				got = "stopped"
			} else if st.status != nil {
				var all []string
				for _, r := range st.status.ReclaimablePods {
					all = append(all, fmt.Sprintf("%s=%d", r.Name, r.Count))
				}
				if got = strings.Join(
					all,
					" ",
				); apimeta.IsStatusConditionTrue(
					st.status.Conditions,
					kueue.WorkloadFinished,
				) {
					got = "finished"
				}
			}
			if got != c.want {
				t.Errorf("%s: got %q, want %q", c.why, got, c.want)
			}
		})
	}
}
