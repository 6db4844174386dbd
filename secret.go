package belljar

import (
	"context"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// Secret is one secret of a run or session. Programs read the value from the file NAME in [SecretDir], which only they can read.
type Secret struct {
	// Value is text of at most 64 KiB, with at least 8 bytes besides surrounding white space.
	Value string `json:"value,omitempty"`
	// From is the name of a stored secret, instead of Value.
	From string `json:"from,omitempty"`

	// Host makes this a brokered secret. Programs see only a placeholder, in the environment variable NAME. Belljar sets the real
	// header on their HTTPS requests to this host, which the network policy must permit.
	Host     string `json:"host,omitempty"`     // api.example.com
	Header   string `json:"header,omitempty"`   // Authorization
	Template string `json:"template,omitempty"` // of the header's value, with {} for the secret: "Bearer {}" for Authorization, else "{}"
}

// SecretDir is the directory of secret files inside every sandbox.
const SecretDir = "/run/secrets"

// Bounds of secrets.
const (
	maxSecrets      = 32
	minSecretBytes  = 8 // a shorter value would match ordinary output
	maxSecretBytes  = 64 << 10
	maxSecretsBytes = 256 << 10 // of all values of a request
)

// Secrets stores secrets for requests that refer to them with [Secret.From]. It never returns the values.
type Secrets interface {
	// Set stores a secret, or replaces its value. Only operators may set a shared one ([CodeForbidden] for others). Every user may use
	// it.
	Set(ctx context.Context, name string, spec SecretSpec) (StoredSecret, error)
	// List returns the caller's own secrets and the shared ones, by name.
	List(ctx context.Context) ([]StoredSecret, error)
	// Remove removes a secret; [CodeNotFound] if there is none. Runs and sessions that already use it keep it.
	Remove(ctx context.Context, name string, shared bool) error
}

// SecretSpec is a request to store a secret.
type SecretSpec struct {
	Value  string `json:"value"`            // as in [Secret]
	Shared bool   `json:"shared,omitempty"` // for every user; operators only
}

// StoredSecret is a stored secret without its value.
type StoredSecret struct {
	Name      string    `json:"name"`
	Shared    bool      `json:"shared,omitempty"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
}

// Format prints a placeholder instead of the secret, for every verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "[secret]") }

// Format prints a placeholder instead of the secret, for every verb.
func (s SecretSpec) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "[secret]") }

// Validate checks the value. The error is [CodeInvalidRequest].
func (s SecretSpec) Validate() error { return checkSecretValue("value", s.Value) }

// secretName is the syntax of a secret's name.
var secretName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,63}$`) })

// CheckSecretName checks the name of a secret. The error is [CodeInvalidRequest] and names the field.
func CheckSecretName(field, name string) error {
	if secretName().MatchString(name) {
		return nil
	}
	e := invalid(field, "%.80q is not the name of a secret", name)
	e.Hint = "a name has letters, digits and underscores, does not begin with a digit, and is at most 64 characters long"
	return e
}

// checkSecrets checks the secrets of a request. Its errors never contain a part of a value.
func checkSecrets(secrets map[string]Secret) error {
	if len(secrets) > maxSecrets {
		e := invalid("secrets", "secrets are limited to %d, got %d", maxSecrets, len(secrets))
		e.Details["provided"], e.Details["maximum"] = len(secrets), maxSecrets
		return e
	}
	total := 0
	for _, name := range slices.Sorted(maps.Keys(secrets)) {
		if err := CheckSecretName("secrets", name); err != nil {
			return err
		}
		field, s := "secrets."+name, secrets[name]
		switch {
		case s.Value != "" && s.From != "":
			return invalid(field, "%s has both value and from", field)
		case s.From != "":
			if err := CheckSecretName(field+".from", s.From); err != nil {
				return err
			}
		default:
			if err := checkSecretValue(field+".value", s.Value); err != nil {
				return err
			}
		}
		total += len(s.Value)
	}
	return CheckSecretsSize(total)
}

// CheckSecretsSize checks the total size of the secrets of a run or session. The error is [CodeInvalidRequest].
func CheckSecretsSize(total int) error {
	if total <= maxSecretsBytes {
		return nil
	}
	e := invalid("secrets", "the values of secrets are limited to %d bytes together, got %d", maxSecretsBytes, total)
	e.Details["provided"], e.Details["maximum"] = total, maxSecretsBytes
	return e
}

func checkSecretValue(field, value string) error {
	switch {
	case value == "":
		e := invalid(field, "%s is required", field)
		e.Hint = "give a value, or the name of a stored secret with from"
		return e
	case len(value) > maxSecretBytes:
		e := invalid(field, "%s is limited to %d bytes, got %d", field, maxSecretBytes, len(value))
		e.Details["maximum"] = maxSecretBytes
		return e
	case !utf8.ValidString(value) || strings.ContainsRune(value, 0):
		e := invalid(field, "%s is not text", field)
		e.Hint = "encode binary data, as with base64"
		return e
	case len(strings.TrimSpace(value)) < minSecretBytes:
		e := invalid(field, "%s is shorter than %d bytes", field, minSecretBytes)
		e.Details["minimum"] = minSecretBytes
		e.Hint = "so short a secret cannot be hidden in the output; use env if it is not secret"
		return e
	}
	return nil
}
