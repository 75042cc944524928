package cloud

// LaunchData is the data of a launch template. The q tags are the names of the
// request parameters, the xml tags those of the response; a q tag with the
// option refuse is a parameter EC2 has and the simulator does not implement.
type LaunchData struct {
	ImageID             string             `q:"ImageId" xml:"imageId,omitempty"`
	InstanceType        string             `q:"InstanceType" xml:"instanceType,omitempty"`
	KeyName             string             `q:"KeyName" xml:"keyName,omitempty"`
	EbsOptimized        *bool              `q:"EbsOptimized" xml:"ebsOptimized,omitempty"`
	UserData            string             `q:"UserData" xml:"userData,omitempty"` // base64
	BlockDevices        []BlockDevice      `q:"BlockDeviceMapping" xml:"blockDeviceMappingSet>item,omitempty"`
	Profile             *ProfileRef        `q:"IamInstanceProfile" xml:"iamInstanceProfile,omitempty"`
	Monitoring          *Enabled           `q:"Monitoring" xml:"monitoring,omitempty"`
	CPU                 *CPUOptions        `q:"CpuOptions" xml:"cpuOptions,omitempty"`
	Credits             *CreditOptions     `q:"CreditSpecification" xml:"creditSpecification,omitempty"`
	Metadata            *MetadataOptions   `q:"MetadataOptions" xml:"metadataOptions,omitempty"`
	Interfaces          []InterfaceSpec    `q:"NetworkInterface" xml:"networkInterfaceSet>item,omitempty"`
	Placement           *PlacementSpec     `q:"Placement" xml:"placement,omitempty"`
	Enclave             *Enabled           `q:"EnclaveOptions" xml:"enclaveOptions,omitempty"`
	Tags                []TagSpecification `q:"TagSpecification" xml:"tagSpecificationSet>item,omitempty"`
	Reservation         *ReservationSpec   `q:"CapacityReservationSpecification" xml:"capacityReservationSpecification,omitempty"`
	Market              *MarketOptions     `q:"InstanceMarketOptions" xml:"instanceMarketOptions,omitempty"`
	SecurityGroupIDs    []string           `q:"SecurityGroupId" xml:"securityGroupIdSet>item,omitempty"`
	DisableStop         *bool              `q:"DisableApiStop" xml:"disableApiStop,omitempty"`
	DisableTermination  *bool              `q:"DisableApiTermination" xml:"disableApiTermination,omitempty"`
	Shutdown            string             `q:"InstanceInitiatedShutdownBehavior" xml:"instanceInitiatedShutdownBehavior,omitempty"`
	SecurityGroups      []string           `q:"SecurityGroup,refuse" xml:"-"`
	ElasticGPUs         []string           `q:"ElasticGpuSpecification,refuse" xml:"-"`
	Accelerators        []string           `q:"ElasticInferenceAccelerator,refuse" xml:"-"`
	Hibernation         string             `q:"HibernationOptions,refuse" xml:"-"`
	Requirements        string             `q:"InstanceRequirements,refuse" xml:"-"`
	Kernel              string             `q:"KernelId,refuse" xml:"-"`
	Licenses            []string           `q:"LicenseSpecification,refuse" xml:"-"`
	Maintenance         string             `q:"MaintenanceOptions,refuse" xml:"-"`
	NetworkPerformance  string             `q:"NetworkPerformanceOptions,refuse" xml:"-"`
	Operator            string             `q:"Operator,refuse" xml:"-"`
	PrivateDNS          string             `q:"PrivateDnsNameOptions,refuse" xml:"-"`
	RAMDisk             string             `q:"RamDiskId,refuse" xml:"-"`
	SecondaryInterfaces []string           `q:"SecondaryInterface,refuse" xml:"-"`
}

// Enabled is a switch.
type Enabled struct {
	Enabled *bool `q:"Enabled" xml:"enabled,omitempty"`
}

// BlockDevice is a device mapping.
type BlockDevice struct {
	Device      string  `q:"DeviceName" xml:"deviceName,omitempty"`
	EBS         *Volume `q:"Ebs" xml:"ebs,omitempty"`
	NoDevice    string  `q:"NoDevice" xml:"noDevice,omitempty"`
	VirtualName string  `q:"VirtualName" xml:"virtualName,omitempty"`
}

// Volume is an EBS volume to make.
type Volume struct {
	DeleteOnTermination *bool  `q:"DeleteOnTermination" xml:"deleteOnTermination,omitempty"`
	Encrypted           *bool  `q:"Encrypted" xml:"encrypted,omitempty"`
	IOPS                *int   `q:"Iops" xml:"iops,omitempty"`
	KMSKey              string `q:"KmsKeyId" xml:"kmsKeyId,omitempty"`
	Snapshot            string `q:"SnapshotId" xml:"snapshotId,omitempty"`
	Throughput          *int   `q:"Throughput" xml:"throughput,omitempty"`
	InitializationRate  *int   `q:"VolumeInitializationRate" xml:"volumeInitializationRate,omitempty"`
	SizeGiB             *int64 `q:"VolumeSize" xml:"volumeSize,omitempty"`
	Type                string `q:"VolumeType" xml:"volumeType,omitempty"`
	Card                *int   `q:"EbsCardIndex" xml:"ebsCardIndex,omitempty"`
}

// ProfileRef names an instance profile.
type ProfileRef struct {
	ARN  string `q:"Arn" xml:"arn,omitempty"`
	Name string `q:"Name" xml:"name,omitempty"`
}

// CPUOptions are the CPU options of an instance.
type CPUOptions struct {
	Cores                *int   `q:"CoreCount" xml:"coreCount,omitempty"`
	ThreadsPerCore       *int   `q:"ThreadsPerCore" xml:"threadsPerCore,omitempty"`
	AMDSEVSNP            string `q:"AmdSevSnp" xml:"amdSevSnp,omitempty"`
	NestedVirtualization string `q:"NestedVirtualization" xml:"nestedVirtualization,omitempty"`
}

// CreditOptions are the CPU credits of burstable instances.
type CreditOptions struct {
	CPUCredits string `q:"CpuCredits" xml:"cpuCredits,omitempty"`
}

// MetadataOptions are the options of the instance metadata service.
type MetadataOptions struct {
	Tokens       string `q:"HttpTokens" xml:"httpTokens,omitempty"`
	HopLimit     *int   `q:"HttpPutResponseHopLimit" xml:"httpPutResponseHopLimit,omitempty"`
	Endpoint     string `q:"HttpEndpoint" xml:"httpEndpoint,omitempty"`
	ProtocolIPv6 string `q:"HttpProtocolIpv6" xml:"httpProtocolIpv6,omitempty"`
	InstanceTags string `q:"InstanceMetadataTags" xml:"instanceMetadataTags,omitempty"`
}

// InterfaceSpec is a network interface to make.
type InterfaceSpec struct {
	AssociateCarrierIP *bool               `q:"AssociateCarrierIpAddress" xml:"associateCarrierIpAddress,omitempty"`
	AssociatePublicIP  *bool               `q:"AssociatePublicIpAddress" xml:"associatePublicIpAddress,omitempty"`
	ConnectionTracking *ConnectionTracking `q:"ConnectionTrackingSpecification" xml:"connectionTrackingSpecification,omitempty"`
	DeleteWithInstance *bool               `q:"DeleteOnTermination" xml:"deleteOnTermination,omitempty"`
	Description        string              `q:"Description" xml:"description,omitempty"`
	DeviceIndex        *int                `q:"DeviceIndex" xml:"deviceIndex,omitempty"`
	Groups             []string            `q:"SecurityGroupId" xml:"groupSet>groupId,omitempty"`
	Type               string              `q:"InterfaceType" xml:"interfaceType,omitempty"`
	IPv4Prefixes       *int                `q:"Ipv4PrefixCount" xml:"ipv4PrefixCount,omitempty"`
	IPv6Addresses      *int                `q:"Ipv6AddressCount" xml:"ipv6AddressCount,omitempty"`
	IPv6Prefixes       *int                `q:"Ipv6PrefixCount" xml:"ipv6PrefixCount,omitempty"`
	PrimaryIPv6        *bool               `q:"PrimaryIpv6" xml:"primaryIpv6,omitempty"`
	Card               *int                `q:"NetworkCardIndex" xml:"networkCardIndex,omitempty"`
	SecondaryAddresses *int                `q:"SecondaryPrivateIpAddressCount" xml:"secondaryPrivateIpAddressCount,omitempty"`
	Subnet             string              `q:"SubnetId" xml:"subnetId,omitempty"`

	Existing      string   `q:"NetworkInterfaceId,refuse" xml:"-"`
	PrivateIP     string   `q:"PrivateIpAddress,refuse" xml:"-"`
	PrivateIPs    []string `q:"PrivateIpAddresses,refuse" xml:"-"`
	GivenPrefixes []string `q:"Ipv4Prefix,refuse" xml:"-"`
	GivenIPv6     []string `q:"Ipv6Addresses,refuse" xml:"-"`
	GivenIPv6Pfx  []string `q:"Ipv6Prefix,refuse" xml:"-"`
	ENASrd        string   `q:"EnaSrdSpecification,refuse" xml:"-"`
	ENAQueues     *int     `q:"EnaQueueCount,refuse" xml:"-"`
}

// ConnectionTracking are idle timeouts in seconds.
type ConnectionTracking struct {
	TCPEstablished *int `q:"TcpEstablishedTimeout" xml:"tcpEstablishedTimeout,omitempty"`
	UDPStream      *int `q:"UdpStreamTimeout" xml:"udpStreamTimeout,omitempty"`
	UDP            *int `q:"UdpTimeout" xml:"udpTimeout,omitempty"`
}

// PlacementSpec says where an instance goes.
type PlacementSpec struct {
	Zone      string `q:"AvailabilityZone" xml:"availabilityZone,omitempty"`
	ZoneID    string `q:"AvailabilityZoneId" xml:"availabilityZoneId,omitempty"`
	GroupID   string `q:"GroupId" xml:"groupId,omitempty"`
	GroupName string `q:"GroupName" xml:"groupName,omitempty"`
	Partition *int   `q:"PartitionNumber" xml:"partitionNumber,omitempty"`
	Tenancy   string `q:"Tenancy" xml:"tenancy,omitempty"`

	Affinity     string `q:"Affinity,refuse" xml:"-"`
	Host         string `q:"HostId,refuse" xml:"-"`
	HostGroup    string `q:"HostResourceGroupArn,refuse" xml:"-"`
	SpreadDomain string `q:"SpreadDomain,refuse" xml:"-"`
}

// Tag is one tag of a request.
type Tag struct {
	Key   string `q:"Key" xml:"key"`
	Value string `q:"Value" xml:"value"`
}

// TagSpecification are the tags for one kind of resource.
type TagSpecification struct {
	ResourceType string `q:"ResourceType" xml:"resourceType"`
	Tags         []Tag  `q:"Tag" xml:"tagSet>item"`
}

// TagsFor returns the tags for a kind of resource.
func TagsFor(specs []TagSpecification, kind string) Tags {
	out := Tags{}
	for _, s := range specs {
		if s.ResourceType == kind {
			for _, t := range s.Tags {
				out[t.Key] = t.Value
			}
		}
	}
	return out
}

// ReservationSpec says which capacity reservations an instance may use.
type ReservationSpec struct {
	Preference string             `q:"CapacityReservationPreference" xml:"capacityReservationPreference,omitempty"`
	Target     *ReservationTarget `q:"CapacityReservationTarget" xml:"capacityReservationTarget,omitempty"`
}

// ReservationTarget names a reservation.
type ReservationTarget struct {
	ID    string `q:"CapacityReservationId" xml:"capacityReservationId,omitempty"`
	Group string `q:"CapacityReservationResourceGroupArn,refuse" xml:"-"`
}

// MarketOptions choose the market.
type MarketOptions struct {
	Type string `q:"MarketType" xml:"marketType,omitempty"`
	Spot string `q:"SpotOptions,refuse" xml:"-"`
}

// RunMarketOptions choose the market of RunInstances.
type RunMarketOptions struct {
	Type string          `q:"MarketType"`
	Spot *RunSpotOptions `q:"SpotOptions"`
}

// RunSpotOptions are the spot options of RunInstances.
type RunSpotOptions struct {
	Interruption string `q:"InstanceInterruptionBehavior"`
	MaxPrice     string `q:"MaxPrice"`
	Kind         string `q:"SpotInstanceType"`
	Block        *int   `q:"BlockDurationMinutes,refuse"`
	Until        string `q:"ValidUntil,refuse"`
}
