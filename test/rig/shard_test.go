package rig

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestEachTestIsInOneShard(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		of := rapid.IntRange(1, 6).Draw(t, "shards")
		took, tests := map[string]float64{}, []string{}
		var sum, most float64
		for i := range rapid.IntRange(0, 40).Draw(t, "tests") {
			name := fmt.Sprintf("Test%d", i)
			tests = append(tests, name)
			d := 5.0
			if rapid.Bool().Draw(t, "known") {
				d = rapid.Float64Range(0, 100).Draw(t, "took")
				took[name] = d
			}
			sum, most = sum+d, max(most, d)
		}
		var all []string
		for shard := 1; shard <= of; shard++ {
			mine := Shard(tests, took, shard, of)
			if !slices.IsSortedFunc(
				mine,
				func(a, b string) int { return slices.Index(tests, a) - slices.Index(tests, b) },
			) {
				t.Errorf("shard %d is not in the order of tests: %v", shard, mine)
			}
			load := 0.0
			for _, test := range mine {
				if d, known := took[test]; known {
					load += d
				} else {
					load += 5
				}
			}
			if load > sum/float64(of)+most+1e-6 {
				t.Errorf("shard %d has %.1f s of %.1f", shard, load, sum)
			}
			all = append(all, mine...)
		}
		slices.Sort(all)
		want := slices.Sorted(slices.Values(tests))
		if diff := cmp.Diff(want, all); len(want)+len(all) > 0 && diff != "" {
			t.Error(diff)
		}
	})
}

func TestShardsAreCountedFromOne(t *testing.T) {
	if shard, of, err := ParseShard("2/3"); shard != 2 || of != 3 || err != nil {
		t.Errorf("2/3 is %d of %d, %v", shard, of, err)
	}
	for _, wrong := range []string{"", "0/2", "3/2", "1", "a/b", "1/2/3"} {
		if _, _, err := ParseShard(wrong); err == nil {
			t.Errorf("%q is no shard, and nothing is said", wrong)
		}
	}
}

func TestDurationsAreSecondsAndATest(t *testing.T) {
	got, err := ParseDurations("# a remark\n\n1.5 TestA\n20 TestB\n")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]float64{"TestA": 1.5, "TestB": 20}, got); diff != "" {
		t.Error(diff)
	}
	if _, err := ParseDurations("TestA 1.5"); err == nil {
		t.Error("a line the wrong way round is no duration, and nothing is said")
	}
}
