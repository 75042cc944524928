package disrupt

import (
	"slices"

	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/reason"
)

// unread is what could not be read, by what depends on it: a node whose fate hangs on it is left alone (fail closed), all others are not
// concerned.
type unread struct {
	// everything stands for all nodes, volumes for those with pods that mount any.
	everything, volumes string
	pools               map[string]string
	nodes               map[string]string // by name of the Node or claim
}

func findUnread(s *cluster.Snapshot) unread {
	u := unread{pools: map[string]string{}, nodes: map[string]string{}}
	for _, x := range s.Unknown {
		what := x.Kind + ": " + x.Problem
		switch x.Kind {
		case "Pod", "PodDisruptionBudget", "DaemonSet", "Namespace":
			// One pod or budget may be anywhere.
			u.everything = what
		case "Node", "NodeClaim":
			if x.Name == "" {
				u.everything = what
			} else {
				u.nodes[x.Name] = what
			}
		case "NodePool":
			if x.Name == "" {
				u.everything = what
			} else {
				u.pools[x.Name] = what
			}
		case "PersistentVolumeClaim", "PersistentVolume", "StorageClass", "CSINode":
			u.volumes = what
		}
	}
	return u
}

func (u *unread) objection(n *node) *objection {
	stop := func(what string) *objection { return &objection{code: reason.Unreadable, detail: what} }
	if u.everything != "" {
		return stop(u.everything)
	}
	if what, ok := u.pools[n.pool.Name]; ok {
		return stop(what)
	}
	for _, name := range []string{n.Name, n.Claim.Name} {
		if what, ok := u.nodes[name]; ok {
			return stop(what)
		}
	}
	if u.volumes != "" && slices.ContainsFunc(n.Residents, func(g *cluster.Group) bool { return len(g.Shape.Volumes) > 0 }) {
		return stop(u.volumes)
	}
	return nil
}
