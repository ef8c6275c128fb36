package corpus_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	aw "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	"github.com/mlbatch/mlbatch/test/corpus"
)

// TestPlainManifests: what Kubernetes' own kinds are asked for are fields that they have,
// and there are enough of each. An API server tries them in test/e2e.
func TestPlainManifests(t *testing.T) {
	names, counts := map[string]bool{}, map[string]int{}
	for _, m := range append(corpus.Kubernetes(), corpus.AppWrappers()...) {
		if names[m.Kind+m.Name] {
			t.Errorf("two manifests are %s %s", m.Kind, m.Name)
		}
		names[m.Kind+m.Name] = true
		counts[m.Kind]++
		into := map[string]any{
			"Pod": &corev1.Pod{}, "Job": &batchv1.Job{}, "CronJob": &batchv1.CronJob{},
			"Deployment": &appsv1.Deployment{}, "StatefulSet": &appsv1.StatefulSet{}, "ReplicaSet": &appsv1.ReplicaSet{},
			"AppWrapper": &aw.AppWrapper{},
		}[m.Kind]
		if err := yaml.UnmarshalStrict([]byte(m.Text), into); err != nil {
			t.Errorf("%s %s: %v\n%s", m.Kind, m.Name, err, m.Text)
		}
	}
	for _, kind := range []string{"Pod", "Job", "CronJob", "Deployment", "StatefulSet", "ReplicaSet", "AppWrapper"} {
		if counts[kind] < 20 {
			t.Errorf("%d manifests of kind %s", counts[kind], kind)
		}
	}
}
