package cli_test

import (
	"bytes"
	"context"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/mlbatch/mlbatch/internal/cli"
)

// populace is a cluster with jobs of many kinds in all states.
func populace(t *testing.T, forbidden string) client.Client {
	t.Helper()
	return cluster(t, "testdata/ps/cluster.yaml").WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if _, pods := list.(*corev1.PodList); pods && forbidden == "pods" {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", nil)
			}
			return c.List(ctx, list, opts...)
		},
	}).Build()
}

// TestPs: the list of jobs in terminals of several widths, and whole.
func TestPs(t *testing.T) {
	for _, width := range []int{60, 80, 140, 0} {
		t.Run(strconv.Itoa(width), func(t *testing.T) {
			s, err := cli.TakeSurvey(t.Context(), populace(t, ""), "", client.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			layout := cli.Layout{Width: width, Wide: width == 0}
			if err := cli.PrintTable(&out, cli.RowColumns(now(), true), s.Rows, layout); err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(out.String()) {
				if n := len([]rune(strings.TrimSuffix(line, "\n"))); width > 0 && n > width {
					t.Errorf("a line has %d characters: %s", n, line)
				}
			}
			golden(t, filepath.Join("testdata", "ps", strconv.Itoa(width)+".txt"), out.String())
		})
	}
}

// TestSurvey: which jobs are listed, and what is said of those that one may not read.
func TestSurvey(t *testing.T) {
	names := func(s *cli.Survey) string {
		var out []string
		for _, r := range s.Rows {
			out = append(out, string(r.Kind)+" "+r.Name)
		}
		return strings.Join(out, ", ")
	}
	team, err := labels.Parse("team=nlp")
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		why, namespace, forbidden string
		options                   client.ListOptions
		jobs, unread              string
	}{
		"a namespace": {why: "nothing of others", namespace: "lab", jobs: "Job loose"},
		"by label":    {why: "pods have labels of their own, and are found by their jobs'", namespace: "blue", options: client.ListOptions{LabelSelector: team}, jobs: "PyTorchJob train"},
		"without pods": {
			why: "a user may be allowed to read jobs and no pods: they are listed, and it is said", namespace: "lab", forbidden: "pods", jobs: "Job loose", unread: "pods",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := cli.TakeSurvey(t.Context(), populace(t, tc.forbidden), tc.namespace, tc.options)
			if err != nil {
				t.Fatal(err)
			}
			if got := names(s); got != tc.jobs || strings.Join(s.Unread, " ") != tc.unread {
				t.Errorf("%s: %s; unread %v", tc.why, got, s.Unread)
			}
		})
	}
}

// TestSortBy: any column orders the list, and numbers count as numbers.
func TestSortBy(t *testing.T) {
	rows := []cli.Row{{Name: "b", GPUs: 16}, {Name: "a", GPUs: 8}, {Name: "c", GPUs: 2}}
	for by, want := range map[string]string{"name": "abc", "-name": "cba", "GPUS": "cab", "-gpus": "bac"} {
		if err := cli.SortBy(cli.RowColumns(now(), false), rows, by); err != nil {
			t.Fatal(err)
		}
		if got := rows[0].Name + rows[1].Name + rows[2].Name; got != want {
			t.Errorf("by %s: %s, want %s", by, got, want)
		}
	}
	if err := cli.SortBy(cli.RowColumns(now(), false), rows, "gpu"); err == nil || !strings.Contains(err.Error(), "gpus") {
		t.Errorf("a column that there is not: %v", err)
	}
}
