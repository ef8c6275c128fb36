package convert_test

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mlbatch/mlbatch/internal/engine/nodehealth"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
)

func TestWhatJobsOfTestsSay(t *testing.T) {
	ended := func(c batchv1.JobConditionType, reason string) func(*batchv1.Job) {
		return func(j *batchv1.Job) {
			j.Status.Conditions = []batchv1.JobCondition{{
				Type: c, Status: corev1.ConditionTrue, Reason: reason, LastTransitionTime: metav1.NewTime(noon),
			}}
		}
	}
	for name, c := range map[string]struct {
		job  func(*batchv1.Job)
		want nodehealth.TestVerdict
		none bool
	}{
		"it runs":                             {job: func(*batchv1.Job) {}},
		"it passed":                           {job: ended(batchv1.JobComplete, ""), want: nodehealth.TestPassed},
		"it ended with a code":                {job: ended(batchv1.JobFailed, batchv1.JobReasonPodFailurePolicy), want: nodehealth.TestFailed},
		"it took too long":                    {job: ended(batchv1.JobFailed, batchv1.JobReasonDeadlineExceeded), want: nodehealth.TestUnclear},
		"its pod was lost":                    {job: ended(batchv1.JobFailed, batchv1.JobReasonBackoffLimitExceeded), want: nodehealth.TestUnclear},
		"a copy of one":                       {job: func(j *batchv1.Job) { j.Name = "copy" }, none: true},
		"one that says of what it is no test": {job: func(j *batchv1.Job) { j.Annotations = nil }, none: true},
	} {
		t.Run(name, func(t *testing.T) {
			j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "deep-test-n-2", Annotations: map[string]string{
				convert.DeepTestLabel: `{"node":"n","uid":"u","number":2,"cause":"AfterFault","tries":1}`,
			}}}
			c.job(j)
			if got, is := convert.TestOf(j); got.Verdict != c.want || is == c.none {
				t.Errorf("it is %+v (%v), want %q", got, is, c.want)
			}
		})
	}
}

// The newest test that came to a verdict has the say; one of another node of the same name has none.
func TestWhatTestsSayOfNodes(t *testing.T) {
	const fatal = `{"name":"xid","result":"Fatal","at":"2026-03-01T12:00:00Z"}`
	at := func(number int, v nodehealth.TestVerdict, minutes int) nodehealth.Test {
		return nodehealth.Test{
			Node: "n", UID: "u", Number: number, Verdict: v, Ended: noon.Add(time.Duration(minutes) * time.Minute),
		}
	}
	const passed, failed, unclear = nodehealth.TestPassed, nodehealth.TestFailed, nodehealth.TestUnclear
	other := at(9, passed, 5)
	other.UID = "before"
	for name, c := range map[string]struct {
		tests  []nodehealth.Test
		want   string
		passed int
		under  bool
	}{
		"none":                            {want: "Fatal xid"},
		"one passed after it":             {tests: []nodehealth.Test{at(1, passed, 5)}, passed: 5},
		"one passed before it":            {tests: []nodehealth.Test{at(1, passed, -5)}, want: "Fatal xid", passed: -5},
		"one failed":                      {tests: []nodehealth.Test{at(1, failed, 5)}, want: "Fatal deep-test, Fatal xid"},
		"one failed, and the next passed": {tests: []nodehealth.Test{at(2, passed, 6), at(1, failed, 5)}, passed: 6},
		"one passed, and the next failed": {tests: []nodehealth.Test{at(1, passed, 5), at(2, failed, 6)}, want: "Fatal deep-test, Fatal xid"},
		"one that came to no end":         {tests: []nodehealth.Test{at(1, unclear, 5)}, want: "Fatal xid"},
		"one of a node of the same name":  {tests: []nodehealth.Test{other}, want: "Fatal xid"},
		"one runs where nothing else may": {tests: []nodehealth.Test{at(1, "", 0)}, want: "Fatal xid", under: true},
	} {
		t.Run(name, func(t *testing.T) {
			n := reporting(fatal, "nvidia.com/gpu") // its GPUs read 0 for a moment
			n.UID = "u"
			n.Status.Allocatable = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("0")}
			p, err := convert.Patient(n, nil, nil, nodehealth.DefaultRules())
			if err != nil {
				t.Fatal(err)
			}
			convert.DeepTested(&p, n, c.tests)
			got := ""
			for _, f := range p.Found {
				if p.Overrules(f) {
					continue
				}
				if got != "" {
					got += ", "
				}
				got += string(f.Severity) + " " + f.Name
			}
			want := time.Time{}
			if c.passed != 0 {
				want = noon.Add(time.Duration(c.passed) * time.Minute)
			}
			if got != c.want || !p.DeepPassed.Equal(want) || p.UnderTest != c.under || !p.Testable {
				t.Errorf(
					"found %q, passed %s, under test %v; want %q, %s, %v",
					got,
					p.DeepPassed,
					p.UnderTest,
					c.want,
					want,
					c.under,
				)
			}
		})
	}
}
