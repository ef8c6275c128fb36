package doctor

import (
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	viewapi "github.com/mlbatch/mlbatch/api/view/v1alpha1"
	visibility "github.com/mlbatch/mlbatch/api/visibility/v1beta2"
	"github.com/mlbatch/mlbatch/internal/finding"
)

// apiServices is the kind of what is asked for APIs that others serve.
func apiServices() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIServiceList"}
}

// registrations are those of the visibility API among all.
func registrations(all []unstructured.Unstructured) []unstructured.Unstructured {
	return slices.DeleteFunc(all, func(o unstructured.Unstructured) bool {
		group, _, _ := unstructured.NestedString(o.Object, "spec", "group")
		return group != visibility.GroupVersion.Group && group != viewapi.GroupVersion.Group
	})
}

// staleDiscovery finds registrations of the visibility API that nobody answers for.
func staleDiscovery(f *Facts) (out []found) {
	for i := range f.APIServices {
		conditions, _, _ := unstructured.NestedSlice(f.APIServices[i].Object, "status", "conditions")
		for _, x := range conditions {
			c, _ := x.(map[string]any)
			if c["type"] != "Available" || c["status"] != "False" {
				continue
			}
			why, _ := c["message"].(string)
			out = append(out, found{
				"apiservice/" + f.APIServices[i].GetName(),
				"nobody says what this API has, and as long as that is so no namespace of the cluster can be deleted: " + why,
				"start the controller: kubectl get pods -n " + installed + "; or, where it is to stay away: kubectl delete apiservice " + f.APIServices[i].GetName(),
			})
		}
	}
	return out
}

// fewest is how many equal findings are told together.
const fewest = 4

var numbers = regexp.MustCompile(`[0-9]+`)

// Together are findings for people: many of the same rule that say the same, but for numbers, of
// different objects are one, in the place of the first.
func Together(all []finding.Finding) []finding.Finding {
	key := func(x *finding.Finding) string {
		kind, _ := parted(x.Object)
		return x.Rule + " " + kind + " " + numbers.ReplaceAllString(x.Message, "#")
	}
	of := map[string][]*finding.Finding{}
	for i := range all {
		of[key(&all[i])] = append(of[key(&all[i])], &all[i])
	}
	var out []finding.Finding
	for i := range all {
		same := of[key(&all[i])]
		switch {
		case len(same) < fewest:
			out = append(out, all[i])
		case same[0] == &all[i]:
			out = append(out, together(same))
		}
	}
	return out
}

// parted is the kind of what a finding is about, and its name: of KIND/NAME, and of "KIND NAME" as
// package check has it.
func parted(object string) (kind, name string) {
	at := strings.IndexAny(object, "/ ")
	if at < 0 {
		return object, ""
	}
	return object[:at], object[at+1:]
}

func together(same []*finding.Finding) finding.Finding {
	x := *same[0]
	kind, _ := parted(x.Object)
	var objects []string
	alike := true
	for _, o := range same {
		_, name := parted(o.Object)
		objects = append(objects, name)
		alike = alike && o.Cure == x.Cure
	}
	x.Object = count(len(same), kind, kind+"s") + " (" + names(objects) + ")"
	if !alike {
		x.Cure += "; the same for each of the others, which -o json lists"
	}
	return x
}
