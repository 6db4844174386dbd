package config

import "strings"

// Key describes one setting.
type Key struct {
	Name    string // in the environment: SANDBOX_MAX_CPU
	Group   string // heading in docs/config.md
	Type    string // text, integer, number, boolean, list …
	Unit    string // "" for none
	Range   string // accepted values, in words; "" accepts any of the type
	Default string // as the operator would write it
	Doc     string // what it does
	Secret  bool   // never shown
	Hash    bool   // part of the policy hash (docs/compatibility.md#policy-hash)
}

// Short is the key's name in a file: max_cpu.
func (k Key) Short() string { return strings.ToLower(strings.TrimPrefix(k.Name, Prefix)) }

// Flag is the key's name on a command line, without dashes before it: max-cpu.
func (k Key) Flag() string { return strings.ReplaceAll(k.Short(), "_", "-") }

// Keys returns all keys, in the order of the documentation.
func Keys() []Key {
	rows := table(&Config{})
	keys := make([]Key, len(rows))
	for i, r := range rows {
		keys[i] = r.key()
	}
	return keys
}

// Values returns the effective values by key. Secrets are "set" or "".
func (c *Config) Values() map[string]any {
	all := map[string]any{}
	for _, r := range table(c) {
		v := r.value.get()
		if r.secret && v != "" {
			v = "set"
		}
		all[Prefix+r.name] = v
	}
	return all
}
