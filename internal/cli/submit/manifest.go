package submit

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/cli/manifest"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/kinds"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/serving"
	"github.com/mlbatch/mlbatch/internal/view"
)

// IsManifest reports whether a YAML or JSON text has objects of Kubernetes.
func IsManifest(data []byte) bool {
	var head struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}
	err := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), len(data)+1).Decode(&head)
	return err == nil && head.APIVersion != "" && head.Kind != ""
}

// ReadManifests reads the objects of a text, those in lists, too.
func ReadManifests(name string, data []byte) ([]*unstructured.Unstructured, error) {
	documents, err := manifest.Read(name, data)
	if err != nil {
		return nil, err
	}
	out := make([]*unstructured.Unstructured, len(documents))
	for i := range documents {
		out[i] = documents[i].Object
	}
	return out, nil
}

// Labelled are the settings that a manifest can be given from outside, as labels of its jobs.
func Labelled() []string { return []string{"queue", "priority", "time"} }

// Label gives the jobs of manifests the labels of what was said, and a queue to jobs that name
// none. What is no job stays as it is.
func (r *Request) Label(objects []*unstructured.Unstructured, said []Setting) (jobs int) {
	x := rendering{request: r}
	for _, o := range objects {
		if !queued(o) {
			continue
		}
		jobs++
		labels := o.GetLabels()
		if labels == nil {
			labels = map[string]string{}
		}
		ours := x.labels()
		delete(ours, view.TitleLabel)
		if slices.ContainsFunc(said, func(s Setting) bool { return s.Option == "queue" }) {
			labels[kueue.QueueNameLabel] = ours[kueue.QueueNameLabel]
		}
		for key, value := range ours {
			if key != kueue.QueueNameLabel || labels[key] == "" {
				labels[key] = value
			}
		}
		o.SetLabels(labels)
	}
	return jobs
}

// queued reports whether an object is a job, or makes pods that are queued by its label.
func queued(o *unstructured.Unstructured) bool {
	gvk := o.GroupVersionKind()
	for _, k := range kinds.All() {
		if k.GVK().GroupKind() == gvk.GroupKind() {
			return true
		}
	}
	others := []string{"Pod", "Deployment.apps", "StatefulSet.apps"}
	for _, k := range serving.Grouped() {
		others = append(others, k.GVK.GroupKind().String())
	}
	return slices.Contains(others, strings.TrimSuffix(gvk.GroupKind().String(), "."))
}

// CreateManifests creates objects in their order, those of a namespace in the given one if they
// name none. created tells of each.
func CreateManifests(
	ctx context.Context,
	c client.Client,
	namespace string,
	objects []*unstructured.Unstructured,
	created func(*unstructured.Unstructured),
	options ...client.CreateOption,
) error {
	for _, o := range objects {
		namespaced, err := c.IsObjectNamespaced(o)
		if meta.IsNoMatchError(err) {
			return fmt.Errorf(
				"%s %s: the cluster has no kind %s of %s",
				o.GetKind(),
				o.GetName(),
				o.GetKind(),
				o.GetAPIVersion(),
			)
		}
		if err != nil {
			return fmt.Errorf("%s %s: %w", o.GetKind(), o.GetName(), err)
		}
		if namespaced && o.GetNamespace() == "" {
			o.SetNamespace(namespace)
		}
		if err := c.Create(ctx, o, options...); err != nil {
			return fmt.Errorf("%s %s: %w", o.GetKind(), orElse(o.GetName(), o.GetGenerateName()), refused(err))
		}
		created(o)
	}
	return nil
}
