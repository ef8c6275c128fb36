package views

import (
	"cmp"
	"encoding/json"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	viewapi "github.com/mlbatch/mlbatch/api/view/v1alpha1"
)

// watchEvery is how often what is watched is looked at, and timesLonger how many times longer than that took the
// pause is at least: one that watches tens of thousands of jobs takes no more than a tenth of a processor.
const (
	watchEvery  = time.Second
	timesLonger = 9
)

// event is one line of a watch.
type event struct {
	Type   watch.EventType `json:"type"`
	Object any             `json:"object"`
}

// change is a view that came, changed or went.
type change struct {
	as watch.EventType
	item
}

// watch writes all views that there are, and then every second those that came, changed or went, until the
// request ends. Views are not stored, so that no watch goes on from where another one ended.
func (h *Handler) watch(w http.ResponseWriter, r *http.Request, q *question) error {
	ctx, values := r.Context(), r.URL.Query()
	if from := values.Get("resourceVersion"); from != "" && from != "0" {
		return apierrors.NewResourceExpired("a watch of views begins with all that there are: ask without resourceVersion")
	}
	began := h.clock.Now()
	now, err := q.list(ctx)
	took := h.clock.Since(began)
	if err != nil {
		return err
	}
	var ends <-chan time.Time
	if n, err := strconv.ParseInt(values.Get("timeoutSeconds"), 10, 32); err == nil && n > 0 {
		ends = h.clock.After(time.Duration(n) * time.Second)
	}
	w.Header().Set("Content-Type", "application/json")
	out, line := http.NewResponseController(w), json.NewEncoder(w)
	known := map[types.NamespacedName]item{}
	for first := true; ; first = false {
		for _, c := range changes(known, now) {
			if line.Encode(event{c.as, q.formed(r, now.At, c.item)}) != nil {
				return nil // the client went away
			}
		}
		if first && values.Get("sendInitialEvents") == "true" {
			end := metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: viewapi.GroupVersion.String(), Kind: q.of.kind}}
			end.ResourceVersion, end.Annotations = "0", map[string]string{metav1.InitialEventsAnnotationKey: "true"}
			_ = line.Encode(event{watch.Bookmark, end}) // a client that went away needs no answer
		}
		if out.Flush() != nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ends:
			return nil
		case <-h.clock.After(max(watchEvery, timesLonger*took)):
		}
		began = h.clock.Now()
		if now, err = q.list(ctx); err != nil {
			status := apierrors.NewInternalError(err).Status()
			_ = line.Encode(event{watch.Error, status}) // a client that went away needs no answer
			return nil
		}
		took = h.clock.Since(began)
	}
}

// formed is a view in the form that the client wants.
func (q *question) formed(r *http.Request, at metav1.Time, v item) any {
	if !wantsTable(r) {
		return v
	}
	return q.of.table(&list{At: at, Items: []item{v}})
}

// changes lead from the views that are known to those that there are now, which are then known.
func changes(known map[types.NamespacedName]item, now *list) (out []change) {
	there := make(map[types.NamespacedName]bool, len(now.Items))
	for _, is := range now.Items {
		key := types.NamespacedName{Namespace: is.meta.Namespace, Name: is.meta.Name}
		there[key] = true
		was, before := known[key]
		switch {
		case !before:
			out = append(out, change{watch.Added, is})
		case was.meta.UID != is.meta.UID:
			out = append(out, change{watch.Deleted, was}, change{watch.Added, is})
		case !reflect.DeepEqual(was.tells, is.tells):
			out = append(out, change{watch.Modified, is})
		default:
			continue
		}
		known[key] = is
	}
	var gone []change
	for key, was := range known { // sorted below
		if !there[key] {
			gone = append(gone, change{watch.Deleted, was})
			delete(known, key)
		}
	}
	slices.SortFunc(gone, func(a, b change) int {
		return cmp.Or(cmp.Compare(a.meta.Namespace, b.meta.Namespace), cmp.Compare(a.meta.Name, b.meta.Name))
	})
	return append(out, gone...)
}
