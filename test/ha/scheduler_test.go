package ha

import (
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"syscall"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/scheduler"
)

// Where the leading scheduler hangs or is cut off, the one that stands by binds what waits. What the
// first one had sent then is refused, as the pod has its node; it binds nothing more when it goes on.
func TestSchedulersTakeOver(t *testing.T) {
	for name, fault := range map[string]struct{ begin, end func(*replica) }{
		"stopped": {func(r *replica) { r.signal(syscall.SIGSTOP) }, func(r *replica) { r.signal(syscall.SIGCONT) }},
		"cut off": {func(r *replica) { r.line.sever() }, func(r *replica) { r.line.heal() }},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlane(t)
			p.begin().ready() // webhooks are asked about pods
			p.account("kube-public")
			p.node("node", 8, "early")
			first := p.beginScheduler().ready()
			var holder string
			p.eventually("the first one leads", func() (err error) { holder, err = p.schedules(); return err })
			p.beginScheduler().ready()

			binding := first.line.capture(func(r *http.Request) bool {
				return r.Method == http.MethodPost && in(r.URL.Path, "/pods/one/binding")
			})
			p.pod("one")
			<-binding.arrived
			fault.begin(first)
			p.eventually("the other one binds it", func() error { return p.bound("one") })
			close(binding.release)
			if got := <-binding.answer; got != http.StatusConflict {
				t.Errorf("what the first one had sent was answered %d", got)
			}
			if now, err := p.schedules(); err != nil || now == holder {
				t.Errorf("%q still leads: %v", now, err)
			}
			fault.end(first)
			<-first.ended
			p.pod("two")
			p.eventually("the next pod is bound", func() error { return p.bound("two") })
		})
	}
}

// beginScheduler starts a scheduler that competes for the lead, whose way to the API server is a line that
// can be cut.
func (p *plane) beginScheduler() *replica {
	p.Helper()
	p.begun++
	r := &replica{
		plane: p,
		name:  fmt.Sprintf("scheduler-%d", p.begun),
		line:  newLine(p, p.config),
		ended: make(chan struct{}),
	}
	r.order = order{Kubeconfig: filepath.Join(p.dir, r.name+".yaml"), Health: free(p), Scheduler: true}
	r.write("http://"+r.line.address(), nil)
	r.start()
	return r
}

// schedules is which process leads the schedulers.
func (p *plane) schedules() (string, error) {
	l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: leases, Name: scheduler.LeaseName}}
	if err := p.admin.Get(p.Context(), client.ObjectKeyFromObject(l), l); err != nil {
		return "", err
	}
	if holder := ptr.Deref(l.Spec.HolderIdentity, ""); holder != "" {
		return holder, nil
	}
	return "", errors.New("nobody leads")
}

// pod makes a pod outside all queues.
func (p *plane) pod(name string) {
	p.Helper()
	asks := corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}
	made := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-public", Name: name},
		Spec: corev1.PodSpec{
			SchedulerName:                jobs.SchedulerName,
			AutomountServiceAccountToken: new(bool),
			Containers: []corev1.Container{
				{Name: "c", Image: "x", Resources: corev1.ResourceRequirements{Requests: asks, Limits: asks}},
			},
		},
	}
	p.eventually("pod "+name+" is made", func() error { return p.admin.Create(p.Context(), made) })
}

func (p *plane) bound(name string) error {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-public", Name: name}}
	if err := p.admin.Get(p.Context(), client.ObjectKeyFromObject(pod), pod); err != nil {
		return err
	}
	if pod.Spec.NodeName == "" {
		return fmt.Errorf("pod %s has no node", name)
	}
	return nil
}
