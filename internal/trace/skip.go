package trace

import "strings"

// The reasons why a frame is not in the program's own code.
const (
	SkippedRuntime   = "runtime"   // of the language, its standard library or the system
	SkippedPackage   = "package"   // an installed package
	SkippedInline    = "inline"    // it has no file: <string>, an eval, a command line
	SkippedElsewhere = "elsewhere" // the root has no such file; set by [Resolver.Places]
)

// skipped returns why a path is not in the program's own code.
func skipped(file string) string {
	slashes := strings.ReplaceAll(file, `\`, "/")
	switch {
	case file == "", strings.HasPrefix(file, "<") && !strings.HasPrefix(file, "<frozen"), file == "_testmain.go", file == "native":
		return SkippedInline
	case contains(slashes, "site-packages", "dist-packages", "node_modules", "vendor/bundle", "gems"), strings.HasPrefix(file, "/packages/"), strings.Contains(slashes, "/.cargo/registry/"),
		strings.Contains(slashes, "@v") && (strings.HasSuffix(slashes, ".go") || strings.Contains(slashes, "/pkg/mod/")):
		return SkippedPackage
	case strings.HasPrefix(file, "<frozen"), strings.HasPrefix(file, "node:"), strings.HasPrefix(file, "wasm:"),
		strings.HasPrefix(slashes, "/usr/"), strings.HasPrefix(slashes, "/lib/"), strings.HasPrefix(slashes, "/lib64/"), strings.HasPrefix(slashes, "/rustc/"), strings.Contains(slashes, "/lib/python3"),
		strings.HasPrefix(slashes, "/bin/"), strings.HasPrefix(file, "$GOROOT"), strings.HasPrefix(file, "GOROOT"):
		return SkippedRuntime
	case contains(slashes, "vendor") && strings.HasSuffix(slashes, ".go"): // not that of the standard library
		return SkippedPackage
	}
	return ""
}

// contains reports whether a path has one of the folders.
func contains(path string, folders ...string) bool {
	for _, folder := range folders {
		if i := strings.Index(path, folder+"/"); i == 0 || i > 0 && path[i-1] == '/' {
			return true
		}
	}
	return false
}
