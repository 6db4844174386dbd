package cli

import "github.com/belljar/belljar/internal/cli/quantity"

// programRunFlags are the flags that belljar run and belljar session run share. Session exec has some of them.
type programRunFlags struct {
	programFlags
	inputFlags
	fileFlags
	timeFlags
	buildFlags
	captureFlags
	outcomeFlags
}

// programFlags select the program.
type programFlags struct {
	Args []string `arg:"" optional:"" passthrough:"partial" name:"program" help:"FILE [ARGS], - [ARGS] for a program on standard input, or -- CMD [ARGS]."`
	Code *string  `group:"what" short:"c" empty:"" placeholder:"TEXT" help:"Run this text, with ARGS, instead of a file: Python or a shell line, unless --lang is set."`
	Lang string   `group:"what" placeholder:"EXT" help:"Language of the program, or its file extension: python, js, sh …"`
	Warm string   `group:"what" placeholder:"WHEN" help:"auto (default): use a Python or Node that was started in advance, if one waits; off: start one."`
}

// fileFlags select the files of the workspace.
type fileFlags struct {
	File []string `group:"input" short:"f" sep:"none" placeholder:"SRC[:DST]" help:"Put a file into the workspace. Repeatable."`
	Dir  string   `group:"input" placeholder:"DIR" help:"Put the contents of a folder into the workspace."`
}

// inputFlags set the program's environment and input.
type inputFlags struct {
	Env         []string `group:"input" short:"e" sep:"none" placeholder:"K=V" help:"Set a variable; K alone takes the value from your environment. Repeatable."`
	Stdin       string   `group:"input" placeholder:"FILE" help:"Read the program's standard input from a file."`
	Interactive bool     `group:"input" short:"i" help:"Pass your standard input to the program, even if it is a terminal."`
}

// timeFlags limit its running time.
type timeFlags struct {
	Timeout *quantity.Seconds `group:"limits" placeholder:"TIME" help:"Time limit: 30, 30s, 5m (default 60s, or the session's)."`
}

// buildFlags limit the compilation.
type buildFlags struct {
	BuildTimeout *quantity.Seconds `group:"limits" placeholder:"TIME" help:"Time limit of the compiler (default 60s)."`
}

// captureFlags select the files to keep.
type captureFlags struct {
	Capture []string `group:"output" sep:"none" placeholder:"GLOB" help:"Keep the files of the workspace that match; ** crosses folders. Repeatable."`
	Out     string   `group:"output" short:"o" placeholder:"DIR" help:"Folder for the files that --capture keeps."`
}

// outcomeFlags select how the outcome is printed.
type outcomeFlags struct {
	JSON  bool `group:"output" name:"json" help:"Print the outcome with stdout and stderr as one JSON object."`
	Quiet bool `group:"output" short:"q" help:"Print none of belljar's notes, only warnings and errors."`
}
