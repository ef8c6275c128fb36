package webhook

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// checkTemplates applies the rules for templates of pods, of jobs of all kinds, of what jobs are based on
// and of what makes pods itself. was are the templates before a change, nil of what is new or gets its
// first queue: what they said already stays, and their authors are not asked about it again. together: the
// pods start when their job is admitted, and in no group of their own.
func (h *jobHandler) checkTemplates(
	ctx context.Context,
	namespace string,
	was, is []jobs.PodTemplate,
	together bool,
) (errs field.ErrorList, err error) {
	before := make(map[string]*corev1.PodTemplateSpec, len(was))
	for _, t := range was {
		before[t.Path] = t.Template
	}
	for _, t := range is {
		old := before[t.Path]
		if old != nil && equality.Semantic.DeepEqual(old, t.Template) {
			continue
		}
		found, err := h.checkTemplate(ctx, namespace, t, together)
		if err != nil {
			return nil, err
		}
		if len(found) > 0 && old != nil {
			known, err := h.checkTemplate(ctx, namespace, jobs.PodTemplate{Path: t.Path, Template: old}, together)
			if err != nil {
				return nil, err
			}
			found = slices.DeleteFunc(found, func(e *field.Error) bool {
				return slices.ContainsFunc(known, func(k *field.Error) bool { return k.Error() == e.Error() })
			})
		}
		errs = append(errs, found...)
	}
	return errs, nil
}

func (h *jobHandler) checkTemplate( //nolint:revive // a fact about the job
	ctx context.Context,
	namespace string,
	t jobs.PodTemplate,
	together bool,
) (field.ErrorList, error) {
	errs := h.limits.ValidateTemplate(t, namespace)
	if together {
		errs = append(append(errs, inGroup(t)...), nearness(t)...)
	}
	found, err := h.checkPriority(ctx, t)
	return append(errs, found...), err
}
