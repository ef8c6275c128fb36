package scheduler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/component-base/metrics/legacyregistry"
)

// serve answers /healthz, /readyz and /metrics until the context ends. It
// speaks plain HTTP: by default nothing outside the machine can reach it, and it
// tells nothing secret.
func serve(ctx context.Context, o Options, ready func() error) (wait func() error, err error) {
	lc := net.ListenConfig{}
	ln, err := lc.Listen(
		ctx,
		"tcp",
		net.JoinHostPort(cmp.Or(o.BindAddress, "127.0.0.1"), strconv.Itoa(o.HealthPort)),
	)
	if err != nil {
		return nil, fmt.Errorf(
			"listen for health checks on port %d (choose another with --health-port): %w",
			o.HealthPort,
			err,
		)
	}
	mux := http.NewServeMux()
	healthz.InstallHandler(mux, healthz.PingHealthz)
	healthz.InstallReadyzHandler(mux, healthz.NamedCheck("caches", func(*http.Request) error { return ready() }))
	mux.Handle("/metrics", legacyregistry.Handler())
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(ln) }()
	stop := context.AfterFunc(ctx, func() { _ = srv.Close() })
	return func() error {
		defer stop()
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve health checks: %w", err)
		}
		return nil
	}, nil
}
