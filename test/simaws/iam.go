package simaws

import (
	"encoding/xml"
	"net/http"
	"strings"
	"time"

	"github.com/karp-sh/karp/test/simaws/cloud"
)

const iamNamespace = "https://iam.amazonaws.com/doc/2010-05-08/"

// iamService speaks the IAM query protocol for instance profiles.
type iamService struct{ cloud *cloud.Cloud }

var _ service = (*iamService)(nil)

func (s *iamService) action(c *call) string {
	form, err := c.values()
	if err != nil {
		return ""
	}
	return form.Get("Action")
}

func (s *iamService) serve(action string, c *call) (reply, *cloud.Error) {
	handle := s.operations()[action]
	if handle == nil {
		return reply{}, apiError("InvalidAction", "Could not find operation "+action+" for version 2010-05-08")
	}
	if v := c.form.Get("Version"); v != "2010-05-08" {
		return reply{}, apiError("InvalidAction", "Could not find operation "+action+" for version "+v)
	}
	out, err := handle(c)
	if err != nil {
		return reply{}, err
	}
	return queryReply(action, iamNamespace, out, c)
}

func (s *iamService) operations() map[string]func(*call) (any, *cloud.Error) {
	return map[string]func(*call) (any, *cloud.Error){
		"AddRoleToInstanceProfile":      s.addRole,
		"AttachRolePolicy":              s.attach,
		"CreateInstanceProfile":         s.create,
		"CreatePolicy":                  s.createPolicy,
		"CreateRole":                    s.createRole,
		"DeleteInstanceProfile":         s.delete,
		"DeletePolicy":                  s.deletePolicy,
		"DeleteRole":                    s.deleteRole,
		"DeleteRolePolicy":              s.deleteRolePolicy,
		"DetachRolePolicy":              s.detach,
		"GetInstanceProfile":            s.get,
		"GetRole":                       s.getRole,
		"GetRolePolicy":                 s.getRolePolicy,
		"ListAttachedRolePolicies":      s.listAttached,
		"ListInstanceProfiles":          s.list,
		"ListInstanceProfilesForRole":   s.listForRole,
		"ListRolePolicies":              s.listRolePolicies,
		"ListRoles":                     s.listRoles,
		"PutRolePolicy":                 s.putRolePolicy,
		"RemoveRoleFromInstanceProfile": s.removeRole,
		"TagInstanceProfile":            s.tag,
		"UntagInstanceProfile":          s.untag,
	}
}

// queryReply wraps a result as IAM and STS do.
func queryReply(action, namespace string, out any, c *call) (reply, *cloud.Error) {
	inner := ""
	if out != nil {
		var b strings.Builder
		if err := xml.NewEncoder(&b).EncodeElement(out, xml.StartElement{Name: xml.Name{Local: action + "Result"}}); err != nil {
			return reply{}, apiError("InternalFailure", "simaws cannot encode the answer: "+err.Error())
		}
		inner = b.String()
	}
	meta := "<ResponseMetadata><RequestId>" + c.id + "</RequestId></ResponseMetadata>"
	return xmlReply(action+"Response", namespace, nil, inner+meta)
}

// queryRefusal words an error as IAM and STS do.
func queryRefusal(namespace string, c *call, err *cloud.Error, status int) reply {
	var b strings.Builder
	b.WriteString(xml.Header + `<ErrorResponse xmlns="` + namespace + `"><Error><Type>Sender</Type><Code>`)
	escape(&b, err.Code)
	b.WriteString("</Code><Message>")
	escape(&b, err.Message)
	b.WriteString("</Message></Error><RequestId>" + c.id + "</RequestId></ErrorResponse>")
	return reply{status: status, kind: "text/xml", body: []byte(b.String())}
}

func (s *iamService) refuse(c *call, err *cloud.Error) reply {
	status := http.StatusBadRequest
	switch err.Code {
	case "NoSuchEntity":
		status = http.StatusNotFound
	case "EntityAlreadyExists", "DeleteConflict", "LimitExceeded":
		status = http.StatusConflict
	case "AccessDenied", "ExpiredToken":
		status = http.StatusForbidden
	case "ServiceFailure", "InternalFailure":
		status = http.StatusInternalServerError
	}
	return queryRefusal(iamNamespace, c, err, status)
}

type instanceProfileXML struct {
	Path    string      `xml:"Path"`
	Name    string      `xml:"InstanceProfileName"`
	ID      string      `xml:"InstanceProfileId"`
	ARN     string      `xml:"Arn"`
	Created string      `xml:"CreateDate"`
	Roles   []roleXML   `xml:"Roles>member"`
	Tags    []iamTagXML `xml:"Tags>member"`
}

type iamTagXML struct {
	Key   string `q:"Key" xml:"Key"`
	Value string `q:"Value" xml:"Value"`
}

func (s *iamService) describe(p cloud.Profile) instanceProfileXML {
	x := instanceProfileXML{Path: p.Path, Name: p.Name, ID: p.ID, ARN: p.ARN, Created: p.CreatedAt.Format(time.RFC3339)}
	if p.Role != "" {
		if r, err := s.cloud.Role(p.Role); err == nil {
			x.Roles = []roleXML{describeRole(r)}
		} else { // removed behind IAM's back
			x.Roles = []roleXML{{Path: "/", Name: p.Role, ID: "AROAREMOVED", ARN: s.cloud.ARN("iam", "role/"+p.Role), Created: p.CreatedAt.Format(time.RFC3339)}}
		}
	}
	for _, kv := range p.Tags.Sorted() {
		x.Tags = append(x.Tags, iamTagXML{kv[0], kv[1]})
	}
	return x
}

type oneProfile struct {
	Profile instanceProfileXML `xml:"InstanceProfile"`
}

type profileInput struct {
	Name string `q:"InstanceProfileName,required"`
}

func (s *iamService) get(c *call) (any, *cloud.Error) {
	var in profileInput
	if err := bind(c.form, &in); err != nil {
		return nil, err
	}
	p, err := s.cloud.Profile(in.Name)
	if err != nil {
		return nil, err
	}
	return oneProfile{s.describe(p)}, nil
}

func (s *iamService) create(c *call) (any, *cloud.Error) {
	var in struct {
		profileInput
		Path string      `q:"Path"`
		Tags []iamTagXML `q:"Tags,member"`
	}
	if err := bind(c.form, &in); err != nil {
		return nil, err
	}
	p, err := s.cloud.CreateProfile(in.Name, in.Path, iamTags(in.Tags))
	if err != nil {
		return nil, err
	}
	return oneProfile{s.describe(p)}, nil
}

func iamTags(list []iamTagXML) cloud.Tags {
	tags := cloud.Tags{}
	for _, t := range list {
		tags[t.Key] = t.Value
	}
	return tags
}

func (s *iamService) delete(c *call) (any, *cloud.Error) {
	var in profileInput
	if err := bind(c.form, &in); err != nil {
		return nil, err
	}
	return nil, s.cloud.DeleteProfile(in.Name)
}

type profileRoleInput struct {
	profileInput
	Role string `q:"RoleName,required"`
}

func (s *iamService) addRole(c *call) (any, *cloud.Error) {
	var in profileRoleInput
	if err := bind(c.form, &in); err != nil {
		return nil, err
	}
	return nil, s.cloud.AddRoleToProfile(in.Name, in.Role)
}

func (s *iamService) removeRole(c *call) (any, *cloud.Error) {
	var in profileRoleInput
	if err := bind(c.form, &in); err != nil {
		return nil, err
	}
	return nil, s.cloud.RemoveRoleFromProfile(in.Name, in.Role)
}

func (s *iamService) tag(c *call) (any, *cloud.Error) {
	var in struct {
		profileInput
		Tags []iamTagXML `q:"Tags,member"`
	}
	if err := bind(c.form, &in); err != nil {
		return nil, err
	}
	return nil, s.cloud.TagProfile(in.Name, iamTags(in.Tags))
}

func (s *iamService) untag(c *call) (any, *cloud.Error) {
	var in struct {
		profileInput
		Keys []string `q:"TagKeys,member"`
	}
	if err := bind(c.form, &in); err != nil {
		return nil, err
	}
	return nil, s.cloud.UntagProfile(in.Name, in.Keys)
}

func (s *iamService) list(c *call) (any, *cloud.Error) {
	var in struct {
		iamPaging
		PathPrefix string `q:"PathPrefix"`
	}
	if err := bind(c.form, &in); err != nil {
		return nil, err
	}
	part, next, err := pageIAM(in.iamPaging, s.cloud.Profiles(in.PathPrefix), func(p cloud.Profile) string { return p.Name })
	if err != nil {
		return nil, err
	}
	var out struct {
		Profiles []instanceProfileXML `xml:"InstanceProfiles>member"`
		iamNext
	}
	for _, p := range part {
		out.Profiles = append(out.Profiles, s.describe(p))
	}
	out.iamNext = next
	return out, nil
}
