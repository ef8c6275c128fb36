package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	appwrapper "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	"github.com/mlbatch/mlbatch/examples"
	"github.com/mlbatch/mlbatch/internal/engine/nodehealth"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
)

// stage is where a scenario plays: the cluster as its admin and its users
// reach it.
type stage struct {
	config *rest.Config
	admin  client.WithWatch
	users  map[string]client.Client
	clock  clock.Clock
	// patience is how long one step may take at most.
	patience time.Duration
	recorder *Recorder
}

// submit creates a sample job as a user.
func (s *stage) submit(ctx context.Context, user, namespace, sample string) error {
	c, err := s.as(user)
	if err != nil {
		return err
	}
	data, err := examples.Tutorial.ReadFile("tutorial/" + sample + ".yaml")
	if err != nil {
		return fmt.Errorf("read sample job: %w", err)
	}
	var aw appwrapper.AppWrapper
	if err := yaml.UnmarshalStrict(data, &aw); err != nil {
		return fmt.Errorf("read sample job %s: %w", sample, err)
	}
	aw.Namespace = namespace
	inTime, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	if err := create(inTime, s.clock, c, &aw); err != nil {
		return fmt.Errorf("create %s job as %s in %s: %w", sample, user, namespace, err)
	}
	job := key(&aw)
	return s.until(ctx, job+" appears", func(t Timeline) bool {
		_, seen := t.first(job, Submitted)
		return seen
	})
}

// persist does what may be done twice, as below, for as long as a step may take.
func (s *stage) persist(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	return persist(ctx, s.clock, do)
}

// create creates an object, once, until ctx ends: it is named here, so that one of which the API server lost
// its answer is known again.
func create(ctx context.Context, clk clock.Clock, c client.Client, o client.Object) error {
	if o.GetName() == "" {
		o.SetName(o.GetGenerateName() + utilrand.String(suffixLength))
		o.SetGenerateName("")
	}
	tried := false
	return persist(ctx, clk, func(ctx context.Context) error {
		err := c.Create( //nolint:forcetypeassert // a copy is what it is a copy of
			ctx,
			o.DeepCopyObject().(client.Object),
		)
		if tried {
			err = client.IgnoreAlreadyExists(err)
		}
		tried = true
		return err
	})
}

// suffixLength is that of names which the API server makes.
const suffixLength = 5

// persist does what may be done twice until the API server takes it, or ctx ends: one that is busy refuses,
// or loses its answer.
func persist(ctx context.Context, clk clock.Clock, do func(context.Context) error) error {
	for {
		err := do(ctx)
		if err == nil || !busy(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-clk.After(retryEvery):
		}
	}
}

// retryEvery is how long it is waited for an API server that is busy.
const retryEvery = 500 * time.Millisecond

// busy says whether an error may go away by itself: the API server, what it stores in, or what it asks is
// slow or just coming back.
func busy(err error) bool {
	return apierrors.IsInternalError(err) || apierrors.IsServiceUnavailable(err) || apierrors.IsTimeout(err) ||
		apierrors.IsServerTimeout(err) || apierrors.IsTooManyRequests(err)
}

func (s *stage) as(user string) (client.Client, error) {
	if c, ok := s.users[user]; ok {
		return c, nil
	}
	cfg := rest.CopyConfig(s.config)
	cfg.Impersonate.UserName = user
	c, err := client.New(cfg, client.Options{Scheme: scheme.New()})
	if err != nil {
		return nil, fmt.Errorf("connect as %s: %w", user, err)
	}
	s.users[user] = c
	return c, nil
}

// label sets the health label of a node as Autopilot does; "" removes it.
func (s *stage) label(ctx context.Context, node, health string) error {
	var value *string
	if health != "" {
		value = &health
	}
	patch, err := json.Marshal(
		map[string]any{"metadata": map[string]any{"labels": map[string]*string{nodehealth.HealthLabel: value}}},
	)
	if err != nil {
		return fmt.Errorf("label node %s: %w", node, err)
	}
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}
	if err := s.persist(ctx, func(ctx context.Context) error {
		return s.admin.Patch(ctx, n, client.RawPatch(types.MergePatchType, patch))
	}); err != nil {
		return fmt.Errorf("label node %s: %w", node, err)
	}
	return nil
}

func (s *stage) until(ctx context.Context, what string, reached func(Timeline) bool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, s.patience, fmt.Errorf("not within %s", s.patience))
	defer cancel()
	return s.recorder.Until(ctx, what, reached)
}

// pause lets time go by.
func (s *stage) pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-s.clock.After(d):
		return nil
	}
}

// clear deletes all jobs and waits until nothing of them is left.
func (s *stage) clear(ctx context.Context) error {
	t := s.recorder.Timeline()
	for _, ns := range []string{"blue", "red"} {
		if err := s.persist(ctx, func(ctx context.Context) error {
			return s.admin.DeleteAllOf(ctx, &appwrapper.AppWrapper{}, client.InNamespace(ns))
		}); err != nil {
			return fmt.Errorf("delete the jobs in %s: %w", ns, err)
		}
	}
	jobs := t.jobs("")
	return s.until(ctx, "all jobs are gone", func(t Timeline) bool {
		for _, j := range jobs {
			if s := t.stand(j); !s.removed || s.admitted || len(t.pods(j)) > 0 {
				return false
			}
		}
		return true
	})
}
