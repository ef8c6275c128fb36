package certs

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/mlbatch/mlbatch/internal/kube/scheme"
)

var (
	errKilled = errors.New("killed")
	kept      = client.ObjectKey{Namespace: "mlbatch-system", Name: "certs"}
	called    = Targets{
		Mutating: []string{"mutating"}, Validating: []string{"validating"},
		Definitions: []string{"workloads.kueue.x-k8s.io"}, APIServices: []string{"v1.visibility", "v1.notserved"},
	}
)

// world is an API server with what the controller tells whom to trust.
type world struct {
	t      *testing.T
	client client.WithWatch
	clock  *clocktesting.FakeClock
	// before is called before each write; an error is what the write comes to.
	before func(client.Object) error
}

func newWorld(t *testing.T, secret *corev1.Secret) *world {
	t.Helper()
	x := &world{t: t, clock: clocktesting.NewFakeClock(start), before: func(client.Object) error { return nil }}
	url := "https://127.0.0.1:1"
	at := admissionregistrationv1.WebhookClientConfig{URL: &url}
	service := apiService("v1.visibility")
	if err := unstructured.SetNestedField(service.Object, "visibility", "spec", "group"); err != nil {
		t.Fatal(err)
	}
	x.client = fake.NewClientBuilder().WithScheme(scheme.New()).WithObjects(
		&admissionregistrationv1.MutatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: "mutating"},
			Webhooks: []admissionregistrationv1.MutatingWebhook{
				{Name: "a.x.y", ClientConfig: at},
				{Name: "b.x.y", ClientConfig: at},
			},
		},
		&admissionregistrationv1.ValidatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: "validating"},
			Webhooks:   []admissionregistrationv1.ValidatingWebhook{{Name: "a.x.y", ClientConfig: at}},
		},
		&apiextensionsv1.CustomResourceDefinition{
			ObjectMeta: metav1.ObjectMeta{Name: "workloads.kueue.x-k8s.io"},
			Spec: apiextensionsv1.CustomResourceDefinitionSpec{
				Conversion: &apiextensionsv1.CustomResourceConversion{
					Strategy: apiextensionsv1.WebhookConverter,
					Webhook: &apiextensionsv1.WebhookConversion{
						ClientConfig: &apiextensionsv1.WebhookClientConfig{URL: &url},
					},
				},
			},
		},
		service,
	).WithInterceptorFuncs(interceptor.Funcs{
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			return errors.Join(x.before(o), c.Update(ctx, o, opts...))
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			if err := x.before(o); err != nil {
				return err
			}
			return c.Patch(ctx, o, p, opts...)
		},
	}).Build()
	if secret != nil {
		if err := x.client.Create(t.Context(), secret); err != nil {
			t.Fatal(err)
		}
	}
	return x
}

func apiService(name string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(
		schema.GroupVersionKind{Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService"},
	)
	o.SetName(name)
	return o
}

// empty is the Secret as it is installed.
func empty() *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: kept.Namespace, Name: kept.Name}}
}

func (x *world) keeper() *Keeper {
	x.t.Helper()
	k, err := New(
		Options{
			Client:    x.client,
			Clock:     x.clock,
			Secret:    kept,
			Hosts:     names,
			Lifetimes: quick,
			Targets:   called,
			Pause:     quick.Overlap / 4,
		},
	)
	if err != nil {
		x.t.Fatal(err)
	}
	return k
}

func (x *world) get(name string, o client.Object) {
	x.t.Helper()
	if err := x.client.Get(x.t.Context(), client.ObjectKey{Name: name}, o); err != nil {
		x.t.Fatal(err)
	}
}

// told are the authorities that each target has.
func (x *world) told() map[string]string {
	x.t.Helper()
	m, v := &admissionregistrationv1.MutatingWebhookConfiguration{}, &admissionregistrationv1.ValidatingWebhookConfiguration{}
	crd, service := &apiextensionsv1.CustomResourceDefinition{}, apiService("")
	x.get("mutating", m)
	x.get("validating", v)
	x.get("workloads.kueue.x-k8s.io", crd)
	x.get("v1.visibility", service)
	text, _, _ := unstructured.NestedString(service.Object, "spec", "caBundle")
	bundle, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		x.t.Fatal(err)
	}
	return map[string]string{
		"mutating a": string(
			m.Webhooks[0].ClientConfig.CABundle,
		),
		"mutating b": string(m.Webhooks[1].ClientConfig.CABundle),
		"validating": string(v.Webhooks[0].ClientConfig.CABundle),
		"definition": string(crd.Spec.Conversion.Webhook.ClientConfig.CABundle),
		"service":    string(bundle),
	}
}

func (x *world) secret() *corev1.Secret {
	x.t.Helper()
	s := &corev1.Secret{}
	if err := x.client.Get(x.t.Context(), kept, s); err != nil {
		x.t.Fatal(err)
	}
	return s
}

// Replicas that start at the same moment agree on one authority and one certificate.
func TestReplicasRaceForTheFirstCertificate(t *testing.T) {
	x := newWorld(t, empty())
	keepers := make([]*Keeper, 5)
	errs := make([]error, len(keepers))
	var running sync.WaitGroup
	for i := range keepers {
		keepers[i] = x.keeper()
		running.Go(func() { errs[i] = keepers[i].Sync(t.Context()) })
	}
	running.Wait()
	data := x.secret().Data
	for i, k := range keepers {
		if cert, key := k.CurrentCertKeyContent(); !bytes.Equal(cert, data[ServingCert]) ||
			!bytes.Equal(key, data[ServingKey]) {
			t.Errorf("replica %d serves another certificate (%v)", i, errs[i])
		}
	}
	if err := keepers[0].Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, bundle := range x.told() {
		if bundle != string(data[Bundle]) {
			t.Errorf("%s trusts others: %q", name, bundle)
		}
	}
}

// A Secret, or a target, that another replica writes at the same moment is read again.
func TestAnotherReplicaIsFirst(t *testing.T) {
	x := newWorld(t, empty())
	k, other := x.keeper(), x.keeper()
	writes := 0
	x.before = func(client.Object) error {
		if writes++; writes > 1 {
			return nil
		}
		return other.Sync(t.Context()) // before the Secret is written
	}
	if err := k.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	mine, _ := k.CurrentCertKeyContent()
	if theirs, _ := other.CurrentCertKeyContent(); !bytes.Equal(mine, theirs) {
		t.Error("they serve different certificates")
	}

	m := &admissionregistrationv1.MutatingWebhookConfiguration{}
	x.get("mutating", m)
	m.Webhooks[0].ClientConfig.CABundle = nil
	if err := x.client.Update(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	writes = 0
	x.before = func(client.Object) error {
		if writes++; writes > 1 {
			return nil
		}
		x.get("mutating", m)
		m.Labels = map[string]string{"a": "b"}
		return x.client.Update(t.Context(), m)
	}
	if err := k.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	x.get("mutating", m)
	if m.Labels["a"] != "b" || len(m.Webhooks[0].ClientConfig.CABundle) == 0 {
		t.Errorf("somebody's write is lost: %+v", m)
	}
}

// Replicas are killed before, or right after, any write, and started again, over many lives of
// certificates and authorities. What a living one serves is trusted by whoever heard of the last
// authorities within a pause.
func TestKilledAtAnyWrite(t *testing.T) {
	x := newWorld(t, empty())
	rng := rand.New(rand.NewPCG(3, 4))
	replicas := []*Keeper{x.keeper(), x.keeper()}
	if err := replicas[0].Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := x.told()
	kills, authorities := 0, map[string]bool{}
	for range int(6 * quick.Authority / (quick.Overlap / 4)) {
		for i, k := range replicas {
			x.before = func(o client.Object) error {
				if rng.IntN(3) > 0 {
					return nil
				}
				if _, secret := o.(*corev1.Secret); !secret || rng.IntN(2) > 0 {
					return errKilled // a Secret is written nevertheless: only the answer is lost
				}
				return nil
			}
			err := k.Sync(t.Context())
			if errors.Is(err, errKilled) {
				kills++
				replicas[i] = x.keeper()
			} else if err != nil {
				t.Fatal(err)
			}
		}
		x.before = func(client.Object) error { return nil }
		now := x.told()
		for i, k := range replicas {
			cert, _ := k.CurrentCertKeyContent()
			if cert == nil {
				continue
			}
			for _, told := range []map[string]string{before, now} {
				for name, bundle := range told {
					if err := trusts(t, []byte(bundle), cert, x.clock.Now()); err != nil {
						t.Fatalf(
							"%v, after %d kills: %s does not trust replica %d: %v",
							x.clock.Since(start),
							kills,
							name,
							i,
							err,
						)
					}
				}
			}
		}
		before = now
		authorities[string(x.secret().Data[signerCert])] = true
		x.clock.Step(quick.Overlap / 4)
	}
	if kills < 20 || len(authorities) < 6 {
		t.Errorf("%d kills and %d authorities: too few to tell", kills, len(authorities))
	}
}

// What somebody else wrote into a Secret, or goes on writing there, is left alone, and nothing of it
// is served.
func TestSecretsOfOthersStay(t *testing.T) {
	other, err := authority(start, quick)
	if err != nil {
		t.Fatal(err)
	}
	theirs := encode("CERTIFICATE", other.cert.Raw)
	for name, tc := range map[string]struct {
		why    string
		change func(*corev1.Secret)
		told   string
	}{
		"CertManager": {"both would write it for ever", func(s *corev1.Secret) {
			s.Annotations = map[string]string{"cert-manager.io/certificate-name": "serving"}
		}, "cert-manager keeps it for Certificate serving"},
		"Owned": {"its owner would write it again", func(s *corev1.Secret) {
			s.OwnerReferences = []metav1.OwnerReference{{APIVersion: "external-secrets.io/v1", Kind: "ExternalSecret", Name: "vault", UID: "u", Controller: new(true)}}
		}, "ExternalSecret vault keeps it"},
		"Password":    {"it is good for something else", func(s *corev1.Secret) { s.Data = map[string][]byte{"password": []byte("x")} }, "it holds password"},
		"OwnKey":      {"somebody made their own certificate", func(s *corev1.Secret) { s.Data = map[string][]byte{ServingCert: theirs} }, "it holds a certificate of"},
		"Immutable":   {"it cannot be written", func(s *corev1.Secret) { s.Immutable = new(true) }, "it is immutable"},
		"AnotherType": {"the API server wants other contents", func(s *corev1.Secret) { s.Type = corev1.SecretTypeBasicAuth }, "it is of type kubernetes.io/basic-auth"},
	} {
		t.Run(name, func(t *testing.T) {
			s := empty()
			tc.change(s)
			x := newWorld(t, s)
			x.before = func(o client.Object) error {
				t.Errorf("%s, and %T %s was written", tc.why, o, o.GetName())
				return nil
			}
			k := x.keeper()
			err := k.Sync(t.Context())
			if err == nil || !strings.Contains(err.Error(), tc.told) ||
				!strings.Contains(err.Error(), "internalCertManagement") {
				t.Errorf("%s: told %v, want %q and what to do", tc.why, err, tc.told)
			}
			if k.Ready() == nil {
				t.Errorf("%s, and it is served", tc.why)
			}
		})
	}
}

// The first certificate is served when all targets trust it.
func TestToldBeforeServed(t *testing.T) {
	x := newWorld(t, empty())
	k := x.keeper()
	writes := 0
	x.before = func(o client.Object) error {
		if writes++; k.Ready() == nil {
			t.Errorf("is served before %s is told", o.GetName())
		}
		return nil
	}
	if err := k.Sync(t.Context()); err != nil || writes != 5 {
		t.Errorf("%d writes (%v)", writes, err)
	}
}

// Without its Secret a controller says how to make one; it goes on by itself then.
func TestTheSecretIsMissing(t *testing.T) {
	x := newWorld(t, nil)
	k := x.keeper()
	if err := k.Sync(
		t.Context(),
	); err == nil ||
		!strings.Contains(err.Error(), "kubectl create secret generic --namespace mlbatch-system certs") {
		t.Errorf("told %v", err)
	}
	if k.Ready() == nil {
		t.Error("there is a certificate")
	}
	if err := x.client.Create(t.Context(), empty()); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(k.Sync(t.Context()), k.Ready()); err != nil {
		t.Error(err)
	}
}

// A renewal that cannot be written leaves what there is in service, in a replica that just started
// too, and is made as soon as it can be.
func TestRenewalThatFails(t *testing.T) {
	x := newWorld(t, empty())
	if err := x.keeper().Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	was := x.secret().Data[ServingCert]
	x.clock.Step(quick.Serving * 3 / 4)
	refused := errors.New("no quorum")
	x.client = interceptor.NewClient(x.client, interceptor.Funcs{
		Update: func(context.Context, client.WithWatch, client.Object, ...client.UpdateOption) error { return refused },
	})
	k := x.keeper()
	if err := k.Sync(t.Context()); !errors.Is(err, refused) {
		t.Errorf("told %v", err)
	}
	if cert, _ := k.CurrentCertKeyContent(); !bytes.Equal(cert, was) {
		t.Error("what was good is not served")
	}
}

// A target that cannot be written keeps no other from being told, and keeps no certificate from
// being served; the next authority waits until it is told.
func TestTargetThatCannotBeTold(t *testing.T) {
	x := newWorld(t, empty())
	forbidden := true
	x.before = func(o client.Object) error {
		if forbidden && o.GetName() == "mutating" {
			return fmt.Errorf("forbidden")
		}
		return nil
	}
	k := x.keeper()
	if err := k.Sync(
		t.Context(),
	); err == nil ||
		!strings.Contains(err.Error(), "tell mutating whom to trust: forbidden") {
		t.Errorf("told %v", err)
	}
	first := x.secret().Data
	if told := x.told(); told["validating"] != string(first[Bundle]) ||
		told["service"] != string(first[Bundle]) ||
		k.Ready() != nil {
		t.Errorf("others are told %v, and it is ready: %v", told, k.Ready())
	}
	for x.clock.Since(start) < quick.Authority*5/6 {
		_ = k.Sync(t.Context()) // it says the same
		x.clock.Step(k.opts.Pause)
	}
	if now := x.secret().Data; !bytes.Equal(now[signerCert], first[signerCert]) || len(now[nextCert]) == 0 {
		t.Error("an authority signs that not all were told of")
	}
	forbidden = false
	for range 2 {
		if err := k.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		x.clock.Step(k.opts.Pause)
	}
	if now := x.secret().Data; bytes.Equal(now[signerCert], first[signerCert]) {
		t.Error("the next authority still waits")
	}
}

// What somebody overwrote is told again, and nothing else of it is touched.
func TestTargetsAreRepaired(t *testing.T) {
	x := newWorld(t, empty())
	k := x.keeper()
	if err := k.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	m := &admissionregistrationv1.MutatingWebhookConfiguration{}
	x.get("mutating", m)
	m.Webhooks[1].ClientConfig.CABundle = []byte("others")
	m.Webhooks[1].TimeoutSeconds = new(int32(7))
	if err := x.client.Update(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	writes := 0
	x.before = func(client.Object) error { writes++; return nil }
	for range 2 {
		if err := k.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	x.get("mutating", m)
	if !bytes.Equal(m.Webhooks[1].ClientConfig.CABundle, x.secret().Data[Bundle]) ||
		*m.Webhooks[1].TimeoutSeconds != 7 ||
		writes != 1 {
		t.Errorf("after %d writes it is %+v", writes, m.Webhooks[1])
	}
}

func TestLooksMayNotBeRare(t *testing.T) {
	if _, err := New(Options{Lifetimes: quick, Pause: quick.Overlap / 2}); err == nil {
		t.Error("replicas would learn of an authority too late")
	}
	if _, err := New(
		Options{Lifetimes: Lifetimes{Authority: time.Hour, Serving: time.Hour, Overlap: time.Minute}},
	); err == nil {
		t.Error("lifetimes are not looked at")
	}
}

// listener counts how often it is told.
type listener struct{ n int }

func (l *listener) Enqueue() { l.n++ }

// A server that takes its certificate from the keeper is told of each change, and of nothing else.
func TestListenersAreTold(t *testing.T) {
	x := newWorld(t, empty())
	k, l := x.keeper(), &listener{}
	k.AddListener(l)
	for range 3 {
		if err := k.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if l.n != 1 {
		t.Errorf("told %d times of one certificate", l.n)
	}
	x.clock.Step(quick.Serving * 3 / 4)
	if err := k.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	if l.n != 2 {
		t.Errorf("told %d times of two certificates", l.n)
	}
}

// TestExpiry: the metric follows the certificate that is served, and stays where renewing fails.
func TestExpiry(t *testing.T) {
	x := newWorld(t, empty())
	k := x.keeper()
	expires := func() time.Time { return time.Unix(int64(testutil.ToFloat64(k.Expiry())), 0) }
	if got := expires(); got.Unix() != 0 {
		t.Errorf("without a certificate it is %s", got)
	}
	sync := func() {
		t.Helper()
		if err := k.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	sync()
	first := expires()
	if lasts := first.Sub(x.clock.Now()); lasts <= 0 || lasts > quick.Serving {
		t.Errorf("the first one lasts %s", lasts)
	}
	x.clock.Step(quick.Serving)
	x.before = func(client.Object) error { return errors.New("the API server is full") }
	if k.Sync(t.Context()) == nil || !expires().Equal(first) {
		t.Errorf("nothing could be renewed, and the metric moved from %s to %s", first, expires())
	}
	x.before = func(client.Object) error { return nil }
	sync()
	if !expires().After(first) {
		t.Errorf("it was renewed, and the metric is %s", expires())
	}
}
