package shorthand

import (
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

const (
	ebsDriver    = "ebs.csi.aws.com"
	storageClass = "gp3"
)

func (x *expander) pods() error {
	owners := map[string]string{}
	for _, p := range x.in.Pods {
		if err := x.pod(p, owners); err != nil {
			return fmt.Errorf("pod %s/%s: %w", p.NS, p.Name, err)
		}
	}
	return nil
}

func (x *expander) pod(p Pod, owners map[string]string) error {
	spec, err := x.podSpec(p)
	if err != nil {
		return err
	}
	pod := x.podObject(or(p.NS, "default"), p.Name, spec)
	pod.Labels, pod.Annotations = p.Labels, p.Annotate
	x.owner(pod, or(p.Owner, "Deployment"), owners)
	if p.PVC != nil {
		x.volume(pod, p.PVC)
	}
	if p.On != "" {
		at, err := x.time(p.Started, "24h")
		if err != nil {
			return err
		}
		pod.Spec.NodeName = p.On
		x.running(pod, at)
	} else if err := x.pending(pod, p); err != nil {
		return err
	}
	if p.Crash != nil {
		crash(pod, *p.Crash)
	}
	merged, err := merge(pod, p.Patch)
	if err != nil {
		return err
	}
	x.add(merged)
	return nil
}

func (p Pod) requests() (corev1.ResourceList, error) {
	out := corev1.ResourceList{}
	for name, text := range map[corev1.ResourceName]Text{corev1.ResourceCPU: p.CPU, corev1.ResourceMemory: p.Memory} {
		if text == "" {
			continue
		}
		q, err := resource.ParseQuantity(string(text))
		if err != nil {
			return nil, fmt.Errorf("%s %q: %w", name, text, err)
		}
		out[name] = q
	}
	if p.GPU > 0 {
		out["nvidia.com/gpu"] = *resource.NewQuantity(p.GPU, resource.DecimalSI)
	}
	return out, nil
}

func (x *expander) podSpec(p Pod) (corev1.PodSpec, error) {
	requests, err := p.requests()
	if err != nil {
		return corev1.PodSpec{}, err
	}
	rr := corev1.ResourceRequirements{Requests: requests}
	if gpu, ok := requests["nvidia.com/gpu"]; ok {
		rr.Limits = corev1.ResourceList{"nvidia.com/gpu": gpu}
	}
	spec := corev1.PodSpec{
		SchedulerName: "default-scheduler", NodeSelector: p.Select,
		Containers: []corev1.Container{{Name: "main", Image: stem(p.Name, 2), Resources: rr}},
	}
	for _, g := range p.Gates {
		spec.SchedulingGates = append(spec.SchedulingGates, corev1.PodSchedulingGate{Name: g})
	}
	var anti []corev1.PodAffinityTerm
	for _, err := range []error{
		decode(p.Tolerate, &spec.Tolerations, "tolerate"),
		decode(p.Spread, &spec.TopologySpreadConstraints, "spread"),
		decode(p.Affinity, &spec.Affinity, "affinity"),
		decode(p.Anti, &anti, "anti"),
	} {
		if err != nil {
			return spec, err
		}
	}
	if len(anti) > 0 {
		if spec.Affinity == nil {
			spec.Affinity = &corev1.Affinity{}
		}
		spec.Affinity.PodAntiAffinity = &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: anti}
	}
	return spec, nil
}

func (x *expander) podObject(ns, name string, spec corev1.PodSpec) *corev1.Pod {
	return &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: x.meta(ns, name, "24h", nil), Spec: spec}
}

func (x *expander) running(pod *corev1.Pod, at time.Time) {
	started := metav1.NewTime(at)
	pod.CreationTimestamp = metav1.NewTime(at.Add(-2 * time.Second))
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &started, Conditions: []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: started},
		{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: started},
	}}
}

func (x *expander) pending(pod *corev1.Pod, p Pod) error {
	at, err := x.time(p.Since, "10m")
	if err != nil {
		return err
	}
	since := metav1.NewTime(at)
	pod.CreationTimestamp = since
	reason, message := "Unschedulable", "no node can take the pod"
	if len(p.Gates) > 0 {
		reason, message = "SchedulingGated", "Scheduling is blocked due to non-empty scheduling gates"
	}
	pod.Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: reason, Message: message, LastTransitionTime: since},
	}}
	return nil
}

func crash(pod *corev1.Pod, c Crash) {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == corev1.PodReady {
			pod.Status.Conditions[i].Status = corev1.ConditionFalse
		}
	}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: pod.Spec.Containers[0].Name, RestartCount: c.Restarts, Image: pod.Spec.Containers[0].Image,
		State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: c.Reason}},
	}}
}

// owner makes the pod's owners: a Deployment owns through a ReplicaSet, the others directly.
func (x *expander) owner(pod *corev1.Pod, kind string, made map[string]string) {
	ns := pod.Namespace
	once := func(kind, name string, build func(metav1.ObjectMeta) any) string {
		key := kind + "/" + ns + "/" + name
		if made[key] == "" {
			m := x.meta(ns, name, "24h", nil)
			made[key] = string(m.UID)
			x.add(build(m))
		}
		return made[key]
	}
	switch kind {
	case "None":
	case "Deployment":
		deployment, set := stem(pod.Name, 2), stem(pod.Name, 1)
		if deployment == set {
			set += "-1"
		}
		uid := once("Deployment", deployment, func(m metav1.ObjectMeta) any {
			return &appsv1.Deployment{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}, ObjectMeta: m}
		})
		setUID := once("ReplicaSet", set, func(m metav1.ObjectMeta) any {
			m.OwnerReferences = []metav1.OwnerReference{owned("apps/v1", "Deployment", deployment, uid)}
			return &appsv1.ReplicaSet{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "ReplicaSet"}, ObjectMeta: m}
		})
		pod.OwnerReferences = []metav1.OwnerReference{owned("apps/v1", "ReplicaSet", set, setUID)}
	case "Job":
		x.own(pod, "batch/v1", kind, stem(pod.Name, 1))
	default:
		x.own(pod, "apps/v1", kind, stem(pod.Name, 1))
	}
}

func (x *expander) own(pod *corev1.Pod, apiVersion, kind, name string) {
	pod.OwnerReferences = []metav1.OwnerReference{owned(apiVersion, kind, name, "owner-"+strings.ToLower(kind)+"-"+pod.Namespace+"-"+name)}
}

// volume binds a claim of the pod to a volume in one zone.
func (x *expander) volume(pod *corev1.Pod, v *Volume) {
	class, mode := storageClass, storagev1.VolumeBindingWaitForFirstConsumer
	claim, pv := or(v.Name, "data-"+pod.Name), "pvc-"+pod.Namespace+"-"+pod.Name
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("100Gi")}
	zone := corev1.NodeSelectorRequirement{Key: zoneLabel, Operator: corev1.NodeSelectorOpIn, Values: []string{x.zone(v.Zone)}}
	sc := &storagev1.StorageClass{
		TypeMeta: metav1.TypeMeta{APIVersion: "storage.k8s.io/v1", Kind: "StorageClass"}, ObjectMeta: x.meta("", class, "720h", nil),
		Provisioner: ebsDriver, VolumeBindingMode: &mode,
	}
	pvc := &corev1.PersistentVolumeClaim{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"},
		ObjectMeta: x.meta(pod.Namespace, claim, "240h", nil),
		Spec:       corev1.PersistentVolumeClaimSpec{StorageClassName: &class, VolumeName: pv, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}},
		Status:     corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, Capacity: size},
	}
	pvc.Spec.Resources.Requests = size
	pvc.Annotations = map[string]string{"pv.kubernetes.io/bind-completed": "yes"}
	volume := &corev1.PersistentVolume{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolume"}, ObjectMeta: x.meta("", pv, "240h", nil),
		Spec: corev1.PersistentVolumeSpec{
			Capacity: size, StorageClassName: class, AccessModes: pvc.Spec.AccessModes,
			ClaimRef: &corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: pod.Namespace, Name: claim, UID: pvc.UID},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: ebsDriver, VolumeHandle: "vol-" + pod.Name},
			},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{zone}}},
			}},
		},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeBound},
	}
	x.add(sc, pvc, volume)
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
	}})
}

func (x *expander) budgets() error {
	for _, b := range x.in.PDB {
		pdb := &policyv1.PodDisruptionBudget{
			TypeMeta:   metav1.TypeMeta{APIVersion: "policy/v1", Kind: "PodDisruptionBudget"},
			ObjectMeta: x.meta(or(b.NS, "default"), b.Name, "240h", nil),
			Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: b.Selector}},
		}
		for _, part := range []struct {
			raw []byte
			to  **intstr.IntOrString
		}{{b.MaxUnavailable, &pdb.Spec.MaxUnavailable}, {b.MinAvailable, &pdb.Spec.MinAvailable}} {
			if len(part.raw) == 0 {
				continue
			}
			*part.to = new(intstr.IntOrString)
			if err := decode(part.raw, *part.to, "budget "+b.Name); err != nil {
				return err
			}
		}
		x.add(pdb)
	}
	return nil
}

// cronJob makes a CronJob and one completed pod for each run.
func (x *expander) cronJob() error {
	c := x.in.CronJob
	if c == nil {
		return nil
	}
	x.add(&batchv1.CronJob{
		TypeMeta:   metav1.TypeMeta{APIVersion: "batch/v1", Kind: "CronJob"},
		ObjectMeta: x.meta(c.NS, c.Name, "240h", nil), Spec: batchv1.CronJobSpec{Schedule: c.Schedule},
	})
	lasts, err := time.ParseDuration(or(c.Lasts, "12s"))
	if err != nil {
		return fmt.Errorf("cronjob %s: %w", c.Name, err)
	}
	for i, run := range c.Runs {
		at, err := x.time(run, "")
		if err != nil {
			return err
		}
		pod := x.podObject(c.NS, fmt.Sprintf("%s-%d", c.Name, i+1), corev1.PodSpec{NodeName: c.On, Containers: []corev1.Container{{Name: "main", Image: c.Name}}})
		x.own(pod, "batch/v1", "Job", pod.Name)
		x.running(pod, at)
		pod.Status.Phase = corev1.PodSucceeded
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{StartedAt: metav1.NewTime(at), FinishedAt: metav1.NewTime(at.Add(lasts))},
		}}}
		x.add(pod)
	}
	return nil
}

func (x *expander) events() error {
	for i, e := range x.in.Events {
		kind, name, ok := strings.Cut(e.On, " ")
		if !ok {
			return fmt.Errorf("event on %q: want KIND NAME", e.On)
		}
		ref := corev1.ObjectReference{Kind: map[string]string{"pod": "Pod", "node": "Node", "nodeclaim": "NodeClaim", "nodepool": "NodePool"}[kind], Name: name}
		if ref.Kind == "" {
			return fmt.Errorf("event on %q: unknown kind", e.On)
		}
		ns := "default"
		if kind == "pod" {
			ns, ref.Name, _ = strings.Cut(name, "/")
			ref.Namespace = ns
		}
		at, err := x.time(e.At, "1m")
		if err != nil {
			return err
		}
		count := max(e.Count, 1)
		ev := &corev1.Event{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Event"}, ObjectMeta: x.meta(ns, fmt.Sprintf("%s.%d", ref.Name, i+1), "", nil),
			InvolvedObject: ref, Reason: e.Reason, Message: e.Message, Type: or(e.Type, "Normal"), Count: count,
			FirstTimestamp: metav1.NewTime(at), LastTimestamp: metav1.NewTime(at), Source: corev1.EventSource{Component: "karpenter"},
		}
		ev.CreationTimestamp = metav1.NewTime(at)
		x.add(ev)
	}
	return nil
}
