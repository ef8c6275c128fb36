package v1beta2

import (
	"fmt"
	"strings"
)

// ComputeDomainClaims says which pod sets of a Workload are in a ComputeDomain, and of which
// ResourceClaimTemplate their pods have a claim. The ComputeDomain that is made for a Workload, and its claim
// template, have the Workload's name; one that the author of the job has made is named in the annotation, as
// in "workers=mine".
func ComputeDomainClaims(w *Workload) map[PodSetReference]string {
	text := w.Annotations[ComputeDomainPodSetsAnnotation]
	if text == "" {
		return nil
	}
	out := map[PodSetReference]string{}
	for entry := range strings.SplitSeq(text, ",") {
		name, template, named := strings.Cut(entry, "=")
		if !named {
			template = w.Name
		}
		out[PodSetReference(name)] = template
	}
	return out
}

// ComputeDomainFault says what is wrong with the annotation of a job or of pods that asks for a ComputeDomain; "" if
// nothing is.
func ComputeDomainFault(annotations map[string]string) string {
	switch text := annotations[ComputeDomainAnnotation]; text {
	case "", "true", "false":
		return ""
	default:
		return fmt.Sprintf(`%q is not known: use "true" for a ComputeDomain of the job's own, or remove it`, text)
	}
}
