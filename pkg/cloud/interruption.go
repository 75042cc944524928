package cloud

import (
	"context"
	"time"
)

// Interruption is a kind of news about an instance; its text is the label message_type of the metrics (AWS rules 13.2).
type Interruption string

// The kinds of news.
const (
	SpotInterrupted                Interruption = "spot_interrupted"
	RebalanceRecommendation        Interruption = "rebalance_recommendation"
	InstanceStopped                Interruption = "instance_stopped"
	InstanceTerminated             Interruption = "instance_terminated"
	CapacityReservationInterrupted Interruption = "capacity_reservation_interrupted"
	ScheduledChange                Interruption = "scheduled_change"
	InstanceStatus                 Interruption = "instance_status"
	SystemStatus                   Interruption = "system_status"
	EventStatus                    Interruption = "event_status"
	// NoInterruption is a message that says nothing to us.
	NoInterruption Interruption = "no_op"
)

// Message is a message of the queue, read. Every message has to be acknowledged once what it asks for is done, those that ask for nothing at
// once.
type Message struct {
	Kind Interruption
	// Instances are the ids it is about; empty for NoInterruption.
	Instances []string
	// Time of the event, zero if the message has none.
	Time time.Time
	// Foreign messages are known to come from another account or region: they count as received, and nothing is done.
	Foreign bool
	// Malformed messages are neither counted nor acted upon; the error says why.
	Malformed error
	// Receipt is what the queue wants for the acknowledgement.
	Receipt string
}

// Interruptions is the cloud's news about instances that are about to end or are ill (AWS rules 13).
type Interruptions interface {
	// Receive waits up to 20 s for messages and returns at most ten. A message that is not acknowledged comes again 20 s later.
	Receive(ctx context.Context) ([]Message, error)
	// Acknowledge removes a message from the queue.
	Acknowledge(ctx context.Context, m *Message) error
	// Unhealthy lists the instances whose checks have failed for at least two minutes, and those for which the cloud plans an event. They need
	// not be ours. *Unauthorized tells that asking again soon is useless.
	Unhealthy(ctx context.Context) ([]Finding, error)
}

// Finding is one thing wrong with one instance.
type Finding struct {
	Instance string
	// Kind is InstanceStatus, SystemStatus or EventStatus.
	Kind Interruption
	// Since is when it began; for a planned event, when the event begins. Zero if unknown.
	Since time.Time
	// Detail names the check or the event.
	Detail string
}

// Shifts tells from which zones traffic was shifted away (AWS rules 14).
type Shifts interface {
	// ShiftedZones returns the ids of the zones that nothing is launched into and whose instances are left alone, ascending; nil if zonal
	// shift is off.
	ShiftedZones() []string
}

// Reservations tells about capacity that was reserved.
type Reservations interface {
	// ExpiringBlocks returns those of the capacity reservations that are capacity blocks about to end, ascending: EC2 begins to take instances
	// back thirty minutes before the end. Reservations that are gone are left out (AWS rules 15.4).
	ExpiringBlocks(ctx context.Context, ids []string) ([]string, error)
}
