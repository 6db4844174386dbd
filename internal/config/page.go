package config

import (
	"bytes"
	"fmt"
	"strings"
)

// Page returns docs/config.md: every key, from the table that the program itself reads.
func Page() []byte {
	var b bytes.Buffer
	b.WriteString(`# Configuration

<!-- Made from the table in internal/config by go test ./internal/config -update. -->

` + "`belljar serve`" + ` needs no configuration. Settings come from four places; each overrides those before it:

1. the defaults below;
2. a YAML file, named by ` + "`--config`" + ` or ` + "`SANDBOX_CONFIG`" + `, whose keys have no prefix and are in lower case;
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

| subject | rule |
|---|---|
| an unknown key, or a value out of range | is refused, in the file and in the environment, so that no server starts with a limit that a typing error made; all of these are reported at once; rules, files and names of protections are checked after that, one at a time |
| an empty value | means unset |
| lists | ` + "`a, b`" + ` or JSON ` + "`[\"a\", \"b\"]`" + `; the empty list is ` + "`[]`" + ` |
| booleans | true and false; also yes and no, on and off, 1 and 0 |

Keys marked *policy* are part of the ` + "`policy_hash`" + ` of runs and sessions. Keys marked *secret* are never shown or logged.
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
