package simaws

import (
	"slices"

	"github.com/karp-sh/karp/test/simaws/cloud"
)

type createLaunchTemplateInput struct {
	dry
	Name        string                   `q:"LaunchTemplateName,required"`
	Data        *cloud.LaunchData        `q:"LaunchTemplateData,required"`
	Tags        []cloud.TagSpecification `q:"TagSpecification"`
	Token       string                   `q:"ClientToken"`
	Description string                   `q:"VersionDescription"`
	Operator    string                   `q:"Operator,refuse"`
}

type templateXML struct {
	ID      string   `xml:"launchTemplateId"`
	Name    string   `xml:"launchTemplateName"`
	Created string   `xml:"createTime"`
	By      string   `xml:"createdBy"`
	Default int      `xml:"defaultVersionNumber"`
	Latest  int      `xml:"latestVersionNumber"`
	Tags    []xmlTag `xml:"tagSet>item"`
}

func (s *ec2Service) describeTemplate(t *cloud.Template) templateXML {
	by := "arn:aws:iam::" + s.cloud.Options().AccountID + ":root"
	return templateXML{t.ID, t.Name, timestamp(t.CreatedAt), by, 1, 1, xmlTags(t.Tags)}
}

type oneTemplate struct {
	Template templateXML `xml:"launchTemplate"`
}

func (in *createLaunchTemplateInput) needs(s *ec2Service) []cloud.Demand {
	return s.toCreate("CreateLaunchTemplate", "launch-template", "*", in.Tags)
}

func (s *ec2Service) createLaunchTemplate(c *call, in *createLaunchTemplateInput) (any, *cloud.Error) {
	if err := checkTags(in.Tags, "launch-template"); err != nil {
		return nil, err
	}
	if in.DryRun {
		if err := s.cloud.CheckTemplate(in.Name, *in.Data); err != nil {
			return nil, err
		}
		return nil, dryRun()
	}
	t, err := s.cloud.CreateTemplate(in.Name, *in.Data, cloud.TagsFor(in.Tags, "launch-template"), in.Token, fingerprint(c))
	if err != nil {
		return nil, err
	}
	return oneTemplate{s.describeTemplate(t)}, nil
}

// checkTags checks tag specifications as EC2 does.
func checkTags(specs []cloud.TagSpecification, kinds ...string) *cloud.Error {
	for _, s := range specs {
		if !slices.Contains(kinds, s.ResourceType) {
			return apiError("InvalidParameterValue", "'"+s.ResourceType+"' is not a valid taggable resource type for this operation.")
		}
		if len(s.Tags) > 50 {
			return apiError("TagLimitExceeded", "You have reached the limit of 50 tags for this resource.")
		}
		for _, t := range s.Tags {
			if err := checkTag(t); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkTag(t cloud.Tag) *cloud.Error {
	switch {
	case t.Key == "" || len(t.Key) > 128:
		return apiError("InvalidParameterValue", "Tag key '"+t.Key+"' must have 1 to 128 characters.")
	case len(t.Value) > 256:
		return apiError("InvalidParameterValue", "Tag value of '"+t.Key+"' must have at most 256 characters.")
	case len(t.Key) >= 4 && t.Key[:4] == "aws:":
		return apiError("InvalidParameterValue", "Tag keys starting with 'aws:' are reserved for internal use")
	}
	return nil
}

type describeTemplatesInput struct {
	dry
	filtering
	paging
	IDs     []string `q:"LaunchTemplateId"`
	Names   []string `q:"LaunchTemplateName"`
	Managed bool     `q:"IncludeManagedResources"`
}

func (s *ec2Service) describeLaunchTemplates(_ *call, in *describeTemplatesInput) (any, *cloud.Error) {
	all, err := s.cloud.Templates(given(in.IDs), given(in.Names), in.filters())
	if err != nil {
		return nil, err
	}
	part, next, err := page(all, in.paging, pageLimits{1, 200, 200, false}, func(t *cloud.Template) string { return t.ID })
	if err != nil {
		return nil, err
	}
	var out struct {
		Templates []templateXML `xml:"launchTemplates>item"`
		Next      string        `xml:"nextToken,omitempty"`
	}
	out.Next = next
	for _, t := range part {
		out.Templates = append(out.Templates, s.describeTemplate(t))
	}
	return out, nil
}

type describeVersionsInput struct {
	dry
	filtering
	paging
	ID       string   `q:"LaunchTemplateId"`
	Name     string   `q:"LaunchTemplateName"`
	Versions []string `q:"LaunchTemplateVersion"`
	Resolve  bool     `q:"ResolveAlias"`
	Managed  bool     `q:"IncludeManagedResources"`
	Min      string   `q:"MinVersion,refuse"`
	Max      string   `q:"MaxVersion,refuse"`
}

type versionXML struct {
	ID      string           `xml:"launchTemplateId"`
	Name    string           `xml:"launchTemplateName"`
	Version int              `xml:"versionNumber"`
	Created string           `xml:"createTime"`
	Default bool             `xml:"defaultVersion"`
	Data    cloud.LaunchData `xml:"launchTemplateData"`
}

func (s *ec2Service) describeLaunchTemplateVersions(_ *call, in *describeVersionsInput) (any, *cloud.Error) {
	if len(in.Filters) > 0 {
		return nil, apiError("UnsupportedOperation", "simaws does not implement filters of DescribeLaunchTemplateVersions")
	}
	var ids, names []string
	switch {
	case in.ID != "" && in.Name != "":
		return nil, apiError("InvalidParameterCombination", "LaunchTemplateId and LaunchTemplateName must not be given together")
	case in.ID != "":
		ids = []string{in.ID}
	case in.Name != "":
		names = []string{in.Name}
	case len(in.Versions) == 0:
		return nil, apiError("MissingParameter", "Either a launch template or versions must be specified")
	}
	found, err := s.cloud.Templates(ids, names, nil)
	if err != nil {
		return nil, err
	}
	for _, v := range in.Versions {
		if v != "$Latest" && v != "$Default" && v != "1" {
			return nil, apiError("InvalidLaunchTemplateId.VersionNotFound", "Could not find the specified version "+v+" for the launch template.")
		}
	}
	part, next, err := page(found, in.paging, pageLimits{1, 200, 200, false}, func(t *cloud.Template) string { return t.ID })
	if err != nil {
		return nil, err
	}
	var out struct {
		Versions []versionXML `xml:"launchTemplateVersionSet>item"`
		Next     string       `xml:"nextToken,omitempty"`
	}
	out.Next = next
	for _, t := range part {
		out.Versions = append(out.Versions, versionXML{t.ID, t.Name, 1, timestamp(t.CreatedAt), true, t.Data})
	}
	return out, nil
}

type deleteLaunchTemplateInput struct {
	dry
	ID   string `q:"LaunchTemplateId"`
	Name string `q:"LaunchTemplateName"`
}

func (in *deleteLaunchTemplateInput) needs(s *ec2Service) []cloud.Demand {
	if in.ID == "" && in.Name != "" {
		if found, err := s.cloud.Templates(nil, []string{in.Name}, nil); err == nil && len(found) == 1 {
			return s.onResources("DeleteLaunchTemplate", []string{found[0].ID})
		}
	}
	return s.onResources("DeleteLaunchTemplate", []string{in.ID})
}

func (s *ec2Service) deleteLaunchTemplate(_ *call, in *deleteLaunchTemplateInput) (any, *cloud.Error) {
	t, err := s.cloud.DeleteTemplate(in.ID, in.Name, in.DryRun)
	if err != nil {
		return nil, err
	}
	if in.DryRun {
		return nil, dryRun()
	}
	return oneTemplate{s.describeTemplate(t)}, nil
}
