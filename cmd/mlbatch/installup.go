package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mlbatch/mlbatch/internal/kube/install"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
	"github.com/mlbatch/mlbatch/internal/local"
	"github.com/mlbatch/mlbatch/internal/local/names"
)

// installer prepares an embedded API server for mlbatch.
type installer struct {
	once     sync.Once
	prepared *install.Installation
	err      error
}

// prepare renders what is installed, once.
func (i *installer) prepare(a local.Access) (*install.Installation, error) {
	i.once.Do(func() {
		var schedulers []string // the usual ones
		if a.StockScheduler {
			schedulers = []string{}
		}
		i.prepared, i.err = install.Prepare(install.Options{
			SchedulerNames: schedulers,
			WebhookURL:     a.WebhookURL,
			CABundle:       a.CABundle,
			ControllerUser: names.ControllerUser,
			SchedulerUser:  names.SchedulerUser,
			Foreign:        true,
			Moved:          a.Moved,
			Visibility: &install.Visibility{
				ExternalName: "localhost",
				Port:         int32(a.VisibilityPort), //nolint:gosec // a port
			},
		})
	})
	return i.prepared, i.err
}

// initial is what the API server is to find at its first start.
func (i *installer) initial(a local.Access) ([]*unstructured.Unstructured, error) {
	x, err := i.prepare(a)
	if err != nil {
		return nil, err
	}
	return x.Initial(time.Now())
}

// install brings the rest, and what is not as it was left.
func (i *installer) install(ctx context.Context, a local.Access) error {
	x, err := i.prepare(a)
	if err != nil {
		return err
	}
	cl, err := client.New(a.Client, client.Options{Scheme: scheme.New()})
	if err != nil {
		return fmt.Errorf("connect to the API server: %w", err)
	}
	if err := x.Apply(ctx, cl); err != nil {
		return err
	}
	served, err := discovery.NewDiscoveryClientForConfig(a.Client)
	if err != nil {
		return fmt.Errorf("connect to the API server: %w", err)
	}
	return x.Wait(ctx, cl, served)
}

// answered waits until what the controller serves can be asked for.
func (i *installer) answered(ctx context.Context, a local.Access) error {
	x, err := i.prepare(a)
	if err != nil {
		return err
	}
	i.prepared = nil // megabytes, in a process that lives as long as the cluster
	cl, err := client.New(a.Client, client.Options{})
	if err != nil {
		return fmt.Errorf("connect to the API server: %w", err)
	}
	return x.WaitAnswered(ctx, cl)
}
