package inquiry_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/cycle"
	"github.com/mlbatch/mlbatch/internal/engine/inquiry"
)

// TestAdviceIsSoughtWhileTheEngineDecides asks why workloads wait while jobs end and
// others start: the race detector sees whether what is copied is the engine's own.
func TestAdviceIsSoughtWhileTheEngineDecides(t *testing.T) {
	at := time.Unix(1e6, 0)
	e := cycle.New(cycle.Options{})
	waiting := crowded(e, cycle.New(cycle.Options{}), 800, 5, at)
	var mu sync.Mutex
	look := func(ask func(cycle.View)) error {
		mu.Lock()
		defer mu.Unlock()
		ask(e.View())
		return nil
	}
	// One job ends beside each question, so that most still wait when they are asked
	// about, however long the questions take.
	asked := make(chan int)
	var decides sync.WaitGroup
	decides.Go(func() {
		for i := range asked {
			mu.Lock()
			of := i * 7 % 100 // the queue of the job
			e.Apply(core.WorkloadGone{Key: oneGPU(fmt.Sprintf("q-%d-%d", of/20, of%20), i).Key})
			for _, d := range e.Decide(at) {
				if a, is := d.(core.Admit); is {
					e.Apply(core.Applied{Key: a.Key, Seq: 1})
				}
			}
			mu.Unlock()
		}
	})
	advised := 0
	for i, k := range waiting[:min(len(waiting), 40)] {
		asked <- i
		why, _, err := inquiry.Explain(look, k, at, []int64{1})
		if err != nil {
			t.Fatal(err)
		}
		advised += len(why.Advice)
	}
	close(asked)
	decides.Wait()
	if advised == 0 {
		t.Error("nothing was advised")
	}
}
