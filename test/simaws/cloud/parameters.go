package cloud

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// Parameter is a parameter of SSM.
type Parameter struct {
	Name, Value string
	Version     int
	At          time.Time
}

// Public tells whether AWS keeps the parameter for everyone.
func (p Parameter) Public() bool { return strings.HasPrefix(p.Name, "/aws/service/") }

// ParameterRecord is SSM's GetParameter.
func (c *Cloud) ParameterRecord(name string) (Parameter, *Error) {
	c.lock()
	defer c.mu.Unlock()
	p := c.params[name]
	if p == nil {
		return Parameter{}, fail("ParameterNotFound", "Parameter %s not found.", name)
	}
	return *p, nil
}

// Parameter is the value of a parameter.
func (c *Cloud) Parameter(name string) (string, *Error) {
	p, err := c.ParameterRecord(name)
	return p.Value, err
}

// ParametersUnder is GetParametersByPath: the parameters right below a path,
// or all below it, by name.
func (c *Cloud) ParametersUnder(path string, recursive bool) ([]Parameter, *Error) {
	c.lock()
	defer c.mu.Unlock()
	if !strings.HasPrefix(path, "/") {
		return nil, fail("ValidationException", "The parameter doesn't meet the parameter name requirements. The parameter name must begin with a forward slash \"/\".")
	}
	base := strings.TrimSuffix(path, "/") + "/"
	var out []Parameter
	for _, name := range slices.Sorted(maps.Keys(c.params)) {
		rest, ok := strings.CutPrefix(name, base)
		if ok && (recursive || !strings.Contains(rest, "/")) {
			out = append(out, *c.params[name])
		}
	}
	return out, nil
}

// SetParameter sets an SSM parameter; an empty value removes it.
func (c *Cloud) SetParameter(name, value string) {
	now := c.lock()
	defer c.mu.Unlock()
	if value == "" {
		delete(c.params, name)
		return
	}
	c.setParameter(name, value, now)
}

func (c *Cloud) setParameter(name, value string, at time.Time) int {
	version := 1
	if old := c.params[name]; old != nil {
		version = old.Version + 1
	}
	c.params[name] = &Parameter{Name: name, Value: value, Version: version, At: at}
	return version
}

// PutParameter is PutParameter.
func (c *Cloud) PutParameter(name, value string, overwrite bool) (int, *Error) {
	now := c.lock()
	defer c.mu.Unlock()
	if c.params[name] != nil && !overwrite {
		return 0, fail("ParameterAlreadyExists", "The parameter already exists. To overwrite this value, set the overwrite option in the request to true.")
	}
	return c.setParameter(name, value, now), nil
}

// DeleteParameter is DeleteParameter.
func (c *Cloud) DeleteParameter(name string) *Error {
	c.lock()
	defer c.mu.Unlock()
	if c.params[name] == nil {
		return fail("ParameterNotFound", "Parameter %s not found.", name)
	}
	delete(c.params, name)
	return nil
}
