package belljar

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Packages are installed before a run's command, or with a session, in a side sandbox. The sandbox of the command can read them
// below /packages but not change them. An installation is cached and reused.
type Packages struct {
	// Pip are requirements for Python: a name, optionally with extras and versions: requests, "pandas[excel]>=2,<3".
	Pip []string `json:"pip,omitempty"`
	// Npm are packages for Node: a name, optionally with a version or tag: left-pad, "@types/node@^22".
	Npm []string `json:"npm,omitempty"`
	// Apt is refused: install Debian's packages in an image.
	Apt []string `json:"apt,omitempty"`
	// Build permits packages without a prebuilt form to run their own programs during the installation. They run in the sandbox of the installation.
	Build bool `json:"build,omitempty"`
	// Refresh looks for newer versions now. Otherwise versions found in the last 24 hours are reused.
	Refresh bool `json:"refresh,omitempty"`
}

// PackageLock is the resolved requirements of a run or session, with all dependencies.
type PackageLock struct {
	Pip []Package `json:"pip,omitempty"`
	Npm []Package `json:"npm,omitempty"`
}

// Package is one installed package.
type Package struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Hash    string `json:"hash,omitempty"` // of the package's file: sha256:…, or in npm's format
}

// Bounds of the packages in a request.
const (
	maxPackages     = 100 // of each kind
	maxPackageBytes = 200 // of one requirement
)

// IsZero reports whether no packages are requested.
func (p Packages) IsZero() bool {
	return len(p.Pip)+len(p.Npm)+len(p.Apt) == 0 && !p.Build && !p.Refresh
}

const (
	pipName    = `[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?`
	pipVersion = `(?:===|~=|==|!=|<=|>=|<|>) *[A-Za-z0-9.*+!_-]+`
	npmName    = `(?:@[a-z0-9~][a-z0-9._~-]*/)?[A-Za-z0-9~][A-Za-z0-9._~-]*`
	npmVersion = `[A-Za-z0-9^~<>=.*+_|-][A-Za-z0-9^~<>=.*+_| -]*`
)

// packageKind is the syntax of one kind of requirements.
type packageKind struct {
	field   string
	list    []string
	grammar func() *regexp.Regexp
	right   string
}

var (
	pipGrammar = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^` + pipName + `(?: *\[ *` + pipName + `(?: *, *` + pipName + `)* *\])?(?: *` + pipVersion + `(?: *, *` + pipVersion + `)*)?$`)
	})
	npmGrammar = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^` + npmName + `(?:@` + npmVersion + `)?$`) })
)

// Validate checks the packages as far as that is possible without a server. The error is [CodeInvalidRequest] and names the field.
func (p Packages) Validate() error {
	if len(p.Apt) > 0 {
		e := invalid("packages.apt", "packages.apt is not installed for a run or session: Debian's packages belong into an image")
		e.Hint = "build an image with them: belljar image build, or a Dockerfile"
		return e
	}
	for _, kind := range []packageKind{
		{"packages.pip", p.Pip, pipGrammar, `write a name, with extras and versions if need be: requests, "pandas[excel]>=2,<3"`},
		{"packages.npm", p.Npm, npmGrammar, `write a name, with a version or tag if need be: left-pad, "@types/node@^22"`},
	} {
		if err := kind.check(); err != nil {
			return err
		}
	}
	if len(p.Pip)+len(p.Npm) == 0 && !p.IsZero() {
		e := invalid("packages", "packages names none")
		e.Hint = "list them in packages.pip or packages.npm"
		return e
	}
	return nil
}

func (k packageKind) check() error {
	if len(k.list) > maxPackages {
		e := invalid(k.field, "%s is limited to %d packages, got %d", k.field, maxPackages, len(k.list))
		e.Details["provided"], e.Details["maximum"] = len(k.list), maxPackages
		return e
	}
	for i, text := range k.list {
		field := fmt.Sprintf("%s[%d]", k.field, i)
		switch {
		case len(text) > maxPackageBytes:
			e := invalid(field, "%s is longer than %d bytes", field, maxPackageBytes)
			e.Details["provided"], e.Details["maximum"] = len(text), maxPackageBytes
			return e
		case !k.grammar().MatchString(text) || strings.Contains(text, ".."):
			e := invalid(field, "%s: %q is not the name of a package", field, text)
			e.Details["provided"] = text
			e.Hint = k.right
			return e
		case slices.Contains(k.list[:i], text):
			return invalid(field, "%s: %q is there twice", field, text)
		}
	}
	return nil
}
