package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	history "github.com/mlbatch/mlbatch/api/history/v1alpha1"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
)

// TestCompletionOffersNames: real names for flags and arguments.
func TestCompletionOffersNames(t *testing.T) {
	named := func(namespace, name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name}
	}
	mine := &kueue.Workload{ObjectMeta: named("blue", "a")}
	mine.Annotations = map[string]string{history.UserAnnotation: "alice"}
	c := fake.NewClientBuilder().WithScheme(scheme.New()).WithObjects(
		mine,
		&kueue.Workload{ObjectMeta: named("red", "b")},
		&corev1.Namespace{
			ObjectMeta: named("", "blue"),
		},
		&corev1.Node{ObjectMeta: named("", "node-1")},
		&corev1.Node{ObjectMeta: named("", "node-0")},
		&kueue.ResourceFlavor{
			ObjectMeta: named("", "h100"),
		},
		&kueue.WorkloadPriorityClass{ObjectMeta: named("", "urgent")},
		&corev1.ConfigMap{
			ObjectMeta: named("blue", "mlbatch-profile-train"),
		},
		&corev1.ConfigMap{ObjectMeta: named("blue", "other")},
		&corev1.ConfigMap{
			ObjectMeta: named("mlbatch-profiles", "mlbatch-profile-default"),
		},
		&corev1.ConfigMap{ObjectMeta: named("red", "mlbatch-profile-red")},
		&kueue.ClusterQueue{
			ObjectMeta: named("", "blue-queue"),
		},
		&kueue.LocalQueue{ObjectMeta: named("blue", "default-queue")},
		&kueue.LocalQueue{ObjectMeta: named("red", "other")},
		&batchv1.Job{
			ObjectMeta: named("blue", "train"),
		},
		&schedulingv1.PriorityClass{ObjectMeta: named("", "high")},
	).Build()
	cmd := &cobra.Command{}
	cmd.Flags().String("namespace", "blue", "")
	for name, tc := range map[string]struct {
		of   offer
		want []string
	}{
		"namespaces": {flagOffers()["namespace"], []string{"blue"}},
		"queues":     {flagOffers()["queue"], []string{"blue-queue", "default-queue"}},
		"users":      {flagOffers()["user"], []string{"alice"}},
		"flavors":    {flagOffers()["flavor"], []string{"h100"}},
		"priorities": {flagOffers()["priority"], []string{"urgent"}},
		"profiles":   {flagOffers()["profile"], []string{"default", "train"}},
		"nodes":      {argumentOffers()["NODE"], []string{"node-0", "node-1"}},
		"workloads":  {kueueNames("Workload"), []string{"a"}},
		"local":      {kueueNames("LocalQueue"), []string{"default-queue"}},
		"jobs":       {argumentOffers()["JOB"], []string{"train"}},
		"classes":    {flagOffers()["pod-priority"], []string{"high"}},
	} {
		if d := cmp.Diff(tc.want, beginning(tc.of(t.Context(), c, cmd), "")); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
	cmd.Flags().String("pod-priority", "", "")
	if d := cmp.Diff(
		[]string{"default-queue"},
		beginning(flagOffers()["queue"](t.Context(), c, cmd), ""),
	); d != "" {
		t.Errorf("no job can be submitted to a ClusterQueue (-want +got):\n%s", d)
	}
	for _, path := range []string{"stop clusterqueue", "resume localqueue", "delete workload", "flavor delete", "scancel"} {
		if of, _, err := newRootCommand().Find(strings.Fields(path)); err != nil || of.ValidArgsFunction == nil {
			t.Errorf("%s offers nothing: %v", path, err)
		}
	}
	var _ client.Reader = c
}

// TestCompletionOfArguments: each command offers what its argument names, from the cluster that was named,
// and nothing more than it takes.
func TestCompletionOfArguments(t *testing.T) {
	kinds := map[string]string{ // what there is of each is called like it
		"workloads":       "Workload",
		"localqueues":     "LocalQueue",
		"clusterqueues":   "ClusterQueue",
		"resourceflavors": "ResourceFlavor",
		"nodes":           "Node",
	}
	resources := func(version string, names ...string) string {
		var list metav1.APIResourceList
		list.Kind, list.GroupVersion = "APIResourceList", version
		for _, n := range names {
			list.APIResources = append(
				list.APIResources,
				metav1.APIResource{
					Name:       n,
					Kind:       kinds[n],
					Namespaced: n == "workloads" || n == "localqueues",
					Verbs:      []string{"list"},
				},
			)
		}
		text, err := json.Marshal(list)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	answers := map[string]string{
		"/api":    `{"kind":"APIVersions","versions":["v1"]}`,
		"/apis":   `{"kind":"APIGroupList","apiVersion":"v1","groups":[{"name":"kueue.x-k8s.io","versions":[{"groupVersion":"kueue.x-k8s.io/v1beta2","version":"v1beta2"}]}]}`,
		"/api/v1": resources("v1", "nodes"),
		"/apis/kueue.x-k8s.io/v1beta2": resources(
			"kueue.x-k8s.io/v1beta2",
			"workloads",
			"localqueues",
			"clusterqueues",
			"resourceflavors",
		),
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		answer, known := answers[r.URL.Path]
		if !known {
			answer = fmt.Sprintf(
				`{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{},"items":[{"metadata":{"name":%q}}]}`,
				path.Base(r.URL.Path),
			)
		}
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(server.Close)
	kubeconfig := filepath.Join(t.TempDir(), "config")
	text := fmt.Sprintf(
		"{apiVersion: v1, kind: Config, clusters: [{name: a, cluster: {server: %q}}], contexts: [{name: a, context: {cluster: a}}], current-context: a}",
		server.URL,
	)
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		"stop workload": "workloads", "resume workload": "workloads", "delete workload": "workloads",
		"stop localqueue": "localqueues", "resume localqueue": "localqueues", "delete localqueue": "localqueues",
		"stop clusterqueue": "clusterqueues", "resume clusterqueue": "clusterqueues", "delete clusterqueue": "clusterqueues",
		"flavor delete": "resourceflavors", "delete resourceflavor": "resourceflavors",
		"queue edit": "clusterqueues", "queue stop": "clusterqueues", "queue stop -n blue": "localqueues", "queue delete -n blue": "localqueues", "queue resume x": "",
		"drain": "nodes", "undrain": "nodes", "drain nodes": "",
	} {
		var out bytes.Buffer
		args := append([]string{cobra.ShellCompNoDescRequestCmd}, strings.Fields(line)...)
		run(t.Context(), append(args, "--kubeconfig", kubeconfig, ""), &out, io.Discard)
		if got, _, _ := strings.Cut(out.String(), ":"); strings.TrimSpace(got) != want {
			t.Errorf("%s offers %q, want %q", line, got, want)
		}
	}
}

// TestCompletionOfWords: what is known without a cluster, and shells get scripts.
func TestCompletionOfWords(t *testing.T) {
	for line, want := range map[string]string{
		"ps --state W": "Waiting", "hist --state F": "Failed", "ps -o custom": "custom-columns=", "top n": "nodes", "ps --sort-by g": "gpus", "why x --kind appw": "appwrapper", "run --framework t": "torch", "submit --framework m": "mpi",
	} {
		var out bytes.Buffer
		run(t.Context(), append([]string{cobra.ShellCompNoDescRequestCmd}, strings.Split(line, " ")...), &out, &out)
		if lines := strings.Split(out.String(), "\n"); !slices.Contains(lines, want) {
			t.Errorf("%s offers %q, want %s", line, lines, want)
		}
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		var out bytes.Buffer
		if code := run(t.Context(), []string{"completion", shell}, &out, &out); code != exitOK || out.Len() < 1000 {
			t.Errorf("completion %s exits with %d and %d bytes", shell, code, out.Len())
		}
	}
}
