package field

import (
	"errors"
	"testing"

	"github.com/belljar/belljar"
)

// Errors about requests name flags in place of fields, in messages and hints.
func TestInFlags(t *testing.T) {
	refused := func(field, message, hint string) error {
		return &belljar.Error{Code: belljar.CodeInvalidRequest, Message: message, Hint: hint, Details: map[string]any{"field": field}}
	}
	for _, tt := range []struct {
		err           error
		message, hint string
	}{
		{refused("egress.hosts[2]", `egress.hosts[2]: "a:80" is not a host name`, "leave out the port"), `--allow: "a:80" is not a host name`, "leave out the port"},
		{refused("network_policy", "this server lets sandboxes reach nothing, and network_policy is allowlist", "x"),
			"this server lets sandboxes reach nothing, and --allow asks for a network", "x"},
		{refused("network_policy", "runtime x does not support network_policy allowlist", "name a runtime whose egress_allowlist_supported is true, or set network_policy to deny_all"),
			"runtime x does not support a network (--allow)", "name another --runtime, or leave out --allow"},
		{refused("secrets.T.value", "secrets.T.value has 3 bytes", ""), "--secret T has 3 bytes", ""},
		{refused("secrets.T.host", "T goes to api.example, and network_policy is deny_all", "set network_policy to allowlist, and list api.example in egress.hosts"),
			"--broker T: T goes to api.example, and no --allow names it", "add --allow api.example"},
		{refused("secrets.T.host", "T goes to api.example, which the sandbox may not reach", "set network_policy to allowlist and list api.example in egress.hosts (--allow api.example)"),
			"--broker T: T goes to api.example, which the sandbox may not reach", "add --allow api.example"},
		{refused("git.keep_git", "git.keep_git and git.subdir exclude each other", ""), "--keep-git and --subdir exclude each other", ""},
		{refused("git.url", "git.url must not have a query", "a branch or tag goes in git.ref"), "--git must not have a query", "a branch or tag goes in --ref"},
		{refused("git", "git cannot be set for a run in a session", ""), "--git: git cannot be set for a run in a session", ""},
		{refused("packages.pip[0]", `packages.pip[0]: "a;b" is not the name of a package`, ""), `--pip: "a;b" is not the name of a package`, ""},
		{refused("packages.npm", "this server does not install packages of npm", ""), "--npm: this server does not install packages of npm", ""},
		{refused("resources.memory_mb", "resources.memory_mb is above 4096", ""), "--memory is above 4096", ""},
		{refused("build_memory_mb", "build_memory_mb is above 4096", ""), "--build-memory is above 4096", ""},
		{refused("ttl_sec", "ttl_sec is limited to 86400 here, got 99999999", ""), "--ttl is limited to 86400 here, got 99999999", ""},
		{refused("env", "env is limited to 256 variables", ""), "--env: env is limited to 256 variables", ""},
		{refused("workspace.mb", "workspace.mb must be at least 8 MiB, got 1", ""), "--disk must be at least 8 MiB, got 1", ""},
		{refused("", "you have no volume x", "make it with workspace.mb, or ask for a larger workspace_mb (--workspace)"), "you have no volume x", "make it with --disk, or ask for a larger --workspace"},
		{refused("labels", "labels are limited to 16", ""), "labels are limited to 16", ""},
	} {
		got := InFlags(tt.err)
		var e *belljar.Error
		if !errors.As(got, &e) || e.Message != tt.message || e.Hint != tt.hint {
			t.Errorf("%v\nbecomes %q, hint %q", tt.err, e.Message, e.Hint)
		}
	}
	if other := errors.New("git.ref"); InFlags(other) != other {
		t.Error("another error is changed")
	}
}
