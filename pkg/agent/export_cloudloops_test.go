package agent

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	awsv1 "github.com/karp-sh/karp/pkg/apis/aws/v1"
	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/telemetry"
)

// CollectProfiles runs the collection of instance profiles once.
func CollectProfiles(ctx context.Context, live client.Reader, collect func(context.Context, map[string]bool) error) error {
	return (&profileCollector{live: live, collect: collect}).Run(ctx)
}

// LearnMemory looks at the nodes once.
func LearnMemory(ctx context.Context, reader client.Reader, observe func(context.Context, *awsv1.EC2NodeClass, string, string, int64)) error {
	return (&memoryLearner{client: reader, observe: observe}).Run(ctx)
}

// ShiftEvents returns a run of the events of zonal shifts.
func ShiftEvents(reader client.Reader, e *events, shifted func() []string) func(context.Context) error {
	return (&shiftEvents{client: reader, events: e, shifted: shifted}).Run
}

// OfferingGauges returns a run of the gauges of offerings.
func OfferingGauges(reader client.Reader, types func(context.Context, *awsv1.EC2NodeClass) ([]catalog.InstanceType, error), series telemetry.AWS) func(context.Context) error {
	return (&offeringGauges{client: reader, types: types, series: series, reserved: true}).Run
}
