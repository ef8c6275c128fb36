package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	appwrapper "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	"github.com/mlbatch/mlbatch/examples"
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
	if err := c.Create(ctx, &aw); err != nil {
		return fmt.Errorf("create %s job as %s in %s: %w", sample, user, namespace, err)
	}
	job := key(&aw)
	return s.until(ctx, job+" appears", func(t Timeline) bool {
		_, seen := t.first(job, Submitted)
		return seen
	})
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
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": map[string]*string{healthLabel: value}}})
	if err != nil {
		return fmt.Errorf("label node %s: %w", node, err)
	}
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}
	if err := s.admin.Patch(ctx, n, client.RawPatch(types.MergePatchType, patch)); err != nil {
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
		if err := s.admin.DeleteAllOf(ctx, &appwrapper.AppWrapper{}, client.InNamespace(ns)); err != nil {
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
