// Package flagname puts names of flags in place of the names of fields of requests.
package flagname

import (
	"regexp"
	"slices"
	"strings"

	"github.com/belljar/belljar"
)

// flagOf returns the flag for a field of a request; "" if it has none.
func flagOf(field string) string {
	if strings.HasPrefix(field, "egress") || field == "network_policy" {
		return "--allow"
	}
	if field, found := strings.CutPrefix(field, "git."); found && field != "url" && field != "secret" {
		return "--" + strings.ReplaceAll(field, "_", "-")
	}
	if field, found := strings.CutPrefix(field, "secrets."); found {
		name, of, _ := strings.Cut(field, ".")
		if of == "host" || of == "header" || of == "template" {
			return "--broker " + name
		}
		return "--secret " + name
	}
	for name, flag := range map[string]string{"packages.pip": "--pip", "packages.npm": "--npm"} {
		if strings.HasPrefix(field, name) {
			return flag
		}
	}
	return map[string]string{
		"resources.cpu": "--cpus", "resources.memory_mb": "--memory", "resources.pids": "--pids",
		"resources.nofile": "--nofile", "resources.nproc": "--nproc", "resources.workspace_mb": "--workspace",
		"startup_timeout_sec": "--startup-timeout", "timeout_sec": "--timeout", "build_timeout_sec": "--build-timeout", "build_memory_mb": "--build-memory",
		"cpu_time_sec": "--cpu-time", "git.url": "--git", "git.secret": "--git-secret", "git": "--git", "secrets": "--secret", "packages": "--pip or --npm",
		"isolation": "--isolation", "trust_level": "--trust", "env": "--env",
		"capture_patterns": "--capture", "workspace_exec": "--workspace-exec", "allow_weak": "--allow-weak",
	}[field]
}

// phrases are the words of the API in messages and hints, with those of the command line.
var phrases = []struct {
	api *regexp.Regexp
	cli string
}{
	{regexp.MustCompile(`set network_policy to allowlist, and list (\S+) in egress\.hosts`), "add --allow $1"},
	{regexp.MustCompile(`set network_policy to deny_all`), "leave out --allow"},
	{regexp.MustCompile(`and network_policy is allowlist`), "and --allow asks for a network"},
	{regexp.MustCompile(`and network_policy is deny_all`), "and no --allow names it"},
	{regexp.MustCompile(`network_policy allowlist`), "a network (--allow)"},
	{regexp.MustCompile(`name a runtime whose egress_allowlist_supported is true`), "name another --runtime"},
	{regexp.MustCompile(`no rule of egress\.ips or egress\.cidrs`), "no --allow"},
	{regexp.MustCompile(`(?:is )?a rule of egress\.(?:ips|cidrs)|(?:in )?egress\.(?:hosts|cidrs|ips)`), "--allow"},
	{regexp.MustCompile(`packages\.(pip|npm)`), "--$1"},
	{regexp.MustCompile(`git\.(ref|subdir)`), "--$1"},
	{regexp.MustCompile(`\bmemory_mb and workspace_mb\b`), "--memory and --workspace"},
}

// Text puts the words of the command line in place of the words of the API.
func Text(s string) string {
	for _, p := range phrases {
		s = p.api.ReplaceAllString(s, p.cli)
	}
	return s
}

// In puts the names of flags into an error about a request, in place of the names of fields.
func In(err error) error {
	bad, ok := err.(*belljar.Error)
	if !ok {
		return err
	}
	field, _ := bad.Details["field"].(string)
	flag := flagOf(field)
	if flag == "" {
		return err
	}
	renamed := *bad
	if !slices.Contains([]string{"network_policy", "env", "git", "packages", "secrets"}, field) { // words of messages, too
		renamed.Message = regexp.MustCompile(`(^|[^\w.-])`+regexp.QuoteMeta(field)+`(\W|$)`).ReplaceAllString(bad.Message, "${1}"+flag+"${2}")
	}
	renamed.Message, renamed.Hint = Text(renamed.Message), Text(bad.Hint)
	if first, _, _ := strings.Cut(flag, " "); !strings.Contains(renamed.Message, first) {
		renamed.Message = flag + ": " + renamed.Message
	}
	return &renamed
}
