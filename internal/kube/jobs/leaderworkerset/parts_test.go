package leaderworkerset

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	api "github.com/mlbatch/mlbatch/api/leaderworkerset/v1"
)

// partedSet is a set of groups whose parts are each in one rack; leader says whether the leader has a template of its own.
func partedSet( //nolint:revive // facts about the set
	t *testing.T,
	leader, excluded bool,
	size, of int,
) *api.LeaderWorkerSet {
	t.Helper()
	own, policy := "", "LeaderWorker"
	if leader {
		own = "leaderTemplate: {spec: {containers: [{name: c}]}}, "
	}
	if excluded {
		policy = "LeaderExcluded"
	}
	l := parse(t, fmt.Sprintf(
		"{leaderWorkerTemplate: {size: %d, subGroupPolicy: {subGroupPolicyType: %s, subGroupSize: %d}, %s%s}}",
		size, policy, of, own, workerOnly,
	))
	l.Annotations = map[string]string{api.SubGroupExclusiveTopologyAnnotation: "rack"}
	return l
}

// What a group asks for whose parts are each in one rack.
func TestPartsAreInADomainEach(t *testing.T) {
	for name, tc := range map[string]struct {
		why              string
		leader, excluded bool
		size, of         int
		want             []string
	}{
		"a leader in its part": {
			"it is with one worker fewer", true, false, 6, 2,
			[]string{"leader 1: rack worker-0", "worker-0 1: rack worker-0", "worker 4: slices of 2 in rack"},
		},
		"a leader on top": {
			"it is with as many workers as all parts have", true, false, 5, 2,
			[]string{"leader 1: rack worker-0", "worker-0 2: rack worker-0", "worker 2: slices of 2 in rack"},
		},
		"one part": {
			"all are in it", true, false, 4, 4, []string{"leader 1: rack worker-0", "worker-0 3: rack worker-0"},
		},
		"a leader in none": {
			"it may be anywhere", true, true, 5, 2, []string{"leader 1: ", "worker 4: slices of 2 in rack"},
		},
		"one template": {"all parts are alike", false, false, 6, 2, []string{"main 6: slices of 2 in rack"}},
		"one template, one more": {
			"the first part is larger", false, false, 5, 2, []string{"main 3: rack ", "worker 2: slices of 2 in rack"},
		},
		"one template, a leader in none": {
			"it may be anywhere", false, true, 5, 2, []string{"main 1: ", "worker 4: slices of 2 in rack"},
		},
		"a leader alone": {"there is nobody else", true, false, 1, 1, []string{"leader 1: rack "}},
	} {
		var got []string
		of := Of(partedSet(t, tc.leader, tc.excluded, tc.size, tc.of))
		for _, ps := range of.PodSets("s", 0, "", of.parted()) {
			text := fmt.Sprintf("%s %d: ", ps.Name, ps.Count)
			if r := ps.TopologyRequest; r != nil {
				if r.Required != nil {
					text += *r.Required + " "
				}
				if r.PodSetGroupName != nil {
					text += *r.PodSetGroupName
				}
				if r.PodSetSliceRequiredTopology != nil {
					text += fmt.Sprintf("slices of %d in %s", *r.PodSetSliceSize, *r.PodSetSliceRequiredTopology)
				}
				if *r.PodIndexLabel != PartIndexLabel {
					t.Errorf("%s: pods tell their ranks by %s", name, *r.PodIndexLabel)
				}
			}
			got = append(got, text)
		}
		if d := cmp.Diff(tc.want, got); d != "" {
			t.Errorf("%s: %s (-want +got):\n%s", name, tc.why, d)
		}
	}
}

// Each pod is told the pod set and the number in it by which it gets its place: pods are in one slice, or in the sets that
// are together, if and only if their label says that they are in one part.
func TestPodsOfPartsKnowTheirSet(t *testing.T) {
	for _, leader := range []bool{true, false} {
		for _, excluded := range []bool{true, false} {
			for size := 1; size <= 9; size++ {
				for of := 1; of <= size; of++ {
					l := partedSet(t, leader, excluded, size, of)
					if len(Validate(l)) > 0 {
						continue
					}
					checkPods(t, l, fmt.Sprintf("leader %t, excluded %t, %d in parts of %d", leader, excluded, size, of))
				}
			}
		}
	}
}

func checkPods(t *testing.T, l *api.LeaderWorkerSet, what string) {
	t.Helper()
	of := Of(l)
	sets := map[string]kueue.PodSet{}
	for _, ps := range of.PodSets(l.Name, 0, "", true) {
		sets[string(ps.Name)] = ps
	}
	place := map[string]string{} // of a part
	seen := map[string]bool{}
	leaders, workers := leaders(
		l,
		of,
		1,
		0,
	), workers(
		l,
		of,
		podOf(leaders(l, of, 1, 0).Spec.Template, l.Name+"-0"),
		0,
	)
	for worker := range int(of.Size) {
		p := podOf(leaders.Spec.Template, l.Name+"-0")
		if worker > 0 {
			p = podOf(workers.Spec.Template, fmt.Sprintf("%s-0-%d", l.Name, worker))
		}
		p.Annotations[kueue.PodSuspendingParentAnnotation] = Framework
		id := Identify(p, "blue")
		index, err := strconv.Atoi(id.Labels[PartIndexLabel])
		ps, has := sets[id.Role]
		if err != nil || !has || index < 0 || index >= int(ps.Count) || seen[id.Role+id.Labels[PartIndexLabel]] {
			t.Errorf("%s: worker %d is number %s of %q", what, worker, id.Labels[PartIndexLabel], id.Role)
			continue
		}
		seen[id.Role+id.Labels[PartIndexLabel]] = true
		at := "alone"
		if r := ps.TopologyRequest; r != nil && r.PodSetSliceSize != nil {
			at = fmt.Sprintf("%s %d", id.Role, index/int(*r.PodSetSliceSize))
		} else if r != nil {
			at = "first"
		}
		part := id.Labels[api.SubGroupIndexLabel]
		if was, known := place[part]; known && was != at {
			t.Errorf("%s: part %q is in %q and in %q", what, part, was, at)
		}
		place[part] = at
	}
	together := map[string]string{}
	for part, at := range place {
		if other, twice := together[at]; twice {
			t.Errorf("%s: parts %q and %q are both in %q", what, part, other, at)
		}
		together[at] = part
	}
}

func podOf(template corev1.PodTemplateSpec, name string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: template.Spec}
	p.Name = name
	return p
}

// What pods say themselves of how near they are holds beside their parts: in either words, and how they are cut before all.
func TestPartsOfPodsThatSayHowNearTheyAre(t *testing.T) {
	for why, tc := range map[string]struct {
		notes                 map[string]string
		required, level, size string
	}{
		"a block":         {map[string]string{kueue.PodSetRequiredTopologyAnnotation: "block"}, "block", "rack", "2"},
		"a block, of KAI": {map[string]string{kueue.KAIRequiredAnnotation: "block"}, "block", "rack", "2"},
		"other slices": {
			map[string]string{kueue.PodSetSliceRequiredTopologyAnnotation: "host", kueue.PodSetSliceSizeAnnotation: "4"},
			"", "host", "4",
		},
	} {
		l := partedSet(t, true, true, 5, 2)
		l.Spec.LeaderWorkerTemplate.WorkerTemplate.Annotations = tc.notes
		r := Of(l).PodSets("s", 0, "", true)[1].TopologyRequest
		required := ""
		if r.Required != nil {
			required = *r.Required
		}
		if required != tc.required || *r.PodSetSliceRequiredTopology != tc.level ||
			strconv.Itoa(int(*r.PodSetSliceSize)) != tc.size {
			t.Errorf("%s: the workers ask for %+v", why, r)
		}
	}
}

// Groups whose leader an earlier program made are not planned in parts: their Workload, and what its pods are of, stays.
func TestGroupsOfEarlierProgramsStayWhole(t *testing.T) {
	l := partedSet(t, true, false, 5, 2)
	of := Of(l)
	now := podOf(leaders(l, of, 1, 0).Spec.Template, "s-0")
	if !isParted(now) {
		t.Fatal("a new group is not planned in parts")
	}
	before := now.DeepCopy()
	delete(before.Annotations, Parted)
	set := workers(l, of, before, 0)
	worker := podOf(set.Spec.Template, "s-0-1")
	worker.Annotations[kueue.PodSuspendingParentAnnotation] = Framework
	if id := Identify(worker, "blue"); isParted(worker) || id.Role != "" || id.Labels[PartIndexLabel] != "" {
		t.Errorf("its workers are told %+v", id)
	}
	size, _ := sizeOf(l, l.Name, 0, before)
	if size == nil || len(size.PodSets) != 2 || size.Later != "worker" ||
		size.PodSets[0].Template.Annotations["mlbatch.dev/group-shape"] != set.Spec.Template.Annotations["mlbatch.dev/group-shape"] {
		t.Errorf("it asks for %+v", size)
	}
	if size, _ = sizeOf(
		l,
		l.Name,
		0,
		now,
	); size == nil || len(size.PodSets) != 3 ||
		size.Later != "worker-0,worker" {
		t.Errorf("a new group asks for %+v", size)
	}
	l.Spec.LeaderWorkerTemplate.SubGroupPolicy.SubGroupSize = new(int32(4))
	if Of(l).shape(true) == of.shape(true) {
		t.Error("other parts are no other shape: its pods would be started in the places of the old ones")
	}
}

// A group that has a domain for itself asks for it in the way in which its pods insist on it, and around its parts.
func TestGroupsAreNearAsTheirPodsInsist(t *testing.T) {
	l := partedSet(t, true, false, 5, 2)
	l.Annotations[api.ExclusiveTopologyAnnotation] = "block"
	for _, parted := range []bool{true, false} {
		of := Of(l)
		p := podOf(leaders(l, of, 1, 0).Spec.Template, "s-0")
		p.Annotations[kueue.PodSuspendingParentAnnotation] = Framework
		delete(p.Annotations, api.SubGroupExclusiveTopologyAnnotation)
		id := Identify(p, "blue")
		p.Labels[api.GroupKeyLabel] = id.Labels[api.GroupKeyLabel]
		if !parted {
			delete(p.Annotations, Parted)
		}
		size, _ := sizeOf(l, l.Name, 0, p)
		for _, ps := range size.PodSets {
			if d := cmp.Diff(id.Affinity, ps.Template.Spec.Affinity); d != "" ||
				ps.Template.Labels[api.GroupKeyLabel] != id.Labels[api.GroupKeyLabel] {
				t.Errorf("%s asks for another affinity than its pods have (-want +got):\n%s", ps.Name, d)
			}
			in := ps.Template.Annotations[kueue.TopologyGroupsAnnotation]
			if ps.TopologyRequest != nil && ps.TopologyRequest.Required != nil &&
				*ps.TopologyRequest.Required == "block" {
				in = "block=all"
			}
			if (in == "block=all") != parted {
				t.Errorf("parts of %s are in the groups %q", ps.Name, in)
			}
		}
	}
}
