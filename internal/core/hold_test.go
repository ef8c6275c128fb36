package core

import "testing"

func TestPodHolds(t *testing.T) {
	for name, tc := range map[string]struct {
		why          string
		pod          PodState
		place, quota bool
	}{
		"waiting":                 {"it may be bound at any moment", PodState{}, false, true},
		"waiting and deleted":     {"no scheduler binds a deleted pod, so a finalizer on it keeps nothing", PodState{Deleting: true}, false, false},
		"running":                 {"the plain case", PodState{Bound: true}, true, true},
		"running and deleted":     {"it may ignore the signal for a day", PodState{Bound: true, Deleting: true}, true, true},
		"ended":                   {"its containers are gone", PodState{Bound: true, Ended: true}, false, false},
		"ended and deleted":       {"only a finalizer keeps the object", PodState{Bound: true, Ended: true, Deleting: true}, false, false},
		"ended without a node":    {"refused before it ran", PodState{Ended: true}, false, false},
		"ended, deleted, no node": {"what the garbage collector of pods leaves", PodState{Ended: true, Deleting: true}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.pod.HoldsPlace(); got != tc.place {
				t.Errorf("holds a place: %v, want %v, because %s", got, tc.place, tc.why)
			}
			if got := tc.pod.HoldsQuota(); got != tc.quota {
				t.Errorf("holds quota: %v, want %v, because %s", got, tc.quota, tc.why)
			}
		})
	}
}

func TestHolds(t *testing.T) {
	running, ended := PodState{Bound: true}, PodState{Bound: true, Ended: true}
	for name, tc := range map[string]struct {
		why    string
		makers []MakerState
		pods   []PodState
		want   bool
	}{
		"nothing":                    {"nothing is left, and nothing makes more", nil, nil, false},
		"about to start":             {"its controller may make the first pod at any moment", []MakerState{{}}, nil, true},
		"between two pods":           {"the next pod comes after the last one", []MakerState{{}}, []PodState{ended}, true},
		"suspended, pods gone":       {"no controller makes pods until it is started again", []MakerState{{Stopped: true}}, nil, false},
		"suspended, pods end":        {"the pods go on", []MakerState{{Stopped: true}}, []PodState{ended, running}, true},
		"ended":                      {"it said so itself", []MakerState{{Ended: true}}, []PodState{ended, ended}, false},
		"gone, pods go on":           {"deleted and its pods orphaned", []MakerState{{Gone: true}}, []PodState{running}, true},
		"gone":                       {"everything was deleted", []MakerState{{Gone: true}}, nil, false},
		"kept by a finalizer":        {"a deleted Job makes no pods, whatever keeps it", []MakerState{{Deleting: true}}, []PodState{ended}, false},
		"its ReplicaSet works on":    {"a deleted Deployment that is kept leaves its ReplicaSet alone", []MakerState{{Deleting: true, Outlived: true}}, nil, true},
		"one of several still makes": {"every part of a job counts", []MakerState{{Ended: true}, {}}, nil, true},
		"gone, whatever it was":      {"what does not exist makes nothing", []MakerState{{Gone: true, Deleting: true, Outlived: true}}, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Holds(tc.makers, tc.pods); got != tc.want {
				t.Errorf("got %v, want %v, because %s", got, tc.want, tc.why)
			}
		})
	}
}
