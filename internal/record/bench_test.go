package record

import (
	"testing"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
)

// bigEvent is a workload as it is seen after its admission.
func bigEvent() core.WorkloadSet {
	at := time.Unix(1000, 0)
	requests := core.MakeResources(map[string]core.Amount{core.CPU: 8000, core.GPU: 8, core.Memory: 64 << 30})
	return core.WorkloadSet{Workload: core.Workload{
		Key: core.Key{
			Namespace: "blue",
			Name:      "appwrapper-normal-x7k2p",
		},
		UID:       "0f6e8a5c-5f0e-4a53-9d5c-2f5cc4b2a8ab",
		Queue:     "default-queue",
		Priority:  5,
		Created:   at,
		QueueTime: at,
		Reserved:  at,
		Admitted:  true,
		Ready:     true,
		Seq:       12345,
		PodSets:   []core.PodSet{{Name: "main", Count: 4, Requests: requests}},
		Admission: &core.Admission{Queue: "blue-cluster-queue", PodSets: []core.PodSetAdmission{
			{
				Name:  "main",
				Count: 4,
				Usage: requests.Times(4),
				Flavors: []core.FlavorChoice{
					{Resource: core.CPU, Flavor: "default-flavor"},
					{Resource: core.Memory, Flavor: "default-flavor"},
					{Resource: core.GPU, Flavor: "default-flavor"},
				},
				Places: []core.Place{
					{Node: "node-1", Count: 1},
					{Node: "node-2", Count: 1},
					{Node: "node-3", Count: 1},
					{Node: "node-4", Count: 1},
				},
			},
		}},
	}}
}

// BenchmarkEvent is what the recorder's goroutine does for an event.
func BenchmarkEvent(b *testing.B) {
	c, ev := NewCodec(), core.Event(bigEvent())
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		var err error
		if buf, err = c.AppendEvent(buf[:0], ev); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(int64(len(buf)))
}

// BenchmarkRecord is what a decision costs the loop.
func BenchmarkRecord(b *testing.B) {
	r := &Recorder{in: make(chan cycle, backlog), started: true}
	events := []core.Event{bigEvent()}
	at := time.Unix(1000, 0)
	b.ReportAllocs()
	for b.Loop() {
		r.Record(events, at, nil, nil)
		<-r.in
	}
}

// BenchmarkRead is what a replay does for an event.
func BenchmarkRead(b *testing.B) {
	text, err := NewCodec().AppendEvent(nil, bigEvent())
	if err != nil {
		b.Fatal(err)
	}
	l := newLines()
	b.ReportAllocs()
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if _, err := l.parse(text[:len(text)-1]); err != nil {
			b.Fatal(err)
		}
	}
}
