package job

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/kinds"
)

// Where the definition of a kind is another program's, which drops what has to be remembered of a
// job, its jobs are held from the first moment, with the reason, and nobody is stopped for them.
// Once it is back they are queued. The API server is asked once each half minute for a kind, and
// stores nothing.
func TestJobsOfReplacedDefinitionsAreHeld(t *testing.T) {
	for _, k := range kinds.All() {
		if k.Operated == nil {
			continue
		}
		t.Run(k.GVK().Kind, func(t *testing.T) {
			replaced, asked := true, 0
			clock := clocktesting.NewFakePassiveClock(now)
			w := kindWorld(t, k, sample(t, &k, 2, "i", false), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "blue", Labels: map[string]string{kueue.TeamNamespaceLabel: "true"}}})
			inner, _ := w.c.(client.WithWatch)
			w.r.opts.Clock = clock
			w.r.opts.Client = interceptor.NewClient(inner, interceptor.Funcs{SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, opts ...client.SubResourceUpdateOption) error {
				if _, is := o.(*kueue.Workload); is {
					return c.SubResource(sub).Update(ctx, o, opts...)
				}
				asked++
				all := client.SubResourceUpdateOptions{}
				all.ApplyOptions(opts)
				if job, is := o.(jobs.Object); len(all.DryRun) == 0 || all.FieldValidation != "Strict" || !is || k.Operated.Recall(job) == nil {
					t.Errorf("it is not asked whether a memory would be kept: %+v of %T", all, o)
				}
				if replaced {
					return apierrors.NewBadRequest(`strict decoding error: unknown field "status.recovery"`)
				}
				return nil
			}})
			w.settle()
			if why := w.workload().Annotations[kueue.PodsRefusedAnnotation]; !strings.Contains(why, "is not this program's") || !strings.Contains(why, "mlbatch install") {
				t.Fatalf("it is not held: %q", why)
			}
			w.settle()
			if asked != 1 {
				t.Errorf("the API server was asked %d times in a moment", asked)
			}
			replaced = false
			clock.SetTime(now.Add(trialPause))
			w.settle()
			if why := w.workload().Annotations[kueue.PodsRefusedAnnotation]; why != "" {
				t.Errorf("the definition is back, and it is held: %s", why)
			}
			if asked != 2 {
				t.Errorf("the API server was asked %d times", asked)
			}
		})
	}
}
