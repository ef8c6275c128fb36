//go:build !noembed

package realnode

import "context"

// Programs are the programs by name.
func Programs() map[string]func(ctx context.Context, args []string) error {
	return map[string]func(ctx context.Context, args []string) error{
		MachineName: Machine,
		NetworkName: RunNetwork,
		DNSName:     runDNS,
		VolumesName: runVolumes,
		KubeletName: runKubelet,
		ProxyName:   runProxy,
	}
}
