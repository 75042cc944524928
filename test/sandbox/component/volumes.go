package component

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/kwok/pkg/log"
)

// ebsDriver is the CSI driver of EBS volumes; what it does in a cluster is done here: provision a volume in the zone of the
// node that the scheduler has chosen, report it attached, and delete it when it is released.
const ebsDriver = "ebs.csi.aws.com"

// Annotations by which Kubernetes and provisioners talk.
const (
	provisionerAnnotation   = "volume.kubernetes.io/storage-provisioner"
	selectedNodeAnnotation  = "volume.kubernetes.io/selected-node"
	provisionedByAnnotation = "pv.kubernetes.io/provisioned-by"
	// attachAnnotation is what a kubelet puts on its node to leave attaching to the controller.
	attachAnnotation = "volumes.kubernetes.io/controller-managed-attach-detach"
)

// volumes plays the driver. It is level-triggered: after any change it looks at everything.
type volumes struct {
	client  kubernetes.Interface
	factory informers.SharedInformerFactory
	changed chan struct{}
}

func newVolumes(client kubernetes.Interface) (*volumes, error) {
	v := &volumes{client: client, factory: informers.NewSharedInformerFactory(client, 0), changed: make(chan struct{}, 1)}
	storage, core := v.factory.Storage().V1(), v.factory.Core().V1()
	for _, informer := range []cache.SharedIndexInformer{
		storage.StorageClasses().Informer(), storage.VolumeAttachments().Informer(), core.Nodes().Informer(),
		core.PersistentVolumes().Informer(), core.PersistentVolumeClaims().Informer(),
	} {
		_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { v.notify() }, UpdateFunc: func(any, any) { v.notify() }, DeleteFunc: func(any) { v.notify() },
		})
		if err != nil {
			return nil, fmt.Errorf("watching volumes: %w", err)
		}
	}
	return v, nil
}

func (v *volumes) notify() {
	select {
	case v.changed <- struct{}{}:
	default: // a look is due already
	}
}

// run works until ctx is done.
func (v *volumes) run(ctx context.Context) {
	v.factory.Start(ctx.Done())
	v.factory.WaitForCacheSync(ctx.Done())
	for {
		var again <-chan time.Time
		if err := v.reconcile(ctx); err != nil {
			log.FromContext(ctx).Warn("Volumes", "err", err)
			again = time.After(time.Second)
		}
		select {
		case <-ctx.Done():
			v.factory.Shutdown()
			return
		case <-v.changed:
		case <-again:
		}
	}
}

func (v *volumes) reconcile(ctx context.Context) error {
	nodes, err := v.factory.Core().V1().Nodes().Lister().List(labels.Everything())
	if err != nil {
		return err
	}
	var errs []error
	for _, node := range nodes {
		errs = append(errs, v.manageAttaching(ctx, node))
	}
	claims, err := v.factory.Core().V1().PersistentVolumeClaims().Lister().List(labels.Everything())
	if err != nil {
		return err
	}
	for _, claim := range claims {
		errs = append(errs, v.provision(ctx, claim))
	}
	persistent, err := v.factory.Core().V1().PersistentVolumes().Lister().List(labels.Everything())
	if err != nil {
		return err
	}
	for _, pv := range persistent {
		errs = append(errs, v.reclaim(ctx, pv))
	}
	attachments, err := v.factory.Storage().V1().VolumeAttachments().Lister().List(labels.Everything())
	if err != nil {
		return err
	}
	for _, attachment := range attachments {
		errs = append(errs, v.attach(ctx, attachment))
	}
	return errors.Join(errs...)
}

// manageAttaching lets the controller attach volumes to a simulated node.
func (v *volumes) manageAttaching(ctx context.Context, node *corev1.Node) error {
	if _, managed := node.Annotations[attachAnnotation]; managed || node.Annotations[FakeNodeAnnotation] != FakeNodeValue {
		return nil
	}
	patch := []byte(`{"metadata":{"annotations":{"` + attachAnnotation + `":"true"}}}`)
	_, err := v.client.CoreV1().Nodes().Patch(ctx, node.Name, "application/merge-patch+json", patch, metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("annotating node %s: %w", node.Name, err)
	}
	return nil
}

// provision makes the volume of a claim that waits for one.
func (v *volumes) provision(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	if claim.Annotations[provisionerAnnotation] != ebsDriver || claim.Spec.VolumeName != "" || claim.DeletionTimestamp != nil ||
		claim.Spec.StorageClassName == nil {
		return nil
	}
	class, err := v.factory.Storage().V1().StorageClasses().Lister().Get(*claim.Spec.StorageClassName)
	if apierrors.IsNotFound(err) {
		return nil // the controller says so to the user
	}
	if err != nil {
		return err
	}
	zone, err := v.zoneFor(ctx, claim, class)
	if zone == "" || err != nil {
		return err
	}
	pv := volumeFor(claim, class, zone)
	if _, err := v.client.CoreV1().PersistentVolumes().Create(ctx, pv, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("provisioning for claim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	return nil
}

// zoneFor is the zone of the node that the scheduler has chosen, or any the class allows when it did not wait for one; ""
// when it is not known yet.
func (v *volumes) zoneFor(ctx context.Context, claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass) (string, error) {
	nodes := v.factory.Core().V1().Nodes().Lister()
	if waits := class.VolumeBindingMode; waits == nil || *waits != storagev1.VolumeBindingWaitForFirstConsumer {
		for _, term := range class.AllowedTopologies {
			for _, e := range term.MatchLabelExpressions {
				if len(e.Values) > 0 {
					return e.Values[0], nil
				}
			}
		}
		all, err := nodes.List(labels.Everything())
		var zones []string
		for _, n := range all {
			zones = append(zones, n.Labels[corev1.LabelTopologyZone])
		}
		slices.Sort(zones)
		i := slices.IndexFunc(zones, func(z string) bool { return z != "" })
		if i < 0 {
			return "", err
		}
		return zones[i], nil
	}
	name := claim.Annotations[selectedNodeAnnotation]
	if name == "" {
		return "", nil
	}
	node, err := nodes.Get(name)
	if apierrors.IsNotFound(err) {
		return "", v.reschedule(ctx, claim)
	}
	if err != nil {
		return "", err
	}
	return node.Labels[corev1.LabelTopologyZone], nil
}

// reschedule lets the scheduler choose again: the chosen node is gone.
func (v *volumes) reschedule(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	// The node may be newer than the cache.
	if _, err := v.client.CoreV1().Nodes().Get(ctx, claim.Annotations[selectedNodeAnnotation], metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		return err
	}
	claim = claim.DeepCopy()
	delete(claim.Annotations, selectedNodeAnnotation)
	_, err := v.client.CoreV1().PersistentVolumeClaims(claim.Namespace).Update(ctx, claim, metav1.UpdateOptions{})
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil // seen again with the change that is under way
	}
	return err
}

func volumeFor(claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass, zone string) *corev1.PersistentVolume {
	id := string(claim.UID)
	pv := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pvc-" + id, Annotations: map[string]string{provisionedByAnnotation: ebsDriver}},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:         corev1.ResourceList{corev1.ResourceStorage: claim.Spec.Resources.Requests[corev1.ResourceStorage]},
			AccessModes:      claim.Spec.AccessModes,
			VolumeMode:       claim.Spec.VolumeMode,
			StorageClassName: class.Name,
			ClaimRef: &corev1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: claim.Namespace,
				Name: claim.Name, UID: claim.UID},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
				Driver: ebsDriver, VolumeHandle: "vol-0" + strings.ReplaceAll(id, "-", "")[:16], FSType: "ext4",
			}},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{zone}}},
			}}}},
		},
	}
	if class.ReclaimPolicy != nil {
		pv.Spec.PersistentVolumeReclaimPolicy = *class.ReclaimPolicy
	}
	return pv
}

// reclaim deletes a volume whose claim is gone.
func (v *volumes) reclaim(ctx context.Context, pv *corev1.PersistentVolume) error {
	if pv.Annotations[provisionedByAnnotation] != ebsDriver || pv.Status.Phase != corev1.VolumeReleased || pv.DeletionTimestamp != nil ||
		pv.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete {
		return nil
	}
	err := v.client.CoreV1().PersistentVolumes().Delete(ctx, pv.Name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting volume %s: %w", pv.Name, err)
	}
	return nil
}

// attach reports a volume attached.
func (v *volumes) attach(ctx context.Context, a *storagev1.VolumeAttachment) error {
	if a.Spec.Attacher != ebsDriver || a.Status.Attached || a.DeletionTimestamp != nil {
		return nil
	}
	patch := []byte(`{"status":{"attached":true}}`)
	_, err := v.client.StorageV1().VolumeAttachments().Patch(ctx, a.Name, "application/merge-patch+json", patch, metav1.PatchOptions{}, "status")
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("attaching %s: %w", a.Name, err)
	}
	return nil
}
