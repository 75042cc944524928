package simaws

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/karp-sh/karp/test/simaws/cloud"
)

func lastSegment(s string) string { return s[strings.LastIndex(s, "/")+1:] }

// needs are the permissions of IAM's calls: on the profile with its tags or on
// the role; naming a role in a profile passes it, and tags of a new profile
// are tags all the same.
func (s *iamService) needs(action string, c *call) []cloud.Demand {
	name, role := c.form.Get("InstanceProfileName"), c.form.Get("RoleName")
	switch {
	case name != "":
		return s.profileDemands(action, name, role, memberTags(c))
	case role != "":
		return []cloud.Demand{{Action: "iam:" + action, Resource: s.roleARN(role), Keys: memberKeys(c)}}
	case strings.HasSuffix(action, "Policy") && c.form.Get("PolicyArn") != "":
		return []cloud.Demand{{Action: "iam:" + action, Resource: c.form.Get("PolicyArn")}}
	case action == "CreatePolicy":
		return []cloud.Demand{{Action: "iam:CreatePolicy", Resource: s.cloud.ARN("iam", "policy/"+c.form.Get("PolicyName"))}}
	case action == "ListInstanceProfiles":
		return []cloud.Demand{{Action: "iam:ListInstanceProfiles", Resource: s.cloud.ARN("iam", "instance-profile"+pathOr(c.form.Get("PathPrefix"))+"*")}}
	}
	return []cloud.Demand{{Action: "iam:" + action, Resource: "*"}}
}

func pathOr(prefix string) string {
	if prefix == "" {
		return "/"
	}
	return prefix
}

func (s *iamService) roleARN(name string) string {
	if r, err := s.cloud.Role(name); err == nil {
		return r.ARN
	}
	return s.cloud.ARN("iam", "role/"+name)
}

func (s *iamService) profileDemands(action, name, role string, tags cloud.Tags) []cloud.Demand {
	arn, keys := s.cloud.ARN("iam", "instance-profile/"+name), cloud.RequestTags(tags)
	if p, err := s.cloud.Profile(name); err == nil {
		arn = p.ARN
		for k, v := range cloud.ResourceTags(p.Tags) {
			keys[k] = v
		}
	}
	out := []cloud.Demand{{Action: "iam:" + action, Resource: arn, Keys: keys}}
	if action == "CreateInstanceProfile" && len(tags) > 0 {
		both := cloud.RequestTags(tags)
		for k, v := range cloud.ResourceTags(tags) {
			both[k] = v
		}
		out = append(out, cloud.Demand{Action: "iam:TagInstanceProfile", Resource: arn, Keys: both})
	}
	if action == "AddRoleToInstanceProfile" && role != "" {
		out = append(out, cloud.Demand{Action: "iam:PassRole", Resource: s.roleARN(role), Keys: map[string][]string{
			"iam:PassedToService": {s.cloud.EC2Principal()}, "iam:AssociatedResourceArn": {arn}}})
	}
	return out
}

// memberTags are the tags of a request to IAM.
func memberTags(c *call) cloud.Tags {
	tags := cloud.Tags{}
	for i := 1; ; i++ {
		base := "Tags.member." + strconv.Itoa(i)
		key := c.form.Get(base + ".Key")
		if key == "" {
			return tags
		}
		tags[key] = c.form.Get(base + ".Value")
	}
}

func memberKeys(c *call) map[string][]string {
	keys := cloud.RequestTags(memberTags(c))
	if arn := c.form.Get("PolicyArn"); arn != "" {
		keys["iam:PolicyARN"] = []string{arn}
	}
	return keys
}

// member reads one string of a JSON request.
func member(c *call, name string) string {
	var body map[string]any
	if err := json.Unmarshal(c.body, &body); err != nil {
		return ""
	}
	text, ok := body[name].(string)
	if !ok {
		return ""
	}
	return text
}

func (s *ssmService) needs(action string, c *call) []cloud.Demand {
	one := func(name string) cloud.Demand {
		return cloud.Demand{Action: "ssm:" + action, Resource: s.parameterARN(name)}
	}
	var body struct{ Names []string }
	if err := json.Unmarshal(c.body, &body); err == nil && len(body.Names) > 0 {
		var out []cloud.Demand
		for _, name := range body.Names {
			out = append(out, one(name))
		}
		return out
	}
	if path := member(c, "Path"); path != "" {
		return []cloud.Demand{one(strings.TrimSuffix(path, "/"))}
	}
	return []cloud.Demand{one(member(c, "Name"))}
}

// parameterARN names a parameter; AWS's own belong to no account.
func (s *ssmService) parameterARN(name string) string {
	arn := s.cloud.ARN("ssm", "parameter/"+strings.TrimPrefix(name, "/"))
	if strings.HasPrefix(name, "/aws/service/") {
		arn = strings.Replace(arn, ":"+s.cloud.Options().AccountID+":", "::", 1)
	}
	return arn
}

func (s *sqsService) needs(action string, c *call) []cloud.Demand {
	name := member(c, "QueueName")
	if url := member(c, "QueueUrl"); url != "" {
		name = queueName(url)
	}
	granting := map[string]string{"DeleteMessageBatch": "DeleteMessage", "SendMessageBatch": "SendMessage", "ChangeMessageVisibilityBatch": "ChangeMessageVisibility"}
	if single := granting[action]; single != "" {
		action = single
	}
	return []cloud.Demand{{Action: "sqs:" + action, Resource: s.cloud.ARN("sqs", name)}}
}

func (s *pricingService) needs(action string, _ *call) []cloud.Demand {
	return []cloud.Demand{{Action: "pricing:" + action, Resource: "*"}}
}

// needs are the permissions of STS's calls; who one is may be asked by anyone.
func (s *stsService) needs(action string, c *call) []cloud.Demand {
	switch action {
	case "AssumeRole":
		return []cloud.Demand{{Action: "sts:AssumeRole", Resource: c.form.Get("RoleArn")}}
	case "DecodeAuthorizationMessage":
		return []cloud.Demand{{Action: "sts:DecodeAuthorizationMessage", Resource: "*"}}
	}
	return nil
}
