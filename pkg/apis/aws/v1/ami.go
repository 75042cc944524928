package v1

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Alias is an AMISelectorTerm.Alias taken apart.
type Alias struct {
	Family AMIFamily
	// Version is "latest" or what the family calls its versions.
	Version string
}

// ParseAlias takes an alias apart. The schema admits a second "@", which means nothing and is an error here.
func ParseAlias(text string) (Alias, error) {
	name, version, ok := strings.Cut(text, "@")
	if !ok || version == "" || strings.Contains(version, "@") {
		return Alias{}, fmt.Errorf("reading alias %q: want family@version, with one @", text)
	}
	family := familyOf(name)
	if family == "" {
		return Alias{}, fmt.Errorf("reading alias %q: unknown family %q", text, name)
	}
	return Alias{Family: family, Version: version}, nil
}

// familyOf is the family that an alias names, or "".
func familyOf(name string) AMIFamily {
	for _, f := range []AMIFamily{AL2, AL2023, Bottlerocket, Windows2019, Windows2022, Windows2025} {
		if strings.ToLower(string(f)) == name {
			return f
		}
	}
	return ""
}

// Alias is the text of the alias that selects the class's images, or "".
func (c *EC2NodeClass) Alias() string {
	for _, t := range c.Spec.AMISelectorTerms {
		if t.Alias != "" {
			return t.Alias
		}
	}
	return ""
}

// Family is the family that user data and defaults are made for: AMIFamily, or that of the alias. "" is a class without
// either, which has no spec.
func (c *EC2NodeClass) Family() AMIFamily {
	if c.Spec.AMIFamily != nil {
		return *c.Spec.AMIFamily
	}
	name, _, _ := strings.Cut(c.Alias(), "@")
	return familyOf(name)
}

// Quantity is the size in bytes. The bare units that the schema admits are an error.
func (s VolumeSize) Quantity() (resource.Quantity, error) {
	q, err := resource.ParseQuantity(string(s))
	if err != nil {
		return resource.Quantity{}, fmt.Errorf("reading volumeSize %q: want a number and a unit, for example 20Gi: %w", s, err)
	}
	if q.Sign() <= 0 { // a bare unit reads as 0
		return resource.Quantity{}, fmt.Errorf("reading volumeSize %q: want a number and a unit, for example 20Gi", s)
	}
	return q, nil
}
