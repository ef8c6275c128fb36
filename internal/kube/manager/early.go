package manager

import (
	"context"
	"sync"
)

// early is what runs beside a manager from its first moment. A manager starts what is added to it
// when its caches are filled, but for webhooks and probes.
type early struct{ all []func(context.Context) }

// add adds something that runs until its context ends.
func (e *early) add(run func(context.Context)) { e.all = append(e.all, run) }

// with starts a manager and all that was added, which ends with it.
func (e *early) with(start func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		ctx, cancel := context.WithCancel(ctx)
		var running sync.WaitGroup
		for _, run := range e.all {
			running.Go(func() { run(ctx) })
		}
		err := start(ctx)
		cancel()
		running.Wait()
		return err
	}
}
