// Package constraint is the algebra of label requirements, taints and tolerations.
//
// An Expr is a requirement as somebody wrote it. A Requirement is its canonical form: a set of admitted values
// (finite, or everything but a finite set), optionally bounded to a range of integers. Requirements is a set of
// them, one a key. The rules are those of the scheduling specification, section 6 (S-076 and following).
package constraint

// Operator of a label requirement, spelled as in the API.
type Operator string

// The operators of NodePool and NodeClaim requirements; pods know all but Gte and Lte.
const (
	In           Operator = "In"
	NotIn        Operator = "NotIn"
	Exists       Operator = "Exists"
	DoesNotExist Operator = "DoesNotExist"
	Gt           Operator = "Gt"
	Lt           Operator = "Lt"
	Gte          Operator = "Gte"
	Lte          Operator = "Lte"
)

// Expr is one requirement as written in a NodePool, a NodeClaim, a pod or a volume.
type Expr struct {
	Key      string
	Operator Operator
	Values   []string
	// MinValues is the number of distinct values that the instance types of a claim must offer for the key; 0 if unset.
	MinValues int
}

// Effect of a taint, spelled as in the API.
type Effect string

// The effects of taints. An empty effect in a toleration matches all of them.
const (
	NoSchedule       Effect = "NoSchedule"
	PreferNoSchedule Effect = "PreferNoSchedule"
	NoExecute        Effect = "NoExecute"
)

// Taint keeps pods away that do not tolerate it.
type Taint struct {
	Key, Value string
	Effect     Effect
}

// Toleration of a pod. Operator is Equal (or empty), Exists, Gt or Lt as in the API.
type Toleration struct {
	Key, Operator, Value string
	Effect               Effect
}
