// Package scheme knows every kind that mlbatch reads or writes: those of
// Kubernetes, the definitions of custom kinds, and our own APIs.
package scheme

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	history "github.com/mlbatch/mlbatch/api/history/v1alpha1"
	kubeflow "github.com/mlbatch/mlbatch/api/kubeflow/v1"
	"github.com/mlbatch/mlbatch/api/kueue/v1beta1"
	"github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	pgv1alpha1 "github.com/mlbatch/mlbatch/api/podgroup/v1alpha1"
	recovery "github.com/mlbatch/mlbatch/api/recovery/v1alpha1"
	trainer "github.com/mlbatch/mlbatch/api/trainer/v1alpha1"
	visibility "github.com/mlbatch/mlbatch/api/visibility/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/kinds"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/serving"
)

// New returns a scheme of its own, so that no one's additions affect others.
func New() *runtime.Scheme { return For(kinds.All()) }

// For returns a scheme with the types of these kinds of jobs.
func For(all jobs.Kinds) *runtime.Scheme {
	s := runtime.NewScheme()
	adds := []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme,
		apiextensionsv1.AddToScheme,
		v1beta1.AddToScheme,
		v1beta2.AddToScheme,
		pgv1alpha1.AddToScheme,
		history.AddToScheme,
		recovery.AddToScheme,
		kubeflow.AddToScheme,
		trainer.AddToScheme,
		visibility.AddToScheme,
	}
	for _, k := range all {
		if k.Naming.AddToScheme != nil {
			adds = append(adds, k.Naming.AddToScheme)
		}
	}
	for _, k := range serving.Grouped() {
		adds = append(adds, k.AddToScheme)
	}
	for _, add := range adds {
		// It fails only if two Go types claim the same kind.
		utilruntime.Must(add(s))
	}
	return s
}
