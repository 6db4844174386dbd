package workspace

import (
	"regexp"
	"strings"
)

// glob returns whether a name matches a pattern, which must match all of it: * is any text, ? any character, [abc], [a-z] and [!a]
// one of a set. Case does not matter. A [ without its ] stands for itself.
func glob(pattern string) (func(name string) bool, error) {
	var b strings.Builder
	b.WriteString(`(?is)\A`)
	for runes := []rune(pattern); len(runes) > 0; runes = runes[1:] {
		switch r := runes[0]; r {
		case '*':
			b.WriteString(`.*`)
		case '?':
			b.WriteString(`.`)
		case '[':
			n := set(runes)
			if n == 0 {
				b.WriteString(`\[`)
				continue
			}
			inner := string(runes[1:n])
			negated := strings.HasPrefix(inner, "!")
			inner = strings.NewReplacer(`\`, `\\`, `[`, `\[`, `]`, `\]`, `^`, `\^`, `&`, `\&`, `~`, `\~`).Replace(strings.TrimPrefix(inner, "!"))
			b.WriteString(`[`)
			if negated {
				b.WriteString(`^`)
			}
			b.WriteString(inner + `]`)
			runes = runes[n:]
		default:
			b.WriteString(regexp.QuoteMeta(string(r)))
		}
	}
	b.WriteString(`\z`)
	re, err := regexp.Compile(b.String())
	if err != nil {
		return nil, err
	}
	return re.MatchString, nil
}

// set returns the index of the ] that ends the set at the beginning of runes; 0 if there is none.
func set(runes []rune) int {
	for i := 1; i < len(runes); i++ {
		if runes[i] == ']' && i > 1 && !(i == 2 && runes[1] == '!') {
			return i
		}
	}
	return 0
}
