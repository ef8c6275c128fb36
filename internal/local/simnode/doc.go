// Package simnode plays the kubelets of simulated GPU nodes.
package simnode
