package simaws

import (
	"encoding/json"
	"strconv"

	"github.com/karp-sh/karp/test/simaws/cloud"
)

// ssmService answers for parameters.
type ssmService struct{ cloud *cloud.Cloud }

var (
	_ service = (*ssmService)(nil)
	_ guarded = (*ssmService)(nil)
)

func (s *ssmService) action(c *call) string { return target(c, "AmazonSSM") }

func (s *ssmService) serve(action string, c *call) (reply, *cloud.Error) {
	handle := map[string]func(*call) (any, *cloud.Error){
		"GetParameter": s.get, "GetParameters": s.several, "GetParametersByPath": s.byPath, "PutParameter": s.put, "DeleteParameter": s.delete,
	}[action]
	if handle == nil {
		return reply{}, unknownOperation(action)
	}
	out, err := handle(c)
	if err != nil {
		return reply{}, err
	}
	return jsonReply("1.1", out)
}

func (s *ssmService) describe(p cloud.Parameter) map[string]any {
	return map[string]any{
		"Name": p.Name, "Type": "String", "Value": p.Value, "Version": p.Version, "DataType": "text", "ARN": s.parameterARN(p.Name),
		"LastModifiedDate": json.Number(strconv.FormatInt(p.At.Unix(), 10)),
	}
}

func (s *ssmService) get(c *call) (any, *cloud.Error) {
	var in struct {
		Name           string
		WithDecryption bool
	}
	if err := readJSON(c, &in); err != nil {
		return nil, err
	}
	if in.Name == "" {
		return nil, apiError("ValidationException", "1 validation error detected: Value at 'name' failed to satisfy constraint: Member must not be null")
	}
	p, err := s.cloud.ParameterRecord(in.Name)
	if err != nil {
		return nil, err
	}
	return map[string]any{"Parameter": s.describe(p)}, nil
}

func (s *ssmService) several(c *call) (any, *cloud.Error) {
	var in struct {
		Names          []string
		WithDecryption bool
	}
	if err := readJSON(c, &in); err != nil {
		return nil, err
	}
	if len(in.Names) < 1 || len(in.Names) > 10 {
		return nil, apiError("ValidationException", "1 validation error detected: Value at 'names' failed to satisfy constraint: Member must have length between 1 and 10")
	}
	found, missing := []map[string]any{}, []string{}
	for _, name := range in.Names {
		if p, err := s.cloud.ParameterRecord(name); err == nil {
			found = append(found, s.describe(p))
		} else {
			missing = append(missing, name)
		}
	}
	return map[string]any{"Parameters": found, "InvalidParameters": missing}, nil
}

func (s *ssmService) byPath(c *call) (any, *cloud.Error) {
	var in struct {
		Path, NextToken           string
		Recursive, WithDecryption bool
		MaxResults                *int
		ParameterFilters          []json.RawMessage
	}
	if err := readJSON(c, &in); err != nil {
		return nil, err
	}
	if len(in.ParameterFilters) > 0 {
		return nil, apiError("UnsupportedOperation", "simaws does not implement ParameterFilters")
	}
	all, err := s.cloud.ParametersUnder(in.Path, in.Recursive)
	if err != nil {
		return nil, err
	}
	part, next, err := page(all, paging{in.MaxResults, in.NextToken}, pageLimits{1, 10, 10, false}, func(p cloud.Parameter) string { return p.Name })
	if err != nil {
		return nil, apiError("ValidationException", err.Message)
	}
	list := []map[string]any{}
	for _, p := range part {
		list = append(list, s.describe(p))
	}
	out := map[string]any{"Parameters": list}
	if next != "" {
		out["NextToken"] = next
	}
	return out, nil
}

func (s *ssmService) put(c *call) (any, *cloud.Error) {
	var in struct {
		Name, Value, Type, Description, DataType, Tier string
		Overwrite                                      bool
	}
	if err := readJSON(c, &in); err != nil {
		return nil, err
	}
	if in.Name == "" || in.Value == "" {
		return nil, apiError("ValidationException", "Name and Value must not be empty")
	}
	version, err := s.cloud.PutParameter(in.Name, in.Value, in.Overwrite)
	if err != nil {
		return nil, err
	}
	return map[string]any{"Version": version, "Tier": "Standard"}, nil
}

func (s *ssmService) delete(c *call) (any, *cloud.Error) {
	var in struct{ Name string }
	if err := readJSON(c, &in); err != nil {
		return nil, err
	}
	return struct{}{}, s.cloud.DeleteParameter(in.Name)
}

func (s *ssmService) refuse(_ *call, err *cloud.Error) reply {
	return jsonRefusal("1.1", err, jsonStatus(err.Code))
}
