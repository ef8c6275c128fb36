package trim

import (
	"bytes"
	"errors"
	"slices"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
)

// shape is what is kept of the objects of a kind.
type shape struct {
	kind string
	// one is what is kept of an object as it is sent, many of a list.
	one, many *message
}

// shapeOf is the shape of a kind of which so much is kept of each object.
func shapeOf(kind string, object *message) shape {
	sent := func(raw *message) *message { return &message{in: map[protowire.Number]*message{unknownRaw: raw}} }
	return shape{
		kind: kind,
		one:  sent(object),
		many: sent(&message{in: map[protowire.Number]*message{listItems: object}}),
	}
}

// negotiated are the serializers of another one, of which that of protocol buffers cuts objects to
// their shape before it decodes them.
type negotiated struct {
	runtime.NegotiatedSerializer
	shape shape
	// spaces are where objects are cut. Decoding copies what it keeps.
	spaces *sync.Pool
}

// cutTo has the serializers of client-go cut objects.
func cutTo(s shape) negotiated {
	return negotiated{scheme.Codecs.WithoutConversion(), s, &sync.Pool{New: func() any { return new([]byte) }}}
}

// SupportedMediaTypes are those of the other one.
func (n negotiated) SupportedMediaTypes() []runtime.SerializerInfo {
	all := slices.Clone(n.NegotiatedSerializer.SupportedMediaTypes()) // theirs are those of all clients
	for i := range all {
		if all[i].MediaType == runtime.ContentTypeProtobuf {
			all[i].Serializer = cutting{all[i].Serializer, n.shape, n.spaces}
		}
	}
	return all
}

// cutting is a serializer that cuts what it decodes.
type cutting struct {
	runtime.Serializer
	shape  shape
	spaces *sync.Pool
}

// Decode decodes what is kept of an object. What is of another kind, or cannot be read, is given
// to the serializer as it came.
func (c cutting) Decode(
	data []byte,
	defaults *schema.GroupVersionKind,
	into runtime.Object,
) (runtime.Object, *schema.GroupVersionKind, error) {
	space, _ := c.spaces.Get().(*[]byte)
	defer func() {
		if cap(*space) <= largestSpace {
			c.spaces.Put(space)
		}
	}()
	if less, err := c.shape.cut((*space)[:0], data); err == nil {
		data, *space = less, less
	}
	return c.Serializer.Decode(data, defaults, into)
}

// largestSpace, in bytes, is what is kept for the next object: lists take far more.
const largestSpace = 1 << 20

// magic precedes every object that the API server sends in protocol buffers; then comes a
// [runtime.Unknown].
// https://kubernetes.io/docs/reference/using-api/api-concepts/#protobuf-encoding
const magic = "k8s\x00"

// Fields of [runtime.Unknown], of its type, and of lists.
const (
	unknownType = 1
	unknownRaw  = 2
	typeKind    = 2
	listItems   = 2
)

// errOther says that data is not what is cut here.
var errOther = errors.New("of another kind")

// cut appends to out an object, or a list of them, without what is not kept. It fails for what is of
// another kind or is not what the API server sends.
func (s shape) cut(out, data []byte) ([]byte, error) {
	unknown, is := bytes.CutPrefix(data, []byte(magic))
	if !is {
		return nil, errOther
	}
	about, err := last(unknown, unknownType)
	if err != nil {
		return nil, err
	}
	kind, err := last(about, typeKind)
	if err != nil {
		return nil, err
	}
	kept := s.one
	switch string(kind) {
	case s.kind:
	case s.kind + "List":
		kept = s.many
	default:
		return nil, errOther
	}
	return kept.appendKept(append(out, magic...), unknown)
}
