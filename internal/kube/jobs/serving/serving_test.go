package serving_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/podmeta"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/serving"
)

func kind(t *testing.T, name string) serving.Kind {
	t.Helper()
	all := serving.All()
	at := slices.IndexFunc(all, func(k serving.Kind) bool { return k.GVK.Kind == name })
	if at < 0 {
		t.Fatalf("there is no %s", name)
	}
	return all[at]
}

// What the pods of each kind carry.
func TestMarks(t *testing.T) {
	labels := map[string]any{kueue.QueueNameLabel: "q", kueue.PriorityClassLabel: "high", "app": "x"}
	for name, want := range map[string][]string{
		"Deployment": {"labels queue-name=q", "labels priority-class=high", "annotations pod-suspending-parent=deployment"},
		"ReplicaSet": {"labels queue-name=q", "labels priority-class=high", "annotations pod-suspending-parent=replicaset"},
		"StatefulSet": {
			"labels queue-name=q", "labels priority-class=high", "annotations pod-suspending-parent=statefulset",
			"labels pod-group-name=" + podmeta.StatefulSetGroup("db"), "annotations pod-group-fast-admission=true", "annotations pod-group-serving=true",
			"annotations pod-group-pod-index-label=apps.kubernetes.io/pod-index",
		},
		"CronJob": {"labels queue-name=q", "labels priority-class=high"},
	} {
		k := kind(t, name)
		var got []string
		for _, m := range k.Marks(map[string]any{"metadata": map[string]any{"name": "db", "labels": labels}}) {
			got = append(got, m.Map+" "+strings.TrimPrefix(m.Key, "kueue.x-k8s.io/")+"="+m.Value)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
	sts := kind(t, "StatefulSet")
	for _, m := range sts.Marks(map[string]any{}) {
		if m.Key == kueue.PodGroupNameLabel {
			t.Error("a StatefulSet whose name is not known yet names a group")
		}
	}
}

// The group of a StatefulSet has a name that labels can hold, and no other's.
func TestStatefulSetGroup(t *testing.T) {
	long := strings.Repeat("a", 80)
	names := map[string]bool{}
	for _, n := range []string{"db", "db-1", long, long + "b"} {
		g := podmeta.StatefulSetGroup(n)
		if len(g) > 63 || names[g] {
			t.Errorf("%s: group %s", n, g)
		}
		names[g] = true
	}
}

// A template may not say what only an admission does, nor change what it was given for.
func TestValidate(t *testing.T) {
	object := func(queue, metadata, image string, replicas int64) map[string]any {
		notes := map[string]any{}
		if metadata != "" {
			notes[metadata] = "w"
		}
		return map[string]any{
			"metadata": map[string]any{"name": "db", "labels": map[string]any{kueue.QueueNameLabel: queue}},
			"spec": map[string]any{"replicas": replicas, "template": map[string]any{
				"metadata": map[string]any{"annotations": notes},
				"spec":     map[string]any{"containers": []any{map[string]any{"image": image}}},
			}},
		}
	}
	for name, tc := range map[string]struct {
		why     string
		was, is map[string]any
		want    []string
	}{
		"new":             {"nothing is wrong", nil, object("q", "", "i", 1), nil},
		"forged":          {"its pods would take the places of a running job", nil, object("q", kueue.WorkloadAnnotation, "i", 1), []string{"spec.template.metadata.annotations[" + kueue.WorkloadAnnotation + "]"}},
		"forged later":    {"and then", object("q", "", "i", 1), object("q", kueue.WorkloadAnnotation, "i", 1), []string{"spec.template.metadata.annotations[" + kueue.WorkloadAnnotation + "]"}},
		"another image":   {"it is its author's", object("q", "", "i", 1), object("q", "", "j", 1), nil},
		"part, image":     {"larger pods would go under the same quota", object("", kueue.WorkloadAnnotation, "i", 1), object("", kueue.WorkloadAnnotation, "j", 1), []string{"spec.template"}},
		"part, scaled":    {"further pods find no place", object("", kueue.WorkloadAnnotation, "i", 1), object("", kueue.WorkloadAnnotation, "i", 2), nil},
		"queue, pods":     {"the group waits, or runs, in one", object("q", "", "i", 1), object("r", "", "i", 1), []string{"metadata.labels[" + kueue.QueueNameLabel + "]"}},
		"queue, no pods":  {"there is none that it could bear on", object("q", "", "i", 0), object("r", "", "i", 0), nil},
		"takes part away": {"it would stop being counted", object("", kueue.WorkloadAnnotation, "i", 1), object("", "", "i", 1), []string{"spec.template.metadata.annotations[" + kueue.WorkloadAnnotation + "]", "spec.template"}},
	} {
		k := kind(t, "StatefulSet")
		var got []string
		for _, e := range k.Validate(tc.was, tc.is) {
			got = append(got, e.Field)
		}
		if d := cmp.Diff(tc.want, got); d != "" {
			t.Errorf("%s: %s (-want +got):\n%s", name, tc.why, d)
		}
	}
	label := "metadata.labels[" + kueue.QueueNameLabel + "]"
	for name, tc := range map[string]struct {
		why, kind, from, to string
		replicas            int64
		want                string
	}{
		"removed":             {"its pods run under its quota", "Deployment", "q", "", 1, label},
		"removed, ReplicaSet": {"likewise", "ReplicaSet", "q", "", 1, label},
		"removed, no pods":    {"there is none that it could bear on", "Deployment", "q", "", 0, ""},
		"another queue":       {"its pods are made anew in that", "Deployment", "q", "r", 1, ""},
		"a queue":             {"it comes into one", "Deployment", "", "q", 1, ""},
		"makes Jobs":          {"those that there are stay in theirs", "CronJob", "q", "", 1, ""},
	} {
		k, got := kind(t, tc.kind), ""
		for _, e := range k.Validate(object(tc.from, "", "i", tc.replicas), object(tc.to, "", "i", tc.replicas)) {
			got += e.Field
			if !strings.Contains(e.Detail, "removed while there are pods: scale to 0 first") {
				t.Errorf("%s: %s", name, e.Detail)
			}
		}
		if got != tc.want {
			t.Errorf("%s: %s: refused at %q", name, tc.why, got)
		}
	}
	finalized := map[string]any{
		"spec": map[string]any{
			"jobTemplate": map[string]any{"metadata": map[string]any{"finalizers": []any{"a.b/c"}}},
		},
	}
	k := kind(t, "CronJob")
	if errs := k.Validate(nil, finalized); len(errs) != 1 {
		t.Errorf("finalizers of Jobs: %v", errs)
	}
	if errs := k.Validate(finalized, finalized); len(errs) != 0 {
		t.Errorf("finalizers that were there: %v", errs)
	}
}
