package workspace

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
)

// Templates are the programs that clients may start, by name. Clients choose only a name and listed values, never a command.
type Templates map[string]Template

// Template is one program.
type Template struct {
	Kind       string               `json:"kind"`              // pty | chat
	Command    []string             `json:"command,omitempty"` // of a pty; empty is the session's shell
	Env        map[string]string    `json:"env,omitempty"`
	Parameters map[string]Parameter `json:"parameters,omitempty"`
	// Start and Resume are further arguments of a chat's program: Start for a new chat, Resume for a new program in an existing chat.
	// {chat} in them is the chat's id, a UUID.
	Start  []string `json:"start,omitempty"`
	Resume []string `json:"resume,omitempty"`
}

// Parameter is a query parameter that adds arguments. Its value must be one of Values, or match Pattern completely; it replaces
// {value} in the arguments.
type Parameter struct {
	Values    []string `json:"values,omitempty"`
	Pattern   string   `json:"pattern,omitempty"` // RE2
	Arguments []string `json:"arguments"`

	matches *regexp.Regexp
}

const (
	templatePTY  = "pty"
	templateChat = "chat"
	chatMark     = "{chat}"
	valueMark    = "{value}"
	maxValue     = 256 // bytes of a parameter's value
	fileOption   = "file"
)

// ParseTemplates reads templates: a JSON object of names and templates; "" is the session's shell.
func ParseTemplates(text string) (Templates, error) {
	if text == "" {
		return Templates{"shell": {Kind: templatePTY}}, nil
	}
	var list Templates
	if err := api.Decode([]byte(text), &list); err != nil {
		return nil, err
	}
	names := regexp.MustCompile(`\A[a-z][a-z0-9_-]{0,63}\z`)
	for _, name := range slices.Sorted(maps.Keys(list)) {
		t := list[name]
		if !names.MatchString(name) {
			return nil, fmt.Errorf("template %.80q: a name is lower-case letters, digits, _ and -, and begins with a letter", name)
		}
		if err := t.check(); err != nil {
			return nil, fmt.Errorf("template %s: %w", name, err)
		}
		list[name] = t
	}
	return list, nil
}

func (t *Template) check() error {
	switch {
	case t.Kind != templatePTY && t.Kind != templateChat:
		return fmt.Errorf("kind is pty or chat, not %.40q", t.Kind)
	case t.Kind == templateChat && len(t.Command) == 0:
		return fmt.Errorf("a chat needs a command")
	case t.Kind == templatePTY && len(t.Start)+len(t.Resume) > 0:
		return fmt.Errorf("start and resume are for chats")
	case t.Kind == templatePTY && len(t.Env) > 0:
		return fmt.Errorf("env is for chats")
	case len(t.Command) == 0 && len(t.Parameters) > 0:
		return fmt.Errorf("parameters need a command")
	}
	for name, p := range t.Parameters {
		if (len(p.Values) == 0) == (p.Pattern == "") {
			return fmt.Errorf("parameter %s has either values or a pattern", name)
		}
		if !slices.Contains(optionNames(), name) {
			return fmt.Errorf("parameter %s is not known; there are %s", name, strings.Join(optionNames(), ", "))
		}
		if len(p.Arguments) == 0 {
			return fmt.Errorf("parameter %s has no arguments", name)
		}
		if p.Pattern != "" {
			re, err := regexp.Compile(`\A(?:` + p.Pattern + `)\z`)
			if err != nil {
				return fmt.Errorf("parameter %s: %w", name, err)
			}
			p.matches = re
			t.Parameters[name] = p
		}
	}
	return nil
}

// names returns the names of the templates of a kind.
func (t Templates) names(kind string) []string {
	list := []string{}
	for _, name := range slices.Sorted(maps.Keys(t)) {
		if t[name].Kind == kind {
			list = append(list, name)
		}
	}
	return list
}

// of returns the terminal template that a command comes from: of several, the one with the most of it. "shell" stands for none.
func (t Templates) of(command []string) string {
	best := ""
	for _, name := range t.names(templatePTY) {
		own := len(t[name].Command)
		if own <= len(command) && slices.Equal(t[name].Command, command[:own]) && (best == "" || own > len(t[best].Command)) {
			best = name
		}
	}
	return cmp.Or(best, "shell")
}

// optionNames are the query parameters that templates may use.
func optionNames() []string {
	return []string{"allowed_tools", "disallowed_tools", fileOption, "max_budget_usd", "max_thinking_tokens", "max_turns", "mode", "model"}
}

// options are the parameters of a request, by their names in snake case. There may be several files, separated by commas.
type options map[string]string

// optionsOf returns the options in a query, also in camel case. It omits those that the template does not have.
func optionsOf(t Template, q url.Values) options {
	out := options{}
	for name := range t.Parameters {
		v := cmp.Or(q.Get(name), q.Get(camel(name)))
		if name == fileOption {
			v = strings.Join(filesOf(q), ",")
		}
		if v != "" {
			out[name] = v
		}
	}
	if m, ok := map[string]string{"ask": "default", "act": "acceptEdits"}[out["mode"]]; ok {
		out["mode"] = m
	}
	return out
}

// filesOf returns the files in a query without duplicates: each file=, or else those of files=.
func filesOf(q url.Values) (list []string) {
	given := q[fileOption]
	if len(given) == 0 {
		given = strings.Split(q.Get("files"), ",")
	}
	for _, f := range given {
		if f = strings.TrimSpace(f); f != "" && !slices.Contains(list, f) {
			list = append(list, f)
		}
	}
	return list
}

// camel returns a name in camel case.
func camel(name string) string {
	parts := strings.Split(name, "_")
	for i, p := range parts[1:] {
		parts[i+1] = strings.ToUpper(p[:1]) + p[1:]
	}
	return strings.Join(parts, "")
}

// command returns the arguments of a template with these options. chat is the id of a chat, and more its further arguments.
func (t Template) command(o options, chat string, more []string) ([]string, error) {
	out := slices.Clone(t.Command)
	for _, name := range slices.Sorted(maps.Keys(o)) {
		p, values := t.Parameters[name], []string{o[name]}
		if name == fileOption {
			values = strings.Split(o[name], ",")
		}
		for _, v := range values {
			_, outside := place(v)
			if len(o[name]) > maxValue || !p.allows(v) || name == fileOption && outside != nil {
				return nil, &belljar.Error{
					Code: belljar.CodeInvalidRequest, Message: fmt.Sprintf("%s %.80q is not allowed", name, v), Details: map[string]any{"field": name},
				}
			}
			for _, a := range p.Arguments {
				out = append(out, strings.ReplaceAll(a, valueMark, v))
			}
		}
	}
	for _, a := range more {
		out = append(out, strings.ReplaceAll(a, chatMark, chat))
	}
	return out, nil
}

// with returns options with those of set that the template allows. An empty value removes an option.
func (t Template) with(o, set options) options {
	for name, v := range set {
		next := maps.Clone(o)
		if next[name] = v; v == "" {
			delete(next, name)
		}
		if _, err := t.command(next, "", nil); err == nil {
			o = next
		}
	}
	return o
}

// allows reports whether a parameter may have a value.
func (p Parameter) allows(v string) bool {
	if p.matches != nil {
		return p.matches.MatchString(v) && !strings.HasPrefix(v, "-") && !strings.ContainsRune(v, 0)
	}
	return slices.Contains(p.Values, v)
}
