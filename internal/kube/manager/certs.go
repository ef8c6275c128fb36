package manager

import (
	"context"
	"crypto/tls"
	"fmt"
	"path/filepath"
	"sync"

	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	crmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/mlbatch/mlbatch/internal/kube/certs"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
	mlwebhook "github.com/mlbatch/mlbatch/internal/kube/webhook"
)

// keep makes a certificate, if there can be one yet, and renews it until the end that it returns.
// Nothing else has to run for it: caches may need conversions, which need a certificate that is
// trusted. The keeper is nil where certificates are files.
func keep(ctx context.Context, cfg *rest.Config, opts Options) (*certs.Keeper, func(), error) {
	if opts.Certs == nil {
		return nil, func() {}, nil
	}
	c, err := client.New(cfg, client.Options{Scheme: scheme.New(), FieldOwner: mlwebhook.FieldOwner})
	if err != nil {
		return nil, nil, fmt.Errorf("connect to keep certificates: %w", err)
	}
	o := *opts.Certs
	o.Client, o.Clock = c, clock.RealClock{}
	if o.Targets, err = certs.Called(); err != nil {
		return nil, nil, err
	}
	k, err := certs.New(o)
	if err != nil {
		return nil, nil, err
	}
	expiry := k.Expiry()
	if err := crmetrics.Registry.Register(expiry); err != nil {
		return nil, nil, fmt.Errorf("register the metric of the certificate: %w", err)
	}
	ctx, cancel := context.WithCancel(log.IntoContext(ctx, ctrl.Log.WithName("certificates")))
	looked := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() { k.Run(ctx, func() { close(looked) }) })
	<-looked // servers may start now
	return k, func() { cancel(); running.Wait(); crmetrics.Registry.Unregister(expiry) }, nil
}

// certificate has a server take its certificate from the keeper, if there is one.
func (o Options) certificate() []func(*tls.Config) {
	if o.keeper == nil {
		return nil
	}
	return []func(*tls.Config){func(c *tls.Config) { c.GetCertificate = o.keeper.Certificate }}
}

// content is the same certificate for servers that read it as a file, which they do when they start.
func (o Options) content() func() (dynamiccertificates.CertKeyContentProvider, error) {
	return func() (dynamiccertificates.CertKeyContentProvider, error) {
		if o.keeper != nil {
			return o.keeper, o.keeper.Ready()
		}
		dir := o.WebhookCertDir
		return dynamiccertificates.NewDynamicServingContentFromFiles(
			"files",
			filepath.Join(dir, certs.ServingCert),
			filepath.Join(dir, certs.ServingKey),
		)
	}
}
