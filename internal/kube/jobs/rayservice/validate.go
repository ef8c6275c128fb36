package rayservice

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	api "github.com/mlbatch/mlbatch/api/ray/v1"
	"github.com/mlbatch/mlbatch/internal/engine/lifecycle"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/raycluster"
)

// validate finds what is wrong with a service.
func validate(s *api.RayService) field.ErrorList {
	errs := raycluster.CheckManagedBy(s.Spec.ManagedBy)
	errs = append(errs, raycluster.CheckName(s, "its clusters")...)
	errs = append(errs, checkConfig(s)...)
	errs = append(errs, checkUpgrade(s)...)
	service := field.NewPath("spec", "serveService")
	errs = append(errs, raycluster.CheckService(s.Spec.ServeService, service, "the RayService")...)
	at := field.NewPath("spec", "rayClusterConfig")
	wrong := raycluster.CheckSpec(&s.Spec.RayClusterSpec, at)
	if h := s.Spec.RayClusterSpec.HeadGroupSpec.HeadService; h != nil && h.Name != "" {
		wrong = append(
			wrong,
			field.Forbidden(
				at.Child("headGroupSpec", "headService", "metadata", "name"),
				"a service has clusters of several names: remove it",
			),
		)
	}
	if raycluster.AsksKubernetes(&s.Spec.RayClusterSpec) {
		wrong = append(
			wrong,
			field.Forbidden(
				at.Child("authOptions", "enableK8sTokenAuth"),
				"what tells the dashboard what to serve shows it no token of a ServiceAccount: remove it, and the cluster gets a token of its own",
			),
		)
	}
	return append(errs, wrong...)
}

// checkConfig finds what is wrong with what is to be served.
func checkConfig(s *api.RayService) field.ErrorList {
	at := field.NewPath("spec", "serveConfigV2")
	text := s.Spec.ServeConfigV2
	if strings.TrimSpace(text) == "" {
		return field.ErrorList{
			field.Required(
				at,
				"the applications that are served, as YAML: applications: [{name: ..., import_path: ...}]",
			),
		}
	}
	var c config
	if err := yaml.Unmarshal([]byte(text), &c); err != nil {
		return field.ErrorList{
			field.Invalid(at, text, "it is no YAML object with a list of applications: "+err.Error()),
		}
	}
	if len(c.Applications) == 0 {
		return field.ErrorList{
			field.Invalid(at, text, "it names no application: write applications: [{name: ..., import_path: ...}]"),
		}
	}
	names := map[string]bool{}
	for _, name := range c.names() {
		if names[name] {
			return field.ErrorList{
				field.Invalid(
					at,
					text,
					fmt.Sprintf("two applications are called %q: give them names of their own", name),
				),
			}
		}
		names[name] = true
	}
	return nil
}

func checkUpgrade(s *api.RayService) field.ErrorList {
	at := field.NewPath("spec")
	var errs field.ErrorList
	types := []api.RayServiceUpgradeType{api.UpgradeNewCluster, api.UpgradeNever}
	if u := upgrade(s); u != "" && u != api.UpgradeNewCluster && u != api.UpgradeNever {
		errs = append(errs, field.NotSupported(at.Child("upgradeStrategy", "type"), u, types))
	}
	if s.Spec.UpgradeStrategy != nil && s.Spec.UpgradeStrategy.ClusterUpgradeOptions != nil {
		errs = append(
			errs,
			field.Forbidden(
				at.Child("upgradeStrategy", "clusterUpgradeOptions"),
				"requests are not moved bit by bit here: remove it, and use type NewCluster",
			),
		)
	}
	if d := ptr.Deref(s.Spec.RayClusterDeletionDelaySeconds, 0); d < 0 {
		errs = append(errs, field.Invalid(at.Child("rayClusterDeletionDelaySeconds"), d, "use a number from 0"))
	}
	return errs
}

// validateChange finds what is wrong with a change. What was wrong before may stay so; what
// was not may not become so, since a service that nobody understands cannot be stopped.
func validateChange(was, is *api.RayService) field.ErrorList {
	errs := raycluster.CheckManager(was.Spec.ManagedBy, is.Spec.ManagedBy)
	wrong := validate(is)
	if len(wrong) > 0 && equality.Semantic.DeepEqual(was.Spec, is.Spec) {
		return errs
	}
	return append(errs, wrong...)
}

func warnings(o jobs.Object, _ lifecycle.Policy) []string {
	s, err := cast(o)
	if err != nil {
		return nil
	}
	out := raycluster.PartWarnings(&s.Spec.RayClusterSpec, configPath)
	if upgrade(s) == "" {
		out = append(
			out,
			"spec.upgradeStrategy: a change of rayClusterConfig replaces the cluster, and nothing is served meanwhile: with type NewCluster another one takes over, and both are counted",
		)
	}
	if s.Spec.ServiceUnhealthySecondThreshold != nil || s.Spec.DeploymentUnhealthySecondThreshold != nil {
		out = append(
			out,
			"spec.serviceUnhealthySecondThreshold, spec.deploymentUnhealthySecondThreshold: they have no effect any more",
		)
	}
	return out
}

// wrapped is what AppWrappers have to know of services: one that is upgraded without an
// interruption has more pods at some times than at others, which cannot be part of one.
func wrapped() *jobs.Wrapping {
	return &jobs.Wrapping{
		PodSets: raycluster.WrappedPods(
			"spec",
			"rayClusterConfig",
		),
		Dropped: [][]string{{"spec", "suspend"}},
		Direct:  true,
		Unbounded: func(t map[string]any) []jobs.Growth {
			out := raycluster.Grows("spec", "rayClusterConfig")(t)
			if how, _, _ := unstructured.NestedString(
				t,
				"spec",
				"upgradeStrategy",
				"type",
			); how != string(
				api.UpgradeNever,
			) {
				out = append(out, jobs.Growth{
					Path: "template.spec.upgradeStrategy.type", Value: how,
					Cure: "it could make a second cluster when it is changed: use " + string(api.UpgradeNever),
				})
			}
			return out
		},
	}
}
