package sakkara_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/sakkara"
)

// setOf is a pod set of group g, or of another or none.
func setOf(name string, count int32, group string, notes map[string]string) kueue.PodSet {
	out := kueue.PodSet{Name: kueue.PodSetReference(name), Count: count, Template: corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}, Annotations: notes},
	}}
	if group != "" {
		out.Template.Labels[sakkara.MemberLabel] = group
	}
	return out
}

func read(t *testing.T, size, constraints string) sakkara.Group {
	t.Helper()
	g, err := sakkara.ReadGroup(map[string]string{"name": "g", "size": size, "constraints": constraints})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// asked is what pod sets ask for, in words.
func asked(sets []kueue.PodSet) string {
	var out []string
	for i := range sets {
		text, t := string(sets[i].Name)+":", sets[i].TopologyRequest
		if t != nil {
			for _, x := range []struct {
				name string
				is   *string
			}{{"required", t.Required}, {"preferred", t.Preferred}, {"group", t.PodSetGroupName}, {"index", t.PodIndexLabel}} {
				if x.is != nil {
					text += " " + x.name + "=" + *x.is
				}
			}
			for _, s := range t.PodsetSliceRequiredTopologyConstraints {
				text += " slice=" + s.Topology
			}
		}
		for _, key := range []string{
			kueue.MaxPerDomainAnnotation, kueue.SpreadTopologyAnnotation, kueue.TopologyGroupsAnnotation,
		} {
			if v := sets[i].Template.Annotations[key]; v != "" {
				text += " " + strings.TrimPrefix(key, "mlbatch.dev/") + "=" + v
			}
		}
		out = append(out, text)
	}
	return strings.Join(out, "; ")
}

// Those pods of a job that are of a group are placed as it says, and what they say themselves holds within. What is
// written into their templates can be told from what their author wrote.
func TestAround(t *testing.T) {
	rack := map[string]string{kueue.PodSetRequiredTopologyAnnotation: "rack"}
	grouped := map[string]string{kueue.TopologyGroupsAnnotation: "tray=pairs"}
	for name, tc := range map[string]struct {
		why, size, constraints string
		sets                   []kueue.PodSet
		want                   string
	}{
		"one rack": {
			"its index tells its place",
			"4", `{"rack": {"hard": true}}`,
			[]kueue.PodSet{setOf("main", 4, "g", nil)},
			"main: required=sakkara.topology.rack index=i",
		},
		"one rack for two roles": {
			"all pods are in the same",
			"4", `{"rack": {"hard": true}}`,
			[]kueue.PodSet{setOf("master", 1, "g", nil), setOf("worker", 3, "g", nil)},
			"master: required=sakkara.topology.rack group=sakkara-group; worker: required=sakkara.topology.rack group=sakkara-group",
		},
		"others": {
			"they are of no group",
			"3", `{"rack": {"hard": true}}`,
			[]kueue.PodSet{setOf("logger", 1, "", nil), setOf("worker", 3, "g", nil)},
			"logger:; worker: required=sakkara.topology.rack",
		},
		"partitions": {
			"equal shares",
			"4", `{"rack": {"partitions": 2}}`,
			[]kueue.PodSet{setOf("main", 4, "g", nil)},
			"main: index=i slice=sakkara.topology.rack podset-max-per-domain=sakkara.topology.rack=2",
		},
		"hard spread of two roles": {
			"the bound is one of all pods of the job",
			"2", `{"node": {"type": "spread", "hard": true}}`,
			[]kueue.PodSet{setOf("master", 1, "g", nil), setOf("worker", 1, "g", nil)},
			"master: podset-max-per-domain=kubernetes.io/hostname=1; worker: podset-max-per-domain=kubernetes.io/hostname=1",
		},
		"soft": {
			"as far as can be had",
			"2", `{"rack": {}, "zone": {"type": "spread"}}`,
			[]kueue.PodSet{setOf("main", 2, "g", nil)},
			"main: preferred=sakkara.topology.rack index=i slice=sakkara.topology.rack slice=sakkara.topology.zone podset-spread-topology=sakkara.topology.zone",
		},
		"nothing": {
			"ranks follow indexes still",
			"2", `{}`,
			[]kueue.PodSet{setOf("main", 2, "g", nil), setOf("side", 1, "", nil)},
			"main: index=i; side:",
		},
		"nothing, beside what pods say": {
			"that is their author's, and stays",
			"2", `{}`,
			[]kueue.PodSet{setOf("main", 2, "g", map[string]string{kueue.PodSetPreferredTopologyAnnotation: "rack"})},
			"main: preferred=rack",
		},
		"pods that require a level": {
			"a rack in the zone",
			"2", `{"zone": {"hard": true}}`,
			[]kueue.PodSet{setOf("main", 2, "g", rack)},
			"main: required=rack podset-topology-groups=sakkara.topology.zone=sakkara-group",
		},
		"pods in groups": {
			"they hold within",
			"2", `{"zone": {"hard": true}}`,
			[]kueue.PodSet{setOf("main", 1, "g", grouped), setOf("side", 1, "g", rack)},
			"main: required=sakkara.topology.zone group=sakkara-group index=i podset-topology-groups=tray=pairs; side: required=rack podset-topology-groups=sakkara.topology.zone=sakkara-group",
		},
	} {
		g := read(t, tc.size, tc.constraints)
		author := make([]kueue.PodSet, len(tc.sets))
		for i := range tc.sets {
			author[i] = *tc.sets[i].DeepCopy()
		}
		jobs.Near(tc.sets, "")
		known := maps.Clone(author[0].Template.Annotations)
		says, err := g.Around(tc.sets, map[kueue.PodSetReference]string{"main": "i"}, nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := asked(tc.sets); got != tc.want {
			t.Errorf("%s: %s:\n got %s\nwant %s", name, tc.why, got, tc.want)
		}
		if d := cmp.Diff(known, author[0].Template.Annotations); d != "" {
			t.Errorf("%s: what was handed in is changed: %s", name, d)
		}
		w := &kueue.Workload{Spec: kueue.WorkloadSpec{PodSets: tc.sets}}
		w.Annotations = map[string]string{kueue.SakkaraGroupAnnotation: "g"}
		if says {
			w.Annotations[kueue.SakkaraPlacedAnnotation] = "true"
		}
		for i, ps := range sakkara.Authored(w) {
			if d := cmp.Diff(author[i].Template, ps.Template); d != "" {
				t.Errorf("%s: what its author wrote of %s is lost (-want +got):\n%s", name, ps.Name, d)
			}
		}
	}
}

// What a Workload has of an author is left alone where no group was written into it.
func TestAuthoredWithoutGroup(t *testing.T) {
	own := map[string]string{kueue.SpreadTopologyAnnotation: "rack"}
	w := &kueue.Workload{Spec: kueue.WorkloadSpec{PodSets: []kueue.PodSet{setOf("main", 1, "g", own)}}}
	if got := sakkara.Authored(w)[0].Template.Annotations; got[kueue.SpreadTopologyAnnotation] != "rack" {
		t.Errorf("it is %v", got)
	}
	w.Annotations = map[string]string{kueue.SakkaraGroupAnnotation: "g"}
	if got := sakkara.Authored(w)[0].Template.Annotations; got[kueue.SpreadTopologyAnnotation] != "rack" {
		t.Errorf("a group without constraints says nothing of that, and it is %v", got)
	}
	w.Annotations[kueue.SakkaraPlacedAnnotation] = "true"
	if got := sakkara.Authored(w)[0].Template.Annotations; len(got) > 0 {
		t.Errorf("the group wrote it, and it is kept: %v", got)
	}
}

// What does not go together is told by the keys of both, and nothing is changed.
func TestAroundFaults(t *testing.T) {
	fewer := setOf("main", 4, "g", nil)
	fewer.MinCount = new(int32(2))
	exclusive := setOf("main", 4, "g", nil)
	exclusive.TopologyRequest = &kueue.PodSetTopologyRequest{PodSetSliceRequiredTopology: new("rack")}
	inLayers := setOf("main", 4, "g", nil)
	inLayers.TopologyRequest = &kueue.PodSetTopologyRequest{
		PodsetSliceRequiredTopologyConstraints: []kueue.PodsetSliceRequiredTopologyConstraint{
			{Topology: "rack", Size: 2},
		},
	}
	preferring := setOf("main", 4, "g", nil)
	preferring.TopologyRequest = &kueue.PodSetTopologyRequest{Preferred: new("rack")}
	says := func(key, value string) kueue.PodSet { return setOf("main", 4, "g", map[string]string{key: value}) }
	const hard = `{"rack": {"hard": true}}`
	for name, tc := range map[string]struct {
		why, constraints string
		sets             []kueue.PodSet
		want             string
	}{
		"fewer":        {"the group would wait for the others for ever", hard, []kueue.PodSet{setOf("main", 3, "g", nil)}, "size: it is 4, and the job has 3 pods with the label sakkara.group.name: g"},
		"more":         {"nobody says which are of the group", `{}`, []kueue.PodSet{setOf("main", 3, "g", nil), setOf("more", 2, "g", nil)}, "size: it is 4, and the job has 5 pods"},
		"huge":         {"numbers do not wrap", `{}`, []kueue.PodSet{setOf("main", 1<<31-1, "g", nil), setOf("more", 1<<31-1, "g", nil), setOf("last", 6, "g", nil)}, "size: it is 4, and the job has 4294967300 pods"},
		"elastic":      {"it is one number", `{}`, []kueue.PodSet{fewer}, "size: the group starts with all of its 4 pods, and the job may start with 2"},
		"itself":       {"it cannot be given", `{"rack": {"partitions": 3}}`, []kueue.PodSet{setOf("main", 4, "g", nil)}, "constraints.rack.partitions: 4 pods cannot be cut"},
		"preferred":    {"both say it", hard, []kueue.PodSet{says(kueue.PodSetPreferredTopologyAnnotation, "rack")}, "constraints: pods main say by annotation kueue.x-k8s.io/podset-preferred-topology"},
		"spread":       {"both say it", hard, []kueue.PodSet{says(kueue.SpreadTopologyAnnotation, "rack")}, "annotation mlbatch.dev/podset-spread-topology"},
		"anywhere":     {"both say it", hard, []kueue.PodSet{says(kueue.PodSetUnconstrainedTopologyAnnotation, "true")}, "annotation kueue.x-k8s.io/podset-unconstrained-topology"},
		"KAI":          {"both say it", hard, []kueue.PodSet{says(kueue.KAIRequiredAnnotation, "rack")}, "annotation " + kueue.KAIRequiredAnnotation},
		"exclusive":    {"a JobSet says it for each Job", hard, []kueue.PodSet{exclusive}, "constraints: the job says which of its pods main are in one domain of rack"},
		"layers":       {"a job says it by a field", hard, []kueue.PodSet{inLayers}, "constraints: the job says which of its pods main are in one domain of rack"},
		"wishes":       {"a job says it by a field", hard, []kueue.PodSet{preferring}, "constraints: the job says that its pods main should be in one domain of rack"},
		"count roles":  {"shares are of one pod set", `{"rack": {"partitions": 2}}`, []kueue.PodSet{setOf("master", 1, "g", nil), setOf("worker", 3, "g", nil)}, "constraints.rack.partitions counts pods of one template, and those of the group are of master, worker"},
		"factor roles": {"shares are of one pod set", `{"node": {"factor": 2}}`, []kueue.PodSet{setOf("master", 2, "g", nil), setOf("worker", 2, "g", nil)}, "constraints.node.factor counts pods of one template"},
	} {
		g := read(t, "4", tc.constraints)
		was := asked(tc.sets)
		_, err := g.Around(tc.sets, nil, nil)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %s: it says %v, want %s", name, tc.why, err, tc.want)
		}
		if got := asked(tc.sets); got != was {
			t.Errorf("%s: it is changed: %s", name, got)
		}
	}
	free := read(t, "4", `{}`)
	if _, err := free.Around(
		[]kueue.PodSet{says(kueue.SpreadTopologyAnnotation, "rack")},
		nil,
		nil,
	); err != nil {
		t.Errorf("without constraints pods say what they want: %v", err)
	}
}

// A job is of one group, whichever of its templates name it.
func TestOfJob(t *testing.T) {
	for want, sets := range map[string][]kueue.PodSet{
		"":  {setOf("a", 1, "", nil)},
		"g": {setOf("a", 1, "", nil), setOf("b", 1, "g", nil), setOf("c", 1, "g", nil)},
	} {
		if got, err := sakkara.OfJob(sets); got != want || err != nil {
			t.Errorf("it is %q, %v, want %q", got, err, want)
		}
	}
	_, err := sakkara.OfJob([]kueue.PodSet{setOf("a", 1, "g", nil), setOf("b", 1, "h", nil)})
	if err == nil || !strings.Contains(err.Error(), `pods a are of group "g", and pods b of group "h"`) {
		t.Errorf("two groups: %v", err)
	}
}
