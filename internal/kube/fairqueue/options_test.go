package fairqueue_test

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/mlbatch/mlbatch/internal/kube/fairqueue"
)

// After an API server was away for an hour, nothing waits longer than half a minute
// for its next try.
func TestPausesAreBounded(t *testing.T) {
	limiter := fairqueue.Options().RateLimiter
	r := reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "blue", Name: "job"}}
	if first := limiter.When(r); first > 10*time.Millisecond {
		t.Errorf("the first pause is %s", first)
	}
	for range 40 {
		if pause := limiter.When(r); pause > 30*time.Second {
			t.Fatalf("a pause of %s", pause)
		}
	}
}
