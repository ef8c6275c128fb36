package webhook

import (
	"encoding/json"
	"fmt"
	"math"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// limited are the bounds on what one tenant may put on all: how many jobs a
// namespace has, and how large each is. A ResourceQuota would count as well, but
// the API server writes it with every job that comes and goes, which is a twentieth
// of what a job costs at all.
type limited struct {
	jobs.Limits
	// have is how many jobs a namespace has, haveBytes how many bytes they have together; nil
	// counts none.
	have      func(namespace string) int
	haveBytes func(namespace string) int64
}

// another refuses a new job where there are as many as a namespace may have, or as large ones.
// Between a creation and its count there is a moment, so that jobs that are
// created at the same time may be a few too many.
func (l limited) another(namespace string) field.ErrorList {
	if l.TotalSize > 0 && l.haveBytes != nil {
		if n := l.haveBytes(namespace); n >= l.TotalSize {
			return field.ErrorList{field.Forbidden(field.NewPath("metadata", "namespace"), fmt.Sprintf(
				"the jobs of namespace %s have %d bytes as JSON (those that have ended included), and %d are the most (tenants.maxTotalSize of the configuration): delete jobs that have ended",
				namespace,
				n,
				l.TotalSize,
			))}
		}
	}
	if l.Jobs == 0 || l.have == nil {
		return nil
	}
	n := l.have(namespace)
	if n < l.Jobs {
		return nil
	}
	return field.ErrorList{field.Forbidden(field.NewPath("metadata", "namespace"), fmt.Sprintf(
		"namespace %s has %d jobs (those that have ended included), and %d are the most (tenants.maxJobs of the configuration): delete jobs that have ended",
		namespace,
		n,
		l.Jobs,
	))}
}

// size refuses a job that is too large, or that a change makes too large; at is
// what a job is mostly made of.
func (l limited) size(req admission.Request, at *field.Path) field.ErrorList {
	n, was := int64(len(req.Object.Raw)), int64(len(req.OldObject.Raw))
	if l.Size == 0 || n <= l.Size || n <= was {
		return nil
	}
	if was > 0 {
		at = field.NewPath("metadata") // what else can grow
	}
	return field.ErrorList{
		field.Forbidden(
			at,
			fmt.Sprintf(
				"the %s has %d bytes as JSON, and %d are the most (tenants.maxJobSize of the configuration): %s",
				req.Kind.Kind,
				n,
				l.Size,
				intoVolumes,
			),
		),
	}
}

// intoVolumes is what to do about a job that is too large.
const intoVolumes = "keep data and long scripts in ConfigMaps, volumes or images, and name them"

// components refuses a job with too many components, or whose Workload, which has
// the pods of each pod set, would be too large: several pod sets may name the same
// template. bulk is where its components are, raw how many bytes it has.
func (l limited) components(kind, bulk string, raw int, made components) field.ErrorList {
	at := field.NewPath(bulk)
	if n := len(made.list); l.Components > 0 && n > l.Components {
		return field.ErrorList{
			field.Forbidden(
				at,
				fmt.Sprintf(
					"the %s has %d components, and %d are the most (tenants.maxComponents of the configuration): put some into %ss of their own",
					kind,
					n,
					l.Components,
					kind,
				),
			),
		}
	}
	if made.err != nil || l.Size == 0 {
		return nil // refused already
	}
	templates := made.templates()
	sets, bytes := len(templates), int64(0)
	if int64(raw)*int64(sets) <= l.Size {
		return nil // as nearly always
	}
	for _, t := range templates {
		text, err := json.Marshal(t.Template)
		if err != nil {
			return field.ErrorList{field.Invalid(at, "", err.Error())}
		}
		bytes += int64(len(text))
	}
	if bytes <= l.Size {
		return nil
	}
	return field.ErrorList{
		field.Forbidden(
			at,
			fmt.Sprintf(
				"the %d pod sets have %d bytes as JSON, and %d are the most (tenants.maxJobSize of the configuration): %s",
				sets,
				bytes,
				l.Size,
				intoVolumes,
			),
		),
	}
}

// made refuses a job of which more would be made than can be counted, or stored: what others wrote
// that it is based on is copied into it and into its Workload. The job has that already.
func (l limited) made(k *jobs.Kind, job jobs.Object) field.ErrorList {
	facts, err := k.Read(job)
	if err != nil {
		return nil // refused already, or later
	}
	at := field.NewPath(k.Admission.Bulk)
	if why := uncountable(facts.PodSets); why != "" {
		return field.ErrorList{field.Forbidden(at, why)}
	}
	if k.Queueing.Basis == nil || l.Size == 0 {
		return nil
	}
	text, errJob := json.Marshal(job)
	sets, errSets := json.Marshal(facts.PodSets)
	if n := int64(len(text) + len(sets)); errJob == nil && errSets == nil && n > l.Size {
		return field.ErrorList{field.Forbidden(k.Queueing.Basis.Of(job).At, fmt.Sprintf(
			"with what it is based on the %s and its Workload have %d bytes as JSON, and %d are the most (tenants.maxJobSize of the configuration): %s",
			k.GVK().Kind,
			n,
			l.Size,
			intoVolumes,
		))}
	}
	return nil
}

// uncountable says why pods, or what all of them ask for, cannot be counted; "" if they can.
func uncountable(sets []kueue.PodSet) string {
	pods := int64(0)
	all := core.Resources{}
	for i := range sets {
		pods += int64(sets[i].Count)
		all = all.Plus(convert.PodRequests(&sets[i].Template.Spec).Times(int64(sets[i].Count)))
	}
	if pods > math.MaxInt32 {
		return fmt.Sprintf("its %d pods are more than can be counted, %d: ask for fewer", pods, math.MaxInt32)
	}
	for _, r := range all {
		if r.Amount == core.Unlimited {
			return fmt.Sprintf(
				"its pods ask for more %s together than can be counted: ask for less, or for fewer pods",
				r.Resource,
			)
		}
	}
	return ""
}
