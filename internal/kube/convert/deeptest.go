package convert

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/mlbatch/mlbatch/internal/engine/nodehealth"
)

// DeepTestLabel is on Jobs that test nodes, and on their pods; the annotation of the same name of the Job has a DeepTest
// in JSON.
const DeepTestLabel = "mlbatch.dev/deep-test"

// DeepTest is what a Job says of the deep test that it is.
type DeepTest struct {
	Node   string               `json:"node"`
	UID    string               `json:"uid"`
	Number int                  `json:"number"`
	Cause  nodehealth.TestCause `json:"cause"`
	Tries  int                  `json:"tries"`
}

// TestJobName is that of the Job of a test. Two tests of a node that have the same number have the same name.
func TestJobName(t *nodehealth.Test) string {
	const most, rest = 36, 10
	node := strings.ReplaceAll(t.Node, ".", "-")
	if len(node) > most || node != t.Node {
		h := fnv.New32a()
		h.Write([]byte(t.Node))
		node = node[:min(len(node), most-rest)] + "-" + strconv.FormatUint(uint64(h.Sum32()), 36)
	}
	return "deep-test-" + node + "-" + strconv.Itoa(t.Number)
}

// TestOf is the deep test that a Job is, and false of a Job that is none. Who may write Jobs in the namespace of the tests
// says what comes of them: nobody but mlbatch is to.
func TestOf(j *batchv1.Job) (nodehealth.Test, bool) {
	var said DeepTest
	if json.Unmarshal([]byte(j.Annotations[DeepTestLabel]), &said) != nil || said.Node == "" {
		return nodehealth.Test{}, false
	}
	t := nodehealth.Test{
		Node: said.Node, UID: said.UID, Number: said.Number, Cause: said.Cause, Tries: said.Tries,
		Queued: said.Cause == nodehealth.Periodic, Created: j.CreationTimestamp.UTC(),
	}
	if j.Name != TestJobName(&t) {
		return nodehealth.Test{}, false // a copy
	}
	if at := j.Status.StartTime; at != nil && (j.Spec.Suspend == nil || !*j.Spec.Suspend) {
		t.Began = at.UTC()
	}
	for _, c := range j.Status.Conditions {
		if c.Status != corev1.ConditionTrue {
			continue
		}
		switch c.Type {
		case batchv1.JobComplete:
			t.Verdict, t.Ended = nodehealth.TestPassed, c.LastTransitionTime.UTC()
			if j.Status.CompletionTime != nil {
				t.Ended = j.Status.CompletionTime.UTC()
			}
		case batchv1.JobFailed:
			t.Verdict, t.Ended = nodehealth.TestUnclear, c.LastTransitionTime.UTC()
			t.Why = fmt.Sprintf("%s: %s", c.Reason, c.Message)
			if c.Reason == batchv1.JobReasonPodFailurePolicy {
				t.Verdict = nodehealth.TestFailed
				t.Why = "it failed: kubectl -n " + j.Namespace + " logs job/" + j.Name
			}
		case batchv1.JobSuspended, batchv1.JobFailureTarget, batchv1.JobSuccessCriteriaMet:
		}
	}
	return t, true
}

// DeepTested adds what tests of a node say of it to what is found there: the newest that came to a verdict has the say.
// Tests of a node before it that had the same name say nothing.
func DeepTested(p *nodehealth.Patient, n *corev1.Node, tests []nodehealth.Test) {
	gpus := GPUsOf(n)
	p.Testable = len(gpus) > 0
	var newest *nodehealth.Test
	for i := range tests {
		t := &tests[i]
		switch {
		case t.Node != n.Name || t.UID != string(n.UID):
		case t.Verdict == "":
			p.UnderTest = p.UnderTest || !t.Queued
		case t.Verdict != nodehealth.TestUnclear && (newest == nil || t.Number > newest.Number):
			newest = t
		}
	}
	if newest == nil {
		return
	}
	passed, found := newest.Evidence()
	if passed.After(p.DeepPassed) {
		p.DeepPassed = passed
	}
	if found != nil {
		if len(gpus) > 0 {
			found.Resource = string(gpus[0])
		}
		p.Found = slices.Insert(p.Found, 0, *found) // nothing is worse
	}
}

// GPUsOf are the resources of a node by which pods ask for whole GPUs, sorted: those that are called so. They may be 0, as
// they are while a device plugin starts anew: the node has GPUs still.
func GPUsOf(n *corev1.Node) []corev1.ResourceName {
	var out []corev1.ResourceName
	for _, all := range []corev1.ResourceList{n.Status.Capacity, n.Status.Allocatable} {
		for name := range all {
			if strings.HasSuffix(string(name), "/gpu") {
				out = append(out, name)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// HoldsGPUs reports whether a pod holds a GPU of its node: one that has not ended, even if it is being deleted.
func HoldsGPUs(p *corev1.Pod) bool {
	if p.Spec.NodeName == "" || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
		return false
	}
	for _, all := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range all {
			for _, list := range []corev1.ResourceList{all[i].Resources.Requests, all[i].Resources.Limits} {
				for name, amount := range list {
					if strings.HasSuffix(string(name), "/gpu") && !amount.IsZero() {
						return true
					}
				}
			}
		}
	}
	return false
}
