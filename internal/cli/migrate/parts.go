package migrate

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/mlbatch/mlbatch/internal/kube/convert"
)

// System is what is taken over.
type System string

// The systems.
const (
	// Kueue alone.
	Kueue System = "kueue"
	// MLBatch is Kueue with the AppWrapper controller, the training operator, KubeRay,
	// Coscheduling or Sakkara, and Autopilot.
	MLBatch System = "mlbatch"
)

// ErrAbsent means that there is nothing of the system in the cluster.
var ErrAbsent = errors.New("there is nothing to take over")

func (s System) absent() error { return fmt.Errorf("%w from %s", ErrAbsent, s) }

// Names of what is looked for.
const (
	kueueName       = "Kueue"
	wrapperName     = "AppWrapper controller"
	trainingName    = "training operator"
	rayName         = "KubeRay"
	visibilityGroup = "visibility.kueue.x-k8s.io"
	oursMutating    = "mlbatch-mutating-webhook"
	// kueueLease is the one of Kueue's leader, wherever it runs.
	kueueLease = "c1f6bfd2.kueue.x-k8s.io"
)

// part is one of the programs that a system is made of.
type part struct {
	name string
	// deployments are names of its Deployment, and images ends of what it runs.
	deployments, images []string
	// services are the names of the services that answer its webhooks.
	services []string
	// config is the ConfigMap with its file, "" if there is none.
	config string
	// needed says why it may not go yet, "" if it may.
	needed func(*Picture, *appsv1.Deployment) string
}

// Program is a part that is in the cluster.
type Program struct {
	part
	Deployment appsv1.Deployment
}

// parts are those of a system, in the order in which they stop: who admits before who makes.
func (s System) parts() []part {
	kueue := part{
		name: kueueName, deployments: []string{"kueue-controller-manager"}, images: []string{"kueue/kueue"},
		services: []string{"kueue-webhook-service"}, config: "kueue-manager-config",
	}
	if s == Kueue {
		return []part{kueue}
	}
	return []part{
		kueue,
		{
			name:        wrapperName,
			deployments: []string{"appwrapper-controller-manager"},
			images:      []string{"project-codeflare/appwrapper", "ibm/appwrapper"},
			services:    []string{"appwrapper-webhook-service"},
			config:      "appwrapper-operator-config",
		},
		{
			name:        trainingName,
			deployments: []string{"training-operator"},
			images:      []string{"kubeflow/training-operator"},
			services:    []string{"training-operator"},
			needed:      trains,
		},
		{
			name: rayName, deployments: []string{"kuberay-operator"}, images: []string{"kuberay/operator"},
			services: []string{"kuberay-operator", "webhook-service"}, needed: rays,
		},
		{
			name:        "Coscheduling",
			deployments: []string{"scheduler-plugins-scheduler"},
			images:      []string{"scheduler-plugins/kube-scheduler"},
			needed:      schedules("scheduler-plugins-scheduler"),
		},
		{
			name:        "the controller of Coscheduling",
			deployments: []string{"scheduler-plugins-controller"},
			images:      []string{"scheduler-plugins/controller"},
			needed:      schedules("scheduler-plugins-scheduler"),
		},
		{
			name:        "Sakkara",
			deployments: []string{"sakkara-scheduler"},
			images:      []string{"ibm/sakkara-scheduler"},
			needed:      schedules("sakkara-scheduler"),
		},
	}
}

// is reports whether a Deployment runs the part.
func (k part) is(d *appsv1.Deployment) bool {
	if slices.Contains(k.deployments, d.Name) {
		return true
	}
	return slices.ContainsFunc(d.Spec.Template.Spec.Containers, func(c corev1.Container) bool {
		path, _, _ := strings.Cut(c.Image, "@")
		if colon := strings.LastIndex(path, ":"); colon > strings.LastIndex(path, "/") {
			path = path[:colon]
		}
		return slices.ContainsFunc(
			k.images,
			func(i string) bool { return path == i || strings.HasSuffix(path, "/"+i) },
		)
	})
}

// Where names the Deployment of a program.
func (r Program) Where() string { return r.Deployment.Namespace + "/" + r.Deployment.Name }

// runs reports whether a program is meant to run, or has pods left that do.
func (r Program) runs() bool {
	return ptr.Deref(r.Deployment.Spec.Replicas, 1) > 0 || r.Deployment.Status.Replicas > 0
}

// leads is the lease by which a stopped program may still lead, and until when; nil if it does not.
func (p *Picture) leads(r Program) *coordinationv1.Lease {
	for i := range p.Leases {
		l := &p.Leases[i]
		holder := ptr.Deref(l.Spec.HolderIdentity, "")
		known := r.name == kueueName && l.Name == kueueLease
		if holder == "" ||
			!known && (l.Namespace != r.Deployment.Namespace || !strings.HasPrefix(holder, r.Deployment.Name+"-")) {
			continue
		}
		if age(p.Now, l.Spec.RenewTime).Seconds() < float64(ptr.Deref(l.Spec.LeaseDurationSeconds, 15)) {
			return l
		}
	}
	return nil
}

// trains says which jobs the training operator has to stay for: jobs that mlbatch does not know.
func trains(p *Picture, _ *appsv1.Deployment) string {
	if p.OldMPIJobs == 0 {
		return ""
	}
	return fmt.Sprintf(
		"%d MPIJobs are of kubeflow.org/v1, which mlbatch does not run: it knows v2beta1",
		p.OldMPIJobs,
	)
}

// rays says which jobs KubeRay has to stay for. It names pods in a way of its own, so that
// mlbatch would not know them, and make others.
func rays(p *Picture, _ *appsv1.Deployment) string {
	if p.RayClusters == 0 {
		return ""
	}
	return fmt.Sprintf(
		"%d RayClusters run under it, whose pods only it knows; mlbatch leaves Ray to it as long as it is there",
		p.RayClusters,
	)
}

// schedules says which pods a scheduler has to stay for: a job goes on naming it, so that pods
// which are made again need it.
func schedules(name string) func(*Picture, *appsv1.Deployment) string {
	return func(p *Picture, _ *appsv1.Deployment) string {
		n := 0
		for i := range p.Pods {
			if p.Pods[i].Spec.SchedulerName == name && !convert.PodState(&p.Pods[i]).Ended {
				n++
			}
		}
		if n == 0 {
			return ""
		}
		return fmt.Sprintf("%d pods that have not ended name it, and so do those that replace them", n)
	}
}
