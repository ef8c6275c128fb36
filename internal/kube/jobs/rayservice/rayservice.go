// Package rayservice is the kind RayService: applications that a cluster of Ray serves. A
// change of the cluster makes another one; who asks finds the one that serves behind services
// whose names stay.
package rayservice

import (
	"cmp"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"strconv"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	api "github.com/mlbatch/mlbatch/api/ray/v1"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/podplan"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/raycluster"
)

// configPath is where a service says what its cluster is.
const configPath = "spec.rayClusterConfig"

// Kind is all that there is to know of RayServices.
func Kind() jobs.Kind {
	return jobs.Kind{
		Adapter: adapter{},
		Naming: jobs.Naming{
			Resource:    "rayservices",
			Framework:   "ray.io/rayservice",
			AddToScheme: api.AddToScheme,
		},
		Queueing: jobs.Queueing{
			Wrapped:     wrapped(),
			SuspendPath: []string{"spec", "suspend"},
			Suspended:   jobs.Of(func(s *api.RayService) bool { return s.Spec.Suspend }),
			Templates: jobs.Of(func(s *api.RayService) []jobs.PodTemplate {
				return raycluster.Templates(&s.Spec.RayClusterSpec, configPath)
			}),
		},
		Running: jobs.Running{
			RunsJobs: true,
			Operator: &jobs.Operator{
				Compile:   compile,
				Others:    raycluster.Others(),
				Children:  []jobs.ChildKind{raycluster.Child()},
				Artifacts: artifacts,
				Makes:     []schema.GroupResource{{Resource: "services"}, {Group: "ray.io", Resource: "rayclusters"}},
				StateOfStatus: jobs.Of(
					func(s *api.RayService) podplan.RetryState {
						return podplan.RetryState{Started: jobs.Begun(s, nil, active(s))}
					},
				),
				Calls:   calls,
				Observe: hear,
				Project: project,
			},
			Injection: jobs.InTemplates(func(s *api.RayService) []jobs.Place {
				return raycluster.Places(&s.Spec.RayClusterSpec)
			}),
		},
		Admission: jobs.Admission{
			TeamsCreate:    true,
			Bulk:           configPath,
			Validate:       jobs.Of(validate),
			ValidateChange: jobs.OfBoth(validateChange),
			Keep:           jobs.Keeping(keep),
			Warnings:       warnings,
			Fixed:          "object.spec.?managedBy.orValue('') != oldObject.spec.?managedBy.orValue('')",
		},
	}
}

type adapter struct{}

var _ jobs.Adapter = adapter{}

// GVK implements jobs.Adapter.
func (adapter) GVK() schema.GroupVersionKind { return api.GroupVersion.WithKind(api.RayServiceKind) }

// New implements jobs.Adapter.
func (adapter) New() jobs.Object { return &api.RayService{} }

// Ours implements jobs.Adapter.
func (adapter) Ours(o jobs.Object) bool {
	s, ok := o.(*api.RayService)
	return ok && cmp.Or(ptr.Deref(s.Spec.ManagedBy, ""), api.ManagedByOperator) == api.ManagedByOperator
}

func cast(o jobs.Object) (*api.RayService, error) {
	s, ok := o.(*api.RayService)
	if !ok {
		return nil, fmt.Errorf("read RayService: %T is none", o)
	}
	return s, nil
}

// Read implements jobs.Adapter. A service does not finish. One that is upgraded without an
// interruption has two clusters meanwhile, and is admitted with both.
func (adapter) Read(o jobs.Object) (jobs.Facts, error) {
	s, err := cast(o)
	if err != nil {
		return jobs.Facts{}, err
	}
	if errs := validate(s); len(errs) > 0 {
		return jobs.Facts{}, fmt.Errorf("read RayService %s/%s: %w", s.Namespace, s.Name, errs.ToAggregate())
	}
	f := jobs.Facts{
		Suspended: s.Spec.Suspend,
		Active:    active(s),
		Ready:     ready(s),
		PodSets:   raycluster.PodSets(&s.Spec.RayClusterSpec),
		Later:     raycluster.Later(&s.Spec.RayClusterSpec),
	}
	if upgrade(s) == api.UpgradeNewCluster {
		f.Later = nil
		for i := range f.PodSets {
			f.PodSets[i].Count *= 2
			f.Later = append(f.Later, string(f.PodSets[i].Name))
		}
	}
	return f, nil
}

// active reports whether a service may have pods that have not ended: it has a cluster from its start until
// it is suspended.
func active(s *api.RayService) bool {
	return s.Status.ActiveServiceStatus.RayClusterName != "" ||
		s.Status.PendingServiceStatus.RayClusterName != ""
}

func ready(s *api.RayService) bool {
	return apimeta.IsStatusConditionTrue(s.Status.Conditions, api.ServiceReady)
}

// Maker implements jobs.Adapter.
func (adapter) Maker(o jobs.Object) core.MakerState {
	s, err := cast(o)
	if err != nil {
		return core.MakerState{}
	}
	return core.MakerState{Stopped: s.Spec.Suspend && !active(s), Deleting: s.DeletionTimestamp != nil}
}

// Start returns the service allowed to run. What its admission adds goes into its pods when
// they are made; what cannot go there is an error now.
func (adapter) Start(o jobs.Object, infos []jobs.PodSetInfo) (jobs.Object, error) {
	s, err := cast(o)
	if err != nil || !s.Spec.Suspend {
		return o, err
	}
	if err := raycluster.CheckAdmission(&s.Spec.RayClusterSpec, infos); err != nil {
		return nil, fmt.Errorf("start RayService %s/%s: %w", s.Namespace, s.Name, err)
	}
	return suspend(s, false), nil
}

// Stop implements jobs.Adapter. There is nothing to put back.
func (adapter) Stop(o jobs.Object, _ []kueue.PodSet) (jobs.Object, error) {
	s, err := cast(o)
	if err != nil || s.Spec.Suspend {
		return o, err
	}
	return suspend(s, true), nil
}

func suspend(s *api.RayService, is bool) *api.RayService {
	out := s.DeepCopy()
	out.Spec.Suspend = is
	return out
}

// keep returns a user's new state with what is not the user's as it was: whether the service is
// suspended, and the scheduler of its pods.
func keep(was, is *api.RayService, _ []kueue.PodSet) *api.RayService {
	out := is.DeepCopy()
	out.Spec.Suspend = was.Spec.Suspend
	raycluster.KeepPods(&was.Spec.RayClusterSpec, &out.Spec.RayClusterSpec)
	return out
}

// upgrade is what a change of the cluster does; "" replaces it.
func upgrade(s *api.RayService) api.RayServiceUpgradeType {
	if u := s.Spec.UpgradeStrategy; u != nil {
		return ptr.Deref(u.Type, "")
	}
	return ""
}

// clusterName is that of the cluster that the service asks for: another one when more of it
// changes than how many workers it has.
func clusterName(s *api.RayService) string {
	c := s.Spec.RayClusterSpec
	c.Suspend, c.ManagedBy = nil, nil
	c.WorkerGroupSpecs = append([]api.WorkerGroupSpec(nil), c.WorkerGroupSpecs...)
	for i := range c.WorkerGroupSpecs {
		g := &c.WorkerGroupSpecs[i]
		g.Replicas, g.MinReplicas, g.MaxReplicas, g.ScaleStrategy, g.Suspend = nil, nil, nil, api.ScaleStrategy{}, nil
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(s.UID)) // it never fails
	if err := json.NewEncoder(h).Encode(c); err != nil {
		return s.Name + "-00000" // objects can be written
	}
	text := "00000" + strconv.FormatUint(uint64(h.Sum32()), 36)
	return s.Name + "-" + text[len(text)-5:]
}
