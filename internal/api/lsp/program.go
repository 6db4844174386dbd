package lsp

import (
	"path"
	"regexp"
	"strings"

	"github.com/belljar/belljar"
)

// program is what runs a file, or a test in it.
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
    first = getattr(module, name.split("::")[0])
    if isinstance(first, type) and issubclass(first, unittest.TestCase):
        suite.addTest(loader.loadTestsFromName(name.replace("::", "."), module))
    elif isinstance(first, type):
        wanted = [name.split("::")[1]] if "::" in name else [n for n in dir(first) if n.startswith("test")]
        suite.addTests(unittest.FunctionTestCase(getattr(first(), n)) for n in wanted)
    else:
        suite.addTest(unittest.FunctionTestCase(first))
else:
    suite.addTests(loader.loadTestsFromModule(module))
    suite.addTests(unittest.FunctionTestCase(f) for n, f in vars(module).items() if n.startswith("test_") and callable(f))
result = unittest.TextTestRunner(verbosity=2).run(suite)
sys.exit(not result.wasSuccessful())
`

// programOf returns what runs a file of a folder, or a test in it.
func programOf(f *folder, file, test, text string) (program, error) {
	dir := path.Dir(file)
	switch language := kind(file); language {
	case "python":
		if test != "" || pythonTests(file) && !hasMain(file, text) {
			return program{command: []string{"python3", "-c", unittests, file, test}}, nil
		}
		return program{command: []string{file}, language: language}, nil
	case "javascript", "typescript":
		if test == "" && !javascriptTest(file) {
			return program{command: []string{file}, language: language}, nil
		}
		argv := []string{"node", "--test", "--test-reporter=spec"}
		if language == "typescript" {
			argv = []string{"node", "--experimental-strip-types", "--no-warnings", "--test", "--test-reporter=spec"}
		}
		if test != "" {
			argv = append(argv, "--test-name-pattern=^"+regexp.QuoteMeta(test)+"$")
		}
		return program{command: append(argv, file)}, nil
	case "go":
		_, module := f.up(dir, "go.mod")
		switch {
		case strings.HasPrefix(test, "Benchmark"):
			return program{command: []string{"go", "test", "-run", "^$", "-bench", "^" + test + "$", "."}, cwd: dir}, nil
		case test != "":
			return program{command: []string{"go", "test", "-run", "^" + test + "$", "-v", "."}, cwd: dir}, nil
		case strings.HasSuffix(file, "_test.go"):
			return program{command: []string{"go", "test", "-v", "."}, cwd: dir}, nil
		case module:
			return program{command: []string{"go", "run", "."}, cwd: dir}, nil
		}
		return program{command: []string{file}, language: language}, nil
	case "java":
		switch {
		case test != "" && f.tool("pom.xml"):
			return program{command: []string{"mvn", "-o", "-q", "-Dtest=" + test, "test"}}, nil
		case test != "" && f.built():
			return program{command: []string{"gradle", "--offline", "test", "--tests", strings.ReplaceAll(test, "#", ".")}}, nil
		case test != "":
			return program{}, refuse("test", "the folder has no build tool for tests in Java", "add a pom.xml or a build.gradle, or give command")
		}
		return program{command: []string{file}, language: language}, nil
	case "rust":
		if at, cargo := f.up(dir, "Cargo.toml"); cargo {
			return program{command: []string{"cargo", "run", "--offline", "--quiet"}, cwd: at}, nil
		}
		return program{command: []string{file}, language: language}, nil
	case "shell", "ruby", "c", "c++":
		return program{command: []string{file}, language: language}, nil
	}
	return program{}, refuse("uri", "no language is known for "+path.Base(file), "give command, as a list of words")
}

// hasMain reports whether a text has a program besides its tests.
func hasMain(file, text string) bool {
	for _, t := range targets(file, text, false) {
		if t.test == "" {
			return true
		}
	}
	return false
}

// inline is the run of a text that is no file of a folder.
func inline(language, name, text string) (belljar.RunSpec, error) {
	l, known := belljar.LanguageOf(language)
	if !known {
		return belljar.RunSpec{}, refuse("uri", "the editor's language "+language+" is not one that Belljar runs", "choose the language of the text in the editor, or save it as a file")
	}
	spec := belljar.RunSpec{Language: l.Aliases[0], WorkspaceExec: l.Executed()}
	if name == "" {
		spec.Code = text
		return spec, nil
	}
	spec.Command = []string{name}
	spec.Files = []belljar.InlineFile{{Path: name, Content: []byte(text)}}
	return spec, nil
}
