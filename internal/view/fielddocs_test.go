package view_test

import (
	"reflect"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/mlbatch/mlbatch/internal/view"
)

// TestFieldsOfViewsSayWhatTheyMean: whoever reads a view, or asks kubectl explain, is told of every field.
func TestFieldsOfViewsSayWhatTheyMean(t *testing.T) {
	docs := view.FieldDocs()
	for _, of := range []reflect.Type{
		reflect.TypeFor[view.Job](), reflect.TypeFor[view.JobView](), reflect.TypeFor[view.JobViewList](),
		reflect.TypeFor[view.Node](), reflect.TypeFor[view.NodeView](), reflect.TypeFor[view.NodeViewList](),
		reflect.TypeFor[view.Queue](), reflect.TypeFor[view.QueueView](), reflect.TypeFor[view.QueueViewList](),
		reflect.TypeFor[view.LocalQueueView](), reflect.TypeFor[view.LocalQueueViewList](), reflect.TypeFor[view.Share](),
		reflect.TypeFor[view.Team](), reflect.TypeFor[view.TeamView](), reflect.TypeFor[view.TeamViewList](), reflect.TypeFor[view.Answer](),
	} {
		for f := range of.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name == "" || name == "-" {
				continue
			}
			if docs[of.Name()][name] == "" {
				t.Errorf("nothing says what %s of %s is", name, of.Name())
			}
		}
	}
	if got := docs["Job"]["queue"]; !strings.Contains(got, "LocalQueue") {
		t.Errorf("of queue is said %q", got)
	}
}

// TestCopiesOfViewsShareNothing: what is done to a copy is not done to the view.
func TestCopiesOfViewsShareNothing(t *testing.T) {
	job, node, queue, team := filled[view.Job](), filled[view.Node](), filled[view.Queue](), filled[view.Team]()
	unread := func() view.Answer { return view.Answer{Unread: []string{"pods"}} }
	meta := metav1.ObjectMeta{Labels: map[string]string{"a": "b"}}
	for _, list := range []runtime.Object{
		&view.JobViewList{Answer: unread(), Items: []view.JobView{{ObjectMeta: *meta.DeepCopy(), Job: job}}},
		&view.NodeViewList{Answer: unread(), Items: []view.NodeView{{ObjectMeta: *meta.DeepCopy(), Node: node}}},
		&view.QueueViewList{Answer: unread(), Items: []view.QueueView{{ObjectMeta: *meta.DeepCopy(), Queue: queue}}},
		&view.LocalQueueViewList{Answer: unread(), Items: []view.LocalQueueView{{ObjectMeta: *meta.DeepCopy(), Queue: queue}}},
		&view.TeamViewList{Answer: unread(), Items: []view.TeamView{{ObjectMeta: *meta.DeepCopy(), Team: team}}},
	} {
		again := list.DeepCopyObject()
		if !reflect.DeepEqual(again, list) {
			t.Fatalf("%+v, want %+v", again, list)
		}
		shared(t, reflect.TypeOf(list).Elem().Name(), reflect.ValueOf(list).Elem(), reflect.ValueOf(again).Elem())
	}
}

// filled has something in every field that refers to something.
func filled[T any]() (out T) {
	v := reflect.ValueOf(&out).Elem()
	for _, f := range v.Fields() {
		switch f.Kind() {
		case reflect.Pointer:
			f.Set(reflect.New(f.Type().Elem()))
		case reflect.Map:
			f.Set(reflect.ValueOf(map[string]int64{"mig-1g.5gb": 1}))
		case reflect.Slice:
			if f.Type() == reflect.TypeFor[[]view.Share]() {
				f.Set(reflect.ValueOf([]view.Share{{Flavor: "h100"}}))
				continue
			}
			f.Set(reflect.ValueOf([]string{"node-1"}))
		default:
		}
	}
	return out
}

// shared finds what two values both refer to.
func shared(t *testing.T, path string, a, b reflect.Value) {
	t.Helper()
	switch a.Kind() {
	case reflect.Pointer, reflect.Map, reflect.Slice:
		if !a.IsNil() && a.Pointer() == b.Pointer() {
			t.Errorf("%s is shared", path)
		}
		if a.Kind() == reflect.Slice {
			for i := range a.Len() {
				shared(t, path, a.Index(i), b.Index(i))
			}
		}
	case reflect.Struct:
		for i := range a.NumField() {
			if f := a.Type().Field(i); f.IsExported() {
				shared(t, path+"."+f.Name, a.Field(i), b.Field(i))
			}
		}
	default:
	}
}
