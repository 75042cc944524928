package arch_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// untested are the scenarios of the scheduling rules that no test carries the number of, with the reason. An entry that has a test now must go.
func untested() map[int]string {
	return map[int]string{
		412: "how long nodes count as nominated is not kept yet",
		413: "as 412",
		417: "the metric of decision durations is not observed yet",
		422: "success times of pods are not kept yet",
	}
}

// lastScenario is the number of the last scenario of the scheduling rules, 32.
const lastScenario = 425

// TestScenariosHaveTests wants the number of each scenario of the scheduling rules in a test or in what a test reads.
func TestScenariosHaveTests(t *testing.T) {
	number := regexp.MustCompile(`\bS-(\d{3})(?: to S-(\d{3}))?`)
	seen := map[int]bool{}
	for _, root := range []string{"../../pkg", "../../test"} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || d.Name() == "coverage_test.go" {
				return err
			}
			if !strings.HasSuffix(path, "_test.go") && !strings.Contains(path, string(filepath.Separator)+"testdata"+string(filepath.Separator)) {
				return nil
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return fmt.Errorf("reading %s: %w", path, err)
			}
			for _, m := range number.FindAllStringSubmatch(string(text), -1) {
				from, _ := strconv.Atoi(m[1])
				to := from
				if m[2] != "" {
					to, _ = strconv.Atoi(m[2])
				}
				for n := from; n <= to; n++ {
					seen[n] = true
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	var missing []string
	for n := 1; n <= lastScenario; n++ {
		switch why, excused := untested()[n]; {
		case !seen[n] && !excused:
			missing = append(missing, fmt.Sprintf("S-%03d", n))
		case seen[n] && excused:
			t.Errorf("S-%03d has a test; it is no longer %q", n, why)
		}
	}
	if len(missing) > 0 {
		t.Errorf("no test carries the number of %s", strings.Join(missing, ", "))
	}
	for n := range seen {
		if n > lastScenario {
			t.Errorf("a test carries the number S-%03d, which no scenario has", n)
		}
	}
}
