package simaws

import (
	"cmp"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/karp-sh/karp/test/simaws/cloud"
)

// bind reads the parameters of a query-protocol request into a struct. The
// struct is the operation's known parameter list: its fields carry tags
//
//	q:"Name[,option]..."
//
// with the options required (its absence is MissingParameter), refuse (a real
// parameter the simulator does not implement: UnsupportedOperation) and member
// (the list is written Name.member.N as in IAM, not Name.N as in EC2).
// A parameter without a field is UnknownParameter; a value that does not parse
// is InvalidParameterValue.
func bind(form url.Values, into any) *cloud.Error {
	root := &param{}
	for key, values := range form {
		if key == "Action" || key == "Version" {
			continue
		}
		if len(values) > 1 {
			return apiError("InvalidParameterCombination", "The parameter '"+key+"' is given more than once")
		}
		root.put(strings.Split(key, "."), values[0])
	}
	return root.structure("", reflect.ValueOf(into).Elem())
}

func apiError(code, message string) *cloud.Error { return &cloud.Error{Code: code, Message: message} }

// A param is a node of the tree the dotted parameter names form.
type param struct {
	value    *string
	children map[string]*param
}

func (p *param) put(path []string, value string) {
	if len(path) == 0 {
		p.value = &value
		return
	}
	if p.children == nil {
		p.children = map[string]*param{}
	}
	child := p.children[path[0]]
	if child == nil {
		child = &param{}
		p.children[path[0]] = child
	}
	child.put(path[1:], value)
}

func (p *param) structure(name string, into reflect.Value) *cloud.Error {
	known := map[string]bool{}
	if err := p.fields(name, into, known); err != nil {
		return err
	}
	if p.value != nil {
		return apiError("InvalidParameterValue", "The parameter "+name+" is a structure")
	}
	for _, key := range slices.Sorted(maps.Keys(p.children)) {
		if !known[key] {
			return apiError("UnknownParameter", "The parameter "+join(name, key)+" is not recognized")
		}
	}
	return nil
}

// fields fills the fields of a struct and those of the structs it embeds.
func (p *param) fields(name string, into reflect.Value, known map[string]bool) *cloud.Error {
	typ := into.Type()
	for i := range typ.NumField() {
		if typ.Field(i).Anonymous {
			if err := p.fields(name, into.Field(i), known); err != nil {
				return err
			}
			continue
		}
		key, options, _ := strings.Cut(typ.Field(i).Tag.Get("q"), ",")
		if key == "" {
			continue
		}
		known[key] = true
		child, full := p.children[key], join(name, key)
		switch {
		case child == nil && strings.Contains(options, "required"):
			return apiError("MissingParameter", "The request must contain the parameter "+full)
		case child == nil:
			continue
		case strings.Contains(options, "refuse"):
			return apiError("UnsupportedOperation", "simaws does not implement the parameter "+full)
		}
		if strings.Contains(options, "member") {
			if child = child.children["member"]; child == nil {
				return apiError("InvalidParameterValue", "The list "+full+" must be written "+full+".member.N")
			}
		}
		if err := child.into(full, into.Field(i)); err != nil {
			return err
		}
	}
	return nil
}

func join(name, key string) string {
	if name == "" {
		return key
	}
	return name + "." + key
}

func (p *param) into(name string, v reflect.Value) *cloud.Error {
	switch {
	case v.Kind() == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return p.into(name, v.Elem())
	case v.Type() == reflect.TypeFor[time.Time]():
		return p.scalar(name, v)
	case v.Kind() == reflect.Struct:
		return p.structure(name, v)
	case v.Kind() == reflect.Slice:
		return p.list(name, v)
	}
	return p.scalar(name, v)
}

func (p *param) list(name string, v reflect.Value) *cloud.Error {
	if p.value != nil {
		if *p.value == "" {
			return nil // an empty list
		}
		return apiError("InvalidParameterValue", "The parameter "+name+" is a list")
	}
	keys := slices.SortedFunc(maps.Keys(p.children), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
	})
	for _, key := range keys {
		if n, err := strconv.Atoi(key); err != nil || n < 0 {
			return apiError("UnknownParameter", "The parameter "+join(name, key)+" is not recognized")
		}
		elem := reflect.New(v.Type().Elem()).Elem()
		if err := p.children[key].into(join(name, key), elem); err != nil {
			return err
		}
		v.Set(reflect.Append(v, elem))
	}
	return nil
}

func (p *param) scalar(name string, v reflect.Value) *cloud.Error {
	if p.children != nil {
		for _, key := range slices.Sorted(maps.Keys(p.children)) {
			return apiError("UnknownParameter", "The parameter "+join(name, key)+" is not recognized")
		}
	}
	text := *p.value
	bad := apiError("InvalidParameterValue", "Value ("+text+") for parameter "+name+" is invalid.")
	if v.Type() == reflect.TypeFor[time.Time]() {
		t, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			return bad
		}
		v.Set(reflect.ValueOf(t))
		return nil
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Bool:
		if text != "true" && text != "false" {
			return bad
		}
		v.SetBool(text == "true")
	case reflect.Int, reflect.Int64:
		n, err := strconv.ParseInt(text, 10, 32)
		if err != nil {
			return bad
		}
		v.SetInt(n)
	case reflect.Float64:
		n, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return bad
		}
		v.SetFloat(n)
	default:
		return apiError("InternalError", "simaws cannot read parameters of kind "+v.Kind().String())
	}
	return nil
}
