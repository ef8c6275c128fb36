package install

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mlbatch/mlbatch/config"
	"github.com/mlbatch/mlbatch/internal/kube/certs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/kinds"
	"github.com/mlbatch/mlbatch/internal/kube/webhook"
)

// Service is a Service in front of the webhooks.
type Service struct {
	Namespace string
	Name      string
	Port      int32
}

// Options say where the webhooks are served.
type Options struct {
	// WebhookURL is their address, e.g. https://127.0.0.1:9443, where they are
	// reached without a Service. One of WebhookURL and WebhookService is set.
	WebhookURL     string
	WebhookService *Service
	// CABundle is the PEM certificate that vouches for them. CertManager has cert-manager
	// say whom to trust: it is namespace/name of a Certificate. With neither the controller
	// makes its certificates itself, keeps them in CertSecret, and says whom to trust.
	CABundle    []byte
	CertManager string
	// Visibility is where the API of pending workloads is served; nil installs none.
	// CABundle vouches for it too, under the name
	// mlbatch-visibility.NAMESPACE.svc.
	Visibility *Visibility
	// Namespace is where mlbatch keeps its own objects; empty means
	// mlbatch-system.
	Namespace string
	// ControllerUser and SchedulerUser are users that the processes log in as
	// where they run outside the cluster. They get the rights that their service
	// accounts have. Both may be empty.
	ControllerUser string
	SchedulerUser  string
	// SchedulerNames are those that mlbatch's scheduler answers to; nil is
	// jobs.SchedulerNames(). If there are none, it does not run, and has no rights.
	SchedulerNames []string
	// Kinds are the kinds of jobs that there are; nil is kinds.All().
	Kinds jobs.Kinds
	// Foreign adds the definitions of kinds that belong to others (see
	// config.Foreign) if they are not there.
	Foreign bool

	// called is what the controller tells whom to trust.
	called certs.Targets
}

// DefaultNamespace is where mlbatch keeps its own objects.
const DefaultNamespace = "mlbatch-system"

func (o Options) schedulerNames() []string {
	if o.SchedulerNames == nil {
		return jobs.SchedulerNames()
	}
	return o.SchedulerNames
}

func (o Options) location() (webhook.Location, error) {
	switch {
	case len(o.CABundle) > 0 && o.CertManager != "":
		return nil, errors.New("set either CABundle or CertManager, or neither")
	case (o.WebhookURL == "") == (o.WebhookService == nil):
		return nil, errors.New("set either WebhookURL or WebhookService")
	case o.WebhookURL != "":
		return webhook.AtURL(o.WebhookURL, o.CABundle), nil
	}
	s := o.WebhookService
	return webhook.AtService(s.Namespace, s.Name, s.Port, o.CABundle), nil
}

// parts are the objects of an installation that are the same wherever the programs run.
type parts struct {
	definitions, secrets, policies, roles, visibility, webhooks []client.Object
}

// partsOf makes them.
func partsOf(opts Options) (*parts, error) {
	at, err := opts.location()
	if err != nil {
		return nil, fmt.Errorf("install mlbatch: %w", err)
	}
	if opts.called, err = certs.Called(); err != nil {
		return nil, fmt.Errorf("install mlbatch: %w", err)
	}
	p := &parts{
		policies: slices.Concat(bindingGuards(opts), holdGuards(), tenantGuards(opts.Kinds)), roles: roles(opts), visibility: visibilityObjects(opts),
	}
	if p.definitions, err = definitions(at); err != nil {
		return nil, fmt.Errorf("install mlbatch: %w", err)
	}
	if opts.ownCerts() {
		// It has no rights to make Secrets, only to fill this one.
		p.secrets = append(p.secrets, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: opts.Namespace, Name: CertSecret}})
	}
	mutating, validating := webhook.Configurations(opts.Kinds, at, opts.schedulerNames())
	p.webhooks = []client.Object{mutating, validating}
	if opts.CertManager != "" {
		for _, objects := range [][]client.Object{p.definitions, p.visibility, p.webhooks} {
			vouch(objects, opts.CertManager)
		}
	}
	return p, nil
}

// Apply creates or updates what programs need that run outside the cluster, as those of
// `mlbatch up` do; Render is for those that run in it. Kinds may be served only a moment later
// (see Wait). The webhook configurations come last: before them nothing of
// ours can be in the way of others.
func Apply(ctx context.Context, c client.Client, opts Options) error {
	if opts.Kinds == nil {
		opts.Kinds = kinds.All()
	}
	if opts.Namespace == "" {
		opts.Namespace = DefaultNamespace
	}
	p, err := partsOf(opts)
	if err != nil {
		return err
	}
	if opts.Foreign {
		if err := addForeign(ctx, c); err != nil {
			return err
		}
	}
	objects := append(p.definitions, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: opts.Namespace}})
	for _, step := range [][]client.Object{append(objects, p.secrets...), p.policies, p.roles, p.visibility, p.webhooks} {
		if err := putAll(ctx, c, step); err != nil {
			return err
		}
	}
	return nil
}

// putAll applies objects that do not depend on each other, several at a time.
func putAll(ctx context.Context, c client.Client, objects []client.Object) error {
	const atOnce = 8
	errs := make([]error, len(objects))
	var workers sync.WaitGroup
	for first := range min(atOnce, len(objects)) {
		workers.Go(func() {
			for i := first; i < len(objects); i += atOnce {
				if err := put(ctx, c, objects[i]); err != nil {
					errs[i] = fmt.Errorf("install %T %s: %w", objects[i], objects[i].GetName(), err)
				}
			}
		})
	}
	workers.Wait()
	return errors.Join(errs...)
}

// addForeign creates what belongs to others and does not exist.
func addForeign(ctx context.Context, c client.Client) error {
	crds, err := config.Foreign()
	if err != nil {
		return err
	}
	for _, crd := range crds {
		if err := client.IgnoreAlreadyExists(c.Create(ctx, crd)); err != nil {
			return fmt.Errorf("install %s: %w", crd.Name, err)
		}
	}
	return nil
}

// definitions are the definitions of all kinds, with conversion where versions differ in
// more than their names.
func definitions(at webhook.Location) ([]client.Object, error) {
	crds, err := config.CRDs()
	if err != nil {
		return nil, err
	}
	var objects []client.Object
	for _, crd := range crds {
		if certs.Converted(crd) {
			crd.Spec.Conversion = conversion(webhook.Conversion(at))
		}
		objects = append(objects, crd)
	}
	return objects, nil
}

func conversion(at admissionregistrationv1.WebhookClientConfig) *apiextensionsv1.CustomResourceConversion {
	out := &apiextensionsv1.WebhookClientConfig{URL: at.URL, CABundle: at.CABundle}
	if s := at.Service; s != nil {
		out.Service = &apiextensionsv1.ServiceReference{Namespace: s.Namespace, Name: s.Name, Path: s.Path, Port: s.Port}
	}
	return &apiextensionsv1.CustomResourceConversion{
		Strategy: apiextensionsv1.WebhookConverter,
		Webhook:  &apiextensionsv1.WebhookConversion{ClientConfig: out, ConversionReviewVersions: []string{"v1"}},
	}
}

// FieldOwner is what the API server notes down as owner of what is applied.
const FieldOwner = "mlbatch"

// put applies an object: what it holds is set, what an earlier version of ours
// held and this one does not is removed, and what others added stays.
func put(ctx context.Context, c client.Client, o client.Object) error {
	if d, is := o.(*apiextensionsv1.CustomResourceDefinition); is {
		if err := handOver(ctx, c, d); err != nil {
			return err
		}
	}
	u, err := plain(o, c.Scheme())
	if err != nil {
		return err
	}
	return Put(ctx, c, u)
}

// Put applies an object of a stage.
func Put(ctx context.Context, c client.Client, u *unstructured.Unstructured) error {
	return c.Apply(ctx, client.ApplyConfigurationFromUnstructured(u.DeepCopy()), client.FieldOwner(FieldOwner), client.ForceOwnership)
}

// pollInterval is how often Wait looks.
const pollInterval = 50 * time.Millisecond

// Resources lists what the API server says that it serves; a discovery client
// does.
type Resources interface {
	ServerResourcesForGroupVersion(groupVersion string) (*metav1.APIResourceList, error)
}

// Wait returns once the API server serves all kinds and says so: a client that
// asks it for its kinds a moment too early may remember that one of them is missing.
func Wait(ctx context.Context, c client.Client, served Resources) error {
	crds, err := config.CRDs()
	if err != nil {
		return fmt.Errorf("wait for mlbatch's kinds: %w", err)
	}
	foreign, err := config.Foreign()
	if err != nil {
		return fmt.Errorf("wait for kinds of others: %w", err)
	}
	for _, crd := range crds {
		if err := waitFor(ctx, c, served, crd); err != nil {
			return fmt.Errorf("wait for %s to be served: %w", crd.Name, err)
		}
	}
	for _, crd := range foreign { // it may not have been asked for
		if err := waitFor(ctx, c, served, crd); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("wait for %s to be served: %w", crd.Name, err)
		}
	}
	return nil
}

func waitFor(ctx context.Context, c client.Client, served Resources, crd *apiextensionsv1.CustomResourceDefinition) error {
	return wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		have := &apiextensionsv1.CustomResourceDefinition{}
		if err := c.Get(ctx, client.ObjectKey{Name: crd.Name}, have); err != nil {
			return false, err
		}
		if !established(have) {
			return false, nil
		}
		for _, v := range have.Spec.Versions {
			if listed, err := lists(served, have, v); !listed || err != nil {
				return false, err
			}
		}
		return true, nil
	})
}

// lists reports whether the API server says that it serves a version of a kind.
func lists(served Resources, crd *apiextensionsv1.CustomResourceDefinition, v apiextensionsv1.CustomResourceDefinitionVersion) (bool, error) {
	if !v.Served {
		return true, nil
	}
	list, err := served.ServerResourcesForGroupVersion(crd.Spec.Group + "/" + v.Name)
	if err != nil {
		return false, client.IgnoreNotFound(err)
	}
	return slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == crd.Spec.Names.Plural }), nil
}

func established(crd *apiextensionsv1.CustomResourceDefinition) bool {
	for _, c := range crd.Status.Conditions {
		if c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue {
			return true
		}
	}
	return false
}
