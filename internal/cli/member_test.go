package cli_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/view/why"
)

// TestMembers: which role and rank pods have, by the labels that each kind gives them.
func TestMembers(t *testing.T) {
	pod := func(name string, labels ...string) corev1.Pod {
		p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
		for i := 0; i < len(labels); i += 2 {
			p.Labels[labels[i]] = labels[i+1]
		}
		return p
	}
	sets := func(counts ...any) *kueue.Workload {
		w := &kueue.Workload{}
		for i := 0; i < len(counts); i += 2 {
			w.Spec.PodSets = append(
				w.Spec.PodSets,
				kueue.PodSet{Name: kueue.PodSetReference(counts[i].(string)), Count: int32(counts[i+1].(int))},
			)
		}
		return w
	}
	const set, index = kueue.PodSetLabel, "mlbatch.dev/index"
	for name, tc := range map[string]struct {
		why  string
		w    *kueue.Workload
		pods []corev1.Pod
		want string
	}{
		"training": {
			"ranks count on from the master, in numbers and not in letters",
			sets("master", 1, "worker", 11),
			[]corev1.Pod{
				pod("w10", set, "worker", "mlbatch.dev/role", "worker", index, "10"), pod("w9", set, "worker", "mlbatch.dev/role", "worker", index, "9"),
				pod("m", set, "master", "mlbatch.dev/role", "master", index, "0"),
			},
			"m=master 0:0 w9=worker 9:10 w10=worker 10:11",
		},
		"missing": {
			"a rank does not move because pods before it are gone",
			sets("a", 3, "b", 1),
			[]corev1.Pod{pod("x", set, "b", index, "0")},
			"x=b 0:3",
		},
		"jobset": {
			"several Jobs of a role, of two pods each",
			sets("leader", 1, "workers", 4),
			[]corev1.Pod{
				pod("w1-0", set, "workers", "jobset.sigs.k8s.io/replicatedjob-name", "workers", "jobset.sigs.k8s.io/replicatedjob-replicas", "2", "jobset.sigs.k8s.io/job-index", "1", "batch.kubernetes.io/job-completion-index", "0"),
				pod("w0-1", set, "workers", "jobset.sigs.k8s.io/replicatedjob-name", "workers", "jobset.sigs.k8s.io/replicatedjob-replicas", "2", "jobset.sigs.k8s.io/job-index", "0", "batch.kubernetes.io/job-completion-index", "1"),
			},
			"w0-1=workers 1:2 w1-0=workers 2:3",
		},
		"leader and workers": {
			"the index counts the leader",
			sets("leader", 1, "worker", 3),
			[]corev1.Pod{
				pod("s-0-1", set, "worker", "leaderworkerset.sigs.k8s.io/worker-index", "1", "kueue.x-k8s.io/pod-group-name", "g"),
				pod("s-0", set, "leader", "leaderworkerset.sigs.k8s.io/worker-index", "0", "kueue.x-k8s.io/pod-group-name", "g"),
			},
			"s-0=leader 0:0 s-0-1=worker 1:1",
		},
		"group":   {"the name of its pod set is a hash, which nobody knows", sets("bfdbb5ec", 2), []corev1.Pod{pod("pair-1", set, "bfdbb5ec", "kueue.x-k8s.io/pod-group-name", "pair"), pod("pair-0", set, "bfdbb5ec", "kueue.x-k8s.io/pod-group-name", "pair")}, "pair-0=pod 0:0 pair-1=pod 1:1"},
		"retried": {"a pod that took another one's place has its rank", nil, []corev1.Pod{pod("j-0-b", "batch.kubernetes.io/job-completion-index", "0"), pod("j-0-a", "batch.kubernetes.io/job-completion-index", "0")}, "j-0-a=pod 0:0 j-0-b=pod 0:0"},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, m := range why.Members(tc.w, tc.pods) {
				got = append(got, fmt.Sprintf("%s=%s:%d", m.Pod.Name, m.Name(), m.Rank))
			}
			if s := strings.Join(got, " "); s != tc.want {
				t.Errorf("%s: %s, want %s", tc.why, s, tc.want)
			}
		})
	}
}
