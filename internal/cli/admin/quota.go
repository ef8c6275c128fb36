package admin

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// Setting is an amount of one resource that somebody typed.
type Setting struct {
	// Flavor is "" where none was said.
	Flavor   string
	Resource corev1.ResourceName
	// Amount is nil for "none": no limit.
	Amount *resource.Quantity
}

// Quotas are what was typed of quotas.
type Quotas struct{ Nominal, Borrowing, Lending []Setting }

// Empty reports whether nothing was.
func (q Quotas) Empty() bool { return len(q.Nominal)+len(q.Borrowing)+len(q.Lending) == 0 }

// none is how a limit is taken away.
const none = "none"

// native are the resources whose names have no domain.
func native() []string { return []string{"cpu", "memory", "pods", "ephemeral-storage", "storage"} }

// ParseSettings reads amounts of a flag, of which text has one or several of a flavor:
// RESOURCE=AMOUNT, or FLAVOR:RESOURCE=AMOUNT;RESOURCE=AMOUNT as kueuectl spells it. An
// amount without a resource is of bare, unless that is "".
func ParseSettings(flag string, texts []string, bare corev1.ResourceName) ([]Setting, error) {
	var out []Setting
	for _, text := range texts {
		flavor, amounts, has := strings.Cut(text, ":")
		if !has {
			flavor, amounts = "", text
		}
		if has && flavor == "" {
			return nil, fmt.Errorf("--%s %s: a flavor is missing before the colon", flag, text)
		}
		for part := range strings.SplitSeq(amounts, ";") {
			s, err := parseSetting(flag, strings.TrimSpace(part), bare)
			if err != nil {
				return nil, err
			}
			s.Flavor = flavor
			if slices.ContainsFunc(
				out,
				func(o Setting) bool { return o.Flavor == s.Flavor && o.Resource == s.Resource },
			) {
				return nil, fmt.Errorf("--%s: %s is said twice", flag, s.Resource)
			}
			out = append(out, s)
		}
	}
	return out, nil
}

func parseSetting(flag, text string, bare corev1.ResourceName) (Setting, error) {
	name, amount, has := strings.Cut(text, "=")
	if !has {
		name, amount = string(bare), text
	}
	switch {
	case name == "" || amount == "":
		return Setting{}, fmt.Errorf("--%s %s: write RESOURCE=AMOUNT, such as nvidia.com/gpu=8", flag, text)
	case has && !strings.Contains(name, "/") && !slices.Contains(native(), name) && !strings.HasPrefix(name, corev1.ResourceHugePagesPrefix):
		return Setting{}, fmt.Errorf(
			"--%s %s: there is no resource %q: use cpu, memory, pods or a name with a domain, such as nvidia.com/gpu",
			flag,
			text,
			name,
		)
	}
	s := Setting{Resource: corev1.ResourceName(name)}
	if amount == none && flag != flagQuota {
		return s, nil
	}
	q, err := resource.ParseQuantity(amount)
	if err != nil {
		return Setting{}, fmt.Errorf(
			"--%s %s: %q is no amount: write a number, such as 8, 500m or 64Gi",
			flag,
			text,
			amount,
		)
	}
	if q.Sign() < 0 {
		return Setting{}, fmt.Errorf("--%s %s: an amount cannot be negative", flag, text)
	}
	s.Amount = &q
	return s, nil
}

// flagQuota is the flag of nominal quotas, which cannot be none.
const flagQuota = "quota"

// ParseQuotas reads the three flags of quotas. Those that name no flavor are of the one
// that is given.
func ParseQuotas(
	nominal, borrowing, lending []string,
	bare corev1.ResourceName,
	flavor string,
) (Quotas, error) {
	var q Quotas
	for _, f := range []struct {
		name  string
		texts []string
		into  *[]Setting
	}{{flagQuota, nominal, &q.Nominal}, {"borrowing-limit", borrowing, &q.Borrowing}, {"lending-limit", lending, &q.Lending}} {
		got, err := ParseSettings(f.name, f.texts, bare)
		if err != nil {
			return Quotas{}, err
		}
		for i := range got {
			got[i].Flavor = cmp.Or(got[i].Flavor, flavor)
		}
		*f.into = got
	}
	return q, nil
}

// Groups are resource groups with these quotas: flavors with the same resources are in one
// group, in the order in which they were typed. Limits need a quota that they bound.
func (q Quotas) Groups() ([]kueue.ResourceGroup, error) {
	var flavors []kueue.FlavorQuotas
	for _, s := range q.Nominal {
		if s.Flavor == "" {
			return nil, fmt.Errorf("--%s %s: say of which flavor: --flavor NAME", flagQuota, s.Resource)
		}
		at := slices.IndexFunc(flavors, func(f kueue.FlavorQuotas) bool { return string(f.Name) == s.Flavor })
		if at < 0 {
			flavors, at = append(
				flavors,
				kueue.FlavorQuotas{Name: kueue.ResourceFlavorReference(s.Flavor)},
			), len(
				flavors,
			)
		}
		flavors[at].Resources = append(
			flavors[at].Resources,
			kueue.ResourceQuota{Name: s.Resource, NominalQuota: *s.Amount},
		)
	}
	for _, l := range []struct {
		flag   string
		limits []Setting
		set    func(*kueue.ResourceQuota, *resource.Quantity)
	}{
		{"borrowing-limit", q.Borrowing, func(r *kueue.ResourceQuota, a *resource.Quantity) { r.BorrowingLimit = a }},
		{"lending-limit", q.Lending, func(r *kueue.ResourceQuota, a *resource.Quantity) { r.LendingLimit = a }},
	} {
		for _, s := range l.limits {
			r := quotaOf(flavors, s.Flavor, s.Resource)
			if r == nil {
				return nil, fmt.Errorf(
					"--%s %s: there is no quota of it that could be bounded: --%s %s=AMOUNT gives one",
					l.flag,
					s.Resource,
					flagQuota,
					s.Resource,
				)
			}
			l.set(r, s.Amount)
		}
	}
	return grouped(flavors), nil
}

func quotaOf(flavors []kueue.FlavorQuotas, flavor string, of corev1.ResourceName) *kueue.ResourceQuota {
	for i := range flavors {
		for j := range flavors[i].Resources {
			if r := &flavors[i].Resources[j]; string(flavors[i].Name) == flavor && r.Name == of {
				return r
			}
		}
	}
	return nil
}

// grouped puts flavors with the same resources into one group.
func grouped(flavors []kueue.FlavorQuotas) []kueue.ResourceGroup {
	var out []kueue.ResourceGroup
	for _, f := range flavors {
		covered := make([]corev1.ResourceName, len(f.Resources))
		for i := range f.Resources {
			covered[i] = f.Resources[i].Name
		}
		at := slices.IndexFunc(out, func(g kueue.ResourceGroup) bool {
			return slices.Equal(
				slices.Sorted(slices.Values(g.CoveredResources)),
				slices.Sorted(slices.Values(covered)),
			)
		})
		if at < 0 {
			out, at = append(out, kueue.ResourceGroup{CoveredResources: covered}), len(out)
		}
		slices.SortFunc(f.Resources, func(a, b kueue.ResourceQuota) int {
			order := out[at].CoveredResources
			return cmp.Compare(slices.Index(order, a.Name), slices.Index(order, b.Name))
		})
		out[at].Flavors = append(out[at].Flavors, f)
	}
	return out
}
