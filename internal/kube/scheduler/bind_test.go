package scheduler

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/mlbatch/mlbatch/internal/kube/gang"
)

// lostAnswer is a binder whose write may be made, and whose answer never comes.
type lostAnswer struct{}

func (lostAnswer) Name() string { return "lost-answer" }

func (lostAnswer) Bind(context.Context, fwk.CycleState, *corev1.Pod, string) *fwk.Status {
	return fwk.AsStatus(errors.New("connection reset"))
}

type handleOf struct {
	fwk.Handle
	client kubernetes.Interface
}

func (h handleOf) ClientSet() kubernetes.Interface { return h.client }

// writes is a binder that binds.
type writes struct{ lostAnswer }

func (writes) Bind(context.Context, fwk.CycleState, *corev1.Pod, string) *fwk.Status { return nil }

// A gang whose quota is given back meanwhile gets no node any more: the pod would run without.
func TestBindLeavesOutWhatEnds(t *testing.T) {
	waiting := onNode("a", "", corev1.PodPending)
	k, _ := gang.KeyOf(waiting)
	for name, c := range map[string]struct {
		gangs map[gang.Key]gang.Gang
		says  string
	}{
		"Admitted": {map[gang.Key]gang.Gang{k: {Key: k, Admitted: true}}, ""},
		"Ends":     {map[gang.Key]gang.Gang{k: {Key: k, Admitted: true, Ends: "is being deleted"}}, "is being deleted"},
		"Gone":     {nil, "does not exist any more"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk()
			d.gangs = c.gangs
			p := &gangPlugin{binder: writes{}, reservations: d.Reservations}
			got := p.Bind(t.Context(), nil, waiting, "n1")
			if got.IsSuccess() != (c.says == "") || !strings.Contains(got.Message(), c.says) {
				t.Errorf("it answers %v", got)
			}
		})
	}
}

// When the answer to a binding gets lost, the API server is asked, as long as it
// takes, before the place may be given to another pod.
func TestBindAnswersWhatIsSo(t *testing.T) {
	waiting := onNode("a", "", corev1.PodPending)
	other := onNode("a", "n1", corev1.PodRunning)
	other.UID = "another"
	cases := map[string]struct {
		why    string
		stored *corev1.Pod
		away   int // how many questions fail first
		bound  bool
	}{
		"written":               {"only the answer got lost", onNode("a", "n1", corev1.PodPending), 0, true},
		"written, server away":  {"it is asked until it answers", onNode("a", "n1", corev1.PodPending), 1, true},
		"not written":           {"the pod has no node", waiting, 0, false},
		"bound elsewhere":       {"another scheduler was faster", onNode("a", "n2", corev1.PodPending), 0, false},
		"gone":                  {"the pod was deleted", nil, 0, false},
		"gone, and made again":  {"the pod on the node is another of the same name", other, 0, false},
		"gone, and server away": {"not knowing is no reason to call it bound", nil, 1, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			client := fake.NewClientset()
			if c.stored != nil {
				client = fake.NewClientset(c.stored)
			}
			away := c.away
			client.PrependReactor("get", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
				away--
				return away >= 0, nil, errors.New("connection refused")
			})
			d := newDesk()
			k, _ := gang.KeyOf(waiting)
			d.gangs[k] = gang.Gang{Key: k, Admitted: true}
			p := &gangPlugin{handle: handleOf{client: client}, binder: lostAnswer{}, reservations: d.Reservations}
			if got := p.Bind(t.Context(), nil, waiting, "n1").IsSuccess(); got != c.bound {
				t.Errorf("bound is %v, want %v: %s", got, c.bound, c.why)
			}
		})
	}
	t.Run("without a gang", func(t *testing.T) {
		p := &gangPlugin{binder: lostAnswer{}}
		if got := p.Bind(t.Context(), nil, pod("ns", "plain", 1), "n1"); !got.IsSkip() {
			t.Errorf("status is %v, want that the next plugin binds it", got)
		}
	})
}

// refusing is a binder that an API server refuses.
type refusing struct {
	lostAnswer
	err error
}

func (r refusing) Bind(context.Context, fwk.CycleState, *corev1.Pod, string) *fwk.Status {
	return fwk.AsStatus(r.err)
}

// A pod that the API server will not bind to its planned node, however often it is asked, has its gang's plan called
// back: which node it is and why is told as what nodes refuse themselves. What may pass is tried again, and nothing is
// told.
func TestBindThatIsRefusedForGoodIsTold(t *testing.T) {
	waiting := onNode("a", "", corev1.PodPending)
	bound := onNode("b", "n1", corev1.PodRunning)
	ends := onNode("a", "", corev1.PodPending)
	ends.DeletionTimestamp, ends.Finalizers = &metav1.Time{Time: time.Unix(1, 0)}, []string{"x"}
	pods := corev1.Resource("pods")
	terminating := apierrors.NewForbidden(pods, "a", errors.New("because it is being terminated"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	for name, c := range map[string]struct {
		why    string
		err    error
		stored *corev1.Pod
		told   string
	}{
		"a webhook denies it": {
			"it would again",
			apierrors.NewForbidden(pods, "a", errors.New("admission webhook denied the request: node n1 is for others")),
			waiting,
			"node n1 is for others",
		},
		"a webhook does not find what it asks for": {
			"it would not again",
			apierrors.NewNotFound(corev1.Resource("nodes"), "n1"), waiting, `nodes "n1" not found`,
		},
		"it is invalid": {
			"and stays so", apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Binding").GroupKind(), "a", nil), waiting,
			"is invalid",
		},
		"the server is away":      {"it comes back", errors.New("connection refused"), waiting, ""},
		"too much is asked of it": {"later it does", apierrors.NewTooManyRequests("later", 1), waiting, ""},
		"this process may not": {
			"no node is to blame",
			apierrors.NewForbidden(pods, "a", errors.New(`User "s" cannot create resource "pods/binding"`)), waiting, "",
		},
		"the namespace ends":     {"and the pod with it", terminating, waiting, ""},
		"the pod is being ended": {"it needs no node", apierrors.NewBadRequest("deleted"), ends, ""},
		"the pod is elsewhere": {
			"another scheduler bound it", apierrors.NewBadRequest("bound"), onNode("a", "n2", corev1.PodPending), "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk()
			k, _ := gang.KeyOf(waiting)
			d.gangs[k] = gang.Gang{Key: k, Admitted: true}
			d.pods[k] = []*corev1.Pod{waiting, bound}
			var told found
			p := &gangPlugin{
				handle: handleOf{
					client: fake.NewClientset(c.stored),
				},
				binder:       refusing{err: c.err},
				reservations: d.Reservations,
				refused:      func(_ *corev1.Pod, f found) { told = f },
			}
			bind := func(node string) {
				d.reserve(k, waiting.UID, node)
				if p.Bind(t.Context(), nil, waiting, node).IsSuccess() {
					t.Error("it counts as bound")
				}
				d.release(k, waiting.UID)
			}
			bind("n0") // by an earlier plan
			for range 2 {
				d.now = d.now.Add(settles - time.Millisecond)
				if bind("n1"); len(told.refusals) > 0 {
					t.Errorf("told %+v at once: a webhook may be about to know better", told.refusals)
				}
				p.reservations.undisputed(k) // as the nodes say, before each attempt
			}
			d.now = d.now.Add(time.Millisecond)
			bind("n1")
			switch {
			case c.told == "" && len(told.refusals) > 0:
				t.Errorf("told %+v: %s", told.refusals, c.why)
			case c.told != "" && (len(told.refusals) != 1 || told.refusals[0].Node != "n1" || told.refusals[0].Most != 1 ||
				!strings.Contains(told.refusals[0].Why, c.told)):
				t.Errorf("told %+v, want that n1 takes the one that it has, and %q", told.refusals, c.told)
			}
			if d.forget(k, waiting.UID); len(d.runs) > 0 {
				t.Error("it is remembered when the pod is gone")
			}
		})
	}
}
