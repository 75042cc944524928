package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// reportVersion is the API version of all reports.
const reportVersion = "cli.karp.sh/v1alpha1"

// plural counts a noun: "1 pod", "2 pods".
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// nonEmpty drops empty strings.
func nonEmpty(texts ...string) []string {
	return slices.DeleteFunc(texts, func(s string) bool { return s == "" })
}

// suggest names the three closest names for an unknown one, as the end of an error sentence.
func suggest(name string, names []string) string {
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(distance(name, a), distance(name, b)), cmp.Compare(a, b))
	})
	names = names[:min(3, len(names))]
	if len(names) == 0 {
		return ""
	}
	return "; there is: " + strings.Join(names, ", ")
}

// distance is the number of single-character edits between two names (Levenshtein).
func distance(a, b string) int {
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
