package submit

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParseArray(t *testing.T) {
	tests := map[string]struct {
		why, text string
		want      *Array
		prologue  string
	}{
		"range": {"the usual one", "0-3", &Array{Indices: []int{0, 1, 2, 3}}, ""},
		"limit": {"so many at once", "0-3%2", &Array{Indices: []int{0, 1, 2, 3}, AtOnce: 2}, ""},
		"step": {
			"every fourth",
			"1-9:4",
			&Array{Indices: []int{1, 5, 9}},
			"export SLURM_ARRAY_TASK_ID=$((1 + 4 * JOB_COMPLETION_INDEX))",
		},
		"list": {
			"in order, each once",
			"7,1,3-4,3",
			&Array{Indices: []int{1, 3, 4, 7}},
			`export SLURM_ARRAY_TASK_ID="$(set -- 1 3 4 7; shift "$JOB_COMPLETION_INDEX"; echo "$1")"`,
		},
		"one": {
			"an array of one",
			"5",
			&Array{Indices: []int{5}},
			"export SLURM_ARRAY_TASK_ID=$((5 + 1 * JOB_COMPLETION_INDEX))",
		},
		"words":      {"no number", "a-b", nil, ""},
		"backwards":  {"nothing to count", "5-1", nil, ""},
		"negative":   {"indices count from 0", "-1", nil, ""},
		"no limit":   {"a number is missing", "0-3%", nil, ""},
		"limit of 0": {"nothing would run", "0-3%0", nil, ""},
		"lone step":  {"of what?", "3:2", nil, ""},
		"too many":   {"more than a Job can have", "0-100000", nil, ""},
		"in parts":   {"no more in several", strings.Repeat("0-99999,", 3) + "5", nil, ""},
		"far apart": {
			"what follows the last is no number",
			"1-9223372036854775807:9223372036854775806",
			&Array{Indices: []int{1, math.MaxInt}},
			fmt.Sprintf("export SLURM_ARRAY_TASK_ID=$((1 + %d * JOB_COMPLETION_INDEX))", math.MaxInt-1),
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := ParseArray(tc.text)
			if (err != nil) != (tc.want == nil) {
				t.Fatalf("%s: %v", tc.why, err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.why, diff)
			}
			if got != nil && got.prologue() != tc.prologue {
				t.Errorf("%s: %s", tc.why, got.prologue())
			}
		})
	}
}

func TestParseTime(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"90": 90 * time.Minute, "1:30": 90 * time.Second, "2:00:00": 2 * time.Hour, "1-0": 24 * time.Hour, "1-2:30": 26*time.Hour + 30*time.Minute,
		"1-02:03:04": 26*time.Hour + 3*time.Minute + 4*time.Second, "90m": 90 * time.Minute, "2h30m": 150 * time.Minute, "UNLIMITED": 0,
		"soon": -1, "0": -1, "-5": -1, "1:2:3:4": -1, "1-1:2:3:4": -1, "5ms": -1, "": -1,
	} {
		if got, err := ParseTime(text); (err != nil) != (want < 0) || want >= 0 && got != want {
			t.Errorf("%q is %v, %v; want %v", text, got, err, want)
		}
	}
}

func TestParseMemory(t *testing.T) {
	for text, want := range map[string]string{
		"512": "512Mi", "64G": "64Gi", "64Gi": "64Gi", "64gb": "64Gi", "1T": "1Ti", "100K": "100Ki", "1.5G": "1536Mi", "0": "", "much": "", "-1G": "", "5X": "",
	} {
		got, err := ParseMemory(text)
		if (err != nil) != (want == "") || want != "" && got.String() != want {
			t.Errorf("%q is %v, %v; want %q", text, got, err, want)
		}
	}
}

func TestParseGPUs(t *testing.T) {
	for text, want := range map[string]GPUs{
		"8": {"nvidia.com/gpu", "", 8}, "h100:8": {"nvidia.com/gpu", "h100", 8}, "gpu:2": {"nvidia.com/gpu", "", 2}, "gpu:a100:2": {"nvidia.com/gpu", "a100", 2},
		"amd.com/gpu:4": {"amd.com/gpu", "", 4}, "gpu": {"nvidia.com/gpu", "", 1}, "0": {"nvidia.com/gpu", "", 0},
		"x": {}, "-1": {}, "a:b:3": {}, ":3": {}, "a b:3": {},
	} {
		got, err := ParseGPUs(text)
		if (err != nil) != (want == GPUs{}) || got != want {
			t.Errorf("%q is %v, %v; want %v", text, got, err, want)
		}
	}
}

func TestParseMount(t *testing.T) {
	for text, want := range map[string]Mount{
		"data:/data": {MountClaim, "data", "/data", false}, "pvc:data:/data/:ro": {MountClaim, "data", "/data", true}, "secret:key:/keys": {MountSecret, "key", "/keys", false},
		"cm:conf:/etc/conf": {MountConfigMap, "conf", "/etc/conf", false}, "data:data": {}, "/data": {}, "data:/": {}, "nfs:a:/b": {}, "a:b:/c:/d": {}, "A B:/c": {},
	} {
		got, err := ParseMount(text)
		if (err != nil) != (want == Mount{}) || err == nil && got != want {
			t.Errorf("%q is %+v, %v; want %+v", text, got, err, want)
		}
	}
}

// TestDollars: what Kubernetes makes of a text is the text.
func TestDollars(t *testing.T) {
	for text, want := range map[string]string{
		"$HOME": "$HOME", "$(date)": "$$(date)", "$$": "$$$", "$$(x)": "$$$$(x)", "a$": "a$", "$$$": "$$$$$", "$((1+2))": "$$((1+2))",
	} {
		if got := dollars(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
		if got := expand(dollars(text)); got != text {
			t.Errorf("%q comes out as %q", text, got)
		}
	}
}

// expand is what Kubernetes does with a text in which no variable is known.
func expand(text string) (out string) {
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] != '$' || i+1 == len(text):
			out += text[i : i+1]
		case text[i+1] == '$':
			out += "$"
			i++
		case text[i+1] == '(':
			return "a reference is left in " + text
		default:
			out += text[i : i+2]
			i++
		}
	}
	return out
}

// TestAmountsThatNoNodeHasAreRefused: nothing would say it before the API server refuses what it
// cannot count.
func TestAmountsThatNoNodeHasAreRefused(t *testing.T) {
	for _, text := range []string{"1e400", "1000001", "1e9"} {
		if _, err := ParseCPU(text); err == nil || !strings.Contains(err.Error(), "than any node has") {
			t.Errorf("%s processors: %v", text, err)
		}
	}
	for _, text := range []string{"1025T", "999999999999999999999999999G"} {
		if _, err := ParseMemory(text); err == nil || !strings.Contains(err.Error(), "than any node has") {
			t.Errorf("%s of memory: %v", text, err)
		}
	}
	if _, err := ParseCPU("1000000"); err != nil {
		t.Error(err)
	}
	if _, err := ParseMemory("1024T"); err != nil {
		t.Error(err)
	}
}
