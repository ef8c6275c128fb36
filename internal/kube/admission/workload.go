package admission

import (
	"crypto/sha1" //nolint:gosec // see WorkloadName
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/podmeta"
)

// WorkloadName is stable for one object, so that a restart finds what it made,
// and differs for an object of the same name made later. It is the name that
// Kueue gives, which scripts compute; but it is short enough for a label.
func WorkloadName(gvk schema.GroupVersionKind, o metav1.Object) string {
	const longest, hashLength = 63, 5
	sum := sha1.Sum( //nolint:gosec // it tells names apart and keeps no secret
		[]byte(strings.Join([]string{gvk.Kind, gvk.Group, o.GetName(), string(o.GetUID())}, "\n")),
	)
	prefix := strings.ToLower(gvk.Kind) + "-" + o.GetName()
	if len(prefix) > longest-hashLength-1 {
		prefix = strings.TrimRight(prefix[:longest-hashLength-1], ".-")
	}
	return prefix + "-" + hex.EncodeToString(sum[:])[:hashLength]
}

// PodWorkloadName is the name of the Workload of a pod that is queued by itself, or with the group that it names.
func PodWorkloadName(p *corev1.Pod) string {
	if g := podmeta.Group(p); g != "" {
		return g
	}
	return WorkloadName(podmeta.GVK(), p)
}

// ExecutionTime is what the label of a job allows it; nil is without limit. A
// label that is no positive number is refused by the webhook, and says nothing
// here.
func ExecutionTime(o metav1.Object) *int32 {
	n, err := strconv.ParseInt(o.GetLabels()[kueue.MaxExecTimeSecondsLabel], 10, 32)
	if err != nil || n <= 0 {
		return nil
	}
	return new(int32(n))
}

// Submitted hands on when a job was created, as precisely as it is known. What
// contradicts the API server's own time is not believed.
func Submitted(o metav1.Object) map[string]string {
	created := o.GetCreationTimestamp()
	at, err := time.Parse(time.RFC3339Nano, o.GetAnnotations()[kueue.SubmittedAtAnnotation])
	if d := at.Sub(created.Time); err != nil || d < -time.Second || d >= 2*time.Second {
		at = created.Time
	}
	return map[string]string{kueue.SubmittedAtAnnotation: at.UTC().Format(time.RFC3339Nano)}
}

// SamePods reports whether two lists of pod sets ask for the same: pods of the
// same number and size, on the same nodes. Defaults that the API server filled
// in on one side do not matter.
func SamePods(a, b []kueue.PodSet) bool {
	return slices.EqualFunc(a, b, func(a, b kueue.PodSet) bool {
		return a.Name == b.Name && a.Count == b.Count && equality.Semantic.DeepEqual(a.MinCount, b.MinCount) &&
			samePod(&a.Template.Spec, &b.Template.Spec)
	})
}

func samePod(a, b *corev1.PodSpec) bool {
	ra, rb := convert.RequestsOf(
		a,
		convert.Surroundings{},
		convert.Counting{},
	), convert.RequestsOf(
		b,
		convert.Surroundings{},
		convert.Counting{},
	)
	return slices.Equal(ra.Node, rb.Node) && equality.Semantic.DeepEqual(convert.Filter(a), convert.Filter(b)) &&
		a.PriorityClassName == b.PriorityClassName && equality.Semantic.DeepEqual(a.RuntimeClassName, b.RuntimeClassName)
}
