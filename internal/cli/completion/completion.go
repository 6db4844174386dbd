// Package completion writes the scripts with which shells complete a command line, from its grammar.
package completion

import (
	"fmt"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/belljar/belljar/internal/cli/show"
)

// Script returns the script for a shell: bash, zsh or fish.
func Script(shell string, root *kong.Node) string {
	switch shell {
	case "zsh":
		return zsh(root)
	case "fish":
		return fish(root)
	}
	return bash(root)
}

// flagWords returns every flag of a command and of its subcommands, as the user types it.
func flagWords(node *kong.Node) []string {
	var words []string
	for _, f := range Flags(node) {
		words = append(words, "--"+f.Name)
		if f.Short != 0 {
			words = append(words, "-"+string(f.Short))
		}
	}
	return words
}

// Flags returns every flag of a command and of its subcommands, once.
func Flags(node *kong.Node) (flags []*kong.Flag) {
	seen := map[string]bool{}
	for _, n := range append([]*kong.Node{node}, node.Children...) {
		for _, group := range n.AllFlags(true) {
			for _, f := range group {
				if !seen[f.Name] {
					seen[f.Name] = true
					flags = append(flags, f)
				}
			}
		}
	}
	return flags
}

func commandWords(root *kong.Node) []string {
	var words []string
	for _, child := range root.Children {
		words = append(words, child.Name)
	}
	return words
}

// operands returns the fixed words that a command takes as arguments, or nil if it takes files.
func operands(root, node *kong.Node) []string {
	switch node.Name {
	case "completion":
		return []string{"bash", "zsh", "fish"}
	case "help":
		return commandWords(root)
	}
	return commandWords(node) // nil if there are none
}

func bash(root *kong.Node) string {
	var b strings.Builder
	b.WriteString("_belljar() {\n\tlocal word=${COMP_WORDS[COMP_CWORD]}\n\tif ((COMP_CWORD == 1)); then\n")
	fmt.Fprintf(&b, "\t\tCOMPREPLY=($(compgen -W '%s --help' -- \"$word\"))\n\t\treturn\n\tfi\n", strings.Join(commandWords(root), " "))
	b.WriteString("\tcase ${COMP_WORDS[1]}:$word in\n")
	for _, node := range root.Children {
		fmt.Fprintf(&b, "\t%s:-*) COMPREPLY=($(compgen -W '%s' -- \"$word\")) ;;\n", node.Name, strings.Join(flagWords(node), " "))
		if words := operands(root, node); words != nil {
			fmt.Fprintf(&b, "\t%s:*) COMPREPLY=($(compgen -W '%s' -- \"$word\")) ;;\n", node.Name, strings.Join(words, " "))
		}
	}
	b.WriteString("\t*) COMPREPLY=($(compgen -f -- \"$word\")) ;;\n\tesac\n}\ncomplete -o filenames -F _belljar belljar\n")
	return b.String()
}

func zsh(root *kong.Node) string {
	var b strings.Builder
	b.WriteString("#compdef belljar\n_belljar() {\n\tif ((CURRENT == 2)); then\n\t\tlocal -a commands=(\n")
	for _, node := range root.Children {
		fmt.Fprintf(&b, "\t\t\t%s\n", show.ShellQuote(node.Name+":"+strings.ReplaceAll(node.Help, ":", `\:`)))
	}
	b.WriteString("\t\t)\n\t\t_describe command commands\n\t\treturn\n\tfi\n\tcase $words[2]:$PREFIX in\n")
	for _, node := range root.Children {
		fmt.Fprintf(&b, "\t%s:-*) compadd -- %s ;;\n", node.Name, strings.Join(flagWords(node), " "))
		if words := operands(root, node); words != nil {
			fmt.Fprintf(&b, "\t%s:*) compadd -- %s ;;\n", node.Name, strings.Join(words, " "))
		}
	}
	b.WriteString("\t*) _files ;;\n\tesac\n}\ncompdef _belljar belljar\n")
	return b.String()
}

func fish(root *kong.Node) string {
	var b strings.Builder
	for _, node := range root.Children {
		fmt.Fprintf(&b, "complete -c belljar -n __fish_use_subcommand -f -a %s -d %s\n", node.Name, show.ShellQuote(node.Help))
		for _, f := range Flags(node) {
			line := fmt.Sprintf("complete -c belljar -n '__fish_seen_subcommand_from %s' -l %s", node.Name, f.Name)
			if f.Short != 0 {
				line += " -s " + string(f.Short)
			}
			if !f.IsBool() {
				line += " -r"
			}
			b.WriteString(line + " -d " + show.ShellQuote(f.Help) + "\n")
		}
		if words := operands(root, node); words != nil {
			fmt.Fprintf(&b, "complete -c belljar -n '__fish_seen_subcommand_from %s' -f -a '%s'\n", node.Name, strings.Join(words, " "))
		}
	}
	return b.String()
}
