package cli_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/cli"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
	"github.com/mlbatch/mlbatch/internal/view/why"
)

// TestNoQueue: a queue that is not there is called so, and nothing else is.
func TestNoQueue(t *testing.T) {
	c := fake.NewClientBuilder().WithScheme(scheme.New()).WithObjects(
		&kueue.ClusterQueue{ObjectMeta: metav1.ObjectMeta{Name: "all"}},
		&kueue.LocalQueue{ObjectMeta: metav1.ObjectMeta{Name: "lq", Namespace: "blue"}},
	).Build()
	missing := fmt.Errorf("ask: %w", &why.NoWorkloadError{})
	for name, tc := range map[string]struct {
		why, namespace, queue string
		asked                 error
		want, not             string
	}{
		"cluster":         {"a slip of the finger, or a team's name", "", "blue", missing, "there is no ClusterQueue blue: mlbatch queue lists", ""},
		"local":           {"in this namespace", "blue", "x", missing, "there is no LocalQueue x in namespace blue: mlbatch queue -n blue lists", ""},
		"is there":        {"the controllers do not answer", "", "all", missing, "ask: ", "there is no"},
		"local is there":  {"the controllers do not answer", "blue", "lq", missing, "ask: ", "there is no"},
		"not allowed":     {"tenants may ask for theirs", "", "all", errors.New("403 Forbidden"), "403 Forbidden; -n NAMESPACE asks for a LocalQueue", "there is no"},
		"not allowed, lq": {"it is that already", "blue", "x", errors.New("403 Forbidden"), "403 Forbidden", "-n NAMESPACE"},
	} {
		t.Run(name, func(t *testing.T) {
			got := cli.NoQueue(t.Context(), c, tc.namespace, tc.queue, tc.asked).Error()
			if !strings.Contains(got, tc.want) || tc.not != "" && strings.Contains(got, tc.not) {
				t.Errorf("%s: %q, want %q and not %q", tc.why, got, tc.want, tc.not)
			}
		})
	}
}
