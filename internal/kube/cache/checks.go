package cache

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	apimeta "k8s.io/apimachinery/pkg/api/meta"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
)

// admissionCheck is what the queues that name a check have to know of it.
type admissionCheck struct {
	answered   bool // some controller is ready to answer it
	provisions bool // it makes nodes once quota is reserved
}

// check notes an AdmissionCheck, and which queues have to be told anew.
func (b *batch) check(c Change) {
	o, exists := c.Object.(*kueue.AdmissionCheck)
	var is admissionCheck
	if exists {
		is.answered = apimeta.IsStatusConditionTrue(o.Status.Conditions, kueue.AdmissionCheckActive)
		is.provisions = o.Spec.ControllerName == kueue.ProvisioningRequestControllerName
	}
	if was, known := b.world.checks[c.Name]; known == exists && was == is {
		return
	}
	if exists {
		b.world.checks[c.Name] = is
	} else {
		delete(b.world.checks, c.Name)
	}
	for name, q := range b.world.queues {
		if slices.Contains(checksOf(q), c.Name) {
			b.queues[name] = true
		}
	}
}

func (b *batch) queue(c Change) {
	q, ok := c.Object.(*kueue.ClusterQueue)
	if !ok {
		delete(b.world.queues, c.Name)
		b.events = append(b.events, gone(c.Ref))
		return
	}
	b.world.queues[c.Name] = q
	b.queues[c.Name] = true
}

// changedQueues returns the events of the queues that are to be told.
func (b *batch) changedQueues() []core.Event {
	var out []core.Event
	for _, name := range slices.Sorted(maps.Keys(b.queues)) {
		object, ok := b.world.queues[name]
		if !ok {
			continue
		}
		q := convert.Queue(object)
		if q.Inactive == "" {
			q.Inactive = b.world.unanswered(checksOf(object))
		}
		q.Provisioned = b.world.provisioned(object)
		out = append(out, core.QueueSet{Queue: q})
	}
	return out
}

// unanswered says why nobody answers one of the checks, "" if somebody answers
// each.
func (w *World) unanswered(checks []string) string {
	var missing, inactive []string
	for _, name := range checks {
		if check, exists := w.checks[name]; !exists {
			missing = append(missing, name)
		} else if !check.answered {
			inactive = append(inactive, name)
		}
	}
	switch {
	case len(missing) > 0:
		return fmt.Sprintf("its admission checks %s do not exist", strings.Join(missing, ", "))
	case len(inactive) > 0:
		return fmt.Sprintf("no controller answers its admission checks %s: they are not Active", strings.Join(inactive, ", "))
	}
	return ""
}

// provisioned lists the flavors of a queue whose nodes are made on demand, sorted.
func (w *World) provisioned(q *kueue.ClusterQueue) []string {
	if q.Spec.AdmissionChecksStrategy == nil {
		return nil
	}
	var out []string
	for _, c := range q.Spec.AdmissionChecksStrategy.AdmissionChecks {
		if !w.checks[string(c.Name)].provisions {
			continue
		}
		for _, g := range q.Spec.ResourceGroups {
			for _, f := range g.Flavors {
				if len(c.OnFlavors) == 0 || slices.Contains(c.OnFlavors, f.Name) {
					out = append(out, string(f.Name))
				}
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func checksOf(q *kueue.ClusterQueue) []string {
	if q.Spec.AdmissionChecksStrategy == nil {
		return nil
	}
	var out []string
	for _, c := range q.Spec.AdmissionChecksStrategy.AdmissionChecks {
		out = append(out, string(c.Name))
	}
	return out
}
