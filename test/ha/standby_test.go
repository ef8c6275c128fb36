package ha

import (
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// A controller that stands by writes nothing, but its webhooks try what a job would create all the
// same: what the API server would refuse hours later is refused now, whoever is asked.
func TestOneThatStandsByTriesComponents(t *testing.T) {
	p := newPlane(t)
	first := p.begin().ready()
	p.eventually("the first one decides", func() error { return leads(first) })
	p.balancer.spare(first.order)
	second := p.begin().ready()
	p.eventually("the API server trusts the webhooks", func() error { return p.asked("trusted") })
	p.furnish(8, 8)
	wrapper := func(name, container string) error {
		text := fmt.Sprintf(
			`{apiVersion: workload.codeflare.dev/v1beta2, kind: AppWrapper, metadata: {namespace: %s, name: %s}, spec: {components: [
			{template: {apiVersion: batch/v1, kind: Job, metadata: {name: %s}, spec: {template: {spec: {restartPolicy: Never, containers: [%s]}}}}}]}}`,
			team,
			name,
			name,
			container,
		)
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
			t.Fatal(err)
		}
		return p.admin.Create(t.Context(), o)
	}
	p.eventually("a whole job is taken", func() error { return wrapper("whole", "{name: c, image: x}") })
	err := wrapper("broken", "{name: c}")
	if !apierrors.IsInvalid(err) && !apierrors.IsForbidden(err) ||
		!strings.Contains(fmt.Sprint(err), "image: Required value") {
		t.Errorf("a job without an image: %v", err)
	}
	if leads(second) == nil {
		t.Fatal("the second one leads")
	}
}
