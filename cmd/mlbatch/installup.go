package main

import (
	"context"
	"fmt"

	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mlbatch/mlbatch/internal/kube/install"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
	"github.com/mlbatch/mlbatch/internal/local"
	"github.com/mlbatch/mlbatch/internal/local/names"
)

// installMLBatch prepares an embedded API server for mlbatch.
func installMLBatch(ctx context.Context, a local.Access) error {
	cl, err := client.New(a.Client, client.Options{Scheme: scheme.New()})
	if err != nil {
		return fmt.Errorf("connect to the API server: %w", err)
	}
	var schedulers []string // the usual ones
	if a.StockScheduler {
		schedulers = []string{}
	}
	err = install.Apply(ctx, cl, install.Options{
		SchedulerNames: schedulers,
		WebhookURL:     a.WebhookURL,
		CABundle:       a.CABundle,
		ControllerUser: names.ControllerUser,
		SchedulerUser:  names.SchedulerUser,
		Foreign:        true,
		Visibility:     &install.Visibility{ExternalName: "localhost", Port: int32(a.VisibilityPort)}, //nolint:gosec // a port
	})
	if err != nil {
		return err
	}
	served, err := discovery.NewDiscoveryClientForConfig(a.Client)
	if err != nil {
		return fmt.Errorf("connect to the API server: %w", err)
	}
	return install.Wait(ctx, cl, served)
}
