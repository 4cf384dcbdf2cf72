package ui

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// object is one JSON object with the order of its fields kept, which a map
// would lose.
type object struct {
	names  []string
	values map[string]any
}

// document is the JSON form of a view's data, and that form taken apart.
type document struct {
	plain []byte // compact, as encoded
	text  []byte // the same with its unsafe runes escaped
	list  bool
	rows  []object
	raw   []json.RawMessage // each row's own text
}

func newDocument(data any) (document, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false) // keys hold < and & as often as not
	if err := enc.Encode(data); err != nil {
		return document{}, fmt.Errorf("encode the result: %w", err)
	}
	doc := document{plain: bytes.TrimSpace(buf.Bytes())}
	doc.text = escapeUnsafe(doc.plain)
	switch {
	case bytes.HasPrefix(doc.text, []byte("[")):
		doc.list = true
		if err := json.Unmarshal(doc.text, &doc.raw); err != nil {
			return document{}, fmt.Errorf("take the result apart: %w", err)
		}
	case bytes.Equal(doc.text, []byte("null")):
		// A nil slice is an empty list, never null.
		doc.list, doc.plain, doc.text = true, []byte("[]"), []byte("[]")
	default:
		doc.raw = []json.RawMessage{doc.text}
	}
	for _, raw := range doc.raw {
		row, err := decodeObject(raw)
		if err != nil {
			return document{}, fmt.Errorf("take the result apart: %w", err)
		}
		doc.rows = append(doc.rows, row)
	}
	return doc, nil
}

// decodeObject keeps numbers as their digits: a float64 cannot hold a token
// above 2^53 (K-5.4).
func decodeObject(raw []byte) (object, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return object{}, errors.Join(errors.New("a row is not an object"), err)
	}
	o := object{values: map[string]any{}}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return object{}, fmt.Errorf("read a field's name: %w", err)
		}
		var value any
		if err := dec.Decode(&value); err != nil && !errors.Is(err, io.EOF) {
			return object{}, fmt.Errorf("read the field %v: %w", name, err)
		}
		o.names = append(o.names, name.(string))
		o.values[name.(string)] = value
	}
	return o, nil
}

// text returns a field as plain text: "" for none, compact JSON for what is
// no scalar.
func (o object) text(field string) string {
	switch v := o.values[field].(type) {
	case nil:
		return ""
	case string:
		return v
	case json.Number:
		return v.String()
	case bool:
		if v {
			return "yes"
		}
		return "no"
	default:
		b, err := json.Marshal(v)
		if err != nil {
			return fmt.Sprint(v)
		}
		return string(b)
	}
}
