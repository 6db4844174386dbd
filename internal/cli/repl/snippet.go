package repl

import (
	"cmp"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/cli/mistake"
)

// Snippet is code for a context.
type Snippet struct {
	Replay                  bool // as [belljar.RunSpec.Replay]
	context, language, code string
}

// ReadSnippet reads code from a text or a file; - or "" is standard input. Without a context it selects the language's own, and without a
// language the file's extension decides.
func ReadSnippet(text *string, file, context, lang string, stdin io.Reader) (*Snippet, error) {
	if lang == "" && text == nil {
		lang = strings.TrimPrefix(filepath.Ext(file), ".")
	}
	language, ok := belljar.ContextLanguage(cmp.Or(lang, "py"))
	if !ok {
		return nil, mistake.New("--lang py, ipython, js or sh", "there are no contexts for %q", lang)
	}
	out := &Snippet{context: cmp.Or(context, language), language: language}
	var raw []byte
	var err error
	switch {
	case text != nil && file != "":
		return nil, mistake.New("one of -c and a file", "-c and %s exclude each other", file)
	case text != nil:
		raw = []byte(*text)
	case file == "" || file == "-":
		raw, err = io.ReadAll(io.LimitReader(stdin, 2<<20)) // longer code is refused
	default:
		if raw, err = os.ReadFile(file); err != nil {
			return nil, mistake.New("", "%s: %s", file, mistake.Reason(err))
		}
	}
	out.code = string(raw)
	return out, err
}

// Fill makes a run execute the code in a context.
func (x *Snippet) Fill(spec *belljar.RunSpec) {
	spec.Context, spec.Language, spec.Code, spec.Replay, spec.Command = x.context, x.language, x.code, x.Replay, nil
}
