package install

import (
	"cmp"
	"encoding/json"
	"encoding/xml"
	"io"
	"net/url"
	"path"
	"regexp"
	"strings"
	"sync"

	"github.com/belljar/belljar"
)

// preset describes the package source of a tool in an image, for programs that use the tool themselves.
type preset struct {
	name     string
	programs []string // of the image; the first that exists is queried
	// ask prints the tool's configuration, and read finds the URLs of indexes in it. Without ask, only the operator can set the index.
	ask  []string
	read func(printed string) []string
	// always queries the tool even if the operator sets its index: set needs the output.
	always bool
	// index queries the index for the hosts of its files, by a project that most indexes have, or else the first of its list; nil for an
	// index that stores the files itself.
	index *tool
	probe string
	first func(list page) string // nil for an index without a list
	// set returns the environment and files that point the tool to an index, and its folders into the workspace. u is nil to keep the image's own setting.
	set func(u *url.URL, printed string) (env, files map[string]string)
}

// Folders and files of tools in the workspace. toolHome replaces the home folder, where a project has its own settings of cargo and Maven.
const (
	toolHome      = ".belljar"
	cargoHome     = toolHome + "/.cargo"
	mavenHome     = toolHome + "/.m2"
	mavenSettings = mavenHome + "/settings.xml"
	aptHome       = ".apt"
)

// noExtra is a list without an index, which replaces the image's. pip ignores a variable without a character.
const noExtra = " "

func inside(name string) string { return path.Join(belljar.WorkspaceDir, name) }

// presets returns all presets, in the order of [belljar.EgressPresets].
func presets() []*preset {
	kinds := map[string]*tool{}
	for _, t := range tools() {
		kinds[t.name] = t
	}
	return []*preset{
		{
			name: "pip", programs: kinds["pip"].programs, ask: kinds["pip"].ask, read: strings.Fields, index: kinds["pip"], probe: "pip", first: pipFirst,
			set: func(u *url.URL, _ string) (env, _ map[string]string) {
				env = map[string]string{"PIP_BREAK_SYSTEM_PACKAGES": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1", "PIP_RETRIES": "1"} // it is the sandbox's own system
				if u != nil {
					env["PIP_EXTRA_INDEX_URL"] = noExtra
					if env["PIP_INDEX_URL"] = u.String(); u.Scheme == "http" {
						env["PIP_TRUSTED_HOST"] = u.Host
					}
				}
				return env, nil
			},
		},
		{
			name: "npm", programs: kinds["npm"].programs, ask: kinds["npm"].ask, read: strings.Fields, index: kinds["npm"], probe: "npm",
			set: func(u *url.URL, _ string) (env, _ map[string]string) {
				env = map[string]string{"npm_config_update_notifier": "false", "npm_config_audit": "false", "npm_config_fund": "false", "npm_config_fetch_retries": "1", "npm_config_fetch_retry_mintimeout": "1000"}
				if u != nil {
					env["npm_config_registry"] = u.String()
				}
				return env, nil
			},
		},
		{
			name: "cargo", programs: []string{"cargo"}, ask: shell(`cat "${CARGO_HOME:-$HOME/.cargo}/config.toml" "${CARGO_HOME:-$HOME/.cargo}/config"`), read: cargoRead,
			index: &tool{name: "cargo", page: func(string) string { return "config.json" }, links: cargoLinks}, set: cargoSet,
		},
		{name: "go", programs: []string{"go"}, ask: []string{"go", "env", "GOPROXY", "GOSUMDB"}, read: goRead, set: goSet},
		{
			name: "maven", programs: []string{"mvn"},
			ask: shell(`cat "$HOME/.m2/settings.xml" "${MAVEN_HOME:-/usr/share/maven}/conf/settings.xml" /etc/maven/settings.xml`), read: mavenRead, set: mavenSet,
		},
		{name: "apt", programs: []string{"apt-get"}, ask: []string{"sh", "-c", aptAsk}, read: aptRead, always: true, set: aptSet},
		{name: "github"},
	}
}

// shell is a command that ignores missing files.
func shell(script string) []string { return []string{"sh", "-c", script + " 2>/dev/null; true"} }

// Environment returns the environment that points tools to the indexes of presets.
func Environment(list []belljar.NetworkPreset) map[string]string {
	var all map[string]string
	for _, n := range list {
		env, _ := settings(n, "")
		for name, value := range env {
			if all == nil {
				all = map[string]string{}
			}
			all[name] = value
		}
	}
	return all
}

// settings returns the environment and files that configure a tool for its preset.
func settings(n belljar.NetworkPreset, printed string) (env, files map[string]string) {
	p := presetOf(n.Name)
	if p == nil || p.set == nil {
		return nil, nil
	}
	var u *url.URL
	if len(n.Indexes) > 0 && (n.Source == fromMirror || n.Name == "cargo") { // the image's setting is not read, because the home differs
		u, _ = url.Parse(n.Indexes[0])
	}
	return p.set(u, printed)
}

func presetOf(name string) *preset {
	for _, p := range presets() {
		if p.name == name {
			return p
		}
	}
	return nil
}

var cargoSource = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?m)^\s*registry\s*=\s*["']sparse\+(https?://[^"']+)["']`)
})

// cargoRead finds the sparse indexes in cargo's configuration. Without one, cargo uses its built-in URL, which it does not print.
func cargoRead(printed string) (list []string) {
	for _, m := range cargoSource().FindAllStringSubmatch(printed, -1) {
		list = append(list, m[1])
	}
	return list
}

// cargoLinks visits the URL of an index's files, up to the first placeholder in braces, which is always in the path.
func cargoLinks(p page, visit func(link string) error) error {
	var config struct {
		DL string `json:"dl"`
	}
	err := json.NewDecoder(io.LimitReader(p.body, maxMember)).Decode(&config)
	link, _, _ := strings.Cut(config.DL, "{")
	return cmp.Or(err, visit(link))
}

func cargoSet(u *url.URL, _ string) (env, files map[string]string) {
	env = map[string]string{"CARGO_HOME": inside(cargoHome), "CARGO_NET_RETRY": "1"}
	if u == nil {
		return env, nil
	}
	return env, map[string]string{
		cargoHome + "/config.toml": "[source.crates-io]\nreplace-with = \"mirror\"\n\n[source.mirror]\nregistry = \"sparse+" + u.String() + "\"\n",
	}
}

// goRead finds the proxies in GOPROXY, and the server in GOSUMDB, each on its own line.
func goRead(printed string) (list []string) {
	proxies, sums, _ := strings.Cut(strings.TrimSpace(printed), "\n")
	for _, text := range strings.FieldsFunc(proxies, func(r rune) bool { return r == ',' || r == '|' }) {
		if strings.Contains(text, "://") {
			list = append(list, text)
		}
	}
	if fields := strings.Fields(sums); len(list) > 0 && len(fields) > 0 && fields[0] != "off" {
		name, _, _ := strings.Cut(fields[len(fields)-1], "+") // name, name+key, or a key and a URL
		if !strings.Contains(name, "://") {
			name = "https://" + name
		}
		list = append(list, name)
	}
	return list
}

func goSet(u *url.URL, _ string) (env, files map[string]string) {
	env = map[string]string{"GOPATH": inside("go")}
	if u != nil {
		env["GOPROXY"], env["GOSUMDB"] = strings.TrimSuffix(u.String(), "/"), "off" // go.sum still applies
	}
	return env, nil
}

// mavenRead finds the mirrors in Maven's settings that are not blocked.
func mavenRead(printed string) (list []string) {
	d := xml.NewDecoder(strings.NewReader(strings.ReplaceAll(printed, "<?xml", "<!-- -->\n<?xml")))
	d.Strict = false
	for {
		token, err := d.Token()
		if err != nil {
			return list
		}
		start, is := token.(xml.StartElement)
		if !is || start.Name.Local != "mirror" {
			continue
		}
		var m struct {
			URL     string `xml:"url"`
			Blocked bool   `xml:"blocked"`
		}
		if d.DecodeElement(&m, &start) == nil && !m.Blocked && m.URL != "" {
			list = append(list, strings.TrimSpace(m.URL))
		}
	}
}

// mavenSet passes the settings to Maven 3.9 and newer. Older versions look in the user's home, which Java does not take from HOME, and
// which a user without a line in /etc/passwd does not have.
func mavenSet(u *url.URL, _ string) (env, files map[string]string) {
	repository := inside(mavenHome + "/repository")
	if u == nil {
		return map[string]string{"MAVEN_OPTS": "-Dmaven.repo.local=" + repository}, nil
	}
	var escaped strings.Builder
	_ = xml.EscapeText(&escaped, []byte(u.String()))
	return map[string]string{"MAVEN_ARGS": "-s " + inside(mavenSettings), "MAVEN_OPTS": "-Duser.home=" + inside(toolHome)}, map[string]string{
		mavenSettings: "<settings>\n  <localRepository>" + repository + "</localRepository>\n" +
			"  <mirrors><mirror><id>mirror</id><mirrorOf>*</mirrorOf><url>" + escaped.String() + "</url></mirror></mirrors>\n</settings>\n",
	}
}

// aptAsk prints the system and its version, whether the list of installed packages exists, and the URLs of apt's sources.
const aptAsk = `command -v apt-get >/dev/null || exit 42
for f in /etc/os-release /usr/lib/os-release; do test -e $f && . $f && break; done
echo "$ID" "$VERSION_CODENAME" "$(test -e /var/lib/dpkg/status && echo listed)" "$(test -e "/usr/share/keyrings/$ID-archive-keyring.gpg" && echo keyring)"
apt-get indextargets --format '$(SITE)' 2>/dev/null | sort -u`

func aptRead(printed string) []string {
	_, sites, _ := strings.Cut(printed, "\n")
	return strings.Fields(sites)
}

func aptSet(u *url.URL, printed string) (env, files map[string]string) {
	env = map[string]string{"APT_CONFIG": inside(aptHome + "/apt.conf")}
	if printed == "" {
		return env, nil // the files exist
	}
	first, _, _ := strings.Cut(printed, "\n")
	fields := append(strings.Fields(first), "", "")
	conf := "Dir::State::Lists \"" + inside(aptHome+"/lists") + "\";\nDir::Cache \"" + inside(aptHome+"/cache") + "\";\nAPT::Sandbox::User \"\";\nAcquire::Retries \"1\";\n"
	files = map[string]string{aptHome + "/lists/lock": "", aptHome + "/cache/archives/lock": ""}
	if !strings.Contains(first, " listed") {
		conf += "Dir::State::Status \"" + inside(aptHome+"/status") + "\";\n"
		files[aptHome+"/status"] = ""
	}
	if u != nil {
		signed := ""
		if strings.Contains(first, " keyring") {
			signed = "[signed-by=/usr/share/keyrings/" + fields[0] + "-archive-keyring.gpg] "
		}
		conf += "Dir::Etc::SourceList \"" + inside(aptHome+"/sources.list") + "\";\nDir::Etc::SourceParts \"/dev/null\";\n"
		files[aptHome+"/sources.list"] = "deb " + signed + u.String() + " " + fields[1] + " main\n"
	}
	files[aptHome+"/apt.conf"] = conf
	return env, files
}
