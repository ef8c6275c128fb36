package settings

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/kube/manager"
)

func TestJobOptions(t *testing.T) {
	type outcome struct {
		Rules            convert.Rules
		IgnoreUndeclared bool
		WithoutQueue     bool
		System, Lab      bool // whether jobs of these namespaces wait at all
		Labels           []string
		Groups           bool
		Gates            manager.Gates
	}
	cases := map[string]struct {
		why, file string
		want      outcome
	}{
		"nothing said": {"as in Kueue: all but the system's jobs, if they name a queue", "", outcome{Lab: true}},
		"requests": {
			"what counts against quota",
			`
resources:
  excludeResourcePrefixes: [acme.com/]
  transformations:
  - {input: mig, strategy: Replace, multiplyBy: cpu, outputs: {credits: 2}}
  - {input: gpu, outputs: {credits: 1}}
`,
			outcome{Lab: true, Rules: convert.Rules{Counting: convert.Counting{
				ExcludePrefixes: []string{"acme.com/"},
				Transformations: []convert.Transformation{
					{
						Input:      "mig",
						Replace:    true,
						MultiplyBy: "cpu",
						Outputs:    corev1.ResourceList{"credits": resource.MustParse("2")},
					},
					{Input: "gpu", Outputs: corev1.ResourceList{"credits": resource.MustParse("1")}},
				},
			}}},
		},
		"undeclared": {
			"resources without quota do not count",
			"resources: {quotaCheckStrategy: IgnoreUndeclared}",
			outcome{Lab: true, IgnoreUndeclared: true},
		},
		"whose jobs": {
			"the selector replaces the default one",
			`
manageJobsWithoutQueueName: true
managedJobsNamespaceSelector: {matchLabels: {team: "yes"}}
integrations: {frameworks: [batch/job], labelKeysToCopy: [a, b], writePodGroups: true}
`,
			outcome{WithoutQueue: true, Labels: []string{"a", "b"}, Groups: true},
		},
		"gates": {
			"each of them has an effect",
			"featureGates: {PriorityBoost: true, TASBalancedPlacement: true, AdmissionGatedBy: false, PartialAdmission: false, ReclaimablePods: false, AssignQueueLabelsForPods: false, WorkloadPriorityClassDefaulting: false}",
			outcome{
				Lab: true,
				Rules: convert.Rules{
					PriorityBoost: true, NoAdmissionGates: true, WholeOnly: true, KeepDone: true, Balanced: true,
				},
				Gates: manager.Gates{
					WholeJobsOnly:          true,
					NoReclaimablePods:      true,
					NoQueueLabels:          true,
					NoDefaultPriorityClass: true,
				},
			},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			f, err := Read("f.yaml", []byte("apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"+c.file))
			if err != nil {
				t.Fatal(err)
			}
			s, err := Resolve(f, Given{})
			if err != nil {
				t.Fatal(err)
			}
			o := s.jobs(manager.Options{})
			in := func(namespace string) bool {
				return o.Scope.Namespaces.Matches(labels.Set{"kubernetes.io/metadata.name": namespace})
			}
			got := outcome{
				o.Rules,
				o.IgnoreUndeclared,
				o.Scope.WithoutQueue,
				in("kube-system"),
				in("lab"),
				o.LabelKeysToCopy,
				o.WritePodGroups,
				o.Gates,
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.why, diff)
			}
		})
	}
}
