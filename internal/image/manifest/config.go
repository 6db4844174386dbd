package manifest

import (
	"path"
	"slices"
	"strings"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/image/fault"
)

// Kept returns the useful parts of a config. It leaves out variables without a name and labels that are too long to
// display. It refuses values that cannot be a variable, a path or an argument.
func (c *Config) Kept() (belljar.ImageConfig, error) {
	from := c.Config
	out := belljar.ImageConfig{User: from.User, Entrypoint: from.Entrypoint, Cmd: from.Cmd}
	for _, pair := range from.Env {
		if name, _, ok := strings.Cut(pair, "="); ok && name != "" {
			if len(pair) >= mostVariable {
				return out, fault.Invalid("config", "the variable %s in its config has %d bytes, more than a program can be given", fault.Printable(name), len(pair))
			}
			out.Env = append(out.Env, pair)
		}
	}
	if from.WorkingDir != "" {
		if out.WorkingDir = path.Clean("/" + from.WorkingDir); out.WorkingDir == "/" {
			out.WorkingDir = ""
		}
	}
	for k, v := range from.Labels {
		if len(k)+len(v) > mostLabel {
			continue
		}
		if out.Labels == nil {
			out.Labels = map[string]string{}
		}
		out.Labels[k] = v
	}
	size := len(out.User) + len(out.WorkingDir)
	for _, s := range slices.Concat(out.Env, out.Entrypoint, out.Cmd, []string{out.User, out.WorkingDir}) {
		if size += len(s); strings.ContainsRune(s, 0) {
			return out, fault.Invalid("config", "its config has a NUL in it")
		}
	}
	for k, v := range out.Labels {
		size += len(k) + len(v)
	}
	if size > mostKept {
		return out, fault.Invalid("config", "the variables, arguments and labels in its config have %d bytes, more than %d", size, mostKept)
	}
	return out, nil
}
