package lifecycle

// Ring holds the last four outcomes of registrations in one pool (lifecycle rules 11). The zero value is empty.
type Ring struct{ outcomes []bool }

const (
	ringSize  = 4
	ringFails = 2
)

// Record adds an outcome.
func (r *Ring) Record(success bool) {
	r.outcomes = append(r.outcomes, success)
	if len(r.outcomes) > ringSize {
		r.outcomes = r.outcomes[len(r.outcomes)-ringSize:]
	}
}

// Empty reports whether nothing was recorded.
func (r *Ring) Empty() bool { return len(r.outcomes) == 0 }

// Reset forgets everything.
func (r *Ring) Reset() { r.outcomes = nil }

// With returns the status the pool would have with one more outcome: False from two failures of the last four on, else True.
func (r *Ring) With(success bool) Status {
	next := Ring{outcomes: append([]bool(nil), r.outcomes...)}
	next.Record(success)
	fails := 0
	for _, ok := range next.outcomes {
		if !ok {
			fails++
		}
	}
	if fails >= ringFails {
		return False
	}
	return True
}

// Seed fills an empty ring from the stored condition after a restart: True counts as one success, False as two failures (L-097, L-098).
func (r *Ring) Seed(stored Status) {
	if !r.Empty() {
		return
	}
	switch stored {
	case True:
		r.Record(true)
	case False:
		r.Record(false)
		r.Record(false)
	default: // nothing was known
	}
}
