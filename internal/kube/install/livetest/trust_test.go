package livetest

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/certs"
	"github.com/mlbatch/mlbatch/internal/kube/install"
	"github.com/mlbatch/mlbatch/internal/kube/manager"
	"github.com/mlbatch/mlbatch/internal/kube/settings"
	"github.com/mlbatch/mlbatch/internal/kube/webhook"
	"github.com/mlbatch/mlbatch/internal/local"
)

var (
	secretKey = client.ObjectKey{Namespace: install.DefaultNamespace, Name: install.CertSecret}
	// brief lets an authority sign for a minute.
	brief = certs.Lifetimes{Authority: 90 * time.Second, Serving: 30 * time.Second, Overlap: 5 * time.Second}
)

// bare is an API server on which nothing is installed, and the ports that are free for a controller.
func bare(t *testing.T) (*cluster, local.Ports) {
	t.Helper()
	lc, err := local.Start(
		t.Context(),
		local.Config{DataDir: t.TempDir(), Parts: local.APIOnly, UnsafeNoFsync: true},
	)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := lc.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	x := &cluster{t: t, config: lc.RESTConfig(), admin: connect(t, lc.RESTConfig(), "")}
	x.controller = client.WithFieldOwner(connect(t, lc.RESTConfig(), controllerUser), webhook.FieldOwner)
	return x, lc.Ports()
}

// install installs mlbatch without certificates: the controller makes them.
func (x *cluster) install(webhooks string) {
	x.t.Helper()
	for range 2 { // as at every start
		if err := install.Apply(
			x.t.Context(),
			x.admin,
			install.Options{WebhookURL: webhooks, ControllerUser: controllerUser},
		); err != nil {
			x.t.Fatal(err)
		}
	}
	api, err := discovery.NewDiscoveryClientForConfig(x.config)
	if err != nil {
		x.t.Fatal(err)
	}
	if err := install.Wait(x.t.Context(), x.admin, api); err != nil {
		x.t.Fatal(err)
	}
}

// eventually waits until something succeeds.
func (x *cluster) eventually(what string, try func() error) {
	x.t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(
		x.t.Context(),
		100*time.Millisecond,
		2*time.Minute,
		true,
		func(context.Context) (bool, error) {
			last = try()
			return last == nil, nil
		},
	)
	if err != nil {
		x.t.Fatalf("not so after two minutes: %s: %v", what, last)
	}
}

// held is what the Secret holds.
func (x *cluster) held() map[string][]byte {
	x.t.Helper()
	s := &corev1.Secret{}
	if err := x.admin.Get(x.t.Context(), secretKey, s); err != nil {
		x.t.Fatal(err)
	}
	return s.Data
}

// asked creates a flavor, which a webhook is asked about, and reads it in a version that a webhook
// converts to.
func (x *cluster) asked(name string) error {
	f := &kueue.ResourceFlavor{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := x.admin.Create(x.t.Context(), f); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	old := x.parse("{apiVersion: kueue.x-k8s.io/v1beta1, kind: ResourceFlavor}")
	if err := x.admin.Get(x.t.Context(), client.ObjectKeyFromObject(f), old); err != nil {
		return fmt.Errorf("read %s in another version: %w", name, err)
	}
	return nil
}

// Authorities that sign for a minute, and certificates of half of that, are replaced by two replicas
// with the rights of the controller alone, while users write all the time and every call of a
// webhook is a connection of its own. No write and no conversion fails.
func TestCertificatesAreRenewedUnderWrites(t *testing.T) {
	x, _ := bare(t)
	called, err := certs.Called()
	if err != nil {
		t.Fatal(err)
	}
	var replicas [2]*certs.Keeper
	for i := range replicas {
		replicas[i], err = certs.New(certs.Options{
			Client: x.controller, Clock: clock.RealClock{}, Hosts: []string{"127.0.0.1"},
			Secret: secretKey, Lifetimes: brief, Targets: called, Pause: 500 * time.Millisecond,
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	var calls atomic.Int64
	x.install(x.serve(func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		return replicas[calls.Add(1)%2].Certificate(hello)
	}))
	// An authority that is about to be replaced saves a minute.
	old, _, err := certs.Next(nil, []string{"127.0.0.1"}, time.Now().Add(-50*time.Second), nil, brief)
	if err != nil {
		t.Fatal(err)
	}
	s := &corev1.Secret{}
	if err := x.admin.Get(t.Context(), secretKey, s); err != nil {
		t.Fatal(err)
	}
	s.Data = old
	if err := x.admin.Update(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	for _, k := range replicas {
		x.eventually("the controller has its rights", func() error { return k.Sync(t.Context()) })
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); k.Run(ctx, func() {}) }()
		t.Cleanup(func() { cancel(); <-done })
	}
	first := 0
	x.eventually(
		"the API server trusts the webhooks",
		func() error { first++; return x.asked(fmt.Sprintf("first-%d", first)) },
	)

	bundles, served := map[string]bool{}, map[string]bool{}
	before := calls.Load()
	for i := 0; len(bundles) < 4 || len(served) < 3; i++ {
		if err := x.asked(fmt.Sprintf("flavor-%d", i)); err != nil {
			t.Fatalf("after %d bundles and %d certificates: %v", len(bundles), len(served), err)
		}
		d := x.held()
		bundles[string(d[certs.Bundle])], served[string(d[certs.ServingCert])] = true, true
		if n := calls.Load() - before; n < int64(2*(i+1)) {
			t.Fatalf(
				"%d writes and reads are %d connections: old ones are used again, and nothing is tried",
				2*(i+1),
				n,
			)
		}
	}
}

// A controller that is given rights and an empty Secret serves what it serves, with certificates
// that it makes, tells the API server of, and renews while it runs.
func TestControllerKeepsItsCertificates(t *testing.T) {
	x, ports := bare(t)
	x.install(fmt.Sprintf("https://127.0.0.1:%d", ports.Webhook))
	resolved, err := settings.Resolve(settings.Empty(), settings.Given{})
	if err != nil {
		t.Fatal(err)
	}
	cfg := *x.config
	cfg.Impersonate.UserName = controllerUser
	opts := resolved.Options(manager.Options{Config: &cfg, MetricsSecure: true})
	opts.WebhookHost, opts.WebhookPort = "127.0.0.1", ports.Webhook
	opts.MetricsAddress, opts.HealthAddress = fmt.Sprintf("127.0.0.1:%d", ports.Metrics), ""
	opts.VisibilityAddress, opts.LeaderElection.Enabled = "", false
	if opts.Certs == nil || opts.Certs.Secret != secretKey {
		t.Fatalf("without any setting certificates are kept in %+v", opts.Certs)
	}
	opts.Certs.Hosts = append(opts.Certs.Hosts, "127.0.0.1")
	opts.Certs.Lifetimes, opts.Certs.Pause = brief, 500*time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- manager.Run(ctx, opts) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})

	tries := 0
	x.eventually(
		"the API server trusts the webhooks",
		func() error { tries++; return x.asked(fmt.Sprintf("flavor-%d", tries)) },
	)
	shown := func(port int) []byte {
		t.Helper()
		var leaf []byte
		x.eventually("what is served is trusted", func() error {
			roots := x509.NewCertPool()
			roots.AppendCertsFromPEM(x.held()[certs.Bundle])
			c, err := (&tls.Dialer{Config: &tls.Config{RootCAs: roots, ServerName: "mlbatch-controller-metrics.mlbatch-system.svc", MinVersion: tls.VersionTLS12}}).
				DialContext(
					t.Context(),
					"tcp",
					net.JoinHostPort("127.0.0.1", strconv.Itoa(port)),
				)
			if err != nil {
				return err
			}
			leaf = c.(*tls.Conn).ConnectionState().PeerCertificates[0].Raw
			return c.Close()
		})
		return leaf
	}
	webhooks, scraped := shown(ports.Webhook), shown(ports.Metrics)
	if !bytes.Equal(webhooks, scraped) {
		t.Error("webhooks and metrics have different certificates")
	}
	for _, port := range []int{ports.Webhook, ports.Metrics} {
		x.eventually("another certificate is served", func() error {
			if bytes.Equal(shown(port), webhooks) {
				return errors.New("the first one still is")
			}
			return nil
		})
	}

	// Somebody applies a configuration without the authorities: it is repaired.
	hooks := &admissionregistrationv1.MutatingWebhookConfiguration{}
	hooks.Name = webhook.MutatingName
	patch := client.RawPatch(
		"application/json-patch+json",
		[]byte(`[{"op":"remove","path":"/webhooks/0/clientConfig/caBundle"}]`),
	)
	if err := x.admin.Patch(t.Context(), hooks, patch); err != nil {
		t.Fatal(err)
	}
	x.eventually("it is told again", func() error {
		if err := x.admin.Get(t.Context(), client.ObjectKeyFromObject(hooks), hooks); err != nil {
			return err
		}
		if len(hooks.Webhooks[0].ClientConfig.CABundle) == 0 {
			return errors.New("nobody is trusted")
		}
		return nil
	})

	// Its rights are good for this Secret alone, and make none.
	other := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: secretKey.Namespace, Name: "password"}}
	if err := x.admin.Create(t.Context(), other.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{
		"reads another Secret":    x.controller.Get(t.Context(), client.ObjectKeyFromObject(other), other),
		"lists Secrets":           x.controller.List(t.Context(), &corev1.SecretList{}, client.InNamespace(secretKey.Namespace)),
		"makes a Secret":          x.controller.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: secretKey.Namespace, Name: "more"}}),
		"deletes the Secret":      x.controller.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: secretKey.Namespace, Name: secretKey.Name}}),
		"makes a webhook":         x.controller.Create(t.Context(), &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "more"}}),
		"reads other webhooks":    x.controller.Get(t.Context(), client.ObjectKey{Name: "more"}, &admissionregistrationv1.MutatingWebhookConfiguration{}),
		"deletes its webhooks":    x.controller.Delete(t.Context(), &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: webhook.MutatingName}}),
		"changes kinds of others": x.controller.Patch(t.Context(), x.parse("{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: rayjobs.ray.io}}"), client.RawPatch("application/merge-patch+json", []byte("{}"))),
	} {
		if !apierrors.IsForbidden(err) {
			t.Errorf("the controller %s: %v", what, err)
		}
	}
}
