package cloud

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"
)

// Impairment is what DescribeInstanceStatus finds wrong with an instance.
type Impairment struct {
	Instance, System bool // failed checks
	EBS              bool // failed check of attached volumes
	Since            time.Time
	EventCode        string // scheduled event, e.g. instance-retirement
	EventAt          time.Time
}

// Impair sets what is wrong with an instance; nil makes it healthy.
func (c *Cloud) Impair(id string, what *Impairment) error {
	now := c.lock()
	defer c.mu.Unlock()
	if c.instances[id] == nil {
		return fmt.Errorf("no instance %q", id)
	}
	if what == nil {
		delete(c.statuses, id)
		return nil
	}
	copied := *what
	if copied.Since.IsZero() {
		copied.Since = now
	}
	c.statuses[id] = &copied
	return nil
}

// Status is one answer of DescribeInstanceStatus.
type Status struct {
	ID, Zone, ZoneID, State string
	Impairment              Impairment
	Initializing            bool // the checks have not been made yet
}

// InstanceCheck is the status of the instance check: ok, impaired,
// initializing or not-applicable.
func (s *Status) InstanceCheck() string { return s.check(s.Impairment.Instance) }

// SystemCheck is the status of the system check.
func (s *Status) SystemCheck() string { return s.check(s.Impairment.System) }

// EBSCheck is the status of the check of attached volumes.
func (s *Status) EBSCheck() string { return s.check(s.Impairment.EBS) }

func (s *Status) check(impaired bool) string {
	switch {
	case s.State != Running:
		return "not-applicable"
	case impaired:
		return "impaired"
	case s.Initializing:
		return "initializing"
	}
	return "ok"
}

func (s *Status) property(name string) ([]string, bool) {
	switch name {
	case "instance-status.status":
		return []string{s.InstanceCheck()}, true
	case "system-status.status":
		return []string{s.SystemCheck()}, true
	case "attached-ebs-status.status":
		return []string{s.EBSCheck()}, true
	case "event.code":
		if s.Impairment.EventCode == "" {
			return nil, true
		}
		return []string{s.Impairment.EventCode}, true
	case "instance-state-name":
		return []string{s.State}, true
	case "availability-zone":
		return []string{s.Zone}, true
	case "availability-zone-id":
		return []string{s.ZoneID}, true
	case "instance-state-code":
		return []string{strconv.Itoa(StateCode(s.State))}, true
	case "instance-status.reachability":
		return []string{reachability(s.InstanceCheck())}, true
	case "system-status.reachability":
		return []string{reachability(s.SystemCheck())}, true
	}
	return nil, false
}

// reachability is the detail that goes with a check.
func reachability(check string) string {
	switch check {
	case "ok":
		return "passed"
	case "impaired":
		return "failed"
	}
	return check
}

// Statuses is DescribeInstanceStatus.
func (c *Cloud) Statuses(ids []string, filters []Filter, all bool) ([]Status, *Error) {
	now := c.lock()
	defer c.mu.Unlock()
	if err := c.checkInstances(ids, now); err != nil {
		return nil, err
	}
	if err := check(filters, new(Status).property); err != nil {
		return nil, err
	}
	var out []Status
	for _, id := range slices.Sorted(maps.Keys(c.instances)) {
		i := c.visible(id, now)
		if i == nil || !all && i.State != Running || ids != nil && !slices.Contains(ids, id) {
			continue
		}
		s := Status{ID: id, Zone: i.Zone, ZoneID: i.ZoneID, State: i.State, Initializing: i.runningAt.Add(c.opts.StatusDelay).After(now)}
		if w := c.statuses[id]; w != nil {
			s.Impairment = *w
		}
		ok, err := pass(filters, i.Tags, s.property)
		if err != nil {
			return nil, err
		}
		if ok {
			out = append(out, s)
		}
	}
	return out, nil
}
