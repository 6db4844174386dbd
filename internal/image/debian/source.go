package debian

import (
	"bufio"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// defaultSuite is made where the machine is no Debian.
const defaultSuite = "bookworm"

// ownSuite is the machine's, as root has it in /etc.
func ownSuite(root string) string {
	f, err := os.Open(filepath.Join(root, "etc/os-release"))
	if err != nil {
		return defaultSuite
	}
	defer f.Close()
	values := map[string]string{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), "=")
		values[name] = strings.Trim(value, `"'`)
	}
	if values["ID"] != "debian" || values["VERSION_CODENAME"] == "" {
		return defaultSuite
	}
	return values["VERSION_CODENAME"]
}

// source is one line of sources.list.
type source struct {
	uri, suite, signed string
	components         []string
}

func (s source) String() string {
	signed := ""
	if s.signed != "" {
		signed = "[signed-by=" + s.signed + "] "
	}
	return "deb " + signed + s.uri + " " + s.suite + " " + strings.Join(s.components, " ")
}

// ownSources are the machine's sources of a suite, its updates and its security updates; Debian's own servers if it has
// none. Sources of others, and of other suites, are not for images.
func ownSources(root, suite string) []source {
	var all []source
	files, _ := filepath.Glob(filepath.Join(root, "etc/apt/sources.list.d/*"))
	for _, name := range append([]string{filepath.Join(root, "etc/apt/sources.list")}, files...) {
		f, err := os.Open(name)
		if err != nil {
			continue
		}
		switch filepath.Ext(name) {
		case ".list":
			all = append(all, parseList(f)...)
		case ".sources":
			all = append(all, parseSources(f)...)
		}
		f.Close()
	}
	wanted := []string{suite, suite + "-updates", suite + "-security", suite + "/updates"}
	all = slices.DeleteFunc(all, func(s source) bool {
		return !slices.Contains(wanted, s.suite) || !slices.Contains(s.components, "main")
	})
	if slices.ContainsFunc(all, func(s source) bool { return s.suite == suite }) {
		return all
	}
	main := []string{"main"}
	list := []source{{uri: "http://deb.debian.org/debian", suite: suite, components: main}}
	if suite == "sid" || suite == "unstable" || suite == "testing" {
		return list
	}
	return append(list,
		source{uri: "http://deb.debian.org/debian", suite: suite + "-updates", components: main},
		source{uri: "http://deb.debian.org/debian-security", suite: suite + "-security", components: main})
}

// parseList reads the classic format, one source a line.
func parseList(r io.Reader) (list []source) {
	for lines := bufio.NewScanner(r); lines.Scan(); {
		text, _, _ := strings.Cut(lines.Text(), "#")
		rest, ok := strings.CutPrefix(strings.TrimSpace(text), "deb ")
		if !ok {
			continue
		}
		s := source{}
		rest = strings.TrimSpace(rest)
		if options, after, ok := strings.Cut(rest, "]"); ok && strings.HasPrefix(options, "[") {
			for _, option := range strings.Fields(options[1:]) {
				if name, value, _ := strings.Cut(option, "="); name == "signed-by" {
					s.signed = value
				}
			}
			rest = after
		}
		if fields := strings.Fields(rest); len(fields) > 2 {
			s.uri, s.suite, s.components = fields[0], fields[1], fields[2:]
			list = append(list, s)
		}
	}
	return list
}

// parseSources reads the format of stanzas, deb822(5).
func parseSources(r io.Reader) (list []source) {
	fields := map[string][]string{}
	last := ""
	flush := func() {
		if slices.Contains(fields["types"], "deb") && !slices.Contains(fields["enabled"], "no") {
			signed := ""
			if f := fields["signed-by"]; len(f) == 1 && strings.HasPrefix(f[0], "/") {
				signed = f[0] // and not a key that stands there itself
			}
			for _, uri := range fields["uris"] {
				for _, suite := range fields["suites"] {
					list = append(list, source{uri: uri, suite: suite, signed: signed, components: fields["components"]})
				}
			}
		}
		clear(fields)
		last = ""
	}
	for lines := bufio.NewScanner(r); lines.Scan(); {
		text := lines.Text()
		switch {
		case strings.HasPrefix(text, "#"):
		case strings.TrimSpace(text) == "":
			flush()
		case text[0] == ' ' || text[0] == '\t':
			fields[last] = append(fields[last], strings.Fields(text)...)
		default:
			name, value, _ := strings.Cut(text, ":")
			last = strings.ToLower(strings.TrimSpace(name))
			fields[last] = strings.Fields(value)
		}
	}
	flush()
	return list
}
