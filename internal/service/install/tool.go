package install

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/char"
)

// tool is a program in an image that installs packages. A layer has the name of its tool.
type tool struct {
	name     string
	field    string   // field for errors; "" is the field of its packages
	programs []string // of the image; the first that exists runs the packages
	wanted   func(belljar.Packages) []string
	project  func(requirement string) string                   // the project's name in a requirement
	page     func(project string) string                       // path relative to the index
	slash    bool                                              // a page's path ends in a slash
	accept   string                                            // the preferred media types of a page
	links    func(p page, visit func(link string) error) error // until visit returns an error

	ask     []string // prints the URLs of the image's indexes, the main one last
	command func(o order) []string
	cwd     string   // the command's working directory, in the workspace
	folders []string // folders that the command needs in cwd
	env     []string
	locks   []string // files in the workspace that list the installed packages; the first that exists counts
	locked  func(text []byte) ([]belljar.Package, error)
	left    []string // prints the packages that command left out without an error, although they fit the machine; nil if it never does
	// fault explains a known failure from the tool's output.
	fault func(text string, o order) *belljar.Error
}

// about returns the request's field for errors.
func (t *tool) about() string { return cmp.Or(t.field, "packages."+t.name) }

// order is one installation.
type order struct {
	wanted []string
	build  bool
	mirror *url.URL // nil for the image's own index
	found  []found  // the index's response about them
}

// layerFolder is the folder in the workspace where a layer is made.
const layerFolder = "layer"

// tools returns all tools.
func tools() []*tool {
	return []*tool{
		{
			name: "pip", programs: []string{"python3"}, wanted: func(p belljar.Packages) []string { return p.Pip },
			project: pipProject, page: func(name string) string { return name }, slash: true,
			accept: "application/vnd.pypi.simple.v1+json, text/html;q=0.5", links: pipLinks,
			ask: []string{"python3", "-c", pipAsk}, command: pipCommand, env: []string{"PIP_NO_INPUT=1", "PIP_DISABLE_PIP_VERSION_CHECK=1"},
			locks: []string{"report.json"}, locked: pipLocked, fault: pipFault,
		},
		{
			name: "npm", programs: []string{"node", "npm"}, wanted: func(p belljar.Packages) []string { return p.Npm },
			project: npmProject, page: func(name string) string { return strings.Replace(name, "/", "%2f", 1) },
			accept: "application/vnd.npm.install-v1+json, application/json;q=0.5", links: npmLinks,
			ask: []string{"npm", "config", "get", "registry"}, command: npmCommand, cwd: layerFolder, folders: []string{layerFolder + "/node_modules"}, env: []string{"npm_config_cache=/workspace/tmp", "npm_config_update_notifier=false"},
			// package-lock.json also lists what npm did not install. npm before 7 writes no other.
			locks:  []string{path.Join(layerFolder, "node_modules/.package-lock.json"), path.Join(layerFolder, "package-lock.json")},
			locked: npmLocked, left: []string{"node", "-e", npmLeft}, fault: npmFault,
		},
	}
}

// pipAsk makes pip read all its settings, and prints the indexes that it would use, the main one last.
const pipAsk = `import sys
try:
    from pip._internal.commands import create_command
except ImportError:
    sys.exit(42)
options = create_command("install").parse_args(["x"])[0]
print(*options.extra_index_urls, options.index_url)
`

// noTool is the exit status of ask for an image that has the language, but not its installer.
const noTool = 42

// pipProject returns the name in a requirement, normalised as in indexes.
func pipProject(requirement string) string {
	end := strings.IndexAny(requirement, " [=<>!~")
	if end < 0 {
		end = len(requirement)
	}
	name := strings.ToLower(requirement[:end])
	parts := strings.FieldsFunc(name, func(r rune) bool { return r == '-' || r == '_' || r == '.' })
	return strings.Join(parts, "-")
}

func pipCommand(o order) []string {
	// Ignore the packages that the image has installed: checking for conflicts with them takes half of pip's time.
	argv := []string{
		"python3", "-m", "pip", "install", "--target", layerFolder, "--report", "report.json", "--no-cache-dir", "--progress-bar", "off", "--no-warn-conflicts",
	}
	if !o.build {
		argv = append(argv, "--only-binary", ":all:")
	}
	if o.mirror != nil {
		argv = append(argv, "--index-url", o.mirror.String())
		if o.mirror.Scheme == "http" {
			argv = append(argv, "--trusted-host", o.mirror.Host)
		}
	}
	return append(append(argv, "--"), o.wanted...)
}

func pipLocked(text []byte) (list []belljar.Package, err error) {
	var report struct {
		Install []struct {
			Metadata     struct{ Name, Version string }
			DownloadInfo struct {
				ArchiveInfo struct {
					Hash   string            `json:"hash"`
					Hashes map[string]string `json:"hashes"`
				} `json:"archive_info"`
			} `json:"download_info"`
		}
	}
	if err := json.Unmarshal(text, &report); err != nil {
		return nil, err
	}
	for _, p := range report.Install {
		info := p.DownloadInfo.ArchiveInfo
		hash := strings.Replace(info.Hash, "=", ":", 1)
		if sum := info.Hashes["sha256"]; sum != "" {
			hash = "sha256:" + sum
		}
		list = append(list, belljar.Package{Name: p.Metadata.Name, Version: p.Metadata.Version, Hash: hash})
	}
	return sorted(list), nil
}

func sorted(list []belljar.Package) []belljar.Package {
	slices.SortFunc(list, func(a, b belljar.Package) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Version, b.Version))
	})
	return list
}

func pipFault(text string, o order) *belljar.Error {
	e := &belljar.Error{Code: belljar.CodeInvalidRequest, Details: map[string]any{"field": "packages.pip"}}
	switch {
	case strings.Contains(text, "no such option: --report"):
		e.Code, e.Message = belljar.CodeImageInvalid, "pip: that of the image is older than 22.2"
		e.Hint = "take an image with a newer pip"
	case strings.Contains(text, "No matching distribution found"), strings.Contains(text, "ResolutionImpossible"):
		e.Message = "pip: " + lastError(text, "ERROR: ")
		e.Hint = "check the versions"
		if !o.build {
			for i, f := range o.found {
				if !f.built {
					e.Details["field"] = fmt.Sprintf("packages.pip[%d]", i)
					e.Message = fmt.Sprintf("pip: %s has no wheel, and would have to be built", o.wanted[i])
					e.Hint = "set build (--package-build), and its build scripts run in the sandbox of the installation"
					return e
				}
			}
			e.Hint = "check the versions; set build (--package-build) if a package has no wheel for this image"
		}
	default:
		return nil
	}
	return e
}

// lastError returns the last line with the prefix mark, without it.
func lastError(text, mark string) string {
	for _, line := range slices.Backward(strings.Split(text, "\n")) {
		if _, after, ok := strings.Cut(line, mark); ok && strings.TrimSpace(after) != "" {
			return clip(strings.TrimSpace(after))
		}
	}
	return "it failed"
}

// clip shortens what a tool printed, for a message.
func clip(s string) string { return char.Short(s, 300) }

// npmProject returns the name in a requirement.
func npmProject(requirement string) string {
	if i := strings.LastIndexByte(requirement, '@'); i > 0 {
		return requirement[:i]
	}
	return requirement
}

// npmCommand installs into the folder that contains node_modules. With --prefix, npm would also read the image's global settings from there.
func npmCommand(o order) []string {
	argv := []string{"npm", "install", "--no-audit", "--no-fund", "--omit=dev", "--package-lock", "--loglevel=http", "--fetch-retries=1", "--fetch-retry-mintimeout=1000"}
	if !o.build {
		argv = append(argv, "--ignore-scripts")
	}
	if o.mirror != nil {
		argv = append(argv, "--registry", o.mirror.String())
	}
	return append(append(argv, "--"), o.wanted...)
}

// npmLeft prints the optional dependencies of installed packages that are missing, unless they are for another platform. npm leaves out those
// that it cannot fetch. Before npm 11, the name alone shows the C library: of a package without one, a sibling for musl shows that it is for glibc.
// It fails for npm before 7.
const npmLeft = `const read = file => JSON.parse(require("fs").readFileSync(file)).packages
const all = read("package-lock.json"), installed = read("node_modules/.package-lock.json")
process.report.excludeNetwork = true
const libc = process.report.getReport().header.glibcVersionRuntime ? "glibc" : "musl"
const fits = (value, list) => (list = [].concat(list || []), !list.length || list.includes("any") || list.includes(value) ||
  list.every(x => x[0] === "!" && x !== "!" + value))
const node = process.versions.node.split(".").map(Number)
const atLeast = list => !(list = /^>=\s*v?(\d+)(?:\.(\d+))?(?:\.(\d+))?$/.exec(list || "")) ||
  [1, 2, 3].reduce((order, i) => order || node[i - 1] - (list[i] || 0), 0) >= 0
const clib = (name, siblings) => /musl/.test(name) ? "musl" : /-gnu|glibc/.test(name) || siblings.some(s => s.replace(/-?musl/, "") === name && s !== name) ? "glibc" : []
const find = (dir, name, place = (dir + "/node_modules/" + name).slice(1)) =>
  place in all || !dir ? place : find(dir.slice(0, dir.lastIndexOf("/node_modules/")), name)
for (const at in installed) for (const name in installed[at].optionalDependencies) {
  const place = find("/" + at, name), p = all[place] || {}, siblings = Object.keys(installed[at].optionalDependencies)
  if (!(place in installed) && fits(process.platform, p.os) && fits(process.arch, p.cpu) && atLeast((p.engines || {}).node) &&
    fits(libc, p.libc || clib(name, siblings))) console.log(name)
}
`

func npmLocked(text []byte) (list []belljar.Package, err error) {
	var lock struct {
		Packages     map[string]struct{ Name, Version, Integrity string } `json:"packages"`
		Dependencies npmTree                                              `json:"dependencies"` // without packages: npm before 7
	}
	if err := json.Unmarshal(text, &lock); err != nil {
		return nil, err
	}
	if len(lock.Packages) == 0 {
		return sorted(lock.Dependencies.list()), nil
	}
	const folder = "node_modules/"
	for place, p := range lock.Packages {
		if place == "" {
			continue
		}
		name := p.Name
		if name == "" {
			name = place
			if i := strings.LastIndex(place, folder); i >= 0 { // an image's own npm may write any path
				name = place[i+len(folder):]
			}
		}
		list = append(list, belljar.Package{Name: name, Version: p.Version, Hash: p.Integrity})
	}
	return sorted(list), nil
}

// npmTree is the packages in a lock file of npm before 7, by name; each has those in its own node_modules.
type npmTree map[string]struct {
	Version, Integrity string
	Dependencies       npmTree
}

func (t npmTree) list() (list []belljar.Package) {
	for name, p := range t {
		list = append(append(list, belljar.Package{Name: name, Version: p.Version, Hash: p.Integrity}), p.Dependencies.list()...)
	}
	return list
}

func npmFault(text string, _ order) *belljar.Error {
	e := &belljar.Error{Code: belljar.CodeInvalidRequest, Details: map[string]any{"field": "packages.npm"}}
	text = strings.ReplaceAll(text, "npm ERR! ", "npm error ") // the format of older versions
	var lines []string
	for line := range strings.SplitSeq(text, "\n") {
		if _, message, ok := strings.Cut(line, "npm error "); ok && !strings.HasPrefix(message, "code ") && !strings.HasPrefix(message, "errno ") && !strings.HasPrefix(message, "A complete log") {
			lines = append(lines, strings.TrimSpace(message))
		}
	}
	message := clip(strings.Join(lines, " "))
	switch {
	case strings.Contains(text, "failed, reason"):
		e.Code, e.Message = belljar.CodeRuntimeUnavailable, "npm: the index cannot be used: "+message
		e.Hint = "check its address, and that the image knows the authority of its certificate"
	case strings.Contains(text, "E404"):
		e.Message, e.Hint = "npm: the index does not have a package that is needed", "check the names"
	case strings.Contains(text, "ETARGET"):
		e.Message, e.Hint = "npm: no version matches", "check the versions"
	case strings.Contains(text, "ERESOLVE"):
		e.Message, e.Hint = "npm: the packages need versions that exclude each other", "check the versions"
	case strings.Contains(text, "EBADPLATFORM"), strings.Contains(text, "EBADENGINE"):
		e.Message, e.Hint = "npm: a package is not for this image: "+message, "take another version, or another image"
	case strings.Contains(text, "ENOSPC"), message == "":
		return nil
	default:
		e.Message, e.Hint = "npm: "+message, logHint
	}
	return e
}

// logHint refers to the rest of the output.
const logHint = "the log of the run has all that it printed"

// parseAsked parses the URLs in a tool's output, the main index last. It ignores others that are not of the web, such as folders.
func parseAsked(printed []byte) (list []*url.URL, err error) {
	err = errors.New("it prints no index")
	for field := range strings.FieldsSeq(string(printed)) {
		var u *url.URL
		if u, err = parseIndex(field); err == nil {
			list = append(list, u)
		}
	}
	return list, err
}
