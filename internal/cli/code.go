package cli

import (
	"context"
	"regexp"
	"slices"
	"strings"
)

// code is a program in the text of --code: in the language of --lang, else of its #! line, else a shell line or Python.
func (r *runCommand) code(ctx context.Context, c *console, text string, args []string) (program, error) {
	if len(strings.TrimSpace(text)) == 0 {
		return program{}, mistake(r.usage("-c 'print(1)'"), "the code of -c is empty")
	}
	src := source{dst: "main", content: []byte(text)}
	extension := r.Lang
	if extension == "" {
		if line := shebang(src.content); line != nil {
			return r.interpreted(c, line, src, args)
		}
		extension = "py"
		if shellLine(text) {
			extension = "sh"
		}
	}
	l, known := languageOf(extension)
	if !known {
		return program{}, r.unknownLang()
	}
	src.dst = l.File()
	return r.source(ctx, c, l, src, args)
}

var (
	// commandWord is a word that can name a command, and what comes after it: nothing, a blank, or an operator of the shell.
	commandWord = regexp.MustCompile(`^([A-Za-z_./~][A-Za-z0-9_./~+-]*)(?:$|[\s;|&<>])[ \t]*`)
	// pythonGoesOn matches what may come after the first name of a statement of Python.
	pythonGoesOn = regexp.MustCompile(`^(?:[-+*/%@&|^]|//|\*\*|<<|>>)?=|^[(\[,:]|^(?:if|in|is|and|or|for|not in)\s`)
	pythonWords  = strings.Fields(`False None True and as assert async await break class continue def del elif else except finally for from
global if import in is lambda nonlocal not or pass print raise return try while with yield match`)
)

// shellLine reports whether a text is a line for the shell: it begins with a plain word, as the name of a command, which is
// no keyword of Python and after which no statement of Python would go on.
func shellLine(text string) bool {
	text = strings.TrimSpace(text)
	found := commandWord.FindStringSubmatch(text)
	if found == nil || slices.Contains(pythonWords, found[1]) {
		return false
	}
	return !pythonGoesOn.MatchString(text[len(found[0]):])
}
