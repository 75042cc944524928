package agent

// What tests of this package look at from outside.
var (
	NewFence     = newFence
	ErrFenced    = errFenced
	NewAwaited   = newAwaited
	NewEvents    = newEvents
	NewClaim     = newClaim
	StaticClaim  = staticClaim
	InstanceID   = instanceID
	VerifyToken  = verifyToken
	Scale        = scale
	OutcomeOf    = outcomeOf
	ClaimOf      = claimOf
	PodOf        = podOf
	NewVerdicts  = newVerdicts
	ClaimedBy    = claimedBy
	ChangeTaints = changeTaints
	Stand        = stand
)

// Of exposes an answer's parts.
func (a answer) Parts() (node, claim string, placed bool) { return a.node, a.claim, a.verdict == nil }
