package program

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/belljar/belljar/internal/cli/mistake"
	"github.com/belljar/belljar/internal/cli/transfer"
)

// code is a program in the text of --code: in the language of --lang, else of its #! line, else a shell line or Python.
func (a *Asked) code(ctx context.Context, text string, args []string) (Program, error) {
	if len(strings.TrimSpace(text)) == 0 {
		return Program{}, mistake.New(a.usage("-c 'print(1)'"), "the code of -c is empty")
	}
	src := transfer.Source{Dst: "main", Content: []byte(text)}
	extension := a.Lang
	if extension == "" {
		if line := shebang(src.Content); line != nil {
			return a.interpreted(line, src, args)
		}
		extension = "py"
		if shellLine(text) {
			extension = "sh"
		}
	}
	l, known := languageOf(extension)
	if !known {
		return Program{}, a.unknownLang()
	}
	src.Dst = l.File()
	return a.source(ctx, l, src, args)
}

var (
	// commandWord is a word that can name a command, and what comes after it: nothing, a blank, or an operator of the shell.
	commandWord = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^([A-Za-z_./~][A-Za-z0-9_./~+-]*)(?:$|[\s;|&<>])[ \t]*`)
	})
	// pythonGoesOn matches what may come after the first name of a statement of Python.
	pythonGoesOn = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^(?:[-+*/%@&|^]|//|\*\*|<<|>>)?=|^[(\[,:]|^(?:if|in|is|and|or|for|not in)\s`)
	})
	pythonWords = strings.Fields(`False None True and as assert async await break class continue def del elif else except finally for from
global if import in is lambda nonlocal not or pass print raise return try while with yield match`)
)

// shellLine reports whether a text is a line for the shell: it begins with a plain word, as the name of a command, which is
// no keyword of Python and after which no statement of Python would go on.
func shellLine(text string) bool {
	text = strings.TrimSpace(text)
	found := commandWord().FindStringSubmatch(text)
	if found == nil || slices.Contains(pythonWords, found[1]) {
		return false
	}
	return !pythonGoesOn().MatchString(text[len(found[0]):])
}
