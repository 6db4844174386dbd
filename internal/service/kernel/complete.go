package kernel

import "strings"

// bashNames returns the command that lists the possible completions of code, and the prefix that they replace, as it is in the code. After a
// $ it lists variables.
func bashNames(code string) (command []byte, word string) {
	at := len(code)
	for at > 0 && (strings.IndexByte(" \t\n|;&(=$", code[at-1]) < 0 || at > 1 && code[at-2] == '\\' && code[at-1] != '\n') {
		at--
	}
	before, kinds := code[:at], "-c -f -v"
	if strings.HasSuffix(before, "$") {
		kinds = "-v"
		if strings.HasPrefix(code[at:], "{") {
			at++
		}
	}
	word = code[at:]
	plain := strings.ReplaceAll(word, `\`, "")
	return []byte("compgen " + kinds + " -- '" + strings.ReplaceAll(plain, "'", `'\''`) + "' 2>/dev/null | head -n 1000; true"), word
}

// bashQuoted quotes a name for bash code.
func bashQuoted(name string) string {
	var b strings.Builder
	for _, c := range name {
		if strings.ContainsRune(" \t|;&()<>$`'\"\\*?[]#!", c) {
			b.WriteByte('\\')
		}
		b.WriteRune(c)
	}
	return b.String()
}
