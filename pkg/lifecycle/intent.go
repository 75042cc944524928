package lifecycle

import (
	"encoding/json"
	"fmt"
	"time"
)

// Kinds of intents.
const (
	// IntentPlanned is what a claim is created with: which decision it is for. Nothing was promised yet.
	IntentPlanned = "planned"
	// IntentLaunch promises to launch an instance.
	IntentLaunch = "launch"
	// IntentDisrupt promises to remove the claim's node; Decision identifies the command.
	IntentDisrupt = "disrupt"
)

// Outcome of an intent, as far as it is known.
type IntentOutcome string

// The outcomes of an intent. The empty one is unknown: the effect may or may not have happened, so the only right thing is to repeat the
// recorded request with its token.
const (
	OutcomeUnknown IntentOutcome = ""
	// OutcomeFailed is known to have had no effect: a new attempt may begin.
	OutcomeFailed IntentOutcome = "failed"
	// OutcomeDone may be recorded only after the claim's status shows the instance; the request is dropped then.
	OutcomeDone IntentOutcome = "done"
)

// Intent is what we promised to do for a claim, written to the annotation karp.sh/intent before the effect (reliability rule 1).
type Intent struct {
	Kind string `json:"kind"`
	// Claim is the claim's UID; an annotation copied to another claim (from a backup) is not that claim's promise.
	Claim   string `json:"claim,omitempty"`
	Attempt int    `json:"attempt,omitempty"`
	Token   string `json:"token,omitempty"`
	// Request is the exact request that will be sent, in the cloud package's form.
	Request json.RawMessage `json:"request,omitempty"`
	// Digest is that of the request, Decision that of the snapshot and policy that led to the claim.
	Digest   string    `json:"digest,omitempty"`
	Decision string    `json:"decision,omitempty"`
	Deadline time.Time `json:"deadline,omitzero"`
	// Epoch is the number of lease transitions of the leader that wrote the intent.
	Epoch   int64         `json:"epoch,omitempty"`
	Outcome IntentOutcome `json:"outcome,omitempty"`
}

// ParseIntent reads the annotation's value; an empty value gives nil.
func ParseIntent(value string) (*Intent, error) {
	if value == "" {
		return nil, nil
	}
	var i Intent
	if err := json.Unmarshal([]byte(value), &i); err != nil {
		return nil, fmt.Errorf("reading annotation %s: %w; remove the annotation only if no instance was launched for the claim", IntentAnnotation, err)
	}
	return &i, nil
}

// String returns the annotation's value.
func (i *Intent) String() string {
	text, err := json.Marshal(i)
	if err != nil {
		// Only an invalid Request could fail, and ParseIntent or the provider made it.
		return ""
	}
	return string(text)
}

// Of returns the intent if it is the claim's own, else nil.
func (i *Intent) Of(uid string) *Intent {
	if i == nil || i.Claim != uid {
		return nil
	}
	return i
}

// Open reports whether the intent is a launch whose outcome nobody knows.
func (i *Intent) Open() bool {
	return i != nil && i.Kind == IntentLaunch && i.Outcome == OutcomeUnknown
}

// NextAttempt tells how to go on with a launch: repeat the recorded request, or resolve a new one under the returned attempt number.
// A new number is given only after the outcome of the previous attempt is known (invariant I4).
func NextAttempt(recorded *Intent) (attempt int, repeat bool) {
	switch {
	case recorded == nil || recorded.Kind != IntentLaunch:
		return 1, false
	case recorded.Open():
		return recorded.Attempt, true
	default:
		return recorded.Attempt + 1, false
	}
}

// Settle returns the intent to write once the claim's status, as stored, shows the instance: without the request, which is not needed any
// more. It returns nil if there is nothing to settle.
func Settle(c *Claim, recorded *Intent) *Intent {
	if !recorded.Open() || c.ProviderID == "" || !c.Is(Launched, True) {
		return nil
	}
	settled := *recorded
	settled.Request, settled.Outcome = nil, OutcomeDone
	return &settled
}
