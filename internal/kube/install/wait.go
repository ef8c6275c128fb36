package install

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mlbatch/mlbatch/config"
)

const (
	// pollInterval is how often Wait looks.
	pollInterval = 50 * time.Millisecond
	// stuckAfter is when Wait looks why a kind is not served yet, and how often it does.
	stuckAfter = 3 * time.Second
	// TouchedAnnotation on a definition or APIService names the version of it that was touched (see
	// Unstick and WaitAnswered).
	TouchedAnnotation = "mlbatch.dev/touched"
)

// Resources lists what the API server says that it serves, all at once; a discovery client
// does.
type Resources interface {
	GroupsAndMaybeResources() (*metav1.APIGroupList, map[schema.GroupVersion]*metav1.APIResourceList, map[schema.GroupVersion]error, error)
}

// kind is what a definition defines.
type kind struct {
	definition string
	plural     string
	versions   []schema.GroupVersion // that are served
}

func kindOf(crd *apiextensionsv1.CustomResourceDefinition) kind {
	k := kind{definition: crd.Name, plural: crd.Spec.Names.Plural}
	for _, v := range crd.Spec.Versions {
		if v.Served {
			k.versions = append(k.versions, schema.GroupVersion{Group: crd.Spec.Group, Version: v.Name})
		}
	}
	return k
}

// Wait returns once the API server serves all kinds and says so: a client that
// asks it for its kinds a moment too early may remember that one of them is missing.
func Wait(ctx context.Context, c client.Client, served Resources) error {
	crds, err := config.CRDs()
	if err != nil {
		return fmt.Errorf("wait for mlbatch's kinds: %w", err)
	}
	x := &Installation{moved: func() {}}
	for _, crd := range crds {
		x.kinds = append(x.kinds, kindOf(crd))
	}
	return x.Wait(ctx, c, served)
}

// Wait returns once the API server serves all kinds of the installation and says so.
func (x *Installation) Wait(ctx context.Context, c client.Client, served Resources) error {
	missing := slices.Clone(x.kinds)
	looks := 0
	var trouble error
	err := wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		_, resources, _, err := served.GroupsAndMaybeResources()
		if err != nil {
			trouble = err
			return false, nil //nolint:nilerr // it may be busy
		}
		before := len(missing)
		if missing = slices.DeleteFunc(
			missing,
			func(k kind) bool { return k.listed(resources) },
		); len(
			missing,
		) < before {
			x.moved()
		}
		if looks++; looks%int(stuckAfter/pollInterval) != 0 {
			return len(missing) == 0, nil
		}
		for _, k := range missing {
			if err := Unstick(ctx, c, k.definition); client.IgnoreNotFound(err) != nil {
				trouble = err
			}
		}
		return len(missing) == 0, nil
	})
	if err != nil && len(missing) > 0 {
		return fmt.Errorf("wait for %s to be served: %w", missing[0].definition, errors.Join(err, trouble))
	}
	return err
}

// listed reports whether the API server says that it serves all versions of a kind.
func (k kind) listed(resources map[schema.GroupVersion]*metav1.APIResourceList) bool {
	return !slices.ContainsFunc(k.versions, func(gv schema.GroupVersion) bool {
		list := resources[gv]
		return list == nil ||
			!slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == k.plural })
	})
}

// Unstick touches a definition whose names are accepted and which is not served all the same. An API
// server comes to serve a kind when it sees its definition change in that state: if it was stopped
// in between, its successor sees no change and leaves it so for ever.
func Unstick(ctx context.Context, c client.Client, name string) error {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := c.Get(ctx, client.ObjectKey{Name: name}, crd); err != nil {
		return err
	}
	if !Stuck(crd) {
		return nil
	}
	return touch(ctx, c, definitionKind(), name, crd.ResourceVersion)
}

// touch changes nothing of an object but the note that it was touched.
func touch(ctx context.Context, c client.Client, kind schema.GroupVersionKind, name, version string) error {
	touched := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name}}
	touched.SetGroupVersionKind(kind)
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, TouchedAnnotation, version)
	return c.Patch(ctx, touched, client.RawPatch(types.MergePatchType, patch))
}

// WaitAnswered returns once the API server calls those who serve the installation's own APIs, which
// must run by then. It tries a server that does not answer yet ever more rarely, up to half a minute
// apart, and does so at once when it is touched.
func (x *Installation) WaitAnswered(ctx context.Context, c client.Client) error {
	const looksUntilTouched = 5
	kind := schema.GroupVersionKind{Group: apiServices, Version: "v1", Kind: "APIService"}
	for _, name := range x.services {
		looks := 0
		var trouble error
		err := wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
			o := &unstructured.Unstructured{}
			o.SetGroupVersionKind(kind)
			if trouble = c.Get(ctx, client.ObjectKey{Name: name}, o); trouble != nil {
				return false, nil //nolint:nilerr // it may be busy
			}
			if available(o) {
				return true, nil
			}
			if looks++; looks%looksUntilTouched == 1 {
				trouble = touch(ctx, c, kind, name, o.GetResourceVersion())
			}
			return false, nil
		})
		if err != nil {
			return fmt.Errorf("wait for the API server to call %s: %w", name, errors.Join(err, trouble))
		}
		x.moved()
	}
	return nil
}

// available reports whether the API server calls who serves an API.
func available(service *unstructured.Unstructured) bool {
	conditions, _, err := unstructured.NestedSlice(service.Object, "status", "conditions")
	return err == nil && slices.ContainsFunc(conditions, func(c any) bool {
		condition, _ := c.(map[string]any)
		return condition["type"] == "Available" && condition["status"] == string(metav1.ConditionTrue)
	})
}

// Stuck reports whether a definition has its names and is not served.
func Stuck(crd *apiextensionsv1.CustomResourceDefinition) bool {
	is := func(t apiextensionsv1.CustomResourceDefinitionConditionType) bool {
		return slices.ContainsFunc(
			crd.Status.Conditions,
			func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
				return c.Type == t && c.Status == apiextensionsv1.ConditionTrue
			},
		)
	}
	return is(apiextensionsv1.NamesAccepted) && !is(apiextensionsv1.Established)
}
