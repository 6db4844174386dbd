package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
)

// decoded is a tool's work on arguments of a type.
func decoded[In any](do func(c *call, in In) (*reply, error)) func(*call, []byte) (*reply, error) {
	decode := api.DecoderOf[In]()
	known := "its arguments are " + strings.Join(argumentsOf(reflect.TypeFor[In]()), ", ")
	return func(c *call, raw []byte) (*reply, error) {
		var in In
		raw, err := tidied(raw)
		if err == nil {
			err = decode(raw, &in)
		}
		if err != nil {
			return nil, aboutArguments(err, known)
		}
		return do(c, in)
	}
}

func argumentsOf(t reflect.Type) (names []string) {
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
}

// tidied are arguments with whole numbers written as such. None are an empty object.
func tidied(raw []byte) ([]byte, error) {
	if given := string(bytes.TrimSpace(raw)); given == "" || given == "null" {
		return []byte("{}"), nil
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) != nil {
		return raw, nil // the decoder's error names its type
	}
	changed := false
	for name, value := range fields {
		if n, ok := integer(json.Number(value)); ok && string(n) != string(value) {
			fields[name], changed = json.RawMessage(n), true
		}
	}
	if !changed {
		return raw, nil
	}
	return json.Marshal(fields)
}

// aboutArguments tells in words of the tools why arguments cannot be taken. known says which there are.
func aboutArguments(err error, known string) error {
	var e *belljar.Error
	if !errors.As(err, &e) {
		return err
	}
	said := *e
	said.Message = strings.Replace(e.Message, "the body", "the arguments", 1)
	said.Message = strings.Replace(said.Message, "unknown field", "unknown argument", 1)
	field, _ := e.Details["field"].(string)
	switch {
	case strings.HasPrefix(said.Message, "unknown argument") && e.Hint != "":
		said.Hint = e.Hint + "? " + known
	case strings.HasPrefix(said.Message, "unknown argument"), field == "":
		said.Hint = known
	case (field == "cmd" || field == "command") && e.Details["expected"] == "array":
		said.Hint = `give a list, as ["python3", "main.py"], or ["sh", "-c", "…"] for a line of shell`
	}
	return &said
}
