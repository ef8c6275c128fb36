package cli_test

import (
	"bytes"
	"context"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/mlbatch/mlbatch/internal/cli"
	"github.com/mlbatch/mlbatch/internal/testkit"
	"github.com/mlbatch/mlbatch/internal/view/gather"
)

// TestNodes: what nodes are good for, who has their GPUs, and what those are told who may not
// read pods: nothing that would be wrong.
func TestNodes(t *testing.T) {
	for name, tc := range map[string]struct {
		mayList bool
		width   int
		sort    string
	}{"admin": {true, 0, "-free"}, "narrow": {true, 60, "name"}, "without-pods": {false, 0, "name"}} {
		t.Run(name, func(t *testing.T) {
			c := cluster(t, "testdata/nodes/cluster.yaml").WithInterceptorFuncs(interceptor.Funcs{
				List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
					if _, is := list.(*corev1.PodList); is && !tc.mayList {
						return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", nil)
					}
					return c.List(ctx, list, opts...)
				},
			}).Build()
			rows, seen, err := gather.Nodes(t.Context(), c)
			if err != nil || seen != tc.mayList {
				t.Fatalf("seen %v: %v", seen, err)
			}
			columns := cli.NodeColumns(now())
			if err := cli.SortBy(columns, rows, tc.sort); err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			if err := cli.PrintTable(&out, columns, rows, cli.Layout{Width: tc.width}); err != nil {
				t.Fatal(err)
			}
			if seen {
				out.WriteString(cli.SumOfNodes(rows) + "\n")
			}
			testkit.Golden(t, filepath.Join("testdata", "nodes", name+".txt"), out.String())
		})
	}
}
