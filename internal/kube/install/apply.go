package install

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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
	// SchedulerNames are the names that mlbatch's scheduler answers to; nil is
	// jobs.SchedulerNames(). If there are none, it does not run, and has no rights.
	SchedulerNames []string
	// Kinds are the kinds of jobs that there are; nil is kinds.All().
	Kinds jobs.Kinds
	// Foreign adds the definitions of kinds that belong to others (see
	// config.Foreign) if they are not there.
	Foreign bool
	// Moved, if set, is called whenever an installation got on.
	Moved func()

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

// converters is where conversions are served, which is beside the webhooks: behind a Service of their
// own where there are Services (see rendering.services).
func (o Options) converters(at webhook.Location) webhook.Location {
	if s := o.WebhookService; s != nil {
		return webhook.AtService(s.Namespace, conversionService, s.Port, o.CABundle)
	}
	return at
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
	crds, err := config.CRDs()
	if err != nil {
		return nil, fmt.Errorf("install mlbatch: %w", err)
	}
	opts.called = certs.CalledFor(crds)
	p := &parts{
		policies: slices.Concat(
			bindingGuards(opts),
			deepTestGuards(opts),
			holdGuards(),
			tenantGuards(opts.Kinds),
		),
		roles:       roles(opts),
		visibility:  visibilityObjects(opts),
		definitions: definitions(crds, opts.converters(at)),
	}
	if opts.ownCerts() {
		// It has no rights to make Secrets, only to fill this one.
		p.secrets = append(
			p.secrets,
			&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: opts.Namespace, Name: CertSecret}},
		)
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

// Installation is what programs need that run outside the cluster, as those of `mlbatch up`
// do; Render is for processes that run in it.
type Installation struct {
	namespace string
	// steps are objects that do not depend on each other, in the order of the steps.
	steps [][]*unstructured.Unstructured
	// foreign are definitions of kinds that belong to others, which are created if they are
	// not there.
	foreign []*apiextensionsv1.CustomResourceDefinition
	// kinds are the kinds that the definitions define.
	kinds []kind
	// services are the names of APIServices.
	services []string
	moved    func()
}

// Prepare renders an installation. It asks no cluster.
func Prepare(opts Options) (*Installation, error) {
	if opts.Kinds == nil {
		opts.Kinds = kinds.All()
	}
	if opts.Namespace == "" {
		opts.Namespace = DefaultNamespace
	}
	p, err := partsOf(opts)
	if err != nil {
		return nil, err
	}
	x := &Installation{namespace: opts.Namespace, moved: opts.Moved}
	if x.moved == nil {
		x.moved = func() {}
	}
	if opts.Foreign {
		if x.foreign, err = config.Foreign(); err != nil {
			return nil, fmt.Errorf("install mlbatch: %w", err)
		}
	}
	for _, o := range p.definitions {
		if crd, is := o.(*apiextensionsv1.CustomResourceDefinition); is {
			x.kinds = append(x.kinds, kindOf(crd))
		}
	}
	for _, crd := range x.foreign {
		x.kinds = append(x.kinds, kindOf(crd))
	}
	first := slices.Concat(
		p.definitions,
		[]client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: opts.Namespace}}},
		p.secrets,
	)
	known := kindsOfParts()
	for _, objects := range [][]client.Object{first, p.policies, p.roles, p.visibility, p.webhooks} {
		step := make([]*unstructured.Unstructured, len(objects))
		for i, o := range objects {
			if step[i], err = plain(o, known); err != nil {
				return nil, fmt.Errorf("install %T %s: %w", o, o.GetName(), err)
			}
			if step[i].GroupVersionKind().Group == apiServices {
				x.services = append(x.services, o.GetName())
			}
		}
		x.steps = append(x.steps, step)
	}
	return x, nil
}

// Apply prepares an installation and applies it.
func Apply(ctx context.Context, c client.Client, opts Options) error {
	x, err := Prepare(opts)
	if err != nil {
		return err
	}
	return x.Apply(ctx, c)
}

// Apply creates or updates all objects, save objects that are as the last Apply left them. Kinds may be
// served only a moment later (see Wait). The webhook configurations come last: before them
// nothing of ours can be in the way of others.
func (x *Installation) Apply(ctx context.Context, c client.Client) error {
	record, err := ReadRecord(ctx, c, x.namespace, slices.Concat(x.steps...))
	if err != nil {
		return err
	}
	if err := addForeign(ctx, c, record, x.foreign); err != nil {
		return err
	}
	if err := record.CarryOver(ctx, c, x.steps[0]); err != nil {
		return err
	}
	for _, step := range x.steps {
		if err := x.putAll(ctx, c, record, step); err != nil {
			return err
		}
	}
	return record.Save(ctx, c)
}

// putAll applies objects that do not depend on each other, several at a time.
func (x *Installation) putAll(
	ctx context.Context,
	c client.Client,
	record *Record,
	objects []*unstructured.Unstructured,
) error {
	const atOnce = 8
	errs := make([]error, len(objects))
	var workers sync.WaitGroup
	for first := range min(atOnce, len(objects)) {
		workers.Go(func() {
			for i := first; i < len(objects); i += atOnce {
				if err := record.Put(ctx, c, objects[i]); err != nil {
					errs[i] = fmt.Errorf(
						"install %s %s: %w",
						strings.ToLower(objects[i].GetKind()),
						objects[i].GetName(),
						err,
					)
				}
				x.moved()
			}
		})
	}
	workers.Wait()
	return errors.Join(errs...)
}

// addForeign creates what belongs to others and does not exist.
func addForeign(
	ctx context.Context,
	c client.Client,
	record *Record,
	crds []*apiextensionsv1.CustomResourceDefinition,
) error {
	for _, crd := range crds {
		if record.exists(definitionKind(), crd.Name) {
			continue
		}
		if err := client.IgnoreAlreadyExists(c.Create(ctx, crd.DeepCopy())); err != nil {
			return fmt.Errorf("install %s: %w", crd.Name, err)
		}
	}
	return nil
}

// definitions are the definitions of all kinds, with conversion where versions differ in
// more than their names.
func definitions(crds []*apiextensionsv1.CustomResourceDefinition, at webhook.Location) []client.Object {
	var objects []client.Object
	for _, crd := range crds {
		if certs.Converted(crd) {
			crd.Spec.Conversion = conversion(webhook.Conversion(at))
		}
		objects = append(objects, crd)
	}
	return objects
}

func conversion(at admissionregistrationv1.WebhookClientConfig) *apiextensionsv1.CustomResourceConversion {
	out := &apiextensionsv1.WebhookClientConfig{URL: at.URL, CABundle: at.CABundle}
	if s := at.Service; s != nil {
		out.Service = &apiextensionsv1.ServiceReference{
			Namespace: s.Namespace,
			Name:      s.Name,
			Path:      s.Path,
			Port:      s.Port,
		}
	}
	return &apiextensionsv1.CustomResourceConversion{
		Strategy: apiextensionsv1.WebhookConverter,
		Webhook:  &apiextensionsv1.WebhookConversion{ClientConfig: out, ConversionReviewVersions: []string{"v1"}},
	}
}

// FieldOwner is what the API server notes down as owner of what is applied.
const FieldOwner = "mlbatch"

// Put applies an object: what it holds is set, what an earlier version of ours
// held and this one does not is removed, and what others added stays.
func Put(ctx context.Context, c client.Client, u *unstructured.Unstructured) error {
	_, err := put(ctx, c, u)
	return err
}

// put also returns the object as it is then.
func put(
	ctx context.Context,
	c client.Client,
	u *unstructured.Unstructured,
) (*unstructured.Unstructured, error) {
	out := u.DeepCopy()
	return out, c.Apply(
		ctx,
		client.ApplyConfigurationFromUnstructured(out),
		client.FieldOwner(FieldOwner),
		client.ForceOwnership,
	)
}
