//go:build linux

package e2e

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/belljar/belljar/test/peer"
)

// reachable starts a server whose sandboxes may reach a peer.
func reachable(t *testing.T, data string, p *peer.Peer, more ...string) *server {
	t.Helper()
	return serve(t, data, append(more, "--set", "egress_allow=api.test,*.wild.test,"+p.Address, "--set", "egress_private=true",
		"--set", "egress_resolver="+p.Resolver)...)
}

// egressOf returns a finished run's report about its network.
func egressOf(t *testing.T, run map[string]any) map[string]any {
	t.Helper()
	report, ok := run["egress"].(map[string]any)
	if !ok {
		t.Fatalf("the run reports no egress: %v", run)
	}
	return report
}

// fetch is a program that gets a page from api.test, and tries other.test. fetched is its output.
const (
	fetch = `import os, socket, sys, time, urllib.request
for url in ("http://api.test/", "https://api.test/"):
    sys.stdout.write(urllib.request.urlopen(url, timeout=100).read().decode())
begun = time.monotonic()
for url in ("http://other.test/", "https://other.test/"):
    try:
        urllib.request.urlopen(url, timeout=100)
        print("reached", url)
    except OSError as e:
        print("denied")
# A resolver that waits takes 10 seconds for each.
print("quick" if time.monotonic() - begun < 15 else "slow", os.environ["BELLJAR_PROXY"])
`
	fetched = "hello from api.test\nhello from api.test\ndenied\ndenied\nquick http://127.0.0.53:1080\n"
)

// fetching returns a request for that program, which may reach api.test.
func fetching(p *peer.Peer, base string) map[string]any {
	return map[string]any{
		"spec_version": "1.0", "base_image": base, "language": "python", "code": fetch, "env": map[string]string{"SSL_CERT_FILE": "/workspace/ca.pem"},
		"files":          []map[string]any{{"path": "ca.pem", "content_b64": base64.StdEncoding.EncodeToString(p.CA)}},
		"network_policy": "allowlist", "egress": map[string]any{"hosts": []string{"api.test", "*.wild.test"}, "ips": []string{p.Address}},
	}
}

// TestNetwork runs real clients that reach an allowed host over HTTP and HTTPS, and are immediately denied others. All of it is reported:
// in the run, its warnings and its log, in the audit trail and in the metrics.
func TestNetwork(t *testing.T) {
	p := peer.Start(t, "api.test", "other.test", "a.wild.test")
	s := reachable(t, t.TempDir(), p)
	status, run := s.ask(http.MethodPost, api+"/runs?wait=600s", fetching(p, "host"))
	if status != http.StatusOK || run["stdout"] != fetched {
		t.Fatalf("%d %v\n%s", status, run, s.output)
	}
	report := egressOf(t, run)
	if report["allowed"] != 2.0 || report["denied"].(float64) < 1 || report["bytes_in"].(float64) == 0 || report["bytes_out"].(float64) == 0 {
		t.Errorf("egress: %v", report)
	}
	if first := report["hosts"].([]any)[0].(map[string]any); first["host"] != "api.test" || first["ip"] != p.Address || first["rule"] != "api.test" {
		t.Errorf("the first host: %v", first)
	}
	warnings, _ := run["warnings"].([]any)
	if len(warnings) == 0 || warnings[0] != "network: other.test is not allowed (no_match): add --allow other.test" {
		t.Errorf("warnings: %v", warnings)
	}
	id := run["run_id"].(string)
	log, err := s.get(api + "/runs/" + id + "/logs?format=json")
	if err != nil || strings.Count(log, `"event":"egress"`) != 2 { // one allowed host, and one denied
		t.Errorf("%v, %s", err, log)
	}
	until(t, "the audit trail has both", func() bool {
		trail := trailOf(s.data)
		for _, of := range [][]string{
			{`"event":"sandbox.run.egress_allowed"`, `"host":"api.test"`, `"ip":"` + p.Address + `"`, `"matched_rule":"api.test"`, `"run_id":"` + id + `"`},
			{`"event":"sandbox.run.egress_denied"`, `"host":"other.test"`, `"reason":"no_match"`, `"runtime":"native"`, `"run_id":"` + id + `"`},
		} {
			if !hasLine(trail, of) {
				return false
			}
		}
		return true
	})
	metrics, err := s.get("/metrics")
	for _, series := range []string{
		`sandbox_egress_connections_total{decision="allowed",reason=""} 2`, `sandbox_egress_connections_total{decision="denied",reason="no_match"} `,
		`sandbox_egress_bytes_total{direction="in"} `, `sandbox_egress_bytes_total{direction="out"} `,
	} {
		if err != nil || !strings.Contains(metrics, series) {
			t.Errorf("no %s: %v", series, err)
		}
	}
	status, found := s.ask(http.MethodGet, api+"/runtimes", nil)
	if first := found["runtimes"].([]any)[0].(map[string]any); status != http.StatusOK || first["egress_allowlist_supported"] != true {
		t.Errorf("%d %v", status, first)
	}
}

// TestNetworkNames: a program that uses many names under a wildcard, which may carry data to its owner, is reported.
func TestNetworkNames(t *testing.T) {
	p := peer.Start(t, "api.test")
	p.Lie("*", netip.MustParseAddr(p.Address))
	s := reachable(t, t.TempDir(), p)
	const tunnel = `import socket, time
for i in range(32):
    while True:  # new names are limited to 10 a second
        try:
            socket.gethostbyname("data%d.wild.test" % i)
            break
        except OSError:
            time.sleep(0.05)
`
	status, run := s.ask(http.MethodPost, api+"/runs?wait=600s", map[string]any{
		"spec_version": "1.0", "base_image": "host", "language": "python", "code": tunnel,
		"network_policy": "allowlist", "egress": map[string]any{"hosts": []string{"*.wild.test", "never.test"}, "ips": []string{p.Address}},
	})
	warnings := toText(run["warnings"])
	for _, want := range []string{
		"network: 32 different names under *.wild.test were used, and the DNS servers of wild.test see each of them",
		"network: the rule never.test allows nothing: the server's SANDBOX_EGRESS_ALLOW does not list it",
	} {
		if status != http.StatusOK || run["exit_code"] != 0.0 || !strings.Contains(warnings, want) {
			t.Errorf("%d %v\n%v", status, run, warnings)
		}
	}
	until(t, "the audit trail has it", func() bool {
		return hasLine(trailOf(s.data), []string{`"event":"sandbox.run.egress_names"`, `"matched_rule":"*.wild.test"`, `"names":"32"`, `"run_id":"` + run["run_id"].(string) + `"`})
	})
}

// trailOf returns the audit trail in a data folder.
func trailOf(data string) string {
	files, _ := filepath.Glob(filepath.Join(data, "audit", "*"))
	var trail strings.Builder
	for _, name := range files {
		text, _ := os.ReadFile(name)
		trail.Write(text)
	}
	return trail.String()
}

// TestNetworkReady: a sandbox from the pool has exactly the network of the request that claims it.
func TestNetworkReady(t *testing.T) {
	p := peer.Start(t, "api.test")
	s := reachable(t, t.TempDir(), p, "--set", "pool_size=2")
	get := func(network map[string]any) map[string]any {
		t.Helper()
		s.full()
		request := oneShot("curl -sS --max-time 60 http://api.test/")
		maps.Copy(request, network)
		_, run := s.ask(http.MethodPost, api+"/runs?wait=600s", request)
		return run
	}
	allowed := map[string]any{"network_policy": "allowlist", "egress": map[string]any{"hosts": []string{"api.test"}, "ips": []string{p.Address}}}
	const noName = 6.0 // curl: the name does not resolve
	for i, c := range []struct {
		network map[string]any
		exit    float64
	}{
		{allowed, 0}, {nil, noName}, {map[string]any{"network_policy": "allowlist"}, noName}, {allowed, 0},
	} {
		if run := get(c.network); run["exit_code"] != c.exit || (run["egress"] == nil) != (c.network == nil) {
			t.Errorf("request %d: %v", i, run)
		}
	}
	if hits := s.figure(poolHits); hits != 4 {
		t.Errorf("%d of 4 sandboxes were ready", hits)
	}
}

// TestNetworkQuota: the traffic of a user's runs and sessions counts, once, until the day's quota refuses the next run with a network.
func TestNetworkQuota(t *testing.T) {
	p := peer.Start(t, "api.test")
	p.Handle("/large", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 1<<20)) })
	p.Handle("/small", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 100<<10)) })
	s := reachable(t, t.TempDir(), p, "--set", "quota_egress_mb_per_day=1")
	used := func() float64 {
		_, me := s.ask(http.MethodGet, api+"/me", nil)
		return me["used"].(map[string]any)["egress_bytes_today"].(float64)
	}
	request := oneShot("curl -sS --max-time 60 -o large http://api.test/large")
	request["network_policy"], request["egress"] = "allowlist", map[string]any{"hosts": []string{"api.test"}, "ips": []string{p.Address}}
	_, made := s.ask(http.MethodPost, api+"/sessions", map[string]any{
		"spec_version": "1.1", "base_image": "host", "network_policy": "allowlist", "egress": request["egress"],
	})
	session, _ := made["session_id"].(string)
	in := func(line, wait string) string {
		t.Helper()
		status, run := s.ask(http.MethodPost, api+"/runs"+wait, map[string]any{
			"spec_version": "1.1", "session_id": session, "command": []string{"sh", "-c", line}, "timeout_sec": longTime,
		})
		if status >= 300 {
			t.Fatal(status, run)
		}
		return run["run_id"].(string)
	}
	const small = "curl -sS --max-time 60 -o small http://api.test/small"
	in("mkfifo end begin", "?wait=600s")
	beside := in("cat end", "")
	in(small+"; echo >end", "?wait=600s")
	s.wait(beside)
	if n := used(); n < 100<<10 || n > 150<<10 {
		t.Errorf("%v bytes after one transfer beside another run", n)
	}
	in("(cat begin; "+small+"; mv small after) >/dev/null 2>&1 &", "?wait=600s")
	in("echo >begin", "?wait=600s")
	until(t, "the transfer in the background ends", func() bool {
		status, _ := s.ask(http.MethodPost, api+"/sessions/"+session+"/fs/read", map[string]any{"path": "after"})
		return status == http.StatusOK
	})
	s.ask(http.MethodDelete, api+"/sessions/"+session, nil)
	if n := used(); n < 200<<10 || n > 250<<10 {
		t.Errorf("%v bytes after another transfer in the background", n)
	}
	if status, run := s.ask(http.MethodPost, api+"/runs?wait=600s", request); status != http.StatusOK || run["exit_code"] != 0.0 {
		t.Fatalf("%d %v", status, run)
	}
	if status, refused := s.ask(http.MethodPost, api+"/runs?wait=600s", request); status != http.StatusTooManyRequests || !strings.Contains(toText(refused), "egress_mb_per_day") {
		t.Errorf("%d %v", status, refused)
	}
	if status, run := s.ask(http.MethodPost, api+"/runs?wait=600s", oneShot("true")); status != http.StatusOK || run["exit_code"] != 0.0 {
		t.Errorf("a run without a network: %d %v", status, run)
	}
	if n := used(); n < 1<<20 {
		t.Errorf("%v bytes", n)
	}
}

// wait waits for the end of a run.
func (s *server) wait(id string) (run map[string]any) {
	s.t.Helper()
	until(s.t, "run "+id+" ends", func() bool {
		_, run = s.ask(http.MethodGet, api+"/runs/"+id, nil)
		return run["finished_at"] != nil
	})
	return run
}

// toText returns a value as JSON.
func toText(v any) string {
	text, _ := json.Marshal(v)
	return string(text)
}

// hasLine reports whether a line of a text has all of these.
func hasLine(text string, all []string) bool {
	for line := range strings.Lines(text) {
		found := true
		for _, part := range all {
			found = found && strings.Contains(line, part)
		}
		if found {
			return true
		}
	}
	return false
}

// TestSessionNetwork changes a session's network while a program has a connection, and kills the server: the last setting is in force on
// the next one.
func TestSessionNetwork(t *testing.T) {
	p := peer.Start(t, "api.test")
	data := t.TempDir()
	s := reachable(t, data, p)
	status, session := s.ask(http.MethodPost, api+"/sessions", map[string]any{"spec_version": "1.0", "base_image": "host"})
	if status != http.StatusOK {
		t.Fatalf("%d %v", status, session)
	}
	id := session["session_id"].(string)
	network := api + "/sessions/" + id + "/network"
	open := map[string]any{"network_policy": "allowlist", "egress": map[string]any{"hosts": []string{"api.test", "never.test"}, "ips": []string{p.Address}}}
	warns := func(s *server, want bool) {
		t.Helper()
		const text = "network: the rule never.test allows nothing: the server's SANDBOX_EGRESS_ALLOW does not list it"
		_, session := s.ask(http.MethodGet, api+"/sessions/"+id, nil)
		if warnings, _ := session["warnings"].([]any); want != (len(warnings) == 1 && warnings[0] == text) || !want && warnings != nil {
			t.Errorf("warnings: %v", session)
		}
	}
	exec := func(s *server, wait, line string) map[string]any {
		t.Helper()
		status, run := s.ask(http.MethodPost, api+"/runs"+wait, map[string]any{
			"spec_version": "1.0", "session_id": id, "command": []string{"sh", "-c", line}, "timeout_sec": 120,
		})
		if status/100 != 2 {
			t.Fatalf("%s: %d %v\n%s", line, status, run, s.output)
		}
		return run
	}
	const get, slow = "curl -sS --max-time 60 http://api.test/", "curl -sSN --max-time 100 http://api.test/slow"
	if run := exec(s, "?wait=600s", get); run["exit_code"] != 6.0 { // the name does not resolve
		t.Errorf("with deny_all: %v", run)
	}
	set := func(s *server, spec any) {
		t.Helper()
		if status, answer := s.ask(http.MethodPut, network, spec); status != http.StatusOK {
			t.Fatalf("%v: %d %v\n%s", spec, status, answer, s.output)
		}
	}
	warns(s, false)
	set(s, open)
	warns(s, true)
	if run := exec(s, "?wait=600s", get); run["stdout"] != "hello from api.test\n" || egressOf(t, run)["allowed"] != 1.0 {
		t.Errorf("widened: %v\n%s", run, s.output)
	}
	connection := exec(s, "", slow)
	<-p.Slow
	set(s, map[string]any{"network_policy": "allowlist"}) // an empty list allows nothing
	select {
	case <-p.Gone:
	case <-time.After(promptly):
		t.Fatal("a connection that the new rules do not allow lives")
	}
	cut := s.wait(connection["run_id"].(string))
	if hosts := egressOf(t, cut)["hosts"].([]any); cut["exit_code"] == 0.0 || len(hosts) < 2 || !strings.Contains(toText(hosts), "policy_changed") {
		t.Errorf("the run whose connection was cut: %v", cut)
	}
	set(s, open)
	for field, value := range map[string]any{"network_policy": "deny_all", "egress": map[string]any{"hosts": []string{"api.test"}}} {
		request := map[string]any{"spec_version": "1.0", "session_id": id, "command": []string{"true"}, field: value}
		if field == "egress" {
			request["network_policy"] = "allowlist"
		}
		if status, answer := s.ask(http.MethodPost, api+"/runs", request); status != http.StatusBadRequest || !strings.Contains(toText(answer), "/network") {
			t.Errorf("a run with its own %s: %d %v", field, status, answer)
		}
	}

	left := exec(s, "", "echo begun; until [ -e go ]; do sleep 0.1; done; "+get)
	until(t, "the run has begun", func() bool {
		text, err := s.get(api + "/runs/" + left["run_id"].(string) + "/logs")
		return err == nil && text != ""
	})
	s.kill()
	next := reachable(t, data, p)
	warns(next, true)
	exec(next, "?wait=600s", "touch go")
	if run := next.wait(left["run_id"].(string)); run["exit_code"] != 0.0 || egressOf(t, run)["allowed"] != 1.0 {
		t.Errorf("a run that outlived its server: %v\n%s", run, next.output)
	}
	if status, now := next.ask(http.MethodGet, network, nil); status != http.StatusOK || now["network_policy"] != "allowlist" || !strings.Contains(toText(now), "api.test") {
		t.Errorf("after the restart: %d %v", status, now)
	}
	set(next, map[string]any{"network_policy": "deny_all"})
	next.kill()
	last := reachable(t, data, p)
	warns(last, false)
	if run := exec(last, "?wait=600s", get); run["exit_code"] != 6.0 {
		t.Errorf("narrowed before the restart: %v", run)
	}
	if status, answer := last.ask(http.MethodDelete, api+"/sessions/"+id, nil); status/100 != 2 {
		t.Errorf("%d %v", status, answer)
	}
}
