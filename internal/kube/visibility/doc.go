// Package visibility serves the visibility.kueue.x-k8s.io API: who waits in a
// queue, in which order. The API server passes requests on (an aggregated API).
//
// Who asks is known from the API server's certificate and headers, or from a
// token or a client certificate of the cluster; whether they may is asked of the
// API server for every request. Discovery, descriptions (OpenAPI) and the answers are JSON. The package
// stores nothing and decides nothing: the order is the engine's.
package visibility
