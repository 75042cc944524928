package simaws

import (
	"net/http"
	"strings"
	"time"

	"github.com/karp-sh/karp/test/simaws/cloud"
)

const stsNamespace = "https://sts.amazonaws.com/doc/2011-06-15/"

// stsService speaks the STS query protocol.
type stsService struct{ cloud *cloud.Cloud }

var _ service = (*stsService)(nil)

func (s *stsService) action(c *call) string {
	form, err := c.values()
	if err != nil {
		return ""
	}
	return form.Get("Action")
}

func (s *stsService) serve(action string, c *call) (reply, *cloud.Error) {
	handle := map[string]func(*call) (any, *cloud.Error){
		"GetCallerIdentity":          s.identity,
		"AssumeRole":                 s.assumeRole,
		"AssumeRoleWithWebIdentity":  s.assume,
		"DecodeAuthorizationMessage": s.decode,
	}[action]
	if handle == nil || c.form.Get("Version") != "2011-06-15" {
		return reply{}, apiError("InvalidAction", "Could not find operation "+action+" for version "+c.form.Get("Version"))
	}
	out, err := handle(c)
	if err != nil {
		return reply{}, err
	}
	return queryReply(action, stsNamespace, out, c)
}

func (s *stsService) refuse(c *call, err *cloud.Error) reply {
	status := http.StatusBadRequest
	if err.Code == "AccessDenied" || err.Code == "ExpiredToken" {
		status = http.StatusForbidden
	}
	return queryRefusal(stsNamespace, c, err, status)
}

func (s *stsService) identity(c *call) (any, *cloud.Error) {
	if err := bind(c.form, &struct{}{}); err != nil {
		return nil, err
	}
	account := s.cloud.Options().AccountID
	return struct {
		ARN     string `xml:"Arn"`
		User    string `xml:"UserId"`
		Account string `xml:"Account"`
	}{c.caller.ARN, c.caller.UserID, account}, nil
}

func (s *stsService) assume(c *call) (any, *cloud.Error) {
	var in struct {
		Role     string   `q:"RoleArn,required"`
		Session  string   `q:"RoleSessionName,required"`
		Token    string   `q:"WebIdentityToken,required"`
		Provider string   `q:"ProviderId"`
		Policy   string   `q:"Policy,refuse"`
		Policies []string `q:"PolicyArns,refuse"`
		Duration *int     `q:"DurationSeconds"`
	}
	if err := bind(c.form, &in); err != nil {
		return nil, err
	}
	if !strings.HasPrefix(in.Role, "arn:") || in.Token == "" {
		return nil, apiError("ValidationError", "RoleArn must be an ARN and the token must not be empty")
	}
	life := time.Hour
	if in.Duration != nil {
		if *in.Duration < 900 || *in.Duration > 43200 {
			return nil, apiError("ValidationError", "DurationSeconds must be between 900 and 43200")
		}
		life = time.Duration(*in.Duration) * time.Second
	}
	return s.credentials(in.Role, in.Session, life, "AssumeRoleWithWebIdentity")
}

func (s *stsService) assumeRole(c *call) (any, *cloud.Error) {
	var in struct {
		Role     string      `q:"RoleArn,required"`
		Session  string      `q:"RoleSessionName,required"`
		Duration *int        `q:"DurationSeconds"`
		External string      `q:"ExternalId"`
		Source   string      `q:"SourceIdentity"`
		Tags     []iamTagXML `q:"Tags,member"`
		Policy   string      `q:"Policy,refuse"`
		Policies []string    `q:"PolicyArns,refuse"`
		MFA      string      `q:"SerialNumber,refuse"`
		Code     string      `q:"TokenCode,refuse"`
		Keys     []string    `q:"TransitiveTagKeys,refuse"`
	}
	if err := bind(c.form, &in); err != nil {
		return nil, err
	}
	if !strings.HasPrefix(in.Role, "arn:") {
		return nil, apiError("ValidationError", in.Role+" is invalid")
	}
	life := time.Hour
	if in.Duration != nil {
		if *in.Duration < 900 || *in.Duration > 43200 {
			return nil, apiError("ValidationError", "DurationSeconds must be between 900 and 43200")
		}
		life = time.Duration(*in.Duration) * time.Second
	}
	return s.credentials(in.Role, in.Session, life, "AssumeRole")
}

type credentialsXML struct {
	Credentials struct {
		Key     string `xml:"AccessKeyId"`
		Secret  string `xml:"SecretAccessKey"`
		Token   string `xml:"SessionToken"`
		Expires string `xml:"Expiration"`
	} `xml:"Credentials"`
	User struct {
		ID  string `xml:"AssumedRoleId"`
		ARN string `xml:"Arn"`
	} `xml:"AssumedRoleUser"`
}

func (s *stsService) credentials(role, session string, life time.Duration, action string) (any, *cloud.Error) {
	got, err := s.cloud.AssumeRole(role, session, life, action)
	if err != nil {
		return nil, err
	}
	var out credentialsXML
	out.Credentials.Key, out.Credentials.Secret, out.Credentials.Token = got.Key, "simaws", "simaws-"+got.Key
	out.Credentials.Expires = got.Expires.UTC().Format(time.RFC3339)
	out.User.ID, out.User.ARN = got.Caller.UserID, got.Caller.ARN
	return out, nil
}

// decode tells what an encoded denial of EC2 says.
func (s *stsService) decode(c *call) (any, *cloud.Error) {
	var in struct {
		Message string `q:"EncodedMessage,required"`
	}
	if err := bind(c.form, &in); err != nil {
		return nil, err
	}
	text, err := s.cloud.Decode(in.Message)
	if err != nil {
		return nil, err
	}
	return struct {
		Message string `xml:"DecodedMessage"`
	}{text}, nil
}
