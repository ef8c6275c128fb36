package queues

import (
	"errors"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// TestSetup checks the wiring: it needs no API server to be there yet.
func TestSetup(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), kueue.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	mgr, err := manager.New(&rest.Config{Host: "https://127.0.0.1:1"}, manager.Options{
		Scheme: scheme, Metrics: server.Options{BindAddress: "0"},
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) {
			return meta.NewDefaultRESTMapper(nil), nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := SetupWithManager(mgr, Options{Numbers: newTallies()}); err != nil {
		t.Error(err)
	}
}
