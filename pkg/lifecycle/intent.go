package lifecycle

import (
	"encoding/json"
	"fmt"
	"time"
)

// Kinds of intents.
const IntentLaunch = "launch"

// Outcome of an intent, as far as it is known.
type IntentOutcome string

// The outcomes of an intent. The empty one is unknown: the effect may or may not have happened, so the only right thing is to repeat the
// recorded request with its token.
const (
	OutcomeUnknown IntentOutcome = ""
	// OutcomeFailed is known to have had no effect: a new attempt may begin.
	OutcomeFailed IntentOutcome = "failed"
	// OutcomeDone is recorded in the claim's status.
	OutcomeDone IntentOutcome = "done"
)

// Intent is what we promised to do for a claim, written to the annotation karp.sh/intent before the effect (reliability rule 1).
type Intent struct {
	Kind    string `json:"kind"`
	Attempt int    `json:"attempt"`
	Token   string `json:"token"`
	// Request is the exact request that will be sent, in the cloud package's form.
	Request json.RawMessage `json:"request,omitempty"`
	// Digest is that of the request, Decision that of the snapshot and policy that led to the claim.
	Digest   string    `json:"digest"`
	Decision string    `json:"decision,omitempty"`
	Deadline time.Time `json:"deadline"`
	// Epoch is the number of lease transitions of the leader that wrote the intent.
	Epoch   int64         `json:"epoch"`
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

// NextAttempt tells how to go on with a launch: repeat the recorded request, or resolve a new one under the returned attempt number.
// A new number is given only after the outcome of the previous attempt is known (invariant I4).
func NextAttempt(recorded *Intent) (attempt int, repeat bool) {
	switch {
	case recorded == nil || recorded.Kind != IntentLaunch:
		return 1, false
	case recorded.Outcome == OutcomeUnknown:
		return recorded.Attempt, true
	default:
		return recorded.Attempt + 1, false
	}
}
