package cluster_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	corev1 "k8s.io/api/core/v1"

	"github.com/karp-sh/karp/test/cluster"
	"github.com/karp-sh/karp/test/cluster/control"
)

const al2023 = "/aws/service/eks/optimized-ami/1.37/amazon-linux-2023/x86_64/standard/recommended/image_id"

// userData is what makes an AL2023 instance join the sandbox.
func userData(c *cluster.Cluster) string {
	text := fmt.Sprintf(`apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  cluster:
    name: sandbox
    apiServerEndpoint: %s
    certificateAuthority: %s
    cidr: 10.100.0.0/16
`, c.Config.Host, base64.StdEncoding.EncodeToString(c.Config.CAData))
	return base64.StdEncoding.EncodeToString([]byte(text))
}

// TestInstanceJoins runs all components: an instance launched through the AWS API joins as a node, takes pods, and its node
// becomes unready when it is terminated. The API server goes away and comes back in between.
func TestInstanceJoins(t *testing.T) {
	c := cluster.Start(t, cluster.Options{NodeGrace: 6 * time.Second})
	config := aws.Config{Region: "us-west-2", BaseEndpoint: &c.SimAWS, Credentials: credentials.NewStaticCredentialsProvider("AKIASANDBOX", "x", "")}
	makeProfile(t, iam.NewFromConfig(config))
	image, err := ssm.NewFromConfig(config).GetParameter(t.Context(), &ssm.GetParameterInput{Name: aws.String(al2023)})
	if err != nil {
		t.Fatal(err)
	}
	client := ec2.NewFromConfig(config)
	id := launch(t, c, client, *image.Parameter.Value)
	awaitInstance(t, c, id, corev1.ConditionTrue)

	c.Restart(t, control.APIServer)
	deploy(t, c, "app", 2)
	awaitRunning(t, c, "app", 2)

	if _, err := client.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: []string{id}}); err != nil {
		t.Fatal(err)
	}
	awaitInstance(t, c, id, corev1.ConditionUnknown)
}

func makeProfile(t *testing.T, client *iam.Client) {
	t.Helper()
	name := aws.String("nodes")
	if _, err := client.CreateInstanceProfile(t.Context(), &iam.CreateInstanceProfileInput{InstanceProfileName: name}); err != nil {
		t.Fatal(err)
	}
	role := &iam.AddRoleToInstanceProfileInput{InstanceProfileName: name, RoleName: aws.String("KarpenterNodeRole-sandbox")}
	if _, err := client.AddRoleToInstanceProfile(t.Context(), role); err != nil {
		t.Fatal(err)
	}
}

func launch(t *testing.T, c *cluster.Cluster, client *ec2.Client, image string) string {
	t.Helper()
	subnets, err := client.DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.CreateLaunchTemplate(t.Context(), &ec2.CreateLaunchTemplateInput{
		LaunchTemplateName: aws.String("nodes"),
		LaunchTemplateData: &types.RequestLaunchTemplateData{
			ImageId: &image, UserData: aws.String(userData(c)),
			IamInstanceProfile: &types.LaunchTemplateIamInstanceProfileSpecificationRequest{Name: aws.String("nodes")},
			BlockDeviceMappings: []types.LaunchTemplateBlockDeviceMappingRequest{{DeviceName: aws.String("/dev/xvda"),
				Ebs: &types.LaunchTemplateEbsBlockDeviceRequest{VolumeSize: aws.Int32(20), VolumeType: types.VolumeTypeGp3}}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	fleet, err := client.CreateFleet(t.Context(), &ec2.CreateFleetInput{
		Type: types.FleetTypeInstant,
		LaunchTemplateConfigs: []types.FleetLaunchTemplateConfigRequest{{
			LaunchTemplateSpecification: &types.FleetLaunchTemplateSpecificationRequest{LaunchTemplateName: aws.String("nodes"), Version: aws.String("$Latest")},
			Overrides:                   []types.FleetLaunchTemplateOverridesRequest{{InstanceType: types.InstanceTypeM5Large, SubnetId: subnets.Subnets[0].SubnetId}},
		}},
		TargetCapacitySpecification: &types.TargetCapacitySpecificationRequest{
			TotalTargetCapacity: aws.Int32(1), DefaultTargetCapacityType: types.DefaultTargetCapacityTypeOnDemand},
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(fleet.Instances) != 1 || len(fleet.Instances[0].InstanceIds) != 1 {
		t.Fatalf("launching: got %+v with errors %+v, want one instance", fleet.Instances, fleet.Errors)
	}
	return fleet.Instances[0].InstanceIds[0]
}

func awaitInstance(t *testing.T, c *cluster.Cluster, id string, want corev1.ConditionStatus) {
	t.Helper()
	q := cluster.Query{Resource: corev1.SchemeGroupVersion.WithResource("nodes"), Within: 2 * time.Minute}
	cluster.Await(t, c, q, func(nodes []corev1.Node) string {
		for _, n := range nodes {
			if !strings.HasSuffix(n.Spec.ProviderID, "/"+id) {
				continue
			}
			for _, condition := range n.Status.Conditions {
				ready := condition.Type == corev1.NodeReady && condition.Status == want
				if ready && (want != corev1.ConditionTrue || len(n.Spec.Taints) == 0) {
					return ""
				}
			}
			return fmt.Sprintf("node %s of %s is not Ready=%s, and without taints if True: annotations %v, taints %+v, conditions %+v",
				n.Name, id, want, n.Annotations, n.Spec.Taints, n.Status.Conditions)
		}
		return "instance " + id + " has no node"
	})
}
