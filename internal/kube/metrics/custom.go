package metrics

import (
	"slices"
	"sync"
	"unicode/utf8"

	dto "github.com/prometheus/client_model/go"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
)

// Source is a kind of object whose labels and annotations series may carry.
type Source string

// The kinds. Series carry labels of the ClusterQueue, LocalQueue or Cohort that
// they are about; those of Workloads divide pending_workloads
// and admitted_active_workloads.
const (
	SourceClusterQueue Source = "ClusterQueue"
	SourceLocalQueue   Source = "LocalQueue"
	SourceCohort       Source = "Cohort"
	SourceWorkload     Source = "Workload"
)

// CustomLabel is a label or annotation of objects that their series carry
// (metrics.customLabels).
type CustomLabel struct {
	// Name is that of the label without its prefix custom_.
	Name string
	From Source
	// Label or Annotation is the key; the other is empty.
	Label, Annotation string
	// Tracked are the values that are shown; others show as Untracked. Empty is all.
	Tracked []string
}

// Untracked is shown instead of values that are not tracked.
const Untracked = "kueue.x-k8s.io/_UNTRACKED_VALUE_"

// longestValue bounds a value in bytes: annotations may hold whole documents.
const longestValue = 256

// value is what an object has of it; "" if nothing.
func (l CustomLabel) value(o client.Object) string {
	v := o.GetLabels()[l.Label]
	if l.Annotation != "" {
		v = o.GetAnnotations()[l.Annotation]
	}
	if len(l.Tracked) > 0 && !slices.Contains(l.Tracked, v) {
		return Untracked
	}
	if len(v) > longestValue {
		v = v[:longestValue]
		for !utf8.ValidString(v) { // do not cut a character in two
			v = v[:len(v)-1]
		}
	}
	return v
}

// custom knows the custom labels of all objects.
type custom struct {
	labels map[Source][]CustomLabel

	mu     sync.RWMutex
	values map[Source]map[types.NamespacedName][]string
}

func newCustom(all []CustomLabel) *custom {
	c := &custom{labels: map[Source][]CustomLabel{}, values: map[Source]map[types.NamespacedName][]string{}}
	for _, l := range all {
		c.labels[l.From] = append(c.labels[l.From], l)
		c.values[l.From] = map[types.NamespacedName][]string{}
	}
	return c
}

// of are the labels of an object. What nothing is known of has empty values.
func (c *custom) of(kind Source, key types.NamespacedName) []*dto.LabelPair {
	labels := c.labels[kind]
	if len(labels) == 0 {
		return nil
	}
	values := c.valuesOf(kind, key)
	out := make([]*dto.LabelPair, len(labels))
	for i, l := range labels {
		out[i] = pair(customPrefix+l.Name, values[i])
	}
	return out
}

const customPrefix = "custom_"

func (c *custom) valuesOf(kind Source, key types.NamespacedName) []string {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if v, known := c.values[kind][key]; known {
		return v
	}
	return make([]string, len(c.labels[kind]))
}

func (c *custom) names(kind Source) []string {
	var out []string
	for _, l := range c.labels[kind] {
		out = append(out, customPrefix+l.Name)
	}
	return out
}

func (c *custom) put(kind Source, o client.Object) {
	values := make([]string, len(c.labels[kind]))
	for i, l := range c.labels[kind] {
		values[i] = l.value(o)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.values[kind][client.ObjectKeyFromObject(o)] = values
}

func (c *custom) drop(kind Source, o client.Object) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.values[kind], client.ObjectKeyFromObject(o))
}

// Sources are the kinds whose objects have to be watched for custom labels, in a
// stable order.
func (m *Metrics) Sources() []Source {
	var out []Source
	for s := range m.custom.labels {
		out = append(out, s)
	}
	slices.Sort(out)
	return out
}

// Objects returns a handler for all objects of one of the Sources.
func (m *Metrics) Objects(kind Source) toolscache.ResourceEventHandler {
	put := func(o any) {
		if w, ok := o.(*kueue.Workload); ok && convert.Finished(w) {
			m.custom.drop(kind, w) // it waits no more
			return
		}
		if o, ok := o.(client.Object); ok {
			m.custom.put(kind, o)
		}
	}
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc:    put,
		UpdateFunc: func(_, o any) { put(o) },
		DeleteFunc: func(o any) {
			if t, gone := o.(toolscache.DeletedFinalStateUnknown); gone {
				o = t.Obj
			}
			if o, ok := o.(client.Object); ok {
				m.custom.drop(kind, o)
			}
		},
	}
}
