// Package field puts the names of flags into errors that name the fields of a request.
package field

import (
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/belljar/belljar"
)

// flagOf returns the flag for a field of a request; "" if it has none.
func flagOf(field string) string {
	if strings.HasPrefix(field, "egress.presets") {
		return "--allow-preset"
	}
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
		"cpu_time_sec": "--cpu-time", "git.url": "--git", "git.secret": "--git-secret", "git": "--git", "snapshot": "--snapshot", "template": "--template", "workspace.mb": "--disk", "workspace.volume": "--volume", "workspace": "--disk or --volume", "mb": "SIZE", "secrets": "--secret", "packages": "--pip or --npm",
		"ttl_sec": "--ttl", "lifetime_sec": "--lifetime", "idle_timeout_sec": "--idle-timeout", "max_runs": "--max-runs",
		"isolation": "--isolation", "trust_level": "--trust", "env": "--env",
		"capture_patterns": "--capture", "workspace_exec": "--workspace-exec", "allow_weak": "--allow-weak",
	}[field]
}

// phrase is a phrase of the API's messages and hints, and its replacement in the command line.
type phrase struct {
	api *regexp.Regexp
	cli string
}

// phrases are compiled on first use: few commands return an error.
var phrases = sync.OnceValue(func() []phrase {
	var list []phrase
	for _, p := range [][2]string{
		{`\bless with resources\b`, "less with --memory, --workspace or --cpus"},
		{`[\w.]+ \((--[\w-]+)\)`, "$1"},
		{`set network_policy to allowlist,? and list (\S+) in egress\.hosts(?: \(--allow \S+\))?`, "add --allow $1"},
		{`set network_policy to deny_all`, "leave out --allow"},
		{`and network_policy is allowlist`, "and --allow asks for a network"},
		{`and network_policy is deny_all`, "and no --allow names it"},
		{`network_policy allowlist`, "a network (--allow)"},
		{`name a runtime whose egress_allowlist_supported is true`, "name another --runtime"},
		{`no rule of egress\.ips or egress\.cidrs`, "no --allow"},
		{`(?:is )?a rule of egress\.(?:ips|cidrs)|(?:in )?egress\.(?:hosts|cidrs|ips)`, "--allow"},
		{`packages\.(pip|npm)`, "--$1"},
		{`git\.(ref|subdir)`, "--$1"},
		{`\bmemory_mb and workspace_mb\b`, "--memory and --workspace"},
		{`set workspace\.medium to disk; resources\.workspace_mb`, "leave out --disk; --workspace"},
		{`\bworkspace\.mb\b`, "--disk"},
		{`\bresources\.workspace_mb\b`, "--workspace"},
		{`\bworkspace\.volume\b`, "--volume"},
		{`\bworkspace\.read_only\b`, ":ro"},
	} {
		list = append(list, phrase{regexp.MustCompile(p[0]), p[1]})
	}
	return list
})

// Words replaces the API's words in a text by the command line's.
func Words(s string) string {
	for _, p := range phrases() {
		s = p.api.ReplaceAllString(s, p.cli)
	}
	return s
}

// InFlags puts the names of flags into an error about a request, in place of the names of fields.
func InFlags(err error) error {
	bad, ok := err.(*belljar.Error)
	if !ok {
		return err
	}
	field, _ := bad.Details["field"].(string)
	flag := flagOf(field)
	renamed := *bad
	if flag != "" && !slices.Contains([]string{"network_policy", "env", "git", "packages", "secrets"}, field) { // these are ordinary words in messages, too
		renamed.Message = regexp.MustCompile(`(^|[^\w.-])`+regexp.QuoteMeta(field)+`(\W|$)`).ReplaceAllString(bad.Message, "${1}"+flag+"${2}")
	}
	renamed.Message, renamed.Hint = Words(renamed.Message), Words(bad.Hint)
	if first, _, _ := strings.Cut(flag, " "); !strings.Contains(renamed.Message, first) {
		renamed.Message = flag + ": " + renamed.Message
	}
	return &renamed
}
