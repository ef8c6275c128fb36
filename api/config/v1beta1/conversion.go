package v1beta1

import (
	"maps"

	"github.com/mlbatch/mlbatch/api/config/v1beta2"
)

// DisableWaitForPodsReady is the feature gate that stands for an explicit
// "enable: false", which v1beta2 has no field for.
const DisableWaitForPodsReady = "DisableWaitForPodsReady"

// Convert returns the same configuration in v1beta2, before defaults. It shares
// memory with in. Two sections have a switch here: one that is switched off is
// left out, and waitForPodsReady, which would then be on by default, is turned
// off by its feature gate. queueVisibility and integrations.podOptions have no
// counterpart.
func Convert(in *Configuration) *v1beta2.Configuration {
	out := &v1beta2.Configuration{
		ControllerManager:            in.ControllerManager,
		Namespace:                    in.Namespace,
		ManageJobsWithoutQueueName:   in.ManageJobsWithoutQueueName,
		ManagedJobsNamespaceSelector: in.ManagedJobsNamespaceSelector,
		InternalCertManagement:       in.InternalCertManagement,
		ClientConnection:             in.ClientConnection,
		MultiKueue:                   in.MultiKueue,
		AdmissionFairSharing:         in.AdmissionFairSharing,
		Resources:                    in.Resources,
		FeatureGates:                 in.FeatureGates,
		ObjectRetentionPolicies:      in.ObjectRetentionPolicies,
		VisibilityServer:             in.VisibilityServer,
	}
	out.APIVersion, out.Kind = v1beta2.APIVersion, v1beta2.Kind
	if i := in.Integrations; i != nil {
		out.Integrations = &v1beta2.Integrations{
			Frameworks: i.Frameworks, ExternalFrameworks: i.ExternalFrameworks, LabelKeysToCopy: i.LabelKeysToCopy,
		}
	}
	if f := in.FairSharing; f != nil && f.Enable {
		out.FairSharing = &v1beta2.FairSharing{PreemptionStrategies: f.PreemptionStrategies}
	}
	switch w := in.WaitForPodsReady; {
	case w == nil:
	case w.Enable:
		out.WaitForPodsReady = &v1beta2.WaitForPodsReady{
			Timeout: w.Timeout, RecoveryTimeout: w.RecoveryTimeout, RequeuingStrategy: w.RequeuingStrategy,
			// Left out, it blocks in v1beta1 and does not in v1beta2.
			BlockAdmission: new(w.BlockAdmission == nil || *w.BlockAdmission),
		}
	default:
		out.FeatureGates = maps.Clone(in.FeatureGates)
		if out.FeatureGates == nil {
			out.FeatureGates = map[string]bool{}
		}
		out.FeatureGates[DisableWaitForPodsReady] = true
	}
	return out
}
