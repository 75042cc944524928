package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/karp-sh/karp/pkg/reason"
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
	near := reason.Similar(name, names, 3)
	if len(near) == 0 {
		return ""
	}
	return "; there is: " + strings.Join(near, ", ")
}
