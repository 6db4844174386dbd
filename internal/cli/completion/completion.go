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

// Flags returns every flag of a command, those of its parents included.
func Flags(node *kong.Node) (flags []*kong.Flag) {
	for _, group := range node.AllFlags(true) {
		flags = append(flags, group...)
	}
	return flags
}

// leaf is a command, or a group of commands, as the user types it: "run", "session", "session create".
type leaf struct {
	*kong.Node
	words string
}

// leaves returns the commands and groups below root, each group before its commands.
func leaves(root *kong.Node) (all []leaf) {
	for _, node := range commands(root) {
		all = append(all, leaf{node, node.Name})
		for _, child := range commands(node) {
			all = append(all, leaf{child, node.Name + " " + child.Name})
		}
	}
	return all
}

// steps returns a shell case for each command. It maps the group and the next word to the command. help changes nothing: what follows it is
// completed as without it.
func steps(root *kong.Node) string {
	var b strings.Builder
	for _, at := range leaves(root) {
		if at.words == "help" {
			continue
		}
		group, _, nested := strings.Cut(at.words, " ")
		if !nested {
			group = ""
		}
		names := append([]string{at.Name}, at.Aliases...)
		fmt.Fprintf(&b, "\t\t\"%s/%s\") cmd=\"%s\" ;;\n", group, strings.Join(names, "\"|\""+group+"/"), at.words)
	}
	return b.String()
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
	b.WriteString("_belljar() {\n\tlocal word=${COMP_WORDS[COMP_CWORD]} cmd i\n\tfor ((i = 1; i < COMP_CWORD; i++)); do\n\t\tcase $cmd/${COMP_WORDS[i]} in\n")
	b.WriteString(steps(root) + "\t\tesac\n\tdone\n\tcase $cmd:$word in\n")
	fmt.Fprintf(&b, "\t:*) COMPREPLY=($(compgen -W '%s' -- \"$word\")) ;;\n", strings.Join(append(commandWords(root), flagWords(root.Flags)...), " "))
	for _, at := range leaves(root) {
		fmt.Fprintf(&b, "\t\"%s\":-*) COMPREPLY=($(compgen -W '%s' -- \"$word\")) ;;\n", at.words, strings.Join(flagWords(Flags(at.Node)), " "))
		if words := operands(root, at.Node); words != nil {
			fmt.Fprintf(&b, "\t\"%s\":*) COMPREPLY=($(compgen -W '%s' -- \"$word\")) ;;\n", at.words, strings.Join(words, " "))
		}
	}
	b.WriteString("\t*) local IFS=$'\\n'; COMPREPLY=($(compgen -f -- \"$word\")) ;;\n\tesac\n}\ncomplete -o filenames -F _belljar belljar\n")
	return b.String()
}

func zsh(root *kong.Node) string {
	var b strings.Builder
	b.WriteString("#compdef belljar\n_belljar() {\n\tlocal cmd w\n\tfor w in $words[2,CURRENT-1]; do\n\t\tcase $cmd/$w in\n" + steps(root) + "\t\tesac\n\tdone\n")
	b.WriteString("\tif [[ -z $cmd ]]; then\n\t\tlocal -a commands=(\n")
	for _, node := range commands(root) {
		fmt.Fprintf(&b, "\t\t\t%s\n", show.ShellQuote(node.Name+":"+strings.ReplaceAll(node.Help, ":", `\:`)))
	}
	fmt.Fprintf(&b, "\t\t)\n\t\tcase $PREFIX in\n\t\t-*) compadd -- %s ;;\n\t\t*) _describe command commands ;;\n", strings.Join(flagWords(root.Flags), " "))
	b.WriteString("\t\tesac\n\t\treturn\n\tfi\n\tcase $cmd:$PREFIX in\n")
	for _, at := range leaves(root) {
		fmt.Fprintf(&b, "\t\"%s\":-*) compadd -- %s ;;\n", at.words, strings.Join(flagWords(Flags(at.Node)), " "))
		if words := operands(root, at.Node); words != nil {
			fmt.Fprintf(&b, "\t\"%s\":*) compadd -- %s ;;\n", at.words, strings.Join(words, " "))
		}
	}
	b.WriteString("\t*) _files ;;\n\tesac\n}\ncompdef _belljar belljar\n")
	return b.String()
}

func fish(root *kong.Node) string {
	var b strings.Builder
	none := "not __fish_seen_subcommand_from " + strings.Join(commandWords(root), " ")
	fishFlags(&b, "true", root.Flags)
	for _, node := range commands(root) {
		fmt.Fprintf(&b, "complete -c belljar -n '%s' -f -a %s -d %s\n", none, node.Name, show.ShellQuote(node.Help))
		seen := "__fish_seen_subcommand_from " + node.Name
		fishFlags(&b, seen, node.Flags)
		if words := operands(root, node); words != nil {
			where := seen
			if names := commandWords(node); names != nil {
				where += "; and not __fish_seen_subcommand_from " + strings.Join(names, " ")
			}
			fmt.Fprintf(&b, "complete -c belljar -n '%s' -f -a '%s'\n", where, strings.Join(words, " "))
		}
		for _, child := range commands(node) {
			names := strings.Join(append([]string{child.Name}, child.Aliases...), " ")
			fishFlags(&b, seen+"; and __fish_seen_subcommand_from "+names, child.Flags)
		}
	}
	return b.String()
}

// fishFlags writes the flags that fish offers if a condition holds.
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
