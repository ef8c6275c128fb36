package simnode

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"
)

// Main is the program of the node simulator.
func Main(ctx context.Context, args []string) error {
	var kubeconfig, health string
	var scale float64
	f := flag.NewFlagSet("nodes", flag.ContinueOnError)
	f.StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig of the cluster")
	f.StringVar(&health, "health-address", "", "host:port of /healthz")
	f.Float64Var(&scale, "time-scale", 1, "how many times faster than real time pods run")
	if err := f.Parse(args); err != nil {
		return fmt.Errorf("read flags: %w", err)
	}
	if scale <= 0 {
		return fmt.Errorf("--time-scale %g: must be greater than 0", scale)
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return fmt.Errorf("read kubeconfig %q: %w", kubeconfig, err)
	}
	cfg.QPS = -1
	cfg.UserAgent = "mlbatch-nodes"
	cfg.ContentType = "application/vnd.kubernetes.protobuf"
	cfg.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	cl, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return fmt.Errorf("connect to the API server: %w", err)
	}
	s, err := newSimulator(cl, clock.RealClock{}, scale)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	return serve(ctx, s, health)
}

// serve runs the simulator and its health endpoint until ctx ends.
func serve(ctx context.Context, s *simulator, address string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		if !s.ready() {
			http.Error(w, "nodes and pods are not known yet", http.StatusServiceUnavailable)
		}
	})
	srv := &http.Server{Addr: address, Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := srv.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
			cancel(fmt.Errorf("serve /healthz: %w", err))
		}
	}()
	s.run(ctx)
	err := context.Cause(ctx)
	_ = srv.Close()
	<-ended
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
