package webhook

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// trialSeconds bounds how long the creation of all components of a job is
// tried. The API server waits no longer than timeoutSeconds for the answer.
const trialSeconds = 4

const (
	// passedFor bounds how long it is remembered that a component could have been
	// created: what depends on other objects may change, and is only told.
	passedFor = time.Minute
	// passedMany bounds how many different components are remembered.
	passedMany = 4096
)

// passed remembers which components could have been created, so that the second
// of many equal jobs, which differ in their names, costs no trial. A trial takes as
// long as creating the component does.
type passed struct {
	byLikeness *cache.LRUExpireCache // likeness to lengths
}

// lengths of the longest names that passed.
type lengths struct{ component, job int }

// names of a component and its job.
type names struct{ component, job string }

// likeness tells apart what components say, whatever they are called.
type likeness [sha256.Size]byte

func newPassed(c cache.Clock) passed {
	return passed{cache.NewLRUExpireCacheWithClock(passedMany, c)}
}

// has reports whether a component would pass as one like it did. Names are left to
// the API server unless every kind would take them: they end up in labels and in
// names of pods.
func (p passed) has(of likeness, n names) bool {
	known, ok := p.byLikeness.Get(of)
	if !ok {
		return false
	}
	longest := known.(lengths) //nolint:forcetypeassert // nothing else is in there
	return len(n.component) <= longest.component && len(n.job) <= longest.job &&
		len(validation.IsDNS1035Label(n.component)) == 0 && len(validation.IsDNS1035Label(n.job)) == 0
}

func (p passed) add(of likeness, n names) {
	longest := lengths{len(n.component), len(n.job)}
	if known, ok := p.byLikeness.Get(of); ok {
		before := known.(lengths) //nolint:forcetypeassert // nothing else is in there
		longest = lengths{max(longest.component, before.component), max(longest.job, before.job)}
	}
	p.byLikeness.Add(of, longest, passedFor)
}

// likenesses are those of all components of a job.
func (h *jobHandler) likenesses(job jobs.Object) ([]likeness, error) {
	const anyone = "any"
	like, _ := job.DeepCopyObject().(jobs.Object)
	like.SetName(anyone)
	like.SetUID(anyone)
	like.SetLabels(nil)
	like.SetAnnotations(nil)
	made := h.components(like)
	if made.err != nil {
		return nil, made.err
	}
	out := make([]likeness, len(made.list))
	for i, c := range made.list {
		if c.Object == nil {
			return nil, fmt.Errorf("%s cannot be made", c.Path)
		}
		c.Object.SetName(anyone)
		text, err := c.Object.MarshalJSON()
		if err != nil {
			return nil, err
		}
		out[i] = sha256.Sum256(text)
	}
	return out, nil
}

// trials collects what the API server says to the creation of components.
type trials struct {
	client   client.Writer
	reader   client.Reader
	errs     field.ErrorList
	warnings []string
}

// silent reports whether nothing was said since so many errors and warnings.
func (t *trials) silent(errs, warnings int) bool {
	return len(t.errs) == errs && len(t.warnings) == warnings
}

// try has the API server check every component of a new job, and the pods
// of kinds that it does not know itself, without storing anything: what it would
// refuse then is refused now and not after hours in a queue. The components are
// tried as the controller, which is to create them. What depends on other objects,
// which may change until then, is only told; so is a trial that could not be
// made.
func (h *jobHandler) try(ctx context.Context, job jobs.Object, made components) (field.ErrorList, []string) {
	if h.cluster.Trial == nil {
		return nil, nil
	}
	like, err := h.likenesses(job)
	if err != nil {
		return nil, nil // refused already
	}
	ctx, cancel := context.WithTimeout(ctx, trialSeconds*time.Second)
	defer cancel()
	t := trials{client: h.cluster.Trial, reader: h.cluster.Live}
	for i, c := range made.list {
		if c.Object == nil {
			continue // refused already
		}
		called := names{c.Name, job.GetName()}
		if h.passed.has(like[i], called) && t.nameIsFree(ctx, c.Object, c.Path) {
			continue
		}
		errs, warnings := len(t.errs), len(t.warnings)
		t.tryOne(ctx, c)
		if t.silent(errs, warnings) {
			h.passed.add(like[i], called)
		}
	}
	return t.errs, t.warnings
}

// nameIsFree reports whether nothing is in the way of an object. If that cannot be
// learned, the object is tried.
func (t *trials) nameIsFree(ctx context.Context, o *unstructured.Unstructured, at *field.Path) bool {
	there := &metav1.PartialObjectMetadata{}
	there.SetGroupVersionKind(o.GroupVersionKind())
	err := t.reader.Get(ctx, client.ObjectKeyFromObject(o), there)
	if err == nil {
		t.taken(o, at)
	}
	return err == nil || apierrors.IsNotFound(err)
}

// tryOne tries a component, and its pods if the API server does not know them.
func (t *trials) tryOne(ctx context.Context, c jobs.Component) {
	t.create(ctx, c.Object, c.Path)
	if builtIn(c.GVK.Group) {
		return
	}
	for _, ps := range c.Pods {
		if ps.Pod != nil {
			t.create(ctx, ps.Pod, field.NewPath(ps.Path))
		}
	}
}

// taken warns that there is an object of that name.
func (t *trials) taken(o *unstructured.Unstructured, at *field.Path) {
	t.warnings = append(
		t.warnings,
		fmt.Sprintf(
			"%s: there is a %s %s already, which has to be gone when the job starts",
			at,
			o.GetKind(),
			o.GetName(),
		),
	)
}

// builtIn reports whether the API server itself checks the pod templates of a
// group's kinds.
func builtIn(group string) bool {
	return group == corev1.GroupName || group == "apps" || group == "batch"
}

// Where a team's queue was made a moment ago, the controller gets its rights a
// moment later: users are not told that it has none before it could have got them.
const (
	rightsWithin = 2 * time.Second
	rightsPause  = 100 * time.Millisecond
)

// create tries to create one object, which is described at a path.
func (t *trials) create(ctx context.Context, o *unstructured.Unstructured, at *field.Path) {
	var err error
	// Only rights are waited for so briefly; a trial may take as long as there is.
	_ = wait.PollUntilContextTimeout(ctx, rightsPause, rightsWithin, true, func(context.Context) (bool, error) {
		err = t.client.Create(ctx, o, client.DryRunAll)
		return !jobs.LacksRight(err), nil
	}) // what it comes to is in err
	switch {
	case err == nil:
	case apierrors.IsInvalid(err),
		apierrors.IsBadRequest(err) && !strings.Contains(err.Error(), "does not support dry run"):
		t.errs = append(t.errs, refusals(err, at)...)
	case apierrors.IsAlreadyExists(err):
		t.taken(o, at)
	case apierrors.IsForbidden(err), apierrors.IsNotFound(err):
		t.warnings = append(t.warnings, fmt.Sprintf("%s: as things are now, the job could not start: %v", at, err))
	default:
		t.warnings = append(
			t.warnings,
			fmt.Sprintf("%s: whether it can be created could not be tried: %v", at, err),
		)
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
			Detail: strings.TrimPrefix(strings.TrimPrefix(c.Message, kind.String()), ": "), // else it is said twice
		}
	}
	return field.Forbidden(path, c.Message)
}
