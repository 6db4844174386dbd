package config

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/belljar/belljar"
)

// fileKey is the environment variable that names the file.
const fileKey = Prefix + "CONFIG"

// Sources are the sources of a configuration.
type Sources struct {
	File string            // YAML; "" reads the file named by SANDBOX_CONFIG, if any
	Env  []string          // as os.Environ; only SANDBOX_ names and keys' aliases are read
	Set  map[string]string // flags, by any of a key's names: SANDBOX_MAX_CPU, max_cpu, max-cpu
}

// setting is a value and its source.
type setting struct {
	name   string // of the key, without Prefix
	text   string
	origin string // "SANDBOX_MAX_CPU in the environment"
	list   bool   // a YAML list, with its JSON as text
}

// Load returns the effective configuration: defaults, the file, the environment, flags, where later sources override earlier ones.
// An empty value counts as unset. The error is [belljar.CodeInvalidRequest] and lists every problem with its source;
// details.problems lists them one by one.
func Load(from Sources) (Config, error) {
	c := Config{origins: map[string]string{}}
	all := table(&c)
	rows, names := make(map[string]*row, len(all)), make([]string, 0, len(all))
	for i := range all {
		r := &all[i]
		rows[r.name], names = r, append(names, r.name)
		if r.def == "" {
			continue
		}
		if err := r.value.set(r.def); err != nil {
			return Config{}, &belljar.Error{Code: belljar.CodeInternal, Message: "default of " + Prefix + r.name + " is wrong", Err: err}
		}
	}
	settings, problems := gather(&from, &c, rows, names)
	for _, s := range settings {
		r := rows[s.name]
		if s.text = strings.TrimSpace(s.text); s.text == "" {
			continue
		}
		if s.list && r.value.kind != "list" { // a text would get the JSON
			problems = append(problems, s.origin+" must be a plain value, not a list")
			continue
		}
		if err := r.value.set(s.text); err != nil {
			problems = append(problems, fault(s, r, err))
			continue
		}
		c.origins[Prefix+s.name] = s.origin
	}
	problems = append(problems, c.together()...)
	if len(problems) > 0 {
		return Config{}, invalid(problems)
	}
	return c, nil
}

// gather reads all sources, in ascending order of precedence.
func gather(from *Sources, c *Config, rows map[string]*row, names []string) (settings []setting, problems []string) {
	file := from.File
	var aliased, env, flags []setting
	aliases := map[string]string{}
	for _, r := range rows {
		if r.alias != "" {
			aliases[r.alias] = r.name
		}
	}
	for _, variable := range from.Env {
		name, text, _ := strings.Cut(variable, "=")
		short, ours := strings.CutPrefix(name, Prefix)
		switch {
		case aliases[name] != "":
			aliased = append(aliased, setting{name: aliases[name], text: text, origin: name + " in the environment"})
		case !ours:
		case name == fileKey:
			if file == "" {
				file = text
			}
		case !slices.Contains(names, short):
			problems = append(problems, unknown(name+" in the environment", short, names, func(s string) string { return Prefix + s }))
		default:
			env = append(env, setting{name: short, text: text, origin: name + " in the environment"})
		}
	}
	for _, flag := range slices.Sorted(maps.Keys(from.Set)) {
		name := strings.TrimPrefix(strings.ToUpper(strings.ReplaceAll(flag, "-", "_")), Prefix)
		if !slices.Contains(names, name) {
			problems = append(problems, unknown("flag "+flag, name, names, func(s string) string { return Key{Name: Prefix + s}.Flag() }))
			continue
		}
		flags = append(flags, setting{name: name, text: from.Set[flag], origin: "flag " + flag})
	}
	if file != "" {
		c.file, _ = filepath.Abs(file) // fails only without a current folder
		lines, wrong := readFile(file, c, rows, names)
		settings, problems = lines, append(wrong, problems...)
	}
	return slices.Concat(settings, aliased, env, flags), problems
}

// unknown returns the problem of a name that is not a key.
func unknown(where, name string, names []string, write func(string) string) string {
	if near := suggest(name, names); near != "" {
		return fmt.Sprintf("%s is not a key, did you mean %s", where, write(near))
	}
	return where + " is not a key"
}

// fault returns the problem of a value. It does not repeat a secret.
func fault(s setting, r *row, err error) string {
	if r.secret {
		return fmt.Sprintf("%s %v", s.origin, err)
	}
	text := s.text
	if len(text) > 80 {
		text = text[:80] + "…"
	}
	return fmt.Sprintf("%s %v, got %q", s.origin, err, text)
}

func invalid(problems []string) error {
	message := "configuration: " + problems[0]
	if len(problems) > 1 {
		message = fmt.Sprintf("configuration has %d problems: %s", len(problems), strings.Join(problems, "; "))
	}
	return &belljar.Error{
		Code: belljar.CodeInvalidRequest, Message: message, Details: map[string]any{"problems": problems},
		Hint: "docs/config.md lists the keys",
	}
}
