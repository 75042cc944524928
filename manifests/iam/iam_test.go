package iam_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
)

// values fill in the variables.
func values(name string) string {
	return map[string]string{
		"AWS_PARTITION": "aws", "AWS_REGION": "us-west-2", "AWS_ACCOUNT_ID": "123456789012", "CLUSTER_NAME": "demo", "NODE_ROLE": "node-role",
		"INTERRUPTION_QUEUE": "demo", "EC2_SERVICE": "ec2.amazonaws.com", "OIDC_PROVIDER": "oidc.example/id/1", "NAMESPACE": "kube-system", "SERVICE_ACCOUNT": "karp-agent",
	}[name]
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return os.Expand(string(text), func(variable string) string {
		v := values(variable)
		if v == "" {
			t.Errorf("%s: variable %s is not among those of the README", name, variable)
		}
		return v
	})
}

type statement struct {
	Sid, Effect string
	Principal   any
	Action      any
	Resource    any
	Condition   map[string]map[string]any
}

func list(v any) []string {
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		var out []string
		for _, e := range v {
			out = append(out, e.(string))
		}
		return out
	}
	return nil
}

// TestPolicies: every policy is one that IAM takes: version, statements with different names, a size below the limit of inline policies.
func TestPolicies(t *testing.T) {
	names, err := filepath.Glob("*.json")
	if err != nil || len(names) < 5 {
		t.Fatalf("%v, %v", names, err)
	}
	for _, name := range names {
		text := read(t, name)
		if name == "rules.json" {
			continue
		}
		var doc struct {
			Version   string
			Statement []statement
		}
		if err := json.Unmarshal([]byte(text), &doc); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if doc.Version != "2012-10-17" || len(doc.Statement) == 0 {
			t.Errorf("%s: version %q, %d statements", name, doc.Version, len(doc.Statement))
		}
		seen := map[string]bool{}
		for _, s := range doc.Statement {
			if seen[s.Sid] || !regexp.MustCompile(`^[A-Za-z0-9]+$`).MatchString(s.Sid) || len(list(s.Action)) == 0 {
				t.Errorf("%s: statement %q", name, s.Sid)
			}
			seen[s.Sid] = true
		}
		// IAM counts an inline policy of a role without white space.
		if size := len(strings.Join(strings.FieldsFunc(text, unicode.IsSpace), "")); size > 10240 {
			t.Errorf("%s: %d characters, an inline policy has at most 10240", name, size)
		}
	}
}

// TestControllerIsBounded: an action that changes something has a condition or names its one resource; none is granted by a wildcard.
func TestControllerIsBounded(t *testing.T) {
	var doc struct{ Statement []statement }
	if err := json.Unmarshal([]byte(read(t, "controller-policy.json")), &doc); err != nil {
		t.Fatal(err)
	}
	free := []string{"LaunchIntoWhatExists", "ReadProfiles", "ListProfiles", "ReadTheCluster", "ReadImageParameters", "ReadPrices", "ReadInterruptions", "ReadZonalShifts"}
	var actions []string
	for _, s := range doc.Statement {
		if s.Effect != "Allow" || len(s.Condition) == 0 && !slices.Contains(free, s.Sid) {
			t.Errorf("%s: effect %s, %d conditions", s.Sid, s.Effect, len(s.Condition))
		}
		for _, a := range list(s.Action) {
			if strings.Contains(a, "*") {
				t.Errorf("%s grants %s", s.Sid, a)
			}
			actions = append(actions, a)
		}
		if slices.Contains(list(s.Resource), "*") && !slices.Contains([]string{"Look", "ListProfiles", "ReadPrices"}, s.Sid) {
			t.Errorf("%s is for every resource", s.Sid)
		}
	}
	slices.Sort(actions)
	want := []string{
		"arc-zonal-shift:GetManagedResource", "ec2:CreateFleet", "ec2:CreateLaunchTemplate", "ec2:CreateTags", "ec2:DeleteLaunchTemplate",
		"ec2:DescribeCapacityReservations", "ec2:DescribeImages", "ec2:DescribeInstanceStatus", "ec2:DescribeInstanceTypeOfferings", "ec2:DescribeInstanceTypes",
		"ec2:DescribeInstances", "ec2:DescribeLaunchTemplates", "ec2:DescribePlacementGroups", "ec2:DescribeSecurityGroups", "ec2:DescribeSpotPriceHistory",
		"ec2:DescribeSubnets", "ec2:RunInstances", "ec2:TerminateInstances", "eks:DescribeCluster", "iam:AddRoleToInstanceProfile",
		"iam:CreateInstanceProfile", "iam:DeleteInstanceProfile", "iam:GetInstanceProfile", "iam:ListInstanceProfiles", "iam:PassRole",
		"iam:RemoveRoleFromInstanceProfile", "iam:TagInstanceProfile", "pricing:GetProducts", "sqs:DeleteMessage", "sqs:GetQueueUrl",
		"sqs:ReceiveMessage", "ssm:GetParameter",
	}
	if diff := cmp.Diff(want, slices.Compact(actions)); diff != "" {
		t.Errorf("actions (-want +got):\n%s", diff)
	}
}

// TestRules: there is a rule for every event that the agent reads.
func TestRules(t *testing.T) {
	var rules []struct {
		Name    string
		Pattern map[string][]string
	}
	if err := json.Unmarshal([]byte(read(t, "rules.json")), &rules); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range rules {
		got = append(got, r.Pattern["source"][0]+"/"+r.Pattern["detail-type"][0])
	}
	slices.Sort(got)
	want := []string{
		"aws.ec2/EC2 Capacity Reservation Instance Interruption Warning", "aws.ec2/EC2 Instance Rebalance Recommendation",
		"aws.ec2/EC2 Instance State-change Notification", "aws.ec2/EC2 Spot Instance Interruption Warning", "aws.health/AWS Health Event",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
}
