package aws_test

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

// scenarios is the number of scenarios of the AWS rules, A-001 to A-266.
const scenarios = 266

// untested are the scenarios without a test that names them, and why.
func untested() map[int]string {
	const loop = "a loop of the agent, tested with the lifecycle: "
	return map[int]string{
		30:  loop + "the hash of classes is stamped (nodeclass.hash)",
		98:  loop + "a class waits for its claims (nodeclass)",
		246: loop + "a message whose handling failed comes again (interruption)",
		248: loop + "a claim that is being deleted is interrupted (interruption)",
		252: loop + "the termination timestamp of an unhealthy instance stays (interruption)",
		253: loop + "an unhealthy instance is counted once (interruption)",
		260: loop + "instances without claim are ended after two listings (instance.garbagecollection)",
		261: loop + "an instance that is ending is left alone (instance.garbagecollection)",
		262: loop + "the instance of a registered claim gets its tags (nodeclaim.tagging)",
		263: loop + "a tag Name that is there stays (nodeclaim.tagging)",
		264: loop + "reserved instances that became on-demand (capacityreservation.capacitytype)",
		266: loop + "a node waits for its partition (nodeclaim.lifecycle)",
	}
}

// TestScenariosAreTested: every scenario of the AWS rules is named by a test or by a test's data somewhere in the repository.
func TestScenariosAreTested(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	named := map[int]bool{}
	number := regexp.MustCompile(`\bA-(\d{3})(?:\s*(?:to|…|\.\.)\s*A-(\d{3}))?`)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && strings.HasPrefix(d.Name(), ".") && path != root:
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, "_test.go") && !strings.Contains(path, "testdata") || filepath.Base(path) == "coverage_test.go":
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range number.FindAllStringSubmatch(string(text), -1) {
			first, _ := strconv.Atoi(m[1])
			last := first
			if m[2] != "" {
				last, _ = strconv.Atoi(m[2])
			}
			for i := first; i <= last; i++ {
				named[i] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var missing []string
	for i := 1; i <= scenarios; i++ {
		why, excused := untested()[i]
		switch {
		case !named[i] && !excused:
			missing = append(missing, fmt.Sprintf("A-%03d", i))
		case named[i] && excused:
			t.Errorf("A-%03d has a test; take it off the list of those without (%s)", i, why)
		}
	}
	if len(missing) > 0 {
		t.Errorf("no test names %s", strings.Join(missing, ", "))
	}
}
