package cli_test

import (
	"os"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/serializer"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/mlbatch/mlbatch/internal/kube/scheme"
)

// cluster begins a client of the objects in a file.
func cluster(t *testing.T, file string) *fake.ClientBuilder {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	decode := serializer.NewCodecFactory(scheme.New()).UniversalDeserializer()
	b := fake.NewClientBuilder().WithScheme(scheme.New())
	for part := range strings.SplitSeq(string(data), "\n---\n") {
		o, _, err := decode.Decode([]byte(part), nil, nil)
		if err != nil {
			t.Fatalf("%v\n%s", err, part)
		}
		b = b.WithRuntimeObjects(o)
	}
	return b
}
