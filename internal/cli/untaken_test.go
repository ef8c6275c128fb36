package cli_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/cli"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/kinds"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
	"github.com/mlbatch/mlbatch/internal/view"
	"github.com/mlbatch/mlbatch/internal/view/gather"
	"github.com/mlbatch/mlbatch/internal/view/why"
)

// TestJobsThatNoControllerTakesUp: where no controller runs, a job of any kind that waits for one says so
// in why and in ps, once one would have taken it up.
func TestJobsThatNoControllerTakesUp(t *testing.T) {
	for _, k := range kinds.All() {
		kind := k.GVK().Kind
		for _, old := range []bool{false, true} {
			job := k.New()
			job.SetNamespace("blue")
			job.SetName("train")
			job.SetUID("u1")
			job.SetLabels(map[string]string{kueue.QueueNameLabel: "default-queue"})
			job.SetCreationTimestamp(metav1.NewTime(now().Add(-time.Second)))
			if old {
				job.SetCreationTimestamp(metav1.NewTime(now().Add(-5 * time.Minute)))
			}
			c := fake.NewClientBuilder().WithScheme(scheme.New()).WithObjects(job).Build()
			p, err := why.Gather(
				t.Context(),
				c,
				story{},
				view.Ref{Namespace: "blue", Name: "train", Kind: view.Kind(kind)},
				now(),
			)
			if err != nil {
				t.Fatalf("%s: %v", kind, err)
			}
			said := strings.Join(why.Explain(p).Sentences, " ")
			if told := strings.Contains(said, "Either no controller runs"); told != old {
				t.Errorf("why of a %s, old %v, says %s", kind, old, said)
			}
			s, err := gather.Jobs(t.Context(), c, "", client.ListOptions{})
			if err != nil || len(s.Items) != 1 {
				t.Fatalf("ps of a %s has %+v (%v)", kind, s, err)
			}
			columns := cli.RowColumns(now(), false)
			said = columns[len(columns)-1].Text(s.Items[0])
			if told := strings.Contains(said, "no controller has taken it up"); told != old {
				t.Errorf("ps of a %s, old %v, says %s", kind, old, said)
			}
		}
	}
}
