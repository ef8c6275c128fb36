package simnode

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"
)

// Main is the program of the node simulator.
func Main(ctx context.Context, args []string) error {
	var kubeconfig, health, calls string
	var o options
	f := flag.NewFlagSet("nodes", flag.ContinueOnError)
	f.StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig of the cluster")
	f.StringVar(&health, "health-address", "", "host:port of /healthz")
	f.Float64Var(&o.scale, "time-scale", 1, "how many times faster than real time pods run")
	f.Func(
		"fleet",
		"what the nodes are like, as JSON",
		func(s string) error { return json.Unmarshal([]byte(s), &o.fleet) },
	)
	f.StringVar(
		&o.kubelets.address,
		"kubelet-address",
		"",
		"host:port where the kubelets answer the API server; empty for nowhere",
	)
	f.StringVar(&o.kubelets.certFile, "kubelet-cert-file", "", "certificate of the kubelets")
	f.StringVar(&o.kubelets.keyFile, "kubelet-key-file", "", "its key")
	f.StringVar(&o.kubelets.clientCA, "kubelet-client-ca-file", "", "authority that vouches for the API server")
	f.StringVar(
		&calls,
		"call-address",
		"",
		"host:port of a proxy by which pods are reached that answer; empty for nowhere",
	)
	if err := f.Parse(args); err != nil {
		return fmt.Errorf("read flags: %w", err)
	}
	if o.scale <= 0 {
		return fmt.Errorf("--time-scale %g: must be greater than 0", o.scale)
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
	if o.objects, err = dynamic.NewForConfig(dynamicConfig(cfg)); err != nil {
		return fmt.Errorf("connect to the API server: %w", err)
	}
	s, err := newSimulator(cl, clock.RealClock{}, o)
	if err != nil {
		return err
	}
	servers := []listener{healthServer(s, health)}
	if o.kubelets.address != "" {
		srv, err := kubelets{s}.server(o.kubelets)
		if err != nil {
			return err
		}
		servers = append(
			servers,
			listener{srv, func() error { return srv.ListenAndServeTLS(o.kubelets.certFile, o.kubelets.keyFile) }},
		)
	}
	if calls != "" {
		d, err := newDashboards(s)
		if err != nil {
			return err
		}
		servers = append(servers, d.server(calls))
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	return serve(ctx, s, servers)
}

// dynamicConfig is a configuration for objects that the API server has as JSON alone.
func dynamicConfig(cfg *restclient.Config) *restclient.Config {
	out := restclient.CopyConfig(cfg)
	out.ContentType, out.AcceptContentTypes = "", ""
	return out
}

// options are what a simulator is told.
type options struct {
	scale    float64
	fleet    Fleet
	kubelets endpoint
	// objects reads objects of any kind; nil reads none.
	objects dynamic.Interface
}

// listener is a server and what makes it listen.
type listener struct {
	server *http.Server
	listen func() error
}

func healthServer(s *simulator, address string) listener {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		if !s.ready() {
			http.Error(w, "nodes and pods are not known yet", http.StatusServiceUnavailable)
		}
	})
	srv := &http.Server{Addr: address, Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	return listener{srv, srv.ListenAndServe}
}

// serve runs the simulator and its servers until ctx ends.
func serve(ctx context.Context, s *simulator, servers []listener) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var running sync.WaitGroup
	for _, l := range servers {
		running.Go(func() {
			if err := l.listen(); !errors.Is(err, http.ErrServerClosed) {
				cancel(fmt.Errorf("serve on %s: %w", l.server.Addr, err))
			}
		})
	}
	s.run(ctx)
	err := context.Cause(ctx)
	for _, l := range servers {
		_ = l.server.Close()
	}
	running.Wait()
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
