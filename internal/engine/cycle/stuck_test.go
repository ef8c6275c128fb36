package cycle

import "fmt"

// CheckStuck judges the first workload of every parked group that the bounds say is
// stuck: it must be refused. Bounds may be too hopeful, never too gloomy.
func (e *Engine) CheckStuck() error {
	if e.edited || e.forest.Dirty() {
		return nil
	}
	defer e.ask().end() // a question changes nothing
	for _, q := range e.sortedQueues() {
		for _, g := range q.groups {
			if q.closed != nil || !g.parked || g.why == nil || !e.judge.stuck(g) {
				continue
			}
			w := g.members.First()
			v := e.judge.verdict(w)
			if v.kind != refuse {
				return fmt.Errorf(
					"%s is stuck for %s, and yet there is something to be done: kind %d, %d victims",
					w.Key,
					g.why.Code,
					v.kind,
					len(v.victims),
				)
			}
		}
	}
	return nil
}
