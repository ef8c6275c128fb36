package webhook_test

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/mlbatch/mlbatch/internal/kube/scheme"
	"github.com/mlbatch/mlbatch/internal/kube/webhook"
)

// What cannot be looked up is not allowed, whichever question it was: a change is
// no less checked than a creation.
func TestT9LookupsThatFail(t *testing.T) {
	const priority = "kueue.x-k8s.io/priority-class: high"
	cases := map[string]ask{
		"new":              {path: validateJob, new: job(queueLabel+", "+priority, "", "suspend: true")},
		"another class":    {path: validateJob, old: job(queueLabel, "", "suspend: true"), new: job(queueLabel+", "+priority, "", "suspend: true")},
		"another queue":    {path: validateJob, old: job(queueLabel, "", "suspend: true"), new: job("kueue.x-k8s.io/queue-name: big", "", "suspend: true")},
		"no queue":         {path: validateJob, old: job(queueLabel, "", "suspend: true"), new: job("", "", "suspend: true")},
		"defaults of some": {path: mutateJob, new: job("", "", "")},
	}
	for name, a := range cases {
		t.Run(name, func(t *testing.T) {
			count := func(t *testing.T, broken int) (reply, int) {
				t.Helper()
				n := 0
				handlers := failing(t, func() error {
					if n++; n == broken {
						return errors.New("the API server is away")
					}
					return nil
				})
				return send(t, handlers, a), n
			}
			_, questions := count(t, 0)
			for broken := 1; broken <= questions; broken++ {
				if r, _ := count(t, broken); r.Allowed {
					t.Errorf("allowed although question %d of %d was not answered", broken, questions)
				}
			}
			if questions == 0 {
				t.Errorf("nothing was asked")
			}
		})
	}
}

// failing serves webhooks whose readers ask before each answer.
func failing(t *testing.T, ask func() error) map[string]http.Handler {
	t.Helper()
	s := scheme.New()
	reader := fake.NewClientBuilder().WithScheme(s).WithObjects(world()...).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if err := ask(); err != nil {
				return err
			}
			return c.Get(ctx, key, o, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, o client.ObjectList, opts ...client.ListOption) error {
			if err := ask(); err != nil {
				return err
			}
			return c.List(ctx, o, opts...)
		},
	}).Build()
	handlers, err := webhook.Handlers(webhook.Cluster{Scheme: s, Cached: reader, Live: reader, Access: reader}, webhook.Options{DefaultQueue: "default-queue"})
	if err != nil {
		t.Fatal(err)
	}
	return handlers
}
