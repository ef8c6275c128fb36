//go:build !noembed

package realnode

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/util/wait"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/klog/v2"
)

// images stands between a kubelet and containerd where images are concerned: those of
// archives need no registry, whatever a pod's pull policy says.
type images struct {
	runtimeapi.UnimplementedImageServiceServer
	containerd runtimeapi.ImageServiceClient
}

// containerdTimeout is how long containerd may take to answer at all.
const containerdTimeout = time.Minute

// serveImages serves a kubelet until ctx ends. It returns when containerd answers.
func serveImages(ctx context.Context) (*images, error) {
	conn, err := grpc.NewClient(
		"unix://"+containerdSocket,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(16<<20)),
	)
	if err != nil {
		return nil, fmt.Errorf("connect to containerd: %w", err)
	}
	i := &images{containerd: runtimeapi.NewImageServiceClient(conn)}
	var last error
	err = wait.PollUntilContextTimeout(
		ctx,
		50*time.Millisecond,
		containerdTimeout,
		true,
		func(ctx context.Context) (bool, error) {
			_, last = i.containerd.ListImages(ctx, &runtimeapi.ListImagesRequest{})
			return last == nil, nil
		},
	)
	if err != nil {
		return nil, fmt.Errorf("wait for containerd: %w", errors.Join(err, last))
	}
	if err := os.Remove(imageSocket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	l, err := new(net.ListenConfig).Listen(ctx, "unix", imageSocket)
	if err != nil {
		return nil, err
	}
	s := grpc.NewServer()
	runtimeapi.RegisterImageServiceServer(s, i)
	go func() {
		<-ctx.Done()
		s.Stop()
	}()
	go func() { _ = s.Serve(l) }() // until it is stopped
	return i, nil
}

// ListImages asks containerd, as all below do. All images are pinned: a kubelet that is short of disk removes
// none of them, since none would come back.
func (i *images) ListImages(
	ctx context.Context,
	r *runtimeapi.ListImagesRequest,
) (*runtimeapi.ListImagesResponse, error) {
	has, err := i.containerd.ListImages(ctx, r)
	if err != nil {
		return nil, err
	}
	for _, image := range has.Images {
		image.Pinned = true
	}
	return has, nil
}

// ImageStatus implements runtimeapi.ImageServiceServer.
func (i *images) ImageStatus(
	ctx context.Context,
	r *runtimeapi.ImageStatusRequest,
) (*runtimeapi.ImageStatusResponse, error) {
	return i.containerd.ImageStatus(ctx, r)
}

// RemoveImage implements runtimeapi.ImageServiceServer.
func (i *images) RemoveImage(
	ctx context.Context,
	r *runtimeapi.RemoveImageRequest,
) (*runtimeapi.RemoveImageResponse, error) {
	return i.containerd.RemoveImage(ctx, r)
}

// ImageFsInfo implements runtimeapi.ImageServiceServer.
func (i *images) ImageFsInfo(
	ctx context.Context,
	r *runtimeapi.ImageFsInfoRequest,
) (*runtimeapi.ImageFsInfoResponse, error) {
	return i.containerd.ImageFsInfo(ctx, r)
}

// PullImage gives the image that is there. Nodes have no way to a registry, so that
// others cannot be had.
func (i *images) PullImage(
	ctx context.Context,
	r *runtimeapi.PullImageRequest,
) (*runtimeapi.PullImageResponse, error) {
	has, err := i.containerd.ImageStatus(ctx, &runtimeapi.ImageStatusRequest{Image: r.Image})
	if err != nil {
		return nil, err
	}
	if has.Image != nil {
		return &runtimeapi.PullImageResponse{ImageRef: has.Image.Id}, nil
	}
	return nil, status.Errorf(
		codes.NotFound,
		"%s is not on this node, and there is no way to a registry: put an archive of it (docker save, or OCI) into the directory archives of the cluster's data directory",
		r.GetImage().GetImage(),
	)
}

// importEvery is how often it is looked for new archives.
const importEvery = 2 * time.Second

// importNew imports archives that are put there, until ctx ends.
func (i *images) importNew(ctx context.Context) {
	_ = wait.PollUntilContextCancel(ctx, importEvery, false, func(ctx context.Context) (bool, error) {
		if err := i.importAll(ctx); err != nil {
			klog.ErrorS(err, "Import images")
		}
		return false, nil
	})
}

// importAll imports the archives that were not imported yet. An archive that is replaced
// by one of another size or time is a new one.
func (i *images) importAll(ctx context.Context) error {
	entries, err := os.ReadDir(insideArchive)
	if err != nil {
		return fmt.Errorf("look for images: %w", err)
	}
	done := filepath.Join("/var/lib/containerd", "mlbatch-imported")
	have, err := os.ReadFile(done)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	known := strings.Fields(string(have))
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || filepath.Ext(e.Name()) != ".tar" {
			continue // it was taken away, or is being written
		}
		is := fmt.Sprintf("%s:%d:%d", e.Name(), info.Size(), info.ModTime().UnixNano())
		if slices.Contains(known, is) {
			continue
		}
		//nolint:gosec // a file of the cluster's own directory
		cmd := exec.CommandContext(
			ctx,
			"ctr",
			"--address",
			containerdSocket,
			"--namespace",
			"k8s.io",
			"images",
			"import",
			filepath.Join(insideArchive, e.Name()),
		)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("import %s: %w: %s", e.Name(), err, out)
		}
		known = append(known, is)
		if err := os.WriteFile(done, []byte(strings.Join(known, "\n")+"\n"), 0o600); err != nil {
			return err
		}
	}
	return nil
}
