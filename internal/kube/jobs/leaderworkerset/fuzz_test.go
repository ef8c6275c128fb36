package leaderworkerset

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/yaml"

	api "github.com/mlbatch/mlbatch/api/leaderworkerset/v1"
)

// FuzzNext: whatever decodes is refused or begun, by everybody who is asked alike, and
// nobody panics or changes it.
func FuzzNext(f *testing.F) {
	for _, spec := range []string{
		template(""), "{}", "{replicas: 0, leaderWorkerTemplate: {size: 5, subGroupPolicy: {subGroupSize: 2}, " + workerOnly + "}}",
		"{leaderWorkerTemplate: {size: -1, subGroupPolicy: {}}, rolloutStrategy: {rollingUpdateConfiguration: {maxSurge: x, partition: -3}}, networkConfig: {}}",
	} {
		text, err := yaml.YAMLToJSON([]byte(spec))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, spec []byte) {
		l := &api.LeaderWorkerSet{}
		if json.Unmarshal(spec, &l.Spec) != nil {
			return
		}
		l.Namespace, l.Name, l.UID = "blue", "s", "set"
		before := l.DeepCopy()
		errs := Validate(l)
		if again := Validate(before); fmt.Sprint(errs) != fmt.Sprint(again) {
			t.Errorf("%v, and %v", errs, again)
		}
		s, err := Next(&Observed{Object: l, Now: time.Unix(0, 0)})
		if err != nil || len(s.Create) == 0 {
			t.Errorf("it begins with %v, %v", s, err)
		}
		if len(errs) == 0 {
			firstGroup(l)
		}
		if !equality.Semantic.DeepEqual(before, l) {
			t.Error("it has changed")
		}
	})
}

// BenchmarkNext is one look at a set of a thousand pods that serve.
func BenchmarkNext(b *testing.B) {
	l := parse(b, template(""))
	l.Spec.Replicas, l.Spec.LeaderWorkerTemplate.Size = new(int32(10)), new(int32(100))
	f := newFake(b, l)
	f.settle()
	for b.Loop() {
		if _, err := Next(f.world); err != nil {
			b.Fatal(err)
		}
	}
}
