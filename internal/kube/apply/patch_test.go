package apply

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// A status write carries what changed and nothing else: every write of a
// Workload is checked, stored and sent to all watchers.
func TestDifference(t *testing.T) {
	count := func(n int32, at *metav1.Time) *kueue.RequeueState {
		return &kueue.RequeueState{Count: &n, RequeueAt: at}
	}
	at := &metav1.Time{}
	cases := map[string]struct {
		why     string
		was, is kueue.WorkloadStatus
		want    string
	}{
		"nothing": {"no write at all", kueue.WorkloadStatus{ClusterName: new("a")}, kueue.WorkloadStatus{ClusterName: new("a")}, `{}`},
		"one field": {
			"the others stay at home",
			kueue.WorkloadStatus{ClusterName: new("a"), RequeueState: count(1, nil)},
			kueue.WorkloadStatus{ClusterName: new("b"), RequeueState: count(1, nil)},
			`{"clusterName":"b"}`,
		},
		"a field goes":  {"null removes it", kueue.WorkloadStatus{ClusterName: new("a")}, kueue.WorkloadStatus{}, `{"clusterName":null}`},
		"a member goes": {"a merge patch would keep it otherwise", kueue.WorkloadStatus{RequeueState: count(2, at)}, kueue.WorkloadStatus{RequeueState: count(2, nil)}, `{"requeueState":{"requeueAt":null}}`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := difference(c.was, c.is)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, string(got)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.why, diff)
			}
		})
	}
}
