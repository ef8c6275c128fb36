package main

import (
	_ "go.etcd.io/etcd/server/v3/embed"
	_ "k8s.io/kubectl/pkg/cmd"
	_ "k8s.io/kubernetes/cmd/kube-apiserver/app"
	_ "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	_ "k8s.io/kubernetes/cmd/kube-scheduler/app"
	_ "sigs.k8s.io/controller-runtime"
	_ "sigs.k8s.io/controller-runtime/pkg/client/fake"
	_ "sigs.k8s.io/controller-runtime/pkg/envtest"
	_ "github.com/spf13/cobra"
	_ "github.com/google/go-cmp/cmp"
	_ "pgregory.net/rapid"
	_ "go.uber.org/goleak"
	_ "github.com/rogpeppe/go-internal/testscript"
	_ "github.com/cockroachdb/datadriven"
	_ "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	_ "sigs.k8s.io/yaml"
)

func main() {}
