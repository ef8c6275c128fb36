package view_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/mlbatch/mlbatch/internal/view"
)

// TestFieldsOfViewsSayWhatTheyMean: whoever reads a view, or asks kubectl explain, is told of every field.
func TestFieldsOfViewsSayWhatTheyMean(t *testing.T) {
	docs := view.FieldDocs()
	for _, of := range []reflect.Type{reflect.TypeFor[view.Job](), reflect.TypeFor[view.JobView](), reflect.TypeFor[view.JobViewList]()} {
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
	job := filled(t)
	list := &view.JobViewList{Unread: []string{"pods"}, Items: []view.JobView{view.ViewOf(&job)}}
	list.Items[0].Labels = map[string]string{"a": "b"}
	again, is := list.DeepCopyObject().(*view.JobViewList)
	if !is || !reflect.DeepEqual(again, list) {
		t.Fatalf("%+v, want %+v", again, list)
	}
	shared(t, "JobViewList", reflect.ValueOf(list).Elem(), reflect.ValueOf(again).Elem())
}

// filled is a job with something in every field.
func filled(t *testing.T) (job view.Job) {
	t.Helper()
	v := reflect.ValueOf(&job).Elem()
	for i := range v.NumField() {
		switch f := v.Field(i); f.Kind() {
		case reflect.Pointer:
			f.Set(reflect.New(f.Type().Elem()))
		case reflect.Map:
			f.Set(reflect.ValueOf(map[string]int64{"mig-1g.5gb": 1}))
		case reflect.Slice:
			f.Set(reflect.ValueOf([]string{"node-1"}))
		default:
		}
	}
	return job
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
