package leaderworkerset

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/rand"

	api "github.com/mlbatch/mlbatch/api/leaderworkerset/v1"
)

// Hash is what a template is called by: its record is named, and all that is made of it
// is labelled, with it. It is the original's where a template is what the original knows
// of one, so that whoever computes that finds the pods of the newest template, and a
// fingerprint where there is more to it: a queue, topologies.
func (t *Template) Hash() string { return t.key }

// fingerprint tells a template from others by all that it says.
func (t *Template) fingerprint() string {
	text, err := json.Marshal(t)
	if err != nil {
		return "" // API types can be written
	}
	return fingerprint(string(text), hashLength)
}

// revisionKey is what the original calls the template of a set: 32 bits of the set's
// templates and network, as they are written.
func revisionKey(l *api.LeaderWorkerSet) string {
	network := map[string]any{"subdomainPolicy": api.SharedSubdomain}
	if n := l.Spec.NetworkConfig; n != nil {
		network["subdomainPolicy"] = nil
		if n.SubdomainPolicy != "" {
			network["subdomainPolicy"] = n.SubdomainPolicy
		}
	}
	var template map[string]any
	text, err := json.Marshal(l.Spec.LeaderWorkerTemplate)
	if err == nil {
		err = json.Unmarshal(text, &template)
	}
	if err != nil {
		return "" // API types can be written
	}
	claims, _ := template["volumeClaimTemplates"].([]any)
	for _, c := range claims {
		if c, ok := c.(map[string]any); ok {
			c["status"] = map[string]any{} // the original writes whole claims
		}
	}
	template["$patch"], network["$patch"] = "replace", "replace"
	text, err = json.Marshal(
		map[string]any{"spec": map[string]any{"leaderWorkerTemplate": template, "networkConfig": network}},
	)
	if err != nil {
		return ""
	}
	sum := fnv.New32()
	_, _ = sum.Write(text) // it never fails
	return rand.SafeEncodeString(fmt.Sprint(sum.Sum32()))
}

// RevisionName names the record of a template.
func RevisionName(name, hash string) string { return name + "-" + hash }

// revision is the record of a template.
func revision(l *api.LeaderWorkerSet, t *Template, number int64) (*appsv1.ControllerRevision, error) {
	text, err := json.Marshal(t)
	if err != nil {
		return nil, fmt.Errorf("record the template of %s: %w", l.Name, err)
	}
	hash := t.Hash()
	return &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       l.Namespace,
			Name:            RevisionName(l.Name, hash),
			Labels:          map[string]string{api.NameLabel: l.Name, api.RevisionLabel: hash},
			OwnerReferences: ownedBy(l, GVK().GroupVersion().String(), api.Kind),
		},
		Data: runtime.RawExtension{Raw: text}, Revision: number,
	}, nil
}

// Recorded reads the record of a template.
func Recorded(r *appsv1.ControllerRevision) (*Template, error) {
	t := &Template{key: revisionOf(r)}
	if err := json.Unmarshal(r.Data.Raw, t); err != nil {
		return nil, fmt.Errorf("read revision %s: %w", r.Name, err)
	}
	return t, nil
}

// recorded is a template under the name by which it is recorded already, if it is: groups
// stay that are what it says, whatever it would be called today. One that is not recorded
// is not called what another is.
func (t *Template) recorded(templates map[string]*Template) *Template {
	says := t.fingerprint()
	for _, key := range slices.Sorted(maps.Keys(templates)) {
		if is := templates[key]; is.fingerprint() == says {
			return is
		}
	}
	if templates[t.key] != nil {
		t.key = says
	}
	return t
}

// revisionOf is the name of the template that an object is made of.
func revisionOf(o metav1.Object) string { return o.GetLabels()[api.RevisionLabel] }
