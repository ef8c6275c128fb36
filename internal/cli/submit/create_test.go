package submit_test

import (
	"context"
	"strings"
	"testing"

	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/cli/submit"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
)

func TestCheckPriority(t *testing.T) {
	class := func(name string) client.Object {
		return &kueue.WorkloadPriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	ofPods := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "high"}}
	for name, tc := range map[string]struct {
		why, priority string
		there         []client.Object
		forbidden     bool
		says          string
	}{
		"none":            {why: "nothing was asked for"},
		"there":           {why: "it is taken", priority: "high", there: []client.Object{class("low"), class("high")}},
		"of pods":         {why: "the job would be held until somebody makes a class", priority: "high", there: []client.Object{ofPods, class("low")}, says: "use --pod-priority high"},
		"both":            {why: "the one that was named counts", priority: "high", there: []client.Object{ofPods, class("high")}},
		"misspelt":        {why: "the cure is among those that there are", priority: "hihg", there: []client.Object{class("low"), class("high")}, says: "use high, low"},
		"classes of pods": {why: "they are given otherwise", priority: "urgent", there: []client.Object{ofPods}, says: "nor any other; --pod-priority takes the PriorityClasses of pods: high"},
		"no classes":      {why: "there is nothing to name", priority: "high", says: "nor any other"},
		"forbidden":       {why: "what one may not see is taken as it is", priority: "high", forbidden: true},
	} {
		t.Run(name, func(t *testing.T) {
			b := fake.NewClientBuilder().WithScheme(scheme.New()).WithObjects(tc.there...)
			if tc.forbidden {
				b = b.WithInterceptorFuncs(
					interceptor.Funcs{
						List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
							return apierrors.NewForbidden(schema.GroupResource{}, "", nil)
						},
					},
				)
			}
			r := submit.New()
			r.Priority = tc.priority
			err := r.CheckPriority(t.Context(), b.Build())
			if tc.says == "" && err != nil ||
				tc.says != "" && (err == nil || !strings.Contains(err.Error(), tc.says)) {
				t.Errorf("%s: got %v, want %q", tc.why, err, tc.says)
			}
		})
	}
}
