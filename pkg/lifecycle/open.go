package lifecycle

import (
	"slices"
	"time"

	"github.com/karp-sh/karp/pkg/constraint"
)

// OpeningAnnotation is on a registered node that is still closed: it is cordoned until its DaemonSets have their places on it. Every pod of a
// DaemonSet tolerates a cordon, and no other pod does. Without it the pods that wait for the node race for its room with the daemons, whose
// pods are only made once the node's taints are gone, and a daemon that loses stays pending for good.
const OpeningAnnotation = "karp.sh/opening"

// UnschedulableTaint is the taint of a cordoned node.
const UnschedulableTaint = "node.kubernetes.io/unschedulable"

// Limits of a closed node's waiting.
const (
	// DaemonPatience is how long daemons that do not come, because they fit nowhere or because their controller is down, keep pods away.
	DaemonPatience = 10 * time.Second
	// StartupPatience is how long a ready node stays closed for its startup taints. They keep pods away themselves, and what removes them may be a
	// pod that a cordon keeps off.
	StartupPatience = time.Minute
	// CompanionPatience is how long a node waits for those that its pods' spread depends on. Nodes that start together are ready within seconds of
	// each other. While one is missing, the scheduler cannot bind the pods of the others as planned, and other pods take their room.
	CompanionPatience = 10 * time.Second
	// OpeningInterval is how often daemons and companions are looked at.
	OpeningInterval = 250 * time.Millisecond
)

// Opening is what decides whether a closed node opens.
type Opening struct {
	// Daemons reports whether daemons lack their place on the node.
	Daemons bool
	// Ready is since when the node is ready, Clear since when it is also free of taints that go away by themselves; zero if it is not.
	Ready, Clear, Now time.Time
}

// Open reports whether a closed node is to be opened now, and if not, when to look again; zero leaves that to events.
func Open(o Opening) (open bool, after time.Duration) {
	switch {
	case o.Ready.IsZero():
		return false, 0
	case o.Clear.IsZero():
		return !o.Now.Before(o.Ready.Add(StartupPatience)), max(time.Second, o.Ready.Add(StartupPatience).Sub(o.Now))
	case !o.Daemons:
		return true, 0
	}
	return !o.Now.Before(o.Clear.Add(DaemonPatience)), OpeningInterval
}

// Closed reports whether we keep the node closed.
func Closed(n *Node) bool {
	_, closed := n.Annotations[OpeningAnnotation]
	return closed
}

// Lasting returns the node's taints without those that go away by themselves while it starts: the claim's startup taints, the ephemeral ones,
// and the cordon of a closed node.
func Lasting(c *Claim, n *Node) []constraint.Taint {
	return slices.DeleteFunc(slices.Clone(n.Taints), func(t constraint.Taint) bool {
		return Ephemeral(t) || hasTaint(c.StartupTaints, t) || Closed(n) && t.Key == UnschedulableTaint
	})
}
