package webhook_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	"pgregory.net/rapid"

	"github.com/mlbatch/mlbatch/api/kueue/v1beta1"
	"github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/config/crdtest"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/kinds"
	"github.com/mlbatch/mlbatch/internal/kube/webhook"
)

// store is one Workload in an API server: what is written to it is pruned,
// defaulted, judged by the schema of the version in which it is written and by
// the webhook that asks what an admission was decided on, and stored as v1beta2.
type store struct {
	t        *testing.T
	schemas  map[string]crdtest.Schema
	kept     matchconditions.Matcher
	handlers map[string]http.Handler
	stored   map[string]any
}

func newStore(t *testing.T) *store {
	t.Helper()
	s := &store{t: t, handlers: serve(t, nil), schemas: map[string]crdtest.Schema{}}
	for _, v := range []string{"v1beta1", "v1beta2"} {
		s.schemas[v] = crdtest.Of(t, "workloads.kueue.x-k8s.io", v)
	}
	_, validating := webhook.Configurations(
		kinds.All(),
		webhook.AtURL("https://127.0.0.1:1", nil),
		jobs.SchedulerNames(),
	)
	for i := range validating.Webhooks {
		if validating.Webhooks[i].Name == "vworkloadkept.mlbatch.dev" {
			s.kept = matcher(&validating.Webhooks[i])
		}
	}
	return s
}

// holds makes an object that was written in a version the stored one.
func (s *store) holds(version string, o map[string]any) {
	s.t.Helper()
	s.stored = o
	if version == "v1beta1" {
		hub, spoke := &v1beta2.Workload{}, &v1beta1.Workload{}
		decode(s.t, o, spoke)
		if err := spoke.ConvertTo(hub); err != nil {
			s.t.Fatal(err)
		}
		hub.APIVersion, hub.Kind = "kueue.x-k8s.io/v1beta2", "Workload"
		s.stored = encode(s.t, hub)
	}
}

// read is what a client of a version gets.
func (s *store) read(version string) map[string]any {
	if version == "v1beta2" {
		return runtime.DeepCopyJSON(s.stored)
	}
	hub, spoke := &v1beta2.Workload{}, &v1beta1.Workload{}
	decode(s.t, s.stored, hub)
	if err := spoke.ConvertFrom(hub); err != nil {
		s.t.Fatal(err)
	}
	spoke.APIVersion, spoke.Kind = "kueue.x-k8s.io/v1beta1", "Workload"
	return encode(s.t, spoke)
}

// write replaces the spec or the status and returns the complaints.
func (s *store) write(version, part string, o map[string]any) string {
	s.t.Helper()
	old, is := s.read(version), s.read(version)
	if o[part] == nil {
		delete(is, part)
	} else {
		is[part] = o[part]
	}
	if part == "spec" {
		is["metadata"] = o["metadata"]
	}
	is = s.schemas[version].Parse(s.t, string(text(s.t, is)))
	old = s.schemas[version].Parse(s.t, string(text(s.t, old)))
	if complaint := s.schemas[version].Validate(s.t, is, old); complaint != "" {
		return complaint
	}
	a, b := string(text(s.t, is)), string(text(s.t, old))
	subresource := ""
	if part == "status" {
		subresource = part
	}
	if matches(s.t, s.kept, written(s.t, subresource, "controller", webhook.FieldOwner, a, b)) {
		if r := send(
			s.t,
			s.handlers,
			ask{path: "/validate-kueue-x-k8s-io-v1beta2-workload-kept", new: a, old: b},
		); !r.Allowed {
			return r.Message
		}
	}
	s.holds(version, is)
	return ""
}

func text(t *testing.T, o any) []byte {
	t.Helper()
	data, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func decode(t *testing.T, o, into any) {
	t.Helper()
	if err := json.Unmarshal(text(t, o), into); err != nil {
		t.Fatal(err)
	}
}

func encode(t *testing.T, o any) map[string]any {
	t.Helper()
	var out map[string]any
	decode(t, o, &out)
	return out
}

// spellings of the same amounts of a resource.
var spellings = map[string][][]any{
	"cpu": {
		{"1", "1000m", int64(1), "1.0", "1e0"},
		{"500m", "0.5", ".5"},
		{"1500m", "1.5"},
		{"1k", "1000", "1e3", int64(1000)},
		{"0", int64(0), "0m"},
	},
	"memory": {
		{"1G", "1000M", "1e9", "1000000000"},
		{"1Gi", "1024Mi", "1073741824"},
		{"1.5Gi", "1536Mi"},
		{"220M", "220000000", "220e6"},
		{"1000", "1k", "1000000m"},
		{"0.5", "500m"},
	},
	"nvidia.com/gpu": {{"8", int64(8), "8.0", "8000m"}},
}

// respell writes all quantities of a list in any other way.
func respell(t *rapid.T, list map[string]any) map[string]any {
	out := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(list)) {
		out[name] = list[name]
		for _, same := range spellings[name] {
			if slices.Contains(same, list[name]) {
				out[name] = rapid.SampledFrom(same).Draw(t, "spelling")
			}
		}
	}
	return out
}

// asks draws requests.
func asks(t *rapid.T) map[string]any {
	out := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(spellings)) {
		if rapid.Bool().Draw(t, name) {
			out[name] = rapid.SampledFrom(rapid.SampledFrom(spellings[name]).Draw(t, "amount")).Draw(t, "spelling")
		}
	}
	return out
}

// manifest of a Workload; its quantities are spelled anew each time.
type manifest struct {
	version                             string
	requests, limits, overhead, pod, at map[string]any
}

func (m *manifest) object(t *rapid.T) map[string]any {
	container := map[string]any{
		"name":      "c",
		"future":    []any{int64(1)},
		"resources": map[string]any{"requests": respell(t, m.requests), "limits": respell(t, m.limits)},
	}
	pod := map[string]any{
		"containers": []any{
			container,
		},
		"overhead":  respell(t, m.overhead),
		"resources": map[string]any{"requests": respell(t, m.pod)},
		"volumes": []any{
			map[string]any{
				"name":     "v",
				"emptyDir": map[string]any{"sizeLimit": respell(t, map[string]any{"memory": m.at["memory"]})["memory"]},
			},
		},
	}
	template := map[string]any{"spec": pod}
	metadata := map[string]any{"name": "w", "namespace": "blue"}
	spec := map[string]any{
		"queueName": "q",
		"podSets":   []any{map[string]any{"name": "main", "count": int64(3), "template": template}},
	}
	if rapid.Bool().Draw(t, "empties") {
		template["metadata"] = map[string]any{"creationTimestamp": nil, "labels": map[string]any{}}
		container["env"], container["command"], container["stdin"] = []any{}, nil, false
		pod["hostNetwork"], pod["nodeSelector"] = false, map[string]any{}
		if m.version == "v1beta1" {
			spec["priorityClassSource"] = ""
		}
	}
	return map[string]any{
		"apiVersion": "kueue.x-k8s.io/" + m.version,
		"kind":       "Workload",
		"metadata":   metadata,
		"spec":       spec,
	}
}

// typed is what a typed client of a version writes of what it read.
func (s *store) typed(version string) map[string]any {
	if version == "v1beta1" {
		w := &v1beta1.Workload{}
		decode(s.t, s.read(version), w)
		return encode(s.t, w)
	}
	w := &v1beta2.Workload{}
	decode(s.t, s.read(version), w)
	return encode(s.t, w)
}

// overlay merges b over a, as applying does.
func overlay(a, b map[string]any) map[string]any {
	out := maps.Clone(a)
	for k, v := range b {
		x, ok := out[k].(map[string]any)
		if y, also := v.(map[string]any); ok && also {
			v = overlay(x, y)
		}
		out[k] = v
	}
	return out
}

// someoneWrites lets any client write what is there, in its own words.
func (s *store) someoneWrites(t *rapid.T, m *manifest) {
	version := rapid.SampledFrom([]string{"v1beta1", "v1beta2"}).Draw(t, "version")
	part := rapid.SampledFrom([]string{"spec", "status"}).Draw(t, "part")
	var o map[string]any
	switch how := rapid.SampledFrom([]string{"update", "patch", "replace", "apply"}).Draw(t, "how"); {
	case how == "update":
		o = s.typed(version)
	case how == "patch" || part == "status":
		o = s.read(version)
		o["metadata"].(map[string]any)["labels"] = map[string]any{
			"a": rapid.SampledFrom([]string{"b", "c"}).Draw(t, "label"),
		}
		respellUsage(t, o)
	default:
		m := *m
		m.version = version
		o = m.object(t)
		if how == "apply" {
			o = overlay(s.read(version), o)
		}
		o["metadata"] = s.read(version)["metadata"]
	}
	if version == "v1beta1" {
		forget(s.stored) // as reading in that version does
	}
	keepFuture(s.stored, o)
	if complaint := s.write(version, part, o); complaint != "" {
		t.Fatalf(
			"the %s is written in %s as\n%s\nover\n%s:\n%s",
			part,
			version,
			text(s.t, o[part]),
			text(s.t, s.stored[part]),
			complaint,
		)
	}
}

// forget removes the field that no type knows: a conversion loses it.
func forget(o map[string]any) { delete(containerOf(o), "future") }

// keepFuture gives a typed client's object the field that its type does not
// know: losing it would be a change.
func keepFuture(from, to map[string]any) {
	if v := containerOf(from)["future"]; v != nil {
		containerOf(to)["future"] = v
	} else {
		delete(containerOf(to), "future")
	}
}

func containerOf(o map[string]any) map[string]any {
	set := o["spec"].(map[string]any)["podSets"].([]any)[0].(map[string]any)
	return set["template"].(map[string]any)["spec"].(map[string]any)["containers"].([]any)[0].(map[string]any)
}

func respellUsage(t *rapid.T, o map[string]any) {
	status, _ := o["status"].(map[string]any)
	admission, _ := status["admission"].(map[string]any)
	sets, _ := admission["podSetAssignments"].([]any)
	for _, a := range sets {
		a := a.(map[string]any)
		if usage, ok := a["resourceUsage"].(map[string]any); ok {
			for name, q := range usage {
				q := resource.MustParse(q.(string))
				usage[name] = rapid.SampledFrom([]string{q.String(), q.AsDec().String()}).Draw(t, "usage")
			}
		}
	}
	checks, _ := status["admissionChecks"].([]any)
	for _, c := range checks {
		updates, _ := c.(map[string]any)["podSetUpdates"].([]any)
		for _, u := range updates {
			u := u.(map[string]any)
			if rapid.Bool().Draw(t, "empty updates") {
				u["labels"], u["nodeSelector"], u["tolerations"] = map[string]any{}, map[string]any{}, []any{}
			}
		}
	}
}

// ours lets a controller write a status.
func (s *store) ours(t *rapid.T, change func(*v1beta2.Workload)) {
	w := &v1beta2.Workload{}
	decode(s.t, s.stored, w)
	change(w)
	if complaint := s.write("v1beta2", "status", encode(s.t, w)); complaint != "" {
		t.Fatalf(
			"a controller writes status %s\nover\n%s:\n%s",
			text(s.t, w.Status),
			text(s.t, s.stored["status"]),
			complaint,
		)
	}
}

func is(w *v1beta2.Workload, kind string, yes bool) { //nolint:revive // the status
	status := metav1.ConditionFalse
	if yes {
		status = metav1.ConditionTrue
	}
	w.Status.Conditions = append(
		slices.DeleteFunc(w.Status.Conditions, func(c metav1.Condition) bool { return c.Type == kind }),
		metav1.Condition{Type: kind, Status: status, Reason: kind, LastTransitionTime: metav1.Unix(1, 0)},
	)
}

// admitted is what the engine gives a Workload.
func admitted(w *v1beta2.Workload) *v1beta2.Admission {
	each := convert.PodRequests(&w.Spec.PodSets[0].Template.Spec)
	return convert.StatusAdmission(
		core.Admission{
			Queue:   "cq",
			PodSets: []core.PodSetAdmission{{Name: "main", Count: 3, Usage: each.Times(3)}},
		},
	)
}

// TestWholeLife: whatever quantities a Workload has and however they and
// what is empty are written, in whatever version and by whatever client, it can
// go through its whole life; and its pods change under no reservation.
func TestWholeLife(t *testing.T) {
	s := newStore(t)
	rapid.Check(t, func(rt *rapid.T) {
		m := &manifest{
			version: rapid.SampledFrom([]string{"v1beta1", "v1beta2"}).Draw(rt, "created in"),
			requests: asks(
				rt,
			),
			limits:   asks(rt),
			overhead: asks(rt),
			pod:      asks(rt),
			at:       map[string]any{"memory": "1G"},
		}
		o := s.schemas[m.version].Parse(t, string(text(t, m.object(rt))))
		if complaint := s.schemas[m.version].Validate(t, o, nil); complaint != "" {
			rt.Fatal(complaint)
		}
		s.holds(m.version, o)
		for range 2 { // evicted and admitted once more
			s.someoneWrites(rt, m)
			s.ours(rt, func(w *v1beta2.Workload) {
				is(w, v1beta2.WorkloadQuotaReserved, true)
				w.Status.Admission = admitted(w)
				w.Status.AdmissionChecks = []v1beta2.AdmissionCheckState{
					{Name: "a", State: v1beta2.CheckStatePending, LastTransitionTime: metav1.Unix(1, 0)},
				}
			})
			s.someoneWrites(rt, m)
			s.ours(rt, func(w *v1beta2.Workload) {
				w.Status.AdmissionChecks[0].State = v1beta2.CheckStateReady
				w.Status.AdmissionChecks[0].PodSetUpdates = []v1beta2.PodSetUpdate{
					{Name: "main", Annotations: map[string]string{"a": "b"}},
				}
			})
			s.someoneWrites(rt, m)
			s.ours(rt, func(w *v1beta2.Workload) { is(w, v1beta2.WorkloadAdmitted, true) })
			s.refuses(rt)
			s.someoneWrites(rt, m)
			s.ours(rt, func(w *v1beta2.Workload) { is(w, v1beta2.WorkloadEvicted, true) })
			s.someoneWrites(rt, m)
			s.ours(rt, func(w *v1beta2.Workload) {
				w.Status.Admission, w.Status.AdmissionChecks = nil, nil
				is(w, v1beta2.WorkloadQuotaReserved, false)
				is(w, v1beta2.WorkloadAdmitted, false)
			})
		}
		s.someoneWrites(rt, m)
		s.ours(rt, func(w *v1beta2.Workload) { is(w, v1beta2.WorkloadFinished, true) })
	})
}

// refuses tries changes of what the admission was decided on.
func (s *store) refuses(t *rapid.T) {
	for what, change := range map[string]func(*v1beta2.Workload){
		"a larger request": func(w *v1beta2.Workload) {
			w.Spec.PodSets[0].Template.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse("7")}
		},
		"another image": func(w *v1beta2.Workload) { w.Spec.PodSets[0].Template.Spec.Containers[0].Image = "1000m" },
		"other usage": func(w *v1beta2.Workload) {
			w.Status.Admission.PodSetAssignments[0].ResourceUsage = corev1.ResourceList{"cpu": resource.MustParse("7")}
		},
		"other labels": func(w *v1beta2.Workload) {
			w.Status.AdmissionChecks[0].PodSetUpdates[0].Labels = map[string]string{"c": "d"}
		},
	} {
		w := &v1beta2.Workload{}
		decode(s.t, s.stored, w)
		change(w)
		o, part := encode(s.t, w), "status"
		keepFuture(s.stored, o)
		if strings.Contains(what, "request") || strings.Contains(what, "image") {
			part = "spec"
		}
		if complaint := s.write("v1beta2", part, o); !strings.Contains(complaint, "cannot be changed") {
			t.Fatalf("%s under an admission: %q", what, complaint)
		}
	}
}
