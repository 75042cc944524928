package constraint

// Tolerates reports whether one of the tolerations tolerates the taint, by the rules of Kubernetes including the comparison
// operators (scheduling rules 7.1).
func Tolerates(ts []Toleration, t Taint) bool {
	for i := range ts {
		if ts[i].Tolerates(t) {
			return true
		}
	}
	return false
}

// Tolerates reports whether the toleration covers the taint.
func (t Toleration) Tolerates(taint Taint) bool {
	if t.Effect != "" && t.Effect != taint.Effect || t.Key != "" && t.Key != taint.Key {
		return false
	}
	switch t.Operator {
	case "", "Equal":
		return t.Key != "" && t.Value == taint.Value
	case "Exists":
		return true
	case "Gt", "Lt":
		have, ok1 := integer(taint.Value)
		want, ok2 := integer(t.Value)
		if t.Key == "" || !ok1 || !ok2 {
			return false
		}
		return t.Operator == "Gt" && have > want || t.Operator == "Lt" && have < want
	}
	return false
}

// Untolerated returns the first taint, in the order given, that no toleration covers. All effects count (scheduling rules 7.2).
func Untolerated(taints []Taint, ts []Toleration) (Taint, bool) {
	for _, t := range taints {
		if !Tolerates(ts, t) {
			return t, true
		}
	}
	return Taint{}, false
}

// UntoleratedHard is Untolerated without regard to PreferNoSchedule, as for daemon pods (scheduling rules 8.2).
func UntoleratedHard(taints []Taint, ts []Toleration) (Taint, bool) {
	for _, t := range taints {
		if t.Effect != PreferNoSchedule && !Tolerates(ts, t) {
			return t, true
		}
	}
	return Taint{}, false
}
