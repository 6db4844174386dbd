package cli

import "github.com/belljar/belljar"

// packageFlags are the packages of a run or session.
type packageFlags struct {
	Pip            []string `group:"what" sep:"none" placeholder:"PACKAGE" help:"Install a Python package first: requests, 'pandas>=2,<3'. Repeatable."`
	Npm            []string `group:"what" sep:"none" placeholder:"PACKAGE" help:"Install a Node package first: left-pad, '@types/node@^22'. Repeatable."`
	PackageBuild   bool     `group:"what" help:"Allow packages to run their build scripts when they are installed."`
	PackageRefresh bool     `group:"what" help:"Look for newer versions of the packages now."`
}

// packages returns the flags as part of a request.
func (p packageFlags) packages() belljar.Packages {
	return belljar.Packages{Pip: p.Pip, Npm: p.Npm, Build: p.PackageBuild, Refresh: p.PackageRefresh}
}

// packageLine is a line about the installation of packages; false for other frames.
func packageLine(f belljar.Frame) (string, bool) {
	if f.Type != belljar.FrameEvent || f.Event != belljar.EventPackages {
		return "", false
	}
	tool, _ := f.Data["tool"].(string)
	text, _ := f.Data["text"].(string)
	return tool + ": " + text, true
}
