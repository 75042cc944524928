package simaws

import (
	"regexp"
	"strings"

	"github.com/karp-sh/karp/test/simaws/cloud"
)

// Every call needs permissions. EC2's depend on the parameters: an input says
// them by its method needs, or it is a read that needs the action on *. The
// other services say them for a call as a whole.

// A guarded service tells the permissions a call needs, before it is served.
type guarded interface {
	needs(action string, c *call) []cloud.Demand
}

// A needer is an EC2 input that tells the permissions it needs.
type needer interface {
	needs(*ec2Service) []cloud.Demand
}

// demandsOf are the permissions an EC2 call needs.
func (s *ec2Service) demandsOf(action string, in any) []cloud.Demand {
	if n, ok := in.(needer); ok {
		return n.needs(s)
	}
	return []cloud.Demand{{Action: "ec2:" + action, Resource: "*"}}
}

// onResources demands an action on resources that exist; of those that do not,
// the call itself tells.
func (s *ec2Service) onResources(action string, ids []string, more ...map[string][]string) []cloud.Demand {
	var out []cloud.Demand
	for _, id := range ids {
		kind, tags, ok := s.cloud.KindOf(id)
		if !ok {
			continue
		}
		keys := cloud.ResourceTags(tags)
		for _, m := range more {
			for k, v := range m {
				keys[k] = v
			}
		}
		out = append(out, cloud.Demand{Action: "ec2:" + action, Resource: s.cloud.ARN("ec2", kind+"/"+id), Keys: keys})
	}
	return out
}

// toCreate demands the creation of a resource, and of its tags.
func (s *ec2Service) toCreate(action, kind, name string, specs []cloud.TagSpecification) []cloud.Demand {
	tags := cloud.TagsFor(specs, kind)
	out := []cloud.Demand{{Action: "ec2:" + action, Resource: s.cloud.ARN("ec2", kind+"/"+name), Keys: cloud.RequestTags(tags)}}
	if len(tags) > 0 {
		out = append(out, s.cloud.CreationTags(kind, action, tags))
	}
	return out
}

// done answers a call without a result, or a dry run.
func done(dry bool, err *cloud.Error) (any, *cloud.Error) {
	switch {
	case err != nil:
		return nil, err
	case dry:
		return nil, dryRun()
	}
	return struct {
		Return bool `xml:"return"`
	}{true}, nil
}

var credentialScope = regexp.MustCompile(`Credential=([^/,]+)/\d{8}/[^/,]+/([^/,]+)/aws4_request`)

// identify finds the service a call is for and who makes it.
func (s *Server) identify(c *call) (service string, err *cloud.Error) {
	if m := credentialScope.FindStringSubmatch(c.header.Get("Authorization")); m != nil {
		c.caller, err = s.cloud.Caller(m[1])
		return m[2], expired(m[2], err)
	}
	if strings.HasPrefix(c.path, "/latest/") {
		return "metadata service", nil
	}
	// AssumeRoleWithWebIdentity is the one unsigned call.
	if form, err := c.values(); err == nil && form.Get("Action") == "AssumeRoleWithWebIdentity" {
		return "sts", nil
	}
	return "", nil
}

// expired words that the credentials of a call have expired.
func expired(service string, err *cloud.Error) *cloud.Error {
	switch {
	case err == nil || service == "ec2":
		return err
	case service == "iam" || service == "sts":
		return apiError("ExpiredToken", "The security token included in the request is expired")
	}
	return apiError("ExpiredTokenException", "The security token included in the request is expired")
}

// permitted checks the permissions of the services other than EC2.
func (s *Server) permitted(svc service, action string, c *call) *cloud.Error {
	if g, ok := svc.(guarded); ok && action != "" {
		return s.cloud.Authorize(c.caller, g.needs(action, c)...)
	}
	return nil
}
