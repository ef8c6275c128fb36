package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	appwrapper "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
)

// TestCompletionOffersJobs: those that people submitted, and not the parts of others.
func TestCompletionOffersJobs(t *testing.T) {
	meta := func(namespace, name string, owners ...metav1.OwnerReference) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name, OwnerReferences: owners}
	}
	wrapper := metav1.OwnerReference{
		APIVersion: "workload.codeflare.dev/v1beta2",
		Kind:       "AppWrapper",
		Name:       "a",
		UID:        "u",
		Controller: new(true),
	}
	objects := []client.Object{
		&appwrapper.AppWrapper{ObjectMeta: meta("blue", "a")}, &appwrapper.AppWrapper{ObjectMeta: meta("red", "b")},
		&batchv1.Job{ObjectMeta: meta("blue", "part", wrapper)}, &batchv1.Job{ObjectMeta: meta("blue", "alone")},
	}
	c := fake.NewClientBuilder().WithScheme(scheme.New()).WithObjects(objects...).Build()
	for typed, want := range map[string][]string{
		"": {"blue/a", "blue/alone", "red/b"}, "bl": {"blue/a", "blue/alone"}, "blue/al": {"blue/alone"}, "green/": nil,
	} {
		if d := cmp.Diff(want, listJobs(t.Context(), c, typed)); d != "" {
			t.Errorf("%q (-want +got):\n%s", typed, d)
		}
	}
}
