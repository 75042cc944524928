package simaws

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/karp-sh/karp/test/simaws/cloud"
)

// eksService answers for the one cluster and its access entries.
type eksService struct{ cloud *cloud.Cloud }

var (
	_ service = (*eksService)(nil)
	_ guarded = (*eksService)(nil)
)

// An eksRoute is an operation: method and path, whose * are names.
type eksRoute struct {
	method, path, action string
	handle               func(*eksService, *call, []string) (any, *cloud.Error)
}

func eksRoutes() []eksRoute {
	return []eksRoute{
		{http.MethodGet, "clusters", "ListClusters", (*eksService).clusters},
		{http.MethodGet, "clusters/*", "DescribeCluster", (*eksService).cluster},
		{http.MethodGet, "clusters/*/access-entries", "ListAccessEntries", (*eksService).entries},
		{http.MethodPost, "clusters/*/access-entries", "CreateAccessEntry", (*eksService).createEntry},
		{http.MethodGet, "clusters/*/access-entries/*", "DescribeAccessEntry", (*eksService).entry},
		{http.MethodDelete, "clusters/*/access-entries/*", "DeleteAccessEntry", (*eksService).deleteEntry},
		{http.MethodGet, "clusters/*/access-entries/*/access-policies", "ListAssociatedAccessPolicies", (*eksService).policies},
		{http.MethodPost, "clusters/*/access-entries/*/access-policies", "AssociateAccessPolicy", (*eksService).associate},
		{http.MethodDelete, "clusters/*/access-entries/*/access-policies/*", "DisassociateAccessPolicy", (*eksService).disassociate},
	}
}

// route finds the operation of a call and the names in its path.
func (s *eksService) route(c *call) (*eksRoute, []string) {
	have := strings.Split(strings.Trim(c.path, "/"), "/")
	if c.rawPath != "" {
		have = strings.Split(strings.Trim(c.rawPath, "/"), "/")
	}
	for _, r := range eksRoutes() {
		want := strings.Split(r.path, "/")
		if r.method != c.method || len(want) != len(have) {
			continue
		}
		if names, ok := pathNames(want, have); ok {
			return &r, names
		}
	}
	return nil, nil
}

func pathNames(want, have []string) ([]string, bool) {
	var names []string
	for i := range want {
		if want[i] != "*" && want[i] != have[i] {
			return nil, false
		}
		if want[i] == "*" {
			name, err := url.PathUnescape(have[i])
			if err != nil || name == "" {
				return nil, false
			}
			names = append(names, name)
		}
	}
	return names, true
}

func (s *eksService) action(c *call) string {
	if r, _ := s.route(c); r != nil {
		return r.action
	}
	return ""
}

func (s *eksService) needs(action string, _ *call) []cloud.Demand {
	resource := s.cloud.ClusterARN()
	if action == "ListClusters" {
		resource = "*"
	}
	return []cloud.Demand{{Action: "eks:" + action, Resource: resource}}
}

func (s *eksService) serve(_ string, c *call) (reply, *cloud.Error) {
	r, names := s.route(c)
	if r == nil {
		return reply{}, unknownOperation(c.method + " " + c.path)
	}
	if len(names) > 0 && names[0] != s.cloud.Options().ClusterName {
		return reply{}, apiError("ResourceNotFoundException", "No cluster found for name: "+names[0]+".")
	}
	out, err := r.handle(s, c, names)
	if err != nil {
		return reply{}, err
	}
	return jsonReply("", out)
}

func (s *eksService) refuse(_ *call, err *cloud.Error) reply { return restRefusal(err) }

func (s *eksService) clusters(*call, []string) (any, *cloud.Error) {
	return map[string]any{"clusters": []string{s.cloud.Options().ClusterName}}, nil
}

func (s *eksService) cluster(*call, []string) (any, *cloud.Error) {
	o := s.cloud.Options()
	network := map[string]any{"ipFamily": "ipv4", "serviceIpv4Cidr": o.ServiceCIDR}
	if s.cloud.IPv6() {
		network = map[string]any{"ipFamily": "ipv6", "serviceIpv6Cidr": o.ServiceCIDR}
	}
	vpc, groups, subnets := s.cloud.ClusterNetwork()
	return map[string]any{"cluster": map[string]any{
		"name": o.ClusterName, "arn": s.cloud.ClusterARN(), "version": o.KubernetesVersion, "endpoint": o.ClusterEndpoint, "status": "ACTIVE",
		"platformVersion":         "eks.1",
		"certificateAuthority":    map[string]string{"data": o.CertificateAuthority},
		"kubernetesNetworkConfig": network,
		"accessConfig":            map[string]any{"authenticationMode": "API_AND_CONFIG_MAP"},
		"resourcesVpcConfig": map[string]any{
			"vpcId": vpc, "subnetIds": subnets, "securityGroupIds": groups, "clusterSecurityGroupId": groups[len(groups)-1],
			"endpointPublicAccess": true, "endpointPrivateAccess": true, "publicAccessCidrs": []string{"0.0.0.0/0"},
		},
		"identity":      map[string]any{"oidc": map[string]string{"issuer": "https://oidc.eks." + o.Region + ".amazonaws.com/id/SIMAWS"}},
		"upgradePolicy": map[string]string{"supportType": "STANDARD"},
		"tags":          map[string]string{},
	}}, nil
}

func (s *eksService) entries(c *call, _ []string) (any, *cloud.Error) {
	p := paging{NextToken: c.query.Get("nextToken")}
	if text := c.query.Get("maxResults"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			return nil, apiError("InvalidParameterException", "maxResults must be a number")
		}
		p.MaxResults = &n
	}
	part, next, err := page(s.cloud.AccessEntries(), p, pageLimits{1, 100, 100, false}, func(e cloud.AccessEntry) string { return e.Principal })
	if err != nil {
		return nil, apiError("InvalidParameterException", err.Message)
	}
	arns := []string{}
	for _, e := range part {
		arns = append(arns, e.Principal)
	}
	out := map[string]any{"accessEntries": arns}
	if next != "" {
		out["nextToken"] = next
	}
	return out, nil
}

func (s *eksService) describeEntry(e cloud.AccessEntry) map[string]any {
	return map[string]any{"accessEntry": map[string]any{
		"clusterName": s.cloud.Options().ClusterName, "principalArn": e.Principal, "type": e.Kind, "username": e.User, "kubernetesGroups": e.Groups,
		"accessEntryArn": s.cloud.ARN("eks", "access-entry/"+s.cloud.Options().ClusterName+"/role/"+lastSegment(e.Principal)), "tags": e.Tags,
		"createdAt": epoch(e.CreatedAt), "modifiedAt": epoch(e.CreatedAt),
	}}
}

// epoch writes a time as REST-JSON does.
func epoch(t time.Time) json.Number { return json.Number(strconv.FormatInt(t.Unix(), 10)) }

func (s *eksService) createEntry(c *call, _ []string) (any, *cloud.Error) {
	var in struct {
		PrincipalArn       string            `json:"principalArn"`
		Type               string            `json:"type"`
		Username           string            `json:"username"`
		KubernetesGroups   []string          `json:"kubernetesGroups"`
		ClientRequestToken string            `json:"clientRequestToken"`
		Tags               map[string]string `json:"tags"`
	}
	if err := readJSON(c, &in); err != nil {
		return nil, err
	}
	e, err := s.cloud.CreateAccessEntry(cloud.AccessEntry{
		Principal: in.PrincipalArn, Kind: in.Type, User: in.Username, Groups: in.KubernetesGroups, Tags: in.Tags})
	if err != nil {
		return nil, err
	}
	return s.describeEntry(e), nil
}

func (s *eksService) entry(_ *call, names []string) (any, *cloud.Error) {
	e, err := s.cloud.AccessEntry(names[1])
	if err != nil {
		return nil, err
	}
	return s.describeEntry(e), nil
}

func (s *eksService) deleteEntry(_ *call, names []string) (any, *cloud.Error) {
	return struct{}{}, s.cloud.DeleteAccessEntry(names[1])
}

func (s *eksService) policies(_ *call, names []string) (any, *cloud.Error) {
	e, err := s.cloud.AccessEntry(names[1])
	if err != nil {
		return nil, err
	}
	list := []map[string]any{}
	for _, arn := range e.Policies {
		list = append(list, accessPolicy(e, arn))
	}
	return map[string]any{"clusterName": names[0], "principalArn": names[1], "associatedAccessPolicies": list}, nil
}

func accessPolicy(e cloud.AccessEntry, arn string) map[string]any {
	return map[string]any{
		"policyArn": arn, "accessScope": map[string]any{"type": "cluster", "namespaces": []string{}},
		"associatedAt": epoch(e.CreatedAt), "modifiedAt": epoch(e.CreatedAt),
	}
}

func (s *eksService) associate(c *call, names []string) (any, *cloud.Error) {
	var in struct {
		PolicyArn   string `json:"policyArn"`
		AccessScope struct {
			Type       string   `json:"type"`
			Namespaces []string `json:"namespaces"`
		} `json:"accessScope"`
	}
	if err := readJSON(c, &in); err != nil {
		return nil, err
	}
	e, err := s.cloud.AssociateAccess(names[1], in.PolicyArn, true)
	if err != nil {
		return nil, err
	}
	return map[string]any{"clusterName": names[0], "principalArn": names[1], "associatedAccessPolicy": accessPolicy(e, in.PolicyArn)}, nil
}

func (s *eksService) disassociate(_ *call, names []string) (any, *cloud.Error) {
	_, err := s.cloud.AssociateAccess(names[1], names[2], false)
	return struct{}{}, err
}
