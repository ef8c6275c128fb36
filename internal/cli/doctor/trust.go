package doctor

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// trusts brings an authority that is missing.
const trusts = "a controller that runs writes it: kubectl get pods -n mlbatch-system; where cert-manager does (certManager.enabled), see whether its cainjector runs"

// untrusted finds objects of ours by which the API server calls a controller that it cannot trust: what
// is written to these kinds is refused then, and old versions of them cannot be read.
func untrusted(f *Facts) (out []found) {
	tell := func(object, what string, c call) {
		told := len(out) > 0 && out[len(out)-1].object == object
		if why := f.distrust(c); why != "" && !told {
			out = append(out, found{object, what + " is refused: " + why, trusts})
		}
	}
	for i := range f.Mutating {
		for _, w := range f.Mutating[i].Webhooks {
			if f.Mutating[i].Name == mutatingName {
				tell("mutatingwebhookconfiguration/"+mutatingName, "what is written", called(&w.ClientConfig))
			}
		}
	}
	for i := range f.Validating {
		for _, w := range f.Validating[i].Webhooks {
			if f.Validating[i].Name == validatingName {
				tell("validatingwebhookconfiguration/"+validatingName, "what is written", called(&w.ClientConfig))
			}
		}
	}
	for i := range f.Definitions {
		d := &f.Definitions[i]
		ours := slices.ContainsFunc(f.Wanted, func(w *apiDefinition) bool { return w.Name == d.Name })
		c := d.Spec.Conversion
		if !ours || c == nil || c.Strategy != apiextensionsv1.WebhookConverter || c.Webhook == nil ||
			c.Webhook.ClientConfig == nil {
			continue
		}
		by := c.Webhook.ClientConfig
		tell(
			"customresourcedefinition/"+d.Name,
			"whoever uses another version than the stored one",
			call{by.Service != nil, by.CABundle},
		)
	}
	return out
}

// call is how the API server reaches a controller.
type call struct {
	service bool
	// authorities are certificates in PEM.
	authorities []byte
}

func called(c *admissionv1.WebhookClientConfig) call { return call{c.Service != nil, c.CABundle} }

// distrust says why the API server cannot trust who answers a call; "" if it may.
func (f *Facts) distrust(c call) string {
	if len(c.authorities) == 0 {
		if !c.service {
			return "" // by the authorities that its machine knows
		}
		return "the API server is told no authority (caBundle) to trust"
	}
	var last time.Time
	for rest := c.authorities; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		a, err := x509.ParseCertificate(block.Bytes)
		if err == nil && a.NotAfter.After(last) {
			last = a.NotAfter
		}
	}
	switch {
	case last.IsZero():
		return "the authority that the API server is told to trust (caBundle) is no certificate"
	case f.Now.After(last):
		return fmt.Sprintf(
			"the authority that the API server is told to trust (caBundle) ended on %s",
			last.UTC().Format(time.DateOnly),
		)
	}
	return ""
}
