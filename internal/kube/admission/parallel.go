package admission

import (
	"errors"
	"sync"
)

// atOnce is how many requests are made at the same time for one job.
const atOnce = 16

// InParallel does something for the numbers below n, a few at the same time, and returns all errors: what fails for one
// keeps no other from it.
func InParallel(n int, do func(int) error) error {
	errs := make([]error, n)
	var all sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for i := range n {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			errs[i] = do(i)
		})
	}
	all.Wait()
	return errors.Join(errs...)
}
