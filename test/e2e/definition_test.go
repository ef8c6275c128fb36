package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// Somebody applies another program's definition of a kind: its jobs are held with that reason and
// hold no quota, and run once ours is back. This needs a cluster in which nobody else has such jobs.
func TestDefinitionOfOthers(t *testing.T) {
	ownCluster(t, "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n")
	s := runtime.NewScheme()
	if err := apiextensionsv1.AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	definitions, err := client.New(cluster.RESTConfig(), client.Options{Scheme: s})
	if err != nil {
		t.Fatal(err)
	}
	change := func(edit func(status *apiextensionsv1.JSONSchemaProps)) {
		t.Helper()
		eventually(t, "the definition is changed", func() string {
			crd := &apiextensionsv1.CustomResourceDefinition{}
			if err := definitions.Get(t.Context(), client.ObjectKey{Name: "jobsets.jobset.x-k8s.io"}, crd); err != nil {
				return err.Error()
			}
			for i := range crd.Spec.Versions {
				all := crd.Spec.Versions[i].Schema.OpenAPIV3Schema.Properties
				status := all["status"]
				edit(&status)
				all["status"] = status
			}
			if err := definitions.Update(t.Context(), crd); err != nil {
				return err.Error()
			}
			return ""
		})
	}
	var ours apiextensionsv1.JSONSchemaProps
	change(func(status *apiextensionsv1.JSONSchemaProps) {
		ours = status.Properties["recovery"]
		delete(status.Properties, "recovery")
	})
	admin := user(t, "")
	n := 0
	// Until the API server goes by the other definition, a job is like any other.
	eventually(t, "a job is held, and holds nothing", func() string {
		n++
		name := fmt.Sprintf("theirs-%d", n)
		create(t, admin, jobSetManifest(name, "replicatedJobs: [{name: w, template: {spec: {"+podOfSet("1s")+"}}}]"), "blue")
		held := ""
		eventually(t, name+" is known", func() string {
			var all kueue.WorkloadList
			if err := admin.List(t.Context(), &all, client.InNamespace("blue")); err != nil {
				return err.Error()
			}
			for i := range all.Items {
				if w := &all.Items[i]; strings.Contains(w.Name, name+"-") {
					held = w.Annotations[kueue.PodsRefusedAnnotation]
					if w.Status.Admission != nil {
						held = ""
					}
					return ""
				}
			}
			return "it has no Workload"
		})
		if !strings.Contains(held, "the definition of JobSet is not this program's") {
			return "it is not held: " + held
		}
		return ""
	})
	last := fmt.Sprintf("theirs-%d", n)
	if got, err := cluster.Run(t.Context(), "why", "jobset/"+last, "-n", "blue"); err != nil || !strings.Contains(got, "not this program's") || !strings.Contains(got, "mlbatch install") {
		t.Errorf("why says\n%s%v", got, err)
	}
	create(t, admin, wrap(jobSetManifest("inside", "replicatedJobs: [{name: w, template: {spec: {"+podOfSet("1s")+"}}}]")), "blue")
	eventually(t, "an AppWrapper around one is held, too", func() string {
		w := workloadOf(t, "blue", "wrapped")
		if w == nil {
			return "it has no Workload"
		}
		if held := w.Annotations[kueue.PodsRefusedAnnotation]; !strings.Contains(held, "the definition of JobSet is not this program's") || w.Status.Admission != nil {
			return "it is not held: " + held
		}
		return ""
	})
	change(func(status *apiextensionsv1.JSONSchemaProps) { status.Properties["recovery"] = ours })
	eventually(t, "ours is back, and it runs to its end", jobSetSays(t, last, "Completed", ""))
	eventually(t, "so does the AppWrapper", func() string {
		if w := workloadOf(t, "blue", "wrapped"); w != nil && w.Annotations[kueue.PodsRefusedAnnotation] != "" {
			return "it is held: " + w.Annotations[kueue.PodsRefusedAnnotation]
		}
		return ""
	})
}
