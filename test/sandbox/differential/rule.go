package differential

// Rule is a way in which karp differs from kube-scheduler on purpose. Each is stated as a change to the question that is put to the
// scheduler's plugins (see Model); with all of them the answer has to be karp's. Numbers are of the scheduling rules.
type Rule int

// The rules.
const (
	// SoftTaints (7.2, 17.3): PreferNoSchedule blocks like NoSchedule, in the node filter of spread constraints too. It is relaxed only if a
	// pool has such a taint (16, step 6).
	SoftTaints Rule = iota
	// HostnameFloor (17.4): the least count of a spread over hostnames is 0, since a new node can always come.
	HostnameFloor
	// SpreadAlone (29): each spread constraint counts all nodes with its own key; the scheduler only those that carry the keys of all.
	SpreadAlone
	// OpenDomains (17.4): the least count of a spread is taken over the domains that the pod's requirement on the key admits, also when the
	// node affinity policy is Ignore.
	OpenDomains
	// EmptySelector (17.1): the selector {} of a spread counts every pod of the namespace; the scheduler counts none.
	EmptySelector
	// TermByTerm (29): each affinity term may be met by another pod; the scheduler wants one pod that meets all.
	TermByTerm
	// Terminating (17.3, 29): pods on their way out do not count for affinity and anti-affinity of the pod that waits.
	Terminating
	// Bootstrap (17.5, 29): a pod that matches its own affinity term may start in a new domain when all others with a match are closed to it.
	Bootstrap
	// OneTerm (16, 17.7): required node-affinity terms are tried one after the other, the spread's node filter knows only the remaining ones,
	// and preferences are given up only when the last term is tried.
	OneTerm
	// Overdrawn (5.2): a node where bound pods use more of any resource than there is takes nothing.
	Overdrawn
	// Cordon (3.1): spec.unschedulable is not read, only the taint that the node controller adds for it.
	Cordon
	// HostnameFallback (3.1, 17.3): a node without hostname label counts as one by its name.
	HostnameFallback
	// AnyAddress (20): "::" collides with every address, as 0.0.0.0 does.
	AnyAddress
	// Invalid (2.2): pods that ask for a hostname or a node name, or compare with what is not a non-negative integer, are left alone.
	Invalid
	// ByContainer (5.1): of a pod that is being resized, each container counts with the most that it asks for, was granted and has; the
	// scheduler adds up the containers first and then takes the most.
	ByContainer
	// LocalVolume (19.2): a local volume does not hold its pod on the node that it is on.
	LocalVolume

	rules
)

var ruleNames = [rules]string{
	"SoftTaints", "HostnameFloor", "SpreadAlone", "OpenDomains", "EmptySelector", "TermByTerm", "Terminating", "Bootstrap", "OneTerm",
	"Overdrawn", "Cordon", "HostnameFallback", "AnyAddress", "Invalid", "ByContainer", "LocalVolume",
}

func (r Rule) String() string { return ruleNames[r] }

// Rules is a set of rules.
type Rules uint32

const (
	// All are all rules.
	All Rules = 1<<rules - 1
	// Defects are those that say what is wrong with karp: a case that needs one counts as failed. None is known.
	Defects Rules = 0
)

// Has tells whether the rule is in the set.
func (s Rules) Has(r Rule) bool { return s&(1<<r) != 0 }

// Without returns the set without the rule.
func (s Rules) Without(r Rule) Rules { return s &^ (1 << r) }

// List returns the rules in order.
func (s Rules) List() []Rule {
	var out []Rule
	for r := range rules {
		if s.Has(r) {
			out = append(out, r)
		}
	}
	return out
}
