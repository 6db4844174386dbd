package belljar

import (
	"errors"
	"net/url"
	"strings"
	"testing"
)

// fieldOf returns the field of an error about a request, "" for a valid one.
func fieldOf(t *testing.T, err error) string {
	t.Helper()
	var e *Error
	if err == nil {
		return ""
	}
	if !errors.As(err, &e) || e.Code != CodeInvalidRequest {
		t.Fatalf("%v", err)
	}
	return e.Details["field"].(string)
}

func TestGitURL(t *testing.T) {
	for text, want := range map[string]string{
		"https://example.com/app.git": "example.com:443", "https://EXAMPLE.com:8443/a/b": "example.com:8443", "https://xn--bcher-kva.example/a": "xn--bcher-kva.example:443",
		"https://example.com": "example.com:443", "https://example.com/a%20b.git": "example.com:443", "https://example.com/~user/x": "example.com:443",
		"": "", "example.com/app.git": "", "git@example.com:app.git": "", "ssh://git@example.com/app.git": "", "git://example.com/app.git": "",
		"http://example.com/app.git": "", "file:///etc": "", "/srv/app.git": "", "ext::sh -c id": "", "HTTPS://example.com/a": "example.com:443",
		"https://user@example.com/a": "", "https://user:secret@example.com/a": "", "https://@example.com/a": "",
		"https://example.com/a?b=c": "", "https://example.com/a#main": "", "https://example.com/a?": "", "https://example.com/a#": "",
		"https:///a": "", "https://:443/a": "", "https://example.com:0/a": "", "https://example.com:65536/a": "", "https://example.com:x/a": "",
		"https://192.0.2.1/a": "", "https://[2001:db8::1]/a": "", "https://[::1]:443/a": "", "--upload-pack=id": "", "-u": "",
		"https://example.com/a\nb": "", "https://example.com/a b": "", "https://example.com/a\x00": "", `https://example.com\@evil.test/a`: "", "https://example.com/\xff": "",
		"https:example.com/a": "", "https://example.com/" + strings.Repeat("a", 2<<10): "",
	} {
		host, port, err := (&GitSpec{URL: text}).Host()
		if want == "" {
			if fieldOf(t, err) != "git.url" {
				t.Errorf("%q: %s:%d", text, host, port)
			}
			if err != nil && strings.Contains(err.Error(), "secret") {
				t.Errorf("%v", err)
			}
			continue
		}
		if got := host + ":" + itoa(port); err != nil || got != want {
			t.Errorf("%q: %s, %v; want %s", text, got, err, want)
		}
	}
}

func itoa(n uint16) string { return plain(float64(n)) }

func TestGitSpec(t *testing.T) {
	const at, diff = "https://example.com/app.git", "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"
	hash := strings.Repeat("0123456789", 4)
	for name, tt := range map[string]struct {
		spec GitSpec
		want string // the field
	}{
		"all":            {GitSpec{Ref: "feature/x", Depth: 10, Patch: diff, Subdir: "services/api", KeepIgnored: true}, ""},
		"history":        {GitSpec{Ref: hash, KeepGit: true}, ""},
		"ref of umlauts": {GitSpec{Ref: "größe"}, ""},
		"HEAD":           {GitSpec{Ref: "HEAD"}, ""},
		"option":         {GitSpec{Ref: "--upload-pack=id"}, "git.ref"},
		"force":          {GitSpec{Ref: "+main"}, "git.ref"},
		"refspec":        {GitSpec{Ref: "main:main"}, "git.ref"},
		"range":          {GitSpec{Ref: "a..b"}, "git.ref"},
		"reflog":         {GitSpec{Ref: "main@{1}"}, "git.ref"},
		"at":             {GitSpec{Ref: "@"}, "git.ref"},
		"parent":         {GitSpec{Ref: "main~1"}, "git.ref"},
		"lock":           {GitSpec{Ref: "a.lock/b"}, "git.ref"},
		"hidden":         {GitSpec{Ref: "a/.b"}, "git.ref"},
		"slash":          {GitSpec{Ref: "a//b"}, "git.ref"},
		"end":            {GitSpec{Ref: "a/"}, "git.ref"},
		"dot":            {GitSpec{Ref: "a."}, "git.ref"},
		"space":          {GitSpec{Ref: "a b"}, "git.ref"},
		"line":           {GitSpec{Ref: "a\nb"}, "git.ref"},
		"not text":       {GitSpec{Ref: "a\xff"}, "git.ref"},
		"long":           {GitSpec{Ref: strings.Repeat("a", 251)}, "git.ref"},
		"depth":          {GitSpec{Depth: -1}, "git.depth"},
		"great depth":    {GitSpec{Depth: 1<<30 + 1}, "git.depth"},
		"no diff":        {GitSpec{Patch: "hello\n"}, "git.patch"},
		"binary":         {GitSpec{Patch: "--- \xff"}, "git.patch"},
		"large":          {GitSpec{Patch: diff + strings.Repeat("+", 1<<20)}, "git.patch"},
		"way out":        {GitSpec{Subdir: "a/../.."}, "git.subdir"},
		"absolute":       {GitSpec{Subdir: "/workspace/a"}, "git.subdir"},
		"dot git":        {GitSpec{Subdir: ".GIT/hooks"}, "git.subdir"},
		"both":           {GitSpec{Subdir: "a", KeepGit: true}, "git.keep_git"},
	} {
		tt.spec.URL = at
		err := tt.spec.Validate()
		if got := fieldOf(t, err); got != tt.want {
			t.Errorf("%s: field %q, want %q: %v", name, got, tt.want, err)
		}
		run, session := RunSpec{BaseImage: "host", Command: []string{"true"}, Git: &tt.spec}, SessionSpec{Git: &tt.spec}
		if a, b := fieldOf(t, run.Validate()), fieldOf(t, session.Validate()); a != tt.want || b != tt.want {
			t.Errorf("%s: in a run %q, in a session %q", name, a, b)
		}
	}
	var none *GitSpec
	if err := none.Validate(); err != nil {
		t.Error(err)
	}
	in := RunSpec{SessionID: NewID(), Command: []string{"true"}, Git: &GitSpec{URL: at}}
	if got := fieldOf(t, in.Validate()); got != "git" {
		t.Errorf("in a session: %q", got)
	}
	cached := RunSpec{BaseImage: "host", Language: "c", Code: "int main(){}", BuildCache: true, Git: &GitSpec{URL: at}}
	if got := fieldOf(t, cached.Validate()); got != "build_cache" {
		t.Errorf("with a build cache: %q", got)
	}
}

// FuzzGitURL: an accepted URL is https, for that host, and neither an option nor more than one line.
func FuzzGitURL(f *testing.F) {
	for _, s := range []string{"https://example.com/a.git", "https://a:b@c/d", "https://e\\@f/g", "ssh://x", "https://[::1]/", "https://a:443/b?c#d"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		g := &GitSpec{URL: s}
		host, port, err := g.Host()
		if err != nil {
			return
		}
		u, err := url.Parse(s)
		if err != nil || u.Scheme != "https" || u.User != nil || !strings.EqualFold(u.Hostname(), host) || port == 0 ||
			strings.ContainsAny(s, "\n\r\x00 \\") || strings.HasPrefix(s, "-") {
			t.Errorf("%q: %q, %d", s, host, port)
		}
	})
}

// FuzzGitRef: an accepted ref is never parsed as an option or a refspec.
func FuzzGitRef(f *testing.F) {
	for _, s := range []string{"main", "refs/heads/a", "-x", "+a", "a:b", "a^{commit}", ".lock"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if checkRef(s) == "" && (strings.HasPrefix(s, "-") || strings.ContainsAny(s, ": ^~\n\x00*") || strings.HasPrefix(s, "+")) {
			t.Errorf("%q", s)
		}
	})
}
