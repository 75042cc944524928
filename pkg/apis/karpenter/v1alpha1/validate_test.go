package v1alpha1_test

import (
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/karp-sh/karp/pkg/apis/karpenter/v1alpha1"
)

func TestRuntimeValidate(t *testing.T) {
	tests := map[string]struct{ spec, want string }{
		"nothing":           {`requirements: []`, ""},
		"pool and capacity": {`{requirements: [{key: karpenter.sh/nodepool, operator: In, values: [a]}], capacity: {nvidia.com/gpu: 1, amd.com/gpu: 1, example.com/x: 5}}`, ""},
		"class label":       {`requirements: [{key: karpenter.k8s.aws/ec2nodeclass, operator: In, values: [a]}]`, "requirements[0]: key karpenter.k8s.aws/ec2nodeclass is reserved"},
		"value":             {`requirements: [{key: team, operator: In, values: ["a b"]}]`, `value "a b"`},
		"capacity type":     {`requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [sport]}]`, "known"},
		"pod-eni":           {`capacity: {vpc.amazonaws.com/pod-eni: 1}`, "capacity[vpc.amazonaws.com/pod-eni]"},
		"efa":               {`capacity: {vpc.amazonaws.com/efa: 1}`, "capacity[vpc.amazonaws.com/efa]"},
		"neuron":            {`capacity: {aws.amazon.com/neuron: 1}`, "capacity[aws.amazon.com/neuron]"},
		"neuroncore":        {`capacity: {aws.amazon.com/neuroncore: 1}`, "capacity[aws.amazon.com/neuroncore]"},
		"gaudi":             {`capacity: {habana.ai/gaudi: 1}`, "capacity[habana.ai/gaudi]"},
		"cpu":               {`capacity: {cpu: 1}`, "capacity[cpu]"},
		"pods":              {`capacity: {pods: 1}`, "capacity[pods]"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			o := &v1alpha1.NodeOverlay{}
			if err := yaml.UnmarshalStrict([]byte(tt.spec), &o.Spec); err != nil {
				t.Fatal(err)
			}
			err := o.RuntimeValidate()
			if (err == nil) != (tt.want == "") || (err != nil && !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("error of %s is %v, want %q in it", tt.spec, err, tt.want)
			}
		})
	}
}
