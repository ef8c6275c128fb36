package webhook

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	aw "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/appwrapper"
)

// trialSeconds bounds how long the creation of all components of an AppWrapper
// is tried. The API server waits no longer than timeoutSeconds for the answer.
const trialSeconds = 4

// trials collects what the API server says to the creation of components.
type trials struct {
	client   client.Writer
	errs     field.ErrorList
	warnings []string
}

// try has the API server check every component of a new AppWrapper, and the pods
// of kinds that it does not know itself, without storing anything: what it would
// refuse then is refused now and not after hours in a queue. The components are
// tried as the controller, who is to create them. What depends on other objects,
// which may change until then, is only told; so is a trial that could not be
// made.
func (h *wrapperHandler) try(ctx context.Context, w *aw.AppWrapper) (field.ErrorList, []string) {
	if h.cluster.Trial == nil {
		return nil, nil
	}
	components, err := appwrapper.Components(w)
	if err != nil {
		return nil, nil // refused already
	}
	ctx, cancel := context.WithTimeout(ctx, trialSeconds*time.Second)
	defer cancel()
	if w.UID == "" {
		w.UID = "not-created-yet" // an owner has one
	}
	t := trials{client: h.cluster.Trial}
	for _, c := range components {
		at := field.NewPath("spec", "components").Index(c.Index).Child("template")
		object, err := appwrapper.Inject(w, c, nil, appwrapper.InjectOptions{SchedulerName: h.schedulerName})
		if err != nil {
			continue // refused already
		}
		t.create(ctx, object, at)
		if builtIn(c.GVK.Group) {
			continue
		}
		for _, ps := range c.PodSets {
			if pod := appwrapper.PodAt(object, ps.Path); pod != nil {
				t.create(ctx, pod, at.Child(strings.TrimPrefix(ps.Path, "template.")))
			}
		}
	}
	return t.errs, t.warnings
}

// builtIn reports whether the API server itself checks the pod templates of a
// group's kinds.
func builtIn(group string) bool {
	return group == corev1.GroupName || group == "apps" || group == "batch"
}

// create tries to create one object, which is described at a path.
func (t *trials) create(ctx context.Context, o *unstructured.Unstructured, at *field.Path) {
	err := t.client.Create(ctx, o, client.DryRunAll)
	switch {
	case err == nil:
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err) && !strings.Contains(err.Error(), "does not support dry run"):
		t.errs = append(t.errs, refusals(err, at)...)
	case apierrors.IsAlreadyExists(err):
		t.warnings = append(t.warnings, fmt.Sprintf("%s: there is a %s %s already, which has to be gone when the job starts", at, o.GetKind(), o.GetName()))
	case apierrors.IsForbidden(err), apierrors.IsNotFound(err):
		t.warnings = append(t.warnings, fmt.Sprintf("%s: as things are now, the job could not start: %v", at, err))
	default:
		t.warnings = append(t.warnings, fmt.Sprintf("%s: whether it can be created could not be tried: %v", at, err))
	}
}

// refusals are the causes of the API server's refusal, at their fields below at.
func refusals(err error, at *field.Path) field.ErrorList {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil || len(status.Status().Details.Causes) == 0 {
		return field.ErrorList{field.Forbidden(at, err.Error())}
	}
	var out field.ErrorList
	for _, c := range status.Status().Details.Causes {
		path := at
		if c.Field != "" {
			path = at.Child(c.Field)
		}
		out = append(out, refusal(path, c))
	}
	return out
}

// refusal is one cause in the API server's own words.
func refusal(path *field.Path, c metav1.StatusCause) *field.Error {
	kind := field.ErrorType(c.Type)
	switch kind { //nolint:exhaustive // others have no place in such an error
	case field.ErrorTypeRequired, field.ErrorTypeInvalid, field.ErrorTypeNotSupported, field.ErrorTypeForbidden,
		field.ErrorTypeTooLong, field.ErrorTypeTooMany, field.ErrorTypeDuplicate, field.ErrorTypeNotFound, field.ErrorTypeTypeInvalid:
		return &field.Error{
			Type: kind, Field: path.String(), BadValue: field.OmitValueType{},
			Detail: strings.TrimPrefix(c.Message, kind.String()+": "),
		}
	}
	return field.Forbidden(path, c.Message)
}
