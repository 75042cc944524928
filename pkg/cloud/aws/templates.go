package aws

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	et "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"k8s.io/utils/clock"

	awsv1 "github.com/karp-sh/karp/pkg/apis/aws/v1"
)

const (
	// keepTemplate is how long a launch template lives after its last use.
	keepTemplate = time.Minute
	// keepContent is how long we know how to make it again.
	keepContent = time.Hour
)

type templateAPI interface {
	DescribeLaunchTemplates(context.Context, *ec2.DescribeLaunchTemplatesInput, ...func(*ec2.Options)) (*ec2.DescribeLaunchTemplatesOutput, error)
	CreateLaunchTemplate(context.Context, *ec2.CreateLaunchTemplateInput, ...func(*ec2.Options)) (*ec2.CreateLaunchTemplateOutput, error)
	DeleteLaunchTemplate(context.Context, *ec2.DeleteLaunchTemplateInput, ...func(*ec2.Options)) (*ec2.DeleteLaunchTemplateOutput, error)
}

// templates keeps launch templates while they are used. Equal content has an equal name, over restarts and replicas.
type templates struct {
	api      templateAPI
	clock    clock.PassiveClock
	cluster  string
	log      *slog.Logger
	contents *memo[*ec2.CreateLaunchTemplateInput]

	mu       sync.Mutex
	byName   map[string]*template
	hydrated bool
}

// template is one launch template, and the lock that everything done about it takes.
type template struct {
	sync.Mutex
	id    string // empty while it is not known to exist
	until time.Time
	// gone tells whoever waited for the lock that the entry has been dropped meanwhile.
	gone bool
}

func newTemplates(api templateAPI, c clock.PassiveClock, cluster string, log *slog.Logger) *templates {
	return &templates{api: api, clock: c, cluster: cluster, log: log, contents: newMemo[*ec2.CreateLaunchTemplateInput](c, keepContent), byName: map[string]*template{}}
}

// locked returns the template of the name, locked.
func (t *templates) locked(name string) *template {
	for {
		t.mu.Lock()
		e := t.byName[name]
		if e == nil {
			e = &template{}
			t.byName[name] = e
		}
		t.mu.Unlock()
		e.Lock()
		if !e.gone {
			return e
		}
		e.Unlock()
	}
}

// ensure makes sure that the template exists, and renews its life.
func (t *templates) ensure(ctx context.Context, in *ec2.CreateLaunchTemplateInput) error {
	name := *in.LaunchTemplateName
	t.contents.put(name, in)
	e := t.locked(name)
	defer e.Unlock()
	if e.id == "" {
		id, err := t.findOrCreate(ctx, in)
		if err != nil {
			return err
		}
		e.id = id
	}
	e.until = t.clock.Now().Add(keepTemplate)
	return nil
}

func (t *templates) findOrCreate(ctx context.Context, in *ec2.CreateLaunchTemplateInput) (string, error) {
	id, err := t.find(ctx, *in.LaunchTemplateName)
	if err != nil || id != "" {
		return id, err
	}
	out, err := t.api.CreateLaunchTemplate(ctx, in)
	if code(err) == codeTemplateExists {
		return t.find(ctx, *in.LaunchTemplateName)
	}
	if err != nil {
		return "", fmt.Errorf("creating launch template %s: %w", *in.LaunchTemplateName, err)
	}
	if out.LaunchTemplate == nil {
		return "", fmt.Errorf("creating launch template %s: the answer is empty", *in.LaunchTemplateName)
	}
	return val(out.LaunchTemplate.LaunchTemplateId), nil
}

// find returns the id of a template, "" if there is none.
func (t *templates) find(ctx context.Context, name string) (string, error) {
	out, err := t.api.DescribeLaunchTemplates(ctx, &ec2.DescribeLaunchTemplatesInput{LaunchTemplateNames: []string{name}})
	if code(err) == codeTemplateNotFound {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("describing launch template %s: %w", name, err)
	}
	if len(out.LaunchTemplates) != 1 {
		return "", nil
	}
	return val(out.LaunchTemplates[0].LaunchTemplateId), nil
}

// touch renews the life of a template that is about to be used.
func (t *templates) touch(name string) {
	e := t.locked(name)
	defer e.Unlock()
	e.until = t.clock.Now().Add(keepTemplate)
}

// again makes templates anew that EC2 does not find. It reports whether it could: their content is known for a while only.
func (t *templates) again(ctx context.Context, names []string) (bool, error) {
	for _, name := range names {
		in, ok := t.contents.get(name)
		if !ok {
			return false, nil
		}
		e := t.locked(name)
		e.id = ""
		e.Unlock()
		if err := t.ensure(ctx, in); err != nil {
			return false, err
		}
	}
	return true, nil
}

// sweep deletes the templates that were not used lately. What cannot be deleted is tried again at the next sweep. The first sweep takes over
// those of a former process.
func (t *templates) sweep(ctx context.Context) error {
	if err := t.hydrate(ctx); err != nil {
		return err
	}
	t.mu.Lock()
	names := make([]string, 0, len(t.byName))
	for name := range t.byName {
		names = append(names, name)
	}
	t.mu.Unlock()
	var errs []error
	for _, name := range names {
		errs = append(errs, t.expire(ctx, name))
	}
	return errors.Join(errs...)
}

func (t *templates) expire(ctx context.Context, name string) error {
	e := t.locked(name)
	defer e.Unlock()
	if t.clock.Now().Before(e.until) {
		return nil
	}
	if e.id != "" {
		_, err := t.api.DeleteLaunchTemplate(ctx, &ec2.DeleteLaunchTemplateInput{LaunchTemplateId: &e.id})
		if err != nil && code(err) != codeTemplateIDMissing {
			return fmt.Errorf("deleting launch template %s: %w", name, err)
		}
		t.log.DebugContext(ctx, "deleted launch template", "name", name)
	}
	e.gone = true
	t.mu.Lock()
	delete(t.byName, name)
	t.mu.Unlock()
	return nil
}

// hydrate takes over the templates of a former process, so that they are used again or swept. It does so once.
func (t *templates) hydrate(ctx context.Context) error {
	t.mu.Lock()
	done := t.hydrated
	t.mu.Unlock()
	if done {
		return nil
	}
	err := t.each(ctx, []et.Filter{filter("tag:"+awsv1.TagClusterName, t.cluster)}, func(name, id string) error {
		e := t.locked(name)
		defer e.Unlock()
		if e.id == "" {
			e.id, e.until = id, t.clock.Now().Add(keepTemplate)
		}
		return nil
	})
	t.mu.Lock()
	defer t.mu.Unlock()
	t.hydrated = t.hydrated || err == nil
	return err
}

// release deletes the templates of a class. One that is gone already is a success.
func (t *templates) release(ctx context.Context, class string) error {
	filters := []et.Filter{filter("tag:"+awsv1.TagClusterName, t.cluster), filter("tag:"+awsv1.TagEC2NodeClass, class)}
	return t.each(ctx, filters, func(name, _ string) error {
		e := t.locked(name)
		defer e.Unlock()
		_, err := t.api.DeleteLaunchTemplate(ctx, &ec2.DeleteLaunchTemplateInput{LaunchTemplateName: &name})
		if err != nil && code(err) != codeTemplateNotFound {
			return fmt.Errorf("deleting launch template %s: %w", name, err)
		}
		e.id = ""
		return nil
	})
}

// each calls do for every template that passes the filters, and goes on after errors.
func (t *templates) each(ctx context.Context, filters []et.Filter, do func(name, id string) error) error {
	pages := ec2.NewDescribeLaunchTemplatesPaginator(t.api, &ec2.DescribeLaunchTemplatesInput{Filters: filters, MaxResults: new(int32(200))})
	var errs []error
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return errors.Join(append(errs, fmt.Errorf("listing launch templates: %w", err))...)
		}
		for _, lt := range page.LaunchTemplates {
			errs = append(errs, do(val(lt.LaunchTemplateName), val(lt.LaunchTemplateId)))
		}
	}
	return errors.Join(errs...)
}
