package manifest

import (
	"encoding/json"
	"path"
	"slices"
	"strings"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/image/fault"
)

// Kept returns the useful parts of a config. It leaves out variables without a name, labels that are too long to display,
// and all labels if they make it too large. It refuses values that cannot be a variable, a path or an argument.
func (c *Config) Kept() (belljar.ImageConfig, error) {
	from := c.Config
	out := belljar.ImageConfig{User: from.User, Entrypoint: from.Entrypoint, Cmd: from.Cmd}
	for _, pair := range from.Env {
		if name, _, ok := strings.Cut(pair, "="); ok && name != "" {
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
	for _, s := range slices.Concat(out.Env, out.Entrypoint, out.Cmd, []string{out.User, out.WorkingDir}) {
		if strings.ContainsRune(s, 0) {
			return out, fault.Invalid("config", "its config has a NUL in it")
		}
	}
	if stored(out) > mostKept {
		out.Labels = nil
	}
	if size := stored(out); size > mostKept {
		return out, fault.Invalid("config", "the variables and arguments in its config have %d bytes as JSON, more than %d", size, mostKept)
	}
	return out, nil
}

// stored is how many bytes a config has in the list of images.
func stored(c belljar.ImageConfig) int {
	data, _ := json.Marshal(c) // cannot fail: it has only text
	return len(data)
}
