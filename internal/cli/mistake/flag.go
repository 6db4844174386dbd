package mistake

import (
	"strings"

	"github.com/belljar/belljar"
)

// flagOf returns the flag for a field of a request.
func flagOf(field string) string {
	if strings.HasPrefix(field, "egress.presets") {
		return "--allow-preset"
	}
	if strings.HasPrefix(field, "egress") {
		return "--allow"
	}
	if field, found := strings.CutPrefix(field, "git."); found && field != "url" && field != "secret" {
		return "--" + strings.ReplaceAll(field, "_", "-")
	}
	for name, flag := range map[string]string{"packages.pip": "--pip", "packages.npm": "--npm"} {
		if strings.HasPrefix(field, name) {
			return flag
		}
	}
	return map[string]string{
		"resources.cpu": "--cpus", "resources.memory_mb": "--memory", "resources.pids": "--pids",
		"resources.nofile": "--nofile", "resources.nproc": "--nproc", "resources.workspace_mb": "--workspace",
		"startup_timeout_sec": "--startup-timeout", "timeout_sec": "--timeout", "build_timeout_sec": "--build-timeout",
		"cpu_time_sec": "--cpu-time", "git.url": "--git", "git.secret": "--git-secret",
	}[field]
}

// InFlags replaces the name of a request's field in an error by the name of its flag.
func InFlags(err error) error {
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
	renamed.Message = strings.ReplaceAll(bad.Message, field, flag)
	return &renamed
}
