package install

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service/admission"
	"github.com/belljar/belljar/internal/service/box"
	"github.com/belljar/belljar/internal/service/placement"
	"github.com/belljar/belljar/internal/shelf"
)

// TestPresetNames checks that the table is complete.
func TestPresetNames(t *testing.T) {
	var names []string
	for _, p := range presets() {
		names = append(names, p.name)
		if p.ask == nil != (p.read == nil) || p.ask == nil != (p.set == nil) {
			t.Errorf("%s is not whole", p.name)
		}
	}
	if !slices.Equal(names, belljar.EgressPresets()) {
		t.Errorf("%q", names)
	}
}

// TestRead finds indexes in the output of tools.
func TestRead(t *testing.T) {
	for name, c := range map[string]struct{ preset, printed, want string }{
		"pip":              {"pip", "https://extra.example.com/simple https://pip.example.com/simple\n", "https://extra.example.com/simple https://pip.example.com/simple"},
		"npm":              {"npm", "https://npm.example.com/\n", "https://npm.example.com/"},
		"go":               {"go", "https://go.example.com,https://two.example.com|direct\nsum.example.com\n", "https://go.example.com https://two.example.com https://sum.example.com"},
		"go, key":          {"go", "https://go.example.com\nsum.example.com+0123+abc/d\n", "https://go.example.com https://sum.example.com"},
		"go, server":       {"go", "https://go.example.com\nsum.example.com+0123+abc/d https://at.example.com\n", "https://go.example.com https://at.example.com"},
		"go, no sums":      {"go", "https://go.example.com\noff\n", "https://go.example.com"},
		"go, direct":       {"go", "direct\nsum.example.com\n", ""},
		"cargo":            {"cargo", "[source.crates-io]\nreplace-with = 'm'\n[source.m]\nregistry = \"sparse+https://cargo.example.com/index/\"\n", "https://cargo.example.com/index/"},
		"cargo, git":       {"cargo", "[source.m]\nregistry = \"https://cargo.example.com/index.git\"\n", ""},
		"cargo, none":      {"cargo", "", ""},
		"maven":            {"maven", `<?xml version="1.0"?><settings><!-- <mirror><url>https://no.example.com</url></mirror> --><mirrors><mirror><mirrorOf>*</mirrorOf><url> https://maven.example.com/m </url></mirror></mirrors></settings>` + "\n" + `<?xml version="1.0"?><settings><mirrors><mirror><url>http://0.0.0.0/</url><blocked>true</blocked></mirror></mirrors></settings>`, "https://maven.example.com/m"},
		"maven, none":      {"maven", "<settings></settings>", ""},
		"apt":              {"apt", "debian bookworm listed keyring\nhttp://apt.example.com/debian\nhttp://security.example.com/debian\n", "http://apt.example.com/debian http://security.example.com/debian"},
		"apt, no sources":  {"apt", "debian bookworm\n", ""},
		"apt, no version":  {"apt", " \n", ""},
		"pip, no sense":    {"pip", "", ""},
		"maven, no sense":  {"maven", "<mirror><url>x", ""},
		"cargo, no sense.": {"cargo", "registry = \"sparse+file:///x\"", ""},
	} {
		if got := strings.Join(presetOf(c.preset).read(c.printed), " "); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	link := ""
	err := cargoLinks(page{body: strings.NewReader(`{"dl":"https://files.example.com/{crate}/{version}.crate"}`)}, func(l string) error {
		link = l
		return nil
	})
	if err != nil || link != "https://files.example.com/" {
		t.Errorf("%q, %v", link, err)
	}
}

// TestSettings checks the configuration of tools, with the operator's index and the image's.
func TestSettings(t *testing.T) {
	mirror := func(name, index string) belljar.NetworkPreset {
		return belljar.NetworkPreset{Name: name, Source: fromMirror, Indexes: []string{index}}
	}
	own := func(name string) belljar.NetworkPreset {
		return belljar.NetworkPreset{Name: name, Source: fromImage, Indexes: []string{"https://own.example.com/"}}
	}
	const debian, bare = "debian bookworm listed keyring\n", "debian trixie\n"
	for name, c := range map[string]struct {
		preset       belljar.NetworkPreset
		printed      string
		has, hasNone []string // variables, and lines of files
	}{
		"pip":           {mirror("pip", "https://p.example.com/"), "", []string{"PIP_INDEX_URL=https://p.example.com/", "PIP_EXTRA_INDEX_URL= \n", "PIP_BREAK_SYSTEM_PACKAGES=1"}, []string{"TRUSTED"}},
		"pip, http":     {mirror("pip", "http://p.example.com:8080/"), "", []string{"PIP_TRUSTED_HOST=p.example.com:8080"}, nil},
		"pip's own":     {own("pip"), "", []string{"PIP_BREAK_SYSTEM_PACKAGES=1"}, []string{"INDEX", "own.example"}},
		"npm":           {mirror("npm", "https://n.example.com/"), "", []string{"npm_config_registry=https://n.example.com/"}, nil},
		"go":            {mirror("go", "https://g.example.com/"), "", []string{"GOPROXY=https://g.example.com\n", "GOSUMDB=off", "GOPATH=/workspace/go"}, nil},
		"go's own":      {own("go"), "", []string{"GOPATH=/workspace/go"}, []string{"GOPROXY", "GOSUMDB"}},
		"cargo":         {mirror("cargo", "https://c.example.com/i/"), "", []string{"CARGO_HOME=/workspace/.belljar/.cargo", `.belljar/.cargo/config.toml: registry = "sparse+https://c.example.com/i/"`, `.belljar/.cargo/config.toml: replace-with = "mirror"`}, nil},
		"cargo's own":   {own("cargo"), "", []string{`registry = "sparse+https://own.example.com/"`}, nil}, // its home differs here
		"maven":         {mirror("maven", "https://m.example.com/a&b/"), "", []string{"MAVEN_ARGS=-s /workspace/.belljar/.m2/settings.xml", "MAVEN_OPTS=-Duser.home=/workspace/.belljar", "<url>https://m.example.com/a&amp;b/</url>", "<localRepository>/workspace/.belljar/.m2/repository<"}, nil},
		"maven's own":   {own("maven"), "", []string{"MAVEN_OPTS=-Dmaven.repo.local=/workspace/.belljar/.m2/repository"}, []string{"settings"}},
		"apt":           {mirror("apt", "https://a.example.com/debian/"), debian, []string{"APT_CONFIG=/workspace/.apt/apt.conf", "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] https://a.example.com/debian/ bookworm main", `SourceParts "/dev/null"`}, []string{"Status"}},
		"apt, bare":     {mirror("apt", "https://a.example.com/debian/"), bare, []string{"sources.list: deb https://a.example.com/debian/ trixie main", `Dir::State::Status "/workspace/.apt/status"`, ".apt/status: "}, nil},
		"apt's own":     {own("apt"), debian, []string{`Dir::Cache "/workspace/.apt/cache"`}, []string{"SourceList", "sources.list"}},
		"apt, later":    {mirror("apt", "https://a.example.com/debian/"), "", []string{"APT_CONFIG="}, []string{"deb "}},
		"github":        {mirror("github", "https://g.example.com/"), "", nil, []string{"="}},
		"something new": {mirror("gem", "https://g.example.com/"), "", nil, []string{"="}},
	} {
		env, files := settings(c.preset, c.printed)
		var all strings.Builder
		for key, value := range env {
			all.WriteString(key + "=" + value + "\n")
		}
		for file, text := range files {
			for line := range strings.SplitSeq(text, "\n") {
				all.WriteString(file + ": " + line + "\n")
			}
		}
		for _, part := range c.has {
			if !strings.Contains(all.String(), part) {
				t.Errorf("%s has no %q:\n%s", name, part, all.String())
			}
		}
		for _, part := range c.hasNone {
			if strings.Contains(all.String(), part) {
				t.Errorf("%s has %q:\n%s", name, part, all.String())
			}
		}
	}
	env := Environment([]belljar.NetworkPreset{mirror("pip", "https://p.example.com/"), mirror("npm", "https://n.example.com/")})
	if env["PIP_INDEX_URL"] == "" || env["npm_config_registry"] == "" || Environment(nil) != nil {
		t.Errorf("%v", env)
	}
}

// TestManyIndexes checks that an image cannot make the server query any number of indexes.
func TestManyIndexes(t *testing.T) {
	a := answer{NetworkPreset: belljar.NetworkPreset{Name: "pip", Source: fromImage}, urls: make([]*url.URL, maxIndexes+1)}
	for i := range a.urls {
		a.urls[i], _ = url.Parse("https://pip.example.com/" + strings.Repeat("x", i))
	}
	if err := New(Options{}).locate(t.Context(), Order{}, &a); belljar.CodeOf(err) != belljar.CodeImageInvalid || !strings.Contains(err.Error(), "33 indexes") {
		t.Error(err)
	}
}

// TestAnswers checks the cache keys of answers, and how long they are cached.
func TestAnswers(t *testing.T) {
	now := time.Unix(2e9, 0)
	u, _ := url.Parse("https://a.example.com/")
	other, _ := url.Parse("https://b.example.com/")
	installer := func(dir string, mirrors map[string][]*url.URL) *Installer {
		return New(Options{Shelf: &shelf.Shelf{Dir: dir}, Mirrors: mirrors, TTL: time.Hour, Now: func() time.Time { return now }})
	}
	order := func(digest string) Order {
		return Order{Placement: &placement.Placement{Image: runtime.Root{Ref: "python:3", Digest: digest}}}
	}
	none, one, two := installer(t.TempDir(), nil), installer("", map[string][]*url.URL{"pip": {u}, "apt": {u}}), installer("", map[string][]*url.URL{"pip": {other}})
	key := none.presetKey(presetOf("pip"), order("1"))
	for name, c := range map[string]struct {
		same bool
		key  string
	}{
		"again":          {true, none.presetKey(presetOf("pip"), order("1"))},
		"another preset": {false, none.presetKey(presetOf("npm"), order("1"))},
		"another image":  {false, none.presetKey(presetOf("pip"), order("2"))},
		"a mirror":       {false, one.presetKey(presetOf("pip"), order("1"))},
	} {
		if (c.key == key) != c.same {
			t.Errorf("%s: the same is %v", name, c.key == key)
		}
	}
	host := Order{Placement: &placement.Placement{Image: runtime.Root{Ref: runtime.HostRef}}}
	if without := none.presetKey(presetOf("apt"), host); without != "" {
		host.Placement.Image.Layers = []runtime.Layer{{Name: "pip"}, {Name: "npm"}}
		if none.presetKey(presetOf("apt"), host) != without {
			t.Error("the key depends on the packages of the sandbox")
		}
	}
	if none.presetKey(presetOf("pip"), order("")) != "" {
		t.Error("what an unknown image says is kept")
	}
	if one.presetKey(presetOf("pip"), order("1")) != one.presetKey(presetOf("pip"), order("2")) || one.presetKey(presetOf("pip"), order("1")) == two.presetKey(presetOf("pip"), order("1")) {
		t.Error("a mirror is the same in all images, and another one is not")
	}
	if one.presetKey(presetOf("apt"), order("1")) == one.presetKey(presetOf("apt"), order("2")) {
		t.Error("how apt is set depends on the image")
	}
	if _, ok := none.keptAnswer(key); ok {
		t.Error("found before it is kept")
	}
	learnt := now
	a := answer{NetworkPreset: belljar.NetworkPreset{Name: "pip", Hosts: []string{"a.example.com"}, LearntAt: &learnt}, Printed: "x"}
	none.keepAnswer(key, a)
	if got, ok := none.keptAnswer(key); !ok || got.Hosts[0] != "a.example.com" || got.Printed != "x" {
		t.Errorf("%+v %v", got, ok)
	}
	for _, name := range []string{key + ".json", "new-1"} { // of an image that no request names again, and of a killed process
		name = filepath.Join(none.opts.Shelf.Dir, answersDir, name)
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if old := time.Now().Add(-time.Hour); os.Chtimes(name, old, old) != nil {
			t.Fatal("it stays young")
		}
	}
	none.keepAnswer("other", a)
	if left, err := os.ReadDir(filepath.Join(none.opts.Shelf.Dir, answersDir)); err != nil || len(left) != 1 || left[0].Name() != "other.json" {
		t.Errorf("%v, %v", left, err)
	}
	now = now.Add(time.Hour)
	if _, ok := none.keptAnswer("other"); ok {
		t.Error("found after its time")
	}
	none.keepAnswer("", a)
	New(Options{}).keepAnswer(key, a) // there is no shelf
}

// TestKnown checks that a preset that a session has is not resolved again, unless the operator has set another index since.
func TestKnown(t *testing.T) {
	u, _ := url.Parse("https://a.example.com/")
	other, _ := url.Parse("https://b.example.com/")
	has := func(source string) belljar.NetworkPreset {
		return belljar.NetworkPreset{Name: "apt", Source: source, Indexes: []string{u.String()}, Hosts: []string{"a.example.com"}, LearntAt: new(time.Unix(1e9, 0))}
	}
	for name, c := range map[string]struct {
		mirrors []*url.URL
		known   []belljar.NetworkPreset
		want    belljar.Code
	}{
		"not known":      {nil, nil, belljar.CodeConflict},
		"the image's":    {nil, []belljar.NetworkPreset{has(fromImage)}, ""},
		"a mirror":       {[]*url.URL{u}, []belljar.NetworkPreset{has(fromMirror)}, ""},
		"another mirror": {[]*url.URL{other}, []belljar.NetworkPreset{has(fromMirror)}, belljar.CodeConflict},
		"a new mirror":   {[]*url.URL{u}, []belljar.NetworkPreset{has(fromImage)}, belljar.CodeConflict},
	} {
		rules, err := admission.Policy{EgressAllow: []string{"a.example.com"}}.Egress()
		if err != nil {
			t.Fatal(err)
		}
		i := New(Options{Egress: rules, Now: time.Now, Mirrors: map[string][]*url.URL{"apt": c.mirrors}})
		o := Order{Caller: belljar.Caller{ID: "ann"}, Known: c.known, Egress: belljar.Egress{Presets: []string{"apt"}}, Placement: &placement.Placement{Image: runtime.Root{Ref: "debian"}}}
		answers, errs := i.resolve(t.Context(), o)
		if belljar.CodeOf(errs[0]) != c.want || errs[0] == nil && !slices.Equal(answers[0].Hosts, c.known[0].Hosts) {
			t.Errorf("%s: %+v, %v", name, answers, errs)
		}
	}
}

// TestLeads checks that an image's index cannot open a host that the server's rules deny, even if they permit the index: not for a preset, a
// cached answer, or an installation.
func TestLeads(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/vnd.pypi.simple.v1+json")
		_, _ = w.Write([]byte(`{"files":[{"url":"https://Files.test/a.whl"}]}`))
	}))
	defer server.Close()
	to, _ := url.Parse(server.URL)
	u, _ := parseIndex("http://index.test:" + to.Port() + "/simple")
	for name, c := range map[string]struct {
		image, source string
		allow         []string
		ok            bool
	}{
		"the index alone": {"python:3", fromImage, []string{"index.test"}, false},
		"both":            {"python:3", fromImage, []string{"index.test", "files.test"}, true},
		"the host's own":  {runtime.HostRef, fromImage, nil, true},
		"a mirror":        {"python:3", fromMirror, nil, true},
	} {
		rules, err := admission.Policy{EgressAllow: append(c.allow, "127.0.0.1"), EgressPrivate: true, EgressPorts: []uint16{port(u)}}.Egress()
		if err != nil {
			t.Fatal(err)
		}
		i := New(Options{Egress: rules, Now: time.Now, Boxes: &box.Maker{Egress: box.Egress{
			Resolver: resolver{}, Dial: func(ctx context.Context, a netip.AddrPort) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "tcp", a.String())
			},
		}}})
		o := Order{Caller: belljar.Caller{ID: "ann"}, Placement: &placement.Placement{Image: runtime.Root{Ref: c.image}}}
		then, both := time.Unix(2e9, 0), []string{"files.test", "index.test"}
		fresh := &answer{NetworkPreset: belljar.NetworkPreset{Name: "pip", Source: c.source}, urls: []*url.URL{u}}
		kept := &answer{NetworkPreset: belljar.NetworkPreset{Name: "pip", Source: c.source, Indexes: []string{u.String()}, Hosts: both, LearntAt: &then}}
		s := &side{Installer: i, tool: toolOf("pip"), ask: o, place: o.Placement, order: order{wanted: []string{"a"}}}
		if c.source == fromMirror {
			s.order.mirror = u
		}
		_, reached := s.reach(t.Context(), []*url.URL{u})
		for what, err := range map[string]error{
			"a preset": i.locate(t.Context(), o, fresh), "one that is kept": i.locate(t.Context(), o, kept), "an installation": reached,
		} {
			var e *belljar.Error
			if c.ok && err != nil || !c.ok && (!errors.As(err, &e) || e.Code != belljar.CodePolicyDenied || !strings.Contains(e.Message, "leads to files.test")) {
				t.Errorf("%s, %s: %v", name, what, err)
			}
		}
		if c.ok && !slices.Equal(fresh.Hosts, both) || !c.ok && fresh.Hosts != nil {
			t.Errorf("%s: %q", name, fresh.Hosts)
		}
	}
}

// TestExtraIndexes checks that an installation may use all indexes of an image, and finds a project in any of them.
func TestExtraIndexes(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, _ := net.SplitHostPort(r.Host)
		if r.URL.Path != map[string]string{"index.test": "/simple/a/", "extra.test": "/simple/b/"}[host] {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/vnd.pypi.simple.v1+json")
		_, _ = w.Write([]byte(`{"files":[{"url":"https://files.` + host + `/a.whl"}]}`))
	}))
	defer server.Close()
	to, _ := url.Parse(server.URL)
	printed := "file:///wheels http://extra.test:" + to.Port() + "/simple http://index.test:" + to.Port() + "/simple\n"
	list, err := parseAsked([]byte(printed))
	if err != nil || len(list) != 2 || list[1].Hostname() != "index.test" {
		t.Fatalf("%v, %v", list, err)
	}
	for _, bad := range []string{"", "https://a.example.com/ none"} {
		if list, err := parseAsked([]byte(bad)); err == nil {
			t.Errorf("%q: %v", bad, list)
		}
	}
	rules, err := admission.Policy{EgressAllow: []string{"index.test", "extra.test", "files.index.test", "files.extra.test", "127.0.0.1"}, EgressPrivate: true, EgressPorts: []uint16{port(to), 443}}.Egress()
	if err != nil {
		t.Fatal(err)
	}
	i := New(Options{Egress: rules, Now: time.Now, Boxes: &box.Maker{Egress: box.Egress{
		Resolver: resolver{}, Dial: func(ctx context.Context, a netip.AddrPort) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", a.String())
		},
	}}})
	place := &placement.Placement{Image: runtime.Root{Ref: "python:3"}}
	s := &side{Installer: i, tool: toolOf("pip"), ask: Order{Caller: belljar.Caller{ID: "ann"}, Placement: place}, place: place, order: order{wanted: []string{"a", "b"}}}
	policy, err := s.reach(t.Context(), list)
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{"index.test", "extra.test", "files.index.test", "files.extra.test"} {
		if _, reason := policy.Decide(host, 443); reason != "" {
			t.Errorf("%s: %s", host, reason)
		}
	}
	const none = "PIP_EXTRA_INDEX_URL= "
	if s.order.mirror = list[1]; !slices.Contains(s.environment(), none) {
		t.Errorf("with a mirror: %q", s.environment())
	}
	if s.order.mirror = nil; slices.Contains(s.environment(), none) {
		t.Errorf("without one: %q", s.environment())
	}
	if s.order.wanted = []string{"a", "c"}; !s.order.found[0].built || !s.order.found[1].built {
		t.Errorf("%+v", s.order.found)
	}
	var e *belljar.Error
	if _, err = s.reach(t.Context(), list); !errors.As(err, &e) || e.Message != "pip: the index has no package c" || e.Details["field"] != "packages.pip[1]" {
		t.Errorf("%v", err)
	}
}

// TestFirst finds a project in the list of an index.
func TestFirst(t *testing.T) {
	at, _ := url.Parse("https://pip.example.com/simple/")
	for name, c := range map[string]struct{ kind, body, want string }{
		"json":      {"application/vnd.pypi.simple.v1+json", `{"projects": [{"name": "Some.Thing"}, {"name": "b"}]}`, "some-thing"},
		"html":      {"text/html", `<html><a href="/simple/some-thing/">Some.Thing</a><a href="b/">b</a>`, "some-thing"},
		"relative":  {"text/html", `<a href="some-thing/">`, "some-thing"},
		"none":      {"text/html", `<html>`, ""},
		"none json": {"application/vnd.pypi.simple.v1+json", `{"projects": []}`, ""},
		"no json":   {"application/vnd.pypi.simple.v1+json", `<html>`, ""},
	} {
		if got := pipFirst(page{at, c.kind, strings.NewReader(c.body)}); got != c.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}
