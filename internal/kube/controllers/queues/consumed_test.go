package queues

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
)

// What a LocalQueue used in the past is written whenever it changed, whether a
// sampling or an admission changed it, and says of every resource of the queue
// how much: the next controller begins with it.
func TestConsumedIsWritten(t *testing.T) {
	w := newWorld(t, clusterQueue(), localQueue())
	at := w.clock.Now()
	steps := []struct {
		why      string
		used     map[string]core.Amount
		at       time.Time
		cpu, gpu string
	}{
		{"nothing was used yet", nil, at, "0", "0"},
		{
			"a job was admitted, and what it will use counts at once",
			map[string]core.Amount{core.CPU: 1_500_000},
			at,
			"1500m",
			"0",
		},
		{
			"a sampling counts it older",
			map[string]core.Amount{core.CPU: 750_000, core.GPU: 500},
			at.Add(5 * time.Minute),
			"750m",
			"500m",
		},
		{
			"a sampling in which nothing changes is told",
			map[string]core.Amount{core.CPU: 750_000, core.GPU: 500},
			at.Add(10 * time.Minute),
			"750m",
			"500m",
		},
		{"it is forgotten in the end", nil, at.Add(time.Hour), "0", "0"},
	}
	for i, s := range steps {
		was := w.numbers.local["n/l"]
		w.numbers.local["n/l"] = core.Load{Consumed: core.MakeResources(s.used), ConsumedAt: s.at}
		if i > 0 && was.Equal(w.numbers.local["n/l"]) {
			t.Errorf("%s: the change is not told", s.why)
		}
		w.clock.Step(time.Minute)
		w.reconcile(w.local, localQueue())
		q := localQueue()
		w.read(q)
		got := q.Status.FairSharing.AdmissionFairSharingStatus
		want := corev1.ResourceList{"cpu": resource.MustParse(s.cpu), "nvidia.com/gpu": resource.MustParse(s.gpu)}
		if diff := cmp.Diff(want, got.ConsumedResources); diff != "" || got.LastUpdate.Unix() != s.at.Unix() {
			t.Errorf("%s: as of %v (-want +got):\n%s", s.why, got.LastUpdate, diff)
		}
		if diff := cmp.Diff(core.MakeResources(s.used), convert.LocalQueue(q).Consumed); diff != "" {
			t.Errorf("%s: the next controller begins with (-want +got):\n%s", s.why, diff)
		}
	}
}
