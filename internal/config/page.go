package config

import (
	"bytes"
	"fmt"
	"strings"
)

// Page is docs/config.md: every key, from the table that the program itself reads.
func Page() []byte {
	var b bytes.Buffer
	b.WriteString(`# Configuration

<!-- Made from the table in internal/config by go test ./internal/config -update. -->

` + "`belljar serve`" + ` works without any of this. What you set comes from four places, each winning over those before it:

1. the defaults below;
2. a YAML file, named by ` + "`--config`" + ` or ` + "`SANDBOX_CONFIG`" + `, with the keys without their prefix and in lower case;
3. environment variables;
4. flags.

` + "```yaml" + `
# belljar.yaml
listen: 0.0.0.0:8443
tls_cert: /etc/belljar/cert.pem
tls_key: /etc/belljar/key.pem
trusted_proxies: [10.0.0.0/8]
max_concurrent_runs: 16
` + "```" + `

An unknown key is refused, in the file and in the environment, and so is a value out of its range: a server that
started with a typing error would run with a limit that nobody meant. All mistakes are told at once. An empty value
counts as none. Lists are written ` + "`a, b`" + ` or as JSON ` + "`[\"a\", \"b\"]`" + `; the empty list is ` + "`[]`" + `. Booleans are true and false
(also yes and no, on and off, 1 and 0).

Keys marked *policy* are part of the ` + "`policy_hash`" + ` of runs and sessions. Keys marked *secret* are never shown or logged.
Keys marked *not built yet* are accepted, with a warning, and have no effect.
`)
	group := ""
	for _, k := range Keys() {
		if k.Group != group {
			group = k.Group
			fmt.Fprintf(&b, "\n## %s\n\n| key | default | accepted | what it does |\n|---|---|---|---|\n", group)
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s%s |\n", k.Name, k.shown(), strings.ReplaceAll(k.accepted(), "|", "\\|"), k.Doc, k.marks())
	}
	return b.Bytes()
}

func (k Key) shown() string {
	if k.Default == "" {
		return ""
	}
	return "`" + k.Default + "`"
}

func (k Key) accepted() string {
	switch {
	case k.Type == "boolean" && k.Range == "":
		return "true, false"
	case k.Range == "":
		return k.Type
	case k.Unit != "":
		return k.Range + " " + k.Unit
	}
	return k.Range
}

func (k Key) marks() string {
	var marks string
	for _, m := range []struct {
		on   bool
		word string
	}{{k.Hash, "policy"}, {k.Secret, "secret"}} {
		if m.on {
			marks += " *" + m.word + "*"
		}
	}
	return marks
}
