package ha

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// A leader decides to admit a workload, and its write is on the way when the process stops, or
// is cut off. Another one leads, and gives the same quota to a workload that came meanwhile.
// Then the write arrives, and the first process goes on: neither changes anything, and it
// learns that it does not lead any more.
func TestNothingAnExLeaderDecidedTakesEffect(t *testing.T) {
	for name, fault := range map[string]struct{ begin, end func(*replica) }{
		"stopped": {func(r *replica) { r.signal(syscall.SIGSTOP) }, func(r *replica) { r.signal(syscall.SIGCONT) }},
		"cut off": {func(r *replica) { r.line.sever() }, func(r *replica) { r.line.heal() }},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlane(t)
			first := p.begin().ready()
			p.eventually("the first one decides", func() error { return leads(first) })
			p.furnish(8, 16)
			second := p.begin().ready()
			// It waits for a node of its pool, which comes when the first one cannot see it any more.
			p.workload("late", 8, 10, "late")
			p.eventually("it is known that it waits", func() error { return p.refused("late") })
			decided := func(r *http.Request) bool {
				return r.Method == http.MethodPut && in(r.URL.Path, "/workloads/early/status")
			}
			write := first.line.capture(decided)
			// What the second one says of the same workload must not be what the late write
			// fails by: it could be later still.
			refusal := second.line.capture(decided)
			p.workload("early", 8, 0, "early")
			<-write.arrived
			fault.begin(first)
			p.node("of-late", 8, "late")
			p.eventually("another one leads and decides", func() error { return p.holds("late") })
			if !second.said(`"Decides"`) {
				t.Fatal("the second one decided before it led")
			}
			close(write.release)
			if got := <-write.answer; got != http.StatusConflict {
				t.Errorf("what the first one had sent was answered %d", got)
			}
			close(refusal.release)
			fault.end(first)
			p.eventually("the first one learns of it", func() error {
				if !first.said("another process leads now") {
					return fmt.Errorf("it did not")
				}
				return nil
			})
			<-first.ended
			if err := p.holds("early"); err == nil {
				t.Error("both have the quota of one")
			}
			if err := p.holds("late"); err != nil {
				t.Error(err)
			}
		})
	}
}

func leads(r *replica) error {
	if !r.said(`"Decides"`) {
		return fmt.Errorf("%s does not", r.name)
	}
	return nil
}

// While both controllers are replaced, one after the other, as a rolling update does, all
// writes go through that webhooks are asked about, and so do reads that they convert; the one
// that is not told to end decides soon.
func TestRollingRestart(t *testing.T) {
	p := newPlane(t)
	one, two := p.begin().ready(), p.begin().ready()
	asked := 0
	p.eventually(
		"the API server trusts the webhooks",
		func() error { asked++; return p.asked(fmt.Sprintf("first-%d", asked)) },
	)
	var writes atomic.Int64
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			if err := p.asked(fmt.Sprintf("flavor-%d", i)); err != nil {
				t.Errorf("after %d writes: %v", i, err)
				return
			}
			writes.Add(1)
		}
	}()
	for _, r := range []*replica{one, two} {
		p.begin().ready()
		r.signal(syscall.SIGTERM)
		<-r.ended
		before := writes.Load()
		p.eventually("writes go on", func() error {
			if writes.Load() < before+20 && !t.Failed() {
				return fmt.Errorf("%d of 20", writes.Load()-before)
			}
			return nil
		})
	}
	close(stop)
	<-stopped
	t.Logf("%d writes", writes.Load())
}

// asked creates a flavor, which a webhook is asked about, and reads it in a version that a
// webhook converts to.
func (p *plane) asked(name string) error {
	f := &kueue.ResourceFlavor{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := p.admin.Create(p.Context(), f); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	old := &metav1.PartialObjectMetadata{}
	old.SetGroupVersionKind(kueue.GroupVersion.WithKind("ResourceFlavor"))
	old.APIVersion = "kueue.x-k8s.io/v1beta1"
	if err := p.admin.Get(p.Context(), client.ObjectKeyFromObject(f), old); err != nil {
		return fmt.Errorf("read %s in another version: %w", name, err)
	}
	return nil
}

// BenchmarkFailover measures how long nobody decides when the leader is killed, stopped, cut off or told
// to end: from then until a workload is admitted on a node that comes at that moment.
func BenchmarkFailover(b *testing.B) {
	const rounds = 8
	for _, fault := range []struct {
		name string
		does func(*replica)
	}{
		{"kill", func(r *replica) { r.signal(syscall.SIGKILL) }},
		{"stop", func(r *replica) { r.signal(syscall.SIGSTOP) }},
		{"cut", func(r *replica) { r.line.sever() }},
		{"term", func(r *replica) { r.signal(syscall.SIGTERM) }},
	} {
		b.Run(fault.name, func(b *testing.B) {
			p := newPlane(b)
			leader := p.begin().ready()
			p.eventually("the first one decides", func() error { return leads(leader) })
			p.furnish(1000, 0)
			var all []time.Duration
			for b.Loop() {
				all = all[:0]
				for i := range rounds {
					follower := p.begin().ready()
					p.workload(fmt.Sprintf("w-%d", i), 8, 0, "")
					name := fmt.Sprintf("node-%d", i)
					if err := p.admin.Create(b.Context(), nodeObject(name)); err != nil {
						b.Fatal(err)
					}
					n := &corev1.Node{}
					if err := p.admin.Get(b.Context(), client.ObjectKey{Name: name}, n); err != nil {
						b.Fatal(err)
					}
					n.Status = nodeStatus(8)
					// Not always at the same moment between two renewals.
					time.Sleep(time.Duration(i) * time.Second / rounds)
					began := time.Now()
					fault.does(leader)
					if err := p.admin.Status().Update(b.Context(), n); err != nil {
						b.Fatal(err)
					}
					p.eventually("somebody decides", func() error { return p.holds(fmt.Sprintf("w-%d", i)) })
					all = append(all, time.Since(began))
					leader.signal(syscall.SIGKILL)
					<-leader.ended
					leader = follower
				}
			}
			b.ReportMetric(0, "ns/op")
			sum, most := time.Duration(0), time.Duration(0)
			for _, d := range all {
				sum, most = sum+d, max(most, d)
			}
			b.ReportMetric(sum.Seconds()/float64(len(all)), "s-mean")
			b.ReportMetric(most.Seconds(), "s-max")
			b.Logf("%v", all)
		})
	}
}
