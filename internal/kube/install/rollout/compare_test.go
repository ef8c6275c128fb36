package rollout

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
		t.Fatal(err)
	}
	return o
}

// crd is one of a kind with the versions that are given.
func crd(t *testing.T, versions string) *unstructured.Unstructured {
	t.Helper()
	return object(
		t,
		"{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: things.x.dev}, spec: {group: x.dev, names: {kind: Thing, plural: things}, scope: Namespaced, versions: ["+versions+"]}}",
	)
}

// TestLost: what installing the version before would not take back is told, and nothing else is.
func TestLost(t *testing.T) {
	v := func(name, flags, properties string) string {
		return "{name: " + name + ", " + flags + ", schema: {openAPIV3Schema: {type: object, properties: {" + properties + "}}}}"
	}
	const stored, served, neither = "served: true, storage: true", "served: true, storage: false", "served: false, storage: false"
	const a, ab = "a: {type: string}", "a: {type: string}, b: {type: string}"
	dropped := func(field string) string {
		return "things.x.dev v1: the field " + field + " is dropped from objects as they are written"
	}
	for name, tc := range map[string]struct {
		why, before, after string
		want               []string
	}{
		"Same":      {"nothing is lost", v("v1", stored, ab), v("v1", stored, ab), nil},
		"More":      {"a field more is read by both", v("v1", stored, a), v("v1", stored, ab), nil},
		"Less":      {"a field that is gone is pruned", v("v1", stored, ab), v("v1", stored, a), []string{dropped("b")}},
		"Inner":     {"wherever it is", v("v1", stored, "o: {type: object, properties: {"+ab+"}}"), v("v1", stored, "o: {type: object, properties: {"+a+"}}"), []string{dropped("o.b")}},
		"Items":     {"in lists", v("v1", stored, "l: {type: array, items: {type: object, properties: {"+ab+"}}}"), v("v1", stored, "l: {type: array, items: {type: object, properties: {"+a+"}}}"), []string{dropped("l[].b")}},
		"Maps":      {"in maps", v("v1", stored, "m: {type: object, additionalProperties: {type: object, properties: {"+ab+"}}}"), v("v1", stored, "m: {type: object, additionalProperties: {type: object, properties: {"+a+"}}}"), []string{dropped("m.*.b")}},
		"Becomes":   {"a map keeps what was a field", v("v1", stored, "o: {type: object, properties: {"+ab+"}}"), v("v1", stored, "o: {type: object, additionalProperties: {type: string}}"), nil},
		"Preserved": {"what is not known is kept", v("v1", stored, "o: {type: object, properties: {"+ab+"}}"), v("v1", stored, "o: {type: object, x-kubernetes-preserve-unknown-fields: true}"), nil},
		"Stored": {
			"an older program cannot read it", v("v1", stored, a), v("v1", served, a) + ", " + v("v2", stored, a),
			[]string{"things.x.dev: objects are stored in v2 from now on, which the version before cannot read"},
		},
		"Known":   {"the one before knows the version, too", v("v1", stored, a) + ", " + v("v2", served, a), v("v1", served, a) + ", " + v("v2", stored, a), nil},
		"Gone":    {"clients fail", v("v0", served, a) + ", " + v("v1", stored, a), v("v1", stored, a), []string{"things.x.dev: version v0 is served no more: clients that use it fail"}},
		"Off":     {"as good as gone", v("v0", served, a) + ", " + v("v1", stored, a), v("v0", neither, a) + ", " + v("v1", stored, a), []string{"things.x.dev: version v0 is served no more: clients that use it fail"}},
		"Was off": {"nobody used it", v("v0", neither, a) + ", " + v("v1", stored, a), v("v1", stored, a), nil},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, lost(crd(t, tc.before), crd(t, tc.after))); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.why, diff)
			}
		})
	}
}

// TestDifferences: where two objects differ, and not what the API server notes down.
func TestDifferences(t *testing.T) {
	const base = "{kind: A, metadata: {name: n, resourceVersion: '1', generation: 1, uid: u, creationTimestamp: c, managedFields: [{manager: m}]}, spec: {a: 1, l: [{x: 1}, {x: 2}]}, status: {s: 1}}"
	for name, tc := range map[string]struct {
		why, other string
		want       []string
	}{
		"Noted":   {"the API server's notes are no change", "{kind: A, metadata: {name: n, resourceVersion: '2', generation: 2, managedFields: []}, spec: {a: 1, l: [{x: 1}, {x: 2}]}}", nil},
		"Value":   {"a value", "{kind: A, metadata: {name: n}, spec: {a: 2, l: [{x: 1}, {x: 2}]}}", []string{"spec.a"}},
		"More":    {"what is new", "{kind: A, metadata: {name: n, labels: {l: v}}, spec: {a: 1, l: [{x: 1}, {x: 2}]}}", []string{"metadata.labels"}},
		"Less":    {"what goes", "{kind: A, metadata: {name: n}, spec: {l: [{x: 1}, {x: 2}]}}", []string{"spec.a"}},
		"Element": {"the element of a list", "{kind: A, metadata: {name: n}, spec: {a: 1, l: [{x: 1}, {x: 3}]}}", []string{"spec.l[1].x"}},
		"Longer":  {"a list of another length as a whole", "{kind: A, metadata: {name: n}, spec: {a: 1, l: [{x: 1}]}}", []string{"spec.l"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, differences(object(t, base).Object, object(t, tc.other).Object)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.why, diff)
			}
		})
	}
}
