package simaws

import "github.com/karp-sh/karp/test/simaws/cloud"

type describePlacementGroupsInput struct {
	dry
	filtering
	IDs   []string `q:"GroupId"`
	Names []string `q:"GroupName"`
}

type placementGroupXML struct {
	ID         string   `xml:"groupId"`
	Name       string   `xml:"groupName"`
	Strategy   string   `xml:"strategy"`
	State      string   `xml:"state"`
	Partitions int      `xml:"partitionCount,omitempty"`
	ARN        string   `xml:"groupArn"`
	Spread     string   `xml:"spreadLevel,omitempty"`
	Tags       []xmlTag `xml:"tagSet>item"`
}

func (s *ec2Service) describePlacementGroups(_ *call, in *describePlacementGroupsInput) (any, *cloud.Error) {
	all, err := s.cloud.PlacementGroups(given(in.IDs), given(in.Names), in.filters())
	if err != nil {
		return nil, err
	}
	var out struct {
		Groups []placementGroupXML `xml:"placementGroupSet>item"`
	}
	for _, g := range all {
		out.Groups = append(out.Groups, describePlacementGroup(g))
	}
	return out, nil
}

func describePlacementGroup(g cloud.PlacementGroup) placementGroupXML {
	return placementGroupXML{g.ID, g.Name, g.Strategy, g.State, g.Partitions, g.ARN, g.SpreadLevel, xmlTags(g.Tags)}
}

type createPlacementGroupInput struct {
	dry
	Name       string                   `q:"GroupName,required"`
	Strategy   string                   `q:"Strategy"`
	Partitions int                      `q:"PartitionCount"`
	Spread     string                   `q:"SpreadLevel"`
	Tags       []cloud.TagSpecification `q:"TagSpecification"`
	Linked     string                   `q:"LinkedGroupId,refuse"`
	Parent     string                   `q:"ParentGroupId,refuse"`
	Operator   string                   `q:"Operator,refuse"`
}

func (in *createPlacementGroupInput) needs(s *ec2Service) []cloud.Demand {
	return s.toCreate("CreatePlacementGroup", "placement-group", in.Name, in.Tags)
}

func (s *ec2Service) createPlacementGroup(_ *call, in *createPlacementGroupInput) (any, *cloud.Error) {
	if err := checkTags(in.Tags, "placement-group"); err != nil {
		return nil, err
	}
	if in.Spread != "" && in.Spread != "rack" {
		return nil, apiError("InvalidParameterValue", "Value ("+in.Spread+") for parameter spreadLevel is invalid: host level is for Outposts.")
	}
	g, err := s.cloud.CreatePlacementGroup(cloud.PlacementGroup{
		Name: in.Name, Strategy: in.Strategy, Partitions: in.Partitions, SpreadLevel: in.Spread, Tags: cloud.TagsFor(in.Tags, "placement-group")}, in.DryRun)
	if err != nil {
		return nil, err
	}
	if in.DryRun {
		return nil, dryRun()
	}
	return struct {
		Group placementGroupXML `xml:"placementGroup"`
	}{describePlacementGroup(g)}, nil
}

type deletePlacementGroupInput struct {
	dry
	Name string `q:"GroupName,required"`
}

func (in *deletePlacementGroupInput) needs(s *ec2Service) []cloud.Demand {
	return []cloud.Demand{{Action: "ec2:DeletePlacementGroup", Resource: s.cloud.ARN("ec2", "placement-group/"+in.Name)}}
}

func (s *ec2Service) deletePlacementGroup(_ *call, in *deletePlacementGroupInput) (any, *cloud.Error) {
	return done(in.DryRun, s.cloud.DeletePlacementGroup(in.Name, in.DryRun))
}
