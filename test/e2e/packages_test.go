//go:build linux

package e2e

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/belljar/belljar/test/index"
	"github.com/belljar/belljar/test/need"
	"github.com/belljar/belljar/test/peer"
)

// installing starts a server with an index of packages, with the operator as the user.
func installing(t *testing.T, more ...string) (*server, *index.Index) {
	t.Helper()
	if out, err := exec.Command("/usr/bin/python3", "-c", "import pip").CombinedOutput(); err != nil {
		need.Missing(t, "pip of the machine's own Python: %s", out)
	}
	p := peer.Start(t, "packages.test", "files.test")
	x := index.Start(t, p, "packages.test", "files.test")
	return serve(t, t.TempDir(), settings(t, p, x, more...)...), x
}

// settings are the flags of a server with an index of packages, whose certificate only the server's operator trusts.
func settings(t *testing.T, p *peer.Peer, x *index.Index, more ...string) []string {
	t.Helper()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, p.CA, 0o600); err != nil {
		t.Fatal(err)
	}
	return append([]string{
		"--set", "egress_ca_file=" + ca,
		"--set", "egress_allow=" + p.Address, "--set", "egress_private=true", "--set", "egress_resolver=" + p.Resolver,
		"--set", "egress_presets=pip,npm", "--set", "package_mirrors=pip=" + x.PipURL() + ",npm=" + x.NpmURL(),
	}, more...)
}

// withPackages runs a command with packages to its end.
func (s *server) withPackages(packages map[string]any, command ...string) map[string]any {
	s.t.Helper()
	status, run := s.ask(http.MethodPost, api+"/runs?wait=600s", map[string]any{
		"spec_version": "1.0", "base_image": "host", "command": command, "packages": packages,
	})
	if status != http.StatusOK {
		s.t.Fatalf("%d %v\n%s", status, run, s.output)
	}
	return run
}

// layers returns the folders that the server keeps.
func (s *server) layers() []string {
	s.t.Helper()
	list, err := filepath.Glob(filepath.Join(s.data, "packages", "layer-*[0-9]"))
	if err != nil {
		s.t.Fatal(err)
	}
	return list
}

// TestPackages installs packages once. Later runs and sessions read them and cannot change them.
func TestPackages(t *testing.T) {
	s, x := installing(t)
	x.Wheel("base-thing", "2.1", map[string]string{"base_thing.py": "value = 42\n"})
	x.Wheel("greeter", "1.0", map[string]string{"greeter/__init__.py": "import base_thing\nprint('greeter', base_thing.value)\n"}, "Requires-Dist: base-thing>=2")
	both := map[string]any{"pip": []string{"greeter", "base_thing"}}
	var counted float64
	traffic := func(what string, grows bool) { // an installation counts towards its caller's day, and its reuse does not
		t.Helper()
		_, me := s.ask(http.MethodGet, api+"/me", nil)
		n, _ := me["used"].(map[string]any)["egress_bytes_today"].(float64)
		if n < counted || n > counted != grows {
			t.Errorf("%s: %v bytes today, %v before", what, n, counted)
		}
		counted = n
	}

	// Two concurrent requests install once.
	var runs [2]map[string]any
	var wait sync.WaitGroup
	for i := range runs {
		wait.Go(func() {
			_, runs[i] = s.ask(http.MethodPost, api+"/runs?wait=600s", map[string]any{
				"spec_version": "1.0", "base_image": "host", "command": []string{"python3", "-c", "import greeter"}, "packages": both,
			})
		})
	}
	wait.Wait()
	for _, run := range runs {
		if run["stdout"] != "greeter 42\n" {
			t.Fatalf("%v\n%s", run, s.output)
		}
		lock := toText(run["packages"])
		for _, part := range []string{`{"hash":"sha256:`, `"name":"greeter","version":"1.0"}`, `"name":"base-thing","version":"2.1"}`} {
			if !strings.Contains(lock, part) {
				t.Errorf("the lock has no %s: %s", part, lock)
			}
		}
	}
	if n, kept := x.Fetched("greeter-1.0-py3-none-any.whl"), len(s.layers()); n != 1 || kept != 1 {
		t.Errorf("fetched %d times, %d layers", n, kept)
	}
	traffic("a run", true)
	var warned int
	for _, run := range runs {
		log, err := s.get(api + "/runs/" + run["run_id"].(string) + "/logs?format=json")
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(log, `"event":"packages"`) {
			warned++
		}
	}
	if warned == 0 {
		t.Error("no log shows the installation")
	}

	// The same packages in another order are reused, and nothing in the sandbox changes them.
	run := s.withPackages(map[string]any{"pip": []string{"base_thing", "greeter"}}, "sh", "-c",
		`python3 -c 'import greeter'; for c in 'echo x >> greeter/__init__.py' 'touch new' 'rm -r greeter' 'mv greeter other' 'chmod -R 777 .'; do (cd /packages/pip && sh -c "$c") 2>/dev/null && echo "changed by $c"; done; python3 -c 'import greeter'`)
	if run["stdout"] != "greeter 42\ngreeter 42\n" {
		t.Errorf("%v", run["stdout"])
	}
	if n := x.Fetched("greeter-1.0-py3-none-any.whl"); n != 1 {
		t.Errorf("fetched %d times", n)
	}
	traffic("reused", false)

	// The caller's settings come first.
	status, own := s.ask(http.MethodPost, api+"/runs?wait=600s", map[string]any{
		"spec_version": "1.0", "base_image": "host", "command": []string{"sh", "-c", "echo $PYTHONPATH; echo $PATH"}, "packages": both,
		"env": map[string]string{"PYTHONPATH": "/workspace/mine", "PATH": "/usr/bin:/bin"},
	})
	if status != http.StatusOK || own["stdout"] != "/workspace/mine:/packages/pip\n/usr/bin:/bin:/packages/pip/bin\n" {
		t.Errorf("%d %v", status, own["stdout"])
	}

	// A session has them for all its runs; a run in it cannot set its own.
	status, made := s.ask(http.MethodPost, api+"/sessions", map[string]any{"spec_version": "1.0", "base_image": "host", "packages": both})
	if status != http.StatusCreated && status != http.StatusOK || !strings.Contains(toText(made["packages"]), `"greeter"`) {
		t.Fatalf("%d %v", status, made)
	}
	id := made["session_id"].(string)
	_, run = s.ask(http.MethodPost, api+"/runs?wait=600s", map[string]any{
		"spec_version": "1.0", "session_id": id, "command": []string{"python3", "-c", "import greeter"},
	})
	if run["stdout"] != "greeter 42\n" {
		t.Errorf("%v", run)
	}
	status, refused := s.ask(http.MethodPost, api+"/runs", map[string]any{
		"spec_version": "1.0", "session_id": id, "command": []string{"true"}, "packages": both,
	})
	if status != http.StatusBadRequest || !strings.Contains(toText(refused), `"field":"packages"`) {
		t.Errorf("%d %v", status, refused)
	}

	// refresh finds a newer version.
	x.Wheel("base-thing", "2.2", map[string]string{"base_thing.py": "value = 43\n"})
	if run = s.withPackages(both, "python3", "-c", "import greeter"); run["stdout"] != "greeter 42\n" {
		t.Errorf("%v", run["stdout"])
	}
	if run = s.withPackages(map[string]any{"pip": both["pip"], "refresh": true}, "python3", "-c", "import greeter"); run["stdout"] != "greeter 43\n" {
		t.Errorf("%v", run["stdout"])
	}
	traffic("a run with refresh", true)
	if status, made = s.ask(http.MethodPost, api+"/sessions", map[string]any{
		"spec_version": "1.0", "base_image": "host", "packages": map[string]any{"pip": both["pip"], "refresh": true},
	}); status != http.StatusCreated && status != http.StatusOK {
		t.Errorf("%d %v", status, made)
	}
	traffic("a session with refresh", true)
	_, run = s.ask(http.MethodPost, api+"/runs?wait=600s", map[string]any{ // the session keeps its own version
		"spec_version": "1.0", "session_id": id, "command": []string{"python3", "-c", "import greeter"},
	})
	if run["stdout"] != "greeter 42\n" {
		t.Errorf("%v", run)
	}
}

// TestNodePackages installs packages for Node, with their programs.
func TestNodePackages(t *testing.T) {
	if _, err := exec.LookPath("/usr/bin/npm"); err != nil {
		need.Missing(t, "%v", err)
	}
	s, x := installing(t)
	evil := map[string]string{"postinstall": "node -e \"require('fs').writeFileSync('pwned', process.env.npm_config_globalconfig)\""}
	x.Node("pad", "1.3.0", map[string]string{"index.js": "module.exports = 'pad'", "cli.js": "#!/usr/bin/env node\nconsole.log('cli')\n"}, evil, map[string]string{"pad-cli": "cli.js"})
	x.Node("@team/tool", "2.0.0", map[string]string{"index.js": "module.exports = 'tool'"}, nil, nil)
	const program = `pad-cli; node -e "console.log(require('pad'), require('@team/tool'), require('fs').existsSync('/packages/npm/node_modules/pad/pwned'))"`
	run := s.withPackages(map[string]any{"npm": []string{"pad", "@team/tool@^2"}}, "sh", "-c", program)
	if run["stdout"] != "cli\npad tool false\n" || !strings.Contains(toText(run["packages"]), `{"hash":"sha512-`) {
		t.Fatalf("%v\n%s", run, s.output)
	}
	run = s.withPackages(map[string]any{"npm": []string{"pad", "@team/tool@^2"}, "build": true}, "sh", "-c", program+"; cat /packages/npm/node_modules/pad/pwned")
	if out, _ := run["stdout"].(string); !strings.HasPrefix(out, "cli\npad tool true\n/") || strings.Contains(out, "/workspace") { // npm's settings are the image's
		t.Errorf("%v", run["stdout"])
	}
}

// TestOptionalPackages checks that users share packages of npm unless an optional one is missing that fits the machine, and that a refresh
// repairs packages.
func TestOptionalPackages(t *testing.T) {
	if _, err := exec.LookPath("/usr/bin/npm"); err != nil {
		need.Missing(t, "%v", err)
	}
	s, x := installing(t)
	x.Node("fast", "1.0.0", map[string]string{"index.js": "module.exports = require('native')"}, nil, nil, map[string]any{
		"optionalDependencies": map[string]string{"native": "1.0.0", "windows": "1.0.0", "future": "1.0.0"},
	})
	x.Node("future", "1.0.0", map[string]string{"index.js": ""}, nil, nil, map[string]any{"engines": map[string]string{"node": ">=999"}})
	x.Node("native", "1.0.0", map[string]string{"index.js": "module.exports = 'native'"}, nil, nil, map[string]any{"os": []string{"linux"}, "cpu": []string{"!mips"}})
	x.Node("windows", "1.0.0", map[string]string{"index.js": ""}, nil, nil, map[string]any{"os": []string{"win32"}})
	ada, bob, cy := s.user("ada"), s.user("bob"), s.user("cy")
	run := func(key, list string, refresh, whole bool, installed int) {
		t.Helper()
		status, run := s.ask(http.MethodPost, api+"/runs?wait=600s", map[string]any{
			"spec_version": "1.0", "base_image": "host", "packages": map[string]any{"npm": []string{list}, "refresh": refresh},
			"command": []string{"node", "-e", "try { console.log(require('fast')) } catch { console.log('missing') }"},
		}, "X-API-KEY: "+key)
		if status != http.StatusOK {
			t.Fatalf("%d %v\n%s", status, run, s.output)
		}
		lock, n := toText(run["packages"]), x.Fetched("fast-1.0.0.tgz")
		if (run["stdout"] == "native\n") != whole || strings.Contains(lock, `"native"`) != whole || strings.Contains(lock, `"windows"`) || n != installed {
			t.Errorf("%s: whole is to be %v: %v, with %s, after %d installations; want %d", list, whole, run["stdout"], lock, n, installed)
		}
	}
	ready := x.Busy("native-1.0.0.tgz")
	run(ada, "fast", false, false, 1)
	run(ada, "fast", false, false, 1)
	run(ada, "fast@1.0.0", false, false, 2)
	ready()
	run(bob, "fast", false, true, 3)
	run(cy, "fast", false, true, 3)
	run(ada, "fast", false, true, 3)
	run(ada, "fast@1.0.0", true, true, 4)

	for _, layer := range s.layers() { // of an earlier version, whose lock listed what was missing
		if err := os.RemoveAll(filepath.Join(layer, "node_modules", "native")); err != nil {
			t.Fatal(err)
		}
	}
	run(bob, "fast", true, true, 5)
	run(cy, "fast", false, true, 5)

	ready = x.Busy("native-1.0.0.tgz")
	run(ada, "fast", true, false, 6)
	run(ada, "fast", false, false, 6) // what is not whole is ada's alone, and newer than what is shared
	ready()
	run(bob, "fast", false, true, 6)
}

// backend builds a wheel that contains a report of what the build could see.
const backend = `import base64, hashlib, os, socket, zipfile
def build_wheel(where, config=None, metadata=None):
    try:
        socket.create_connection(("other.test", 80), 5)
        net = "other"
    except OSError:
        net = "none"
    seen = "%r %r" % (net, sorted(os.listdir("/packages")) if os.path.exists("/packages") else None)
    files = {"built.py": "print(%r)\n" % seen, "built-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: built\nVersion: 1.0\n",
             "built-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n"}
    record = "".join("%s,,\n" % f for f in files) + "built-1.0.dist-info/RECORD,,\n"
    with zipfile.ZipFile(os.path.join(where, "built-1.0-py3-none-any.whl"), "w") as z:
        for name, text in files.items():
            z.writestr(name, text)
        z.writestr("built-1.0.dist-info/RECORD", record)
    return "built-1.0-py3-none-any.whl"
`

// TestPackagesAreHostile checks the restrictions of packages and their requests. Their programs run only on demand, and in the
// installation's sandbox. They write nothing outside their folder. Only the user who requested a build gets its result.
func TestPackagesAreHostile(t *testing.T) {
	s, x := installing(t)
	x.Source("built", "1.0", map[string]string{
		"pyproject.toml": "[build-system]\nrequires = []\nbuild-backend = \"backend\"\nbackend-path = [\".\"]\n", "backend.py": backend,
		"PKG-INFO": "Metadata-Version: 2.1\nName: built\nVersion: 1.0\n",
	})
	wanted := map[string]any{"pip": []string{"built"}}
	failed := func(run map[string]any, reason, message, hint string) {
		t.Helper()
		output, _ := run["message"].(string)
		hinted, _ := run["hint"].(string)
		if run["phase"] != "failed" || run["reason_code"] != reason || !strings.Contains(output, message) || !strings.Contains(hinted, hint) {
			t.Errorf("%v %v: %q, %q; want %q, %q", run["phase"], run["reason_code"], output, hinted, message, hint)
		}
	}
	failed(s.withPackages(wanted, "true"), "provision_failed", "pip: built has no wheel", "set build")
	wanted["build"] = true
	if run := s.withPackages(wanted, "python3", "-c", "import built"); run["stdout"] != "'none' None\n" {
		t.Errorf("%v\n%s", run, s.output)
	}
	failed(s.withPackages(map[string]any{"pip": []string{"no-such"}}, "true"), "provision_failed", "the index has no package no-such", "check the name")

	x.Wheel("escaping", "1.0", map[string]string{"../../../../../../../../tmp/belljar-escaped": "x", "escaping.py": ""})
	if run := s.withPackages(map[string]any{"pip": []string{"escaping"}}, "true"); run["phase"] != "failed" {
		t.Errorf("%v", run)
	}
	if _, err := exec.Command("test", "-e", "/tmp/belljar-escaped").CombinedOutput(); err == nil {
		t.Error("a wheel wrote to the host")
	}

	for _, c := range []struct{ packages, field string }{
		{`{"pip": ["a; rm -rf /"]}`, "packages.pip[0]"}, {`{"npm": ["git+https://example.com/a"]}`, "packages.npm[0]"}, {`{"apt": ["curl"]}`, "packages.apt"},
	} {
		status, _, body := s.send(http.MethodPost, api+"/runs", s.Key, `{"spec_version": "1.0", "base_image": "host", "command": ["true"], "packages": `+c.packages+`}`)
		if status != http.StatusBadRequest || !strings.Contains(body, `"field":"`+c.field+`"`) {
			t.Errorf("%s: %d %s", c.packages, status, body)
		}
	}
}

// TestPackagesOfUsers checks that users share packages from the operator's index, but nothing that a build script has made.
func TestPackagesOfUsers(t *testing.T) {
	s, x := installing(t)
	x.Wheel("plain", "1.0", map[string]string{"plain.py": ""})
	ada, bob := s.user("ada"), s.user("bob")
	run := func(key string, packages map[string]any) {
		t.Helper()
		status, run := s.ask(http.MethodPost, api+"/runs?wait=600s", map[string]any{
			"spec_version": "1.0", "base_image": "host", "command": []string{"python3", "-c", "import plain"}, "packages": packages,
		}, "X-API-KEY: "+key)
		if status != http.StatusOK || run["exit_code"] != 0.0 {
			t.Fatalf("%d %v\n%s", status, run, s.output)
		}
	}
	for _, c := range []struct {
		key     string
		build   bool
		fetched int
	}{{ada, false, 1}, {bob, false, 1}, {ada, true, 2}, {bob, true, 3}, {ada, true, 3}, {bob, true, 3}} {
		run(c.key, map[string]any{"pip": []string{"plain"}, "build": c.build})
		if n := x.Fetched("plain-1.0-py3-none-any.whl"); n != c.fetched {
			t.Errorf("build %v: fetched %d times, want %d", c.build, n, c.fetched)
		}
	}
}

// TestPackagesSurvive checks that a session has its packages after the server was killed, although others were swept in the meantime.
func TestPackagesSurvive(t *testing.T) {
	p := peer.Start(t, "packages.test", "files.test")
	x := index.Start(t, p, "packages.test", "files.test")
	for _, name := range []string{"first", "second"} {
		x.Wheel(name, "1.0", map[string]string{name + ".py": "print('" + name + "')\n", name + ".txt": strings.Repeat("x", 700<<10)})
	}
	flags := settings(t, p, x, "--set", "package_keep_mb=1")
	s := serve(t, t.TempDir(), flags...)
	status, made := s.ask(http.MethodPost, api+"/sessions", map[string]any{"spec_version": "1.0", "base_image": "host", "packages": map[string]any{"pip": []string{"first"}}})
	if status != http.StatusOK {
		t.Fatalf("%d %v", status, made)
	}
	s.kill()
	s = serve(t, s.data, flags...)
	if run := s.withPackages(map[string]any{"pip": []string{"second"}}, "python3", "-c", "import second"); run["stdout"] != "second\n" {
		t.Errorf("%v", run)
	}
	_, run := s.ask(http.MethodPost, api+"/runs?wait=600s", map[string]any{
		"spec_version": "1.0", "session_id": made["session_id"], "command": []string{"python3", "-c", "import first"},
	})
	if run["stdout"] != "first\n" {
		t.Errorf("%v", run)
	}
	if kept := s.layers(); len(kept) != 2 {
		t.Errorf("%v", kept)
	}
}

// A copy of a session has the versions of its packages, not newer ones of the index, even if the session has looked for those.
func TestCopiesHaveTheSessionsPackages(t *testing.T) {
	s, x := installing(t)
	x.Wheel("greeter", "1.0", map[string]string{"greeter.py": "print('one')\n"})
	id := s.sessionOf(map[string]any{"packages": map[string]any{"pip": []string{"greeter"}, "refresh": true}})
	x.Wheel("greeter", "2.0", map[string]string{"greeter.py": "print('two')\n"})
	for range 2 { // in the second round, a copy of a copy
		status, forked := s.ask(http.MethodPost, api+"/sessions/"+id+"/fork", map[string]any{})
		made, _ := forked["sessions"].([]any)
		if len(made) != 1 || !strings.Contains(toText(made[0].(map[string]any)["packages"]), `"name":"greeter","version":"1.0"`) {
			t.Fatalf("%d %v", status, forked)
		}
		id = made[0].(map[string]any)["session_id"].(string)
		if got := s.shell(id, "python3 -c 'import greeter'"); got != "one\n" {
			t.Errorf("%q", got)
		}
	}
	if n, kept := x.Fetched("greeter-2.0-py3-none-any.whl"), len(s.layers()); n != 0 || kept != 1 {
		t.Errorf("version 2.0 was fetched %d times, %d layers", n, kept)
	}
}
