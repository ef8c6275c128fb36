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

	"github.com/mlbatch/mlbatch/internal/engine/nodehealth"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
)

// storedInventory is the inventory as it is stored.
type storedInventory struct {
	inventory nodehealth.Inventory
	exists    bool
	// torn are keys whose values could not be read, sorted. They are left alone
	// unless the node is there and can be written anew.
	torn []string
}

// record is the value of one key of the ConfigMap.
type record struct {
	Flavors  []string            `json:"flavors"`
	Capacity corev1.ResourceList `json:"capacity"`
}

func (r *reconciler) readInventory(ctx context.Context) (storedInventory, error) {
	b := storedInventory{inventory: nodehealth.Inventory{}}
	m := &corev1.ConfigMap{}
	err := r.inventories.Get(ctx, client.ObjectKey{Namespace: r.options.Namespace, Name: InventoryName}, m)
	if apierrors.IsNotFound(err) {
		return b, nil
	}
	if err != nil {
		return storedInventory{}, fmt.Errorf("read ConfigMap %s/%s: %w", r.options.Namespace, InventoryName, err)
	}
	b.exists = true
	for _, node := range slices.Sorted(maps.Keys(m.Data)) {
		entry, err := decode(m.Data[node])
		if err != nil {
			b.torn = append(b.torn, node)
			continue
		}
		b.inventory[node] = entry
	}
	return b, nil
}

// writeInventory stores what changed in the inventory and touches no other key, so
// that an admin's removal of another key is not undone.
func (r *reconciler) writeInventory(
	ctx context.Context,
	about client.Object,
	old storedInventory,
	now nodehealth.Inventory,
) error {
	r.tellTorn(about, old, now)
	if old.inventory.Equal(now) {
		return nil
	}
	target := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.options.Namespace, Name: InventoryName},
	}
	data, err := inventoryChanges(old.inventory, now)
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

// inventoryChanges maps the nodes whose entries differ to their new values, nil for
// entries that were struck out.
func inventoryChanges(old, now nodehealth.Inventory) (map[string]*string, error) {
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

func (r *reconciler) tellTorn(about client.Object, old storedInventory, now nodehealth.Inventory) {
	torn := slices.DeleteFunc(slices.Clone(old.torn), func(node string) bool {
		_, mended := now[node]
		return mended
	})
	repeated := slices.Equal(torn, r.toldTorn)
	r.toldTorn = torn
	if len(torn) == 0 || repeated {
		return
	}
	r.recorder.Eventf(
		about,
		nil,
		corev1.EventTypeWarning,
		"LedgerUnreadable",
		"ReadLedger",
		"%s",
		fit(
			fmt.Sprintf(
				"Cannot read the entries of ConfigMap %s/%s for nodes %s, which do not exist: remove these keys, or write them as %s",
				r.options.Namespace,
				InventoryName,
				strings.Join(torn, ", "),
				`{"flavors":["NAME"],"capacity":{"nvidia.com/gpu":"8"}}`,
			),
		),
	)
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
