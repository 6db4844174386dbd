package config

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"strings"
)

func checkListen(s string) error {
	if path, ok := strings.CutPrefix(s, "unix:"); ok {
		if !strings.HasPrefix(path, "/") {
			return errors.New("after unix: an absolute path is needed")
		}
		return nil
	}
	_, port, err := net.SplitHostPort(s)
	if err != nil {
		return errors.New("must be host:port or unix:/path")
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return errors.New("has no port from 0 to 65535")
	}
	return nil
}

func checkURL(s string) error {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return errors.New("must be http://host or https://host, with a path or without")
	}
	return nil
}

func checkIssuer(s string) error {
	if err := checkURL(s); err != nil {
		return err
	}
	u, err := url.Parse(s)
	if err != nil {
		return err
	}
	ip := net.ParseIP(u.Hostname())
	if u.Scheme == "http" && u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return errors.New("must be https, because sign-in depends on it")
	}
	return nil
}

func checkOrigin(s string) error {
	u, err := url.Parse(s)
	if s != "*" && (err != nil || u.Scheme == "" || u.Host == "" || strings.Trim(u.Path, "/") != "" || u.User != nil || strings.Contains(u.Host, "*")) {
		return errors.New("must be scheme://host[:port] or *")
	}
	return nil
}

func checkSpec(s string) error {
	if s != "1.0" && s != "1.1" {
		return errors.New("must be 1.0 or 1.1")
	}
	return nil
}

func checkWord(s string) error {
	if !regexp.MustCompile(`^[a-z][a-z0-9_-]{0,63}$`).MatchString(s) {
		return errors.New("is not the name of a protection")
	}
	return nil
}

// checkImage refuses a string that is no valid image name.
func checkImage(s string) error {
	if s == "" || len(s) > 512 || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return errors.New("is not the name of an image")
	}
	return nil
}

// checkSecret refuses a string that cannot be sent in a header.
func checkSecret(s string) error {
	for _, c := range []byte(s) {
		if c <= ' ' || c > '~' {
			return errors.New("must be printable ASCII without spaces")
		}
	}
	return nil
}

func checkLongSecret(s string) error {
	if len(s) < 32 {
		return errors.New("must have at least 32 bytes")
	}
	return nil
}

// never is a boolean that must be false.
func never(p *bool) value {
	v := boolean(p)
	v.bound = "false"
	set := v.set
	v.set = func(s string) error {
		err := set(s)
		if err == nil && *p {
			*p = false
			err = errors.New("must be false")
		}
		return err
	}
	return v
}

// together validates keys against each other. A conflicting default is adjusted; a conflicting explicit value is an error.
func (c *Config) together() (problems []string) {
	bad := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	if (c.TLSCert == "") != (c.TLSKey == "") {
		bad("SANDBOX_TLS_CERT and SANDBOX_TLS_KEY go together, and one is missing")
	}
	if c.TLSCert != "" && strings.HasPrefix(c.Listen, "unix:") {
		bad("SANDBOX_TLS_CERT does not go with a socket in SANDBOX_LISTEN: clients of a socket speak HTTP without TLS")
	}
	if (c.OIDCIssuer == "") != (c.OIDCAudience == "") {
		bad("SANDBOX_OIDC_ISSUER and SANDBOX_OIDC_AUDIENCE go together, and one is missing")
	}
	c.checkPreview(bad)
	c.checkWorkspace(bad)
	c.checkElsewhere(bad)
	atMost(c, bad, "DEFAULT_CPU", &c.DefaultCPU, "MAX_CPU", c.MaxCPU)
	atMost(c, bad, "DEFAULT_MEM_MB", &c.DefaultMemMB, "MAX_MEM_MB", c.MaxMemMB)
	atMost(c, bad, "DEFAULT_STARTUP_TIMEOUT_SEC", &c.StartupTimeout, "MAX_STARTUP_TIMEOUT_SEC", c.MaxStartupTimeout)
	atMost(c, bad, "DEFAULT_EXEC_TIMEOUT_SEC", &c.ExecTimeout, "MAX_EXEC_TIMEOUT_SEC", c.MaxExecTimeout)
	atMost(c, bad, "DEFAULT_BUILD_TIMEOUT_SEC", &c.BuildTimeout, "MAX_EXEC_TIMEOUT_SEC", c.MaxExecTimeout)
	atMost(c, bad, "DEFAULT_CPU_TIME_SEC", &c.CPUTime, "MAX_CPU_TIME_SEC", c.MaxCPUTime)
	atMost(c, bad, "SESSION_TTL_SEC", &c.SessionTTL, "MAX_SESSION_TTL_SEC", c.MaxSessionTTL)
	atMost(c, bad, "SESSION_LIFETIME_SEC", &c.SessionLifetime, "MAX_SESSION_LIFETIME_SEC", c.MaxSessionLifetime)
	atMost(c, bad, "THREAD_MAX_WORKSPACE_MB", &c.ThreadMaxWorkspaceMB, "WORKSPACE_CAP_MB, or above 4096 without it", c.MaxLimits().WorkspaceMB)
	c.checkModels(bad)
	atMost(c, bad, "REAP_EVERY_SEC", &c.ReapEvery, "LEASE_SEC divided by 4", c.Lease/4)
	if days := (c.ArtifactTTLHours + 23) / 24; days > c.RunRetentionDays { // artifacts and logs are deleted with the record of their run
		if origin, set := c.origins[Prefix+"RUN_RETENTION_DAYS"]; set {
			bad("%s is less than SANDBOX_ARTIFACT_TTL_HOURS, for which artifacts and logs are kept", origin)
		}
		c.RunRetentionDays = days
	}
	if len(c.SupportedSpecVersions) == 0 {
		bad("SANDBOX_SUPPORTED_SPEC_VERSIONS is empty, and every request would be refused")
	}
	if c.Store == "memory" && c.StoreDBPath != "" {
		bad("SANDBOX_STORE_DB_PATH has no meaning with SANDBOX_STORE_BACKEND=memory")
	}
	return problems
}

// atMost limits a default to a maximum.
func atMost[T int | float64 | ~int64](c *Config, bad func(string, ...any), name string, value *T, mostName string, most T) {
	if *value <= most {
		return
	}
	if origin, set := c.origins[Prefix+name]; set {
		bad("%s is above %s%s", origin, Prefix, mostName)
		return
	}
	*value = most
}

// WeakKey reports whether an API key can be guessed. No key is not weak.
func WeakKey(key string) bool { return key != "" && len(key) < 16 }

// Warnings lists risks of this configuration, one sentence each.
func (c *Config) Warnings() []string {
	warnings := append([]string{}, c.loose...)
	if WeakKey(c.APIKey) {
		warnings = append(warnings, "SANDBOX_API_KEY has fewer than 16 characters and can be guessed")
	}
	for _, o := range c.AllowedOrigins {
		if o == "*" {
			warnings = append(warnings, "SANDBOX_ALLOWED_ORIGINS lets every web page call")
		}
	}
	if c.Store == "memory" {
		warnings = append(warnings, "SANDBOX_STORE_BACKEND=memory forgets runs and sessions when the server stops")
	}
	if c.QuotaMemoryMB > 0 && c.QuotaMemoryMB < c.DefaultMemMB {
		warnings = append(warnings, fmt.Sprintf(
			"SANDBOX_QUOTA_MEMORY_MB gives a user %d MiB, less than the %d of one run (SANDBOX_DEFAULT_MEM_MB)", c.QuotaMemoryMB, c.DefaultMemMB))
	}
	if c.QuotaCPU > 0 && c.QuotaCPU < c.DefaultCPU {
		warnings = append(warnings, fmt.Sprintf("SANDBOX_QUOTA_CPU gives a user %v cores, less than the %v of one run (SANDBOX_DEFAULT_CPU)", c.QuotaCPU, c.DefaultCPU))
	}
	if c.NodeMemoryMB > 0 && c.NodeMemoryMB < c.DefaultMemMB {
		warnings = append(warnings, fmt.Sprintf(
			"SANDBOX_NODE_MEMORY_MB gives all sandboxes together %d MiB, less than the %d of one run (SANDBOX_DEFAULT_MEM_MB)", c.NodeMemoryMB, c.DefaultMemMB))
	}
	if c.Hibernate >= c.SessionTTL {
		warnings = append(warnings, "SANDBOX_HIBERNATE_SEC is not less than SANDBOX_SESSION_TTL_SEC: a session that sets no ttl_sec ends before it hibernates")
	}
	return warnings
}

// checkPrivate warns about a file with secrets that other users can read.
func checkPrivate(file string, info os.FileInfo, secrets bool) []string {
	if secrets && runtime.GOOS != "windows" && info.Mode().Perm()&0o044 != 0 {
		return []string{fmt.Sprintf("%s holds secrets and can be read by others: chmod 600", file)}
	}
	return nil
}
