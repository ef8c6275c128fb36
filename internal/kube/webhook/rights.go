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

	aw "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/appwrapper"
)

// checkRights refuses components that the author may not create. Without it
// anyone who may create AppWrappers could create whatever the controller may.
func (h *wrapperHandler) checkRights(ctx context.Context, req admission.Request, w *aw.AppWrapper) (field.ErrorList, error) {
	refs, err := appwrapper.ComponentKinds(w)
	if err != nil {
		return nil, err
	}
	team, err := h.cluster.teamNamespace(ctx, req.Namespace)
	if err != nil {
		return nil, err
	}
	var errs field.ErrorList
	for _, ref := range refs {
		if team && slices.Contains(h.allowed, ref.GVK.GroupKind()) {
			continue
		}
		resource, err := h.cluster.resourceOf(ref)
		if err != nil {
			return nil, err
		}
		resource.Namespace, resource.Verb = req.Namespace, "create"
		may, err := h.cluster.may(ctx, req.UserInfo, resource)
		if err != nil {
			return nil, err
		}
		if !may {
			errs = append(errs, field.Forbidden(ref.Path, fmt.Sprintf(
				"user %q may not create %s in namespace %s, not in an AppWrapper either: remove the component or ask for the right",
				req.UserInfo.Username, ref.GVK.GroupKind(), req.Namespace)))
		}
	}
	return errs, nil
}

// resourceOf gives the resource of a kind, and all resources of its group if the
// API server does not know the kind.
func (c Cluster) resourceOf(ref appwrapper.ComponentRef) (authorizationv1.ResourceAttributes, error) {
	m, err := c.Mapper.RESTMapping(ref.GVK.GroupKind(), ref.GVK.Version)
	switch {
	case meta.IsNoMatchError(err):
		return authorizationv1.ResourceAttributes{Group: ref.GVK.Group, Version: ref.GVK.Version, Resource: "*"}, nil
	case err != nil:
		return authorizationv1.ResourceAttributes{}, fmt.Errorf("look up resource of %s: %w", ref.GVK, err)
	}
	return authorizationv1.ResourceAttributes{Group: m.Resource.Group, Version: m.Resource.Version, Resource: m.Resource.Resource}, nil
}

// mayAdmit reports whether the author may decide on admission, which is the
// right to write the status of Workloads. Controllers have it, users have not.
func (c Cluster) mayAdmit(ctx context.Context, req admission.Request) (bool, error) {
	return c.may(ctx, req.UserInfo, authorizationv1.ResourceAttributes{
		Group: kueue.GroupVersion.Group, Resource: "workloads", Subresource: "status",
		Verb: "update", Namespace: req.Namespace,
	})
}

func (c Cluster) may(ctx context.Context, user authenticationv1.UserInfo, what authorizationv1.ResourceAttributes) (bool, error) {
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
