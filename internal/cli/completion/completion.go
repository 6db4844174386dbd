// Package completion writes the scripts with which shells complete a command line, from its grammar.
package completion

import (
	"fmt"
	"slices"
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

// flagWords returns flags as the user types them.
func flagWords(flags []*kong.Flag) []string {
	var words []string
	for _, f := range flags {
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

// commands returns the commands that users type.
func commands(of *kong.Node) []*kong.Node {
	return slices.DeleteFunc(slices.Clone(of.Children), func(n *kong.Node) bool { return n.Hidden })
}

func commandWords(of *kong.Node) []string {
	var words []string
	for _, child := range commands(of) {
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
	words := commandWords(root)
	b.WriteString("_belljar() {\n\tlocal word=${COMP_WORDS[COMP_CWORD]} cmd i\n\tfor ((i = 1; i < COMP_CWORD; i++)); do\n")
	fmt.Fprintf(&b, "\t\tcase ${COMP_WORDS[i]} in %s) cmd=${COMP_WORDS[i]}; break ;; esac\n\tdone\n", strings.Join(words, "|"))
	fmt.Fprintf(&b, "\tcase $cmd:$word in\n\t:*) COMPREPLY=($(compgen -W '%s' -- \"$word\")) ;;\n", strings.Join(append(words, flagWords(root.Flags)...), " "))
	for _, node := range commands(root) {
		fmt.Fprintf(&b, "\t%s:-*) COMPREPLY=($(compgen -W '%s' -- \"$word\")) ;;\n", node.Name, strings.Join(flagWords(Flags(node)), " "))
		if words := operands(root, node); words != nil {
			fmt.Fprintf(&b, "\t%s:*) COMPREPLY=($(compgen -W '%s' -- \"$word\")) ;;\n", node.Name, strings.Join(words, " "))
		}
	}
	b.WriteString("\t*) COMPREPLY=($(compgen -f -- \"$word\")) ;;\n\tesac\n}\ncomplete -o filenames -F _belljar belljar\n")
	return b.String()
}

func zsh(root *kong.Node) string {
	var b strings.Builder
	b.WriteString("#compdef belljar\n_belljar() {\n\tlocal cmd w\n\tfor w in $words[2,CURRENT-1]; do\n")
	fmt.Fprintf(&b, "\t\tcase $w in %s) cmd=$w; break ;; esac\n\tdone\n", strings.Join(commandWords(root), "|"))
	b.WriteString("\tif [[ -z $cmd ]]; then\n\t\tlocal -a commands=(\n")
	for _, node := range commands(root) {
		fmt.Fprintf(&b, "\t\t\t%s\n", show.ShellQuote(node.Name+":"+strings.ReplaceAll(node.Help, ":", `\:`)))
	}
	fmt.Fprintf(&b, "\t\t)\n\t\tcase $PREFIX in\n\t\t-*) compadd -- %s ;;\n\t\t*) _describe command commands ;;\n", strings.Join(flagWords(root.Flags), " "))
	b.WriteString("\t\tesac\n\t\treturn\n\tfi\n\tcase $cmd:$PREFIX in\n")
	for _, node := range commands(root) {
		fmt.Fprintf(&b, "\t%s:-*) compadd -- %s ;;\n", node.Name, strings.Join(flagWords(Flags(node)), " "))
		if words := operands(root, node); words != nil {
			fmt.Fprintf(&b, "\t%s:*) compadd -- %s ;;\n", node.Name, strings.Join(words, " "))
		}
	}
	b.WriteString("\t*) _files ;;\n\tesac\n}\ncompdef _belljar belljar\n")
	return b.String()
}

func fish(root *kong.Node) string {
	var b strings.Builder
	none := "not __fish_seen_subcommand_from " + strings.Join(commandWords(root), " ")
	fishFlags(&b, none, root.Flags)
	for _, node := range commands(root) {
		fmt.Fprintf(&b, "complete -c belljar -n '%s' -f -a %s -d %s\n", none, node.Name, show.ShellQuote(node.Help))
		fishFlags(&b, "__fish_seen_subcommand_from "+node.Name, Flags(node))
		if words := operands(root, node); words != nil {
			fmt.Fprintf(&b, "complete -c belljar -n '__fish_seen_subcommand_from %s' -f -a '%s'\n", node.Name, strings.Join(words, " "))
		}
	}
	return b.String()
}

// fishFlags writes the flags that there are where a condition holds.
func fishFlags(b *strings.Builder, where string, flags []*kong.Flag) {
	for _, f := range flags {
		line := fmt.Sprintf("complete -c belljar -n '%s' -l %s", where, f.Name)
		if f.Short != 0 {
			line += " -s " + string(f.Short)
		}
		if !f.IsBool() {
			line += " -r"
		}
		b.WriteString(line + " -d " + show.ShellQuote(f.Help) + "\n")
	}
}
