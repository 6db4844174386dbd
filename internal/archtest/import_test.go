package archtest

import (
	"slices"
	"strings"
	"testing"
)

// rule is one of the design's import rules: the packages that it applies to, the packages of this module that they may
// import, and the reason.
type rule struct {
	name    string
	reason  string
	applies func(dir string) bool
	allowed func(dir, imported string) bool
	foreign func(imported string) bool // imports from outside the module; nil allows all
}

// contracts are the packages that define an implementation's duties.
func contracts() []string {
	return []string{"internal/runtime", "internal/store", "internal/blob", "internal/logbook", "internal/event", "internal/workspace", "internal/agent/wire"}
}

// suites are the conformance suites of contracts: test code that other packages can import.
func suites() []string {
	return []string{"internal/runtime/runtimetest", "internal/store/storetest", "internal/blob/blobtest", "internal/logbook/logbooktest", "internal/image/imagetest"}
}

// implements returns the contract that a package implements, or "".
func implements(dir string) string {
	if slices.Contains(suites(), dir) {
		return ""
	}
	for _, contract := range contracts() {
		if contract != "internal/agent/wire" && strings.HasPrefix(dir, contract+"/") {
			return contract
		}
	}
	return ""
}

// floor is the height of a part of the service. A part that is not listed is below all others, and imports none.
func floor(dir string) int {
	for i, parts := range [][]string{
		{"fault", "clock", "lifecycle", "queue", "recovery"}, {"placement", "idempotency", "retry"}, {"box", "admission", "approval", "secret"}, {"git"}, {"image", "file", "stdin", "terminal", "port", "kernel", "outcome", "install", "snapshot", "volume"}, {"template"}, {"session"}, {"run"},
	} {
		if slices.Contains(parts, strings.TrimPrefix(dir, "internal/service/")) {
			return i + 1
		}
	}
	if dir == "internal/service" {
		return 100
	}
	return 0
}

func rules() []rule {
	isContract := func(dir string) bool { return slices.Contains(contracts(), dir) }
	return []rule{
		{
			name:    "1: the root package imports the standard library only, and does no I/O",
			reason:  "clients and every door build on the nouns; they must not drag anything along",
			applies: func(dir string) bool { return dir == "." },
			allowed: func(string, string) bool { return false },
			foreign: func(imported string) bool {
				return standard(imported) && !slices.Contains([]string{"os", "os/exec", "net", "net/http", "syscall", "log", "log/slog"}, imported)
			},
		},
		{
			name:    "2: contracts import the root only",
			reason:  "a contract that knows an implementation is none",
			applies: isContract,
			allowed: func(_, imported string) bool { return imported == "." },
		},
		{
			name:    "3: implementations import their contract, root, agent/wire, keylock and linux/*",
			reason:  "an implementation must be replaceable without its siblings or the service noticing",
			applies: func(dir string) bool { return implements(dir) != "" },
			allowed: func(dir, imported string) bool {
				contract := implements(dir)
				switch {
				case imported == ".", imported == contract, imported == "internal/agent/wire", imported == "internal/keylock", under(imported, "internal/linux"):
					return true
				case imported == "internal/runtime/rack":
					return dir == "internal/runtime/native" || dir == "internal/runtime/gvisor" // code that they share
				case strings.HasPrefix(dir, imported+"/"), strings.HasPrefix(imported, dir+"/"):
					return imported != contract // parts of one implementation
				case imported == "internal/upstream":
					return dir == "internal/workspace/remote" || dir == "internal/runtime/sprites" // they depend on other machines
				case dir == "internal/workspace/remote":
					return imported == "client" // the other side of the network
				case dir == "internal/runtime/fake" || dir == "internal/runtime/folder":
					return imported == "internal/agent/guest"
				}
				return false
			},
		},
		{
			name:    "3b: conformance suites import their contract, root, agent and what reports a missing program",
			reason:  "a suite that knows an implementation tests that one only",
			applies: func(dir string) bool { return slices.Contains(suites(), dir) },
			allowed: func(dir, imported string) bool {
				return imported == "." || strings.HasPrefix(dir, imported+"/") || imported == "internal/agent" || imported == "internal/agent/wire" || imported == "test/need"
			},
		},
		{
			name:    "4: the service imports root, contracts, agent, egress, secret and image",
			reason:  "the rules must hold for every runtime and store, so they cannot know one",
			applies: func(dir string) bool { return under(dir, "internal/service") },
			allowed: func(_, imported string) bool {
				return imported == "." || isContract(imported) || imported == "internal/agent" || under(imported, "internal/image") ||
					imported == "internal/archive" || imported == "internal/char" || imported == "internal/egress" || imported == "internal/keylock" ||
					imported == "internal/room" || imported == "internal/shelf" || imported == "internal/trace" || imported == "internal/user" || under(imported, "internal/secret") || under(imported, "internal/service")
			},
		},
		{
			name:   "4b: the parts of the service import lower parts only",
			reason: "siblings meet in the thin service above them; a part that knows its sibling's insides cannot change alone",
			applies: func(dir string) bool {
				return strings.HasPrefix(dir, "internal/service/")
			},
			allowed: func(dir, imported string) bool {
				return !under(imported, "internal/service") || floor(imported) < floor(dir)
			},
		},
		{
			name:    "5: a door imports root and what it needs to decode and encode",
			reason:  "a door with logic of its own is a bug, and so is one that knows another",
			applies: func(dir string) bool { return under(dir, "internal/api") },
			allowed: func(dir, imported string) bool {
				return imported == "." || imported == "internal/api" || imported == "internal/api/socket" || imported == "internal/char" ||
					imported == "internal/event" || imported == "internal/keylock" || imported == "internal/nearest" || under(imported, dir) ||
					imported == "internal/trace" || imported == "internal/user" || imported == "internal/workspace" && dir == "internal/api/workspace" || imported == "internal/sync" && dir == "internal/api/lsp" // which is a client's side, too
			},
		},
		{
			name:   "6: the guest imports root, agent/wire, linux/forkexec, the standard library, x/sys, dnsmessage and a PTY package",
			reason: "the agent runs inside every sandbox: it stays under 5 MB and starts in a millisecond",
			applies: func(dir string) bool {
				return under(dir, "internal/agent/guest") || under(dir, "internal/agent/keep") || dir == "cmd/belljar-agent"
			},
			allowed: func(dir, imported string) bool {
				return imported == "." || imported == "internal/agent/wire" || imported == "internal/linux/forkexec" ||
					strings.HasPrefix(imported, "internal/agent/guest/") && under(dir, "internal/agent/guest") ||
					dir == "cmd/belljar-agent" && (under(imported, "internal/agent/guest") || imported == "internal/agent/keep" || under(imported, "internal/linux"))
			},
			foreign: func(imported string) bool {
				return standard(imported) || strings.HasPrefix(imported, "golang.org/x/sys/") || imported == "golang.org/x/net/dns/dnsmessage" ||
					imported == "github.com/creack/pty"
			},
		},
		{
			name:   "10: the client, the configuration and archives import root, and what suggests or reserves names",
			reason: "any package that has the nouns can use them",
			applies: func(dir string) bool {
				return under(dir, "client") || dir == "internal/config" || dir == "internal/archive"
			},
			allowed: func(_, imported string) bool {
				return imported == "." || imported == "internal/nearest" || imported == "internal/user"
			},
		},
		{
			name:    "9: kernel primitives import each other only",
			reason:  "they are the bottom: one kernel feature a package, with no idea of sandboxes",
			applies: func(dir string) bool { return under(dir, "internal/linux") },
			allowed: func(_, imported string) bool { return under(imported, "internal/linux") },
		},
		{
			name:    "8: the host side of the agent imports root and agent/wire",
			reason:  "it speaks to any runtime through a byte stream",
			applies: func(dir string) bool { return dir == "internal/agent" },
			allowed: func(_, imported string) bool { return imported == "." || imported == "internal/agent/wire" },
		},
		{
			name:    "7: only internal/daemon sees everything, and only cmd/belljar sees it",
			reason:  "what implements an interface is decided in one place, in plain sight",
			applies: func(dir string) bool { return !under(dir, "cmd") && !under(dir, "test") },
			allowed: func(dir, imported string) bool {
				return !under(imported, "cmd") && imported != "internal/daemon" && (!under(imported, "internal/cli") || under(dir, "internal/cli"))
			},
		},
		{
			name:    "11: commands import root, the client, the contract with this machine and notices",
			reason:  "a command works in this process and against a server with the same code, so it knows neither",
			applies: func(dir string) bool { return under(dir, "internal/cli") },
			allowed: func(_, imported string) bool {
				return imported == "." || under(imported, "client") || imported == "internal/local" || imported == "internal/notice" ||
					under(imported, "internal/cli")
			},
		},
		{
			name:    "12: the contract with this machine imports root and the runtimes' contract, notices import nothing",
			reason:  "commands would see through it whatever it imports",
			applies: func(dir string) bool { return dir == "internal/local" || dir == "internal/notice" },
			allowed: func(dir, imported string) bool {
				return dir == "internal/local" && (imported == "." || imported == "internal/runtime")
			},
		},
		{
			name:    "15: trace imports the standard library only",
			reason:  "the server, the command line and editors read traces with it",
			applies: func(dir string) bool { return dir == "internal/trace" },
			allowed: func(string, string) bool { return false },
			foreign: standard,
		},
		{
			name:    "14: only internal/daemon imports the files of the web page",
			reason:  "the page is a client like any other; a server without it must stay possible",
			applies: func(dir string) bool { return dir != "internal/daemon" },
			allowed: func(_, imported string) bool { return imported != "web" },
		},
		{
			name:    "13: egress imports root, agent/wire, secret/redact, the standard library and public suffixes",
			reason:  "what decides about hostile input is small, and knows sandboxes by an interface",
			applies: func(dir string) bool { return under(dir, "internal/egress") },
			allowed: func(_, imported string) bool {
				return imported == "." || imported == "internal/agent/wire" || imported == "internal/secret/redact"
			},
			foreign: func(imported string) bool {
				return standard(imported) || imported == "golang.org/x/net/publicsuffix"
			},
		},
	}
}

// check returns the violations of a package, one line each.
func (r rule) check(p *pkg) []string {
	if !r.applies(p.dir) {
		return nil
	}
	var broken []string
	for _, f := range p.production() {
		for _, imported := range f.imports {
			if !r.allowed(p.dir, imported) {
				broken = append(broken, f.name+" imports "+imported)
			}
		}
		for _, imported := range f.foreign {
			if r.foreign != nil && !r.foreign(imported) {
				broken = append(broken, f.name+" imports "+imported)
			}
		}
	}
	return broken
}

func TestImports(t *testing.T) {
	packages := tree(t)
	for _, r := range rules() {
		t.Run(r.name, func(t *testing.T) {
			for _, p := range packages {
				for _, line := range r.check(p) {
					t.Errorf("%s\nrule %s\nbecause %s", line, r.name, r.reason)
				}
			}
		})
	}
}

// TestRulesCatch proves that each rule can fail: it forbids an import in a package that it applies to.
func TestRulesCatch(t *testing.T) {
	bad := map[string][2]string{ // rule number: folder, import
		"1":  {".", "net/http"},
		"2":  {"internal/runtime", "internal/agent"},
		"3":  {"internal/runtime/native", "internal/runtime/fake"},
		"3b": {"internal/runtime/runtimetest", "internal/runtime/native"},
		"4":  {"internal/service", "internal/runtime/native"},
		"4b": {"internal/service/file", "internal/service/image"},
		"5":  {"internal/api/rest", "internal/api/ws"},
		"6":  {"internal/agent/guest", "golang.org/x/net/http2"},
		"7":  {"internal/service", "internal/daemon"},
		"8":  {"internal/agent", "internal/service"},
		"9":  {"internal/linux/cgroup", "internal/runtime"},
		"10": {"client", "internal/api"},
		"11": {"internal/cli", "internal/service"},
		"12": {"internal/local", "internal/service"},
		"13": {"internal/egress", "internal/service"},
		"14": {"internal/api/web", "web"},
		"15": {"internal/trace", "internal/service"},
	}
	for _, r := range rules() {
		number, _, _ := strings.Cut(r.name, ":")
		example, ok := bad[number]
		if !ok {
			t.Errorf("rule %s has no example of what it forbids", number)
			continue
		}
		f := &file{name: example[0] + "/x.go"}
		if under(example[1], "internal") || under(example[1], "cmd") || example[1] == "web" {
			f.imports = []string{example[1]}
		} else {
			f.foreign = []string{example[1]}
		}
		if got := r.check(&pkg{dir: example[0], files: []*file{f}}); len(got) == 0 {
			t.Errorf("rule %s lets %s import %s", r.name, example[0], example[1])
		}
	}
}
