package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mlbatch/mlbatch/internal/engine/nodehealth"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/view/gather"
)

// Clear says of a node that it is well, whatever was found on it until now, and takes off a health label that mlbatch
// set. left says what keeps it out of service all the same. A node that returns from what was fatal is used without the
// deep test of such nodes if withoutTest.
func (n Node) Clear(
	ctx context.Context,
	c client.Client,
	who, reason string,
	withoutTest bool,
	now time.Time,
) (left string, err error) {
	if err := n.again(ctx, c); err != nil {
		return "", err
	}
	text, err := json.Marshal(convert.Cleared{
		By: who, Reason: reason, At: now.UTC().Truncate(time.Second), WithoutTest: withoutTest,
	})
	if err != nil {
		return "", fmt.Errorf("node %s: %w", n.Name, err)
	}
	p := nodePatch{}
	p.Metadata.Annotations = map[string]*string{convert.ClearedAnnotation: new(string(text))}
	mark := convert.HealthMark(n.Node)
	if mark != nil && n.Labels[nodehealth.HealthLabel] == mark.Set {
		var before *string
		if mark.Was != "" {
			before = &mark.Was
		}
		p.Metadata.Labels = map[string]*string{nodehealth.HealthLabel: before}
		p.Metadata.Annotations[convert.LabelledAnnotation] = nil
	}
	if err := p.write(ctx, c, n.Node); err != nil {
		return "", err
	}
	return convert.Node(n.Node).Why, nil
}

// AwaitsTest reports whether a node that was cleared waits for a deep test before it is used. The controller, which knows
// whether such nodes are tested, says so within a moment; false is of one that does not say.
func (n Node) AwaitsTest(ctx context.Context, c client.Client) bool {
	const every, most = 200 * time.Millisecond, 5 * time.Second
	cleared, waits := convert.ClearedOf(n.Node).At, false
	_ = wait.PollUntilContextTimeout(ctx, every, most, true, func(ctx context.Context) (bool, error) {
		h := gather.HealthOf(ctx, c, n.Node)
		waits = !h.Untested.IsZero() && !h.Untested.Before(cleared)
		fatal := slices.ContainsFunc(h.Parts, func(p nodehealth.Part) bool { return !p.FatalAt.IsZero() })
		return waits || !fatal && h.Untested.IsZero(), nil
	})
	return waits
}
