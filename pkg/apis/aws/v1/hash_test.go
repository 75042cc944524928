package v1_test

import (
	"reflect"
	"testing"

	"sigs.k8s.io/yaml"

	v1 "github.com/karp-sh/karp/pkg/apis/aws/v1"
)

const class = `
spec:
  amiFamily: AL2023
  amiSelectorTerms: [{alias: al2023@latest}]
  subnetSelectorTerms: [{id: subnet-1}]
  securityGroupSelectorTerms: [{id: sg-1}]
  capacityReservationSelectorTerms: [{id: cr-1}]
  placementGroupSelector: {name: a}
  associatePublicIPAddress: true
  ipPrefixCount: 1
  userData: "echo"
  role: node
  tags: {team: a, empty: ""}
  kubelet:
    clusterDNS: [10.0.0.1, 10.0.0.2]
    maxPods: 20
    podsPerCore: 2
    systemReserved: {cpu: 100m}
    kubeReserved: {cpu: 100m}
    evictionHard: {memory.available: 5%}
    evictionSoft: {memory.available: 10%}
    evictionSoftGracePeriod: {memory.available: 60s}
    evictionMaxPodGracePeriod: 60
    imageGCHighThresholdPercent: 85
    imageGCLowThresholdPercent: 80
    cpuCFSQuota: true
  blockDeviceMappings:
  - deviceName: /dev/xvda
    rootVolume: true
    ebs: {volumeSize: 1024Gi, volumeType: gp3, iops: 3000, throughput: 125, encrypted: true, deleteOnTermination: true, kmsKeyID: k, snapshotID: s, volumeInitializationRate: 100}
  - deviceName: /dev/xvdb
    ebs: {volumeSize: 20Gi}
  instanceStorePolicy: RAID0
  detailedMonitoring: true
  metadataOptions: {httpEndpoint: enabled, httpProtocolIPv6: disabled, httpPutResponseHopLimit: 1, httpTokens: required}
  networkInterfaces: [{networkCardIndex: 0, deviceIndex: 0, interfaceType: interface}, {networkCardIndex: 1, deviceIndex: 1, interfaceType: efa-only}]
  connectionTracking: {tcpEstablishedTimeout: 60, udpStreamTimeout: 60, udpTimeout: 30}
  cpuOptions: {nestedVirtualization: enabled}
  context: c
`

func read(t *testing.T, text string) *v1.EC2NodeClass {
	t.Helper()
	c := &v1.EC2NodeClass{}
	if err := yaml.UnmarshalStrict([]byte(text), c); err != nil {
		t.Fatal(err)
	}
	return c
}

func ptr[T any](v T) *T { return &v }

// The golden values pin the algorithm: when they change, HashVersion has to.
func TestHashGolden(t *testing.T) {
	if v1.HashVersion != "karp1" {
		t.Errorf("version is %s", v1.HashVersion)
	}
	for name, tt := range map[string]struct{ class, bundle, want string }{
		"full":    {class, "PEM", "5584877500998580240"},
		"no spec": {"{}", "", "16406829232824261652"},
	} {
		if got := read(t, tt.class).Hash(tt.bundle); got != tt.want {
			t.Errorf("%s: hash is %s, want %s", name, got, tt.want)
		}
	}
}

func TestHashUnchanged(t *testing.T) {
	tests := map[string]func(s *v1.EC2NodeClassSpec){
		"subnets":             func(s *v1.EC2NodeClassSpec) { s.SubnetSelectorTerms = nil },
		"security groups":     func(s *v1.EC2NodeClassSpec) { s.SecurityGroupSelectorTerms = nil },
		"reservations":        func(s *v1.EC2NodeClassSpec) { s.CapacityReservationSelectorTerms = nil },
		"images":              func(s *v1.EC2NodeClassSpec) { s.AMISelectorTerms = []v1.AMISelectorTerm{{ID: "ami-1"}} },
		"version of an alias": func(s *v1.EC2NodeClassSpec) { s.AMISelectorTerms[0].Alias = "al2023@v20240625" },
		"family by alias":     func(s *v1.EC2NodeClassSpec) { s.AMIFamily = nil },
		"prefix count":        func(s *v1.EC2NodeClassSpec) { s.IPPrefixCount = nil },
		"order of DNS":        func(s *v1.EC2NodeClassSpec) { s.Kubelet.ClusterDNS = []string{"10.0.0.2", "10.0.0.1"} },
		"order of devices": func(s *v1.EC2NodeClassSpec) {
			s.BlockDeviceMappings[0], s.BlockDeviceMappings[1] = s.BlockDeviceMappings[1], s.BlockDeviceMappings[0]
		},
		"1024Gi is 1Ti": func(s *v1.EC2NodeClassSpec) { s.BlockDeviceMappings[0].EBS.VolumeSize = ptr(v1.VolumeSize("1Ti")) },
		"60s is 1m":     func(s *v1.EC2NodeClassSpec) { s.Kubelet.EvictionSoftGracePeriod["memory.available"] = "1m" },
	}
	for name, change := range tests {
		c := read(t, class)
		change(&c.Spec)
		if got, want := c.Hash("PEM"), read(t, class).Hash("PEM"); got != want {
			t.Errorf("%s: hash moved to %s from %s", name, got, want)
		}
	}
}

// TestHashCoversEveryField clears each field of the spec and of the structs below it, one at a time: the hash must move,
// but for the fields that are excluded. A new field has to be decided on here or in Hash.
func TestHashCoversEveryField(t *testing.T) {
	excluded := map[string]bool{
		"SubnetSelectorTerms": true, "SecurityGroupSelectorTerms": true, "CapacityReservationSelectorTerms": true,
		"AMISelectorTerms": true, "AMIFamily": true, "IPPrefixCount": true,
	}
	// Each is the other half of a choice, and covered by TestHashChanged.
	unset := map[string]bool{"InstanceProfile": true, "PlacementGroupSelector.ID": true}
	original := read(t, class).Hash("PEM")
	var walk func(path string, get func(c *v1.EC2NodeClass) reflect.Value)
	walk = func(path string, get func(c *v1.EC2NodeClass) reflect.Value) {
		kind := get(read(t, class)).Type()
		for i := range kind.NumField() {
			field := kind.Field(i)
			name := path + field.Name
			value := func(c *v1.EC2NodeClass) reflect.Value { return get(c).Field(i) }
			c := read(t, class)
			if value(c).IsZero() != unset[name] {
				t.Errorf("%s is not set by the test", name)
			}
			value(c).SetZero()
			if moved := c.Hash("PEM") != original; moved == (excluded[name] || unset[name]) {
				t.Errorf("clearing %s: hash moved %v", name, moved)
			}
			switch {
			case excluded[name]:
			case field.Type.Kind() == reflect.Pointer && field.Type.Elem().Kind() == reflect.Struct:
				walk(name+".", func(c *v1.EC2NodeClass) reflect.Value { return value(c).Elem() })
			case field.Type.Kind() == reflect.Slice && field.Type.Elem().Kind() == reflect.Struct && field.Name != "NetworkInterfaces":
				walk(name+"[0].", func(c *v1.EC2NodeClass) reflect.Value { return value(c).Index(0) })
			}
		}
	}
	walk("", func(c *v1.EC2NodeClass) reflect.Value { return reflect.ValueOf(&c.Spec).Elem() })
}

func TestHashChanged(t *testing.T) {
	tests := map[string]func(s *v1.EC2NodeClassSpec){
		"profile":             func(s *v1.EC2NodeClassSpec) { s.Role, s.InstanceProfile = "", ptr("node") },
		"group by id":         func(s *v1.EC2NodeClassSpec) { s.PlacementGroupSelector = &v1.PlacementGroupSelector{ID: "pg-1"} },
		"Custom family":       func(s *v1.EC2NodeClassSpec) { s.AMIFamily = ptr(v1.Custom) },
		"monitoring false":    func(s *v1.EC2NodeClassSpec) { s.DetailedMonitoring = ptr(false) },
		"monitoring nil":      func(s *v1.EC2NodeClassSpec) { s.DetailedMonitoring = nil },
		"public IP false":     func(s *v1.EC2NodeClassSpec) { s.AssociatePublicIPAddress = ptr(false) },
		"public IP nil":       func(s *v1.EC2NodeClassSpec) { s.AssociatePublicIPAddress = nil },
		"maxPods 0":           func(s *v1.EC2NodeClassSpec) { s.Kubelet.MaxPods = ptr(int32(0)) },
		"maxPods nil":         func(s *v1.EC2NodeClassSpec) { s.Kubelet.MaxPods = nil },
		"quantities are text": func(s *v1.EC2NodeClassSpec) { s.Kubelet.KubeReserved["cpu"] = "0.1" },
		"interface":           func(s *v1.EC2NodeClassSpec) { s.NetworkInterfaces[1].NetworkCardIndex = 2 },
		"tag":                 func(s *v1.EC2NodeClassSpec) { s.Tags["team"] = "b" },
		"bare unit":           func(s *v1.EC2NodeClassSpec) { s.BlockDeviceMappings[0].EBS.VolumeSize = ptr(v1.VolumeSize("Ti")) },
	}
	seen := map[string]string{read(t, class).Hash("PEM"): "the original", read(t, class).Hash("PEM2"): "another bundle"}
	if len(seen) != 2 {
		t.Error("the CA bundle is not hashed")
	}
	for name, change := range tests {
		c := read(t, class)
		change(&c.Spec)
		if other, ok := seen[c.Hash("PEM")]; ok {
			t.Errorf("%s: hash equals that of %s", name, other)
		}
		seen[c.Hash("PEM")] = name
	}
}

func TestHashEmptyIsAbsent(t *testing.T) {
	empty := v1.EC2NodeClass{Spec: v1.EC2NodeClassSpec{
		Tags: map[string]string{}, Kubelet: &v1.KubeletConfiguration{ClusterDNS: []string{}}, UserData: ptr(""),
		BlockDeviceMappings: []v1.BlockDeviceMapping{}, NetworkInterfaces: []v1.NetworkInterface{}, Context: ptr(""),
		CPUOptions: &v1.CPUOptions{}, MetadataOptions: &v1.MetadataOptions{},
	}}
	if got, want := empty.Hash(""), (&v1.EC2NodeClass{}).Hash(""); got != want {
		t.Errorf("hash of empty fields is %s, of absent ones %s", got, want)
	}
	c := read(t, class)
	c.Hash("")
	if size := *c.Spec.BlockDeviceMappings[0].EBS.VolumeSize; size != "1024Gi" || len(c.Spec.SubnetSelectorTerms) != 1 {
		t.Errorf("hashing changed the class: size %s", size)
	}
}
