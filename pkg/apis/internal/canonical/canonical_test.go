package canonical_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/karp-sh/karp/pkg/apis/internal/canonical"
)

func TestText(t *testing.T) {
	tests := map[string]struct {
		value any
		want  string
	}{
		"keys are sorted":      {map[string]any{"b": 1, "a": "x"}, `{"a":"x","b":1,}`},
		"lists are sets":       {[]any{"b", "a", "b"}, `["a","b",]`},
		"objects in lists":     {[]any{map[string]any{"k": 2}, map[string]any{"k": 1}}, `[{"k":1,},{"k":2,},]`},
		"empty does not count": {map[string]any{"a": "", "b": nil, "c": []any{}, "d": map[string]any{"e": ""}, "f": []any{""}}, ``},
		"false and 0 do":       {map[string]any{"a": false, "b": 0}, `{"a":false,"b":0,}`},
		"large numbers":        {map[string]any{"a": int64(9007199254740993)}, `{"a":9007199254740993,}`},
		"quotes":               {[]any{`a","b`}, `["a\",\"b",]`},
		"text is not a number": {[]any{"1", 1}, `["1",1,]`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := canonical.Text(tt.value)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("text of %v (-want +got):\n%s", tt.value, diff)
			}
		})
	}
}

func TestUnencodable(t *testing.T) {
	if _, err := canonical.Hash(make(chan int)); err == nil {
		t.Error("a channel was hashed")
	}
}
