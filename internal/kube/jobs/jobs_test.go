package jobs_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

type text = map[string]string

// What is assigned to pods is added to what they say, and never contradicts it.
func TestMerge(t *testing.T) {
	tests := map[string]struct {
		why       string
		have, add text
		want      text
		err       string
	}{
		"nothing":        {why: "no map comes of nothing, which objects would be compared by"},
		"nothing new":    {why: "what was there stays", have: text{"a": "1"}, want: text{"a": "1"}},
		"first":          {why: "added", add: text{"a": "1"}, want: text{"a": "1"}},
		"more":           {why: "both", have: text{"a": "1"}, add: text{"b": "2"}, want: text{"a": "1", "b": "2"}},
		"the same again": {why: "started twice", have: text{"a": "1"}, add: text{"a": "1"}, want: text{"a": "1"}},
		"another": {
			why:  "what the user wrote is not overwritten",
			have: text{"a": "1"},
			add:  text{"a": "2"},
			want: text{"a": "1"},
			err:  `label a: the pod template says "1", the admission "2"; remove it from the template`,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := tc.have
			err := jobs.Merge("label", &got, tc.add)
			if said := message(err); said != tc.err {
				t.Errorf("%s: %q, want %q", tc.why, said, tc.err)
			}
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Errorf("%s (-want +got):\n%s", tc.why, d)
			}
		})
	}
}

func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// What admission checks want is added to what flavors do.
func TestWith(t *testing.T) {
	spot := corev1.Toleration{Key: "spot", Operator: corev1.TolerationOpExists}
	other := corev1.Toleration{Key: "other", Operator: corev1.TolerationOpExists}
	was := jobs.PodSetInfo{
		Name:         "main",
		Count:        2,
		Labels:       text{"l": "1"},
		Annotations:  text{"a": "1"},
		NodeSelector: text{"n": "1"},
		Tolerations:  []corev1.Toleration{spot},
	}
	got, err := was.With(kueue.PodSetUpdate{
		Labels: text{
			"l2": "2",
		},
		Annotations:  text{"a2": "2"},
		NodeSelector: text{"n2": "2"},
		Tolerations:  []corev1.Toleration{spot, other},
	})
	want := jobs.PodSetInfo{
		Name:         "main",
		Count:        2,
		Labels:       text{"l": "1", "l2": "2"},
		Annotations:  text{"a": "1", "a2": "2"},
		NodeSelector: text{"n": "1", "n2": "2"},
		Tolerations:  []corev1.Toleration{spot, other},
	}
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, d)
	}
	for said, update := range map[string]kueue.PodSetUpdate{
		`label l: it says "2", the flavor or another check "1"`:        {Labels: text{"l": "2"}},
		`annotation a: it says "2", the flavor or another check "1"`:   {Annotations: text{"a": "2"}},
		`nodeSelector n: it says "2", the flavor or another check "1"`: {NodeSelector: text{"n": "2"}},
	} {
		if _, err := was.With(update); message(err) != said {
			t.Errorf("%q, want %q", message(err), said)
		}
	}
}

// Which jobs wait at all.
func TestCovers(t *testing.T) {
	only := labels.SelectorFromSet(labels.Set{"batch": "yes"})
	team := text{kueue.TeamNamespaceLabel: "true"}
	tests := map[string]struct {
		why   string
		scope jobs.Scope
		in    text
		queue string
		want  bool
	}{
		"names a queue":      {why: "it asks to wait", queue: "q", want: true},
		"names none":         {why: "it concerns no queue"},
		"in a team's":        {why: "everything of a team counts", in: team, want: true},
		"not quite a team's": {why: "the label says false", in: text{kueue.TeamNamespaceLabel: "false"}},
		"all are to wait": {
			why:   "the installation says so",
			scope: jobs.Scope{WithoutQueue: true},
			want:  true,
		},
		"elsewhere": {
			why:   "the namespace is left alone, whatever the job says",
			scope: jobs.Scope{Namespaces: only, WithoutQueue: true},
			in:    team,
			queue: "q",
		},
		"selected": {
			why:   "and asks to wait",
			scope: jobs.Scope{Namespaces: only},
			in:    text{"batch": "yes"},
			queue: "q",
			want:  true,
		},
		"selected, names none": {
			why:   "it does not ask",
			scope: jobs.Scope{Namespaces: only},
			in:    text{"batch": "yes"},
		},
	}
	for name, tc := range tests {
		if got := tc.scope.Covers(
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Labels: tc.in}},
			tc.queue,
		); got != tc.want {
			t.Errorf("%s: %s: %t", name, tc.why, got)
		}
	}
}

// A Workload made by hand is named by the annotation, which is longer than labels may
// be, or else by the label.
func TestPrebuilt(t *testing.T) {
	for name, tc := range map[string]struct {
		annotation, label text
		want              string
	}{
		"neither":    {nil, nil, ""},
		"label":      {nil, text{kueue.PrebuiltWorkloadLabel: "l"}, "l"},
		"annotation": {text{kueue.PrebuiltWorkloadLabel: "a"}, nil, "a"},
		"both":       {text{kueue.PrebuiltWorkloadLabel: "a"}, text{kueue.PrebuiltWorkloadLabel: "l"}, "a"},
	} {
		if got := jobs.Prebuilt(&metav1.ObjectMeta{Annotations: tc.annotation, Labels: tc.label}); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

func TestPriorityClass(t *testing.T) {
	for name, tc := range map[string]struct {
		list  []string
		class string
		want  bool
	}{
		"any":             {nil, "mine", true},
		"the system's":    {nil, "system-node-critical", false},
		"listed":          {[]string{"mine"}, "mine", true},
		"not listed":      {[]string{"mine"}, "yours", false},
		"a listed system": {[]string{"system-node-critical"}, "system-node-critical", true},
		"none allowed":    {[]string{}, "mine", false},
	} {
		if got := (jobs.Limits{PriorityClasses: tc.list}).PriorityClass(tc.class); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// Pods that ask for one of our schedulers, by whatever name, have it.
func TestScheduler(t *testing.T) {
	ours := jobs.SchedulerNames()
	for name, tc := range map[string]struct {
		asked, given string
		ours         []string
		want         string
	}{
		"nothing":                  {"", "mlbatch-scheduler", ours, "mlbatch-scheduler"},
		"another":                  {"default-scheduler", "mlbatch-scheduler", ours, "mlbatch-scheduler"},
		"an old name":              {"sakkara", "mlbatch-scheduler", ours, "sakkara"},
		"none of ours":             {"default-scheduler", "", ours, "default-scheduler"},
		"the one that is given":    {"", "default-scheduler", ours, "default-scheduler"},
		"ours, beside a given one": {"sakkara", "default-scheduler", ours, "sakkara"},
		"ours, which does not run": {"sakkara", "default-scheduler", nil, "default-scheduler"},
		"nothing and none":         {"", "", ours, ""},
	} {
		if got := (jobs.Schedulers{Given: tc.given, Ours: tc.ours}).Of(tc.asked); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}
