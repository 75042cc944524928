package view

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/karp-sh/karp/pkg/reason"
)

// fixes lists the ways out, each with its command and its simulated effect.
func (t pendingText) fixes(most int) Section {
	fixes := t.a.Fixes
	if most > 0 {
		fixes = fixes[:min(most, len(fixes))]
	}
	s := Section{Title: "FIX", Subject: "each line was simulated"}
	if slices.ContainsFunc(fixes, func(f reason.Fix) bool { return !f.Verified }) {
		s.Subject += " unless it says otherwise"
	}
	if len(fixes) < len(t.a.Fixes) {
		s.Subject += fmt.Sprintf("; %d of %d shown, --max-fixes 0 shows all", len(fixes), len(t.a.Fixes))
	}
	for _, f := range fixes {
		s.Fixes = append(s.Fixes, t.fix(f))
	}
	return s
}

func (t pendingText) fix(f reason.Fix) Fix {
	out := Fix{Owner: ownerName(f.Owner), Untested: !f.Verified}
	var parts []string
	for _, c := range f.Changes {
		parts = append(parts, t.changeText(c)+capped(f, c))
		out.Command = append(out.Command, t.command(c)...)
	}
	out.Summary = strings.Join(parts, ", and ")
	switch {
	case f.Verified:
		out.Effect = effect(f)
	case f.Repeats:
		out.Effect = "will repeat until the cause is gone"
	}
	return out
}

// capped tells that a limit of the pool is why a request has to be cut so far.
func capped(f reason.Fix, c reason.Change) string {
	if c.Limit == "" {
		return ""
	}
	return fmt.Sprintf(" (larger types would exceed limits.%s of NodePool %s)", c.Limit, f.Pool)
}

func ownerName(o reason.FixOwner) string {
	switch o {
	case reason.ByPod, reason.ByPool:
		return string(o) + " owner"
	default:
		return string(o)
	}
}

// effect tells what the simulation found.
func effect(f reason.Fix) string {
	var parts []string
	switch {
	case f.Effect.Launch != nil:
		parts = append(parts, "1 × "+purchase(*f.Effect.Launch))
	case f.Effect.Node != "":
		parts = append(parts, "goes to node "+f.Effect.Node)
	}
	switch n := f.Effect.Drift; {
	case n > 0:
		parts = append(parts, count(n, "running node")+" drift"+map[bool]string{true: "s", false: ""}[n == 1])
	case f.Owner == reason.ByPool:
		parts = append(parts, "no running node drifts")
	}
	if f.MayBeInterrupted {
		parts = append(parts, "may be interrupted")
	}
	if f.LosesGuarantee {
		parts = append(parts, "loses the guarantee the constraint gave")
	}
	if f.Repeats {
		parts = append(parts, "the next pod will wait again")
	}
	return strings.Join(parts, "; ")
}

// changeText says one change in words.
func (t pendingText) changeText(c reason.Change) string {
	switch c.Action {
	case reason.LowerRequest:
		return fmt.Sprintf("ask for at most %s %s", Amount(c.Key, c.Amount), c.Key)
	case reason.AddToleration:
		return "tolerate " + taint(c)
	case reason.DropSelector:
		return "drop the selector " + selector(c.Key, c.From)
	case reason.DropAffinity:
		return "drop the " + term(c)
	case reason.SoftenAffinity:
		return fmt.Sprintf("make the %s a preference", term(c))
	case reason.ScheduleAnyway:
		return fmt.Sprintf("let the spread over %s give way (whenUnsatisfiable: ScheduleAnyway)", c.Key)
	case reason.LowerMinDomains:
		return fmt.Sprintf("lower minDomains of the spread over %s to %s", c.Key, c.To)
	case reason.RaiseMaxSkew:
		return fmt.Sprintf("raise maxSkew of the spread over %s from %s to %s", c.Key, c.From, c.To)
	case reason.AddValue:
		return t.addValue(c)
	case reason.DropRequirement:
		return fmt.Sprintf("drop the requirement %s %s of NodePool %s", c.Key, c.From, c.Object.Name)
	case reason.LowerMinValues:
		return fmt.Sprintf("lower minValues of %s in NodePool %s from %s to %s", c.Key, c.Object.Name, c.From, c.To)
	case reason.RaiseLimit:
		return fmt.Sprintf("raise limits.%s of NodePool %s to %s", c.Key, c.Object.Name, nonEmpty(c.To, Amount(c.Key, c.Amount))[0])
	case reason.AddReplica:
		return fmt.Sprintf("scale NodePool %s from %s to %s", c.Object.Name, c.From, c.To)
	case reason.MakeReady:
		return t.makeReady(c)
	case reason.AddLabel:
		return fmt.Sprintf("add the label %s=%s to NodePool %s", c.Key, c.To, c.Object.Name)
	case reason.NewPool:
		return fmt.Sprintf("add a NodePool like %s with the label %s=%s", c.Object.Name, c.Key, c.To)
	case reason.WaitUntil:
		if c.Until.IsZero() {
			return "wait: it is retried about 3 minutes after each failure"
		}
		return fmt.Sprintf("wait until %s, when it is tried again", t.words.Clock(c.Until))
	case reason.MoveData:
		return fmt.Sprintf("move the data of claim %s: a snapshot, then a new volume in %s", c.Key, either(c.Others))
	case reason.RepairDaemonSet:
		return fmt.Sprintf("repair %s %s", c.Object.Kind, c.Object.String())
	case reason.DeleteClaim:
		return fmt.Sprintf("delete NodeClaim %s, so that another is made", c.Object.Name)
	case reason.AddSubnet:
		return fmt.Sprintf("give EC2NodeClass %s a subnet in %s", c.Object.Name, list(c.Others))
	}
	return string(c.Action)
}

// term names a term of affinity or anti-affinity.
func term(c reason.Change) string {
	text := "affinity"
	if c.From == "anti" {
		text = "anti-affinity"
	}
	if c.To != "" {
		text += " to pods " + c.To
	}
	return text + " over " + c.Key
}

func taint(c reason.Change) string {
	text := c.Key
	if c.To != "" {
		text += "=" + c.To
	}
	if c.Effect != "" {
		text += ":" + c.Effect
	}
	return text
}

func (t pendingText) addValue(c reason.Change) string {
	what := plainKey(c.Key) + " " + c.To
	if c.Key == "node.kubernetes.io/instance-type" || c.Key == "topology.kubernetes.io/zone" {
		what = c.To // types and zones are known by their names
	}
	text := fmt.Sprintf("allow %s in NodePool %s", what, c.Object.Name)
	if c.To == "spot" && c.Key == "karpenter.sh/capacity-type" {
		text = fmt.Sprintf("let spot into NodePool %s", c.Object.Name)
	}
	if len(c.Others) > 0 {
		text += fmt.Sprintf(" (or %s)", either(c.Others))
	}
	return text
}

// plainKey leaves out a key's domain: instance-category for karpenter.k8s.aws/instance-category.
func plainKey(key string) string { return key[strings.LastIndexByte(key, '/')+1:] }

func (t pendingText) makeReady(c reason.Change) string {
	p := t.words.Nearest()
	if p == nil || p.Pool != c.Object.Name || p.Ready == nil || len(p.Ready.Chain) == 0 {
		return fmt.Sprintf("make %s %s ready", c.Object.Kind, c.Object.Name)
	}
	cause := p.Ready.Chain[len(p.Ready.Chain)-1].Object
	switch {
	case p.Ready.ClassMissing:
		return fmt.Sprintf("create %s %s", cause.Kind, cause.Name)
	case p.Ready.ClassDeleting:
		return fmt.Sprintf("let NodePool %s use another %s, or make %s again once it is gone", c.Object.Name, cause.Kind, cause.Name)
	case cause.Kind == "NodePool" && p.Ready.Chain[len(p.Ready.Chain)-1].Type == "ValidationSucceeded":
		return fmt.Sprintf("correct NodePool %s: %s", c.Object.Name, p.Ready.Chain[len(p.Ready.Chain)-1].Message)
	case p.Ready.SubnetSelector != "" && p.Ready.Subnets == 0:
		return fmt.Sprintf("correct the tag value in subnetSelectorTerms of %s %s, or tag the subnets with %s", cause.Kind, cause.Name, p.Ready.SubnetSelector)
	}
	return fmt.Sprintf("make %s %s ready", cause.Kind, cause.Name)
}

// command is what can be copied to carry the change out; nothing where the objects do not tell enough.
func (t pendingText) command(c reason.Change) []string {
	switch c.Action {
	case reason.LowerRequest:
		return t.workload("set resources %s --requests=" + c.Key + "=" + Amount(c.Key, c.Amount))
	case reason.AddToleration:
		return []string{"# in the pod's spec (or template), below tolerations:", "- " + flow(c)}
	case reason.SoftenAffinity:
		return soften(c)
	case reason.DropSelector:
		return t.workload("patch %s --type=json -p " + patch("remove", "/spec/template/spec/nodeSelector/"+pointer(c.Key), nil))
	case reason.AddValue:
		if c.Index < 0 {
			return nil
		}
		return []string{"kubectl patch nodepool " + c.Object.Name + " --type=json -p " + patch("add", "/spec/template/spec/requirements/"+strconv.Itoa(c.Index)+"/values/-", c.To)}
	case reason.RaiseLimit:
		return []string{"kubectl patch nodepool " + c.Object.Name + " --type=merge -p " + merge(nonEmpty(c.To, Amount(c.Key, c.Amount))[0], "spec", "limits", c.Key)}
	case reason.AddLabel:
		return []string{"kubectl patch nodepool " + c.Object.Name + " --type=merge -p " + merge(c.To, "spec", "template", "metadata", "labels", c.Key)}
	case reason.AddReplica:
		return []string{"kubectl karp scale nodepool " + c.Object.Name + " --replicas " + c.To}
	case reason.MakeReady:
		return t.listSubnets()
	case reason.RepairDaemonSet:
		return t.logs()
	case reason.DeleteClaim:
		return []string{"kubectl delete nodeclaim " + c.Object.Name}
	default:
		return nil
	}
}

// soften tells where a term has to move to in the pod's spec.
func soften(c reason.Change) []string {
	kind := "podAffinity"
	if c.From == "anti" {
		kind = "podAntiAffinity"
	}
	return []string{
		fmt.Sprintf("# in the pod's affinity.%s, move term %d from", kind, c.Index),
		"#   requiredDuringSchedulingIgnoredDuringExecution to",
		"#   preferredDuringSchedulingIgnoredDuringExecution,",
		"#   as podAffinityTerm with weight: 100",
	}
}

// workload fills in the pod's controller, if it is of a kind whose template kubectl can change.
func (t pendingText) workload(format string) []string {
	short := map[string]string{"Deployment": "deploy", "StatefulSet": "sts", "DaemonSet": "ds", "ReplicaSet": "rs"}[t.a.Owner.Kind]
	if short == "" {
		return nil
	}
	return []string{"kubectl -n " + t.a.Pod.Namespace + " " + strings.Replace(format, "%s", short+"/"+t.a.Owner.Name, 1)}
}

// listSubnets is the call that shows what a selector finds that found nothing.
func (t pendingText) listSubnets() []string {
	p := t.words.Nearest()
	if p == nil || p.Ready == nil || p.Ready.SubnetSelector == "" || p.Ready.Subnets > 0 {
		return nil
	}
	var filters []string
	for _, term := range strings.FieldsFunc(p.Ready.SubnetSelector, func(r rune) bool { return r == ',' || r == ' ' }) {
		if k, v, ok := strings.Cut(term, "="); ok {
			filters = append(filters, fmt.Sprintf("Name=tag:%s,Values=%s", k, v))
		}
	}
	if len(filters) == 0 {
		return nil
	}
	return []string{"aws ec2 describe-subnets --filters " + strings.Join(filters, " ")}
}

// logs shows why the pods on the coming node do not start.
func (t pendingText) logs() []string {
	var out []string
	if c := t.a.Coming; c != nil {
		for _, f := range c.Failing {
			out = append(out, fmt.Sprintf("kubectl -n %s logs %s --all-containers --previous", f.Pod.Namespace, f.Pod.Name))
		}
	}
	return out
}

// flow spells a toleration as YAML.
func flow(c reason.Change) string {
	text := "{key: " + c.Key + ", operator: Exists"
	if c.To != "" {
		text = fmt.Sprintf("{key: %s, operator: Equal, value: %q", c.Key, c.To)
	}
	if c.Effect != "" {
		text += ", effect: " + c.Effect
	}
	return text + "}"
}

// patch is a JSON patch of one operation in shell quotes.
func patch(op, path string, value any) string {
	m := map[string]any{"op": op, "path": path}
	if value != nil {
		m["value"] = value
	}
	return "'[" + encode(m) + "]'"
}

// merge is a merge patch that sets one field, in shell quotes.
func merge(value string, path ...string) string {
	var v any = value
	for i := len(path) - 1; i >= 0; i-- {
		v = map[string]any{path[i]: v}
	}
	return "'" + encode(v) + "'"
}

func encode(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return "{}" // maps of strings always encode
	}
	return string(raw)
}

// pointer escapes a key for a JSON pointer (RFC 6901).
func pointer(key string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(key)
}
