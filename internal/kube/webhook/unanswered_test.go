package webhook_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/mlbatch/mlbatch/internal/kube/webhook"
)

// What cannot be looked up is not allowed, whichever question it was: a change is
// no less checked than a creation.
func TestLookupsThatFail(t *testing.T) {
	const priority = "kueue.x-k8s.io/priority-class: high"
	cases := map[string]ask{
		"new": {path: validateJob, new: job(queueLabel+", "+priority, "", "suspend: true")},
		"another class": {
			path: validateJob,
			old:  job(queueLabel, "", "suspend: true"),
			new:  job(queueLabel+", "+priority, "", "suspend: true"),
		},
		"another queue": {
			path: validateJob,
			old:  job(queueLabel, "", "suspend: true"),
			new:  job("kueue.x-k8s.io/queue-name: big", "", "suspend: true"),
		},
		"no queue": {
			path: validateJob,
			old:  job(queueLabel, "", "suspend: true"),
			new:  job("", "", "suspend: true"),
		},
		"defaults of some": {path: mutateJob, new: job("", "", "")},
		"new wrapper": {
			path: validateWrapper,
			new: wrapper(
				"lab",
				queueLabel,
				"true",
				strings.Replace(jobComponent, "CLASS", "default-priority", 1),
				binding,
			),
		},
		"start": {
			path: validateWrapper,
			old:  wrapper("blue", queueLabel, "true", podComponent),
			new:  wrapper("blue", queueLabel, "false", podComponent),
		},
		"wrapper, defaults": {path: mutateWrapper, new: wrapper("blue", "", "false", podComponent)},
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
			all, questions := count(t, 0)
			if !all.Allowed {
				t.Errorf("refused though everything was answered: %s", all.Message)
			}
			for broken := 1; broken <= questions; broken++ {
				if r, _ := count(t, broken); r.Allowed || !strings.Contains(r.Message, "the API server is away") {
					t.Errorf(
						"allowed %v (%s) although question %d of %d was not answered",
						r.Allowed,
						r.Message,
						broken,
						questions,
					)
				}
			}
			if questions == 0 {
				t.Errorf("nothing was asked")
			}
		})
	}
}

// failing serves webhooks that ask before each answer, and whose user may do all.
func failing(t *testing.T, ask func() error) map[string]http.Handler {
	t.Helper()
	c := cluster(
		t,
		nil,
		[]string{"create pods", "create jobs", "create rolebindings", "update workloads/status"},
		world()...)
	faults := interceptor.Funcs{
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
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if err := ask(); err != nil {
				return err
			}
			return c.Create(ctx, o, opts...)
		},
	}
	broken := func(of any) client.WithWatch {
		through, ok := of.(client.WithWatch)
		if !ok {
			t.Fatalf("%T", of)
		}
		return interceptor.NewClient(through, faults)
	}
	c.Cached, c.Live, c.Access = broken(c.Cached), broken(c.Live), broken(c.Access)
	return handle(t, c, webhook.Options{})
}
