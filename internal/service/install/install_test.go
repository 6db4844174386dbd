package install

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	goruntime "runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/egress"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service/placement"
	"github.com/belljar/belljar/internal/shelf"
)

func toolOf(name string) *tool {
	for _, t := range tools() {
		if t.name == name {
			return t
		}
	}
	return nil
}

// TestKeys checks which users share a layer, and that its key covers all inputs that determine it.
func TestKeys(t *testing.T) {
	mirror, _ := url.Parse("https://packages.example.com/simple/")
	with := New(Options{Mirrors: map[string][]*url.URL{"pip": {mirror}}})
	without := New(Options{})
	order := func(change func(*Order)) Order {
		o := Order{
			Caller: belljar.Caller{ID: "ada"}, Packages: belljar.Packages{Pip: []string{"a", "b"}},
			Placement: &placement.Placement{Image: runtime.Root{Ref: "python:3", Digest: "sha256:1"}},
		}
		change(&o)
		return o
	}
	same := func(*Order) {}
	usual := order(same)
	key := func(i *Installer, o Order, owner string) string {
		return i.key(toolOf("pip"), o.Packages.Pip, o, owner)
	}
	mine := key(without, usual, "ada")
	for name, c := range map[string]struct {
		same bool
		key  string
	}{
		"again":          {true, key(without, order(same), "ada")},
		"another order":  {true, key(without, order(func(o *Order) { o.Packages.Pip = []string{"b", "a"} }), "ada")},
		"refresh":        {true, key(without, order(func(o *Order) { o.Packages.Refresh = true }), "ada")},
		"another user":   {false, key(without, usual, "bob")},
		"everyone":       {false, key(without, usual, everyone)},
		"build":          {false, key(without, order(func(o *Order) { o.Packages.Build = true }), "ada")},
		"another index":  {false, key(with, usual, "ada")},
		"another image":  {false, key(without, order(func(o *Order) { o.Placement.Image.Digest = "sha256:2" }), "ada")},
		"more":           {false, key(without, order(func(o *Order) { o.Packages.Pip = []string{"a", "b", "c"} }), "ada")},
		"no identity":    {false, key(without, order(func(o *Order) { o.Placement.Image.Digest = "" }), "ada")},
		"another tool":   {false, without.key(toolOf("npm"), usual.Packages.Pip, usual, "ada")},
		"a user's name:": {false, key(without, usual, `ada","`)},
	} {
		if (c.key == mine) != c.same {
			t.Errorf("%s: the same is %v", name, c.key == mine)
		}
	}
	build := order(func(o *Order) { o.Packages.Build = true })
	if !with.sharable(toolOf("pip"), usual) || with.sharable(toolOf("pip"), build) || with.sharable(toolOf("npm"), usual) || without.sharable(toolOf("pip"), usual) {
		t.Error("what is shared: only what comes from the operator's index, without build scripts")
	}
	if !hashed([]belljar.Package{{Hash: "sha256:1"}}) || hashed([]belljar.Package{{Hash: "sha256:1"}, {}}) {
		t.Error("hashed")
	}
}

// TestKept checks that only a layer's owner finds it, and that it is reused while its versions are recent.
func TestKept(t *testing.T) {
	now := time.Unix(2e9, 0)
	i := New(Options{Shelf: &shelf.Shelf{Dir: t.TempDir(), Keep: 1 << 20, Max: 1 << 20}, TTL: time.Hour, Now: func() time.Time { return now }})
	l, err := i.opts.Shelf.Put("ada's", nil, now, strings.NewReader(string(make([]byte, 1024))))
	if err != nil {
		t.Fatal(err)
	}
	l.Release()
	found := func(key string, fresh bool) bool {
		l, err := i.kept([]string{key}, now, fresh)
		if err != nil {
			t.Fatal(err)
		}
		l.Release()
		return l != nil
	}
	if !found("ada's", false) || found("bob's", false) || !found("ada's", true) {
		t.Error("just made")
	}
	now = now.Add(time.Minute)
	if !found("ada's", false) || found("ada's", true) {
		t.Error("a minute old")
	}
	if l, err = i.opts.Shelf.Put("shared", nil, now, strings.NewReader(string(make([]byte, 1024)))); err != nil {
		t.Fatal(err)
	}
	l.Release()
	for _, keys := range [][]string{{"ada's", "shared"}, {"shared", "ada's"}} {
		l, err := i.kept(keys, now, false)
		if err != nil || l == nil || !l.Resolved.Equal(now) {
			t.Errorf("%v: %v, %v; want the later one", keys, l, err)
		}
		l.Release()
	}
	now = now.Add(time.Hour)
	if found("ada's", false) {
		t.Error("older than the time for which versions are kept")
	}
	none := New(Options{})
	if _, err := none.Ready(t.Context(), Order{Packages: belljar.Packages{Pip: []string{"a"}}}); belljar.CodeOf(err) != belljar.CodeRuntimeUnavailable {
		t.Errorf("without a shelf: %v", err)
	}
}

func TestMirrors(t *testing.T) {
	got, err := Mirrors([]string{"pip=https://packages.example.com/simple", "npm=http://npm.example.com", "github=https://a.example", "github=https://b.example"})
	if err != nil || got["pip"][0].String() != "https://packages.example.com/simple/" || got["npm"][0].String() != "http://npm.example.com/" || len(got["github"]) != 2 {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := Mirrors([]string{"pip=https://a.example", "pip=https://b.example"}); err == nil || !strings.Contains(err.Error(), "twice") {
		t.Errorf("two indexes of pip: %v", err)
	}
	for _, bad := range []string{"pip", "pip=", "pip=packages.example.com", "pip=ftp://x", "pip=https://user:word@x/", "pip=https://x/?a=b", "pip=https://x/#a"} {
		if _, err := Mirrors([]string{bad}); err == nil || strings.Contains(err.Error(), "word@") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// TestIndex queries an index, within a policy.
func TestIndex(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.EscapedPath() {
		case "/simple/json/", "/group%2Fproject/simple/json/":
			w.Header().Set("Content-Type", "application/vnd.pypi.simple.v1+json")
			_, _ = w.Write([]byte(`{"files":[{"url":"https://Files.example.com/a.tar.gz"},{"url":"../../b.whl"}]}`))
		case "/simple/html/":
			w.Header().Set("Content-Type", "text/html")
			_, _ = w.Write([]byte(`<!DOCTYPE html><a class="x" href="https://files.example.com/a.tar.gz#sha256=1">a</a>`))
		case "/simple/moved/":
			http.Redirect(w, r, "/simple/html/", http.StatusFound)
		case "/simple/away/":
			http.Redirect(w, r, "http://elsewhere.test:"+r.Host[strings.LastIndexByte(r.Host, ':')+1:]+"/x?token=secret", http.StatusFound)
		case "/simple/broken/":
			w.Header().Set("Content-Type", "application/vnd.pypi.simple.v1+json")
			_, _ = w.Write([]byte(`{"files":`))
		case "/simple/heads/":
			w.Header().Set("X-Large", strings.Repeat("x", 65<<10))
			_, _ = w.Write([]byte(`{"files":[]}`))
		case "/simple/private/":
			w.WriteHeader(http.StatusForbidden)
		case "/simple/@a%2fb":
			_, _ = w.Write([]byte(`{"versions":{"1.0.0":{"dist":{"tarball":"https://tar.example.com/b.tgz"}}}}`))
		default:
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	to, _ := url.Parse(server.URL)
	n := port(to)
	base, _ := parseIndex("http://index.test:" + to.Port() + "/simple")
	ask := func(kind string, private bool, names ...string) ([]found, error) {
		rules, err := egress.ParseList("test", []string{"index.test", "127.0.0.1"})
		if err != nil {
			t.Fatal(err)
		}
		x := open(toolOf(kind), base, nil, egress.NewGate(egress.Options{
			Policy:   egress.Policy{Run: rules, Server: rules, Ports: []uint16{n}, Private: private},
			Resolver: resolver{}, Dial: func(ctx context.Context, a netip.AddrPort) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "tcp", a.String())
			},
		}))
		defer x.close()
		return x.ask(t.Context(), names)
	}
	got, err := ask("pip", true, "json", "html", "moved")
	if err != nil {
		t.Fatal(err)
	}
	if !got[0].hosts["files.example.com"] || !got[0].hosts["index.test"] || !got[0].built || got[1].built || !got[1].hosts["files.example.com"] || len(got[2].hosts) != 1 {
		t.Errorf("%+v", got)
	}
	if got, err = ask("npm", true, "@a/b"); err != nil || !got[0].hosts["tar.example.com"] {
		t.Errorf("%+v, %v", got, err)
	}
	base, _ = parseIndex("http://index.test:" + to.Port() + "/group%2Fproject/simple")
	if got, err = ask("pip", true, "json"); err != nil || !got[0].built || base.String() != "http://index.test:"+to.Port()+"/group%2Fproject/simple/" {
		t.Errorf("an address with an escaped slash: %v, %+v, %v", base, got, err)
	}
	base, _ = parseIndex("http://index.test:" + to.Port() + "/simple")
	if got, err = ask("pip", true, "html", "missing"); err != nil || got[0].missing || !got[1].missing {
		t.Errorf("%+v, %v", got, err)
	}
	for name, c := range map[string]struct {
		private bool
		code    belljar.Code
		says    string
	}{
		"away":    {true, belljar.CodePolicyDenied, "pip: the index index.test redirects to another host: http://elsewhere.test:" + to.Port() + "/x"},
		"broken":  {true, belljar.CodeRuntimeUnavailable, "pip: the index index.test cannot be used: its answer cannot be read"},
		"private": {true, belljar.CodeRuntimeUnavailable, "pip: the index index.test cannot be used: it answers 403 Forbidden"},
		"heads":   {true, belljar.CodeRuntimeUnavailable, "pip: the index index.test does not answer"},
		"json":    {false, belljar.CodePolicyDenied, "no public address"},
	} {
		_, err := ask("pip", c.private, "html", name)
		if !c.private {
			_, err = ask("pip", false, name)
		}
		var e *belljar.Error
		if !errors.As(err, &e) || e.Code != c.code || !strings.Contains(e.Message, c.says) || strings.Contains(e.Message, "secret") || e.Hint == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestIndexStream checks that a response is read as a stream, and that only one part of it is buffered.
func TestIndexStream(t *testing.T) {
	const simple = "application/vnd.pypi.simple.v1+json"
	for name, c := range map[string]struct {
		kind  string
		links func(page, func(string) error) error
		begin string // with one link
		more  string // repeated endlessly
	}{
		"pip":            {simple, pipLinks, `{"meta":{"a":[1]},"files":[{"url":"first"},{"url":"`, `x`},
		"pip, many":      {simple, pipLinks, `{"files":[{"url":"first"}`, `,{}`},
		"pip, others":    {simple, pipLinks, `{"files":[{"url":"first"}],"versions":[`, `"1",`},
		"pip, nested":    {simple, pipLinks, `{"files":[{"url":"first"},`, `[`},
		"html":           {"text/html", pipLinks, `<a href="first">`, `x`},
		"npm":            {"", npmLinks, `{"versions":{"1":{"dist":{"tarball":"first"}},"`, `x`},
		"npm, in a list": {"", npmLinks, `{"versions":{"1":{"dist":{"tarball":"first"}},"2":{"dist":[`, `1,`},
	} {
		came, body := make(chan struct{}), &endless{text: []byte(strings.Repeat(c.more, 4096))}
		seen := sync.OnceFunc(func() { close(came) })
		r, w := io.Pipe()
		var writer sync.WaitGroup
		writer.Go(func() {
			_, _ = io.WriteString(w, c.begin)
			<-came // before the rest arrives
			_, err := io.Copy(w, body)
			w.CloseWithError(err)
		})
		err := c.links(page{kind: c.kind, body: r}, func(link string) error {
			if link == "first" {
				seen()
			}
			return nil
		})
		r.Close()
		seen()
		writer.Wait()
		if err == nil || body.n > 4*maxMember {
			t.Errorf("%s: %v after %d bytes", name, err, body.n)
		}
	}
}

// endless is an endless text.
type endless struct {
	text []byte
	n    int
}

func (e *endless) Read(p []byte) (int, error) {
	n := copy(p, e.text)
	e.n += n
	return n, nil
}

// resolver has one address, for index.test and elsewhere.test.
type resolver struct{}

func (resolver) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
}

// TestTools parses the output of tools.
func TestTools(t *testing.T) {
	for requirement, want := range map[string]string{"requests": "requests", "Ruamel.YAML[jinja2] >= 1": "ruamel-yaml", "a_-b==1": "a-b", "x~=1": "x"} {
		if got := pipProject(requirement); got != want {
			t.Errorf("%s: %s", requirement, got)
		}
	}
	for requirement, want := range map[string]string{"left-pad": "left-pad", "left-pad@1": "left-pad", "@types/node": "@types/node", "@types/node@^22": "@types/node"} {
		if got := npmProject(requirement); got != want {
			t.Errorf("%s: %s", requirement, got)
		}
	}
	lock, err := npmLocked([]byte(`{"packages":{"":{},"node_modules/b":{"version":"2","integrity":"sha512-x"},"node_modules/b/node_modules/@s/a":{"version":"1"}}}`))
	if err != nil || len(lock) != 2 || lock[0].Name != "@s/a" || lock[1] != (belljar.Package{Name: "b", Version: "2", Hash: "sha512-x"}) {
		t.Errorf("%+v, %v", lock, err)
	}
	lock, err = npmLocked([]byte(`{"packages":{"short":{},"some/where/else":{"version":"3"}}}`)) // an image's own npm may write this
	if err != nil || len(lock) != 2 || lock[0].Name != "short" || lock[1] != (belljar.Package{Name: "some/where/else", Version: "3"}) {
		t.Errorf("%+v, %v", lock, err)
	}
	lock, err = npmLocked([]byte(`{"lockfileVersion":1,"dependencies":{"b":{"version":"2","integrity":"sha512-x","dependencies":{"@s/a":{"version":"1"}}},"c":{"version":"3"}}}`))
	if err != nil || len(lock) != 3 || lock[0] != (belljar.Package{Name: "@s/a", Version: "1"}) || lock[1] != (belljar.Package{Name: "b", Version: "2", Hash: "sha512-x"}) || lock[2].Name != "c" {
		t.Errorf("npm 6: %+v, %v", lock, err)
	}
	for name, bomb := range map[string]string{"pip": `{"install":[{}` + strings.Repeat(",{}", maxLock/3-10) + `]}`, "npm": `{"packages":{"":{}` + strings.Repeat(`,"":{}`, maxLock/6-10) + `}}`} {
		var before, after goruntime.MemStats
		goruntime.ReadMemStats(&before)
		_, err := toolOf(name).read([]byte(bomb))
		goruntime.ReadMemStats(&after)
		if got := after.TotalAlloc - before.TotalAlloc; err == nil || got > maxLock*3/2 {
			t.Errorf("%s: %d MiB for a lock of many values, %v", name, got>>20, err)
		}
	}
	if !unfit([]belljar.Package{{Name: strings.Repeat("n", maxKept)}, {Version: "1"}}) || !unfit(make([]belljar.Package, maxLocked+1)) || unfit(make([]belljar.Package, maxLocked)) || !unfit(nil) {
		t.Error("a lock has another bound")
	}
	lock, err = pipLocked([]byte(`{"install":[{"metadata":{"name":"a","version":"1"},"download_info":{"archive_info":{"hash":"sha256=ab"}}}]}`))
	if err != nil || len(lock) != 1 || lock[0] != (belljar.Package{Name: "a", Version: "1", Hash: "sha256:ab"}) {
		t.Errorf("%+v, %v", lock, err)
	}
	for text, want := range map[string]string{
		"ERROR: No matching distribution found for a==9\n": "pip: No matching distribution found for a==9",
		"no such option: --report":                         "pip: that of the image is older than 22.2",
		"anything":                                         "",
	} {
		e := pipFault(text, order{wanted: []string{"a"}, found: []found{{built: true}}})
		if e == nil && want != "" || e != nil && e.Message != want {
			t.Errorf("%q: %v", text, e)
		}
	}
	for text, want := range map[string]string{
		"npm error code E404\nnpm error 404 Not Found":                 "does not have",
		"npm ERR! code ETARGET\n":                                      "no version matches",
		"npm error request to https://x failed, reason: self-signed\n": "cannot be used",
		"npm error code X\nnpm error odd\nnpm error A complete log":    "npm: odd",
	} {
		if e := npmFault(text, order{}); e == nil || !strings.Contains(e.Message, want) || e.Hint == "" {
			t.Errorf("%q: %v", text, e)
		}
	}
}

// TestSidePlace checks that the sandbox of an installation has the files and the memory that it needs, within the reservation of its request.
func TestSidePlace(t *testing.T) {
	i := New(Options{MB: 1024, Time: time.Minute})
	disk := belljar.Workspace{Medium: "disk"}
	for name, c := range map[string]struct {
		limits belljar.Limits
		on     belljar.Workspace
		want   int // MiB of memory
	}{
		"usual":                    {limits: belljar.Limits{MemoryMB: 512, WorkspaceMB: 256}, want: 512},
		"little":                   {limits: belljar.Limits{MemoryMB: 64, WorkspaceMB: 16}, want: 512},
		"much memory":              {limits: belljar.Limits{MemoryMB: 4096, WorkspaceMB: 256}, want: 2304},
		"a large workspace":        {limits: belljar.Limits{MemoryMB: 512, WorkspaceMB: 8000}, want: 512},
		"much of both":             {limits: belljar.Limits{MemoryMB: 4096, WorkspaceMB: 4096}, want: 4096},
		"a workspace on disk":      {limits: belljar.Limits{MemoryMB: 512, WorkspaceMB: 9000}, on: disk, want: 512},
		"much memory, on a disk":   {limits: belljar.Limits{MemoryMB: 4096, WorkspaceMB: 9000}, on: disk, want: 2048},
		"a little more, on a disk": {limits: belljar.Limits{MemoryMB: 600, WorkspaceMB: 9000}, on: disk, want: 512},
	} {
		p := placement.Placement{Limits: c.limits, Workspace: c.on, InstallMB: Memory(1024)}
		got := i.sidePlace(&p)
		if got.Limits.MemoryMB != c.want || got.Limits.WorkspaceMB != 2048 || got.Workspace.OnDisk() {
			t.Errorf("%s: %d MiB of memory, %d of files", name, got.Limits.MemoryMB, got.Limits.WorkspaceMB)
		}
		if used := got.ReservedMB(); used > p.ReservedMB() {
			t.Errorf("%s: %d MiB, of which %d are reserved", name, used, p.ReservedMB())
		}
	}
}
