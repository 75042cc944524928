package reason

import (
	"cmp"
	"slices"
)

// Similar returns the names that are most like one that does not exist, most alike first.
func Similar(name string, names []string, most int) []string {
	out := slices.Clone(names)
	slices.SortFunc(out, func(a, b string) int {
		return cmp.Or(cmp.Compare(edits(name, a), edits(name, b)), cmp.Compare(a, b))
	})
	out = slices.Compact(out)
	return out[:min(most, len(out))]
}

// edits is the number of single-character edits between two names (Levenshtein).
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
