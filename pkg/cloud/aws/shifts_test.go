package aws_test

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/karp-sh/karp/pkg/cloud"
	"github.com/karp-sh/karp/pkg/cloud/aws"
	simcloud "github.com/karp-sh/karp/test/simaws/cloud"
)

// textLogger writes to the builder.
func textLogger(b *strings.Builder) *slog.Logger {
	return slog.New(slog.NewTextHandler(b, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// refresh runs one of the provider's refreshers.
func (w *world) refresh(t *testing.T, name string) {
	t.Helper()
	for _, r := range w.Refreshers() {
		if r.Name == name {
			if err := r.Refresh(t.Context()); err != nil {
				t.Fatal(err)
			}
			return
		}
	}
	t.Fatalf("no refresher %q", name)
}

func TestZonalShift(t *testing.T) { // AX2
	w := newWorld(t)
	w.Provider = w.start(t, func(o *aws.Options) { o.ZonalShift = true })
	class := w.readyClass(t)
	byZone := map[string]*cloud.Instance{}
	for attempt := 1; len(byZone) < 1; attempt++ {
		i := w.launch(t, w.resolve(t, order([]string{"on-demand"}, "m5.large"), class, attempt))
		byZone[i.Zone] = i
	}
	var here *cloud.Instance
	for _, i := range byZone {
		here = i
	}
	zoneID := zoneOf(class, here.Zone).ZoneID
	open := func() map[string]bool {
		t.Helper()
		list, err := w.InstanceTypes(t.Context(), class)
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]bool{}
		for _, zone := range []string{"us-west-2a", "us-west-2b", "us-west-2c"} {
			od, spot := offering(t, list, "m5.large", zone, "on-demand"), offering(t, list, "m5.large", zone, "spot")
			if od.Available != spot.Available {
				t.Errorf("A-256: %s: on-demand %v, spot %v", zone, od.Available, spot.Available)
			}
			if !od.Available && od.Unavailable.Reason != "ZonalShift" {
				t.Errorf("A-256: %s is unavailable for %s", zone, od.Unavailable.Reason)
			}
			out[zone] = od.Available
		}
		return out
	}
	shift := func(status string, ids ...string) {
		t.Helper()
		var list []simcloud.ZonalShift
		for _, id := range ids {
			list = append(list, simcloud.ZonalShift{AwayFrom: id, Status: status, ExpiresAt: w.clock.Now().Add(time.Hour)})
		}
		w.sim.Cloud().SetZonalShifts(list)
		w.refresh(t, "zonal shifts")
	}
	if _, err := w.Get(t.Context(), here.ID); err != nil {
		t.Fatal(err)
	}
	shift("NOT_APPLIED", zoneID)
	if !open()[here.Zone] || len(w.ShiftedZones()) != 0 {
		t.Error("A-257: a shift that is not applied has an effect")
	}
	shift("APPLIED", zoneID)
	for zone, is := range open() {
		if is == (zone == here.Zone) {
			t.Errorf("A-256: %s available is %v while traffic is shifted away from %s", zone, is, here.Zone)
		}
	}
	before := w.mark()
	var shifted *cloud.ZoneShifted
	if err := w.Terminate(t.Context(), here.ID); !errors.As(err, &shifted) {
		t.Errorf("A-259: %v", err)
	}
	if err := w.Tag(t.Context(), here.ID, map[string]string{"a": "b"}); !errors.As(err, &shifted) {
		t.Errorf("tagging: %v", err)
	}
	if w.mark() != before {
		t.Errorf("A-259: EC2 was called: %v", w.sim.Calls(before, "", ""))
	}
	var other string
	for _, s := range class.Status.Subnets {
		if s.Zone != here.Zone {
			other = s.ZoneID
		}
	}
	shift("APPLIED", zoneID, other)
	shift("APPLIED", other)
	if !open()[here.Zone] {
		t.Errorf("A-258: %s is still shut: %v", here.Zone, w.ShiftedZones())
	}
	generation := w.Generation()
	w.clock.SetTime(w.clock.Now().Add(2 * time.Hour))
	if w.Generation() == generation || len(w.ShiftedZones()) != 0 {
		t.Error("the end of a shift passes without a trace")
	}
	if err := w.Terminate(t.Context(), here.ID); err != nil {
		t.Errorf("A-259: after the shift: %v", err)
	}
}

// TestQueue: messages over the wire; A-255.
func TestQueue(t *testing.T) {
	w := newWorld(t)
	w.sim.Cloud().CreateQueue("demo", time.Hour)
	w.Provider = w.start(t, func(o *aws.Options) { o.QueueName = "demo" })
	body := fmt.Sprintf(`{"version":"0","source":"aws.ec2","detail-type":"EC2 Spot Instance Interruption Warning","region":"us-west-2","time":"2026-03-01T12:00:00Z","account":%q,"detail":{"instance-id":"i-1"}}`,
		w.sim.Cloud().Options().AccountID)
	if _, err := w.sim.Cloud().Send("demo", body); err != nil {
		t.Fatal(err)
	}
	list, err := w.Receive(t.Context())
	if err != nil || len(list) != 1 || list[0].Kind != cloud.SpotInterrupted || list[0].Foreign || list[0].Receipt == "" {
		t.Fatalf("%+v, %v", list, err)
	}
	calls := w.sim.Calls(0, "sqs", "ReceiveMessage")
	for _, want := range []string{`"MaxNumberOfMessages":10`, `"VisibilityTimeout":20`, `"WaitTimeSeconds":20`} {
		if len(calls) != 1 || !strings.Contains(calls[0].Params["body"], want) {
			t.Errorf("A-249: %v lacks %s", calls, want)
		}
	}
	if err := w.Acknowledge(t.Context(), &list[0]); err != nil {
		t.Fatal(err)
	}
	if left, err := w.sim.Cloud().Messages("demo"); err != nil || len(left) != 0 {
		t.Errorf("%v left, %v", left, err)
	}
	w.Provider = w.start(t, func(o *aws.Options) { o.QueueName = "none" })
	for range 2 {
		if _, err := w.Receive(t.Context()); err == nil || !strings.Contains(err.Error(), "finding queue none") {
			t.Errorf("A-255: %v", err)
		}
	}
}
