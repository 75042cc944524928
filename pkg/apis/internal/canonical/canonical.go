// Package canonical turns API values into texts that are equal when the values mean the same, and hashes them.
package canonical

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// Hash is the hash of the canonical text of a value, as an unsigned decimal number of 64 bits.
func Hash(value any) (string, error) {
	text, err := Text(value)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(text))
	return strconv.FormatUint(binary.BigEndian.Uint64(sum[:8]), 10), nil
}

// Text is the canonical text of a value that can be written as JSON: keys are sorted; lists are sets, that is sorted and
// without repetition; null and empty texts, lists and objects do not appear. false and 0 do, as far as the JSON has them.
func Text(value any) (string, error) {
	raw, err := json.Marshal(value)
	if err != nil {
		return "", fmt.Errorf("encoding %T: %w", value, err)
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var tree any
	if err := d.Decode(&tree); err != nil {
		return "", fmt.Errorf("decoding %T: %w", value, err)
	}
	return write(tree), nil
}

// write returns "" for what does not count.
func write(tree any) string {
	switch v := tree.(type) {
	case map[string]any:
		return writeObject(v)
	case []any:
		return writeSet(v)
	case string:
		if v == "" {
			return ""
		}
		return strconv.Quote(v)
	case nil:
		return ""
	default: // bool, json.Number
		return fmt.Sprint(v)
	}
}

func writeObject(object map[string]any) string {
	var b bytes.Buffer
	for _, key := range slices.Sorted(maps.Keys(object)) {
		if text := write(object[key]); text != "" {
			fmt.Fprintf(&b, "%q:%s,", key, text)
		}
	}
	if b.Len() == 0 {
		return ""
	}
	return "{" + b.String() + "}"
}

func writeSet(list []any) string {
	var items []string
	for _, item := range list {
		if text := write(item); text != "" {
			items = append(items, text)
		}
	}
	if len(items) == 0 {
		return ""
	}
	slices.SortFunc(items, cmp.Compare[string])
	var b bytes.Buffer
	for _, item := range slices.Compact(items) {
		b.WriteString(item)
		b.WriteByte(',')
	}
	return "[" + b.String() + "]"
}
