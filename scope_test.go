package belljar_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/belljar/belljar"
)

// anyScope draws scopes from parts that could be confused.
func anyScope(t *rapid.T, name string) belljar.Scope {
	part := rapid.StringOf(rapid.SampledFrom([]rune("a:%253A\u00e9\U0001f600/ ")))
	return belljar.Scope{
		Namespace: rapid.SampledFrom(belljar.Namespaces()).Draw(t, name+": namespace"),
		ID:        rapid.OneOf(part, rapid.String()).Draw(t, name+": id"),
		Key:       rapid.OneOf(part, rapid.SampledFrom([]string{"", belljar.DefaultKey, belljar.IsolatedKey})).Draw(t, name+": key"),
	}
}

// Only equal scopes have equal strings, and a prefix that ends with a colon matches whole parts.
func TestScopesAreApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := anyScope(t, "a"), anyScope(t, "b")
		if a.Named() != (a.Key != belljar.IsolatedKey) || (a.String() == "") == a.Named() {
			t.Fatalf("%+v reads %q", a, a)
		}
		if !a.Named() || !b.Named() {
			return
		}
		if a.Key == "" {
			a.Key = belljar.DefaultKey
		}
		if b.Key == "" {
			b.Key = belljar.DefaultKey
		}
		if (a.String() == b.String()) != (a == b) {
			t.Fatalf("%+v and %+v read %q and %q", a, b, a, b)
		}
		if n := strings.Count(a.String(), ":"); n != 2 {
			t.Fatalf("%q has %d colons", a, n)
		}
		same := a.Namespace == b.Namespace && a.ID == b.ID
		if strings.HasPrefix(b.String(), a.Prefix()) != same || (a.Prefix() == b.Prefix()) != same {
			t.Fatalf("%q begins with %q", b, a.Prefix())
		}
		if strings.HasPrefix(b.String(), a.Namespace+":") != (a.Namespace == b.Namespace) {
			t.Fatalf("%q begins with %q", b, a.Namespace+":")
		}
	})
}

func TestScopeString(t *testing.T) {
	for _, test := range []struct {
		scope  belljar.Scope
		want   string
		prefix string
	}{
		{belljar.Scope{}, "", ""},
		{belljar.Scope{Key: "isolated"}, "", ""},
		{belljar.Scope{Namespace: "workflow", ID: "run_123"}, "workflow:run_123:default", "workflow:run_123:"},
		{belljar.Scope{Namespace: "workflow", ID: "run_123", Key: "default"}, "workflow:run_123:default", "workflow:run_123:"},
		{belljar.Scope{Namespace: "agent", ID: "a:b", Key: "x:y"}, "agent:a%3Ab:x%3Ay", "agent:a%3Ab:"},
		{belljar.Scope{Namespace: "agent", ID: "a%3Ab", Key: "x"}, "agent:a%253Ab:x", "agent:a%253Ab:"},
		{belljar.Scope{Namespace: "thread", ID: "1", Key: "isolated"}, "", "thread:1:"},
		{belljar.Scope{Namespace: "thread", ID: "1", Key: "isolated "}, "thread:1:isolated ", "thread:1:"},
	} {
		if got := test.scope.String(); got != test.want || test.scope.Prefix() != test.prefix {
			t.Errorf("%+v: %q, %q, want %q, %q", test.scope, got, test.scope.Prefix(), test.want, test.prefix)
		}
	}
}

func TestScopeIsChecked(t *testing.T) {
	long := strings.Repeat("x", belljar.MaxScopeBytes)
	for _, good := range []belljar.Scope{
		{}, {Key: "isolated"}, {Namespace: "user", ID: "u"}, {Namespace: "user", ID: long, Key: long}, {Namespace: "thread", ID: "日本 :%"},
	} {
		if err := good.Validate(); err != nil {
			t.Errorf("%+v: %v", good, err)
		}
	}
	for _, test := range []struct {
		scope belljar.Scope
		field string
	}{
		{belljar.Scope{Key: "x"}, "scope.namespace"},
		{belljar.Scope{ID: "x"}, "scope.namespace"},
		{belljar.Scope{Namespace: "Workflow", ID: "x"}, "scope.namespace"},
		{belljar.Scope{Namespace: "workflow:x", ID: "x"}, "scope.namespace"},
		{belljar.Scope{Namespace: strings.Repeat("\xff", 10_000), ID: "x"}, "scope.namespace"},
		{belljar.Scope{Namespace: "workflow"}, "scope.id"},
		{belljar.Scope{Namespace: "workflow", ID: "a\x00b"}, "scope.id"},
		{belljar.Scope{Namespace: "workflow", ID: "a\nb"}, "scope.id"},
		{belljar.Scope{Namespace: "workflow", ID: "\xff"}, "scope.id"},
		{belljar.Scope{Namespace: "workflow", ID: long + "x"}, "scope.id"},
		{belljar.Scope{Namespace: "workflow", ID: "x", Key: strings.Repeat("y", 10_000)}, "scope.key"},
		{belljar.Scope{Namespace: "workflow", ID: "x", Key: "\x7f"}, "scope.key"},
	} {
		var e *belljar.Error
		if err := test.scope.Validate(); !errors.As(err, &e) || e.Code != belljar.CodeInvalidRequest || e.Details["field"] != test.field {
			t.Errorf("%.100q: %v", test.scope, err)
		} else if len(e.Message) > 400 {
			t.Errorf("it repeats all of %d bytes", len(e.Message))
		}
	}
}

func TestCloseRequest(t *testing.T) {
	for _, good := range []belljar.CloseRequest{
		{KeyPrefix: "workflow:a%3Ab:"}, {KeyPrefix: "workflow:a:isolated:"}, {KeyPrefix: "workflow:a:isolated:x"}, {KeyPrefix: "workflow:a%3Ab:default"},
		{KeyPrefix: "workflow:"}, {KeyPrefix: "workflow:run_123:"}, {KeyPrefix: "workflow:run_1"}, {KeyPrefix: "thread:日", RetainSec: 5},
		{KeyPrefix: belljar.Scope{Namespace: "agent", ID: strings.Repeat("%", belljar.MaxScopeBytes)}.Prefix()},
	} {
		if err := good.Validate(); err != nil {
			t.Errorf("%+v: %v", good, err)
		}
	}
	for _, bad := range []belljar.CloseRequest{
		{}, {KeyPrefix: ":"}, {KeyPrefix: "workflow"}, {KeyPrefix: "work:"}, {KeyPrefix: "x:workflow:"}, {KeyPrefix: "*"},
		{KeyPrefix: "workflow:a:b:"}, {KeyPrefix: "workflow:a:b:default"}, {KeyPrefix: "workflow:a:isolated:x:"}, {KeyPrefix: "workflow:a:isolated:x:y"}, {KeyPrefix: "workflow:\x00"}, {KeyPrefix: "workflow:\xff"}, {KeyPrefix: "workflow:" + strings.Repeat("x", 10_000)},
		{KeyPrefix: "workflow:", RetainSec: -1}, {KeyPrefix: "workflow:", RetainSec: math.NaN()}, {KeyPrefix: "workflow:", RetainSec: math.Inf(1)},
	} {
		if err := bad.Validate(); belljar.CodeOf(err) != belljar.CodeInvalidRequest {
			t.Errorf("%.60q: %v", bad.KeyPrefix, err)
		}
	}
}

// FuzzKeyPrefix: an accepted prefix is valid in JSON and in a URL, and is bounded.
func FuzzKeyPrefix(f *testing.F) {
	for _, seed := range []string{"", "workflow:run_123:", "thread:%3A", "agent:\x00", "user:\xff\xfe", "workflow:é:"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, prefix string) {
		if (belljar.SessionQuery{KeyPrefix: prefix}).Validate() == nil && (len(prefix) > 4096 || strings.ContainsAny(prefix, "\x00\r\n\x7f")) {
			t.Errorf("%q is accepted", prefix)
		}
	})
}

func TestCloseRequestCovers(t *testing.T) {
	for prefix, scopes := range map[string]map[string]bool{
		"workflow:run_1:":        {"workflow:run_1:default": true, "workflow:run_1:isolated:x": true, "workflow:run_12:default": false},
		"workflow:run_1":         {"workflow:run_1:default": true, "workflow:run_12:default": false, "workflow:run_1%3A2:default": false},
		"workflow:run_1:build":   {"workflow:run_1:build": true, "workflow:run_1:builder": false, "workflow:run_1:default": false},
		"workflow:":              {"workflow:run_1:default": true, "agent:run_1:default": false},
		"workflow:run_1:default": {"workflow:run_1": false, "": false},
	} {
		for scope, want := range scopes {
			if got := (belljar.CloseRequest{KeyPrefix: prefix}).Covers(scope); got != want {
				t.Errorf("%s covers %s: %v", prefix, scope, got)
			}
		}
	}
}
