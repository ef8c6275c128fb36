package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/serving"
)

// author is who a new object is accounted to: who asks for it. Of what a controller of
// Kubernetes makes it is the user whom the template names, if that is of a kind whose
// templates were signed here, as those of all objects in a team's namespace are; elsewhere
// a template may say anything, and nobody is named.
func (c Cluster) author(ctx context.Context, req admission.Request, o metav1.Object) (string, error) {
	if !slices.Contains(kubeControllers(), req.UserInfo.Username) {
		return req.UserInfo.Username, nil
	}
	owner := metav1.GetControllerOf(o)
	if owner == nil || !slices.ContainsFunc(serving.All(), func(k serving.Kind) bool {
		return owner.Kind == k.GVK.Kind && owner.APIVersion == k.GVK.GroupVersion().String()
	}) {
		return "", nil
	}
	team, err := c.teamNamespace(ctx, req.Namespace)
	if !team || err != nil {
		return "", err
	}
	return jobs.User(nil, o), nil
}

// sign writes down who submitted an object, or a template at a path of it; "" removes what
// its author wrote there.
func (e *edit) sign(user string, at ...string) error {
	label, annotation := jobs.UserEntries(user)
	for _, m := range []struct{ of, value string }{{"labels", label}, {"annotations", annotation}} {
		path := append(slices.Clone(at), "metadata", m.of)
		if m.value == "" {
			e.drop([]string{jobs.UserLabel}, path...)
			continue
		}
		if err := e.set(m.value, append(path, jobs.UserLabel)...); err != nil {
			return err
		}
	}
	return nil
}

// signQueued signs an object that a change puts into a queue: it is submitted with that.
func (h *jobHandler) signQueued(
	ctx context.Context,
	req admission.Request,
	is jobs.Object,
) admission.Response {
	queued, err := h.queues(ctx, is, req.Namespace)
	if err != nil {
		return failed(err)
	}
	if !queued {
		return admission.Allowed("")
	}
	signed, ok := is.DeepCopyObject().(jobs.Object)
	if !ok {
		return failed(fmt.Errorf("a copy of %T is none", is))
	}
	jobs.SetUser(signed, req.UserInfo.Username)
	return difference(is, signed)
}

// signGrouped writes into a new object that consists of groups of pods who submitted it, and keeps it in one
// that is changed. Its pods are given it by our controller. What else is in it is not read: the API server
// checks it against the schema only later, and says then what is wrong with it.
func signGrouped(_ context.Context, req admission.Request) admission.Response {
	user := req.UserInfo.Username
	if req.Operation == admissionv1.Update {
		was := &metav1.PartialObjectMetadata{}
		if err := json.Unmarshal(req.OldObject.Raw, was); err != nil {
			return malformed(err)
		}
		user = jobs.User(nil, was)
	}
	e, err := newEdit(req.Object.Raw)
	if err != nil {
		return malformed(err)
	}
	if err := e.sign(user); err != nil {
		return malformed(err)
	}
	return e.response()
}
