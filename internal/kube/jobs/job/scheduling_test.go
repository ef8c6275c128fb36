package job

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

func aJob(change ...func(*batchv1.Job)) *batchv1.Job {
	j := &batchv1.Job{}
	for _, c := range change {
		c(j)
	}
	return j
}

func size(parallelism, completions int32) func(*batchv1.Job) {
	return func(j *batchv1.Job) { j.Spec.Parallelism, j.Spec.Completions = &parallelism, &completions }
}

func annotated(key, value string) func(*batchv1.Job) {
	return func(j *batchv1.Job) { j.Annotations = map[string]string{key: value} }
}

func ranked(j *batchv1.Job) { j.Spec.CompletionMode = new(batchv1.IndexedCompletion) }

// scheduled says something in spec.scheduling.
func scheduled(change ...func(*batchv1.JobSchedulingConfiguration)) func(*batchv1.Job) {
	return func(j *batchv1.Job) {
		j.Spec.Scheduling = &batchv1.JobSchedulingConfiguration{}
		for _, c := range change {
			c(j.Spec.Scheduling)
		}
	}
}

func within(level string) func(*batchv1.JobSchedulingConfiguration) {
	return func(s *batchv1.JobSchedulingConfiguration) {
		s.SchedulingConstraints = &schedulingv1alpha3.WorkloadPodGroupSchedulingConstraints{
			Topology: []schedulingv1alpha3.TopologyConstraint{{Key: level}},
		}
	}
}

func gang(least int32) func(*batchv1.JobSchedulingConfiguration) {
	return func(s *batchv1.JobSchedulingConfiguration) {
		s.SchedulingPolicy = &schedulingv1alpha3.WorkloadPodGroupSchedulingPolicy{
			Gang: &schedulingv1alpha3.WorkloadPodGroupGangSchedulingPolicy{},
		}
		if least > 0 {
			s.SchedulingPolicy.Gang.MinCount = &least
		}
	}
}

func basic(s *batchv1.JobSchedulingConfiguration) {
	s.SchedulingPolicy = &schedulingv1alpha3.WorkloadPodGroupSchedulingPolicy{
		Basic: &schedulingv1alpha3.WorkloadPodGroupBasicSchedulingPolicy{},
	}
}

func claims(s *batchv1.JobSchedulingConfiguration) {
	s.ResourceClaims = []schedulingv1alpha3.WorkloadPodGroupResourceClaim{{Name: "nvlink"}}
}

func templated(key, value string) func(*batchv1.Job) {
	return func(j *batchv1.Job) { j.Spec.Template.Annotations = map[string]string{key: value} }
}

// A Job says in spec.scheduling in which domain its pods are; all of them start together, whatever it says of that.
func TestWhereAJobIsScheduled(t *testing.T) {
	rack := &kueue.PodSetTopologyRequest{Required: new("rack")}
	for name, tc := range map[string]struct {
		job  *batchv1.Job
		want *kueue.PodSetTopologyRequest
	}{
		"anywhere":             {aJob(scheduled(gang(2))), nil},
		"in a rack":            {aJob(scheduled(within("rack"))), rack},
		"one by one in a rack": {aJob(scheduled(basic, within("rack"))), rack},
		"with ranks": {
			aJob(ranked, scheduled(within("rack"))),
			&kueue.PodSetTopologyRequest{Required: new("rack"), PodIndexLabel: new(IndexLabel)},
		},
		"and nearer if it can be": {
			aJob(templated(kueue.PodSetPreferredTopologyAnnotation, "host"), scheduled(within("rack"))),
			&kueue.PodSetTopologyRequest{Required: new("rack"), Preferred: new("host")},
		},
	} {
		facts, err := Adapter{}.Read(tc.job)
		if err != nil {
			t.Fatal(err)
		}
		ps := facts.PodSets[0]
		if diff := cmp.Diff(
			tc.want,
			ps.TopologyRequest,
		); diff != "" || ps.MinCount != nil ||
			ps.Count != pods(tc.job) {
			t.Errorf("%s: %d pods, at least %v (-want +got):\n%s", name, ps.Count, ps.MinCount, diff)
		}
	}
}

// What a Job says of its scheduling, and what of it cannot be kept.
func TestSchedulingOfJobs(t *testing.T) {
	const minCount = "spec.scheduling.schedulingPolicy.gang.minCount"
	const key = "spec.scheduling.schedulingConstraints.topology[0].key"
	fewest := annotated(kueue.JobMinParallelismAnnotation, "2")
	for name, tc := range map[string]struct {
		why  string
		job  *batchv1.Job
		want []string
		says string
	}{
		"nothing":            {"most Jobs", aJob(), nil, ""},
		"a gang":             {"that is what it is", aJob(size(4, 4), scheduled(gang(0))), nil, ""},
		"a smaller gang":     {"all start together, so these do", aJob(size(4, 4), scheduled(gang(2))), nil, ""},
		"no gang":            {"nobody minds that they start together", aJob(size(4, 4), scheduled(basic)), nil, ""},
		"a larger gang":      {"it never has so many pods", aJob(size(4, 4), scheduled(gang(5))), []string{minCount}, "use 4 at most"},
		"few completions":    {"nor does it here", aJob(size(4, 2), scheduled(gang(3))), []string{minCount}, "use 2 at most"},
		"fewer pods":         {"it may start with too few", aJob(size(4, 4), fewest, scheduled(gang(3))), []string{minCount}, kueue.JobMinParallelismAnnotation},
		"fewer pods, enough": {"both are kept", aJob(size(4, 4), fewest, scheduled(gang(2))), nil, ""},
		"a rack":             {"the same twice", aJob(templated(kueue.PodSetRequiredTopologyAnnotation, "rack"), scheduled(within("rack"))), nil, ""},
		"a rack in a block": {
			"both are kept", aJob(templated(kueue.PodSetRequiredTopologyAnnotation, "rack"), scheduled(within("block"))), nil, "",
		},
		"anywhere in a rack": {
			"which counts?", aJob(templated(kueue.PodSetUnconstrainedTopologyAnnotation, "true"), scheduled(within("rack"))),
			[]string{key},
			kueue.PodSetUnconstrainedTopologyAnnotation + " of spec.template says true",
		},
		"a rack and a block of KAI": {
			"of the Job itself", aJob(annotated(kueue.KAIRequiredAnnotation, "block"), scheduled(within("rack"))),
			[]string{key},
			kueue.KAIRequiredAnnotation + " says block",
		},
		"devices": {"they would not be counted", aJob(scheduled(claims)), []string{"spec.scheduling.resourceClaims"}, "spec.template"},
	} {
		errs := validate(tc.job)
		if got := fields(errs); !slices.Equal(got, tc.want) {
			t.Errorf("%s (%s): %v", name, tc.why, errs)
		}
		if len(errs) > 0 && !strings.Contains(errs[0].Error(), tc.says) {
			t.Errorf("%s: %q does not say %q", name, errs[0], tc.says)
		}
	}
}

// A change is checked if it is one of these fields; what was there before may stay.
func TestSchedulingOfJobsChanges(t *testing.T) {
	wrong := scheduled(gang(5))
	for name, tc := range map[string]struct {
		was, is *batchv1.Job
		want    int
	}{
		"nothing":       {aJob(size(4, 4), wrong), aJob(size(4, 4), wrong), 0},
		"a larger gang": {aJob(size(4, 4), scheduled(gang(4))), aJob(size(4, 4), wrong), 1},
		"fewer pods":    {aJob(size(8, 8), wrong), aJob(size(4, 4), wrong), 1},
		"more pods":     {aJob(size(4, 4), wrong), aJob(size(8, 8), wrong), 0},
	} {
		if got := validateChange(tc.was, tc.is); len(got) != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// Wrapped Jobs are read before the API server has seen them.
func TestLevelOfWrappedJobs(t *testing.T) {
	at := func(topology any) map[string]any {
		return map[string]any{"spec": map[string]any{"scheduling": map[string]any{
			"schedulingConstraints": map[string]any{"topology": topology},
		}}}
	}
	for name, tc := range map[string]struct {
		template map[string]any
		want     string
	}{
		"none":     {map[string]any{}, ""},
		"a rack":   {at([]any{map[string]any{"key": "rack"}}), "rack"},
		"nonsense": {at("rack"), ""},
		"no text":  {at([]any{map[string]any{"key": int64(4)}}), ""},
	} {
		if got := wrappedLevel(tc.template); got != tc.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}
