package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	visibility "github.com/mlbatch/mlbatch/api/visibility/v1beta2"
	"github.com/mlbatch/mlbatch/internal/view"
	"github.com/mlbatch/mlbatch/internal/view/why"
)

// Plan asks what would become of a job, were it submitted now.
func (c Controller) Plan(
	ctx context.Context,
	namespace string,
	spec visibility.WorkloadPlanSpec,
) (*visibility.WorkloadPlan, error) {
	fail := func(err error) (*visibility.WorkloadPlan, error) {
		return nil, fmt.Errorf("ask for a plan: %w", err)
	}
	body, err := json.Marshal(visibility.WorkloadPlan{
		TypeMeta: metav1.TypeMeta{Kind: "WorkloadPlan", APIVersion: visibility.GroupVersion.String()}, Spec: spec,
	})
	if err != nil {
		return fail(err)
	}
	client, err := rest.HTTPClientFor(c.Config)
	if err != nil {
		return fail(err)
	}
	base, _, err := rest.DefaultServerUrlFor(c.Config)
	if err != nil {
		return fail(err)
	}
	at := base.JoinPath("apis", visibility.GroupVersion.String(), "namespaces", namespace, "workloadplans")
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, at.String(), bytes.NewReader(body))
	if err != nil {
		return fail(err)
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := client.Do(r)
	if err != nil {
		return fail(err)
	}
	defer answer.Body.Close()
	const most = 16 << 20
	text, err := io.ReadAll(io.LimitReader(answer.Body, most))
	if err != nil {
		return fail(err)
	}
	if answer.StatusCode != http.StatusOK {
		var status metav1.Status
		if json.Unmarshal(text, &status) == nil && status.Message != "" {
			return fail(fmt.Errorf("%s", status.Message))
		}
		return fail(fmt.Errorf("%s", answer.Status))
	}
	var out visibility.WorkloadPlan
	if err := json.Unmarshal(text, &out); err != nil || out.Status == nil {
		return fail(fmt.Errorf("the answer cannot be read: %w", err))
	}
	return &out, nil
}

// PrintPlan prints what would become of a job.
func PrintPlan(w io.Writer, job string, p *visibility.WorkloadPlan, s Style, width int) error {
	x := p.Status
	e := why.Planned(job, x)
	if err := PrintExplanation(w, &e, s); err != nil {
		return err
	}
	if len(x.PodSets) > 0 {
		fmt.Fprintln(w)
		if err := PrintTable(w, plannedSets(), x.PodSets, Layout{Width: width}); err != nil {
			return err
		}
	}
	if len(x.Quotas) > 0 {
		fmt.Fprintln(w)
		return PrintTable(w, plannedQuotas(), x.Quotas, Layout{Width: width})
	}
	return nil
}

func plannedSets() []Column[visibility.PlannedAdmission] {
	return []Column[visibility.PlannedAdmission]{
		{Title: "PODS OF", Text: func(a visibility.PlannedAdmission) string { return a.Name }},
		{Title: "COUNT", Text: func(a visibility.PlannedAdmission) string { return strconv.Itoa(int(a.Count)) }},
		{Title: "ON", Rank: 1, Text: func(a visibility.PlannedAdmission) string {
			var out []string
			for _, n := range a.Nodes {
				text := n.Name
				if n.Count > 1 {
					text += fmt.Sprintf(" (%d)", n.Count)
				}
				out = append(out, text)
			}
			return strings.Join(out, ", ")
		}},
		{Title: "USE", Text: func(a visibility.PlannedAdmission) string {
			var out []string
			for _, f := range a.Flavors {
				out = append(out, view.AmountOf(f.Resource, &f.Amount)+" "+f.Resource)
			}
			return strings.Join(out, ", ")
		}},
	}
}

func plannedQuotas() []Column[visibility.PlannedQuota] {
	amount := func(title string, of func(visibility.PlannedQuota) resource.Quantity) Column[visibility.PlannedQuota] {
		return AmountColumn(
			Column[visibility.PlannedQuota]{Title: title},
			func(q visibility.PlannedQuota) string { return q.Resource },
			func(q visibility.PlannedQuota) string { x := of(q); return x.String() },
		)
	}
	return []Column[visibility.PlannedQuota]{
		{Title: "QUOTA OF", Text: func(q visibility.PlannedQuota) string { return q.Resource }},
		{Title: "FLAVOR", Rank: 1, Text: func(q visibility.PlannedQuota) string { return q.Flavor }},
		amount("NOMINAL", func(q visibility.PlannedQuota) resource.Quantity { return q.Nominal }),
		amount("USED WITH IT", func(q visibility.PlannedQuota) resource.Quantity { return q.Used }),
		amount("LEFT", func(q visibility.PlannedQuota) resource.Quantity {
			left := q.Nominal.DeepCopy()
			if left.Sub(q.Used); left.Sign() < 0 {
				left = resource.Quantity{Format: left.Format}
			}
			return left
		}),
		amount("BORROWED", func(q visibility.PlannedQuota) resource.Quantity { return q.Borrowed }),
	}
}
