package cli

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/belljar/belljar/internal/notice"
)

// TestGrammarOfOne: a command has the same flags and help whether it is built alone or with all others.
func TestGrammarOfOne(t *testing.T) {
	model := func(grammar any) *kong.Application {
		t.Helper()
		c := &console{stdout: &bytes.Buffer{}, Writer: notice.Writer{Stderr: &bytes.Buffer{}}}
		parser, err := c.parser(grammar)
		if err != nil {
			t.Fatal(err)
		}
		return parser.Model
	}
	all := model(&commands{})
	for _, node := range all.Children {
		alone := grammarFor([]string{node.Name})
		if node.Name == "completion" || node.Name == "help" {
			if reflect.TypeOf(alone) != reflect.TypeFor[*commands]() {
				t.Errorf("%s does not know the other commands", node.Name)
			}
			continue
		}
		one := model(alone)
		if len(one.Children) != 1 {
			t.Errorf("%s: %d commands", node.Name, len(one.Children))
			continue
		}
		if got, want := outline(one.Children[0]), outline(node); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %q, want %q", node.Name, got, want)
		}
	}
	for _, args := range [][]string{nil, {"--server", "x", "run"}, {"rum"}, {"Run"}} {
		if reflect.TypeOf(grammarFor(args)) != reflect.TypeFor[*commands]() {
			t.Errorf("%q: not all commands are there to be compared with", args)
		}
	}
}

// outline describes a command and its subcommands as text.
func outline(node *kong.Node) (words []string) {
	words = append(words, node.FullPath(), node.Summary(), node.Help, node.Detail)
	for _, group := range node.AllFlags(false) {
		for _, flag := range group {
			words = append(words, flag.String(), flag.Help, flag.Tag.Group)
		}
	}
	for _, child := range node.Children {
		words = append(words, outline(child)...)
	}
	return words
}
