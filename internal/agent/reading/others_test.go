package reading

import (
	"fmt"
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

// amdOf is an answer of amd-smi metric --json in its shape, with what a GPU says of three things.
func amdOf(gpus ...[3]string) string {
	var all []string
	for i, g := range gpus {
		all = append(all, fmt.Sprintf(`{"gpu": %d, "usage": {"gfx_activity": {"value": 3, "unit": "%%"}},
			"power": {"socket_power": {"value": 132, "unit": "W"}, "throttle_status": "UNTHROTTLED"},
			"temperature": {"edge": "N/A", "hotspot": {"value": %s, "unit": "C"}},
			"pcie": {"width": %s, "speed": {"value": 32, "unit": "GT/s"}, "replay_count": 0},
			"ecc": {"total_correctable_count": 0, "total_uncorrectable_count": 0},
			"throttle": {"prochot_violation_status": "NOT ACTIVE", "ppt_violation_status": "ACTIVE",
			"socket_thermal_violation_status": "%s"}}`, i, g[0], g[1], g[2]))
	}
	return "[" + strings.Join(all, ",") + "]"
}

func TestGPUsOfAMDAreJudgedByLinkAndHeat(t *testing.T) {
	well := [3]string{"45", "16", "NOT ACTIVE"}
	limits := Limits{{Model: "AMD", MaxCelsius: 100}}
	for name, c := range map[string]struct {
		text         string
		links, power health.Result
		concerned    []string
	}{
		"all is well, power limited as under load": {amdOf(well, well, well, well), health.Passed, health.Passed, nil},
		"a link is narrower than others":           {amdOf(well, well, [3]string{"45", "8", "NOT ACTIVE"}, well), health.Failed, health.Passed, []string{"2"}},
		"of two, nobody knows which is right":      {amdOf(well, [3]string{"45", "8", "NOT ACTIVE"}), health.Passed, health.Passed, nil},
		"slowed down by heat":                      {amdOf(well, [3]string{"99", "16", "ACTIVE"}), health.Passed, health.Warned, []string{"1"}},
		"hotter than it should be":                 {amdOf(well, [3]string{"104", "16", "NOT ACTIVE"}), health.Passed, health.Warned, []string{"1"}},
		"nothing is told":                          {`[{"gpu": 0, "pcie": "N/A", "throttle": "N/A", "temperature": "N/A"}]`, health.Skipped, health.Skipped, nil},
	} {
		t.Run(name, func(t *testing.T) {
			gpus, err := AMD([]byte(c.text), 0)
			if err != nil {
				t.Fatal(err)
			}
			links, power := Of(Links(gpus, limits)), Of(Power(gpus, limits))
			concerned := append(links.Concerned(), power.Concerned()...)
			if links.Result != c.links || power.Result != c.power || !slices.Equal(concerned, c.concerned) {
				t.Errorf("links %s (%s), power %s (%s)", links.Result, links.Message, power.Result, power.Message)
			}
		})
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
	f.Add([]byte(amdOf([3]string{"45", "16", "ACTIVE"})), 0)
	f.Add(
		[]byte(
			`[{"gpu": 0, "pcie": {"speed": {"value": 1e99}}, "throttle": {"prochot_violation_status": ["ACTIVE", 7]}}]`,
		),
		0,
	)
	f.Add([]byte(`{"nvbandwidth": {"testcases": [{"bandwidth_matrix": [["1"]]}]}}`), 0)
	f.Fuzz(func(t *testing.T, text []byte, exit int) {
		gpus, _ := AMD(text, exit)
		if len(gpus) > maxGPUs {
			t.Error(len(gpus))
		}
		for _, judged := range [][]Finding{Memory(gpus), Links(gpus, DefaultLimits()), Power(gpus, DefaultLimits())} {
			if len(judged) != len(gpus) {
				t.Errorf("%d findings of %d GPUs", len(judged), len(gpus))
			}
		}
		Copies(text, exit, nil, nil)
		if s := Readable(string(text), 50); len(s) > 50 || strings.ContainsAny(s, "\n\x1b") {
			t.Errorf("%q", s)
		}
	})
}
