package aws

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	et "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	awsv1 "github.com/karp-sh/karp/pkg/apis/aws/v1"
	"github.com/karp-sh/karp/pkg/catalog/ec2types"
)

const (
	keepAlias     = 24 * time.Hour
	keepParameter = 5 * time.Minute
)

type parameterAPI interface {
	GetParameter(context.Context, *ssm.GetParameterInput, ...func(*ssm.Options)) (*ssm.GetParameterOutput, error)
}

// images finds machine images.
type images struct {
	api    ec2.DescribeImagesAPIClient
	params parameterAPI
	clock  clock.PassiveClock
	log    *slog.Logger
	found  *memo[[]awsv1.AMI]
	// values of parameters; mutable ones may change.
	values *memo[string]

	mu      sync.Mutex
	mutable map[string]string // parameter -> image
}

func newImages(api ec2.DescribeImagesAPIClient, params parameterAPI, c clock.PassiveClock, keep time.Duration, log *slog.Logger) *images {
	return &images{api: api, params: params, clock: c, log: log, found: newMemo[[]awsv1.AMI](c, keep), values: newMemo[string](c, keepAlias), mutable: map[string]string{}}
}

// image is a candidate for the status.
type image struct {
	awsv1.AMI
	created time.Time
}

// resolve returns the images that the class selects, the newest first. The error is an *unsupportedAlias when waiting does not help.
func (i *images) resolve(ctx context.Context, class *awsv1.EC2NodeClass, kube string) ([]awsv1.AMI, error) {
	alias := class.Alias()
	return i.found.or(classKey(class)+"/"+kube, func() ([]awsv1.AMI, error) {
		var list []image
		var err error
		if alias != "" {
			list, err = i.byAlias(ctx, alias, kube)
		} else {
			list, err = i.byTerms(ctx, class.Spec.AMISelectorTerms)
		}
		if err != nil {
			return nil, fmt.Errorf("resolving images: %w", err)
		}
		return i.choose(list), nil
	})
}

func (i *images) byAlias(ctx context.Context, alias, kube string) ([]image, error) {
	family, version, err := splitAlias(alias, kube)
	if err != nil {
		return nil, err
	}
	uses := map[string][]aliasParameter{}
	var errs []error
	for _, p := range aliasParameters(family, version, kube) {
		id, err := i.parameter(ctx, p.name, keepAlias)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if mutableAlias(family, version) {
			i.mu.Lock()
			i.mutable[p.name] = id
			i.mu.Unlock()
		}
		uses[id] = append(uses[id], p)
	}
	if len(uses) == 0 {
		return nil, fmt.Errorf("reading the parameters of alias %s: %w", alias, errors.Join(errs...))
	}
	described, err := i.describe(ctx, nil, filter("image-id", slices.Sorted(maps.Keys(uses))...))
	if err != nil {
		return nil, err
	}
	var out []image
	for _, d := range described {
		for _, p := range uses[val(d.ImageId)] {
			for _, use := range p.uses {
				out = append(out, i.candidate(d, p.arch, use))
			}
		}
	}
	return out, nil
}

// parameter reads a parameter, or remembers its value.
func (i *images) parameter(ctx context.Context, name string, keep time.Duration) (string, error) {
	if v, ok := i.values.get(name); ok {
		return v, nil
	}
	out, err := i.params.GetParameter(ctx, &ssm.GetParameterInput{Name: &name})
	if err != nil {
		return "", fmt.Errorf("reading parameter %s: %w", name, err)
	}
	if out.Parameter == nil || val(out.Parameter.Value) == "" {
		return "", fmt.Errorf("reading parameter %s: it has no value", name)
	}
	i.values.putFor(name, *out.Parameter.Value, keep)
	return *out.Parameter.Value, nil
}

// imageQuery is one DescribeImages call.
type imageQuery struct {
	owners  []string
	filters []et.Filter
}

func (i *images) byTerms(ctx context.Context, terms []awsv1.AMISelectorTerm) ([]image, error) {
	queries, err := i.queries(ctx, terms)
	if err != nil {
		return nil, err
	}
	var out []image
	for _, q := range queries {
		described, err := i.describe(ctx, q.owners, q.filters...)
		if err != nil {
			return nil, err
		}
		for _, d := range described {
			if arch := imageArch(d); arch != "" {
				out = append(out, i.candidate(d, arch, nil))
			}
		}
	}
	return out, nil
}

// queries asks for all ids and parameters together and for each other term by itself.
func (i *images) queries(ctx context.Context, terms []awsv1.AMISelectorTerm) ([]imageQuery, error) {
	var ids []string
	var out []imageQuery
	for _, t := range terms {
		switch {
		case t.ID != "":
			ids = append(ids, t.ID)
		case t.SSMParameter != "":
			id, err := i.parameter(ctx, t.SSMParameter, keepParameter)
			if code(err) == codeParameterNotFound {
				continue
			}
			if err != nil {
				return nil, err
			}
			if !strings.HasPrefix(id, "ami-") {
				i.log.WarnContext(ctx, "parameter holds no image id", "parameter", t.SSMParameter, "value", id)
				continue
			}
			ids = append(ids, id)
		default:
			out = append(out, termQuery(t))
		}
	}
	if len(ids) > 0 {
		out = append([]imageQuery{{filters: []et.Filter{filter("image-id", ids...)}}}, out...)
	}
	return out, nil
}

func termQuery(t awsv1.AMISelectorTerm) imageQuery {
	q := imageQuery{filters: tagFilters(t.Tags)}
	if t.Name != "" {
		q.filters = append(q.filters, filter("name", t.Name))
		q.owners = []string{"self", "amazon"}
	}
	if t.Owner != "" {
		q.owners = []string{t.Owner}
	}
	return q
}

func (i *images) describe(ctx context.Context, owners []string, filters ...et.Filter) ([]et.Image, error) {
	pages := ec2.NewDescribeImagesPaginator(i.api, &ec2.DescribeImagesInput{
		Owners: owners, Filters: append(filters, filter("state", "available")), IncludeDeprecated: new(true), MaxResults: new(int32(1000)),
	})
	var out []et.Image
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("describing images: %w", err)
		}
		out = append(out, page.Images...)
	}
	return out, nil
}

func imageArch(d et.Image) string {
	switch d.Architecture {
	case et.ArchitectureValuesX8664:
		return "amd64"
	case et.ArchitectureValuesArm64:
		return "arm64"
	default:
		return ""
	}
}

// candidate makes an entry of the status. A date that cannot be read counts as the oldest, and as never deprecated.
func (i *images) candidate(d et.Image, arch string, use []corev1.NodeSelectorRequirement) image {
	out := image{AMI: awsv1.AMI{ID: val(d.ImageId), Name: val(d.Name)}}
	out.created, _ = time.Parse(time.RFC3339, val(d.CreationDate))
	out.Deprecated = i.deprecated(d)
	out.Requirements = append([]corev1.NodeSelectorRequirement{{Key: ec2types.LabelArch, Operator: corev1.NodeSelectorOpIn, Values: []string{arch}}}, use...)
	slices.SortFunc(out.Requirements, func(a, b corev1.NodeSelectorRequirement) int {
		return cmp.Or(cmp.Compare(len(a.Key), len(b.Key)), cmp.Compare(a.Key, b.Key))
	})
	return out
}

func (i *images) deprecated(d et.Image) bool {
	at, err := time.Parse(time.RFC3339, val(d.DeprecationTime))
	return err == nil && !at.After(i.clock.Now())
}

// choose keeps the best image of each set of requirements and sorts them, the newest first.
func (i *images) choose(list []image) []awsv1.AMI {
	best := map[string]image{}
	for _, c := range list {
		key := fmt.Sprint(c.Requirements)
		if have, ok := best[key]; !ok || better(c, have) {
			best[key] = c
		}
	}
	kept := slices.SortedFunc(maps.Values(best), func(a, b image) int {
		return cmp.Or(b.created.Compare(a.created), cmp.Compare(a.ID, b.ID), cmp.Compare(fmt.Sprint(a.Requirements), fmt.Sprint(b.Requirements)))
	})
	var out []awsv1.AMI
	for _, c := range kept {
		out = append(out, c.AMI)
	}
	return out
}

func better(a, b image) bool {
	if a.Deprecated != b.Deprecated {
		return b.Deprecated
	}
	return cmp.Or(a.created.Compare(b.created), cmp.Compare(a.Name, b.Name)) > 0
}

// dropDeprecated looks whether images that aliases stand for have been deprecated, and forgets the parameters of those that are.
func (i *images) dropDeprecated(ctx context.Context) error {
	i.mu.Lock()
	mutable := maps.Clone(i.mutable)
	i.mu.Unlock()
	if len(mutable) == 0 {
		return nil
	}
	ids := slices.Compact(slices.Sorted(maps.Values(mutable)))
	described, err := i.describe(ctx, nil, filter("image-id", ids...))
	if err != nil {
		return err
	}
	old := map[string]bool{}
	for _, d := range described {
		old[val(d.ImageId)] = i.deprecated(d)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	for name, id := range mutable {
		if old[id] {
			i.values.drop(name)
			delete(i.mutable, name)
		}
	}
	return nil
}
