package rollout

import (
	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/version"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mlbatch/mlbatch/internal/kube/install"
)

// Discovery tells what an API server is and serves.
type Discovery interface {
	ServerVersion() (*version.Info, error)
	ServerGroups() (*metav1.APIGroupList, error)
	ServerResourcesForGroupVersion(groupVersion string) (*metav1.APIResourceList, error)
}

// Look gathers the facts for a plan. It writes nothing.
func Look(ctx context.Context, c client.Client, d Discovery, p *Installation) (*ClusterState, error) {
	f := &ClusterState{}
	is, err := d.ServerVersion()
	if err != nil {
		return nil, fmt.Errorf("ask for the version of Kubernetes: %w", err)
	}
	f.Kubernetes = is.GitVersion
	groups, err := d.ServerGroups()
	if err != nil {
		return nil, fmt.Errorf("ask which kinds there are: %w", err)
	}
	for i := range groups.Groups {
		f.Groups = append(f.Groups, groups.Groups[i].Name)
	}
	if f.Denied, err = denied(ctx, c, d, p.Stages); err != nil {
		return nil, err
	}
	if len(f.Denied) > 0 {
		return f, nil // what may not be read says nothing
	}
	definitions := &apiextensionsv1.CustomResourceDefinitionList{}
	mutating, validating := &admissionregistrationv1.MutatingWebhookConfigurationList{}, &admissionregistrationv1.ValidatingWebhookConfigurationList{}
	deployments, classes, pods := &appsv1.DeploymentList{}, &schedulingv1.PriorityClassList{}, &corev1.PodList{}
	for _, list := range []client.ObjectList{definitions, mutating, validating, deployments, classes} {
		if err := c.List(ctx, list); err != nil {
			return nil, fmt.Errorf("look at what there is: %w", err)
		}
	}
	f.Definitions, f.Mutating, f.Validating, f.Deployments = definitions.Items, mutating.Items, validating.Items, deployments.Items
	for i := range classes.Items {
		f.PriorityClasses = append(f.PriorityClasses, classes.Items[i].Name)
	}
	ns := &corev1.Namespace{}
	err = c.Get(ctx, client.ObjectKey{Name: p.Release.Namespace}, ns)
	switch {
	case apierrors.IsNotFound(err):
		return f, nil
	case err != nil:
		return nil, fmt.Errorf("look at namespace %s: %w", p.Release.Namespace, err)
	}
	f.Namespace = ns
	if err := c.List(ctx, pods, client.InNamespace(ns.Name)); err != nil {
		return nil, fmt.Errorf("look at namespace %s: %w", ns.Name, err)
	}
	f.Pods = pods.Items
	return f, nil
}

// question is one of rights.
type question struct{ verb, group, resource, namespace string }

func (q question) String() string {
	s := q.verb + " " + q.resource
	if q.group != "" {
		s += "." + q.group
	}
	if q.namespace != "" {
		s += " in " + q.namespace
	}
	return s
}

// asksAtOnce bounds the questions that are asked at the same time.
const asksAtOnce = 16

// denied is what may not be done that has to be. Beside writing what is installed that is to
// give away rights which who installs may not have: of roles, "escalate" and "bind".
func denied(ctx context.Context, c client.Client, d Discovery, stages []install.Stage) ([]string, error) {
	asked := sets.New[question]()
	for _, s := range stages {
		for _, o := range s.Objects {
			resource := resourceOf(d, o.GroupVersionKind())
			for _, verb := range []string{"get", "create", "patch"} {
				asked.Insert(question{verb, o.GroupVersionKind().Group, resource, o.GetNamespace()})
			}
			switch o.GetKind() {
			case "ClusterRole", "Role":
				asked.Insert(
					question{"escalate", o.GroupVersionKind().Group, resource, o.GetNamespace()},
					question{"bind", o.GroupVersionKind().Group, resource, o.GetNamespace()},
				)
			case "CustomResourceDefinition", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration":
				asked.Insert(question{"list", o.GroupVersionKind().Group, resource, ""})
			}
		}
	}
	asked.Insert(
		question{"list", "apps", "deployments", ""},
		question{"list", "scheduling.k8s.io", "priorityclasses", ""},
	)
	all := asked.UnsortedList()
	refused := make([]string, len(all))
	var ask errgroup.Group
	ask.SetLimit(asksAtOnce)
	for i, q := range all {
		ask.Go(func() error {
			r := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
				ResourceAttributes: &authorizationv1.ResourceAttributes{
					Verb:      q.verb,
					Group:     q.group,
					Resource:  q.resource,
					Namespace: q.namespace,
				},
			}}
			if err := c.Create(ctx, r); err != nil {
				return fmt.Errorf("ask what you may do: %w", err)
			}
			if !r.Status.Allowed {
				refused[i] = q.String()
			}
			return nil
		})
	}
	if err := ask.Wait(); err != nil {
		return nil, err
	}
	refused = slices.DeleteFunc(refused, func(s string) bool { return s == "" })
	slices.Sort(refused)
	return refused, nil
}

// resourceOf is what a kind is called in addresses. Kinds that are not served yet follow the rule.
func resourceOf(d Discovery, gvk schema.GroupVersionKind) string {
	if list, err := d.ServerResourcesForGroupVersion(gvk.GroupVersion().String()); err == nil {
		for i := range list.APIResources {
			if r := &list.APIResources[i]; r.Kind == gvk.Kind && !slices.Contains([]byte(r.Name), '/') {
				return r.Name
			}
		}
	}
	plural, _ := apimeta.UnsafeGuessKindToResource(gvk)
	return plural.Resource
}
