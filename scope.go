package belljar

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Scope names a session among its owner's, so that whoever works for the same purpose finds the same one (S2 §2.1,
// S3 "Session Scoping Strategy"). The zero value names nothing: such a session is known by its id only.
type Scope struct {
	Namespace string `json:"namespace"`     // workflow | agent | user | thread
	ID        string `json:"id"`            // of the workflow run, the agent run, the thread …
	Key       string `json:"key,omitempty"` // the session's name there; "" is [DefaultKey], [IsolatedKey] is no name at all
}

// The keys with a meaning of their own (S2 §3.2 `session`).
const (
	DefaultKey  = "default"
	IsolatedKey = "isolated" // always a new session, which nobody finds by its scope
)

// MaxScopeBytes bounds each part of a scope.
const MaxScopeBytes = 256

// String is namespace:id:key, with % and : inside the parts as %25 and %3A, so that no two scopes read alike and a prefix
// that ends with a colon means whole parts. "" if the scope names nothing.
func (s Scope) String() string {
	if !s.Named() {
		return ""
	}
	key := s.Key
	if key == "" {
		key = DefaultKey
	}
	escape := strings.NewReplacer("%", "%25", ":", "%3A")
	return escape.Replace(s.Namespace) + ":" + escape.Replace(s.ID) + ":" + escape.Replace(key)
}

// Named reports whether sessions can be found by this scope.
func (s Scope) Named() bool { return s.Namespace != "" && s.Key != IsolatedKey }

// Validate checks a scope of a request; the zero value is valid. The error is [CodeInvalidRequest].
func (s Scope) Validate() error {
	if s == (Scope{}) || s == (Scope{Key: IsolatedKey}) {
		return nil
	}
	switch s.Namespace {
	case "workflow", "agent", "user", "thread":
	default:
		e := invalid("scope.namespace", "scope.namespace %q is not known", s.Namespace)
		e.Details["provided"], e.Details["supported"] = s.Namespace, []string{"workflow", "agent", "user", "thread"}
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
	switch {
	case len(text) > MaxScopeBytes:
		return fmt.Errorf("longer than %d bytes", MaxScopeBytes)
	case !utf8.ValidString(text):
		return fmt.Errorf("not valid UTF-8")
	case strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return fmt.Errorf("contains a control character")
	}
	return nil
}
