package client

import (
	"regexp"
	"runtime/debug"
)

// modulePath is the path of this module in a program's build information.
const modulePath = "github.com/belljar/belljar"

// ownVersion returns this client's version, "" if the program was built from a checkout.
func ownVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, m := range info.Deps {
		if m.Path == modulePath && m.Replace == nil {
			return m.Version
		}
	}
	return ""
}

// differ reports whether two versions are incompatible by semver: a different major version, or a different minor version
// below 1.0. A build that is not a release is compatible with all.
func differ(a, b string) bool {
	one, other := release(a), release(b)
	return one != "" && other != "" && one != other
}

// release returns the part of a version that determines its compatibility, "" if it is not a release.
func release(version string) string {
	m := regexp.MustCompile(`^v?(\d+)\.(\d+)\.\d+(\+.*)?$`).FindStringSubmatch(version)
	switch {
	case m == nil:
		return ""
	case m[1] == "0":
		return "0." + m[2]
	}
	return m[1]
}
