package local

import (
	"errors"
	"sync"
	"testing"
)

// Clusters that start in the same moment get different ports, though none of
// their components listens yet; what one releases, another may have.
func TestChoosePortsAtTheSameTime(t *testing.T) {
	const clusters = 40
	last := Ports{API: lowestPort, Etcd: lowestPort + 1} // all come from one copied directory
	all, held := make([]Ports, clusters), make([]*claims, clusters)
	var wg sync.WaitGroup
	for i := range clusters {
		wg.Go(func() {
			var err error
			if all[i], held[i], err = choosePorts(t.Context(), last, 0); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	by := map[int]int{}
	for i := range all {
		for _, port := range all[i].all() {
			if other, taken := by[*port]; taken {
				t.Errorf("clusters %d and %d have port %d", other, i, *port)
			}
			by[*port] = i
		}
	}
	if _, c, err := choosePorts(t.Context(), Ports{}, all[0].API); !errors.Is(err, ErrPortInUse) {
		t.Errorf("a port that another cluster has: got %v, want %v", err, ErrPortInUse)
		c.release()
	}
	for _, c := range held {
		c.release()
	}
	again, c, err := choosePorts(t.Context(), all[0], 0)
	if err != nil || again != all[0] {
		t.Errorf("ports of the last run: got %+v and %v, want %+v", again, err, all[0])
	}
	c.release()
}
