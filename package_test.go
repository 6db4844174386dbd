package belljar_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/belljar/belljar"
)

func TestPackages(t *testing.T) {
	for _, good := range []belljar.Packages{
		{},
		{Pip: []string{"requests", "A", "zope.interface", "typing_extensions", "ruamel-yaml"}},
		{Pip: []string{"pandas[excel]>=2,<3", "pandas [excel, html] >= 2.0 , != 2.1.*", "numpy==1.26.4", "x~=1.0", "y===2+local", "z!=1!2.0"}},
		{Npm: []string{"left-pad", "@types/node", "left-pad@1.3.0", "@types/node@^22", "a@latest", "b@>=1 <2", "c@1.x || 2", "lodash.merge", "JSONStream"}},
		{Pip: []string{"requests"}, Build: true, Refresh: true},
		{Npm: make([]string, 0)},
	} {
		if err := good.Validate(); err != nil {
			t.Errorf("%+v: %v", good, err)
		}
	}
	many := make([]string, 101)
	for i := range many {
		many[i] = fmt.Sprint("p", i)
	}
	long := "p" + strings.Repeat("x", 200)
	for _, bad := range []struct {
		field string
		p     belljar.Packages
	}{
		{"packages.apt", belljar.Packages{Apt: []string{"curl"}}},
		{"packages", belljar.Packages{Build: true}},
		{"packages", belljar.Packages{Refresh: true}},
		{"packages.pip", belljar.Packages{Pip: many}},
		{"packages.npm[0]", belljar.Packages{Npm: []string{long}}},
		{"packages.pip[1]", belljar.Packages{Pip: []string{"a", "a"}}},
	} {
		wantField(t, bad.p, bad.field)
	}
	for _, text := range []string{
		"", " ", "-r", "--index-url=https://example.com", "-e .", ".", "..", "./x", "/etc/passwd", "a/b", "https://example.com/a.whl",
		"git+https://example.com/a", "a @ https://example.com/a.whl", "file:///a", "a;b", "a; python_version<'3'", "$(id)", "`id`", "a&b", "a|b",
		"a\nb", "a\x00", "a b", "a[", "a[]", "a==", "a==1,", "a=1", "a>", "a'b", `a"b`, "a\\b", "é", "a*", "a{b}", "a#b", "a%20", "a[x]]", "a==1 2", "-", "_a",
	} {
		wantField(t, belljar.Packages{Pip: []string{text}}, "packages.pip[0]")
	}
	for _, text := range []string{
		"", " ", "-g", "--prefix=/", ".", "..", "../x", "./x", "/x", "a/b", "@a", "@a/", "@/a", "@a/b/c", "https://example.com/a.tgz", "git://x", "github:a/b",
		"a@https://x", "a@git+ssh://x", "a@file:x", "a@npm:b", "b@../x", "a;b", "$(id)", "`id`", "a&b", "a\nb", "a\x00", "a b", "a'b", "a@", "a@ ", "a@1;2",
		"a@$x", "a@(1)", "a@..", "é", "_a",
	} {
		wantField(t, belljar.Packages{Npm: []string{text}}, "packages.npm[0]")
	}
}

func wantField(t *testing.T, p belljar.Packages, field string) {
	t.Helper()
	err := p.Validate()
	var e *belljar.Error
	if !errors.As(err, &e) || e.Code != belljar.CodeInvalidRequest || e.Details["field"] != field {
		t.Errorf("%.100q: %v, want one about %s", append(p.Pip, p.Npm...), err, field)
		return
	}
	if strings.HasSuffix(field, "[0]") && !strings.Contains(e.Message, "longer") && e.Hint == "" {
		t.Errorf("%q: no hint", append(p.Pip, p.Npm...))
	}
}

// FuzzPackages: pip and npm never read a valid requirement as an option, a path or a URL.
func FuzzPackages(f *testing.F) {
	for _, seed := range []string{"requests", "a[b]==1", "@a/b@1", "-r", "a @ https://x", "../x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if (belljar.Packages{Pip: []string{text}}).Validate() == nil {
			if text[0] == '-' || strings.ContainsAny(text, "/\\:@;&|$`'\"(){}\n\r\t\x00#%") || strings.Contains(text, "..") {
				t.Errorf("pip: %q", text)
			}
		}
		if (belljar.Packages{Npm: []string{text}}).Validate() == nil {
			slashes := strings.Count(text, "/")
			if text[0] == '-' || slashes > 1 || slashes == 1 && text[0] != '@' || strings.ContainsAny(text, "\\:;&$`'\"(){}\n\r\t\x00#%") || strings.Contains(text, "..") {
				t.Errorf("npm: %q", text)
			}
		}
	})
}
