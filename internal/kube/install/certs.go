package install

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mlbatch/mlbatch/api/config/v1beta2"
)

// CertSecret holds the certificates that the controller makes.
const CertSecret = v1beta2.DefaultWebhookSecret

// injectFrom has cert-manager write the authorities of a Certificate into an object.
const injectFrom = "cert-manager.io/inject-ca-from"

// ownCerts reports whether the controller makes its certificates itself.
func (o Options) ownCerts() bool { return len(o.CABundle) == 0 && o.CertManager == "" }

// vouch has cert-manager say whom the API server trusts where it calls the controller.
func vouch(objects []client.Object, certificate string) {
	for _, o := range objects {
		switch o := o.(type) {
		case *admissionregistrationv1.MutatingWebhookConfiguration,
			*admissionregistrationv1.ValidatingWebhookConfiguration:
		case *apiextensionsv1.CustomResourceDefinition:
			if o.Spec.Conversion == nil {
				continue
			}
		case *unstructured.Unstructured:
			if o.GetKind() != "APIService" {
				continue
			}
		default:
			continue
		}
		annotations := o.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[injectFrom] = certificate
		o.SetAnnotations(annotations)
	}
}
