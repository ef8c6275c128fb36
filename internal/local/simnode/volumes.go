package simnode

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// Provisioner provides the volumes of a storage class here: volumes that
// hold nothing, since nothing on a simulated node reads or writes them.
const Provisioner = "mlbatch.dev/simulated"

const (
	// annStorageProvisioner is set on a claim by kube-controller-manager for the
	// provisioner of its volume, annProvisionedBy on a volume by that.
	annStorageProvisioner = "volume.kubernetes.io/storage-provisioner"
	annProvisionedBy      = "pv.kubernetes.io/provisioned-by"
	// volumeDriver is what is said to attach them, a name without slashes.
	volumeDriver = "simulated.mlbatch.dev"
)

// provision gives a claim its volume.
func (s *simulator) provision(ctx context.Context, key string) (time.Duration, error) {
	claim, ok := get[*corev1.PersistentVolumeClaim](s.claims, key)
	if !ok {
		return 0, nil
	}
	v := volumeFor(claim)
	if v == nil {
		return 0, nil
	}
	_, err := s.client.CoreV1().PersistentVolumes().Create(ctx, v, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return 0, fmt.Errorf("make a volume for claim %s: %w", key, err)
	}
	return 0, nil
}

// volumeFor is the volume that a claim waits for, nil if it does not wait for one
// from here.
func volumeFor(claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolume {
	if claim.Annotations[annStorageProvisioner] != Provisioner || claim.Spec.VolumeName != "" ||
		claim.DeletionTimestamp != nil || claim.Spec.StorageClassName == nil {
		return nil
	}
	name := "pvc-" + string(claim.UID)
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{annProvisionedBy: Provisioner}},
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
				CSI: &corev1.CSIPersistentVolumeSource{Driver: volumeDriver, VolumeHandle: name},
			},
		},
	}
}

// reclaim deletes a volume made here whose claim is gone.
func (s *simulator) reclaim(ctx context.Context, key string) (time.Duration, error) {
	v, ok := get[*corev1.PersistentVolume](s.volumes, key)
	if !ok || !abandoned(v) {
		return 0, nil
	}
	err := s.client.CoreV1().PersistentVolumes().Delete(
		ctx,
		v.Name,
		metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(v.UID))},
	)
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return 0, fmt.Errorf("delete volume %s: %w", v.Name, err)
	}
	return 0, nil
}

func abandoned(v *corev1.PersistentVolume) bool {
	return v.Annotations[annProvisionedBy] == Provisioner && v.Status.Phase == corev1.VolumeReleased &&
		v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete && v.DeletionTimestamp == nil
}

// watchVolumes lets changes of claims and volumes reach their queues.
func (s *simulator) watchVolumes() error {
	for queue, informer := range map[*workQueue]cache.SharedIndexInformer{&s.claimQueue: s.claims, &s.volumeQueue: s.volumes} {
		if _, err := informer.AddEventHandler(enqueue(*queue, func(any) {})); err != nil {
			return fmt.Errorf("watch volumes: %w", err)
		}
		if err := informer.SetTransform(dropManagedFields); err != nil {
			return fmt.Errorf("watch volumes: %w", err)
		}
	}
	return nil
}
