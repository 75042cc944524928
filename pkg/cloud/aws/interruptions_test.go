package aws_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	et "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/go-cmp/cmp"

	"github.com/karp-sh/karp/pkg/cloud"
	"github.com/karp-sh/karp/pkg/cloud/aws"
)

// event is an EventBridge envelope around a detail.
func event(source, kind, detail string) string {
	return fmt.Sprintf(`{"version":"0","id":"1","detail-type":%q,"source":%q,"account":"123456789012","time":"2026-03-01T12:00:00Z","region":"us-west-2","resources":[],"detail":%s}`,
		kind, source, detail)
}

func TestMessages(t *testing.T) {
	state := func(s string) string {
		return event("aws.ec2", "EC2 Instance State-change Notification", `{"instance-id":"i-1","state":"`+s+`"}`)
	}
	health := func(service, category string) string {
		return event("aws.health", "AWS Health Event", fmt.Sprintf(`{"service":%q,"eventTypeCategory":%q,"affectedEntities":[{"entityValue":"i-1"},{"entityValue":"i-2"}]}`, service, category))
	}
	one, two := []string{"i-1"}, []string{"i-1", "i-2"}
	tests := []struct {
		name, body string
		kind       cloud.Interruption
		ids        []string
	}{
		{"A-240", event("aws.ec2", "EC2 Spot Instance Interruption Warning", `{"instance-id":"i-1","instance-action":"terminate"}`), cloud.SpotInterrupted, one},
		{"A-241", event("aws.ec2", "EC2 Instance Rebalance Recommendation", `{"instance-id":"i-1"}`), cloud.RebalanceRecommendation, one},
		{"A-242 running", state("running"), cloud.NoInterruption, nil},
		{"A-242 pending", state("pending"), cloud.NoInterruption, nil},
		{"A-242 Stopping", state("Stopping"), cloud.InstanceStopped, one},
		{"A-242 stopped", state("stopped"), cloud.InstanceStopped, one},
		{"A-242 terminated", state("terminated"), cloud.InstanceTerminated, one},
		{"A-242 shutting-down", state("shutting-down"), cloud.InstanceTerminated, one},
		{"A-243", health("EC2", "scheduledChange"), cloud.ScheduledChange, two},
		{"A-244 RDS", health("RDS", "scheduledChange"), cloud.NoInterruption, nil},
		{"A-244 notification", health("EC2", "accountNotification"), cloud.NoInterruption, nil},
		{"A-245 unknown type", event("aws.ec2", "EC2 Something", `{"instance-id":"i-1"}`), cloud.NoInterruption, nil},
		{"A-247", event("aws.ec2", "EC2 Capacity Reservation Instance Interruption Warning", `{"instance-id":"i-1","instance-action":"terminate"}`), cloud.CapacityReservationInterrupted, one},
		{"another source", event("aws.health", "EC2 Spot Instance Interruption Warning", `{"instance-id":"i-1"}`), cloud.NoInterruption, nil},
	}
	for _, tt := range tests {
		want := cloud.Message{Kind: tt.kind, Instances: tt.ids, Time: start()}
		if diff := cmp.Diff(want, aws.ParseMessage(tt.body)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
	if m := aws.ParseMessage(" "); m.Malformed != nil || m.Kind != cloud.NoInterruption {
		t.Errorf("A-245: an empty body is %+v", m)
	}
	for _, body := range []string{"{", `"text"`, event("aws.ec2", "EC2 Spot Instance Interruption Warning", `"x"`), event("aws.ec2", "EC2 Spot Instance Interruption Warning", `{"instance-id":1}`)} {
		if m := aws.ParseMessage(body); m.Malformed == nil {
			t.Errorf("A-245: %s is not malformed: %+v", body, m)
		}
	}
}

func TestForeignMessages(t *testing.T) { // AX25
	for _, change := range []map[string]any{{"account": "999999999999"}, {"region": "eu-west-1"}} {
		var m map[string]any
		if err := json.Unmarshal([]byte(event("aws.ec2", "EC2 Spot Instance Interruption Warning", `{"instance-id":"i-1"}`)), &m); err != nil {
			t.Fatal(err)
		}
		for k, v := range change {
			m[k] = v
		}
		body, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		if got := aws.ParseMessage(string(body)); !got.Foreign {
			t.Errorf("%v: not foreign: %+v", change, got)
		}
	}
}

func TestFindings(t *testing.T) {
	now := start()
	failed := func(since time.Duration) *et.InstanceStatusSummary {
		return &et.InstanceStatusSummary{Status: et.SummaryStatusImpaired, Details: []et.InstanceStatusDetails{
			{Name: et.StatusNameReachability, Status: et.StatusTypeFailed, ImpairedSince: new(now.Add(-since))},
		}}
	}
	next := now.Add(7 * 24 * time.Hour)
	retirement := et.InstanceStatusEvent{Code: et.EventCodeInstanceRetirement, NotBefore: &next}
	over := et.InstanceStatusEvent{Code: et.EventCodeInstanceReboot, Description: new("[Completed] scheduled reboot")}
	at := func(kind cloud.Interruption, since time.Duration) cloud.Finding {
		return cloud.Finding{Instance: "i-1", Kind: kind, Since: now.Add(-since), Detail: "reachability"}
	}
	planned := cloud.Finding{Instance: "i-1", Kind: cloud.EventStatus, Since: next, Detail: "instance-retirement"}
	tests := []struct {
		name string
		in   et.InstanceStatus
		want []cloud.Finding
	}{
		{"A-250 119 s", et.InstanceStatus{InstanceStatus: failed(119 * time.Second)}, nil},
		{"A-250 121 s", et.InstanceStatus{InstanceStatus: failed(121 * time.Second)}, []cloud.Finding{at(cloud.InstanceStatus, 121*time.Second)}},
		{"system", et.InstanceStatus{SystemStatus: failed(120 * time.Second)}, []cloud.Finding{at(cloud.SystemStatus, 120*time.Second)}},
		{"A-251", et.InstanceStatus{Events: []et.InstanceStatusEvent{retirement}}, []cloud.Finding{planned}},
		{"an event that is over", et.InstanceStatus{Events: []et.InstanceStatusEvent{over, retirement}}, []cloud.Finding{planned}},
		{"all", et.InstanceStatus{InstanceStatus: failed(time.Hour), SystemStatus: failed(time.Hour), Events: []et.InstanceStatusEvent{retirement, retirement}}, []cloud.Finding{
			at(cloud.InstanceStatus, time.Hour), at(cloud.SystemStatus, time.Hour), planned,
		}},
		{"passed", et.InstanceStatus{InstanceStatus: &et.InstanceStatusSummary{Details: []et.InstanceStatusDetails{{Status: et.StatusTypePassed}}}}, nil},
	}
	for _, tt := range tests {
		tt.in.InstanceId = new("i-1")
		if diff := cmp.Diff(tt.want, aws.Findings(tt.in, now)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

// FuzzMessage: a message is read, refused or says nothing; one that names instances has a kind that calls for something.
func FuzzMessage(f *testing.F) {
	for _, seed := range []string{
		"", "{", "null", "[]", event("aws.ec2", "EC2 Spot Instance Interruption Warning", `{"instance-id":"i-1"}`), event("aws.health", "AWS Health Event", `null`),
		event("aws.ec2", "EC2 Instance State-change Notification", `{"instance-id":"i-1","state":"STOPPED"}`), `{"version":"0","time":"yesterday"}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		m := aws.ParseMessage(body)
		if (len(m.Instances) > 0) != (m.Kind != cloud.NoInterruption) || m.Malformed != nil && len(m.Instances) > 0 {
			t.Errorf("%q: %+v", body, m)
		}
	})
}

// FuzzProviderID: an id that is read leads back to the provider ID.
func FuzzProviderID(f *testing.F) {
	for _, seed := range []string{"aws:///us-west-2a/i-1", "azure://x", "aws:///us-west-2a/", "aws:////i-1", "aws:///a/b/c", "kwok:///zone/i-1", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if id, err := aws.InstanceID(text); err == nil && (id == "" || text[len(text)-len(id)-1:] != "/"+id) {
			t.Errorf("%q gave %q", text, id)
		}
	})
}

func TestProviderID(t *testing.T) {
	for text, want := range map[string]string{"aws:///us-west-2a/i-1": "i-1", "fargate:///z/i-2": "i-2", "azure://x": "", "aws:///i-1": "", "i-1": ""} {
		got, err := aws.InstanceID(text)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
}
