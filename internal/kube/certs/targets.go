package certs

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1beta2 "github.com/mlbatch/mlbatch/api/config/v1beta2"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	viewapi "github.com/mlbatch/mlbatch/api/view/v1alpha1"
	"github.com/mlbatch/mlbatch/api/visibility/v1beta1"
	"github.com/mlbatch/mlbatch/api/visibility/v1beta2"
	"github.com/mlbatch/mlbatch/config"
	"github.com/mlbatch/mlbatch/internal/kube/webhook"
)

// Targets name the objects by which the API server calls the controller, and
// which say whom it trusts there. Those that do not exist are left out.
type Targets struct {
	Mutating, Validating []string
	// Definitions are CustomResourceDefinitions whose versions are converted here.
	Definitions []string
	// APIServices are the aggregated APIs that are served here.
	APIServices []string
}

// Services in front of the controller, beside that of the webhooks. A configuration that comes
// from Kueue may name another one of those. That of the conversions is another Service than that
// of the webhooks because it leads to pods that are not ready as well: they become ready when they have
// read all objects, for which some may have to be converted.
const (
	ConversionService = "mlbatch-conversion"
	VisibilityService = "mlbatch-visibility"
	MetricsService    = "mlbatch-controller-metrics"
)

// Hosts are the names by which the controller is asked within a cluster.
func Hosts(namespace, webhookService string) []string {
	services := []string{
		configv1beta2.DefaultWebhookService,
		ConversionService,
		VisibilityService,
		MetricsService,
	}
	if !slices.Contains(services, webhookService) {
		services = append(services, webhookService)
	}
	var hosts []string
	for _, service := range services {
		name := service + "." + namespace + ".svc"
		hosts = append(hosts, name, name+".cluster.local")
	}
	return hosts
}

// Called are all objects by which the API server calls the controller.
func Called() (Targets, error) {
	crds, err := config.CRDs()
	if err != nil {
		return Targets{}, fmt.Errorf("list what is converted: %w", err)
	}
	return CalledFor(crds), nil
}

// CalledFor are those where these are the definitions.
func CalledFor(crds []*apiextensionsv1.CustomResourceDefinition) Targets {
	t := Targets{
		Mutating: []string{webhook.MutatingName}, Validating: []string{webhook.ValidatingName},
	}
	for _, v := range Served() {
		t.APIServices = append(t.APIServices, APIService(v))
	}
	for _, crd := range crds {
		if Converted(crd) {
			t.Definitions = append(t.Definitions, crd.Name)
		}
	}
	return t
}

// Served are the APIs that the controller answers itself: visibility, the preferred version first, and views.
func Served() []schema.GroupVersion {
	return []schema.GroupVersion{v1beta2.GroupVersion, v1beta1.GroupVersion, viewapi.GroupVersion}
}

// APIService names the registration of an API.
func APIService(v schema.GroupVersion) string { return v.Version + "." + v.Group }

// Converted reports whether the controller converts between versions of a kind: where they differ
// in more than their names.
func Converted(crd *apiextensionsv1.CustomResourceDefinition) bool {
	return len(crd.Spec.Versions) > 1 && crd.Spec.Group == kueue.GroupVersion.Group
}

// Tell writes the trusted authorities (PEM) into all targets, as far as they are not
// there.
func (t Targets) Tell(ctx context.Context, c client.Client, bundle []byte) error {
	var errs []error
	for _, name := range t.Mutating {
		errs = append(
			errs,
			change(
				ctx,
				c,
				name,
				&admissionregistrationv1.MutatingWebhookConfiguration{},
				func(o *admissionregistrationv1.MutatingWebhookConfiguration) bool {
					changed := false
					for i := range o.Webhooks {
						changed = set(&o.Webhooks[i].ClientConfig.CABundle, bundle) || changed
					}
					return changed
				},
			),
		)
	}
	for _, name := range t.Validating {
		errs = append(
			errs,
			change(
				ctx,
				c,
				name,
				&admissionregistrationv1.ValidatingWebhookConfiguration{},
				func(o *admissionregistrationv1.ValidatingWebhookConfiguration) bool {
					changed := false
					for i := range o.Webhooks {
						changed = set(&o.Webhooks[i].ClientConfig.CABundle, bundle) || changed
					}
					return changed
				},
			),
		)
	}
	for _, name := range t.Definitions {
		errs = append(
			errs,
			change(
				ctx,
				c,
				name,
				&apiextensionsv1.CustomResourceDefinition{},
				func(o *apiextensionsv1.CustomResourceDefinition) bool {
					if conv := o.Spec.Conversion; conv != nil && conv.Webhook != nil && conv.Webhook.ClientConfig != nil {
						return set(&conv.Webhook.ClientConfig.CABundle, bundle)
					}
					return false
				},
			),
		)
	}
	for _, name := range t.APIServices {
		o := &unstructured.Unstructured{}
		o.SetGroupVersionKind(
			schema.GroupVersionKind{Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService"},
		)
		errs = append(errs, change(ctx, c, name, o, func(o *unstructured.Unstructured) bool {
			want := base64.StdEncoding.EncodeToString(bundle)
			if have, _, err := unstructured.NestedString(o.Object, "spec", "caBundle"); err == nil && have == want {
				return false
			}
			return unstructured.SetNestedField(o.Object, want, "spec", "caBundle") == nil
		}))
	}
	return errors.Join(errs...)
}

func set(have *[]byte, want []byte) bool {
	if bytes.Equal(*have, want) {
		return false
	}
	*have = want
	return true
}

// change gets an object and patches what edit changes, over what was read alone: as long as others
// write it, it is read again.
func change[T client.Object](
	ctx context.Context,
	c client.Client,
	name string,
	o T,
	edit func(T) bool,
) error {
	for {
		if err := c.Get(ctx, client.ObjectKey{Name: name}, o); err != nil {
			if apierrors.IsNotFound(err) {
				return nil
			}
			return fmt.Errorf("tell %s whom to trust: %w", name, err)
		}
		before, _ := o.DeepCopyObject().(client.Object)
		if !edit(o) {
			return nil
		}
		// Lists are patched by element: this process need not know all fields of others.
		patch := client.StrategicMergeFrom(before, client.MergeFromWithOptimisticLock{})
		if _, ok := any(o).(*unstructured.Unstructured); ok {
			patch = client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
		}
		err := c.Patch(ctx, o, patch)
		if apierrors.IsConflict(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("tell %s whom to trust: %w", name, err)
		}
		return nil
	}
}
