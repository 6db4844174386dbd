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

// code is a program in the text of --code. Its language is that of --lang, else of its #! line, else a shell line or Python.
func (a *Arguments) code(ctx context.Context, text string, args []string) (Program, error) {
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
	p, err := a.source(ctx, l, src, args)
	p.AsPython = a.Lang == "" && extension == "py"
	return p, err
}

var (
	// commandWord matches a word that can name a command, followed by nothing, a blank, or a shell operator.
	commandWord = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^([A-Za-z_./~][A-Za-z0-9_./~+-]*)(?:$|[\s;|&<>])[ \t]*`)
	})
	// pythonContinues matches what can follow the first name of a Python statement.
	pythonContinues = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^(?:[-+*/%@&|^]|//|\*\*|<<|>>)?=|^[(\[,:]|^(?:if|in|is|and|or|for|not in)\s`)
	})
	pythonWords = strings.Fields(`False None True and as assert async await break class continue def del elif else except finally for from
global if import in is lambda nonlocal not or pass print raise return try while with yield match`)
)

// shellLine reports whether a text is a line for the shell: it begins with a plain word that is no Python keyword, and the rest
// does not continue a Python statement.
func shellLine(text string) bool {
	text = strings.TrimSpace(text)
	found := commandWord().FindStringSubmatch(text)
	if found == nil || slices.Contains(pythonWords, found[1]) {
		return false
	}
	return !pythonContinues().MatchString(text[len(found[0]):])
}
