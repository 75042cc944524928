package kube

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// maxFile bounds one input file: 20,000 pods with all their fields are about 200 MiB of YAML.
const maxFile = 512 << 20

// BadInput is an error in a file, with the line it is at.
type BadInput struct {
	File string
	Line int
	Err  error
}

func (e *BadInput) Error() string { return fmt.Sprintf("%s:%d: %v", e.File, e.Line, e.Err) }

// Unwrap returns the cause.
func (e *BadInput) Unwrap() error { return e.Err }

// ReadFiles reads the objects in a file, or in all .yaml, .yml and .json files below a directory. A file may hold many documents, and lists as
// kubectl writes them. Kinds nobody knows are left out with a note. All bad inputs are reported together, each as a *BadInput.
func ReadFiles(path string) (*Objects, error) {
	scheme, err := NewScheme()
	if err != nil {
		return nil, err
	}
	files, err := inputs(path)
	if err != nil {
		return nil, err
	}
	r := newFileReader(scheme)
	for _, file := range files {
		data, err := os.ReadFile(file) //nolint:gosec // the snapshot the user names
		if err != nil {
			return nil, fmt.Errorf("reading the snapshot: %w", err)
		}
		r.read(file, data)
	}
	return r.finish(path)
}

// ReadBytes reads objects from memory; name stands for the file in errors and notes.
func ReadBytes(name string, data []byte) (*Objects, error) {
	scheme, err := NewScheme()
	if err != nil {
		return nil, err
	}
	r := newFileReader(scheme)
	r.read(name, data)
	return r.finish(name)
}

// inputs lists the files to read, in a stable order.
func inputs(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("reading the snapshot: %w", err)
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	var out []string
	err = filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		switch filepath.Ext(p) {
		case ".yaml", ".yml", ".json":
		default:
			return nil
		}
		if d.IsDir() {
			return nil
		}
		if info, err := d.Info(); err == nil && info.Size() > maxFile {
			return fmt.Errorf("%s is larger than %d MiB; split it", p, maxFile>>20)
		}
		out = append(out, p)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading the snapshot: %w", err)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("reading the snapshot: %s holds no .yaml, .yml or .json file", path)
	}
	slices.Sort(out)
	return out, nil
}

// fileReader collects objects and errors over several files.
type fileReader struct {
	scheme  *runtime.Scheme
	out     *Objects
	errs    []error
	ignored map[string]int
}

func newFileReader(scheme *runtime.Scheme) *fileReader {
	return &fileReader{scheme: scheme, out: &Objects{}, ignored: map[string]int{}}
}

// finish reports all errors, else the objects with notes about what was left out.
func (r *fileReader) finish(where string) (*Objects, error) {
	if err := errors.Join(r.errs...); err != nil {
		return nil, err
	}
	for _, kind := range slices.Sorted(maps.Keys(r.ignored)) {
		if strings.HasPrefix(kind, "cli.karp.sh/") {
			continue // the plugin's own files beside the objects
		}
		text := fmt.Sprintf("%d object(s) of kind %s left out: karp does not read this kind", r.ignored[kind], kind)
		r.out.Notes = append(r.out.Notes, Note{Where: where, Text: text})
	}
	return r.out, nil
}

// read takes one file apart.
func (r *fileReader) read(file string, data []byte) {
	for _, doc := range documents(data) {
		body, err := toJSON(doc.text)
		if err != nil {
			r.errs = append(r.errs, &BadInput{File: file, Line: doc.line + yamlLine(err), Err: plain(err)})
			continue
		}
		if bytes.Equal(body, []byte("null")) {
			continue
		}
		if err := r.object(body, metav1.TypeMeta{}); err != nil {
			r.errs = append(r.errs, &BadInput{File: file, Line: doc.line, Err: err})
		}
	}
}

// object decodes one object, or the items of a list. Outer is what a typed list says about its items, which then need not say it themselves.
func (r *fileReader) object(body []byte, outer metav1.TypeMeta) error {
	var head struct {
		metav1.TypeMeta `json:",inline"`
		Metadata        struct {
			Name string `json:"name"`
		} `json:"metadata"`
		Items []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(body, &head); err != nil {
		return fmt.Errorf("not a Kubernetes object: %w", err)
	}
	if head.Kind == "" {
		head.TypeMeta = outer
	}
	if head.Kind == "" || head.APIVersion == "" {
		return errors.New("not a Kubernetes object: apiVersion or kind is missing")
	}
	if kind, ok := strings.CutSuffix(head.Kind, "List"); ok {
		inner := metav1.TypeMeta{APIVersion: head.APIVersion, Kind: kind}
		if kind == "" {
			inner = metav1.TypeMeta{}
		}
		for i, item := range head.Items {
			if err := r.object(item, inner); err != nil {
				return fmt.Errorf("items[%d]: %w", i, err)
			}
		}
		return nil
	}
	gvk := schema.FromAPIVersionAndKind(head.APIVersion, head.Kind)
	empty, err := r.scheme.New(gvk)
	if err != nil {
		r.ignored[head.APIVersion+" "+head.Kind]++
		return nil
	}
	obj, ok := empty.(client.Object)
	if !ok {
		r.ignored[head.APIVersion+" "+head.Kind]++
		return nil
	}
	if err := json.Unmarshal(body, obj); err != nil {
		return fmt.Errorf("%s: %w", strings.TrimSpace(head.Kind+" "+head.Metadata.Name), wrongType(err))
	}
	if obj.GetName() == "" {
		return fmt.Errorf("%s: metadata.name is missing", head.Kind)
	}
	if err := unknownValues(obj); err != nil {
		return fmt.Errorf("%s %s: %s", head.Kind, obj.GetName(), strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	obj.GetObjectKind().SetGroupVersionKind(gvk)
	complete(head.Kind, obj)
	r.out.add(obj)
	return nil
}

// complete fills in what the API server would have: the namespace, and a UID that other objects are told apart by.
func complete(kind string, obj client.Object) {
	switch kind {
	case PodKind, DaemonSetKind, PersistentVolumeClaimKind, PodDisruptionBudgetKind:
		if obj.GetNamespace() == "" {
			obj.SetNamespace(metav1.NamespaceDefault)
		}
	}
	if obj.GetUID() == "" {
		obj.SetUID(types.UID(strings.TrimSuffix(kind+"/"+obj.GetNamespace(), "/") + "/" + obj.GetName()))
	}
}

// document is one document of a file; line counts from 1.
type document struct {
	text []byte
	line int
}

// documents splits a file at the lines that begin with "---". JSON is one document.
func documents(data []byte) []document {
	if isJSON(data) {
		return []document{{data, 1}}
	}
	var out []document
	start, line, first := 0, 1, 1
	for at := 0; at < len(data); line++ {
		end := len(data)
		if i := bytes.IndexByte(data[at:], '\n'); i >= 0 {
			end = at + i + 1
		}
		if text := data[at:end]; bytes.HasPrefix(text, []byte("---")) && (len(bytes.TrimSpace(text)) == 3 || bytes.HasPrefix(text, []byte("--- "))) {
			out = append(out, document{data[start:at], first})
			start, first = end, line+1
			if rest := bytes.TrimSpace(text[3:]); len(rest) > 0 && rest[0] != '#' && rest[0] != '%' {
				// A document may begin on the line of its marker.
				start, first = at+3, line
			}
		}
		at = end
	}
	return append(out, document{data[start:], first})
}

func isJSON(data []byte) bool {
	trimmed := bytes.TrimSpace(data)
	return len(trimmed) > 0 && trimmed[0] == '{' && json.Valid(trimmed)
}

// toJSON converts a document; JSON passes as it is, which is much faster.
func toJSON(text []byte) ([]byte, error) {
	if isJSON(text) {
		return text, nil
	}
	return yaml.YAMLToJSON(text)
}

var lineInError = regexp.MustCompile(`line (\d+): `)

// yamlLine is the number of lines from the start of the document to where the YAML parser failed.
func yamlLine(err error) int {
	m := lineInError.FindStringSubmatch(err.Error())
	if m == nil {
		return 0
	}
	n, _ := strconv.Atoi(m[1])
	return max(n-1, 0)
}

// plain takes the parser's own position out of its message, which counts from the start of the document.
func plain(err error) error {
	text := lineInError.ReplaceAllString(err.Error(), "")
	text = strings.TrimPrefix(text, "error converting YAML to JSON: ")
	return fmt.Errorf("not valid YAML: %s", strings.TrimPrefix(text, "yaml: "))
}
