package reading

import (
	"slices"
	"strings"
	"testing"

	health "github.com/mlbatch/mlbatch/api/health/v1alpha1"
)

func TestCopiesAreMeasuredByTheLimitsOfTheModel(t *testing.T) {
	const text = `{"nvbandwidth": {"testcases": [{"name": "host_to_device_memcpy_ce", "status": "Passed",
		"bandwidth_matrix": [["55.1", "6.2", "N/A"]]}]}}`
	o := Copies([]byte(text), 0, []string{"NVIDIA H100 80GB HBM3", "NVIDIA H100 80GB HBM3"}, DefaultLimits())
	if o.Result != health.Failed || !slices.Equal(o.Concerned(), []string{"1"}) ||
		Tidy(o.Findings) != "55.1 6.2 0" {
		t.Errorf("%+v", o)
	}
	if o := Copies([]byte(text), 0, []string{"Other", "Other"}, DefaultLimits()); o.Result != health.Passed {
		t.Errorf("GPUs of which nothing is known are %s", o.Result)
	}
	if o := Copies([]byte(`{"nvbandwidth": {"error": "no CUDA"}}`), 1, nil, nil); o.Result != health.Unknown {
		t.Errorf("no measurement is %s", o.Result)
	}
}

func TestGPUsOfAMDAreReadInBothShapes(t *testing.T) {
	for name, text := range map[string]string{
		"a list":    `[{"gpu": 0, "ecc": {"total_uncorrectable_count": 0}}, {"gpu": 1, "ecc": {"total_uncorrectable_count": 3}, "pcie": {"width": 16}}]`,
		"an object": `{"gpu_data": [{"gpu": 0, "ecc": {"total_uncorrectable_count": "N/A"}}, {"gpu": 1, "ecc": {"total_uncorrectable": {"value": 3, "unit": "errors"}}}]}`,
	} {
		gpus, err := AMD([]byte(text), 0)
		if err != nil || len(gpus) != 2 {
			t.Fatalf("%s: %v, %v", name, gpus, err)
		}
		if o := Of(Memory(gpus)); o.Result != health.Failed || !slices.Equal(o.Concerned(), []string{"1"}) {
			t.Errorf("%s: %+v", name, o)
		}
	}
	for _, text := range []string{"", "no driver", "[", "[]", `{"gpu_data": 7}`} {
		if _, err := AMD([]byte(text), 1); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

func TestTheSlowestOfSeveralNeighboursIsNamed(t *testing.T) {
	at := func(speeds ...float64) []Finding {
		var out []Finding
		for i, s := range speeds {
			out = append(out, Finding{Device: string(rune('a' + i)), Result: health.Passed, Value: s})
		}
		return out
	}
	o := Of(Straggler(at(90, 91, 12, 89), 0.5))
	if o.Result != health.Warned || !slices.Equal(o.Concerned(), []string{"c"}) ||
		!strings.Contains(o.Message, "12.0 Gbit/s") {
		t.Errorf("%+v", o)
	}
	if o := Of(Straggler(at(90, 12), 0.5)); o.Result != health.Passed {
		t.Errorf("one of two is called a straggler: %+v", o)
	}
}

func TestTextOfToolsIsShownWithoutHarm(t *testing.T) {
	if got := Readable("a\x1b[31m\n\nb\xff  c", 100); got != "a [31m b? c" {
		t.Errorf("%q", got)
	}
	if got := Readable("äöü", 4); got != "äö" {
		t.Errorf("%q", got)
	}
}

func FuzzOthers(f *testing.F) {
	f.Add([]byte(`[{"gpu": 1, "ecc": {"total_uncorrectable_count": 3}}]`), 0)
	f.Add([]byte(`{"nvbandwidth": {"testcases": [{"bandwidth_matrix": [["1"]]}]}}`), 0)
	f.Fuzz(func(t *testing.T, text []byte, exit int) {
		if gpus, _ := AMD(text, exit); len(gpus) > maxGPUs {
			t.Error(len(gpus))
		}
		Copies(text, exit, nil, nil)
		if s := Readable(string(text), 50); len(s) > 50 || strings.ContainsAny(s, "\n\x1b") {
			t.Errorf("%q", s)
		}
	})
}
