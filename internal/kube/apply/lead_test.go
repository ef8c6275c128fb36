package apply

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
)

// leadOf notes what an applier asks of the lead.
type leadOf struct {
	steps *[]string
	// refused are how often nothing can be announced.
	refused int
}

func (l *leadOf) Announce(_ context.Context, name string) (func(WriteResult), error) {
	if l.refused > 0 {
		l.refused--
		*l.steps = append(*l.steps, "may not")
		return nil, errors.New("another process may lead")
	}
	*l.steps = append(*l.steps, "announce "+name)
	return func(o WriteResult) {
		*l.steps = append(
			*l.steps,
			map[WriteResult]string{Settled: "settled", Refused: "refused", Unknown: "unknown"}[o],
		)
	}, nil
}

func (l *leadOf) Gone(name string) { *l.steps = append(*l.steps, "gone "+name) }

// A decision is read, announced and written, in this order and each time that it is tried; what
// became of it is told. A reason to wait is about one workload alone, and is not announced.
func TestDecisionsAreAnnounced(t *testing.T) {
	conflict := apierrors.NewConflict(
		kueue.GroupVersion.WithResource("workloads").GroupResource(),
		key.Name,
		errors.New("another version"),
	)
	invalid := apierrors.NewInvalid(kueue.GroupVersion.WithKind("Workload").GroupKind(), key.Name, nil)
	admit := core.Plan{core.Admit{Key: key, Admission: on("n1")}}
	for name, tc := range map[string]struct {
		plan    core.Plan
		answers []error // of the first writes
		refused int
		want    []string
	}{
		"stored":    {admit, nil, 0, []string{"read", "announce " + key.String(), "write", "settled"}},
		"no answer": {admit, []error{errors.New("connection lost")}, 0, []string{"read", "announce " + key.String(), "write", "unknown", "read", "announce " + key.String(), "write", "settled"}},
		"overtaken": {admit, []error{conflict}, 0, []string{"read", "announce " + key.String(), "write", "settled", "read", "announce " + key.String(), "write", "settled"}},
		"rejected":  {admit, []error{invalid}, 0, []string{"read", "announce " + key.String(), "write", "refused"}},
		"no lead":   {admit, nil, 1, []string{"read", "may not", "read", "announce " + key.String(), "write", "settled"}},
		"a reason":  {core.Plan{core.Refuse{Key: key, Why: core.Reason{Code: core.WaitingForQuota}}}, nil, 0, []string{"read", "write"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var steps []string
				answers := slices.Clone(tc.answers)
				c := fake.NewClientBuilder().WithScheme(scheme.New()).WithStatusSubresource(&kueue.Workload{}).
					WithObjects(aWorkload(func(w *kueue.Workload) { w.ResourceVersion = "" }), aQueue()).
					WithInterceptorFuncs(interceptor.Funcs{
						Get: func(ctx context.Context, c client.WithWatch, k client.ObjectKey, o client.Object, opts ...client.GetOption) error {
							if _, is := o.(*kueue.Workload); is {
								steps = append(steps, "read")
							}
							return c.Get(ctx, k, o, opts...)
						},
						SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, opts ...client.SubResourceUpdateOption) error {
							steps = append(steps, "write")
							if len(answers) > 0 {
								err := answers[0]
								answers = answers[1:]
								return err
							}
							return c.SubResource(sub).Update(ctx, o, opts...)
						},
					}).Build()
				a, stop := running(t, Options{
					Client: c, Sentence: sentence, Lead: &leadOf{&steps, tc.refused},
					Refused: func(core.Key, string) {}, Done: func(context.Context, core.Decision, *kueue.Workload) {},
				})
				a.Plan(tc.plan, unknown)
				time.Sleep(time.Minute)
				synctest.Wait()
				stop()
				if d := cmp.Diff(tc.want, steps); d != "" {
					t.Errorf("(-want +got):\n%s", d)
				}
				steps = nil
				a.Forget(key)
				if d := cmp.Diff([]string{"gone " + key.String()}, steps); d != "" {
					t.Errorf("when it is gone (-want +got):\n%s", d)
				}
			})
		})
	}
}
