package visibility

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"net/http"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// object is a JSON object of an OpenAPI document.
type object = map[string]any

// The API server asks for these documents and shows them as part of its own.
const (
	openAPI2 = "/openapi/v2"
	openAPI3 = "/openapi/v3"
)

// describe answers with a document of the API's description; false if there is
// none at the path. Who has the document already is told so.
func describe(w http.ResponseWriter, r *http.Request) bool {
	var doc object
	switch path := strings.TrimSuffix(r.URL.Path, "/"); path {
	case openAPI2:
		doc = swagger()
	case openAPI3:
		doc = object{"paths": paths3()}
	default:
		for _, v := range versions() {
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
	_, _ = w.Write(b) // whoever does not listen needs no answer
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
	for _, v := range versions() {
		_, tag := encode(openAPI(v))
		out["apis/"+v.String()] = object{"serverRelativeURL": openAPI3 + "/apis/" + v.String() + "?hash=" + tag}
	}
	return out
}

// openAPI is the description of one version in OpenAPI 3.
func openAPI(v schema.GroupVersion) object {
	const refs = "#/components/schemas/"
	paths := object{}
	for path, about := range operations(v) {
		var parameters []object
		for _, p := range about.parameters {
			parameters = append(parameters, object{
				"name": p.name, "in": p.in, "description": p.description, "required": p.in == "path", "schema": object{"type": p.kind},
			})
		}
		paths[path] = object{"parameters": parameters, "get": about.get(v, object{
			"description": "OK", "content": object{"application/json": object{"schema": object{"$ref": refs + summaryOf(v)}}},
		})}
	}
	return object{"openapi": "3.0.0", "info": about(), "paths": paths, "components": object{"schemas": schemas(v, refs)}}
}

// swagger is the description of all versions in OpenAPI 2.
func swagger() object {
	const refs = "#/definitions/"
	paths, definitions := object{}, object{}
	for _, v := range versions() {
		maps.Copy(definitions, schemas(v, refs))
		for path, about := range operations(v) {
			var parameters []object
			for _, p := range about.parameters {
				parameters = append(parameters, object{"name": p.name, "in": p.in, "description": p.description, "required": p.in == "path", "type": p.kind, "uniqueItems": true})
			}
			get := about.get(v, object{"description": "OK", "schema": object{"$ref": refs + summaryOf(v)}})
			get["produces"], get["schemes"] = []string{"application/json"}, []string{"https"}
			paths[path] = object{"parameters": parameters, "get": get}
		}
	}
	return object{"swagger": "2.0", "info": about(), "paths": paths, "definitions": definitions}
}

func about() object { return object{"title": "mlbatch visibility", "version": "v1"} }

// operation is what can be asked at a path.
type operation struct {
	id, description string
	parameters      []parameter
}

type parameter struct{ name, in, kind, description string }

func (o operation) get(v schema.GroupVersion, ok object) object {
	return object{
		"operationId": o.id, "description": o.description, "tags": []string{"visibility_" + v.Version},
		"responses":           object{"200": ok, "401": object{"description": "Unauthorized"}},
		"x-kubernetes-action": "get", "x-kubernetes-group-version-kind": kindOf(v),
	}
}

func operations(v schema.GroupVersion) map[string]operation {
	page := []parameter{
		{"limit", "query", "integer", "how many workloads are listed: 1000 if it is left out, at most 100000"},
		{"offset", "query", "integer", "how many workloads are left out at the beginning"},
	}
	name := parameter{"name", "path", "string", "name of the queue"}
	namespace := parameter{"namespace", "path", "string", "namespace of the queue"}
	suffix := strings.ToUpper(v.Version[:1]) + v.Version[1:]
	root := "/apis/" + v.String()
	return map[string]operation{
		root + "/clusterqueues/{name}/pendingworkloads": {
			"readVisibility" + suffix + "ClusterQueuePendingWorkloads", "who waits in a ClusterQueue, in order", append([]parameter{name}, page...),
		},
		root + "/namespaces/{namespace}/localqueues/{name}/pendingworkloads": {
			"readVisibility" + suffix + "NamespacedLocalQueuePendingWorkloads", "who waits in a LocalQueue, in order", append([]parameter{name, namespace}, page...),
		},
	}
}

func summaryOf(v schema.GroupVersion) string {
	return "io.x-k8s.kueue.visibility." + v.Version + ".PendingWorkloadsSummary"
}

func kindOf(v schema.GroupVersion) object {
	return object{"group": v.Group, "version": v.Version, "kind": "PendingWorkloadsSummary"}
}

// schemas are the types of a version. Metadata is not spelled out: a second
// definition of it would get in the way of the API server's own.
func schemas(v schema.GroupVersion, refs string) object {
	text := func(d string) object { return object{"type": "string", "description": d} }
	number := func(d string) object {
		return object{"type": "integer", "format": "int32", "description": d, "default": 0}
	}
	metadata := func(d string) object { return object{"type": "object", "description": d} }
	item := "io.x-k8s.kueue.visibility." + v.Version + ".PendingWorkload"
	return object{
		summaryOf(v): object{
			"type": "object", "description": "Who waits in a queue, in the order in which they are considered.", "required": []string{"items"},
			"x-kubernetes-group-version-kind": []object{kindOf(v)},
			"properties": object{
				"apiVersion": text("Version of this object."), "kind": text("Kind of this object."), "metadata": metadata("Empty."),
				"items": object{"type": "array", "description": "The workloads.", "items": object{"$ref": refs + item}},
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
}
