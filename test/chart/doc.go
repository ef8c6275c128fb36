// Package chart renders the Helm chart and the kustomize base with the libraries of Helm and
// kustomize, and compares them object by object with what mlbatch install applies.
//
// It is a module of its own, so that nothing of Helm is linked into mlbatch or compiled for its
// other tests.
package chart
