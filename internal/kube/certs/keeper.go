package certs

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// Options say where certificates are kept and whom they are for.
type Options struct {
	// Client reads and writes the API server itself; a cache would need rights to
	// list Secrets.
	Client client.Client
	Clock  clock.Clock
	// Secret holds the certificates. It must exist: the controller has no right to
	// make Secrets.
	Secret client.ObjectKey
	// Hosts are the names by which the controller is asked.
	Hosts []string
	// Lifetimes are DefaultLifetimes if nothing is said.
	Lifetimes Lifetimes
	// Targets are told whom to trust.
	Targets Targets
	// Pause is how often the Secret and the targets are looked at; 0 is 15 s. It is
	// at most a third of the overlap of the lifetimes.
	Pause time.Duration
}

// pause is how often a Keeper looks, if nothing is said. Objects are got by
// name: rights to watch them would be rights to list all of their kind.
const pause = 15 * time.Second

// Keeper keeps the certificates of a replica.
type Keeper struct {
	opts Options

	// told are the authorities that all targets were told of by this process. It is
	// Sync's own.
	told []byte

	mu     sync.Mutex
	data   Data
	pair   *tls.Certificate
	listen []dynamiccertificates.Listener
}

// New returns a Keeper that has no certificate yet.
func New(opts Options) (*Keeper, error) {
	if opts.Lifetimes == (Lifetimes{}) {
		opts.Lifetimes = DefaultLifetimes()
	}
	if opts.Pause == 0 {
		opts.Pause = pause
	}
	if err := opts.Lifetimes.Validate(); err != nil {
		return nil, fmt.Errorf("keep certificates: %w", err)
	}
	if 3*opts.Pause > opts.Lifetimes.Overlap {
		return nil, fmt.Errorf(
			"keep certificates: a look every %v: must be at most a third of the overlap of %v",
			opts.Pause,
			opts.Lifetimes.Overlap,
		)
	}
	return &Keeper{opts: opts}, nil
}

// retry is the pause after a look that failed before there was a certificate.
const retry = 2 * time.Second

// Run renews certificates, serves the ones that another replica renewed, and
// repairs what the targets know, until the context ends. It says when it has
// looked for the first time, whether that succeeded or not (see Ready).
func (k *Keeper) Run(ctx context.Context, looked func()) {
	for first := true; ; first = false {
		again := k.opts.Pause
		if err := k.Sync(ctx); err != nil && ctx.Err() == nil {
			if k.Ready() != nil {
				again = retry
			}
			log.FromContext(ctx).
				Error(
					err,
					"Certificates cannot be looked after; those that there are go on being served, and it is tried again",
					"after",
					again.String(),
				)
		}
		if first {
			looked()
		}
		select {
		case <-ctx.Done():
			return
		case <-k.opts.Clock.After(again):
		}
	}
}

// Ready reports that there is no certificate yet, and nil once there is one.
func (k *Keeper) Ready() error {
	_, err := k.Certificate(nil)
	return err
}

// Sync reads the Secret, does what is due, tells the targets and serves what the
// Secret holds. All replicas may do so at once, each one at a time.
func (k *Keeper) Sync(ctx context.Context) error {
	data, err := k.current(ctx)
	if err != nil {
		if len(data[ServingCert]) > 0 {
			err = errors.Join(err, k.serve(data))
		}
		return err
	}
	// Who is to trust hears of an authority before anything that it signed is served.
	telling := k.opts.Targets.Tell(ctx, k.opts.Client, data[Bundle])
	if telling == nil {
		k.told = data[Bundle]
	}
	if err := k.serve(data); err != nil {
		return err
	}
	return telling
}

// current returns what the Secret is to hold now, and holds. With an error of
// writing it returns what it holds instead, which may still do.
func (k *Keeper) current(ctx context.Context) (Data, error) {
	for {
		s := &corev1.Secret{}
		err := k.opts.Client.Get(ctx, k.opts.Secret, s)
		if apierrors.IsNotFound(err) {
			return nil, fmt.Errorf(
				"read the certificates: there is no Secret %s: make an empty one (kubectl create secret generic --namespace %s %s)",
				k.opts.Secret,
				k.opts.Secret.Namespace,
				k.opts.Secret.Name,
			)
		}
		if err != nil {
			return nil, fmt.Errorf("read the certificates: %w", err)
		}
		if why := foreign(s); why != "" {
			return nil, fmt.Errorf( //nolint:staticcheck // a kind
				"Secret %s is not the controller's to write: %s; name another one in internalCertManagement.webhookSecretName, or serve this one from files (internalCertManagement.enable: false)",
				k.opts.Secret,
				why,
			)
		}
		// An authority that the targets know since this look only does not sign yet.
		next, changes, err := Next(s.Data, k.opts.Hosts, k.opts.Clock.Now(), k.told, k.opts.Lifetimes)
		if err != nil {
			return nil, fmt.Errorf("renew certificates: %w", err)
		}
		if len(changes) == 0 {
			return s.Data, nil
		}
		have := s.Data
		s.Data = next
		err = k.opts.Client.Update(ctx, s)
		if apierrors.IsConflict(err) {
			continue // another replica was first
		}
		if err != nil {
			return have, fmt.Errorf("write certificates: %w", err)
		}
		log.FromContext(ctx).Info("Certificates changed", "secret", k.opts.Secret.String(), "changes", changes)
		return next, nil
	}
}

// foreign says why a Secret is somebody else's, or "". One that is empty, or that
// the controller filled, is not, whatever became of its contents.
func foreign(s *corev1.Secret) string {
	if owner := metav1.GetControllerOf(s); owner != nil {
		return fmt.Sprintf("%s %s keeps it", owner.Kind, owner.Name)
	}
	if name := s.Annotations["cert-manager.io/certificate-name"]; name != "" {
		return "cert-manager keeps it for Certificate " + name
	}
	if s.Immutable != nil && *s.Immutable {
		return "it is immutable"
	}
	switch s.Type {
	case "", corev1.SecretTypeOpaque, corev1.SecretTypeTLS:
	default:
		return "it is of type " + string(s.Type)
	}
	for _, key := range slices.Sorted(maps.Keys(s.Data)) {
		if !slices.Contains(keys(), key) {
			return "it holds " + key
		}
	}
	for _, c := range readCerts(s.Data[ServingCert]) {
		if c.Subject.CommonName != servingName {
			return "it holds a certificate of " + c.Issuer.String()
		}
	}
	return ""
}

// serve makes what the Secret holds what is served.
func (k *Keeper) serve(data Data) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.pair != nil && maps.EqualFunc(k.data, data, bytes.Equal) {
		return nil
	}
	served, err := tls.X509KeyPair(data[ServingCert], data[ServingKey])
	if err != nil {
		return fmt.Errorf("read the certificate to serve with: %w", err)
	}
	k.data, k.pair = data, &served
	for _, l := range k.listen {
		l.Enqueue()
	}
	return nil
}

// Certificate is what TLS servers ask for (tls.Config.GetCertificate).
func (k *Keeper) Certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.pair == nil {
		return nil, errNoCertificate
	}
	return k.pair, nil
}

// Name is what API servers call it in their logs: they take their certificate from it by this
// method, CurrentCertKeyContent and AddListener.
func (k *Keeper) Name() string { return "secret " + k.opts.Secret.String() }

// CurrentCertKeyContent is the certificate and its key, in PEM.
func (k *Keeper) CurrentCertKeyContent() (cert, key []byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.data[ServingCert], k.data[ServingKey]
}

// AddListener has somebody told when they change.
func (k *Keeper) AddListener(l dynamiccertificates.Listener) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.listen = append(k.listen, l)
}
