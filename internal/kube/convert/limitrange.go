package convert

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
)

// defaults fills in what a container leaves out.
func (s Surroundings) defaults(r *corev1.ResourceRequirements) {
	for _, limits := range s.LimitRanges {
		for _, item := range limits.Spec.Limits {
			if item.Type == corev1.LimitTypeContainer {
				r.Requests = withMissing(r.Requests, item.DefaultRequest)
				r.Limits = withMissing(r.Limits, item.Default)
			}
		}
	}
}

// violation says what is wrong with the resources of a pod as it would be made,
// "" if nothing is. The first fault in the order of the manifest is told.
func (s Surroundings) violation(written, made *corev1.PodSpec) string {
	author := slices.Concat(written.InitContainers, written.Containers)
	for i, c := range slices.Concat(made.InitContainers, made.Containers) {
		what := "container " + c.Name
		if v := s.aboveGiven(what, author[i].Resources, c.Resources); v != "" {
			return v
		}
		if v := aboveLimits(what, c.Resources); v != "" {
			return v
		}
		if v := s.breaks(corev1.LimitTypeContainer, what, c.Resources); v != "" {
			return v
		}
	}
	if made.Resources != nil {
		if v := aboveLimits("the pod", *made.Resources); v != "" {
			return v
		}
		if v := abovePod(made); v != "" {
			return v
		}
	}
	if len(s.LimitRanges) == 0 {
		return ""
	}
	pod := &corev1.Pod{Spec: *made}
	opts := resourcehelper.PodResourcesOptions{ExcludeOverhead: true}
	return s.breaks(corev1.LimitTypePod, "the pod", corev1.ResourceRequirements{
		Requests: resourcehelper.PodRequests(pod, opts), Limits: resourcehelper.PodLimits(pod, opts),
	})
}

// aboveGiven says which request exceeds a limit that its author did not write,
// but a LimitRange.
func (s Surroundings) aboveGiven(what string, written, made corev1.ResourceRequirements) string {
	for _, name := range slices.Sorted(maps.Keys(made.Requests)) {
		request, limit := made.Requests[name], made.Limits[name]
		_, own := written.Limits[name]
		if _, limited := made.Limits[name]; own || !limited || request.Cmp(limit) <= 0 {
			continue
		}
		for _, limits := range s.LimitRanges {
			for _, item := range limits.Spec.Limits {
				if _, gives := item.Default[name]; item.Type != corev1.LimitTypeContainer || !gives {
					continue
				}
				cure := fmt.Sprintf("ask for at most %s, or set a limit of at least %s", limit.String(), request.String())
				if most, bounded := item.Max[name]; bounded && request.Cmp(most) > 0 {
					cure = fmt.Sprintf("ask for at most %s", most.String())
				}
				return fmt.Sprintf("%s asks for %s of %s and has no limit, so that it gets one of %s: %s (LimitRange %s)",
					what, request.String(), name, limit.String(), cure, limits.Name)
			}
		}
	}
	return ""
}

// aboveLimits says which request exceeds its limit.
func aboveLimits(what string, r corev1.ResourceRequirements) string {
	for _, name := range slices.Sorted(maps.Keys(r.Requests)) {
		request := r.Requests[name]
		if limit, ok := r.Limits[name]; ok && request.Cmp(limit) > 0 {
			return fmt.Sprintf(
				"%s requests %s of %s, more than its limit of %s: lower the request or raise the limit",
				what,
				request.String(),
				name,
				limit.String(),
			)
		}
	}
	return ""
}

// abovePod says of which resource the containers request more together than the
// pod as a whole.
func abovePod(made *corev1.PodSpec) string {
	together := resourcehelper.AggregateContainerRequests(
		&corev1.Pod{Spec: *made},
		resourcehelper.PodResourcesOptions{},
	)
	for _, name := range slices.Sorted(maps.Keys(made.Resources.Requests)) {
		whole, sum := made.Resources.Requests[name], together[name]
		if resourcehelper.IsSupportedPodLevelResource(name) && sum.Cmp(whole) > 0 {
			return fmt.Sprintf(
				"the containers request %s of %s together, LimitRanges included, more than the %s of the pod: raise the pod's request or set lower ones of containers",
				sum.String(),
				name,
				whole.String(),
			)
		}
	}
	return ""
}

// breaks says which rule of the LimitRanges for one type of thing is broken.
func (s Surroundings) breaks(kind corev1.LimitType, what string, r corev1.ResourceRequirements) string {
	for _, limits := range s.LimitRanges {
		for _, item := range limits.Spec.Limits {
			if item.Type != kind {
				continue
			}
			if v := breaksItem(what, r, item); v != "" {
				return fmt.Sprintf("%s (LimitRange %s)", v, limits.Name)
			}
		}
	}
	return ""
}

func breaksItem(what string, r corev1.ResourceRequirements, item corev1.LimitRangeItem) string {
	for _, name := range slices.Sorted(maps.Keys(item.Min)) {
		least := item.Min[name]
		for _, list := range []corev1.ResourceList{r.Requests, r.Limits} {
			if q, ok := list[name]; ok && q.Cmp(least) < 0 {
				return fmt.Sprintf("%s asks for %s of %s: ask for at least %s", what, q.String(), name, least.String())
			}
		}
		if _, ok := r.Requests[name]; !ok {
			return fmt.Sprintf("%s requests no %s: request at least %s", what, name, least.String())
		}
	}
	for _, name := range slices.Sorted(maps.Keys(item.Max)) {
		most := item.Max[name]
		for _, list := range []corev1.ResourceList{r.Requests, r.Limits} {
			if q, ok := list[name]; ok && q.Cmp(most) > 0 {
				return fmt.Sprintf("%s asks for %s of %s: ask for at most %s", what, q.String(), name, most.String())
			}
		}
		if _, ok := r.Limits[name]; !ok {
			return fmt.Sprintf("%s has no limit for %s: set one of at most %s", what, name, most.String())
		}
	}
	for _, name := range slices.Sorted(maps.Keys(item.MaxLimitRequestRatio)) {
		ratio := item.MaxLimitRequestRatio[name]
		request, limit := r.Requests[name], r.Limits[name]
		if most := product(request, ratio); limit.Cmp(most) > 0 {
			return fmt.Sprintf(
				"%s has a limit of %s for %s, more than %s times its request of %s: set them closer together",
				what,
				limit.String(),
				name,
				ratio.String(),
				request.String(),
			)
		}
	}
	return ""
}

// product multiplies exactly.
func product(a, b resource.Quantity) resource.Quantity {
	x, y, z := a.DeepCopy(), b.DeepCopy(), resource.Quantity{}
	return *resource.NewDecimalQuantity(*z.AsDec().Mul(x.AsDec(), y.AsDec()), resource.DecimalSI)
}
