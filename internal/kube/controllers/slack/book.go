package slack

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/engine/nodehealth"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
)

// book is the ledger as it is stored.
type book struct {
	ledger nodehealth.Ledger
	exists bool
	// torn are keys whose values could not be read, sorted. They are left alone
	// unless the node is there and can be written anew.
	torn []string
}

// record is the value of one key of the ConfigMap.
type record struct {
	Flavors  []string            `json:"flavors"`
	Capacity corev1.ResourceList `json:"capacity"`
}

func (r *reconciler) readBook(ctx context.Context) (book, error) {
	b := book{ledger: nodehealth.Ledger{}}
	m := &corev1.ConfigMap{}
	err := r.ledgers.Get(ctx, client.ObjectKey{Namespace: r.options.Namespace, Name: LedgerName}, m)
	if apierrors.IsNotFound(err) {
		return b, nil
	}
	if err != nil {
		return book{}, fmt.Errorf("read ConfigMap %s/%s: %w", r.options.Namespace, LedgerName, err)
	}
	b.exists = true
	for _, node := range slices.Sorted(maps.Keys(m.Data)) {
		entry, err := decode(m.Data[node])
		if err != nil {
			b.torn = append(b.torn, node)
			continue
		}
		b.ledger[node] = entry
	}
	return b, nil
}

// writeBook stores what changed in the ledger and touches no other key, so
// that an admin's removal of another key is not undone.
func (r *reconciler) writeBook(ctx context.Context, queue *kueue.ClusterQueue, old book, now nodehealth.Ledger) error {
	r.tellTorn(queue, old, now)
	if old.ledger.Equal(now) {
		return nil
	}
	target := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: r.options.Namespace, Name: LedgerName}}
	data, err := bookChanges(old.ledger, now)
	if err != nil {
		return fmt.Errorf("compose ConfigMap %s/%s: %w", target.Namespace, target.Name, err)
	}
	if !old.exists {
		target.Data = map[string]string{}
		for node, value := range data {
			target.Data[node] = *value
		}
		if err := r.client.Create(ctx, target, owner); err != nil {
			return fmt.Errorf("create ConfigMap %s/%s: %w", target.Namespace, target.Name, err)
		}
		return nil
	}
	patch, err := json.Marshal(map[string]any{"data": data})
	if err != nil {
		return fmt.Errorf("compose ConfigMap %s/%s: %w", target.Namespace, target.Name, err)
	}
	if err := r.client.Patch(ctx, target, client.RawPatch(types.MergePatchType, patch), owner); err != nil {
		return fmt.Errorf("update ConfigMap %s/%s: %w", target.Namespace, target.Name, err)
	}
	return nil
}

// bookChanges maps the nodes whose entries differ to their new values, nil for
// those that were struck out.
func bookChanges(old, now nodehealth.Ledger) (map[string]*string, error) {
	data := map[string]*string{}
	for node, entry := range now {
		if was, ok := old[node]; ok && was.Equal(entry) {
			continue
		}
		value, err := encode(entry)
		if err != nil {
			return nil, fmt.Errorf("entry of node %s: %w", node, err)
		}
		data[node] = &value
	}
	for node := range old {
		if _, ok := now[node]; !ok {
			data[node] = nil
		}
	}
	return data, nil
}

func (r *reconciler) tellTorn(queue *kueue.ClusterQueue, old book, now nodehealth.Ledger) {
	torn := slices.DeleteFunc(slices.Clone(old.torn), func(node string) bool {
		_, mended := now[node]
		return mended
	})
	repeated := slices.Equal(torn, r.toldTorn)
	r.toldTorn = torn
	if len(torn) == 0 || repeated {
		return
	}
	r.recorder.Eventf(queue, nil, corev1.EventTypeWarning, "LedgerUnreadable", "ReadLedger", "%s",
		fit(fmt.Sprintf("Cannot read the entries of ConfigMap %s/%s for nodes %s, which do not exist: remove these keys, or write them as %s",
			r.options.Namespace, LedgerName, strings.Join(torn, ", "), `{"flavors":["NAME"],"capacity":{"nvidia.com/gpu":"8"}}`)))
}

func encode(e nodehealth.Entry) (string, error) {
	value, err := json.Marshal(record{Flavors: e.Flavors, Capacity: convert.ResourceList(e.Capacity)})
	return string(value), err
}

func decode(value string) (nodehealth.Entry, error) {
	var r record
	if err := json.Unmarshal([]byte(value), &r); err != nil {
		return nodehealth.Entry{}, err
	}
	slices.Sort(r.Flavors)
	return nodehealth.Entry{Flavors: r.Flavors, Capacity: convert.Resources(r.Capacity)}, nil
}
