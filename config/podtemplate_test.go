package config_test

import (
	"fmt"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/mlbatch/mlbatch/config/crdtest"
)

// trainer is a job of one kind, with a pod template.
func trainer(field, template string) string {
	return fmt.Sprintf("{spec: {%s: {Worker: {replicas: 2, template: %s}}}}", field, template)
}

// TestPodTemplates: what people write in the templates of roles is kept and checked as
// that of a pod is.
func TestPodTemplates(t *testing.T) {
	for kind, field := range map[string]string{
		"jaxjobs": "jaxReplicaSpecs", "paddlejobs": "paddleReplicaSpecs", "pytorchjobs": "pytorchReplicaSpecs",
		"tfjobs": "tfReplicaSpecs", "xgboostjobs": "xgbReplicaSpecs",
	} {
		t.Run(kind, func(t *testing.T) {
			s := crdtest.Of(t, kind+".kubeflow.org", "v1")
			good := s.Parse(t, trainer(field, "{metadata: {labels: {a: b}, annotations: {c: d}}, "+
				"spec: {containers: [{name: c, image: i, ports: [{containerPort: 1}], unheardOf: 1}]}}"))
			if got := s.Validate(t, good, nil); got != "" {
				t.Errorf("it is a pod: %s", got)
			}
			data, err := yaml.Marshal(good)
			if err != nil {
				t.Fatal(err)
			}
			for want, why := range map[string]string{
				"a: b":          "labels of pods are how networks and monitors find them",
				"c: d":          "annotations too",
				"protocol: TCP": "ports are known by number and protocol, so that two clients can own one each",
			} {
				if !strings.Contains(string(data), want) {
					t.Errorf("%s: no %q in\n%s", why, want, data)
				}
			}
			if strings.Contains(string(data), "unheardOf") {
				t.Error("a field that pods do not have was kept")
			}
			for template, want := range map[string]string{
				"{spec: {}}": "containers: Required value",
				"{spec: {containers: [{name: c}, {name: c}]}}": "Duplicate value",
				"{spec: {containers: [{name: 1}]}}":            "name",
			} {
				bad := s.Parse(t, trainer(field, template))
				if got := s.Validate(t, bad, nil); !strings.Contains(got, want) {
					t.Errorf("%s: got %q, want %q", template, got, want)
				}
			}
		})
	}
}
