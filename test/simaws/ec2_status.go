package simaws

import (
	"strings"
	"time"

	"github.com/karp-sh/karp/test/simaws/cloud"
)

type describeStatusInput struct {
	dry
	filtering
	paging
	IDs     []string `q:"InstanceId"`
	All     bool     `q:"IncludeAllInstances"`
	Managed bool     `q:"IncludeManagedResources"`
}

type checkXML struct {
	Status  string           `xml:"status"`
	Details []checkDetailXML `xml:"details>item"`
}

type checkDetailXML struct {
	Name   string `xml:"name"`
	Status string `xml:"status"`
	Since  string `xml:"impairedSince,omitempty"`
}

type statusXML struct {
	ID       string     `xml:"instanceId"`
	Zone     string     `xml:"availabilityZone"`
	ZoneID   string     `xml:"availabilityZoneId"`
	State    stateXML   `xml:"instanceState"`
	System   checkXML   `xml:"systemStatus"`
	Instance checkXML   `xml:"instanceStatus"`
	EBS      checkXML   `xml:"attachedEbsStatus"`
	Events   []eventXML `xml:"eventsSet>item"`
}

type eventXML struct {
	ID          string `xml:"instanceEventId"`
	Code        string `xml:"code"`
	Description string `xml:"description"`
	NotBefore   string `xml:"notBefore"`
}

func (s *ec2Service) describeInstanceStatus(_ *call, in *describeStatusInput) (any, *cloud.Error) {
	if err := notPagedByID(in.paging, in.IDs, "instancesSet"); err != nil {
		return nil, err
	}
	all, err := s.cloud.Statuses(given(in.IDs), in.filters(), in.All)
	if err != nil {
		return nil, err
	}
	part, next, err := page(all, in.paging, pageLimits{5, 1000, 1000, false}, func(s cloud.Status) string { return s.ID })
	if err != nil {
		return nil, err
	}
	var out struct {
		Statuses []statusXML `xml:"instanceStatusSet>item"`
		Next     string      `xml:"nextToken,omitempty"`
	}
	out.Next = next
	for _, st := range part {
		x := statusXML{
			ID: st.ID, Zone: st.Zone, ZoneID: st.ZoneID, State: stateXML{cloud.StateCode(st.State), st.State},
			System: describeCheck(st.SystemCheck(), st.Impairment.Since), Instance: describeCheck(st.InstanceCheck(), st.Impairment.Since),
			EBS: describeCheck(st.EBSCheck(), st.Impairment.Since),
		}
		if w := st.Impairment; w.EventCode != "" {
			x.Events = []eventXML{{"instance-event-" + strings.TrimPrefix(st.ID, "i-"), w.EventCode, "scheduled event", timestamp(w.EventAt)}}
		}
		out.Statuses = append(out.Statuses, x)
	}
	return out, nil
}

// describeCheck words one check; one that was not made has no details to tell.
func describeCheck(status string, since time.Time) checkXML {
	x := checkXML{Status: status}
	detail := checkDetailXML{Name: "reachability", Status: "passed"}
	switch status {
	case "not-applicable":
		return x
	case "initializing":
		detail.Status = "initializing"
	case "impaired":
		detail.Status, detail.Since = "failed", timestamp(since)
	}
	x.Details = append(x.Details, detail)
	return x
}
