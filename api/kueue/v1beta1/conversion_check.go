package v1beta1

import "github.com/mlbatch/mlbatch/api/kueue/v1beta2"

// onlyAdmissionCheck is what an AdmissionCheck of v1beta2 cannot hold.
type onlyAdmissionCheck struct {
	RetryDelayMinutes *int64 `json:"retryDelayMinutes,omitempty"`
}

// ConvertTo writes the AdmissionCheck to out, which is of the hub version.
func (in *AdmissionCheck) ConvertTo(out *v1beta2.AdmissionCheck) error {
	src := in.DeepCopy()
	out.ObjectMeta, out.Status = src.ObjectMeta, src.Status
	out.Spec = v1beta2.AdmissionCheckSpec{
		ControllerName: src.Spec.ControllerName,
		Parameters:     src.Spec.Parameters,
	}
	return keep(out, OnlyV1beta1Annotation, onlyAdmissionCheck{src.Spec.RetryDelayMinutes})
}

// ConvertFrom fills the AdmissionCheck from the hub version.
func (in *AdmissionCheck) ConvertFrom(hub *v1beta2.AdmissionCheck) error {
	src := hub.DeepCopy()
	kept := recall[onlyAdmissionCheck](src, OnlyV1beta1Annotation)
	in.ObjectMeta, in.Status = src.ObjectMeta, src.Status
	in.Spec = AdmissionCheckSpec{
		ControllerName:    src.Spec.ControllerName,
		RetryDelayMinutes: kept.RetryDelayMinutes,
		Parameters:        src.Spec.Parameters,
	}
	return nil
}

// ConvertTo writes the ProvisioningRequestConfig to out, which is of the hub
// version.
func (in *ProvisioningRequestConfig) ConvertTo(out *v1beta2.ProvisioningRequestConfig) error {
	src := in.DeepCopy()
	out.ObjectMeta, out.Spec = src.ObjectMeta, src.Spec
	return nil
}

// ConvertFrom fills the ProvisioningRequestConfig from the hub version.
func (in *ProvisioningRequestConfig) ConvertFrom(hub *v1beta2.ProvisioningRequestConfig) error {
	src := hub.DeepCopy()
	in.ObjectMeta, in.Spec = src.ObjectMeta, src.Spec
	return nil
}

// onlyMultiKueueConfig is what a MultiKueueConfig of v1beta1 cannot hold.
type onlyMultiKueueConfig struct {
	QuotaManagement *v1beta2.QuotaManagement `json:"quotaManagement,omitempty"`
}

// ConvertTo writes the MultiKueueConfig to out, which is of the hub version.
func (in *MultiKueueConfig) ConvertTo(out *v1beta2.MultiKueueConfig) error {
	src := in.DeepCopy()
	kept := recall[onlyMultiKueueConfig](src, OnlyV1beta2Annotation)
	out.ObjectMeta = src.ObjectMeta
	out.Spec = v1beta2.MultiKueueConfigSpec{Clusters: src.Spec.Clusters, QuotaManagement: kept.QuotaManagement}
	return nil
}

// ConvertFrom fills the MultiKueueConfig from the hub version.
func (in *MultiKueueConfig) ConvertFrom(hub *v1beta2.MultiKueueConfig) error {
	src := hub.DeepCopy()
	in.ObjectMeta = src.ObjectMeta
	in.Spec = MultiKueueConfigSpec{Clusters: src.Spec.Clusters}
	return keep(in, OnlyV1beta2Annotation, onlyMultiKueueConfig{src.Spec.QuotaManagement})
}

// onlyMultiKueueCluster is what a MultiKueueCluster of v1beta1 cannot hold.
type onlyMultiKueueCluster struct {
	ClusterProfileRef *v1beta2.ClusterProfileReference `json:"clusterProfileRef,omitempty"`
}

// ConvertTo writes the MultiKueueCluster to out, which is of the hub version.
func (in *MultiKueueCluster) ConvertTo(out *v1beta2.MultiKueueCluster) error {
	src := in.DeepCopy()
	kept := recall[onlyMultiKueueCluster](src, OnlyV1beta2Annotation)
	out.ObjectMeta, out.Status = src.ObjectMeta, src.Status
	out.Spec.ClusterSource = v1beta2.ClusterSource{KubeConfig: src.Spec.KubeConfig}
	if src.Spec.KubeConfig == nil { // there is one or the other
		out.Spec.ClusterSource.ClusterProfileRef = kept.ClusterProfileRef
	}
	return nil
}

// ConvertFrom fills the MultiKueueCluster from the hub version.
func (in *MultiKueueCluster) ConvertFrom(hub *v1beta2.MultiKueueCluster) error {
	src := hub.DeepCopy()
	in.ObjectMeta, in.Status = src.ObjectMeta, src.Status
	in.Spec = MultiKueueClusterSpec{KubeConfig: src.Spec.ClusterSource.KubeConfig}
	return keep(in, OnlyV1beta2Annotation, onlyMultiKueueCluster{src.Spec.ClusterSource.ClusterProfileRef})
}
