package placement

import (
	"encoding/json"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// HostProgram identifies the first of some programs on this machine, so that an updated program differs; "" if there is none, or one
// may be found outside the machine's own folders.
func HostProgram(env []string, programs ...string) string {
	var dirs []string
	for _, pair := range env {
		if list, ok := strings.CutPrefix(pair, "PATH="); ok {
			dirs = filepath.SplitList(list)
		}
	}
	for _, dir := range dirs {
		if dir = path.Clean(dir); dir != "/bin" && dir != "/sbin" && !strings.HasPrefix(dir, "/usr/") {
			return ""
		}
	}
	for _, program := range programs {
		for _, dir := range dirs {
			file := path.Join(dir, program)
			if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() {
				real, _ := filepath.EvalSymlinks(file)
				facts, _ := json.Marshal([]any{file, real, info.Size(), info.ModTime()})
				return string(facts)
			}
		}
	}
	return ""
}
