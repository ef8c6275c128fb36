package scheduler

import (
	"context"
	"fmt"
	"net/http"
	"os"

	"k8s.io/apimachinery/pkg/util/uuid"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/mlbatch/mlbatch/internal/kube/leaderelection"
)

// LeaseName is the Lease that schedulers compete for.
const LeaseName = "mlbatch-scheduler"

// Election says whether others schedule for the same names, and where they compete.
type Election struct {
	Enabled bool
	// Namespace is where the Lease is.
	Namespace string
}

// candidate returns what competes for the lead, and a configuration of clients that write
// only while this process has it for certain. Without an election it returns none, and
// the configuration as it is.
//
// Two schedulers could give the same room to two pods, as each binding is on condition
// only that its pod is unbound. For pods of Workloads they cannot: room is given by the
// plan, which is in the API. For others, a scheduler that was stopped and goes on is refused
// here; the bindings that it had sent already the kubelet judges as any other.
func candidate(o Options, ready <-chan struct{}) (*leaderelection.Candidate, *rest.Config, error) {
	if !o.Election.Enabled {
		return nil, o.Client, nil
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, nil, fmt.Errorf("name this process: %w", err)
	}
	leases, err := coordinationclient.NewForConfig(
		rest.AddUserAgent(rest.CopyConfig(o.Client), "leader-election"),
	)
	if err != nil {
		return nil, nil, fmt.Errorf("connect to compete for the lead: %w", err)
	}
	c := leaderelection.New(leaderelection.Options{
		Leases: leases.Leases(o.Election.Namespace), Namespace: o.Election.Namespace, Name: LeaseName,
		Identity: host + "_" + string(uuid.NewUUID()), Clock: clock.RealClock{}, Ready: ready,
	})
	guarded := rest.CopyConfig(o.Client)
	guarded.Wrap(func(rt http.RoundTripper) http.RoundTripper { return guard{rt, c.Valid} })
	return c, guarded, nil
}

// guard sends nothing that changes something unless it may be sent.
type guard struct {
	http.RoundTripper
	valid func() error
}

// RoundTrip sends a request.
func (g guard) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method != http.MethodGet {
		if err := g.valid(); err != nil {
			return nil, fmt.Errorf("nothing is written: %w", err)
		}
	}
	return g.RoundTripper.RoundTrip(req)
}

// campaign is one for the lead; nil where there is no election.
type campaign struct {
	candidate *leaderelection.Candidate
	end       context.CancelFunc
	// over is closed when it ended, with result.
	over   chan struct{}
	result error
}

// compete wants the lead from now on, and takes it when this process could schedule. It ends with the
// context, unless this process leads by then.
func (p *process) compete(ctx context.Context) *campaign {
	if p.candidate == nil {
		return nil
	}
	// Once this process leads, renewals go on until all that binds has ended.
	renewing, end := context.WithCancel(context.WithoutCancel(ctx))
	c := &campaign{candidate: p.candidate, end: end, over: make(chan struct{})}
	context.AfterFunc(ctx, func() {
		select {
		case <-c.candidate.Won():
		default:
			end()
		}
	})
	go func() {
		defer close(c.over)
		c.result = c.candidate.Run(renewing)
	}()
	return c
}

// elect returns when this process schedules, with a context that ends when another one does, and
// what gives the lead back after all has ended. Without an election that is at once.
func (c *campaign) elect(ctx context.Context) (elected context.Context, giveBack func() error) {
	if c == nil {
		return ctx, func() error { return nil }
	}
	elected, end := context.WithCancel(ctx)
	go func() { <-c.over; end() }()
	select {
	case <-c.candidate.Won():
	case <-elected.Done():
	}
	return elected, func() error {
		end()
		c.end()
		<-c.over
		if err := c.candidate.Release(context.WithoutCancel(ctx)); err != nil && c.result == nil {
			return fmt.Errorf("give the lead back: %w", err)
		}
		return c.result
	}
}
