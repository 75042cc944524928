package cloud

import (
	"maps"
	"time"
)

// RunRequest is RunInstances.
type RunRequest struct {
	Template              TemplateRef
	Type, ImageID, Subnet string
	Data                  LaunchData // what the call gives over the template
	Min, Max              int
	Tags                  map[string]Tags
	Token, Params         string
	Market                string // on-demand or spot
	Caller                Caller
}

// CheckRun makes the checks of a RunInstances dry run.
func (c *Cloud) CheckRun(req RunRequest) *Error {
	now := c.lock()
	defer c.mu.Unlock()
	p, err := c.runPool(req, now)
	if err != nil {
		return err
	}
	return c.permitLaunch(req.Caller, p, req.market(), "RunInstances", req.Tags)
}

func (r *RunRequest) market() string {
	if r.Market == "" {
		return OnDemand
	}
	return r.Market
}

// Run is RunInstances: all of Min, or an error; it returns the instances.
func (c *Cloud) Run(req RunRequest) ([]*Instance, *Error) {
	now := c.lock()
	defer c.mu.Unlock()
	return once(c, "RunInstances", req.Token, req.Params, func() ([]*Instance, *Error) {
		p, err := c.runPool(req, now)
		if err != nil {
			return nil, err
		}
		if err := c.permitLaunch(req.Caller, p, req.market(), "RunInstances", req.Tags); err != nil {
			return nil, err
		}
		n, err := c.admit(p, req.market(), req.Max)
		if n < req.Min {
			return nil, err
		}
		var out []*Instance
		reservation := c.id("r")
		for range n {
			i := c.launch(p, req.market(), now)
			i.Reservation, i.Token = reservation, req.Token
			c.tagLaunch(i, p, req.Tags, "")
			out = append(out, i.clone())
		}
		c.settle(now)
		return out, nil
	})
}

// runPool puts the call over the template.
func (c *Cloud) runPool(req RunRequest, now time.Time) (*pool, *Error) {
	p := &pool{template: &Template{}, override: Override{Type: req.Type, ImageID: req.ImageID, Subnet: req.Subnet}}
	if req.Template != (TemplateRef{}) {
		t, err := c.resolve(req.Template)
		if err != nil {
			return nil, err
		}
		p.template, p.spec = t, t.Data
	}
	p.spec.overlay(req.Data)
	err := c.prepare(p, now)
	if err != nil && err.Code == "InvalidFleetConfiguration" {
		err.Code = "Unsupported"
	}
	return p, err
}

// overlay replaces what the call gives.
func (d *LaunchData) overlay(by LaunchData) {
	replace(&d.UserData, by.UserData)
	replace(&d.Profile, by.Profile)
	replace(&d.Metadata, by.Metadata)
	replace(&d.Placement, by.Placement)
	replace(&d.Monitoring, by.Monitoring)
	replace(&d.CPU, by.CPU)
	replace(&d.Reservation, by.Reservation)
	replace(&d.Market, by.Market)
	replace(&d.EbsOptimized, by.EbsOptimized)
	replace(&d.Shutdown, by.Shutdown)
	replace(&d.KeyName, by.KeyName)
	if len(by.Interfaces) > 0 {
		d.Interfaces = by.Interfaces
	}
	if len(by.BlockDevices) > 0 {
		d.BlockDevices = by.BlockDevices
	}
	if len(by.SecurityGroupIDs) > 0 {
		d.SecurityGroupIDs = by.SecurityGroupIDs
	}
}

func replace[T comparable](p *T, by T) {
	if zero := *new(T); by != zero {
		*p = by
	}
}

// tagLaunch sets the tags of an instance and its volumes: the template's, the
// call's over them, and those EC2 adds itself.
func (c *Cloud) tagLaunch(i *Instance, p *pool, given map[string]Tags, fleetID string) {
	maps.Copy(i.Tags, p.launchTags(given, "instance"))
	if fleetID != "" {
		i.Tags["aws:ec2:fleet-id"] = fleetID
	}
	if p.template.ID != "" {
		i.Tags["aws:ec2launchtemplate:id"] = p.template.ID
		i.Tags["aws:ec2launchtemplate:version"] = "1"
	}
	for v := range i.Volumes {
		i.Volumes[v].Tags = p.launchTags(given, "volume")
	}
	for n := range i.Interfaces {
		i.Interfaces[n].Tags = p.launchTags(given, "network-interface")
	}
	i.SpotTags = p.launchTags(given, "spot-instances-request")
}
