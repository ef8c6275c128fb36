package cli_test

import (
	"os"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/serializer"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/mlbatch/mlbatch/internal/kube/scheme"
	"github.com/mlbatch/mlbatch/internal/view"
)

// cluster begins a client of the objects in a file.
func cluster(t *testing.T, file string) *fake.ClientBuilder {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	known := scheme.New()
	if err := view.AddToScheme(known); err != nil { // no controller answers for views
		t.Fatal(err)
	}
	decode := serializer.NewCodecFactory(known).UniversalDeserializer()
	b := fake.NewClientBuilder().WithScheme(known)
	for part := range strings.SplitSeq(string(data), "\n---\n") {
		o, _, err := decode.Decode([]byte(part), nil, nil)
		if err != nil {
			t.Fatalf("%v\n%s", err, part)
		}
		b = b.WithRuntimeObjects(o)
	}
	return b
}
