package sim

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	"github.com/karp-sh/karp/pkg/lifecycle"
)

// sortedPods orders entries of the eviction queue by name.
func sortedPods(list []lifecycle.PodKey) []lifecycle.PodKey {
	slices.SortFunc(list, func(a, b lifecycle.PodKey) int { return strings.Compare(a.Name+a.UID, b.Name+b.UID) })
	return list
}

// check is a line that says what must hold.
func (r *run) check(args []string) error {
	verb := r.checks()[args[0]]
	if verb == nil {
		return fmt.Errorf("there is no check %s", args[0])
	}
	return verb(args[1:])
}

// contains takes an argument ~text out of the words and checks it against a text.
func contains(args []string, text string) ([]string, error) {
	var rest []string
	for _, a := range args {
		if want, ok := strings.CutPrefix(a, "~"); ok {
			if !strings.Contains(text, want) {
				return nil, fmt.Errorf("%q does not contain %q", text, want)
			}
			continue
		}
		rest = append(rest, a)
	}
	return rest, nil
}

func differ(got, want any) error {
	if fmt.Sprint(got) != fmt.Sprint(want) {
		return fmt.Errorf("got %v, want %v", got, want)
	}
	return nil
}

func (r *run) checks() map[string]func([]string) error {
	return map[string]func([]string) error{
		// ok: the last step had no error; error [~text]: it had one.
		"ok": func([]string) error { return r.err },
		"error": func(args []string) error {
			if r.err == nil {
				return errors.New("no error")
			}
			_, err := contains(args, r.err.Error())
			return err
		},
		// requeue DURATION | none | soon
		"requeue": func(args []string) error {
			got := r.result.RequeueAfter.Round(time.Second / 10)
			switch args[0] {
			case "none":
				return differ(got, time.Duration(0))
			case "soon":
				if got <= 0 || got > time.Second {
					return fmt.Errorf("got %v, want at most a second", got)
				}
				return nil
			}
			return differ(got.String(), mustDuration(args[0]).String())
		},
		"cond": r.checkCondition,
		// calls CALL=n...: since the beginning or "clear"
		"calls": func(args []string) error {
			for _, a := range args {
				call, n, _ := strings.Cut(a, "=")
				if err := differ(r.Cloud.Calls[call], n); err != nil {
					return fmt.Errorf("%s: %w", call, err)
				}
			}
			return nil
		},
		"event":   r.checkEvent,
		"noevent": func(args []string) error { return r.checkEvent(append(args, "x0")) },
		// metric name{labels} value
		"metric": func(args []string) error {
			got, ok, err := r.Metric(args[0])
			if err != nil {
				return err
			}
			if args[1] == "absent" {
				if ok {
					return fmt.Errorf("it has the value %v", got)
				}
				return nil
			}
			return differ(strconv.FormatFloat(got, 'g', -1, 64), args[1])
		},
		// gone KIND NAME..., there KIND NAME, deleting KIND NAME, kept KIND NAME (there and not deleting)
		"gone":     func(args []string) error { return r.each(args, "gone") },
		"there":    func(args []string) error { return r.each(args, "there") },
		"deleting": func(args []string) error { return r.each(args, "deleting") },
		"kept":     func(args []string) error { return r.each(args, "kept") },
		// count KIND n: objects that are not being deleted
		"count": func(args []string) error {
			n := 0
			switch args[0] {
			case "claims":
				var list karpv1.NodeClaimList
				if err := r.Server.ReadAll(&list); err != nil {
					return err
				}
				for i := range list.Items {
					if list.Items[i].DeletionTimestamp == nil {
						n++
					}
				}
			case "instances":
				n = len(r.Cloud.Alive())
			}
			return differ(n, args[1])
		},
		// label|annotation KIND NAME key=value | key-
		"label":      func(args []string) error { return r.checkMap(args, client.Object.GetLabels) },
		"annotation": func(args []string) error { return r.checkMap(args, client.Object.GetAnnotations) },
		// finalizer KIND NAME yes|no
		"finalizer": func(args []string) error {
			obj, err := r.read(args[0], args[1])
			if err != nil {
				return err
			}
			return differ(slices.Contains(obj.GetFinalizers(), lifecycle.Finalizer), args[2] == "yes")
		},
		// taints NODE [taint...]: exactly these
		"taints": func(args []string) error {
			var n corev1.Node
			if err := r.Server.Read(client.ObjectKey{Name: args[0]}, &n); err != nil {
				return err
			}
			var got, want []string
			for _, t := range n.Spec.Taints {
				got = append(got, t.ToString())
			}
			for _, a := range args[1:] {
				t := parseTaint(a)
				want = append(want, t.ToString())
			}
			slices.Sort(got)
			slices.Sort(want)
			return differ(got, want)
		},
		// field KIND NAME path.to.field value; "" is absent
		"field": func(args []string) error {
			obj, err := r.read(args[0], args[1])
			if err != nil {
				return err
			}
			got, err := field(obj, args[2])
			if err != nil {
				return err
			}
			return differ(got, args[3])
		},
		// log MESSAGE [xN]: lines since the beginning or "clear"
		"log": func(args []string) error {
			want := "1"
			if len(args) > 1 {
				want = strings.TrimPrefix(args[1], "x")
			}
			n := 0
			for _, l := range r.Lines {
				if l.Message == args[0] {
					n++
				}
			}
			return differ(n, want)
		},
		// writes SITE n: in the last step
		"writes": func(args []string) error {
			n := 0
			for _, t := range r.Trace[r.began:] {
				if t == args[0] || strings.HasPrefix(t, args[0]+" ") {
					n++
				}
			}
			return differ(n, args[1])
		},
		// before A B: A's first occurrence in the trace is before B's
		"before": func(args []string) error {
			at := func(what string) int {
				return slices.IndexFunc(r.Trace, func(t string) bool { return t == what || strings.HasPrefix(t, what+" ") })
			}
			if a, b := at(args[0]), at(args[1]); a < 0 || b < 0 || a > b {
				return fmt.Errorf("they are at %d and %d", a, b)
			}
			return nil
		},
		// queue [pods...]: the entries of the eviction queue
		"queue": func(args []string) error {
			var got []string
			for _, key := range sortedPods(r.Loops.Evicting()) {
				got = append(got, key.Name)
			}
			return differ(got, args)
		},
		// evictions n: eviction calls in the last step; forced POD grace: it was deleted with that grace
		"evictions": func(args []string) error { return r.check([]string{"writes", "POST pods/eviction", args[0]}) },
		"forced": func(args []string) error {
			var p corev1.Pod
			if err := r.Server.Read(client.ObjectKey{Namespace: "ns", Name: args[0]}, &p); err != nil {
				return err
			}
			if p.DeletionGracePeriodSeconds == nil {
				return errors.New("it was not deleted")
			}
			return differ(*p.DeletionGracePeriodSeconds, args[1])
		},
		// same|changed KIND NAME KEY: an annotation, against what "keep" remembered
		"same": func(args []string) error {
			obj, err := r.read(args[0], args[1])
			return errors.Join(err, differ(obj.GetAnnotations()[args[2]], r.kept))
		},
		"changed": func(args []string) error {
			obj, err := r.read(args[0], args[1])
			if err == nil && obj.GetAnnotations()[args[2]] == r.kept {
				return fmt.Errorf("it is %s as before", r.kept)
			}
			return err
		},
		// messages n: how many wait; marked OFFERING...: what was told back
		"messages": func(args []string) error { return differ(len(r.Cloud.Messages), args[0]) },
		"marked":   func(args []string) error { return differ(r.Cloud.Marked, args) },
		// intent CLAIM ~text: the recorded intent contains the text
		"intent": func(args []string) error {
			obj, err := r.read("claim", args[0])
			if err != nil {
				return err
			}
			_, err = contains(args[1:], obj.GetAnnotations()[lifecycle.IntentAnnotation])
			return err
		},
		// noloop NAME: the loop does not run
		"noloop": func(args []string) error {
			if _, err := r.Controller(args[0]); err == nil {
				return errors.New("it runs")
			}
			return nil
		},
		// woken none | NAMES...: the objects that the watched loop was woken for since the last such line
		"woken": func(args []string) error {
			r.Sync()
			got := r.woken
			r.woken = nil
			if args[0] == "none" {
				args = nil
			}
			slices.Sort(got)
			return differ(got, args)
		},
		// tags ID key=value...
		"tags": func(args []string) error {
			for _, a := range args[1:] {
				k, v, _ := strings.Cut(a, "=")
				if err := differ(r.Cloud.machines[args[0]].Tags[k], v); err != nil {
					return fmt.Errorf("%s: %w", k, err)
				}
			}
			return nil
		},
		// machine ID STATE
		"machine": func(args []string) error {
			r.Cloud.settle()
			m := r.Cloud.machines[args[0]]
			if m == nil {
				return errors.New("there is no such machine")
			}
			return differ(m.State, args[1])
		},
	}
}

func mustDuration(text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		panic(fmt.Sprintf("sim: %v", err)) // a mistake in a script
	}
	return d
}

func (r *run) read(kind, name string) (client.Object, error) {
	obj, key, err := r.named(kind, name)
	if err != nil {
		return nil, err
	}
	return obj, r.Server.Read(key, obj)
}

// each checks how objects are: the first argument is the kind, the others are names.
func (r *run) each(args []string, want string) error {
	for _, name := range args[1:] {
		obj, err := r.read(args[0], name)
		got := "kept"
		switch {
		case apierrors.IsNotFound(err):
			got = "gone"
		case err != nil:
			return err
		case obj.GetDeletionTimestamp() != nil:
			got = "deleting"
		}
		if got == want || want == "there" && got != "gone" {
			continue
		}
		return fmt.Errorf("%s is %s", name, got)
	}
	return nil
}

// checkCondition: cond CLAIM Type=Status[/Reason] [since=+D] [~text] or Type=absent; pools by "pool/NAME".
func (r *run) checkCondition(args []string) error {
	kind, name, ok := strings.Cut(args[0], "/")
	if !ok {
		kind, name = "claim", args[0]
	}
	obj, err := r.read(kind, name)
	if err != nil {
		return err
	}
	var list []metav1.Condition
	switch x := obj.(type) {
	case *karpv1.NodeClaim:
		list = x.Status.Conditions
	case *karpv1.NodePool:
		list = x.Status.Conditions
	}
	typ, want, _ := strings.Cut(args[1], "=")
	i := slices.IndexFunc(list, func(c metav1.Condition) bool { return c.Type == typ })
	if want == "absent" {
		return differ(i, -1)
	}
	if i < 0 {
		return errors.New("there is no such condition")
	}
	c := list[i]
	got := string(c.Status)
	if strings.Contains(want, "/") {
		got += "/" + c.Reason
	}
	rest, err := contains(args[2:], c.Message)
	if err := errors.Join(err, differ(got, want)); err != nil {
		return fmt.Errorf("%w (%s)", err, c.Message)
	}
	for _, a := range rest {
		switch key, v, _ := strings.Cut(a, "="); key {
		case "since": // how long ago
			if err := differ(time.Since(c.LastTransitionTime.Time).Round(time.Second).String(), mustDuration(v).String()); err != nil {
				return err
			}
		case "length":
			if err := differ(len([]rune(c.Message)), v); err != nil {
				return err
			}
		case "observed":
			if err := differ(c.ObservedGeneration, v); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkEvent: event Reason [object] [Normal|Warning] [xN] [~text]; without xN at least one.
func (r *run) checkEvent(args []string) error {
	want, object, kind, text := -1, "", "", ""
	for _, a := range args[1:] {
		switch {
		case strings.HasPrefix(a, "~"):
			text = a[1:]
		case a == "Normal" || a == "Warning":
			kind = a
		case len(a) > 1 && a[0] == 'x' && strings.Trim(a[1:], "0123456789") == "":
			want, _ = strconv.Atoi(a[1:])
		default:
			object = a
		}
	}
	n := 0
	for _, e := range r.Events {
		if e.Reason == args[0] && (object == "" || e.Object == object || e.Kind+"/"+e.Object == object) && (kind == "" || e.Type == kind) && strings.Contains(e.Detail, text) {
			n++
		}
	}
	if want < 0 && n > 0 || n == want {
		return nil
	}
	return fmt.Errorf("%d such events in %v", n, r.Events)
}

func (r *run) checkMap(args []string, of func(client.Object) map[string]string) error {
	obj, err := r.read(args[0], args[1])
	if err != nil {
		return err
	}
	for _, a := range args[2:] {
		key, want, ok := strings.Cut(a, "=")
		got, has := of(obj)[strings.TrimSuffix(key, "-")]
		switch {
		case !ok && has:
			return fmt.Errorf("it has %s%s", key, got)
		case ok && strings.HasPrefix(want, "+"):
			if err := differ(got, instant(want).UTC().Format(time.RFC3339)); err != nil {
				return err
			}
		case ok && strings.HasPrefix(want, "!"):
			if got == want[1:] || got == "" {
				return fmt.Errorf("%s is %q", key, got)
			}
		case ok:
			if err := differ(got, want); err != nil {
				return err
			}
		}
	}
	return nil
}

// field reads a value by its path in the object's JSON form; a number selects from a list.
func field(obj client.Object, path string) (string, error) {
	raw, err := json.Marshal(obj)
	if err != nil {
		return "", err
	}
	var at any
	if err := json.Unmarshal(raw, &at); err != nil {
		return "", err
	}
	for part := range strings.SplitSeq(path, ".") {
		switch x := at.(type) {
		case map[string]any:
			at = x[part]
		case []any:
			i, err := strconv.Atoi(part)
			if err != nil || i >= len(x) {
				return "", nil
			}
			at = x[i]
		default:
			return "", nil
		}
	}
	if at == nil {
		return "", nil
	}
	return fmt.Sprint(at), nil
}
