package certs

import "github.com/prometheus/client_golang/prometheus"

// Expiry is when the certificate that is served ends, in seconds since 1970, and 0 while there is
// none. It moves by itself long before that: where it does not, renewing fails.
func (k *Keeper) Expiry() prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "mlbatch_serving_certificate_expiration_timestamp_seconds",
		Help: "When the certificate that webhooks, metrics and the visibility API are served with ends, in seconds since 1970; 0 without one.",
	}, func() float64 {
		pair, err := k.Certificate(nil)
		if err != nil || pair.Leaf == nil {
			return 0
		}
		return float64(pair.Leaf.NotAfter.Unix())
	})
}
