package webhook

import (
	"errors"
	"maps"
	"net/http"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	server "sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/mlbatch/mlbatch/internal/kube/scheme"
)

// registry is a manager that notes what is served.
type registry struct {
	manager.Manager
	s      *runtime.Scheme
	cache  *informertest.FakeInformers
	c      client.Client
	served []string
}

func (r *registry) GetScheme() *runtime.Scheme      { return r.s }
func (r *registry) GetClient() client.Client        { return r.c }
func (r *registry) GetAPIReader() client.Reader     { return r.c }
func (r *registry) GetCache() cache.Cache           { return r.cache }
func (r *registry) GetRESTMapper() meta.RESTMapper  { return r.c.RESTMapper() }
func (r *registry) GetWebhookServer() server.Server { return pages{r: r} }

// pages is the server of a registry.
type pages struct {
	server.Server
	r *registry
}

func (p pages) Register(path string, _ http.Handler) { p.r.served = append(p.r.served, path) }

func newRegistry() *registry {
	s := scheme.New()
	return &registry{
		s:     s,
		cache: &informertest.FakeInformers{Scheme: s},
		c:     fake.NewClientBuilder().WithScheme(s).Build(),
	}
}

// Everything that can be asked is served, or the process does not start.
func TestRegister(t *testing.T) {
	r := newRegistry()
	if err := Register(t.Context(), r, Options{}); err != nil {
		t.Fatal(err)
	}
	all, err := Handlers(Cluster{Scheme: r.s, Cached: r.c, Live: r.c, Access: r.c}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(r.served)
	if diff := cmp.Diff(slices.Sorted(maps.Keys(all)), r.served); diff != "" || len(all) == 0 {
		t.Errorf("served (-want +got):\n%s", diff)
	}
	blind := newRegistry()
	blind.cache.Error = errors.New("no such kind")
	if err := Register(
		t.Context(),
		blind,
		Options{},
	); !errors.Is(err, blind.cache.Error) ||
		len(blind.served) != 0 {
		t.Errorf("jobs cannot be counted: %v, served %v", err, blind.served)
	}
	lost := newRegistry()
	lost.s = runtime.NewScheme()
	if err := Register(t.Context(), lost, Options{}); err == nil || len(lost.served) != 0 {
		t.Errorf("kinds that cannot be converted: %v, served %v", err, lost.served)
	}
}
