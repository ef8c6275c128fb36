// Package monitoring is what Prometheus and Grafana are given: rules that alert, and boards that draw. The chart,
// the kustomize base and mlbatch install make objects of them, and `mlbatch generate monitoring` files.
package monitoring
