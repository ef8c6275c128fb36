package views

import (
	"cmp"
	"net/http"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/mlbatch/mlbatch/internal/view"
)

// table reports whether a client wants a table, as kubectl get does.
func table(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept"), "as=Table")
}

// shownAs is a list in the form that the client wants.
func shownAs(r *http.Request, l *view.JobViewList, err error) (any, error) {
	if err != nil || !table(r) {
		return l, err
	}
	return tableOf(l), nil
}

// tableOf is a list as kubectl prints it.
func tableOf(l *view.JobViewList) *metav1.Table {
	out := &metav1.Table{
		TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "Table"}, ListMeta: l.ListMeta,
		ColumnDefinitions: []metav1.TableColumnDefinition{
			{Name: "Name", Type: "string", Format: "name", Description: "kind and name of the job"},
			{Name: "Queue", Type: "string", Description: "LocalQueue that it names"},
			{Name: "State", Type: "string", Description: "what it does"},
			{Name: "Pods", Type: "string", Description: "how many run, of how many"},
			{Name: "GPUs", Type: "integer", Description: "how many GPUs it has or asks for"},
			{Name: "Age", Type: "string", Description: "time since it was created"},
			{Name: "Why", Type: "string", Description: "why it waits, or what is wrong with it"},
		},
		Rows: make([]metav1.TableRow, len(l.Items)),
	}
	for i := range l.Items {
		v := &l.Items[i]
		j := &v.Job
		why := cmp.Or(j.Trouble, strings.TrimSuffix(j.Reason+": "+j.Message, ": "))
		if j.State == view.Running {
			why = j.Trouble
		}
		out.Rows[i] = metav1.TableRow{
			Cells: []any{
				v.Name, j.Queue, string(j.State), strconv.Itoa(j.Running) + "/" + strconv.Itoa(j.Pods), j.GPUs,
				duration.HumanDuration(max(l.At.Sub(v.CreationTimestamp.Time), 0)), why,
			},
			Object: runtime.RawExtension{Object: &metav1.PartialObjectMetadata{
				TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata"}, ObjectMeta: v.ObjectMeta,
			}},
		}
	}
	return out
}
