package cli_test

import (
	"context"
	"errors"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/mlbatch/mlbatch/internal/cli"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
	"github.com/mlbatch/mlbatch/internal/view"
)

// TestJobsAreReadFromObjectsWhereNoControllerAnswers, and only there.
func TestJobsAreReadFromObjectsWhereNoControllerAnswers(t *testing.T) {
	views := schema.GroupResource{Group: "view.mlbatch.dev", Resource: "jobviews"}
	refused := errors.New("connection refused")
	for name, c := range map[string]struct {
		why    string
		fails  error
		want   string
		served bool
		err    error
	}{
		"a controller answers":   {"what it says is taken", nil, "told", true, nil},
		"none runs":              {"the API server says so", apierrors.NewServiceUnavailable("no endpoints"), "stored", false, nil},
		"it is an older one":     {"which serves no views", &apimeta.NoKindMatchError{GroupKind: schema.GroupKind{Group: views.Group, Kind: "JobViewList"}}, "stored", false, nil},
		"not found":              {"nor does this one", apierrors.NewNotFound(views, ""), "stored", false, nil},
		"it may not be asked":    {"who asks may read objects all the same", apierrors.NewForbidden(views, "", nil), "stored", false, nil},
		"it hangs":               {"and is waited for no longer", apierrors.NewTimeoutError("hangs", 1), "stored", false, nil},
		"nobody is there at all": {"objects would not be read either", refused, "", false, refused},
	} {
		t.Run(name, func(t *testing.T) {
			s := scheme.New()
			if err := view.AddToScheme(s); err != nil {
				t.Fatal(err)
			}
			reader := fake.NewClientBuilder().
				WithScheme(s).
				WithObjects(&batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "stored", UID: "u"}}).
				WithInterceptorFuncs(
					interceptor.Funcs{
						List: func(ctx context.Context, all client.WithWatch, list client.ObjectList, o ...client.ListOption) error {
							told, is := list.(*view.JobViewList)
							if !is {
								return all.List(ctx, list, o...)
							}
							told.At, told.Items = metav1.NewTime(time.Unix(100, 0)), []view.JobView{{Job: view.Job{Name: "told"}}}
							return c.fails
						},
					},
				).
				Build()
			got, err := cli.Jobs(t.Context(), reader, "blue", client.ListOptions{})
			if !errors.Is(err, c.err) {
				t.Fatalf("%v, want %v", err, c.err)
			}
			if c.err != nil {
				return
			}
			if len(got.Items) != 1 || got.Items[0].Name != c.want || got.Served != c.served {
				t.Errorf("%s: %+v", c.why, got)
			}
		})
	}
}
