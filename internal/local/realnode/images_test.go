//go:build linux && !noembed

package realnode

import (
	"context"
	"testing"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// fakeContainerd has some images.
type fakeContainerd struct {
	runtimeapi.ImageServiceClient

	has []*runtimeapi.Image
}

func (f fakeContainerd) ListImages(
	context.Context,
	*runtimeapi.ListImagesRequest,
	...grpc.CallOption,
) (*runtimeapi.ListImagesResponse, error) {
	return &runtimeapi.ListImagesResponse{Images: f.has}, nil
}

// A kubelet whose disk is full removes images that no container uses: those of archives are pinned, since no
// pull brings them back.
func TestImagesOfArchivesArePinned(t *testing.T) {
	i := &images{
		containerd: fakeContainerd{has: []*runtimeapi.Image{{Id: "sha256:1"}, {Id: "sha256:2", Pinned: true}}},
	}
	got, err := i.ListImages(t.Context(), &runtimeapi.ListImagesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Images) != 2 {
		t.Fatalf("it lists %v", got.Images)
	}
	for _, image := range got.Images {
		if !image.Pinned {
			t.Errorf("%s is not pinned", image.Id)
		}
	}
}
