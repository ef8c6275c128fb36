package simnode

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestBuildsOnWhatItWrote(t *testing.T) {
	pod := func(uid types.UID, version string) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "p", UID: uid, ResourceVersion: version},
		}
	}
	tests := map[string]struct {
		why                   string
		seen, written         *corev1.Pod
		wantWritten, wantKept bool
	}{
		"nothing written": {"what is seen is all there is", pod("a", "5"), nil, false, false},
		"seen lags": {
			"a write on top of the older one would be refused",
			pod("a", "5"),
			pod("a", "12"),
			true,
			true,
		},
		"seen caught up": {
			"the same, and it need not be kept any longer",
			pod("a", "12"),
			pod("a", "12"),
			false,
			false,
		},
		"seen is newer": {"another client changed it since", pod("a", "13"), pod("a", "12"), false, false},
		"another pod":   {"it has the name of one that is gone", pod("b", "5"), pod("a", "12"), false, false},
		"gone":          {"nothing is kept of it", nil, pod("a", "12"), false, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := &simulator{written: map[string]*corev1.Pod{}}
			if tc.written != nil {
				s.written["blue/p"] = tc.written
			}
			want := tc.seen
			if tc.wantWritten {
				want = tc.written
			}
			if got := s.newest("blue/p", tc.seen); got != want {
				t.Errorf("newest = %+v, want %+v: %s", got, want, tc.why)
			}
			if _, kept := s.written["blue/p"]; kept != tc.wantKept {
				t.Errorf("kept = %v, want %v: %s", kept, tc.wantKept, tc.why)
			}
		})
	}
}
