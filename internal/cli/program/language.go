package program

import (
	"path"
	"slices"
	"strings"

	"github.com/belljar/belljar"
)

// languageOf returns the language with an extension, given with or without its dot.
func languageOf(extension string) (belljar.Language, bool) {
	extension = strings.ToLower(strings.TrimPrefix(extension, "."))
	for _, l := range belljar.Languages() {
		if slices.Contains(l.Extensions, extension) {
			return l, true
		}
	}
	return belljar.Language{}, false
}

// knownExtensions lists every extension, for messages.
func knownExtensions() string {
	var all []string
	for _, l := range belljar.Languages() {
		all = append(all, l.Extensions...)
	}
	return strings.Join(all, " ")
}

// operand returns name in a form that no interpreter parses as an option.
func operand(name string) string {
	if strings.HasPrefix(name, "-") {
		return "./" + name
	}
	return name
}

// shebang returns the interpreter in a program's first line, and its argument if it has one: "python3" for "#!/usr/bin/env
// python3". The interpreter is a bare name, to be looked up in the image.
func shebang(source []byte) []string {
	line, _, _ := strings.Cut(string(source[:min(len(source), 256)]), "\n")
	rest, ok := strings.CutPrefix(line, "#!")
	if !ok {
		return nil
	}
	fields := strings.Fields(rest)
	if len(fields) > 0 && path.Base(fields[0]) == "env" {
		fields = fields[1:]
		if len(fields) > 0 && fields[0] == "-S" {
			fields = fields[1:]
		}
	}
	if len(fields) == 0 {
		return nil
	}
	fields[0] = path.Base(fields[0])
	return fields
}
