package cloud

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ExperimentTemplate is a template of the fault injection service.
type ExperimentTemplate struct {
	ID, Description, RoleARN string
	CreatedAt                time.Time
	Targets                  map[string]ExperimentTarget
	Actions                  map[string]ExperimentAction
	Stops                    []StopCondition
	Tags                     Tags
}

// ExperimentTarget selects instances.
type ExperimentTarget struct {
	ResourceType  string             `json:"resourceType"`
	ResourceArns  []string           `json:"resourceArns,omitempty"`
	ResourceTags  map[string]string  `json:"resourceTags,omitempty"`
	Filters       []ExperimentFilter `json:"filters,omitempty"`
	SelectionMode string             `json:"selectionMode"`
	Parameters    map[string]string  `json:"parameters,omitempty"`
}

// ExperimentFilter keeps targets whose attribute has one of the values.
type ExperimentFilter struct {
	Path   string   `json:"path"`
	Values []string `json:"values"`
}

// ExperimentAction is what happens to targets.
type ExperimentAction struct {
	ActionID    string            `json:"actionId"`
	Description string            `json:"description,omitempty"`
	Parameters  map[string]string `json:"parameters,omitempty"`
	Targets     map[string]string `json:"targets,omitempty"`
	StartAfter  []string          `json:"startAfter,omitempty"`
}

// StopCondition ends an experiment; none and alarms, which never fire here.
type StopCondition struct {
	Source string `json:"source"`
	Value  string `json:"value,omitempty"`
}

// Experiment is one that was started.
type Experiment struct {
	ID       string
	Template ExperimentTemplate
	StartAt  time.Time
	EndAt    time.Time
	State    string // running, completed, stopped, failed
	Reason   string
	Targets  []string // instances
	Tags     Tags
}

// The kinds of actions there are, with their kind of target.
func experimentActions() map[string]string {
	return map[string]string{
		"aws:ec2:send-spot-instance-interruptions": "aws:ec2:spot-instance", "aws:ec2:stop-instances": "aws:ec2:instance",
		"aws:ec2:terminate-instances": "aws:ec2:instance", "aws:ec2:reboot-instances": "aws:ec2:instance", "aws:fis:wait": "",
	}
}

// CreateExperimentTemplate is CreateExperimentTemplate.
func (c *Cloud) CreateExperimentTemplate(t ExperimentTemplate, token, params string) (ExperimentTemplate, *Error) {
	now := c.lock()
	defer c.mu.Unlock()
	made, err := once(c, "CreateExperimentTemplate", token, params, func() (ExperimentTemplate, *Error) {
		if err := t.check(); err != nil {
			return t, err
		}
		c.counters["EXT"]++
		t.ID, t.CreatedAt, t.Tags = "EXT"+digest("EXT", strconv.Itoa(c.counters["EXT"]))[:15], now, cloneTags(t.Tags)
		c.plans[t.ID] = &t
		return t, nil
	})
	if err != nil && err.Code == "IdempotentParameterMismatch" {
		err = fail("ConflictException", "The client token was used before with other parameters.")
	}
	return made, err
}

func (t *ExperimentTemplate) check() *Error {
	if len(t.Actions) == 0 || len(t.Stops) == 0 || t.RoleARN == "" {
		return fail("ValidationException", "actions, stopConditions and roleArn must be given")
	}
	for name, a := range t.Actions {
		kind, known := experimentActions()[a.ActionID]
		if !known {
			return fail("ValidationException", "Action %s: simaws does not implement %s", name, a.ActionID)
		}
		if _, err := isoDuration(a.Parameters["durationBeforeInterruption"]); kind == "aws:ec2:spot-instance" && err != nil {
			return fail("ValidationException", "Action %s: durationBeforeInterruption must be between PT2M and PT15M", name)
		}
		for _, target := range a.Targets {
			if want, ok := t.Targets[target]; !ok || want.ResourceType != kind {
				return fail("ValidationException", "Action %s: target %s must have the resource type %s", name, target, kind)
			}
		}
		if kind != "" && len(a.Targets) == 0 {
			return fail("ValidationException", "Action %s needs a target", name)
		}
	}
	for name, target := range t.Targets {
		if _, err := selection(target.SelectionMode, 1); err != nil {
			return fail("ValidationException", "Target %s: selectionMode %q is not ALL, COUNT(n) or PERCENT(n)", name, target.SelectionMode)
		}
		if len(target.ResourceArns) == 0 && len(target.ResourceTags) == 0 && len(target.Filters) == 0 {
			return fail("ValidationException", "Target %s selects nothing: give resourceArns, resourceTags or filters", name)
		}
	}
	return nil
}

// isoDuration reads PT2M, PT90S, PT1H.
func isoDuration(s string) (time.Duration, error) {
	return time.ParseDuration(strings.ToLower(strings.TrimPrefix(s, "PT")))
}

// selection is how many of n a mode selects.
func selection(mode string, n int) (int, error) {
	if mode == "ALL" {
		return n, nil
	}
	kind, rest, _ := strings.Cut(mode, "(")
	count, err := strconv.Atoi(strings.TrimSuffix(rest, ")"))
	switch {
	case err != nil:
		return 0, err
	case kind == "COUNT":
		return min(count, n), nil
	case kind == "PERCENT":
		return n * count / 100, nil
	}
	return 0, strconv.ErrSyntax
}

// ExperimentTemplates lists the templates by id.
func (c *Cloud) ExperimentTemplates() []ExperimentTemplate {
	c.lock()
	defer c.mu.Unlock()
	var out []ExperimentTemplate
	for _, id := range slices.Sorted(maps.Keys(c.plans)) {
		out = append(out, *c.plans[id])
	}
	return out
}

// ExperimentTemplate is GetExperimentTemplate, and with gone its deletion.
func (c *Cloud) ExperimentTemplate(id string, gone bool) (ExperimentTemplate, *Error) {
	c.lock()
	defer c.mu.Unlock()
	t := c.plans[id]
	if t == nil {
		return ExperimentTemplate{}, fail("ResourceNotFoundException", "Experiment template not found: %s", id)
	}
	if gone {
		delete(c.plans, id)
	}
	return *t, nil
}

// StartExperiment is StartExperiment: all actions begin at once.
func (c *Cloud) StartExperiment(template string, tags Tags, token string) (Experiment, *Error) {
	now := c.lock()
	defer c.mu.Unlock()
	return once(c, "StartExperiment", token, template, func() (Experiment, *Error) {
		t := c.plans[template]
		if t == nil {
			return Experiment{}, fail("ResourceNotFoundException", "Experiment template not found: %s", template)
		}
		c.counters["EXP"]++
		e := &Experiment{ID: "EXP" + digest("EXP", strconv.Itoa(c.counters["EXP"]))[:15], Template: *t, StartAt: now, EndAt: now, State: "running", Tags: cloneTags(tags)}
		c.experiments[e.ID] = e
		for _, name := range slices.Sorted(maps.Keys(t.Actions)) {
			c.perform(e, t.Actions[name], now)
		}
		return *e, nil
	})
}

func (c *Cloud) perform(e *Experiment, a ExperimentAction, now time.Time) {
	duration, err := isoDuration(cmp.Or(a.Parameters["durationBeforeInterruption"], a.Parameters["duration"], "PT0S"))
	if err != nil {
		duration = 0
	}
	if end := now.Add(duration); end.After(e.EndAt) {
		e.EndAt = end
	}
	for _, target := range a.Targets {
		hit := c.selectTargets(e.Template.Targets[target], now)
		if len(hit) == 0 {
			e.State, e.Reason = "failed", "Target resolution returned empty set"
			return
		}
		for _, i := range hit {
			e.Targets = append(e.Targets, i.ID)
			c.hit(i, a.ActionID, duration, now)
		}
	}
}

// hit does to an instance what an action does.
func (c *Cloud) hit(i *Instance, action string, before time.Duration, now time.Time) {
	switch action {
	case "aws:ec2:send-spot-instance-interruptions":
		c.instanceEvent("EC2 Instance Rebalance Recommendation", now, i.ID, nil)
		i.warnAt = now.Add(max(0, before-c.opts.InterruptionNotice))
		c.wake = time.Time{}
	case "aws:ec2:terminate-instances":
		i.StateReason = "Client.UserInitiatedShutdown: User initiated shutdown"
		c.shutDown(i, now)
	case "aws:ec2:stop-instances":
		if i.State == Running && i.Lifecycle == "" {
			c.enter(i, Stopping, now)
			i.stoppedAt = now.Add(c.opts.ShutdownDelay)
			c.silence(i)
		}
	}
	c.settle(now)
}

func (c *Cloud) selectTargets(t ExperimentTarget, now time.Time) []*Instance {
	var out []*Instance
	for _, id := range slices.Sorted(maps.Keys(c.instances)) {
		i := c.visible(id, now)
		if i == nil || !i.Alive() || t.ResourceType == "aws:ec2:spot-instance" && i.Lifecycle != "spot" {
			continue
		}
		if len(t.ResourceArns) > 0 && !slices.Contains(t.ResourceArns, c.arn("ec2", "instance/"+id)) {
			continue
		}
		if i.hasTags(t.ResourceTags) && i.passes(t.Filters) {
			out = append(out, i)
		}
	}
	n, err := selection(t.SelectionMode, len(out))
	if err != nil {
		return nil
	}
	return out[:n]
}

func (i *Instance) hasTags(want map[string]string) bool {
	for k, v := range want {
		if have, ok := i.Tags[k]; !ok || have != v {
			return false
		}
	}
	return true
}

func (i *Instance) passes(filters []ExperimentFilter) bool {
	for _, f := range filters {
		have := map[string]string{"State.Name": i.State, "Placement.AvailabilityZone": i.Zone, "InstanceType": i.Type, "SubnetId": i.Subnet, "VpcId": i.VPC}[f.Path]
		if !slices.Contains(f.Values, have) {
			return false
		}
	}
	return true
}

// Experiments lists the experiments by id, in the state they have by now.
func (c *Cloud) Experiments() []Experiment {
	now := c.lock()
	defer c.mu.Unlock()
	var out []Experiment
	for _, id := range slices.Sorted(maps.Keys(c.experiments)) {
		out = append(out, c.experiments[id].at(now))
	}
	return out
}

func (e *Experiment) at(now time.Time) Experiment {
	copied := *e
	if copied.State == "running" && !copied.EndAt.After(now) {
		copied.State, copied.Reason = "completed", "Experiment completed."
	}
	return copied
}

// Experiment is GetExperiment, and with stop StopExperiment: warnings that
// have not been sent are not.
func (c *Cloud) Experiment(id string, stop bool) (Experiment, *Error) {
	now := c.lock()
	defer c.mu.Unlock()
	e := c.experiments[id]
	if e == nil {
		return Experiment{}, fail("ResourceNotFoundException", "Experiment not found: %s", id)
	}
	if stop && e.at(now).State == "running" {
		e.State, e.Reason, e.EndAt = "stopped", "Experiment halted by user.", now
		for _, target := range e.Targets {
			if i := c.instances[target]; i != nil {
				i.warnAt = time.Time{}
			}
		}
	}
	return e.at(now), nil
}
