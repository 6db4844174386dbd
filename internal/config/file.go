package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxFile is the maximum size of a configuration file, in bytes.
const maxFile = 1 << 20

// readFile reads a YAML file of keys in their short form.
func readFile(path string, c *Config, rows map[string]*row, names []string) (settings []setting, problems []string) {
	f, err := os.Open(path)
	if err != nil {
		return nil, []string{fmt.Sprintf("file %s cannot be read: %v", path, reason(err))}
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, []string{fmt.Sprintf("file %s cannot be read: %v", path, reason(err))}
	}
	raw, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	switch {
	case err != nil:
		return nil, []string{fmt.Sprintf("file %s cannot be read: %v", path, reason(err))}
	case len(raw) > maxFile:
		return nil, []string{fmt.Sprintf("file %s is longer than %d bytes", path, maxFile)}
	}
	settings, problems = parseFile(path, raw, names)
	secrets := slices.ContainsFunc(settings, func(s setting) bool { return rows[s.name].secret })
	c.loose = append(c.loose, checkPrivate(path, info, secrets)...)
	return settings, problems
}

// parseFile parses one YAML mapping. It reads YAML nodes, not Go values, to keep the line of each key and the spelling of numbers.
func parseFile(path string, raw []byte, names []string) (settings []setting, problems []string) {
	var doc yaml.Node
	in := yaml.NewDecoder(bytes.NewReader(raw))
	if err := in.Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, nil // only comments
		}
		return nil, []string{path + ": " + strings.TrimPrefix(err.Error(), "yaml: ")}
	}
	if err := in.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, []string{path + ": has more than one document"}
	}
	if len(doc.Content) == 0 {
		return nil, nil
	}
	root := doc.Content[0]
	if root.Kind == yaml.ScalarNode && root.Tag == "!!null" {
		return nil, nil
	}
	if root.Kind != yaml.MappingNode {
		return nil, []string{fmt.Sprintf("%s:%d: must be a mapping of keys to values", path, root.Line)}
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(root.Content); i += 2 {
		key, value := root.Content[i], root.Content[i+1]
		at := fmt.Sprintf("%s:%d: %s", path, key.Line, key.Value)
		name := strings.ToUpper(key.Value)
		switch {
		case key.Kind != yaml.ScalarNode:
			problems = append(problems, fmt.Sprintf("%s:%d: has a key that is not a word", path, key.Line))
			continue
		case key.Value != strings.ToLower(key.Value) || !slices.Contains(names, name):
			problems = append(problems, unknown(at, strings.TrimPrefix(name, Prefix), names, strings.ToLower))
			continue
		case seen[name] != 0:
			problems = append(problems, fmt.Sprintf("%s is set in line %d already", at, seen[name]))
			continue
		}
		seen[name] = key.Line
		text, err := flat(value)
		if err != nil {
			problems = append(problems, fmt.Sprintf("%s %v", at, err))
			continue
		}
		settings = append(settings, setting{name, text, at, value.Kind == yaml.SequenceNode})
	}
	return settings, problems
}

// flat converts a value to its form in the environment: a scalar as it is, a list as JSON.
func flat(n *yaml.Node) (string, error) {
	switch n.Kind {
	case yaml.ScalarNode:
		if n.Tag == "!!null" {
			return "", nil
		}
		return n.Value, nil
	case yaml.SequenceNode:
		items := []string{}
		for _, item := range n.Content {
			if item.Kind != yaml.ScalarNode || item.Tag == "!!null" && item.Value != "" {
				return "", errors.New("must be a list of plain values")
			}
			items = append(items, item.Value)
		}
		raw, err := json.Marshal(items)
		return string(raw), err
	case yaml.AliasNode:
		return "", errors.New("must not be an alias")
	}
	return "", errors.New("must be a plain value or a list")
}

// reason returns the cause of a read error, without the file's name.
func reason(err error) error {
	var e *os.PathError
	if errors.As(err, &e) {
		return e.Err
	}
	return err
}
