// Package ec2types derives what Kubernetes sees of an EC2 instance type: labels, capacity, overhead and offerings.
//
// It is a pure function of facts (package ec2data), of the settings of the process and of the node class in a neutral form.
// The agent calls it with what EC2 reports now, the plugin with the embedded facts, so both see the same types.
package ec2types
