package convert

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Counting is how an installation counts requests against quota. The zero value
// counts them as they are.
type Counting struct {
	// ExcludePrefixes are beginnings of the names of resources that count
	// against nothing.
	ExcludePrefixes []string
	// Transformations turn resources into others, each input in one of them.
	Transformations []Transformation
}

// Transformation says what one resource counts as.
type Transformation struct {
	// Input is the resource that pods request.
	Input corev1.ResourceName
	// Replace drops Input from what counts; otherwise it counts as well.
	Replace bool
	// MultiplyBy names a resource by whose request the amount of Input is
	// multiplied, where there is such a request; "" for none.
	MultiplyBy corev1.ResourceName
	// Outputs are what one unit of Input counts as, and a fraction of one in
	// proportion. Negative factors are
	// allowed; what all transformations give of a resource together is at least
	// zero.
	Outputs corev1.ResourceList
}

// count turns what a pod requests into what counts against quota: excluded
// resources are dropped, then the transformations apply to what is left, all to
// the same requests.
func (c Counting) count(requests corev1.ResourceList) corev1.ResourceList {
	if len(c.ExcludePrefixes) == 0 && len(c.Transformations) == 0 {
		return requests
	}
	out := maps.Clone(requests)
	maps.DeleteFunc(out, func(name corev1.ResourceName, _ resource.Quantity) bool {
		return slices.ContainsFunc(
			c.ExcludePrefixes,
			func(p string) bool { return strings.HasPrefix(string(name), p) },
		)
	})
	left := maps.Clone(out)
	gained := corev1.ResourceList{}
	for _, t := range c.Transformations {
		q, ok := left[t.Input]
		if !ok {
			continue
		}
		if t.Replace {
			delete(out, t.Input)
		}
		if by, ok := left[t.MultiplyBy]; ok {
			q = product(q, by)
		}
		for name, factor := range t.Outputs {
			total := gained[name]
			total.Add(product(q, factor))
			gained[name] = total
		}
	}
	for name, q := range gained {
		if q.Sign() > 0 {
			q.Add(out[name])
			out[name] = q
		} else if _, ok := out[name]; !ok {
			out[name] = resource.Quantity{}
		}
	}
	return out
}
