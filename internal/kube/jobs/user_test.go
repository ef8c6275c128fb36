package jobs_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// TestUser: who submitted a job is read as it was written, and neither from an annotation
// that the label contradicts nor, where there is the one for all, from a kind's own label.
func TestUser(t *testing.T) {
	own := &jobs.Kind{Admission: jobs.Admission{UserLabel: "own"}}
	for name, tc := range map[string]struct {
		why                 string
		kind                *jobs.Kind
		labels, annotations map[string]string
		want                string
	}{
		"nobody":             {"it is from before", nil, nil, nil, ""},
		"label":              {"a name that fits", nil, map[string]string{jobs.UserLabel: "alice"}, nil, "alice"},
		"annotation":         {"one that does not", nil, map[string]string{jobs.UserLabel: "a_b"}, map[string]string{jobs.UserLabel: "a:b"}, "a:b"},
		"contradiction":      {"the label was written, and then a note", nil, map[string]string{jobs.UserLabel: "alice"}, map[string]string{jobs.UserLabel: "bob"}, "alice"},
		"annotation alone":   {"a template whose labels are others'", nil, nil, map[string]string{jobs.UserLabel: "bob"}, "bob"},
		"annotation and own": {"who could write the annotation could not write the label", own, map[string]string{"own": "alice"}, map[string]string{jobs.UserLabel: "bob"}, "alice"},
		"the kind's label":   {"AppWrappers from before", own, map[string]string{"own": "alice"}, nil, "alice"},
		"another's label":    {"it is of one kind", nil, map[string]string{"own": "alice"}, nil, ""},
		"both labels":        {"the one for all has whole names", own, map[string]string{"own": "a_b", jobs.UserLabel: "a_b"}, map[string]string{jobs.UserLabel: "a b"}, "a b"},
		"kind without such":  {"it has none", &jobs.Kind{}, map[string]string{"": "alice"}, nil, ""},
	} {
		if got := jobs.User(
			tc.kind,
			&metav1.ObjectMeta{Labels: tc.labels, Annotations: tc.annotations},
		); got != tc.want {
			t.Errorf("%s: %s: %q, want %q", name, tc.why, got, tc.want)
		}
	}
}

// TestSetUser: every name that a user can have is kept, in labels that are legal.
func TestSetUser(t *testing.T) {
	for _, name := range []string{"alice", "system:serviceaccount:blue:ci", "Zoë Müller@example.com", "_", strings.Repeat("x", 200), ""} {
		o := &metav1.ObjectMeta{
			Labels:      map[string]string{jobs.UserLabel: "bob"},
			Annotations: map[string]string{jobs.UserLabel: "b:b", "other": "stays"},
		}
		jobs.SetUser(o, name)
		if wrong := validation.IsValidLabelValue(o.Labels[jobs.UserLabel]); len(wrong) > 0 {
			t.Errorf("%q: label %q: %v", name, o.Labels[jobs.UserLabel], wrong)
		}
		if got := jobs.User(nil, o); got != name || o.Annotations["other"] != "stays" {
			t.Errorf("%q is read as %q (%v)", name, got, o.Annotations)
		}
		bare := &metav1.ObjectMeta{}
		jobs.KeepUser(o, bare)
		if got := jobs.User(nil, bare); got != name {
			t.Errorf("%q is kept as %q", name, got)
		}
	}
}
