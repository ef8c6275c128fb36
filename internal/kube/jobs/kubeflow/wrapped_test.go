package kubeflow_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/mlbatch/mlbatch/internal/engine/lifecycle"
)

// template reads an object as an AppWrapper has it.
func (v variant) template(t *testing.T, text string) map[string]any {
	t.Helper()
	o := v.decode(t, text)
	data, err := yaml.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := yaml.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	whole(out)
	return out
}

// whole makes whole numbers integers, as the API server reads them.
func whole(o map[string]any) {
	for k, x := range o {
		switch x := x.(type) {
		case float64:
			o[k] = int64(x)
		case map[string]any:
			whole(x)
		}
	}
}

// TestWrapped: an AppWrapper counts the same pods as a queue does.
func TestWrapped(t *testing.T) {
	for name, v := range variants() {
		t.Run(name, func(t *testing.T) {
			sets, err := v.kind.Queueing.Wrapped.PodSets(
				v.template(t, strings.Replace(v.roles(), "Worker", "wORKER", 1)),
			)
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]int32{}
			for _, s := range sets {
				got[s.Path] = *s.Replicas
				if s.Annotations["workload.codeflare.dev.appwrapper/tas-pod-index-label"] != "training.kubeflow.org/replica-index" {
					t.Errorf("%s: which label has the index: %v", s.Path, s.Annotations)
				}
			}
			want := map[string]int32{"template.spec." + v.field + ".wORKER.template": 3}
			if strings.Contains(v.roles(), "Master") {
				want["template.spec."+v.field+".Master.template"] = 1
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			for what, spec := range map[string]any{"no object": "x", "roles that are none": map[string]any{v.field: "x"}} {
				if sets, err := v.kind.Queueing.Wrapped.PodSets(
					map[string]any{"spec": spec},
				); err == nil ||
					!strings.HasPrefix(err.Error(), "read the roles: ") {
					t.Errorf("%s: %v, %v", what, sets, err)
				}
			}
		})
	}
}

// TestWrappedOutcome: the job's own account of how it ended counts.
func TestWrappedOutcome(t *testing.T) {
	for name, v := range variants() {
		t.Run(name, func(t *testing.T) {
			for condition, want := range map[string]lifecycle.Outcome{"Running": lifecycle.Undecided, "Succeeded": lifecycle.Completed, "Failed": lifecycle.Broken} {
				o := map[string]any{
					"status": map[string]any{
						"conditions": []any{map[string]any{"type": condition, "status": "True", "message": "m"}},
					},
				}
				if got, _ := v.kind.Queueing.Wrapped.Outcome(o); got != want {
					t.Errorf("%s: %v, want %v", condition, got, want)
				}
			}
			if diff := cmp.Diff(
				[][]string{{"spec", "runPolicy", "suspend"}, {"spec", "runPolicy", "ttlSecondsAfterFinished"}},
				v.kind.Queueing.Wrapped.Dropped,
			); diff != "" {
				t.Errorf("these are the AppWrapper's to say: %s", diff)
			}
		})
	}
}

// TestWrappedFailure: why a job failed is told without what its AppWrapper says before it.
func TestWrappedFailure(t *testing.T) {
	for kind, v := range variants() {
		for message, want := range map[string]string{
			kind + " blue/x failed: x-worker-0 failed: container c exited with code 1, Error.": "x-worker-0 failed: container c exited with code 1, Error",
			kind + " blue/x is failed because 1 Worker replica(s) failed.":                     kind + " blue/x is failed because 1 Worker replica(s) failed",
		} {
			o := map[string]any{
				"metadata": map[string]any{"namespace": "blue", "name": "x"},
				"status": map[string]any{
					"conditions": []any{map[string]any{"type": "Failed", "status": "True", "message": message}},
				},
			}
			if _, got := v.kind.Queueing.Wrapped.Outcome(o); got != want {
				t.Errorf("%s: it says %q, want %q", kind, got, want)
			}
		}
	}
}

// TestWrappedGrowth: workers that become more while they run are not counted.
func TestWrappedGrowth(t *testing.T) {
	for _, kind := range []string{"PyTorchJob", "PaddleJob"} {
		v := variants()[kind]
		for policy, grows := range map[string]bool{"maxReplicas: 4": true, "maxReplicas: 3": false, "minReplicas: 1": false} {
			o := v.template(t, "elasticPolicy: {"+policy+"}, ROLES: {worker: {replicas: 3, POD}}")
			got := v.kind.Queueing.Wrapped.Unbounded(o)
			if grows != (len(got) == 1) ||
				grows &&
					(got[0].Path != "template.spec.elasticPolicy.maxReplicas" || !strings.Contains(got[0].Cure, "at most 3")) {
				t.Errorf("%s, %s: %+v", kind, policy, got)
			}
		}
	}
}
