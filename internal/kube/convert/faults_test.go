package convert_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
)

func TestRemoteFaults(t *testing.T) {
	controllers := map[string]string{
		"here": "example.com/budget", "nodes": kueue.ProvisioningRequestControllerName,
		"away": kueue.MultiKueueControllerName, "far": kueue.MultiKueueControllerName,
	}
	rule := func(name kueue.AdmissionCheckReference, flavors ...kueue.ResourceFlavorReference) kueue.AdmissionCheckStrategyRule {
		return kueue.AdmissionCheckStrategyRule{Name: name, OnFlavors: flavors}
	}
	cases := map[string]struct {
		why   string
		rules []kueue.AdmissionCheckStrategyRule
		want  []string // reasons
	}{
		"None": {
			why:   "no check sends anything away",
			rules: []kueue.AdmissionCheckStrategyRule{rule("here"), rule("nodes", "f")},
		},
		"One": {
			why:   "all go to other clusters",
			rules: []kueue.AdmissionCheckStrategyRule{rule("away"), rule("here", "f")},
		},
		"Two": {
			why:   "a workload runs in one place",
			rules: []kueue.AdmissionCheckStrategyRule{rule("away"), rule("far")},
			want:  []string{"MultipleMultiKueueAdmissionChecks"},
		},
		"PerFlavor": {
			why:   "flavors are of this cluster",
			rules: []kueue.AdmissionCheckStrategyRule{rule("away", "f")},
			want:  []string{"MultiKueueAdmissionCheckAppliedPerFlavor"},
		},
		"WithNodes": {
			why:   "nodes made here would stay empty",
			rules: []kueue.AdmissionCheckStrategyRule{rule("nodes"), rule("away")},
			want:  []string{"MultiKueueWithProvisioningRequest"},
		},
		"All": {
			why:   "all are told, in this order",
			rules: []kueue.AdmissionCheckStrategyRule{rule("nodes"), rule("away", "f"), rule("far")},
			want: []string{
				"MultipleMultiKueueAdmissionChecks",
				"MultiKueueAdmissionCheckAppliedPerFlavor",
				"MultiKueueWithProvisioningRequest",
			},
		},
		"Unknown": {
			why:   "a check that does not exist is another fault",
			rules: []kueue.AdmissionCheckStrategyRule{rule("away"), rule("gone")},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			q := &kueue.ClusterQueue{
				Spec: kueue.ClusterQueueSpec{
					AdmissionChecksStrategy: &kueue.AdmissionChecksStrategy{AdmissionChecks: tc.rules},
				},
			}
			var got []string
			for _, f := range convert.RemoteFaults(q, func(check string) string { return controllers[check] }) {
				got = append(got, f.Reason)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.why, diff)
			}
		})
	}
	if got := convert.RemoteFaults(&kueue.ClusterQueue{}, nil); got != nil {
		t.Errorf("a queue without checks breaks no rule about them: %v", got)
	}
}

func TestCheckFault(t *testing.T) {
	queue := func(always, a, both int) *kueue.ClusterQueue {
		q := &kueue.ClusterQueue{Spec: kueue.ClusterQueueSpec{
			ResourceGroups:          []kueue.ResourceGroup{{Flavors: []kueue.FlavorQuotas{{Name: "a"}, {Name: "b"}}}},
			AdmissionChecksStrategy: &kueue.AdmissionChecksStrategy{},
		}}
		add := func(n int, flavors ...kueue.ResourceFlavorReference) {
			for range n {
				q.Spec.AdmissionChecksStrategy.AdmissionChecks = append(
					q.Spec.AdmissionChecksStrategy.AdmissionChecks,
					kueue.AdmissionCheckStrategyRule{OnFlavors: flavors},
				)
			}
		}
		add(always)
		add(a, "a")
		add(both, "a", "b")
		return q
	}
	for name, tc := range map[string]struct {
		why  string
		q    *kueue.ClusterQueue
		want string
	}{
		"none":         {"a queue without checks", &kueue.ClusterQueue{}, ""},
		"eight":        {"as many as a Workload can have", queue(3, 3, 2), ""},
		"for all":      {"no job could be admitted", queue(9, 0, 0), "asks 9 AdmissionChecks of workloads with flavor a, and a Workload can have 8"},
		"for a flavor": {"no job could be admitted with it", queue(4, 3, 3), "asks 10 AdmissionChecks of workloads with flavor a, and a Workload can have 8"},
	} {
		got := ""
		if f := convert.CheckFault(tc.q); f != nil {
			got = f.Message
		}
		if got != tc.want {
			t.Errorf("%s: %s: %q, want %q", name, tc.why, got, tc.want)
		}
	}
}
