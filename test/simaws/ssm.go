package simaws

import "github.com/karp-sh/karp/test/simaws/cloud"

// ssmService answers GetParameter.
type ssmService struct{ cloud *cloud.Cloud }

var _ service = (*ssmService)(nil)

func (s *ssmService) action(c *call) string { return target(c, "AmazonSSM") }

func (s *ssmService) serve(action string, c *call) (reply, *cloud.Error) {
	if action != "GetParameter" {
		return reply{}, unknownOperation(action)
	}
	var in struct {
		Name           string
		WithDecryption bool
	}
	if err := readJSON(c, &in); err != nil {
		return reply{}, err
	}
	if in.Name == "" {
		return reply{}, apiError("ValidationException", "1 validation error detected: Value at 'name' failed to satisfy constraint: Member must not be null")
	}
	value, err := s.cloud.Parameter(in.Name)
	if err != nil {
		return reply{}, err
	}
	return jsonReply("1.1", map[string]any{"Parameter": map[string]any{
		"Name": in.Name, "Type": "String", "Value": value, "Version": 1, "DataType": "text",
		"ARN": "arn:aws:ssm:" + s.cloud.Options().Region + "::parameter" + in.Name,
	}})
}

func (s *ssmService) refuse(_ *call, err *cloud.Error) reply {
	return jsonRefusal("1.1", err, jsonStatus(err.Code))
}
