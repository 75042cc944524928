package policy_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/karp-sh/karp/test/simaws/policy"
)

func parse(t *testing.T, text string) *policy.Document {
	t.Helper()
	d, err := policy.Parse([]byte(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return d
}

// statement is a document of one statement.
func statement(body string) string {
	return `{"Version":"2012-10-17","Statement":{"Sid":"S",` + body + `}}`
}

func TestParseRefusesMalformedDocuments(t *testing.T) {
	for name, tt := range map[string]struct{ text, want string }{
		"not JSON":           {"{", "EOF"},
		"unknown member":     {`{"Version":"2012-10-17","Statements":[]}`, "Statements"},
		"unknown version":    {`{"Version":"2020-01-01","Statement":[]}`, "valid version"},
		"no statement":       {`{"Version":"2012-10-17","Statement":[]}`, "no statement"},
		"effect":             {statement(`"Effect":"allow","Action":"*","Resource":"*"`), "neither Allow nor Deny"},
		"no action":          {statement(`"Effect":"Allow","Resource":"*"`), "must contain actions"},
		"both actions":       {statement(`"Effect":"Allow","Action":"a:b","NotAction":"a:c","Resource":"*"`), "one of Action"},
		"action":             {statement(`"Effect":"Allow","Action":"RunInstances","Resource":"*"`), "vendor"},
		"no resource":        {statement(`"Effect":"Allow","Action":"ec2:*"`), "must contain resources"},
		"resource":           {statement(`"Effect":"Allow","Action":"ec2:*","Resource":"i-1"`), "ARN format"},
		"operator":           {statement(`"Effect":"Allow","Action":"ec2:*","Resource":"*","Condition":{"StringIs":{"a":"b"}}`), "invalid condition type"},
		"repeated statement": {`{"Version":"2012-10-17","Statement":[{"Sid":"S","Effect":"Allow","Action":"*","Resource":"*"},{"Sid":"S","Effect":"Allow","Action":"*","Resource":"*"}]}`, "unique"},
	} {
		if _, err := policy.Parse([]byte(tt.text)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, tt.want)
		}
	}
}

func TestDecide(t *testing.T) {
	const instance = "arn:aws:ec2:us-east-1:123456789012:instance/i-1"
	tags := map[string][]string{
		"aws:ResourceTag/team": {"a"}, "aws:RequestTag/env": {""}, "aws:TagKeys": {"env", "team"}, "aws:RequestedRegion": {"us-east-1"},
		"aws:PrincipalAccount": {"123456789012"}, "n": {"5"}, "ip": {"10.1.2.3"}, "arn": {instance}, "flag": {"true"}, "at": {"2026-12-01T00:00:00Z"},
	}
	conditions := []struct {
		name, body string
		want       bool
	}{
		{"tag equals", `{"StringEquals":{"aws:ResourceTag/team":"a"}}`, true},
		{"key names ignore case", `{"StringEquals":{"AWS:resourcetag/team":"a"}}`, true},
		{"tag keys do not", `{"StringEquals":{"aws:ResourceTag/Team":"a"}}`, false},
		{"one of several values", `{"StringEquals":{"aws:ResourceTag/team":["b","a"]}}`, true},
		{"several keys", `{"StringEquals":{"aws:ResourceTag/team":"a","aws:RequestTag/env":"x"}}`, false},
		{"missing key", `{"StringEquals":{"aws:ResourceTag/none":"a"}}`, false},
		{"missing key if exists", `{"StringEqualsIfExists":{"aws:ResourceTag/none":"a"}}`, true},
		{"missing key not equal", `{"StringNotEquals":{"aws:ResourceTag/none":"a"}}`, true},
		{"like", `{"StringLike":{"aws:RequestTag/env":"*"}}`, true},
		{"like, missing", `{"StringLike":{"aws:RequestTag/none":"*"}}`, false},
		{"null, there", `{"Null":{"aws:RequestTag/env":"false"}}`, true},
		{"null, absent", `{"Null":{"aws:RequestTag/none":true}}`, true},
		{"all keys known", `{"ForAllValues:StringEquals":{"aws:TagKeys":["env","team","x"]}}`, true},
		{"a key more", `{"ForAllValues:StringEquals":{"aws:TagKeys":["env"]}}`, false},
		{"any key", `{"ForAnyValue:StringEquals":{"aws:TagKeys":["env"]}}`, true},
		{"all of none", `{"ForAllValues:StringEquals":{"none":["env"]}}`, true},
		{"any of none", `{"ForAnyValue:StringEquals":{"none":["env"]}}`, false},
		{"variable", `{"StringEquals":{"aws:PrincipalAccount":"${aws:PrincipalAccount}"}}`, true},
		{"unknown variable", `{"StringEquals":{"aws:PrincipalAccount":"${aws:None}"}}`, false},
		{"number", `{"NumericLessThanEquals":{"n":5}}`, true},
		{"number above", `{"NumericGreaterThan":{"n":"5"}}`, false},
		{"address", `{"IpAddress":{"ip":"10.1.0.0/16"}}`, true},
		{"not address", `{"NotIpAddress":{"ip":"10.1.0.0/16"}}`, false},
		{"arn", `{"ArnLike":{"arn":"arn:aws:ec2:*:123456789012:instance/*"}}`, true},
		{"flag", `{"Bool":{"flag":true}}`, true},
		{"date", `{"DateLessThan":{"at":"2027-01-01T00:00:00Z"}}`, true},
	}
	for _, tt := range conditions {
		t.Run(tt.name, func(t *testing.T) {
			d := parse(t, statement(`"Effect":"Allow","Action":"ec2:Terminate*","Resource":"arn:aws:ec2:*:*:instance/*","Condition":`+tt.body))
			set := policy.Set{Identity: []policy.Named{{Name: "p", Document: d}}}
			got := set.Decide(&policy.Request{Action: "ec2:TerminateInstances", Resource: instance, Context: tags})
			if got.Allowed != tt.want {
				t.Errorf("%s: allowed %v, want %v", tt.body, got.Allowed, tt.want)
			}
		})
	}
}

func TestLayers(t *testing.T) {
	all := policy.Named{Name: "all", Document: parse(t, statement(`"Effect":"Allow","Action":"*","Resource":"*"`))}
	none := policy.Named{Name: "none", Document: parse(t, statement(`"Effect":"Deny","Action":"ec2:CreateFleet","Resource":"*"`))}
	some := policy.Named{Name: "some", Document: parse(t, statement(`"Effect":"Allow","NotAction":["iam:*"],"NotResource":"arn:aws:ec2:*:*:fleet/secret"`))}
	r := func(action, resource string) *policy.Request {
		return &policy.Request{Action: action, Resource: "arn:aws:ec2:us-east-1:1:" + resource}
	}
	for _, tt := range []struct {
		name string
		set  policy.Set
		r    *policy.Request
		want policy.Decision
	}{
		{"no policy", policy.Set{}, r("ec2:CreateFleet", "fleet/f"), policy.Decision{Kind: policy.IdentityPolicy}},
		{"allow", policy.Set{Identity: []policy.Named{all}}, r("ec2:CreateFleet", "fleet/f"), policy.Decision{Allowed: true, Because: []policy.Grant{{Policy: "all", SID: "S", Pattern: "*"}}}},
		{"deny beats allow", policy.Set{Identity: []policy.Named{all, none}}, r("ec2:CreateFleet", "fleet/f"),
			policy.Decision{Explicit: true, Kind: policy.IdentityPolicy, Because: []policy.Grant{{Policy: "none", SID: "S", Pattern: "ec2:CreateFleet"}}}},
		{"boundary denies", policy.Set{Identity: []policy.Named{all}, Boundary: &none}, r("ec2:CreateFleet", "fleet/f"),
			policy.Decision{Explicit: true, Kind: policy.Boundary, Because: []policy.Grant{{Policy: "none", SID: "S", Pattern: "ec2:CreateFleet"}}}},
		{"boundary does not allow", policy.Set{Identity: []policy.Named{all}, Boundary: &some}, r("iam:PassRole", "x"), policy.Decision{Kind: policy.Boundary}},
		{"organization denies", policy.Set{Identity: []policy.Named{all}, Service: []policy.Named{none}}, r("ec2:CreateFleet", "fleet/f"),
			policy.Decision{Explicit: true, Kind: policy.ServiceControl, Because: []policy.Grant{{Policy: "none", SID: "S", Pattern: "ec2:CreateFleet"}}}},
		{"not resource", policy.Set{Identity: []policy.Named{some}}, r("ec2:CreateFleet", "fleet/secret"), policy.Decision{Kind: policy.IdentityPolicy}},
	} {
		if diff := cmp.Diff(tt.want, tt.set.Decide(tt.r)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

func TestLedger(t *testing.T) {
	d := parse(t, `{"Version":"2012-10-17","Statement":[
		{"Sid":"Read","Effect":"Allow","Action":["ec2:Describe*","ec2:GetConsoleOutput"],"Resource":"*"},
		{"Sid":"End","Effect":"Allow","Action":"ec2:TerminateInstances","Resource":"*"}]}`)
	set := policy.Set{Identity: []policy.Named{{Name: "p", Document: d}}}
	var l policy.Ledger
	for _, action := range []string{"ec2:DescribeImages", "ec2:DescribeImages", "ec2:StopInstances"} {
		r := &policy.Request{Action: action, Resource: "*"}
		l.Record(r, set.Decide(r))
	}
	want := policy.Report{
		Used:   []policy.Use{{Action: "ec2:DescribeImages", Count: 2, Resources: []string{"*"}, By: []policy.Grant{{Policy: "p", SID: "Read", Pattern: "ec2:Describe*"}}}},
		Denied: []policy.Denied{{Denial: policy.Denial{Action: "ec2:StopInstances", Resource: "*", Kind: policy.IdentityPolicy}, Count: 1}},
		Unused: []policy.Grant{{Policy: "p", SID: "Read", Pattern: "ec2:GetConsoleOutput"}, {Policy: "p", SID: "End", Index: 1, Pattern: "ec2:TerminateInstances"}},
	}
	if diff := cmp.Diff(want, l.Report(&set)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	l.Reset()
	if r := l.Report(&set); len(r.Used)+len(r.Denied) != 0 || len(r.Unused) != 3 {
		t.Errorf("after a reset: %+v", r)
	}
}
