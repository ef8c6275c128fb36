package manifest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	sigs "sigs.k8s.io/yaml"

	aw "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	"github.com/mlbatch/mlbatch/api/config/v1beta2"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/appwrapper"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/kinds"
	"github.com/mlbatch/mlbatch/internal/strict"
)

// Wrapper is what an AppWrapper is called and where it goes.
type Wrapper struct {
	// Name of the AppWrapper; "" takes that of the first object with pods.
	Name string
	// Namespace; "" takes that of the objects, if they say one.
	Namespace string
	// Queue is the LocalQueue; "" takes that of the objects, if they say one.
	Queue string
	// Declared are the pods of objects of kinds that are not known.
	Declared []Declared
}

// Declared says how many pods a template makes.
type Declared struct {
	// Kind and Name of the object.
	Kind, Name string
	// Path begins with template.
	Path     string
	Replicas int32
}

// ParseDeclared reads KIND/NAME:PATH=REPLICAS.
func ParseDeclared(text string) (Declared, error) {
	m := regexp.MustCompile(`^([^/:=]+)/([^/:=]+):([^=]+)=(\d+)$`).FindStringSubmatch(text)
	if m == nil {
		return Declared{}, fmt.Errorf(
			"%q: write KIND/NAME:PATH=REPLICAS, such as Sampler/mine:template.spec.pods=4",
			text,
		)
	}
	n, err := strconv.ParseInt(m[4], 10, 32)
	if err != nil {
		return Declared{}, fmt.Errorf("%q: %s is too large a number", text, m[4])
	}
	return Declared{
		Kind:     m[1],
		Name:     m[2],
		Path:     "template." + strings.TrimPrefix(m[3], "template."),
		Replicas: int32(n),
	}, nil
}

// Wrapped is an AppWrapper around objects.
type Wrapped struct {
	// Object is what the API server gets, Text the same in YAML, with the comments and the
	// order of fields of what was wrapped.
	Object *unstructured.Unstructured
	Text   []byte
	// Notes tell what the author should know.
	Notes []string
}

// Wrap puts objects into one AppWrapper, as they are. What cannot be is a *strict.FileError
// for each file, joined, with line and cure.
func (w Wrapper) Wrap(docs []Document) (*Wrapped, error) {
	w, err := w.settled(docs)
	if err != nil {
		return nil, err
	}
	out := &Wrapped{}
	object := &aw.AppWrapper{}
	object.Name, object.Namespace = w.Name, w.Namespace
	sets := make([][]aw.AppWrapperPodSet, len(docs))
	used := make([]bool, len(w.Declared))
	for i := range docs {
		data, err := json.Marshal(docs[i].Object.Object)
		if err != nil {
			return nil, fmt.Errorf("write %s: %w", docs[i].Title(), err)
		}
		sets[i] = w.declared(&docs[i], used)
		if len(sets[i]) == 0 {
			sets[i] = appwrapper.Declare(docs[i].Object.Object)
			for _, ps := range sets[i] {
				out.Notes = append(
					out.Notes,
					fmt.Sprintf(
						"%s: %d pods of %s are counted, as its field beside says",
						docs[i].Title(),
						*ps.Replicas,
						ps.Path,
					),
				)
			}
		}
		object.Spec.Components = append(
			object.Spec.Components,
			aw.AppWrapperComponent{Template: runtime.RawExtension{Raw: data}, DeclaredPodSets: sets[i]},
		)
	}
	for i, d := range w.Declared {
		if !used[i] {
			return nil, fmt.Errorf("--pod-set %s/%s: there is no such object in the files", d.Kind, d.Name)
		}
	}
	if errs := appwrapper.Validate(object); len(errs) > 0 {
		return nil, blame(docs, errs)
	}
	out.Notes = append(out.Notes, w.notes(docs)...)
	return out, out.write(w, docs, sets)
}

// settled fills in name, namespace and queue, or says how the objects contradict each other.
func (w Wrapper) settled(docs []Document) (Wrapper, error) {
	for i := range docs {
		d := &docs[i]
		o := d.Object
		if o.GetKind() == aw.AppWrapperKind && d.GVK().Group == aw.GroupVersion.Group {
			return w, d.failed("kind", "it is an AppWrapper already: take it out, or give the objects in it")
		}
		if err := agree(&w.Namespace, o.GetNamespace()); err != nil {
			return w, d.failed(
				"metadata.namespace",
				"an AppWrapper and what is in it are in one namespace: "+err.Error(),
			)
		}
		if err := agree(&w.Queue, o.GetLabels()[kueue.QueueNameLabel]); err != nil {
			return w, d.failed(
				"metadata.labels["+kueue.QueueNameLabel+"]",
				"an AppWrapper has one queue: "+err.Error(),
			)
		}
	}
	if w.Name == "" {
		w.Name = nameOf(docs)
	}
	for _, msg := range validation.IsDNS1123Label(w.Name) {
		return w, fmt.Errorf("the name %q of the AppWrapper: %s; give another with --name", w.Name, msg)
	}
	for _, msg := range validation.IsDNS1123Subdomain(cmp.Or(w.Queue, "a")) {
		return w, fmt.Errorf("the queue %q: %s", w.Queue, msg)
	}
	return w, nil
}

// agree takes a value where there is none, and refuses another one.
func agree(to *string, value string) error {
	if value == "" || value == *to {
		return nil
	}
	if *to != "" {
		return fmt.Errorf("%s here, and %s elsewhere", value, *to)
	}
	*to = value
	return nil
}

// nameOf is the name of the first object with pods, or of the first.
func nameOf(docs []Document) string {
	first := ""
	for i := range docs {
		o := docs[i].Object
		name := cmp.Or(o.GetName(), strings.TrimRight(o.GetGenerateName(), "-."))
		first = cmp.Or(first, name)
		if appwrapper.RunsPods(o.Object) && name != "" {
			first = name
			break
		}
	}
	return strings.TrimRight(first[:min(len(first), validation.DNS1123LabelMaxLength)], "-.")
}

func (d *Document) failed(path, text string) error {
	return strict.Failed(
		d.File,
		[]strict.Problem{{Position: d.At(path), Path: d.Title() + ": " + path, Text: text}},
	)
}

// declared are the pod sets that the author declares of an object.
func (w Wrapper) declared(d *Document, used []bool) []aw.AppWrapperPodSet {
	var out []aw.AppWrapperPodSet
	for i := range w.Declared {
		one := &w.Declared[i]
		if strings.EqualFold(one.Kind, d.Object.GetKind()) && one.Name == d.Object.GetName() {
			out = append(out, aw.AppWrapperPodSet{Path: one.Path, Replicas: &one.Replicas})
			used[i] = true
		}
	}
	return out
}

// component is where an error of an AppWrapper is in the object that was wrapped.
var component = regexp.MustCompile(`^spec\.components\[(\d+)\](?:\.template)?(?:\.(.*))?$`)

// blame says in which file, line and object each error is, and what helps on this command line.
func blame(docs []Document, errs field.ErrorList) error {
	var order, whole []string
	by := map[string][]strict.Problem{}
	never := map[string]bool{} // kinds that no declaration makes right
	for _, e := range errs {
		if at, is := strings.CutSuffix(e.Field, ".template.kind"); is {
			never[at] = true
		}
	}
	for _, e := range errs {
		if at, declared, _ := strings.Cut(e.Field, ".podSets"); never[at] && declared == "" && at != e.Field {
			continue
		}
		text := e.Detail
		if e.Type != field.ErrorTypeForbidden && e.Type != field.ErrorTypeRequired {
			text = e.ErrorBody()
		}
		m := component.FindStringSubmatch(e.Field)
		if m == nil { // of the whole, and often only because of what is wrong with its parts
			whole = append(whole, e.Field+": "+text)
			continue
		}
		i, err := strconv.Atoi(m[1])
		if err != nil || i >= len(docs) {
			return fmt.Errorf("%s: %s", e.Field, text)
		}
		d := &docs[i]
		if strings.HasPrefix(m[2], "podSets") {
			name := cmp.Or(d.Object.GetName(), "NAME")
			text += fmt.Sprintf("; here: --pod-set %s/%s:PATH=REPLICAS", d.Object.GetKind(), name)
		}
		if len(by[d.File]) == 0 {
			order = append(order, d.File)
		}
		by[d.File] = append(
			by[d.File],
			strict.Problem{Position: d.At(m[2]), Path: strings.TrimSuffix(d.Title()+": "+m[2], ": "), Text: text},
		)
	}
	var all []string
	for _, file := range order {
		all = append(all, strict.Failed(file, by[file]).Error())
	}
	if len(all) == 0 {
		all = whole
	}
	return fmt.Errorf("%s", strings.Join(all, "\n"))
}

// notes tell what may come as a surprise in a cluster, with its usual settings.
func (w Wrapper) notes(docs []Document) []string {
	var out []string
	allowed := map[string]bool{}
	for _, k := range kinds.All().Wrappable() {
		allowed[k.GVK.GroupKind().String()] = true
	}
	size := 0
	for i := range docs {
		if data, err := docs[i].Object.MarshalJSON(); err == nil {
			size += len(data)
		}
		if !allowed[docs[i].GVK().GroupKind().String()] {
			out = append(
				out,
				fmt.Sprintf("%s: teams may not wrap this kind: it takes your own right to create it", docs[i].Title()),
			)
		}
	}
	if len(docs) > v1beta2.DefaultMaxComponents {
		out = append(
			out,
			fmt.Sprintf(
				"%d objects: more than the %d that clusters take if nothing else is configured (tenants.maxComponents)",
				len(docs),
				v1beta2.DefaultMaxComponents,
			),
		)
	}
	if size > v1beta2.DefaultMaxJobSize {
		out = append(
			out,
			fmt.Sprintf(
				"%d bytes: more than the %d that clusters take if nothing else is configured (tenants.maxJobSize): keep data in volumes",
				size,
				v1beta2.DefaultMaxJobSize,
			),
		)
	}
	return out
}

// write fills in the object and its text. YAML as it was written is kept where it means the
// same inside: some of it cannot be moved.
func (out *Wrapped) write(w Wrapper, docs []Document, sets [][]aw.AppWrapperPodSet) error {
	metadata := map[string]any{"name": w.Name}
	if w.Namespace != "" {
		metadata["namespace"] = w.Namespace
	}
	if w.Queue != "" {
		metadata["labels"] = map[string]any{kueue.QueueNameLabel: w.Queue}
	}
	var components []any
	list := &yaml.Node{Kind: yaml.SequenceNode}
	for i := range docs {
		one := map[string]any{"template": docs[i].Object.Object}
		node := &yaml.Node{Kind: yaml.MappingNode}
		var declared []any
		for _, ps := range sets[i] {
			declared = append(declared, map[string]any{"path": ps.Path, "replicas": int64(*ps.Replicas)})
		}
		if len(declared) > 0 {
			one["podSets"] = declared
			node.Content = append(node.Content, plain("podSets"), encoded(declared))
		}
		node.Content = append(node.Content, plain("template"), docs[i].Node)
		components, list.Content = append(components, one), append(list.Content, node)
	}
	out.Object = &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": aw.GroupVersion.String(),
		"kind":       aw.AppWrapperKind,
		"metadata":   metadata,
		"spec":       map[string]any{"components": components},
	}}
	spec := &yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{plain("components"), list}}
	root := &yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{
		plain(
			"apiVersion",
		),
		plain(aw.GroupVersion.String()),
		plain("kind"),
		plain(aw.AppWrapperKind),
		plain("metadata"),
		encoded(metadata),
		plain("spec"),
		spec,
	}}
	text, err := textOf(root)
	if err == nil && reflect.DeepEqual(again(text), out.Object.Object) {
		out.Text = text
		return nil
	}
	out.Text, err = sigs.Marshal(out.Object.Object)
	if err != nil {
		return fmt.Errorf("write the AppWrapper: %w", err)
	}
	if !reflect.DeepEqual(again(out.Text), out.Object.Object) {
		return fmt.Errorf("the AppWrapper cannot be written in YAML: use -o json")
	}
	return nil
}

func encoded(v any) *yaml.Node {
	var n yaml.Node
	_ = n.Encode(v) // maps, lists, texts and numbers can be
	return &n
}

// textOf writes nodes; the encoder panics about some.
func textOf(root *yaml.Node) (text []byte, err error) {
	defer func() {
		if broken := recover(); broken != nil {
			err = fmt.Errorf("write YAML: %v", broken)
		}
	}()
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(root); err != nil {
		return nil, fmt.Errorf("write YAML: %w", err)
	}
	return b.Bytes(), nil
}

// again reads what was written; nil if it cannot be read.
func again(text []byte) map[string]any {
	docs, err := Read("", text)
	if err != nil || len(docs) != 1 {
		return nil
	}
	return slices.Clone(docs)[0].Object.Object
}
