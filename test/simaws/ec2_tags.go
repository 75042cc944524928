package simaws

import "github.com/karp-sh/karp/test/simaws/cloud"

type createTagsInput struct {
	dry
	IDs  []string    `q:"ResourceId,required"`
	Tags []cloud.Tag `q:"Tag,required"`
}

func (in *createTagsInput) tags() cloud.Tags {
	tags := cloud.Tags{}
	for _, t := range in.Tags {
		tags[t.Key] = t.Value
	}
	return tags
}

func (in *createTagsInput) needs(s *ec2Service) []cloud.Demand {
	return s.onResources("CreateTags", in.IDs, cloud.RequestTags(in.tags()))
}

func (s *ec2Service) createTags(_ *call, in *createTagsInput) (any, *cloud.Error) {
	for _, t := range in.Tags {
		if err := checkTag(t); err != nil {
			return nil, err
		}
	}
	return done(in.DryRun, s.cloud.Tag(in.IDs, in.tags(), in.DryRun))
}

type deleteTagsInput struct {
	dry
	IDs  []string          `q:"ResourceId,required"`
	Tags []cloud.UntagSpec `q:"Tag"`
}

func (in *deleteTagsInput) needs(s *ec2Service) []cloud.Demand {
	var keys []string
	for _, t := range in.Tags {
		keys = append(keys, t.Key)
	}
	more := map[string][]string{}
	if keys != nil {
		more["aws:TagKeys"] = keys
	}
	return s.onResources("DeleteTags", in.IDs, more)
}

func (s *ec2Service) deleteTags(_ *call, in *deleteTagsInput) (any, *cloud.Error) {
	return done(in.DryRun, s.cloud.Untag(in.IDs, in.Tags, in.DryRun))
}

type describeTagsInput struct {
	dry
	filtering
	paging
}

type tagRecordXML struct {
	ID    string `xml:"resourceId"`
	Kind  string `xml:"resourceType"`
	Key   string `xml:"key"`
	Value string `xml:"value"`
}

func (s *ec2Service) describeTags(_ *call, in *describeTagsInput) (any, *cloud.Error) {
	all, err := s.cloud.TagRecords(in.filters())
	if err != nil {
		return nil, err
	}
	part, next, err := page(all, in.paging, pageLimits{5, 1000, 1000, false}, func(t cloud.TagRecord) string { return t.ID + " " + t.Key })
	if err != nil {
		return nil, err
	}
	var out struct {
		Tags []tagRecordXML `xml:"tagSet>item"`
		Next string         `xml:"nextToken,omitempty"`
	}
	out.Next = next
	for _, t := range part {
		out.Tags = append(out.Tags, tagRecordXML(t))
	}
	return out, nil
}
