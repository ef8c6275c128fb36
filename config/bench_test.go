package config_test

import (
	"testing"

	"github.com/mlbatch/mlbatch/config/crdtest"
)

// BenchmarkWorkloadRules is what the rules of a Workload cost the API server with
// the write that admits it, and with one that changes a condition of an admitted
// one.
func BenchmarkWorkloadRules(b *testing.B) {
	const places = ", topologyAssignment: {levels: [kubernetes.io/hostname], slices: [{domainCount: 4, " +
		"valuesPerLevel: [{individual: {prefix: node-, roots: ['0', '1', '2', '3']}}], podCounts: {universal: 1}}]}"
	assignments := ", admission: {clusterQueue: a, podSetAssignments: [{name: main, count: 4, flavors: {cpu: f}, resourceUsage: {cpu: 4}" + places + "}]}"
	waiting := work("queueName: q", "")
	admitted := work("queueName: q", conditions("QuotaReserved", "Admitted")+assignments)
	ready := work("queueName: q", conditions("QuotaReserved", "Admitted", "PodsReady")+assignments)
	for name, tc := range map[string]struct{ old, is string }{"Admit": {waiting, admitted}, "Condition": {admitted, ready}} {
		b.Run(name, func(b *testing.B) {
			s := crdtest.Of(b, "workloads.kueue.x-k8s.io", "v1beta2")
			is, old := s.Parse(b, tc.is), s.Parse(b, tc.old)
			for b.Loop() {
				if got := s.Validate(b, is, old); got != "" {
					b.Fatal(got)
				}
			}
		})
	}
}
