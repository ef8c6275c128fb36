package chaos_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mlbatch/mlbatch/internal/sim"
	"github.com/mlbatch/mlbatch/internal/sim/chaos"
)

// Worlds are kept as files for longer than fields keep their names.
func TestWorldsAreReadUnderFormerNames(t *testing.T) {
	const head = `{"World":"w","Seed":7,"Start":"1970-01-12T13:46:40Z",` +
		`"CLUSTER":{"Write":{"Max":100000000},"Refuse":0.1},"LIFECYCLE":{"Pods":true,"PodsReady":{"Timeout":9000000000}}}` + "\n"
	read := func(cluster, lifecycle string) sim.World {
		text := strings.NewReplacer("CLUSTER", cluster, "LIFECYCLE", lifecycle).Replace(head)
		w, err := chaos.Read(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	now, before := read("Cluster", "Lifecycle"), read("Edge", "Tenure")
	if now.Cluster.Write.Max == 0 || now.Lifecycle == nil || !now.Lifecycle.Pods {
		t.Fatalf("the world lost what its file says: %+v", now)
	}
	if d := cmp.Diff(now, before); d != "" {
		t.Errorf("former names are read as something else (-now +before):\n%s", d)
	}
	var text bytes.Buffer
	if err := chaos.Write(&text, before); err != nil {
		t.Fatal(err)
	}
	again, err := chaos.Read(bytes.NewReader(text.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(
		before,
		again,
	); d != "" || strings.Contains(text.String(), "Edge") ||
		strings.Contains(text.String(), "Tenure") {
		t.Errorf("written as %s and read again (-want +got):\n%s", text.String(), d)
	}
}
