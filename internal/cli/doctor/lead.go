package doctor

import (
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/utils/ptr"
)

// installed is the namespace of an installation whose name nobody changed.
const installed = "mlbatch-system"

// unled is how old the last sign of a leader may be: it gives one each second, and another one takes
// over within some. The clocks of two machines may differ by the rest.
const unled = time.Minute

// leaderless finds programs of which all replicas only wait. They answer all the same, as those do that stand
// by, so that nothing but their lease tells.
func leaderless(f *Facts) (out []found) {
	for _, program := range []struct{ name, harm string }{
		{"mlbatch-controller", "nothing is admitted, and jobs do not go on"},
		{"mlbatch-scheduler", "no pod of a job is bound to a node"},
	} {
		runs := slices.ContainsFunc(
			f.Deployments,
			func(d appsv1.Deployment) bool { return d.Namespace == installed && d.Name == program.name },
		)
		at := slices.IndexFunc(
			f.Leases,
			func(l coordinationv1.Lease) bool { return l.Namespace == installed && l.Name == program.name },
		)
		if !runs || at < 0 || f.Leases[at].Spec.RenewTime == nil {
			continue // it is left out, in another namespace, or competes for another lease
		}
		l := &f.Leases[at].Spec
		ago := f.Now.Sub(l.RenewTime.Time)
		if ago <= unled {
			continue
		}
		who := "nobody holds it"
		if holder := ptr.Deref(l.HolderIdentity, ""); holder != "" {
			who = "its holder was " + holder
		}
		out = append(out, found{
			"lease/" + program.name + " in " + installed,
			fmt.Sprintf(
				"no replica leads, the last sign of one is %s old, and %s: %s",
				ago.Round(time.Second),
				who,
				program.harm,
			),
			fmt.Sprintf("kubectl get pods -n %s; kubectl logs -n %s deploy/%s", installed, installed, program.name),
		})
	}
	return out
}
