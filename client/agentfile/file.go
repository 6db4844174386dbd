// Package agentfile reads agent files: a prompt in Markdown after a YAML frontmatter, whose sandbox block configures the
// agent's use of Belljar (docs/compatibility.md#agent-files).
//
//	---
//	model: openai/gpt-4o
//	sandbox:
//	  mode: code
//	  runtime: python
//	  limits: {memory_mb: 2048, timeout_seconds: 600}
//	---
//	You are a Python developer …
//
// [Parse] reads a file, [Sandbox.Tools] names the tools for its model, and [Sandbox.Toolset] returns the settings for a
// run of the agent. A setting that Belljar does not support is an error; none is ignored.
package agentfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/belljar/belljar"
)

// Limits of an agent file, in bytes.
const (
	MaxBytes            = 1 << 20  // of the whole file
	MaxFrontmatterBytes = 64 << 10 // of the frontmatter
)

// maxNodes limits the number of values in a frontmatter with its aliases expanded.
const maxNodes = 10_000

// File is an agent file.
type File struct {
	// Sandbox is the sandbox block; nil if there is none.
	Sandbox *Sandbox
	// Meta is the mapping of all other keys, for Meta.Decode; nil if there are none.
	Meta *yaml.Node
	// Body is the prompt: the text after the frontmatter, or the whole file if it has none.
	Body string
}

// Parse parses an agent file. The error is [belljar.CodeInvalidRequest], or [belljar.CodeTooLarge] for more than MaxBytes.
// It lists every problem with its line; details.problems has them one by one.
func Parse(r io.Reader) (File, error) {
	raw, err := io.ReadAll(io.LimitReader(r, MaxBytes+1))
	if err != nil {
		return File{}, &belljar.Error{Code: belljar.CodeInvalidRequest, Message: "the agent file cannot be read", Err: err}
	}
	if len(raw) > MaxBytes {
		e := refused("the agent file is longer than %d bytes", MaxBytes)
		e.Code = belljar.CodeTooLarge
		return File{}, e
	}
	text := strings.TrimPrefix(string(raw), "\uFEFF")
	if !utf8.ValidString(text) {
		e := refused("the agent file is not UTF-8 text")
		e.Hint = "save it as UTF-8"
		return File{}, e
	}
	front, line, body, err := cut(text)
	if err != nil {
		return File{}, err
	}
	if front == "" {
		return File{Body: body}, nil
	}
	if len(front) > MaxFrontmatterBytes {
		return File{}, refused("the frontmatter is longer than %d bytes", MaxFrontmatterBytes)
	}
	root, err := decode(front, line)
	if err != nil {
		return File{}, err
	}
	f := File{Body: body}
	if root == nil {
		return f, nil
	}
	meta := *root
	meta.Content = nil
	p := &problems{}
	seen := map[string]int{}
	for i := 0; i+1 < len(root.Content); i += 2 {
		key, value := resolve(root.Content[i]), root.Content[i+1]
		switch {
		case key.Kind == yaml.ScalarNode && twice(p, seen, "", key):
		case key.Value == "<<" && merges(value, "sandbox"):
			p.add(key, "sandbox", "write it out", "sandbox cannot come from a merged mapping")
		case key.Kind == yaml.ScalarNode && key.Value == "sandbox":
			f.Sandbox = readSandbox(p, value)
		default:
			meta.Content = append(meta.Content, root.Content[i], value)
		}
	}
	if len(meta.Content) > 0 {
		f.Meta = &meta
	}
	if err := p.error(); err != nil {
		return File{}, err
	}
	return f, nil
}

// merges reports whether a value of the merge key << contains a key.
func merges(n *yaml.Node, name string) bool {
	n = resolve(n)
	for i, child := range n.Content {
		if n.Kind == yaml.SequenceNode && merges(child, name) {
			return true
		}
		if n.Kind == yaml.MappingNode && i%2 == 0 {
			key := resolve(child)
			if key.Value == name || key.Value == "<<" && merges(n.Content[i+1], name) {
				return true
			}
		}
	}
	return false
}

// cut splits a file. front is the frontmatter without its dashes, which starts at line; it is "" if there is none.
func cut(text string) (front string, line int, body string, err error) {
	at, number, opened := 0, 0, false
	begin, first := 0, 0
	for piece := range strings.Lines(text) {
		number++
		at += len(piece)
		content := strings.TrimRight(piece, " \t\r\n")
		switch {
		case !opened && content == "":
		case !opened && content != "---":
			return "", 0, text, nil
		case !opened:
			opened, begin, first = true, at, number
		case content == "---":
			// The line break makes an empty frontmatter different from none.
			return text[begin:at-len(piece)] + "\n", first + 1, text[at:], nil
		}
	}
	if !opened {
		return "", 0, text, nil
	}
	e := refused("line %d: the frontmatter has no end", first)
	e.Hint = "put a line of three dashes (---) after it; a rule at the beginning of a text without frontmatter can be ***"
	return "", 0, "", e
}

// decode returns the mapping of a frontmatter, nil if it is empty. line is its first line.
func decode(front string, line int) (*yaml.Node, error) {
	// The empty lines make the decoder's line numbers those of the file.
	in := yaml.NewDecoder(strings.NewReader(strings.Repeat("\n", line-1) + front))
	var doc yaml.Node
	switch err := in.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return nil, nil
	case err != nil:
		return nil, refused("the frontmatter is not YAML: %s", strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if err := in.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, refused("the frontmatter has more than one document")
	}
	if len(doc.Content) == 0 || null(doc.Content[0]) {
		return nil, nil
	}
	root := doc.Content[0]
	if root.Kind != yaml.MappingNode {
		return nil, refused("line %d: the frontmatter must map keys to values", root.Line)
	}
	if _, err := countNodes(root, map[*yaml.Node]int{}); err != nil {
		return nil, err
	}
	return root, nil
}

// countNodes counts the values of a node with its aliases expanded, so that decoding it later takes bounded memory.
func countNodes(n *yaml.Node, known map[*yaml.Node]int) (int, error) {
	const pending = -1
	switch w := known[n]; {
	case w == pending:
		return 0, refused("line %d: an alias contains itself", n.Line)
	case w > 0:
		return w, nil
	}
	known[n] = pending
	children := n.Content
	if n.Kind == yaml.AliasNode {
		children = []*yaml.Node{n.Alias}
	}
	sum := 1
	for _, child := range children {
		w, err := countNodes(child, known)
		if err != nil {
			return 0, err
		}
		if sum += w; sum > maxNodes {
			return 0, refused("line %d: the frontmatter has more than %d values", n.Line, maxNodes)
		}
	}
	known[n] = sum
	return sum, nil
}

// refused returns an error about the file as a whole.
func refused(format string, args ...any) *belljar.Error {
	return &belljar.Error{Code: belljar.CodeInvalidRequest, Message: fmt.Sprintf(format, args...)}
}

// problems collects the errors of a file, in the order of its lines.
type problems struct {
	lines []string
	first *belljar.Error
}

// add adds a problem. field is the full path of the key.
func (p *problems) add(n *yaml.Node, field, hint, format string, args ...any) {
	text := fmt.Sprintf("line %d: %s", n.Line, fmt.Sprintf(format, args...))
	if p.first == nil {
		p.first = &belljar.Error{Code: belljar.CodeInvalidRequest, Details: map[string]any{"field": field, "line": n.Line}, Hint: hint}
	}
	p.lines = append(p.lines, text)
}

// error returns the error for all problems; nil if there are none.
func (p *problems) error() error {
	if p.first == nil {
		return nil
	}
	e := p.first
	e.Details["problems"] = p.lines
	e.Message = "agent file: " + strings.Join(p.lines, "; ")
	return e
}

// short shortens a text for an error.
func short(text string) string {
	const limit = 64
	if len(text) > limit {
		text = string(bytes.ToValidUTF8([]byte(text[:limit]), nil)) + "…"
	}
	return text
}
