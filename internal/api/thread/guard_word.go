package thread

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// literalOf returns a word's text if it is known before the command runs, plain or quoted. Braces and wildcards are
// returned unexpanded, and so match no program's name.
func literalOf(word *syntax.Word) (text string, known bool) {
	var b strings.Builder
	known = literals(&b, word.Parts, false)
	return b.String(), known
}

func literals(b *strings.Builder, parts []syntax.WordPart, quoted bool) bool {
	for _, part := range parts {
		switch p := part.(type) {
		case *syntax.Lit:
			b.WriteString(unescape(p.Value, quoted))
		case *syntax.SglQuoted:
			if p.Dollar && strings.Contains(p.Value, `\`) {
				return false // $'\x72m'
			}
			b.WriteString(p.Value)
		case *syntax.DblQuoted:
			if !literals(b, p.Parts, true) {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// unescape removes backslashes from literal text, as the shell does. In double quotes they escape only special
// characters.
func unescape(text string, quoted bool) string {
	if !strings.Contains(text, `\`) {
		return text
	}
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+1 < len(text) {
			next := text[i+1]
			if quoted && !strings.ContainsRune("$`\"\\\n", rune(next)) {
				b.WriteByte('\\')
			}
			i++
			if next != '\n' {
				b.WriteByte(next)
			}
			continue
		}
		b.WriteByte(text[i])
	}
	return b.String()
}

// plain returns a simple command as text for patterns: its name, and its arguments without their quoted parts.
func plain(name string, args []*syntax.Word) string {
	var b strings.Builder
	b.WriteString(name)
	for _, arg := range args {
		b.WriteByte(' ')
		for _, part := range arg.Parts {
			if lit, ok := part.(*syntax.Lit); ok {
				b.WriteString(unescape(lit.Value, false))
			}
		}
	}
	return b.String()
}

// unquoted returns a script without its plain text: quoted parts, here-documents and comments.
func unquoted(script string, file *syntax.File) string {
	left := []byte(script)
	drop := func(n syntax.Node) {
		end := min(int(n.End().Offset()), len(left))
		clear(left[min(int(n.Pos().Offset()), end):end])
	}
	syntax.Walk(file, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.SglQuoted, *syntax.DblQuoted, *syntax.Comment:
			drop(n)
		case *syntax.Redirect:
			if n.Hdoc != nil {
				drop(n.Hdoc)
			}
		}
		return true
	})
	return strings.ReplaceAll(string(left), "\x00", "")
}
