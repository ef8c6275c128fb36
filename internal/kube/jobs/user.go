package jobs

import (
	"cmp"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	history "github.com/mlbatch/mlbatch/api/history/v1alpha1"
)

// UserLabel of an object is who submitted it, as far as a label can say that. The webhooks
// write it, whatever its author wrote there. A name that no label can hold, such as that of
// a service account, is in an annotation of the same name.
const UserLabel = history.UserAnnotation

// User is who submitted an object, "" where nobody knows. k is its kind, which may have a
// label of its own for it, from before there was one for all; it may be nil. An annotation
// that no label goes with is that of a template (see NoteUser): wherever an author may not write
// the label, there may be no such annotation.
func User(k *Kind, o metav1.Object) string {
	label, name := o.GetLabels()[UserLabel], o.GetAnnotations()[UserLabel]
	if name != "" && LabelValue(name) == label {
		return name
	}
	if label == "" && k != nil && k.Admission.UserLabel != "" {
		return o.GetLabels()[k.Admission.UserLabel]
	}
	return cmp.Or(label, name)
}

// UserEntries are the label and the annotation that say who submitted an object, "" for
// what there is none of.
func UserEntries(name string) (label, annotation string) {
	if label = LabelValue(name); label != name {
		annotation = name
	}
	return label, annotation
}

// SetUser writes down who submitted an object; "" says that nobody knows.
func SetUser(o metav1.Object, name string) {
	label, annotation := UserEntries(name)
	o.SetLabels(entry(o.GetLabels(), label))
	o.SetAnnotations(entry(o.GetAnnotations(), annotation))
}

// NoteUser writes it down in a template whose labels are compared with labels that others know: as
// an annotation alone. Pods are given the label as they are made.
func NoteUser(o metav1.Object, name string) {
	o.SetLabels(entry(o.GetLabels(), ""))
	o.SetAnnotations(entry(o.GetAnnotations(), name))
}

// KeepUser leaves in an object who submitted it, as it was before a change.
func KeepUser(was, is metav1.Object) {
	is.SetLabels(entry(is.GetLabels(), was.GetLabels()[UserLabel]))
	is.SetAnnotations(entry(is.GetAnnotations(), was.GetAnnotations()[UserLabel]))
}

// entry is a map with this value for the user, "" for none.
func entry(in map[string]string, value string) map[string]string {
	if value == "" {
		delete(in, UserLabel)
		return in
	}
	if in == nil {
		in = map[string]string{}
	}
	in[UserLabel] = value
	return in
}

// LabelValue makes a legal label value of any text.
func LabelValue(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_', r == '.':
			return r
		}
		return '_'
	}, s)
	if len(s) > validation.LabelValueMaxLength {
		s = s[:validation.LabelValueMaxLength]
	}
	return strings.Trim(s, "-_.")
}
