package views

import (
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// wantsTable reports whether a client wants a table, as kubectl get does.
func wantsTable(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept"), "as=Table")
}

// table is a list as kubectl prints it.
func (of *resource) table(l *list) *metav1.Table {
	out := &metav1.Table{
		TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "Table"}, ListMeta: l.ListMeta,
		ColumnDefinitions: of.columns, Rows: make([]metav1.TableRow, len(l.Items)),
	}
	for i, v := range l.Items {
		out.Rows[i] = metav1.TableRow{
			Cells: v.cells(l.At),
			Object: runtime.RawExtension{Object: &metav1.PartialObjectMetadata{
				TypeMeta: metav1.TypeMeta{
					APIVersion: "meta.k8s.io/v1",
					Kind:       "PartialObjectMetadata",
				},
				ObjectMeta: *v.meta,
			}},
		}
	}
	return out
}
