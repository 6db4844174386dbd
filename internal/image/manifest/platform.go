package manifest

import (
	"fmt"
	"runtime"
	"strings"

	"github.com/belljar/belljar"
)

// Platform is the platform that an image's programs are for.
type Platform struct {
	OS, Arch, Variant string
}

func (p Platform) String() string {
	s := p.OS + "/" + p.Arch
	if p.Variant != "" {
		s += "/" + p.Variant
	}
	return s
}

// LocalPlatform returns the platform of sandboxes on this machine, which are Linux on every host.
func LocalPlatform() Platform { return Platform{OS: "linux", Arch: runtime.GOARCH} }

// ParsePlatform reads a platform such as linux/arm64/v8.
func ParsePlatform(s string) (Platform, error) {
	parts := strings.Split(s, "/")
	if len(parts) < 2 || len(parts) > 3 || parts[0] == "" || parts[1] == "" {
		return Platform{}, &belljar.Error{Code: belljar.CodeInvalidRequest, Message: fmt.Sprintf("%q is not a platform", s), Hint: "write it as linux/amd64"}
	}
	p := Platform{OS: parts[0], Arch: parts[1]}
	if len(parts) == 3 {
		p.Variant = parts[2]
	}
	return p, nil
}

// rank returns how well programs for other run on p: 0 not at all, more is better. Without a variant, programs are for
// the least one of their architecture, and so run.
func (p Platform) rank(other Platform) int {
	if other.OS != p.OS || other.Arch != p.Arch {
		return 0
	}
	variant := other.Variant
	switch {
	case p.Variant != "" && variant == p.Variant:
		return 9
	case variant == "", p.Arch == "arm64" && variant == "v8", p.Arch == "amd64" && variant == "v1":
		return 8
	case p.Variant == "" && p.Arch == "arm": // v5 runs everywhere, v7 on all current machines that run Linux
		return map[string]int{"v7": 7, "v6": 6, "v5": 5}[variant]
	}
	return 0
}
