package belljar

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// Scope names a session within its owner's sessions, so that clients with the same purpose share it
// (docs/compatibility.md#scopes). A session with the zero value has only an id.
type Scope struct {
	Namespace string `json:"namespace"`        // workflow | agent | user | thread
	ID        string `json:"id" minLength:"1"` // the workflow run, the agent run, the thread …
	Key       string `json:"key,omitempty"`    // the session's name within ID; "" is [DefaultKey], [IsolatedKey] gives no name
}

// The keys with a special meaning (docs/compatibility.md#scopes).
const (
	DefaultKey  = "default"
	IsolatedKey = "isolated" // always a new session, which cannot be found by its scope
)

// namespaces are the valid namespaces of a scope.
func namespaces() []string { return []string{"workflow", "agent", "user", "thread"} }

// maxScopeBytes bounds each part of a scope.
const maxScopeBytes = 256

// String is namespace:id:key. It escapes % and : in the parts as %25 and %3A, so that two scopes never collide and a
// prefix that ends with a colon matches whole parts. It is "" if the scope is not named.
func (s Scope) String() string {
	if !s.Named() {
		return ""
	}
	key := cmp.Or(s.Key, DefaultKey)
	return s.Prefix() + escapePart(key)
}

// Prefix is namespace:id:, the beginning of [Scope.String] for every key. Use it to close or list the sessions of a
// finished workflow, agent run or thread. It is "" if the scope has no namespace.
func (s Scope) Prefix() string {
	if s.Namespace == "" {
		return ""
	}
	return escapePart(s.Namespace) + ":" + escapePart(s.ID) + ":"
}

func escapePart(text string) string { return strings.NewReplacer("%", "%25", ":", "%3A").Replace(text) }

// Named reports whether sessions can be found by this scope.
func (s Scope) Named() bool { return s.Namespace != "" && s.Key != IsolatedKey }

// Validate checks a scope of a request; the zero value is valid. The error is [CodeInvalidRequest].
func (s Scope) Validate() error {
	if s == (Scope{}) || s == (Scope{Key: IsolatedKey}) {
		return nil
	}
	if !slices.Contains(namespaces(), s.Namespace) {
		e := invalid("scope.namespace", "scope.namespace %q is not known", shortened(s.Namespace))
		e.Details["provided"], e.Details["supported"] = shortened(s.Namespace), namespaces()
		e.Hint = "namespaces are " + strings.Join(namespaces(), ", ")
		return e
	}
	if s.ID == "" {
		return invalid("scope.id", "scope.id is required")
	}
	for _, part := range []struct{ name, text string }{{"scope.id", s.ID}, {"scope.key", s.Key}} {
		if err := checkName(part.text); err != nil {
			return invalid(part.name, "%s: %v", part.name, err)
		}
	}
	return nil
}

func checkName(text string) error {
	if len(text) > maxScopeBytes {
		return fmt.Errorf("longer than %d bytes", maxScopeBytes)
	}
	return checkText(text)
}

func checkText(text string) error {
	switch {
	case !utf8.ValidString(text):
		return fmt.Errorf("not valid UTF-8")
	case strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return fmt.Errorf("contains a control character")
	}
	return nil
}

// Validate checks a request to close sessions. The error is [CodeInvalidRequest].
func (r CloseRequest) Validate() error {
	namespace, _, colon := strings.Cut(r.KeyPrefix, ":")
	switch {
	case r.KeyPrefix == "":
		return invalid("key_prefix", "key_prefix is required")
	case !colon || !slices.Contains(namespaces(), namespace):
		e := invalid("key_prefix", "key_prefix %q does not begin with a namespace and a colon", shortened(r.KeyPrefix))
		e.Details["supported"] = namespaces()
		e.Hint = "workflow:run_123: is all sessions of a workflow"
		return e
	case r.RetainSec < 0 || math.IsNaN(r.RetainSec) || math.IsInf(r.RetainSec, 0):
		return invalid("retain_seconds", "retain_seconds must be 0 or more")
	}
	return checkKeyPrefix(r.KeyPrefix)
}

// Covers reports whether the request applies to the session with that scope.
func (r CloseRequest) Covers(scope string) bool {
	rest, ok := strings.CutPrefix(scope, r.KeyPrefix)
	return ok && (rest == "" || rest[0] == ':' || strings.HasSuffix(r.KeyPrefix, ":"))
}

// Validate checks a query of sessions. The error is [CodeInvalidRequest].
func (q SessionQuery) Validate() error { return checkKeyPrefix(q.KeyPrefix) }

// checkKeyPrefix refuses a prefix that no scope can have. The error is [CodeInvalidRequest].
func checkKeyPrefix(prefix string) error {
	const most = 3 * (3*maxScopeBytes + 1) // every byte of every part escaped to three
	if len(prefix) > most {
		return invalid("key_prefix", "key_prefix is longer than %d bytes", most)
	}
	if parts := strings.Split(prefix, ":"); len(parts) > 4 || len(parts) == 4 && parts[2] != IsolatedKey { // whose id is the fourth
		e := invalid("key_prefix", "key_prefix %q has too many parts", shortened(prefix))
		e.Hint = "write a colon in an id or a key as %3A"
		return e
	}
	if err := checkText(prefix); err != nil {
		return invalid("key_prefix", "key_prefix: %v", err)
	}
	return nil
}

// shortened truncates a text for an error message.
func shortened(text string) string {
	const most = 64
	if len(text) > most {
		text = text[:most] + "…"
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}
