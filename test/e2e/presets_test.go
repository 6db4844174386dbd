//go:build linux

package e2e

import (
	"maps"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/belljar/belljar/test/dockerd"
	"github.com/belljar/belljar/test/image"
	"github.com/belljar/belljar/test/index"
	"github.com/belljar/belljar/test/need"
	"github.com/belljar/belljar/test/peer"
	"github.com/belljar/belljar/test/registry"
	"github.com/belljar/belljar/test/tier"
)

// supplied starts a server with an index for every tool as the operator's mirrors. github has two hosts.
func supplied(t *testing.T, more ...string) (*server, *index.Index, *peer.Peer) {
	t.Helper()
	p := peer.Start(t, "packages.test", "files.test", "other.test")
	x := index.Start(t, p, "packages.test", "files.test")
	x.Serve(t, p)
	mirrors := []string{
		"pip=" + x.PipURL(), "npm=" + x.NpmURL(), "cargo=" + x.CargoURL(), "go=" + x.GoURL(), "maven=" + x.MavenURL(), "apt=" + x.AptURL(),
		"github=https://files.test", "github=https://packages.test",
	}
	flags := append([]string{"--set", "egress_presets=pip,npm,cargo,go,maven,apt,github", "--set", "package_mirrors=" + strings.Join(mirrors, ",")}, more...)
	return serve(t, t.TempDir(), settings(t, p, x, flags...)...), x, p
}

// withPreset runs a program with a preset to its end. It trusts the peer.
func (s *server) withPreset(preset, script string, p *peer.Peer, more map[string]any) map[string]any {
	s.t.Helper()
	body := map[string]any{
		"spec_version": "1.0", "base_image": "host", "network_policy": "allowlist", "egress": map[string]any{"presets": []string{preset}},
		"command": []string{"sh", "-c", script}, "files": []any{map[string]any{"path": "ca.pem", "content_b64": p.CA}},
		"env": map[string]string{
			"SSL_CERT_FILE": "/workspace/ca.pem", "PIP_CERT": "/workspace/ca.pem", "NODE_EXTRA_CA_CERTS": "/workspace/ca.pem", "npm_config_cafile": "/workspace/ca.pem",
			"CARGO_HTTP_CAINFO": "/workspace/ca.pem",
		},
	}
	maps.Copy(body, more)
	status, run := s.ask(http.MethodPost, api+"/runs?wait=600s", body)
	if status != http.StatusOK {
		s.t.Fatalf("%d %v\n%s", status, run, s.output)
	}
	return run
}

// packager is a tool that gets a package from its index, and prints the package's content.
type packager struct {
	preset, tool string // the tool of the image host
	hosts        []string
	script, want string
	other        string // makes it look for a package elsewhere
}

// packagers returns all tools. The last two need an image of their own.
func packagers() []packager {
	const (
		crate = `touch src/lib.rs && printf '[package]\nname = "x"\nversion = "1.0.0"\nedition = "2021"\n[dependencies]\n%s = "1"\n' `
		pom   = `printf '<project><modelVersion>4.0.0</modelVersion><parent><groupId>test</groupId><artifactId>%s</artifactId><version>1.0</version></parent>` +
			`<artifactId>x</artifactId><packaging>pom</packaging></project>' `
	)
	both := []string{"files.test", "packages.test"}
	return []packager{
		{
			"pip", "/usr/bin/python3", both, `/usr/bin/python3 -m pip install -q greeter && /usr/bin/python3 -c 'import greeter'`, "from pip\n",
			`/usr/bin/python3 -m pip install -q --index-url https://other.test/pip another`,
		},
		{"npm", "/usr/bin/npm", both, `npm install --silent pad >/dev/null && node -e "require(\"pad\")"`, "from npm\n", `npm install --registry https://other.test/npm another`},
		{
			"go", "/usr/local/go/bin/go", both[1:], `go mod download -json example.test/hello@v1.0.0 >/dev/null && cat go/pkg/mod/example.test/hello@v1.0.0/main.go`, "from go\n",
			`GOPROXY=https://other.test/go go mod download -json example.test/another@v1.0.0`,
		},
		{
			"apt", "/usr/bin/apt-get", both[1:],
			`apt-get -qq -o Acquire::AllowInsecureRepositories=true update && apt-get -qq --allow-unauthenticated download tinydeb >/dev/null && cat tinydeb*.deb`, "from apt\n",
			`echo "deb http://other.test/apt any main" >other.list && apt-get -o Dir::Etc::SourceList=/workspace/other.list -o APT::Update::Error-Mode=any update`,
		},
		{
			"cargo", "", both, `mkdir -p src && ` + crate + `tiny >Cargo.toml && cargo fetch -q && cat .belljar/.cargo/registry/src/*/tiny-1.0.0/src/lib.rs`, "// from cargo\n",
			crate + `another >Cargo.toml && cargo fetch --config "source.mirror.registry=\"sparse+https://other.test/cargo/\""`,
		},
		{
			"maven", "", both[1:], pom + `parent >pom.xml && mvn -q -B validate >/dev/null && grep -o "<packaging>pom" .belljar/.m2/repository/test/parent/1.0/parent-1.0.pom`, "<packaging>pom\n",
			pom + `another >pom.xml && sed s/packages.test/other.test/ .belljar/.m2/settings.xml >other.xml && mvn -B -s other.xml validate`,
		},
	}
}

// TestPresets makes this machine's tools get packages from the operator's indexes, and checks that all other hosts are refused quickly.
func TestPresets(t *testing.T) {
	t.Parallel()
	s, x, p := supplied(t)
	stock(t, x)
	for _, c := range packagers() {
		if c.tool == "" {
			continue
		}
		t.Run(c.preset, func(t *testing.T) {
			if _, err := os.Stat(c.tool); err != nil && c.preset == "go" {
				t.Skipf("programs see no Go outside of /usr: %v", err)
			} else if err != nil {
				need.Missing(t, "%v", err)
			}
			c.use(t, s, p, "host")
		})
	}
	t.Run("a context", func(t *testing.T) { s.magicPip(p) })
}

// magicPip makes code in a context install a package.
func (s *server) magicPip(p *peer.Peer) {
	s.t.Helper()
	status, made := s.ask(http.MethodPost, api+"/sessions", map[string]any{
		"spec_version": "1.0", "base_image": "host", "network_policy": "allowlist", "egress": map[string]any{"presets": []string{"pip"}},
		"env": map[string]string{"PIP_CERT": "/workspace/ca.pem"},
	})
	if status != http.StatusOK && status != http.StatusCreated {
		s.t.Fatalf("%d %v", status, made)
	}
	code := func(code string) map[string]any {
		s.t.Helper()
		_, run := s.ask(http.MethodPost, api+"/sessions/"+made["session_id"].(string)+"/contexts/python/execute?wait=600s", map[string]any{
			"code": code, "language": "python", "files": []any{map[string]any{"path": "ca.pem", "content_b64": p.CA}},
		})
		return run
	}
	if run := code("%pip install -q greeter\nimport greeter"); run["stdout"] != "from pip\n" || run["exit_code"] != 0.0 {
		s.t.Errorf("%v", run)
	}
	if run := code("%pip install -q --index-url https://other.test/pip another"); run["exit_code"] != 1.0 || !strings.Contains(toText(run["results"]), "pip ended with exit code 1") {
		s.t.Errorf("%v", run)
	}
}

// TestPresetsOfClients is [TestPresets] with an image's tools, except apt, on every runtime.
func TestPresetsOfClients(t *testing.T) {
	tier.Soak(t)
	for _, l := range lanes() {
		t.Run(l.runtime, func(t *testing.T) {
			s, x, p := supplied(t, l.open(t)...)
			stock(t, x)
			s.imports("clients", image.Clients(t))
			for _, c := range packagers() {
				if c.preset == "apt" { // the image, which never changes, has no apt
					continue
				}
				t.Run(c.preset, func(t *testing.T) { c.use(t, s, p, "clients") })
			}
		})
	}
}

// stock fills the indexes.
func stock(t *testing.T, x *index.Index) {
	t.Helper()
	x.Wheel("pip", "99", map[string]string{}) // the tools also query these
	x.Node("npm", "99.0.0", map[string]string{}, nil, nil)
	x.Wheel("greeter", "1.0", map[string]string{"greeter.py": "print('from pip')\n"})
	x.Node("pad", "1.0.0", map[string]string{"index.js": "console.log('from npm')\n"}, nil, nil)
	x.Module("example.test/hello", "v1.0.0", "from go\n")
	x.Deb(release(t), "tinydeb", "from apt\n")
	x.Crate("tiny", "1.0.0", "// from cargo\n")
	x.Parent("test", "parent", "1.0")
}

// use makes the tool of an image get its package, and try another host.
func (c packager) use(t *testing.T, s *server, p *peer.Peer, base string) {
	t.Helper()
	defer func(whole *testing.T) { s.t = whole }(s.t)
	s.t = t
	run := s.withPreset(c.preset, c.script+"; timeout 100 sh -c '"+strings.ReplaceAll(c.other, "'", `'"'"'`)+"' >/dev/null 2>&1; echo then $?", p,
		map[string]any{"resources": map[string]any{"memory_mb": 1024}, "base_image": base})
	out, _ := run["stdout"].(string)
	got, status, _ := strings.Cut(out, "then ")
	if got != c.want || status == "0\n" || status == "124\n" {
		t.Fatalf("%q: %q\n%v\n%s", got, status, run["stderr"], s.output)
	}
	report, _ := run["egress"].(map[string]any)
	presets, _ := report["presets"].([]any)
	if len(presets) != 1 {
		t.Fatalf("%v", report)
	}
	meant := presets[0].(map[string]any)
	if toText(meant["hosts"]) != toText(c.hosts) || meant["name"] != c.preset || meant["source"] != "mirror" || meant["learnt_at"] == nil {
		t.Errorf("%v", meant)
	}
	if report["allowed"] == 0.0 || !strings.Contains(toText(report["hosts"]), `"host":"other.test","reason":"no_match"`) {
		t.Errorf("%v", report["hosts"])
	}
	for _, h := range report["hosts"].([]any) {
		host := h.(map[string]any)
		if name := host["host"].(string); slices.Contains(c.hosts, name) && host["rule"] != "preset "+c.preset {
			t.Errorf("%s by %v", name, host["rule"])
		}
	}
	if !strings.Contains(toText(run["warnings"]), "other.test is not allowed") {
		t.Errorf("%v", run["warnings"])
	}
}

// release returns the version of this machine's Debian.
func release(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("sh", "-c", ". /etc/os-release && echo $VERSION_CODENAME").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// TestPresetsOnLanes checks on every runtime that a preset reaches only its hosts, and configures its tool, and that a session that loses it
// loses its connections.
func TestPresetsOnLanes(t *testing.T) {
	const get = `get() { curl -sS "$1" 2>/dev/null || wget -qO- "$1" 2>/dev/null || echo "none of $1"; }; `
	for _, l := range lanes() {
		t.Run(l.runtime, func(t *testing.T) {
			s, x, p := supplied(t, l.open(t)...)
			l.furnish(s)
			x.Parent("test", "parent", "1.0")
			run := s.withPreset("maven", get+`grep -o '<url>.*</url>' .belljar/.m2/settings.xml; echo $MAVEN_ARGS $MAVEN_OPTS; get http://packages.test/maven/test/parent/1.0/parent-1.0.pom | grep -o '<packaging>pom'; get http://other.test/`, p,
				map[string]any{"base_image": l.image})
			want := "<url>http://packages.test/maven/</url>\n-s /workspace/.belljar/.m2/settings.xml -Duser.home=/workspace/.belljar\n<packaging>pom\nnone of http://other.test/\n"
			if run["stdout"] != want {
				t.Errorf("%q, %q\n%v\n%s", run["stdout"], run["stderr"], run, s.output)
			}
			s.narrows(t, p, l.image, get+"get http://packages.test/slow")
		})
	}
}

// narrows removes a session's network while a program has a connection.
func (s *server) narrows(t *testing.T, p *peer.Peer, base, script string) {
	t.Helper()
	status, session := s.ask(http.MethodPost, api+"/sessions", map[string]any{
		"spec_version": "1.0", "base_image": base, "network_policy": "allowlist", "egress": map[string]any{"presets": []string{"maven"}},
	})
	if status != http.StatusOK {
		t.Fatalf("%d %v\n%s", status, session, s.output)
	}
	at := api + "/sessions/" + session["session_id"].(string)
	status, run := s.ask(http.MethodPost, api+"/runs", map[string]any{
		"spec_version": "1.0", "session_id": session["session_id"], "command": []string{"sh", "-c", script},
	})
	if status/100 != 2 {
		t.Fatalf("%d %v\n%s", status, run, s.output)
	}
	arrives := func(what string, c <-chan string) {
		t.Helper()
		select {
		case <-c:
		case <-time.After(promptly):
			t.Fatalf("%s\n%s", what, s.output)
		}
	}
	arrives("no connection", p.Slow)
	if status, answer := s.ask(http.MethodPut, at+"/network", map[string]any{"network_policy": "deny_all"}); status != http.StatusOK {
		t.Fatalf("%d %v\n%s", status, answer, s.output)
	}
	arrives("the connection lives", p.Gone)
	if cut := s.wait(run["run_id"].(string)); !strings.Contains(toText(cut["egress"]), "policy_changed") {
		t.Errorf("%v", cut)
	}
	if status, answer := s.ask(http.MethodDelete, at, nil); status/100 != 2 {
		t.Errorf("%d %v", status, answer)
	}
}

// TestPresetsOfImages reads the indexes from an image's tool settings, within the server's rules.
func TestPresetsOfImages(t *testing.T) {
	p := peer.Start(t, "packages.test", "files.test")
	x := index.Start(t, p, "packages.test", "files.test")
	x.Serve(t, p)
	x.Crate("tiny", "1.0.0", "")
	hub := registry.New(t)
	layer := dockerd.BusyboxRoot(t)
	bare, _ := hub.Put(t, "bare:1", registry.Image{Layer: layer})
	const endOfTar = 1024
	more := registry.Tar(t, map[string]string{"opt/cargo/config.toml": "[source.a]\nregistry = \"sparse+http://packages.test/cargo/\"\n"})
	ref, _ := hub.Put(t, "rust:1", registry.Image{
		Layer: append(slices.Clone(layer[:len(layer)-endOfTar]), more...), Config: map[string]any{"Env": []string{"CARGO_HOME=/opt/cargo"}},
	})
	flags := append(settings(t, p, x), "--set", "image_registries="+hub.Host(), "--set", "egress_presets=cargo,pip,github,apt", "--set", "package_mirrors=")
	data := t.TempDir()
	s := serve(t, data, flags...)

	// An image does not decide what a sandbox may reach.
	const script = `cat .belljar/.cargo/config.toml; echo $CARGO_HOME; wget -qO- http://packages.test/cargo/ti/ny/tiny | cut -c 1-10`
	refused := s.withPreset("cargo", script, p, map[string]any{"base_image": ref})
	if refused["phase"] != "failed" || refused["reason_code"] != "policy_denied" || !strings.Contains(toText(refused["message"]), "cargo: the image takes packages from packages.test") {
		t.Fatalf("%v\n%s", refused, s.output)
	}
	for image, why := range map[string]string{ref + " pip": "pip: the image", bare + " cargo": "preset cargo: the image does not say"} {
		image, preset, _ := strings.Cut(image, " ")
		run := s.withPreset(preset, "true", p, map[string]any{"base_image": image})
		if run["phase"] != "failed" || !strings.Contains(toText(run["message"]), why) || run["hint"] == nil {
			t.Errorf("%s of %s: %v %v", preset, image, run["message"], run["hint"])
		}
	}
	s.stop()

	// Nor does the image's index: the server's rules cover its host, but not the one that it leads to.
	s = serve(t, data, append(flags, "--set", "egress_allow=packages.test,"+p.Address)...)
	refused = s.withPreset("cargo", script, p, map[string]any{"base_image": ref})
	if refused["phase"] != "failed" || refused["reason_code"] != "policy_denied" || !strings.Contains(toText(refused["message"]), "the index packages.test leads to files.test") {
		t.Fatalf("%v\n%s", refused, s.output)
	}
	s.stop()

	flags = append(flags, "--set", "egress_allow=packages.test,files.test,"+p.Address)
	s = serve(t, data, flags...)
	run := s.withPreset("cargo", script, p, map[string]any{"base_image": ref})
	want := "[source.crates-io]\nreplace-with = \"mirror\"\n\n[source.mirror]\nregistry = \"sparse+http://packages.test/cargo/\"\n/workspace/.belljar/.cargo\n"
	if out, _ := run["stdout"].(string); out != want+"{\"cksum\":\"\n" {
		t.Fatalf("%q\n%v\n%s", out, run, s.output)
	}
	shown := s.presets(ref)
	cargo := shown["cargo"]
	if toText(cargo["hosts"]) != `["files.test","packages.test"]` || toText(cargo["indexes"]) != `["http://packages.test/cargo/"]` || cargo["source"] != "image" || cargo["enabled"] != true {
		t.Errorf("%v", cargo)
	}
	for name, why := range map[string]string{"npm": "switched off", "pip": "has none", "github": "not known here", "apt": "has none"} {
		if got := shown[name]; !strings.Contains(toText(got["reason"]), why) || got["hint"] == nil || got["enabled"] != (name != "npm") {
			t.Errorf("%s: %v", name, got)
		}
	}
	if again := s.presets(ref)["cargo"]; again["learnt_at"] != cargo["learnt_at"] {
		t.Errorf("asked again: %v, before %v", again, cargo)
	}

	// A session has its preset after the server was killed. It can gain and lose one later.
	status, made := s.ask(http.MethodPost, api+"/sessions", map[string]any{
		"spec_version": "1.0", "base_image": ref, "network_policy": "allowlist", "egress": map[string]any{"presets": []string{"cargo"}},
	})
	if status != http.StatusOK || !strings.Contains(toText(made["presets"]), `"files.test"`) {
		t.Fatalf("%d %v", status, made)
	}
	session := made["session_id"].(string)
	reached := func(s *server) bool {
		t.Helper()
		status, run := s.ask(http.MethodPost, api+"/runs?wait=600s", map[string]any{
			"spec_version": "1.0", "session_id": session, "command": []string{"sh", "-c", `echo "$CARGO_HOME"; wget -qO- http://packages.test/cargo/config.json >/dev/null && echo reached`},
		})
		if status != http.StatusOK {
			t.Fatalf("%d %v\n%s", status, run, s.output)
		}
		return run["stdout"] == "/workspace/.belljar/.cargo\nreached\n"
	}
	if !reached(s) {
		t.Error("the session does not reach its preset")
	}
	s.kill()
	s = serve(t, data, flags...)
	if !reached(s) {
		t.Error("the session does not reach its preset after a restart")
	}
	at := api + "/sessions/" + session + "/network"
	for _, c := range []struct {
		egress map[string]any
		status int
		reach  bool
	}{
		{map[string]any{"ips": []string{p.Address}}, http.StatusOK, false}, {map[string]any{"presets": []string{"cargo"}}, http.StatusOK, true},
		{map[string]any{"presets": []string{"pip"}}, http.StatusConflict, true}, {map[string]any{"presets": []string{"npm"}}, http.StatusForbidden, true},
	} {
		status, answer := s.ask(http.MethodPut, at, map[string]any{"network_policy": "allowlist", "egress": c.egress})
		if status != c.status {
			t.Errorf("%v: %d %v", c.egress, status, answer)
		}
		if got := reached(s); got != c.reach {
			t.Errorf("%v: reached %v", c.egress, got)
		}
	}
}

// presets returns the server's report on presets in an image.
func (s *server) presets(image string) map[string]map[string]any {
	s.t.Helper()
	begun := time.Now()
	status, list := s.ask(http.MethodGet, api+"/network/presets?base_image="+image, nil)
	items, _ := list["items"].([]any)
	if status != http.StatusOK || len(items) != 7 {
		s.t.Fatalf("%d %v after %v\n%s", status, list, time.Since(begun), s.output)
	}
	found := map[string]map[string]any{}
	for _, item := range items {
		p := item.(map[string]any)
		found[p["name"].(string)] = p
	}
	return found
}
