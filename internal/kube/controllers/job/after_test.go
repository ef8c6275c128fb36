package job

import (
	"testing"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	batchjob "github.com/mlbatch/mlbatch/internal/kube/jobs/job"
)

// TestAfterIsAskedAnew: what was found out about the jobs that a job comes after is forgotten when
// it is to come after others, and kept otherwise.
func TestAfterIsAskedAnew(t *testing.T) {
	for after, want := range map[string]bool{"ok:a": false, "ok:b": true, "": true} {
		j := aJob()
		j.Annotations = map[string]string{kueue.AfterAnnotation: after}
		w := aWorkload()
		w.Annotations = map[string]string{
			kueue.AfterAnnotation:      "ok:a",
			kueue.AfterStateAnnotation: kueue.AfterStateMet,
		}
		next, err := keepInStep(
			facts{
				job:      j,
				adapter:  batchjob.Adapter{},
				workload: w,
				now:      now,
				facts:    jobs.Facts{Suspended: true, PodSets: w.Spec.PodSets},
			},
		)
		if err != nil {
			t.Fatal(err)
		}
		state, forgets := next.notes[kueue.AfterStateAnnotation]
		if forgets != want || state != "" || want && next.notes[kueue.AfterAnnotation] != after {
			t.Errorf("after %q: it notes %q, want a state that is forgotten: %v", after, next.notes, want)
		}
	}
}
