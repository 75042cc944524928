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
		"GetCallerIdentity":         s.identity,
		"AssumeRoleWithWebIdentity": s.assume,
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
	if err.Code == "AccessDenied" {
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
	}{"arn:aws:iam::" + account + ":user/simaws", "AIDASIMAWS", account}, nil
}

func (s *stsService) assume(c *call) (any, *cloud.Error) {
	var in struct {
		Role     string   `q:"RoleArn,required"`
		Session  string   `q:"RoleSessionName,required"`
		Token    string   `q:"WebIdentityToken,required"`
		Provider string   `q:"ProviderId"`
		Policy   string   `q:"Policy"`
		Policies []string `q:"PolicyArns,member"`
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
	role := in.Role[strings.LastIndex(in.Role, "/")+1:]
	var out struct {
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
	out.Credentials.Key, out.Credentials.Secret, out.Credentials.Token = "ASIASIMAWS", "simaws", "simaws"
	out.Credentials.Expires = s.cloud.Options().Clock.Now().Add(life).UTC().Format(time.RFC3339)
	out.User.ID = "AROASIMAWS:" + in.Session
	out.User.ARN = "arn:aws:sts::" + s.cloud.Options().AccountID + ":assumed-role/" + role + "/" + in.Session
	return out, nil
}
