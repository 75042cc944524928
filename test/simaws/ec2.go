package simaws

import (
	"encoding/base64"
	"encoding/xml"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/karp-sh/karp/test/simaws/cloud"
)

const ec2Namespace = "http://ec2.amazonaws.com/doc/2016-11-15/"

// ec2Service speaks the EC2 query protocol.
type ec2Service struct{ cloud *cloud.Cloud }

var _ service = (*ec2Service)(nil)

// An ec2Operation binds the parameters and answers.
type ec2Operation func(*ec2Service, *call) (any, *cloud.Error)

// operation makes an ec2Operation of a handler and its parameter list.
func operation[In any](handle func(*ec2Service, *call, *In) (any, *cloud.Error)) ec2Operation {
	return func(s *ec2Service, c *call) (any, *cloud.Error) {
		in := new(In)
		if err := bind(c.form, in); err != nil {
			return nil, err
		}
		if err := s.cloud.Authorize(c.caller, s.demandsOf(c.form.Get("Action"), in)...); err != nil {
			return nil, err
		}
		return handle(s, c, in)
	}
}

// reading is an operation without effects: a dry run ends after the
// parameters were read.
func reading[In any, P interface {
	*In
	isDry() bool
}](handle func(*ec2Service, *call, *In) (any, *cloud.Error)) ec2Operation {
	return operation(func(s *ec2Service, c *call, in *In) (any, *cloud.Error) {
		if P(in).isDry() {
			return nil, dryRun()
		}
		return handle(s, c, in)
	})
}

func (*ec2Service) operations() map[string]ec2Operation {
	return map[string]ec2Operation{
		"CancelCapacityReservation": operation((*ec2Service).cancelCapacityReservation),
		"CopyImage":                 operation((*ec2Service).copyImage),
		"CreateCapacityReservation": operation((*ec2Service).createCapacityReservation),
		"CreateFleet":               operation((*ec2Service).createFleet),
		"CreateInterruptibleCapacityReservationAllocation": operation((*ec2Service).allocate),
		"CreateLaunchTemplate":                             operation((*ec2Service).createLaunchTemplate),
		"CreatePlacementGroup":                             operation((*ec2Service).createPlacementGroup),
		"CreateSecurityGroup":                              operation((*ec2Service).createSecurityGroup),
		"CreateTags":                                       operation((*ec2Service).createTags),
		"DeleteLaunchTemplate":                             operation((*ec2Service).deleteLaunchTemplate),
		"DeletePlacementGroup":                             operation((*ec2Service).deletePlacementGroup),
		"DeleteSecurityGroup":                              operation((*ec2Service).deleteSecurityGroup),
		"DeleteTags":                                       operation((*ec2Service).deleteTags),
		"DeregisterImage":                                  operation((*ec2Service).deregisterImage),
		"DescribeAvailabilityZones":                        reading((*ec2Service).describeAvailabilityZones),
		"DescribeCapacityReservations":                     reading((*ec2Service).describeCapacityReservations),
		"DescribeFleets":                                   reading((*ec2Service).describeFleets),
		"DescribeImages":                                   reading((*ec2Service).describeImages),
		"DescribeInstanceAttribute":                        operation((*ec2Service).describeInstanceAttribute),
		"DescribeInstanceStatus":                           reading((*ec2Service).describeInstanceStatus),
		"DescribeInstanceTypeOfferings":                    reading((*ec2Service).describeInstanceTypeOfferings),
		"DescribeInstanceTypes":                            reading((*ec2Service).describeInstanceTypes),
		"DescribeInstances":                                reading((*ec2Service).describeInstances),
		"DescribeLaunchTemplateVersions":                   reading((*ec2Service).describeLaunchTemplateVersions),
		"DescribeLaunchTemplates":                          reading((*ec2Service).describeLaunchTemplates),
		"DescribeNetworkInterfaces":                        reading((*ec2Service).describeNetworkInterfaces),
		"DescribePlacementGroups":                          reading((*ec2Service).describePlacementGroups),
		"DescribeRegions":                                  reading((*ec2Service).describeRegions),
		"DescribeSecurityGroups":                           reading((*ec2Service).describeSecurityGroups),
		"DescribeSpotInstanceRequests":                     reading((*ec2Service).describeSpotInstanceRequests),
		"DescribeSpotPriceHistory":                         reading((*ec2Service).describeSpotPriceHistory),
		"DescribeSubnets":                                  reading((*ec2Service).describeSubnets),
		"DescribeTags":                                     reading((*ec2Service).describeTags),
		"DescribeVolumes":                                  reading((*ec2Service).describeVolumes),
		"DescribeVpcs":                                     reading((*ec2Service).describeVPCs),
		"DisableImageDeprecation":                          operation((*ec2Service).disableImageDeprecation),
		"EnableImageDeprecation":                           operation((*ec2Service).enableImageDeprecation),
		"ModifyCapacityReservation":                        operation((*ec2Service).modifyCapacityReservation),
		"ModifySubnetAttribute":                            operation((*ec2Service).modifySubnetAttribute),
		"RebootInstances":                                  operation((*ec2Service).rebootInstances),
		"RunInstances":                                     operation((*ec2Service).runInstances),
		"StartInstances":                                   operation((*ec2Service).startInstances),
		"StopInstances":                                    operation((*ec2Service).stopInstances),
		"TerminateInstances":                               operation((*ec2Service).terminateInstances),
		"UpdateInterruptibleCapacityReservationAllocation": operation((*ec2Service).reallocate),
	}
}

func (s *ec2Service) action(c *call) string {
	form, err := c.values()
	if err != nil {
		return ""
	}
	return form.Get("Action")
}

func (s *ec2Service) serve(action string, c *call) (reply, *cloud.Error) {
	form, err := c.values()
	if err != nil {
		return reply{}, apiError("MalformedQueryString", "The query string contains a syntax error.")
	}
	if action == "" {
		return reply{}, apiError("MissingAction", "The request is missing an action or a required parameter.")
	}
	op := s.operations()[action]
	if op == nil {
		return reply{}, apiError("InvalidAction", "The action "+action+" is not valid for this web service.")
	}
	if v := form.Get("Version"); v != "2016-11-15" {
		return reply{}, apiError("InvalidParameterValue", "API version "+v+" is not supported; use 2016-11-15.")
	}
	out, refusal := op(s, c)
	if refusal != nil {
		return reply{}, refusal
	}
	return xmlReply(action+"Response", ec2Namespace, out, "<requestId>"+c.id+"</requestId>")
}

// xmlReply wraps a result into the response element, head first.
func xmlReply(root, namespace string, out any, head string) (reply, *cloud.Error) {
	var b strings.Builder
	if out != nil {
		enc := xml.NewEncoder(&b)
		if err := enc.EncodeElement(out, xml.StartElement{Name: xml.Name{Local: "x"}}); err != nil {
			return reply{}, apiError("InternalError", "simaws cannot encode the answer: "+err.Error())
		}
	}
	inner := strings.TrimSuffix(strings.TrimPrefix(b.String(), "<x>"), "</x>")
	text := xml.Header + "<" + root + ` xmlns="` + namespace + `">` + head + inner + "</" + root + ">"
	return reply{kind: "text/xml;charset=UTF-8", body: []byte(text)}, nil
}

func (s *ec2Service) refuse(c *call, err *cloud.Error) reply {
	var b strings.Builder
	b.WriteString(xml.Header + "<Response><Errors><Error><Code>")
	escape(&b, err.Code)
	b.WriteString("</Code><Message>")
	escape(&b, err.Message)
	b.WriteString("</Message></Error></Errors><RequestID>" + c.id + "</RequestID></Response>")
	return reply{status: ec2Status(err.Code), kind: "text/xml;charset=UTF-8", body: []byte(b.String())}
}

func escape(b *strings.Builder, s string) {
	if err := xml.EscapeText(b, []byte(s)); err != nil {
		b.WriteString("?") // a strings.Builder does not fail
	}
}

func ec2Status(code string) int {
	switch code {
	case "DryRunOperation":
		return http.StatusPreconditionFailed
	case "UnauthorizedOperation":
		return http.StatusForbidden
	case "AuthFailure":
		return http.StatusUnauthorized
	case "RequestLimitExceeded", "Unavailable", "ServiceUnavailable":
		return http.StatusServiceUnavailable
	case "InternalError", "InternalFailure":
		return http.StatusInternalServerError
	}
	return http.StatusBadRequest
}

// dryRun is how EC2 says that a dry run would have succeeded.
func dryRun() *cloud.Error {
	return apiError("DryRunOperation", "Request would have succeeded, but DryRun flag is set.")
}

// dry is the DryRun parameter.
type dry struct {
	DryRun bool `q:"DryRun"`
}

func (d *dry) isDry() bool { return d.DryRun }

// paging are the parameters of a paged call.
type paging struct {
	MaxResults *int   `q:"MaxResults"`
	NextToken  string `q:"NextToken"`
}

// filtering is the Filter parameter.
type filtering struct {
	Filters []filterParam `q:"Filter"`
}

type filterParam struct {
	Name   string   `q:"Name,required"`
	Values []string `q:"Value"`
}

func (f *filtering) filters() []cloud.Filter {
	out := make([]cloud.Filter, 0, len(f.Filters))
	for _, p := range f.Filters {
		out = append(out, cloud.Filter{Name: p.Name, Values: p.Values})
	}
	return out
}

// pageLimits are the smallest and largest MaxResults and the default; above is
// whether EC2 takes a larger MaxResults for the largest.
type pageLimits struct {
	smallest, largest, preset int
	above                     bool
}

const tokenPrefix = "simaws:"

// page cuts the page out of a list. The token names the last element of the
// page before, so that elements that come and go move no others.
func page[T any](items []T, p paging, l pageLimits, key func(T) string) ([]T, string, *cloud.Error) {
	size := l.preset
	if p.MaxResults != nil {
		size = *p.MaxResults
		if size < l.smallest || size > l.largest && !l.above {
			return nil, "", apiError("InvalidParameterValue", "Value ( "+strconv.Itoa(size)+" ) for parameter maxResults is invalid. Expecting a value between "+
				strconv.Itoa(l.smallest)+" and "+strconv.Itoa(l.largest)+".")
		}
		size = min(size, l.largest)
	}
	start := 0
	if p.NextToken != "" {
		raw, err := base64.StdEncoding.DecodeString(p.NextToken)
		last, ok := strings.CutPrefix(string(raw), tokenPrefix)
		if err != nil || !ok {
			return nil, "", apiError("InvalidNextToken", "The token "+p.NextToken+" is invalid.")
		}
		start = after(items, last, key)
	}
	end := min(start+size, len(items))
	next := ""
	if end < len(items) {
		next = base64.StdEncoding.EncodeToString([]byte(tokenPrefix + key(items[end-1])))
	}
	return items[start:end], next, nil
}

// after finds where the list goes on behind the element with this key; if it
// is gone, at the first greater key.
func after[T any](items []T, last string, key func(T) string) int {
	if i := slices.IndexFunc(items, func(t T) bool { return key(t) == last }); i >= 0 {
		return i + 1
	}
	if i := slices.IndexFunc(items, func(t T) bool { return key(t) > last }); i >= 0 {
		return i
	}
	return len(items)
}

// notPagedByID refuses MaxResults together with ids.
func notPagedByID(p paging, ids []string, name string) *cloud.Error {
	if p.MaxResults != nil && len(ids) > 0 {
		return apiError("InvalidParameterCombination", "The parameter "+name+" cannot be used with the parameter maxResults")
	}
	return nil
}

// xmlTag is a tag in an answer.
type xmlTag struct {
	Key   string `xml:"key"`
	Value string `xml:"value"`
}

func xmlTags(t cloud.Tags) []xmlTag {
	var out []xmlTag
	for _, kv := range t.Sorted() {
		out = append(out, xmlTag{kv[0], kv[1]})
	}
	return out
}

func timestamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// fingerprint is what a client token must be repeated with.
func fingerprint(c *call) string {
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(c.form)) {
		if k != "ClientToken" {
			b.WriteString(strconv.Quote(k) + "=" + strconv.Quote(c.form.Get(k)) + ";")
		}
	}
	return b.String()
}

// given turns an empty list into nil, which means "not given".
func given(list []string) []string {
	if len(list) == 0 {
		return nil
	}
	return list
}
