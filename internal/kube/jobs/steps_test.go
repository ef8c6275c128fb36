package jobs

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// TestStepsOf: what a job states is read, and what cannot be meant is refused with its key and a cure.
func TestStepsOf(t *testing.T) {
	const (
		every, first, log = kueue.ProgressEveryAnnotation, kueue.ProgressFirstAnnotation, kueue.ProgressLogAnnotation
		mode, restarts    = kueue.OnHangAnnotation, kueue.HangRestartsAnnotation
	)
	for name, x := range map[string]struct {
		says  map[string]string
		wrong []string
	}{
		"nothing":              {},
		"how often":            {map[string]string{every: "5m"}, nil},
		"all":                  {map[string]string{every: "5m", first: "1h", log: `step (\d+)`, mode: "Restart", restarts: "5"}, nil},
		"no duration":          {map[string]string{every: "often"}, []string{every, "such as 10m"}},
		"too often":            {map[string]string{every: "1s"}, []string{every, "5s"}},
		"too often for a log":  {map[string]string{every: "30s", log: "step"}, []string{every, "1m"}},
		"for ever":             {map[string]string{every: "9999h"}, []string{every, "168h"}},
		"no first":             {map[string]string{every: "5m", first: "-1m"}, []string{first}},
		"no expression":        {map[string]string{every: "5m", log: "("}, []string{log, "RE2"}},
		"all lines":            {map[string]string{every: "5m", log: ".*"}, []string{log, "matches every line"}},
		"too long":             {map[string]string{every: "5m", log: strings.Repeat("x", 257)}, []string{log, "256"}},
		"endless":              {map[string]string{every: "5m", log: strings.Repeat(".{0,999}", 28)}, []string{log, "takes too long"}},
		"another mode":         {map[string]string{every: "5m", mode: "restart"}, []string{mode, "Observe or Restart"}},
		"no number":            {map[string]string{every: "5m", restarts: "0"}, []string{restarts, "1 to 100"}},
		"a mode by itself":     {map[string]string{mode: "Restart"}, []string{mode, every}},
		"a log rule by itself": {map[string]string{log: "step"}, []string{log, every}},
	} {
		t.Run(name, func(t *testing.T) {
			p, errs := StepsOf(&metav1.ObjectMeta{Annotations: x.says})
			if (len(errs) > 0) != (len(x.wrong) > 0) || p != nil && len(errs) > 0 {
				t.Fatalf("%+v, %v", p, errs)
			}
			for _, text := range x.wrong {
				if !strings.Contains(errs.ToAggregate().Error(), text) {
					t.Errorf("%v does not say %q", errs, text)
				}
			}
		})
	}
	p, _ := StepsOf(&metav1.ObjectMeta{Annotations: map[string]string{every: "2h"}})
	if p == nil || p.First != 2*time.Hour || p.Restart || p.Restarts != DefaultHangRestarts {
		t.Errorf("without more it is %+v", p)
	}
	if errs := ValidateLabels(&metav1.ObjectMeta{Annotations: map[string]string{every: "0"}}); len(errs) != 1 {
		t.Errorf("jobs of any kind are not checked: %v", errs)
	}
}
