package agentfile

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/nearest"
)

// reader reads a sandbox block. It reads YAML nodes instead of Go values, so that every error has a line.
type reader struct {
	p  *problems
	at map[string]*yaml.Node // keys by field, for the lines of later errors
}

// readSandbox reads a block in either form: the name of a runtime, or a mapping. null means no sandbox.
func readSandbox(p *problems, n *yaml.Node) *Sandbox {
	r := &reader{p: p, at: map[string]*yaml.Node{"": n}}
	n = resolve(n)
	s := &Sandbox{}
	before := len(p.lines)
	switch {
	case null(n):
		return nil
	case n.Kind == yaml.ScalarNode:
		if r.text("", n, &s.Runtime); s.Runtime == "" && len(p.lines) == before {
			p.add(n, "sandbox", "sandbox: python", "sandbox names no runtime")
		}
		r.at["runtime"] = n
	default:
		r.mapping("", n, r.fields(s))
	}
	if len(p.lines) > before {
		return nil
	}
	for _, i := range s.issues() {
		name, hint := "sandbox."+i.field, i.hint
		p.add(r.where(i.field), name, hint, "%s %v", name, i.err)
	}
	return s
}

// where returns the key of a field, or of its closest parent.
func (r *reader) where(field string) *yaml.Node {
	for r.at[field] == nil && field != "" {
		field = field[:max(strings.LastIndexByte(field, '.'), 0)]
	}
	return r.at[field]
}

// fields returns the function that reads each key of a sandbox.
func (r *reader) fields(s *Sandbox) map[string]func(field string, n *yaml.Node) {
	keys := map[string]func(string, *yaml.Node){
		"mode":          func(f string, n *yaml.Node) { r.text(f, n, (*string)(&s.Mode)) },
		"runtime":       func(f string, n *yaml.Node) { r.text(f, n, &s.Runtime) },
		"image":         func(f string, n *yaml.Node) { r.text(f, n, &s.Image) },
		"template":      func(f string, n *yaml.Node) { r.text(f, n, &s.Template) },
		"session":       func(f string, n *yaml.Node) { r.text(f, n, &s.Session) },
		"allow_network": func(f string, n *yaml.Node) { r.flag(f, n, &s.AllowNetwork) },
		"pip_packages":  func(f string, n *yaml.Node) { r.texts(f, n, &s.PipPackages) },
		"npm_packages":  func(f string, n *yaml.Node) { r.texts(f, n, &s.NpmPackages) },
		"secrets":       func(f string, n *yaml.Node) { r.secrets(f, n, s) },
		"git": func(f string, n *yaml.Node) {
			s.Git = &belljar.GitSpec{}
			r.mapping(f, n, r.repository(s.Git))
		},
		"network": func(f string, n *yaml.Node) {
			r.mapping(f, n, map[string]func(string, *yaml.Node){
				"enabled": func(f string, n *yaml.Node) { r.flag(f, n, &s.Network.Enabled) },
				"allow":   func(f string, n *yaml.Node) { r.texts(f, n, &s.Network.Allow) },
				"presets": func(f string, n *yaml.Node) { r.texts(f, n, &s.Network.Presets) },
			})
		},
	}
	limits := map[string]func(string, *yaml.Node){}
	for _, number := range s.numbers() {
		read := func(f string, n *yaml.Node) { r.number(f, n, number) }
		if name, ok := strings.CutPrefix(number.field, "limits."); ok {
			limits[name] = read
		} else {
			keys[number.field] = read
		}
	}
	keys["limits"] = func(f string, n *yaml.Node) { r.mapping(f, n, limits) }
	return keys
}

// secrets reads a mapping of secrets by their names.
func (r *reader) secrets(field string, n *yaml.Node, s *Sandbox) {
	s.Secrets = map[string]belljar.Secret{}
	names := map[string]func(string, *yaml.Node){}
	if at := resolve(n); at.Kind == yaml.MappingNode {
		for i := 0; i+1 < len(at.Content); i += 2 {
			name := at.Content[i].Value
			names[name] = func(f string, n *yaml.Node) {
				var secret belljar.Secret
				r.mapping(f, n, map[string]func(string, *yaml.Node){
					"from":     func(f string, n *yaml.Node) { r.text(f, n, &secret.From) },
					"host":     func(f string, n *yaml.Node) { r.text(f, n, &secret.Host) },
					"header":   func(f string, n *yaml.Node) { r.text(f, n, &secret.Header) },
					"template": func(f string, n *yaml.Node) { r.text(f, n, &secret.Template) },
				})
				s.Secrets[name] = secret
			}
		}
	}
	r.mapping(field, n, names)
}

// repository returns the function that reads each key of a repository.
func (r *reader) repository(g *belljar.GitSpec) map[string]func(field string, n *yaml.Node) {
	return map[string]func(string, *yaml.Node){
		"url":          func(f string, n *yaml.Node) { r.text(f, n, &g.URL) },
		"ref":          func(f string, n *yaml.Node) { r.text(f, n, &g.Ref) },
		"subdir":       func(f string, n *yaml.Node) { r.text(f, n, &g.Subdir) },
		"secret":       func(f string, n *yaml.Node) { r.text(f, n, &g.Secret) },
		"depth":        func(f string, n *yaml.Node) { r.number(f, n, number{f, &g.Depth, 1, 1 << 30}) },
		"keep_git":     func(f string, n *yaml.Node) { r.flag(f, n, &g.KeepGit) },
		"keep_ignored": func(f string, n *yaml.Node) { r.flag(f, n, &g.KeepIgnored) },
	}
}

// mapping reads a mapping; unknown keys are errors.
func (r *reader) mapping(field string, n *yaml.Node, keys map[string]func(string, *yaml.Node)) {
	n = resolve(n)
	name := strings.TrimSuffix("sandbox."+field, ".")
	if n.Kind != yaml.MappingNode {
		hint := ""
		if field == "" {
			hint = "sandbox: python, or a mapping with mode, runtime, limits …"
		}
		r.p.add(n, name, hint, "%s must be a mapping", name)
		return
	}
	known := slices.Sorted(maps.Keys(keys))
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Kind != yaml.ScalarNode {
			r.p.add(key, name, "", "%s has a key that is not a word", name)
			continue
		}
		if twice(r.p, seen, name+".", key) {
			continue
		}
		path := key.Value
		if field != "" {
			path = field + "." + key.Value
		}
		read := keys[key.Value]
		switch {
		case read == nil:
			hint := name + " has " + strings.Join(known, ", ")
			if near := nearest.Of(key.Value, max(len(key.Value)/3, 1), known); near != "" {
				hint = "did you mean " + near
			}
			r.p.add(key, "sandbox."+short(path), hint, "%s.%s is not known", name, short(key.Value))
		case !null(resolve(value)): // null means the same as a missing key
			r.at[path] = key
			read(path, value)
		}
	}
}

// twice adds a problem and returns true if the mapping already has the key.
func twice(p *problems, seen map[string]int, above string, key *yaml.Node) bool {
	if line, ok := seen[key.Value]; ok {
		p.add(key, above+short(key.Value), "", "%s%s is there already, in line %d", above, short(key.Value), line)
		return true
	}
	seen[key.Value] = key.Line
	return false
}

// text reads a non-empty string. Numbers and booleans must be quoted.
func (r *reader) text(field string, n *yaml.Node, to *string) {
	n = resolve(n)
	name := strings.TrimSuffix("sandbox."+field, ".")
	switch {
	case n.Kind != yaml.ScalarNode || n.ShortTag() != "!!str":
		r.p.add(n, name, "", "%s must be a text", name)
	case n.Value == "":
		r.p.add(n, name, "", "%s is empty", name)
	default:
		*to = n.Value
	}
}

// texts reads a list of strings.
func (r *reader) texts(field string, n *yaml.Node, to *[]string) {
	n = resolve(n)
	if n.Kind != yaml.SequenceNode {
		r.p.add(n, "sandbox."+field, "", "sandbox.%s must be a list", field)
		return
	}
	for _, item := range n.Content {
		var text string
		r.text(field, item, &text)
		*to = append(*to, text)
	}
}

// flag reads true or false.
func (r *reader) flag(field string, n *yaml.Node, to *bool) {
	n = resolve(n)
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!bool" || n.Decode(to) != nil {
		r.p.add(n, "sandbox."+field, "", "sandbox.%s must be true or false", field)
	}
}

// number reads a whole number within its limits. 0 is an error, since it might be meant as no limit.
func (r *reader) number(field string, n *yaml.Node, to number) {
	n = resolve(n)
	value, err := strconv.Atoi(n.Value)
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!int" || err != nil {
		r.p.add(n, "sandbox."+field, "", "sandbox.%s must be a whole number from %d to %d", field, to.least, to.most)
		return
	}
	if err := to.check(value); err != nil {
		r.p.add(n, "sandbox."+field, "", "sandbox.%s %v", field, err)
		return
	}
	*to.value = value
}

// resolve returns the target of an alias, or n itself. Cycles have already been refused.
func resolve(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

func null(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }
