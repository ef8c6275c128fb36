//go:build !noembed

package realnode

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/klog/v2"
	deviceplugin "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	"k8s.io/utils/clock"
)

const gpuSocket = "mlbatch-gpus.sock"

// lookEvery is how often the kubelet is looked for: it removes all sockets when it starts.
const lookEvery = 500 * time.Millisecond

// offerGPUs is a device plugin with GPUs that are numbers only: pods get the numbers that they
// ask for, and find in NVIDIA_VISIBLE_DEVICES which.
func offerGPUs(ctx context.Context, count int64) {
	if count == 0 {
		return
	}
	socket := filepath.Join(deviceplugin.DevicePluginPath, gpuSocket)
	ticker := clock.RealClock{}.NewTicker(lookEvery)
	defer ticker.Stop()
	var serving *grpc.Server
	for {
		_, kubelet := os.Stat(deviceplugin.KubeletSocket)
		if _, err := os.Stat(socket); kubelet == nil && (err != nil || serving == nil) {
			if serving != nil {
				serving.Stop()
			}
			var err error
			if serving, err = serveGPUs(ctx, socket, count); err != nil {
				klog.ErrorS(err, "Offer GPUs")
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
		}
	}
}

// serveGPUs serves the plugin and tells the kubelet.
func serveGPUs(ctx context.Context, socket string, count int64) (*grpc.Server, error) {
	if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "unix", socket)
	if err != nil {
		return nil, err
	}
	s := grpc.NewServer()
	deviceplugin.RegisterDevicePluginServer(s, &gpus{count: count, ctx: ctx})
	go func() { _ = s.Serve(l) }() // until it is stopped
	conn, err := grpc.NewClient(
		"unix://"+deviceplugin.KubeletSocket,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
	)
	if err == nil {
		defer func() { _ = conn.Close() }() // it asked one thing
		_, err = deviceplugin.NewRegistrationClient(conn).Register(ctx, &deviceplugin.RegisterRequest{
			Version: deviceplugin.Version, Endpoint: gpuSocket, ResourceName: GPUResource,
		})
	}
	if err != nil {
		s.Stop()
		return nil, fmt.Errorf("register with the kubelet: %w", err)
	}
	return s, nil
}

type gpus struct {
	deviceplugin.UnimplementedDevicePluginServer
	count int64
	ctx   context.Context //nolint:containedctx // the life of the node
}

func (*gpus) GetDevicePluginOptions(
	context.Context,
	*deviceplugin.Empty,
) (*deviceplugin.DevicePluginOptions, error) {
	return &deviceplugin.DevicePluginOptions{}, nil
}

// ListAndWatch tells once: pretend GPUs do not change.
func (g *gpus) ListAndWatch(_ *deviceplugin.Empty, to deviceplugin.DevicePlugin_ListAndWatchServer) error {
	all := &deviceplugin.ListAndWatchResponse{}
	for i := range g.count {
		all.Devices = append(
			all.Devices,
			&deviceplugin.Device{ID: fmt.Sprintf("gpu-%d", i), Health: deviceplugin.Healthy},
		)
	}
	if err := to.Send(all); err != nil {
		return err
	}
	select {
	case <-to.Context().Done():
	case <-g.ctx.Done():
	}
	return nil
}

// Allocate tells the container which it has.
func (*gpus) Allocate(
	_ context.Context,
	r *deviceplugin.AllocateRequest,
) (*deviceplugin.AllocateResponse, error) {
	out := &deviceplugin.AllocateResponse{}
	for _, c := range r.ContainerRequests {
		var numbers []string
		for _, id := range c.DevicesIds {
			numbers = append(numbers, strings.TrimPrefix(id, "gpu-"))
		}
		out.ContainerResponses = append(out.ContainerResponses, &deviceplugin.ContainerAllocateResponse{
			Envs: map[string]string{"NVIDIA_VISIBLE_DEVICES": strings.Join(numbers, ",")},
		})
	}
	return out, nil
}
