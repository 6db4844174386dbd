package lsp

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// program is the command that runs a file, or a test in it.
type program struct {
	command  []string
	language string // of the file that command begins with
	cwd      string
}

// unittests runs a file's tests with pytest if the image has it, else with unittest, plain functions included.
const unittests = `import importlib.util, os, sys
path, name = sys.argv[1], sys.argv[2]
if importlib.util.find_spec("pytest"):
    import pytest
    sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", path + ("::" + name if name else "")]))
import unittest
sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
spec = importlib.util.spec_from_file_location(os.path.basename(path)[:-3], path)
module = importlib.util.module_from_spec(spec)
sys.modules[spec.name] = module
spec.loader.exec_module(module)
loader = unittest.defaultTestLoader
suite = unittest.TestSuite()
if name:
    outer, inner = None, module
    for part in name.split("::"):
        outer, inner = inner, getattr(inner, part)
    holder = inner if isinstance(inner, type) else outer
    if isinstance(holder, type) and issubclass(holder, unittest.TestCase):
        suite.addTest(loader.loadTestsFromName(name.replace("::", "."), module))
    elif isinstance(holder, type):
        wanted = [n for n in dir(holder) if n.startswith("test")] if holder is inner else [part]
        suite.addTests(unittest.FunctionTestCase(getattr(holder(), n)) for n in wanted)
    else:
        suite.addTest(unittest.FunctionTestCase(inner))
else:
    suite.addTests(loader.loadTestsFromModule(module))
    suite.addTests(unittest.FunctionTestCase(f) for n, f in vars(module).items() if n.startswith("test_") and callable(f))
result = unittest.TextTestRunner(verbosity=2).run(suite)
sys.exit(not result.wasSuccessful())
`

// programOf returns the command that runs a file of a folder, or a test in it.
func programOf(f *folder, file, test, text string) (program, error) {
	language, dir := kind(file), path.Dir(file)
	whole := program{command: []string{file}, language: language}
	in := func(cwd string, command ...string) (program, error) { return program{command: command, cwd: cwd}, nil }
	switch language {
	case "":
		return whole, refuse("uri", "no language is known for "+path.Base(file), "give command, as a list of words")
	case "python":
		if test != "" || pythonTests(file) && !hasMain(file, text) {
			return in("", "python3", "-c", unittests, file, test)
		}
	case "javascript", "typescript":
		if test == "" && !javascriptTest(file) {
			break
		}
		argv := []string{"node", "--test", "--test-reporter=spec"}
		if language == "typescript" {
			argv = append(argv, "--experimental-strip-types", "--no-warnings")
		}
		if test != "" {
			argv = append(argv, "--test-name-pattern=^"+regexp.QuoteMeta(test)+"$")
		}
		return in("", append(argv, file)...)
	case "go":
		_, module := f.up(dir, "go.mod")
		switch {
		case strings.HasPrefix(test, "Benchmark"):
			return in(dir, "go", "test", "-run", "^$", "-bench", "^"+test+"$", ".")
		case test != "":
			return in(dir, "go", "test", "-run", "^"+test+"$", "-v", ".")
		case strings.HasSuffix(file, "_test.go"):
			return in(dir, "go", "test", "-v", ".")
		case module:
			return in(dir, "go", "run", ".")
		}
	case "java":
		switch {
		case test == "":
		case f.tool("pom.xml"):
			return in("", "mvn", "-o", "-q", "-Dtest="+test, "test")
		case f.built():
			return in("", "gradle", "--offline", "test", "--tests", strings.ReplaceAll(test, "#", "."))
		default:
			return whole, refuse("test", "the folder has no build tool for tests in Java", "add a pom.xml or a build.gradle, or give command")
		}
	case "rust":
		if at, cargo := f.up(dir, "Cargo.toml"); cargo {
			return in(at, "cargo", "run", "--offline", "--quiet")
		}
	}
	return whole, nil
}

// hasMain reports whether a text is a program apart from its tests.
func hasMain(file, text string) bool {
	return slices.ContainsFunc(targets(file, text, false), func(t target) bool { return t.test == "" })
}
