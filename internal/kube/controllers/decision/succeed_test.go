package decision_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/apply"
	"github.com/mlbatch/mlbatch/internal/kube/controllers/decision"
)

// heir is a lead that was another's.
type heir struct {
	mu      sync.Mutex
	names   []string
	settled bool
}

func (h *heir) Announce(context.Context, string) (func(apply.WriteResult), error) {
	return func(apply.WriteResult) {}, nil
}
func (h *heir) Gone(string) {}

func (h *heir) Inherited() []string { return h.names }

func (h *heir) Settled() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.settled = true
}

func (h *heir) isSettled() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.settled
}

// behind is an API server that knows of a workload of which the watches do not tell yet.
type behind struct {
	client.Reader
	there bool
	asked chan struct{}
}

func (b *behind) List(_ context.Context, l client.ObjectList, _ ...client.ListOption) error {
	list, is := l.(*metav1.PartialObjectMetadataList)
	if !is {
		return errors.New("more than metadata was asked for")
	}
	list.Items = nil
	if b.there {
		list.Items = []metav1.PartialObjectMetadata{
			{ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "late", ResourceVersion: "1"}},
		}
	}
	select {
	case b.asked <- struct{}{}:
	default:
	}
	return nil
}

// Whoever follows another touches what that one was about to write, each workload that is still
// there, before it decides.
func TestTouchesWhatWasAnnounced(t *testing.T) {
	h := &heir{names: []string{"blue/w", "blue/gone"}}
	s := newShop(
		t,
		decision.Options{Lead: h},
		&kueue.Workload{ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "w"}},
	)
	s.start()
	w := &kueue.Workload{}
	if err := s.server.Get(t.Context(), client.ObjectKey{Namespace: "blue", Name: "w"}, w); err != nil {
		t.Fatal(err)
	}
	if w.Annotations[decision.TouchedAnnotation] == "" || !h.isSettled() {
		t.Errorf("it decides; annotations %v, settled: %v", w.Annotations, h.isSettled())
	}
}

// Nothing is decided while the watches are behind what the API server has.
func TestDecidesOnNothingOld(t *testing.T) {
	b := &behind{there: true, asked: make(chan struct{}, 1)}
	s := newShop(t, decision.Options{Live: b})
	started := make(chan struct{})
	go func() { s.start(); close(started) }()
	<-b.asked
	select {
	case <-s.loop.Decides():
		t.Error("it decides without a workload that is there")
	case <-time.After(300 * time.Millisecond):
	}
	s.put(&kueue.Workload{ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "late"}})
	<-started
}
