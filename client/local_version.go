package client

import (
	"regexp"
	"runtime/debug"
)

// modulePath is this module's, by which a program that was built with it knows its version.
const modulePath = "github.com/belljar/belljar"

// ownVersion is this client's version, "" if the program was built from a checkout.
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

// differ reports whether two versions do not promise to understand each other (semver: another major one, or another minor
// one below 1.0). Builds that are no release are the business of who built them.
func differ(a, b string) bool {
	one, other := release(a), release(b)
	return one != "" && other != "" && one != other
}

// release is the part of a version that stands for what it promises, "" for what is no release.
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
