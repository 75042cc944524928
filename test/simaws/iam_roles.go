package simaws

import (
	"maps"
	"net/url"
	"slices"
	"time"

	"github.com/karp-sh/karp/test/simaws/cloud"
)

type roleXML struct {
	Path    string      `xml:"Path"`
	Name    string      `xml:"RoleName"`
	ID      string      `xml:"RoleId"`
	ARN     string      `xml:"Arn"`
	Created string      `xml:"CreateDate"`
	Trust   string      `xml:"AssumeRolePolicyDocument,omitempty"`
	Text    string      `xml:"Description,omitempty"`
	Session int         `xml:"MaxSessionDuration,omitempty"`
	Tags    []iamTagXML `xml:"Tags>member,omitempty"`
}

func describeRole(r cloud.Role) roleXML {
	x := roleXML{
		Path: r.Path, Name: r.Name, ID: r.ID, ARN: r.ARN, Created: r.CreatedAt.Format(time.RFC3339), Trust: url.PathEscape(r.Trust),
		Text: r.Description, Session: r.MaxSession,
	}
	for _, kv := range r.Tags.Sorted() {
		x.Tags = append(x.Tags, iamTagXML{kv[0], kv[1]})
	}
	return x
}

type oneRole struct {
	Role roleXML `xml:"Role"`
}

type roleInput struct {
	Name string `q:"RoleName,required"`
}

func (s *iamService) getRole(c *call) (any, *cloud.Error) {
	var in roleInput
	if err := bind(c.form, &in); err != nil {
		return nil, err
	}
	r, err := s.cloud.Role(in.Name)
	if err != nil {
		return nil, err
	}
	return oneRole{describeRole(r)}, nil
}

func (s *iamService) createRole(c *call) (any, *cloud.Error) {
	var in struct {
		roleInput
		Path     string      `q:"Path"`
		Trust    string      `q:"AssumeRolePolicyDocument,required"`
		Text     string      `q:"Description"`
		Session  int         `q:"MaxSessionDuration"`
		Boundary string      `q:"PermissionsBoundary,refuse"`
		Tags     []iamTagXML `q:"Tags,member"`
	}
	if err := bind(c.form, &in); err != nil {
		return nil, err
	}
	r, err := s.cloud.CreateRole(cloud.Role{Name: in.Name, Path: in.Path, Trust: in.Trust, Description: in.Text, MaxSession: in.Session, Tags: iamTags(in.Tags)})
	if err != nil {
		return nil, err
	}
	return oneRole{describeRole(r)}, nil
}

func (s *iamService) deleteRole(c *call) (any, *cloud.Error) {
	var in roleInput
	if err := bind(c.form, &in); err != nil {
		return nil, err
	}
	return nil, s.cloud.DeleteRole(in.Name)
}

func (s *iamService) listRoles(c *call) (any, *cloud.Error) {
	var in struct {
		iamPaging
		PathPrefix string `q:"PathPrefix"`
	}
	if err := bind(c.form, &in); err != nil {
		return nil, err
	}
	part, next, err := pageIAM(in.iamPaging, s.cloud.RoleList(in.PathPrefix), func(r cloud.Role) string { return r.Name })
	if err != nil {
		return nil, err
	}
	var out struct {
		Roles []roleXML `xml:"Roles>member"`
		iamNext
	}
	for _, r := range part {
		out.Roles = append(out.Roles, describeRole(r))
	}
	out.iamNext = next
	return out, nil
}

// iamPaging are the parameters of IAM's lists.
type iamPaging struct {
	Marker   string `q:"Marker"`
	MaxItems *int   `q:"MaxItems"`
}

// iamNext is what IAM says of the rest of a list.
type iamNext struct {
	Truncated bool   `xml:"IsTruncated"`
	Marker    string `xml:"Marker,omitempty"`
}

func pageIAM[T any](p iamPaging, list []T, key func(T) string) ([]T, iamNext, *cloud.Error) {
	part, next, err := page(list, paging{p.MaxItems, p.Marker}, pageLimits{1, 1000, 100, false}, key)
	if err != nil {
		return nil, iamNext{}, apiError("ValidationError", err.Message)
	}
	return part, iamNext{next != "", next}, nil
}

type rolePolicyInput struct {
	roleInput
	Policy string `q:"PolicyName,required"`
}

func (s *iamService) putRolePolicy(c *call) (any, *cloud.Error) {
	var in struct {
		rolePolicyInput
		Document string `q:"PolicyDocument,required"`
	}
	if err := bind(c.form, &in); err != nil {
		return nil, err
	}
	return nil, s.cloud.PutRolePolicy(in.Name, in.Policy, in.Document)
}

func (s *iamService) getRolePolicy(c *call) (any, *cloud.Error) {
	var in rolePolicyInput
	if err := bind(c.form, &in); err != nil {
		return nil, err
	}
	text, err := s.cloud.RolePolicy(in.Name, in.Policy)
	if err != nil {
		return nil, err
	}
	return struct {
		Role     string `xml:"RoleName"`
		Policy   string `xml:"PolicyName"`
		Document string `xml:"PolicyDocument"`
	}{in.Name, in.Policy, text}, nil
}

func (s *iamService) deleteRolePolicy(c *call) (any, *cloud.Error) {
	var in rolePolicyInput
	if err := bind(c.form, &in); err != nil {
		return nil, err
	}
	return nil, s.cloud.DeleteRolePolicy(in.Name, in.Policy)
}

type listOfRoleInput struct {
	roleInput
	iamPaging
	PathPrefix string `q:"PathPrefix"`
}

func (s *iamService) listRolePolicies(c *call) (any, *cloud.Error) {
	var in listOfRoleInput
	if err := bind(c.form, &in); err != nil {
		return nil, err
	}
	r, err := s.cloud.Role(in.Name)
	if err != nil {
		return nil, err
	}
	part, next, err := pageIAM(in.iamPaging, slices.Sorted(maps.Keys(r.Inline)), func(s string) string { return s })
	if err != nil {
		return nil, err
	}
	return struct {
		Names []string `xml:"PolicyNames>member"`
		iamNext
	}{part, next}, nil
}

type attachedPolicyXML struct {
	Name string `xml:"PolicyName"`
	ARN  string `xml:"PolicyArn"`
}

func (s *iamService) listAttached(c *call) (any, *cloud.Error) {
	var in listOfRoleInput
	if err := bind(c.form, &in); err != nil {
		return nil, err
	}
	r, err := s.cloud.Role(in.Name)
	if err != nil {
		return nil, err
	}
	part, next, err := pageIAM(in.iamPaging, slices.Sorted(slices.Values(r.Attached)), func(s string) string { return s })
	if err != nil {
		return nil, err
	}
	var out struct {
		Policies []attachedPolicyXML `xml:"AttachedPolicies>member"`
		iamNext
	}
	for _, arn := range part {
		out.Policies = append(out.Policies, attachedPolicyXML{lastSegment(arn), arn})
	}
	out.iamNext = next
	return out, nil
}

func (s *iamService) listForRole(c *call) (any, *cloud.Error) {
	var in listOfRoleInput
	if err := bind(c.form, &in); err != nil {
		return nil, err
	}
	if _, err := s.cloud.Role(in.Name); err != nil {
		return nil, err
	}
	var out struct {
		Profiles []instanceProfileXML `xml:"InstanceProfiles>member"`
		iamNext
	}
	for _, p := range s.cloud.Profiles("/") {
		if p.Role == in.Name {
			out.Profiles = append(out.Profiles, s.describe(p))
		}
	}
	return out, nil
}

type attachInput struct {
	roleInput
	ARN string `q:"PolicyArn,required"`
}

func (s *iamService) attach(c *call) (any, *cloud.Error) {
	var in attachInput
	if err := bind(c.form, &in); err != nil {
		return nil, err
	}
	return nil, s.cloud.AttachPolicy(in.Name, in.ARN)
}

func (s *iamService) detach(c *call) (any, *cloud.Error) {
	var in attachInput
	if err := bind(c.form, &in); err != nil {
		return nil, err
	}
	return nil, s.cloud.DetachPolicy(in.Name, in.ARN)
}

func (s *iamService) createPolicy(c *call) (any, *cloud.Error) {
	var in struct {
		Name     string      `q:"PolicyName,required"`
		Path     string      `q:"Path"`
		Document string      `q:"PolicyDocument,required"`
		Text     string      `q:"Description"`
		Tags     []iamTagXML `q:"Tags,member"`
	}
	if err := bind(c.form, &in); err != nil {
		return nil, err
	}
	p, err := s.cloud.CreatePolicy(in.Name, in.Path, in.Document)
	if err != nil {
		return nil, err
	}
	var out struct {
		Policy struct {
			Name string `xml:"PolicyName"`
			ID   string `xml:"PolicyId"`
			ARN  string `xml:"Arn"`
			Path string `xml:"Path"`
		} `xml:"Policy"`
	}
	out.Policy.Name, out.Policy.ID, out.Policy.ARN, out.Policy.Path = p.Name, p.ID, p.ARN, p.Path
	return out, nil
}

func (s *iamService) deletePolicy(c *call) (any, *cloud.Error) {
	var in struct {
		ARN string `q:"PolicyArn,required"`
	}
	if err := bind(c.form, &in); err != nil {
		return nil, err
	}
	return nil, s.cloud.DeletePolicy(in.ARN)
}
