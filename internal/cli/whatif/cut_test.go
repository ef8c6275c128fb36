package whatif

import (
	"reflect"
	"strings"
	"testing"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/replay"
	"github.com/mlbatch/mlbatch/internal/sim"
)

// TestCutsAreStruckFromThePast: manifests of a policy promise whole quotas, so that what was recorded is simulated with
// whole ones, too, and the page says so. The recording itself stays as it is.
func TestCutsAreStruckFromThePast(t *testing.T) {
	groups := func(nominal, cut core.Amount) []core.ResourceGroup {
		return []core.ResourceGroup{{Flavors: []core.FlavorQuotas{{
			Flavor: "gpus", Quotas: []core.Quota{{Resource: core.GPU, Nominal: nominal, Cut: cut}},
		}}}}
	}
	queue := func(nominal, cut core.Amount) core.Event {
		return core.QueueSet{Queue: core.Queue{Name: "q", Groups: groups(nominal, cut)}}
	}
	cohort := func(nominal, cut core.Amount) core.Event {
		return core.CohortSet{Cohort: core.Cohort{Name: "c", Groups: groups(nominal, cut)}}
	}
	p := &replay.Past{
		Objects: []core.Event{queue(8, 0), cohort(4, 4)},
		Changes: []replay.Moved{{Event: queue(6, 2)}},
	}
	h := newHistory(p)
	if want := []core.Event{queue(8, 0), cohort(8, 0)}; !reflect.DeepEqual(h.past.Objects, want) {
		t.Errorf("from the beginning: %+v, want %+v", h.past.Objects, want)
	}
	if !reflect.DeepEqual(h.past.Changes[0].Event, queue(8, 0)) {
		t.Errorf("then: %+v, want it whole", h.past.Changes[0].Event)
	}
	if !reflect.DeepEqual(p.Changes[0].Event, queue(6, 2)) {
		t.Errorf("the recording became %+v", p.Changes[0].Event)
	}
	said := strings.Join((&Comparison{Assumed: h.assumed}).remarks(), " ")
	if !strings.Contains(said, "quotas that were cut while nodes were out of service (2 times)") {
		t.Errorf("it says %q", said)
	}
}

// TestFlavorsOfAPolicyKeepTheirSpares: which nodes are kept for recovery is no matter of a ResourceFlavor, so that a
// policy with one does not open them for all jobs.
func TestFlavorsOfAPolicyKeepTheirSpares(t *testing.T) {
	w := &sim.World{Objects: []core.Event{core.FlavorSet{Flavor: core.Flavor{Name: "gpus", KeepsSpares: true}}}}
	(&Policy{Objects: []core.Event{core.FlavorSet{Flavor: core.Flavor{Name: "gpus"}}}}).lay(w)
	if f, is := w.Objects[0].(core.FlavorSet); !is || !f.Flavor.KeepsSpares {
		t.Errorf("it is %+v, want one whose nodes are kept as recorded", w.Objects[0])
	}
}
