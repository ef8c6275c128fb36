package chart

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage"
	"helm.sh/helm/v3/pkg/storage/driver"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"github.com/mlbatch/mlbatch/internal/kube/install"
	"github.com/mlbatch/mlbatch/internal/kube/install/charts"
)

const (
	namespace = "batch"
	name      = "queues"
)

// dist is where the chart and the kustomizations are written.
var dist = filepath.Join(os.TempDir(), fmt.Sprintf("mlbatch-charts-%d", os.Getpid()))

var (
	chartDir = filepath.Join(dist, charts.Chart)
	overlays = filepath.Join(dist, charts.Kustomize, "overlays") + "/"
	base     = filepath.Join(dist, charts.Kustomize, "base")
	// definitions are those of kinds.
	definitions = filepath.Join(dist, charts.Kustomize, "definitions")
)

func TestMain(m *testing.M) {
	err := charts.Write(dist, "dev")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	if err := os.RemoveAll(dist); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

// TestWriteTouchesNothingThatIsThere: what somebody has in the directory is theirs, and what is written is
// the same each time.
func TestWriteTouchesNothingThatIsThere(t *testing.T) {
	if err := charts.Write(
		dist,
		"dev",
	); !errors.Is(err, fs.ErrExist) ||
		!strings.Contains(err.Error(), chartDir) {
		t.Errorf("%v, want a refusal that names %s", err, chartDir)
	}
	again := t.TempDir()
	if err := charts.Write(again, "dev"); err != nil {
		t.Fatal(err)
	}
	files := 0
	err := filepath.WalkDir(dist, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files++
		one, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		two, err := os.ReadFile(filepath.Join(again, strings.TrimPrefix(path, dist)))
		if err != nil || !bytes.Equal(one, two) {
			t.Errorf("%s is another one the second time (%v)", path, err)
		}
		return nil
	})
	if err != nil || files < 40 {
		t.Errorf("%d files, %v", files, err)
	}
}

// rendered is what Helm makes of the chart.
func rendered(t *testing.T, values map[string]any) (*release.Release, error) {
	t.Helper()
	c, err := loader.Load(chartDir)
	if err != nil {
		t.Fatal(err)
	}
	i := action.NewInstall(&action.Configuration{
		Releases: storage.Init(driver.NewMemory()), Capabilities: chartutil.DefaultCapabilities, Log: t.Logf,
	})
	i.ReleaseName, i.Namespace, i.DryRun, i.ClientOnly = name, namespace, true, true
	i.KubeVersion = &chartutil.KubeVersion{Version: "v1.37.0", Major: "1", Minor: "37"}
	return i.RunWithContext(t.Context(), c, values)
}

// objects are those of manifests, by kind and name, in the form that their types give them.
func objects(t *testing.T, manifests []byte) map[string]map[string]any {
	t.Helper()
	out := map[string]map[string]any{}
	docs := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(manifests)))
	for {
		doc, err := docs.Read()
		if err == io.EOF {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		content := map[string]any{}
		if err := yaml.UnmarshalStrict(doc, &content); err != nil {
			t.Fatalf("%v in\n%s", err, doc)
		}
		if len(content) == 0 {
			continue
		}
		key, value := normal(t, content)
		if out[key] != nil {
			t.Errorf("%s is there twice", key)
		}
		out[key] = value
	}
}

// known knows the types of Kubernetes. Making it takes longer than reading an object.
var known = sync.OnceValue(func() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			panic(err) // two Go types claim the same kind
		}
	}
	return scheme
})

// normal is an object as its type writes it: quantities and empty lists have several forms.
func normal(t *testing.T, content map[string]any) (string, map[string]any) {
	t.Helper()
	scheme := known()
	data, err := json.Marshal(content)
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{Object: content}
	key := fmt.Sprintf("%s %s/%s", u.GetKind(), u.GetNamespace(), u.GetName())
	if typed, err := scheme.New(u.GroupVersionKind()); err == nil {
		decoder := json.NewDecoder(bytes.NewReader(data))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(typed); err != nil {
			t.Fatalf("%s: %v", key, err)
		}
		if data, err = json.Marshal(typed); err != nil {
			t.Fatal(err)
		}
	}
	out := map[string]any{}
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	delete(out, "status")
	if meta, is := out["metadata"].(map[string]any); is {
		delete(meta, "creationTimestamp")
	}
	return key, out
}

// installed are the objects that mlbatch install applies for values.
func installed(t *testing.T, values string, r install.Release) map[string]map[string]any {
	t.Helper()
	v := install.DefaultValues("dev")
	f, err := v.ReadValues("values", []byte(values))
	if err != nil {
		t.Fatal(err)
	}
	if v.Image.Tag == "" {
		v.Image.Tag = "dev"
	}
	if err := v.Check(f); err != nil {
		t.Fatal(err)
	}
	r.Version = v.Image.Tag
	stages, err := install.Render(v, r)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]map[string]any{}
	for _, s := range stages {
		for _, o := range s.Objects {
			key, value := normal(t, o.Object)
			out[key] = value
		}
	}
	return out
}

func compare(t *testing.T, want, got map[string]map[string]any) {
	t.Helper()
	for key := range want {
		if got[key] == nil {
			t.Errorf("%s is missing", key)
		} else if diff := cmp.Diff(want[key], got[key]); diff != "" {
			t.Errorf("%s (-install +rendered):\n%s", key, diff)
		}
	}
	for key := range got {
		if want[key] == nil {
			t.Errorf("%s is too many", key)
		}
	}
}

// TestChartIsWhatInstallApplies renders the chart with Helm for several values, and compares it
// object by object with what mlbatch install applies for the same values.
func TestChartIsWhatInstallApplies(t *testing.T) {
	cases := map[string]struct{ why, values string }{
		"Defaults": {"as most install it", ""},
		"Image": {
			"from a registry",
			"image: {registry: r.example.com, repository: team/mlbatch, tag: v1.2.3, pullPolicy: Always}\nimagePullSecrets: [{name: pull}]",
		},
		"Digest": {
			"a digest wins over a tag",
			"image: {registry: '', repository: m, digest: 'sha256:" + strings.Repeat("ab", 32) + "'}",
		},
		"Placed": {"where it runs", `
nodeSelector: {pool: system}
tolerations: [{key: system, operator: Exists, effect: NoSchedule}]
affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: In, values: [b]}]}]}}}
priorityClassName: ""
`},
		"One": {"of one replica there is no budget", "controller: {replicas: 1}\nscheduler: {replicas: 3}"},
		"NoExtras": {
			"what can be off is off",
			"podDisruptionBudget: {enabled: false}\nnetworkPolicy: {enabled: false}\ncrds: {enabled: false}",
		},
		"Resources": {
			"sets are merged",
			"controller: {resources: {limits: {cpu: 4, memory: 1Gi}, requests: {cpu: 0.5}}}",
		},
		"Config": {
			"text that YAML could misread",
			"controller:\n  config: |\n    apiVersion: config.kueue.x-k8s.io/v1beta2\n    kind: Configuration\n    # a: \"b\" {{ no template }} <&>\n    namespace: batch\n  extraArgs: [--verbosity=2]\n  schedulerName: sakkara-scheduler\nscheduler: {names: [a, b], extraArgs: [--verbosity=1]}",
		},
		"Others": {
			"other operators keep their kinds",
			"controller: {kinds: {pytorchjob: queue, trainjob: ignore, rayjob: run, jobset: queue}}",
		},
		"Monitoring": {
			"Prometheus",
			"metrics: {serviceMonitor: {enabled: true, labels: {release: prometheus}}, prometheusRule: {enabled: true, labels: {release: prometheus}, runbookURL: https://runbooks.example.com}, dashboards: {enabled: true, labels: {grafana_dashboard: '1', team: ml}}, readers: [{kind: ServiceAccount, namespace: monitoring, name: prometheus}]}",
		},
		"Network": {
			"addresses",
			"networkPolicy: {apiServer: [10.0.0.0/28, 10.1.0.1/32], nodes: [10.2.0.0/16], metrics: [{podSelector: {matchLabels: {a: b}}}]}",
		},
		"NoMetrics": {"nobody reads", "networkPolicy: {metrics: []}"},
		"CertManager": {
			"others make certificates",
			"certManager: {enabled: true}\nagent: {enabled: true}\nmetrics: {serviceMonitor: {enabled: true}, dashboards: {enabled: true}, prometheusRule: {enabled: true}}",
		},
		"OpenShift": {"another platform", "platform: openshift"},
		"Both":      {"conditions together", "platform: openshift\ncertManager: {enabled: true}"},
		"Named": {
			"another name",
			"fullnameOverride: queues\nmetrics: {serviceMonitor: {enabled: true}, readers: [{kind: Group, apiGroup: rbac.authorization.k8s.io, name: g}]}",
		},
		"Agents": {"an agent on each node", "agent: {enabled: true}\nplatform: openshift"},
		"AgentsWithAll": {
			"all that can be said of them",
			"agent: {enabled: true, writeLabel: true, toolsImage: 'r.example.com/dcgm:4', runtimeClassName: nvidia, kernelLog: /var/log/kern.log, nodeSelector: {a: b}, tolerations: [{key: x, operator: Exists}], resources: {requests: {cpu: 20m}}, extraArgs: [--bind-address=0.0.0.0], config: 'every: 30m'}\nfullnameOverride: queues\nnetworkPolicy: {nodes: [10.2.0.0/16]}\nimagePullSecrets: [{name: pull}]\nimage: {pullPolicy: Always}",
		},
		"Extra": {
			"objects of the admin",
			"extraObjects: [{apiVersion: v1, kind: ConfigMap, metadata: {name: x, namespace: batch}, data: {a: '1'}}]",
		},
	}
	for about, tc := range cases {
		t.Run(about, func(t *testing.T) {
			if !slices.Contains([]string{"Defaults", "Others", "CertManager", "NoExtras"}, about) {
				// They are the same in the others, and take long to read.
				tc.values += "\ncrds: {enabled: false}"
			}
			values := map[string]any{}
			if err := yaml.Unmarshal([]byte(tc.values), &values); err != nil {
				t.Fatal(err)
			}
			rel, err := rendered(t, values)
			if err != nil {
				t.Fatalf("%s: %v", tc.why, err)
			}
			want := installed(
				t,
				tc.values,
				install.Release{Namespace: namespace, Name: name, Manager: "Helm", Chart: "mlbatch-0.1.0"},
			)
			delete(want, "Namespace /"+namespace) // Helm makes it, or is given one
			got := objects(t, []byte(rel.Manifest))
			if about == "Defaults" && len(got) < 100 {
				t.Errorf("only %d objects", len(got))
			}
			for key, o := range got {
				if !strings.HasPrefix(key, "CustomResourceDefinition ") {
					continue
				}
				annotations := o["metadata"].(map[string]any)["annotations"].(map[string]any)
				if annotations["helm.sh/resource-policy"] != "keep" {
					t.Errorf("%s would go with the release, and all objects with it", key)
				}
				delete(annotations, "helm.sh/resource-policy")
			}
			compare(t, want, got)
		})
	}
}

// TestReleaseFits: Helm keeps chart and manifest of a release in one Secret. What does not fit
// cannot be installed.
func TestReleaseFits(t *testing.T) {
	rel, err := rendered(t, map[string]any{})
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(rel)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := z.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	const most = 1 << 20
	size := base64.StdEncoding.EncodedLen(b.Len())
	t.Logf("the release takes %d of %d bytes", size, most)
	if size > most*9/10 {
		t.Errorf("the release takes %d bytes, nearly all of the %d that there are", size, most)
	}
}

// TestSchemaRefuses: mistakes are named before anything is rendered.
func TestSchemaRefuses(t *testing.T) {
	for name, tc := range map[string]struct{ values, says string }{
		"Unknown":  {"replicas: 3", "replicas"},
		"Inner":    {"controller: {replica: 3}", "replica"},
		"None":     {"controller: {replicas: 0}", "replicas"},
		"Platform": {"platform: gke", "platform"},
		"Kinds":    {"controller: {kinds: {job: no}}", "kinds"},
		"Digest":   {"image: {digest: x}", "digest"},
	} {
		t.Run(name, func(t *testing.T) {
			values := map[string]any{}
			if err := yaml.Unmarshal([]byte(tc.values), &values); err != nil {
				t.Fatal(err)
			}
			if _, err := rendered(t, values); err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("got %v, want one that names %s", err, tc.says)
			}
		})
	}
}

// TestTestPod: helm test has a pod, which the level of the namespace lets in.
func TestTestPod(t *testing.T) {
	rel, err := rendered(t, map[string]any{})
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(
		rel.Hooks,
		func(h *release.Hook) bool { return h.Kind == "Pod" && slices.Contains(h.Events, release.HookTest) },
	)
	if i < 0 {
		t.Fatal("there is none")
	}
	for key, o := range objects(t, []byte(rel.Hooks[i].Manifest)) {
		if o["spec"].(map[string]any)["serviceAccountName"] != "mlbatch-test" {
			t.Errorf("%s has no account that may ask", key)
		}
	}
	if !strings.Contains(rel.Info.Notes, "rollout status -n "+namespace+" deployment/mlbatch-controller") {
		t.Errorf("the notes do not say how to wait:\n%s", rel.Info.Notes)
	}
}

// TestWhatInstallRefuses: values that mlbatch install refuses are refused by the chart, too.
func TestWhatInstallRefuses(t *testing.T) {
	for _, text := range []string{
		"scheduler: {enabled: false}", "scheduler: {names: []}", "scheduler: {names: [default-scheduler]}", "fullnameOverride: Q",
		"controller: {kinds: {jobb: run}}", "controller: {kinds: {job: maybe}}", "controller: {replicas: 0}", "controller: {extraArgs: [x]}", "controller: {extraArgs: [--verbositty=2]}", "scheduler: {extraArgs: [--webhook-port=1]}", "controller: {config: ''}",
		"networkPolicy: {apiServer: [10.0.0.1]}", "image: {tag: 'a b'}", "image: {digest: 'sha256:12'}", "platform: gke",
		"tolerations: [{key: a, operator: exists}]", "tolerations: [{key: a, operator: Exists, effect: NoShedule}]", "tolerations: [{keey: a}]",
		"extraObjects: [{kind: ConfigMap}]",
	} {
		values := map[string]any{}
		if err := yaml.Unmarshal([]byte(text), &values); err != nil {
			t.Fatal(err)
		}
		if _, err := rendered(t, values); err == nil {
			t.Errorf("the chart takes %s", text)
		}
		v := install.DefaultValues("v1")
		f, err := v.ReadValues("values", []byte(text))
		if err == nil {
			err = v.Check(f)
		}
		if err == nil {
			t.Errorf("install takes %s", text)
		}
	}
}

// built are the objects of a kustomization.
func built(t *testing.T, dir string) map[string]map[string]any {
	t.Helper()
	all, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		t.Fatal(err)
	}
	manifests, err := all.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	return objects(t, manifests)
}

// TestKustomizations builds the base and the overlays with kustomize, and compares them, together with
// the definitions, with what mlbatch install applies for the values of the variant. Who deletes a base or
// an overlay deletes no definitions, with which all queues and jobs would go.
func TestKustomizations(t *testing.T) {
	for _, variant := range []string{"", "openshift", "coscheduling", "sakkara", "stock"} {
		t.Run("variant="+variant, func(t *testing.T) {
			dir, values := base, []byte("{}")
			if variant != "" {
				var err error
				dir = overlays + variant
				if values, err = os.ReadFile(chartDir + "/values-" + variant + ".yaml"); err != nil {
					t.Fatal(err)
				}
			}
			all := built(t, dir)
			for key := range all {
				if strings.HasPrefix(key, "CustomResourceDefinition ") {
					t.Errorf("%s would be deleted with %s, and all objects of the kind", key, dir)
				}
			}
			maps.Copy(all, built(t, definitions))
			compare(t, installed(t, string(values), install.Release{Name: install.App, Manager: "kustomize"}), all)
		})
	}
}
