package appwrapper

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/utils/ptr"
)

// Where each part of a wrapped LeaderWorkerSet has to be in one domain, its pods are planned so, as far as a pod set for
// each template can say it: parts of equal size. What its pods say themselves stays.
func TestPartsOfWrappedSets(t *testing.T) {
	for name, tc := range map[string]struct {
		why, notes, template string
		replicas             int
		want                 map[string]string
	}{
		"alike": {
			"parts follow each other, group by group", "", `size: 4, subGroupPolicy: {subGroupSize: 2}, workerTemplate: {spec: PODSPEC}`, 3,
			map[string]string{"a-0": "rack 2 leaderworkerset.sigs.k8s.io/worker-index leaderworkerset.sigs.k8s.io/group-index 3"},
		},
		"leader outside": {
			"it is in no part", "",
			`size: 5, subGroupPolicy: {subGroupSize: 2, subGroupPolicyType: LeaderExcluded}, leaderTemplate: {spec: PODSPEC}, workerTemplate: {spec: PODSPEC}`, 2,
			map[string]string{"a-0": "", "a-1": "rack 2   0"},
		},
		"leader in the first": {
			"its part has two pod sets", "",
			`size: 4, subGroupPolicy: {subGroupSize: 2}, leaderTemplate: {spec: PODSPEC}, workerTemplate: {spec: PODSPEC}`, 1,
			map[string]string{"a-0": "", "a-1": ""},
		},
		"leader on top": {
			"the first part has one pod more", "", `size: 5, subGroupPolicy: {subGroupSize: 2}, workerTemplate: {spec: PODSPEC}`, 1,
			map[string]string{"a-0": ""},
		},
		"unequal": {
			"the last part lacks pods", "",
			`size: 6, subGroupPolicy: {subGroupSize: 4}, workerTemplate: {spec: PODSPEC}`, 1,
			map[string]string{"a-0": ""},
		},
		"their own": {
			"they say how they are cut", `metadata: {annotations: {kueue.x-k8s.io/podset-slice-required-topology: block, kueue.x-k8s.io/podset-slice-size: "4"}}, `,
			`size: 4, subGroupPolicy: {subGroupSize: 2}, workerTemplate: {NOTESspec: PODSPEC}`, 1,
			map[string]string{"a-0": "block 4 leaderworkerset.sigs.k8s.io/worker-index leaderworkerset.sigs.k8s.io/group-index 1"},
		},
		"no parts": {
			"nothing is cut", "", `size: 4, workerTemplate: {spec: PODSPEC}`, 1,
			map[string]string{"a-0": ""},
		},
	} {
		w := wrap(t, fmt.Sprintf(
			`{apiVersion: leaderworkerset.x-k8s.io/v1, kind: LeaderWorkerSet, metadata: {name: l, annotations: {leaderworkerset.sigs.k8s.io/subgroup-exclusive-topology: rack}}, spec: {replicas: %d, leaderWorkerTemplate: {%s}}}`,
			tc.replicas,
			strings.ReplaceAll(tc.template, "NOTES", tc.notes),
		))
		w.Name = "a"
		facts, err := Adapter{}.Read(w)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for i := range facts.PodSets {
			ps, got := &facts.PodSets[i], ""
			if r := ps.TopologyRequest; r != nil {
				got = fmt.Sprint(
					ptr.Deref(r.PodSetSliceRequiredTopology, ""),
					" ",
					ptr.Deref(r.PodSetSliceSize, 0),
					" ",
					ptr.Deref(
						r.PodIndexLabel,
						"",
					),
					" ",
					ptr.Deref(r.SubGroupIndexLabel, ""),
					" ",
					ptr.Deref(r.SubGroupCount, 0),
				)
			}
			if want := tc.want[string(ps.Name)]; got != want {
				t.Errorf("%s: %s: pods %s ask for %q, want %q", name, tc.why, ps.Name, got, want)
			}
		}
		if len(facts.PodSets) != len(tc.want) {
			t.Errorf("%s: there are %d pod sets", name, len(facts.PodSets))
		}
	}
}
