package config

import (
	"bytes"
	"errors"
	"flag"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/belljar/belljar"
)

var update = flag.Bool("update", false, "write docs/config.md instead of checking it")

const page = "../../docs/config.md"

func TestPage(t *testing.T) {
	want := Page()
	if *update {
		if err := os.WriteFile(page, want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("docs/config.md is stale; run go test ./internal/config -update")
	}
}

func load(t *testing.T, from Sources) Config {
	t.Helper()
	c, err := Load(from)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// problems returns the problems that Load reports.
func problems(t *testing.T, from Sources) []string {
	t.Helper()
	_, err := Load(from)
	var e *belljar.Error
	if !errors.As(err, &e) || e.Code != belljar.CodeInvalidRequest {
		t.Fatalf("Load(%+v) = %v", from, err)
	}
	list := e.Details["problems"].([]string)
	for _, p := range list {
		if !strings.Contains(e.Message, p) {
			t.Errorf("message %q leaves out %q", e.Message, p)
		}
	}
	return list
}

func file(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "belljar.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestDefaults(t *testing.T) {
	c := load(t, Sources{})
	if diff := cmp.Diff(belljar.DefaultLimits(), c.Limits()); diff != "" {
		t.Errorf("limits are not the root's (-root +config):\n%s", diff)
	}
	if diff := cmp.Diff(belljar.MaxLimits(), c.MaxLimits()); diff != "" {
		t.Errorf("maxima are not the root's (-root +config):\n%s", diff)
	}
	// docs/compatibility.md#limits-and-defaults, and as many processes per user as per sandbox.
	want := map[string]any{
		"SANDBOX_NETWORK_DEFAULT": "deny_all", "SANDBOX_MAX_UPLOAD_MB": 64, "SANDBOX_MAX_UPLOAD_FILES": 1000, "SANDBOX_MAX_UPLOAD_DEPTH": 10, "SANDBOX_ARTIFACT_TTL_HOURS": 24,
		"SANDBOX_MAX_CONCURRENT_RUNS": 8, "SANDBOX_MAX_LOG_BYTES": int64(10 << 20), "SANDBOX_PIDS_LIMIT": 256,
		"SANDBOX_MAX_CPU": 4.0, "SANDBOX_MAX_MEM_MB": 8192, "SANDBOX_WORKSPACE_CAP_MB": 256,
		"SANDBOX_SUPPORTED_SPEC_VERSIONS": []string{"1.0", "1.1"}, "SANDBOX_IDEMPOTENCY_TTL_SEC": 600.0,
		"SANDBOX_ENABLE_EXECUTION": true, "SANDBOX_BACKGROUND_EXECUTION": true, "SANDBOX_ULIMIT_NOFILE": 1024,
		"SANDBOX_ULIMIT_NPROC": 256, "SANDBOX_MAX_ARTIFACT_BYTES_PER_RUN_MB": 32, "SANDBOX_MAX_ARTIFACT_BYTES_PER_USER_MB": 128,
		"SANDBOX_STORE_BACKEND": "sqlite", "SANDBOX_DEFAULT_STARTUP_TIMEOUT_SEC": 20.0, "SANDBOX_DEFAULT_EXEC_TIMEOUT_SEC": 60.0,
		"SANDBOX_CANCEL_GRACE_SECONDS": 5.0, "SANDBOX_QUEUE_MAX_LENGTH": 100, "SANDBOX_QUEUE_TTL_SEC": 120.0,
		"SANDBOX_WS_POLL_TIMEOUT_SEC": 30.0, "SANDBOX_WS_SYNTHETIC_FRAMES_FOR_TESTS": false,
		"SANDBOX_WS_SIGNED_URL_TTL_SEC": 60.0, "SANDBOX_WS_SIGNED_URLS": false, "SANDBOX_WS_SIGNING_SECRET": "",
		"SANDBOX_DOCKER_SECCOMP": "", "SANDBOX_DOCKER_APPARMOR_PROFILE": "", "SANDBOX_STORE_DB_PATH": "",
		"SANDBOX_INTERACTIVE_MAX_FRAME_BYTES": int64(64 << 10), "SANDBOX_INTERACTIVE_MAX_BYTES": int64(1 << 20),
		"SANDBOX_INTERACTIVE_IDLE_TIMEOUT_SEC": 30.0, "SANDBOX_AUDIT_RETENTION_DAYS": 30,
	}
	got := c.Values()
	for name, value := range want {
		if !reflect.DeepEqual(got[name], value) {
			t.Errorf("%s is %#v, want %#v", name, got[name], value)
		}
	}
}

// The keys of docs/compatibility.md#policy-hash, exactly.
func TestHashKeys(t *testing.T) {
	want := []string{
		"SANDBOX_ARTIFACT_TTL_HOURS", "SANDBOX_BACKGROUND_EXECUTION", "SANDBOX_CANCEL_GRACE_SECONDS",
		"SANDBOX_DEFAULT_EXEC_TIMEOUT_SEC", "SANDBOX_DEFAULT_RUNTIME", "SANDBOX_DEFAULT_STARTUP_TIMEOUT_SEC",
		"SANDBOX_DOCKER_APPARMOR_PROFILE", "SANDBOX_DOCKER_SECCOMP", "SANDBOX_ENABLE_EXECUTION",
		"SANDBOX_MAX_ARTIFACT_BYTES_PER_RUN_MB", "SANDBOX_MAX_ARTIFACT_BYTES_PER_USER_MB", "SANDBOX_MAX_CPU",
		"SANDBOX_MAX_LOG_BYTES", "SANDBOX_MAX_MEM_MB", "SANDBOX_MAX_UPLOAD_MB", "SANDBOX_NETWORK_DEFAULT",
		"SANDBOX_PIDS_LIMIT", "SANDBOX_SUPPORTED_SPEC_VERSIONS", "SANDBOX_ULIMIT_NOFILE", "SANDBOX_ULIMIT_NPROC",
		"SANDBOX_WORKSPACE_CAP_MB",
	}
	var got []string
	for _, k := range Keys() {
		if k.Hash {
			got = append(got, k.Name)
		}
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestTable(t *testing.T) {
	c := Config{origins: map[string]string{}}
	names := map[string]bool{}
	for _, r := range table(&c) {
		if names[r.name] || r.name != strings.ToUpper(r.name) {
			t.Errorf("%s: twice, or not in capitals", r.name)
		}
		names[r.name] = true
		if !strings.HasSuffix(r.doc, ".") {
			t.Errorf("%s: %q is no sentence", r.name, r.doc)
		}
		if r.secret && r.hash {
			t.Errorf("%s: a secret must not enter the policy hash", r.name)
		}
	}
	// Every exported field belongs to a key.
	if n := reflect.TypeFor[Config]().NumField() - 3; n != len(names) {
		t.Errorf("Config has %d fields and the table %d keys", n, len(names))
	}
}

func TestLaterSourcesWin(t *testing.T) {
	name := file(t, "max_cpu: 2\nmax_mem_mb: 100\npids_limit: 50\ndefault_mem_mb: 64\n")
	c := load(t, Sources{
		File: name,
		Env:  []string{"SANDBOX_MAX_MEM_MB=200", "SANDBOX_PIDS_LIMIT=60", "SANDBOX_QUEUE_TTL_SEC=", "HOME=/", "TLDW_SANDBOX_DOCKER_FAKE_EXEC=1"},
		Set:  map[string]string{"pids-limit": "70", "listen": "127.0.0.1:0"},
	})
	if c.MaxCPU != 2 || c.MaxMemMB != 200 || c.PidsLimit != 70 || c.Listen != "127.0.0.1:0" || c.QueueTTL != 2*time.Minute {
		t.Errorf("got %+v", c)
	}
	for key, want := range map[string]string{
		"SANDBOX_MAX_CPU": name + ":1: max_cpu", "SANDBOX_MAX_MEM_MB": "SANDBOX_MAX_MEM_MB in the environment",
		"SANDBOX_PIDS_LIMIT": "flag pids-limit",
	} {
		if got, ok := c.Set(key); !ok || got != want {
			t.Errorf("%s comes from %q, want %q", key, got, want)
		}
	}
	if got := c.MaxLimits().Pids; got != 70 {
		t.Errorf("a limit that was set is no cap: %d", got)
	}
	if _, ok := c.Set("SANDBOX_QUEUE_TTL_SEC"); ok {
		t.Error("an empty value counts")
	}
	c = load(t, Sources{Env: []string{"SANDBOX_PIDS_LIMIT=10000"}})
	if got, err := c.Limits().Resolve(belljar.Resources{Pids: 9000}, 0, 0, c.MaxLimits()); err != nil || got.NProc != 9000 {
		t.Errorf("a request of 9000 processes gets %d, %v", got.NProc, err)
	}
	c = load(t, Sources{Env: []string{"SANDBOX_CONFIG=" + name}})
	if c.MaxCPU != 2 {
		t.Error("SANDBOX_CONFIG names no file")
	}
}

func TestValues(t *testing.T) {
	c := load(t, Sources{
		File: file(t, `
enable_execution: off
supported_spec_versions: ["1.1"]
trusted_proxies:
  - 10.1.2.3/8
  - "::1"
default_exec_timeout_sec: 1.5
artifact_ttl_hours: 12
api_key: "0123456789abcdef"
listen: unix:/run/belljar/api.sock
`),
		Env: []string{`SANDBOX_ALLOWED_ORIGINS=["https://a.example", "http://b.example:8080"]`, "SANDBOX_ALLOW_WEAK=memory, cpu"},
	})
	if c.EnableExecution || !slices.Equal(c.SupportedSpecVersions, []string{"1.1"}) ||
		!slices.Equal(c.TrustedProxies, []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("::1/128")}) ||
		c.ExecTimeout != 1500*time.Millisecond || c.ArtifactTTLHours != 12 ||
		!slices.Equal(c.AllowedOrigins, []string{"https://a.example", "http://b.example:8080"}) ||
		!slices.Equal(c.AllowWeak, []string{"memory", "cpu"}) {
		t.Errorf("got %+v", c)
	}
	if got := c.Values()["SANDBOX_API_KEY"]; got != "set" {
		t.Errorf("Values tells the secret: %v", got)
	}
}

func TestReportsAllErrorsAtOnce(t *testing.T) {
	name := file(t, "max_cpus: 2\npids_limit: many\npids_limit: 3\nPIDS_LIMIT: 4\nlisten: {a: 1}\nSANDBOX_DEFAULT_CPU: 1\n")
	got := problems(t, Sources{
		File: name,
		Env:  []string{"SANDBOX_MAX_MEM=1", "SANDBOX_QUEUE_TTL_SEC=-1", "SANDBOX_ZZZZZZ=1", "SANDBOX_JWT_SECRET=hunter2"},
		Set:  map[string]string{"max-log-byte": "1", "ulimit_nofile": "1e3"},
	})
	want := []string{
		name + ":1: max_cpus is not a key, did you mean max_cpu",
		name + ":3: pids_limit is set in line 2 already",
		name + ":4: PIDS_LIMIT is not a key, did you mean pids_limit",
		name + ":5: listen must be a plain value or a list",
		name + ":6: SANDBOX_DEFAULT_CPU is not a key, did you mean default_cpu",
		"SANDBOX_MAX_MEM in the environment is not a key, did you mean SANDBOX_MAX_MEM_MB",
		"SANDBOX_ZZZZZZ in the environment is not a key",
		"flag max-log-byte is not a key, did you mean max-log-bytes",
		name + ":2: pids_limit must be a whole number, got \"many\"",
		"SANDBOX_QUEUE_TTL_SEC in the environment must be 0.001 to 86400, got \"-1\"",
		"SANDBOX_JWT_SECRET in the environment must have at least 32 bytes",
		"flag ulimit_nofile must be a whole number, got \"1e3\"",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// A setting may have a least value, and 0 for none.
func TestZeroIsNoLimit(t *testing.T) {
	for text, want := range map[string]time.Duration{"0": 0, "0.01": 10 * time.Millisecond} {
		if c := load(t, Sources{Env: []string{Prefix + "DEFAULT_CPU_TIME_SEC=" + text}}); c.CPUTime != want {
			t.Errorf("%s: %v", text, c.CPUTime)
		}
	}
	got := problems(t, Sources{Set: map[string]string{"default_cpu_time_sec": "0.005"}})
	if diff := cmp.Diff([]string{`flag default_cpu_time_sec must be 0, or 0.01 to 31536000, got "0.005"`}, got); diff != "" {
		t.Error(diff)
	}
}

// The error about a setting that may be unset lists the values that it may have.
func TestUnsetIsNoValue(t *testing.T) {
	got := problems(t, Sources{Set: map[string]string{"default_trust_level": "Untrusted"}})
	if diff := cmp.Diff([]string{`flag default_trust_level must be trusted or standard or untrusted, got "Untrusted"`}, got); diff != "" {
		t.Error(diff)
	}
}

func TestRefused(t *testing.T) {
	for key, values := range map[string][]string{
		"LISTEN":                        {"8080", "localhost", "localhost:http", "localhost:70000", "unix:relative", "[::1:80"},
		"PUBLIC_URL":                    {"example.com", "ftp://x", "https://", "https://a:b@x", "https://x/?q"},
		"TRUSTED_PROXIES":               {"10.0.0.0/33", "proxy", "10.0.0.1,,10.0.0.2", "fe80::1%eth0", "[1]"},
		"ALLOWED_ORIGINS":               {"example.com", "https://*.example.com", "https://x/path", "null", `["https://a"`},
		"OIDC_ISSUER":                   {"http://issuer.example", "issuer"},
		"API_KEY":                       {"with space", "naïve"},
		"JWT_SECRET":                    {"short"},
		"WS_SIGNING_SECRET":             {"short"},
		"NETWORK_DEFAULT":               {"none", "open"},
		"APPROVAL_WEBHOOK":              {"hooks.example", "ftp://hooks.example/in", "https://", "https://a:b@hooks.example", "https://hooks.example/#x", "file:///x"},
		"APPROVAL_WEBHOOK_KEY":          {"short", "whsec_", "whsec_c2hvcnQ=", "whsec_" + strings.Repeat("*", 44)},
		"EGRESS_ALLOW":                  {"a b", "bücher.example"},
		"EGRESS_ALLOW_USERS":            {"alice", "=api.example.com", "alice="},
		"EGRESS_ALLOW_TRUST":            {"alice=api.example.com", "untrusted="},
		"EGRESS_PORTS":                  {"0", "65536", "http", "80,080", "[]x", "[]"},
		"PACKAGE_MIRRORS":               {"pip", "nix=https://a.example.com", "pip=https://a:b@a.example.com"},
		"EGRESS_RESOLVER":               {"resolver.example", "192.0.2.53:", "192.0.2.53:0"},
		"DEFAULT_RUNTIME":               {"chroot"},
		"TRUST_LEVELS":                  {"untrusted=microvm,untrusted=namespace"},
		"IMAGE_ALIASES":                 {"py=python:3.11,py=python:3.12"},
		"SUPPORTED_SPEC_VERSIONS":       {"2.0", "1.0,2.0", "1.0,1.0"},
		"MAX_CPU":                       {"0", "nan", "inf", "0x10p1", "1_0", "four", "-1"},
		"MAX_LOG_BYTES":                 {"0", "10MB", "1.5", "99999999999999999999"},
		"ENABLE_EXECUTION":              {"maybe", "2"},
		"WS_SYNTHETIC_FRAMES_FOR_TESTS": {"true", "1"},
		"STORE_BACKEND":                 {"postgres", "redis"},
		"QUEUE_TTL_SEC":                 {"2m", "0"},
		"DOCKER_APPARMOR_PROFILE":       {"unconfined", "mine-unconfined"},
		"DEFAULT_CPU_TIME_SEC":          {"0.005", "-1", "1s", "31536001"},
		"ALLOW_WEAK":                    {"Memory", "a b", "../x"},
		"LOG_LEVEL":                     {"trace"},
	} {
		for _, v := range values {
			got := problems(t, Sources{Env: []string{Prefix + key + "=" + v}})
			if len(got) == 0 || !strings.HasPrefix(got[0], Prefix+key+" in the environment ") {
				t.Errorf("%s=%s: %q", key, v, got)
			}
		}
	}
}

// Sandboxes reach an index by its name only, so one at an IP address could not be used.
func TestMirrorAtAddress(t *testing.T) {
	for _, host := range []string{"127.0.0.1:8744", "10.0.0.5", "[2001:db8::7]:3141", "[fe80::1%25eth0]"} {
		for _, preset := range belljar.EgressPresets() {
			got := problems(t, Sources{Set: map[string]string{"package_mirrors": preset + "=http://" + host + "/simple"}})
			if len(got) != 1 || !strings.Contains(got[0], "has an IP address as its host") || !strings.Contains(got[0], "/etc/hosts") {
				t.Errorf("%s at %s: %q", preset, host, got)
			}
		}
	}
	load(t, Sources{Set: map[string]string{"package_mirrors": "pip=http://10.example.com:3141/simple"}})
}

func TestKeysThatGoTogether(t *testing.T) {
	for _, c := range []struct {
		env  []string
		want string
	}{
		{[]string{"SANDBOX_TLS_CERT=/c"}, "SANDBOX_TLS_KEY"},
		{[]string{"SANDBOX_TLS_CERT=/c", "SANDBOX_TLS_KEY=/k", "SANDBOX_LISTEN=unix:/s"}, "SANDBOX_TLS_CERT does not go with a socket"},
		{[]string{"SANDBOX_OIDC_ISSUER=https://i.example"}, "SANDBOX_OIDC_AUDIENCE"},
		{[]string{"SANDBOX_MAX_CPU=1", "SANDBOX_DEFAULT_CPU=2"}, "SANDBOX_DEFAULT_CPU in the environment is above SANDBOX_MAX_CPU"},
		{[]string{"SANDBOX_STORE_BACKEND=memory", "SANDBOX_STORE_DB_PATH=/x"}, "no meaning"},
		{[]string{"SANDBOX_WORKSPACE_CAP_MB=256", "SANDBOX_THREAD_MAX_WORKSPACE_MB=257"},
			"SANDBOX_THREAD_MAX_WORKSPACE_MB in the environment is above SANDBOX_WORKSPACE_CAP_MB"},
		{[]string{"SANDBOX_THREAD_MAX_WORKSPACE_MB=4097"}, "is above SANDBOX_WORKSPACE_CAP_MB, or above 4096 without it"},
		{[]string{"SANDBOX_ARTIFACT_TTL_HOURS=25", "SANDBOX_RUN_RETENTION_DAYS=1"}, "SANDBOX_RUN_RETENTION_DAYS in the environment is less than SANDBOX_ARTIFACT_TTL_HOURS"},
		{[]string{"SANDBOX_SUPPORTED_SPEC_VERSIONS=[]"}, "SANDBOX_SUPPORTED_SPEC_VERSIONS is empty"},
		{[]string{"SANDBOX_MCP_CPU=4.5"}, "SANDBOX_MCP_CPU in the environment is above SANDBOX_MAX_CPU"},
		{[]string{"SANDBOX_MCP_CPU=0.001"}, "SANDBOX_MCP_CPU in the environment is below 0.01"},
		{[]string{"SANDBOX_MCP_MEMORY_MB=8193"}, "is above SANDBOX_MAX_MEM_MB"},
		{[]string{"SANDBOX_MCP_MEMORY_MB=7"}, "is below 8"},
		{[]string{"SANDBOX_MCP_WORKSPACE_MB=65", "SANDBOX_WORKSPACE_CAP_MB=64"}, "is above SANDBOX_WORKSPACE_CAP_MB"},
		{[]string{"SANDBOX_MCP_TIMEOUT_SEC=86401"}, "is above SANDBOX_MAX_EXEC_TIMEOUT_SEC"},
		{[]string{"SANDBOX_MCP_IDLE_TIMEOUT_SEC=601", "SANDBOX_MAX_SESSION_TTL_SEC=600"}, "is above SANDBOX_MAX_SESSION_TTL_SEC"},
	} {
		if got := problems(t, Sources{Env: c.env}); len(got) != 1 || !strings.Contains(got[0], c.want) {
			t.Errorf("%v: %q", c.env, got)
		}
	}
	c := load(t, Sources{Env: []string{"SANDBOX_MAX_CPU=0.5", "SANDBOX_MAX_MEM_MB=100", "SANDBOX_WORKSPACE_CAP_MB=256", "SANDBOX_ARTIFACT_TTL_HOURS=2161"}})
	if c.DefaultCPU != 0.5 || c.DefaultMemMB != 100 || c.ThreadMaxWorkspaceMB != 256 || c.RunRetentionDays != 91 {
		t.Errorf("defaults do not give way: %v, %v, %v, %v", c.DefaultCPU, c.DefaultMemMB, c.ThreadMaxWorkspaceMB, c.RunRetentionDays)
	}
}

func TestWarnings(t *testing.T) {
	name := file(t, "api_key: short\n")
	if err := os.Chmod(name, 0o644); err != nil {
		t.Fatal(err)
	}
	c := load(t, Sources{File: name, Env: []string{"SANDBOX_ALLOWED_ORIGINS=*", "SANDBOX_STORE_BACKEND=memory", "SANDBOX_NODE_MEMORY_MB=511", "SANDBOX_QUOTA_MEMORY_MB=511", "SANDBOX_QUOTA_CPU=0.9", "SANDBOX_HIBERNATE_SEC=3600"}})
	got := strings.Join(c.Warnings(), "\n")
	for _, want := range []string{"can be read by others", "fewer than 16", "every web page", "memory forgets", "SANDBOX_NODE_MEMORY_MB gives", "SANDBOX_QUOTA_MEMORY_MB gives", "SANDBOX_QUOTA_CPU gives", "before it hibernates"} {
		if !strings.Contains(got, want) {
			t.Errorf("no word of %q in:\n%s", want, got)
		}
	}
	c = load(t, Sources{Env: []string{"SANDBOX_NODE_MEMORY_MB=512", "SANDBOX_QUOTA_MEMORY_MB=512", "SANDBOX_QUOTA_CPU=1", "SANDBOX_HIBERNATE_SEC=3599"}})
	if got := c.Warnings(); len(got) != 0 {
		t.Errorf("warnings about nothing: %q", got)
	}
}

func TestFiles(t *testing.T) {
	for text, want := range map[string]string{
		"":                      "",
		"# nothing\n":           "",
		"---\n":                 "",
		"max_cpu:\n":            "",
		"- a\n":                 "must be a mapping",
		"word":                  "must be a mapping",
		"a: [":                  "line 1",
		"max_cpu: 1\n---\nb: 2": "more than one document",
		"x: &x 1\nmax_cpu: *x":  "is not a key",
		"max_cpu: !!binary AA":  "must be a number",
		"? [a]\n: 1":            "not a word",
		"listen: [[a]]":         "plain values",
		"egress_allow: [null]":  "plain values",
		"egress_allow: [a, ]":   "",
		"egress_allow:\n-\n- a": "has an empty element",
		"data: [/srv]":          ":1: data must be a plain value, not a list",
		"tls_cert: []":          "must be a plain value, not a list",
		"default_image: [host]": "must be a plain value, not a list",
		"max_cpu: [1]":          "must be a plain value, not a list",
		"data: {a: b}":          "must be a plain value or a list",
		"data: null":            "",
	} {
		_, err := Load(Sources{File: file(t, text)})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	if _, err := Load(Sources{File: filepath.Join(t.TempDir(), "absent")}); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("a file that is not there: %v", err)
	}
	if _, err := Load(Sources{File: file(t, strings.Repeat("#", maxFile+1))}); err == nil {
		t.Error("a huge file is read")
	}
}

func TestNearest(t *testing.T) {
	for word, want := range map[string]string{"max_cpuu": "max_cpu", "queue_tll_sec": "queue_ttl_sec", "zzz": ""} {
		if got := suggest(word, []string{"max_cpu", "queue_ttl_sec", "listen"}); got != want {
			t.Errorf("%s: %q", word, got)
		}
	}
}

func FuzzFile(f *testing.F) {
	var names []string
	for _, r := range table(&Config{}) {
		names = append(names, r.name)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		settings, _ := parseFile("f", raw, names)
		for _, s := range settings {
			if !slices.Contains(names, s.name) {
				t.Errorf("setting of unknown key %q", s.name)
			}
		}
	})
}

func FuzzValues(f *testing.F) {
	f.Fuzz(func(t *testing.T, name, text string) {
		c, err := Load(Sources{Set: map[string]string{name: text}})
		if err == nil && !(c.MaxCPU > 0 && c.QueueTTL > 0 && c.MaxLogBytes > 0 && !c.WSSynthetic && slices.Contains([]string{"deny_all", "allowlist"}, c.NetworkDefault)) {
			t.Errorf("%q = %q gives %+v", name, text, c)
		}
	})
}
