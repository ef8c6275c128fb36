package nodehealth_test

import (
	"testing"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/nodehealth"
)

func TestClassify(t *testing.T) {
	gpus := core.Resources{{Resource: core.CPU, Amount: 224000}, {Resource: core.GPU, Amount: 8}}
	label := func(v string) map[string]string { return map[string]string{nodehealth.HealthLabel: v} }
	cases := map[string]struct {
		why   string
		facts nodehealth.Signals
		state core.NodeState
		words string
	}{
		"healthy": {
			why:   "nothing is wrong, so nothing is said",
			facts: nodehealth.Signals{Ready: "True", Capacity: gpus}, state: core.NodeReady,
		},
		"pass": {
			why:   "PASS is the good result",
			facts: nodehealth.Signals{Ready: "True", Capacity: gpus, Labels: label("PASS")}, state: core.NodeReady,
		},
		"unknown value": {
			why:   "a value that is not defined must not take nodes away",
			facts: nodehealth.Signals{Ready: "True", Capacity: gpus, Labels: label("MAYBE")}, state: core.NodeReady,
		},
		"warn": {
			why:   "WARN only makes a node less preferred",
			facts: nodehealth.Signals{Ready: "True", Capacity: gpus, Labels: label("WARN")},
			state: core.NodeWarned, words: "label autopilot.ibm.com/gpuhealth=WARN",
		},
		"testing": {
			why:   "a running test wants the GPUs for itself",
			facts: nodehealth.Signals{Ready: "True", Capacity: gpus, Labels: label("TESTING")},
			state: core.NodeClosed, words: "label autopilot.ibm.com/gpuhealth=TESTING",
		},
		"err": {
			why:   "older health checks write ERR",
			facts: nodehealth.Signals{Ready: "True", Capacity: gpus, Labels: label("ERR")},
			state: core.NodeClosed, words: "label autopilot.ibm.com/gpuhealth=ERR",
		},
		"evict": {
			why:   "EVICT also takes away what runs",
			facts: nodehealth.Signals{Ready: "True", Capacity: gpus, Labels: label("EVICT")},
			state: core.NodeEvicted, words: "label autopilot.ibm.com/gpuhealth=EVICT",
		},
		"lower case": {
			why:   "people type labels by hand; the words show what they typed",
			facts: nodehealth.Signals{Ready: "True", Capacity: gpus, Labels: label("evict")},
			state: core.NodeEvicted, words: "label autopilot.ibm.com/gpuhealth=evict",
		},
		"label without GPUs": {
			why: "the label speaks of GPUs; a node that has none loses nothing",
			facts: nodehealth.Signals{
				Ready:    "True",
				Capacity: gpus[:1],
				Labels:   label("EVICT"),
			},
			state: core.NodeReady,
		},
		"label with dead device plugin": {
			why: "a broken driver reports 0 GPUs on what still is a GPU node",
			facts: nodehealth.Signals{
				Ready: "True", Capacity: gpus.With(core.GPU, 0), Labels: label("EVICT"),
			},
			state: core.NodeEvicted, words: "label autopilot.ibm.com/gpuhealth=EVICT",
		},
		"cordoned": {
			why:   "a cordon is a human's word, with or without GPUs",
			facts: nodehealth.Signals{Ready: "True", Unschedulable: true},
			state: core.NodeClosed, words: "cordoned",
		},
		"not ready": {
			why:   "the kubelet says so itself",
			facts: nodehealth.Signals{Ready: "False", ReadyReason: "KubeletNotReady", Capacity: gpus},
			state: core.NodeLost, words: "not ready (KubeletNotReady)",
		},
		"unknown": {
			why:   "the kubelet stopped answering",
			facts: nodehealth.Signals{Ready: "Unknown", ReadyReason: "NodeStatusUnknown", Capacity: gpus},
			state: core.NodeLost, words: "ready unknown (NodeStatusUnknown)",
		},
		"never reported": {
			why:   "a node that just registered is not there yet",
			facts: nodehealth.Signals{Capacity: gpus}, state: core.NodeLost, words: "never reported ready",
		},
		"taint before condition": {
			why: "the taint may arrive first",
			facts: nodehealth.Signals{Ready: "True", Taints: []core.Taint{
				{Key: "node.kubernetes.io/unreachable", Effect: core.NoExecute},
			}},
			state: core.NodeLost, words: "taint node.kubernetes.io/unreachable",
		},
		"short of disk": {
			why: "the kubelet ends pods there and admits none, and what runs may go on",
			facts: nodehealth.Signals{Ready: "True", Taints: []core.Taint{
				{Key: "node.kubernetes.io/disk-pressure", Effect: core.NoSchedule},
			}},
			state: core.NodeClosed, words: "DiskPressure",
		},
		"somebody's own taint": {
			why: "it says for whom the node is, which flavors and pods know",
			facts: nodehealth.Signals{Ready: "True", Taints: []core.Taint{
				{Key: "nvidia.com/gpu", Value: "present", Effect: core.NoSchedule},
			}},
			state: core.NodeReady, words: "",
		},
		"being deleted": {
			why:   "what starts there would be lost",
			facts: nodehealth.Signals{Ready: "True", Deleting: true},
			state: core.NodeLost, words: "being deleted",
		},
		"several": {
			why: "the worst decides, and all must be mended",
			facts: nodehealth.Signals{
				Ready: "False", Unschedulable: true, Capacity: gpus, Labels: label("EVICT"),
			},
			state: core.NodeEvicted, words: "label autopilot.ibm.com/gpuhealth=EVICT, not ready, cordoned",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			state, words := nodehealth.Classify(c.facts)
			if state != c.state || words != c.words {
				t.Errorf("Classify = %s, %q; want %s, %q; %s", state, words, c.state, c.words, c.why)
			}
		})
	}
}
