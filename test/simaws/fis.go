package simaws

import (
	"net/http"
	"strings"

	"github.com/karp-sh/karp/test/simaws/cloud"
)

// fisService answers for experiments of the fault injection service.
type fisService struct{ cloud *cloud.Cloud }

var (
	_ service = (*fisService)(nil)
	_ guarded = (*fisService)(nil)
)

func (s *fisService) parts(c *call) (kind, id string) {
	kind, id, _ = strings.Cut(strings.Trim(c.path, "/"), "/")
	return kind, id
}

func (s *fisService) action(c *call) string {
	kind, id := s.parts(c)
	named := ""
	if id != "" {
		named = "/*"
	}
	return map[string]string{
		"POST experimentTemplates": "CreateExperimentTemplate", "GET experimentTemplates": "ListExperimentTemplates",
		"GET experimentTemplates/*": "GetExperimentTemplate", "DELETE experimentTemplates/*": "DeleteExperimentTemplate",
		"POST experiments": "StartExperiment", "GET experiments": "ListExperiments", "GET experiments/*": "GetExperiment",
		"DELETE experiments/*": "StopExperiment",
	}[c.method+" "+kind+named]
}

func (s *fisService) needs(action string, c *call) []cloud.Demand {
	kind, id := s.parts(c)
	resource := "*"
	switch {
	case id != "" && kind == "experiments":
		resource = s.cloud.ARN("fis", "experiment/"+id)
	case id != "":
		resource = s.cloud.ARN("fis", "experiment-template/"+id)
	}
	return []cloud.Demand{{Action: "fis:" + action, Resource: resource}}
}

func (s *fisService) serve(action string, c *call) (reply, *cloud.Error) {
	_, id := s.parts(c)
	var (
		out any
		err *cloud.Error
	)
	switch action {
	case "CreateExperimentTemplate":
		out, err = s.createTemplate(c)
	case "ListExperimentTemplates":
		out, err = s.listTemplates(c)
	case "GetExperimentTemplate", "DeleteExperimentTemplate":
		out, err = s.template(id, c.method == http.MethodDelete)
	case "StartExperiment":
		out, err = s.start(c)
	case "ListExperiments":
		out, err = s.list(c)
	case "GetExperiment", "StopExperiment":
		out, err = s.experiment(id, c.method == http.MethodDelete)
	default:
		err = unknownOperation(c.method + " " + c.path)
	}
	if err != nil {
		return reply{}, err
	}
	return jsonReply("", out)
}

func (s *fisService) refuse(_ *call, err *cloud.Error) reply { return restRefusal(err) }

func (s *fisService) createTemplate(c *call) (any, *cloud.Error) {
	var in struct {
		ClientToken       string                            `json:"clientToken"`
		Description       string                            `json:"description"`
		RoleArn           string                            `json:"roleArn"`
		Targets           map[string]cloud.ExperimentTarget `json:"targets"`
		Actions           map[string]cloud.ExperimentAction `json:"actions"`
		StopConditions    []cloud.StopCondition             `json:"stopConditions"`
		Tags              map[string]string                 `json:"tags"`
		ExperimentOptions map[string]string                 `json:"experimentOptions"`
	}
	if err := readJSON(c, &in); err != nil {
		return nil, err
	}
	t, err := s.cloud.CreateExperimentTemplate(cloud.ExperimentTemplate{
		Description: in.Description, RoleARN: in.RoleArn, Targets: in.Targets, Actions: in.Actions, Stops: in.StopConditions, Tags: in.Tags,
	}, in.ClientToken, string(c.body))
	if err != nil {
		return nil, err
	}
	return map[string]any{"experimentTemplate": s.describeTemplate(t)}, nil
}

func (s *fisService) describeTemplate(t cloud.ExperimentTemplate) map[string]any {
	return map[string]any{
		"id": t.ID, "arn": s.cloud.ARN("fis", "experiment-template/"+t.ID), "description": t.Description, "roleArn": t.RoleARN, "targets": t.Targets,
		"actions": t.Actions, "stopConditions": t.Stops, "tags": t.Tags, "creationTime": epoch(t.CreatedAt), "lastUpdateTime": epoch(t.CreatedAt),
		"experimentOptions": map[string]string{"accountTargeting": "single-account", "emptyTargetResolutionMode": "fail"},
	}
}

func (s *fisService) listTemplates(c *call) (any, *cloud.Error) {
	list := []map[string]any{}
	part, next, err := page(s.cloud.ExperimentTemplates(), paging{NextToken: c.query.Get("nextToken")}, pageLimits{1, 100, 100, false},
		func(t cloud.ExperimentTemplate) string { return t.ID })
	if err != nil {
		return nil, apiError("ValidationException", err.Message)
	}
	for _, t := range part {
		list = append(list, map[string]any{"id": t.ID, "arn": s.cloud.ARN("fis", "experiment-template/"+t.ID), "description": t.Description,
			"tags": t.Tags, "creationTime": epoch(t.CreatedAt), "lastUpdateTime": epoch(t.CreatedAt)})
	}
	return withNext(map[string]any{"experimentTemplates": list}, next), nil
}

func withNext(out map[string]any, next string) map[string]any {
	if next != "" {
		out["nextToken"] = next
	}
	return out
}

func (s *fisService) template(id string, gone bool) (any, *cloud.Error) {
	t, err := s.cloud.ExperimentTemplate(id, gone)
	if err != nil {
		return nil, err
	}
	return map[string]any{"experimentTemplate": s.describeTemplate(t)}, nil
}

func (s *fisService) start(c *call) (any, *cloud.Error) {
	var in struct {
		ClientToken          string            `json:"clientToken"`
		ExperimentTemplateID string            `json:"experimentTemplateId"`
		Tags                 map[string]string `json:"tags"`
		ExperimentOptions    map[string]string `json:"experimentOptions"`
	}
	if err := readJSON(c, &in); err != nil {
		return nil, err
	}
	e, err := s.cloud.StartExperiment(in.ExperimentTemplateID, in.Tags, in.ClientToken)
	if err != nil {
		return nil, err
	}
	return map[string]any{"experiment": s.describe(e)}, nil
}

func (s *fisService) describe(e cloud.Experiment) map[string]any {
	actions := map[string]any{}
	for name, a := range e.Template.Actions {
		actions[name] = map[string]any{
			"actionId": a.ActionID, "description": a.Description, "parameters": a.Parameters, "targets": a.Targets, "startAfter": a.StartAfter,
			"state": map[string]string{"status": e.State, "reason": e.Reason}, "startTime": epoch(e.StartAt),
		}
	}
	out := map[string]any{
		"id": e.ID, "arn": s.cloud.ARN("fis", "experiment/"+e.ID), "experimentTemplateId": e.Template.ID, "roleArn": e.Template.RoleARN,
		"state": map[string]string{"status": e.State, "reason": e.Reason}, "targets": e.Template.Targets, "actions": actions,
		"stopConditions": e.Template.Stops, "creationTime": epoch(e.StartAt), "startTime": epoch(e.StartAt), "tags": e.Tags,
	}
	if e.State != "running" {
		out["endTime"] = epoch(e.EndAt)
	}
	return out
}

func (s *fisService) list(c *call) (any, *cloud.Error) {
	list := []map[string]any{}
	part, next, err := page(s.cloud.Experiments(), paging{NextToken: c.query.Get("nextToken")}, pageLimits{1, 100, 100, false},
		func(e cloud.Experiment) string { return e.ID })
	if err != nil {
		return nil, apiError("ValidationException", err.Message)
	}
	for _, e := range part {
		list = append(list, map[string]any{"id": e.ID, "arn": s.cloud.ARN("fis", "experiment/"+e.ID), "experimentTemplateId": e.Template.ID,
			"state": map[string]string{"status": e.State, "reason": e.Reason}, "creationTime": epoch(e.StartAt), "tags": e.Tags})
	}
	return withNext(map[string]any{"experiments": list}, next), nil
}

func (s *fisService) experiment(id string, stop bool) (any, *cloud.Error) {
	e, err := s.cloud.Experiment(id, stop)
	if err != nil {
		return nil, err
	}
	return map[string]any{"experiment": s.describe(e)}, nil
}
