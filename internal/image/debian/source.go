package debian

import (
	"bufio"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// defaultSuite is used if this machine does not run Debian.
const defaultSuite = "bookworm"

// ownSuite returns the suite of the machine whose root folder is root; [defaultSuite] if it does not run Debian.
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
	uri, suite string
	signed     string // file of the keyring; "" for apt's own
	key        string // the key itself, armored, if it is not in a file
	components []string
}

func (s source) String() string {
	signed := ""
	if s.signed != "" {
		signed = "[signed-by=" + s.signed + "] "
	}
	return "deb " + signed + s.uri + " " + s.suite + " " + strings.Join(s.components, " ")
}

// ownSources returns the machine's sources of a suite, its updates and its security updates; none if it lacks the suite
// itself. Images do not use third-party sources or other suites.
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
	if !slices.ContainsFunc(all, func(s source) bool { return s.suite == suite }) {
		return nil
	}
	return all
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
	stanza := map[string][]string{} // the lines of each field
	last := ""
	flush := func() {
		list = append(list, sourcesOf(stanza)...)
		clear(stanza)
		last = ""
	}
	for lines := bufio.NewScanner(r); lines.Scan(); {
		text := lines.Text()
		switch {
		case strings.HasPrefix(text, "#"):
		case strings.TrimSpace(text) == "":
			flush()
		case text[0] == ' ' || text[0] == '\t':
			stanza[last] = append(stanza[last], strings.TrimSpace(text))
		default:
			name, value, _ := strings.Cut(text, ":")
			last = strings.ToLower(strings.TrimSpace(name))
			stanza[last] = []string{strings.TrimSpace(value)}
		}
	}
	flush()
	return list
}

// sourcesOf returns the sources of a stanza: each of its suites at each of its addresses.
func sourcesOf(stanza map[string][]string) (list []source) {
	words := func(field string) []string { return strings.Fields(strings.Join(stanza[field], " ")) }
	if !slices.Contains(words("types"), "deb") || slices.Contains(words("enabled"), "no") {
		return nil
	}
	s := source{components: words("components")}
	if by := words("signed-by"); len(by) == 1 && strings.HasPrefix(by[0], "/") {
		s.signed = by[0]
	} else {
		s.key = armored(stanza["signed-by"])
	}
	for _, s.uri = range words("uris") {
		for _, s.suite = range words("suites") {
			list = append(list, s)
		}
	}
	return list
}

// armored returns a key that a field contains, where a dot is an empty line; "" if there is none.
func armored(field []string) string {
	if !slices.Contains(field, "-----BEGIN PGP PUBLIC KEY BLOCK-----") {
		return ""
	}
	var b strings.Builder
	for _, line := range field {
		if line == "." {
			line = ""
		}
		b.WriteString(line + "\n")
	}
	return strings.TrimLeft(b.String(), "\n")
}

// keyrings writes the keys that sources contain into files of a folder, for the tools.
func keyrings(dir string, sources []source) error {
	for i := range sources {
		s := &sources[i]
		if s.key == "" {
			continue
		}
		s.signed = filepath.Join(dir, "key-"+strconv.Itoa(i)+".asc")
		if err := os.WriteFile(s.signed, []byte(s.key), 0o644); err != nil {
			return err
		}
	}
	return nil
}
