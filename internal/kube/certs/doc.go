// Package certs makes the certificates that the controller serves its
// webhooks, its metrics and its API with, renews them in time, and lets the API
// server know whom to trust.
//
// What is known is in one Secret (see Next), which all replicas share: whoever
// finds something due writes it, and the API server lets one of them be first.
// Each replica serves what the Secret holds, and writes the trusted authorities
// into what the API server calls webhooks and APIs by (see Targets).
package certs
