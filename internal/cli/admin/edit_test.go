package admin_test

import (
	"context"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/cli/admin"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
)

// Whoever edits a queue in which jobs come and go is not told to try again for its status; whoever
// would undo the edit of somebody else is.
func TestQueuesAreEditedAsTheyWereShown(t *testing.T) {
	for name, tc := range map[string]struct {
		why       string
		meanwhile func(*kueue.ClusterQueue)
		refused   bool
	}{
		"nothing":    {"it is as it was read", nil, false},
		"its status": {"each job that comes writes it", func(q *kueue.ClusterQueue) { q.Status.PendingWorkloads++ }, false},
		"its labels": {"they are kept", func(q *kueue.ClusterQueue) { q.Labels = map[string]string{"team": "blue"} }, false},
		"its cohort": {"another spec was shown", func(q *kueue.ClusterQueue) { q.Generation, q.Spec.CohortName = 2, "others" }, true},
		"the queue":  {"it is another one of that name", func(q *kueue.ClusterQueue) { q.UID = "2" }, true},
	} {
		is := &kueue.ClusterQueue{
			ObjectMeta: metav1.ObjectMeta{Name: "blue", UID: "1", Generation: 1},
			Spec:       kueue.ClusterQueueSpec{CohortName: "all"},
		}
		written := false
		c := fake.NewClientBuilder().WithScheme(scheme.New()).WithObjects(is).WithInterceptorFuncs(
			interceptor.Funcs{
				Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
					if tc.meanwhile != nil && !written {
						written = true
						var now kueue.ClusterQueue
						if err := c.Get(ctx, client.ObjectKeyFromObject(is), &now); err != nil {
							return err
						}
						tc.meanwhile(&now)
						if err := c.Update(ctx, &now); err != nil {
							return err
						}
					}
					return c.Update(ctx, o, opts...)
				},
			},
		).Build()
		read, err := admin.ClusterQueue(t.Context(), c, "blue")
		if err != nil {
			t.Fatal(err)
		}
		will := read.DeepCopy()
		will.Spec.CohortName = ""
		err = admin.UpdateShown(t.Context(), c, read, will)
		if tc.refused != (err != nil && strings.Contains(err.Error(), "run the command again")) {
			t.Errorf("%s was written meanwhile (%s): %v", name, tc.why, err)
		}
		var now kueue.ClusterQueue
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(is), &now); err != nil {
			t.Fatal(err)
		}
		if changed := now.Spec.CohortName == ""; changed == tc.refused {
			t.Errorf("%s was written meanwhile: the cohort is %q now", name, now.Spec.CohortName)
		}
		if name == "its labels" && now.Labels["team"] != "blue" {
			t.Errorf("the label that somebody gave it meanwhile is gone: %v", now.Labels)
		}
	}
}
