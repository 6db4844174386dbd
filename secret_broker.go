package belljar

import (
	"encoding/base64"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Defaults of a brokered secret.
const (
	defaultHeader   = "Authorization"
	defaultTemplate = "Bearer {}" // of Authorization; other headers have only the value
)

// basicScheme begins a template whose rest is encoded with base64 for HTTP.
const basicScheme = "Basic "

// maxHeaderBytes bounds a header of a brokered secret. Servers usually accept about as much for all headers.
const maxHeaderBytes = 8 << 10

// TrustVars are the environment variables that point programs of a sandbox with brokered secrets to the trusted certificate authorities.
func TrustVars() []string {
	return []string{"CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE"}
}

// Brokered reports whether the secret is brokered: programs never see it, and only its host receives it.
func (s Secret) Brokered() bool { return s.Host != "" }

// Credential returns the header of a brokered secret, and its value.
func (s Secret) Credential() (header, value string) {
	header, template := s.credential()
	value = strings.ReplaceAll(template, "{}", strings.TrimSpace(s.Value))
	if user, ok := strings.CutPrefix(value, basicScheme); ok {
		value = basicScheme + base64.StdEncoding.EncodeToString([]byte(user))
	}
	return header, value
}

func (s Secret) credential() (header, template string) {
	header, template = s.Header, s.Template
	if header == "" {
		header = defaultHeader
	}
	if template == "" {
		template = "{}"
		if strings.EqualFold(header, defaultHeader) {
			template = defaultTemplate
		}
	}
	return header, template
}

// CheckBrokered checks the value of a brokered secret. The error is [CodeInvalidRequest] and never contains a part of the value.
func (s Secret) CheckBrokered(field string) error {
	value := strings.TrimSpace(s.Value)
	if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' }) {
		e := invalid(field, "%s is no value of a header", field)
		e.Hint = "the value of a brokered secret is one line of printable ASCII characters"
		return e
	}
	if _, rendered := s.Credential(); len(rendered) > maxHeaderBytes {
		e := invalid(field, "%s makes a header of %d bytes, and the limit is %d", field, len(rendered), maxHeaderBytes)
		e.Details["maximum"] = maxHeaderBytes
		return e
	}
	return nil
}

// brokerHost is the syntax of a brokered secret's host: a lower-case name whose last label is not numeric.
var brokerHost = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)*[a-z]([a-z0-9-]{0,61}[a-z0-9])?$`)
})

// maxHostName is the length of the longest name of a host.
const maxHostName = 253

// headerName is the syntax of an HTTP token.
var headerName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}$") })

// checkBroker checks the host, header and template of a brokered secret.
func (s Secret) checkBroker(field string) error {
	if !s.Brokered() {
		for name, value := range map[string]string{"header": s.Header, "template": s.Template} {
			if value != "" {
				e := invalid(field+"."+name, "%s.%s needs host", field, name)
				e.Hint = "name the host whose requests get the header; without one, the secret is a file"
				return e
			}
		}
		return nil
	}
	if len(s.Host) > maxHostName || !brokerHost().MatchString(s.Host) {
		e := invalid(field+".host", "%s.host %.80q is not the name of a host", field, s.Host)
		e.Hint = hostHint(s.Host)
		return e
	}
	header, template := s.credential()
	switch {
	case !headerName().MatchString(header):
		e := invalid(field+".header", "%s.header %.80q is not the name of a header", field, header)
		e.Hint = "a name has letters, digits and hyphens, such as Authorization or X-Api-Key"
		return e
	case ofConnection(header):
		e := invalid(field+".header", "%s.header %s is a header that belongs to the connection or the body", field, header)
		e.Hint = "name a header that carries credentials, such as Authorization or X-Api-Key"
		return e
	case strings.Count(template, "{}") != 1:
		e := invalid(field+".template", "%s.template has to contain {} once", field)
		e.Hint = `{} stands for the value: "Bearer {}"`
		return e
	case len(template) > 1024 || strings.ContainsFunc(template, func(r rune) bool { return r < ' ' || r > '~' }) || strings.TrimSpace(template) != template:
		e := invalid(field+".template", "%s.template is no value of a header", field)
		e.Hint = "a template is one line of at most 1,024 printable ASCII characters, without spaces around it"
		return e
	case strings.HasPrefix(template, basicScheme) && !strings.Contains(template, ":"):
		e := invalid(field+".template", "%s.template names no user", field)
		e.Hint = `write the user and the value as they are, and Belljar encodes them: "Basic user:{}"`
		return e
	}
	if s.From != "" {
		return nil // the value is checked once it is known
	}
	return s.CheckBrokered(field + ".value")
}

func hostHint(host string) string {
	bare := host
	if _, rest, ok := strings.Cut(bare, "://"); ok {
		bare = rest
	}
	bare, _, _ = strings.Cut(bare, "/")
	bare, _, _ = strings.Cut(bare, ":")
	bare = strings.TrimSuffix(strings.ToLower(bare), ".")
	switch {
	case strings.Contains(host, "*"):
		return "a secret goes to one host: name it without a wildcard"
	case bare != host && brokerHost().MatchString(bare):
		return "write the name alone, in lower case and without a full stop at its end: " + bare
	}
	return "name one host, such as api.example.com; HTTPS on port 443 is implied"
}

// ofConnection reports whether a header controls the connection or framing. Such a header never carries a credential.
func ofConnection(header string) bool {
	switch h := strings.ReplaceAll(strings.ToLower(header), "_", "-"); h {
	case "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer", "transfer-encoding",
		"upgrade", "host", "expect", "range", "if-range", "date", "accept", "forwarded", "via":
		return true
	default:
		return strings.HasPrefix(h, "content-") || strings.HasPrefix(h, "accept-") || strings.HasPrefix(h, "sec-") || strings.HasPrefix(h, "x-forwarded-")
	}
}

// checkBrokered checks the brokered secrets of a request against each other, its environment and its network. A secret of the clone needs no network
// policy.
func checkBrokered(secrets map[string]Secret, env map[string]string, networkPolicy string, clone *GitSpec) error {
	seen := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(secrets)) {
		s, field := secrets[name], "secrets."+name
		if err := s.checkBroker(field); err != nil {
			return err
		}
		if !s.Brokered() {
			continue
		}
		if networkPolicy == NetworkDenyAll && !clone.uses(name) {
			e := invalid(field+".host", "%s goes to %s, and network_policy is %s", field, s.Host, NetworkDenyAll)
			e.Hint = fmt.Sprintf("set network_policy to %s, and list %s in egress.hosts", NetworkAllowlist, s.Host)
			return e
		}
		if _, ok := env[name]; ok {
			e := invalid("env", "%s is a brokered secret and a variable of env", name)
			e.Hint = "leave it out of env: the variable of that name has a placeholder"
			return e
		}
		for _, of := range TrustVars() {
			if _, ok := env[of]; ok || name == of {
				e := invalid("env", "%s is set where there are brokered secrets", of)
				e.Hint = "leave it out: it names the authorities that the sandbox trusts, those of its image and its own"
				return e
			}
		}
		header, _ := s.credential()
		key := s.Host + " " + strings.ToLower(header)
		if first, ok := seen[key]; ok {
			e := invalid(field+".header", "%s sets the header %s of %s, as %s does", field, header, s.Host, first)
			e.Hint = "a header has one value: remove one of the secrets"
			return e
		}
		seen[key] = field
	}
	return nil
}
