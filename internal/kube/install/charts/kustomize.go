package charts

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/mlbatch/mlbatch/internal/kube/install"
)

// bases renders what the base is made of.
func bases(v install.Values, version string) ([]install.Stage, error) {
	return install.Render(v, install.Release{Name: install.App, Manager: "kustomize", Version: version})
}

// kustomization is the base, with a file for each stage, and an overlay for each variant: patches
// that make of the objects of the base what values of the variant render. The definitions of kinds are
// a kustomization of their own: who deletes the base must not delete all queues and jobs with it.
func kustomization(version string) (map[string]string, error) {
	v := install.DefaultValues(version)
	stages, err := bases(v, version)
	if err != nil {
		return nil, err
	}
	files := map[string]string{}
	names := map[string][]string{}
	for _, s := range stages {
		into := "base"
		if s.Name == install.DefinitionsStage {
			into = "definitions"
		}
		name := s.Name + ".yaml"
		names[into] = append(names[into], name)
		for _, o := range s.Objects {
			lines, err := plainLines(o)
			if err != nil {
				return nil, err
			}
			files[into+"/"+name] += "---\n" + lines
		}
		files[into+"/"+name] = generated + files[into+"/"+name]
	}
	monitored, err := monitors(version)
	if err != nil {
		return nil, err
	}
	files["monitoring/monitoring.yaml"], names["monitoring"] = generated+monitored, []string{"monitoring.yaml"}
	for into, about := range map[string]string{
		"monitoring": "# What the Prometheus operator and Grafana's sidecar find, after ../base: kubectl apply --server-side -k DIRECTORY\n" +
			"# Their labels go into a kustomization of yours: labels: [{pairs: {release: prometheus}}]\n",
		"definitions": "# The definitions of kinds, which come before the base: kubectl apply --server-side -k DIRECTORY\n" +
			"# To delete them is to delete all queues, quotas and jobs of these kinds: mlbatch uninstall tells which.\n",
		"base": "# kubectl apply --server-side -k DIRECTORY, after ../definitions; set your image by images in a kustomization of yours:\n" +
			"#   images: [{name: localhost/mlbatch, newName: registry.example.com/mlbatch, newTag: v1.2.3}]\n",
	} {
		text, err := written(map[string]any{
			"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": names[into],
			// The order matters: webhooks come last.
			"sortOptions": map[string]any{"order": "fifo"},
		})
		if err != nil {
			return nil, err
		}
		files[into+"/kustomization.yaml"] = generated + about + text
	}
	for name, one := range variants() {
		with := install.DefaultValues(version)
		data, err := yaml.Marshal(one.values)
		if err != nil {
			return nil, fmt.Errorf("write values: %w", err)
		}
		if _, err := with.ReadValues(name, data); err != nil {
			return nil, fmt.Errorf("read values of a variant: %w", err)
		}
		changed, err := bases(with, version)
		if err != nil {
			return nil, err
		}
		patches, err := patchesOf(stages, changed)
		if err != nil {
			return nil, fmt.Errorf("overlay %s: %w", name, err)
		}
		text, err := written(map[string]any{
			"apiVersion":  "kustomize.config.k8s.io/v1beta1",
			"kind":        "Kustomization",
			"resources":   []string{"../../base"},
			"patches":     patches,
			"sortOptions": map[string]any{"order": "fifo"},
		})
		if err != nil {
			return nil, err
		}
		files["overlays/"+name+"/kustomization.yaml"] = generated + "# " + one.about + "\n" + text
	}
	return files, nil
}

// monitors are the objects for Prometheus and Grafana, which a base that has to do without these two leaves out.
func monitors(version string) (string, error) {
	v := install.DefaultValues(version)
	v.Metrics.ServiceMonitor.Enabled, v.Metrics.PrometheusRule.Enabled = true, true
	v.Metrics.Dashboards.Enabled = true
	stages, err := bases(v, version)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, s := range stages {
		if s.Name != install.MonitoringStage {
			continue
		}
		for _, o := range s.Objects {
			text, err := written(o.Object)
			if err != nil {
				return "", err
			}
			b.WriteString("---\n" + text)
		}
	}
	return b.String(), nil
}

func written(v any) (string, error) {
	data, err := yaml.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("write as YAML: %w", err)
	}
	return string(data), nil
}

// plainLines is an object in YAML, schemas of kinds in one line.
func plainLines(o *unstructured.Unstructured) (string, error) {
	content := runtime.DeepCopyJSON(o.Object)
	spec, _ := content["spec"].(map[string]any)
	if o.GetKind() != "CustomResourceDefinition" {
		return written(content)
	}
	one, err := compact(spec["versions"])
	if err != nil {
		return "", err
	}
	spec["versions"] = "versions-"
	text, err := written(content)
	return strings.Replace(text, "versions: versions-", "versions: "+one, 1), err
}

// patchesOf are JSON patches (RFC 6902) that make of one rendering another, and patches that
// take out what the other does not have.
func patchesOf(before, after []install.Stage) ([]map[string]any, error) {
	key := func(o *unstructured.Unstructured) string {
		return o.GetKind() + " " + o.GetNamespace() + "/" + o.GetName()
	}
	was := map[string]*unstructured.Unstructured{}
	for _, s := range before {
		for _, o := range s.Objects {
			was[key(o)] = o
		}
	}
	var out []map[string]any
	for _, s := range after {
		for _, o := range s.Objects {
			b := was[key(o)]
			if b == nil {
				return nil, fmt.Errorf("%s is not in the base", key(o))
			}
			delete(was, key(o))
			var steps []map[string]any
			patch("", b.Object, o.Object, &steps)
			if len(steps) == 0 {
				continue
			}
			text, err := written(steps)
			if err != nil {
				return nil, err
			}
			target := map[string]any{"kind": o.GetKind(), "name": o.GetName()}
			if g := o.GroupVersionKind().Group; g != "" {
				target["group"] = g
			}
			out = append(out, map[string]any{"target": target, "patch": text})
		}
	}
	for _, k := range slices.Sorted(maps.Keys(was)) {
		o := was[k]
		gone := map[string]any{
			"$patch":     "delete",
			"apiVersion": o.GetAPIVersion(),
			"kind":       o.GetKind(),
			"metadata":   map[string]any{"name": o.GetName()},
		}
		if ns := o.GetNamespace(); ns != "" {
			gone["metadata"] = map[string]any{"name": o.GetName(), "namespace": ns}
		}
		text, err := written(gone)
		if err != nil {
			return nil, err
		}
		out = append(out, map[string]any{"patch": text})
	}
	return out, nil
}

// lists are two of which the second is no shorter, so that it can be made of the first from its
// beginning to its end.
func lists(a, b any) (l, m []any, ok bool) {
	l, isL := a.([]any)
	m, isM := b.([]any)
	return l, m, isL && isM && len(l) > 0 && len(l) <= len(m)
}

func patch(at string, a, b any, out *[]map[string]any) {
	x, isX := a.(map[string]any)
	y, isY := b.(map[string]any)
	if l, m, ok := lists(a, b); ok {
		for i := range m {
			if i < len(l) {
				patch(fmt.Sprintf("%s/%d", at, i), l[i], m[i], out)
			} else {
				*out = append(*out, map[string]any{"op": "add", "path": at + "/-", "value": m[i]})
			}
		}
		return
	}
	if !isX || !isY {
		if !reflect.DeepEqual(a, b) {
			*out = append(*out, map[string]any{"op": "replace", "path": at, "value": b})
		}
		return
	}
	var keys []string
	for k := range x {
		keys = append(keys, k)
	}
	for k := range y {
		if _, has := x[k]; !has {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	for _, k := range keys {
		path := at + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(k)
		before, had := x[k]
		after, has := y[k]
		switch {
		case had && has:
			patch(path, before, after, out)
		case had:
			*out = append(*out, map[string]any{"op": "remove", "path": path})
		default:
			*out = append(*out, map[string]any{"op": "add", "path": path, "value": after})
		}
	}
}
