package trim

import (
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// message says which fields of a message in the wire form of protocol buffers are kept. All are, where
// nothing else is said.
type message struct {
	// only are the fields that are kept; nil keeps all but those of without.
	only, without []protowire.Number
	// in says for fields that are messages themselves what is kept of them.
	in map[protowire.Number]*message
	// choose, if not nil, says what is kept of one message, instead of what is above.
	choose func(in []byte) *message
}

// appendKept appends to out what is kept of a message. It fails if that is not the wire form of one.
func (m *message) appendKept(out, in []byte) ([]byte, error) {
	if m.choose != nil {
		m = m.choose(in)
	}
	for f, err := range fieldsOf(in) {
		if err != nil {
			return nil, err
		}
		inner := m.in[f.number]
		switch {
		case slices.Contains(m.without, f.number), m.only != nil && !slices.Contains(m.only, f.number):
		case inner != nil && f.kind == protowire.BytesType:
			out = append(out, f.whole[:f.tag]...)
			at := len(out)
			if out, err = inner.appendKept(out, f.bytes()); err != nil {
				return nil, err
			}
			var size [10]byte
			length := protowire.AppendVarint(size[:0], uint64(len(out)-at)) //nolint:gosec // out has only grown
			out = slices.Insert(out, at, length...)
		default:
			out = append(out, f.whole...)
		}
	}
	return out, nil
}

// field is one of a message in the wire form.
type field struct {
	number protowire.Number
	kind   protowire.Type
	// whole is all of it, of which the first tag bytes say what it is.
	whole []byte
	tag   int
}

// bytes are the message or the text that the field is.
func (f field) bytes() []byte {
	out, _ := protowire.ConsumeBytes(f.whole[f.tag:]) // it was read before
	return out
}

// fieldsOf are the fields of a message. They end with an error where in is not the wire form of one.
func fieldsOf(in []byte) iter.Seq2[field, error] {
	return func(yield func(field, error) bool) {
		for len(in) > 0 {
			f := field{}
			f.number, f.kind, f.tag = protowire.ConsumeTag(in)
			size := f.tag
			if size > 0 {
				if size = protowire.ConsumeFieldValue(f.number, f.kind, in[f.tag:]); size >= 0 {
					size += f.tag
				}
			}
			if size < 0 {
				yield(field{}, protowire.ParseError(size))
				return
			}
			f.whole, in = in[:size], in[size:]
			if !yield(f, nil) {
				return
			}
		}
	}
}

// last is the last field of a number, which must be a message or a text; nil if there is none. It fails if
// in is not the wire form of such a message.
func last(in []byte, number protowire.Number) ([]byte, error) {
	var out []byte
	for one, err := range each(in, number) {
		if err != nil {
			return nil, err
		}
		out = one
	}
	return out, nil
}

// errKind says that a field is neither a message nor a text.
var errKind = errors.New("of another wire type")

// each are the fields of a number, which must be messages or texts. It ends with an error where in is not the
// wire form of such a message.
func each(in []byte, number protowire.Number) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for f, err := range fieldsOf(in) {
			if err == nil && f.number != number {
				continue
			}
			if err == nil && f.kind != protowire.BytesType {
				err = errKind
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(f.bytes(), nil) {
				return
			}
		}
	}
}

// drop keeps all but the fields at some paths of names, such as "spec.volumes", of a message of a type.
func (m *message) drop(t reflect.Type, paths ...string) *message {
	for _, path := range paths {
		in, field := m.at(t, path)
		in.without = append(in.without, field)
	}
	return m
}

// keep keeps of the message at a path these fields alone.
func (m *message) keep(t reflect.Type, path string, names ...string) {
	for _, name := range names {
		in, field := m.at(t, path+"."+name)
		in.only = append(in.only, field)
	}
}

// at is the message that has the field at a path, and the number of that field. It panics if
// there is none: paths are written in this package alone.
func (m *message) at(t reflect.Type, path string) (*message, protowire.Number) {
	name, rest, deeper := strings.Cut(path, ".")
	field, of := number(t, name)
	if !deeper {
		return m, field
	}
	if m.in == nil {
		m.in = map[protowire.Number]*message{}
	}
	if m.in[field] == nil {
		m.in[field] = &message{}
	}
	return m.in[field].at(of, rest)
}

// number is that of a field in the wire form, and the type of its messages.
func number(t reflect.Type, name string) (protowire.Number, reflect.Type) {
	for f := range t.Fields() {
		said := strings.Split(f.Tag.Get("protobuf"), ",")
		if len(said) < 2 || !slices.Contains(said, "name="+name) {
			continue
		}
		n, err := strconv.ParseInt(said[1], 10, 32)
		if err != nil {
			panic(fmt.Sprintf("number of %s.%s: %v", t, name, err))
		}
		of := f.Type
		for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
			of = of.Elem()
		}
		return protowire.Number(n), of
	}
	panic(fmt.Sprintf("%s has no field %s", t, name))
}

// nodeShape is what objects.go keeps of nodes, in the wire form.
func nodeShape() shape {
	return shapeOf("Node", (&message{}).drop(
		reflect.TypeFor[corev1.Node](),
		"metadata.managedFields",
		"status.images",
		"status.volumesInUse",
		"status.volumesAttached",
		"status.nodeInfo",
		"status.runtimeHandlers",
	))
}

// podShape is what objects.go keeps of pods: nearly all of pods that are queued by themselves or in groups.
func podShape() shape {
	t := reflect.TypeFor[corev1.Pod]()
	queued := (&message{}).drop(t, "metadata.managedFields")
	other := (&message{}).drop(t, "metadata.managedFields",
		"spec.volumes", "spec.imagePullSecrets", "spec.hostAliases", "spec.dnsConfig", "spec.readinessGates",
		"spec.securityContext", "spec.ephemeralContainers", "spec.tolerations", "status.ephemeralContainerStatuses")
	ofContainers(other, "name", "image", "ports", "restartPolicy", "resources")
	for _, statuses := range []string{"status.initContainerStatuses", "status.containerStatuses"} {
		other.drop(t, statuses+".volumeMounts", statuses+".imageID", statuses+".containerID", statuses+".user")
	}
	by := labelFields()
	return shapeOf("Pod", &message{choose: func(p []byte) *message {
		if by.queued(p) {
			return queued
		}
		return other
	}})
}

// schedulerShape is what a scheduler reads of pods: all of those that have no node, since it decides by them,
// and of others what they use of their node and what their neighbours are compared with. Once the gate
// InPlacePodVerticalScalingSchedulerPreemption (alpha in 1.37) is on by default, pods whose resize is deferred have to
// keep their tolerations, securityContext and plain volumes as well: room is made for them by preemption.
func schedulerShape() shape {
	t := reflect.TypeFor[corev1.Pod]()
	waiting := (&message{}).drop(t, "metadata.managedFields")
	bound := (&message{}).drop(
		t,
		"metadata.managedFields",
		"spec.imagePullSecrets",
		"spec.hostAliases",
		"spec.dnsConfig",
		"spec.readinessGates",
		"spec.securityContext",
		"spec.ephemeralContainers",
		"spec.tolerations",
		"status.hostIP",
		"status.hostIPs",
		"status.podIP",
		"status.podIPs",
		"status.ephemeralContainerStatuses",
	)
	ofContainers(bound, "name", "ports", "restartPolicy", "resizePolicy", "resources")
	for _, statuses := range []string{"status.initContainerStatuses", "status.containerStatuses"} {
		bound.keep(t, statuses, "name", "allocatedResources", "resources") // of what was resized in place
	}
	spec, of := number(t, "spec")
	node, _ := number(of, "nodeName")
	return shapeOf("Pod", &message{choose: func(p []byte) *message {
		for in, err := range each(p, spec) {
			if err != nil {
				return waiting
			}
			if name, err := last(in, node); err == nil && len(name) > 0 {
				return bound
			}
		}
		return waiting
	}})
}

// ofContainers keeps some fields of the containers of a pod.
func ofContainers(pod *message, names ...string) {
	for _, containers := range []string{"spec.initContainers", "spec.containers"} {
		pod.keep(reflect.TypeFor[corev1.Pod](), containers, names...)
	}
}

// labelled are the fields by which the labels of a pod are found.
type labelled struct{ metadata, labels protowire.Number }

func labelFields() labelled {
	metadata, of := number(reflect.TypeFor[corev1.Pod](), "metadata")
	labels, _ := number(of, "labels")
	return labelled{metadata, labels}
}

// Fields of the entries of maps.
const (
	entryKey   = 1
	entryValue = 2
)

// queued reports whether a pod in its wire form has the label of pods that the webhook has taken in.
// What cannot be read is taken for queued: then nothing is missing.
func (l labelled) queued(p []byte) bool {
	is := false
	for metadata, err := range each(p, l.metadata) {
		if err != nil {
			return true
		}
		for label, err := range each(metadata, l.labels) {
			if err != nil {
				return true
			}
			key, errOfKey := last(label, entryKey)
			value, errOfValue := last(label, entryValue)
			if errOfKey != nil || errOfValue != nil {
				return true
			}
			if string(key) == kueue.ManagedLabel {
				is = string(value) == "true"
			}
		}
	}
	return is
}
