package daemon

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/config"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service"
)

func TestCheckHost(t *testing.T) {
	host := func(missing ...string) (caps runtime.Capabilities) {
		for _, name := range service.AllProtections() {
			caps.Protections = append(caps.Protections, runtime.Protection{Name: name, Enforced: !slices.Contains(missing, name)})
		}
		return caps
	}
	for _, c := range []struct {
		name   string
		weak   []string
		idle   bool // executes nothing
		caps   runtime.Capabilities
		code   belljar.Code
		wanted []string // expected in the message or the hint
	}{
		{name: "all there", caps: host()},
		{name: "some missing", caps: host("memory", "cpu"), code: belljar.CodeRuntimeUnavailable, wanted: []string{"memory, cpu", "allow_weak=memory,cpu"}},
		{name: "one let go", weak: []string{"cpu"}, caps: host("memory", "cpu"), code: belljar.CodeRuntimeUnavailable, wanted: []string{"host: memory", "allow_weak=cpu,memory"}},
		{name: "all let go", weak: []string{"cpu", "memory"}, caps: host("memory", "cpu")},
		{name: "unknown", caps: runtime.Capabilities{}, code: belljar.CodeRuntimeUnavailable, wanted: []string{"filesystem"}},
		{name: "nothing to execute", idle: true, caps: host("memory")},
		{name: "no such protection", weak: []string{"memroy"}, caps: host(), code: belljar.CodeInvalidRequest, wanted: []string{`"memroy"`, "memory"}},
		{name: "not required anyway", weak: []string{"landlock"}, caps: host()},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := &config.Config{AllowWeak: c.weak, EnableExecution: !c.idle}
			err := checkHost(cfg, requiredProtections(cfg, service.AllProtections()), c.caps)
			if c.code == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if belljar.CodeOf(err) != c.code {
				t.Fatalf("checkHost = %v, want %s", err, c.code)
			}
			for _, want := range c.wanted {
				if text := err.Error() + "\n" + belljar.HintOf(err); !strings.Contains(text, want) {
					t.Errorf("%q is not in %q", want, text)
				}
			}
		})
	}
}

// The hint of a server with a file examines the host with the same settings.
func TestDoctorWithTheFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "belljar.yaml")
	if err := os.WriteFile(file, []byte("max_cpu: 2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{file: `run "belljar doctor --config ` + file + `" to`, "": `run "belljar doctor" to`} {
		cfg, err := config.Load(config.Sources{File: name})
		if err != nil {
			t.Fatal(err)
		}
		if err := checkHost(&cfg, []string{"memory"}, runtime.Capabilities{}); !strings.Contains(belljar.HintOf(err), want) {
			t.Errorf("%q is not in %q", want, belljar.HintOf(err))
		}
	}
}
