// Package livetest tries the AppWrapper controller against a real API server
// and the controllers of Kubernetes.
package livetest
