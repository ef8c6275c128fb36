package webhook

import (
	"context"
	"fmt"
	"slices"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// checkRights refuses components that the author may not create. Without it
// a user who may create such jobs could create whatever the controller may.
func (h *jobHandler) checkRights(
	ctx context.Context,
	req admission.Request,
	made components,
) (field.ErrorList, error) {
	if made.err != nil {
		return nil, made.err
	}
	team, err := h.cluster.teamNamespace(ctx, req.Namespace)
	if err != nil {
		return nil, err
	}
	var errs field.ErrorList
	for _, ref := range made.list {
		resource, wrong, err := h.cluster.resourceOf(ref)
		if err != nil {
			return nil, err
		}
		if wrong != nil {
			errs = append(errs, wrong)
			continue
		}
		installed := slices.Contains(h.allowed, ref.GVK.GroupKind()) // for which the controller is
		if team && installed {
			continue
		}
		resource.Namespace = req.Namespace
		if wrong, err = h.cluster.mayMake(ctx, req, ref, resource); err == nil && wrong == nil && !installed {
			wrong, err = h.cluster.canBeMade(ctx, ref, resource)
		}
		if err != nil {
			return nil, err
		}
		if wrong != nil {
			errs = append(errs, wrong)
		}
	}
	return errs, nil
}

// mayMake refuses a component that its author may not create.
func (c Cluster) mayMake(
	ctx context.Context,
	req admission.Request,
	ref jobs.Component,
	resource authorizationv1.ResourceAttributes,
) (*field.Error, error) {
	resource.Verb = "create"
	may, err := c.may(ctx, req.UserInfo, resource)
	if err != nil {
		return nil, err
	}
	if !may {
		return field.Forbidden(ref.Path, fmt.Sprintf(
			"user %q may not create %s in namespace %s, not in an AppWrapper either: remove the component or ask for the right",
			req.UserInfo.Username,
			ref.GVK.GroupKind(),
			req.Namespace,
		)), nil
	}
	return nil, nil
}

// canBeMade refuses a component that the controller could not create, look after
// and delete. It is not asked about kinds for which it is installed: its rights for
// them come to a namespace with the first queue there, and a job may be submitted
// before.
func (c Cluster) canBeMade(
	ctx context.Context,
	ref jobs.Component,
	resource authorizationv1.ResourceAttributes,
) (*field.Error, error) {
	for _, verb := range []string{"create", "get", "delete"} {
		resource.Verb = verb
		review := &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &resource},
		}
		if err := c.Access.Create(ctx, review); err != nil {
			return nil, fmt.Errorf("ask whether mlbatch may %s %s: %w", verb, resource.Resource, err)
		}
		if !review.Status.Allowed {
			return field.Forbidden(ref.Path, fmt.Sprintf(
				"mlbatch may not %s %s in namespace %s: create it beside the AppWrapper, or ask an admin to let mlbatch create, get and delete %s",
				verb,
				ref.GVK.GroupKind(),
				resource.Namespace,
				resource.Resource,
			)), nil
		}
	}
	return nil, nil
}

// resourceOf gives the resource of a kind, or what is wrong with the kind.
func (c Cluster) resourceOf(ref jobs.Component) (authorizationv1.ResourceAttributes, *field.Error, error) {
	none := authorizationv1.ResourceAttributes{}
	m, err := c.Mapper.RESTMapping(ref.GVK.GroupKind(), ref.GVK.Version)
	switch {
	case meta.IsNoMatchError(err):
		return none, field.Invalid(ref.Path.Child("kind"), ref.GVK.Kind, fmt.Sprintf(
			"the cluster has no kind %s in version %s: correct apiVersion and kind, or have it installed",
			ref.GVK.GroupKind(),
			ref.GVK.Version,
		)), nil
	case err != nil:
		return none, nil, fmt.Errorf("look up resource of %s: %w", ref.GVK, err)
	case m.Scope.Name() == meta.RESTScopeNameRoot:
		return none, field.Invalid(ref.Path.Child("kind"), ref.GVK.Kind,
			"such objects belong to the whole cluster and cannot be part of an AppWrapper: create it beside"), nil
	}
	return authorizationv1.ResourceAttributes{
		Group:    m.Resource.Group,
		Version:  m.Resource.Version,
		Resource: m.Resource.Resource,
	}, nil, nil
}

// mayAdmit reports whether the author may decide on admission, which is the
// right to write the status of Workloads. Controllers have it, users have not.
func (c Cluster) mayAdmit(ctx context.Context, req admission.Request) (bool, error) {
	return c.may(ctx, req.UserInfo, authorizationv1.ResourceAttributes{
		Group: kueue.GroupVersion.Group, Resource: "workloads", Subresource: "status",
		Verb: "update", Namespace: req.Namespace,
	})
}

func (c Cluster) may(
	ctx context.Context,
	user authenticationv1.UserInfo,
	what authorizationv1.ResourceAttributes,
) (bool, error) {
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		ResourceAttributes: &what,
		User:               user.Username,
		Groups:             user.Groups,
		UID:                user.UID,
		Extra:              map[string]authorizationv1.ExtraValue{},
	}}
	for k, v := range user.Extra {
		review.Spec.Extra[k] = authorizationv1.ExtraValue(v)
	}
	if err := c.Access.Create(ctx, review); err != nil {
		return false, fmt.Errorf("ask whether %s may %s %s: %w", user.Username, what.Verb, what.Resource, err)
	}
	return review.Status.Allowed, nil
}
