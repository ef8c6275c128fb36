package visibility

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	serverfilters "k8s.io/apiserver/pkg/server/filters"
	"k8s.io/apiserver/pkg/server/options"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/kube/views"
)

// Options say where the API is served and what it knows.
type Options struct {
	// Address is host:port.
	Address string
	// Certificate returns what is served with. It is asked when serving begins, and has
	// changes told from then on.
	Certificate func() (dynamiccertificates.CertKeyContentProvider, error)
	// TLS restricts versions, suites and curves; nil is Go's choice.
	TLS *tls.Config
	// Kubeconfig is how the API server is asked who a user is and what they may;
	// "" is the service account of the pod.
	Kubeconfig string
	Lines      Lines
	// Workloads reads Workloads, and what else bears on them, from a cache.
	Workloads client.Reader
	Clock     clock.Clock
	// SlackQueue is the ClusterQueue that lends less while nodes are out of service.
	SlackQueue string
	// Rules are those by which the engine is told of Workloads.
	Rules convert.Rules
	// Views says what views of jobs are made of.
	Views views.Options
}

// Server serves the API. Every replica of the controller does, also replicas that do
// not decide.
//
// It is served before the caches are filled, and says what there is from then on: as long as nobody
// tells the API server what an API has, no namespace of the cluster can be deleted. What waits, and
// why, is answered once they are.
type Server struct {
	opts   Options
	filled chan struct{}
}

// New returns a server that Serve runs.
func New(opts Options) *Server { return &Server{opts, make(chan struct{})} }

// NeedLeaderElection is false: see Server.
func (s *Server) NeedLeaderElection() bool { return false }

// Start is called by the manager when the caches are filled.
func (s *Server) Start(ctx context.Context) error {
	close(s.filled)
	<-ctx.Done()
	return nil
}

// retryAfter is the pause after a start that failed.
const retryAfter = 10 * time.Second

// Serve serves until the context ends. Where the cluster does not say how to know
// its users (no rights, an API server that cannot pass requests on), it says so
// and tries again: nothing else in the process depends on it.
func (s *Server) Serve(ctx context.Context) {
	for {
		err := s.serve(ctx)
		if ctx.Err() != nil {
			return // it was told to
		}
		log.FromContext(ctx).
			Error(err, "The visibility API is not served; trying again", "after", retryAfter.String())
		select {
		case <-ctx.Done():
			return
		case <-s.opts.Clock.After(retryAfter):
		}
	}
}

// serve returns when the context ends, or if it cannot begin.
func (s *Server) serve(parent context.Context) error {
	ctx, cancel := context.WithCancel(parent) // what was begun ends with a failure
	defer cancel()
	cert, err := s.opts.Certificate()
	if err != nil {
		return fmt.Errorf("read the certificate of the visibility API: %w", err)
	}
	serving := &server.SecureServingInfo{Cert: cert}
	if t := s.opts.TLS; t != nil {
		serving.MinTLSVersion, serving.CipherSuites, serving.CurvePreferences = t.MinVersion, t.CipherSuites, t.CurvePreferences
	}
	var who server.AuthenticationInfo
	var may server.AuthorizationInfo
	authn := options.NewDelegatingAuthenticationOptions()
	authn.RemoteKubeConfigFile = s.opts.Kubeconfig
	if err := authn.ApplyTo(&who, serving, nil); err != nil {
		return fmt.Errorf("learn how the cluster knows its users: %w", err)
	}
	authz := options.NewDelegatingAuthorizationOptions().
		WithAlwaysAllowGroups("system:masters").
		WithAlwaysAllowPaths("/healthz", "/livez", "/readyz")
	authz.RemoteKubeConfigFile = s.opts.Kubeconfig
	if err := authz.ApplyTo(&may); err != nil {
		return fmt.Errorf("ask the cluster what its users may: %w", err)
	}
	var lc net.ListenConfig
	if serving.Listener, err = lc.Listen(ctx, "tcp", s.opts.Address); err != nil {
		return fmt.Errorf("serve the visibility API: %w", err)
	}
	answers := &handler{
		lines:     s.opts.Lines,
		workloads: s.opts.Workloads,
		health:    s.opts.Views.NodeHealth,
		rights:    may.Authorizer,
		clock:     s.opts.Clock,
		slack:     s.opts.SlackQueue,
		rules:     s.opts.Rules,
		filled:    s.filled,
	}
	answers.views = views.New(s.opts.Views, may.Authorizer, answers.order, answers.explain)
	h := chain(answers, who, may)
	stopped, _, err := serving.Serve(h, 2*time.Second, ctx.Done())
	if err != nil {
		serving.Listener.Close()
		return fmt.Errorf("serve the visibility API: %w", err)
	}
	<-stopped
	return nil
}

// chain puts what every request goes through before a handler.
func chain(h http.Handler, who server.AuthenticationInfo, may server.AuthorizationInfo) http.Handler {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, metav1.SchemeGroupVersion)
	codecs := serializer.NewCodecFactory(scheme)
	resolver := &request.RequestInfoFactory{
		APIPrefixes:          sets.NewString("api", "apis"),
		GrouplessAPIPrefixes: sets.NewString("api"),
	}
	h = filters.WithAuthorization(h, may.Authorizer, codecs)
	h = filters.WithAuthentication(
		h,
		who.Authenticator,
		filters.Unauthorized(codecs),
		who.APIAudiences,
		who.RequestHeaderConfig,
	)
	h = filters.WithRequestInfo(h, resolver)
	return serverfilters.WithPanicRecovery(h, resolver)
}
