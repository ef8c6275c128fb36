package charts

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/mlbatch/mlbatch/internal/kube/install"
)

// chartVersion is the chart's own version.
const chartVersion = "0.1.0"

// marks are texts in what is rendered that expressions take the place of.
const (
	namespaceMark = "mark-namespace"
	fullnameMark  = "mark-fullname"
	instanceMark  = "mark-instance"
	managerMark   = "mark-manager"
	chartMark     = "mark-chart"
	versionMark   = "mark-version"
	imageMark     = "mark-image:mark"
	namesMark     = "mark-names"
	givenMark     = "mark-scheduler-name"
	toolsMark     = "mark-tools"
	pullMark      = "mark-pull"
	kernelDir     = "/mark-kernel-dir"
	kernelFile    = "mark-kernel-file"
)

// texts are the marks within texts, and what they become.
func texts() [][2]string {
	return [][2]string{
		{namespaceMark, ".Release.Namespace"},
		{fullnameMark, `include "mlbatch.fullname" .`},
		{instanceMark, ".Release.Name"},
		{managerMark, ".Release.Service"},
		{chartMark, `include "mlbatch.chart" .`},
		{versionMark, `include "mlbatch.version" .`},
		{imageMark, `include "mlbatch.image" .`},
		{namesMark, `join "," .Values.scheduler.names`},
		{givenMark, ".Values.controller.schedulerName"},
		{toolsMark, ".Values.agent.toolsImage"},
		{pullMark, ".Values.image.pullPolicy"},
		{kernelDir, "dir .Values.agent.kernelLog"},
		{kernelFile, "base .Values.agent.kernelLog"},
	}
}

// marked are values with marks, and everything on that can be.
func marked() install.Values {
	v := install.DefaultValues("mark")
	v.FullnameOverride = fullnameMark
	v.Image = install.Image{Repository: "mark-image", Tag: "mark", PullPolicy: pullMark}
	v.Controller.SchedulerName = givenMark
	v.Scheduler.Names = []string{namesMark}
	v.Agent.Enabled = true
	v.NetworkPolicy.Nodes = []string{"192.0.2.0/24"}
	v.NetworkPolicy.Metrics = []networkingv1.NetworkPolicyPeer{{}}
	v.Metrics.ServiceMonitor.Enabled = true
	v.Metrics.Readers = []rbacv1.Subject{{Name: "mark"}}
	return v
}

// switches are the values that change more than the text at one place.
func switches() []change {
	return []change{
		{".Values.certManager.enabled", func(v *install.Values) { v.CertManager.Enabled = true }},
		{"not .Values.visibility.enabled", func(v *install.Values) { v.Visibility.Enabled = false }},
		{"not .Values.scheduler.enabled", func(v *install.Values) { v.Scheduler.Enabled = false }},
		{".Values.agent.toolsImage", func(v *install.Values) { v.Agent.ToolsImage = toolsMark }},
		{".Values.agent.kernelLog", func(v *install.Values) { v.Agent.KernelLog = kernelDir + "/" + kernelFile }},
		{
			`has "pvc" ((fromYaml .Values.agent.config).checks | default list)`,
			func(v *install.Values) { v.Agent.Config = "checks: [pvc]\n" },
		},
		{".Values.agent.writeLabel", func(v *install.Values) { v.Agent.WriteLabel = true }},
		{`eq .Values.platform "openshift"`, func(v *install.Values) { v.Platform = install.OpenShift }},
	}
}

// change is a condition, and what is so under it.
type change struct {
	when string
	set  func(*install.Values)
}

// hole is a place in an object where an expression goes.
type hole struct {
	kind string
	name string // the end of it
	path []any
	// block is what takes the place of the line, given its indent and its key.
	block func(indent, key string) string
}

// scalar is a value in a line.
func scalar(expression string) func(string, string) string {
	return func(indent, key string) string { return indent + key + ": {{ " + expression + " }}\n" }
}

// optional is a value that is left out when it is empty.
func optional(value string) func(string, string) string {
	return func(indent, key string) string {
		return "{{- with " + value + " }}\n" + indent + key + ":\n" + indent + "  {{- toYaml . | nindent " + strconv.Itoa(
			len(indent)+2,
		) + " }}\n{{- end }}\n"
	}
}

// orElse is a value that is another one when it is empty.
func orElse(value string, other any) func(string, string) string {
	return func(indent, key string) string {
		text, err := yaml.Marshal(other)
		if err != nil {
			panic(err) // it is a type of the API
		}
		inside := indent + "  "
		return "{{- with " + value + " }}\n" + indent + key + ":\n" + inside + "{{- toYaml . | nindent " + strconv.Itoa(
			len(inside),
		) + " }}\n" +
			"{{- else }}\n" + indent + key + ":\n" + inside + strings.ReplaceAll(
			strings.TrimSpace(string(text)),
			"\n",
			"\n"+inside,
		) + "\n{{- end }}\n"
	}
}

// more is further entries of a set or list.
func more(value string) func(string, string) string {
	return func(indent, _ string) string {
		return "{{- with " + value + " }}\n" + indent + "{{- toYaml . | nindent " + strconv.Itoa(
			len(indent),
		) + " }}\n{{- end }}\n"
	}
}

// blocks are ranges of addresses.
func blocks(value string) func(string, string) string {
	return func(indent, _ string) string {
		return "{{- with " + value + " }}\n" + indent + "from:\n{{- range . }}\n" + indent + "- ipBlock:\n" + indent + "    cidr: {{ . | quote }}\n{{- end }}\n{{- end }}\n"
	}
}

func line(text string) func(string, string) string {
	return func(string, string) string { return text + "\n" }
}

// opened begins a rule that is there if somebody is let in, and ended ends it.
func opened(value, peers string) func(string, string) string {
	return func(indent, key string) string {
		return "{{- with " + value + " }}\n" + strings.TrimSuffix(indent, "  ") + "- " + key + ":\n" + peers + "\n"
	}
}

const (
	anyPeer   = "    {{- toYaml . | nindent 4 }}"
	blockPeer = "    {{- range . }}\n    - ipBlock:\n        cidr: {{ . | quote }}\n    {{- end }}"
)

func holes() []hole {
	var out []hole
	pod := []any{"spec", "template", "spec"}
	at := func(more ...any) []any { return append(append([]any{}, pod...), more...) }
	for _, program := range []string{install.ControllerComponent, install.SchedulerComponent} {
		add := func(path []any, block func(string, string) string) {
			out = append(out, hole{"Deployment", "-" + program, path, block})
		}
		values := ".Values." + program
		add([]any{"spec", "replicas"}, scalar(values+".replicas"))
		add(at("imagePullSecrets"), optional(".Values.imagePullSecrets"))
		add(at("nodeSelector"), optional(".Values.nodeSelector"))
		add(at("tolerations"), optional(".Values.tolerations"))
		add(at("affinity"), orElse(".Values.affinity", install.Apart(program)))
		add(at("priorityClassName"), func(indent, key string) string {
			return "{{- with .Values.priorityClassName }}\n" + indent + key + ": {{ . | quote }}\n{{- end }}\n"
		})
		add(at("containers", 0, "imagePullPolicy"), scalar(".Values.image.pullPolicy"))
		add(at("containers", 0, "resources"), func(indent, key string) string {
			// It is there in any case, as in the type.
			return indent + key + ":\n" + indent + "  {{- toYaml " + values + ".resources | nindent " + strconv.Itoa(
				len(indent)+2,
			) + " }}\n"
		})
		add(at("containers", 0, "args", "+"), more(values+".extraArgs"))
	}
	for _, h := range []hole{
		{"", "", at("imagePullSecrets"), optional(".Values.imagePullSecrets")},
		{"", "", at("nodeSelector"), optional(".Values.agent.nodeSelector")},
		{"", "", at("tolerations"), optional(".Values.agent.tolerations")},
		{"", "", at("runtimeClassName"), func(indent, key string) string {
			return "{{- with .Values.agent.runtimeClassName }}\n" + indent + key + ": {{ . | quote }}\n{{- end }}\n"
		}},
		{"", "", at("containers", 0, "imagePullPolicy"), scalar(".Values.image.pullPolicy")},
		{"", "", at("containers", 0, "resources"), func(indent, key string) string {
			return indent + key + ":\n" + indent + "  {{- toYaml .Values.agent.resources | nindent " +
				strconv.Itoa(len(indent)+2) + " }}\n"
		}},
		{"", "", at("containers", 0, "args", "+"), more(".Values.agent.extraArgs")},
		{
			"", "",
			[]any{"spec", "template", "metadata", "annotations", install.ConfigHash},
			scalar(".Values.agent.config | sha256sum"),
		},
	} {
		out = append(out, hole{"DaemonSet", "-agent", h.path, h.block})
	}
	out = append(
		out,
		hole{"ConfigMap", "-agent", []any{"data", "agent.yaml"}, scalar(".Values.agent.config | toJson")},
	)
	add := func(kind, name string, block func(string, string) string, path ...any) {
		out = append(out, hole{kind, name, path, block})
	}
	add("Deployment", "-controller", func(indent, _ string) string {
		return "{{- with .Values.controller.kinds }}\n" + indent + "- --kinds={{ include \"mlbatch.kinds\" . }}\n{{- end }}\n"
	}, at("containers", 0, "args", "+--scheduler-name")...)
	add(
		"Deployment",
		"-controller",
		scalar(".Values.controller.config | sha256sum"),
		"spec",
		"template",
		"metadata",
		"annotations",
		install.ConfigHash,
	)
	add("ConfigMap", "-controller", scalar(".Values.controller.config | toJson"), "data", "controller.yaml")
	add("ClusterRoleBinding", "-metrics-readers", optional(".Values.metrics.readers"), "subjects")
	add("ServiceMonitor", "", more(".Values.metrics.serviceMonitor.labels"), "metadata", "labels", "zz")
	add("NetworkPolicy", "-controller", blocks(".Values.networkPolicy.apiServer"), "spec", "ingress", 0, "zz")
	for _, rule := range []struct {
		name         string
		at           int
		value, peers string
	}{
		{"-controller", 1, ".Values.networkPolicy.metrics", anyPeer},
		{"-controller", 2, ".Values.networkPolicy.nodes", blockPeer},
		{"-scheduler", 0, ".Values.networkPolicy.metrics", anyPeer},
		{"-scheduler", 1, ".Values.networkPolicy.nodes", blockPeer},
		{"-agent", 1, ".Values.networkPolicy.nodes", blockPeer},
	} {
		add("NetworkPolicy", rule.name, opened(rule.value, rule.peers), "spec", "ingress", rule.at, "from")
		add("NetworkPolicy", rule.name, line("{{- end }}"), "spec", "ingress", rule.at, "zz")
	}
	return out
}

// conditionOf says when an object is part of the chart, by its kind and the end of its name.
func conditionOf(o *unstructured.Unstructured) string {
	component := o.GetName()[strings.LastIndex(o.GetName(), "-")+1:]
	if component == install.AgentComponent || strings.HasPrefix(o.GetName(), install.Agent) {
		const enabled = ".Values.agent.enabled"
		if o.GetKind() == "NetworkPolicy" {
			return both(".Values.networkPolicy.enabled", enabled)
		}
		return enabled
	}
	switch o.GetKind() {
	case "CustomResourceDefinition":
		kind := install.KindOf(o.GetName())
		return fmt.Sprintf(
			`and .Values.crds.enabled (not (has (get .Values.controller.kinds %q) (list "queue" "ignore")))`,
			kind,
		)
	case "PodDisruptionBudget":
		return "and .Values.podDisruptionBudget.enabled (gt (int .Values." + component + ".replicas) 1)"
	case "NetworkPolicy":
		return ".Values.networkPolicy.enabled"
	case "ServiceMonitor":
		return ".Values.metrics.serviceMonitor.enabled"
	case "ClusterRoleBinding":
		if strings.HasSuffix(o.GetName(), "-metrics-readers") {
			return ".Values.metrics.readers"
		}
	}
	return ""
}

// piece is an object as lines.
type piece struct {
	stage, condition string
	lines            []string
}

// render renders values into pieces, by kind and name, with marks at all holes.
func render(v install.Values) (ids []string, pieces map[string]*piece, err error) {
	stages, err := install.Render(v, install.Release{
		Namespace: namespaceMark, Name: instanceMark, Manager: managerMark, Chart: chartMark, Version: versionMark,
	})
	if err != nil {
		return nil, nil, err
	}
	pieces = map[string]*piece{}
	for _, s := range stages {
		if s.Name == install.NamespaceStage {
			continue // Helm makes it, or is given one
		}
		for _, o := range s.Objects {
			lines, err := linesOf(o)
			if err != nil {
				return nil, nil, fmt.Errorf("write %s %s: %w", o.GetKind(), o.GetName(), err)
			}
			id := o.GetKind() + " " + o.GetName()
			if o.GetNamespace() != "" {
				id += " " + o.GetNamespace()
			}
			ids = append(ids, id)
			pieces[id] = &piece{s.Name, conditionOf(o), lines}
		}
	}
	return ids, pieces, nil
}

// linesOf is an object in YAML, with marks at its holes. Schemas of kinds are written in one line:
// Helm keeps all of a release in a Secret, which has room for 1 MiB.
func linesOf(o *unstructured.Unstructured) ([]string, error) {
	content := runtime.DeepCopyJSON(o.Object)
	for i, h := range holes() {
		if o.GetKind() == h.kind && strings.HasSuffix(o.GetName(), h.name) {
			if err := dig(content, h.path, fmt.Sprintf("hole-%d-", i)); err != nil {
				return nil, err
			}
		}
	}
	var versions []any
	if o.GetKind() == "CustomResourceDefinition" {
		spec, _ := content["spec"].(map[string]any)
		versions, _ = spec["versions"].([]any)
		spec["versions"] = "versions-"
	}
	data, err := yaml.Marshal(content)
	if err != nil {
		return nil, fmt.Errorf("write as YAML: %w", err)
	}
	text := string(data)
	if versions != nil {
		one, err := compact(versions)
		if err != nil {
			return nil, err
		}
		text = strings.Replace(text, "versions: versions-", "versions: "+one, 1)
	}
	return strings.SplitAfter(strings.TrimSuffix(text, "\n"), "\n"), nil
}

// compact is JSON in one line, without escapes that YAML needs not.
func compact(v any) (string, error) {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return "", fmt.Errorf("write as JSON: %w", err)
	}
	return strings.TrimSpace(b.String()), nil
}

// dig puts a mark into a tree. "+" is a new last entry of a list, "+TEXT" one after that which
// begins with the text.
func dig(tree any, path []any, mark string) error {
	for i, step := range path {
		last := i == len(path)-1
		switch at := tree.(type) {
		case map[string]any:
			key, _ := step.(string)
			if after, is := strings.CutPrefix(lastString(path), "+"); is && i == len(path)-2 {
				list, _ := at[key].([]any)
				where := len(list)
				for j, entry := range list {
					if text, _ := entry.(string); after != "" && strings.HasPrefix(text, after) {
						where = j + 1
					}
				}
				at[key] = append(append(append([]any{}, list[:where]...), mark), list[where:]...)
				return nil
			}
			if last {
				at[key] = mark
				return nil
			}
			tree = at[key]
		case []any:
			n, _ := step.(int)
			if n >= len(at) {
				return fmt.Errorf("there is no %v", path[:i+1])
			}
			tree = at[n]
		default:
			return fmt.Errorf("there is no %v", path[:i+1])
		}
	}
	return nil
}

func lastString(path []any) string {
	s, _ := path[len(path)-1].(string)
	return s
}

var (
	holeLine = regexp.MustCompile(`^( *)(- )?(?:([^ :]+): )?hole-(\d+)-\n?$`)
	wholly   = regexp.MustCompile(`^( *(?:- )?[^ ]+: )(mark-[a-z-]+)\n?$`)
)

// filled are lines with expressions instead of marks.
func filled(lines []string) string {
	var b strings.Builder
	all := holes()
	for _, l := range lines {
		if !strings.HasSuffix(l, "\n") {
			l += "\n"
		}
		if strings.HasPrefix(l, "{{-") {
			b.WriteString(l)
			continue
		}
		l = strings.ReplaceAll(l, "{{", `{{ "{{" }}`)
		if m := holeLine.FindStringSubmatch(l); m != nil {
			n, _ := strconv.Atoi(m[4]) // digits
			indent := m[1]
			if m[2] != "" && m[3] != "" {
				indent += "  "
			}
			b.WriteString(all[n].block(indent, m[3]))
			continue
		}
		if m := wholly.FindStringSubmatch(l); m != nil {
			for _, t := range texts() {
				if m[2] == t[0] {
					l = m[1] + "{{ " + t[1] + " | quote }}\n"
				}
			}
		}
		for _, t := range texts() {
			l = strings.ReplaceAll(l, t[0], "{{ "+t[1]+" }}")
		}
		b.WriteString(l)
	}
	return b.String()
}

// chart is all files of the chart.
func chart(version string) (map[string]string, error) {
	files, err := chartFrame(version)
	if err != nil {
		return nil, err
	}
	ids, base, err := render(marked())
	if err != nil {
		return nil, err
	}
	edits, always := map[string][]edit{}, slices.Clone(ids)
	for _, s := range switches() {
		v := marked()
		s.set(&v)
		changedIDs, changed, err := render(v)
		if err != nil {
			return nil, err
		}
		for _, id := range always {
			if changed[id] == nil {
				base[id].condition = both(base[id].condition, unless(s.when))
				continue
			}
			edits[id] = append(edits[id], between(base[id].lines, changed[id].lines, s.when)...)
		}
		for _, id := range changedIDs {
			if base[id] == nil {
				base[id] = changed[id]
				base[id].condition = both(base[id].condition, s.when)
				ids = append(ids, id)
			}
		}
	}
	for _, id := range ids {
		p := base[id]
		lines, err := edited(p.lines, edits[id])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", id, err)
		}
		text := filled(lines)
		if p.stage == install.DefinitionsStage {
			text = strings.Replace(
				text,
				"  annotations:\n",
				"  annotations:\n    {{- if .Values.crds.keep }}\n    helm.sh/resource-policy: keep\n    {{- end }}\n",
				1,
			)
		}
		if p.condition != "" {
			text = "{{- if " + p.condition + " }}\n" + text + "{{- end }}\n"
		}
		name := "templates/" + p.stage + ".yaml"
		if p.stage == install.DefinitionsStage {
			name = "templates/definitions/" + strings.Fields(id)[1] + ".yaml"
		}
		files[name] += "---\n" + text
	}
	return files, nil
}

func both(a, b string) string {
	if a == "" {
		return b
	}
	return "and (" + a + ") (" + b + ")"
}
