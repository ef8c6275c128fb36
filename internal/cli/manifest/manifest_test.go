package manifest_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
	sigs "sigs.k8s.io/yaml"

	"github.com/mlbatch/mlbatch/examples"
	"github.com/mlbatch/mlbatch/internal/cli/manifest"
)

func titles(docs []manifest.Document) []string {
	var out []string
	for i := range docs {
		out = append(out, fmt.Sprintf("%d %s", docs[i].Node.Line, docs[i].Title()))
	}
	return out
}

// TestRead: what kubectl reads is read, with its lines.
func TestRead(t *testing.T) {
	for name, c := range map[string]struct {
		why, text string
		want      []string
		err       string
	}{
		"One":         {"a document", "apiVersion: v1\nkind: Pod\nmetadata: {name: a}", []string{"1 Pod a"}, ""},
		"Stream":      {"empty documents and comments are none", "# nothing\n---\n---\napiVersion: v1\nkind: Pod\n--- # next\napiVersion: v1\nkind: Service\nmetadata: {generateName: s-}\n", []string{"4 Pod", "7 Service s-"}, ""},
		"Inline":      {"what stands behind the dashes counts", "--- {apiVersion: v1, kind: Pod}\n", []string{"1 Pod"}, ""},
		"Dashes":      {"a block scalar may have dashes", "apiVersion: v1\nkind: ConfigMap\ndata:\n  a: |\n    ---\n    b\n", []string{"1 ConfigMap"}, ""},
		"JSON":        {"with tabs", "{\n\t\"apiVersion\": \"v1\",\n\t\"kind\": \"Pod\"\n}", []string{"1 Pod"}, ""},
		"SeveralJSON": {"one after the other", "{\"apiVersion\": \"v1\", \"kind\": \"Pod\"}\n{\"apiVersion\": \"v1\", \"kind\": \"Service\"}", []string{"1 Pod", "2 Service"}, ""},
		"List":        {"its items", "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Pod\n- {apiVersion: v1, kind: Service}\n", []string{"4 Pod", "6 Service"}, ""},
		"PodList":     {"which say their kind once", "apiVersion: v1\nkind: PodList\nitems:\n- metadata: {name: a}\n", []string{"4 Pod a"}, ""},
		"Windows":     {"line ends of Windows, and a byte order mark", "\ufeffapiVersion: v1\r\nkind: Pod\r\n---\r\napiVersion: v1\r\nkind: Service\r\n", []string{"1 Pod", "4 Service"}, ""},
		"Empty":       {"nothing to do is a mistake", "# nothing\n", nil, "f: has no object in it"},
		"NoKind":      {"not an object", "a: b", nil, "f:1:1: must have an apiVersion and a kind"},
		"Text":        {"not an object", "hello", nil, "f:1:1: must be an object"},
		"Broken":      {"with the line", "apiVersion: v1\n---\nkind: [\n", nil, "f:"},
		"Twice":       {"the last one would win in silence", "apiVersion: v1\nkind: Pod\nkind: Service", nil, "already set"},
		"BrokenItem":  {"which one", "apiVersion: v1\nkind: List\nitems: [{kind: Pod}]", nil, "f:3:9: items[0]: must have an apiVersion"},
	} {
		t.Run(name, func(t *testing.T) {
			docs, err := manifest.Read("f", []byte(c.text))
			if diff := cmp.Diff(c.want, titles(docs)); diff != "" {
				t.Errorf("%s: -want +got\n%s", c.why, diff)
			}
			if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
				t.Errorf("%s: %v, want %q", c.why, err, c.err)
			}
		})
	}
}

// TestAt: fields are where they were written.
func TestAt(t *testing.T) {
	docs, err := manifest.Read(
		"f",
		[]byte(
			"---\napiVersion: v1\nkind: Pod\nmetadata:\n  labels:\n    a/b: c\nspec:\n  containers:\n  - name: x\n    image: y\n",
		),
	)
	if err != nil {
		t.Fatal(err)
	}
	for path, line := range map[string]int{"": 2, "metadata.labels[a/b]": 6, "spec.containers[0].image": 10, "spec.containers[0].args[3]": 9, "spec.nothing": 7} {
		if got := docs[0].At(path); got.Line != line {
			t.Errorf("%s is in line %d, want %d", path, got.Line, line)
		}
	}
}

// wrapped wraps a text, and takes what was wrapped out again.
func wrapped(t interface {
	Helper()
	Fatalf(format string, args ...any)
}, w manifest.Wrapper, text string,
) (out *manifest.Wrapped, in, again []any) {
	t.Helper()
	docs, err := manifest.Read("f", []byte(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	for i := range docs {
		in = append(in, docs[i].Object.Object)
	}
	out, err = w.Wrap(docs)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	read, err := manifest.Read("out", out.Text)
	if err != nil || len(read) != 1 {
		t.Fatalf("%v\n%s", err, out.Text)
	}
	if !reflect.DeepEqual(read[0].Object.Object, out.Object.Object) {
		t.Fatalf("the text is not the object:\n%s", out.Text)
	}
	spec, _ := read[0].Object.Object["spec"].(map[string]any)
	list, _ := spec["components"].([]any)
	for _, c := range list {
		m, _ := c.(map[string]any)
		again = append(again, m["template"])
	}
	return out, in, again
}

// TestWrapKeeps: whatever is put in is found inside, unchanged, block scalars and all.
func TestWrapKeeps(t *testing.T) {
	text := rapid.OneOf(
		rapid.String().Filter(func(s string) bool { return !strings.ContainsFunc(s, unicode.IsControl) }),
		rapid.StringMatching(`( *[a-z#:{-]*\n?){0,6}`),
		rapid.SampledFrom(
			[]string{
				"yes",
				"0x1F",
				"1e3",
				"~",
				"",
				" ",
				"\n\n",
				"a\n\n  b \n",
				"---\nb",
				"\t",
				"# no",
				"a: b",
				"'",
				"\"",
				"012",
				"2001-01-01",
				"0o17",
				".5",
				"null\n",
			},
		),
	)
	rapid.Check(t, func(t *rapid.T) {
		job := map[string]any{
			"apiVersion": "batch/v1",
			"kind":       "Job",
			"metadata":   map[string]any{"name": "a", "annotations": map[string]any{"x": text.Draw(t, "annotation")}},
			"spec": map[string]any{
				"template": map[string]any{
					"spec": map[string]any{
						"containers": []any{map[string]any{"name": "c", "image": "i", "args": []any{text.Draw(t, "arg")}}},
					},
				},
			},
		}
		config := map[string]any{
			"apiVersion": "v1",
			"kind":       "ConfigMap",
			"metadata":   map[string]any{"name": "b"},
			"data":       map[string]any{"k": text.Draw(t, "data"), "n": text.Draw(t, "more")},
		}
		var parts []string
		for i, o := range []map[string]any{job, config} {
			data, err := sigs.Marshal(o)
			if rapid.Bool().Draw(t, fmt.Sprintf("json%d", i)) {
				data, err = json.MarshalIndent(o, "", "\t")
			}
			if err != nil {
				t.Fatal(err)
			}
			parts = append(parts, string(data))
		}
		if strings.HasPrefix(parts[0], "{") != strings.HasPrefix(parts[1], "{") { // JSON within YAML has no tabs
			parts[0], parts[1] = strings.ReplaceAll(parts[0], "\t", " "), strings.ReplaceAll(parts[1], "\t", " ")
		}
		if strings.HasPrefix(parts[0], "{") && !strings.HasPrefix(parts[1], "{") {
			parts[0], parts[1] = parts[1], parts[0]
		}
		_, in, again := wrapped(t, manifest.Wrapper{}, strings.Join(parts, "\n---\n"))
		if diff := cmp.Diff(in, again); diff != "" {
			t.Fatalf("-in +out\n%s", diff)
		}
	})
}

// TestWrapExamples: all examples that can be wrapped are, as they are.
func TestWrapExamples(t *testing.T) {
	files, err := examples.Kinds.ReadDir("kinds")
	if err != nil {
		t.Fatal(err)
	}
	refused := map[string]string{
		"appwrapper": "AppWrapper already",
		"cronjob":    "again and again",
		"trainjob":   "create it by itself, before the AppWrapper",
		"rayservice": "second cluster",
	}
	for _, f := range files {
		name := strings.TrimSuffix(f.Name(), ".yaml")
		data, err := examples.Kinds.ReadFile("kinds/" + f.Name())
		if err != nil {
			t.Fatal(err)
		}
		docs, err := manifest.Read(f.Name(), data)
		if err != nil {
			t.Fatal(err)
		}
		if want := refused[name]; want != "" {
			if _, err := (manifest.Wrapper{}).Wrap(docs); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", name, err, want)
			}
			continue
		}
		_, in, again := wrapped(t, manifest.Wrapper{Name: "w"}, string(data))
		if diff := cmp.Diff(in, again); diff != "" {
			t.Errorf("%s: -in +out\n%s", name, diff)
		}
	}
}

const sampler = "apiVersion: x.io/v1\nkind: Sampler\nmetadata: {name: mine}\nspec:\n  workers:\n    %s\n    template: {spec: {containers: [{name: a, image: b}]}}\n"

// TestWrap: names, queues and pods are found out, or what to say is said.
func TestWrap(t *testing.T) {
	const job = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: a, namespace: blue, labels: {kueue.x-k8s.io/queue-name: q}}\nspec: {template: {spec: {containers: [{name: c, image: i}]}}}\n"
	for name, c := range map[string]struct {
		why, text string
		w         manifest.Wrapper
		want, err string
	}{
		"Found":      {"the objects say it", job, manifest.Wrapper{}, "name: a\n  namespace: blue\n", ""},
		"Queue":      {"and the queue", job, manifest.Wrapper{}, "kueue.x-k8s.io/queue-name: q\n  name", ""},
		"Given":      {"or the command line", strings.ReplaceAll(job, ", namespace: blue, labels: {kueue.x-k8s.io/queue-name: q}", ""), manifest.Wrapper{Name: "nn", Namespace: "red", Queue: "r"}, "kueue.x-k8s.io/queue-name: r\n  name: nn\n  namespace: red\n", ""},
		"First":      {"the name of what runs pods", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: z}\n---\n" + job, manifest.Wrapper{}, "name: a", ""},
		"Namespaces": {"one namespace", job + "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: z, namespace: red}", manifest.Wrapper{}, "", "f:8:21: ConfigMap z: metadata.namespace: an AppWrapper and what is in it are in one namespace: red here, and blue elsewhere"},
		"Queues":     {"one queue", job, manifest.Wrapper{Queue: "r"}, "", "an AppWrapper has one queue: q here, and r elsewhere"},
		"NoPods":     {"there would be nothing to queue", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: z}", manifest.Wrapper{}, "", "at least one component must run pods"},
		"Declared":   {"pods of a kind that is not known", fmt.Sprintf(sampler, "size: 4"), manifest.Wrapper{Declared: []manifest.Declared{{"Sampler", "mine", "template.spec.workers.template", 4}}}, "podSets:\n        - path: template.spec.workers.template\n          replicas: 4", ""},
		"Said":       {"as the object says it", fmt.Sprintf(sampler, "replicas: 3"), manifest.Wrapper{}, "replicas: 3\n      template:", ""},
		"Unknown":    {"how to say it", fmt.Sprintf(sampler, "size: 4"), manifest.Wrapper{}, "", "--pod-set Sampler/mine:PATH=REPLICAS"},
		"NotThere":   {"a declaration of nothing", job, manifest.Wrapper{Declared: []manifest.Declared{{"Sampler", "mine", "template.x", 4}}}, "", "--pod-set Sampler/mine: there is no such object"},
		"DaemonSet":  {"what grows by itself is refused once", "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: d}\nspec: {template: {spec: {containers: [{name: c}]}}}", manifest.Wrapper{}, "", "f:2:1: DaemonSet d: kind: Invalid value: \"DaemonSet\": it makes a pod on every node"},
		"CronJob":    {"what is wrong is said, not what follows", "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: c}", manifest.Wrapper{}, "", "f:2:1: CronJob c: kind: Invalid value"},
		"Name":       {"what the name can be", job, manifest.Wrapper{Name: "A_b"}, "", "give another with --name"},
		"Many":       {"a Workload has eight pod sets", strings.Repeat("---\n"+strings.Replace(job, "name: a,", "generateName: a-,", 1), 9), manifest.Wrapper{}, "", "must have at most 8 items"},
		"Comments":   {"stay", "# why\n" + job, manifest.Wrapper{}, "# why", ""},
	} {
		t.Run(name, func(t *testing.T) {
			docs, err := manifest.Read("f", []byte(c.text))
			if err != nil {
				t.Fatal(err)
			}
			out, err := c.w.Wrap(docs)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) || strings.Count(err.Error(), "\n") > 8 {
					t.Errorf("%s: %v, want %q", c.why, err, c.err)
				}
				return
			}
			if err != nil || !strings.Contains(string(out.Text), c.want) {
				t.Errorf("%s: %v\n%s, want %q", c.why, err, out.Text, c.want)
			}
		})
	}
}

// TestParseDeclared: what may be typed.
func TestParseDeclared(t *testing.T) {
	got, err := manifest.ParseDeclared("Sampler/mine:spec.workers[0].template=4")
	if err != nil ||
		got != (manifest.Declared{Kind: "Sampler", Name: "mine", Path: "template.spec.workers[0].template", Replicas: 4}) {
		t.Error(got, err)
	}
	for _, text := range []string{"", "a", "a/b:c", "a/b:c=x", "a/b:c=99999999999"} {
		if _, err := manifest.ParseDeclared(text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

// FuzzRead: whatever a file has is read or refused, and what is read can be asked and wrapped.
func FuzzRead(f *testing.F) {
	for _, text := range []string{"apiVersion: v1\nkind: Pod", "{\"apiVersion\": \"v1\", \"kind\": \"Pod\"}", "--- a\n---", "a: &a [*a]", "kind: List\napiVersion: v1\nitems: [*a]", fmt.Sprintf(sampler, "replicas: 3")} {
		f.Add(text)
	}
	f.Fuzz(func(_ *testing.T, text string) {
		docs, err := manifest.Read("f", []byte(text))
		if err != nil {
			return
		}
		for i := range docs {
			docs[i].At("spec.template.spec.containers[0]")
			docs[i].Below("spec", "components", 0, "template")
		}
		_, _ = manifest.Wrapper{}.Wrap(docs)
	})
}
