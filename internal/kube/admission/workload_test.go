package admission

import (
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// Scripts compute the name of a Job's Workload as Kueue makes it: the kind and
// the name, and the beginning of the SHA-1 of kind, group, name and UID in lines.
func TestWorkloadsAreNamedAsInKueue(t *testing.T) {
	kind := batchv1.SchemeGroupVersion.WithKind("Job")
	job := &metav1.ObjectMeta{Name: "train", UID: "u1"}
	if got := WorkloadName(kind, job); got != "job-train-e4af4" {
		t.Errorf("it is called %s", got)
	}
	job.Name = strings.Repeat("x", 55) + ".y"
	if got := WorkloadName(kind, job); len(got) > 63 || strings.Contains(got, ".-") {
		t.Errorf("%s is no name, or no label", got)
	}
}

// When a job was submitted is believed as far as the API server's own time allows it,
// which has no fractions of seconds and comes from another clock.
func TestSubmitted(t *testing.T) {
	created := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for name, c := range map[string]struct {
		says string
		want time.Time
	}{
		"nothing":          {"", created},
		"nonsense":         {"yesterday", created},
		"the same":         {"2026-01-02T03:04:05Z", created},
		"more precisely":   {"2026-01-02T03:04:05.25Z", created.Add(250 * time.Millisecond)},
		"a second before":  {"2026-01-02T03:04:04Z", created.Add(-time.Second)},
		"longer before":    {"2026-01-02T03:04:03.999Z", created},
		"just within":      {"2026-01-02T03:04:06.999Z", created.Add(1999 * time.Millisecond)},
		"two seconds on":   {"2026-01-02T03:04:07Z", created},
		"in another place": {"2026-01-02T04:04:05.25+01:00", created.Add(250 * time.Millisecond)},
	} {
		o := &metav1.ObjectMeta{
			CreationTimestamp: metav1.NewTime(created),
			Annotations:       map[string]string{kueue.SubmittedAtAnnotation: c.says},
		}
		if got := Submitted(o)[kueue.SubmittedAtAnnotation]; got != c.want.Format(time.RFC3339Nano) {
			t.Errorf("%s: %s, want %s", name, got, c.want.Format(time.RFC3339Nano))
		}
	}
}
