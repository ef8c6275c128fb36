package cli

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/mlbatch/mlbatch/internal/kube/scheme"
)

// inPages is a client that answers as an API server does that is asked for pages, which the fake
// one does not. asked are the sizes that it was asked for. later, if any, is what it answers to
// whoever asks for more than the first page.
func inPages(pods int, later error) (c client.WithWatch, asked *[]int64) {
	asked = &[]int64{}
	var all []client.Object
	for i := range pods {
		all = append(
			all,
			&corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{
					Namespace: "blue",
					Name:      fmt.Sprintf("p-%04d", i),
					Labels:    map[string]string{"odd": strconv.Itoa(i % 2)},
				},
			},
		)
	}
	return fake.NewClientBuilder().WithScheme(scheme.New()).WithObjects(all...).WithInterceptorFuncs(
		interceptor.Funcs{
			List: func(ctx context.Context, in client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
				var o client.ListOptions
				o.ApplyOptions(opts)
				*asked = append(*asked, o.Limit)
				from, _ := strconv.Atoi(o.Continue)
				if from > 0 && later != nil {
					return later
				}
				limit := int(o.Limit)
				o.Limit, o.Continue = 0, ""
				if err := in.List(ctx, list, &o); err != nil || limit == 0 {
					return err
				}
				items, err := apimeta.ExtractList(list)
				if err != nil {
					return err
				}
				to := min(from+limit, len(items))
				if to < len(items) {
					list.SetContinue(strconv.Itoa(to))
				}
				return apimeta.SetList(list, items[from:to])
			},
		},
	).Build(), asked
}

// Lists are whole, whatever they are read into, and are asked for in pages.
func TestPaged(t *testing.T) {
	untyped := &unstructured.UnstructuredList{}
	untyped.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
	for name, tc := range map[string]struct {
		pods  int
		later error
		into  client.ObjectList
		opts  []client.ListOption
		want  int
		asked []int64
	}{
		"small":          {3, nil, &corev1.PodList{}, nil, 3, []int64{500}},
		"exactly a page": {500, nil, &corev1.PodList{}, nil, 500, []int64{500}},
		"three pages":    {1201, nil, &corev1.PodList{}, nil, 1201, []int64{500, 500, 500}},
		"of some kind":   {1201, nil, untyped, nil, 1201, []int64{500, 500, 500}},
		"some of them":   {1201, nil, &corev1.PodList{}, []client.ListOption{client.MatchingLabels{"odd": "1"}}, 600, []int64{500, 500}},
		"too slow":       {1201, apierrors.NewResourceExpired("too old"), &corev1.PodList{}, nil, 1201, []int64{500, 500, 0}},
		"one page asked": {1201, nil, &corev1.PodList{}, []client.ListOption{client.Limit(7)}, 7, []int64{7}},
	} {
		t.Run(name, func(t *testing.T) {
			c, asked := inPages(tc.pods, tc.later)
			if err := Paged(c).List(t.Context(), tc.into, append(tc.opts, client.InNamespace("blue"))...); err != nil {
				t.Fatal(err)
			}
			names := map[string]bool{}
			if err := apimeta.EachListItem(tc.into, func(o runtime.Object) error {
				m, err := apimeta.Accessor(o)
				names[m.GetName()] = true
				return err
			}); err != nil {
				t.Fatal(err)
			}
			if n := apimeta.LenList(tc.into); n != tc.want || len(names) != tc.want {
				t.Errorf("%d objects, %d different ones, want %d", n, len(names), tc.want)
			}
			if tc.opts == nil && tc.into.GetContinue() != "" {
				t.Errorf("it says that there is more: %q", tc.into.GetContinue())
			}
			if !slices.Equal(*asked, tc.asked) {
				t.Errorf("it asked for %v, want %v", *asked, tc.asked)
			}
		})
	}
}
