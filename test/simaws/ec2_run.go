package simaws

import "github.com/karp-sh/karp/test/simaws/cloud"

type runInstancesInput struct {
	dry
	Min        int                      `q:"MinCount,required"`
	Max        int                      `q:"MaxCount,required"`
	Template   cloud.TemplateRef        `q:"LaunchTemplate"`
	Type       string                   `q:"InstanceType"`
	ImageID    string                   `q:"ImageId"`
	Subnet     string                   `q:"SubnetId"`
	Interfaces []cloud.InterfaceSpec    `q:"NetworkInterface"`
	Tags       []cloud.TagSpecification `q:"TagSpecification"`
	Token      string                   `q:"ClientToken"`

	Groups             []string                `q:"SecurityGroupId"`
	UserData           string                  `q:"UserData"`
	Profile            *cloud.ProfileRef       `q:"IamInstanceProfile"`
	Devices            []cloud.BlockDevice     `q:"BlockDeviceMapping"`
	Metadata           *cloud.MetadataOptions  `q:"MetadataOptions"`
	Placement          *cloud.PlacementSpec    `q:"Placement"`
	Monitoring         *cloud.Enabled          `q:"Monitoring"`
	CPU                *cloud.CPUOptions       `q:"CpuOptions"`
	Credits            *cloud.CreditOptions    `q:"CreditSpecification"`
	Reservation        *cloud.ReservationSpec  `q:"CapacityReservationSpecification"`
	Market             *cloud.RunMarketOptions `q:"InstanceMarketOptions"`
	EBSOptimized       *bool                   `q:"EbsOptimized"`
	DisableStop        *bool                   `q:"DisableApiStop"`
	DisableTermination *bool                   `q:"DisableApiTermination"`
	Enclave            *cloud.Enabled          `q:"EnclaveOptions"`
	Shutdown           string                  `q:"InstanceInitiatedShutdownBehavior"`
	Key                string                  `q:"KeyName"`
	Info               string                  `q:"AdditionalInfo,refuse"`
	PrimaryIPv6        *bool                   `q:"EnablePrimaryIpv6,refuse"`
	IPv6Count          *int                    `q:"Ipv6AddressCount,refuse"`
	IPv6               []string                `q:"Ipv6Address,refuse"`
	PrivateIP          string                  `q:"PrivateIpAddress,refuse"`
	GroupNames         []string                `q:"SecurityGroup,refuse"`
	Hibernation        string                  `q:"HibernationOptions,refuse"`
	Licenses           []string                `q:"LicenseSpecification,refuse"`
	Maintenance        string                  `q:"MaintenanceOptions,refuse"`
	Performance        string                  `q:"NetworkPerformanceOptions,refuse"`
	Operator           string                  `q:"Operator,refuse"`
	DNSOptions         string                  `q:"PrivateDnsNameOptions,refuse"`
	Kernel             string                  `q:"KernelId,refuse"`
	RAMDisk            string                  `q:"RamdiskId,refuse"`
	Secondary          []string                `q:"SecondaryInterface,refuse"`
}

// needs is nothing here: the account checks them where it knows what the
// launch touches.
func (*runInstancesInput) needs(*ec2Service) []cloud.Demand { return nil }

func (in *runInstancesInput) request(c *call) (cloud.RunRequest, *cloud.Error) {
	req := cloud.RunRequest{
		Template: in.Template, Type: in.Type, ImageID: in.ImageID, Subnet: in.Subnet, Min: in.Min, Max: in.Max, Token: in.Token,
		Params: fingerprint(c), Caller: c.caller, Tags: map[string]cloud.Tags{}, Data: cloud.LaunchData{
			UserData: in.UserData, Interfaces: in.Interfaces, SecurityGroupIDs: in.Groups, Profile: in.Profile, BlockDevices: in.Devices, Metadata: in.Metadata,
			Placement: in.Placement, Monitoring: in.Monitoring, CPU: in.CPU, Reservation: in.Reservation, EbsOptimized: in.EBSOptimized,
			Shutdown: in.Shutdown, KeyName: in.Key,
		},
	}
	if in.Min < 1 || in.Max < in.Min {
		return req, apiError("InvalidParameterValue", "MinCount must be at least 1 and MaxCount at least MinCount.")
	}
	if err := checkTags(in.Tags, "instance", "volume", "network-interface", "spot-instances-request"); err != nil {
		return req, err
	}
	for _, t := range in.Tags {
		req.Tags[t.ResourceType] = cloud.TagsFor(in.Tags, t.ResourceType)
	}
	if len(in.Interfaces) > 0 && (in.Subnet != "" || len(in.Groups) > 0) {
		return req, apiError("InvalidParameterCombination", "Network interfaces and an instance-level subnet ID or security groups may not be specified on the same request")
	}
	if in.Market != nil && in.Market.Type == "spot" {
		req.Market = cloud.Spot
	}
	return req, nil
}

func (s *ec2Service) runInstances(c *call, in *runInstancesInput) (any, *cloud.Error) {
	req, err := in.request(c)
	if err != nil {
		return nil, err
	}
	if in.DryRun {
		return done(true, s.cloud.CheckRun(req))
	}
	made, err := s.cloud.Run(req)
	if err != nil {
		return nil, err
	}
	owner := s.cloud.Options().AccountID
	out := reservationXML{ID: made[0].Reservation, Owner: owner}
	for n, i := range made {
		x := describeInstance(i, owner)
		x.Index = n
		out.Instances = append(out.Instances, x)
	}
	return out, nil
}

type idsInput struct {
	dry
	IDs []string `q:"InstanceId,required"`
}

type stopInstancesInput struct {
	idsInput
	Force     bool `q:"Force"`
	Skip      bool `q:"SkipOsShutdown"`
	Hibernate bool `q:"Hibernate,refuse"`
}

func (in *stopInstancesInput) needs(s *ec2Service) []cloud.Demand {
	return s.onResources("StopInstances", in.IDs)
}

func (s *ec2Service) stopInstances(_ *call, in *stopInstancesInput) (any, *cloud.Error) {
	changes, err := s.cloud.Stop(in.IDs, in.DryRun)
	if err != nil || in.DryRun {
		return done(in.DryRun, err)
	}
	return stateChanges(changes), nil
}

type startInstancesInput struct {
	idsInput
	Info string `q:"AdditionalInfo,refuse"`
}

func (in *startInstancesInput) needs(s *ec2Service) []cloud.Demand {
	return s.onResources("StartInstances", in.IDs)
}

func (s *ec2Service) startInstances(_ *call, in *startInstancesInput) (any, *cloud.Error) {
	changes, err := s.cloud.Start(in.IDs, in.DryRun)
	if err != nil || in.DryRun {
		return done(in.DryRun, err)
	}
	return stateChanges(changes), nil
}

type rebootInstancesInput struct{ idsInput }

func (in *rebootInstancesInput) needs(s *ec2Service) []cloud.Demand {
	return s.onResources("RebootInstances", in.IDs)
}

func (s *ec2Service) rebootInstances(_ *call, in *rebootInstancesInput) (any, *cloud.Error) {
	return done(in.DryRun, s.cloud.Reboot(in.IDs))
}
