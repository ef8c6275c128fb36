package visibility

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	viewapi "github.com/mlbatch/mlbatch/api/view/v1alpha1"
	"github.com/mlbatch/mlbatch/api/visibility/v1beta2"
	"github.com/mlbatch/mlbatch/internal/view"
	"github.com/mlbatch/mlbatch/internal/view/why"
)

// object is a JSON object of an OpenAPI document.
type object = map[string]any

// The API server asks for these documents and shows them as part of its own.
const (
	openAPI2 = "/openapi/v2"
	openAPI3 = "/openapi/v3"
)

// describe answers with a document of the API's description; false if there is
// none at the path. A client that has the document already is told so.
func describe(w http.ResponseWriter, r *http.Request) bool {
	var doc object
	switch path := strings.TrimSuffix(r.URL.Path, "/"); path {
	case openAPI2:
		doc = swagger()
	case openAPI3:
		doc = object{"paths": paths3()}
	default:
		for _, v := range described() {
			if path == openAPI3+"/apis/"+v.String() {
				doc = openAPI(v)
			}
		}
	}
	if doc == nil {
		return false
	}
	b, tag := encode(doc)
	w.Header().Set("Etag", strconv.Quote(tag))
	w.Header().Set("Vary", "Accept")
	if strings.Contains(r.Header.Get("If-None-Match"), tag) {
		w.WriteHeader(http.StatusNotModified)
		return true
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(b) // a client that went away needs no answer
	return true
}

// encode is a document and a mark that changes with it.
func encode(doc object) ([]byte, string) {
	b, err := json.Marshal(doc)
	if err != nil {
		panic(err) // it is made of texts, numbers and maps
	}
	sum := sha256.Sum256(b)
	return b, strings.ToUpper(hex.EncodeToString(sum[:]))
}

func paths3() object {
	out := object{}
	for _, v := range described() {
		_, tag := encode(openAPI(v))
		out["apis/"+v.String()] = object{"serverRelativeURL": openAPI3 + "/apis/" + v.String() + "?hash=" + tag}
	}
	return out
}

// described are the APIs that are described.
func described() []schema.GroupVersion { return append(versions(), viewapi.GroupVersion) }

// openAPI is the description of one version in OpenAPI 3.
func openAPI(v schema.GroupVersion) object {
	const refs = "#/components/schemas/"
	paths := object{}
	for path, about := range operations(v) {
		var parameters []object
		for _, p := range about.parameters {
			parameters = append(parameters, object{
				"name":        p.name,
				"in":          p.in,
				"description": p.description,
				"required":    p.in == "path",
				"schema":      object{"type": p.kind},
			})
		}
		content := object{"application/json": object{"schema": object{"$ref": refs + about.answers}}}
		does := about.does(v, object{"description": "OK", "content": content})
		if about.posts {
			does["requestBody"] = object{"content": content, "required": true}
		}
		paths[path] = object{"parameters": parameters, about.verb(): does}
	}
	return object{
		"openapi":    "3.0.0",
		"info":       about(),
		"paths":      paths,
		"components": object{"schemas": schemas(v, refs)},
	}
}

// swagger is the description of all versions in OpenAPI 2.
func swagger() object {
	const refs = "#/definitions/"
	paths, definitions := object{}, object{}
	for _, v := range described() {
		maps.Copy(definitions, schemas(v, refs))
		for path, about := range operations(v) {
			var parameters []object
			for _, p := range about.parameters {
				parameters = append(
					parameters,
					object{
						"name":        p.name,
						"in":          p.in,
						"description": p.description,
						"required":    p.in == "path",
						"type":        p.kind,
						"uniqueItems": true,
					},
				)
			}
			schema := object{"$ref": refs + about.answers}
			does := about.does(v, object{"description": "OK", "schema": schema})
			does["produces"], does["schemes"] = []string{"application/json"}, []string{"https"}
			if about.posts {
				does["consumes"] = []string{"application/json"}
				does["parameters"] = []object{{"name": "body", "in": "body", "required": true, "schema": schema}}
			}
			paths[path] = object{"parameters": parameters, about.verb(): does}
		}
	}
	return object{"swagger": "2.0", "info": about(), "paths": paths, "definitions": definitions}
}

func about() object { return object{"title": "mlbatch visibility", "version": "v1"} }

// operation is what can be asked at a path.
type operation struct {
	id, description string
	parameters      []parameter
	// answers names the schema of the answer, kind its kind.
	answers, kind string
	// posts says that the question is posted, and comes back with its answer.
	posts bool
}

type parameter struct{ name, in, kind, description string }

func (o operation) verb() string {
	if o.posts {
		return "post"
	}
	return "get"
}

func (o operation) does(v schema.GroupVersion, ok object) object {
	return object{
		"operationId": o.id, "description": o.description, "tags": []string{"visibility_" + v.Version},
		"responses":           object{"200": ok, "401": object{"description": "Unauthorized"}},
		"x-kubernetes-action": o.verb(), "x-kubernetes-group-version-kind": kindOf(v, o.kind),
	}
}

func operations(v schema.GroupVersion) map[string]operation {
	if v == viewapi.GroupVersion {
		return viewOperations()
	}
	page := []parameter{
		{"limit", "query", "integer", "how many workloads are listed: 1000 if it is left out, at most 100000"},
		{"offset", "query", "integer", "how many workloads are left out at the beginning"},
	}
	name := func(of string) parameter { return parameter{"name", "path", "string", "name of the " + of} }
	namespace := func(of string) parameter { return parameter{"namespace", "path", "string", "namespace of the " + of} }
	suffix := strings.ToUpper(v.Version[:1]) + v.Version[1:]
	root := "/apis/" + v.String()
	out := map[string]operation{
		root + "/clusterqueues/{name}/pendingworkloads": {
			"readVisibility" + suffix + "ClusterQueuePendingWorkloads",
			"who waits in a ClusterQueue, in order",
			append([]parameter{name("queue")}, page...),
			summaryOf(v),
			summaryKind,
			false,
		},
		root + "/namespaces/{namespace}/localqueues/{name}/pendingworkloads": {
			"readVisibility" + suffix + "NamespacedLocalQueuePendingWorkloads",
			"who waits in a LocalQueue, in order",
			append([]parameter{name("queue"), namespace("queue")}, page...),
			summaryOf(v),
			summaryKind,
			false,
		},
	}
	if v == v1beta2.GroupVersion {
		out[root+"/namespaces/{namespace}/workloads/{name}/explanation"] = operation{
			"readVisibility" + suffix + "NamespacedWorkloadExplanation",
			"why a Workload waits, and what would help",
			[]parameter{
				name("Workload"),
				namespace("Workload"),
				{
					against,
					"query",
					"string",
					"another Workload as NAMESPACE/NAME, or its UID: the answer says how both stand to each other, and gives no advice",
				},
			},
			schemaName(v, explanationKind),
			explanationKind,
			false,
		}
		out[root+"/namespaces/{namespace}/"+plans] = operation{
			"createVisibility" + suffix + "NamespacedWorkloadPlan",
			"what would become of a job, were it submitted now; nothing is stored",
			[]parameter{namespace("job")},
			schemaName(v, planKind),
			planKind,
			true,
		}
	}
	return out
}

// viewOperations are what can be asked of views.
func viewOperations() map[string]operation {
	root := "/apis/" + viewapi.GroupVersion.String()
	name := func(of string) parameter { return parameter{"name", "path", "string", of} }
	list := []parameter{
		{"fieldSelector", "query", "string", "metadata.name=NAME: this one only"},
		{"limit", "query", "integer", "how many are listed; 0 is all"},
		{"continue", "query", "string", "where an answer says that its list goes on"},
		{"watch", "query", "boolean", "all views, and from then on those that change"},
	}
	labelled := append([]parameter{{"labelSelector", "query", "string", "jobs with these labels only"}}, list...)
	out := map[string]operation{}
	for _, r := range []struct {
		resource, kind, what, named string
		namespaced                  bool
		list                        []parameter
	}{
		{viewapi.JobViews, "JobView", "jobs", "kind and name of the job, such as pytorchjob.train", true, labelled},
		{viewapi.NodeViews, "NodeView", "nodes", "name of the node", false, list},
		{viewapi.DomainViews, "DomainView", "domains of nodes", "Topology and values of the levels", false, list},
		{viewapi.QueueViews, "QueueView", "ClusterQueues and Cohorts", "kind and name, such as clusterqueue.blue", false, list},
		{viewapi.LocalQueueViews, "LocalQueueView", "LocalQueues", "name of the LocalQueue", true, list},
		{viewapi.TeamViews, "TeamView", "teams", "name of the team", false, list},
	} {
		one, many := schemaName(viewapi.GroupVersion, r.kind), schemaName(viewapi.GroupVersion, r.kind+"List")
		all, within, scope := root+"/"+r.resource, []parameter(nil), ""
		if r.namespaced {
			out[all] = operation{
				"listViewV1alpha1" + r.kind + "ForAllNamespaces",
				"how all " + r.what + " stand that may be listed",
				r.list,
				many,
				r.kind,
				false,
			}
			all, scope = root+"/namespaces/{namespace}/"+r.resource, "Namespaced"
			within = []parameter{{"namespace", "path", "string", "namespace of the " + r.what}}
		}
		out[all] = operation{
			"listViewV1alpha1" + scope + r.kind,
			"how " + r.what + " stand",
			slices.Concat(within, r.list),
			many,
			r.kind,
			false,
		}
		if r.resource == viewapi.JobViews {
			one := slices.Concat(within, []parameter{name(r.named)})
			out[all+"/{name}/"+viewapi.Explanation] = operation{
				"readViewV1alpha1NamespacedJobExplanation",
				"why a job is where it is",
				one,
				schemaName(viewapi.GroupVersion, "JobExplanation"),
				"JobExplanation",
				false,
			}
			out[all+"/{name}/"+viewapi.Details] = operation{
				"readViewV1alpha1NamespacedJobDetails",
				"all that there is to know of a job",
				one,
				schemaName(viewapi.GroupVersion, "JobDetails"),
				"JobDetails",
				false,
			}
		}
		out[all+"/{name}"] = operation{
			"readViewV1alpha1" + scope + r.kind,
			"how one of the " + r.what + " stands",
			slices.Concat(within, []parameter{name(r.named)}),
			one,
			r.kind,
			false,
		}
	}
	return out
}

func summaryOf(v schema.GroupVersion) string {
	return schemaName(v, summaryKind)
}

const summaryKind = "PendingWorkloadsSummary"

func schemaName(v schema.GroupVersion, kind string) string {
	group := strings.Split(v.Group, ".")
	slices.Reverse(group)
	return strings.Join(group, ".") + "." + v.Version + "." + kind
}

func kindOf(v schema.GroupVersion, kind string) object {
	return object{"group": v.Group, "version": v.Version, "kind": kind}
}

// schemas are the types of a version. Metadata is not spelled out: a second
// definition of it would get in the way of the API server's own.
func schemas(v schema.GroupVersion, refs string) object {
	if v == viewapi.GroupVersion {
		out := object{}
		for _, t := range []reflect.Type{
			reflect.TypeFor[view.JobViewList](), reflect.TypeFor[view.NodeViewList](), reflect.TypeFor[view.DomainViewList](), reflect.TypeFor[view.QueueViewList](),
			reflect.TypeFor[view.LocalQueueViewList](), reflect.TypeFor[view.TeamViewList](), reflect.TypeFor[why.JobExplanation](), reflect.TypeFor[why.JobDetails](),
		} {
			describeType(t, v, refs, out)
		}
		for kind, what := range map[string]string{
			"JobView": "How a job stands.", "JobViewList": "How jobs stand, the youngest first.", "NodeView": "How a node stands.", "NodeViewList": "How nodes stand, by name.",
			"DomainView": "How a rack, a block or another domain of nodes stands.", "DomainViewList": "How domains of nodes stand, each before those in it.",
			"QueueView": "How a ClusterQueue or Cohort stands.", "QueueViewList": "How ClusterQueues and Cohorts stand, by name.",
			"LocalQueueView": "How a LocalQueue stands.", "LocalQueueViewList": "How LocalQueues stand, by name.",
			"JobExplanation": "Why a job is where it is.", "JobDetails": "All that there is to know of a job.",
			"TeamView": "How a team stands.", "TeamViewList": "How teams stand, by name.",
		} {
			top := out[schemaName(v, kind)].(object) //nolint:forcetypeassert // it was just made
			top["description"], top["x-kubernetes-group-version-kind"] = what, []object{kindOf(v, kind)}
		}
		return out
	}
	text := func(d string) object { return object{"type": "string", "description": d} }
	number := func(d string) object {
		return object{"type": "integer", "format": "int32", "description": d, "default": 0}
	}
	metadata := func(d string) object { return object{"type": "object", "description": d} }
	item := schemaName(v, "PendingWorkload")
	out := object{
		summaryOf(v): object{
			"type":                            "object",
			"description":                     "Who waits in a queue, in the order in which they are considered.",
			"required":                        []string{"items"},
			"x-kubernetes-group-version-kind": []object{kindOf(v, summaryKind)},
			"properties": object{
				"apiVersion": text(
					"Version of this object.",
				),
				"kind":     text("Kind of this object."),
				"metadata": metadata("Empty."),
				"items": object{
					"type":        "array",
					"description": "The workloads.",
					"items":       object{"$ref": refs + item},
				},
			},
		},
		item: object{
			"type": "object", "description": "A workload that waits.",
			"required": []string{"priority", "localQueueName", "positionInClusterQueue", "positionInLocalQueue"},
			"properties": object{
				"metadata":               metadata("The workload's name, namespace, owners and creation time."),
				"priority":               number("Priority by which it stands in its queue."),
				"localQueueName":         text("The LocalQueue that it was submitted to."),
				"positionInClusterQueue": number("How many workloads of the ClusterQueue are before it."),
				"positionInLocalQueue":   number("How many workloads of the LocalQueue are before it."),
			},
		},
	}
	if v == v1beta2.GroupVersion {
		fields := out[item].(object)["properties"].(object) //nolint:forcetypeassert // it was just made
		describeType(reflect.TypeFor[v1beta2.QueueQuota](), v, refs, out)
		summary := out[summaryOf(v)].(object)["properties"].(object) //nolint:forcetypeassert // it was just made
		summary["quotas"] = object{
			"type":        "array",
			"description": "Quotas of the ClusterQueue, where a LocalQueue was asked about.",
			"items":       object{"$ref": refs + schemaName(v, "QueueQuota")},
		}
		fields["start"] = object{
			"$ref":        refs + schemaName(v, "Start"),
			"description": "When it is expected to start; absent if that is not known.",
		}
		describeType(reflect.TypeFor[v1beta2.Explanation](), v, refs, out)
		top := out[schemaName(v, explanationKind)].(object) //nolint:forcetypeassert // it was just made
		top["description"] = "Why a workload waits, what bears on it and what would help, found out at the moment of the question."
		top["x-kubernetes-group-version-kind"] = []object{kindOf(v, explanationKind)}
		describeType(reflect.TypeFor[v1beta2.WorkloadPlan](), v, refs, out)
		top = out[schemaName(v, planKind)].(object) //nolint:forcetypeassert // it was just made
		top["description"] = "What a job would ask for, and what would become of it were it submitted now."
		top["x-kubernetes-group-version-kind"] = []object{kindOf(v, planKind)}
	}
	return out
}

// describeType adds the schema of a struct of the API, and of structs that it leads to,
// by their Go types.
func describeType(t reflect.Type, v schema.GroupVersion, refs string, out object) {
	name := schemaName(v, typeName(t, v))
	if _, done := out[name]; done {
		return
	}
	properties, required := object{}, []string{}
	out[name] = object{"type": "object", "description": "Part of an answer.", "properties": properties}
	var add func(t reflect.Type)
	add = func(t reflect.Type) {
		if t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		var docs map[string]string
		if v == viewapi.GroupVersion {
			docs = fieldDocs()[typeName(t, v)]
		}
		for f := range t.Fields() {
			if !f.IsExported() {
				continue
			}
			field, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			switch field {
			case "": // inlined
				add(f.Type)
				continue
			case "-":
				continue
			}
			described := describeField(f.Type, v, refs, out)
			if text := docs[field]; text != "" {
				described = withDescription(described, text)
			}
			properties[field] = described
			if !strings.Contains(options, "omitempty") {
				required = append(required, field)
			}
		}
	}
	add(t)
	if len(required) > 0 {
		out[name].(object)["required"] = required //nolint:forcetypeassert // it was just made
	}
}

// fieldDocs are what the fields of views are said to mean.
var fieldDocs = sync.OnceValue( //nolint:gochecknoglobals // computed once
	func() map[string]map[string]string {
		out := view.FieldDocs()
		maps.Copy(out, why.FieldDocs())
		return out
	},
)

// typeName is what a schema of a type is called: the view API has an explanation of its own, and that of an
// engine in it.
func typeName(t reflect.Type, v schema.GroupVersion) string {
	if v == viewapi.GroupVersion && t == reflect.TypeFor[v1beta2.Explanation]() {
		return "EngineExplanation"
	}
	return t.Name()
}

// withDescription is a schema that says what it is of. A reference says nothing but where it leads to.
func withDescription(schema object, text string) object {
	if _, is := schema["$ref"]; is {
		return object{"description": text, "allOf": []object{schema}}
	}
	schema["description"] = text
	return schema
}

// describeField is the schema of one field.
func describeField(t reflect.Type, v schema.GroupVersion, refs string, out object) object {
	switch t {
	case reflect.TypeFor[metav1.ObjectMeta](), reflect.TypeFor[metav1.ListMeta]():
		return object{"type": "object"}
	case reflect.TypeFor[corev1.PodTemplateSpec](): // as the API server describes it
		return object{"type": "object", "x-kubernetes-preserve-unknown-fields": true}
	case reflect.TypeFor[metav1.Time](), reflect.TypeFor[time.Time]():
		return object{"type": "string", "format": "date-time"}
	case reflect.TypeFor[resource.Quantity]():
		return object{"type": "string"}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return describeField(t.Elem(), v, refs, out)
	case reflect.Slice:
		return object{"type": "array", "items": describeField(t.Elem(), v, refs, out)}
	case reflect.Struct:
		describeType(t, v, refs, out)
		return object{"$ref": refs + schemaName(v, typeName(t, v))}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Int32:
		return object{"type": "integer", "format": "int32"}
	case reflect.Map:
		return object{"type": "object", "additionalProperties": describeField(t.Elem(), v, refs, out)}
	case reflect.Float64:
		return object{"type": "number"}
	case reflect.Int, reflect.Int64:
		return object{"type": "integer", "format": "int64"}
	default:
		return object{"type": "string"}
	}
}
