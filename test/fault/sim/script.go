package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	awsv1 "github.com/karp-sh/karp/pkg/apis/aws/v1"
	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	"github.com/karp-sh/karp/pkg/cloud"
	"github.com/karp-sh/karp/pkg/config"
	"github.com/karp-sh/karp/pkg/lifecycle"
	"github.com/karp-sh/karp/test/fault/simkube"
)

// Script is one scenario: a title that names the rules it covers, and lines.
//
// A line is a verb with arguments, quoted where they hold spaces. Lines that begin with "?" say what must hold. The world has node class
// default and pool np; "set" lines, which come first, change the agent's configuration. The verbs are the keys of the maps in Run, and each
// handler says what it takes.
type Script struct {
	File  string
	Line  int
	Title string
	Lines []string
}

// ParseScripts reads a file of scenarios, each begun by a line "== title"; lines that begin with # are comments.
func ParseScripts(file, text string) ([]Script, error) {
	var out []Script
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSpace(line)
		switch title, ok := strings.CutPrefix(line, "== "); {
		case ok:
			out = append(out, Script{File: file, Line: n, Title: title})
		case line == "" || strings.HasPrefix(line, "#"):
		case len(out) == 0:
			return nil, fmt.Errorf("%s:%d: a line before the first scenario", file, n)
		default:
			last := &out[len(out)-1]
			last.Lines = append(last.Lines, strconv.Itoa(n)+"\x00"+line)
		}
	}
	return out, nil
}

// run is a script that runs.
type run struct {
	*World
	result reconcile.Result
	err    error
	faults []planned
	// began is the length of the trace when the last step began.
	began int
	// kept is what a line "keep" remembered.
	kept string
	// woken are the objects that a watched loop would have looked at.
	woken []string
}

// planned is a fault that waits for its write.
type planned struct {
	site  string
	fault simkube.Fault
	left  int
}

// Run carries out the script; call it inside a bubble. The error says which line went wrong and what the world looked like.
func (s Script) Run(ctx context.Context) error {
	w, err := New(1, s.configure)
	if err != nil {
		return err
	}
	r := &run{World: w}
	w.Fault = r.fault
	w.Cloud.Before = func(call string) simkube.Fault { return r.due("cloud " + call) }
	if err := w.Server.Put(parsePool("np", nil)); err != nil {
		return err
	}
	for _, line := range s.Lines {
		number, text, _ := strings.Cut(line, "\x00")
		args, err := split(text)
		if err == nil && args[0] != "set" {
			err = r.do(ctx, args)
		}
		if err != nil {
			return fmt.Errorf("%s:%s: %s: %w\nlast step: requeue %v, error %v\ntrace: %s", s.File, number, text, err, r.result.RequeueAfter, fmt.Sprint(r.err), strings.Join(w.Trace, "; "))
		}
	}
	return nil
}

// configure applies the lines "set NAME=value".
func (s Script) configure(c *config.Config) {
	for _, line := range s.Lines {
		_, text, _ := strings.Cut(line, "\x00")
		args, err := split(text)
		if err != nil || args[0] != "set" {
			continue
		}
		for _, a := range args[1:] {
			switch name, value, _ := strings.Cut(a, "="); name {
			case "StaticCapacity":
				c.Gates.StaticCapacity = value == "true"
			case "NodeRepair":
				c.Gates.NodeRepair = value == "true"
			case "InterruptionQueue":
				c.AWS.InterruptionQueue = value
			case "IgnoreDRARequests":
				c.IgnoreDRARequests = value == "true"
			case "DisableClusterStateObservability":
				c.DisableClusterStateObservability = value == "true"
			}
		}
	}
}

// split cuts a line into words; double quotes hold words together.
func split(line string) ([]string, error) {
	var out []string
	var word strings.Builder
	quoted, open := false, false
	for _, c := range line {
		switch {
		case c == '"':
			quoted, open = !quoted, true
		case c == ' ' && !quoted:
			if open {
				out = append(out, word.String())
			}
			word.Reset()
			open = false
		default:
			word.WriteRune(c)
			open = true
		}
	}
	if quoted {
		return nil, errors.New("a quote is not closed")
	}
	if open {
		out = append(out, word.String())
	}
	return out, nil
}

// fault decides about a write to the API server.
func (r *run) fault(w simkube.Write) simkube.Fault { return r.due(w.Site) }

func (r *run) due(site string) simkube.Fault {
	for i := range r.faults {
		if f := &r.faults[i]; f.site == site && f.left != 0 {
			f.left--
			return f.fault
		}
	}
	return simkube.None
}

// loopNames are short names of loops.
func loopNames() map[string]string {
	return map[string]string{
		"lc": "nodeclaim.lifecycle", "nt": "node.termination", "consistency": "nodeclaim.consistency", "expiration": "nodeclaim.expiration",
		"static": "static.provisioning", "tagging": "nodeclaim.tagging", "health": "nodepool.registrationhealth", "podevents": "nodeclaim.podevents",
		"counter": "nodepool.counter", "readiness": "nodepool.readiness", "validation": "nodepool.validation", "hash": "nodepool.hash", "repair": "node.health",
	}
}

// do carries out one line.
func (r *run) do(ctx context.Context, args []string) error {
	if args[0] == "?" {
		return r.check(args[1:])
	}
	if strings.HasPrefix(args[0], "+") {
		d, err := time.ParseDuration(args[0][1:])
		time.Sleep(d)
		return err
	}
	if verb := r.steps(ctx)[args[0]]; verb != nil {
		return verb(args[1:])
	}
	if verb := r.objects()[args[0]]; verb != nil {
		return verb(args[1:])
	}
	if name, ok := loopNames()[args[0]]; ok {
		return r.reconcile(ctx, name, args[1:])
	}
	if _, ok := r.loops[args[0]]; ok {
		return r.reconcile(ctx, args[0], args[1:])
	}
	return fmt.Errorf("there is no verb %s", args[0])
}

// reconcile makes a step of a loop on an object; a third word "stale" leaves the cache as it is.
func (r *run) reconcile(ctx context.Context, loop string, args []string) error {
	c, err := r.Controller(loop)
	if err != nil {
		return err
	}
	name := types.NamespacedName{Name: args[0]}
	if loop == "nodeclaim.podevents" || loop == "metrics.pod" {
		name.Namespace = "ns"
	}
	if len(args) < 2 || args[1] != "stale" {
		r.Sync()
	}
	r.began = len(r.Trace)
	r.result, r.err = c.Reconcile(ctx, name)
	return nil
}

// steps are the verbs that let time pass or the agent work.
func (r *run) steps(ctx context.Context) map[string]func([]string) error {
	return map[string]func([]string) error{
		// q [times]: an attempt at each entry of the eviction queue.
		"q": func(args []string) error {
			times := 1
			if len(args) > 0 {
				times, _ = strconv.Atoi(args[0])
			}
			r.began = len(r.Trace)
			for range times {
				r.Sync()
				for _, key := range sortedPods(r.Loops.Evicting()) {
					r.Loops.Evict(ctx, key)
				}
			}
			return nil
		},
		// run NAME [stale]: one run of a loop over the whole cluster; stale leaves the cache as it is.
		"run": func(args []string) error {
			s, err := r.Singleton(args[0])
			if err != nil {
				return err
			}
			if len(args) < 2 || args[1] != "stale" {
				r.Sync()
			}
			r.began = len(r.Trace)
			defer r.Pump()()
			after, err := s.Step(ctx)
			r.result, r.err = reconcile.Result{RequeueAfter: after}, err
			return nil
		},
		// loop NAME OBJECT for D: steps whenever one is due, every second at least.
		"loop": func(args []string) error {
			d, err := time.ParseDuration(args[3])
			for end := time.Now().Add(d); err == nil && time.Now().Before(end); time.Sleep(time.Second) {
				err = r.do(ctx, args[:2])
			}
			return err
		},
		"restart": func([]string) error { r.faults = nil; return r.Start() },
		"sync":    func([]string) error { r.Sync(); return nil },
		// fault SITE FAULT [times]: times -1 is for ever. SITE is as in the trace, e.g. "PATCH nodes" or "cloud Launch".
		"fault": func(args []string) error {
			f := planned{site: args[0], fault: simkube.Fault(args[1]), left: 1}
			if len(args) > 2 {
				f.left, _ = strconv.Atoi(args[2])
			}
			r.faults = append(r.faults, f)
			return nil
		},
		"healed": func([]string) error { r.faults = nil; r.Cloud.Heal(); return nil },
		// fails CALL KIND TEXT [times]
		"fails": func(args []string) error {
			times := 1
			if len(args) > 3 {
				times, _ = strconv.Atoi(args[3])
			}
			r.Cloud.Fail(args[0], failure(args[1], args[2]), times)
			return nil
		},
		"gc": func([]string) error { r.Server.Collect(); return nil },
		// later D synced: after a time, the first list is there.
		"later": func(args []string) error {
			d, err := time.ParseDuration(args[0])
			api := r.API
			time.AfterFunc(d+1, func() { api.Unsynced = false })
			return err
		},
		// lease EPOCH: this process wins the lease, or renews it. The first one starts the process anew, with leader election.
		"lease": func(args []string) error {
			epoch, err := strconv.Atoi(args[0])
			if r.Lock == nil {
				r.Lock = lease{}
				err = errors.Join(err, r.Start())
			}
			return errors.Join(err, r.Loops.Lock().Update(ctx, resourcelock.LeaderElectionRecord{HolderIdentity: "me", LeaderTransitions: epoch}))
		},
		// message KIND ID: news in the interruption queue; finding KIND ID: something is wrong with an instance.
		"message": func(args []string) error {
			m := cloud.Message{Kind: cloud.Interruption(args[0]), Instances: args[1:], Time: time.Now(), Receipt: strconv.Itoa(len(r.Trace)) + args[0]}
			r.Cloud.Messages = append(r.Cloud.Messages, m)
			return nil
		},
		"finding": func(args []string) error {
			r.Cloud.Findings = append(r.Cloud.Findings, cloud.Finding{Kind: cloud.Interruption(args[0]), Instance: args[1], Since: time.Now()})
			return nil
		},
		// watch LOOP: from now on "? woken" knows which objects the loop would look at.
		"watch":  func(args []string) error { return r.watch(ctx, args[0]) },
		"freeze": func(args []string) error { r.API.Freeze(args[0], true); return nil },
		"thaw":   func(args []string) error { r.API.Freeze(args[0], false); return nil },
		// unsynced: the first list is not there yet.
		"unsynced": func([]string) error { r.API.Unsynced = true; return nil },
		// each claim LOOP: a step of the loop on each claim.
		"each": func(args []string) error {
			var list karpv1.NodeClaimList
			if err := r.Server.ReadAll(&list); err != nil {
				return err
			}
			for i := range list.Items {
				if err := r.do(ctx, []string{args[1], list.Items[i].Name}); err != nil {
					return err
				}
			}
			return nil
		},
		"clear": func([]string) error {
			r.Events, r.Lines, r.Trace, r.began = nil, nil, nil, 0
			clear(r.Cloud.Calls)
			return nil
		},
	}
}

// watch notes which objects a loop is woken for.
func (r *run) watch(ctx context.Context, loop string) error {
	c, err := r.Controller(loop)
	r.Sync()
	r.Seen = func(e simkube.Event) {
		for _, name := range c.Wakes(ctx, e.Old, e.New) {
			if !slices.Contains(r.woken, name.Name) {
				r.woken = append(r.woken, name.Name)
			}
		}
	}
	return err
}

// failure is an error of the cloud by its kind.
func failure(kind, text string) error {
	switch kind {
	case "capacity":
		return &cloud.NoCapacity{Detail: text}
	case "class":
		return &cloud.ClassNotReady{Detail: text}
	case "unknown":
		return &cloud.UnknownOutcome{Err: errors.New(text)}
	case "none":
		return &cloud.NotFound{ID: text}
	case "plain":
		return errors.New(text)
	default:
		return &cloud.CreateFailed{Reason: kind, Err: errors.New(text)}
	}
}

// objects are the verbs that put things into the world or change them.
func (r *run) objects() map[string]func([]string) error {
	put := func(obj client.Object) error {
		at := obj.GetDeletionTimestamp()
		if at == nil {
			return r.Server.Put(obj)
		}
		obj.SetDeletionTimestamp(nil)
		return errors.Join(r.Server.Put(obj), r.Server.Delete(obj, client.GracePeriodSeconds(int64(time.Until(at.Time)/time.Second))))
	}
	return map[string]func([]string) error{
		"pool":  func(args []string) error { return put(parsePool(args[0], args[1:])) },
		"claim": func(args []string) error { return r.claim(args[0], args[1:]) },
		"node":  func(args []string) error { return r.node(args[0], args[1:]) },
		"pod":   func(args []string) error { return put(parsePod(args[0], args[1:])) },
		// class NAME [notready] [deleting]
		"class": func(args []string) error {
			w := parseWords(args[1:])
			c := &awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: args[0], Finalizers: []string{awsv1.Group + "/termination"}}}
			for kind, v := range w.subs["cond"] {
				status, reason, _ := strings.Cut(v, "/")
				setCondition(&c.Status.Conditions, kind, metav1.ConditionStatus(status), reason)
			}
			return put(c)
		},
		// pdb NAME LABEL=VALUE allowed
		"pdb": func(args []string) error {
			key, value, _ := strings.Cut(args[1], "=")
			allowed, err := strconv.Atoi(args[2])
			p := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: args[0]}}
			p.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
			p.Status.DisruptionsAllowed = int32(allowed)
			return errors.Join(err, put(p))
		},
		// attachment NAME NODE [PV]
		"attachment": func(args []string) error {
			a := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: args[0]}, Spec: storagev1.VolumeAttachmentSpec{NodeName: args[1]}}
			if len(args) > 2 {
				a.Spec.Source.PersistentVolumeName = &args[2]
			}
			return put(a)
		},
		// slice NAME NODE DRIVER POOL GENERATION COUNT
		"slice": func(args []string) error {
			generation, err1 := strconv.ParseInt(args[4], 10, 64)
			count, err2 := strconv.ParseInt(args[5], 10, 64)
			s := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: args[0]}}
			s.Spec = resourcev1.ResourceSliceSpec{
				Driver: args[2], NodeName: &args[1], Pool: resourcev1.ResourcePool{Name: args[3], Generation: generation, ResourceSliceCount: count},
			}
			return errors.Join(err1, err2, put(s))
		},
		// dropall claims: they vanish, whatever holds them.
		"dropall": func([]string) error {
			var list karpv1.NodeClaimList
			err := r.Server.ReadAll(&list)
			for i := range list.Items {
				err = errors.Join(err, r.Server.Drop(&list.Items[i]))
			}
			return err
		},
		// bind POD NODE: the scheduler has bound the pod.
		"bind": func(args []string) error {
			p := &corev1.Pod{}
			return r.Server.Edit(client.ObjectKey{Namespace: "ns", Name: args[0]}, p, func() {
				p.Spec.NodeName = args[1]
				p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}}
			})
		},
		// keep KIND NAME KEY: remembers an annotation, for "? same" and "? changed".
		"keep": func(args []string) error {
			obj, err := r.read(args[0], args[1])
			if err == nil {
				r.kept = obj.GetAnnotations()[args[2]]
			}
			return err
		},
		// pvc NAME PV
		"pvc": func(args []string) error {
			return put(&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: args[0]}, Spec: corev1.PersistentVolumeClaimSpec{VolumeName: args[1]}})
		},
		"machine": func(args []string) error { r.Cloud.addMachine(args[0], args[1:]); return nil },
		// vanish ID: the instance is terminated; hide ID: it is not shown; show ID.
		"vanish": func(args []string) error { r.Cloud.machines[args[0]].State = "terminated"; return nil },
		"stopping": func(args []string) error {
			r.Cloud.machines[args[0]].State = "shutting-down"
			r.Cloud.machines[args[0]].ends = time.Now().Add(time.Hour)
			return nil
		},
		"hide": func(args []string) error { r.Cloud.absent[args[0]] = true; return nil },
		"show": func(args []string) error { delete(r.Cloud.absent, args[0]); return nil },
		// slow D: machines take that long to end.
		"slow":       func(args []string) (err error) { r.Cloud.Shutdown, err = time.ParseDuration(args[0]); return err },
		"partition":  func(args []string) error { r.Cloud.Partition = args[0]; return nil },
		"incomplete": func([]string) error { r.Cloud.Incomplete = true; return nil },
		// delete KIND NAME, drop KIND NAME (whatever holds it)
		"delete": func(args []string) error {
			obj, key, err := r.named(args[0], args[1])
			if err != nil {
				return err
			}
			return errors.Join(r.Server.Read(key, obj), r.Server.Delete(obj))
		},
		"drop": func(args []string) error {
			obj, key, err := r.named(args[0], args[1])
			if err != nil {
				return err
			}
			return errors.Join(r.Server.Read(key, obj), r.Server.Drop(obj))
		},
		"edit": func(args []string) error { return r.edit(args[0], args[1], args[2:]) },
	}
}

func (r *run) claim(name string, args []string) error {
	c := parseClaim(name, args)
	if err := r.Server.Put(c); err != nil {
		return err
	}
	w := parseWords(args)
	if id := w.one("id", "i-1"); c.Status.ProviderID != "" && r.Cloud.machines[id] == nil && !w.bare["nomachine"] {
		r.Cloud.addMachine(id, []string{"claim=" + name})
		r.Cloud.n = max(r.Cloud.n, 1)
	}
	if w.bare["deleting"] {
		return r.Server.Delete(c)
	}
	return nil
}

func (r *run) node(name string, args []string) error {
	w := parseWords(args)
	var owner *karpv1.NodeClaim
	var list karpv1.NodeClaimList
	if err := r.Server.ReadAll(&list); err != nil {
		return err
	}
	n := parseNode(name, args, nil)
	for i := range list.Items {
		if list.Items[i].Status.ProviderID == n.Spec.ProviderID && n.Spec.ProviderID != "" {
			owner = &list.Items[i]
		}
	}
	n = parseNode(name, args, owner)
	if w.with["age"] != nil {
		n.CreationTimestamp = metav1.NewTime(instant("-" + w.one("age", "")))
	}
	if err := r.Server.Put(n); err != nil {
		return err
	}
	if w.bare["deleting"] {
		return r.Server.Delete(n)
	}
	return nil
}

// named is an empty object of a kind with its key.
func (r *run) named(kind, name string) (client.Object, client.ObjectKey, error) {
	key := client.ObjectKey{Name: name}
	switch kind {
	case "claim":
		return &karpv1.NodeClaim{}, key, nil
	case "node":
		return &corev1.Node{}, key, nil
	case "pool":
		return &karpv1.NodePool{}, key, nil
	case "class":
		return &awsv1.EC2NodeClass{}, key, nil
	case "pod":
		key.Namespace = "ns"
		return &corev1.Pod{}, key, nil
	case "pdb":
		key.Namespace = "ns"
		return &policyv1.PodDisruptionBudget{}, key, nil
	case "attachment":
		return &storagev1.VolumeAttachment{}, key, nil
	}
	return nil, key, fmt.Errorf("there is no kind %s", kind)
}

// edit KIND NAME WHAT...: label:k=v annotation:k=v (no value removes), taint=, untaint=, ready=, cond:Kind=, capacity:r=q, allocatable:r=q,
// finalizer=f, unfinalize=f, phase=, replicas=, expireAfter=, limit:r=q, allowed=, generation (bumps it).
func (r *run) edit(kind, name string, args []string) error {
	obj, key, err := r.named(kind, name)
	if err != nil {
		return err
	}
	w := parseWords(args)
	return r.Server.Edit(key, obj, func() {
		obj.SetLabels(edited(obj.GetLabels(), w.subs["label"]))
		obj.SetAnnotations(edited(obj.GetAnnotations(), w.subs["annotation"]))
		for _, f := range w.with["finalizer"] {
			obj.SetFinalizers(append(obj.GetFinalizers(), f))
		}
		for _, f := range w.with["unfinalize"] {
			var kept []string
			for _, have := range obj.GetFinalizers() {
				if have != f {
					kept = append(kept, have)
				}
			}
			obj.SetFinalizers(kept)
		}
		switch x := obj.(type) {
		case *corev1.Node:
			editNode(x, w)
		case *corev1.Pod:
			if v := w.one("phase", ""); v != "" {
				x.Status.Phase = corev1.PodPhase(v)
			}
			if v := w.one("node", ""); v != "" {
				x.Spec.NodeName = v
			}
		case *karpv1.NodeClaim:
			for kind, v := range w.subs["cond"] {
				status, reason, _ := strings.Cut(v, "/")
				setCondition(&x.Status.Conditions, kind, metav1.ConditionStatus(status), reason)
			}
			if v := w.one("id", ""); v != "" {
				x.Status.ProviderID = "fake:///z1/" + v
			}
			if v := w.one("badid", ""); v != "" {
				x.Status.ProviderID = v
			}
			if d := w.one("deadline", ""); d != "" {
				x.Annotations[lifecycle.DeadlineAnnotation] = instant(d).UTC().Format(time.RFC3339)
			}
		case *karpv1.NodePool:
			editPool(x, w)
		case *awsv1.EC2NodeClass:
			x.Status.Conditions = nil
			for kind, v := range w.subs["cond"] {
				status, reason, _ := strings.Cut(v, "/")
				setCondition(&x.Status.Conditions, kind, metav1.ConditionStatus(status), reason)
			}
			if w.bare["generation"] {
				x.Spec.UserData = new("#!/bin/sh")
			}
		case *policyv1.PodDisruptionBudget:
			n, _ := strconv.Atoi(w.one("allowed", "0"))
			x.Status.DisruptionsAllowed = int32(n)
		}
	})
}

func editNode(n *corev1.Node, w words) {
	for _, t := range w.with["untaint"] {
		var kept []corev1.Taint
		for _, have := range n.Spec.Taints {
			if want := parseTaint(t); have.Key != want.Key || have.Effect != want.Effect {
				kept = append(kept, have)
			}
		}
		n.Spec.Taints = kept
	}
	for _, t := range w.with["taint"] {
		n.Spec.Taints = append(n.Spec.Taints, parseTaint(t))
	}
	if v := w.one("ready", ""); v != "" {
		setNodeCondition(n, "Ready", v)
	}
	for kind, v := range w.subs["cond"] {
		setNodeCondition(n, kind, v)
	}
	for k, v := range quantities(w.subs["capacity"]) {
		n.Status.Capacity[k] = v
	}
	for k, v := range quantities(w.subs["allocatable"]) {
		n.Status.Allocatable[k] = v
	}
}

func editPool(p *karpv1.NodePool, w words) {
	if v := w.one("replicas", ""); v != "" {
		n, _ := strconv.ParseInt(v, 10, 64)
		p.Spec.Replicas = &n
	}
	if v := w.one("expireAfter", ""); v != "" {
		d := karpv1.DurationOrNever(v)
		p.Spec.Template.Spec.ExpireAfter = &d
	}
	if v := w.one("weight", ""); v != "" {
		n, _ := strconv.Atoi(v)
		p.Spec.Weight = new(int32(n))
	}
	for k, v := range quantities(w.subs["limit"]) {
		if p.Spec.Limits == nil {
			p.Spec.Limits = corev1.ResourceList{}
		}
		p.Spec.Limits[k] = v
	}
	for _, t := range w.with["taint"] {
		p.Spec.Template.Spec.Taints = append(p.Spec.Template.Spec.Taints, parseTaint(t))
	}
	for kind, v := range w.subs["cond"] {
		status, reason, _ := strings.Cut(v, "/")
		setCondition(&p.Status.Conditions, kind, metav1.ConditionStatus(status), reason)
	}
}

// edited sets entries; an empty value removes one.
func edited(have, set map[string]string) map[string]string {
	for k, v := range set {
		if have == nil {
			have = map[string]string{}
		}
		if v == "" {
			delete(have, k)
			continue
		}
		have[k] = v
	}
	return have
}
