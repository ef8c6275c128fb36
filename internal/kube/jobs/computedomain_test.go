package jobs_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

func withGPUs(name string, n int64) corev1.Container {
	c := corev1.Container{Name: name}
	if n > 0 {
		c.Resources.Limits = corev1.ResourceList{"nvidia.com/gpu": *resource.NewQuantity(n, resource.DecimalSI)}
	}
	return c
}

// TestWhoIsInAComputeDomain: of a job that asks for one, the pods with GPUs, and of others those that say so;
// they are in one clique together unless they say themselves where they must be.
func TestWhoIsInAComputeDomain(t *testing.T) {
	yes := map[string]string{kueue.ComputeDomainAnnotation: "true"}
	no := map[string]string{kueue.ComputeDomainAnnotation: "false"}
	const clique = "nvidia.com/gpu.clique"
	type set struct {
		gpus  int64
		notes map[string]string
		near  *kueue.PodSetTopologyRequest
	}
	for name, tc := range map[string]struct {
		why  string
		job  map[string]string
		sets []set
		want []string // of each pod set: its name if it is in, the level that it requires, and its group
	}{
		"the job says so": {
			why: "one set needs no group", job: yes, sets: []set{{gpus: 8}}, want: []string{"s0 " + clique + " "},
		},
		"nobody says so":  {why: "all is as ever", sets: []set{{gpus: 8}}, want: []string{"  "}},
		"the job says no": {why: "it says so", job: no, sets: []set{{gpus: 8}}, want: []string{"  "}},
		"a launcher": {
			why: "it has no GPU whose memory it could share", job: yes, sets: []set{{}, {gpus: 8}},
			want: []string{"  ", "s1 " + clique + " "},
		},
		"two roles": {
			why: "they are in one clique together", job: yes, sets: []set{{gpus: 8}, {gpus: 4}},
			want: []string{"s0 " + clique + " compute-domain-of-all", "s1 " + clique + " compute-domain-of-all"},
		},
		"pods say so": {
			why: "their GPUs may be asked for in other words", sets: []set{{notes: yes}, {gpus: 8}},
			want: []string{"s0 " + clique + " ", "  "},
		},
		"another level": {
			why: "its author knows better", job: yes,
			sets: []set{{gpus: 8, near: &kueue.PodSetTopologyRequest{Required: new("rack")}}},
			want: []string{"s0 rack "},
		},
		"slices": {
			why: "each is in a domain, and the whole need not be", job: yes,
			sets: []set{{gpus: 8, near: &kueue.PodSetTopologyRequest{PodSetSliceRequiredTopology: new(clique)}}},
			want: []string{"s0  "},
		},
		"a wish": {
			why: "it is heeded within the clique", job: yes,
			sets: []set{{gpus: 8, near: &kueue.PodSetTopologyRequest{Preferred: new("rack")}}},
			want: []string{"s0 " + clique + " "},
		},
	} {
		sets := make([]kueue.PodSet, len(tc.sets))
		for i, s := range tc.sets {
			sets[i].Name, sets[i].TopologyRequest = kueue.PodSetReference(fmt.Sprintf("s%d", i)), s.near.DeepCopy()
			sets[i].Template.Annotations = s.notes
			sets[i].Template.Spec.Containers = []corev1.Container{withGPUs("c", s.gpus)}
		}
		in := map[kueue.PodSetReference]bool{}
		for _, name := range jobs.AsksComputeDomain(tc.job, sets) {
			in[name] = true
		}
		jobs.NearAsJobSays(tc.job, sets)
		got := make([]string, len(sets))
		for i := range sets {
			var who, level, group string
			if in[sets[i].Name] {
				who = string(sets[i].Name)
			}
			if r := sets[i].TopologyRequest; r != nil && r.Required != nil {
				level = *r.Required
			}
			if r := sets[i].TopologyRequest; r != nil && r.PodSetGroupName != nil {
				group = *r.PodSetGroupName
			}
			got[i] = who + " " + level + " " + group
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s: %s (-want +got):\n%s", name, tc.why, diff)
		}
	}
}

// TestPodsGetTheirChannel: a pod with a place in a ComputeDomain gets one claim, of its containers with GPUs.
func TestPodsGetTheirChannel(t *testing.T) {
	template := "job-train"
	own := corev1.PodResourceClaim{Name: "mine", ResourceClaimTemplateName: &template}
	other := corev1.PodResourceClaim{Name: "compute-domain-channel", ResourceClaimName: new("another")}
	for name, tc := range map[string]struct {
		why        string
		given      bool
		containers []corev1.Container
		claims     []corev1.PodResourceClaim
		want       []int // claims of the pod, and of each container
	}{
		"no place":          {"nothing was given to it", false, []corev1.Container{withGPUs("c", 8)}, nil, []int{0, 0}},
		"one container":     {"it gets the channel", true, []corev1.Container{withGPUs("c", 8)}, nil, []int{1, 1}},
		"a sidecar":         {"it has no GPU", true, []corev1.Container{withGPUs("c", 8), withGPUs("s", 0)}, nil, []int{1, 1, 0}},
		"no GPU at all":     {"nobody knows which is meant", true, []corev1.Container{withGPUs("c", 0), withGPUs("s", 0)}, nil, []int{1, 1, 1}},
		"its author's":      {"who wrote the claim said who gets it", true, []corev1.Container{withGPUs("c", 8)}, []corev1.PodResourceClaim{own}, []int{1, 0}},
		"the name is taken": {"by a claim of something else", true, []corev1.Container{withGPUs("c", 8)}, []corev1.PodResourceClaim{other}, []int{2, 1}},
	} {
		p := &corev1.Pod{Spec: corev1.PodSpec{Containers: tc.containers, ResourceClaims: tc.claims}}
		if tc.given {
			p.Annotations = map[string]string{kueue.ComputeDomainClaimAnnotation: template}
		}
		changed := jobs.SharesMemory(p)
		got := []int{len(p.Spec.ResourceClaims)}
		names := map[string]bool{}
		for _, c := range p.Spec.ResourceClaims {
			names[c.Name] = true
		}
		for _, c := range p.Spec.Containers {
			got = append(got, len(c.Resources.Claims))
			for _, claim := range c.Resources.Claims {
				if last := p.Spec.ResourceClaims[len(p.Spec.ResourceClaims)-1]; claim.Name != last.Name ||
					*last.ResourceClaimTemplateName != template {
					t.Errorf("%s: container %s has claim %s", name, c.Name, claim.Name)
				}
			}
		}
		if diff := cmp.Diff(
			tc.want,
			got,
		); diff != "" || changed != (got[0] > len(tc.claims)) ||
			len(names) != got[0] {
			t.Errorf("%s: %s, changed %v, names %v (-want +got):\n%s", name, tc.why, changed, names, diff)
		}
		if jobs.SharesMemory(p) {
			t.Errorf("%s: asked twice it adds another", name)
		}
	}
}
