package v1beta1_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mlbatch/mlbatch/api/kueue/v1beta1"
	"github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// FuzzQuota converts a ClusterQueue as its author wrote it to the version that is
// stored and back: every quantity means the same.
func FuzzQuota(f *testing.F) {
	for _, s := range []string{"8", "1500m", "1Gi", "1e3", "0.5", "9223372036854775807", "1n"} {
		f.Add(s, s, "Borrow")
	}
	f.Add("1", "-1", "TryNextFlavor")
	f.Fuzz(func(t *testing.T, nominal, limit, policy string) {
		text, err := json.Marshal(map[string]any{"spec": map[string]any{
			"flavorFungibility": map[string]any{"whenCanBorrow": policy},
			"resourceGroups": []any{
				map[string]any{"coveredResources": []string{"cpu"}, "flavors": []any{
					map[string]any{
						"name":      "f",
						"resources": []any{map[string]any{"name": "cpu", "nominalQuota": nominal, "borrowingLimit": limit}},
					},
				}},
			},
		}})
		if err != nil {
			return
		}
		var old, back v1beta1.ClusterQueue
		if json.Unmarshal(text, &old) != nil {
			return // no quantity
		}
		var hub, stored v1beta2.ClusterQueue
		check(t, old.ConvertTo(&hub))
		text, err = json.Marshal(hub) // as it lies in etcd
		check(t, err)
		check(t, json.Unmarshal(text, &stored))
		check(t, back.ConvertFrom(&stored))
		if diff := cmp.Diff(old, back); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// FuzzKept reads objects whose annotations others made up: they change nothing
// and break nothing, and what is kept of them is what they keep.
func FuzzKept(f *testing.F) {
	f.Add(`{"quotaManagement":"Automated"}`, "a")
	f.Add(`{"quotaManagement":5}`, "")
	f.Add(`{`, "b")
	f.Fuzz(func(t *testing.T, annotation, cluster string) {
		in := v1beta1.MultiKueueConfig{Spec: v1beta1.MultiKueueConfigSpec{Clusters: []string{cluster}}}
		in.Annotations = map[string]string{v1beta1.OnlyV1beta2Annotation: annotation}
		var hub, again v1beta2.MultiKueueConfig
		var down v1beta1.MultiKueueConfig
		check(t, in.ConvertTo(&hub))
		if len(hub.Spec.Clusters) != 1 || hub.Spec.Clusters[0] != cluster {
			t.Errorf("the annotation changed what the object says: %v", hub.Spec)
		}
		check(t, down.ConvertFrom(&hub))
		check(t, down.ConvertTo(&again))
		if diff := cmp.Diff(hub, again); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}
