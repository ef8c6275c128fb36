package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/mlbatch/mlbatch/internal/cli/admin"
)

// quotaFlags are those by which amounts are typed.
type quotaFlags struct {
	nominal, borrowing, lending []string
	flavor                      string
}

// flags adds them. Kueue's plugin calls some of them otherwise; both names are understood.
func (q *quotaFlags) flags(f *pflag.FlagSet) {
	f.StringSliceVar(&q.nominal, "quota", nil,
		"amounts of its own: `RESOURCE=AMOUNT,...`, or FLAVOR:RESOURCE=AMOUNT;... (also --nominal-quota)")
	f.StringSliceVar(&q.borrowing, "borrowing-limit", nil,
		"how much it may borrow, as `RESOURCE=AMOUNT,...`; none is no limit")
	f.StringSliceVar(&q.lending, "lending-limit", nil,
		"how much of its own others may have, as `RESOURCE=AMOUNT,...`; none is no limit")
	f.StringVar(&q.flavor, "flavor", "", "`flavor` of amounts that name none")
	otherNames(f, map[string]string{"nominal-quota": "quota"})
}

// otherNames lets flags be called by other names as well, which are not listed.
func otherNames(f *pflag.FlagSet, names map[string]string) {
	was := f.GetNormalizeFunc()
	f.SetNormalizeFunc(func(f *pflag.FlagSet, name string) pflag.NormalizedName {
		if is, known := names[name]; known {
			name = is
		}
		return was(f, name)
	})
}

// read is what was typed. Amounts without a resource are of bare.
func (q *quotaFlags) read(bare corev1.ResourceName) (admin.Quotas, error) {
	out, err := admin.ParseQuotas(q.nominal, q.borrowing, q.lending, bare, q.flavor)
	if err != nil {
		return out, usageError{err}
	}
	return out, nil
}

// policyFlags are those of how a ClusterQueue queues and preempts.
type policyFlags struct {
	strategy, reclaim, within, borrow string
	weight                            string
}

func (p *policyFlags) flags(f *pflag.FlagSet, reclaim, within string) {
	f.StringVar(&p.strategy, "queueing-strategy", "BestEffortFIFO",
		"BestEffortFIFO (later jobs pass one that does not fit) or StrictFIFO")
	f.StringVar(&p.reclaim, "reclaim-within-cohort", reclaim,
		"whom it may evict to take back what it lent: Never, LowerPriority or Any")
	f.StringVar(&p.within, "within-cluster-queue", within,
		"whom its own jobs may evict: Never, LowerPriority or LowerOrNewerEqualPriority")
	f.StringVar(&p.borrow, "borrow-within-cohort", "Never",
		"whom it may evict while it borrows: Never or LowerPriority")
	f.StringVar(&p.weight, "weight", "", "its `weight` in fair sharing (default 1)")
	otherNames(
		f,
		map[string]string{
			"queuing-strategy":                "queueing-strategy",
			"preemption-within-cluster-queue": "within-cluster-queue",
		},
	)
}

// check refuses values that there are not.
func (p *policyFlags) check() error {
	for _, x := range []struct {
		flag, value string
		known       []string
	}{
		{"queueing-strategy", p.strategy, []string{"BestEffortFIFO", "StrictFIFO"}},
		{"reclaim-within-cohort", p.reclaim, []string{"Never", "LowerPriority", "Any"}},
		{"within-cluster-queue", p.within, []string{"Never", "LowerPriority", "LowerOrNewerEqualPriority"}},
		{"borrow-within-cohort", p.borrow, []string{"Never", "LowerPriority"}},
	} {
		if !slices.Contains(x.known, x.value) {
			return usagef("--%s %s is not known: use %s", x.flag, x.value, strings.Join(x.known, ", "))
		}
	}
	return nil
}

// weightOf is the weight that was typed, nil if none was.
func (p *policyFlags) weightOf() (*resource.Quantity, error) {
	if p.weight == "" {
		return nil, nil //nolint:nilnil // none was typed
	}
	w, err := resource.ParseQuantity(p.weight)
	if err != nil || w.Sign() < 0 {
		return nil, usagef("--weight %s: write a number from 0, such as 2 or 500m", p.weight)
	}
	return &w, nil
}

// typed is the value of a flag if it was typed, or else nil.
func typed(cmd *cobra.Command, flag string, value *string) *string {
	if !cmd.Flags().Changed(flag) {
		return nil
	}
	return value
}
