//go:build !noembed

package realnode

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/mlbatch/mlbatch/internal/local/names"
)

const (
	// annStorageProvisioner is set on a claim by kube-controller-manager for the
	// provisioner of its volume, annProvisionedBy on a volume by that.
	annStorageProvisioner = "volume.kubernetes.io/storage-provisioner"
	annProvisionedBy      = "pv.kubernetes.io/provisioned-by"
	// again is when what failed is tried once more.
	again = 2 * time.Second
)

// provisioner makes volumes that are directories: all nodes see the same, so that pods
// on several nodes can share one.
type provisioner struct {
	client  kubernetes.Interface
	claims  corelisters.PersistentVolumeClaimLister
	volumes corelisters.PersistentVolumeLister
	dir     string
	news    chan struct{}
}

// runVolumes provides volumes and removes them.
func runVolumes(ctx context.Context, args []string) error {
	var kubeconfig, health string
	p := &provisioner{news: make(chan struct{}, 1)}
	f := flag.NewFlagSet("volumes", flag.ContinueOnError)
	f.StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig of the cluster")
	f.StringVar(&p.dir, "dir", "", "directory of the volumes")
	f.StringVar(&health, "health-file", "", "file that is locked once it works")
	if err := f.Parse(args); err != nil {
		return fmt.Errorf("read flags: %w", err)
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return fmt.Errorf("read kubeconfig %q: %w", kubeconfig, err)
	}
	if p.client, err = kubernetes.NewForConfig(cfg); err != nil {
		return fmt.Errorf("connect to the API server: %w", err)
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	all := informers.NewSharedInformerFactory(p.client, 0)
	p.claims, p.volumes = all.Core().
		V1().
		PersistentVolumeClaims().
		Lister(),
		all.Core().
			V1().
			PersistentVolumes().
			Lister()
	for _, i := range []cache.SharedIndexInformer{all.Core().V1().PersistentVolumeClaims().Informer(), all.Core().V1().PersistentVolumes().Informer()} {
		if _, err := i.AddEventHandler(p.onNews()); err != nil {
			return fmt.Errorf("watch volumes: %w", err)
		}
	}
	all.Start(ctx.Done())
	all.WaitForCacheSync(ctx.Done())
	if err := keepLocked(health, ""); err != nil {
		return err
	}
	p.run(ctx)
	return nil
}

func (p *provisioner) onNews() cache.ResourceEventHandlerFuncs {
	wake := func(any) {
		select {
		case p.news <- struct{}{}:
		default:
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    wake,
		UpdateFunc: func(_, o any) { wake(o) },
		DeleteFunc: wake,
	}
}

// run looks at all whenever something changed, until ctx ends: there are few.
func (p *provisioner) run(ctx context.Context) {
	for {
		var retry <-chan time.Time
		if err := p.look(ctx); err != nil && ctx.Err() == nil {
			klog.ErrorS(err, "Provide volumes")
			retry = clock.RealClock{}.After(again)
		}
		select {
		case <-ctx.Done():
			return
		case <-p.news:
		case <-retry:
		}
	}
}

func (p *provisioner) look(ctx context.Context) error {
	claims, err := p.claims.List(labels.Everything())
	if err != nil {
		return err
	}
	volumes, err := p.volumes.List(labels.Everything())
	if err != nil {
		return err
	}
	var all []error
	for _, c := range claims {
		all = append(all, p.provide(ctx, c))
	}
	for _, v := range volumes {
		all = append(all, p.reclaim(ctx, v))
	}
	return errors.Join(all...)
}

// provide makes the volume that a claim waits for.
func (p *provisioner) provide(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	if claim.Annotations[annStorageProvisioner] != names.VolumeProvisioner || claim.Spec.VolumeName != "" ||
		claim.DeletionTimestamp != nil || claim.Spec.StorageClassName == nil {
		return nil
	}
	name := "pvc-" + string(claim.UID)
	at := filepath.Join(p.dir, name)
	if err := os.MkdirAll(at, 0o777); err != nil {
		return fmt.Errorf("make a directory for claim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	// Pods run as any user, whatever our umask says.
	if err := os.Chmod(at, 0o777); err != nil { //nolint:gosec // as said
		return fmt.Errorf("make a directory for claim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	kind := corev1.HostPathDirectory
	_, err := p.client.CoreV1().PersistentVolumes().Create(ctx, &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name:        name,
			Annotations: map[string]string{annProvisionedBy: names.VolumeProvisioner},
		},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: corev1.ResourceList{
				corev1.ResourceStorage: claim.Spec.Resources.Requests[corev1.ResourceStorage],
			},
			AccessModes:                   claim.Spec.AccessModes,
			VolumeMode:                    claim.Spec.VolumeMode,
			StorageClassName:              *claim.Spec.StorageClassName,
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			ClaimRef: &corev1.ObjectReference{
				APIVersion: "v1",
				Kind:       "PersistentVolumeClaim",
				Namespace:  claim.Namespace,
				Name:       claim.Name,
				UID:        claim.UID,
			},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				HostPath: &corev1.HostPathVolumeSource{Path: filepath.Join(insideVolumes, name), Type: &kind},
			},
		},
	}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("make a volume for claim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	return nil
}

// reclaim removes a volume made here, with what it holds, once its claim is gone.
func (p *provisioner) reclaim(ctx context.Context, v *corev1.PersistentVolume) error {
	if v.Annotations[annProvisionedBy] != names.VolumeProvisioner || v.Status.Phase != corev1.VolumeReleased ||
		v.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete || v.DeletionTimestamp != nil ||
		!strings.HasPrefix(v.Name, "pvc-") {
		return nil
	}
	if err := os.RemoveAll(filepath.Join(p.dir, v.Name)); err != nil {
		return fmt.Errorf("remove volume %s: %w", v.Name, err)
	}
	err := p.client.CoreV1().PersistentVolumes().Delete(
		ctx,
		v.Name,
		metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(v.UID))},
	)
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete volume %s: %w", v.Name, err)
	}
	return nil
}
